//! The rivals on the bare ring: the study's eight outstanding direct blocks with a copy (or a
//! decoder) behind them, and the least there is: direct reads straight into the destination.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use super::sink::Sink;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::rows::Params;

/// The study's block and its number of outstanding ones.
const STUDY_BLOCK_BYTES: usize = 128 << 10;
const STUDY_OUTSTANDING: usize = 8;
/// Alignment of offsets and lengths of direct reads: a page suits every block size up to it.
pub(crate) const DIRECT_ALIGNMENT: u64 = 4096;

/// Opens for reading past the page cache.
pub(crate) fn open_direct(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
        .map_err(|error| Error::file("open for direct reads", path, error))
}

/// Opens for reading through the page cache.
pub(crate) fn open_buffered(path: &Path) -> Result<OwnedFd> {
    File::open(path)
        .map(OwnedFd::from)
        .map_err(|error| Error::file("open", path, error))
}

/// Eight outstanding direct blocks of 128 KiB, copied or decoded in order by the same thread.
pub(crate) struct Outstanding {
    file: CorpusFile,
    ring: BareRing,
    buffers: Destination,
}

impl Outstanding {
    pub(crate) fn new(file: &CorpusFile) -> Result<Outstanding> {
        Ok(Outstanding {
            file: file.clone(),
            ring: BareRing::new(STUDY_OUTSTANDING)?,
            buffers: Destination::new(STUDY_BLOCK_BYTES * STUDY_OUTSTANDING)?,
        })
    }
}

impl Contender for Outstanding {
    fn name(&self) -> String {
        "async-8".into()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let fd = open_direct(&self.file.path)?;
        let raw = &mut destination[..self.file.raw_len as usize];
        let mut sink = Sink::new(self.file.form.codec(), raw)?;
        let mut buffers: Vec<&mut [u8]> = self
            .buffers
            .chunks_mut(STUDY_BLOCK_BYTES)
            .take(STUDY_OUTSTANDING)
            .collect();
        let stored_len = self.file.stored_len;
        self.ring
            .read_in_order(fd.as_raw_fd(), stored_len, &mut buffers, &mut |piece| {
                sink.take(piece)
            })?;
        Ok(Work {
            bytes: sink.finish()?,
            requests: 1,
            ..Work::default()
        })
    }
}

/// Direct reads of `block` bytes, `depth` in flight, straight into the destination.
pub(crate) struct Straight {
    file: CorpusFile,
    ring: BareRing,
    block: usize,
    depth: usize,
}

impl Straight {
    pub(crate) fn new(file: &CorpusFile, block: usize, depth: usize) -> Result<Straight> {
        Ok(Straight {
            file: file.clone(),
            ring: BareRing::new(depth)?,
            block,
            depth,
        })
    }
}

/// The bytes of any file at the device's rate: blocks of 512 KiB, eight in flight.
pub(crate) struct Device(Straight);

/// See [`Device`].
pub(crate) fn device(path: &Path, len: u64) -> Result<Device> {
    let file = CorpusFile::stored(path, len, 0);
    Straight::new(&file, 512 << 10, 8).map(Device)
}

impl Contender for Device {
    fn name(&self) -> String {
        "device".into()
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        self.0.run(destination)
    }
}

impl Contender for Straight {
    fn name(&self) -> String {
        format!("ring-{}Kx{}", self.block >> 10, self.depth)
    }

    fn params(&self) -> Params {
        Params::from([
            ("block_bytes".into(), self.block.into()),
            ("depth".into(), self.depth.into()),
            ("flags".into(), self.ring.flags().into()),
        ])
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let fd = open_direct(&self.file.path)?;
        let jobs = jobs_of(self.file.stored_len, self.block);
        let style = ReadStyle {
            depth: self.depth,
            ..ReadStyle::default()
        };
        self.ring
            .read_all(&[fd.as_raw_fd()], &jobs, destination, style)?;
        Ok(Work {
            bytes: self.file.stored_len,
            requests: 1,
            ..Work::default()
        })
    }
}

/// A whole file in blocks; the last one is asked for up to the alignment.
fn jobs_of(len: u64, block: usize) -> Vec<ReadJob> {
    (0..len.div_ceil(block as u64))
        .map(|index| {
            let offset = index * block as u64;
            let need = (len - offset).min(block as u64);
            ReadJob {
                file: 0,
                offset,
                place: offset as usize,
                len: need.next_multiple_of(DIRECT_ALIGNMENT) as u32,
                need: need as u32,
            }
        })
        .collect()
}
