//! The file that is being written, from some offset on: bytes are gathered and written in order.
//!
//! A long package that is synced next is written past the page cache. Through it, allocating pages,
//! copying and writeback take two cores a seventh of the time of packing with a fast codec, the
//! sync at the end waits for the disk half as long again, and other data are evicted. With direct
//! writes the disk works while the cores encode: to a disk of 1.3 GB/s, a package with LZ4 was
//! written and synced at 1.5 GB/s of raw bytes, through the cache at 1.0. The package is not cached
//! then, so a short one, which is likely to be opened next, goes through the cache.
//!
//! Direct writes need offsets, lengths and memory that are multiples of a logical block. The first
//! offset and the package's length are multiples of 4096, and each write but the last is as long as
//! the memory. The flag of direct writes belongs to the open file, which is the caller's: it is
//! cleared at the end, and before a write that the file system, or a disk of larger blocks, refused
//! is repeated through the cache.

use std::fs::File;
use std::io;
use std::path::Path;

use millstream_io::fs::file::{is_direct, set_direct, write_all_at};

use crate::error::{Error, Result};
use crate::limits::{
    PACK_DIRECT_BYTES_MIN, PACK_DIRECT_WRITE_BYTES, PACK_WRITE_AT_ONCE_BYTES, PACK_WRITE_BYTES,
};

/// Alignment of the memory of direct writes.
const PAGE_BYTES: usize = 4096;

const _: () = assert!(PACK_WRITE_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(PACK_DIRECT_WRITE_BYTES.is_multiple_of(PAGE_BYTES));

/// Gathers bytes and writes them in order.
pub(super) struct Output<'a> {
    file: &'a File,
    /// Aligned to 4096 from `skip` on.
    memory: Vec<u8>,
    skip: usize,
    /// Bytes of the memory that are to be written.
    gathered: usize,
    /// Their offset in the file.
    written: u64,
    /// Whether writes go past the page cache.
    direct: bool,
}

impl<'a> Output<'a> {
    /// Starts writing at `start`, a multiple of 4096. Direct writes are used if `bytes`, about how
    /// many may go past the page cache, is large.
    pub(super) fn new(file: &'a File, start: u64, bytes: u64) -> Output<'a> {
        assert!(start.is_multiple_of(PAGE_BYTES as u64), "a page begins");
        // Not for a file that is direct already: not all writes that follow are aligned.
        let direct = bytes >= PACK_DIRECT_BYTES_MIN
            && matches!(is_direct(file), Ok(false))
            && set_direct(file, true).is_ok();
        let memory_bytes = match direct {
            true => PACK_DIRECT_WRITE_BYTES,
            false => PACK_WRITE_BYTES,
        };
        let memory = vec![0; memory_bytes + PAGE_BYTES];
        Output {
            file,
            skip: memory.as_ptr().align_offset(PAGE_BYTES),
            memory,
            gathered: 0,
            written: start,
            direct,
        }
    }

    /// Returns the offset in the file of the next byte.
    pub(super) fn end(&self) -> u64 {
        self.written + self.gathered as u64
    }

    /// Returns the memory after what is gathered.
    fn room(&mut self) -> &mut [u8] {
        let end = self.memory.len() - PAGE_BYTES + self.skip;
        &mut self.memory[self.skip + self.gathered..end]
    }

    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        if !self.direct && bytes.len() >= PACK_WRITE_AT_ONCE_BYTES {
            self.flush()?;
            self.write(bytes, self.written)?;
            self.written += bytes.len() as u64;
            return Ok(());
        }
        while !bytes.is_empty() {
            let room = self.room();
            let (now, rest) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            bytes = rest;
            self.take(now.len())?;
        }
        Ok(())
    }

    /// Appends zeros up to a multiple of `align`.
    pub(super) fn pad(&mut self, align: u64) -> Result<()> {
        let mut zeros = (self.end().next_multiple_of(align) - self.end()) as usize;
        while zeros > 0 {
            let room = self.room();
            let now = zeros.min(room.len());
            room[..now].fill(0);
            zeros -= now;
            self.take(now)?;
        }
        Ok(())
    }

    /// Adds bytes that were put into [`Output::room`] to the gathered ones, and writes full memory.
    fn take(&mut self, bytes: usize) -> Result<()> {
        self.gathered += bytes;
        match self.room() {
            [] => self.flush(),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let gathered = &self.memory[self.skip..][..self.gathered];
        match write_all_at(self.file, gathered, self.written) {
            Err(error) if self.direct && error.kind() == io::ErrorKind::InvalidInput => {
                self.end_direct()?;
                return self.flush();
            }
            written => written.map_err(|error| failed(error, self.written))?,
        }
        self.written += self.gathered as u64;
        self.gathered = 0;
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_all_at(self.file, bytes, offset).map_err(|error| failed(error, offset))
    }

    /// Clears the flag of direct writes, if this set it.
    fn end_direct(&mut self) -> Result<()> {
        match std::mem::take(&mut self.direct) {
            true => set_direct(self.file, false).map_err(|error| failed(error, self.written)),
            false => Ok(()),
        }
    }

    /// Writes what is gathered, then these pieces, each at its offset, through the cache, since
    /// tables are read next. Returns the file's length.
    pub(super) fn finish(mut self, pieces: &[(&[u8], u64)]) -> Result<u64> {
        self.flush()?;
        self.end_direct()?;
        for &(bytes, offset) in pieces {
            self.write(bytes, offset)?;
        }
        Ok(self.written)
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        // Needed only after an error, when the file's content is undefined anyway.
        let _ = self.end_direct();
    }
}

fn failed(error: io::Error, offset: u64) -> Error {
    Error::io(Path::new(""), "write the package", error).at(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_direct(file: &File) -> bool {
        millstream_io::fs::file::is_direct(file).unwrap()
    }

    /// Appends pieces of all lengths and paddings; returns what the file must then hold.
    fn fill(output: &mut Output<'_>, seed: u64, start: u64, bytes: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut want = vec![0; start as usize];
        while want.len() < bytes {
            let len = match random.u8(..4) {
                0 => random.usize(..64),
                1 => 4096 * random.usize(..4),
                _ => random.usize(..PACK_DIRECT_WRITE_BYTES / 3),
            };
            let piece: Vec<u8> = (0..len).map(|at| (at as u64 * seed / 7) as u8).collect();
            output.append(&piece).unwrap();
            want.extend(piece);
            let align = [16, 16, 4096][random.usize(..3)];
            output.pad(align).unwrap();
            want.resize(want.len().next_multiple_of(align as usize), 0);
            assert_eq!(output.end(), want.len() as u64, "seed {seed}");
        }
        output.pad(4096).unwrap();
        want.resize(want.len().next_multiple_of(4096), 0);
        want
    }

    #[test]
    fn what_is_appended_lies_in_the_file_whichever_way_it_was_written() {
        for (seed, bytes) in [(3, 0), (5, 3 << 20), (11, PACK_DIRECT_BYTES_MIN)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let file = File::create(&path).unwrap();
            let start = 8192;
            let mut output = Output::new(&file, start, bytes);
            if bytes >= PACK_DIRECT_BYTES_MIN && !is_direct(&file) {
                println!("SKIP: no direct writes in {}", folder.path().display());
            }
            let total = (bytes as usize).max(1 << 20) + 12_345;
            let mut want = fill(&mut output, seed, start, total);
            let len = output.finish(&[(b"head", 0), (b"table", 4090)]).unwrap();
            assert!(!is_direct(&file));
            want[..4].copy_from_slice(b"head");
            want[4090..4095].copy_from_slice(b"table");
            assert_eq!(len, want.len() as u64);
            assert!(std::fs::read(&path).unwrap() == want, "seed {seed}");
        }
    }

    #[test]
    fn a_refused_direct_write_goes_through_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let mut output = Output::new(&file, 0, PACK_DIRECT_BYTES_MIN);
        if !output.direct {
            println!("SKIP: no direct writes in {}", folder.path().display());
            return;
        }
        // Not a multiple of any block, as on a disk whose blocks are longer than a page.
        for byte in [7, 8, 9] {
            output.append(&[byte; 1000]).unwrap();
            output.flush().unwrap();
        }
        assert_eq!(output.finish(&[]).unwrap(), 3000);
        assert!(!is_direct(&file));
        let want = [[7; 1000], [8; 1000], [9; 1000]].concat();
        assert!(std::fs::read(&path).unwrap() == want);
    }
}
