//! Experts of a model on demand, as programs that run models from a disk write it by hand: equal
//! blocks of a file, read into a bounded set of slots, of which the one that was not used for the
//! longest time is used again. What the current layer needs is a demand; what the next may need, a
//! guess.
//!
//! # Safety
//! A slot is written only while its block is loading, by one read, which ends before the block is
//! ready; it is read only while its block is ready. The memory lives until the threads have ended.
#![expect(
    unsafe_code,
    reason = "the kernel writes to memory named by raw pointers"
)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use io_uring::{opcode, types};

use crate::ring::ring_of;
use crate::{Access, open_file};

/// Who reads.
#[derive(Debug, Clone, Copy)]
pub enum Reader {
    /// Threads that call `pread`, demands first.
    Pool {
        /// How many.
        threads: usize,
        /// How the file is opened.
        access: Access,
    },
    /// A thread with an io_uring and direct I/O.
    Ring {
        /// Reads in flight.
        depth: usize,
        /// Guesses in flight at a time, behind all demands; `None`: one queue for both, in order.
        guesses: Option<usize>,
    },
}

/// A block, the slot that it is read into, and whether it was guessed.
type Job = (u32, u32, bool);

/// What the caller and the threads share.
#[derive(Default)]
struct Board {
    demands: VecDeque<Job>,
    guesses: VecDeque<Job>,
    /// Guesses that are being read, and how many may be.
    guessing: usize,
    guessing_max: usize,
    /// Blocks that were read, or could not be.
    done: Vec<(u32, io::Result<()>)>,
    quits: bool,
}

impl Board {
    fn next(&mut self) -> Option<Job> {
        let job = match self.demands.pop_front() {
            None if self.guessing < self.guessing_max => self.guesses.pop_front(),
            job => job,
        }?;
        self.guessing += usize::from(job.2);
        Some(job)
    }

    fn finish(&mut self, (block, _, is_guess): Job, result: io::Result<()>) {
        self.guessing -= usize::from(is_guess);
        self.done.push((block, result));
    }
}

struct Shared {
    board: Mutex<Board>,
    work: Condvar,
    landed: Condvar,
    /// Wakes a ring; readable while it has something to look at.
    bell: OwnedFd,
    memory: Memory,
    bytes: usize,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.work.notify_all();
        let one = 1u64.to_ne_bytes();
        // SAFETY: writes eight bytes of a live array to an eventfd.
        unsafe { libc::write(self.bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// A private mapping, page-aligned and touched.
struct Memory(*mut u8, usize);

// SAFETY: plain memory, used as the module says.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(len: usize) -> io::Result<Memory> {
        const HUGE_PAGE_BYTES: usize = 2 << 20;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let len = len.next_multiple_of(HUGE_PAGE_BYTES);
        // SAFETY: a mapping at an address of the kernel's choice touches no memory of anybody.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping made above, to which nothing refers yet.
        unsafe {
            libc::madvise(at, len, libc::MADV_HUGEPAGE);
            std::ptr::write_bytes(at.cast::<u8>(), 0, len);
        }
        Ok(Memory(at.cast(), len))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; the threads that used it have ended.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

#[derive(Clone, Copy)]
enum State {
    Absent,
    Loading { slot: u32 },
    Ready { slot: u32, used: u64 },
}

/// Blocks of one file in a bounded set of slots.
pub struct Experts {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    one_queue: bool,
    states: Vec<State>,
    free: Vec<u32>,
    uses: BTreeMap<u64, u32>,
    next_use: u64,
    guessed: Vec<u32>,
}

impl Experts {
    /// Opens the file, which has `blocks` blocks of `bytes` bytes, and starts the threads.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no io_uring, thread or memory.
    pub fn start(
        reader: Reader,
        path: &Path,
        (blocks, bytes): (usize, usize),
        slots: usize,
    ) -> io::Result<Experts> {
        // SAFETY: makes a descriptor, which becomes owned here.
        let bell = unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                bell => OwnedFd::from_raw_fd(bell),
            }
        };
        let guessing_max = match reader {
            Reader::Pool { .. } => usize::MAX,
            Reader::Ring { guesses, .. } => guesses.unwrap_or(0),
        };
        let shared = Arc::new(Shared {
            board: Mutex::new(Board {
                guessing_max,
                ..Board::default()
            }),
            work: Condvar::new(),
            landed: Condvar::new(),
            bell,
            memory: Memory::new(slots * bytes)?,
            bytes,
        });
        let mut experts = Experts {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            one_queue: matches!(reader, Reader::Ring { guesses: None, .. }),
            states: vec![State::Absent; blocks],
            free: (0..slots as u32).collect(),
            uses: BTreeMap::new(),
            next_use: 0,
            guessed: Vec::new(),
        };
        match reader {
            Reader::Pool { threads, access } => {
                let file = Arc::new(open_file(path, access)?);
                for _ in 0..threads {
                    let (shared, file) = (Arc::clone(&shared), Arc::clone(&file));
                    experts.spawn(move || pool_thread(&shared, &file))?;
                }
            }
            Reader::Ring { depth, .. } => {
                let file = open_file(path, Access::Direct)?;
                // Looked at here, so that a machine without a ring says why.
                drop(ring_of(depth)?);
                experts.spawn(move || ring_thread(&shared, &file, depth))?;
            }
        }
        Ok(experts)
    }

    fn spawn(&mut self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().spawn(run)?);
        Ok(())
    }

    /// Reads the blocks that a layer needs, and then those that were guessed for the next; blocks
    /// until the needed ones are ready. Earlier guesses that are not needed are withdrawn. There
    /// must be slots for the needed and the guessed together.
    ///
    /// # Errors
    /// A read fails, after which the blocks cannot be used; more is needed than there are slots.
    pub fn layer(&mut self, needed: &[u32], guesses: &[u32]) -> io::Result<()> {
        self.take_done(false)?;
        for block in needed {
            match self.states[*block as usize] {
                State::Ready { .. } => self.touch(*block),
                State::Loading { .. } => self.promote(*block),
                State::Absent => _ = self.submit(*block, false)?,
            }
        }
        for block in std::mem::take(&mut self.guessed) {
            if !needed.contains(&block) {
                self.withdraw(block);
            }
        }
        for block in guesses {
            match self.states[*block as usize] {
                State::Ready { .. } => self.touch(*block),
                State::Loading { .. } => {}
                State::Absent => {
                    if self.submit(*block, true)? {
                        self.guessed.push(*block);
                    }
                }
            }
        }
        self.shared.ring();
        let is_ready = |state: &State| matches!(state, State::Ready { .. });
        while !needed
            .iter()
            .all(|block| is_ready(&self.states[*block as usize]))
        {
            self.take_done(true)?;
        }
        Ok(())
    }

    /// Returns the first word of a page of a block that is ready.
    #[must_use]
    pub fn word(&self, block: u32, page: usize) -> Option<u64> {
        let State::Ready { slot, .. } = self.states[block as usize] else {
            return None;
        };
        let at = page * 4096;
        assert!(at + 8 <= self.shared.bytes, "a page of the block");
        let at = slot as usize * self.shared.bytes + at;
        // SAFETY: in the slot of a block that is ready, which no read writes to.
        Some(unsafe { self.shared.memory.0.add(at).cast::<u64>().read_unaligned() })
    }

    fn touch(&mut self, block: u32) {
        if let State::Ready { used, .. } = &mut self.states[block as usize] {
            self.uses.remove(used);
            *used = self.next_use;
            self.uses.insert(self.next_use, block);
            self.next_use += 1;
        }
    }

    /// Returns whether there was a slot.
    fn submit(&mut self, block: u32, is_guess: bool) -> io::Result<bool> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => match self.uses.pop_first() {
                None if is_guess => return Ok(false),
                None => return Err(io::Error::other("more is needed than there are slots")),
                Some((_, evicted)) => {
                    let state = &mut self.states[evicted as usize];
                    match std::mem::replace(state, State::Absent) {
                        State::Ready { slot, .. } => slot,
                        _ => unreachable!("a block that was used is ready"),
                    }
                }
            },
        };
        self.states[block as usize] = State::Loading { slot };
        let mut board = self.shared.board();
        match is_guess && !self.one_queue {
            true => board.guesses.push_back((block, slot, true)),
            false => board.demands.push_back((block, slot, false)),
        }
        Ok(true)
    }

    fn promote(&mut self, block: u32) {
        let mut board = self.shared.board();
        if let Some(at) = board.guesses.iter().position(|job| job.0 == block) {
            let (block, slot, _) = board.guesses.remove(at).expect("it was found");
            board.demands.push_back((block, slot, false));
        }
    }

    /// Removes a guess whose read has not begun.
    fn withdraw(&mut self, block: u32) {
        let mut board = self.shared.board();
        if let Some(at) = board.guesses.iter().position(|job| job.0 == block) {
            let (_, slot, _) = board.guesses.remove(at).expect("it was found");
            self.states[block as usize] = State::Absent;
            self.free.push(slot);
        }
    }

    fn take_done(&mut self, waits: bool) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut board = shared.board();
        while waits && board.done.is_empty() {
            board = shared
                .landed
                .wait(board)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let done = std::mem::take(&mut board.done);
        drop(board);
        let mut taken = Ok(());
        for (block, result) in done {
            if let Err(error) = result {
                taken = Err(error);
                continue;
            }
            let State::Loading { slot } = self.states[block as usize] else {
                unreachable!("what was read was loading");
            };
            let used = self.next_use;
            self.states[block as usize] = State::Ready { slot, used };
            self.uses.insert(used, block);
            self.next_use += 1;
        }
        taken
    }
}

impl Drop for Experts {
    fn drop(&mut self) {
        self.shared.board().quits = true;
        self.shared.ring();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn pool_thread(shared: &Shared, file: &File) {
    let mut board = shared.board();
    loop {
        if board.quits {
            return;
        }
        let Some(job) = board.next() else {
            board = shared
                .work
                .wait(board)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(board);
        let result = read_block(shared, file, job);
        board = shared.board();
        board.finish(job, result);
        shared.landed.notify_one();
    }
}

fn read_block(shared: &Shared, file: &File, (block, slot, _): Job) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let at = slot as usize * shared.bytes;
    // SAFETY: the slot of a block that is loading is this read's alone.
    let into = unsafe { std::slice::from_raw_parts_mut(shared.memory.0.add(at), shared.bytes) };
    let offset = u64::from(block) * shared.bytes as u64;
    file.read_exact_at(into, offset)?;
    let (file, offset, len) = (file.as_raw_fd(), offset as i64, shared.bytes as i64);
    // What the page cache keeps would be memory above what the slots have.
    // SAFETY: advice about a live descriptor.
    unsafe { libc::posix_fadvise(file, offset, len, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}

/// User data of the read of the bell.
const BELL: u64 = u64::MAX;

fn ring_thread(shared: &Shared, file: &File, depth: usize) {
    let mut ring = ring_of(depth + 1).expect("one was made before");
    // By block: the job, and the bytes that have arrived.
    let mut in_flight: HashMap<u32, (Job, usize)> = HashMap::new();
    let mut word = [0u8; 8];
    let bell = types::Fd(shared.bell.as_raw_fd());
    let bell = opcode::Read::new(bell, word.as_mut_ptr(), 8)
        .build()
        .user_data(BELL);
    let file = types::Fd(file.as_raw_fd());
    let read = |(block, slot, _): Job, done: usize| {
        let at = slot as usize * shared.bytes + done;
        let offset = u64::from(block) * shared.bytes as u64 + done as u64;
        let pointer = shared.memory.0.wrapping_add(at);
        let read = opcode::Read::new(file, pointer, (shared.bytes - done) as u32);
        read.offset(offset).build().user_data(block.into())
    };
    let mut to_push = vec![bell.clone()];
    let mut listens = true;
    loop {
        // SAFETY: each read is of the slot of a block that is loading, or of `word`, which lives as
        // long as the ring; nothing is in flight when this returns.
        unsafe { ring.submission().push_multiple(&to_push) }.expect("room for all");
        to_push.clear();
        if ring.submit_and_wait(1).is_err() {
            continue;
        }
        let mut done = Vec::new();
        for completion in ring.completion() {
            if completion.user_data() == BELL {
                listens = false;
                continue;
            }
            let block = completion.user_data() as u32;
            let (job, arrived) = in_flight.get_mut(&block).expect("it is in flight");
            *arrived += usize::try_from(completion.result()).unwrap_or(0);
            match completion.result() {
                1.. if *arrived < shared.bytes => to_push.push(read(*job, *arrived)),
                1.. => done.push((*job, Ok(()))),
                0 => done.push((*job, Err(io::ErrorKind::UnexpectedEof.into()))),
                error => done.push((*job, Err(io::Error::from_raw_os_error(-error)))),
            }
        }
        let mut board = shared.board();
        for (job, result) in done {
            in_flight.remove(&job.0);
            board.finish(job, result);
            shared.landed.notify_one();
        }
        // Whoever sets `quits` rings after it.
        if board.quits && in_flight.is_empty() && !listens {
            return;
        }
        if !board.quits && !listens {
            to_push.push(bell.clone());
            listens = true;
        }
        while !board.quits
            && in_flight.len() < depth
            && let Some(job) = board.next()
        {
            in_flight.insert(job.0, (job, 0));
            to_push.push(read(job, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_delivers_what_was_needed_whatever_was_guessed() {
        const BYTES: usize = 16 << 10;
        const BLOCKS: usize = 32;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("experts");
        let words = (0..BLOCKS * BYTES / 8).flat_map(|word| (word as u64).to_le_bytes());
        std::fs::write(&path, words.collect::<Vec<u8>>()).unwrap();
        let pool = |access| Reader::Pool { threads: 3, access };
        let ring = |guesses| Reader::Ring { depth: 4, guesses };
        let buffered = pool(Access::Buffered);
        for reader in [buffered, pool(Access::Direct), ring(None), ring(Some(1))] {
            let mut random = fastrand::Rng::with_seed(1);
            let experts = Experts::start(reader, &path, (BLOCKS, BYTES), 12);
            let mut experts = match experts {
                Ok(experts) => experts,
                Err(why) => {
                    eprintln!("SKIP: {reader:?}: {why}");
                    continue;
                }
            };
            for _ in 0..200 {
                let mut some =
                    || -> Vec<u32> { (0..4).map(|_| random.u32(0..BLOCKS as u32)).collect() };
                let (needed, guesses) = (some(), some());
                experts.layer(&needed, &guesses).unwrap();
                for block in needed {
                    let last = BYTES / 4096 - 1;
                    let right = (block as usize * BYTES + last * 4096) / 8;
                    assert_eq!(experts.word(block, last), Some(right as u64));
                }
            }
        }
    }
}
