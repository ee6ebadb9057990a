//! Slots: hand-overs, the meeting of a ticket and an end, the free chain, a pool that closes.

use std::future::poll_fn;
use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake, Waker};

use super::{check, request, spawn, step};
use crate::caller::request::{Parts, Request};
use crate::caller::waits::WaitsFor;
use crate::handover::mailbox::closed_error;
use crate::handover::slots::{
    Cache, Completion, Delivery, EngineSide, Pool, PoolOwner, SlotTicket, Table,
};
use crate::handover::waiters::wake_all;
use crate::ids::{Id, StorageNumber};
use crate::priority::Priority;
use crate::sync::{AtomicU64, block_on, thread::yield_now};

fn table() -> (Arc<Table<()>>, EngineSide<()>) {
    let (storage, first) = StorageNumber::take().expect("a number");
    storage.give_back(first);
    Table::new(storage, 0).expect("memory")
}

/// A pool of this many slots.
fn pool(slots: u32) -> (Arc<PoolOwner<()>>, EngineSide<()>) {
    let (table, side) = table();
    (Arc::new(Pool::create(table, slots, ())), side)
}

fn fill(pool: &PoolOwner<()>, cache: &mut Cache, mode: Delivery, token: &Arc<()>) -> Id {
    fn filled(mut request: impl Request, fill: impl FnOnce(&mut Parts) -> Id) -> Id {
        fill(request.parts_mut())
    }
    filled(request(token), |parts| {
        pool.fill(cache, parts, mode, Priority::Normal)
    })
}

fn submit(pool: &PoolOwner<()>, token: &Arc<()>) -> SlotTicket<()> {
    let mut cache = Cache::default();
    assert!(pool.secure(&mut cache, 1), "a slot is free");
    let id = fill(pool, &mut cache, Delivery::Ticket, token);
    let ticket = pool.ticket(id);
    pool.publish(once(id.index()));
    ticket
}

/// Takes all slots, of which there must be this many, and returns their generations.
fn generations(pool: &PoolOwner<()>, slots: usize) -> Vec<u32> {
    let (mut cache, token) = (Cache::default(), Arc::new(()));
    let mut ids = Vec::new();
    while pool.secure(&mut cache, 1) {
        ids.push(fill(pool, &mut cache, Delivery::Detached, &token));
        assert!(ids.len() <= slots, "a slot is handed out once");
    }
    ids.sort_by_key(|id| id.index());
    ids.dedup_by_key(|id| id.index());
    assert_eq!(ids.len(), slots, "every slot is free, once");
    for id in &ids {
        pool.refuse(id.index(), closed_error(), &mut Vec::new());
    }
    assert_eq!(
        Arc::strong_count(&token),
        1,
        "the memory of requests is dropped"
    );
    ids.into_iter().map(Id::generation).collect()
}

/// The engine serves one request, once it is its.
fn serve(pool: &PoolOwner<()>, side: &mut EngineSide<()>, id: Id) {
    while !side.is_live(id) {
        yield_now();
    }
    side.set_waits(id.index(), WaitsFor::Device);
    assert_eq!(side.body(id.index()).user_data, 7);
    side.end(id.index(), 5, None);
    let (mut wakers, mut chain) = (Vec::new(), Cache::default());
    side.settle(&mut wakers, |freed| pool.retire_ended(freed, &mut chain));
    pool.give_back(&mut chain);
    wake_all(&mut wakers);
}

fn wait(ticket: &mut SlotTicket<()>) -> Completion {
    let polled = poll_fn(|context| {
        if let Some(outcome) = ticket.claim() {
            return Poll::Ready(outcome);
        }
        ticket.register(context.waker());
        ticket.claim().map_or(Poll::Pending, Poll::Ready)
    });
    block_on(polled)
}

fn assert_served(outcome: Completion) {
    assert_eq!(outcome.user_data, 7);
    assert!(
        matches!(outcome.result, Ok(5)),
        "what the engine wrote is seen"
    );
}

#[test]
fn a_ticket_that_waits_is_woken_and_sees_the_outcome() {
    check(5, || {
        let (pool, mut side) = pool(1);
        let (mut cache, token) = (Cache::default(), Arc::new(()));
        assert!(pool.secure(&mut cache, 1));
        let id = fill(&pool, &mut cache, Delivery::Ticket, &token);
        let mut ticket = pool.ticket(id);
        let own = Arc::clone(&pool);
        let engine = spawn(move || serve(&own, &mut side, id));
        pool.publish(once(id.index()));
        assert_served(wait(&mut ticket));
        engine.join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1, "the memory came back once");
        assert_eq!(generations(&pool, 1), [1]);
    });
}

#[test]
fn a_ticket_that_waits_for_nothing_has_its_outcome() {
    check(4, || {
        let (pool, mut side) = pool(1);
        let token = Arc::new(());
        let mut ticket = submit(&pool, &token);
        let (own, id) = (Arc::clone(&pool), ticket.id());
        let engine = spawn(move || serve(&own, &mut side, id));
        while let Some(cause) = ticket.cause() {
            assert!(
                matches!(cause, WaitsFor::Engine | WaitsFor::Device),
                "{cause:?}"
            );
            yield_now();
        }
        assert_served(ticket.claim().expect("it waits for nothing"));
        engine.join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1, "the memory came back once");
    });
}

/// Counts its wakes.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_ticket_dropped_while_its_request_ends_frees_the_slot_once() {
    for waited in [false, true] {
        check(5, move || {
            let (pool, mut side) = pool(1);
            let token = Arc::new(());
            let ticket = submit(&pool, &token);
            let (own, id) = (Arc::clone(&pool), ticket.id());
            let engine = spawn(move || serve(&own, &mut side, id));
            let woken = Arc::new(Woken::default());
            if waited {
                ticket.register(&Waker::from(Arc::clone(&woken)));
            }
            drop(ticket);
            engine.join().unwrap();
            // Also without a ticket: a waker may own what only it can free.
            assert_eq!(woken.0.load(Ordering::Relaxed), u64::from(waited));
            assert_eq!(Arc::strong_count(&woken), 1, "the waker is dropped");
            assert_eq!(Arc::strong_count(&token), 1, "the memory is dropped once");
            assert_eq!(generations(&pool, 1), [1], "freed once");
        });
    }
}

/// The look at the interest in an ended slot may come after the slot was claimed and filled again.
#[test]
fn a_late_settle_leaves_the_next_request_of_its_slot_alone() {
    for dropped in [false, true] {
        check(5, move || {
            let (pool, mut side) = pool(1);
            let token = Arc::new(());
            let mut first = submit(&pool, &token);
            let (own, id) = (Arc::clone(&pool), first.id());
            let next = Id::new(id.storage(), id.index(), id.generation() + 1);
            let engine = spawn(move || {
                serve(&own, &mut side, id);
                serve(&own, &mut side, next);
            });
            while !first.is_ended() {
                yield_now();
            }
            assert_served(first.claim().expect("it has ended"));
            let mut second = submit(&pool, &token);
            assert_eq!(second.id(), next);
            match dropped {
                true => drop(second),
                false => assert_served(wait(&mut second)),
            }
            engine.join().unwrap();
            assert_eq!(Arc::strong_count(&token), 1);
            assert_eq!(generations(&pool, 1), [2]);
        });
    }
}

#[test]
fn slots_given_back_while_others_are_taken_are_neither_lost_nor_handed_out_twice() {
    check(5, || {
        let (pool, _side) = pool(2);
        let token = Arc::new(());
        let steps = Arc::new(AtomicU64::new(0));
        let mut chains = [Cache::default(), Cache::default()];
        chains
            .iter_mut()
            .for_each(|chain| assert!(pool.secure(chain, 1)));
        let threads = chains.map(|mut chain| {
            let (pool, steps) = (Arc::clone(&pool), Arc::clone(&steps));
            spawn(move || {
                step(&steps);
                pool.give_back(&mut chain);
            })
        });
        let mut cache = Cache::default();
        step(&steps);
        if pool.secure(&mut cache, 2) {
            let id = fill(&pool, &mut cache, Delivery::Detached, &token);
            pool.refuse(id.index(), closed_error(), &mut Vec::new());
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        pool.give_back(&mut cache);
        generations(&pool, 2);
    });
}

#[test]
fn two_threads_that_take_slots_never_get_the_same() {
    check(5, || {
        let (pool, _side) = pool(2);
        let token = Arc::new(());
        let steps = Arc::new(AtomicU64::new(0));
        let take = |pool: &PoolOwner<()>, token: &Arc<()>, steps: &AtomicU64| {
            step(steps);
            let mut cache = Cache::default();
            assert!(pool.secure(&mut cache, 1), "there is one for each");
            let id = fill(pool, &mut cache, Delivery::Detached, token);
            step(steps);
            pool.refuse(id.index(), closed_error(), &mut Vec::new());
        };
        generations(&pool, 2);
        let (own, shared, both) = (pool.clone(), token.clone(), steps.clone());
        let other = spawn(move || take(&own, &shared, &both));
        take(&pool, &token, &steps);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1);
        assert_eq!(
            generations(&pool, 2).iter().sum::<u32>(),
            4,
            "taken four times"
        );
    });
}

#[test]
fn a_pool_whose_owner_goes_gives_its_chunks_back_once_with_its_last_slot() {
    check(5, || {
        let (table, mut side) = table();
        let owner = Pool::create(Arc::clone(&table), 2, ());
        let token = Arc::new(());
        let [mut one, two] = [submit(&owner, &token), submit(&owner, &token)];
        for ticket in [&one, &two] {
            side.end(ticket.id().index(), 5, None);
        }
        let steps = Arc::new(AtomicU64::new(0));
        let (before_one, before_two) = (steps.clone(), steps.clone());
        let threads = [
            spawn(move || {
                step(&before_one);
                drop(owner);
            }),
            spawn(move || {
                step(&before_two);
                drop(two);
            }),
        ];
        step(&steps);
        assert_served(one.claim().expect("it has ended"));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(Arc::strong_count(&token), 1);
        let next = Pool::create(table, 2, ());
        assert_eq!(generations(&next, 2), [1, 1]);
    });
}

#[test]
fn a_ticket_kept_as_a_number_is_taken_by_one_thread() {
    check(4, || {
        let (table, mut side) = table();
        let pool = Arc::new(Pool::create(Arc::clone(&table), 1, ()));
        let token = Arc::new(());
        let mut ticket = submit(&pool, &token);
        let id = ticket.keep();
        let (own, theirs) = (Arc::clone(&pool), Arc::clone(&table));
        let engine = spawn(move || serve(&own, &mut side, id));
        let taker = spawn(move || theirs.take_kept(id).map(|mut ticket| wait(&mut ticket)));
        let here = table.take_kept(id).map(|mut ticket| wait(&mut ticket));
        let there = taker.join().unwrap();
        assert!(here.is_some() != there.is_some(), "one thread has it");
        here.into_iter().chain(there).for_each(assert_served);
        assert!(
            table.take_kept(id).is_none(),
            "the number is of no ticket any more"
        );
        engine.join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1, "the memory came back once");
        assert_eq!(generations(&pool, 1), [1]);
    });
}
