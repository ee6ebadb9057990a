//! Completions: what devices bring back.
//!
//! A short or interrupted operation goes on from where it stopped, under the same number. A direct
//! operation that the system calls invalid is repeated through the page cache, and the file counts
//! as one without direct I/O from then on. A merged operation that did not bring everything is
//! taken apart: its members are issued again, each alone.

use millstream_io::{Completion, Errno, Segments, Verb};

use super::Engine;
use super::files::Direct;
use super::issue::advanced;
use super::table::{Members, NO_WINDOW, Op};
use crate::error::{Error, ErrorKind};
use crate::job::Target;
use crate::trace::Lane;

/// Tries of an operation that is interrupted again and again, before that counts as a failure.
const TRIES_MAX: u16 = 1000;

/// Tries of a direct operation that bring no whole block, before its file counts as cut.
const FRUITLESS_MAX: u8 = 3;

/// What a completion means that did not bring everything needed.
enum Meaning {
    /// Goes on at this many bytes from the operation's start.
    Continue(u64),
    /// Is repeated through the page cache.
    Buffered,
    Failed(Error),
}

impl Engine {
    pub(super) fn complete_all(&mut self) {
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
    }

    fn complete(&mut self, completion: Completion) {
        let number = u32::try_from(completion.id).expect("operations have small numbers");
        if self.ops[number].copied {
            self.copied(number, completion);
            return;
        }
        let op = &mut self.ops[number];
        let before = op.done;
        if let Ok(moved) = completion.result
            && before + moved as u64 >= op.need
        {
            self.stats.stored_bytes += moved as u64;
            self.rate_bytes += moved as u64;
            self.finish_op(number, Ok(()));
            return;
        }
        let merged = matches!(op.members, Members::Many(_));
        let about = self.files.at(op.file).about.as_ref();
        let align = about.and_then(|about| about.direct).filter(|_| op.direct);
        let align = align.map_or(1, |align| u64::from(align.offset));
        let meaning = meaning_of(op, align, completion.result);
        let moved = op.done - before;
        self.stats.stored_bytes += moved;
        self.rate_bytes += moved;
        let wanted = self.is_wanted(number);
        match meaning {
            Meaning::Continue(_) | Meaning::Buffered if merged || !wanted => {
                self.finish_op(number, Err(None));
            }
            Meaning::Continue(at) => {
                self.stats.retried_operations += 1;
                self.go_on(number, completion.segments, at, before);
            }
            Meaning::Buffered => {
                self.stats.retried_operations += 1;
                let op = &mut self.ops[number];
                op.direct = false;
                let index = op.file;
                self.files.at(index).direct = self.files.at(index).direct_refused();
                self.go_on(number, completion.segments, before, before);
            }
            Meaning::Failed(_) if merged => self.finish_op(number, Err(None)),
            Meaning::Failed(error) => self.finish_op(number, Err(Some(error))),
        }
    }

    /// Whether anyone still waits for the operation's bytes.
    pub(super) fn is_wanted(&self, number: u32) -> bool {
        let wants = |target: &Target| {
            self.live(*target)
                .is_some_and(|request| !self.requests[request as usize].is_ending())
        };
        match &self.ops[number].members {
            Members::One(target) => wants(target),
            Members::Many(list) => list.iter().any(|(target, _)| wants(target)),
        }
    }

    /// Gives the rest of an operation to the device again; `segments` begin at byte `had` of the
    /// operation.
    pub(super) fn go_on(&mut self, number: u32, segments: Segments, at: u64, had: u64) {
        let op = &mut self.ops[number];
        op.done = at;
        let (index, direct, offset) = (op.file, op.direct, op.offset + at);
        let rest = if at > had {
            advanced(segments, at - had)
        } else {
            segments
        };
        let descriptor = self.descriptor_for(index, direct);
        self.give(number, rest, offset, descriptor);
    }

    /// An operation is over. `Err(None)`: its bytes did not come, and its members try again (or
    /// end, if they are ending).
    pub(super) fn finish_op(&mut self, number: u32, result: Result<(), Option<Error>>) {
        let op = &mut self.ops[number];
        let members = std::mem::replace(&mut op.members, Members::NONE);
        let (index, class, want, slow) = (op.file, op.class, op.want, op.slow);
        if slow {
            let mount = self.files.at(index).mount();
            self.slow_completed(mount);
        } else {
            self.scheduler.completed(class, want);
        }
        match members {
            Members::One(target) => self.member_done(target, number, result),
            Members::Many(list) => self.members_done(&list, number, result.is_ok()),
        }
        self.ops.give_up(number);
        self.operation_ended(index);
    }

    #[cold]
    fn members_done(&mut self, list: &[(Target, u64)], number: u32, whole: bool) {
        for (target, _) in list {
            self.member_done(*target, number, if whole { Ok(()) } else { Err(None) });
        }
    }

    #[inline(always)]
    fn member_done(&mut self, target: Target, number: u32, result: Result<(), Option<Error>>) {
        let Some(request) = self.live(target) else {
            self.quarantine_back(target, 1, 0);
            return;
        };
        let op = &self.ops[number];
        let (window, verb) = (op.window, op.verb);
        if self.trace.is_some() {
            let (start_ns, bytes) = (op.started_ns, op.want);
            self.trace_span(Lane::Device, start_ns, self.now_ns, bytes, request);
        }
        let req = &mut self.requests[request as usize];
        req.ops_out -= 1;
        if let (true, Some(decode)) = (window != NO_WINDOW, req.decode.as_mut()) {
            // Windows of before a restart are gone by now: it waits for all operations.
            let serial = window - decode.front_serial;
            let index = usize::try_from(serial).expect("a window's place");
            decode.windows[index].ops_out -= 1;
        }
        let staged = req.decode.is_some();
        match result {
            Err(Some(error)) => self.fail(request, error),
            Err(None) if !req.is_ending() => {
                req.merge = false;
                req.issued = 0;
                self.wait_turn(request);
            }
            Ok(()) if staged => self.advance(request),
            Ok(()) => {
                if verb == Verb::Write {
                    self.wrote(number);
                }
                self.settle(request);
            }
            Err(None) => self.settle(request),
        }
    }

    /// A write is there: the file may be longer now.
    fn wrote(&mut self, number: u32) {
        let op = &self.ops[number];
        let end = op.offset + op.want;
        let file = self.files.at(op.file);
        if let Some(about) = &mut file.about {
            about.len = about.len.max(end);
        }
        file.append_at = file.append_at.map(|at| at.max(end));
    }

    /// An operation or a job of a request that has ended is back.
    pub(super) fn quarantine_back(&mut self, target: Target, ops: u32, jobs: u32) {
        let Some(held) = self.quarantine.get_mut(&target) else {
            return;
        };
        held.ops_out -= ops;
        held.jobs_out -= jobs;
        if held.ops_out == 0 && held.jobs_out == 0 {
            let held = self.quarantine.remove(&target).expect("just found");
            if let Some(decode) = held.decode {
                self.give_windows(*decode);
            }
        }
    }
}

impl super::files::File {
    fn direct_refused(&self) -> Direct {
        match self.direct {
            // The descriptor stays open, and is closed with the file.
            Direct::Open(descriptor) => Direct::Refused(descriptor),
            _ => Direct::Unavailable,
        }
    }
}

/// What a result that came short, or is an error, means for its operation; counts the bytes that
/// came.
fn meaning_of(op: &mut Op, align: u64, result: Result<usize, Errno>) -> Meaning {
    op.tries = op.tries.saturating_add(1);
    let begun = op.done;
    let call = if op.verb == Verb::Read {
        "read"
    } else {
        "write"
    };
    match result {
        Ok(moved) => {
            op.done += moved as u64;
            // Direct reads go on at an aligned place.
            let at = op.done / align * align;
            // No whole block more than before, and so again and again: the file ends there.
            op.fruitless = if at > begun { 0 } else { op.fruitless + 1 };
            let stuck = moved == 0 || op.fruitless >= FRUITLESS_MAX;
            if stuck {
                let cause = match op.verb {
                    Verb::Read => "the file was cut while it was being read",
                    Verb::Write => "the system wrote nothing",
                };
                let kind = match op.verb {
                    Verb::Read => ErrorKind::PastEnd,
                    Verb::Write => ErrorKind::Io,
                };
                return Meaning::Failed(Error::new(kind, cause));
            }
            if op.tries > TRIES_MAX {
                return Meaning::Failed(Error::from_errno(call, Errno::IO));
            }
            Meaning::Continue(at)
        }
        Err(Errno::INTERRUPTED | Errno::AGAIN) if op.tries <= TRIES_MAX => {
            Meaning::Continue(op.done)
        }
        Err(Errno::INVALID) if op.direct => Meaning::Buffered,
        Err(errno) => Meaning::Failed(Error::from_errno(call, errno)),
    }
}
