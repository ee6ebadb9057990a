//! Workload `packages`: what it gains to have one file with one table.
//!
//! - opening a large package cold, up to the first lookup, beside a bare read of its tables;
//! - lookups by name and by hash;
//! - a start-up of many small files from a package, beside the loose files read by threads and by
//!   every rival;
//! - the rate of packing beside the codecs alone;
//! - `auto` beside every fixed codec, unthrottled and under each throttle, on a mixed corpus.
//!
//! Loaded bytes are in buffers of the storage, which are recycled; they are compared with the
//! hashes of the loose files outside the timed part.

use crate::prelude::*;

mod batch;
mod packing;
mod tables;

/// Version of how packages are made: those of an earlier version are not used again.
pub(crate) const MADE: u32 = 8;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let folder = session
        .corpus
        .folder()
        .join(format!("packages-made-{MADE}"));
    make_folder(&folder)?;
    tables::run(session, &folder)?;
    batch::start_up(session, &folder)?;
    packing::mixed(session, &folder)?;
    packing::rate(session, &folder)
}
