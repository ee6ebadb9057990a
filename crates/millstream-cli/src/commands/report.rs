//! `report`: renders a recorded trace as an HTML page.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use millstream_report::limits::TRACE_BYTES_MAX;
use millstream_report::trace;
use serde_json::json;

use crate::args::ReportArgs;
use crate::failure::{Ending, Failure, shown};
use crate::input::Input;
use crate::output::{self, Output};

/// Runs `report`.
pub(crate) fn report(args: &ReportArgs, json: bool) -> Result<(), Ending> {
    output::refuse_beside_json(json, &args.output, "FILE.html")?;
    let named = (args.trace != "-").then(|| Path::new(&args.trace));
    output::refuse_inputs(&args.output, named)?;
    let text = read(&args.trace)?;
    let name = shown(&args.trace);
    let place = match args.trace.as_encoded_bytes() {
        b"-" => OsStr::new("standard input"),
        _ => &args.trace,
    };
    let page = trace::page(&name, &text).map_err(|error| failure(place, &error))?;
    let bytes = Output::create(&args.output)?.put_all(page.html.as_bytes())?;
    if json {
        output::print_json(&json!({
            "requests": page.requests,
            "seconds": page.times.total_ns as f64 / 1e9,
            "device_idle_seconds": page.times.device_idle_ns() as f64 / 1e9,
            "workers": page.times.workers,
            "words": page.words,
            "bytes": bytes,
        }))?;
    }
    Ok(())
}

/// Reads a trace, at most one byte more than [`TRACE_BYTES_MAX`], which the parser refuses.
pub(crate) fn read(name: &OsStr) -> Result<Vec<u8>, Failure> {
    let mut input = Input::open(name)?;
    let mut text = Vec::new();
    let read = input
        .by_ref()
        .take(TRACE_BYTES_MAX + 1)
        .read_to_end(&mut text);
    read.map_err(|error| input.failure(&error))?;
    Ok(text)
}

fn failure(name: &OsStr, error: &millstream_report::error::Error) -> Failure {
    let failure = Failure::new(name, &*error.cause).at(error.offset);
    failure.kind(&std::io::ErrorKind::InvalidData)
}
