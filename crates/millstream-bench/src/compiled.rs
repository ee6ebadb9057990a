//! Rivals in C and C++, compiled when the benchmark runs, each a program of its own that measures
//! itself and prints numbers; starting it does not count.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::files::make_folder;

/// Compiles a program in `folder` from files (name and text), of which the first is the source;
/// `libraries` are words for the compiler, or `pkg-config` and the names of packages.
///
/// # Errors
/// There is no compiler, or a library is not installed.
pub(crate) fn build(folder: &Path, files: &[(&str, &str)], libraries: &str) -> Result<PathBuf> {
    make_folder(folder)?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).on("write", &path)?;
    }
    let source = files[0].0;
    let program = folder.join(source).with_extension("program");
    let compiler = if source.ends_with("cpp") { "c++" } else { "cc" };
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(["-O2", "-o"]);
    command.arg(&program).arg(source);
    if let Some(packages) = libraries.strip_prefix("pkg-config ") {
        let mut found = Command::new("pkg-config");
        found.args(["--cflags", "--libs"]).args(packages.split(' '));
        let found = found.output().ok().filter(|it| it.status.success());
        let Some(found) = found else {
            let why = format!("pkg-config knows no {packages}: not installed");
            return Err(Error::new(why));
        };
        command.args(String::from_utf8_lossy(&found.stdout).split_whitespace());
    } else {
        command.args(libraries.split_whitespace());
    }
    let output = command.output().what(&format!("no compiler {compiler}"))?;
    if output.status.success() {
        return Ok(program);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().find(|line| line.contains("error"));
    let first = first.unwrap_or_default();
    Err(Error::new(format!("it does not compile: {first}")))
}

/// Runs a program that prints so many numbers.
pub(crate) fn run<const N: usize>(program: &Path, words: &[&Path]) -> Result<[u64; N]> {
    let output = Command::new(program).args(words).output();
    let output = output.on("run", program)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.split_whitespace().map(str::parse);
    let numbers: std::result::Result<Vec<u64>, _> = numbers.collect();
    let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
    numbers.filter(|_| output.status.success()).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        Error::new(format!("{} failed: {text}{errors}", program.display()))
    })
}
