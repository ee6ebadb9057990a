//! The bytes that a case of workload `streams` moves, and the calls that move them, for our traits
//! and for the standard library's.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use millstream_stream::{ReadStream, ReadTyped, WriteStream, WriteTyped};

use crate::prelude::*;

/// Bytes that a case moves, as in the study: 100,000 vectors of three floats.
const STREAM_BYTES: usize = 1_200_000;

/// The bytes that a case moves, and the size of its calls.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) chunk: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Load {
    /// Creates a load moved in calls of `chunk` bytes, or in one call.
    pub(crate) fn new(chunk: Option<usize>) -> Load {
        let chunk = chunk.unwrap_or(STREAM_BYTES);
        let len = if chunk > STREAM_BYTES / 4 && chunk != STREAM_BYTES {
            STREAM_LARGE_BYTES
        } else {
            STREAM_BYTES
        };
        let mut random = fastrand::Rng::with_seed(7);
        let bytes = (0..len).map(|_| random.u8(..)).collect();
        Load { chunk, bytes }
    }

    fn words(&self) -> &[[u8; 4]] {
        self.bytes.as_chunks().0
    }

    fn calls(&self) -> usize {
        self.bytes.len().div_ceil(self.chunk)
    }

    /// Returns the sum of the words, which readers of four bytes deliver.
    pub(crate) fn digest(&self) -> u64 {
        let words = self
            .words()
            .iter()
            .map(|word| u64::from(u32::from_le_bytes(*word)));
        words.fold(0, u64::wrapping_add)
    }

    /// Returns a signature of what was written, from its length and its last word: a sum of all
    /// words would cost as much as the write.
    pub(crate) fn sign_of(&self, bytes: &[u8]) -> u64 {
        let same_len = bytes.len() == self.bytes.len();
        let last = bytes.last_chunk::<4>().copied().unwrap_or_default();
        u64::from(u32::from_le_bytes(last)) << 1 | u64::from(same_len)
    }

    pub(crate) fn work(&self, digest: Option<u64>) -> Work {
        Work {
            digest,
            ..Work::of(self.bytes.len() as u64, self.calls())
        }
    }

    pub(crate) fn file(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("streams-{}", self.bytes.len()));
        std::fs::write(&path, &self.bytes).on("write", &path)?;
        sync(&path)?;
        Ok(path)
    }

    /// Checks that what was read is the load.
    pub(crate) fn check(&self, bytes: &[u8], work: &Work) -> Result<()> {
        let right = match work.digest {
            Some(sum) => sum == self.digest(),
            None => bytes == self.bytes,
        };
        ensure(right, "other bytes than the file's")
    }

    /// Makes the calls of a write: of words, if calls are of four bytes, or of slices.
    #[inline(always)]
    fn write_by<W>(
        &self,
        out: &mut W,
        word: impl Fn(&mut W, &[u8; 4]) -> Result<()>,
        slice: impl Fn(&mut W, &[u8]) -> Result<()>,
    ) -> Result<()> {
        match self.chunk {
            4 => self.words().iter().try_for_each(|it| word(out, it)),
            size => self.bytes.chunks(size).try_for_each(|it| slice(out, it)),
        }
    }

    /// Makes the calls of a read; returns the sum of the words, if calls are of four bytes.
    #[inline(always)]
    fn read_by<R>(
        &self,
        input: &mut R,
        into: &mut [u8],
        word: impl Fn(&mut R) -> Result<u32>,
        slice: impl Fn(&mut R, &mut [u8]) -> Result<()>,
    ) -> Result<Work> {
        if self.chunk == 4 {
            let mut sum = 0u64;
            for _ in 0..self.calls() {
                sum = sum.wrapping_add(u64::from(word(input)?));
            }
            return Ok(self.work(Some(sum)));
        }
        for chunk in into[..self.bytes.len()].chunks_mut(self.chunk) {
            slice(input, chunk)?;
        }
        Ok(self.work(None))
    }

    #[inline(never)]
    pub(crate) fn write<W: WriteStream>(&self, out: &mut W) -> Result<()> {
        let word = |out: &mut W, word: &[u8; 4]| Ok(out.write_u32_le(u32::from_le_bytes(*word))?);
        self.write_by(out, word, |out, chunk| Ok(out.write_slice(chunk)?))
    }

    #[inline(never)]
    pub(crate) fn read<R: ReadStream>(&self, input: &mut R, into: &mut [u8]) -> Result<Work> {
        let word = |input: &mut R| Ok(input.read_u32_le()?);
        self.read_by(input, into, word, |input, it| Ok(input.read_slice(it)?))
    }

    #[inline(never)]
    pub(crate) fn std_write<W: Write>(&self, out: &mut W) -> Result<()> {
        let word = |out: &mut W, word: &[u8; 4]| out.write_all(word).what("write");
        self.write_by(out, word, |out, it| out.write_all(it).what("write"))
    }

    #[inline(never)]
    pub(crate) fn std_read<R: Read>(&self, input: &mut R, into: &mut [u8]) -> Result<Work> {
        let word = |input: &mut R| {
            let mut word = [0; 4];
            input.read_exact(&mut word).what("read")?;
            Ok(u32::from_le_bytes(word))
        };
        self.read_by(input, into, word, |input, it| {
            input.read_exact(it).what("read")
        })
    }
}

pub(crate) fn sync(path: &Path) -> Result<()> {
    open_buffered(path)?.sync_all().on("fsync", path)
}
