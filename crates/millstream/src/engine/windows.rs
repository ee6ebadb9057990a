//! Windows of staging: whose turn it is, and where those wait that find no room. The rules, and why
//! no request waits for ever, are in the header of `staging`.

use super::Engine;
use super::columns::{flag, staged_of};
use super::issue::Issue;
use crate::caller::destination::MemoryKind;
use crate::caller::request::{Body, Verb};
use crate::caller::waits::WaitsFor;
use crate::engine::route::{Hits, ReadFacts, Via};
use crate::engine::scheduler::Scheduler;
use crate::engine::staged::{Serve, Staged};
use crate::engine::staging::{Ask, CLASSES, Class};
use crate::priority::{Priorities, Priority};

impl Engine {
    /// Whether requests wait for their turn at a device, or for staging.
    pub(super) fn has_waiting(&self) -> bool {
        self.scheduler.has_waiting() || self.has_waiters()
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.waiters.iter().any(Scheduler::has_waiting)
    }

    /// Takes a request out of what it waits in; returns whether it waited.
    pub(super) fn unschedule(&mut self, index: u32) -> bool {
        self.scheduler_of(index).remove(index) || self.leave_waiters(index)
    }

    fn leave_waiters(&mut self, index: u32) -> bool {
        let mut waiters = self.waiters.iter_mut();
        let was_in = waiters.any(|waiters| waiters.remove(index));
        if was_in {
            self.staging.left(self.id(index));
        }
        was_in
    }

    /// Puts a request in its place again, after a change of what its place depends on.
    pub(super) fn reschedule(&mut self, index: u32) {
        if self.leave_waiters(index) {
            self.add_waiter(index);
        } else if self.scheduler_of(index).remove(index) {
            self.schedule(index);
        }
    }

    fn add_waiter(&mut self, index: u32) {
        let class = staged_of(&mut self.extras, index).class;
        let order = self.order(index);
        self.waiters[class as usize].add(index, order, self.now_ns);
        self.waits(index, WaitsFor::Staging);
        self.pass_place_of(index);
    }

    /// Who frees the windows of a request.
    pub(super) fn class_of(&self, index: u32) -> Class {
        let is_foreign = |staged: &Staged| {
            staged.held
                || staged.overdue
                || staged.needs_application
                || self.shared.options.job_system.is_some()
                || matches!(
                    self.memory_kind(index),
                    MemoryKind::Device | MemoryKind::Supply
                )
                || self.is_on_mount_that_can_hang(index)
        };
        match self.staged(index).is_some_and(is_foreign) {
            true => Class::Foreign,
            false => Class::Ordinary,
        }
    }

    pub(super) fn is_on_mount_that_can_hang(&self, index: u32) -> bool {
        let file = match self.cols[index as usize].verb {
            Verb::Read | Verb::Write | Verb::Append => self.files.peek(self.side.peek(index).file),
            _ => None,
        };
        file.is_some_and(|file| file.can_hang())
    }

    /// Changes the class of a request's windows, if that of the request has changed.
    pub(super) fn update_class(&mut self, index: u32) {
        let (id, class) = (self.id(index), self.class_of(index));
        if staged_of(&mut self.extras, index).class == class {
            return;
        }
        let waited = self.leave_waiters(index);
        staged_of(&mut self.extras, index).set_class(id, class, &mut self.staging);
        if waited {
            self.add_waiter(index);
        }
    }

    /// The timeout of a request has passed, or its device broke, while something of it was out.
    pub(super) fn note_overdue(&mut self, index: u32) {
        if self.staged(index).is_some() {
            staged_of(&mut self.extras, index).overdue = true;
            self.update_class(index);
        }
    }

    /// Gives windows to those that wait for staging, as far as there is room; returns whether any
    /// was served.
    pub(super) fn serve_waiters(&mut self) -> bool {
        let mut worked = false;
        let mut skip = [Priorities::default(); 2];
        while self.has_waiters() {
            let (now_ns, rate) = (self.now_ns, self.rate.bytes_per_second);
            let picked = CLASSES.into_iter().rev().filter_map(|class| {
                let waiters = &mut self.waiters[class as usize];
                let (index, priority) = waiters.pick(now_ns, rate, skip[class as usize])?;
                Some((priority, index, class))
            });
            let Some((priority, index, class)) = picked.max_by_key(|picked| picked.0) else {
                break;
            };
            if self.is_held(index) || self.is_kept_by_mount(index) {
                worked = true;
                continue;
            }
            match self.serve_waiter(index, priority) {
                Issue::Issued | Issue::Left => worked = true,
                Issue::Full => skip[class as usize].insert(priority),
            }
        }
        let held = self.has_waiters()
            && self.staging.is_foreign_alone()
            && self.staging.library_jobs() == 0;
        self.shared.causes.set_held_by_application(held);
        worked
    }

    /// Gives the first that waits its window, with which it is pinned in the scheduler.
    fn serve_waiter(&mut self, index: u32, priority: Priority) -> Issue {
        let body = *self.side.peek(index);
        let Serve::Window(at, len) = staged_of(&mut self.extras, index).serve() else {
            unreachable!("what waits for a window has none open, and wants one")
        };
        // What it needs at most, once its file is open: no room, no open.
        let align = self.files.at(body.file.0.index()).align_max();
        let ask = self.ask(index, &body, priority, (at, len), align);
        // Of each priority one window is open at a time.
        if self.scheduler.has_pinned(priority) || !self.staging.has_room_for_leader(&ask) {
            self.staging.note_waits(&ask, true);
            return Issue::Full;
        }
        staged_of(&mut self.extras, index).keeps_file = true;
        let is_closed = self.files.at(body.file.0.index()).descriptor().is_none();
        if is_closed {
            self.leave_waiters(index);
        }
        if let Some(flow) = self.need_file(index) {
            self.follow(index, flow);
            return Issue::Left;
        }
        match self.add_window(index, &body, priority, (at, len)) {
            Ok(true) => {}
            Ok(false) => {
                self.let_file_of_waiter_go(index);
                return Issue::Full;
            }
            Err(issue) => return issue,
        }
        let class = staged_of(&mut self.extras, index).class;
        self.waiters[class as usize].served(index, priority, len);
        self.leave_waiters(index);
        self.schedule(index);
        Issue::Issued
    }

    fn ask(
        &mut self,
        index: u32,
        body: &Body,
        priority: Priority,
        window: (u64, u64),
        align: u64,
    ) -> Ask {
        let staged = staged_of(&mut self.extras, index);
        let bytes = staged.window_room(window, body.offset, align);
        Ask {
            bytes: bytes.next_multiple_of(millstream_io::limits::MEMORY_ALIGNMENT),
            class: staged.class,
            id: self.id(index),
            priority,
        }
    }

    /// Has a request that was picked wait for staging, if it finds no room.
    pub(super) fn wait_for_staging(&mut self, index: u32) -> Issue {
        self.scheduler.remove(index);
        self.let_file_of_waiter_go(index);
        self.add_waiter(index);
        Issue::Left
    }

    /// Gives up the file of a request that waits for staging, unless it had to open it for its turn
    /// and the library alone will serve it: others may need the descriptors before the application
    /// frees staging.
    fn let_file_of_waiter_go(&mut self, index: u32) {
        let staged = staged_of(&mut self.extras, index);
        let is_sure = staged.class == Class::Ordinary && self.staging.is_sure(Class::Ordinary);
        if !staged.keeps_file || !is_sure {
            self.detach_file(index);
        }
    }

    /// Makes the next window of a request whose file is open; false: staging has no room now.
    pub(super) fn add_window(
        &mut self,
        index: u32,
        body: &Body,
        priority: Priority,
        window: (u64, u64),
    ) -> Result<bool, Issue> {
        self.update_class(index);
        let file = self.files.at(body.file.0.index());
        let facts = file.facts.expect("a file with users is open");
        let read = ReadFacts {
            total: self.cols[index as usize].len,
            at: body.offset + window.0,
            bytes: window.1,
            pointer: std::ptr::null_mut(),
            slack: true,
            staged: true,
            borrowed: false,
            hits: match self.lanes.is_modeled() || facts.can_hang {
                true => Hits::Unlikely,
                false => file.streak.view(),
            },
        };
        let via = match self.route(body, &read).via {
            Via::Direct => self.direct_or_not(index, body)?,
            via => via,
        };
        let align = facts.align(via == Via::Direct);
        let ask = self.ask(index, body, priority, window, align);
        let memory = match self.staging.take(&ask) {
            Ok(Some(memory)) => memory,
            Ok(None) => {
                self.staging.note_waits(&ask, false);
                return Ok(false);
            }
            Err(error) => return Err(self.fail(index, error.into())),
        };
        let counters = &self.shared.counters;
        counters.windows_outside.add(u64::from(memory.is_outside()));
        if self.staging.taken == crate::limits::WINDOWS_BEFORE_REGISTERING {
            self.lanes.register(self.staging.region());
        }
        if via == Via::Direct && read.bytes >= crate::limits::DIRECT_BYTES_MIN {
            let file = self.files.at(body.file.0.index());
            file.note_loaded(read.at, read.bytes);
        }
        let staged = staged_of(&mut self.extras, index);
        staged.keeps_file = false;
        staged.add_window(memory, window, body.offset, via, align);
        Ok(true)
    }

    /// Whether the request needs its file no more, or only after others than the library have done
    /// something: other files may need its descriptors meanwhile.
    pub(super) fn lets_file_go(&self, index: u32) -> bool {
        let waits = |staged: &Staged| staged.class == Class::Foreign || staged.is_read();
        self.cols[index as usize].has(flag::ATTACHED) && self.staged(index).is_some_and(waits)
    }
}
