//! The rules of staging, each by itself, and together over random sequences beside a naive model.

use std::collections::BTreeMap;

use super::*;

const PAGE: usize = 4096;
const CAPACITY: usize = 64 * PAGE;
const RESERVE: usize = CAPACITY / 16;

fn staging() -> Staging {
    let arena = Arena::new(CAPACITY, None).expect("memory");
    Staging::new(arena, BufferPool::new(0, None))
}

fn id(request: u32) -> Id {
    Id::from_bits(u64::from(request))
}

fn ask(request: u32, bytes: usize, class: Class, priority: Priority) -> Ask {
    Ask {
        id: id(request),
        bytes,
        class,
        priority,
    }
}

fn ordinary(request: u32, bytes: usize) -> Ask {
    ask(request, bytes, Class::Ordinary, Priority::Normal)
}

fn foreign(request: u32, bytes: usize) -> Ask {
    ask(request, bytes, Class::Foreign, Priority::Normal)
}

/// A window, with what its request holds.
struct Taken {
    ask: Ask,
    memory: WindowMemory,
}

impl Staging {
    fn take_now(&mut self, ask: Ask) -> Option<Taken> {
        let memory = self.take(&ask).expect("there is memory")?;
        Some(Taken { ask, memory })
    }

    fn must_take(&mut self, ask: Ask) -> Taken {
        self.take_now(ask).expect("there is room")
    }

    fn give_now(&mut self, taken: Taken) {
        let mut held = Held::of(&taken.memory);
        self.give(taken.memory, &mut held, taken.ask.class);
        assert_eq!(held, Held::default());
    }

    fn give_each(&mut self, taken: impl IntoIterator<Item = Taken>) {
        taken.into_iter().for_each(|one| self.give_now(one));
    }

    fn assert_nothing_is_out(&self) {
        assert_eq!(self.in_use(), 0);
        assert_eq!(self.out, [Held::default(); 2]);
        assert_eq!(self.jobs_out(), 0);
        assert!(self.outside.iter().all(Option::is_none));
    }
}

fn offset(staging: &Staging, taken: &Taken) -> usize {
    let start = taken.memory.as_slice().as_ptr().addr();
    start - staging.region().pointer().addr()
}

#[test]
fn ordinary_windows_are_taken_from_the_front_and_foreign_ones_from_the_end() {
    let mut staging = staging();
    let mut all = Vec::new();
    for at in 0..4 {
        let front = staging.must_take(ordinary(at, PAGE));
        assert_eq!(offset(&staging, &front), at as usize * PAGE);
        let end = staging.must_take(foreign(10 + at, PAGE));
        assert_eq!(offset(&staging, &end), CAPACITY - (at as usize + 1) * PAGE);
        all.extend([front, end]);
    }
    staging.give_each(all);
    staging.assert_nothing_is_out();
}

#[test]
fn foreign_windows_have_half_of_staging_and_one_place_outside() {
    let mut staging = staging();
    let mut all: Vec<_> = (0..8)
        .map(|at| staging.must_take(foreign(at, CAPACITY / 16)))
        .collect();
    assert_eq!(staging.in_use(), CAPACITY / 2);
    assert!(all.iter().all(|taken| !taken.memory.is_outside()));
    // The last resort is for the first, and there is one place.
    all.push(staging.must_take(foreign(8, CAPACITY / 16)));
    assert!(all[8].memory.is_outside());
    assert_eq!(staging.in_use(), CAPACITY / 2);
    assert!(staging.take_now(foreign(9, PAGE)).is_none());
    assert!(staging.is_foreign_alone());
    // The other half is for ordinary windows.
    let rest = staging.must_take(ordinary(10, CAPACITY / 2 - RESERVE));
    assert!(!rest.memory.is_outside());
    assert!(!staging.is_foreign_alone());
    all.push(rest);
    all.into_iter().for_each(|taken| staging.give_now(taken));
    staging.assert_nothing_is_out();
}

#[test]
fn a_sixteenth_of_staging_is_for_realtime_requests() {
    let mut staging = staging();
    let most = staging.must_take(ordinary(0, CAPACITY - RESERVE));
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let other = ask(1, PAGE, Class::Ordinary, priority);
        assert!(staging.take_now(other).is_none());
        let other = ask(1, PAGE, Class::Foreign, priority);
        assert!(staging.take_now(other).is_none());
    }
    let realtime = ask(2, RESERVE, Class::Ordinary, Priority::Realtime);
    let realtime = staging.must_take(realtime);
    assert!(!realtime.memory.is_outside());
    staging.give_each([most, realtime]);
    staging.assert_nothing_is_out();
}

#[test]
fn where_foreign_windows_alone_are_in_the_way_the_first_ordinary_one_is_outside() {
    let mut staging = staging();
    let gated = staging.must_take(foreign(0, CAPACITY / 2));
    let small = staging.must_take(ordinary(1, PAGE));
    let large = ordinary(2, CAPACITY / 2);
    // What is in the way comes back without help.
    assert!(staging.take_now(large).is_none());
    staging.note_waits(&large, true);
    staging.give_now(small);
    // Only for the first.
    let second = ordinary(3, CAPACITY / 2);
    assert!(staging.take_now(second).is_none());
    let large = staging.must_take(large);
    assert!(large.memory.is_outside());
    // What fits goes inside meanwhile; what does not waits for the place.
    let fits = staging.must_take(ordinary(4, PAGE));
    assert!(!fits.memory.is_outside());
    assert!(staging.take_now(second).is_none());
    staging.give_now(fits);
    staging.give_now(large);
    let second = staging.must_take(second);
    assert!(second.memory.is_outside());
    staging.give_each([gated, second]);
    staging.assert_nothing_is_out();
}

#[test]
fn a_window_larger_than_its_share_is_outside() {
    let mut staging = staging();
    let other = staging.must_take(ordinary(0, PAGE));
    let ordinary_one = staging.must_take(ordinary(1, CAPACITY));
    let foreign_one = staging.must_take(foreign(2, CAPACITY / 2 + PAGE));
    assert!(ordinary_one.memory.is_outside() && foreign_one.memory.is_outside());
    // Each class has one place.
    assert!(staging.take_now(ordinary(3, CAPACITY)).is_none());
    let too_large = foreign(4, CAPACITY / 2 + PAGE);
    assert!(staging.take_now(too_large).is_none());
    staging.give_now(foreign_one);
    let again = staging.must_take(too_large);
    staging.give_each([other, ordinary_one, again]);
    staging.assert_nothing_is_out();
}

#[test]
fn jobs_hold_back_the_windows_of_their_class_alone() {
    let mut staging = staging();
    staging.jobs_given(Class::Ordinary, limits::JOBS_MAX);
    // They come back without help: no last resort.
    assert!(staging.take_now(ordinary(0, PAGE)).is_none());
    let other = staging.must_take(foreign(1, PAGE));
    assert!(!other.memory.is_outside());
    staging.give_now(other);
    staging.job_back(Class::Ordinary);
    let one = staging.must_take(ordinary(0, PAGE));
    staging.give_now(one);
    staging.jobs_given(Class::Foreign, limits::JOBS_MAX);
    let one = staging.must_take(ordinary(0, PAGE));
    assert!(!one.memory.is_outside());
    // Jobs of the application may wait for a read: one at a time.
    let first = staging.must_take(foreign(2, PAGE));
    assert!(first.memory.is_outside());
    assert!(staging.take_now(foreign(3, PAGE)).is_none());
    staging.give_each([one, first]);
    // Blocks that are yet to be read are not with the application.
    staging.unread = 1;
    let inside = staging.must_take(foreign(3, PAGE));
    assert!(!inside.memory.is_outside());
    staging.give_now(inside);
    (0..limits::JOBS_MAX).for_each(|_| staging.job_back(Class::Foreign));
    (1..limits::JOBS_MAX).for_each(|_| staging.job_back(Class::Ordinary));
    staging.assert_nothing_is_out();
}

#[test]
fn sixteen_of_its_own_or_a_lower_priority_pass_the_first_and_higher_ones_always_may() {
    for class in CLASSES {
        let mut staging = staging();
        let out = staging.must_take(ordinary(0, 40 * PAGE));
        let other = staging.must_take(foreign(1, 4 * PAGE));
        let first = ask(2, 28 * PAGE, class, Priority::Normal);
        assert!(staging.take_now(first).is_none());
        staging.note_waits(&first, true);
        let small = |priority| ask(3, PAGE, Class::Ordinary, priority);
        for pass in 0..PASSES_MAX {
            let priority = [Priority::Low, Priority::Normal][pass as usize % 2];
            let taken = staging.must_take(small(priority));
            staging.give_now(taken);
            // A higher priority does not count.
            let taken = staging.must_take(small(Priority::High));
            staging.give_now(taken);
        }
        for priority in [Priority::Low, Priority::Normal] {
            assert!(staging.take_now(small(priority)).is_none());
            let foreign = ask(3, PAGE, Class::Foreign, priority);
            assert!(staging.take_now(foreign).is_none());
        }
        for priority in [Priority::High, Priority::Realtime] {
            let taken = staging.must_take(small(priority));
            staging.give_now(taken);
        }
        assert_eq!(staging.first_priority(), Some(Priority::Normal));
        staging.give_each([out, other]);
        let taken = staging.must_take(first);
        staging.give_now(taken);
        assert_eq!(staging.first_priority(), None);
        // Once it is served, no other is held up.
        let taken = staging.must_take(small(Priority::Low));
        staging.give_now(taken);
        staging.assert_nothing_is_out();
    }
}

#[test]
fn a_first_that_waits_for_the_application_holds_up_no_other() {
    let mut staging = staging();
    let kept = staging.must_take(foreign(0, CAPACITY / 2));
    let outside = staging.must_take(foreign(1, PAGE));
    assert!(outside.memory.is_outside());
    let first = foreign(2, PAGE);
    staging.note_waits(&first, true);
    for _ in 0..3 * PASSES_MAX {
        let taken = staging.must_take(ask(3, PAGE, Class::Ordinary, Priority::Low));
        staging.give_now(taken);
    }
    assert_eq!(staging.first_priority(), None);
    // The fence of the window outside is signaled: it is sure to come back.
    let held = Held::of(&outside.memory);
    staging.reclass(outside.ask.id, held, Class::Foreign, Class::Ordinary);
    assert_eq!(staging.first_priority(), Some(Priority::Normal));
    let low = ask(3, PAGE, Class::Ordinary, Priority::Low);
    assert!(staging.take_now(low).is_none());
    let outside = Taken {
        ask: ordinary(1, PAGE),
        ..outside
    };
    staging.give_now(outside);
    let first = staging.must_take(first);
    staging.give_each([kept, first]);
    staging.assert_nothing_is_out();
}

#[test]
fn the_first_is_the_highest_and_then_the_one_that_leads() {
    let mut staging = staging();
    let is_first = |staging: &Staging, request: u32| {
        let firsts = staging.first[Class::Ordinary as usize].iter().rev();
        firsts.filter_map(|first| first.id).next() == Some(id(request))
    };
    let at = |request, priority| ask(request, PAGE, Class::Ordinary, priority);
    staging.note_waits(&at(0, Priority::Low), true);
    staging.note_waits(&at(1, Priority::Low), false);
    assert!(is_first(&staging, 0));
    staging.note_waits(&at(1, Priority::Low), true);
    assert!(is_first(&staging, 1));
    staging.note_waits(&at(2, Priority::High), false);
    assert!(is_first(&staging, 2));
    staging.note_waits(&at(3, Priority::Normal), true);
    assert!(is_first(&staging, 2));
    staging.left(id(3));
    assert!(is_first(&staging, 2));
    staging.left(id(2));
    assert_eq!(staging.first_priority(), Some(Priority::Low));
    staging.left(id(1));
    assert_eq!(staging.first_priority(), None);
}

#[test]
fn the_passes_of_a_first_are_counted_however_often_a_higher_priority_waits_for_a_moment() {
    let mut staging = staging();
    let large = ask(0, CAPACITY - PAGE, Class::Ordinary, Priority::Normal);
    let small = |request, priority| ask(request, PAGE, Class::Ordinary, priority);
    let kept = staging.must_take(small(1, Priority::Normal));
    staging.note_waits(&large, true);
    let mut taken = Vec::new();
    for turn in 0..2 * PASSES_MAX {
        let request = small(2 + turn, Priority::Normal);
        if staging.has_room(&request) {
            taken.push(staging.must_take(request));
        }
        // One of a higher priority waits, and does not any more.
        staging.note_waits(&small(100, Priority::High), true);
        staging.left(id(100));
    }
    assert_eq!(taken.len() as u32, PASSES_MAX);
    staging.left(id(0));
    staging.give_each(taken);
    staging.give_each([kept]);
    staging.assert_nothing_is_out();
}

#[test]
fn one_that_comes_to_lead_its_priority_is_not_held_up_by_the_one_that_led_before() {
    for class in CLASSES {
        let mut staging = staging();
        let small = |request| ask(request, PAGE, class, Priority::Normal);
        let kept = staging.must_take(small(0));
        staging.note_waits(&small(1), true);
        for _ in 0..PASSES_MAX {
            let taken = staging.must_take(small(2));
            staging.give_now(taken);
        }
        staging.give_now(kept);
        // Nothing is out that would have it looked at again.
        assert!(!staging.has_room(&small(3)));
        assert!(staging.has_room_for_leader(&small(3)));
        for request in [3, 1] {
            let taken = staging.must_take(small(request));
            staging.give_now(taken);
        }
        staging.assert_nothing_is_out();
    }
}

/// What the naive model knows of a request.
#[derive(Default)]
struct Holder {
    windows: Vec<WindowMemory>,
    held: Held,
}

/// The naive model: every window, by its request.
struct Model {
    staging: Staging,
    random: fastrand::Rng,
    asks: Vec<Ask>,
    holders: BTreeMap<u32, Holder>,
    jobs: [usize; 2],
}

const REQUESTS: u32 = 24;

impl Model {
    fn new(seed: u64) -> Model {
        let mut random = fastrand::Rng::with_seed(seed);
        let asks = (0..REQUESTS).map(|request| {
            let most = [2, 8, 40, 62][random.usize(0..4)];
            let priority = Priority::ALL[random.usize(0..4)];
            let class = CLASSES[random.usize(0..2)];
            ask(request, PAGE * random.usize(1..=most), class, priority)
        });
        Model {
            staging: staging(),
            asks: asks.collect(),
            holders: BTreeMap::new(),
            jobs: [0; 2],
            random,
        }
    }

    fn take(&mut self, request: u32) -> bool {
        let ask = self.asks[request as usize];
        let has_room = self.staging.has_room(&ask);
        let taken = self.staging.take(&ask).expect("there is memory");
        assert_eq!(has_room, taken.is_some());
        let Some(memory) = taken else {
            return false;
        };
        assert!(memory.as_slice().len() >= ask.bytes);
        let holder = self.holders.entry(request).or_default();
        holder.held.add(Held::of(&memory));
        holder.windows.push(memory);
        true
    }

    fn give(&mut self, request: u32) {
        let class = self.asks[request as usize].class;
        let Some(holder) = self.holders.get_mut(&request) else {
            return;
        };
        let at = self.random.usize(0..holder.windows.len());
        let memory = holder.windows.swap_remove(at);
        self.staging.give(memory, &mut holder.held, class);
        if holder.windows.is_empty() {
            assert_eq!(holder.held, Held::default());
            self.holders.remove(&request);
        }
    }

    fn step(&mut self) {
        let request = self.random.u32(0..REQUESTS);
        let ask = self.asks[request as usize];
        match self.random.u8(0..10) {
            0..=4 => {
                if !self.take(request) {
                    self.staging.note_waits(&ask, self.random.bool());
                }
            }
            5..=7 => self.give(request),
            8 => {
                let other = CLASSES[1 - ask.class as usize];
                self.staging.left(ask.id);
                let holder = self.holders.get(&request);
                let held = holder.map_or(Held::default(), |holder| holder.held);
                self.staging.reclass(ask.id, held, ask.class, other);
                self.asks[request as usize].class = other;
            }
            _ => {
                let (class, most) = (ask.class as usize, limits::JOBS_MAX + 2);
                if self.jobs[class] == 0 {
                    let count = self.random.usize(0..most);
                    self.staging.jobs_given(ask.class, count);
                    self.jobs[class] += count;
                } else {
                    self.jobs_back(class);
                }
            }
        }
    }

    fn jobs_back(&mut self, class: usize) {
        for _ in 0..std::mem::take(&mut self.jobs[class]) {
            self.staging.job_back(CLASSES[class]);
        }
    }

    /// Everything comes back.
    fn give_all(&mut self) {
        (0..2).for_each(|class| self.jobs_back(class));
        for request in 0..REQUESTS {
            while self.holders.contains_key(&request) {
                self.give(request);
            }
        }
        self.check();
        self.staging.assert_nothing_is_out();
    }

    /// Counts all windows anew.
    fn check(&self) {
        let (mut out, mut outside) = ([Held::default(); 2], [0; 2]);
        let mut in_use = 0;
        for (request, holder) in &self.holders {
            for memory in &holder.windows {
                let class = self.asks[*request as usize].class as usize;
                out[class].add(Held::of(memory));
                match memory {
                    WindowMemory::Inside(block) => in_use += block.len(),
                    WindowMemory::Outside(_, place) => outside[*place as usize] += 1,
                }
            }
        }
        assert_eq!(self.staging.out, out);
        assert_eq!(self.staging.in_use(), in_use);
        assert!(in_use <= CAPACITY);
        let places = self.staging.outside.map(|one| usize::from(one.is_some()));
        assert_eq!(places, outside, "one window outside for each class");
        assert_eq!(self.staging.jobs_out(), self.jobs.iter().sum());
        assert!(!self.firsts_hold_each_other_up());
    }

    fn firsts(&self) -> Vec<Ask> {
        let firsts = self.staging.first.as_flattened().iter();
        let ids = firsts.filter_map(|first| first.id);
        ids.map(|id| self.asks[id.index() as usize]).collect()
    }

    fn firsts_hold_each_other_up(&self) -> bool {
        let firsts = self.firsts();
        // Of the highest priority, so that no other first holds them up.
        let highest = firsts.iter().map(|first| first.priority).max();
        let mut highest = firsts.iter().filter(|one| Some(one.priority) == highest);
        let up = |by: &Ask, ask: &Ask| self.staging.holds_up(by.class, ask);
        match (highest.next(), highest.next()) {
            (Some(one), Some(other)) => up(one, other) && up(other, one),
            _ => false,
        }
    }

    /// Once the library has freed what it can free by itself, some first has room, as long as one
    /// is sure to be served; with that, all requests that wait come to their turn.
    fn serve_the_firsts(&mut self) {
        self.jobs_back(Class::Ordinary as usize);
        for request in 0..REQUESTS {
            while self.asks[request as usize].class == Class::Ordinary
                && self.holders.contains_key(&request)
            {
                self.give(request);
            }
        }
        self.check();
        let firsts = self.firsts();
        let sure: Vec<_> = firsts
            .into_iter()
            .filter(|first| self.staging.is_sure(first.class))
            .collect();
        let highest = sure.iter().map(|first| first.priority).max();
        for first in sure {
            // A first of a higher priority may hold it up, and is served before.
            let is_highest = Some(first.priority) == highest;
            let others = self.firsts();
            let mut others = others.iter().filter(|other| other.id != first.id);
            let is_free = others.all(|other| !self.staging.holds_up(other.class, &first));
            assert!(
                !is_highest || !is_free || self.staging.has_room(&first),
                "the first of a class has no room"
            );
        }
        while let Some(first) = {
            let mut firsts = self.firsts().into_iter();
            firsts.find(|first| self.staging.has_room(first))
        } {
            assert!(self.take(first.id.index()));
            if first.class == Class::Ordinary {
                self.give(first.id.index());
            }
        }
        let left = self.firsts();
        let is_blocked = |first: &Ask| !self.staging.is_sure(first.class);
        assert!(left.iter().all(is_blocked), "a first that is sure waits");
    }
}

#[test]
fn windows_agree_with_a_naive_model_and_no_first_that_is_sure_is_left_waiting() {
    for seed in 0..300 {
        let mut model = Model::new(seed);
        for round in 0..400 {
            model.step();
            model.check();
            if round % 40 == 39 {
                model.serve_the_firsts();
                model.check();
            }
        }
        // What the library does not free itself is given back between two turns.
        for _ in 0..2 * Priority::ALL.len() {
            model.give_all();
            model.serve_the_firsts();
        }
        assert!(model.firsts().is_empty());
        model.give_all();
    }
}
