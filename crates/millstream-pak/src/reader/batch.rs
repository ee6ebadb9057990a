//! Batches: many entries in one call, with as few reads as their places allow.
//!
//! Entries that lie close together on disk become one read, and those that share a block one
//! decoding of it: a start-up of two thousand small files takes a few hundred requests. The entries
//! of a read share its memory, which lives until the last of them is dropped.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use millstream::{Buffer, CodecId, Group, Priority, Queue, Read, Ticket};

use super::{Package, plan};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BlockRecord, block_flag};
use crate::limits::{RUN_BYTES_MAX, RUN_GAP_MAX, RUN_RAW_BYTES_MAX};
use crate::memory;

/// A range of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The entry.
    pub index: u32,
    /// First raw byte.
    pub offset: u64,
    /// Raw bytes.
    pub len: u64,
}

/// What the requests of a batch have in common.
#[derive(Clone, Default)]
pub struct BatchOptions {
    /// Their priority, instead of the queue's.
    pub priority: Option<Priority>,
    /// Their tag.
    pub tag: u64,
    /// How long each may take.
    pub timeout: Option<Duration>,
    /// A group that they count in.
    pub group: Option<Group>,
}

/// Raw bytes that were loaded; derefs to them. Entries of one read share its memory.
#[derive(Debug, Clone)]
pub struct Loaded {
    buffer: Arc<Buffer>,
    start: usize,
    len: usize,
}

impl Deref for Loaded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.start..self.start + self.len]
    }
}

/// Entries on their way; see the module. Dropping it detaches the requests.
pub struct Batch {
    package: Package,
    pieces: Vec<Piece>,
    /// In the order of the pieces; an error: the piece could not be requested.
    members: Vec<std::result::Result<Member, ErrorKind>>,
    runs: Vec<Mutex<Run>>,
}

/// What [`Batch::wait_or_retry`] has read again last: the raw bytes of blocks, with the first of
/// them and their number.
pub(super) type Again = Option<(
    (u32, usize),
    std::result::Result<Arc<Buffer>, millstream::Error>,
)>;

#[derive(Clone, Copy)]
struct Member {
    run: usize,
    start: usize,
    len: usize,
    /// Its read has others in it.
    shared: bool,
}

enum Run {
    Pending(Ticket<Buffer>),
    Done(Arc<Buffer>),
    Failed(millstream::Error),
}

/// A piece with its blocks.
struct Planned {
    nth: usize,
    span_first: u32,
    blocks: Vec<BlockRecord>,
    skip: u64,
    len: u64,
    /// All blocks are stored, follow one another and are not verified: read without decoding.
    plain: bool,
}

impl Planned {
    fn start(&self) -> u64 {
        self.blocks.first().map_or(0, |block| block.offset.get())
    }

    fn end(&self) -> u64 {
        let end = |block: &BlockRecord| block.offset.get() + u64::from(block.stored_bytes.get());
        self.blocks.last().map_or(0, end)
    }

    fn blocks_raw(&self) -> u64 {
        self.blocks
            .iter()
            .map(|block| u64::from(block.raw_bytes.get()))
            .sum()
    }

    /// First byte of the file that is read for it.
    fn begin(&self) -> u64 {
        self.start() + if self.plain { self.skip } else { 0 }
    }

    /// One past the last byte that is read for it.
    fn finish(&self) -> u64 {
        match self.plain {
            true => self.begin() + self.len,
            false => self.end(),
        }
    }

    /// Whether some of it lies in a base: it goes only with others of the same blocks.
    fn in_base(&self) -> bool {
        let in_base = |block: &BlockRecord| block.flags & block_flag::IN_BASE != 0;
        self.blocks.iter().any(in_base)
    }
}

impl Package {
    /// Enqueues whole entries and submits them; see [`Package::enqueue_pieces`].
    ///
    /// # Errors
    /// As [`Package::enqueue_pieces`]; an entry that is not there.
    pub fn enqueue_all(
        &self,
        queue: &Queue,
        entries: &[u32],
        options: &BatchOptions,
    ) -> Result<Batch> {
        let mut pieces = memory::room(entries.len())?;
        for &index in entries {
            let (offset, len) = (0, self.info(index)?.raw_bytes);
            pieces.push(Piece { index, offset, len });
        }
        self.enqueue_pieces(queue, &pieces, options)
    }

    /// Enqueues pieces as one batch, with neighbors merged, and submits them. A piece that cannot
    /// be requested does not hold up the others: waiting for it returns its error. May block while
    /// the queue is full.
    ///
    /// # Errors
    /// `OutOfMemory`, for a list of the pieces; nothing is enqueued then.
    pub fn enqueue_pieces(
        &self,
        queue: &Queue,
        pieces: &[Piece],
        options: &BatchOptions,
    ) -> Result<Batch> {
        let mut batch = Batch {
            package: self.clone(),
            pieces: memory::collect(pieces.iter().copied())?,
            members: memory::collect(pieces.iter().map(|_| Err(ErrorKind::OutOfMemory)))?,
            runs: Vec::new(),
        };
        let mut planned = memory::room(pieces.len())?;
        for (nth, piece) in pieces.iter().enumerate() {
            match plan_piece(self, nth, piece) {
                Ok(one) => planned.push(one),
                Err(error) => batch.members[nth] = Err(error.kind()),
            }
        }
        planned.sort_unstable_by_key(|one| {
            let span = (one.span_first, one.blocks.len());
            (one.plain, one.begin(), span, one.nth)
        });
        self.enqueue(queue, &planned, options, &mut batch);
        Ok(batch)
    }

    /// Enqueues what was planned of a batch's pieces.
    fn enqueue(
        &self,
        queue: &Queue,
        planned: &[Planned],
        options: &BatchOptions,
        batch: &mut Batch,
    ) {
        let mut requests = queue.batch();
        let mut rest = planned;
        // Of a run that cannot be requested, each member is tried by itself.
        let mut alone = 0;
        while !rest.is_empty() {
            let run = if alone > 0 { 1 } else { run_len(rest) };
            let (now, later) = rest.split_at(run);
            let reserved = memory::reserve(&mut batch.runs, 1);
            let made = reserved.and_then(|()| self.run_request(now, batch.runs.len()));
            let made = match made {
                Err(_) if run > 1 => {
                    alone = run;
                    continue;
                }
                made => made,
            };
            rest = later;
            alone = alone.saturating_sub(1);
            let (mut request, members) = match made {
                Ok(made) => made,
                Err(error) => {
                    batch.members[now[0].nth] = Err(error.kind());
                    continue;
                }
            };
            if self.0.options.name_requests && (now.len() == 1 || queue.is_traced()) {
                // Of nothing but traces and messages: without memory there is none.
                let names = self.names_of(now, &batch.pieces);
                if let Some(names) = names.ok().filter(|it| !it.is_empty()) {
                    request = request.name(names);
                }
            }
            batch.runs.push(Mutex::new(
                match requests.add(with_options(request, options)) {
                    Ok(ticket) => Run::Pending(ticket),
                    Err(error) => Run::Failed(error),
                },
            ));
            for (nth, member) in members {
                batch.members[nth] = Ok(member);
            }
        }
        requests.submit();
    }

    /// The names of a run's entries, in the order in which they were asked for, separated by NUL.
    fn names_of(&self, run: &[Planned], pieces: &[Piece]) -> Result<String> {
        let mut order = memory::collect(run.iter().map(|one| one.nth))?;
        order.sort_unstable();
        order.dedup_by_key(|nth| pieces[*nth].index);
        let mut names = Vec::new();
        for nth in order {
            let Ok(name) = self.name(pieces[nth].index) else {
                continue;
            };
            let name = String::from_utf8_lossy(name);
            memory::reserve(&mut names, name.len() + 1)?;
            if !names.is_empty() {
                names.push(0);
            }
            names.extend_from_slice(name.as_bytes());
        }
        Ok(String::from_utf8(names).unwrap_or_default())
    }

    /// The request of a run, and where in its raw bytes each member lies.
    fn run_request(&self, run: &[Planned], nth_run: usize) -> Result<(Read, Vec<(usize, Member)>)> {
        let mut places = memory::room(run.len())?;
        let mut place = |one: &Planned, start: u64| {
            let member = Member {
                run: nth_run,
                start: usize::try_from(start).unwrap_or(usize::MAX),
                len: usize::try_from(one.len).unwrap_or(usize::MAX),
                shared: run.len() > 1,
            };
            places.push((one.nth, member));
        };
        if let [one] = run {
            place(one, 0);
            let request = plan::request_of(self, &one.blocks, one.skip, one.len)?;
            return Ok((request, places));
        }
        if run[0].plain {
            let start = run[0].begin();
            let end = run.iter().map(Planned::finish).max().unwrap_or(start);
            for one in run {
                place(one, one.begin() - start);
            }
            let request = Read::range(self.tables().file.id, start, end - start);
            return Ok((request, places));
        }
        let mut blocks: Vec<BlockRecord> = Vec::new();
        let (mut raw, mut next, mut last) = (0u64, None, None);
        for one in run {
            // Members are in the order of their blocks: what several share was put in by the first.
            let again = next.is_some_and(|next| one.span_first < next);
            let at = match last.filter(|_| again) {
                Some((first, at)) if first == one.span_first => at,
                _ => {
                    let at = raw;
                    raw += one.blocks_raw();
                    memory::reserve(&mut blocks, one.blocks.len())?;
                    blocks.extend_from_slice(&one.blocks);
                    next = Some(one.span_first + one.blocks.len() as u32);
                    last = Some((one.span_first, at));
                    at
                }
            };
            place(one, at + one.skip);
        }
        Ok((plan::request_of(self, &blocks, 0, raw)?, places))
    }
}

/// The request with the options of its batch.
fn with_options(request: Read, options: &BatchOptions) -> Read {
    let mut request = request.tag(options.tag);
    if let Some(priority) = options.priority {
        request = request.priority(priority);
    }
    if let Some(timeout) = options.timeout {
        request = request.timeout(timeout);
    }
    if let Some(group) = &options.group {
        request = request.group(group);
    }
    request
}

fn plan_piece(package: &Package, nth: usize, piece: &Piece) -> Result<Planned> {
    let tables = package.tables();
    let span = plan::span(tables, piece.index, piece.offset, piece.len)?;
    let blocks = plan::blocks_of(tables, &span)?;
    let stored = |block: &BlockRecord| {
        block.codec == CodecId::STORED.0 && block.flags & block_flag::IN_BASE == 0
    };
    let mut one = Planned {
        nth,
        span_first: span.first,
        skip: span.skip,
        len: piece.len,
        plain: blocks.iter().all(stored) && !package.0.options.verify,
        blocks,
    };
    // Only then do all blocks lie in one file.
    one.plain = one.plain && one.end() - one.start() == one.blocks_raw();
    Ok(one)
}

/// How many pieces from the first on go into one read.
fn run_len(rest: &[Planned]) -> usize {
    let Some(first) = rest.first().filter(|first| first.len > 0) else {
        return 1;
    };
    let (start, mut end) = (first.begin(), first.finish());
    let in_base = first.in_base();
    let mut before = first;
    let mut raw = first.blocks_raw();
    for (nth, one) in rest.iter().enumerate().skip(1) {
        let shares = one.span_first == before.span_first && one.blocks.len() == before.blocks.len();
        // A block that only part of the last piece needs would stand in the table twice.
        let behind = one.span_first >= before.span_first + before.blocks.len() as u32;
        if !shares {
            raw += one.blocks_raw();
        }
        let is_near = || {
            one.begin() <= end.saturating_add(RUN_GAP_MAX)
                && one.finish().max(end) - start <= RUN_BYTES_MAX
        };
        let joins = match in_base {
            // Its blocks may lie in two files, where distances mean nothing.
            true => shares,
            false => (shares || one.plain || (behind && !one.in_base())) && is_near(),
        };
        let fits = one.len > 0
            && one.plain == first.plain
            && (one.plain || raw <= RUN_RAW_BYTES_MAX)
            && joins;
        if !fits {
            return nth;
        }
        end = end.max(one.finish());
        before = one;
    }
    rest.len()
}

impl Batch {
    /// Pieces of the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Requests that it became.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.runs.len()
    }

    /// Blocks until a piece is loaded; pieces are numbered as they were given. May be asked again.
    ///
    /// # Errors
    /// What its request failed with; `OnStorageThread`, of a piece that is not loaded or that
    /// another thread waits for; `Closed`, also in a forked child.
    ///
    /// # Panics
    /// There is no such piece.
    pub fn wait(&self, nth: usize) -> Result<Loaded> {
        let member = self.members[nth].map_err(|kind| self.refusal(nth, kind))?;
        let mut run = self.lock(member.run)?;
        if let Run::Pending(ticket) = &mut *run {
            *run = match ticket.wait() {
                Ok(buffer) => Run::Done(Arc::new(buffer)),
                // The request goes on: another thread may wait for it.
                Err(error) if error == millstream::ErrorKind::OnStorageThread => {
                    return Err(error.into());
                }
                Err(error) => Run::Failed(error),
            };
        }
        match &*run {
            Run::Done(buffer) => Ok(Loaded {
                buffer: Arc::clone(buffer),
                start: member.start,
                len: member.len,
            }),
            Run::Failed(error) => Err(error.clone().into()),
            Run::Pending(_) => unreachable!("waited for above"),
        }
    }

    /// A run, once no other thread waits for it.
    ///
    /// # Errors
    /// `OnStorageThread`: the other thread may need this one, which is of the storage. `Closed`:
    /// the other thread is one of the parent of this process.
    fn lock(&self, run: usize) -> Result<MutexGuard<'_, Run>> {
        match self.runs[run].try_lock() {
            Ok(run) => return Ok(run),
            Err(TryLockError::Poisoned(error)) => return Ok(error.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        // A wait of no time asks what thread and what process this is.
        let queue = &self.package.tables().file.queue;
        queue.drain(Some(Duration::ZERO))?;
        let run = self.runs[run].lock();
        Ok(run.unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`Batch::wait`]. If the read of a piece failed and had others in it, what the piece needs
    /// is read once more: what is damaged may be others'. Pieces with the same blocks share that
    /// read if they are asked for one after the other.
    pub(super) fn wait_or_retry(
        &self,
        nth: usize,
        (queue, options): (&Queue, &BatchOptions),
        again: &mut Again,
    ) -> Result<Loaded> {
        self.wait(nth).or_else(|error| {
            let shared = self.members[nth].is_ok_and(|member| member.shared);
            let kind = error.engine().map(millstream::Error::kind);
            match shared && kind.is_some_and(may_be_of_others) {
                true => self.read_again(nth, (queue, options), again),
                false => Err(error),
            }
        })
    }

    fn read_again(
        &self,
        nth: usize,
        (queue, options): (&Queue, &BatchOptions),
        again: &mut Again,
    ) -> Result<Loaded> {
        let one = plan_piece(&self.package, nth, &self.pieces[nth])?;
        let place = (one.span_first, one.blocks.len());
        // Of what is not decoded, a piece needs no more than its own bytes.
        let (skip, len, start) = match one.plain {
            true => (one.skip, one.len, 0),
            false => (0, one.blocks_raw(), one.skip),
        };
        let known = again.as_ref().filter(|(of, _)| *of == place && !one.plain);
        let read = match known {
            Some((_, read)) => read.clone(),
            None => {
                let request = plan::request_of(&self.package, &one.blocks, skip, len)?;
                let mut requests = queue.batch();
                let ticket = requests.add(with_options(request, options));
                requests.submit();
                let read = ticket?.wait().map(Arc::new);
                *again = Some((place, read.clone()));
                read
            }
        };
        Ok(Loaded {
            buffer: read?,
            start: usize::try_from(start).unwrap_or(usize::MAX),
            len: usize::try_from(one.len).unwrap_or(usize::MAX),
        })
    }

    /// Why a piece could not be requested: found out again, as errors cannot be copied.
    fn refusal(&self, nth: usize, kind: ErrorKind) -> Error {
        let (package, piece) = (&self.package, &self.pieces[nth]);
        let again = plan_piece(package, nth, piece)
            .and_then(|one| plan::request_of(package, &one.blocks, one.skip, one.len));
        let error = again.err().unwrap_or_else(|| {
            let cause =
                "the entry could not be requested, for want of memory or of a table's bytes";
            Error::new(kind, cause)
        });
        package.blame(piece.index, error)
    }

    /// Cancels what has not completed; waits for it then fail with `Canceled`. It waits for other
    /// threads in [`Batch::wait`], and on a thread of the storage leaves out what they wait for; to
    /// cancel that, give the requests a group ([`BatchOptions::group`], `Queue::cancel_group`).
    pub fn cancel(&self) {
        for run in 0..self.runs.len() {
            if let Ok(run) = self.lock(run)
                && let Run::Pending(ticket) = &*run
            {
                ticket.cancel();
            }
        }
    }
}

/// Whether the error of a read may come from one part of it.
fn may_be_of_others(kind: millstream::ErrorKind) -> bool {
    use millstream::ErrorKind as Kind;
    let of_all = [
        Kind::Canceled,
        Kind::TimedOut,
        Kind::Closed,
        Kind::Broken,
        Kind::StillHeld,
        Kind::OnStorageThread,
    ];
    !of_all.contains(&kind)
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("pieces", &self.len())
            .field("requests", &self.requests())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{OnceLock, mpsc};

    use millstream::{LogLevel, QueueOptions, Storage, StorageOptions};

    use super::*;
    use crate::{Item, PackOptions, write_file};

    /// A batch of one entry, a thousand sevens, of a package in `folder`.
    fn batch(storage: &Storage, folder: &Path) -> Batch {
        let path = folder.join("p.mpak");
        let items = vec![Item::from_bytes("a", vec![7; 1000])];
        write_file(items, &PackOptions::default(), &path).expect("packed");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let package = Package::open(storage, &path).expect("a package");
        let batch = package.enqueue_all(&queue, &[0], &BatchOptions::default());
        batch.expect("enqueued")
    }

    /// The other thread may wait for one of the storage: then neither would go on.
    #[test]
    fn a_thread_of_the_storage_waits_for_no_thread_that_waits_for_a_batch() {
        let shared = Arc::new(OnceLock::<Batch>::new());
        let (sender, told) = mpsc::channel();
        let (of_hook, sender) = (Arc::clone(&shared), Mutex::new(sender));
        let mut options = StorageOptions::default();
        options.log = Some(Arc::new(move |_, _| {
            if let Some(batch) = of_hook.get() {
                batch.cancel();
                let waited = batch.wait(0).map(|bytes| bytes.len());
                let kind = waited.expect_err("refused").engine().map(|it| it.kind());
                sender.lock().expect("no panic").send(kind).expect("heard");
            }
        }));
        let storage = Storage::new(options).expect("a storage");
        let folder = tempfile::tempdir().expect("a folder");
        let batch = shared.get_or_init(|| batch(&storage, folder.path()));
        // As a thread in `wait` does.
        let held = batch.runs[0].lock().expect("no panic");
        storage.log(LogLevel::Warning, "calls the hook");
        let kind = told.recv_timeout(Duration::from_secs(20));
        drop(held);
        assert_eq!(
            kind.expect("it waits"),
            Some(millstream::ErrorKind::OnStorageThread)
        );
        assert_eq!(*batch.wait(0).expect("loaded"), [7; 1000]);
    }

    /// The other thread is one of the parent, and lets go of nothing here.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_waits_for_no_thread_that_waits_for_a_batch() {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let folder = tempfile::tempdir().expect("a folder");
        let batch = batch(&storage, folder.path());
        // As a thread in `wait` does.
        let held = batch.runs[0].lock().expect("no panic");
        let status = millstream_testing::forked(|| {
            batch.cancel();
            let error = batch.wait(0).expect_err("refused");
            let kind = error.engine().map(millstream::Error::kind);
            i32::from(kind != Some(millstream::ErrorKind::Closed))
        });
        drop(held);
        assert_eq!(status, 0, "another error than `Closed`");
        assert_eq!(*batch.wait(0).expect("loaded"), [7; 1000]);
    }
}
