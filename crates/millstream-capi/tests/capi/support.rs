//! Programs in C and C++, compiled against this crate's header and library.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of this crate.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that was built with the tests.
pub(crate) fn shared_library() -> String {
    let test = std::env::current_exe().expect("the path of this test");
    let library = test.with_file_name("libmillstream_capi.so");
    assert!(
        library.exists(),
        "{} is built with the tests",
        library.display()
    );
    library.display().to_string()
}

/// What a compiler says to a program, which it must refuse.
pub(crate) fn refused(source: &Path, compiler: &str, standard: &str) -> String {
    let include = format!("-I{}", root().join("include").display());
    let source = source.display().to_string();
    let output = run(compiler, &["-fsyntax-only", standard, &include, &source]);
    assert!(!output.status.success(), "{compiler} takes {source}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn run(program: &str, arguments: &[&str]) -> std::process::Output {
    let output = Command::new(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program} cannot be run: {error}"))
}

/// What a command prints; it must succeed.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{text}{errors}",
        output.status
    );
    text
}

/// Compilers that are there, of the usual ones.
pub(crate) fn compilers(usual: [&'static str; 2]) -> Vec<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let there: Vec<&str> = usual.into_iter().filter(is_there).collect();
    assert!(!there.is_empty(), "a compiler for C and C++ is needed");
    there
}

/// A compiled program.
pub(crate) struct Program(String);

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"];

impl Program {
    pub(crate) fn of_c(source: &Path, folder: &Path, compiler: &str) -> Program {
        Program::compile(
            source,
            folder,
            compiler,
            &["-std=c99", "-D_POSIX_C_SOURCE=200809L"],
        )
    }

    pub(crate) fn compile(source: &Path, folder: &Path, compiler: &str, more: &[&str]) -> Program {
        let name = source
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let program = folder.join(format!("{name}-{compiler}{}", more.concat()));
        let program = program.display().to_string().replace('=', "-");
        let (library, include) = (shared_library(), root().join("include"));
        let rpath = Path::new(&library)
            .parent()
            .expect("a folder")
            .display()
            .to_string();
        let (include, rpath) = (
            format!("-I{}", include.display()),
            format!("-Wl,-rpath,{rpath}"),
        );
        let source = source.display().to_string();
        let mut arguments: Vec<&str> = STRICT.to_vec();
        arguments.extend(more);
        // The name inside the library is the installed one.
        let link = folder.join("libmillstream.so.0.1");
        if !link.exists() {
            std::os::unix::fs::symlink(&library, &link).expect("linked");
        }
        let here = format!("-Wl,-rpath,{}", folder.display());
        arguments.extend([
            &*include,
            &source,
            "-o",
            &program,
            &library,
            &rpath,
            &here,
            "-lpthread",
        ]);
        output(compiler, &arguments);
        Program(program)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        output(&self.0, arguments)
    }
}
