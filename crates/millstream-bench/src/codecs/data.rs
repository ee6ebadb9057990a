//! What is decoded and encoded: made of each kind, and found in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::corpus::generate::Kind;
use crate::error::{Context, Result};
use crate::files::walk;
use crate::limits::CODEC_CORPUS_BYTES_MIN;

/// Raw bytes of one kind.
pub(crate) struct Raw {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

const SEED: u64 = 0x6364_6563;

/// Corpora from a seed, so many bytes each.
pub(crate) fn made(bytes: usize) -> Vec<Raw> {
    let make = |kind: Kind| Raw {
        name: format!("made {}", kind.name()),
        bytes: kind.made(SEED, bytes),
    };
    Kind::ALL.into_iter().map(make).collect()
}

/// Kinds of files by their endings. What is packed already (PNG, Ogg, archives) is none of these.
const KINDS: [(&str, &str); 5] = [
    ("tga-wav-md3", "tga wav md3"),
    ("meshes", "spm b3d obj glb ply"),
    // Decoded pixels without a header.
    ("textures", "rgba rgb bgra gray"),
    ("dds", "dds ktx ktx2"),
    (
        "source",
        "c h cc cpp hpp rs py js java go glsl frag vert shader",
    ),
];

/// Corpora from files below `folder`, up to so many bytes each: of every kind that there is enough
/// of, some of every file rather than all of a few.
pub(crate) fn found(folder: &Path, bytes: usize) -> Result<Vec<Raw>> {
    let files = walk(folder)?;
    let mut corpora = Vec::new();
    for (name, endings) in KINDS {
        let of_kind = files.iter().filter(|file| has_ending(file, endings));
        let sample = sample(&of_kind.collect::<Vec<_>>(), bytes)?;
        if sample.len() >= CODEC_CORPUS_BYTES_MIN {
            corpora.push(Raw {
                name: name.to_owned(),
                bytes: sample,
            });
        }
    }
    Ok(corpora)
}

fn has_ending(file: &Path, endings: &str) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    let mut endings = endings.split(' ');
    ending.is_some_and(|ending| endings.any(|it| ending.eq_ignore_ascii_case(it)))
}

/// Up to `bytes` of these files: of each as large a piece as gives all of them a part. Where that
/// leaves less than `bytes`, files being short, a second round with larger pieces would repeat
/// their beginnings; the corpus is smaller then.
fn sample(files: &[&PathBuf], bytes: usize) -> Result<Vec<u8>> {
    /// Below that a piece would be all header.
    const PIECE_BYTES_MIN: usize = 64 << 10;
    let mut raw = Vec::new();
    let piece = (bytes / files.len().max(1)).max(PIECE_BYTES_MIN);
    // With more files than pieces, every so many-th: no kind of name is favoured.
    let step = (files.len() * piece / bytes.max(1)).max(1);
    let in_turn = (0..step).flat_map(|start| files.iter().skip(start).step_by(step));
    for path in in_turn {
        if raw.len() >= bytes {
            break;
        }
        let content = fs::read(path).on("read", path)?;
        raw.extend_from_slice(&content[..content.len().min(piece)]);
    }
    raw.truncate(bytes);
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_ending_and_all_of_a_kind_have_a_part() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        for number in 0..40_u8 {
            let name = format!("{number}.{}", if number % 2 == 0 { "TGA" } else { "md3" });
            fs::write(deep.join(name), vec![number; 70_000]).unwrap();
        }
        fs::write(folder.path().join("music.ogg"), vec![1; 2 << 20]).unwrap();
        fs::write(folder.path().join("small.c"), "int x;").unwrap();
        let corpora = found(folder.path(), 1 << 20).unwrap();
        assert_eq!((corpora.len(), &*corpora[0].name), (1, "tga-wav-md3"));
        assert_eq!(corpora[0].bytes.len(), 1 << 20);
        let has = |number: &u8| corpora[0].bytes.contains(number);
        let kinds = |parity: u8| (parity..40).step_by(2).filter(has).count();
        assert!(kinds(0) > 3 && kinds(1) > 3);
        let error = found(Path::new("/no/such/folder"), 1 << 20).err().unwrap();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}
