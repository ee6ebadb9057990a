//! The header is generated from this crate's source, and the binary interface is the committed one.
//!
//! `MST_BLESS=1 cargo test -p millstream-capi --test capi` writes `include/millstream.h` and
//! `abi.txt` anew.

use std::fmt::Write as _;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Expr, Fields, FnArg, GenericArgument, Item, Lit, Pat, PathArguments};
use syn::{ReturnType, Type};

use crate::support;

/// The files in the order of the header, each before those that use its structs.
const FILES: [&str; 12] = [
    "lib",
    "error",
    "number",
    "hooks",
    "storage",
    "completion",
    "source",
    "experts",
    "ticket",
    "request",
    "queue",
    "stream",
];

const BEGIN: &str = "
#ifndef MILLSTREAM_H
#define MILLSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef MST_API
#if defined(_WIN32) && !defined(MST_STATIC)
#define MST_API __declspec(dllimport)
#else
#define MST_API
#endif
#endif

#ifdef __cplusplus
extern \"C\" {
#endif
";

const END: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// What a file defines for C.
struct Source {
    page: Vec<String>,
    items: Vec<Item>,
}

fn read(name: &str) -> Source {
    let path = support::root().join("src").join(format!("{name}.rs"));
    let text = std::fs::read_to_string(path).expect("a file of the crate");
    let file = syn::parse_file(&text).expect("it compiles");
    Source {
        page: docs(&file.attrs),
        items: file.items,
    }
}

fn docs(attributes: &[Attribute]) -> Vec<String> {
    let text = |attribute: &Attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(text).collect()
}

/// A comment of C, with the lines as they are in Rust.
fn comment(out: &mut String, indent: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let line = |line: &String| line.replace("*/", "* /").trim_end().to_owned();
    if let [only] = lines
        && indent.len() + only.len() <= 94
    {
        writeln!(out, "{indent}/**{} */", line(only)).expect("memory");
        return;
    }
    writeln!(out, "{indent}/**").expect("memory");
    for text in lines {
        writeln!(out, "{indent} *{}", line(text)).expect("memory");
    }
    writeln!(out, "{indent} */").expect("memory");
}

fn tokens(of: &impl ToTokens) -> String {
    of.to_token_stream().to_string()
}

/// A type of C; those of pointers end with their star.
fn type_of(of: &Type) -> String {
    match of {
        Type::Ptr(pointer) => {
            let to = type_of(&pointer.elem);
            let space = if to.ends_with('*') { "" } else { " " };
            match (pointer.const_token.is_some(), to.ends_with('*')) {
                (false, _) => format!("{to}{space}*"),
                (true, true) => format!("{to}const *"),
                (true, false) => format!("const {to} *"),
            }
        }
        Type::Path(path) => {
            let name = path.path.segments.last().expect("a name").ident.to_string();
            let known = [
                ("i32", "int32_t"),
                ("u32", "uint32_t"),
                ("i64", "int64_t"),
                ("u64", "uint64_t"),
                ("usize", "size_t"),
                ("f64", "double"),
                ("bool", "bool"),
                ("c_char", "char"),
                ("c_int", "int"),
                ("c_void", "void"),
            ];
            match known.iter().find(|(rust, _)| *rust == name) {
                Some((_, c)) => (*c).to_owned(),
                None if name.starts_with("mst_") => name,
                None => panic!("{name} has no counterpart in C"),
            }
        }
        other => panic!("{} has no counterpart in C", tokens(other)),
    }
}

fn declaration(of: &Type, name: &str) -> String {
    if let Type::Array(array) = of {
        return format!("{}[{}]", declaration(&array.elem, name), tokens(&array.len));
    }
    let of = type_of(of);
    let space = if of.ends_with('*') { "" } else { " " };
    format!("{of}{space}{name}")
}

fn returned(of: &ReturnType, name: &str) -> String {
    match of {
        ReturnType::Default => format!("void {name}"),
        ReturnType::Type(_, of) => declaration(of, name),
    }
}

/// A prototype, broken where it is too long for a line.
fn prototype(head: &str, arguments: &[String]) -> String {
    let arguments = match arguments {
        [] => vec!["void".to_owned()],
        some => some.to_vec(),
    };
    let line = format!("{head}({});", arguments.join(", "));
    match line.len() <= 100 {
        true => line,
        false => format!("{head}(\n    {});", arguments.join(",\n    ")),
    }
}

fn function(item: &syn::ItemFn) -> Option<String> {
    let exported = item
        .attrs
        .iter()
        .any(|attribute| tokens(attribute).contains("no_mangle"));
    let arguments = item.sig.inputs.iter().map(|argument| match argument {
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(name) => declaration(&typed.ty, &name.ident.to_string()),
            _ => panic!("arguments have names"),
        },
        FnArg::Receiver(_) => panic!("functions of C have no self"),
    });
    exported.then(|| {
        let head = returned(&item.sig.output, &item.sig.ident.to_string());
        prototype(&format!("MST_API {head}"), &arguments.collect::<Vec<_>>())
    })
}

/// `Option<unsafe extern "C" fn(..)>` as a type of C.
fn callback(name: &str, of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(inner) = &last.arguments else {
        return None;
    };
    let Some(GenericArgument::Type(Type::BareFn(function))) = inner.args.first() else {
        return None;
    };
    let arguments = function.inputs.iter().map(|argument| {
        let (name, _) = argument.name.as_ref().expect("arguments have names");
        declaration(&argument.ty, &name.to_string())
    });
    let head = returned(&function.output, &format!("(*{name})"));
    Some(prototype(
        &format!("typedef {head}"),
        &arguments.collect::<Vec<_>>(),
    ))
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn is_layout(item: &syn::ItemStruct) -> bool {
    item.attrs
        .iter()
        .any(|attribute| tokens(attribute).contains("repr (C)"))
}

/// A constant: of an enumeration, or a macro if it does not fit one.
fn constant(out: &mut String, item: &syn::ItemConst) {
    let value = tokens(&item.expr);
    comment(out, "", &docs(&item.attrs));
    let name = &item.ident;
    let line = match value.as_str() {
        "u64 :: MAX" => format!("#define {name} UINT64_MAX"),
        number if number.parse::<u32>().is_ok() => format!("#define {name} {number}"),
        other => panic!("{name}: {other} is no constant of C"),
    };
    writeln!(out, "{line}").expect("memory");
}

fn structure(out: &mut String, item: &syn::ItemStruct) {
    comment(out, "", &docs(&item.attrs));
    if !is_layout(item) {
        writeln!(out, "struct {};", item.ident).expect("memory");
        return;
    }
    writeln!(out, "struct {} {{", item.ident).expect("memory");
    let Fields::Named(fields) = &item.fields else {
        panic!("members have names")
    };
    for field in &fields.named {
        comment(out, "    ", &docs(&field.attrs));
        let name = field.ident.as_ref().expect("named").to_string();
        writeln!(out, "    {};", declaration(&field.ty, &name)).expect("memory");
    }
    writeln!(out, "}};").expect("memory");
}

/// Names of structs, which any declaration may use.
fn forward(out: &mut String, sources: &[Source]) {
    writeln!(
        out,
        "\n/* Names of all structs; they are described below. */"
    )
    .expect("memory");
    for item in sources.iter().flat_map(|source| &source.items) {
        if let Item::Struct(item) = item
            && is_public(&item.vis)
        {
            writeln!(out, "typedef struct {0} {0};", item.ident).expect("memory");
        }
    }
    out.push('\n');
}

fn header() -> String {
    let sources = FILES.map(read);
    let mut out = String::new();
    comment(&mut out, "", &sources[0].page);
    out.push_str(BEGIN);
    forward(&mut out, &sources);
    for (nth, source) in sources.iter().enumerate() {
        if nth > 0 {
            out.push_str("\n/* ======================================================= */\n");
            comment(&mut out, "", &source.page);
        }
        for item in &source.items {
            match item {
                Item::Const(item) if is_public(&item.vis) => constant(&mut out, item),
                Item::Struct(item) if is_public(&item.vis) => {
                    out.push('\n');
                    structure(&mut out, item);
                }
                Item::Type(item) if is_public(&item.vis) => {
                    out.push('\n');
                    comment(&mut out, "", &docs(&item.attrs));
                    let name = item.ident.to_string();
                    let line = match callback(&name, &item.ty) {
                        Some(line) => line,
                        None => format!("typedef {};", declaration(&item.ty, &name)),
                    };
                    writeln!(out, "{line}").expect("memory");
                }
                Item::Fn(item) if is_public(&item.vis) => {
                    if let Some(line) = function(item) {
                        out.push('\n');
                        comment(&mut out, "", &docs(&item.attrs));
                        writeln!(out, "{line}").expect("memory");
                    }
                }
                _ => {}
            }
        }
    }
    out.push_str(END);
    out
}

/// Compares a committed file with what it must be, or writes it.
fn committed(path: &Path, expected: &str) {
    if std::env::var_os("MST_BLESS").is_some() {
        std::fs::write(path, expected).expect("written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    let differs = there
        .lines()
        .zip(expected.lines())
        .find(|(there, expected)| there != expected);
    assert!(
        there == expected,
        "{} is not what the source says; the first difference: {differs:?}. If the change is meant, \
         run the test with MST_BLESS=1",
        path.display()
    );
}

#[test]
fn the_header_is_the_one_that_the_source_describes() {
    let header = header();
    for line in header.lines() {
        assert!(
            line.len() <= 103,
            "a line of the header is too long: {line}"
        );
    }
    committed(&support::root().join("include/millstream.h"), &header);
}

/// Functions and layouts, one a line.
fn interface() -> String {
    let sources = FILES.map(read);
    let items = || sources.iter().flat_map(|source| &source.items);
    let mut functions: Vec<String> = Vec::new();
    let mut program =
        String::from("#include <millstream.h>\n#include <stdio.h>\nint main(void) {\n");
    for item in items() {
        match item {
            Item::Fn(item) => functions.extend(function(item).map(|line| {
                line.split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .replace("( ", "(")
            })),
            Item::Struct(item) if is_public(&item.vis) && is_layout(item) => {
                let name = &item.ident;
                writeln!(program, "printf(\"{name} %zu\\n\", sizeof({name}));").expect("memory");
                for field in &item.fields {
                    let field = field.ident.as_ref().expect("named");
                    let line = format!(
                        "printf(\"{name}.{field} %zu %zu\\n\", offsetof({name}, {field}), \
                         sizeof((({name} *)0)->{field}));"
                    );
                    writeln!(program, "{line}").expect("memory");
                }
            }
            _ => {}
        }
    }
    program.push_str("return 0;\n}\n");
    functions.sort();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("layouts.c");
    std::fs::write(&file, program).expect("written");
    let layouts = support::Program::of_c(&file, folder.path(), "cc").run(&[]);
    format!("{}\n{layouts}", functions.join("\n"))
}

#[test]
#[cfg(target_pointer_width = "64")]
fn the_binary_interface_is_the_committed_one() {
    committed(&support::root().join("abi.txt"), &interface());
}

/// A struct has the same size in Rust and in C.
#[test]
#[cfg(target_pointer_width = "64")]
fn structs_have_the_sizes_that_c_gives_them() {
    use millstream_capi::*;
    macro_rules! sizes {
        ($($name:ident)*) => { [$((stringify!($name), size_of::<$name>())),*] };
    }
    let sizes = sizes! {
        mst_allocator mst_job_system mst_codec_desc mst_thread_settings mst_storage_desc
        mst_close_report mst_file_desc mst_file_info mst_stats mst_group_counts mst_entry
        mst_package_desc mst_layer mst_verification mst_expert_part mst_experts_desc
        mst_experts_stats mst_completion mst_request_options mst_block
        mst_read_desc mst_write_desc mst_operation_desc mst_queue_desc mst_stream_desc
    };
    let interface = interface();
    let of_c = interface.lines().filter_map(|line| {
        let (name, size) = line.split_once(' ')?;
        let is_struct = !name.contains('.') && name.starts_with("mst_");
        is_struct.then(|| (name.to_owned(), size.parse::<usize>().expect("a size")))
    });
    let of_c: Vec<(String, usize)> = of_c.collect();
    let of_rust: Vec<(String, usize)> = sizes.map(|(name, size)| (name.to_owned(), size)).into();
    assert_eq!(of_rust, of_c);
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_nothing_else() {
    let symbols = support::output("nm", &["-D", "--defined-only", &support::shared_library()]);
    let mut exported: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    exported.sort_unstable();
    let sources = FILES.map(read);
    let declared = sources
        .iter()
        .flat_map(|source| &source.items)
        .filter_map(|item| match item {
            Item::Fn(item) if function(item).is_some() => Some(item.sig.ident.to_string()),
            _ => None,
        });
    let mut declared: Vec<String> = declared.collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
}
