//! The threads of one crew: plain data, changed under its lock, without I/O.

use std::time::{Duration, Instant};

use super::primitives::JoinHandle;

/// A thread. Its index is the thread's number.
#[derive(Default)]
pub(super) struct Member {
    /// The tasks that it runs.
    pub(super) tasks: Vec<u64>,
    since: Option<Instant>,
    pub(super) handle: Option<JoinHandle<()>>,
    pub(super) exists: bool,
}

impl Member {
    /// Keeps the handle of a thread that was started, and may have ended, and given its number to
    /// another one.
    pub(super) fn started(&mut self, handle: JoinHandle<()>) {
        if self.exists || self.handle.is_none() {
            self.handle = Some(handle);
        }
    }
}

/// A thread's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Take a share of what waits, and run it.
    Run,
    /// Sleep until woken.
    Sleep,
    /// Sleep until woken or until this time, when a running task counts as hung.
    Watch(Instant),
    /// End the thread.
    End,
}

/// The thread that is to help with what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Help {
    /// None.
    None,
    /// A sleeping thread.
    Wake,
    /// A new thread, with this number.
    Start(usize),
}

/// See the module `crew`.
pub(super) struct Roster {
    /// By number; as many as ever existed at a time.
    pub(super) members: Vec<Member>,
    /// Maximum number of threads that run tasks at a time, not counting hung ones.
    base: usize,
    /// Maximum number of threads.
    pub(super) most: usize,
    /// How many threads may be on their way at a time.
    calls: usize,
    hung: Option<Duration>,
    /// When the system refused a thread; a moment later it may have one.
    refused: Option<Instant>,
    pub(super) threads: usize,
    running: usize,
    /// Threads that sleep and have not been woken.
    sleeping: usize,
    /// Threads woken or started that have not locked the crew yet.
    coming: usize,
    /// A thread sleeps until a task counts as hung.
    is_watched: bool,
    /// Nothing will be added: idle threads end.
    pub(super) stopping: bool,
    /// What comes of tasks is discarded.
    pub(super) ended: bool,
}

/// How long no thread is started after the system has refused one.
const REFUSED: Duration = Duration::from_millis(100);

impl Roster {
    pub(super) fn new(options: &super::CrewOptions) -> Roster {
        Roster {
            members: Vec::new(),
            base: options.base.max(1),
            most: options.most,
            calls: options.calls.max(1),
            hung: options.hung,
            refused: None,
            threads: 0,
            running: 0,
            sleeping: 0,
            coming: 0,
            is_watched: false,
            stopping: false,
            ended: false,
        }
    }

    /// Threads that do not sleep.
    pub(super) fn awake(&self) -> usize {
        self.threads - self.sleeping
    }

    /// Whether no thread runs a task.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0
    }

    /// Whether all threads there may be exist.
    pub(super) fn is_full(&self) -> bool {
        self.threads == self.most
    }

    /// Number of threads whose tasks are not hung, and when the first of them will be.
    fn fresh(&self) -> (usize, Option<Instant>) {
        let Some(hung) = self.hung else {
            return (self.running, None);
        };
        let now = Instant::now();
        let since = self.members.iter().filter_map(|member| member.since);
        let until = since.map(|since| since + hung).filter(|until| *until > now);
        until.fold((0, None), |(count, first), until| {
            let first = first.map_or(until, |first: Instant| first.min(until));
            (count + 1, Some(first))
        })
    }

    /// Decides what thread `number` does next.
    pub(super) fn next(&self, number: usize, waiting: usize) -> Step {
        assert!(self.members[number].tasks.is_empty(), "one share at a time");
        let is_surplus = |fresh: usize| self.threads - (self.running - fresh) > self.base + 1;
        if waiting == 0 {
            let surplus = self.threads > self.base + 1 && is_surplus(self.fresh().0);
            return match self.stopping || surplus {
                true => Step::End,
                false => Step::Sleep,
            };
        }
        if self.running < self.base {
            return Step::Run;
        }
        match self.fresh() {
            (fresh, _) if fresh < self.base => Step::Run,
            (fresh, _) if is_surplus(fresh) => Step::End,
            (_, Some(first)) if !self.is_watched => Step::Watch(first),
            _ => Step::Sleep,
        }
    }

    /// Thread `number` runs `tasks`.
    pub(super) fn begins(&mut self, number: usize, tasks: impl Iterator<Item = u64>) {
        let member = &mut self.members[number];
        member.tasks.extend(tasks);
        member.since = self.hung.map(|_| Instant::now());
        self.running += 1;
    }

    /// Thread `number` has run its tasks.
    pub(super) fn ran(&mut self, number: usize) {
        let member = &mut self.members[number];
        member.tasks.clear();
        member.since = None;
        self.running -= 1;
    }

    /// Returns the thread to help with what waits: one to run it or, if as many run as may, one to
    /// watch them. Counts it as coming.
    pub(super) fn help(&mut self, waiting: usize) -> Help {
        if self.coming >= self.calls.min(waiting) {
            return Help::None;
        }
        if self.is_watched && self.running >= self.base && self.fresh().0 >= self.base {
            return Help::None;
        }
        if self.sleeping > 0 {
            self.sleeping -= 1;
            self.coming += 1;
            return Help::Wake;
        }
        let is_refused = self.refused.is_some_and(|at| at.elapsed() < REFUSED);
        match self.threads < self.most && !is_refused {
            true => Help::Start(self.starts()),
            false => Help::None,
        }
    }

    /// Counts a thread that is started; returns its number.
    pub(super) fn starts(&mut self) -> usize {
        let free = self.members.iter().position(|member| !member.exists);
        let number = free.unwrap_or_else(|| {
            self.members.push(Member::default());
            self.members.len() - 1
        });
        self.members[number].exists = true;
        self.threads += 1;
        self.coming += 1;
        number
    }

    /// Undoes the start of thread `number`. A thread that slept may have been counted as arriving.
    pub(super) fn not_started(&mut self, number: usize) {
        self.arrives();
        self.ends(number);
        self.refused = Some(Instant::now());
    }

    /// Removes thread `number`. At the end its handle stays, for `Crew::end` to join it.
    pub(super) fn ends(&mut self, number: usize) {
        let member = &mut self.members[number];
        member.exists = false;
        if !self.stopping {
            member.handle = None;
        }
        self.threads -= 1;
    }

    /// Counts a thread that goes to sleep; `watches`: only until a task counts as hung.
    pub(super) fn sleeps(&mut self, watches: bool) {
        self.sleeping += 1;
        self.is_watched |= watches;
    }

    /// Counts a started or sleeping thread as awake. Whether it is one of those counted as coming
    /// cannot be known (a wake may be spurious, or by timeout), but the sum is right.
    pub(super) fn arrives(&mut self) {
        match self.coming > 0 {
            true => self.coming -= 1,
            false => self.sleeping -= 1,
        }
    }

    /// The thread that watches is awake.
    pub(super) fn watched(&mut self) {
        self.is_watched = false;
    }

    /// Whether no thread takes what waits now, and none can be started.
    pub(super) fn is_stranded(&self) -> bool {
        let lacks = self.threads == 0 || self.refused.is_some();
        lacks && self.coming == 0 && self.sleeping == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::CrewOptions;

    fn roster(base: usize) -> Roster {
        Roster::new(&CrewOptions {
            base,
            most: base,
            ..CrewOptions::default()
        })
    }

    #[test]
    fn a_failed_start_races_with_a_thread_that_wakes() {
        let mut roster = roster(2);
        assert_eq!(roster.help(2), Help::Start(0));
        roster.arrives();
        roster.sleeps(false);
        roster.sleeping -= 1;
        assert_eq!(roster.help(2), Help::Start(1));
        roster.sleeping += 1;
        // The first wakes spuriously, and counts as the one coming.
        roster.arrives();
        roster.not_started(1);
        let counts = (roster.threads, roster.sleeping, roster.coming);
        assert_eq!(counts, (1, 0, 0));
    }

    #[test]
    fn no_more_threads_come_than_there_is_work_and_than_may_at_a_time() {
        let mut roster = roster(4);
        assert_eq!(roster.help(0), Help::None);
        assert_eq!(roster.help(9), Help::Start(0));
        assert_eq!(roster.help(9), Help::None, "one at a time");
        roster.calls = 3;
        assert_eq!(roster.help(2), Help::Start(1));
        assert_eq!(roster.help(2), Help::None, "two tasks");
        assert_eq!(roster.help(9), Help::Start(2));
        assert_eq!(roster.help(9), Help::None, "three at a time");
    }

    #[test]
    fn a_refused_thread_is_not_tried_again_at_once_and_the_owner_is_told_who_is_left() {
        let mut roster = roster(2);
        assert_eq!(roster.help(2), Help::Start(0));
        roster.not_started(0);
        assert!(roster.is_stranded(), "there is none");
        assert_eq!(roster.help(2), Help::None, "a moment ago");
        roster.refused = Some(Instant::now() - 2 * REFUSED);
        assert_eq!(roster.help(2), Help::Start(0), "later");
        assert!(!roster.is_stranded(), "one is coming");
        roster.arrives();
        roster.begins(0, [1].into_iter());
        assert!(roster.is_stranded(), "the only one is busy");
        roster.ran(0);
        roster.sleeps(false);
        assert!(!roster.is_stranded(), "one sleeps");
    }

    #[test]
    fn hung_threads_are_replaced_and_end_when_they_are_surplus() {
        let mut roster = roster(1);
        (roster.most, roster.hung) = (3, Some(Duration::from_secs(1000)));
        let began = |roster: &mut Roster, id| {
            let Help::Start(number) = roster.help(1) else {
                panic!("a thread starts");
            };
            roster.arrives();
            assert_eq!(roster.next(number, 1), Step::Run);
            roster.begins(number, [id].into_iter());
            number
        };
        let first = began(&mut roster, 1);
        let Help::Start(watch) = roster.help(1) else {
            panic!("one watches");
        };
        roster.arrives();
        assert!(matches!(roster.next(watch, 1), Step::Watch(_)));
        roster.sleeps(true);
        assert_eq!(roster.help(1), Help::None, "it is watched");
        roster.arrives();
        roster.watched();
        roster.hung = Some(Duration::ZERO);
        assert_eq!(roster.next(watch, 1), Step::Run, "the first counts as hung");
        roster.begins(watch, [2].into_iter());
        let third = began(&mut roster, 3);
        assert_eq!(roster.help(1), Help::None, "there are no more");
        for number in [first, watch] {
            roster.ran(number);
        }
        assert_eq!(roster.next(first, 0), Step::Sleep, "two and a hung one");
        roster.ran(third);
        assert_eq!(roster.next(third, 0), Step::End, "three are one too many");
    }
}
