//! Workload `packages`: what it gains to have one file with one table.
//!
//! - opening a large package cold, up to the first lookup, beside a bare read of its tables;
//! - lookups by name and by hash;
//! - a start-up of many small files from a package, beside the loose files read by threads and by
//!   every rival;
//! - a folder of real data (`packages/NAME` below the corpus folder; links to files are followed),
//!   beside the device, and beside a deflated zip;
//! - the rate of packing beside the codecs alone, and the peak memory of packing;
//! - `auto` beside every fixed codec, unthrottled and under each throttle, on a mixed corpus and on
//!   the folders of real data.
//!
//! Loaded bytes are in buffers of the storage, which are recycled; they are compared with the
//! hashes of the loose files outside the timed part.

use crate::error::Result;
use crate::files::make_folder;
use crate::session::Session;

pub(crate) mod batch;
pub(crate) mod folder;
pub(crate) mod mixed;
pub(crate) mod packing;
pub(crate) mod tables;
#[cfg(feature = "peers")]
pub(crate) mod zipped;

/// Version of how packages are made: those of an earlier version are not used again.
pub(crate) const MADE: u32 = 7;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let folder = session
        .corpus
        .folder()
        .join(format!("packages-made-{MADE}"));
    make_folder(&folder)?;
    // First, while the process has no free memory that would hide what packing allocates.
    packing::peak(session, &folder)?;
    tables::run(session, &folder)?;
    folder::start_up(session, &folder)?;
    mixed::run(session, &folder)?;
    packing::rate(session, &folder)?;
    folder::real(session, &folder)
}
