//! The slots of one queue: the chain of those that are free, and the callers' side of those that
//! are not yet the engine's.
#![expect(
    unsafe_code,
    reason = "slots are handed between threads by their state word; see the header of `slots`"
)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;
use std::task::Waker;

use super::{
    CHUNK, Completion, Delivery, ENDED, ENGINE, Ended, FREE, Freed, GENERATION, HELD, NIL, Posted,
    RARE, STATE, SlotTicket, Table, USUAL, end, read_outcome, settle,
};
use crate::caller::request::Parts;
use crate::error::Error;
use crate::ids::Id;
use crate::priority::Priority;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock};

/// Marks a closing pool in `head`; the bits below it then count the slots that are out.
const CLOSING: u64 = 1 << 63;

/// Slots of one queue, with what tickets need of it. Lives while its owner does or any slot is out.
pub(crate) struct Pool<S> {
    pub(super) table: Arc<Table<S>>,
    /// Free slots: count << 32 | first of the chain.
    head: AtomicU64,
    chunks_max: u32,
    chunks: Mutex<Vec<u32>>,
    /// Itself, as it was allocated: for tickets that are found by their number.
    own: AtomicPtr<Pool<S>>,
    pub(crate) shared: S,
}

/// A private chain of free slots; if it is empty, its ends mean nothing.
#[derive(Default)]
pub(crate) struct Cache {
    first: u32,
    last: u32,
    count: u32,
}

/// The owner of a pool: its queue.
pub(crate) struct PoolOwner<S>(NonNull<Pool<S>>);
// SAFETY: a pool is used through shared references, and is Sync if what it carries is.
unsafe impl<S: Send + Sync> Send for PoolOwner<S> {}
// SAFETY: as above.
unsafe impl<S: Send + Sync> Sync for PoolOwner<S> {}

impl<S> std::ops::Deref for PoolOwner<S> {
    type Target = Pool<S>;

    #[inline(always)]
    fn deref(&self) -> &Pool<S> {
        // SAFETY: the pool lives while its owner does.
        unsafe { self.0.as_ref() }
    }
}

impl<S> Drop for PoolOwner<S> {
    fn drop(&mut self) {
        let made = lock(&self.chunks).len() as u64 * u64::from(CHUNK);
        // Caches were given back before: what is not in the chain is out.
        let out = |head: u64| made - (head >> 32);
        let close = |head| Some(CLOSING | out(head));
        let before = self
            .head
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, close);
        if before.is_ok_and(|head| out(head) == 0) {
            Pool::destroy(self.0);
        }
    }
}

impl<S> Pool<S> {
    /// A pool of at most `slots_max` slots (rounded up to whole chunks).
    pub(crate) fn create(table: Arc<Table<S>>, slots_max: u32, shared: S) -> PoolOwner<S> {
        let pool = Pool {
            table,
            head: AtomicU64::new(u64::from(NIL)),
            chunks_max: slots_max.div_ceil(CHUNK).max(1),
            chunks: Mutex::default(),
            own: AtomicPtr::default(),
            shared,
        };
        let pool = NonNull::from(Box::leak(Box::new(pool)));
        // SAFETY: made above.
        unsafe { pool.as_ref() }
            .own
            .store(pool.as_ptr(), Ordering::Relaxed);
        PoolOwner(pool)
    }

    /// No owner is left and no slot is out: the chunks go back to the table.
    fn destroy(pool: NonNull<Pool<S>>) {
        // SAFETY: made by `create` from a box; the thread that brought the count of slots out to 0
        // after the owner was gone calls this once.
        let pool = unsafe { Box::from_raw(pool.as_ptr()) };
        let mut own = lock(&pool.chunks);
        lock(&pool.table.chunks).free.append(&mut own);
    }

    /// Takes a share of the free slots, at most `most`, so that batches of other threads find some,
    /// too. The lock admits one taker at a time; others only push, so the chain below the head does
    /// not change.
    #[cold]
    fn refill(&self, cache: &mut Cache, most: u32) -> bool {
        let mut chunks = lock(&self.chunks);
        loop {
            let head = self.head.load(Ordering::Acquire);
            let (first, count) = (head as u32, (head >> 32) as u32);
            if first == NIL {
                if !self.add_chunk(&mut chunks) {
                    return false;
                }
                continue;
            }
            let taken = count.div_ceil(4).clamp(1, most);
            let (mut last, mut next) = (first, self.next_free(first));
            for _ in 1..taken {
                (last, next) = (next, self.next_free(next));
            }
            let rest = u64::from(count - taken) << 32 | u64::from(next);
            let order = (Ordering::AcqRel, Ordering::Acquire);
            if self
                .head
                .compare_exchange(head, rest, order.0, order.1)
                .is_ok()
            {
                *cache = Cache {
                    first,
                    last,
                    count: taken,
                };
                return true;
            }
        }
    }

    /// Adds a chunk of the table to the free slots; false: the pool or the table has no more.
    fn add_chunk(&self, chunks: &mut Vec<u32>) -> bool {
        if chunks.len() as u32 >= self.chunks_max {
            return false;
        }
        let Some(first) = self.table.take_chunk() else {
            return false;
        };
        chunks.push(first);
        let own = self.own.load(Ordering::Relaxed);
        self.table.pools[(first / CHUNK) as usize].store(own, Ordering::Release);
        for index in first..first + CHUNK {
            self.begin_life(index);
        }
        for index in first..first + CHUNK - 1 {
            self.link(index, index + 1);
        }
        let chunk = Cache {
            first,
            last: first + CHUNK - 1,
            count: CHUNK,
        };
        let closing = self.push_chain(&chunk);
        assert!(!closing, "a pool that grows has its owner");
        true
    }

    /// Gives a slot of a new chunk its first generation, unless it had one in another pool.
    fn begin_life(&self, index: u32) {
        let (hot, first) = (self.table.hot(index), self.table.first_generation);
        if hot.word.load(Ordering::Relaxed) >> 32 < u64::from(first) {
            hot.interest
                .store(u64::from(first) << 32, Ordering::Relaxed);
            hot.word
                .store(u64::from(first) << 32 | FREE, Ordering::Relaxed);
        }
    }

    /// Links a slot that the caller owns to another.
    #[inline]
    fn link(&self, index: u32, next: u32) {
        // SAFETY: the slot is in a chain of the caller's, or just freed by it: nothing else uses
        // it.
        unsafe { (*self.table.hot(index).body.get()).len = u64::from(next) };
    }

    /// Pushes a chain of the caller's onto the free slots. True: the owner of the pool is gone and
    /// no slot is out any more, so the caller destroys it.
    fn push_chain(&self, chain: &Cache) -> bool {
        let count = u64::from(chain.count);
        let put = |head| {
            (head & CLOSING == 0).then(|| {
                self.link(chain.last, head as u32);
                ((head >> 32) + count) << 32 | u64::from(chain.first)
            })
        };
        let (order, other) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.head.fetch_update(order, other, put).is_ok() {
            return false;
        }
        let out = self.head.fetch_sub(count, Ordering::AcqRel) & !CLOSING;
        assert!(out >= count, "a slot is freed once");
        out == count
    }

    /// The successor of a slot in a chain that the caller keeps unchanged.
    #[inline]
    fn next_free(&self, index: u32) -> u32 {
        // SAFETY: a slot in a free chain has no other owner than the holder of the chain.
        unsafe { (*self.table.hot(index).body.get()).len as u32 }
    }

    /// Takes a slot out of a chain.
    #[inline(always)]
    fn take(&self, cache: &mut Cache) -> Option<u32> {
        if cache.count == 0 {
            return None;
        }
        let index = cache.first;
        cache.first = self.next_free(index);
        cache.count -= 1;
        Some(index)
    }

    /// Ensures that the cache has a slot, so that a request is taken apart only if it will be
    /// accepted; false if there is none. At most `most` are taken out of the pool at a time.
    #[inline(always)]
    pub(crate) fn secure(&self, cache: &mut Cache, most: u32) -> bool {
        cache.count > 0 || self.refill(cache, most)
    }

    /// Fills a free slot, which [`Pool::secure`] promised; it is HELD until it is published.
    #[inline(always)]
    pub(crate) fn fill(
        &self,
        cache: &mut Cache,
        parts: &mut Parts,
        mode: Delivery,
        priority: Priority,
    ) -> Id {
        let index = self.take(cache).expect("a slot was secured");
        let hot = self.table.hot(index);
        let kind = parts.memory_kind();
        let has_usual = parts.usual.is_given();
        let has_rare = parts.rare.is_some();
        if kind.is_in_slot() || has_usual || has_rare {
            // SAFETY: the slot was taken from the free chain: its cold half is the caller's alone.
            unsafe { self.table.cold(index).fill(parts, has_usual) };
        }
        // SAFETY: as above.
        unsafe { *hot.body.get() = parts.body };
        self.table
            .slots
            .tag(index)
            .store(parts.tag, Ordering::Relaxed);
        let generation = hot.word.load(Ordering::Relaxed) & GENERATION;
        let flags = (u64::from(has_usual) * USUAL) | (u64::from(has_rare) * RARE);
        let word = generation
            | (priority as u64) << 24
            | u64::from(parts.codec.0) << 16
            | (kind as u64) << 12
            | (parts.verb as u64) << 8
            | (mode as u64) << 2
            | flags
            | HELD;
        hot.word.store(word, Ordering::Relaxed);
        self.table.id(index, (generation >> 32) as u32)
    }

    /// Begins a new generation of a slot that its owner gives up, and adds it to the owner's chain.
    #[inline]
    pub(super) fn retire(&self, index: u32, chain: &mut Cache) {
        let hot = self.table.hot(index);
        let generation = (hot.word.load(Ordering::Relaxed) >> 32) as u32;
        let Some(next) = generation.checked_add(1) else {
            // Exhausted: the slot is used no more. It counts as out, so its pool stays.
            return;
        };
        let next = u64::from(next) << 32;
        hot.interest.store(next, Ordering::Relaxed);
        hot.word.store(next | FREE, Ordering::Relaxed);
        self.link(index, chain.first);
        if chain.count == 0 {
            chain.last = index;
        }
        chain.first = index;
        chain.count += 1;
    }

    /// Frees a chain of slots that their owner gave up.
    #[inline]
    pub(super) fn free(pool: NonNull<Pool<S>>, chain: &mut Cache) {
        let chain = std::mem::take(chain);
        // SAFETY: the slots of the chain are out, so their pool lives.
        if chain.count > 0 && unsafe { pool.as_ref() }.push_chain(&chain) {
            Pool::destroy(pool);
        }
    }

    /// Frees one slot, whose owner is the caller.
    #[inline]
    pub(super) fn free_one(pool: NonNull<Pool<S>>, index: u32) {
        let mut chain = Cache::default();
        // SAFETY: the slot is out, so its pool lives.
        unsafe { pool.as_ref() }.retire(index, &mut chain);
        Pool::free(pool, &mut chain);
    }

    /// Hands filled slots to the engine; the caller notifies it afterwards.
    #[inline]
    pub(crate) fn publish(&self, indices: impl Iterator<Item = u32>) {
        for index in indices {
            let word = &self.table.hot(index).word;
            let held = word.load(Ordering::Relaxed);
            debug_assert_eq!(held & STATE, HELD, "a filled slot");
            word.store(held & !STATE | ENGINE, Ordering::Release);
        }
    }

    /// The first slots of the pool's chunks.
    pub(crate) fn chunks(&self) -> Vec<u32> {
        lock(&self.chunks).clone()
    }
}

impl<S> PoolOwner<S> {
    /// The one ticket of a slot that was just filled in mode `Ticket`.
    #[inline]
    pub(crate) fn ticket(&self, id: Id) -> SlotTicket<S> {
        SlotTicket { pool: self.0, id }
    }

    /// Gives back a chain of slots that a batch did not use, or that have ended.
    #[inline]
    pub(crate) fn give_back(&self, cache: &mut Cache) {
        Pool::free(self.0, cache);
    }

    /// Engine: adds a slot that the engine is to free to a chain, which [`PoolOwner::give_back`]
    /// takes.
    #[inline]
    pub(crate) fn retire_ended(&self, freed: Freed, chain: &mut Cache) {
        self.retire(freed.0, chain);
    }

    /// Ends a HELD slot whose batch can no longer be submitted, as its owner.
    /// Returns the bytes that it had charged.
    pub(crate) fn refuse(
        &self,
        index: u32,
        error: Error,
        wakers: &mut Vec<Waker>,
    ) -> (Option<Posted>, u64) {
        let hot = self.table.hot(index);
        let word = hot.word.load(Ordering::Relaxed);
        assert_eq!(word & STATE, HELD, "an unsubmitted slot");
        let mut charged = 0;
        if word & USUAL != 0 {
            // SAFETY: HELD: the slot is its batch's, which is the caller.
            let usual = unsafe { &mut *self.table.cold(index).usual.get() };
            charged = usual.charged;
            if let Some(group) = usual.group.take() {
                group.completed(Some(error.kind()), 0, wakers);
            }
        }
        // SAFETY: HELD: the slot is its batch's, which is the caller.
        match unsafe { end(&self.table, index, word, 0, Some(error)) } {
            Ended::Freed(freed) => Pool::free_one(self.0, freed.0),
            Ended::Posted(posted) => return (Some(posted), charged),
            Ended::Ticket(id) => {
                fence(Ordering::SeqCst);
                if let Some(freed) = settle(&self.table, id, wakers) {
                    Pool::free_one(self.0, freed.0);
                }
            }
        }
        (None, charged)
    }

    /// Completion queue: reads the outcome of a posted request, whose index the engine published
    /// once, and frees its slot.
    pub(crate) fn take_posted(&self, posted: Posted) -> Completion {
        let hot = self.table.hot(posted.0);
        let word = hot.word.load(Ordering::Acquire);
        assert!(word & STATE == ENDED, "a posted request has ended");
        // SAFETY: ENDED, acquired, in mode Posted: the slot is the completion queue's, and
        // `Posted` exists once for each such slot.
        let outcome = unsafe { read_outcome(&self.table, posted.0, word) };
        Pool::free_one(self.0, posted.0);
        outcome
    }
}
