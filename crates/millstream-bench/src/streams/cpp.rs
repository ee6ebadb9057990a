//! C++ rivals: `std::fstream` and stdio, in a program that is compiled when the benchmark runs.
//!
//! The program measures itself, from the open to the close, and prints wall and processor time in
//! nanoseconds and what it delivers; starting it does not count. Where there is no compiler its
//! rows say so.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Place;
use crate::case::{Case, Contender};
use crate::clock::Span;
use crate::error::{Context, Error, Result};
use crate::streams::load::Load;

const SOURCE: &str = include_str!("rivals.cpp");

/// Adds both libraries, which `read` or `write` the load.
pub(super) fn add(case: &mut Case<'_>, way: &str, load: &Load, place: &Place, path: &Path) {
    for library in ["iostream", "stdio"] {
        let rival = rival(library, way, load, &place.folder, path);
        case.try_push(library, rival);
    }
}

fn rival(
    library: &'static str,
    way: &str,
    load: &Load,
    folder: &Path,
    path: &Path,
) -> Result<Contender> {
    // Where a writer finds the bytes.
    let from = folder.join(format!("rival-{}", load.bytes.len()));
    if !from.exists() {
        std::fs::write(&from, &load.bytes).on("write", &from)?;
    }
    let (program, path, load) = (compiled(folder)?, path.to_owned(), load.clone());
    let (words, is_read) = (
        [format!("{library}-{way}"), load.chunk.to_string()],
        way == "read",
    );
    Ok(Contender::new(library, move |destination| {
        let mut command = Command::new(&program);
        let output = command.args(&words).args([&path, &from]).output();
        let output = output.on("run", &program)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        let [wall_ns, cpu_ns, digest] = numbers[..] else {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::new(format!("the C++ program failed: {why}")));
        };
        // Its bytes stay in its process; it delivers their sum instead.
        if is_read && load.chunk != 4 {
            destination[..load.bytes.len()].copy_from_slice(&load.bytes);
            if digest != load.digest() {
                destination[0] = !destination[0];
            }
        }
        let work = load.work((load.chunk == 4).then_some(digest));
        Ok(work.took(Span {
            wall: wall_ns as f64 / 1e9,
            cpu: cpu_ns as f64 / 1e9,
        }))
    }))
}

/// The program, compiled once.
fn compiled(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("rivals");
    if program.exists() {
        return Ok(program);
    }
    let source = folder.join("rivals.cpp");
    std::fs::write(&source, SOURCE).on("write", &source)?;
    let mut command = Command::new("c++");
    command.args(["-O2", "-std=c++17", "-o"]);
    let compiled = command.arg(&program).arg(&source).output();
    let output = compiled.what("no C++ compiler (c++)")?;
    if output.status.success() {
        return Ok(program);
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = why.lines().next().unwrap_or_default();
    Err(Error::new(format!("c++ failed: {first}")))
}
