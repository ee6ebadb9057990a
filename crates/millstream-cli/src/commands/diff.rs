//! `diff`: what differs between two packages, and the patch that turns one into the other.

use std::ffi::OsStr;
use std::path::Path;

use millstream_pak::{Change, Difference, PackReport, SecretKey, names};
use serde_json::json;

use crate::args::DiffArgs;
use crate::failure::{Ending, hex, shown};
use crate::output::{self, Output};
use crate::package::{self, Reading, describe};
use crate::size;

/// Runs `diff`.
pub(crate) fn diff(args: &DiffArgs, json: bool) -> Result<(), Ending> {
    let (before, after) = (Reading::open(&args.before)?, Reading::open(&args.after)?);
    let found = millstream_pak::diff(&before.package, &after.package);
    let found = found.map_err(|error| describe(&args.after, &error))?;
    let mut patch = None;
    if let Some(name) = &args.output {
        let key = args.sign.as_deref();
        let inputs = [&*args.before, &*args.after].into_iter().chain(key);
        output::refuse_inputs(name, inputs)?;
        let key = package::key(key, SecretKey::read)?;
        patch = Some(write(name, (&before, &after), key.as_ref())?);
    }
    if json {
        let patch_bytes = patch.map(|report| report.file_bytes);
        let mut document = json!({ "patch_bytes": patch_bytes });
        for (key, change) in [
            ("added", Change::Added),
            ("removed", Change::Removed),
            ("changed", Change::Changed),
        ] {
            let those = found.iter().filter(|one| one.change == change);
            let (mut texts, mut others) = (Vec::new(), Vec::new());
            those.for_each(|one| match std::str::from_utf8(&one.name) {
                Ok(text) => texts.push(text),
                Err(_) => others.push(hex(&one.name)),
            });
            document[key] = json!(texts);
            if !others.is_empty() {
                document[format!("{key}_hex")] = json!(others);
            }
        }
        return output::print_json(&document);
    }
    let mut text = lines(&found);
    if let (Some(report), Some(name)) = (patch, &args.output) {
        let (bytes, name) = (report.file_bytes, shown(name));
        text.push_str(&format!(
            "= {name}: {bytes} bytes, {}\n",
            size::display(bytes)
        ));
    }
    output::print(&text)
}

fn write(
    name: &OsStr,
    (before, after): (&Reading, &Reading),
    key: Option<&SecretKey>,
) -> Result<PackReport, Ending> {
    let mut output = Output::create_package(name)?;
    let report = millstream_pak::write_patch(&before.package, &after.package, key, output.file()?)
        .map_err(|error| describe(Path::new(name), &error))?;
    output.finish()?;
    Ok(report)
}

fn lines(found: &[Difference]) -> String {
    let line = |one: &Difference| {
        let sign = match one.change {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Changed => '~',
        };
        format!("{sign} {}\n", names::escape(&one.name))
    };
    found.iter().map(line).collect()
}
