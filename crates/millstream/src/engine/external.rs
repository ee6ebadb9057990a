//! External blocks of tables: blocking calls read their stored bytes, then they are jobs like
//! others. A base file on a mount that hangs thus stops no worker.
//!
//! The calls are of the crew for code (`Call::Run`), which has as many threads as the one for
//! opens: in that one, cold reads would delay opens; that of short calls has two threads, and reads
//! of many blocks would wait for one another; saves may take seconds.
//!
//! - A call has memory of its own. Its task stays here, so that a request that ends takes its tasks
//!   back while the source hangs; the call's answer is then dropped.
//! - `limits::EXTERNAL_BYTES_MAX` bounds what is being read, and what was read and waits for a
//!   worker: hung sources never take all threads of the crew, and reads do not run ahead of
//!   decoding. What the application keeps (jobs of its job system and codecs) is not counted,
//!   because it may wait for other blocks. The others wait by priority.
//! - Tasks here are among the jobs of their requests, but not in the bound `limits::JOBS_MAX`: a
//!   hung source stops no request without external blocks. All sources share one bound, so it may
//!   stop those of other sources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use millstream_io::device::calls::Call;

use super::Engine;
use super::calls::Entry;
use super::columns::is_known;
use super::finish::canceled_by_close;
use crate::decode::external::{ExternalBytes, Share};
use crate::decode::jobs::{JobTask, guarded};
use crate::decode::spec::BlockSource;
use crate::error::{Error, ErrorKind};
use crate::handover::park::StorageThread;
use crate::limits;
use crate::priority::{Priority, PriorityLists};
use crate::sync::{Mutex, lock};

/// External blocks whose bytes are not in memory yet.
#[derive(Default)]
pub(super) struct Externals {
    waiting: PriorityLists<JobTask>,
    /// By the id of the call.
    reads: BTreeMap<u64, Read>,
    /// Tasks that wait or are being read.
    tasks: usize,
    /// Sum of the shares.
    bytes: Arc<AtomicU64>,
    /// A request has ended since the tasks were last looked through.
    pub(super) any_ended: bool,
}

/// Set by a call that was made, and not canceled.
type Answer = Arc<Mutex<Option<Result<Vec<u8>, Error>>>>;

struct Read {
    /// `None`: its request has ended.
    task: Option<JobTask>,
    share: Share,
    result: Answer,
}

impl Engine {
    /// Takes external blocks out of the new jobs and starts reading, as far as the bound allows;
    /// returns whether anything was done.
    pub(super) fn read_externals(&mut self) -> bool {
        let externals = &mut self.externals;
        for task in self.new_jobs.extract_if(.., |task| task.unread().is_some()) {
            externals.tasks += 1;
            externals.waiting.push(task.priority, task);
        }
        let mut worked = self.drop_ended();
        while self.externals.bytes.load(Ordering::Relaxed) < limits::EXTERNAL_BYTES_MAX
            && let Some(task) = self.externals.waiting.pop()
        {
            worked = true;
            self.read_external(task);
        }
        self.staging.unread = self.externals.tasks;
        worked
    }

    fn read_external(&mut self, task: JobTask) {
        let (source, offset, len) = task.unread().expect("waiting tasks were not read");
        let source = Arc::clone(source);
        let share = Share::of(&self.externals.bytes, len);
        let result = Answer::default();
        let place = Arc::clone(&result);
        let run = move || *lock(&place) = Some(read(source.as_ref(), offset, len));
        let id = self.calls.add(Entry::External);
        let urgent = task.priority >= Priority::High;
        self.lanes.call(id, urgent, Call::Run(Box::new(run)));
        let read = Read {
            task: Some(task),
            share,
            result,
        };
        self.externals.reads.insert(id, read);
    }

    /// Takes a call's answer: the task becomes a job for workers, which reports a failed read.
    pub(super) fn external_answered(&mut self, id: u64) {
        let read = self.externals.reads.remove(&id);
        let read = read.expect("the call of an external block has an entry");
        let Some(mut task) = read.task else {
            return;
        };
        self.externals.tasks -= 1;
        let result = lock(&read.result).take();
        let result = result.unwrap_or_else(|| Err(canceled_by_close()));
        let is_kept = self.shared.options.job_system.is_some() || task.may_be_kept();
        let share = (!is_kept).then_some(read.share);
        task.set_external(result.map(|bytes| Arc::new(ExternalBytes::new(bytes, share))));
        task.queued = Instant::now();
        self.new_jobs.push(task);
    }

    /// Gives up tasks of requests that have ended; returns whether there were any.
    fn drop_ended(&mut self) -> bool {
        if !std::mem::take(&mut self.externals.any_ended) || self.externals.tasks == 0 {
            return false;
        }
        let cols = &self.cols;
        let has_ended = |task: &mut JobTask| {
            let index = task.request.index() as usize;
            !is_known(cols, task.request) || cols[index].ending.is_some()
        };
        let mut ended = self.externals.waiting.extract(has_ended);
        let reads = self.externals.reads.values_mut();
        ended.extend(reads.filter_map(|read| read.task.take_if(has_ended)));
        self.externals.tasks -= ended.len();
        let any = !ended.is_empty();
        for task in ended {
            self.job_back(task.canceled());
        }
        any
    }
}

/// Reads the `len` stored bytes of a block into fresh memory. May block.
fn read(source: &dyn BlockSource, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let _on = StorageThread::enter();
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(len).is_err() {
        let cause = "no memory for a block of another file";
        return Err(Error::new(ErrorKind::OutOfMemory, cause));
    }
    bytes.resize(len, 0);
    guarded(|| source.read_at(offset, &mut bytes))?;
    Ok(bytes)
}
