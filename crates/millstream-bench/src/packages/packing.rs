//! Packing beside the codec alone.
//!
//! The contender encodes the same blocks on as many threads, each into one buffer that it uses over
//! and over, and throws them away. Packing does more: it looks for equal contents, hashes raw bytes
//! (BLAKE3) and stored ones (XXH3), and writes them in order into a file, on the same cores;
//! `millstream-synced` also waits until the file is on the disk, and renames it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream::CodecId;
use millstream_codec::Scratch;
use millstream_pak::Coding;

use super::codings::{FILES, QUICK_FILES, inputs, items};
use crate::case::{Case, Work};
use crate::error::{Context, Result};
use crate::files::remove;
use crate::memory::Destination;
use crate::packages::batch::{BLOCK_BYTES, FIXED, RATE, WORKLOAD, options};
use crate::session::Session;
use crate::together;

/// Named contents.
type Inputs = Arc<Vec<(String, Arc<[u8]>)>>;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let files = session.size(FILES, QUICK_FILES);
    let mut made = Inputs::default();
    for (word, codec) in FIXED {
        let name = format!("pack {files} files {word}");
        if codec == CodecId::STORED {
            continue;
        }
        let Some(mut case) = session.begin(WORKLOAD, name) else {
            continue;
        };
        if made.is_empty() {
            made = Arc::new(inputs(files));
        }
        add_contenders(&mut case, folder, codec, &made);
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}

fn add_contenders(case: &mut Case<'_>, folder: &Path, codec: CodecId, inputs: &Inputs) {
    let raw: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
    let rate = move |seconds: f64| Work::figures(vec![(RATE, raw as f64 / 1e6 / seconds)]);
    let coding = Coding::Fixed(codec);
    let (path, of) = (folder.join("packing.mpak"), Arc::clone(inputs));
    case.add("millstream", move |_| {
        let these = items(&of);
        let file = File::create(&path).on("make", &path)?;
        let begun = Instant::now();
        millstream_pak::write(these, &options(coding), &file)?;
        let seconds = begun.elapsed().as_secs_f64();
        // The next one makes a new file: neither what this left unwritten nor its end is its work.
        file.sync_all().on("sync", &path)?;
        remove(&path)?;
        Ok(rate(seconds))
    });
    let (path, of) = (folder.join("packing-synced.mpak"), Arc::clone(inputs));
    case.add("millstream-synced", move |_| {
        let these = items(&of);
        let begun = Instant::now();
        millstream_pak::write_file(these, &options(coding), &path)?;
        let seconds = begun.elapsed().as_secs_f64();
        remove(&path)?;
        Ok(rate(seconds))
    });
    let of = Arc::clone(inputs);
    case.add("codec", move |_| Ok(rate(codec_alone(codec, &of)?)));
}

/// Seconds that the codec takes on all cores for the same blocks.
fn codec_alone(codec: CodecId, inputs: &[(String, Arc<[u8]>)]) -> Result<f64> {
    let blocks = inputs
        .iter()
        .flat_map(|(_, bytes)| bytes.chunks(BLOCK_BYTES));
    let level = millstream_codec::default_level(codec);
    let state = || (Scratch::default(), Vec::new());
    let encode = |(scratch, out): &mut (Scratch, Vec<u8>), block: &[u8]| {
        out.clear();
        millstream_codec::encode_block(codec, level, scratch, block, out)?;
        Ok(())
    };
    Ok(together::each(together::cores(), blocks, state, encode)?.wall)
}
