//! The study's I/O thread, in its original form and with a fix.
//!
//! Any thread queues and cancels. Each tick of the I/O thread
//! 1. opens handles ahead for **all** outstanding requests, looking each up by its file's name,
//! 2. copies out the next request by priority, then by index,
//! 3. serves it: finds the handle by name once more, reads, counts down.
//!
//! In the original, names are compared and hashed case-insensitively at every lookup; n requests
//! make n ticks over up to n requests each, so the cost is quadratic in the length of the queue.
//! The fix changes only the key: a 32-bit hash, computed once, when the request is queued.
//!
//! Two decisions where the study is silent: the thread moves queued requests into a list of its own
//! at the start of a tick, so that the scan does not hold up queuing threads; and handles stay open
//! to the end (the study closed them with their requests), which saves reopening.

use std::cmp::Reverse;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use fnv::{FnvHashMap, FnvHasher};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::prelude::*;
use crate::requests::cells::held;
use crate::startup::plan::{Entry, Plan};
use crate::threads::joined;

pub(super) trait Key: Eq + Hash + Clone + Send + 'static {
    fn of(name: &str) -> Self;
}

/// A name for which every hash and comparison folds the case of every letter.
#[derive(Clone)]
pub(super) struct FoldedName(String);

impl Key for FoldedName {
    fn of(name: &str) -> FoldedName {
        FoldedName(name.to_owned())
    }
}

impl Hash for FoldedName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for letter in self.0.chars() {
            letter.to_lowercase().for_each(|folded| folded.hash(state));
        }
    }
}

impl PartialEq for FoldedName {
    fn eq(&self, other: &FoldedName) -> bool {
        let ours = self.0.chars().flat_map(char::to_lowercase);
        let theirs = other.0.chars().flat_map(char::to_lowercase);
        ours.eq(theirs)
    }
}

impl Eq for FoldedName {}

/// The fix: a 32-bit hash of the folded name, computed once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NameHash(u32);

impl Key for NameHash {
    fn of(name: &str) -> NameHash {
        let mut hash = FnvHasher::default();
        hash.write(name.to_ascii_lowercase().as_bytes());
        // Folds the hash, so that the upper half counts.
        let hash = hash.finish();
        NameHash((hash ^ (hash >> 32)) as u32)
    }
}

/// The handles by key; FNV-1a is a common string hash of the study's time.
type Handles<K, V> = FnvHashMap<K, V>;

enum Message<'a, K> {
    Queue(&'a Entry, K),
    Cancel(usize),
}

/// The study's thread as a contender: with [`FoldedName`] the original, with [`NameHash`] fixed.
pub(super) fn contender<K: Key>(plan: &Plan) -> Result<impl Method> {
    raise_descriptors()?;
    Ok(move |into: &mut Destination| {
        let start = Moment::now();
        let (sender, receiver) = channel();
        let (ended, held_ns) = std::thread::scope(|scope| {
            let ticker = Ticker::<K> {
                outstanding: Vec::new(),
                handles: Handles::default(),
                ended: 0,
            };
            let io = scope.spawn(move || ticker.run(&receiver, into));
            let queuing = (0..SUBMIT_THREADS).map(|thread| {
                let sender = sender.clone();
                scope.spawn(move || queue(plan, thread, &sender))
            });
            let queuing: Vec<_> = queuing.collect();
            // The I/O thread ends when all senders are dropped.
            drop(sender);
            let held_ns: Result<Vec<_>> = queuing.into_iter().map(joined).collect();
            Ok::<_, Error>((joined(io)?, held_ns?.concat()))
        })?;
        Ok(Work::of(0, ended).took(start.elapsed()).with(held(held_ns)))
    })
}

/// Raises the soft limit of descriptors to the hard limit: the study keeps a handle per file.
fn raise_descriptors() -> Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).what("raise RLIMIT_NOFILE")
}

/// Runs one queuing thread; returns the nanoseconds of each of its calls.
fn queue<'a, K: Key>(
    plan: &'a Plan,
    thread: usize,
    sender: &Sender<Message<'a, K>>,
) -> Result<Vec<u64>> {
    let mut held_ns = Vec::new();
    for entry in plan.share(thread) {
        let start = Instant::now();
        let key = K::of(&entry.file.path.to_string_lossy());
        // An error means that the I/O thread has failed, which reports why.
        let _ = sender.send(Message::Queue(entry, key));
        if entry.canceled {
            let _ = sender.send(Message::Cancel(entry.index));
        }
        held_ns.push(start.elapsed().as_nanos() as u64);
    }
    Ok(held_ns)
}

struct Ticker<'a, K> {
    outstanding: Vec<(&'a Entry, K)>,
    handles: Handles<K, File>,
    ended: usize,
}

impl<'a, K: Key> Ticker<'a, K> {
    /// Ticks until all queued requests have ended; returns how many there were.
    fn run(mut self, receiver: &Receiver<Message<'a, K>>, into: &mut [u8]) -> Result<usize> {
        loop {
            // Blocks only if there is nothing to do.
            if self.outstanding.is_empty() {
                match receiver.recv() {
                    Ok(message) => self.take(message),
                    Err(_) => return Ok(self.ended),
                }
            }
            while let Ok(message) = receiver.try_recv() {
                self.take(message);
            }
            self.open_ahead()?;
            if let Some(next) = self.next() {
                let (entry, key) = self.outstanding.swap_remove(next);
                self.serve(entry, &key, into)?;
                self.ended += 1;
            }
        }
    }

    fn take(&mut self, message: Message<'a, K>) {
        match message {
            Message::Queue(entry, key) => self.outstanding.push((entry, key)),
            // A cancellation that comes after its request was served finds nothing.
            Message::Cancel(index) => {
                let before = self.outstanding.len();
                self.outstanding.retain(|(entry, _)| entry.index != index);
                self.ended += before - self.outstanding.len();
            }
        }
    }

    /// Step 1: for every outstanding request, in every tick.
    fn open_ahead(&mut self) -> Result<()> {
        for (entry, key) in &self.outstanding {
            if !self.handles.contains_key(key) {
                let file = open_buffered(&entry.file.path)?;
                self.handles.insert(key.clone(), file);
            }
        }
        Ok(())
    }

    /// Step 2: returns the request of the highest priority; of several, the one queued first.
    fn next(&self) -> Option<usize> {
        let order = |place: &usize| {
            let (entry, _) = &self.outstanding[*place];
            (Reverse(entry.priority), entry.index)
        };
        (0..self.outstanding.len()).min_by_key(order)
    }

    fn serve(&self, entry: &Entry, key: &K, into: &mut [u8]) -> Result<()> {
        let file = self.handles.get(key);
        let file = file.ok_or_else(|| Error::new("a handle opened ahead is gone"))?;
        let read = file.read_exact_at(&mut into[entry.place.clone()], 0);
        read.on("read", &entry.file.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_alone_are_one_handle() {
        let mut handles: Handles<FoldedName, u32> = Handles::default();
        handles.insert(FoldedName::of("Textures/Stone.DDS"), 1);
        assert!(handles.contains_key(&FoldedName::of("textures/STONE.dds")));
        assert!(!handles.contains_key(&FoldedName::of("textures/stone.dd")));
        assert!(NameHash::of("Stone") == NameHash::of("sTONE"));
        assert!(NameHash::of("Stone") != NameHash::of("Stane"));
    }
}
