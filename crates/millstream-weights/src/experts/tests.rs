//! The cache over the simulated disk, whose time goes on only while the cache waits.
#![expect(unsafe_code, reason = "an allocator of the application")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use millstream::{Backend, DeviceMaker, RegionAllocator, StorageOptions};
use millstream_io::{Device, Errno};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions, generate};

use super::*;

const EXPERTS: u32 = 40;
const PART_BYTES: u64 = 100_000;
const NAMES: [&str; 2] = ["up", "down"];
/// Bytes before the first expert of each file, which are the seeds of their content, too.
const HEADS: [u64; 2] = [0, 1234];

/// Two files with the first and the second part of each expert, hardly any at page borders.
struct Model {
    storage: Storage,
    files: SimFiles,
    parts: Vec<Vec<Extent>>,
}

impl Model {
    fn new(options: SimOptions) -> Model {
        Model::with_allocator(options, None)
    }

    fn with_allocator(options: SimOptions, own: Option<Arc<dyn RegionAllocator>>) -> Model {
        let (sim, files) = Sim::new(options);
        for (name, head) in NAMES.into_iter().zip(HEADS) {
            let len = head + u64::from(EXPERTS) * PART_BYTES;
            files.add_generated(name, head, len, SimFileOptions::default());
        }
        let make = move || -> Result<Box<dyn Device>, _> { Ok(Box::new(sim)) };
        let mut options = StorageOptions::default();
        options.backend = Backend::Custom(DeviceMaker::new(make), Arc::new(files.clone()));
        options.threads.pumped = true;
        options.allocator = own;
        let storage = Storage::new(options).expect("a storage");
        let parts = |key: u32| {
            let part = |nth: usize| Extent {
                file: nth,
                offset: offset_of(key, nth),
                len: PART_BYTES,
            };
            vec![part(0), part(1)]
        };
        Model {
            parts: (0..EXPERTS).map(parts).collect(),
            storage,
            files,
        }
    }

    fn cache(&self, slots: usize) -> ExpertCache {
        ExpertCache::new(&self.storage, &NAMES, self.parts.clone(), slots).expect("files that open")
    }

    /// Wants an expert while one that was guessed is in flight, which bounds what is guessed.
    fn bound_guesses(&self, cache: &mut ExpertCache) {
        cache.guess(&[EXPERTS - 2]).expect("room");
        self.storage.pump();
        cache.wait(EXPERTS - 1).expect("read");
        self.settle(cache);
    }

    /// Lets all reads complete.
    fn settle(&self, cache: &mut ExpertCache) {
        while !cache.loading.is_empty() {
            self.storage.pump();
            cache.settle();
        }
    }
}

fn offset_of(key: u32, part: usize) -> u64 {
    HEADS[part] + u64::from(key) * PART_BYTES
}

fn assert_is(expert: &Expert, key: u32) {
    let mut right = vec![0; PART_BYTES as usize];
    for (part, seed) in HEADS.into_iter().enumerate() {
        generate(seed, offset_of(key, part), &mut right);
        assert!(expert.part(part) == right, "part {part} of expert {key}");
    }
}

impl ExpertCache {
    /// What holds between calls.
    fn assert_consistent(&self) {
        let mut loading: Vec<u32> = self.loading.clone();
        loading.sort_unstable();
        let mut needy: Vec<u32> = self.needy.iter().copied().collect();
        needy.sort_unstable();
        let keys = |is: fn(&State) -> bool| -> Vec<u32> {
            let all = (0u32..).zip(&self.states);
            all.filter(|(_, state)| is(state))
                .map(|(key, _)| key)
                .collect()
        };
        assert_eq!(loading, keys(|state| matches!(state, State::Loading(_))));
        assert_eq!(needy, keys(|state| matches!(state, State::NeedsSlot(_))));
        let mut ready: Vec<u32> = self.uses.values().copied().collect();
        ready.sort_unstable();
        assert_eq!(ready, keys(|state| matches!(state, State::Ready { .. })));
        let slots = self.free.len() + loading.len() + ready.len();
        assert_eq!(slots, self.slot_count, "each slot is somewhere");
    }
}

/// A caller that wants, guesses, withdraws, pins and waits at random, while operations fail.
fn schedule(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let fails = random.bool();
    let model = Model::new(SimOptions {
        seed,
        io_error_chance: if fails { 0.02 } else { 0.0 },
        short_chance: 0.1,
        ..SimOptions::default()
    });
    let slots = random.usize(1..12);
    let mut cache = model.cache(slots);
    let (mut pinned, mut wanted): (Vec<(u32, Expert)>, u64) = (Vec::new(), 0);
    for _ in 0..300 {
        let keys: Vec<u32> = (0..random.usize(1..5))
            .map(|_| random.u32(0..EXPERTS))
            .collect();
        match random.u8(0..9) {
            0 | 1 => match cache.want(&keys, None) {
                Ok(()) => wanted += keys.len() as u64,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Limit, "seed {seed}"),
            },
            2 => cache.guess(&keys).expect("valid keys"),
            3 => cache.withdraw(&keys).expect("valid keys"),
            4 => pinned.truncate(random.usize(0..=pinned.len())),
            5 => _ = model.storage.pump(),
            8 => cache.release(&keys).expect("valid keys"),
            6 => match cache.wait_any(&keys) {
                Ok(nth) => assert!(nth < keys.len()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Limit, "seed {seed}"),
            },
            _ => match cache.wait(keys[0]) {
                Ok(expert) => {
                    assert_is(&expert, keys[0]);
                    pinned.push((keys[0], expert));
                }
                Err(error) if error.kind() == ErrorKind::Io => assert!(fails, "seed {seed}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Limit, "seed {seed}"),
            },
        }
        cache.assert_consistent();
    }
    pinned
        .iter()
        .for_each(|(key, expert)| assert_is(expert, *key));
    let stats = cache.stats();
    assert!(
        stats.hits + stats.misses + stats.promotions <= wanted + 600,
        "{stats:?}"
    );
    assert!(stats.guesses_used <= stats.guesses, "{stats:?}");
    drop(pinned);
    model.settle(&mut cache);
    cache.assert_consistent();
    assert_eq!(cache.slot_count, slots, "no slot is lost");
    drop(cache);
    let closed = poll_fn(|_| match model.files.open_count() {
        0 => Poll::Ready(()),
        _ => Poll::Pending,
    });
    let waited = model.storage.wait(closed, Some(Duration::from_secs(10)));
    assert!(waited.expect("open").is_some(), "its files are closed");
    let report = model.storage.close(Duration::from_secs(5));
    assert_eq!(report.operations, 0, "seed {seed}");
}

#[test]
fn each_wait_gives_the_right_bytes_and_no_slot_is_lost_whatever_fails() {
    (0..60).for_each(schedule);
}

#[test]
fn what_is_pinned_stays_and_the_rest_is_evicted_by_use() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(3);
    let first = cache.wait(0).expect("read");
    cache.wait(1).expect("read");
    cache.wait(2).expect("read");
    cache.wait(1).expect("a hit");
    // Of the two that are not pinned, 2 was used before 1.
    cache.wait(3).expect("read");
    assert!(cache.get(2).is_none() && cache.get(1).is_some());
    assert_is(&first, 0);
    assert_eq!(cache.stats().evictions, 1);
}

#[test]
fn wanting_more_than_the_slots_hold_is_an_error_that_says_so() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(2);
    let pinned = [0, 1].map(|key| cache.wait(key).expect("read"));
    let error = cache.want(&[2], None).expect_err("both are pinned");
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("each of the 2 slots"), "{error}");
    cache.guess(&[2]).expect("it is refused without an error");
    assert_eq!(cache.stats().refused, 1);
    drop(pinned);
    assert_is(&cache.wait(2).expect("a slot is free"), 2);
    let error = cache.want(&[EXPERTS], None).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_guess_makes_room_for_what_is_wanted_and_comes_back_if_it_is_wanted_too() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(2);
    cache.guess(&[0, 1]).expect("room");
    // Each of these needs the slot of a guess; both guesses are wanted after their cancellation.
    cache
        .want(&[2, 3], None)
        .expect("two guesses can be canceled");
    cache.want(&[0, 1], None).expect("they are loading");
    for key in [2, 3, 0, 1] {
        assert_is(&cache.wait(key).expect("each ends"), key);
        cache.assert_consistent();
    }
}

#[test]
fn a_guess_that_has_not_begun_is_withdrawn_and_one_that_has_begun_arrives() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(30);
    model.bound_guesses(&mut cache);
    let guesses: Vec<u32> = (0..20).collect();
    cache.guess(&guesses).expect("room");
    model.storage.pump();
    cache.withdraw(&guesses).expect("valid keys");
    model.settle(&mut cache);
    let arrived = guesses
        .iter()
        .filter(|key| cache.get(**key).is_some())
        .count() as u64;
    let withdrawn = cache.stats().withdrawn;
    assert_eq!(arrived + withdrawn, 20);
    assert!(arrived > 0 && withdrawn > 10, "{arrived} arrived");
}

#[test]
fn a_wanted_expert_overtakes_those_that_were_guessed() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(30);
    model.bound_guesses(&mut cache);
    let _ = model.files.take_log();
    let guesses: Vec<u32> = (0..20).collect();
    cache.guess(&guesses).expect("room");
    model.storage.pump();
    cache
        .want(&[30, 19], None)
        .expect("one is new, one was guessed last");
    for key in [30, 19] {
        assert_is(&cache.wait(key).expect("read"), key);
    }
    let read: usize = model
        .files
        .take_log()
        .iter()
        .map(|operation| operation.len)
        .sum();
    // The two, and what low priority may have in flight at any moment, a few times.
    assert!(
        read < 2_000_000,
        "{read} of 4,200,000 bytes before the wanted ones"
    );
    assert_eq!((cache.stats().promotions, cache.stats().misses), (1, 2));
}

#[test]
fn a_failed_expert_is_absent_again_and_a_later_wait_reads_it() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(2);
    let second = offset_of(5, 1)..offset_of(5, 1) + 1;
    model
        .files
        .fail(Path::new("down"), second, Errno::IO, Some(1));
    cache.want(&[5], None).expect("room");
    let error = cache.wait(5).expect_err("its second part fails");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_is(&cache.wait(5).expect("the fault is gone"), 5);
}

#[test]
fn what_is_wanted_stays_until_it_is_taken_or_released() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(4);
    let all = [0, 1, 2, 3];
    for key in all {
        cache.wait(key).expect("read");
    }
    cache.want(&all, None).expect("hits");
    cache.guess(&[4, 5]).expect("refused");
    assert_eq!(cache.stats().refused, 2);
    let error = cache.want(&[7], None).expect_err("all are wanted");
    assert_eq!(error.kind(), ErrorKind::Limit);
    let misses = cache.stats().misses;
    for key in all {
        assert_is(&cache.get(key).expect("it stayed"), key);
    }
    cache.want(&[7], None).expect("those were taken");
    cache.release(&[7]).expect("a valid key");
    cache
        .want(&[8, 9, 10, 11], None)
        .expect("the other was released");
    for key in 8..12 {
        assert_is(&cache.wait(key).expect("read"), key);
    }
    assert_eq!(cache.stats().misses, misses + 5);
}

#[test]
fn waits_that_take_turns_for_one_slot_all_end() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(1);
    let mut left = vec![0, 1];
    for round in 0.. {
        let Some(key) = left.get(round % 2).or(left.first()).copied() else {
            break;
        };
        assert!(round < 10_000, "{left:?} never came");
        match cache.wait_timeout(key, Duration::ZERO) {
            Ok(Some(expert)) => {
                assert_is(&expert, key);
                left.retain(|other| *other != key);
            }
            Ok(None) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Limit),
        }
    }
    cache.want(&[5], None).expect("room");
    assert_eq!(cache.wait_any(&[5, 6]).expect("one is read"), 0);
    assert_is(&cache.get(5).expect("it is ready"), 5);
}

/// Experts of three parts, each a page of one file.
fn three_parts(model: &Model, slots: usize) -> ExpertCache {
    let part = |at: u64| Extent {
        file: 0,
        offset: at * 4096,
        len: 4096,
    };
    let expert = |key: u64| (0..3).map(|nth| part(key * 3 + nth)).collect();
    let experts = (0..8).map(expert);
    ExpertCache::new(&model.storage, &NAMES[..1], experts, slots).expect("a file that opens")
}

#[test]
fn a_part_that_never_comes_back_costs_its_slot_and_nothing_else() {
    let model = Model::new(SimOptions::default());
    let mut cache = three_parts(&model, 2);
    model.files.hang(Path::new("up"), 4096..4097, None);
    cache.want(&[0], None).expect("room");
    let none = cache
        .wait_timeout(0, Duration::from_millis(5))
        .expect("its second part hangs");
    assert!(none.is_none());
    let report = model.storage.close(Duration::from_millis(20));
    assert_eq!(report.operations, 1);
    assert!(cache.get(0).is_none());
    let error = cache.wait(0).expect_err("it never comes");
    assert!(
        matches!(error.kind(), ErrorKind::StillHeld | ErrorKind::Closed),
        "{error}"
    );
    drop(cache);
    model.files.release_hung();
}

#[test]
fn a_request_that_is_refused_costs_no_slot() {
    let model = Model::new(SimOptions::default());
    let mut cache = three_parts(&model, 2);
    model.storage.close(Duration::from_secs(5));
    for key in 0..8 {
        let error = cache.want(&[key], None).expect_err("the storage is closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        cache.assert_consistent();
    }
    assert_eq!((cache.free.len(), cache.slot_count), (2, 2));
}

#[test]
fn a_wait_ends_with_its_time() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(2);
    let none = cache.wait_timeout(1, Duration::ZERO).expect("it is wanted");
    assert!(none.is_none());
    model.files.hang(Path::new("up"), 0..1, Some(1));
    let none = cache
        .wait_timeout(0, Duration::from_millis(2))
        .expect("it hangs");
    assert!(none.is_none());
    model.files.release_hung();
    let expert = cache
        .wait_timeout(0, Duration::from_secs(60))
        .expect("read");
    assert_is(&expert.expect("ready"), 0);
    assert_is(&cache.wait(1).expect("read"), 1);
}

/// Memory of the application, all of which is kept.
#[derive(Default)]
struct Own(Mutex<Vec<Vec<u8>>>);

// SAFETY: memory of vectors that live as long and do not move, aligned, zeroed, given out once.
unsafe impl RegionAllocator for Own {
    fn allocate(&self, len: usize, align: usize) -> *mut u8 {
        let mut bytes = vec![0; len + align];
        let start = bytes.as_mut_ptr();
        let start = start.wrapping_add(start.align_offset(align));
        self.0.lock().expect("no panic").push(bytes);
        start
    }

    unsafe fn free(&self, _: *mut u8, _: usize, _: usize) {}
}

#[test]
fn slots_are_memory_of_the_storages_allocator() {
    let own = Arc::new(Own::default());
    let allocator = Arc::clone(&own) as Arc<dyn RegionAllocator>;
    let model = Model::with_allocator(SimOptions::default(), Some(allocator));
    let mut cache = model.cache(8);
    let expert = cache.wait(3).expect("read");
    for part in 0..2 {
        let bytes = expert.part(part).as_ptr_range();
        let all = own.0.lock().expect("no panic");
        let has = |own: &Vec<u8>| own.as_ptr_range().contains(&bytes.start);
        assert!(all.iter().any(has));
    }
}

#[test]
fn files_that_shrink_and_parts_outside_of_them_are_errors() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(2);
    model.files.resize(Path::new("up"), 10_000);
    let error = cache.wait(7).expect_err("the file is shorter now");
    assert_eq!(error.kind(), ErrorKind::PastEnd);
    let new = |file, offset, len| {
        let parts = vec![Extent { file, offset, len }];
        let cache = ExpertCache::new(&model.storage, &NAMES, [parts], 1);
        cache.expect_err("refused").kind()
    };
    assert_eq!(new(0, u64::MAX, 2), ErrorKind::PastEnd);
    assert_eq!(new(1, 0, u64::MAX), ErrorKind::PastEnd);
    assert_eq!(new(0, 0, 0), ErrorKind::InvalidArgument);
    assert_eq!(new(2, 0, 1), ErrorKind::InvalidArgument);
    let gone = ExpertCache::new(&model.storage, &["up", "gone"], [], 1).expect_err("no file");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    let none = ExpertCache::new(&model.storage, &NAMES, [Vec::new()], 1).expect_err("no parts");
    assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    let none =
        ExpertCache::new(&model.storage, &NAMES, model.parts.clone(), 0).expect_err("no slots");
    assert_eq!(none.kind(), ErrorKind::InvalidArgument);
    let most = ExpertCache::new(&model.storage, &NAMES[1..], [], usize::MAX / 4096);
    assert_eq!(most.expect_err("no memory").kind(), ErrorKind::OutOfMemory);
}

#[test]
fn experts_outlive_the_cache_and_a_closed_storage_is_an_error() {
    let model = Model::new(SimOptions::default());
    let mut cache = model.cache(4);
    let kept = cache.wait(3).expect("read");
    cache.want(&[4], None).expect("room");
    model.storage.close(Duration::from_secs(5));
    let error = cache.wait(4).expect_err("closed before it was read");
    assert!(
        matches!(error.kind(), ErrorKind::Closed | ErrorKind::Canceled),
        "{error}"
    );
    assert_eq!(cache.wait(5).expect_err("closed").kind(), ErrorKind::Closed);
    drop(cache);
    assert_is(&kept, 3);
}
