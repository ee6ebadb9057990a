//! `verify`: compares everything that a package records with its contents.

use std::time::Instant;

use millstream_pak::{Package, PublicKey, Verification};
use serde_json::json;

use crate::archive::{self, Archived};
use crate::args::VerifyArgs;
use crate::failure::{Ending, Failure, Failures};
use crate::output;
use crate::package::{self, Reading, max_raw_bytes, too_many_raw_bytes};
use crate::progress;
use crate::size;
use crate::table::Table;

/// Runs `verify`.
pub(crate) fn verify(args: &VerifyArgs, json: bool) -> Result<(), Ending> {
    let begun = Instant::now();
    let key = package::key(args.key.as_deref(), PublicKey::read)?;
    let (found, failures) = look(args, key.as_ref())?;
    let seconds = begun.elapsed().as_secs_f64();
    if json {
        let document = json!({
            "entries": found.entries,
            "skipped": found.skipped,
            "blocks": found.blocks,
            "raw_bytes": found.raw_bytes,
            "signed": found.signed,
            "signature_verified": found.signature_verified,
            "content_version": found.content_version,
            "failed": failures.count(),
            "first_error": failures.first().map(Failure::to_string),
            "seconds": seconds,
        });
        return output::conclude(document, failures.ending());
    }
    if failures.count() == 0 {
        let signature = match (found.signed, found.signature_verified) {
            (_, true) => "verified",
            (true, false) => "present; --key verifies it",
            (false, false) => "none",
        };
        let skipped = match found.skipped {
            0 => String::new(),
            count => format!("; {count} more in the base: --base verifies them"),
        };
        let mut table = Table::default();
        table
            .row("entries", found.entries, format!("verified{skipped}"))
            .row("raw", found.raw_bytes, size::display(found.raw_bytes))
            .row("blocks", found.blocks, "")
            .row("signature", signature, "")
            .row(
                "content",
                found.content_version,
                "version of the package's content",
            )
            .row("time", format!("{seconds:.2} s"), "");
        output::print(&table.text())?;
    }
    failures.ending()
}

/// Opens PAK if it is an archive, which has neither signature nor version.
fn opened_archive(args: &VerifyArgs, key: Option<&PublicKey>) -> Result<Option<Archived>, Ending> {
    let opened = archive::open(&args.package, args.base.as_deref(), false)?;
    if opened.is_some() && (key.is_some() || args.min_version > 0) {
        let cause = "an archive has no signature and no version: it cannot be verified by them";
        return Err(Failure::new(&args.package, cause).into());
    }
    Ok(opened)
}

/// Verifies a package or an archive. One that cannot be opened has one failure.
fn look(args: &VerifyArgs, key: Option<&PublicKey>) -> Result<(Verification, Failures), Ending> {
    if let Some(opened) = opened_archive(args, key)? {
        return Ok(opened.verify(args.max_bytes)?);
    }
    let opened = Reading::open_over(&args.package, args.base.as_deref(), false);
    let reading = match opened {
        Ok(reading) => reading,
        Err(Ending::Failed(failures)) => {
            return Ok((Verification::default(), failures));
        }
        Err(ending) => return Err(ending),
    };
    let packages = [&reading.package].into_iter().chain(&reading.base);
    let most = max_raw_bytes(packages.map(Package::file_bytes).sum(), args.max_bytes);
    let mut in_bounds = true;
    progress::begin(None);
    let found = millstream_pak::verify(&reading.storage, &reading.package, key, &mut |done| {
        progress::reach(done);
        in_bounds = done <= most;
        in_bounds
    });
    let found = found.map_err(|error| reading.failure(&error))?;
    let listed = found.errors.iter().map(|error| reading.failure(error));
    let mut failures = Failures::new(found.failures, listed);
    if !in_bounds {
        failures.add_at(0, too_many_raw_bytes(&args.package, most));
    }
    if let Err(outdated) = reading.package.require_version(args.min_version) {
        failures.add(reading.failure(&outdated));
    }
    Ok((found, failures))
}
