//! Packing beside the codec alone.
//!
//! The contender encodes the same blocks on as many threads, each into one buffer that it uses over
//! and over, and throws them away. Packing does more: it looks for equal contents, hashes raw bytes
//! (BLAKE3) and stored ones (XXH3), and writes them in order into a file, on the same cores;
//! `millstream-synced` also waits until the file is on the disk, and renames it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream::CodecId;
use millstream_codec::Scratch;
use millstream_pak::{Coding, PackOptions};

use super::codings::{FILES, QUICK_FILES, inputs, items};
use super::{FIXED, RATE, WORKLOAD, row};
use crate::error::{Error, Result};
use crate::ours::failed;
use crate::workload::Session;

/// Bytes of the blocks that packing makes of entries of such a length.
const BLOCK_BYTES: usize = 256 << 10;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let files = session.size(FILES, QUICK_FILES);
    let mut made = Vec::new();
    for (word, codec) in FIXED {
        let case = format!("pack {files} files {word}");
        if codec == CodecId::STORED || !session.wants(&case) {
            continue;
        }
        if made.is_empty() {
            made = inputs(files);
        }
        session.say(&format!("{WORKLOAD}: {case}"));
        one(session, folder, &case, codec, &made)?;
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    folder: &Path,
    case: &str,
    codec: CodecId,
    inputs: &[(String, Arc<[u8]>)],
) -> Result<()> {
    let raw: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
    let rate = |seconds: f64| raw as f64 / 1e6 / seconds;
    let path = folder.join("packing.mpak");
    let options = PackOptions {
        coding: Coding::Fixed(codec),
        ..PackOptions::default()
    };
    let (mut ours, mut synced, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=session.runs() {
        let these = items(inputs);
        let file = std::fs::File::create(&path).map_err(|it| Error::file("make", &path, it))?;
        let begun = Instant::now();
        millstream_pak::write(these, &options, &file).map_err(|error| failed(&error))?;
        ours.push(rate(begun.elapsed().as_secs_f64()));
        // The next one makes a new file: neither what this left unwritten nor its end is its work.
        file.sync_all()
            .map_err(|it| Error::file("sync", &path, it))?;
        drop(file);
        std::fs::remove_file(&path).map_err(|it| Error::file("remove", &path, it))?;
        let these = items(inputs);
        let begun = Instant::now();
        millstream_pak::write_file(these, &options, &path).map_err(|error| failed(&error))?;
        synced.push(rate(begun.elapsed().as_secs_f64()));
        alone.push(rate(codec_alone(codec, inputs)?));
    }
    let removed = std::fs::remove_file(&path);
    removed.map_err(|error| Error::file("remove", &path, error))?;
    session.keep(vec![
        row(case, "millstream", RATE, ours.split_off(1)),
        row(case, "millstream-synced", RATE, synced.split_off(1)),
        row(case, "codec", RATE, alone.split_off(1)),
    ])
}

/// Seconds that the codec takes on all cores for the same blocks.
fn codec_alone(codec: CodecId, inputs: &[(String, Arc<[u8]>)]) -> Result<f64> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let blocks: Vec<&[u8]> = inputs
        .iter()
        .flat_map(|(_, bytes)| bytes.chunks(BLOCK_BYTES))
        .collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let level = millstream_codec::default_level(codec);
    let work = || -> Result<()> {
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        while let Some(block) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
            out.clear();
            let encoded =
                millstream_codec::encode_block(codec, level, &mut scratch, block, &mut out);
            encoded.map_err(|error| failed(&error))?;
        }
        Ok(())
    };
    Ok(crate::together::timed(threads, &work)?.wall)
}
