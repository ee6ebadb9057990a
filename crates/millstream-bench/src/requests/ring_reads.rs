//! The bare ring on the grid of requests: registered file and destination, without registering,
//! and with every read pushed off to a helper thread of the kernel.

use std::os::fd::{AsRawFd, OwnedFd};

use super::{Cell, Mode};
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::read::{open_buffered, open_direct};
use crate::ring::{BareRing, ReadJob, ReadStyle};
use crate::rows::Params;

/// Variants of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Registered file and buffers: the least processor time.
    Registered,
    /// Nothing registered.
    Plain,
    /// `IOSQE_ASYNC`: several cores copy page-cache hits.
    Offloaded,
}

impl Style {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Style::Registered => "ring",
            Style::Plain => "ring-plain",
            Style::Offloaded => "ring-async",
        }
    }

    /// The variants that make sense in a cell: pushing off pays for large copies out of the cache
    /// only.
    pub(crate) fn of(cell: Cell) -> Vec<Style> {
        let mut styles = vec![Style::Registered, Style::Plain];
        if cell.mode == Mode::Warm && cell.size >= 64 << 10 {
            styles.push(Style::Offloaded);
        }
        styles
    }
}

/// The ring.
pub(crate) struct RingReads {
    fd: OwnedFd,
    ring: BareRing,
    jobs: Vec<ReadJob>,
    depth: usize,
    style: Style,
}

impl RingReads {
    pub(crate) fn new(
        file: &CorpusFile,
        cell: Cell,
        jobs: &[ReadJob],
        style: Style,
    ) -> Result<RingReads> {
        Ok(RingReads {
            fd: open_for(file, cell.mode)?,
            ring: BareRing::new(cell.depth)?,
            jobs: jobs.to_vec(),
            depth: cell.depth,
            style,
        })
    }
}

/// Opens a file the way a mode reads it.
pub(super) fn open_for(file: &CorpusFile, mode: Mode) -> Result<OwnedFd> {
    match mode {
        Mode::Direct => open_direct(&file.path),
        Mode::Cold | Mode::Warm => open_buffered(&file.path),
    }
}

impl Contender for RingReads {
    fn name(&self) -> String {
        self.style.name().into()
    }

    fn params(&self) -> Params {
        Params::from([("flags".into(), self.ring.flags().into())])
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let style = ReadStyle {
            depth: self.depth,
            registered: self.style == Style::Registered,
            offload: self.style == Style::Offloaded,
        };
        let files = [self.fd.as_raw_fd()];
        let span = self.ring.read_all(&files, &self.jobs, destination, style)?;
        Ok(Work {
            bytes: self.jobs.iter().map(|job| u64::from(job.len)).sum(),
            requests: self.jobs.len() as u64,
            span: Some(span),
            ..Work::default()
        })
    }
}
