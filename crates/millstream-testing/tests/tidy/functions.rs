//! The length of functions.

use std::path::Path;

use syn::visit::{self, Visit};

/// Longest function, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Appends the functions of a file that are too long.
pub(crate) fn check(file: &syn::File, shown: &Path, findings: &mut Vec<String>) {
    let mut lengths = Lengths { shown, findings };
    lengths.visit_file(file);
}

struct Lengths<'a> {
    shown: &'a Path,
    findings: &'a mut Vec<String>,
}

impl Lengths<'_> {
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let lines = body.brace_token.span.close().end().line - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let (shown, name) = (self.shown.display(), &signature.ident);
            self.findings
                .push(format!("{shown}:{first}: `{name}` has {lines} lines"));
        }
    }
}

impl<'ast> Visit<'ast> for Lengths<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.measure(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[test]
fn a_function_that_is_too_long_is_found() {
    let long = format!(
        "fn long() {{\n{}}}\nfn short() {{}}\n",
        "    f();\n".repeat(69)
    );
    let file = syn::parse_file(&long).expect("it is Rust");
    let mut findings = Vec::new();
    check(&file, Path::new("a.rs"), &mut findings);
    assert_eq!(findings, ["a.rs:1: `long` has 71 lines"]);
}
