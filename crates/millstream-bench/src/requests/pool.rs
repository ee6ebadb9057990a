//! A pool of threads in `pread`: what most programs have. With one thread it is the plain
//! sequential reader.
//!
//! Threads take the next requests off a shared counter, a few at a time.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Cell;
use super::ring_reads::open_for;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::ring::ReadJob;
use crate::rows::Params;
use crate::together;

/// Requests that a thread takes at a time: enough that the counter is not fought for, few enough
/// that no thread is left with a tail.
const TAKE_COUNT: usize = 4;

/// The pool.
pub(crate) struct PreadPool {
    fd: OwnedFd,
    jobs: Vec<ReadJob>,
    threads: usize,
}

impl PreadPool {
    pub(crate) fn new(
        file: &CorpusFile,
        cell: Cell,
        jobs: &[ReadJob],
        threads: usize,
    ) -> Result<PreadPool> {
        Ok(PreadPool {
            fd: open_for(file, cell.mode)?,
            jobs: jobs.to_vec(),
            threads,
        })
    }
}

/// Reads one request fully into its place.
pub(crate) fn pread(fd: &OwnedFd, job: &ReadJob, into: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < job.need as usize {
        match rustix::io::pread(fd, &mut into[done..], job.offset + done as u64) {
            Ok(0) => return Err(Error::new(format!("the file ends in {job:?}"))),
            Ok(read) => done += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("pread", error)),
        }
    }
    Ok(())
}

impl Contender for PreadPool {
    fn name(&self) -> String {
        match self.threads {
            1 => "pread".into(),
            threads => format!("pread-{threads}"),
        }
    }

    fn params(&self) -> Params {
        Params::from([("threads".into(), self.threads.into())])
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let size = self.jobs.first().map_or(1, |job| job.len as usize);
        // Places follow each other in the order of the jobs, so pieces of the destination belong
        // to pieces of the list.
        let pieces: Vec<Mutex<(&[ReadJob], &mut [u8])>> = self
            .jobs
            .chunks(TAKE_COUNT)
            .zip(destination.chunks_mut(TAKE_COUNT * size))
            .map(Mutex::new)
            .collect();
        let next = AtomicUsize::new(0);
        let fd = &self.fd;
        let span = together::timed(self.threads, &|| serve(fd, size, &pieces, &next))?;
        Ok(Work {
            bytes: (self.jobs.len() * size) as u64,
            requests: self.jobs.len() as u64,
            span: Some(span),
            ..Work::default()
        })
    }
}

fn serve(
    fd: &OwnedFd,
    size: usize,
    pieces: &[Mutex<(&[ReadJob], &mut [u8])>],
    next: &AtomicUsize,
) -> Result<()> {
    while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
        // Nobody else ever takes this piece; the lock only hands it over.
        let mut piece = piece.lock().unwrap_or_else(|poison| poison.into_inner());
        let (jobs, memory) = &mut *piece;
        for (job, into) in jobs.iter().zip(memory.chunks_mut(size)) {
            pread(fd, job, into)?;
        }
    }
    Ok(())
}
