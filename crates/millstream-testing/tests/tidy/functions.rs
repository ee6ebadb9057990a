//! The length of functions.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Longest function, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Appends the functions of a file that are too long, with those inside of them.
pub(crate) fn check(tokens: &TokenStream, shown: &Path, findings: &mut Vec<String>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) => check(&group.stream(), shown, findings),
            TokenTree::Ident(word) if word == "fn" => {
                // A type of functions has no name, and a function of a trait may have no body.
                let Some(TokenTree::Ident(name)) = trees.get(at + 1) else {
                    continue;
                };
                let Some(last) = last_line(&trees[at..]) else {
                    continue;
                };
                let first = word.span().start().line;
                let lines = last - first + 1;
                if lines > FUNCTION_LINES_MAX {
                    let shown = shown.display();
                    findings.push(format!("{shown}:{first}: `{name}` has {lines} lines"));
                }
            }
            _ => {}
        }
    }
}

/// Returns the line of the closing brace of a function, if it has a body.
fn last_line(function: &[TokenTree]) -> Option<usize> {
    function.iter().find_map(|tree| match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            Some(Some(group.span_close().end().line))
        }
        TokenTree::Punct(punct) if punct.as_char() == ';' => Some(None),
        _ => None,
    })?
}

#[test]
fn a_function_that_is_too_long_is_found() {
    let long = format!(
        "trait T {{ fn none(of: fn(u8) -> u8); }}\nfn long() {{\n{}}}\nfn short() {{}}\n",
        "    f();\n".repeat(69)
    );
    let mut findings = Vec::new();
    check(
        &long.parse().expect("it is Rust"),
        Path::new("a.rs"),
        &mut findings,
    );
    assert_eq!(findings, ["a.rs:2: `long` has 71 lines"]);
}
