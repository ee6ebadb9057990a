//! `report`: a recorded trace as a page to look at.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use millstream_pak::names;
use millstream_report::limits::TRACE_BYTES_MAX;
use millstream_report::trace;
use serde::Serialize;

use crate::args::ReportArgs;
use crate::failure::{Ending, Failure};
use crate::input::Input;
use crate::output::{self, Output};

/// What `--json` tells.
#[derive(Debug, Serialize)]
struct Document<'a> {
    requests: usize,
    seconds: f64,
    device_idle_seconds: f64,
    workers: u64,
    /// Where the time went, in words.
    words: &'a str,
    /// Bytes of the page.
    bytes: u64,
}

/// Runs `report`.
pub(crate) fn report(args: &ReportArgs) -> Result<(), Ending> {
    if args.json && args.output == "-" {
        return Err(Ending::Usage(String::from(
            "--json prints to standard output, so FILE.html must be a file and not -",
        )));
    }
    let text = read(&args.trace)?;
    let name = names::escape(args.trace.as_encoded_bytes());
    let place = match args.trace.as_bytes() {
        b"-" => OsStr::new("standard input"),
        _ => &args.trace,
    };
    let page = trace::page(&name, &text).map_err(|error| failure(place, &error))?;
    let bytes = write(Output::create(&args.output)?, &page.html)?;
    if args.json {
        output::print_json(&Document {
            requests: page.requests,
            seconds: page.times.total_ns as f64 / 1e9,
            device_idle_seconds: page.times.device_idle_ns() as f64 / 1e9,
            workers: page.times.workers,
            words: &page.words,
            bytes,
        })?;
    }
    Ok(())
}

/// Writes a page and makes it visible under its name; gives its bytes.
pub(crate) fn write(mut output: Output, html: &str) -> Result<u64, Ending> {
    output
        .write_all(html.as_bytes())
        .map_err(|error| output.ending(&error))?;
    let bytes = output.written_bytes();
    output.finish()?;
    Ok(bytes)
}

/// The whole input; no more than a page is made of, whatever a pipe delivers.
fn read(name: &OsStr) -> Result<Vec<u8>, Failure> {
    let mut input = Input::open(name, "reading")?;
    let mut text = Vec::new();
    let read = input
        .by_ref()
        .take(TRACE_BYTES_MAX + 1)
        .read_to_end(&mut text);
    read.map_err(|error| input.failure(&error))?;
    Ok(text)
}

fn failure(name: &OsStr, error: &millstream_report::error::Error) -> Failure {
    let failure = Failure::new(name, &*error.cause).kind(&std::io::ErrorKind::InvalidData);
    match error.offset {
        Some(offset) => failure.at(offset),
        None => failure,
    }
}
