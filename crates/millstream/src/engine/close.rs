//! Closing: what has not begun is cancelled, what is out is waited for, what does not come back is
//! reported.
//!
//! The order of what matters: nothing is freed early, then the end comes in bounded time, then
//! nothing is leaked.

use std::time::Instant;

use millstream_io::Device;
use millstream_io::device::null::NullDevice;

use super::Engine;
use super::table::Phase;
use crate::error::{Error, ErrorKind};
use crate::queue::Submitted;
use crate::storage::{CloseReport, Reply};

impl Engine {
    pub(super) fn begin_close(&mut self, deadline: Instant, reply: Reply<CloseReport>) {
        self.closing = Some((deadline, reply));
        self.shared.pull.refuse_all(&self.shared);
        for queue in self.queues.ids() {
            self.close_queue(queue);
        }
        for request in 0..u32::try_from(self.requests.len()).expect("fewer than 2^32 requests") {
            self.cancel(request);
        }
        for opening in self.files.take_infos() {
            let error = Error::new(ErrorKind::Closed, "the storage is closing");
            opening.resolve(Err(error), &mut self.wakers);
        }
    }

    /// Takes a queue's last entries; its requests end as cancelled.
    fn close_queue(&mut self, queue: u32) {
        let mut last = Submitted::default();
        let shared = std::sync::Arc::clone(&self.queues.state(queue).shared);
        shared.close(&mut last, &mut self.wakers);
        self.take_submitted(queue, &mut last);
        self.queues.touch(queue);
    }

    /// Ends the engine if nothing is out any more, or the deadline has passed.
    pub(super) fn try_close(&mut self) -> bool {
        let Some((deadline, _)) = self.closing else {
            return false;
        };
        // A queue that was made while the storage closed.
        for queue in self.queues.ids() {
            self.close_queue(queue);
        }
        self.fire_fifos();
        let live = self.requests.iter().any(|req| req.phase != Phase::Free);
        let idle = !live && self.ops.len() == 0 && self.jobs_out == 0;
        if !idle && Instant::now() < deadline || !self.shared.end_mail() {
            return false;
        }
        self.close_all_files();
        self.send_jobs();
        let report = self.held();
        self.abandon(deadline);
        self.finish_round();
        if let Some((_, reply)) = self.closing.take() {
            reply.send(report);
        }
        true
    }

    fn held(&self) -> CloseReport {
        let mut report = CloseReport {
            operations: self.ops.len(),
            ..CloseReport::default()
        };
        report.bytes = self.ops.iter().map(|op| op.want).sum();
        for op in self.ops.iter() {
            let file = self.files.files[op.file as usize].as_ref();
            let path = file.map(|file| file.path.to_path_buf());
            if let Some(path) = path.filter(|path| !report.files.contains(path)) {
                report.files.push(path);
            }
        }
        report.operations += self.jobs_out;
        report
    }

    /// Ends the devices; what they do not give back is leaked, and its requests end as failed.
    fn abandon(&mut self, deadline: Instant) {
        let nothing: Box<dyn Device> = Box::new(NullDevice::new(1));
        let device = std::mem::replace(&mut self.device, nothing);
        let mut completions = Vec::new();
        let mut abandoned = device.shutdown(deadline, &mut completions).operations.len();
        if let Some(slow) = self.slow.take() {
            abandoned += slow.shutdown(deadline, &mut completions).operations.len();
        }
        self.completions.append(&mut completions);
        abandoned += self.end_copies(deadline);
        for request in 0..u32::try_from(self.requests.len()).expect("fewer than 2^32 requests") {
            let req = &self.requests[request as usize];
            if req.phase != Phase::Free {
                let cause = "the storage was closed while the system held the request's memory";
                self.end_in_quarantine(request, Error::new(ErrorKind::Closed, cause));
            }
        }
        if abandoned > 0 || self.jobs_out > 0 || !self.quarantine.is_empty() {
            // Someone may still write there: this memory is never used again.
            std::mem::forget(std::sync::Arc::clone(self.arena.region()));
            std::mem::forget(std::mem::take(&mut self.quarantine));
        }
    }
}
