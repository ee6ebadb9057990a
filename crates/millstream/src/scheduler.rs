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
//! Classes are served highest first, with two exceptions. A waiting class that was passed over 15
//! times gets the 16th block, so that none starves. And the bytes in flight of classes below
//! realtime are bounded: by the bandwidth-delay product while realtime requests were seen lately
//! (what is in flight ahead of a realtime request is what it waits for), else by what keeps a
//! device busy.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::limits;
use crate::request::Priority;

/// No deadline.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

const CLASSES: usize = 4;

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
    request: u32,
    stamp: u32,
}

#[derive(Default)]
struct Class {
    deadlines: BinaryHeap<Reverse<Item>>,
    arrivals: VecDeque<Item>,
    elevator: BTreeMap<(u64, u64), Item>,
    waiting: usize,
    /// Blocks that went to higher classes while this one waited.
    passed_over: u32,
    /// The elevator was served last (it takes turns with the arrivals).
    elevator_turn: bool,
}

/// What is in flight, by the scheduler's account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) realtime_bytes: u64,
    pub(crate) bulk_bytes: u64,
}

pub(crate) struct Scheduler {
    classes: [Class; CLASSES],
    stamps: Vec<u32>,
    places: Vec<Option<Place>>,
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
            stamps: Vec::new(),
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
        self.places
            .get(request as usize)
            .is_some_and(Option::is_some)
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight
    }

    /// Lets a request wait for its turn.
    #[inline]
    pub(crate) fn add(&mut self, request: u32, place: Place, now_ns: u64) {
        let index = request as usize;
        if index >= self.stamps.len() {
            self.stamps.resize(index + 1, 0);
            self.places.resize(index + 1, None);
        }
        assert!(self.places[index].is_none(), "a request waits once");
        self.places[index] = Some(place);
        self.note_realtime(place.class, now_ns);
        self.class(place.class).waiting += 1;
        self.insert(request, place);
    }

    fn note_realtime(&mut self, class: Priority, now_ns: u64) {
        if class == Priority::Realtime {
            self.realtime_until_ns = now_ns + limits::REALTIME_MEMORY_NS;
        }
    }

    #[inline]
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
            request,
            stamp,
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
        if let Some(Some(place)) = self.places.get(index).copied() {
            self.places[index] = None;
            self.stamps[index] = self.stamps[index].wrapping_add(1);
            let class = self.class(place.class);
            class.waiting -= 1;
            if let Some(position) = place.position {
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
        let Some(mut place) = self.places[request as usize] else {
            return;
        };
        let Some(old) = place.position.replace(position) else {
            return;
        };
        self.places[request as usize] = Some(place);
        if place.deadline_ns == NO_DEADLINE {
            self.class(place.class)
                .elevator
                .remove(&(old, place.arrival));
            self.insert(request, place);
        }
    }

    /// Largest block to issue now.
    pub(crate) fn block_bytes(&self, now_ns: u64) -> u64 {
        if now_ns < self.realtime_until_ns {
            self.block_bytes.min(limits::BLOCK_BYTES_REALTIME as u64)
        } else {
            self.block_bytes
        }
    }

    fn bulk_bytes_max(&self, now_ns: u64, bytes_per_second: u64) -> u64 {
        if now_ns < self.realtime_until_ns {
            let product = bytes_per_second / (1_000_000_000 / limits::REALTIME_WAIT_NS);
            product.clamp(2 * self.block_bytes(now_ns), self.bulk_bytes_max)
        } else {
            self.bulk_bytes_max
        }
    }

    /// The request to be served next, if one may be. `passed` says of a class that it cannot be
    /// served now.
    pub(crate) fn pick(
        &mut self,
        now_ns: u64,
        bytes_per_second: u64,
        passed: [bool; CLASSES],
    ) -> Option<(u32, Priority)> {
        let bulk_full = self.in_flight.bulk_bytes >= self.bulk_bytes_max(now_ns, bytes_per_second);
        let open = |scheduler: &Scheduler, class: Priority| {
            scheduler.classes[class as usize].waiting > 0
                && !passed[class as usize]
                && (class == Priority::Realtime || !bulk_full)
        };
        let due = limits::STARVATION_SHARE - 1;
        for class in Priority::ALL {
            if self.classes[class as usize].passed_over >= due && open(self, class) {
                return self.front(class).map(|request| (request, class));
            }
        }
        for class in Priority::ALL.into_iter().rev() {
            if open(self, class) {
                return self.front(class).map(|request| (request, class));
            }
        }
        None
    }

    /// The class's first valid request; there is one if any waits.
    fn front(&mut self, class: Priority) -> Option<u32> {
        let stamps = &self.stamps;
        let valid = |item: &Item| stamps[item.request as usize] == item.stamp;
        let class = &mut self.classes[class as usize];
        if class.deadlines.is_empty() && class.elevator.is_empty() {
            // The usual case: requests in the order of their arrival.
            while let Some(item) = class.arrivals.front() {
                if valid(item) {
                    return Some(item.request);
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
            return Some(first.request);
        }
        let take_elevator =
            !class.elevator.is_empty() && (arrival.is_none() || !class.elevator_turn);
        if !take_elevator {
            let first = arrival
                .copied()
                .or_else(|| class.deadlines.peek().map(|item| item.0));
            return first.map(|item| item.request);
        }
        if !swept {
            upwards = nearer_end_is_up(&class.elevator, head);
        }
        let next = next_on_sweep(&class.elevator, head, &mut upwards);
        self.upwards = upwards;
        next.map(|item| item.request)
    }

    /// A block of a request goes to the device.
    pub(crate) fn issued(&mut self, request: u32, class: Priority, bytes: u64, now_ns: u64) {
        self.note_realtime(class, now_ns);
        match class {
            Priority::Realtime => self.in_flight.realtime_bytes += bytes,
            _ => self.in_flight.bulk_bytes += bytes,
        }
        for lower in &mut self.classes[..class as usize] {
            lower.passed_over = if lower.waiting > 0 {
                lower.passed_over + 1
            } else {
                0
            };
        }
        let place = self.places.get(request as usize);
        let position = place.and_then(|place| place.as_ref()?.position);
        let class = self.class(class);
        class.passed_over = 0;
        class.elevator_turn = position.is_some();
        if let Some(position) = position {
            self.head = position + bytes;
            self.swept = true;
        }
    }

    /// A block came back.
    pub(crate) fn completed(&mut self, class: Priority, bytes: u64) {
        let account = match class {
            Priority::Realtime => &mut self.in_flight.realtime_bytes,
            _ => &mut self.in_flight.bulk_bytes,
        };
        *account = account
            .checked_sub(bytes)
            .expect("what came back had been issued");
        if self.in_flight == InFlight::default() && self.waiting() == 0 {
            self.swept = false;
        }
    }

    /// Of a class's requests in the order of their arrival the `nth` behind `request`, which must
    /// stand in front: a candidate for merging.
    #[inline]
    pub(crate) fn follower(&self, class: Priority, request: u32, nth: usize) -> Option<u32> {
        let arrivals = &self.classes[class as usize].arrivals;
        let item = arrivals.get(nth)?;
        let front = arrivals.front()?;
        let stands = |item: &Item| self.stamps[item.request as usize] == item.stamp;
        (front.request == request && stands(front) && stands(item)).then_some(item.request)
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
