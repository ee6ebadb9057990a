//! Cells of heat maps, parsed from case names such as `direct 64K depth 32`.

/// Position of a case in a heat map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// The map it belongs to: the words of the name without its numbers.
    pub(crate) group: String,
    /// Bytes of a request, and requests in flight; integers, so that they can be keys.
    pub(crate) place: (u64, u64),
}

/// Returns the cell of a case if its name is `... SIZE depth N`.
pub(crate) fn cell(case: &str) -> Option<Cell> {
    let tokens: Vec<&str> = case.split_whitespace().collect();
    let at = tokens.iter().position(|token| *token == "depth")?;
    let depth = quantity(tokens.get(at + 1)?)?;
    let size_bytes = tokens[..at]
        .iter()
        .rev()
        .find_map(|token| quantity(token))?;
    let is_word = |token: &&str| quantity(token).is_none() && *token != "depth";
    let words: Vec<&str> = tokens.into_iter().filter(is_word).collect();
    (size_bytes > 0.0 && depth > 0.0).then(|| Cell {
        group: words.join(" "),
        place: (size_bytes as u64, depth as u64),
    })
}

/// Parses a number with or without a unit of bytes: `4`, `64K`, `24MB`, `1GiB`. K, M, G are powers
/// of 1024; with a B, powers of 1000.
#[must_use]
pub fn quantity(token: &str) -> Option<f64> {
    let token = token.trim_end_matches(',');
    let is_unit = |character: char| !character.is_ascii_digit() && character != '.';
    let (number, unit) = token.split_at(token.find(is_unit).unwrap_or(token.len()));
    let number: f64 = number.parse().ok()?;
    let unit = match unit.trim_start() {
        "" => 1.0,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1_048_576.0,
        "G" | "GiB" => 1_073_741_824.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    Some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_known_by_their_names() {
        let group = "direct".to_owned();
        let place = (65536, 32);
        assert_eq!(cell("direct 64K depth 32"), Some(Cell { group, place }));
        assert_eq!(cell("single 4K cold"), None);
    }
}
