//! What each kind of resource shrinks to, and how fast one core decodes it, codec by codec.
//!
//! Blocks have 256 KiB, as in packages; one that a codec does not shrink is stored, as there, and
//! decoding it is a copy. Made kinds are block-compressed textures, vertices, plain sounds and
//! text; of real folders, files are taken by their ending and as they are, so what a picture or a
//! sound has been packed with already stays.

use std::path::{Path, PathBuf};

use millstream::CodecId;
use millstream_codec::{Scratch, decode_block, default_level, encode_block};
use millstream_pak::Item;

use super::batch::{BLOCK_BYTES, auto, codec_of, options, size_of};
use crate::case::Work;
use crate::cases::{Bytes, Instance};
use crate::codecs::data::{self, Kinds};
use crate::corpus::generate::Kind;
use crate::error::{Result, ensure};
use crate::files::remove;
use crate::memory::Destination;
use crate::session::Session;

const SEED: u64 = 0x6B69_6E64;
/// Kinds of resources by the endings of their files.
const ENDINGS: &Kinds = &[
    ("textures", "dds ktx ktx2 tga png jpg jpeg"),
    ("meshes", "spm md3 b3d obj glb ply pmd psa dae"),
    ("audio", "ogg wav opus mp3 flac"),
    ("text", "xml json txt js po cfg glsl frag vert shader"),
];

pub(super) fn run(
    session: &mut Session<'_>,
    folder: &Path,
    real: &[(String, PathBuf)],
) -> Result<()> {
    for instance in session.cases("packages", "kind") {
        let bytes: Bytes = instance.get("bytes");
        let kind = match &*instance.get::<String>("kind") {
            "textures" => Kind::Textures,
            "meshes" => Kind::Vertices,
            "audio" => Kind::Audio,
            _ => Kind::Text,
        };
        one(session, folder, &instance, &kind.made(SEED, bytes.len()))?;
    }
    for (name, path) in real {
        for instance in session.cases_with("packages", "kind-real", "name", [name.as_str()]) {
            let (kind, bytes): (String, Bytes) = (instance.get("kind"), instance.get("bytes"));
            let of_kind = ENDINGS.iter().filter(|(name, _)| *name == kind);
            let of_kind: Vec<_> = of_kind.copied().collect();
            for raw in data::of_kinds(path, bytes.len(), &of_kind)? {
                one(session, folder, &instance, &raw.bytes)?;
            }
        }
    }
    Ok(())
}

fn one(session: &mut Session<'_>, folder: &Path, instance: &Instance, raw: &[u8]) -> Result<()> {
    let mut case = session.begin(instance);
    for name in instance.contenders() {
        let Some(word) = name.strip_prefix("millstream-") else {
            let size = size_of(auto_bytes(folder, raw)?, raw.len() as u64);
            case.add(name, move |_| Ok(Work::figures(vec![size])));
            continue;
        };
        let (blocks, mut scratch) = (encoded(codec_of(word), raw)?, Scratch::default());
        let stored: usize = blocks.iter().map(|(_, stored)| stored.len()).sum();
        let size = size_of(stored as u64, raw.len() as u64);
        case.add(name, move |into| {
            let places = into[..raw.len()].chunks_mut(BLOCK_BYTES);
            for ((codec, stored), raw) in blocks.iter().zip(places) {
                decode_block(*codec, &mut scratch, stored, raw)?;
            }
            Ok(Work::of(raw.len() as u64, 1).with(vec![size]))
        });
    }
    case.check(raw.len(), |bytes, work| {
        let right = work.requests == 0 || bytes == raw;
        ensure(right, "other bytes than were encoded")
    });
    case.figures(|span, work| match work.requests {
        0 => Vec::new(),
        _ => {
            let decode = crate::metric::Metric::of("decode MB/s");
            vec![(decode, decode.figure(span, work.bytes, work.requests))]
        }
    });
    session
        .run(case, &mut Destination::new(raw.len())?)
        .map(drop)
}

/// Blocks as one codec stores them; those that it does not shrink are stored as they are.
fn encoded(codec: CodecId, raw: &[u8]) -> Result<Vec<(CodecId, Vec<u8>)>> {
    let mut scratch = Scratch::default();
    let encode = |raw: &[u8]| {
        let mut stored = Vec::new();
        encode_block(codec, default_level(codec), &mut scratch, raw, &mut stored)?;
        Ok(match stored.len() >= raw.len() {
            true => (CodecId::STORED, raw.to_vec()),
            false => (codec, stored),
        })
    };
    raw.chunks(BLOCK_BYTES).map(encode).collect()
}

/// Bytes of a package with `auto`, its tables among them.
fn auto_bytes(folder: &Path, raw: &[u8]) -> Result<u64> {
    let path = folder.join("kind.mpak");
    let items = vec![Item::from_bytes("kind", raw)];
    let report = millstream_pak::write_file(items, &options(auto(None)), &path)?;
    remove(&path)?;
    Ok(report.file_bytes)
}
