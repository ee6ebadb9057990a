//! Experts of a mixture-of-experts model, read on demand into a bounded set of slots.
//!
//! A layer *wants* the experts that its router chose, and *guesses* those that the next layer may
//! choose. What is wanted is read at high priority with the layer's deadline; what is guessed is
//! read at low priority while nothing else is, promoted when it is wanted after all, and withdrawn
//! when it is not. The engine keeps the bytes in flight of low priority so few that a wanted expert
//! hardly waits behind guessed ones.
//!
//! Each slot has room for the largest expert. Experts stay until their slot is needed: the one that
//! was not used for the longest time goes first, but none that an [`Expert`] pins. Reads begin and
//! end at page borders and bypass the page cache where that is possible, so that they go from the
//! disk to the slot without a copy: the page cache would only hold the same data twice.
//!
//! Each slot is free or holds one expert, which is loading or ready. A wanted expert stays from the
//! call that wants it until it is taken or released. It may need a slot while a guess is canceled
//! to make room for it; it takes the next that is free or can be evicted. If nothing is loading,
//! and it cannot get one, waiting for it fails: so each wait ends.
//!
//! ```
//! use millstream::{Storage, StorageOptions};
//! use millstream_weights::{ExpertCache, Extent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("millstream-experts-{}", std::process::id()));
//! # std::fs::write(&path, [7; 4 * 10_000])?;
//! let storage = Storage::new(StorageOptions::default())?;
//! // Four experts of one tensor each, one behind the other.
//! let experts = (0..4).map(|nth| vec![Extent { file: 0, offset: nth * 10_000, len: 10_000 }]);
//! let mut cache = ExpertCache::new(&storage, &[&path], experts, 3)?;
//! cache.want(&[0, 2], None)?;
//! cache.guess(&[1])?;
//! for key in [0, 2] {
//!     let expert = cache.wait(key)?;
//!     assert_eq!(expert.part(0), [7; 10_000]);
//! }
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

mod slots;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use millstream::{
    Access, Batch, Error, ErrorKind, FileId, FileOptions, Outcome, Priority, QueueOptions, Read,
    Storage, Ticket, limits,
};
use millstream_io::ForkGuard;

use crate::tensor::Extent;
use slots::{ALIGNMENT, Piece, Slot};

/// What an [`ExpertCache`] has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExpertStats {
    /// Wanted experts that were ready.
    pub hits: u64,
    /// Wanted experts that were neither ready nor being read.
    pub misses: u64,
    /// Wanted experts whose guessed read was under way.
    pub promotions: u64,
    /// Guessed experts of which a read was begun.
    pub guesses: u64,
    /// Those of them that were wanted later.
    pub guesses_used: u64,
    /// Experts whose reads were canceled: withdrawn guesses, and those that made room for others.
    pub withdrawn: u64,
    /// Guesses dropped since no slot was free for them.
    pub refused: u64,
    /// Experts that made room for others.
    pub evictions: u64,
    /// Bytes of all experts that arrived.
    pub read_bytes: u64,
    /// Bytes of guessed experts that arrived and were evicted before they were wanted.
    pub wasted_bytes: u64,
    /// Time spent in [`ExpertCache::wait`] and [`ExpertCache::wait_any`].
    pub stall: Duration,
}

/// A ready expert. It stays in its slot as long as this value or a clone of it lives, on any
/// thread, also after the cache is gone. In a forked child its bytes are zeros.
#[derive(Clone)]
pub struct Expert(Arc<Loaded>);

struct Loaded {
    slot: Slot,
    views: Arc<[Range<usize>]>,
}

impl Expert {
    /// Returns the bytes of a part, in the order in which the cache was given the parts.
    ///
    /// # Panics
    /// If the expert has no such part.
    #[must_use]
    pub fn part(&self, nth: usize) -> &[u8] {
        &self.0.slot.bytes()[self.0.views[nth].clone()]
    }

    /// Returns the number of parts.
    #[must_use]
    pub fn part_count(&self) -> usize {
        self.0.views.len()
    }
}

impl fmt::Debug for Expert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expert")
            .field("parts", &self.part_count())
            .finish_non_exhaustive()
    }
}

/// One read of an expert: a part, from page border to page border.
struct PartRead {
    file: FileId,
    offset: u64,
    len: u64,
    /// Where it lands in the slot.
    at: usize,
}

/// How an expert is read into a slot.
struct Layout {
    reads: Box<[PartRead]>,
    views: Arc<[Range<usize>]>,
    bytes: u64,
    slot_bytes: usize,
}

/// The reads of an expert that is loading.
struct Load {
    tickets: Vec<Ticket<Piece>>,
    /// Of the first tickets.
    outcomes: Vec<Outcome<Piece>>,
    /// The last pieces, if reads of them could not be submitted.
    unused: Vec<Piece>,
    is_wanted: bool,
    /// It was guessed, and not wanted since.
    is_guess: bool,
    /// It was guessed, and is not expected any more.
    is_withdrawn: bool,
    /// Its reads were canceled, to make room.
    is_canceled: bool,
    deadline: Option<Instant>,
}

enum State {
    Absent,
    /// Wanted, and no slot was free.
    NeedsSlot(Option<Instant>),
    Loading(Load),
    Ready {
        loaded: Arc<Loaded>,
        /// Its key in `uses`.
        used: u64,
        /// It was guessed, and not wanted since.
        is_guess: bool,
        /// It was wanted, and not taken since.
        is_wanted: bool,
    },
    /// It was wanted, and could not be read.
    Failed(Error),
}

/// A bounded cache of experts; see the example of [the crate's module](crate::experts). It belongs
/// to one thread at a time; [`Expert`]s may be used on any.
///
/// Keys are indices of the experts that the cache was made with. Dropping the cache cancels its
/// reads.
pub struct ExpertCache {
    storage: Storage,
    fork: ForkGuard,
    batch: Batch,
    files: Vec<FileId>,
    layouts: Vec<Layout>,
    states: Vec<State>,
    free: Vec<Slot>,
    slot_count: usize,
    /// Keys of ready experts by the time of their last use.
    uses: BTreeMap<u64, u32>,
    next_use: u64,
    /// Keys of experts that are loading.
    loading: Vec<u32>,
    /// Keys of experts that need a slot, in order.
    needy: VecDeque<u32>,
    stats: ExpertStats,
}

impl ExpertCache {
    /// Opens the files, and makes a cache of `slot_count` slots for these experts, each of one or
    /// more parts (its tensors, or its slices of tensors of all experts). Blocks until the files
    /// are open. Allocates the slots at once, from the storage's
    /// [allocator](millstream::StorageOptions::allocator): `slot_count` times the largest expert,
    /// with up to two pages more for each part that neither begins nor ends at a page border.
    ///
    /// # Errors
    /// A file cannot be opened, or a part lies outside of it (`PastEnd`); `OutOfMemory`;
    /// `InvalidArgument` for no slots, an expert without parts or with an empty one, and an index
    /// that no file has; `OnStorageThread`, `Closed`.
    pub fn new<P: AsRef<Path>>(
        storage: &Storage,
        files: &[P],
        experts: impl IntoIterator<Item = Vec<Extent>>,
        slot_count: usize,
    ) -> Result<ExpertCache, Error> {
        if slot_count == 0 {
            let cause = "a cache needs at least one slot";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        let mut cache = ExpertCache {
            storage: storage.clone(),
            fork: ForkGuard::new(),
            batch: storage.queue(QueueOptions::default())?.batch(),
            files: Vec::new(),
            layouts: Vec::new(),
            states: Vec::new(),
            free: Vec::new(),
            slot_count,
            uses: BTreeMap::new(),
            next_use: 0,
            loading: Vec::new(),
            needy: VecDeque::new(),
            stats: ExpertStats::default(),
        };
        // From here on its drop closes what was opened.
        let lens = cache.open(files)?;
        for (nth, parts) in experts.into_iter().enumerate() {
            let layout = Layout::new(&cache.files, &lens, &parts).map_err(|wrong| {
                let cause = format!("expert {nth}, part {}: {}", wrong.part, wrong.cause);
                let at = parts.get(wrong.part).copied().unwrap_or_default();
                let path = files.get(at.file).map(|path| Arc::from(path.as_ref()));
                Error::new(wrong.kind, cause).at(path, at.offset, at.len)
            });
            cache.layouts.push(layout?);
        }
        if u32::try_from(cache.layouts.len()).is_err() {
            let cause = "a cache has less than 2^32 experts";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        let slot_bytes = cache.layouts.iter().map(|layout| layout.slot_bytes).max();
        let allocator = storage.allocator().cloned();
        cache.free = Slot::allocate(slot_count, slot_bytes.unwrap_or(0), allocator)?;
        cache
            .states
            .resize_with(cache.layouts.len(), || State::Absent);
        let options = queue_options(&cache.layouts, slot_count);
        cache.batch = storage.queue(options)?.batch();
        Ok(cache)
    }

    /// Opens the files, past the page cache where that is possible; returns their lengths.
    fn open<P: AsRef<Path>>(&mut self, paths: &[P]) -> Result<Vec<u64>, Error> {
        let direct = FileOptions {
            access: Some(Access::Direct),
            ..FileOptions::default()
        };
        for path in paths {
            self.files.push(self.storage.open(path, direct));
        }
        let mut lens = Vec::with_capacity(paths.len());
        for (path, file) in paths.iter().zip(&mut self.files) {
            let mut info = self.storage.opened(*file)?.wait()?;
            if !info.direct {
                let buffered = self.storage.open(path, FileOptions::default());
                self.batch.close(std::mem::replace(file, buffered))?;
                info = self.storage.opened(*file)?.wait()?;
            }
            lens.push(info.len);
        }
        Ok(lens)
    }

    /// Returns the number of experts.
    #[must_use]
    pub fn expert_count(&self) -> usize {
        self.layouts.len()
    }

    /// Returns what the cache has done so far.
    #[must_use]
    pub fn stats(&self) -> ExpertStats {
        self.stats
    }

    /// Reads these experts at high priority, those with the earliest deadline first; promotes the
    /// reads of those that were guessed. They stay until [`ExpertCache::get`] or
    /// [`ExpertCache::wait`] takes them, or [`ExpertCache::release`] gives them up. Does not block.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that no expert has; then nothing was done. `Limit` if every slot
    /// has an expert that is pinned or wanted; `TooManyTickets`, `Closed`: the keys before were
    /// wanted.
    pub fn want(&mut self, keys: &[u32], deadline: Option<Instant>) -> Result<(), Error> {
        self.check(keys)?;
        self.settle();
        let wanted = keys
            .iter()
            .try_for_each(|key| self.want_one(*key, deadline, false));
        self.batch.submit();
        wanted
    }

    /// Reads these experts at low priority, in this order, while slots can be had without evicting
    /// a pinned or wanted one; the others are refused. Ready ones count as used. Does not block.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that no expert has; `Closed`.
    pub fn guess(&mut self, keys: &[u32]) -> Result<(), Error> {
        self.check(keys)?;
        self.settle();
        let guessed = keys.iter().try_for_each(|key| self.guess_one(*key));
        self.batch.submit();
        guessed
    }

    /// Withdraws guesses: cancels those of their reads that have not begun. An expert whose reads
    /// all have begun becomes ready; any other is absent. Experts that were wanted meanwhile are
    /// left alone. Does not block.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that no expert has; `Closed` in a forked child.
    pub fn withdraw(&mut self, keys: &[u32]) -> Result<(), Error> {
        self.check(keys)?;
        for key in keys {
            if let State::Loading(load) = &mut self.states[*key as usize]
                && !load.is_wanted
                && !std::mem::replace(&mut load.is_withdrawn, true)
            {
                load.tickets.iter().for_each(Ticket::withdraw);
            }
        }
        Ok(())
    }

    /// Gives up experts that were wanted: they may be evicted, and their reads go on as those of
    /// guesses. Others are left alone. Does not block.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that no expert has; `Closed` in a forked child.
    pub fn release(&mut self, keys: &[u32]) -> Result<(), Error> {
        self.check(keys)?;
        for key in keys {
            match &mut self.states[*key as usize] {
                State::Ready { is_wanted, .. } => *is_wanted = false,
                State::Loading(load) => {
                    if std::mem::take(&mut load.is_wanted) {
                        load.reprioritize(Priority::Low, None);
                    }
                }
                state @ (State::NeedsSlot(_) | State::Failed(_)) => {
                    *state = State::Absent;
                    self.needy.retain(|needy| needy != key);
                }
                State::Absent => {}
            }
        }
        self.settle();
        Ok(())
    }

    /// Returns an expert if it is ready, which counts as a use. Does not block.
    pub fn get(&mut self, key: u32) -> Option<Expert> {
        self.check(&[key]).ok()?;
        // Taken before slots are given away, as this one's might be the first.
        self.take_in();
        let ready = match &self.states[key as usize] {
            State::Ready { .. } => Some(self.take_ready(key)),
            _ => None,
        };
        self.serve_needy();
        ready
    }

    /// Blocks until an expert is ready, which is wanted first if it was not.
    ///
    /// # Errors
    /// The error of its reads, after which it is absent: wanting it reads again. `Limit` if every
    /// slot is pinned; `InvalidArgument` for a key that no expert has; `OnStorageThread`, `Closed`.
    pub fn wait(&mut self, key: u32) -> Result<Expert, Error> {
        match self.wait_until(key, None)? {
            Some(expert) => Ok(expert),
            None => unreachable!("a wait without a deadline ends with an expert or an error"),
        }
    }

    /// As [`ExpertCache::wait`], at most `timeout`; `None` if the expert is not ready by then.
    ///
    /// # Errors
    /// As [`ExpertCache::wait`].
    pub fn wait_timeout(&mut self, key: u32, timeout: Duration) -> Result<Option<Expert>, Error> {
        self.wait_until(key, Instant::now().checked_add(timeout))
    }

    fn wait_until(&mut self, key: u32, until: Option<Instant>) -> Result<Option<Expert>, Error> {
        self.check(&[key])?;
        if let Some(expert) = self.get(key) {
            return Ok(Some(expert));
        }
        let start = Instant::now();
        let waited = self.wait_until_ready(key, until);
        self.stats.stall += start.elapsed();
        waited
    }

    /// Blocks until any of these experts, which are wanted first if they were not, is ready or has
    /// failed; returns its index in `keys`. [`ExpertCache::wait`] then returns it, or the error,
    /// without blocking.
    ///
    /// # Errors
    /// As [`ExpertCache::wait`]; `InvalidArgument` for no keys.
    pub fn wait_any(&mut self, keys: &[u32]) -> Result<usize, Error> {
        self.check(keys)?;
        if keys.is_empty() {
            let cause = "there is no expert to wait for";
            return Err(Error::new(ErrorKind::InvalidArgument, cause));
        }
        let start = Instant::now();
        loop {
            self.take_in();
            let ended = |key: &u32| {
                let state = &self.states[*key as usize];
                matches!(state, State::Ready { .. } | State::Failed(_))
            };
            if let Some(nth) = keys.iter().position(ended) {
                self.stats.stall += start.elapsed();
                return Ok(nth);
            }
            for key in keys {
                self.want_again(*key)?;
            }
            self.serve_needy();
            self.wait_for_any_load(None)?;
        }
    }

    fn check(&self, keys: &[u32]) -> Result<(), Error> {
        if self.fork.is_child() {
            let cause = "a forked child has no engine: the cache belongs to its parent";
            return Err(Error::new(ErrorKind::Closed, cause));
        }
        let count = self.layouts.len();
        match keys.iter().find(|key| **key as usize >= count) {
            None => Ok(()),
            Some(key) => {
                let cause = format!("there is no expert {key}, only {count}");
                Err(Error::new(ErrorKind::InvalidArgument, cause))
            }
        }
    }

    /// `waits`: the caller waits for a slot while anything is loading.
    fn want_one(&mut self, key: u32, deadline: Option<Instant>, waits: bool) -> Result<(), Error> {
        match &mut self.states[key as usize] {
            State::Ready {
                is_guess,
                is_wanted,
                ..
            } => {
                *is_wanted = true;
                self.stats.hits += 1;
                self.stats.guesses_used += u64::from(std::mem::take(is_guess));
                self.use_ready(key);
                return Ok(());
            }
            State::Loading(load) => {
                let was_wanted = std::mem::replace(&mut load.is_wanted, true);
                if !was_wanted {
                    (load.is_withdrawn, load.deadline) = (false, deadline);
                    self.stats.promotions += 1;
                    self.stats.guesses_used += u64::from(std::mem::take(&mut load.is_guess));
                    load.reprioritize(Priority::High, deadline);
                } else if is_earlier(deadline, load.deadline) {
                    load.deadline = deadline;
                    load.reprioritize(Priority::High, deadline);
                }
                return Ok(());
            }
            State::NeedsSlot(known) => {
                if is_earlier(deadline, *known) {
                    *known = deadline;
                }
                return Ok(());
            }
            State::Absent | State::Failed(_) => self.stats.misses += 1,
        }
        match self.take_slot() {
            Some(slot) => self.start(key, slot, true, deadline),
            None => {
                let canceled = self.cancel_a_guess();
                if !waits || self.loading.is_empty() {
                    canceled?;
                }
                self.states[key as usize] = State::NeedsSlot(deadline);
                self.needy.push_back(key);
                Ok(())
            }
        }
    }

    /// Wants an expert that a call waits for, unless it was wanted before.
    fn want_again(&mut self, key: u32) -> Result<(), Error> {
        match &self.states[key as usize] {
            State::Absent => self.want_one(key, None, true),
            State::Loading(load) if !load.is_wanted => self.want_one(key, None, true),
            _ => Ok(()),
        }
    }

    fn guess_one(&mut self, key: u32) -> Result<(), Error> {
        match &mut self.states[key as usize] {
            State::Ready { .. } => self.use_ready(key),
            State::Loading(load) if load.is_withdrawn => {
                load.is_withdrawn = false;
                load.reprioritize(Priority::Low, None);
            }
            State::Loading(_) | State::NeedsSlot(_) => {}
            State::Absent | State::Failed(_) => match self.take_slot() {
                None => self.stats.refused += 1,
                Some(slot) => {
                    self.stats.guesses += 1;
                    self.start(key, slot, false, None)?;
                }
            },
        }
        Ok(())
    }

    /// Adds the reads of an expert to the batch. If one cannot be added, those before it are
    /// canceled, and the slot is free once they have ended.
    fn start(
        &mut self,
        key: u32,
        slot: Slot,
        is_wanted: bool,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let reads = &self.layouts[key as usize].reads;
        let mut load = Load {
            tickets: Vec::with_capacity(reads.len()),
            outcomes: Vec::with_capacity(reads.len()),
            unused: Vec::new(),
            is_wanted,
            is_guess: !is_wanted,
            is_withdrawn: false,
            is_canceled: false,
            deadline,
        };
        let priority = if is_wanted {
            Priority::High
        } else {
            Priority::Low
        };
        let mut started = Ok(());
        let pieces = slot.split(reads[1..].iter().map(|read| read.at));
        for (read, piece) in reads.iter().zip(pieces) {
            if started.is_err() {
                load.unused.push(piece);
                continue;
            }
            let mut request = Read::range(read.file, read.offset, read.len)
                .into(piece)
                .priority(priority);
            if let Some(deadline) = deadline {
                request = request.deadline(deadline);
            }
            match self.batch.try_add(request) {
                Ok(ticket) => load.tickets.push(ticket),
                Err(refused) => {
                    started = Err(refused.error);
                    load.unused.extend(refused.request.into_destination());
                }
            }
        }
        if started.is_err() {
            load.tickets.iter().for_each(Ticket::cancel);
            (load.is_wanted, load.is_canceled) = (false, true);
        }
        if load.tickets.is_empty() {
            self.free.extend(Slot::join(load.unused));
            return started;
        }
        self.loading.push(key);
        self.states[key as usize] = State::Loading(load);
        started
    }

    /// A free slot, or that of the expert that was not used for the longest time, and is neither
    /// pinned nor wanted.
    fn take_slot(&mut self) -> Option<Slot> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let is_pinned = |key: &u32| match &self.states[*key as usize] {
            State::Ready {
                loaded, is_wanted, ..
            } => *is_wanted || Arc::strong_count(loaded) > 1,
            _ => unreachable!("an expert that was used is ready"),
        };
        let (used, key) = self.uses.iter().find(|(_, key)| !is_pinned(key))?;
        let (used, key) = (*used, *key);
        self.uses.remove(&used);
        let state = std::mem::replace(&mut self.states[key as usize], State::Absent);
        let State::Ready {
            loaded, is_guess, ..
        } = state
        else {
            unreachable!("an expert that was used is ready");
        };
        self.stats.evictions += 1;
        if is_guess {
            self.stats.wasted_bytes += self.layouts[key as usize].bytes;
        }
        // Others have no clone that they could clone again, as it was not pinned.
        let loaded = Arc::into_inner(loaded).expect("it was not pinned");
        Some(loaded.slot)
    }

    /// Cancels the latest guess that is loading, so that its slot is free soon.
    fn cancel_a_guess(&mut self) -> Result<(), Error> {
        for key in self.loading.iter().rev() {
            if let State::Loading(load) = &mut self.states[*key as usize]
                && !load.is_wanted
                && !load.is_canceled
            {
                load.is_canceled = true;
                load.tickets.iter().for_each(Ticket::cancel);
                return Ok(());
            }
        }
        Err(self.no_slot())
    }

    fn no_slot(&self) -> Error {
        let cause = format!(
            "each of the {} slots has an expert that is pinned or wanted",
            self.slot_count
        );
        Error::new(ErrorKind::Limit, cause)
    }

    /// Takes in the reads that have completed, and starts those that needed a slot.
    fn settle(&mut self) {
        self.take_in();
        self.serve_needy();
    }

    /// Takes in the reads that have completed.
    fn take_in(&mut self) {
        let mut nth = 0;
        while let Some(key) = self.loading.get(nth) {
            let key = *key;
            let State::Loading(load) = &mut self.states[key as usize] else {
                unreachable!("what is loading has reads");
            };
            match load.poll() {
                false => nth += 1,
                true => {
                    self.loading.remove(nth);
                    self.loaded(key);
                }
            }
        }
    }

    /// Starts the reads of experts that needed a slot, as far as there are slots, and submits.
    fn serve_needy(&mut self) {
        while let Some(key) = self.needy.front().copied()
            && let Some(slot) = self.take_slot()
        {
            self.needy.pop_front();
            let State::NeedsSlot(deadline) = self.states[key as usize] else {
                unreachable!("what needs a slot says so");
            };
            self.states[key as usize] = State::Absent;
            if let Err(error) = self.start(key, slot, true, deadline)
                && matches!(self.states[key as usize], State::Absent)
            {
                self.states[key as usize] = State::Failed(error);
            }
        }
        self.batch.submit();
    }

    /// All reads of an expert have completed.
    fn loaded(&mut self, key: u32) {
        let state = std::mem::replace(&mut self.states[key as usize], State::Absent);
        let State::Loading(load) = state else {
            unreachable!("what is loading has reads");
        };
        let layout = &self.layouts[key as usize];
        let (mut pieces, mut error) = (Vec::with_capacity(load.outcomes.len()), None);
        for outcome in load.outcomes {
            pieces.extend(outcome.memory);
            if let Err(failure) = outcome.result
                && error
                    .as_ref()
                    .is_none_or(|first: &Error| first.kind() == ErrorKind::Canceled)
            {
                error = Some(failure);
            }
        }
        pieces.extend(load.unused);
        // Without a piece that the system holds, the slot is lost.
        let slot = match pieces.len() == layout.reads.len() {
            true => Slot::join(pieces),
            false => None,
        };
        self.slot_count -= usize::from(slot.is_none());
        let error = match (error, slot) {
            (None, Some(slot)) => {
                return self.became_ready(key, slot, load.is_guess, load.is_wanted);
            }
            (error, slot) => {
                self.free.extend(slot);
                error.unwrap_or_else(|| Error::new(ErrorKind::StillHeld, ""))
            }
        };
        let is_canceled = error.kind() == ErrorKind::Canceled;
        self.stats.withdrawn += u64::from(is_canceled);
        match load.is_wanted {
            // It was wanted after its reads were canceled.
            true if is_canceled => {
                self.states[key as usize] = State::NeedsSlot(load.deadline);
                self.needy.push_back(key);
            }
            true => self.states[key as usize] = State::Failed(error),
            false => {}
        }
    }

    fn became_ready(&mut self, key: u32, slot: Slot, is_guess: bool, is_wanted: bool) {
        let layout = &self.layouts[key as usize];
        self.stats.read_bytes += layout.bytes;
        let loaded = Arc::new(Loaded {
            slot,
            views: Arc::clone(&layout.views),
        });
        self.uses.insert(self.next_use, key);
        self.states[key as usize] = State::Ready {
            loaded,
            used: self.next_use,
            is_guess,
            is_wanted,
        };
        self.next_use += 1;
    }

    /// Counts a use of a ready expert.
    fn use_ready(&mut self, key: u32) {
        if let State::Ready { used, .. } = &mut self.states[key as usize] {
            self.uses.remove(used);
            *used = self.next_use;
            self.uses.insert(self.next_use, key);
            self.next_use += 1;
        }
    }

    fn take_ready(&mut self, key: u32) -> Expert {
        self.use_ready(key);
        match &mut self.states[key as usize] {
            State::Ready {
                loaded, is_wanted, ..
            } => {
                *is_wanted = false;
                Expert(Arc::clone(loaded))
            }
            _ => unreachable!("it is ready"),
        }
    }

    fn wait_until_ready(
        &mut self,
        key: u32,
        until: Option<Instant>,
    ) -> Result<Option<Expert>, Error> {
        let mut is_over = false;
        loop {
            // Before slots are given away, as this one's would be the first.
            self.take_in();
            let state = &mut self.states[key as usize];
            if matches!(state, State::Ready { .. }) {
                let expert = self.take_ready(key);
                self.serve_needy();
                return Ok(Some(expert));
            }
            if matches!(state, State::Failed(_))
                && let State::Failed(error) = std::mem::replace(state, State::Absent)
            {
                return Err(error);
            }
            if is_over {
                return Ok(None);
            }
            self.want_again(key)?;
            self.serve_needy();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            // Even a wait of no time lets a storage without threads do some work.
            is_over = left == Some(Duration::ZERO);
            match &mut self.states[key as usize] {
                State::Loading(load) => load.wait_for_one(left)?,
                State::NeedsSlot(_) => self.wait_for_any_load(left)?,
                _ => {}
            }
        }
    }

    /// Blocks until all reads of any expert have completed, or the time is over.
    ///
    /// # Errors
    /// `Limit` if nothing is loading.
    fn wait_for_any_load(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        if self.loading.is_empty() {
            return Err(self.no_slot());
        }
        let (states, loading) = (&mut self.states, &self.loading);
        let any = poll_fn(|context| {
            let mut is_any = false;
            for key in loading {
                if let State::Loading(load) = &mut states[*key as usize] {
                    is_any |= load.poll() || load.register(context.waker());
                }
            }
            match is_any {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        self.storage.wait(any, timeout)?;
        Ok(())
    }
}

impl Drop for ExpertCache {
    fn drop(&mut self) {
        for key in &self.loading {
            if let State::Loading(load) = &self.states[*key as usize] {
                load.tickets.iter().for_each(Ticket::cancel);
            }
        }
        for file in &self.files {
            // A storage that is closed has closed them.
            let _ = self.batch.close(*file);
        }
    }
}

impl fmt::Debug for ExpertCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpertCache")
            .field("experts", &self.expert_count())
            .field("slots", &self.slot_count)
            .field("ready", &self.uses.len())
            .field("loading", &self.loading.len())
            .finish_non_exhaustive()
    }
}

/// Whether a deadline is before another; none is the latest.
fn is_earlier(one: Option<Instant>, other: Option<Instant>) -> bool {
    one.is_some_and(|one| other.is_none_or(|other| one < other))
}

impl Load {
    fn reprioritize(&self, priority: Priority, deadline: Option<Instant>) {
        for ticket in &self.tickets {
            ticket.reprioritize(priority, deadline);
        }
    }

    /// Takes the outcomes of reads that have completed; returns whether all have.
    fn poll(&mut self) -> bool {
        while let Some(ticket) = self.tickets.get_mut(self.outcomes.len()) {
            match ticket.try_take() {
                Some(outcome) => self.outcomes.push(outcome),
                None => return false,
            }
        }
        true
    }

    /// Registers a waker for the first read that has not completed; returns whether it has by now.
    fn register(&self, waker: &std::task::Waker) -> bool {
        let next = self.tickets.get(self.outcomes.len());
        next.is_none_or(|ticket| ticket.wake_when_complete(waker))
    }

    /// Blocks until one more read has completed, if any has not, or the time is over.
    fn wait_for_one(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        if let Some(ticket) = self.tickets.get_mut(self.outcomes.len())
            && let Some(outcome) = ticket.wait_timeout(timeout.unwrap_or(Duration::MAX))?
        {
            self.outcomes.push(outcome);
        }
        Ok(())
    }
}

/// The queue has room for the reads of all slots, so that submitting never waits.
fn queue_options(layouts: &[Layout], slot_count: usize) -> QueueOptions {
    let parts = layouts.iter().map(|layout| layout.reads.len()).max();
    // Twice as many: a read that has completed takes up room for a moment.
    let reads = parts
        .unwrap_or(1)
        .saturating_mul(slot_count)
        .saturating_mul(2);
    let most = limits::QUEUE_CAPACITY_MAX;
    let mut options = QueueOptions::default();
    options.name = String::from("experts");
    options.capacity = u32::try_from(reads).map_or(most, |reads| reads.clamp(1, most));
    options
}

/// Why an expert cannot be laid out.
struct WrongPart {
    part: usize,
    kind: ErrorKind,
    cause: String,
}

impl Layout {
    fn new(files: &[FileId], lens: &[u64], parts: &[Extent]) -> Result<Layout, WrongPart> {
        let (mut reads, mut views, mut at) = (Vec::new(), Vec::new(), 0);
        let wrong = |part, kind, cause: &str| WrongPart {
            part,
            kind,
            cause: cause.into(),
        };
        if parts.is_empty() {
            return Err(wrong(
                0,
                ErrorKind::InvalidArgument,
                "the expert has no parts",
            ));
        }
        for (nth, part) in parts.iter().enumerate() {
            let Some(file_bytes) = lens.get(part.file).copied() else {
                let cause = format!("there is no file {}, only {}", part.file, lens.len());
                return Err(wrong(nth, ErrorKind::InvalidArgument, &cause));
            };
            if part.len == 0 {
                return Err(wrong(nth, ErrorKind::InvalidArgument, "it has no bytes"));
            }
            let end = part.offset.checked_add(part.len);
            let Some(end) = end.filter(|end| *end <= file_bytes) else {
                let cause = format!("the file has {file_bytes} bytes");
                return Err(wrong(nth, ErrorKind::PastEnd, &cause));
            };
            let align = ALIGNMENT as u64;
            let from = part.offset / align * align;
            let len = end.next_multiple_of(align).min(file_bytes) - from;
            let room = usize::try_from(len).ok();
            let room = room.and_then(|len| len.checked_next_multiple_of(ALIGNMENT));
            let Some(next) = room.and_then(|room| room.checked_add(at)) else {
                let cause = "the parts up to it exceed all memory";
                return Err(wrong(nth, ErrorKind::OutOfMemory, cause));
            };
            // Below `next`, which fits.
            let head = at + (part.offset - from) as usize;
            views.push(head..head + part.len as usize);
            reads.push(PartRead {
                file: files[part.file],
                offset: from,
                len,
                at,
            });
            at = next;
        }
        Ok(Layout {
            bytes: reads.iter().map(|read| read.len).sum(),
            reads: reads.into(),
            views: views.into(),
            slot_bytes: at,
        })
    }
}

#[cfg(test)]
mod tests;
