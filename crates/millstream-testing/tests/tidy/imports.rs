//! Cycles of imports between the files of a crate.
//!
//! An edge is a `use` of what another file declares, by `crate::`, `super::`, `self::` or the name
//! of a child. Edges between a module and one inside it do not count: together they are one thing,
//! as a file and its functions are. Nor does what tests import.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};

type Module = Vec<String>;

/// The files of a crate below its `src`, with the modules that they import.
#[derive(Default)]
pub(crate) struct Imports {
    files: BTreeMap<Module, BTreeSet<Module>>,
}

impl Imports {
    /// Adds a file; `path` begins below `src`.
    pub(crate) fn add(&mut self, path: &Path, file: &syn::File) {
        let module = module_of(path);
        if module.iter().any(|name| name == "tests") {
            return;
        }
        let mut uses = Uses {
            module: module.clone(),
            found: BTreeSet::new(),
        };
        uses.visit_file(file);
        self.files.insert(module, uses.found);
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

struct Uses {
    module: Module,
    found: BTreeSet<Module>,
}

impl Uses {
    fn follow(&mut self, mut path: Module, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(part) => {
                self.step(&mut path, &part.ident.to_string());
                self.follow(path, &part.tree);
            }
            syn::UseTree::Name(part) => self.end(path, &part.ident.to_string()),
            syn::UseTree::Rename(part) => self.end(path, &part.ident.to_string()),
            syn::UseTree::Glob(_) => self.keep(path),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.follow(path.clone(), tree);
                }
            }
        }
    }

    fn end(&mut self, mut path: Module, name: &str) {
        self.step(&mut path, name);
        self.keep(path);
    }

    fn keep(&mut self, path: Module) {
        self.found.insert(path);
    }

    fn step(&self, path: &mut Module, name: &str) {
        match name {
            "crate" => *path = vec![name.to_owned()],
            "self" if path.is_empty() => path.clone_from(&self.module),
            "self" => {}
            "super" => {
                if path.is_empty() {
                    path.clone_from(&self.module);
                }
                path.pop();
            }
            // Of a child, or of another crate; the latter is no file of this one.
            _ if path.is_empty() => {
                path.clone_from(&self.module);
                path.push(name.to_owned());
            }
            _ => path.push(name.to_owned()),
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.follow(Vec::new(), &item.tree);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}

#[test]
fn a_circle_of_imports_is_found() {
    let mut imports = Imports::default();
    for (path, text) in [
        ("lib.rs", "mod a; mod b; pub use a::A;"),
        ("a.rs", "use crate::b::inner::B; use std::fmt;"),
        ("b.rs", "mod inner; use inner::B;"),
        (
            "b/inner.rs",
            "use super::super::a::{self, A}; use crate::free;",
        ),
        (
            "c.rs",
            "#[cfg(test)] mod tests { use super::C; use crate::a::A; }",
        ),
    ] {
        imports.add(Path::new(path), &syn::parse_file(text).expect("it is Rust"));
    }
    let found = imports.cycles();
    assert_eq!(found, ["crate::a, crate::b::inner"], "{found:?}");
}
