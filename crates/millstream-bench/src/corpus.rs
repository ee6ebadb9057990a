//! The corpus: files made from a seed, written once, verified before use.
//!
//! Each file has a small record beside it (`NAME.json`) with the lengths and XXH3-64 hashes of the
//! stored and the decoded bytes. A file is used only if its content matches the hash in its record;
//! otherwise it is made again and replaced atomically: an interrupted benchmark never leaves half a
//! file behind. Two concurrent benchmarks may both make a file; both make the same one.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_codec::{CodecId, Scratch, default_level, encode_block};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Context, Result, ensure};
use crate::files::{make_folder, replace};

pub(crate) mod generate;

/// Version of the generator and the encoders, in the names of files.
const VERSION: u32 = 3;
/// The seed of every corpus, so that figures of different machines are for the same bytes.
const SEED: u64 = 0x4D49_4C4C;
/// Raw bytes of a block in the corpora that are cut into independent blocks. The engine's decode
/// jobs are of this size, and larger blocks improve the ratio by less than 1 %.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// A stored form, of two families: one stream, as the studies had it, in which nothing can be
/// decoded before everything ahead of it is; and consecutive independent blocks of [`BLOCK_BYTES`],
/// with a block table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    Stored,
    Zlib,
    Zstd,
    /// One frame whose blocks depend on one another.
    Lz4,
    ZlibBlocks,
    ZstdBlocks,
    Lz4Blocks,
}

impl Form {
    /// Returns the extension of its file, which is also its name in a case.
    pub(crate) fn name(self) -> &'static str {
        self.about().0
    }

    /// Returns the codec of the whole file as one stream; for independent blocks, of each block.
    pub(crate) fn codec(self) -> CodecId {
        self.about().1
    }

    fn about(self) -> (&'static str, CodecId) {
        match self {
            Form::Stored => ("stored", CodecId::STORED),
            Form::Zlib => ("zlib", CodecId::ZLIB),
            Form::Zstd => ("zstd", CodecId::ZSTD),
            Form::Lz4 => ("lz4", CodecId::LZ4),
            Form::ZlibBlocks => ("zlib-blocks", CodecId::ZLIB),
            Form::ZstdBlocks => ("zstd-blocks", CodecId::ZSTD),
            Form::Lz4Blocks => ("lz4-blocks", CodecId::LZ4_BLOCK),
        }
    }

    /// Returns the stored bytes, and the table of blocks if the form has blocks.
    fn encode(self, raw: Vec<u8>) -> Result<(Vec<u8>, Vec<BlockSpan>)> {
        let (codec, mut scratch) = (self.codec(), Scratch::default());
        let (mut out, mut blocks) = (Vec::new(), Vec::new());
        match self {
            Form::Stored => return Ok((raw, blocks)),
            Form::Lz4 => return Ok((linked_lz4(&raw)?, blocks)),
            Form::ZlibBlocks | Form::ZstdBlocks | Form::Lz4Blocks => {
                for block in raw.chunks(BLOCK_BYTES) {
                    let before = out.len();
                    encode_block(codec, default_level(codec), &mut scratch, block, &mut out)?;
                    blocks.push(BlockSpan {
                        stored_offset: before as u64,
                        stored_len: (out.len() - before) as u32,
                        raw_len: block.len() as u32,
                    });
                }
            }
            _ => encode_block(codec, default_level(codec), &mut scratch, &raw, &mut out)?,
        }
        Ok((out, blocks))
    }
}

/// Encodes one frame whose blocks depend on one another, which the engine's encoder does not make.
fn linked_lz4(raw: &[u8]) -> Result<Vec<u8>> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new()
        .block_mode(BlockMode::Linked)
        .block_size(BlockSize::Max256KB)
        .content_size(Some(raw.len() as u64));
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    std::io::Write::write_all(&mut encoder, raw).what("lz4")?;
    encoder.finish().what("lz4")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockSpan {
    pub(crate) stored_offset: u64,
    pub(crate) stored_len: u32,
    pub(crate) raw_len: u32,
}

/// A verified file of the corpus; also its record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CorpusFile {
    #[serde(skip)]
    pub(crate) path: PathBuf,
    pub(crate) form: Form,
    pub(crate) stored_len: u64,
    pub(crate) raw_len: u64,
    stored_xxh3: u64,
    pub(crate) raw_xxh3: u64,
    pub(crate) blocks: Vec<BlockSpan>,
}

impl CorpusFile {
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<()> {
        ensure(
            xxh3_64(bytes) == self.raw_xxh3,
            &format!("other bytes than {} has", self.path.display()),
        )
    }
}

pub(crate) struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    /// Opens the corpus in `folder`, creating it if need be; by default a folder below the system's
    /// folder for temporary files.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Corpus> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => std::env::temp_dir().join("millstream-bench-corpus"),
        };
        make_folder(&folder)?;
        Ok(Corpus { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file of `raw_len` generated bytes in `form`, verified or made.
    pub(crate) fn big(&self, raw_len: u64, form: Form) -> Result<CorpusFile> {
        let name = format!("big-{VERSION}-{raw_len}.{}", form.name());
        file(self.folder.join(name), SEED, raw_len, form)
    }

    /// Returns `count` stored files of log-normal size, verified or made.
    pub(crate) fn small(&self, count: usize) -> Result<Vec<CorpusFile>> {
        let folder = self.folder.join(format!("small-{VERSION}-{count}"));
        make_folder(&folder)?;
        let sizes = generate::small_sizes(SEED, count);
        let small = |(index, size): (usize, &u64)| {
            // Names in mixed case and of realistic length for assets, which the study's
            // case-folding lookups had to handle.
            let name = format!("Textures_Level{:02}_Asset{index:04}.Bin", index % 40);
            let seed = SEED + 1 + index as u64;
            file(folder.join(name), seed, *size, Form::Stored)
        };
        sizes.iter().enumerate().map(small).collect()
    }
}

fn file(path: PathBuf, seed: u64, raw_len: u64, form: Form) -> Result<CorpusFile> {
    let record = record_path(&path);
    let file = match verified(&path, &record) {
        Some(file) => file,
        None => make(&path, &record, seed, raw_len, form)?,
    };
    Ok(CorpusFile { path, ..file })
}

fn record_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

/// Returns the file if it is the one of its record; otherwise it must be made.
fn verified(path: &Path, record: &Path) -> Option<CorpusFile> {
    let record: CorpusFile = serde_json::from_slice(&fs::read(record).ok()?).ok()?;
    (xxh3_64(&fs::read(path).ok()?) == record.stored_xxh3).then_some(record)
}

fn make(path: &Path, record: &Path, seed: u64, raw_len: u64, form: Form) -> Result<CorpusFile> {
    let mut raw = vec![0; usize::try_from(raw_len)?];
    generate::fill(seed, &mut raw);
    let raw_xxh3 = xxh3_64(&raw);
    let (bytes, blocks) = form.encode(raw)?;
    let made = CorpusFile {
        path: PathBuf::new(),
        form,
        stored_len: bytes.len() as u64,
        raw_len,
        stored_xxh3: xxh3_64(&bytes),
        raw_xxh3,
        blocks,
    };
    // Written one after the other: a record that does not match its file only causes the file to be
    // made again.
    replace(path, &bytes)?;
    replace(record, &serde_json::to_vec(&made)?)?;
    Ok(made)
}

/// Sums the little-endian 64-bit words (the last one padded with zeros). A contender that only
/// touches a mapping computes it, so that its pass over the bytes can be checked and is not
/// optimized away.
pub(crate) fn word_sum(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    words.iter().fold(u64::from_le_bytes(last), |sum, word| {
        sum.wrapping_add(u64::from_le_bytes(*word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_again_and_a_damaged_one_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let modified = |file: &CorpusFile| fs::metadata(&file.path).unwrap().modified().unwrap();
        let first = corpus.big(300_000, Form::ZstdBlocks).unwrap();
        let at = modified(&first);
        let again = corpus.big(300_000, Form::ZstdBlocks).unwrap();
        assert_eq!((modified(&again), &again.blocks), (at, &first.blocks));
        let raw_lens = first.blocks.iter().map(|block| u64::from(block.raw_len));
        assert_eq!((first.blocks.len(), raw_lens.sum()), (2, 300_000u64));

        let good = corpus.big(100_000, Form::Stored).unwrap();
        let content = fs::read(&good.path).unwrap();
        good.check(&content).unwrap();
        let mut flipped = content.clone();
        flipped[50_000] ^= 1;
        for bad in [&flipped[..], &content[..99_999], &[]] {
            assert!(good.check(bad).is_err());
            fs::write(&good.path, bad).unwrap();
            corpus.big(100_000, Form::Stored).unwrap();
            assert!(fs::read(&good.path).unwrap() == content);
        }
        for record in ["", "{}", "[1,2", "{\"generator_version\":1}"] {
            fs::write(record_path(&good.path), record).unwrap();
            let made = corpus.big(100_000, Form::Stored).unwrap();
            assert_eq!(made.raw_xxh3, good.raw_xxh3);
        }
    }

    #[test]
    fn words_are_summed_with_the_tail() {
        assert_eq!(word_sum(&[]), 0);
        assert_eq!(word_sum(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 1]), 1 + 2 + 256);
    }
}
