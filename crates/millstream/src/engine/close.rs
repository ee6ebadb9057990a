//! The end of a storage, and of a device that breaks: what has not begun is canceled, what is out
//! is waited for, what does not come back is reported.
//!
//! By importance: nothing is freed early, the end comes in bounded time, nothing is leaked.

use std::time::Instant;

use millstream_io::error::guard;

use super::Engine;
use super::finish::canceled_by_close;
use crate::engine::state::{Event, State};
use crate::error::{Error, ErrorKind};
use crate::handover::mailbox::CloseReport;
use crate::handover::waiters::wake_all;

impl Engine {
    pub(super) fn begin_close(&mut self, deadline: Option<Instant>) {
        self.closing.get_or_insert(deadline);
        for queue in self.queues.indices() {
            self.close_queue(queue);
        }
        for index in self.live() {
            let flow = self.end_wanted(index, canceled_by_close());
            self.follow(index, flow);
        }
    }

    /// Slots of all live requests.
    fn live(&self) -> Vec<u32> {
        let cols = self.cols.iter().enumerate();
        let live = cols.filter(|(_, col)| col.state != State::Free);
        live.map(|(index, _)| index as u32).collect()
    }

    /// Takes no more from a queue; what it holds ends as canceled when it is taken in.
    fn close_queue(&mut self, queue: u32) {
        let shared = std::sync::Arc::clone(&self.queues.touch(queue).shared);
        shared.close();
        self.take_queue(&shared);
    }

    /// Ends the engine if nothing is out, or the deadline has passed; returns whether it did.
    pub(super) fn try_close(&mut self) -> bool {
        let Some(deadline) = self.closing else {
            return false;
        };
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let backlog = self.queues.next_backlog().is_some();
        let idle = self.is_idle() && self.cols.iter().all(|col| col.state == State::Free);
        if backlog || (!idle && !late) || !self.shared.end_mail() {
            return false;
        }
        let report = self.held();
        self.close_files();
        let left = self.abandon(deadline);
        self.settle();
        self.closed = true;
        self.workers.stop();
        self.shared.finish_close(report);
        // Their requests never end; a thread that waits for one finds the storage closed.
        let wakers = left
            .into_iter()
            .filter_map(|index| self.side.take_waker(index));
        wake_all(&mut wakers.collect());
        true
    }

    /// Closes every file that nothing uses; the calls are made before the lanes end.
    fn close_files(&mut self) {
        self.files.take_all(true);
        self.close_descriptors();
        self.push_all(true);
    }

    fn held(&self) -> CloseReport {
        let mut report = CloseReport {
            operations: self.transfers.out()
                + self.transfers.lost()
                + self.lanes.calls_out()
                + self.staging.jobs_out(),
            ..CloseReport::default()
        };
        let mut files: Vec<u32> = self.calls.files().collect();
        for (bytes, file) in self.transfers.held() {
            report.bytes += bytes;
            files.push(file);
        }
        // A lost operation does not keep its file.
        let paths = files.iter().filter_map(|file| self.files.path(*file));
        report.files = paths.map(std::path::Path::to_path_buf).collect();
        report.files.sort_unstable();
        report.files.dedup();
        report
    }

    /// Ends the lanes; what they do not give back is leaked. Requests whose memory is owned end as
    /// closed; those whose borrowed memory the system still holds never end, and are returned.
    fn abandon(&mut self, deadline: Option<Instant>) -> Vec<u32> {
        // Closing files gets a moment even if the deadline has passed: it hangs only where the
        // mount does.
        let grace = Instant::now() + std::time::Duration::from_millis(20);
        let until = deadline.map_or(grace, |deadline| deadline.max(grace));
        let (completions, answers) = (&mut self.completions, &mut self.answers);
        let held = self.lanes.shutdown(until, completions, answers);
        self.complete_all();
        self.answer_all();
        let mut left = Vec::new();
        for index in self.live() {
            let cause = "the storage was closed while the system held the request's memory";
            let error = Error::new(ErrorKind::Closed, cause);
            if self.cols[index as usize].is_out() && !self.try_quarantine(index, true) {
                left.push(index);
            } else {
                self.end_now(index, error);
            }
        }
        // Opens that were answered and operations that ended meanwhile left files open. On a mount
        // that can hang they stay so: this thread must come to its end.
        self.files.take_all(false);
        for (descriptor, closing) in std::mem::take(&mut self.files.closes) {
            if let Some(Err(error)) = guard(|| self.shared.fs.close(descriptor)) {
                self.close_failed(&closing.path, error);
            }
        }
        let quarantined = self.transfers.leak_quarantine();
        let lost = self.transfers.lost() > 0 || !left.is_empty();
        if held > 0 || quarantined || self.staging.jobs_out() > 0 || lost {
            // The system or a worker may still write there: this memory is never used again.
            self.staging.region().leak();
            std::mem::take(&mut self.transfers).leak();
            std::mem::forget(std::mem::take(&mut self.extras));
        }
        left
    }

    /// The main lane broke. Threads take its place; what it never began is pushed to them, and what
    /// the system may still write to is never used again.
    #[cold]
    pub(super) fn main_broke(&mut self, error: &Error) {
        let text = "the device broke, threads take its place";
        self.shared.warn(format!("{text}: {error}"));
        let mut completions = Vec::new();
        let abandoned = match self.lanes.replace_main(&mut completions) {
            Ok(abandoned) => abandoned,
            Err(error) => panic!("no device is left: {error}"),
        };
        for completion in completions {
            match completion.moved() {
                Err(millstream_io::Errno::CANCELED) => self.transfers.push_again(completion.id),
                _ => self.completions.push(completion),
            }
        }
        for id in abandoned {
            self.abandon_operation(id);
        }
        self.complete_all();
        self.push_all(true);
    }

    /// An operation that never comes back: its requests end as broken, unless their memory is
    /// borrowed: the system may write to it forever.
    fn abandon_operation(&mut self, id: u64) {
        let (block, members) = self.transfers.lose(id);
        for member in members {
            if !self.is_known(member) {
                continue;
            }
            let index = member.index();
            let error = Error::new(ErrorKind::Broken, "the device broke during the transfer");
            if self.try_quarantine(index, true) {
                self.withdraw_offer(index);
                self.end_now(index, error);
            } else {
                self.unschedule(index);
                self.drain(index);
                self.externals.any_ended = true;
                let col = &mut self.cols[index as usize];
                if col.ending.is_none() {
                    col.ending = Some(error);
                    col.state.on(Event::Drain);
                }
            }
        }
        if block.append {
            self.append_lost(&block);
        }
        self.operation_left(&block);
    }
}
