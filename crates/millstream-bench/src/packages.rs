//! Workload `packages`: what one file with one table is worth.
//!
//! - opening a large package cold, up to the first lookup, beside a bare read of its tables;
//! - lookups by name and by hash;
//! - short texts with a dictionary and without;
//! - a start-up of many small files from a package, beside the loose files read by threads and by
//!   every rival;
//! - a folder of real data (`packages/NAME` below the corpus folder; links to files are followed),
//!   beside the device, and beside a deflated zip;
//! - what each kind of resource shrinks to, and how fast it is decoded, codec by codec;
//! - the rate of packing beside the codecs alone, and the most memory that packing takes;
//! - `auto` beside every fixed codec, unthrottled and under each throttle.
//!
//! Loaded bytes lie in buffers of the storage, which are recycled; they are compared with the
//! hashes of the loose files outside of the timed part.

use crate::error::Result;
use crate::session::Session;

pub(crate) mod batch;
pub(crate) mod codings;
pub(crate) mod folder;
pub(crate) mod kinds;
pub(crate) mod memory;
pub(crate) mod packing;
pub(crate) mod tables;
pub(crate) mod texts;
#[cfg(feature = "peers")]
pub(crate) mod zipped;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let folder = batch::made_folder(session)?;
    // First, while the process has no free memory that would hide what packing takes.
    memory::run(session, &folder)?;
    tables::run(session, &folder)?;
    folder::start_up(session, &folder)?;
    texts::run(session, &folder)?;
    kinds::run(session, &folder)?;
    codings::run(session, &folder)?;
    packing::run(session, &folder)?;
    folder::run(session, &folder)
}
