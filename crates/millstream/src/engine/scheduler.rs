//! The scheduler: which request is served next. Plain data in, plain data out; no I/O, no clock.
//!
//! Per priority a request is in exactly one of four orders:
//! - the pinned ones, in front of all others: they hold a window of staging that is half issued,
//!   and nothing but their own operations can free it (see `issue.rs`);
//! - a list by arrival, the common case;
//! - a heap by deadline, then arrival, for requests with a deadline or that came back late;
//! - a tree by position, for requests on rotating disks: the head sweeps up to the last position
//!   and back (LOOK); a sweep from rest begins towards the nearer end, as the ideal elevator does.
//!
//! A request stays in front until it is removed: it is served block by block. Removal is exact.
//!
//! What is in flight ahead of a request is what it waits for, so bytes in flight are bounded:
//! below realtime by what keeps a device busy, and by what it moves in 100 µs while realtime
//! requests were seen lately; below another priority that has work, all together by what it moves
//! in 500 µs. For a second after a normal or high request found low ones in flight, the bytes of
//! low priority are bounded by what it moves in `StorageOptions::low_wait`. One block may be in
//! flight in any case (priorities may read from different disks).

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::engine::heap::Heap;
use crate::limits;
use crate::priority::{Guard, PRIORITIES, Priorities, Priority};

pub(crate) const NO_DEADLINE: u64 = u64::MAX;

const NIL: u32 = u32::MAX;

/// What decides when a request is served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) priority: Priority,
    pub(crate) deadline_ns: u64,
    /// Number in the order of intake.
    pub(crate) arrival: u64,
    /// On a rotating disk: where its next block is.
    pub(crate) position: Option<u64>,
    /// Served before all others of its priority.
    pub(crate) pinned: bool,
}

/// Which list a request is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListKind {
    Nowhere,
    Pinned,
    Arrivals,
    Deadlines,
    Elevator,
}

#[derive(Clone, Copy)]
struct Link {
    next: u32,
    previous: u32,
    arrival: u64,
    place: ListKind,
    priority: Priority,
}

const UNLINKED: Link = Link {
    next: NIL,
    previous: NIL,
    arrival: 0,
    place: ListKind::Nowhere,
    priority: Priority::Low,
};

struct Level {
    /// In the order in which they were pinned: at most one, unless priorities change or a mount
    /// that can hang is full.
    pinned: Vec<u32>,
    first: u32,
    last: u32,
    /// The arrival of `last`.
    last_arrival: u64,
    deadlines: Heap,
    elevator: BTreeMap<(u64, u64), u32>,
    /// The elevator was served last (it takes turns with the arrivals).
    elevator_served: bool,
}

pub(crate) struct Scheduler {
    levels: [Level; PRIORITIES],
    guard: Guard,
    links: Vec<Link>,
    /// Keys in the elevator of requests on rotating disks.
    positions: BTreeMap<u32, (u64, u64)>,
    /// Requests that wait to be served, by priority.
    waiting: [u32; PRIORITIES],
    /// Priorities of which any request waits.
    waits: Priorities,
    in_flight: [u64; PRIORITIES],
    /// Priorities that have any bytes in flight.
    flies: Priorities,
    /// Bytes in flight of all priorities but realtime.
    bulk_bytes: u64,
    bulk_bytes_max: u64,
    block_bytes: u64,
    low_wait_ns: u64,
    /// Low priority had to wait for its own bytes in flight since this was asked last.
    held_low: Cell<bool>,
    realtime_until_ns: u64,
    /// Until when low priority is bounded, as another found it in flight.
    low_until_ns: u64,
    head: u64,
    upwards: bool,
    swept: bool,
}

impl Scheduler {
    pub(crate) fn new(block_bytes: u64, low_wait_ns: u64) -> Scheduler {
        Scheduler {
            levels: std::array::from_fn(|_| Level {
                pinned: Vec::new(),
                first: NIL,
                last: NIL,
                last_arrival: 0,
                deadlines: Heap::default(),
                elevator: BTreeMap::new(),
                elevator_served: false,
            }),
            guard: Guard::default(),
            links: Vec::new(),
            positions: BTreeMap::new(),
            waiting: [0; PRIORITIES],
            waits: Priorities::default(),
            in_flight: [0; PRIORITIES],
            flies: Priorities::default(),
            bulk_bytes: 0,
            bulk_bytes_max: limits::IN_FLIGHT_BYTES_MAX.max(block_bytes),
            block_bytes,
            low_wait_ns,
            held_low: Cell::new(false),
            realtime_until_ns: 0,
            low_until_ns: 0,
            head: 0,
            upwards: true,
            swept: false,
        }
    }

    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Whether requests on rotating disks wait.
    pub(crate) fn has_positions(&self) -> bool {
        !self.positions.is_empty()
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight.iter().sum()
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, key: u32, order: Order, now_ns: u64) {
        let Order {
            priority,
            deadline_ns,
            arrival,
            position,
            pinned,
        } = order;
        if self.links.len() <= key as usize {
            let len = (key as usize + 1).next_multiple_of(1024);
            self.links.resize(len, UNLINKED);
        }
        let place = self.links[key as usize].place;
        assert!(place == ListKind::Nowhere, "a request waits once");
        self.note_seen(priority, now_ns);
        self.waiting[priority as usize] += 1;
        self.waits.insert(priority);
        let level = &mut self.levels[priority as usize];
        let late = level.last != NIL && level.last_arrival > arrival;
        let place = match (deadline_ns, position) {
            _ if pinned => {
                level.pinned.push(key);
                if let Some(position) = position {
                    self.positions.insert(key, (position, arrival));
                }
                ListKind::Pinned
            }
            (NO_DEADLINE, None) if !late => {
                let last = std::mem::replace(&mut level.last, key);
                level.last_arrival = arrival;
                match last {
                    NIL => level.first = key,
                    last => self.links[last as usize].next = key,
                }
                self.links[key as usize].previous = last;
                ListKind::Arrivals
            }
            (NO_DEADLINE, Some(position)) => {
                level.elevator.insert((position, arrival), key);
                self.positions.insert(key, (position, arrival));
                ListKind::Elevator
            }
            (deadline_ns, _) => {
                level.deadlines.insert(deadline_ns, arrival, key);
                ListKind::Deadlines
            }
        };
        let link = &mut self.links[key as usize];
        (link.next, link.arrival) = (NIL, arrival);
        (link.place, link.priority) = (place, priority);
    }

    #[inline]
    fn note_seen(&mut self, priority: Priority, now_ns: u64) {
        let until_ns = now_ns + limits::HIGHER_MEMORY_NS;
        match priority {
            Priority::Realtime => self.realtime_until_ns = until_ns,
            Priority::Low => {}
            _ if self.in_flight[Priority::Low as usize] > 0 => self.low_until_ns = until_ns,
            _ => {}
        }
    }

    /// Removes a request; returns whether it was waiting.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> bool {
        let Some(link) = self.links.get_mut(key as usize) else {
            return false;
        };
        let place = std::mem::replace(&mut link.place, ListKind::Nowhere);
        let (next, previous, priority) = (link.next, link.previous, link.priority);
        let level = &mut self.levels[priority as usize];
        match place {
            ListKind::Nowhere => return false,
            ListKind::Pinned => {
                level.pinned.retain(|pinned| *pinned != key);
                self.positions.remove(&key);
            }
            ListKind::Deadlines => {
                let removed = level.deadlines.remove(key);
                assert!(removed, "a request with a deadline is in the heap");
            }
            ListKind::Elevator => {
                let at = self.positions.remove(&key);
                let removed = at.and_then(|at| level.elevator.remove(&at));
                assert_eq!(
                    removed,
                    Some(key),
                    "a positioned request is in the elevator"
                );
            }
            ListKind::Arrivals => {
                match (next, previous) {
                    (NIL, NIL) => level.last = NIL,
                    (NIL, _) => {
                        level.last = previous;
                        level.last_arrival = self.links[previous as usize].arrival;
                    }
                    _ => self.links[next as usize].previous = previous,
                }
                match previous {
                    NIL => level.first = next,
                    previous => self.links[previous as usize].next = next,
                }
            }
        }
        let waiting = &mut self.waiting[priority as usize];
        *waiting -= 1;
        if *waiting == 0 {
            self.waits.remove(priority);
        }
        true
    }

    /// Moves a waiting request on a rotating disk to the position of its next block.
    pub(crate) fn moved(&mut self, key: u32, position: u64) {
        let Some(at) = self.positions.get_mut(&key) else {
            return;
        };
        let Link {
            place, priority, ..
        } = self.links[key as usize];
        let before = std::mem::replace(at, (position, at.1));
        if place == ListKind::Elevator {
            let elevator = &mut self.levels[priority as usize].elevator;
            elevator.remove(&before);
            elevator.insert(*at, key);
        }
    }

    /// Whether a request waits in front of the others of its priority.
    pub(crate) fn is_pinned(&self, key: u32) -> bool {
        let link = self.links.get(key as usize);
        link.is_some_and(|link| link.place == ListKind::Pinned)
    }

    /// Whether any request is pinned in a priority.
    pub(crate) fn has_pinned(&self, priority: Priority) -> bool {
        !self.levels[priority as usize].pinned.is_empty()
    }

    /// A request that is pinned below a priority, if the bounds let that priority have another
    /// block in flight.
    pub(crate) fn pinned_below(
        &self,
        priority: Priority,
        now_ns: u64,
        bytes_per_second: u64,
    ) -> Option<u32> {
        let below = self.levels[..priority as usize].iter().rev();
        let pinned = below.filter_map(|level| level.pinned.first()).next();
        pinned
            .copied()
            .filter(|_| self.is_open(priority, now_ns, bytes_per_second))
    }

    /// Largest operation of a priority to issue now: of `blocks` blocks, unless others may have to
    /// wait for it.
    pub(crate) fn block_bytes(&self, priority: Priority, now_ns: u64, blocks: u64) -> u64 {
        match self.keeps_short(priority, now_ns) {
            true => self.short_block_bytes(),
            false => self.block_bytes * blocks,
        }
    }

    fn short_block_bytes(&self) -> u64 {
        self.block_bytes.min(limits::BLOCK_BYTES_SHORT as u64)
    }

    /// Whether others may have to wait for what a priority has in flight.
    #[inline]
    fn keeps_short(&self, priority: Priority, now_ns: u64) -> bool {
        now_ns < self.realtime_until_ns
            || self.is_below_others(priority)
            || self.was_below_others(priority, now_ns)
    }

    /// Whether a priority is the lowest, and another found it in flight lately.
    #[inline]
    fn was_below_others(&self, priority: Priority, now_ns: u64) -> bool {
        priority == Priority::Low && now_ns < self.low_until_ns
    }

    /// Whether requests of a priority above this one, and below realtime, wait or are in flight.
    #[inline]
    fn is_below_others(&self, priority: Priority) -> bool {
        let busy = self.waits.or(self.flies);
        !busy.above_bulk(priority).is_empty()
    }

    /// Bytes that a device of this rate moves in `ns`, from two short blocks to the bulk bound.
    fn bytes_in(&self, ns: u64, bytes_per_second: u64) -> u64 {
        // A product that saturates is far above the bulk bound.
        let product = bytes_per_second.saturating_mul(ns) / 1_000_000_000;
        product.clamp(2 * self.short_block_bytes(), self.bulk_bytes_max)
    }

    /// Whether the bounds let a priority have another block in flight.
    #[inline(always)]
    fn is_open(&self, priority: Priority, now_ns: u64, bytes_per_second: u64) -> bool {
        if priority == Priority::Realtime {
            return true;
        }
        let bulk_bytes_max = match now_ns < self.realtime_until_ns {
            true => self.bytes_in(limits::REALTIME_WAIT_NS, bytes_per_second),
            false => self.bulk_bytes_max,
        };
        if self.bulk_bytes >= bulk_bytes_max {
            return false;
        }
        let is_below = self.is_below_others(priority);
        let was_below = self.was_below_others(priority, now_ns);
        let up_to = || self.in_flight[..=priority as usize].iter().sum::<u64>();
        let fits = |ns, bytes| bytes < self.bytes_in(ns, bytes_per_second);
        if !is_below && !was_below || up_to() == 0 || self.guard.is_due(priority) {
            return true;
        }
        let fits_low = !was_below || fits(self.low_wait_ns, up_to());
        self.held_low.set(self.held_low.get() || !fits_low);
        fits_low && (!is_below || fits(limits::HIGHER_WAIT_NS, self.bulk_bytes))
    }

    /// Whether low priority was held to its own bound since the last call: what the device moved
    /// meanwhile may be less than it can.
    pub(crate) fn take_held_low(&self) -> bool {
        self.held_low.take()
    }

    /// The request to be served next, if one may be. Priorities in `skip` cannot be served now.
    #[inline(always)]
    pub(crate) fn pick(
        &mut self,
        now_ns: u64,
        bytes_per_second: u64,
        skip: Priorities,
    ) -> Option<(u32, Priority)> {
        let waiting = self.waits.without(skip);
        let priority = self.guard.next(waiting, |priority| {
            self.is_open(priority, now_ns, bytes_per_second)
        })?;
        Some((self.front(priority), priority))
    }

    /// The first request of a priority that has any.
    #[inline(always)]
    fn front(&mut self, priority: Priority) -> u32 {
        let level = &self.levels[priority as usize];
        if let Some(pinned) = level.pinned.first() {
            return *pinned;
        }
        match level.first != NIL && level.deadlines.is_empty() && level.elevator.is_empty() {
            true => level.first,
            false => self.front_of_orders(priority),
        }
    }

    /// The first of a priority with requests in several orders.
    fn front_of_orders(&mut self, priority: Priority) -> u32 {
        let level = &self.levels[priority as usize];
        let listed = match level.first {
            NIL => None,
            first => Some((NO_DEADLINE, self.links[first as usize].arrival, first)),
        };
        let ordered = match (level.deadlines.first(), listed) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match ordered {
            Some((deadline_ns, _, key))
                if deadline_ns != NO_DEADLINE
                    || level.elevator.is_empty()
                    || level.elevator_served =>
            {
                return key;
            }
            _ => assert!(
                !level.elevator.is_empty(),
                "a priority that waits has a request"
            ),
        }
        let mut upwards = match self.swept {
            true => self.upwards,
            false => nearer_end_is_up(&level.elevator, self.head),
        };
        let next = next_on_sweep(&level.elevator, self.head, &mut upwards);
        self.upwards = upwards;
        next.expect("a sweep over an elevator that is not empty")
    }

    /// Counts a block that goes to the device.
    #[inline(always)]
    pub(crate) fn issued(&mut self, key: u32, priority: Priority, bytes: u64, now_ns: u64) {
        self.note_seen(priority, now_ns);
        self.in_flight[priority as usize] += bytes;
        self.flies.insert(priority);
        if priority != Priority::Realtime {
            self.bulk_bytes += bytes;
        }
        self.served(key, priority, bytes);
    }

    /// Notes that a request was served `bytes` of its next block, for the order of the others.
    #[inline(always)]
    pub(crate) fn served(&mut self, key: u32, priority: Priority, bytes: u64) {
        self.guard.served(priority, self.waits);
        let position = match self.positions.is_empty() {
            true => None,
            false => self.positions.get(&key),
        };
        self.levels[priority as usize].elevator_served = position.is_some();
        if let Some((position, _)) = position {
            self.head = position.saturating_add(bytes);
            self.swept = true;
        }
    }

    /// Uncounts a block that came back.
    #[inline]
    pub(crate) fn returned(&mut self, priority: Priority, bytes: u64) {
        let account = &mut self.in_flight[priority as usize];
        assert!(*account >= bytes, "what comes back was issued");
        *account -= bytes;
        if *account == 0 {
            self.flies.remove(priority);
        }
        if priority != Priority::Realtime {
            self.bulk_bytes -= bytes;
        }
        if self.swept && self.waits.is_empty() && self.in_flight_bytes() == 0 {
            self.swept = false;
        }
    }

    /// The request behind `key` in the order of arrival: a candidate for merging.
    #[inline]
    pub(crate) fn follower(&self, key: u32) -> Option<u32> {
        let link = &self.links[key as usize];
        (link.place == ListKind::Arrivals && link.next != NIL).then_some(link.next)
    }
}

fn nearer_end_is_up(elevator: &BTreeMap<(u64, u64), u32>, head: u64) -> bool {
    let low = elevator.first_key_value().map_or(head, |(key, _)| key.0);
    let high = elevator.last_key_value().map_or(head, |(key, _)| key.0);
    high.saturating_sub(head) <= head.saturating_sub(low)
}

/// The next key in the sweep's direction, turning at its end.
fn next_on_sweep(
    elevator: &BTreeMap<(u64, u64), u32>,
    head: u64,
    upwards: &mut bool,
) -> Option<u32> {
    let up = || elevator.range((head, 0)..).next().map(|(_, key)| *key);
    let down = || elevator.range(..(head, 0)).next_back().map(|(_, key)| *key);
    let ahead = if *upwards { up() } else { down() };
    if ahead.is_some() {
        return ahead;
    }
    *upwards = !*upwards;
    if *upwards { up() } else { down() }
}

#[cfg(test)]
mod tests;
