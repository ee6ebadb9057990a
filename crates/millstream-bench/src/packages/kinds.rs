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
use millstream_pak::{Item, PackOptions};

use super::codings::UNTHROTTLED_MBPS;
use super::{FIXED, SIZE, WORKLOAD, auto, row};
use crate::codecs::data;
use crate::corpus::generate::{CHUNK_BYTES, Kind};
use crate::error::{Error, Result};
use crate::limits;
use crate::ours::failed;
use crate::rows::Metric;
use crate::workload::Session;

/// Raw bytes that one core decodes in a second.
pub(crate) const DECODE: Metric = Metric::higher("decode", "MB/s");

/// Bytes of a block.
const BLOCK_BYTES: usize = 256 << 10;
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
    let bytes = limits::CODEC_CORPUS_BYTES;
    for kind in ENDINGS.map(|(kind, _)| kind) {
        let case = format!("kind {kind}");
        if session.wants(&case) {
            one(session, folder, &case, &made(kind, bytes))?;
        }
    }
    let root = session.corpus.folder().join("packages");
    let Ok(list) = std::fs::read_dir(&root) else {
        return Ok(());
    };
    let mut folders: Vec<_> = list.flatten().map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    for real in folders {
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        if !session.wants(&format!("kind {name}")) {
            continue;
        }
        for corpus in data::of_kinds(&real, bytes, &ENDINGS)? {
            let case = format!("kind {name} {}", corpus.name);
            one(session, folder, &case, &corpus.raw)?;
        }
    }
    Ok(())
}

/// Blocks as one codec stores them.
struct Coded {
    word: &'static str,
    blocks: Vec<(CodecId, Vec<u8>)>,
    rates: Vec<f64>,
}

fn one(session: &mut Session<'_>, folder: &Path, case: &str, raw: &[u8]) -> Result<()> {
    session.say(&format!("{WORKLOAD}: {case}"));
    let mut scratch = Scratch::default();
    let coded = FIXED.map(|(word, codec)| coded(word, codec, raw, &mut scratch));
    let mut all: Vec<Coded> = coded.into_iter().collect::<Result<_>>()?;
    let mut out = vec![0; BLOCK_BYTES];
    for round in 0..=session.runs() {
        for coded in &mut all {
            let begun = Instant::now();
            for (block, raw) in coded.blocks.iter().zip(raw.chunks(BLOCK_BYTES)) {
                let decoded = decode_block(block.0, &mut scratch, &block.1, &mut out[..raw.len()]);
                decoded.map_err(|error| failed(&error))?;
            }
            let rate = raw.len() as f64 / 1e6 / begun.elapsed().as_secs_f64();
            // The round ahead is not counted; its bytes are compared.
            if round > 0 {
                coded.rates.push(rate);
            } else {
                check(coded, raw, &mut scratch)?;
            }
        }
    }
    let mut rows = Vec::new();
    for coded in all {
        let who = format!("millstream-{}", coded.word);
        let bytes: usize = coded.blocks.iter().map(|(_, bytes)| bytes.len()).sum();
        let share = bytes as f64 / raw.len() as f64;
        rows.push(row(case, &who, SIZE, vec![share]));
        rows.push(row(case, &who, DECODE, coded.rates));
    }
    let share = auto_share(folder, raw)?;
    rows.push(row(case, "millstream", SIZE, vec![share]));
    session.keep(rows)
}

fn coded(word: &'static str, codec: CodecId, raw: &[u8], scratch: &mut Scratch) -> Result<Coded> {
    let encode = |raw: &[u8]| {
        let mut stored = Vec::new();
        let encoded = encode_block(codec, default_level(codec), scratch, raw, &mut stored);
        encoded.map_err(|error| failed(&error))?;
        if codec == CodecId::STORED || stored.len() >= raw.len() {
            return Ok((CodecId::STORED, raw.to_vec()));
        }
        Ok((codec, stored))
    };
    let blocks = raw.chunks(BLOCK_BYTES).map(encode);
    Ok(Coded {
        word,
        blocks: blocks.collect::<Result<_>>()?,
        rates: Vec::new(),
    })
}

fn check(coded: &Coded, raw: &[u8], scratch: &mut Scratch) -> Result<()> {
    let mut out = vec![0; BLOCK_BYTES];
    for ((codec, stored), raw) in coded.blocks.iter().zip(raw.chunks(BLOCK_BYTES)) {
        let decoded = decode_block(*codec, scratch, stored, &mut out[..raw.len()]);
        let len = decoded.map_err(|error| failed(&error))?;
        if out[..len] != *raw {
            return Err(Error::new(format!("{} gives other bytes", coded.word)));
        }
    }
    Ok(())
}

/// What a package with `auto` has of the raw bytes, its tables among it.
fn auto_share(folder: &Path, raw: &[u8]) -> Result<f64> {
    let path = folder.join("kind.mpak");
    let options = PackOptions {
        coding: auto(UNTHROTTLED_MBPS),
        ..PackOptions::default()
    };
    let items = vec![Item::from_bytes("kind", raw)];
    let packed = millstream_pak::write_file(items, &options, &path);
    let report = packed.map_err(|error| failed(&error))?;
    std::fs::remove_file(&path).map_err(|error| Error::file("remove", &path, error))?;
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
