//! Runs a program and makes the kernel refuse io_uring to it.
//!
//! ```text
//! no-uring eperm|enosys PROGRAM [ARGUMENT...]
//! ```

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::os::unix::process::CommandExt as _;

    use millstream_testing::seccomp::{Refusal, refuse_io_uring};

    let mut arguments = std::env::args_os().skip(1);
    let refusal = match arguments.next() {
        Some(word) if word == "eperm" => Refusal::NotPermitted,
        Some(word) if word == "enosys" => Refusal::NoSuchCall,
        _ => return usage(),
    };
    let Some(program) = arguments.next() else {
        return usage();
    };
    if let Err(unavailable) = refuse_io_uring(refusal) {
        eprintln!("no-uring: {unavailable}");
        return ExitCode::FAILURE;
    }
    let error = std::process::Command::new(&program).args(arguments).exec();
    eprintln!("no-uring: {}: {error}", program.display());
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
fn usage() -> ExitCode {
    eprintln!("usage: no-uring eperm|enosys PROGRAM [ARGUMENT...]");
    ExitCode::from(2)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("no-uring: there is io_uring on Linux alone");
    ExitCode::FAILURE
}
