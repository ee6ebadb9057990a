//! The program `millstream`.
//!
//! `args` parses the command line, one file of `commands` runs the command, and its failures
//! (`failure`) become messages and the exit status here. Outputs go through `output`, which leaves
//! no partial file behind on any path.

mod archive;
mod args;
mod backend;
mod cold;
mod commands;
mod failure;
mod input;
mod limits;
mod loader;
mod output;
mod package;
mod progress;
mod signals;
mod size;
mod standard;
mod table;
mod walk;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use args::{Call, Command};
use failure::{Ending, Failure, STATUS_FAILED, STATUS_USAGE, tell};

#[cfg(test)]
millstream_testing::watch!();

fn main() -> ExitCode {
    let matches = match Call::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return answer(&error),
    };
    let call = Call::from_arg_matches(&matches).expect("the definitions are the same");
    let command = matches.subcommand_name().expect("the parser requires one");
    let (json, name) = (call.json, String::from(command));
    if call.in_place {
        output::write_in_place();
    }
    signals::run(move || conclude(run(&call.command, json), &name, json)).unwrap_or_else(|error| {
        let failure = Failure::io("signals", "watch for", &error);
        conclude(Err(failure.into()), command, json)
    })
}

fn conclude(ended: Result<(), Ending>, command: &str, json: bool) -> ExitCode {
    progress::silence();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(ending) => report(ending, command, json),
    }
}

fn run(command: &Command, json: bool) -> Result<(), Ending> {
    use commands::{codec, decode, describe, diff, extract, info, list, load, pack, scene, verify};
    use commands::{report, weights};
    match command {
        Command::Load(args) => show("loading", args, json, load::load),
        Command::Info(args) => show("looking", args, json, info::info),
        Command::Compress(args) => show("compressing", args, json, codec::compress),
        Command::Decompress(args) => show("decompressing", args, json, codec::decompress),
        Command::Pack(args) => show("packing", args, json, pack::pack),
        Command::Scene(args) => show("loading", args, json, scene::scene),
        Command::List(args) => show("listing", args, json, list::list),
        Command::Extract(args) => show("extracting", args, json, extract::extract),
        Command::Cat(args) => show("reading", args, json, list::cat),
        Command::Verify(args) => show("verifying", args, json, verify::verify),
        Command::Diff(args) => show("comparing", args, json, diff::diff),
        Command::Decode(args) => show("decoding", args, json, decode::decode),
        Command::Report(args) => show("drawing", args, json, report::report),
        Command::Weights(args) => show("reading", args, json, weights::weights),
        Command::Completions(args) => show("writing", args, json, describe::completions),
        Command::Man(args) => show("writing", args, json, describe::man),
    }
}

/// Runs a command; `doing` labels the progress bar.
fn show<A>(
    doing: &'static str,
    args: &A,
    json: bool,
    work: fn(&A, bool) -> Result<(), Ending>,
) -> Result<(), Ending> {
    progress::watch(doing);
    work(args, json)
}

/// Reports on standard error how a command ended, and returns the exit status. With `json`, writes
/// a document to standard output if the command has not.
fn report(ending: Ending, command: &str, json: bool) -> ExitCode {
    match ending {
        Ending::Failed(mut failures) => {
            if json && !failures.documented {
                let mut document = serde_json::json!({});
                failures.document(&mut document);
                // If it cannot be printed, the failure below is still reported.
                let _ = output::print_json(&document);
            }
            tell(&failures.summary("failure"));
            ExitCode::from(STATUS_FAILED)
        }
        Ending::ClosedPipe => signals::end_by_closed_pipe(),
        Ending::Interrupted => signals::end_by_last(),
        Ending::Usage(message) => {
            tell(&message);
            tell(&format!("try: millstream {command} --help"));
            ExitCode::from(STATUS_USAGE)
        }
    }
}

/// Prints the parser's result: help and version to standard output, errors to standard error.
fn answer(error: &clap::Error) -> ExitCode {
    let printed = match error.use_stderr() {
        true => error.print(),
        false => standard::check(1).and_then(|()| error.print()),
    };
    if error.use_stderr() {
        return ExitCode::from(STATUS_USAGE);
    }
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            report(Ending::ClosedPipe, "help", false)
        }
        Err(error) => {
            let failure = Failure::io("standard output", "write", &error);
            report(failure.into(), "help", false)
        }
    }
}
