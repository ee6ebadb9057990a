//! The slot table: one generational table shared by callers and the engine. Its unsafe code is
//! here, in `pool` and in `reserved`.
//!
//! `word` names the owner of a slot's data: FREE (the thread that took it from the free chain),
//! HELD (its unsubmitted batch), ENGINE (the one [`EngineSide`]), ENDED (its ticket, or the
//! completion queue). Each hand-over is a Release store of `word`, each take-over an Acquire load
//! that sees it.
//!
//! `interest` is the ticket's side: WAITING, DETACHED, CANCEL, with the generation above. Waiting
//! and dropping meet the end as in Dekker's algorithm: the engine stores ENDED for a whole round,
//! executes one SeqCst fence, and reads each `interest`; a ticket changes `interest`, executes a
//! SeqCst fence, and reads `word`. At least one sees the other; where both may, one
//! compare-exchange (FREED) decides who frees. So an end costs no locked instruction.
//!
//! A slot that is out keeps its pool alive, so a ticket needs no reference count. A ticket kept as
//! a number (KEPT) is out as well; the compare-exchange that clears KEPT in the generation of the
//! number makes one thread its holder again.
#![expect(
    unsafe_code,
    reason = "slots are handed between threads by their state word; see the header"
)]

use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use millstream_codec::CodecId;

use crate::caller::destination::{Memory, MemoryKind};
use crate::caller::request::{Body, Parts, Rare, Usual, Verb};
use crate::caller::waits::WaitsFor;
use crate::error::{Error, ErrorKind};
use crate::handover::waiters::wake_all;
use crate::ids::{Id, StorageNumber};
use crate::limits::{SLOT_CHUNK, SLOTS_MAX};
use crate::priority::Priority;
use crate::sync::{AtomicU64, Mutex, Ordering, SharedCell, fence, lock};

const CHUNK: u32 = SLOT_CHUNK;
const NIL: u32 = u32::MAX;

const STATE: u64 = 3;
const FREE: u64 = 0;
const ENGINE: u64 = 1;
const ENDED: u64 = 2;
const HELD: u64 = 3;

const USUAL: u64 = 1 << 4;
const RARE: u64 = 1 << 5;

/// In `word` of an ENGINE slot: its [`WaitsFor`].
const CAUSE: u64 = 15 << CAUSE_SHIFT;
const CAUSE_SHIFT: u32 = 26;
/// In `word` of an ENDED slot: the error's number, in place of priority and cause.
const ERROR: u64 = 255 << 24;
const _: () = assert!(CAUSE & ERROR == CAUSE, "an end clears the cause");

const WAITING: u64 = 1;
const DETACHED: u64 = 2;
const CANCEL: u64 = 4;
const FREED: u64 = 8;
/// A number names the ticket.
const NUMBERED: u64 = 16;
/// The ticket is kept as its number: [`Table::take_kept`] returns it.
const KEPT: u64 = 32;

const GENERATION: u64 = !(u32::MAX as u64);

/// How a request's completion is delivered: to exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Delivery {
    /// Its ticket.
    Ticket = 0,
    /// Its queue's completion queue.
    Posted = 1,
    /// Only its group, a status entry or a signal.
    Detached = 2,
}

/// What `word` says of a request besides its owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) generation: u32,
    pub(crate) mode: Delivery,
    pub(crate) usual: bool,
    pub(crate) rare: bool,
    pub(crate) verb: Verb,
    pub(crate) memory: MemoryKind,
    pub(crate) codec: CodecId,
    pub(crate) priority: Priority,
}

impl Head {
    #[inline(always)]
    fn of(word: u64) -> Head {
        Head {
            generation: (word >> 32) as u32,
            mode: match word >> 2 & 3 {
                0 => Delivery::Ticket,
                1 => Delivery::Posted,
                _ => Delivery::Detached,
            },
            usual: word & USUAL != 0,
            rare: word & RARE != 0,
            verb: Verb::from_index((word >> 8 & 7) as u8),
            memory: MemoryKind::from_index((word >> 12 & 7) as u8),
            codec: CodecId((word >> 16 & 255) as u8),
            priority: Priority::from_bits((word >> 24) as usize),
        }
    }
}

#[repr(C, align(64))]
struct Hot {
    word: AtomicU64,
    interest: AtomicU64,
    body: SharedCell<Body>,
}
#[cfg(not(model))]
const _: () = assert!(size_of::<Hot>() == 64, "a slot's hot half is a cache line");

#[derive(Default)]
struct Cold {
    memory: SharedCell<Memory>,
    error: SharedCell<Option<Error>>,
    usual: SharedCell<Usual>,
    rare: SharedCell<Option<Box<Rare>>>,
    /// With the generation of the request that it is for.
    waker: Mutex<Option<(u32, Waker)>>,
}

impl Cold {
    /// Moves what a slot keeps in its cold half out of `parts`.
    ///
    /// # Safety
    /// The slot is the caller's alone.
    unsafe fn fill(&self, parts: &mut Parts, has_usual: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if parts.memory_kind().is_in_slot() {
                *self.memory.get() = std::mem::take(&mut parts.memory);
            }
            if has_usual {
                *self.usual.get() = std::mem::take(&mut parts.usual);
            }
            if parts.rare.is_some() {
                *self.rare.get() = parts.rare.take();
            }
        }
    }
}

/// All slots of a storage. The hot halves and tags are one zeroed reservation, of which only what
/// is used becomes resident, so a slot is found without a lookup; cold halves are made by chunk.
pub(crate) struct Table<S> {
    storage: StorageNumber,
    /// The first generation of all slots, so that ticket numbers of earlier storages fail.
    first_generation: u32,
    slots: Reserved,
    cold: Box<[OnceLock<Box<[Cold]>>]>,
    chunks: Mutex<Chunks>,
    /// Per chunk: the pool that has it, or had it last.
    pools: Box<[AtomicPtr<Pool<S>>]>,
}

#[derive(Default)]
struct Chunks {
    made: u32,
    free: Vec<u32>,
}

// SAFETY: bodies and cold halves are used only by the owner that `word` names; the raw pointer in a
// body is memory whose lender allows any thread.
unsafe impl<S: Send + Sync> Sync for Table<S> {}
// SAFETY: as above.
unsafe impl<S: Send + Sync> Send for Table<S> {}

mod pool;
mod reserved;

pub(crate) use pool::{Cache, Pool, PoolOwner};
use reserved::Reserved;

impl<S> Table<S> {
    /// A table, and the one engine's side of it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(
        storage: StorageNumber,
        first_generation: u32,
    ) -> Result<(Arc<Table<S>>, EngineSide<S>), Error> {
        let cause = "no memory for the requests of a storage; `ulimit -v` may be too low";
        let reserved = Reserved::new().ok_or_else(|| Error::new(ErrorKind::OutOfMemory, cause))?;
        let table = Arc::new(Table {
            storage,
            first_generation,
            slots: reserved,
            cold: (0..SLOTS_MAX / CHUNK).map(|_| OnceLock::new()).collect(),
            chunks: Mutex::default(),
            pools: (0..SLOTS_MAX / CHUNK)
                .map(|_| AtomicPtr::default())
                .collect(),
        });
        // Loom does not see who made a cold half, so all are made before there are other threads.
        #[cfg(model)]
        (0..SLOTS_MAX).for_each(|index| _ = table.cold(index));
        let side = EngineSide {
            table: Arc::clone(&table),
            ended: Vec::new(),
        };
        Ok((table, side))
    }

    #[inline(always)]
    fn hot(&self, index: u32) -> &Hot {
        self.slots.hot(index)
    }

    #[inline]
    fn cold(&self, index: u32) -> &Cold {
        let chunk = &self.cold[(index / CHUNK) as usize];
        let cold = chunk.get_or_init(|| (0..CHUNK).map(|_| Cold::default()).collect());
        &cold[(index % CHUNK) as usize]
    }

    fn id(&self, index: u32, generation: u32) -> Id {
        Id::new(self.storage, index, generation)
    }

    /// Takes a chunk that no pool has; returns its first slot.
    fn take_chunk(&self) -> Option<u32> {
        let mut chunks = lock(&self.chunks);
        if let Some(first) = chunks.free.pop() {
            return Some(first);
        }
        if chunks.made == SLOTS_MAX / CHUNK {
            return None;
        }
        chunks.made += 1;
        Some((chunks.made - 1) * CHUNK)
    }

    /// Whether an id is of a slot of this table, of whatever generation.
    fn has(&self, id: Id) -> bool {
        id.storage() == self.storage && id.index() < SLOTS_MAX && id != Id::NONE
    }

    /// Changes the interest in a slot while it has the generation of `id`; returns the old value.
    fn change_interest(&self, id: Id, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        if !self.has(id) {
            return None;
        }
        let interest = &self.hot(id.index()).interest;
        let changed = interest.fetch_update(Ordering::SeqCst, Ordering::Acquire, |now| {
            let lives = now & GENERATION == life(id);
            lives.then(|| change(now)).flatten()
        });
        changed.ok()
    }

    /// Returns the ticket that [`SlotTicket::keep`] turned into a number, once. `None`: it was
    /// returned before, or the number is of no ticket of this table.
    pub(crate) fn take_kept(&self, id: Id) -> Option<SlotTicket<S>> {
        self.change_interest(id, |now| (now & KEPT != 0).then_some(now & !KEPT))?;
        let pool = &self.pools[(id.index() / CHUNK) as usize];
        // The slot was out all the time, so this is the pool that its ticket was of.
        let pool = NonNull::new(pool.load(Ordering::Acquire))?;
        Some(SlotTicket { pool, id })
    }

    /// A generation that no slot has had.
    pub(crate) fn next_generation(&self) -> u32 {
        let made = lock(&self.chunks).made * CHUNK;
        let generation = |index| (self.hot(index).word.load(Ordering::Acquire) >> 32) as u32;
        let highest = (0..made).map(generation).max();
        highest.map_or(self.first_generation, |highest| highest.saturating_add(1))
    }

    /// Drops all tickets that are kept as numbers.
    pub(crate) fn release_kept(&self) {
        let made = lock(&self.chunks).made * CHUNK;
        for index in 0..made {
            let interest = self.hot(index).interest.load(Ordering::Acquire);
            if interest & KEPT != 0 {
                drop(self.take_kept(self.id(index, (interest >> 32) as u32)));
            }
        }
    }

    /// Requests cancellation of a request whose ticket has a number; returns whether this was the
    /// first time.
    pub(crate) fn cancel_numbered(&self, id: Id) -> bool {
        let asked = |now| (now & (NUMBERED | DETACHED) == NUMBERED).then_some(now | CANCEL);
        self.change_interest(id, asked)
            .is_some_and(|before| before & CANCEL == 0)
    }

    /// Whether the request of a ticket with a number has ended; `None`: there is no such ticket, it
    /// was dropped, or its outcome was taken.
    pub(crate) fn is_numbered_ended(&self, id: Id) -> Option<bool> {
        self.numbered_word(id).map(|word| word & STATE == ENDED)
    }

    /// As [`SlotTicket::cause`], of a ticket with a number; `None` as above.
    pub(crate) fn numbered_cause(&self, id: Id) -> Option<Option<WaitsFor>> {
        self.numbered_word(id).map(cause_of)
    }

    fn numbered_word(&self, id: Id) -> Option<u64> {
        if !self.has(id) {
            return None;
        }
        let hot = self.hot(id.index());
        let interest = hot.interest.load(Ordering::Acquire);
        let word = hot.word.load(Ordering::Acquire);
        let flags = GENERATION | NUMBERED | DETACHED;
        let is_numbered = interest & flags == life(id) | NUMBERED;
        (is_numbered && word & GENERATION == life(id)).then_some(word)
    }
}

/// The generation of an id, in the bits where `word` and `interest` have it.
#[inline]
fn life(id: Id) -> u64 {
    u64::from(id.generation()) << 32
}

/// What a request waits for; `None`: it has ended.
fn cause_of(word: u64) -> Option<WaitsFor> {
    match word & STATE {
        HELD => Some(WaitsFor::Submission),
        ENGINE => Some(WaitsFor::ALL[((word & CAUSE) >> CAUSE_SHIFT) as usize]),
        _ => None,
    }
}

/// The right to free a slot.
pub(crate) struct Freed(u32);

impl Freed {
    pub(crate) fn index(&self) -> u32 {
        self.0
    }
}

/// The right to read and free the slot of a posted request. Made once, by its end.
pub(crate) struct Posted(u32);

/// The outcome of a request; [`Queue::drain_completions`](crate::Queue::drain_completions) takes
/// that of a posted one.
#[derive(Debug)]
pub struct Completion {
    /// The request's user data.
    pub user_data: u64,
    /// The number of raw bytes that landed (or were written), or the error.
    pub result: Result<u64, Error>,
    pub(crate) memory: Memory,
}

impl Default for Completion {
    fn default() -> Completion {
        Completion {
            user_data: 0,
            result: Ok(0),
            memory: Memory::None,
        }
    }
}

impl Completion {
    /// Takes the request's memory, as the type that the request was made with; `None` if it is of
    /// another type (then it stays), was taken before, or is still held by the system.
    pub fn take_memory<T: 'static>(&mut self) -> Option<T> {
        let memory = std::mem::take(&mut self.memory);
        let typed = memory.into_type(self.result.is_ok());
        typed.map_err(|other| self.memory = other).ok()
    }
}

/// Moves the outcome out of a slot.
///
/// # Safety
/// The slot is ENDED, acquired, and the caller's.
#[inline(always)]
unsafe fn read_outcome<S>(table: &Table<S>, index: u32, word: u64) -> Completion {
    // SAFETY: the caller owns the slot.
    let body = unsafe { &*table.hot(index).body.get() };
    let failed = word & ERROR != 0;
    let kind = MemoryKind::from_index((word >> 12 & 7) as u8);
    let memory = match kind {
        MemoryKind::Pool => Memory::Pool,
        MemoryKind::None | MemoryKind::Borrowed => Memory::None,
        // SAFETY: as above.
        _ => std::mem::take(unsafe { &mut *table.cold(index).memory.get() }),
    };
    let error = match failed {
        // SAFETY: as above.
        true => unsafe { (*table.cold(index).error.get()).take() },
        false => None,
    };
    Completion {
        result: error.map_or(Ok(body.len), Err),
        user_data: body.user_data,
        memory,
    }
}

/// One request's completion. Never cloned: it is the right to the slot once `word` says ENDED.
pub(crate) struct SlotTicket<S> {
    pool: NonNull<Pool<S>>,
    id: Id,
}
// SAFETY: everything it does is atomic, or follows an acquired ENDED that is its alone.
unsafe impl<S: Send + Sync> Send for SlotTicket<S> {}
// SAFETY: as above.
unsafe impl<S: Send + Sync> Sync for SlotTicket<S> {}

impl<S> SlotTicket<S> {
    #[inline]
    fn pool(&self) -> &Pool<S> {
        assert!(self.id != Id::NONE, "a ticket is claimed once");
        // SAFETY: the slot is out until the ticket is used up, which the assertion excludes.
        unsafe { self.pool.as_ref() }
    }

    #[inline]
    fn hot(&self) -> &Hot {
        self.pool().table.hot(self.id.index())
    }

    pub(crate) fn shared(&self) -> &S {
        &self.pool().shared
    }

    pub(crate) fn id(&self) -> Id {
        self.id
    }

    /// Whether the outcome was taken.
    pub(crate) fn is_claimed(&self) -> bool {
        self.id == Id::NONE
    }

    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        let word = self.hot().word.load(Ordering::Acquire);
        word & (GENERATION | STATE) == life(self.id) | ENDED
    }

    /// Whether its batch was submitted.
    pub(crate) fn is_submitted(&self) -> bool {
        self.hot().word.load(Ordering::Relaxed) & STATE != HELD
    }

    /// What the request waits for; `None`: it has ended, and [`SlotTicket::claim`] will see that.
    pub(crate) fn cause(&self) -> Option<WaitsFor> {
        cause_of(self.hot().word.load(Ordering::Acquire))
    }

    /// Takes the outcome and frees the slot; `None` if the request has not ended.
    #[inline(always)]
    pub(crate) fn claim(&mut self) -> Option<Completion> {
        let pool = self.pool();
        let index = self.id.index();
        let word = pool.table.hot(index).word.load(Ordering::Acquire);
        if word & (GENERATION | STATE) != life(self.id) | ENDED {
            return None;
        }
        // SAFETY: ENDED of this generation, acquired: the slot is this ticket's.
        let outcome = unsafe { read_outcome(&pool.table, index, word) };
        self.id = Id::NONE;
        Pool::free_one(self.pool, index);
        Some(outcome)
    }

    /// Registers a waker to be woken at the end; returns whether the request has ended meanwhile.
    pub(crate) fn register(&self, waker: &Waker) -> bool {
        let cold = self.pool().table.cold(self.id.index());
        // Clones and drops of wakers are code of an executor: outside the lock.
        let waker = waker.clone();
        let before = lock(&cold.waker).replace((self.id.generation(), waker));
        drop(before);
        self.hot().interest.fetch_or(WAITING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.is_ended()
    }

    /// Keeps the ticket as a number, for [`Table::take_kept`].
    pub(crate) fn keep(&mut self) -> Id {
        if self.id != Id::NONE {
            self.hot()
                .interest
                .fetch_or(KEPT | NUMBERED, Ordering::Release);
        }
        std::mem::replace(&mut self.id, Id::NONE)
    }

    /// Requests cancellation; returns whether this was the first time.
    pub(crate) fn cancel(&self) -> bool {
        self.hot().interest.fetch_or(CANCEL, Ordering::SeqCst) & CANCEL == 0
    }

    #[cold]
    fn detach(&mut self) {
        // Once DETACHED is set, the thread that ends the request may free the slot, and with it the
        // pool: this keeps the table, and the pool is used only by the winner.
        let table = Arc::clone(&self.pool().table);
        let (index, generation) = (self.id.index(), life(self.id));
        let hot = table.hot(index);
        let interest = hot.interest.fetch_or(DETACHED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let word = hot.word.load(Ordering::Acquire);
        let ended = word & (GENERATION | STATE) == generation | ENDED;
        if ended && win_detached(hot, generation) {
            // SAFETY: ENDED, acquired, and the exchange was won.
            let outcome = unsafe { read_outcome(&table, index, word) };
            // The engine may not have come to wake it, and does not any more.
            let waker = match interest & WAITING {
                0 => None,
                _ => take_waker(&table, index, self.id.generation()),
            };
            Pool::free_one(self.pool, index);
            drop(outcome);
            wake_all(&mut Vec::from_iter(waker));
        }
    }
}

impl<S> Drop for SlotTicket<S> {
    /// Detaches: the request continues, and its outcome is dropped.
    #[inline]
    fn drop(&mut self) {
        if self.id != Id::NONE {
            self.detach();
        }
    }
}

/// Whether the caller is the one to free a detached slot that has ended.
fn win_detached(hot: &Hot, generation: u64) -> bool {
    let free = |now| {
        let wins = now & GENERATION == generation && now & DETACHED != 0 && now & FREED == 0;
        wins.then_some(now | FREED)
    };
    hot.interest
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, free)
        .is_ok()
}

/// The engine's side of the table; there is one.
pub(crate) struct EngineSide<S> {
    table: Arc<Table<S>>,
    /// Slots with tickets that ended since the last `settle`.
    ended: Vec<Id>,
}

impl<S> EngineSide<S> {
    #[inline]
    fn owned(&self, index: u32) -> u64 {
        let word = self.table.hot(index).word.load(Ordering::Acquire);
        assert!(word & STATE == ENGINE, "the engine uses the slots it owns");
        word
    }

    /// The head and the body of a live request.
    #[inline(always)]
    pub(crate) fn live(&mut self, index: u32) -> (Head, &mut Body) {
        let head = Head::of(self.owned(index));
        // SAFETY: ENGINE: only the one EngineSide uses the body, borrowed mutably here.
        (head, unsafe { &mut *self.table.hot(index).body.get() })
    }

    /// As [`EngineSide::live`], with a copy of the body.
    #[inline(always)]
    pub(crate) fn look(&mut self, index: u32) -> (Head, Body) {
        let (head, body) = self.live(index);
        (head, *body)
    }

    #[inline]
    pub(crate) fn head(&self, index: u32) -> Head {
        Head::of(self.owned(index))
    }

    /// The body of a live request.
    #[inline]
    pub(crate) fn body(&mut self, index: u32) -> &mut Body {
        self.live(index).1
    }

    /// The body of a live request, shared.
    #[inline]
    pub(crate) fn peek(&self, index: u32) -> &Body {
        self.owned(index);
        // SAFETY: as `body`; a shared borrow of the side excludes the mutable one.
        unsafe { &*self.table.hot(index).body.get() }
    }

    #[inline]
    pub(crate) fn memory(&mut self, index: u32) -> &mut Memory {
        self.owned(index);
        // SAFETY: as `body`.
        unsafe { &mut *self.table.cold(index).memory.get() }
    }

    /// Gives a live request memory of another kind, or an answer in its place.
    #[inline]
    pub(crate) fn set_memory(&mut self, index: u32, memory: Memory) {
        let kind = memory.kind() as u64;
        let hot = self.table.hot(index);
        let word = self.owned(index) & !(7 << 12) | kind << 12;
        hot.word.store(word, Ordering::Relaxed);
        *self.memory(index) = memory;
    }

    /// Records what a live request waits for.
    #[inline]
    pub(crate) fn set_waits(&mut self, index: u32, cause: WaitsFor) {
        debug_assert_ne!(cause, WaitsFor::Submission, "a slot of the engine");
        // Acquired, as the store below hides that of `publish` from later loads of the engine.
        let word = self.owned(index);
        let changed = word & !CAUSE | (cause as u64) << CAUSE_SHIFT;
        // Relaxed: of an ENGINE slot only the one EngineSide stores `word`, and no other thread
        // takes data over from it.
        self.table.hot(index).word.store(changed, Ordering::Relaxed);
    }

    /// The usual part of a live request whose head has `usual`.
    #[inline]
    pub(crate) fn usual(&mut self, index: u32) -> &mut Usual {
        self.owned(index);
        // SAFETY: as `body`.
        unsafe { &mut *self.table.cold(index).usual.get() }
    }

    /// Takes the rare part of a live request whose head has `rare`, once.
    pub(crate) fn take_rare(&mut self, index: u32) -> Option<Box<Rare>> {
        self.owned(index);
        // SAFETY: as `body`.
        unsafe { (*self.table.cold(index).rare.get()).take() }
    }

    #[inline]
    pub(crate) fn is_live(&self, id: Id) -> bool {
        let word = self.table.hot(id.index()).word.load(Ordering::Acquire);
        word & (GENERATION | STATE) == life(id) | ENGINE
    }

    /// Whether a request has not ended: it is the engine's, or in its batch.
    pub(crate) fn is_pending(&self, id: Id) -> bool {
        let word = self.table.hot(id.index()).word.load(Ordering::Acquire);
        word & GENERATION == life(id) && matches!(word & STATE, HELD | ENGINE)
    }

    #[inline]
    pub(crate) fn id(&self, index: u32, generation: u32) -> Id {
        self.table.id(index, generation)
    }

    /// Whether its ticket asked for cancellation.
    #[inline]
    pub(crate) fn wants_cancel(&self, index: u32) -> bool {
        self.table.hot(index).interest.load(Ordering::Relaxed) & CANCEL != 0
    }

    #[inline]
    pub(crate) fn tag(&self, index: u32) -> u64 {
        self.table.slots.tag(index).load(Ordering::Relaxed)
    }

    /// Prefetches a slot's line, which intake reads soon.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        #[cfg(all(target_arch = "x86_64", not(model)))]
        // SAFETY: a hint, of an address inside the reservation.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(self.table.hot(index)).cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(model))))]
        let _ = index;
    }

    /// Takes the waker of a live request that will never complete.
    pub(crate) fn take_waker(&self, index: u32) -> Option<Waker> {
        let generation = (self.owned(index) >> 32) as u32;
        take_waker(&self.table, index, generation)
    }

    /// Ends a live request: from here on the slot is its ticket's, the completion queue's, or to be
    /// freed by the caller.
    #[inline]
    pub(crate) fn end(&mut self, index: u32, bytes: u64, error: Option<Error>) -> Ended {
        let word = self.owned(index);
        // SAFETY: ENGINE, and there is one EngineSide.
        let ended = unsafe { end(&self.table, index, word, bytes, error) };
        if let Ended::Ticket(id) = ended {
            self.ended.push(id);
        }
        ended
    }

    /// Takes the wakers of what ended since the last call, and frees the slots that were detached.
    pub(crate) fn settle(&mut self, wakers: &mut Vec<Waker>, mut freed: impl FnMut(Freed)) {
        if self.ended.is_empty() {
            return;
        }
        fence(Ordering::SeqCst);
        for id in self.ended.drain(..) {
            settle(&self.table, id, wakers)
                .into_iter()
                .for_each(&mut freed);
        }
    }
}

/// Ends a request.
///
/// # Safety
/// The slot is the caller's: ENGINE or HELD.
#[inline(always)]
unsafe fn end<S>(
    table: &Table<S>,
    index: u32,
    word: u64,
    bytes: u64,
    error: Option<Error>,
) -> Ended {
    let head = Head::of(word);
    let hot = table.hot(index);
    // SAFETY: the caller's promise.
    unsafe { (*hot.body.get()).len = bytes };
    let number = match error {
        None => 0,
        Some(error) => {
            let number = error.kind() as u64;
            // SAFETY: as above.
            unsafe { *table.cold(index).error.get() = Some(error) };
            number
        }
    };
    let word = word & !ERROR & !STATE | number << 24 | ENDED;
    if head.mode == Delivery::Detached {
        if number != 0 || head.memory.is_in_slot() {
            // SAFETY: as above; the word has not changed.
            unsafe { read_outcome(table, index, word) }.memory.discard();
        }
        return Ended::Freed(Freed(index));
    }
    hot.word.store(word, Ordering::Release);
    match head.mode {
        Delivery::Posted => Ended::Posted(Posted(index)),
        _ => Ended::Ticket(table.id(index, head.generation)),
    }
}

/// Takes the waker of a request; a slot that was claimed meanwhile may have that of its next one.
fn take_waker<S>(table: &Table<S>, index: u32, generation: u32) -> Option<Waker> {
    let mut waker = lock(&table.cold(index).waker);
    let own = waker.take_if(|(of, _)| *of == generation);
    own.map(|(_, waker)| waker)
}

/// Acts on the interest in a slot that ended, after the SeqCst fence that follows its end.
#[inline]
fn settle<S>(table: &Table<S>, id: Id, wakers: &mut Vec<Waker>) -> Option<Freed> {
    let hot = table.hot(id.index());
    let interest = hot.interest.load(Ordering::Relaxed);
    let generation = life(id);
    if interest == generation || interest & GENERATION != generation {
        return None;
    }
    if interest & WAITING != 0 {
        wakers.extend(take_waker(table, id.index(), id.generation()));
    }
    if interest & DETACHED != 0 && win_detached(hot, generation) {
        let word = hot.word.load(Ordering::Acquire);
        // SAFETY: ENDED, and the exchange was won.
        unsafe { read_outcome(table, id.index(), word) }
            .memory
            .discard();
        return Some(Freed(id.index()));
    }
    None
}

/// What becomes of a slot that ended.
pub(crate) enum Ended {
    /// Its ticket has it; to be settled.
    Ticket(Id),
    /// To be published in the completion queue.
    Posted(Posted),
    Freed(Freed),
}
