//! The scheduler: which request is served next. Plain data in, plain data out; no I/O, no clock.
//!
//! Per class there are three orders, and a request stands in exactly one of them:
//! - `deadlines`, a heap: requests with a deadline, or that came back into the class later;
//!   earliest deadline first, then arrival;
//! - `arrivals`, a list: the usual case, O(1);
//! - `elevator`, a tree by position: requests without a deadline on rotating disks. The head sweeps
//!   up to the last position and back down (LOOK); a sweep from rest begins towards the nearer end,
//!   which is what the ideal elevator does.
//!
//! A request stays at the front until it is removed: it is served block by block. Removal is lazy:
//! an item is valid while its stamp is the request's current one.
//!
//! Classes are served highest first, but a waiting class that was passed over 15 times gets the
//! 16th block ([`turns`](crate::turns)), so that none starves. What is in flight ahead of a
//! request, or beside it, is what it waits for; so bytes in flight are bounded, by class:
//! - Below realtime: by what keeps a device busy, and by what it moves in 100 µs while realtime
//!   requests were seen lately.
//! - Below another class that has work, waiting or in flight (realtime apart, see above): as long
//!   as that other keeps the device busy, a class has one block in flight, of 256 KiB, and what its
//!   16th turns bring. It fills up what the other leaves free of the bytes that the device moves in
//!   500 µs: so the device has enough to do while the last of the other comes in, and beyond.
//!
//! The second bound was measured with 1.6 MB of class high beside 11 MB of class low, handed over
//! at once, on a virtual disk of 2 GB/s: what is high was there after 0.75 of the whole without a
//! bound, 0.42 with 4 MiB, 0.25 with 1 to 2 MiB (blocks of 1 MiB: 0.30), and the whole took as
//! long. One block in any case, because classes may read from different disks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::limits;
use crate::request::Priority;
use crate::turns::{CLASSES, Turns};

/// No deadline.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

/// Where a request stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) class: Priority,
    pub(crate) deadline_ns: u64,
    pub(crate) arrival: u64,
    /// On a rotating disk: where its next block lies.
    pub(crate) position: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    deadline_ns: u64,
    arrival: u64,
    /// Request and stamp in one word, which is written and read as a whole.
    who: u64,
}

impl Item {
    fn request(&self) -> u32 {
        (self.who >> 32) as u32
    }

    /// Whether it means what stands under its request's number now.
    fn is_valid(&self, stamps: &[u32]) -> bool {
        stamps[self.request() as usize] == (self.who & u64::from(u32::MAX)) as u32
    }
}

/// Whether and where a request stands, as far as most requests need it.
#[derive(Debug, Clone, Copy)]
struct Standing {
    class: Priority,
    /// Its place, which has a position, is in the column of places.
    positioned: bool,
}

#[derive(Default)]
struct Class {
    deadlines: BinaryHeap<Reverse<Item>>,
    arrivals: VecDeque<Item>,
    elevator: BTreeMap<(u64, u64), Item>,
    waiting: usize,
    /// The elevator was served last (it takes turns with the arrivals).
    elevator_turn: bool,
}

/// What is in flight, by the scheduler's account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    by_class: [u64; CLASSES],
    /// Of all classes but realtime: asked for at every pick, so it is not added up then.
    bulk_bytes: u64,
}

impl InFlight {
    pub(crate) fn bytes(&self) -> u64 {
        self.by_class.iter().sum()
    }

    /// Of a class and those below it.
    fn bytes_up_to(&self, class: Priority) -> u64 {
        self.by_class[..=class as usize].iter().sum()
    }
}

pub(crate) struct Scheduler {
    classes: [Class; CLASSES],
    turns: Turns,
    stamps: Vec<u32>,
    standing: Vec<Option<Standing>>,
    /// Where requests on rotating disks stand; of others it says nothing.
    places: Vec<Place>,
    in_flight: InFlight,
    bulk_bytes_max: u64,
    realtime_until_ns: u64,
    block_bytes: u64,
    head: u64,
    upwards: bool,
    swept: bool,
}

impl Scheduler {
    pub(crate) fn new(block_bytes: u64) -> Scheduler {
        Scheduler {
            classes: Default::default(),
            turns: Turns::default(),
            stamps: Vec::new(),
            standing: Vec::new(),
            places: Vec::new(),
            in_flight: InFlight::default(),
            bulk_bytes_max: limits::IN_FLIGHT_BYTES_MAX.max(block_bytes),
            realtime_until_ns: 0,
            block_bytes,
            head: 0,
            upwards: true,
            swept: false,
        }
    }

    /// Requests that wait to be served.
    pub(crate) fn waiting(&self) -> usize {
        self.classes.iter().map(|class| class.waiting).sum()
    }

    pub(crate) fn contains(&self, request: u32) -> bool {
        self.standing
            .get(request as usize)
            .is_some_and(Option::is_some)
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight
    }

    /// Lets a request wait for its turn.
    #[inline(always)]
    pub(crate) fn add(&mut self, request: u32, place: Place, now_ns: u64) {
        let index = request as usize;
        if index >= self.stamps.len() {
            self.stamps.resize(index + 1, 0);
            self.standing.resize(index + 1, None);
            self.places.resize(index + 1, place);
        }
        assert!(self.standing[index].is_none(), "a request waits once");
        let positioned = place.position.is_some();
        self.standing[index] = Some(Standing {
            class: place.class,
            positioned,
        });
        if positioned {
            self.places[index] = place;
        }
        self.note_realtime(place.class, now_ns);
        self.class(place.class).waiting += 1;
        self.insert(request, place);
    }

    fn note_realtime(&mut self, class: Priority, now_ns: u64) {
        if class == Priority::Realtime {
            self.realtime_until_ns = now_ns + limits::REALTIME_MEMORY_NS;
        }
    }

    #[inline(always)]
    fn insert(&mut self, request: u32, place: Place) {
        let stamp = self.stamps[request as usize];
        let Place {
            deadline_ns,
            arrival,
            ..
        } = place;
        let item = Item {
            deadline_ns,
            arrival,
            who: u64::from(request) << 32 | u64::from(stamp),
        };
        let class = self.class(place.class);
        match place.position {
            Some(position) if deadline_ns == NO_DEADLINE => {
                class.elevator.insert((position, arrival), item);
            }
            _ => {
                let in_order = class
                    .arrivals
                    .back()
                    .is_none_or(|last| last.arrival < arrival);
                if deadline_ns == NO_DEADLINE && in_order {
                    class.arrivals.push_back(item);
                } else {
                    class.deadlines.push(Reverse(item));
                }
            }
        }
    }

    fn class(&mut self, class: Priority) -> &mut Class {
        &mut self.classes[class as usize]
    }

    /// The request no longer waits (served completely, cancelled, or held back).
    pub(crate) fn remove(&mut self, request: u32) {
        let index = request as usize;
        if let Some(Some(standing)) = self.standing.get(index).copied() {
            self.standing[index] = None;
            self.stamps[index] = self.stamps[index].wrapping_add(1);
            let class = &mut self.classes[standing.class as usize];
            class.waiting -= 1;
            if standing.positioned {
                let place = &self.places[index];
                let position = place.position.unwrap_or(0);
                class.elevator.remove(&(position, place.arrival));
            }
            if class.waiting == 0 {
                // What is left is of requests that were removed, and nobody would look at it.
                class.arrivals.clear();
                class.deadlines.clear();
            }
        }
    }

    /// Its class, deadline or position has changed.
    pub(crate) fn change(&mut self, request: u32, place: Place, now_ns: u64) {
        self.remove(request);
        self.add(request, place, now_ns);
    }

    /// The next block of a request on a rotating disk lies elsewhere.
    pub(crate) fn moved(&mut self, request: u32, position: u64) {
        let index = request as usize;
        if !self.standing[index].is_some_and(|standing| standing.positioned) {
            return;
        }
        let mut place = self.places[index];
        let Some(old) = place.position.replace(position) else {
            return;
        };
        self.places[index] = place;
        if place.deadline_ns == NO_DEADLINE {
            self.class(place.class)
                .elevator
                .remove(&(old, place.arrival));
            self.insert(request, place);
        }
    }

    /// Largest block of a class to issue now.
    pub(crate) fn block_bytes(&self, class: Priority, now_ns: u64) -> u64 {
        if self.keeps_short(class, now_ns) {
            self.short_block_bytes()
        } else {
            self.block_bytes
        }
    }

    /// The same for a read through the page cache that the device must answer.
    pub(crate) fn buffered_block_bytes(&self, class: Priority, now_ns: u64) -> u64 {
        if self.keeps_short(class, now_ns) {
            self.short_block_bytes()
        } else {
            self.block_bytes * limits::BUFFERED_BLOCKS
        }
    }

    fn short_block_bytes(&self) -> u64 {
        self.block_bytes.min(limits::BLOCK_BYTES_SHORT as u64)
    }

    /// Whether others may have to wait for what a class has in flight.
    fn keeps_short(&self, class: Priority, now_ns: u64) -> bool {
        now_ns < self.realtime_until_ns || self.is_below_others(class)
    }

    /// Whether requests of a class above this one, and below realtime, wait or are in flight.
    fn is_below_others(&self, class: Priority) -> bool {
        let index = class as usize + 1;
        let others = index..Priority::Realtime as usize;
        let mut others = others.map(|other| (&self.classes[other], self.in_flight.by_class[other]));
        others.any(|(other, in_flight)| other.waiting > 0 || in_flight > 0)
    }

    /// Bytes that a device of this rate moves in `ns`: two short blocks at least.
    fn bytes_in(&self, ns: u64, bytes_per_second: u64) -> u64 {
        let product = bytes_per_second / (1_000_000_000 / ns);
        product.clamp(2 * self.short_block_bytes(), self.bulk_bytes_max)
    }

    /// Whether the bounds let a class have another block in flight.
    fn is_open(&self, class: Priority, now_ns: u64, bytes_per_second: u64) -> bool {
        if class == Priority::Realtime {
            return true;
        }
        let bulk_bytes = self.in_flight.bulk_bytes;
        let bulk_bytes_max = if now_ns < self.realtime_until_ns {
            self.bytes_in(limits::REALTIME_WAIT_NS, bytes_per_second)
        } else {
            self.bulk_bytes_max
        };
        let beside_others = || {
            bulk_bytes < self.bytes_in(limits::HIGHER_WAIT_NS, bytes_per_second)
                || self.in_flight.bytes_up_to(class) == 0
                || self.turns.is_due(class)
        };
        bulk_bytes < bulk_bytes_max && (!self.is_below_others(class) || beside_others())
    }

    /// The request to be served next, if one may be. `passed` says of a class that it cannot be
    /// served now.
    pub(crate) fn pick(
        &mut self,
        now_ns: u64,
        bytes_per_second: u64,
        passed: [bool; CLASSES],
    ) -> Option<(u32, Priority)> {
        let class = self.turns.next(|class| {
            let index = class as usize;
            !passed[index]
                && self.classes[index].waiting > 0
                && self.is_open(class, now_ns, bytes_per_second)
        })?;
        self.front(class).map(|request| (request, class))
    }

    /// The class's first valid request; there is one if any waits.
    fn front(&mut self, class: Priority) -> Option<u32> {
        let stamps = &self.stamps;
        let valid = |item: &Item| item.is_valid(stamps);
        let class = &mut self.classes[class as usize];
        if class.deadlines.is_empty() && class.elevator.is_empty() {
            // The usual case: requests in the order of their arrival.
            while let Some(item) = class.arrivals.front() {
                if valid(item) {
                    return Some(item.request());
                }
                class.arrivals.pop_front();
            }
            return None;
        }
        let (head, mut upwards, swept) = (self.head, self.upwards, self.swept);
        while class.deadlines.peek().is_some_and(|item| !valid(&item.0)) {
            class.deadlines.pop();
        }
        while class.arrivals.front().is_some_and(|item| !valid(item)) {
            class.arrivals.pop_front();
        }
        let arrival = class.arrivals.front();
        if let Some(Reverse(first)) = class.deadlines.peek()
            && arrival.is_none_or(|other| first < other)
            && (first.deadline_ns != NO_DEADLINE || class.elevator.is_empty() || arrival.is_some())
        {
            return Some(first.request());
        }
        let take_elevator =
            !class.elevator.is_empty() && (arrival.is_none() || !class.elevator_turn);
        if !take_elevator {
            let first = arrival
                .copied()
                .or_else(|| class.deadlines.peek().map(|item| item.0));
            return first.map(|item| item.request());
        }
        if !swept {
            upwards = nearer_end_is_up(&class.elevator, head);
        }
        let next = next_on_sweep(&class.elevator, head, &mut upwards);
        self.upwards = upwards;
        next.map(|item| item.request())
    }

    /// A block of a request goes to the device.
    pub(crate) fn issued(&mut self, request: u32, class: Priority, bytes: u64, now_ns: u64) {
        self.note_realtime(class, now_ns);
        self.in_flight.by_class[class as usize] += bytes;
        if class < Priority::Realtime {
            self.in_flight.bulk_bytes += bytes;
        }
        let classes = &self.classes;
        self.turns
            .served(class, |lower| classes[lower as usize].waiting > 0);
        let standing = self.standing.get(request as usize).copied().flatten();
        let position = match standing {
            Some(standing) if standing.positioned => self.places[request as usize].position,
            _ => None,
        };
        let class = self.class(class);
        class.elevator_turn = position.is_some();
        if let Some(position) = position {
            self.head = position + bytes;
            self.swept = true;
        }
    }

    /// A block came back.
    pub(crate) fn completed(&mut self, class: Priority, bytes: u64) {
        let account = &mut self.in_flight.by_class[class as usize];
        let left = account
            .checked_sub(bytes)
            .expect("what came back had been issued");
        *account = left;
        if class < Priority::Realtime {
            self.in_flight.bulk_bytes -= bytes;
        }
        if left == 0 && self.in_flight.bytes() == 0 && self.waiting() == 0 {
            self.swept = false;
        }
    }

    /// Who stands behind the first of a class in the order of arrival, maybe no more: whom to look
    /// at before [`Scheduler::follower`] is asked.
    #[inline]
    pub(crate) fn second(&self, class: Priority) -> Option<u32> {
        let item = self.classes[class as usize].arrivals.get(1);
        item.map(|item| item.request())
    }

    /// Of a class's requests in the order of their arrival the `nth` behind `request`, which must
    /// stand in front: a candidate for merging.
    #[inline]
    pub(crate) fn follower(&self, class: Priority, request: u32, nth: usize) -> Option<u32> {
        let arrivals = &self.classes[class as usize].arrivals;
        let item = arrivals.get(nth)?;
        let front = arrivals.front()?;
        let stands = |item: &Item| item.is_valid(&self.stamps);
        (front.request() == request && stands(front) && stands(item)).then(|| item.request())
    }
}

fn nearer_end_is_up(elevator: &BTreeMap<(u64, u64), Item>, head: u64) -> bool {
    let low = elevator.first_key_value().map_or(head, |(key, _)| key.0);
    let high = elevator.last_key_value().map_or(head, |(key, _)| key.0);
    high.saturating_sub(head) <= head.saturating_sub(low)
}

/// The next item in the sweep's direction, turning at the end.
fn next_on_sweep(
    elevator: &BTreeMap<(u64, u64), Item>,
    head: u64,
    upwards: &mut bool,
) -> Option<Item> {
    let up = || elevator.range((head, 0)..).next().map(|(_, item)| *item);
    let down = || {
        elevator
            .range(..(head, 0))
            .next_back()
            .map(|(_, item)| *item)
    };
    let ahead = if *upwards { up() } else { down() };
    if ahead.is_some() {
        return ahead;
    }
    *upwards = !*upwards;
    if *upwards { up() } else { down() }
}

#[cfg(test)]
mod tests;
