//! Workload `streams`: 1.2 MB through streams, four bytes at a time and in larger pieces, to memory
//! and to files; and objects, written, parsed and used in place.
//!
//! The study wrote and read 100,000 vectors of three floats in 300,000 calls. Each case here moves
//! the same bytes in calls of one size; the figures are nanoseconds a call, by the wall and of
//! processor time. A file's case counts everything from its open to its close; all is cached.
//! Contenders that read four bytes at a time add the words up, so that no call can be left out.

use std::path::PathBuf;

use millstream::Storage;

use crate::error::{Context, Result};
use crate::files::make_folder;
use crate::limits;
use crate::memory::Destination;
use crate::session::Session;
use crate::setup::Setup;
use crate::streams::load::Load;

pub(crate) mod calls;
pub(crate) mod cpp;
pub(crate) mod disturb;
pub(crate) mod files;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod objects;

/// Sizes of calls: from a field to a texture.
const CHUNKS: [usize; 11] = [
    4,
    16,
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];

const QUICK_CHUNKS: [usize; 3] = [4, 1 << 10, 256 << 10];

/// Where files are written and read, and through which storage.
pub(crate) struct Place {
    folder: PathBuf,
    storage: Storage,
}

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut destination = Destination::new(limits::STREAM_LARGE_BYTES)?;
    let place = Place {
        folder: session.corpus.folder().join("streams"),
        storage: Setup::default().storage()?,
    };
    make_folder(&place.folder)?;
    let chunks = session.size(CHUNKS.to_vec(), QUICK_CHUNKS.to_vec());
    for chunk in chunks {
        let (load, name) = (Load::new(chunk), size_name(chunk));
        memory::writes(session, &load, &name, &mut destination)?;
        memory::reads(session, &load, &name, &mut destination)?;
        files::all(session, &load, &name, &place, &mut destination)?;
    }
    let bulk = Load::new(limits::STREAM_BYTES);
    files::all(session, &bulk, "bulk", &place, &mut destination)?;
    disturb::run(session, &place, &mut destination)?;
    objects::run(session, &place, &mut destination)?;
    std::fs::remove_dir_all(&place.folder).on("remove", &place.folder)
}

/// A size as a case names it.
fn size_name(len: usize) -> String {
    match len {
        _ if len.is_multiple_of(1 << 20) => format!("{}M", len >> 20),
        _ if len.is_multiple_of(1 << 10) => format!("{}K", len >> 10),
        _ => len.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::session::Options;
    use crate::workload::{Workload, run};

    #[test]
    fn every_contender_moves_every_byte_in_every_case() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            quick: true,
            runs: Some(1),
            corpus: Some(folder.path().to_owned()),
            ..Options::default()
        };
        let report = run(&options, &[Workload::Streams]).unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        assert!(report.goals.len() > 10, "{:?}", report.goals);
    }
}
