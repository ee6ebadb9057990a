//! What each kind of resource shrinks to, and how fast one core decodes it, codec by codec.
//!
//! Blocks have 256 KiB, as in packages; one that a codec does not shrink is stored, as there, and
//! decoding it is a copy. Made kinds are block-compressed textures, vertices, plain sounds and
//! text; of real folders, files are taken by their ending and as they are, so what a picture or a
//! sound has been packed with already stays.

use std::path::Path;
use std::time::Instant;

use fastrand::Rng;
use millstream::CodecId;
use millstream_codec::{Scratch, decode_block, default_level, encode_block};
use millstream_pak::Item;

use super::folder::real_folders;
use crate::case::{Case, Work};
use crate::codecs::data;
use crate::corpus::generate::{CHUNK_BYTES, Kind};
use crate::error::{Error, Result};
use crate::files::remove;
use crate::limits;
use crate::memory::Destination;
use crate::packages::batch::{BLOCK_BYTES, FIXED, SIZE, UNTHROTTLED_MBPS, WORKLOAD, auto, options};
use crate::rows::Metric;
use crate::session::Session;

/// Raw bytes that one core decodes in a second.
const DECODE: Metric = Metric::higher("decode", "MB/s");
const SEED: u64 = 0x6B69_6E64;
/// Kinds of resources by the endings of their files.
const ENDINGS: [(&str, &[&str]); 4] = [
    (
        "textures",
        &["dds", "ktx", "ktx2", "tga", "png", "jpg", "jpeg"],
    ),
    (
        "meshes",
        &[
            "spm", "md3", "b3d", "obj", "glb", "ply", "pmd", "psa", "dae",
        ],
    ),
    ("audio", &["ogg", "wav", "opus", "mp3", "flac"]),
    (
        "text",
        &[
            "xml", "json", "txt", "js", "po", "cfg", "glsl", "frag", "vert", "shader",
        ],
    ),
];

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let bytes = session.size(limits::CODEC_CORPUS_BYTES, limits::QUICK_CODEC_CORPUS_BYTES);
    let mut destination = Destination::new(bytes)?;
    for (kind, _) in ENDINGS {
        if let Some(case) = session.begin(WORKLOAD, format!("kind {kind}")) {
            one(session, folder, case, &made(kind, bytes), &mut destination)?;
        }
    }
    for real in real_folders(session) {
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        if !session.wants(&format!("kind {name}")) {
            continue;
        }
        for corpus in data::of_kinds(&real, bytes, &ENDINGS)? {
            let case = format!("kind {name} {}", corpus.name);
            let case = Case::new(WORKLOAD, case, session.runs());
            one(session, folder, case, &corpus.raw, &mut destination)?;
        }
    }
    Ok(())
}

fn one<'a>(
    session: &mut Session<'_>,
    folder: &Path,
    mut case: Case<'a>,
    raw: &'a [u8],
    destination: &mut Destination,
) -> Result<()> {
    for (word, codec) in FIXED {
        let blocks = encoded(codec, raw)?;
        let stored: usize = blocks.iter().map(|(_, stored)| stored.len()).sum();
        let (len, mut scratch) = (raw.len(), Scratch::default());
        case.add(format!("millstream-{word}"), move |into| {
            let begun = Instant::now();
            for ((codec, stored), raw) in blocks.iter().zip(into[..len].chunks_mut(BLOCK_BYTES)) {
                decode_block(*codec, &mut scratch, stored, raw)?;
            }
            let rate = len as f64 / 1e6 / begun.elapsed().as_secs_f64();
            let share = stored as f64 / len as f64;
            Ok(Work::figures(vec![(SIZE, share), (DECODE, rate)]).with_digest(0))
        });
    }
    let share = auto_share(folder, raw)?;
    case.add("millstream", move |_| {
        Ok(Work::figures(vec![(SIZE, share)]))
    });
    case.check(raw.len(), move |bytes, work| match work.digest {
        Some(_) if bytes != raw => Err(Error::new("other bytes than were encoded")),
        _ => Ok(()),
    });
    session.run(case, destination).map(drop)
}

/// Blocks as one codec stores them; those that it does not shrink are stored as they are.
fn encoded(codec: CodecId, raw: &[u8]) -> Result<Vec<(CodecId, Vec<u8>)>> {
    let mut scratch = Scratch::default();
    let encode = |raw: &[u8]| {
        let mut stored = Vec::new();
        encode_block(codec, default_level(codec), &mut scratch, raw, &mut stored)?;
        if codec == CodecId::STORED || stored.len() >= raw.len() {
            return Ok((CodecId::STORED, raw.to_vec()));
        }
        Ok((codec, stored))
    };
    raw.chunks(BLOCK_BYTES).map(encode).collect()
}

/// What a package with `auto` has of the raw bytes, its tables among it.
fn auto_share(folder: &Path, raw: &[u8]) -> Result<f64> {
    let path = folder.join("kind.mpak");
    let items = vec![Item::from_bytes("kind", raw)];
    let options = options(auto(UNTHROTTLED_MBPS));
    let report = millstream_pak::write_file(items, &options, &path)?;
    remove(&path)?;
    Ok(report.file_bytes as f64 / raw.len() as f64)
}

fn made(kind: &str, bytes: usize) -> Vec<u8> {
    let mut raw = vec![0; bytes];
    let mut random = Rng::with_seed(SEED);
    for chunk in raw.chunks_mut(CHUNK_BYTES) {
        match kind {
            "textures" => texture(&mut random, chunk),
            "audio" => sound(&mut random, chunk),
            "meshes" => Kind::Vertices.fill(&mut random, chunk),
            _ => Kind::Text.fill(&mut random, chunk),
        }
    }
    raw
}

/// Blocks of BC1: two colours that wander from block to block, and two bits for each of 16 texels,
/// which of smooth blocks are one of a few patterns.
fn texture(random: &mut Rng, chunk: &mut [u8]) {
    let patterns: Vec<u32> = (0..64).map(|_| random.u32(..)).collect();
    let (mut light, mut dark) = (random.u16(..), random.u16(..));
    for block in chunk.chunks_exact_mut(8) {
        if random.u8(..) < 160 {
            light = light.wrapping_add(random.u16(..4) * 0x21);
            dark = dark.wrapping_sub(random.u16(..4) * 0x21);
        }
        let texels = match random.u8(..10) {
            0..6 => patterns[random.usize(..patterns.len())],
            6..8 => 0,
            _ => random.u32(..),
        };
        block[..2].copy_from_slice(&light.to_le_bytes());
        block[2..4].copy_from_slice(&dark.to_le_bytes());
        block[4..].copy_from_slice(&texels.to_le_bytes());
    }
}

/// Samples of 16 bits for two ears: three tones that fade, and the noise of a room.
fn sound(random: &mut Rng, chunk: &mut [u8]) {
    let tones = [0; 3].map(|_| (random.f32() * 0.2 + 0.005, random.f32() * 5000.0));
    for (nth, frame) in chunk.chunks_exact_mut(4).enumerate() {
        let at = nth as f32;
        let fade = (-at / 20_000.0).exp();
        let tone = |(pitch, loud): (f32, f32)| (at * pitch).sin() * loud * fade;
        let both: f32 = tones.into_iter().map(tone).sum();
        for (ear, bytes) in frame.chunks_exact_mut(2).enumerate() {
            let noise = (random.f32() - 0.5) * 40.0;
            let sample = (both * (1.0 - 0.2 * ear as f32) + noise) as i16;
            bytes.copy_from_slice(&sample.to_le_bytes());
        }
    }
}
