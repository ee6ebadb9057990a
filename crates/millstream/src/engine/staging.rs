//! Staging: who may hold its memory, and who frees it. Every window of every request is taken and
//! given back here.
//!
//! A window is *ordinary* if the library frees it without help: a device fills it, jobs of the
//! library's own workers read it, and neither waits for the application or for a mount that can
//! hang. (Streams of the application's codecs and decoders of requests run on the workers, and must
//! not wait: they count as the library's.) All others are *foreign* ([`Class`]): of requests whose
//! destination a fence holds; of files on mounts that can hang; of requests whose jobs go to a job
//! system, a codec of the application, a device sink or another block source, or whose memory the
//! application has yet to supply; of requests that are overdue or in quarantine. The class of a
//! request may change; that of its windows changes with it.
//!
//! # Rules
//! 1. A window is *open* until all of its operations are issued. A request with an open window is
//!    pinned in its scheduler: served first of its priority, or with the priority of the first
//!    request that waits for staging if that is higher. Pauses, bandwidths, fences, deadlines and
//!    the elevator do not hold it back, and it keeps its file open.
//! 2. A request takes a window when its turn comes and its file is open. If there is no room, it
//!    waits in a scheduler of its own (`Engine::waiters`), holds no file open there (an ordinary
//!    one does if it opened it for its turn), and holds up nothing that needs no staging. While the
//!    first of a class and a priority waits, and it is sure that the library will serve it, others
//!    of its or a lower priority take windows at most [`PASSES_MAX`] times; those of higher ones
//!    always may.
//! 3. Foreign windows are taken from the end of the arena, at most half of it in sum, ordinary ones
//!    from its front. A sixteenth of it is for realtime requests alone.
//! 4. The last resort: if the first of a class that waits has no room, and what could make room is
//!    foreign alone, its window is memory of the buffer pool, outside of the arena. The same holds
//!    for a window that is larger than its share of the arena. Each class has a place for one such
//!    window at a time.
//! 5. The bound on jobs holds back the taking of windows, each class by its own jobs, and never the
//!    jobs of a window that is complete.
//!
//! # Proof that no request waits for staging for ever
//! A complete ordinary window needs only jobs of the library: what it leaves for the next window is
//! copied out of it, and jobs wait for nothing but workers. An open one needs only its device:
//! by rule 1 its operations are issued as those before it come back, of which the bounds in flight
//! always let one through. So every ordinary window is freed without the help of any request that
//! waits. If an ordinary window is out, the first that waits gets its turn when enough of them are
//! back, since by rule 2 only higher priorities and [`PASSES_MAX`] others take memory meanwhile; if
//! none is out, rule 4 serves it at once: one that comes to lead its class and priority becomes the
//! first and is looked at again before the round ends. Only if a foreign window has the place of
//! rule 4 does the first wait for others than the library: then the application, or a mount that
//! hangs, holds it back, and its ticket says so. It is not sure to be served then, and holds up no
//! other.

use std::sync::Arc;

use millstream_io::memory::BufferPool;
use millstream_io::{Arena, Block, Buffer, IoError, Region};

use crate::ids::Id;
use crate::limits;
use crate::priority::{PRIORITIES, Priority};

/// How often others of its own or a lower priority take windows while the first waits.
const PASSES_MAX: u32 = 16;

/// Who frees a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The library alone.
    Ordinary = 0,
    /// The application, a fence, or a mount that can hang.
    Foreign = 1,
}

pub(crate) const CLASSES: [Class; 2] = [Class::Ordinary, Class::Foreign];

/// The memory of a window.
pub(crate) enum WindowMemory {
    Inside(Block),
    /// Memory of the buffer pool: the last resort, in the place of this class.
    Outside(Buffer, Class),
}

impl WindowMemory {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            WindowMemory::Inside(block) => block.as_slice(),
            WindowMemory::Outside(buffer, _) => buffer,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            WindowMemory::Inside(block) => block.as_mut_slice(),
            WindowMemory::Outside(buffer, _) => buffer,
        }
    }

    pub(crate) fn is_outside(&self) -> bool {
        matches!(self, WindowMemory::Outside(..))
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        match self {
            WindowMemory::Inside(block) => block.pointer(),
            WindowMemory::Outside(buffer, _) => buffer.base(),
        }
    }
}

/// Windows that are out: of a class, or of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    windows: u32,
    /// Of the arena.
    bytes: usize,
}

impl Held {
    pub(crate) fn of(memory: &WindowMemory) -> Held {
        let bytes = match memory {
            WindowMemory::Inside(block) => block.len(),
            WindowMemory::Outside(..) => 0,
        };
        Held { windows: 1, bytes }
    }

    pub(crate) fn add(&mut self, other: Held) {
        self.windows += other.windows;
        self.bytes += other.bytes;
    }

    fn take(&mut self, other: Held) {
        self.windows -= other.windows;
        self.bytes -= other.bytes;
    }
}

/// What a request asks for.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) id: Id,
    pub(crate) bytes: usize,
    pub(crate) class: Class,
    pub(crate) priority: Priority,
}

/// Where the memory of a window is: in staging, or outside of it as a last resort.
enum Home {
    Inside,
    Outside,
}

/// The first request of a class and a priority that waits for staging.
#[derive(Debug, Clone, Copy, Default)]
struct First {
    /// `None`: the one that was first does not wait now; the next one takes over its count.
    id: Option<Id>,
    /// How often others of its or a lower priority took windows since.
    passes: u32,
}

pub(crate) struct Staging {
    arena: Arena,
    buffers: Arc<BufferPool>,
    /// Bytes for realtime requests alone.
    reserve: usize,
    out: [Held; 2],
    /// Jobs that are out, by the class of their request.
    jobs: [usize; 2],
    /// Of the foreign jobs, those whose external block is to be read.
    pub(crate) unread: usize,
    /// Windows taken so far.
    pub(crate) taken: u64,
    first: [[First; PRIORITIES]; 2],
    /// Who has the place of each class outside of the arena, and its class now.
    outside: [Option<(Id, Class)>; 2],
}

impl Staging {
    pub(crate) fn new(arena: Arena, buffers: Arc<BufferPool>) -> Staging {
        Staging {
            reserve: arena.capacity() / 16,
            arena,
            buffers,
            out: [Held::default(); 2],
            jobs: [0; 2],
            unread: 0,
            taken: 0,
            first: [[First::default(); PRIORITIES]; 2],
            outside: [None, None],
        }
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        self.arena.region()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.arena.capacity()
    }

    pub(crate) fn in_use(&self) -> usize {
        self.arena.in_use()
    }

    pub(crate) fn peak(&self) -> usize {
        self.arena.peak()
    }

    /// Whether only the library is needed to serve the first of a class.
    pub(crate) fn is_sure(&self, class: Class) -> bool {
        self.outside[class as usize].is_none_or(|(_, now)| now == Class::Ordinary)
    }

    /// Whether a first of a class holds up another request: rule 2. Of two firsts of a priority the
    /// one that was passed more often does, so never both.
    fn holds_up(&self, class: Class, ask: &Ask) -> bool {
        let own = &self.first[ask.class as usize][ask.priority as usize];
        let from_own = Priority::ALL.into_iter().skip(ask.priority as usize);
        self.is_sure(class)
            && from_own.into_iter().any(|priority| {
                let first = &self.first[class as usize][priority as usize];
                let is_due = first.id.is_some_and(|id| id != ask.id) && first.passes >= PASSES_MAX;
                let is_tie = priority == ask.priority && own.id == Some(ask.id);
                is_due
                    && (!is_tie
                        || (first.passes, class == Class::Ordinary)
                            > (own.passes, ask.class == Class::Ordinary))
            })
    }

    /// Whether no other request of its class waits that is before it.
    fn is_first(&self, ask: &Ask) -> bool {
        let firsts = self.first[ask.class as usize].iter();
        let mut from_own = firsts.skip(ask.priority as usize);
        from_own.all(|first| first.id.is_none_or(|id| id == ask.id))
    }

    /// Where a window would be now: rules 2 to 5.
    fn place(&self, ask: &Ask) -> Option<Home> {
        if CLASSES.iter().any(|class| self.holds_up(*class, ask)) {
            return None;
        }
        let class = ask.class as usize;
        let (capacity, in_use) = (self.arena.capacity(), self.arena.in_use());
        let room = match ask.priority {
            Priority::Realtime => capacity,
            Priority::Low | Priority::Normal | Priority::High => capacity - self.reserve,
        };
        let (share, taken) = match ask.class {
            Class::Ordinary => (room, 0),
            Class::Foreign => (capacity / 2, self.out[class].bytes),
        };
        let unread = match ask.class {
            Class::Ordinary => 0,
            Class::Foreign => self.unread,
        };
        // A task may come back before `unread` is updated.
        let has_jobs = self.jobs[class].saturating_sub(unread) < limits::JOBS_MAX;
        let in_share = taken + ask.bytes <= share;
        if has_jobs && in_share && in_use + ask.bytes <= room && self.arena.fits(ask.bytes) {
            return Some(Home::Inside);
        }
        let none_ordinary = self.out[Class::Ordinary as usize].windows == 0;
        let stuck = match ask.class {
            Class::Ordinary => has_jobs && (!in_share || none_ordinary),
            Class::Foreign => !has_jobs || !in_share || none_ordinary,
        };
        (self.is_first(ask) && stuck && self.outside[class].is_none()).then_some(Home::Outside)
    }

    /// Whether a window of this size would be given now.
    pub(crate) fn has_room(&self, ask: &Ask) -> bool {
        self.place(ask).is_some()
    }

    /// The same for a request that is before all others of its class and priority. Without room it
    /// becomes the first, and is looked at again: the one that was may be what held it up, and
    /// nothing else would have it looked at.
    pub(crate) fn has_room_for_leader(&mut self, ask: &Ask) -> bool {
        self.has_room(ask) || {
            self.note_waits(ask, true);
            self.has_room(ask)
        }
    }

    /// Takes the memory of a window; `None`: there is no room now.
    ///
    /// # Errors
    /// The window would be outside, and there is no memory.
    pub(crate) fn take(&mut self, ask: &Ask) -> Result<Option<WindowMemory>, IoError> {
        let memory = match (self.place(ask), ask.class) {
            (None, _) => return Ok(None),
            (Some(Home::Outside), class) => {
                let buffer = self.buffers.take(ask.bytes)?;
                self.outside[class as usize] = Some((ask.id, class));
                Some(WindowMemory::Outside(buffer, class))
            }
            (Some(Home::Inside), Class::Ordinary) => {
                self.arena.take(ask.bytes).map(WindowMemory::Inside)
            }
            (Some(Home::Inside), Class::Foreign) => {
                self.arena.take_last(ask.bytes).map(WindowMemory::Inside)
            }
        };
        let memory = memory.expect("looked at before");
        self.out[ask.class as usize].add(Held::of(&memory));
        self.taken += 1;
        for first in self.first.as_flattened_mut() {
            if first.id == Some(ask.id) {
                *first = First::default();
            }
        }
        for firsts in &mut self.first {
            for first in &mut firsts[ask.priority as usize..] {
                first.passes += u32::from(first.id.is_some());
            }
        }
        Ok(Some(memory))
    }

    /// Takes a window back from a request that holds `held` in sum.
    pub(crate) fn give(&mut self, memory: WindowMemory, held: &mut Held, class: Class) {
        let one = Held::of(&memory);
        held.take(one);
        self.out[class as usize].take(one);
        match memory {
            WindowMemory::Inside(block) => self.arena.give(block),
            WindowMemory::Outside(_, place) => self.outside[place as usize] = None,
        }
    }

    /// The windows of a request change their class.
    pub(crate) fn reclass(&mut self, id: Id, held: Held, from: Class, to: Class) {
        self.out[from as usize].take(held);
        self.out[to as usize].add(held);
        for (owner, class) in self.outside.iter_mut().flatten() {
            if *owner == id {
                *class = to;
            }
        }
    }

    /// A request waits that has no room: the first of its class and priority, unless another is.
    /// `leads`: it is before all others of its priority.
    pub(crate) fn note_waits(&mut self, ask: &Ask, leads: bool) {
        let first = &mut self.first[ask.class as usize][ask.priority as usize];
        if leads || first.id.is_none() {
            first.id = Some(ask.id);
        }
    }

    /// A request does not wait any more.
    pub(crate) fn left(&mut self, id: Id) {
        for first in self.first.as_flattened_mut() {
            first.id = first.id.filter(|other| *other != id);
        }
    }

    /// The highest priority of the first requests that wait for ordinary windows to be freed.
    pub(crate) fn first_priority(&self) -> Option<Priority> {
        let waits = |priority: &Priority| {
            CLASSES.into_iter().any(|class| {
                let first = &self.first[class as usize][*priority as usize];
                first.id.is_some() && self.is_sure(class)
            })
        };
        Priority::ALL.into_iter().rev().find(waits)
    }

    pub(crate) fn jobs_given(&mut self, class: Class, count: usize) {
        self.jobs[class as usize] += count;
    }

    pub(crate) fn job_back(&mut self, class: Class) {
        self.jobs[class as usize] -= 1;
    }

    /// Jobs that are out.
    pub(crate) fn jobs_out(&self) -> usize {
        self.jobs.iter().sum()
    }

    /// Jobs that are out and need no help of the application.
    pub(crate) fn library_jobs(&self) -> usize {
        self.jobs[Class::Ordinary as usize]
    }

    /// Whether only others than the library can free what is out.
    pub(crate) fn is_foreign_alone(&self) -> bool {
        let foreign = Class::Foreign as usize;
        self.out[Class::Ordinary as usize].windows == 0
            && (self.out[foreign].windows > 0 || self.jobs[foreign] > 0)
    }
}

#[cfg(test)]
mod tests;
