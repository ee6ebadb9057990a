//! `verify`: everything that a package says is compared with what it holds.

use std::time::Instant;

use millstream_pak::{DictionaryUse, PublicKey, Verification};
use serde::Serialize;
use serde_json::Value;

use crate::args::VerifyArgs;
use crate::failure::{Ending, Failure, Failures};
use crate::output;
use crate::package::{Reading, describe, dictionary_rows, dictionary_values};
use crate::progress::Progress;
use crate::size;
use crate::table::Table;

/// What `--json` tells.
#[derive(Debug, Serialize)]
struct Document {
    entries: u64,
    blocks: u64,
    raw_bytes: u64,
    dictionaries: Vec<Value>,
    signed: bool,
    signature_verified: bool,
    failed: u64,
    first_error: Option<String>,
    seconds: f64,
}

/// Runs `verify`.
pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Ending> {
    let begun = Instant::now();
    let key = match &args.key {
        Some(path) => Some(PublicKey::read(path).map_err(|error| describe(path, &error))?),
        None => None,
    };
    let Looked {
        found,
        failures,
        uses,
    } = look(args, key.as_ref())?;
    let seconds = begun.elapsed().as_secs_f64();
    if args.json {
        let document = Document {
            entries: found.entries,
            blocks: found.blocks,
            raw_bytes: found.raw_bytes,
            dictionaries: dictionary_values(&uses),
            signed: found.signed,
            signature_verified: found.signature_verified,
            failed: failures.count(),
            first_error: failures.first().map(Failure::to_string),
            seconds,
        };
        return output::conclude(&document, failures.ending());
    }
    if failures.count() == 0 {
        let signature = match (found.signed, found.signature_verified) {
            (_, true) => "verified",
            (true, false) => "there is one; with --key it is verified",
            (false, false) => "none",
        };
        let mut table = Table::default();
        table
            .row("entries", found.entries.to_string(), "all well")
            .row(
                "raw",
                found.raw_bytes.to_string(),
                size::display(found.raw_bytes),
            )
            .row("blocks", found.blocks.to_string(), "");
        dictionary_rows(&mut table, &uses);
        table
            .row("signature", signature, "")
            .row("time", format!("{seconds:.2} s"), "");
        output::print(&table.text())?;
    }
    failures.ending()
}

/// What was found.
struct Looked {
    found: Verification,
    failures: Failures,
    /// Empty where the tables are damaged.
    uses: Vec<DictionaryUse>,
}

/// Verifies; a package that cannot even be opened has one failure.
fn look(args: &VerifyArgs, key: Option<&PublicKey>) -> Result<Looked, Ending> {
    let reading = match Reading::open_over(&args.package, args.base.as_deref()) {
        Ok(reading) => reading,
        Err(Ending::Failed(failures)) => {
            return Ok(Looked {
                found: Verification::default(),
                failures,
                uses: Vec::new(),
            });
        }
        Err(ending) => return Err(ending),
    };
    let mut progress = Progress::new("verifying", None);
    let mut before = 0;
    let found = millstream_pak::verify(&reading.storage, &reading.package, key, &mut |done| {
        progress.advance(done - std::mem::replace(&mut before, done));
        true
    });
    drop(progress);
    let found = found.map_err(|error| reading.failure(&error))?;
    let listed = found.errors.iter().map(|error| reading.failure(error));
    let failures = Failures::new(found.failures, listed);
    let uses = reading.package.dictionary_uses().unwrap_or_default();
    Ok(Looked {
        found,
        failures,
        uses,
    })
}
