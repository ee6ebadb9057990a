//! C++ rivals: `std::fstream` and stdio, in a program that is compiled when the benchmark runs.
//!
//! The program measures itself, from the open to the close, and prints wall and processor time in
//! nanoseconds and what it delivers; starting it does not count. Where there is no compiler its
//! rows say so.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Load;
use crate::clock::Span;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::workload::Field;

const SOURCE: &str = include_str!("rivals.cpp");

/// One of the program's ways.
struct Rival {
    name: &'static str,
    way: &'static str,
    load: Load,
    program: PathBuf,
    path: PathBuf,
    /// Where a writer finds the bytes.
    from: PathBuf,
}

pub(super) fn readers(field: &mut Field, load: &Load, folder: &Path, path: &Path) {
    for (name, way) in [("iostream", "iostream-read"), ("stdio", "stdio-read")] {
        field.try_add(name, Rival::new(name, way, load, folder, path));
    }
}

pub(super) fn writers(field: &mut Field, load: &Load, folder: &Path, path: &Path) {
    for (name, way) in [("iostream", "iostream-write"), ("stdio", "stdio-write")] {
        field.try_add(name, Rival::new(name, way, load, folder, path));
    }
}

impl Rival {
    fn new(
        name: &'static str,
        way: &'static str,
        load: &Load,
        folder: &Path,
        path: &Path,
    ) -> Result<Rival> {
        let from = folder.join(format!("rival-{}", load.bytes.len()));
        if !from.exists() {
            std::fs::write(&from, &load.bytes)
                .map_err(|error| Error::file("write", &from, error))?;
        }
        Ok(Rival {
            name,
            way,
            load: load.clone(),
            program: compiled(folder)?,
            path: path.to_owned(),
            from,
        })
    }
}

/// The program, compiled once.
fn compiled(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("rivals");
    if program.exists() {
        return Ok(program);
    }
    let source = folder.join("rivals.cpp");
    std::fs::write(&source, SOURCE).map_err(|error| Error::file("write", &source, error))?;
    let compiled = Command::new("c++")
        .args(["-O2", "-std=c++17", "-o"])
        .arg(&program)
        .arg(&source)
        .output();
    match compiled {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(Error::new(format!(
                "c++ failed: {}",
                why.lines().next().unwrap_or("")
            )))
        }
        Err(error) => Err(Error::io("no C++ compiler (c++)", error)),
    }
}

impl Contender for Rival {
    fn name(&self) -> String {
        self.name.into()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let chunk = self.load.chunk.to_string();
        let output = Command::new(&self.program)
            .args([self.way, &chunk])
            .args([&self.path, &self.from])
            .output()
            .map_err(|error| Error::file("run", &self.program, error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        let [wall_ns, cpu_ns, digest] = numbers[..] else {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::new(format!("the C++ program failed: {why}")));
        };
        // Its bytes stay in its process; it delivers their sum instead.
        if self.way.ends_with("read") && self.load.chunk != 4 {
            destination[..self.load.bytes.len()].copy_from_slice(&self.load.bytes);
            if digest != self.load.digest() {
                destination[0] = !destination[0];
            }
        }
        let mut work = self.load.work((self.load.chunk == 4).then_some(digest));
        work.span = Some(Span {
            wall: wall_ns as f64 / 1e9,
            cpu: cpu_ns as f64 / 1e9,
        });
        Ok(work)
    }
}
