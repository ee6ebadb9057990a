//! The program `millstream`.
//!
//! A call is parsed by `args`, done by one file of `commands`, and ends with a status by
//! `failure`. Outputs go through `output`, which leaves no partial file behind, whatever happens.

mod args;
mod cold;
mod commands;
mod failure;
mod input;
mod limits;
mod loader;
mod machine;
mod output;
mod package;
mod progress;
mod record;
mod signals;
mod size;
mod standard;
mod table;
mod walk;

use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Call, Command};
use failure::{Ending, Failure};

fn main() -> ExitCode {
    let call = match Call::try_parse() {
        Ok(call) => call,
        Err(error) => return answer(&error),
    };
    let watched = signals::watch()
        .map_err(|error| Failure::io(OsStr::new("signals"), "watch for", &error).into());
    let ended = watched.and_then(|()| {
        progress::watch(call.command.doing());
        run(&call.command)
    });
    progress::silence();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(ending) => ending.report(call.command.json()),
    }
}

fn run(command: &Command) -> Result<(), Ending> {
    match command {
        Command::Load(args) => commands::load::load(args),
        Command::Info(args) => commands::info::info(args),
        Command::Compress(args) => commands::codec::compress(args),
        Command::Decompress(args) => commands::codec::decompress(args),
        Command::Pack(args) => commands::pack::pack(args),
        Command::Scene(args) => commands::scene::scene(args),
        Command::List(args) => commands::list::list(args),
        Command::Extract(args) => commands::extract::extract(args),
        Command::Cat(args) => commands::list::cat(args),
        Command::Verify(args) => commands::verify::verify(args),
        Command::Diff(args) => commands::diff::diff(args),
        Command::Decode(args) => commands::decode::decode(args),
        Command::Report(args) => commands::report::report(args),
        Command::Bench(args) => commands::bench::bench(args),
        Command::Completions(args) => commands::describe::completions(args),
        Command::Man(args) => commands::describe::man(args),
    }
}

/// Prints what the parser has to say: help and version to standard output, errors to standard
/// error.
fn answer(error: &clap::Error) -> ExitCode {
    let printed = match error.use_stderr() {
        true => error.print(),
        false => standard::check(1).and_then(|()| error.print()),
    };
    if error.use_stderr() {
        return ExitCode::from(failure::STATUS_USAGE);
    }
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ending::ClosedPipe.report(false),
        Err(error) => {
            let failure = Failure::io(OsStr::new("standard output"), "write", &error);
            Ending::from(failure).report(false)
        }
    }
}
