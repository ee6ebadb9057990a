//! What of a file is no test, and how many lines that are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A source without the items that only tests have.
#[derive(Default)]
pub(crate) struct Product {
    pub(crate) tokens: TokenStream,
    /// Lines of the items that only tests have.
    test_lines: usize,
    /// Names of the modules with files of their own that only tests have.
    test_modules: Vec<String>,
}

impl Product {
    pub(crate) fn of(tokens: &TokenStream) -> Product {
        let mut product = Product::default();
        product.tokens = product.strip(tokens);
        product
    }

    fn strip(&mut self, tokens: &TokenStream) -> TokenStream {
        let mut kept = Vec::new();
        let mut trees = tokens.clone().into_iter().peekable();
        while let Some(tree) = trees.next() {
            let attribute = match (&tree, trees.peek()) {
                (TokenTree::Punct(punct), Some(TokenTree::Group(group))) => {
                    punct.as_char() == '#' && is_test(&group.stream())
                }
                _ => false,
            };
            if attribute {
                let item = trees.by_ref();
                self.skip(tree.span().start().line, item);
                continue;
            }
            kept.push(match tree {
                TokenTree::Group(group) => {
                    TokenTree::Group(Group::new(group.delimiter(), self.strip(&group.stream())))
                }
                other => other,
            });
        }
        kept.into_iter().collect()
    }

    /// Skips the rest of an item that began in a line.
    fn skip(&mut self, first: usize, item: &mut dyn Iterator<Item = TokenTree>) {
        let mut is_module = false;
        for tree in item {
            let last = match &tree {
                TokenTree::Ident(word) => {
                    if is_module {
                        self.test_modules.push(word.to_string());
                    }
                    is_module = word == "mod";
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => punct.span().end().line,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    group.span_close().end().line
                }
                _ => continue,
            };
            self.test_lines += last - first + 1;
            return;
        }
    }
}

/// Whether an attribute is a `cfg` that holds in tests alone.
fn is_test(attribute: &TokenStream) -> bool {
    let mut trees = attribute.clone().into_iter();
    match (trees.next(), trees.next()) {
        (Some(TokenTree::Ident(word)), Some(TokenTree::Group(condition))) if word == "cfg" => {
            needs_test(&condition.stream().into_iter().collect::<Vec<_>>())
        }
        _ => false,
    }
}

fn needs_test(condition: &[TokenTree]) -> bool {
    let [TokenTree::Ident(word), rest @ ..] = condition else {
        return false;
    };
    let [TokenTree::Group(group)] = rest else {
        return rest.is_empty() && word == "test";
    };
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    let is_comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(it) if it.as_char() == ',');
    let mut conditions = inside.split(is_comma);
    match word.to_string().as_str() {
        "all" => conditions.any(needs_test),
        "any" => conditions.all(needs_test),
        _ => false,
    }
}

/// Returns whether only tests have a file: one of its modules is named so by its parent.
pub(crate) fn is_of_tests(path: &Path, sources: &BTreeMap<PathBuf, Product>) -> bool {
    path.ancestors().any(|module| {
        let folder = module.parent().unwrap_or(module);
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let parents = ["lib.rs", "main.rs", "mod.rs"].map(|root| folder.join(root));
        let parents = parents.into_iter().chain([folder.with_extension("rs")]);
        let mut parents = parents.filter_map(|parent| sources.get(&parent));
        parents.any(|parent| parent.test_modules.iter().any(|it| *it == name))
    })
}

/// Returns the lines of a file that are no tests.
pub(crate) fn lines(text: &str, product: &Product) -> usize {
    text.lines().count() - product.test_lines
}

#[test]
fn what_only_tests_have_is_left_out() {
    let text = "mod a;\n#[cfg(all(test, not(model)))]\nmod b;\n#[cfg(not(test))]\nuse x;\n\
        #[cfg(test)]\nmod tests {\n    use y;\n}\nfn f() {}\n";
    let product = Product::of(&text.parse().expect("it is Rust"));
    assert_eq!(lines(text, &product), 4);
    assert!(!product.tokens.to_string().contains('y'));
    assert!(product.tokens.to_string().contains('x'));
    let sources = BTreeMap::from([(PathBuf::from("a/src/lib.rs"), product)]);
    for (path, expected) in [
        ("a/src/a.rs", false),
        ("a/src/b.rs", true),
        ("a/src/b/inner.rs", true),
        ("a/src/tests.rs", true),
    ] {
        assert_eq!(is_of_tests(Path::new(path), &sources), expected, "{path}");
    }
}
