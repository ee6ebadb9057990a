//! Rivals in C and C++, compiled when the benchmark runs, each a program of its own: the study's
//! stage 1 (C++ streams) and stage 2 (stdio), netpbm's library, OpenCV and FFmpeg where they are
//! installed.
//!
//! A program gets the file's name, loads it twice, and prints for the second time the nanoseconds
//! and the sum of the samples' words, by which the result is checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::pictures::Picture;
use crate::case::{Case, Contender, Work};
use crate::clock::Span;
use crate::error::{Context, Error, Result};
use crate::files::make_folder;

/// A program: its name in rows, file, text, and how libraries are asked for.
struct Source(&'static str, &'static str, &'static str, Libraries);

enum Libraries {
    None,
    Named(&'static str),
    Package(&'static str),
}

const SOURCES: [Source; 5] = [
    Source(
        "stage-1",
        "stage1.cpp",
        include_str!("stage1.cpp"),
        Libraries::None,
    ),
    Source(
        "stage-2",
        "stage2.c",
        include_str!("stage2.c"),
        Libraries::None,
    ),
    Source(
        "netpbm",
        "netpbm.c",
        include_str!("netpbm.c"),
        Libraries::Named("-lnetpbm"),
    ),
    Source(
        "opencv",
        "opencv.cpp",
        include_str!("opencv.cpp"),
        Libraries::Package("opencv4"),
    ),
    Source(
        "ffmpeg",
        "ffmpeg.c",
        include_str!("ffmpeg.c"),
        Libraries::Package("libavcodec libavutil"),
    ),
];

/// Take so long a byte that a quick run leaves them out of its big files.
const SLOW: [&str; 2] = ["stage-1", "stage-2"];

/// What all sources share.
const COMMON: &str = include_str!("rival.h");

/// Programs that could be built, or why not.
pub(super) struct Programs(Vec<(&'static str, Result<PathBuf>)>);

impl Programs {
    /// Compiles what can be compiled, into a folder of the corpus.
    pub(super) fn build(folder: &Path) -> Programs {
        let folder = folder.join("pnm-rivals");
        let build = |source: &Source| (source.0, source.build(&folder));
        Programs(SOURCES.iter().map(build).collect())
    }

    /// Adds contenders, and the reasons of those that are none.
    pub(super) fn add(&self, case: &mut Case<'_>, picture: &Picture, quick: bool) {
        for (name, built) in &self.0 {
            match built {
                _ if quick && SLOW.contains(name) && picture.file_len > 1 << 20 => {
                    case.skip(name, "not in a quick run");
                }
                Err(why) => case.skip(name, &why.to_string()),
                Ok(program) => case.push(rival(name, program, picture)),
            }
        }
    }
}

impl Source {
    fn build(&self, folder: &Path) -> Result<PathBuf> {
        let Source(name, file, text, libraries) = self;
        let program = folder.join(name);
        make_folder(folder)?;
        for (file, text) in [("rival.h", COMMON), (file, text)] {
            let path = folder.join(file);
            std::fs::write(&path, text).on("write", &path)?;
        }
        let compiler = if file.ends_with("cpp") { "c++" } else { "cc" };
        let mut command = Command::new(compiler);
        command.current_dir(folder).args(["-O2", "-o"]);
        command.arg(&program).arg(file);
        match libraries {
            Libraries::None => {}
            Libraries::Named(library) => drop(command.arg(library)),
            Libraries::Package(package) => {
                let mut found = Command::new("pkg-config");
                let found = found.args(["--cflags", "--libs", package]).output();
                let Some(found) = found.ok().filter(|it| it.status.success()) else {
                    let why = format!("pkg-config knows no {package}: not installed");
                    return Err(Error::new(why));
                };
                let words = String::from_utf8_lossy(&found.stdout).into_owned();
                command.args(words.split_whitespace());
            }
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
}

fn rival(name: &'static str, program: &Path, picture: &Picture) -> Contender {
    let (program, path) = (program.to_owned(), picture.path.clone());
    Contender::new(name, move |_| {
        let output = Command::new(&program).arg(&path).output();
        let output = output.on("run", &program)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        let (true, [nanoseconds, bytes, sum]) = (output.status.success(), &numbers[..]) else {
            return Err(Error::new(format!("{name} failed: {text}")));
        };
        let seconds = *nanoseconds as f64 / 1e9;
        let span = Span {
            wall: seconds,
            cpu: seconds,
        };
        Ok(Work::of(*bytes, 1).with_digest(*sum).took(span))
    })
}
