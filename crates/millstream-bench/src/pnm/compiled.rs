//! Rivals in C and C++, compiled when the benchmark runs, each a program of its own: the study's
//! stage 1 (C++ streams) and stage 2 (stdio), netpbm's library, OpenCV and FFmpeg where they are
//! installed.
//!
//! A program gets the file's name, loads it twice, and prints for the second time the nanoseconds
//! and the sum of the samples' words, by which the result is checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Picture;
use crate::clock::Span;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::workload::Field;

/// A program: its name in rows, source, compiler, and how to ask for a library.
struct Source {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    compiler: &'static str,
    libraries: &'static [&'static str],
    package: Option<&'static str>,
    /// Takes so long a byte that a quick run leaves it out of its big files.
    slow: bool,
}

const SOURCES: [Source; 5] = [
    Source {
        name: "stage-1",
        file: "stage1.cpp",
        text: include_str!("stage1.cpp"),
        compiler: "c++",
        libraries: &[],
        package: None,
        slow: true,
    },
    Source {
        name: "stage-2",
        file: "stage2.c",
        text: include_str!("stage2.c"),
        compiler: "cc",
        libraries: &[],
        package: None,
        slow: true,
    },
    Source {
        name: "netpbm",
        file: "netpbm.c",
        text: include_str!("netpbm.c"),
        compiler: "cc",
        libraries: &["-lnetpbm"],
        package: None,
        slow: false,
    },
    Source {
        name: "opencv",
        file: "opencv.cpp",
        text: include_str!("opencv.cpp"),
        compiler: "c++",
        libraries: &[],
        package: Some("opencv4"),
        slow: false,
    },
    Source {
        name: "ffmpeg",
        file: "ffmpeg.c",
        text: include_str!("ffmpeg.c"),
        compiler: "cc",
        libraries: &[],
        package: Some("libavcodec libavutil"),
        slow: false,
    },
];

/// What all sources share.
const COMMON: &str = include_str!("rival.h");

/// Programs that could be built, or why not.
pub(super) struct Programs(Vec<(&'static Source, std::result::Result<PathBuf, String>)>);

impl Programs {
    /// Compiles what can be compiled, into a folder of the corpus.
    pub(super) fn build(folder: &Path) -> Programs {
        let folder = folder.join("pnm-rivals");
        let build = |source: &'static Source| (source, source.build(&folder));
        Programs(SOURCES.iter().map(build).collect())
    }

    /// Contenders, and the reasons of those that are none.
    pub(super) fn contenders(&self, field: &mut Field, picture: &Picture, quick: bool) {
        for (source, built) in &self.0 {
            let contender = match built {
                _ if quick && source.slow && picture.file_len > 1 << 20 => {
                    Err(Error::new("not in a quick run"))
                }
                Err(why) => Err(Error::new(why.clone())),
                Ok(program) => Ok(Rival {
                    name: source.name,
                    program: program.clone(),
                    picture: picture.clone(),
                }),
            };
            field.try_add(source.name, contender);
        }
    }
}

impl Source {
    fn build(&self, folder: &Path) -> std::result::Result<PathBuf, String> {
        let program = folder.join(self.name);
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
        std::fs::create_dir_all(folder)
            .and_then(|()| write("rival.h", COMMON))
            .and_then(|()| write(self.file, self.text))
            .map_err(|error| format!("its source cannot be written: {error}"))?;
        let mut command = Command::new(self.compiler);
        command.current_dir(folder).args(["-O2", "-o"]);
        command.arg(&program).arg(self.file);
        if let Some(package) = self.package {
            let found = Command::new("pkg-config")
                .args(["--cflags", "--libs", package])
                .output();
            let words = match found {
                Ok(output) if output.status.success() => output.stdout,
                _ => return Err(format!("pkg-config knows no {package}: not installed")),
            };
            command.args(String::from_utf8_lossy(&words).split_whitespace());
        }
        match command.args(self.libraries).output() {
            Ok(output) if output.status.success() => Ok(program),
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                let first = errors.lines().find(|line| line.contains("error"));
                Err(format!(
                    "it does not compile: {}",
                    first.unwrap_or_default()
                ))
            }
            Err(error) => Err(format!("no compiler {}: {error}", self.compiler)),
        }
    }
}

struct Rival {
    name: &'static str,
    program: PathBuf,
    picture: Picture,
}

impl Contender for Rival {
    fn name(&self) -> String {
        self.name.into()
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let output = Command::new(&self.program)
            .arg(&self.picture.path)
            .output()
            .map_err(|error| Error::io(format!("run {}", self.program.display()), error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut words = text.split_whitespace().map(str::parse::<u64>);
        match (
            output.status.success(),
            words.next(),
            words.next(),
            words.next(),
        ) {
            (true, Some(Ok(nanoseconds)), Some(Ok(bytes)), Some(Ok(sum))) => Ok(Work {
                bytes,
                requests: 1,
                digest: Some(sum),
                span: Some(Span {
                    wall: nanoseconds as f64 / 1e9,
                    cpu: nanoseconds as f64 / 1e9,
                }),
                ..Work::default()
            }),
            _ => Err(Error::new(format!("{} failed: {text}", self.name))),
        }
    }
}
