//! The rivals on the bare ring: the study's eight outstanding direct blocks with a copy (or a
//! decoder) behind them, and the least there is: direct reads straight into the destination.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::rivals::PIECE_BYTES;
use super::sink::Sink;
use crate::case::{Case, Method, Work};
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::files::{DIRECT_ALIGNMENT, len_of, open_direct};
use crate::memory::Destination;
use crate::ring::{BareRing, ReadJob, ReadStyle};

/// The study's number of outstanding blocks.
const OUTSTANDING: usize = 8;

/// Eight outstanding direct blocks of 128 KiB, copied or decoded in order by the same thread.
pub(super) fn outstanding(file: &CorpusFile) -> Result<impl Method> {
    let mut ring = BareRing::new(OUTSTANDING)?;
    let mut buffers = Destination::new(PIECE_BYTES * OUTSTANDING)?;
    Ok(move |into: &mut Destination| {
        let fd = open_direct(&file.path)?;
        let raw = &mut into[..file.raw_len as usize];
        let mut sink = Sink::new(file.form.codec(), raw)?;
        let mut take = |piece: &[u8]| sink.take(piece);
        let buffers = &mut buffers[..PIECE_BYTES * OUTSTANDING];
        ring.read_in_order(
            fd.as_raw_fd(),
            file.stored_len,
            PIECE_BYTES,
            buffers,
            &mut take,
        )?;
        Ok(Work::of(sink.finish()?, 1))
    })
}

/// Direct reads of blocks, so many in flight, straight into the destination; the last one is asked
/// for up to the alignment.
pub(crate) struct Straight {
    path: PathBuf,
    len: u64,
    block: u64,
    depth: usize,
    ring: BareRing,
}

impl Straight {
    /// The first `len` bytes of a file in blocks of so many KiB.
    fn new(path: &Path, len: u64, block_kib: u64, depth: usize) -> Result<Straight> {
        Ok(Straight {
            path: path.to_owned(),
            len,
            block: block_kib << 10,
            depth,
            ring: BareRing::new(depth)?,
        })
    }

    /// A whole file in the shape that is best on devices of NVMe class: blocks of 512 KiB, eight
    /// in flight.
    pub(crate) fn device(path: &Path) -> Result<Straight> {
        Straight::new(path, len_of(path)?, 512, 8)
    }

    /// Adds it as a contender whose name says its shape: `ring-512Kx8`.
    pub(crate) fn add(case: &mut Case<'_>, name: &str, path: &Path, len: u64) {
        let shape = name
            .strip_prefix("ring-")
            .and_then(|it| it.split_once("Kx"));
        let (block, depth) = shape.expect("a name of cases.toml");
        let (block, depth) = (block.parse().unwrap_or(512), depth.parse().unwrap_or(8));
        let ring = Straight::new(path, len, block, depth);
        let flags = ring.as_ref().map_or("", |it| it.ring.flags());
        if let Some(contender) = case.try_push(name, ring) {
            contender.with("block_bytes", block << 10);
            contender.with("depth", depth).with("flags", flags);
        }
    }
}

impl Method for Straight {
    fn run(&mut self, into: &mut Destination) -> Result<Work> {
        let (fd, len) = (open_direct(&self.path)?, self.len);
        let job = |offset: u64| {
            let need = (len - offset).min(self.block);
            let asked = need.next_multiple_of(DIRECT_ALIGNMENT) as usize;
            ReadJob {
                need: need as u32,
                ..ReadJob::new(offset, offset as usize, asked)
            }
        };
        let jobs: Vec<ReadJob> = (0..len).step_by(self.block as usize).map(job).collect();
        let style = ReadStyle::plain(self.depth);
        self.ring.read_all(fd.as_raw_fd(), &jobs, into, style)?;
        Ok(Work::of(len, 1))
    }
}
