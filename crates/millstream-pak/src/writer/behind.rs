//! Direct writes of gathered memory by a thread of their own, so that the disk works while the next
//! memory is filled: a direct write returns when the disk has it.
//!
//! There are two pieces of memory: one is written while the other is filled. Writes are one after
//! the other, in the order of the file. The flag of direct writes is one of the open file, which
//! the caller lent; it is taken away at the end, and before a write that the file system or a disk
//! of larger blocks refused is repeated through the cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::output::{Memory, failed};
use crate::error::Result;

/// Memory that is to be written: so many bytes of it, to that offset.
struct Job {
    memory: Memory,
    bytes: usize,
    offset: u64,
}

/// What became of one.
struct Done {
    memory: Memory,
    offset: u64,
    written: io::Result<()>,
}

/// See the module.
pub(super) struct Behind {
    /// `None` when no more is to come.
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    in_flight: usize,
    /// Of the same open file as the caller's.
    file: File,
    /// What flags it had.
    own_flags: OFlags,
}

impl Behind {
    /// `None` where there are no direct writes.
    pub(super) fn new(file: &File) -> Option<Behind> {
        let own_flags = fcntl_getfl(file).ok()?;
        // A file that is direct already is its owner's affair: not all that follows is aligned.
        if own_flags.contains(OFlags::DIRECT) {
            return None;
        }
        let (ours, theirs) = (file.try_clone().ok()?, file.try_clone().ok()?);
        let (jobs, to_write) = sync_channel::<Job>(1);
        let (to_us, done) = sync_channel(1);
        let serve = move || {
            while let Ok(job) = to_write.recv() {
                let written = write(&theirs, own_flags, &job);
                let (memory, offset) = (job.memory, job.offset);
                let done = Done {
                    memory,
                    offset,
                    written,
                };
                if to_us.send(done).is_err() {
                    return;
                }
            }
        };
        let builder = std::thread::Builder::new().name(String::from("pack write"));
        let thread = builder.spawn(serve).ok()?;
        let behind = Behind {
            jobs: Some(jobs),
            done,
            thread: Some(thread),
            in_flight: 0,
            file: ours,
            own_flags,
        };
        fcntl_setfl(file, own_flags | OFlags::DIRECT).ok()?;
        Some(behind)
    }

    /// Hands memory over, and gives back what was written before it, if there was any. Waits while
    /// that is being written.
    ///
    /// # Errors
    /// That could not be written.
    pub(super) fn write(
        &mut self,
        memory: Memory,
        bytes: usize,
        offset: u64,
    ) -> Result<Option<Memory>> {
        let before = self.wait()?;
        let job = Job {
            memory,
            bytes,
            offset,
        };
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        assert!(matches!(sent, Some(Ok(()))), "the thread waits for jobs");
        self.in_flight += 1;
        Ok(before)
    }

    /// Waits for what is being written.
    fn wait(&mut self) -> Result<Option<Memory>> {
        if self.in_flight == 0 {
            return Ok(None);
        }
        self.in_flight -= 1;
        let done = self.done.recv().expect("the thread answers each job");
        done.written.map_err(|error| failed(error, done.offset))?;
        Ok(Some(done.memory))
    }

    /// Waits for all, and gives the file its own flags back.
    ///
    /// # Errors
    /// Something could not be written.
    pub(super) fn finish(mut self) -> Result<()> {
        self.wait().map(|_| ())
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.jobs = None;
        // It may still have something to say.
        let _ = self.wait();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // After the last write; what stays direct is only slower.
        let _ = fcntl_setfl(&self.file, self.own_flags);
    }
}

fn write(file: &File, own_flags: OFlags, job: &Job) -> io::Result<()> {
    let bytes = &job.memory.bytes()[..job.bytes];
    match file.write_all_at(bytes, job.offset) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            fcntl_setfl(file, own_flags)?;
            file.write_all_at(bytes, job.offset)
        }
        written => written,
    }
}
