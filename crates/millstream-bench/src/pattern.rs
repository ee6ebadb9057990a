//! Patterns of names in the tables of goals and studies: `*` matches any text.

pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(first) else {
        return false;
    };
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.into_iter().any(|at| matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for pattern in ["a b", "*", "a*", "*b", "a*b", "*a* *b*"] {
            assert!(matches(pattern, "a b"), "{pattern}");
        }
        for pattern in ["", "a", "b*", "*a", "a*c", "*b*a*"] {
            assert!(!matches(pattern, "a b"), "{pattern}");
        }
    }
}
