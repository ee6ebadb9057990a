//! Checksums of a model's files: XXH3-64 (seed 0) of each MiB, against damage, which workers
//! compare with what is read; and BLAKE3 of each file, against forgery.
//!
//! A file of checksums, with numbers in little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8, 4 | `mstsums1`; number of files, which follow in the byte order of their names |
//! | each file | length (8), BLAKE3 (32), length of the name (4), name without folders |
//! | each file | XXH3-64 of each MiB and of the rest (8 each) |
//! | 32 | root: BLAKE3 of all bytes before |
//! | 0 or 96 | Ed25519 public key, and its signature of [`SIGNED_PREFIX`] and the root |

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use millstream::{BlockTable, CodecId, Decode, Error, ErrorKind, FileId, Read};
use xxhash_rust::xxh3::xxh3_64;

use crate::cursor::{Cursor, Step, Stop};
use crate::error::{failed, in_file};
use crate::limits::{CHECKED_BYTES, CHECKSUMS_BYTES_MAX, FILES_MAX};

const MAGIC: &[u8; 8] = b"mstsums1";

/// Precedes the root in a signed message, so that the signature is valid for nothing else.
pub const SIGNED_PREFIX: &[u8; 16] = b"mst sums root v1";

/// The checksums of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChecksums {
    name: Vec<u8>,
    /// Length of the file in bytes.
    bytes: u64,
    pub(crate) blake3: [u8; 32],
    blocks: Vec<u64>,
}

/// Hashes a file, of which it is given reads of whole blocks in order.
#[derive(Default)]
pub(crate) struct FileHasher {
    blocks: Vec<u64>,
    blake3: blake3::Hasher,
}

impl FileHasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.blake3.update(bytes);
        let blocks = bytes.chunks(CHECKED_BYTES as usize);
        self.blocks.extend(blocks.map(xxh3_64));
    }

    pub(crate) fn finish(self, path: &Path, bytes: u64) -> Arc<FileChecksums> {
        Arc::new(FileChecksums {
            name: name_of(path).to_vec(),
            bytes,
            blake3: self.blake3.finalize().into(),
            blocks: self.blocks,
        })
    }
}

impl FileChecksums {
    /// Returns a request for bytes of the file, which the storage knows as `id`. It reads the
    /// blocks that have any of them; a worker compares each with its checksum. A range past the end
    /// of the file fails.
    pub fn request(&self, id: FileId, offset: u64, len: u64) -> Read {
        let end = offset.saturating_add(len);
        if len == 0 {
            return Read::range(id, offset, len);
        }
        let first = offset.min(self.bytes) / CHECKED_BYTES * CHECKED_BYTES;
        let last = end.div_ceil(CHECKED_BYTES).saturating_mul(CHECKED_BYTES);
        let last = last.min(self.bytes);
        let mut table = BlockTable::new();
        let blocks = &self.blocks[(first / CHECKED_BYTES) as usize..];
        let begins = (first..last).step_by(CHECKED_BYTES as usize);
        for (begin, checksum) in begins.zip(blocks) {
            let stored = begin - first..(begin + CHECKED_BYTES).min(last) - first;
            // Fits: a block has at most a MiB.
            let block_bytes = (stored.end - stored.start) as u32;
            table.push(CodecId::STORED, stored, block_bytes);
            table.checksum(*checksum);
        }
        if (first, last) != (offset, end) {
            table = table.trim(offset - first, len);
        }
        Read::range(id, first, last - first).decode(Decode::table(table))
    }
}

/// The checksums of the files of a model; see [`Model::hash`](crate::Model::hash).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checksums {
    files: Vec<Arc<FileChecksums>>,
    root: [u8; 32],
    /// The public key and its signature of [`SIGNED_PREFIX`] and the root, not verified.
    pub signature: Option<([u8; 32], [u8; 64])>,
}

impl Checksums {
    /// Returns the number of files that have checksums.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn new(mut files: Vec<Arc<FileChecksums>>) -> Checksums {
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Checksums {
            root: blake3::hash(&body(&files)).into(),
            files,
            signature: None,
        }
    }

    /// Reads a file of checksums. Blocks.
    ///
    /// # Errors
    /// That of the file; `WrongFormat` for another file; `Corrupt` for a damaged one, and one whose
    /// fields contradict each other.
    pub fn read(path: &Path) -> Result<Checksums, Error> {
        let mut bytes = Vec::new();
        let most = CHECKSUMS_BYTES_MAX + 1;
        // Which waits for no writer of a FIFO.
        let file = millstream_io::fs::file::open(path);
        let read = file.and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|error| in_file(Error::from_os("read", &error), path))?;
        Checksums::parse(&bytes).map_err(|error| in_file(error, path))
    }

    /// Parses a file of checksums.
    ///
    /// # Errors
    /// As [`Checksums::read`].
    pub fn parse(bytes: &[u8]) -> Result<Checksums, Error> {
        let len = bytes.len() as u64;
        if !bytes.starts_with(MAGIC) || len > CHECKSUMS_BYTES_MAX {
            let cause = "the file is not a file of checksums";
            return Err(failed(ErrorKind::WrongFormat, cause, 0, len));
        }
        let mut cursor = Cursor::new(bytes, len);
        parse(&mut cursor).map_err(|stop| match stop {
            // At the end of the file nothing is left; the offset alone says where that is.
            Stop::Failed(error) => {
                let (offset, len) = (error.offset(), error.len().max(1));
                error.at(None, offset, len)
            }
            Stop::Needs(_) => unreachable!("all bytes are given"),
        })
    }

    /// Returns the file's bytes, with a signature if there is one.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&body(&self.files)[..], &self.root].concat();
        if let Some((public_key, signature)) = &self.signature {
            bytes.extend(public_key.iter().chain(signature));
        }
        bytes
    }

    /// Returns the root, which covers every checksum.
    #[must_use]
    pub fn root(&self) -> &[u8; 32] {
        &self.root
    }

    /// Returns the checksums of the file of this name and length.
    ///
    /// # Errors
    /// `NotFound` if there are none of this name, and `Corrupt` if its length is another: they are
    /// of another model.
    pub fn file(&self, path: &Path, bytes: u64) -> Result<&Arc<FileChecksums>, Error> {
        let name = name_of(path);
        let found = self.files.binary_search_by(|file| file.name[..].cmp(name));
        let (kind, cause) = match found.map(|index| &self.files[index]) {
            Ok(file) if file.bytes == bytes => return Ok(file),
            Ok(file) => {
                let expected = file.bytes;
                let cause = format!("the file has {bytes} bytes, but its checksums {expected}");
                (ErrorKind::Corrupt, cause)
            }
            Err(_) => {
                let cause = "the checksums are of another model: they have no such file";
                (ErrorKind::NotFound, String::from(cause))
            }
        };
        Err(in_file(failed(kind, cause, 0, bytes), path))
    }
}

/// Returns all bytes before the root.
fn body(files: &[Arc<FileChecksums>]) -> Vec<u8> {
    let mut body = Vec::from(*MAGIC);
    body.extend((files.len() as u32).to_le_bytes());
    for file in files {
        body.extend(file.bytes.to_le_bytes());
        body.extend(file.blake3);
        body.extend((file.name.len() as u32).to_le_bytes());
        body.extend(&file.name);
    }
    let blocks = files.iter().flat_map(|file| &file.blocks);
    body.extend(blocks.flat_map(|block| block.to_le_bytes()));
    body
}

fn name_of(path: &Path) -> &[u8] {
    path.file_name().unwrap_or_default().as_encoded_bytes()
}

fn parse(cursor: &mut Cursor<'_>) -> Step<Checksums> {
    cursor.take(MAGIC.len() as u64)?;
    let count = cursor.u32()?;
    if count as usize > FILES_MAX {
        return cursor.corrupt(4, format!("{count} files are more than {FILES_MAX}"));
    }
    let mut files: Vec<FileChecksums> = Vec::new();
    for _ in 0..count {
        let (bytes, blake3) = (cursor.u64()?, cursor.array()?);
        let name_bytes = u64::from(cursor.u32()?);
        let name = cursor.take(name_bytes)?.to_vec();
        if files.last().is_some_and(|last| last.name >= name) {
            let cause = "the names are not in byte order, or one appears twice";
            return cursor.corrupt(name_bytes, String::from(cause));
        }
        let blocks = Vec::new();
        files.push(FileChecksums {
            name,
            bytes,
            blake3,
            blocks,
        });
    }
    for file in &mut files {
        let blocks = cursor.take(file.bytes.div_ceil(CHECKED_BYTES).saturating_mul(8))?;
        let (blocks, _) = blocks.as_chunks::<8>();
        file.blocks = blocks.iter().map(|it| u64::from_le_bytes(*it)).collect();
    }
    let body = cursor.at;
    let root = cursor.array()?;
    if blake3::hash(&cursor.bytes[..body]) != root {
        return cursor.corrupt(32, String::from("the file does not match its own hash"));
    }
    let left = cursor.bytes.len() - cursor.at;
    let signature = match left {
        0 => None,
        96 => Some((cursor.array()?, cursor.array()?)),
        _ => return cursor.corrupt(0, format!("{left} bytes follow, but a signature has 96")),
    };
    Ok(Checksums {
        files: files.into_iter().map(Arc::new).collect(),
        root,
        signature,
    })
}
