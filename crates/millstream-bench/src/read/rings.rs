//! The rivals on the bare ring: the study's eight outstanding direct blocks with a copy (or a
//! decoder) behind them, and the least there is: direct reads straight into the destination.

use std::os::fd::AsRawFd;
use std::path::Path;

use super::sink::Sink;
use crate::case::{Contender, Work};
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::files::{DIRECT_ALIGNMENT, open_direct};
use crate::memory::Destination;
use crate::ring::{BareRing, ReadJob, ReadStyle};

/// The study's block and its number of outstanding ones.
const STUDY_BLOCK_BYTES: usize = 128 << 10;
const STUDY_OUTSTANDING: usize = 8;

/// Eight outstanding direct blocks of 128 KiB, copied or decoded in order by the same thread.
pub(super) fn outstanding(file: &CorpusFile) -> Result<Contender> {
    let file = file.clone();
    let mut ring = BareRing::new(STUDY_OUTSTANDING)?;
    let mut buffers = Destination::new(STUDY_BLOCK_BYTES * STUDY_OUTSTANDING)?;
    let run = move |destination: &mut Destination| {
        let fd = open_direct(&file.path)?;
        let raw = &mut destination[..file.raw_len as usize];
        let mut sink = Sink::new(file.form.codec(), raw)?;
        let mut take = |piece: &[u8]| sink.take(piece);
        let (fd, window) = (fd.as_raw_fd(), STUDY_BLOCK_BYTES * STUDY_OUTSTANDING);
        let buffers = &mut buffers[..window];
        ring.read_in_order(fd, file.stored_len, STUDY_BLOCK_BYTES, buffers, &mut take)?;
        Ok(Work::of(sink.finish()?, 1))
    };
    Ok(Contender::new("async-8", run))
}

/// Direct reads of `block` bytes, `depth` in flight, straight into the destination; the last one
/// is asked for up to the alignment.
pub(crate) fn straight(path: &Path, len: u64, block: usize, depth: usize) -> Result<Contender> {
    let path = path.to_owned();
    let mut ring = BareRing::new(depth)?;
    let flags = ring.flags();
    let name = format!("ring-{}Kx{depth}", block >> 10);
    let job = move |offset: u64| {
        let need = (len - offset).min(block as u64);
        ReadJob {
            need: need as u32,
            ..ReadJob::new(
                offset,
                offset as usize,
                need.next_multiple_of(DIRECT_ALIGNMENT) as usize,
            )
        }
    };
    let run = move |destination: &mut Destination| {
        let fd = open_direct(&path)?;
        let jobs: Vec<ReadJob> = (0..len).step_by(block).map(job).collect();
        let style = ReadStyle {
            depth,
            ..ReadStyle::default()
        };
        ring.read_all(fd.as_raw_fd(), &jobs, destination, style)?;
        Ok(Work::of(len, 1))
    };
    let contender = Contender::new(name, run).with("block_bytes", block);
    Ok(contender.with("depth", depth).with("flags", flags))
}

/// The bytes of any file at the device's rate: blocks of 512 KiB, eight in flight.
pub(crate) fn device(path: &Path) -> Result<Contender> {
    let len = crate::files::len_of(path)?;
    let straight = straight(path, len, 512 << 10, 8)?;
    Ok(Contender {
        name: "device".into(),
        ..straight
    })
}
