//! Cycles of imports between the files of a crate.
//!
//! An edge is a path to what another file declares, in a `use` or anywhere else: it begins with
//! `crate`, `super`, `self` or the name of a child. Edges between a module and one inside it do not
//! count: together they are one thing, as a file and its functions are. Nor does what tests name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

type Module = Vec<String>;

/// The files of a crate below its `src`, with the modules that they name.
#[derive(Default)]
pub(crate) struct Imports {
    files: BTreeMap<Module, BTreeSet<Module>>,
}

impl Imports {
    /// Adds a file; `path` begins below `src`, or below the folder of a program's `main.rs`.
    pub(crate) fn add(&mut self, path: &Path, tokens: &TokenStream) {
        let module = module_of(path);
        let mut found = BTreeSet::new();
        follow(tokens, &module, &mut found);
        self.files.insert(module, found);
    }

    /// Groups of files that import each other in a circle.
    pub(crate) fn cycles(&self) -> Vec<String> {
        let edges: BTreeMap<&Module, BTreeSet<&Module>> = self
            .files
            .iter()
            .map(|(from, uses)| {
                let to = uses.iter().filter_map(|path| self.file_of(path));
                let other = |to: &&Module| !to.starts_with(from) && !from.starts_with(to);
                (from, to.filter(other).collect())
            })
            .collect();
        let reach: BTreeMap<&Module, BTreeSet<&Module>> = edges
            .keys()
            .map(|from| (*from, reached(from, &edges)))
            .collect();
        let mut found = BTreeSet::new();
        for (from, to) in &reach {
            if to.contains(*from) {
                let circle = to.iter().filter(|other| reach[**other].contains(*from));
                found.insert(circle.map(|module| module.join("::")).collect::<Vec<_>>());
            }
        }
        found.into_iter().map(|circle| circle.join(", ")).collect()
    }

    /// The file that declares what a path names: that of its longest prefix.
    fn file_of(&self, path: &Module) -> Option<&Module> {
        let prefixes = (1..=path.len()).rev();
        let mut known = prefixes.filter_map(|len| self.files.get_key_value(&path[..len]));
        known.next().map(|(module, _)| module)
    }
}

fn reached<'a>(
    from: &'a Module,
    edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in &edges[module] {
            if found.insert(*to) {
                open.push(to);
            }
        }
    }
    found
}

fn module_of(path: &Path) -> Module {
    let mut module = vec!["crate".to_owned()];
    let names = path.with_extension("");
    for part in names.iter() {
        let name = part.to_string_lossy();
        if name != "lib" && name != "main" && name != "mod" {
            module.push(name.into_owned());
        }
    }
    module
}

/// Finds the paths in the tokens of a module.
fn follow(tokens: &TokenStream, module: &Module, found: &mut BTreeSet<Module>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        at += match &trees[at..] {
            [
                TokenTree::Ident(word),
                TokenTree::Ident(name),
                TokenTree::Group(body),
                ..,
            ] if word == "mod" => {
                let inner = [&module[..], &[name.to_string()]].concat();
                follow(&body.stream(), &inner, found);
                3
            }
            // The rest of a path that begins with `::` or a type names another crate.
            [TokenTree::Ident(_), ..] if !ends_with_colons(&trees[..at]) => {
                follow_path(&trees[at..], &Module::new(), module, found)
            }
            [TokenTree::Group(group), ..] => {
                follow(&group.stream(), module, found);
                1
            }
            _ => 1,
        };
    }
}

/// Finds the path, or the tree of paths of a `use`, at the beginning of some tokens; returns how
/// many it has.
fn follow_path(
    trees: &[TokenTree],
    prefix: &Module,
    module: &Module,
    found: &mut BTreeSet<Module>,
) -> usize {
    let mut path = prefix.clone();
    let mut at = 0;
    loop {
        match &trees[at..] {
            [TokenTree::Ident(name), ..] => step(&mut path, &name.to_string(), module),
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_comma =
                    |tree: &TokenTree| matches!(tree, TokenTree::Punct(it) if it.as_char() == ',');
                for tree in inside.split(is_comma) {
                    follow_path(tree, &path, module, found);
                }
                return at + 1;
            }
            // `*`, or the arguments of a generic function.
            _ => break,
        }
        at += 1;
        if !ends_with_colons(&trees[at..trees.len().min(at + 2)]) {
            break;
        }
        at += 2;
    }
    // A single name is of the same file.
    if at > 1 || !prefix.is_empty() {
        found.insert(path);
    }
    at
}

fn step(path: &mut Module, name: &str, module: &Module) {
    match name {
        "crate" => *path = vec![name.to_owned()],
        "self" if path.is_empty() => path.clone_from(module),
        "self" => {}
        "super" => {
            if path.is_empty() {
                path.clone_from(module);
            }
            path.pop();
        }
        // Of a child, or of another crate; the latter is no file of this one.
        _ if path.is_empty() => {
            path.clone_from(module);
            path.push(name.to_owned());
        }
        _ => path.push(name.to_owned()),
    }
}

fn ends_with_colons(trees: &[TokenTree]) -> bool {
    let [.., TokenTree::Punct(first), TokenTree::Punct(second)] = trees else {
        return false;
    };
    let is_joint = first.spacing() == Spacing::Joint;
    first.as_char() == ':' && is_joint && second.as_char() == ':'
}

#[test]
fn a_circle_of_imports_is_found() {
    let mut imports = Imports::default();
    for (path, text) in [
        ("lib.rs", "mod a; mod b; pub use a::A;"),
        (
            "a.rs",
            "use std::fmt; fn f() -> crate::b::inner::B { crate::b::inner::B::new::<u8>() }",
        ),
        ("b.rs", "mod inner; use inner::B;"),
        (
            "b/inner.rs",
            "use super::super::{a::{self, A}, free}; use ::c::C;",
        ),
        (
            "c.rs",
            "mod inside { fn f() { super::C; super::super::a::f() } }",
        ),
    ] {
        imports.add(Path::new(path), &text.parse().expect("it is Rust"));
    }
    let found = imports.cycles();
    assert_eq!(found, ["crate::a, crate::b::inner"], "{found:?}");
}
