//! Issuing: the scheduler's picks become operations of a device.
//!
//! # Safety
//! Memory given to a device belongs to its operation until the completion: it lies in a request's
//! destination or a window, both of which the engine keeps (in the request or in quarantine) while
//! operations are out, and leaks if the device reports them as abandoned.
#![expect(unsafe_code, reason = "lends memory to devices")]

use std::cmp::Reverse;

use millstream_io::{Descriptor, Operation, Segment, Segments, Verb};

use super::table::{Members, NO_FILE, Phase, Work};
use super::{Engine, Timer};
use crate::job::{FileWork, Job, Target};
use crate::limits;
use crate::request::Priority;
use crate::scheduler::Scheduler;

/// What became of a pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Issue {
    /// A block went to a device (or to a worker); the request still waits if it has more.
    Issued,
    /// The request left the scheduler.
    Left,
    /// Staging has no room for it now.
    NoStaging,
}

/// Operations of one slow mount that are under way: as many again as its threads.
const SLOW_OPS_MAX: u32 = 4;

/// Operations that may be pushed and not yet submitted at the end of a round.
const UNSUBMITTED_MAX: usize = 16;

/// Bytes that one job of a page walker populates.
const WARM_BYTES: u64 = 4 << 20;

/// Where and how one operation reads or writes.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) verb: Verb,
    pub(super) offset: u64,
    pub(super) want: u64,
    pub(super) need: u64,
    pub(super) direct: bool,
    /// Likely to be in the page cache.
    pub(super) copied: bool,
    pub(super) window: u64,
    pub(super) segment: Segment,
}

impl Engine {
    /// Serves requests as long as the device and the bounds allow; whether any was.
    pub(super) fn issue_all(&mut self) -> bool {
        let mut worked = self.push_waiting();
        worked |= self.issue_from_memory();
        let mut passed = [false; 4];
        let mut staging_short = false;
        while self.device.in_flight() < self.device.depth() && self.has_room_for_copies() {
            let picked = self.scheduler.pick(self.now_ns, self.rate, passed);
            let Some((request, class)) = picked else {
                break;
            };
            if self.hold(request) {
                continue;
            }
            match self.issue(request, staging_short) {
                Issue::Issued => worked = true,
                Issue::Left => {
                    debug_assert!(!self.scheduler.contains(request), "it has left");
                }
                Issue::NoStaging => {
                    passed[class as usize] = true;
                    staging_short = true;
                }
            }
        }
        self.send_copies();
        // What is pushed in the last rounds before a rest goes to the device with the call that
        // waits, unless the device would run dry until then.
        let with_device = self.device.in_flight() - self.unsubmitted.min(self.device.in_flight());
        if self.unsubmitted >= UNSUBMITTED_MAX || with_device <= 2 * self.unsubmitted {
            self.submit();
        }
        worked
    }

    /// Gives workers what requests out of memory have for them. These wait for workers alone: not
    /// behind reads of their class, for which a device has no time yet.
    fn issue_from_memory(&mut self) -> bool {
        let mut worked = false;
        while self.jobs_out < limits::JOBS_MAX {
            let scheduler = &mut self.memory_scheduler;
            let Some((request, _)) = scheduler.pick(self.now_ns, self.rate, [false; 4]) else {
                break;
            };
            if !self.hold(request) {
                self.issue_memory(request);
                worked = true;
            }
        }
        worked
    }

    /// Where a request waits for its turn.
    pub(super) fn scheduler_of(&mut self, request: u32) -> &mut Scheduler {
        match self.requests[request as usize].work {
            Work::Memory(_) => &mut self.memory_scheduler,
            _ => &mut self.scheduler,
        }
    }

    /// Starts what was pushed.
    pub(super) fn submit(&mut self) {
        self.unsubmitted = 0;
        if let Err(error) = self.device.submit() {
            self.shared.log(
                crate::LogLevel::Warning,
                &format!("the device is broken: {error}"),
            );
        }
        if let Some(slow) = &mut self.slow
            && let Err(error) = slow.submit()
        {
            self.shared.log(
                crate::LogLevel::Warning,
                &format!("the device is broken: {error}"),
            );
        }
    }

    /// Takes a request of a paused or capped queue out of the scheduler.
    fn hold(&mut self, request: u32) -> bool {
        let now_ns = self.now_ns;
        let queue = self.req(request).queue;
        let target = self.requests[request as usize].target(request);
        let state = self.queues.state(queue);
        let until = state
            .bucket
            .as_ref()
            .and_then(|bucket| bucket.wait_until(now_ns));
        if !state.paused && until.is_none() {
            return false;
        }
        let first = state.held.is_empty();
        state.held.push(target);
        if let Some(at) = until
            && first
        {
            self.timers.push(Reverse((at, Timer::Bandwidth(queue))));
        }
        self.leave(request, Phase::Held);
        self.detach(request);
        true
    }

    /// Takes a request out of the scheduler.
    pub(super) fn leave(&mut self, request: u32, phase: Phase) {
        self.scheduler_of(request).remove(request);
        self.req(request).phase = phase;
    }

    fn issue(&mut self, request: u32, staging_short: bool) -> Issue {
        if self.issue_usual(request) {
            return Issue::Issued;
        }
        if let Work::Warm(_) = self.req(request).work {
            return self.issue_warm(request);
        }
        if self.req(request).file != NO_FILE
            && (self.was_evicted(request) || self.slow_mount_full(request))
        {
            return Issue::Left;
        }
        if self.req(request).decode.is_some() {
            self.issue_staged(request, staging_short)
        } else {
            self.issue_straight(request)
        }
    }

    /// A request that had let go of its file may find it closed: it has it opened again.
    fn was_evicted(&mut self, request: u32) -> bool {
        let index = self.req(request).file;
        if self.files.at(index).descriptor().is_some() {
            return false;
        }
        self.leave(request, Phase::Opening);
        self.file_ready(request);
        true
    }

    /// A mount that can hang takes few operations at a time; its requests wait beside the
    /// scheduler.
    fn slow_mount_full(&mut self, request: u32) -> bool {
        let req = &self.requests[request as usize];
        let (index, target) = (req.file, req.target(request));
        let file = self.files.at(index);
        if !file.is_slow() {
            return false;
        }
        let mount = file.mount();
        let slow = self.files.slow_mounts.entry(mount).or_default();
        if slow.ops < SLOW_OPS_MAX {
            return false;
        }
        slow.waiting.push(target);
        self.leave(request, Phase::Pending);
        true
    }

    fn issue_warm(&mut self, request: u32) -> Issue {
        let req = &self.requests[request as usize];
        let target = req.target(request);
        let Work::Warm(view) = &req.work else {
            unreachable!("only warming is served so")
        };
        let left = req.len - req.issued.min(req.len);
        let bytes = left.min(WARM_BYTES);
        let work = FileWork::Warm {
            view: std::sync::Arc::clone(view),
            offset: req.offset + req.issued,
            len: bytes,
        };
        self.leave(request, Phase::Active);
        let req = self.req(request);
        req.issued += bytes;
        req.jobs_out += 1;
        let class = req.class;
        self.jobs_out += 1;
        self.jobs.push((class, Job::File(target, work)));
        Issue::Issued
    }

    /// Gives a request's transfer to the device that serves its file.
    pub(super) fn push(&mut self, target: Target, transfer: &Transfer, descriptor: Descriptor) {
        self.requests[target.request as usize].ops_out += 1;
        let segments = Segments::One(transfer.segment);
        let members = Members::One(target);
        self.push_op(target.request, members, segments, transfer, descriptor);
    }

    /// As [`Engine::push`], for requests that follow one another in the file; `transfer` spans all
    /// of them.
    pub(super) fn push_merged(
        &mut self,
        members: Box<[(Target, u64)]>,
        segments: Vec<Segment>,
        transfer: &Transfer,
        descriptor: Descriptor,
    ) {
        for (target, _) in &members {
            self.requests[target.request as usize].ops_out += 1;
        }
        self.stats.merged_operations += 1;
        let segments = Segments::Many(segments);
        let first = members[0].0.request;
        self.push_op(
            first,
            Members::Many(members),
            segments,
            transfer,
            descriptor,
        );
    }

    #[inline(always)]
    fn push_op(
        &mut self,
        first: u32,
        members: Members,
        segments: Segments,
        transfer: &Transfer,
        descriptor: Descriptor,
    ) {
        debug_assert!(
            segments
                .as_slice()
                .iter()
                .all(|segment| !segment.pointer().is_null()),
            "an operation has memory"
        );
        let now_ns = self.now_ns;
        let req = &self.requests[first as usize];
        let (class, index, queue) = (req.class, req.file, req.queue);
        let file = self.files.at(index);
        file.ops += 1;
        let slow = file.is_slow();
        let mount = if slow { file.mount() } else { 0 };
        if slow {
            self.files.slow_mounts.entry(mount).or_default().ops += 1;
        } else {
            self.scheduler.issued(first, class, transfer.want, now_ns);
        }
        if let Some(bucket) = &mut self.queues.state(queue).bucket {
            bucket.spend(transfer.want, now_ns);
        }
        self.stats.operations += 1;
        self.stats.direct_operations += u64::from(transfer.direct);
        let (number, op) = self.ops.take();
        op.members = members;
        op.offset = transfer.offset;
        op.want = transfer.want;
        op.need = transfer.need;
        op.done = 0;
        op.window = transfer.window;
        op.started_ns = now_ns;
        op.file = index;
        (op.tries, op.fruitless) = (0, 0);
        op.verb = transfer.verb;
        op.class = class;
        op.direct = transfer.direct;
        op.slow = slow;
        op.copied = transfer.copied;
        let operation = Operation {
            id: u64::from(number),
            verb: transfer.verb,
            file: descriptor,
            offset: transfer.offset,
            segments,
            offload: is_offloaded(transfer.verb, transfer.direct, transfer.want),
            mount,
        };
        self.lend(operation, class, slow, transfer.copied);
    }

    /// Pushes the rest of an operation to its device, or lets it wait if the device is full.
    pub(super) fn give(
        &mut self,
        op: u32,
        segments: Segments,
        offset: u64,
        descriptor: Descriptor,
    ) {
        let entry = &self.ops[op];
        let (class, slow, copied) = (entry.class, entry.slow, entry.copied);
        let operation = Operation {
            id: u64::from(op),
            verb: entry.verb,
            file: descriptor,
            offset,
            segments,
            offload: is_offloaded(entry.verb, entry.direct, entry.want - entry.done),
            mount: match slow {
                true => self.files.at(entry.file).mount(),
                false => 0,
            },
        };
        self.lend(operation, class, slow, copied);
    }

    /// Gives an operation to whoever moves its bytes, or lets it wait if the device is full.
    #[inline(always)]
    fn lend(&mut self, operation: Operation, class: Priority, slow: bool, copied: bool) {
        if copied {
            self.give_copy(operation, class);
            return;
        }
        self.unsubmitted += 1;
        let device = match &mut self.slow {
            Some(device) if slow => {
                // It has no wait of its own that would start this.
                self.unsubmitted = UNSUBMITTED_MAX;
                device
            }
            _ => &mut self.device,
        };
        // SAFETY: the segments lie in the destination or the window of requests with `ops_out`
        // counted up, which the engine keeps until the completion (see the module); `File::ops`
        // keeps the descriptor open.
        if let Err(back) = unsafe { device.push(operation) } {
            let op = u32::try_from(back.id).expect("operations have small numbers");
            self.ops_waiting.push((op, back.segments));
        }
    }

    /// Tries again what a full device gave back.
    fn push_waiting(&mut self) -> bool {
        if self.ops_waiting.is_empty() {
            return false;
        }
        for (op, segments) in std::mem::take(&mut self.ops_waiting) {
            let entry = &self.ops[op];
            let (index, direct, offset) = (entry.file, entry.direct, entry.offset + entry.done);
            let descriptor = self.descriptor_for(index, direct);
            self.give(op, segments, offset, descriptor);
        }
        true
    }

    /// The descriptor of an operation under way.
    pub(super) fn descriptor_for(&mut self, index: u32, direct: bool) -> Descriptor {
        let file = self.files.at(index);
        let descriptor = match file.direct {
            super::files::Direct::Open(descriptor) if direct => Some(descriptor),
            _ => file.descriptor(),
        };
        descriptor.expect("an operation keeps its file open")
    }

    /// A slow mount has room again.
    pub(super) fn slow_completed(&mut self, mount: u64) {
        let Some(slow) = self.files.slow_mounts.get_mut(&mount) else {
            return;
        };
        slow.ops -= 1;
        let waiting: Vec<Target> = std::mem::take(&mut slow.waiting);
        for target in waiting {
            if let Some(request) = self.live(target)
                && self.req(request).phase == Phase::Pending
            {
                self.wait_turn(request);
            }
        }
    }
}

/// Whether a transfer is likely to block or to copy much.
fn is_offloaded(verb: Verb, direct: bool, bytes: u64) -> bool {
    verb == Verb::Write || (!direct && bytes >= limits::OFFLOAD_BYTES_MIN)
}

/// One piece of memory of an operation.
pub(super) fn segment(pointer: *mut u8, len: u64) -> Segment {
    Segment::new(
        pointer,
        usize::try_from(len).expect("checked against the address space"),
    )
}

/// `pointer` moved by `by` bytes within (or just around) its memory.
pub(super) fn moved(pointer: *mut u8, by: i64) -> *mut u8 {
    pointer.wrapping_offset(isize::try_from(by).expect("checked against the address space"))
}

/// Segments without their first `skip` bytes.
pub(super) fn advanced(segments: Segments, skip: u64) -> Segments {
    let Segments::One(one) = &segments else {
        unreachable!("merged operations are never continued, their members are issued anew")
    };
    let skip_len = usize::try_from(skip).expect("no longer than the segment");
    Segments::One(Segment::new(
        one.pointer().wrapping_add(skip_len),
        one.len() - skip_len,
    ))
}
