//! `diff`: what differs between two packages, and the patch that turns one into the other.

use std::ffi::OsStr;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use millstream_pak::{Change, Difference, PackReport, names};
use serde::Serialize;

use crate::args::DiffArgs;
use crate::failure::Ending;
use crate::output::{self, Output};
use crate::package::{Reading, describe};

/// What `--json` tells.
#[derive(Debug, Serialize)]
struct Document {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
    /// Of the patch, if one was written.
    patch_bytes: Option<u64>,
}

/// Runs `diff`.
pub(crate) fn diff(args: &DiffArgs) -> Result<(), Ending> {
    let (before, after) = (Reading::open(&args.before)?, Reading::open(&args.after)?);
    let found = millstream_pak::diff(&before.package, &after.package);
    let found = found.map_err(|error| describe(&args.after, &error))?;
    let mut patch = None;
    if let Some(name) = &args.output {
        patch = Some(write(name, &before, &after)?);
    }
    if args.json {
        let of = |change| {
            let those = found.iter().filter(move |one| one.change == change);
            those.map(|one| names::escape(&one.name)).collect()
        };
        return output::print_json(&Document {
            added: of(Change::Added),
            removed: of(Change::Removed),
            changed: of(Change::Changed),
            patch_bytes: patch.map(|report| report.file_bytes),
        });
    }
    print(&found)
}

fn write(name: &OsStr, before: &Reading, after: &Reading) -> Result<PackReport, Ending> {
    let output = Output::create_package(name)?;
    let report = millstream_pak::write_patch(&before.package, &after.package, None, output.file()?)
        .map_err(|error| describe(Path::new(name), &error))?;
    output.finish()?;
    Ok(report)
}

fn print(found: &[Difference]) -> Result<(), Ending> {
    let mut lines = BufWriter::new(Output::create(OsStr::new("-"))?);
    for one in found {
        let sign = match one.change {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Changed => '~',
        };
        let written = writeln!(lines, "{sign} {}", names::escape(&one.name));
        written.map_err(|error| lines.get_ref().ending(&error))?;
    }
    let flushed = lines.flush();
    flushed.map_err(|error| lines.get_ref().ending(&error))
}
