//! The study's I/O thread, tick by tick as it was, and with its cure.
//!
//! Any thread queues and cancels. Each tick of the I/O thread
//! 1. opens handles ahead for **all** outstanding requests, looking each up by its file's name,
//! 2. copies out the next request by priority, then by index,
//! 3. serves it: finds the handle by name once more, reads, counts down.
//!
//! As it was, names are compared and hashed case-insensitively at every look-up; n requests make n
//! ticks over up to n requests each, so the cost grows with the square of the queue. The cure
//! leaves all as it is but for the key: a 32-bit hash, made once, when the request is queued.
//!
//! Two decisions where the study is silent. The thread takes what was queued over into a list of
//! its own at the begin of a tick, so that the scan does not hold up those who queue. And handles
//! stay open to the end (the study destroyed them by requests), which spares it re-opens.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::case::{Case, Contender, Figures, Work};
use crate::clock::Moment;
use crate::error::{Context, Error, Result};
use crate::files::open_buffered;
use crate::limits::SUBMIT_THREADS;
use crate::memory::Destination;
use crate::requests::cells::held;
use crate::rows::Metric;
use crate::startup::plan::{Plan, Priority};

/// Descriptors that the rest of the process may need.
const DESCRIPTORS_SPARE: u64 = 128;

/// How a handle is known.
trait Key: Eq + Hash + Clone + Send + 'static {
    /// From a file's name, when a request is queued.
    fn of(name: &str) -> Self;
}

/// A name whose every hash and comparison folds the case of every letter.
#[derive(Clone)]
struct FoldedName(String);

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

/// The cure: a 32-bit hash of the folded name, made once.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NameHash(u32);

impl Key for NameHash {
    fn of(name: &str) -> NameHash {
        let mut hash = Fnv::default();
        name.bytes()
            .for_each(|byte| hash.write_u8(byte.to_ascii_lowercase()));
        // Fold, so that the upper half counts.
        let hash = hash.finish();
        NameHash((hash ^ (hash >> 32)) as u32)
    }
}

impl Hash for NameHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0);
    }
}

/// FNV-1a: a plain string hash of the study's time. Of a 32-bit hash it takes the number itself.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xCBF2_9CE4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn write_u32(&mut self, value: u32) {
        // One multiplication spreads an already good hash over the table's index and tag bits.
        self.0 = (self.0 ^ u64::from(value)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// The handles, by their key.
type Handles<K, V> = HashMap<K, V, BuildHasherDefault<Fnv>>;

/// A request as the I/O thread knows it.
struct Request<K> {
    index: usize,
    key: K,
    priority: Priority,
}

/// What the queuing threads and the I/O thread share.
struct Shared<K> {
    queued: Vec<Request<K>>,
    canceled: Vec<usize>,
    queuing_ended: bool,
}

/// The study's thread as a contender, with case-insensitive names.
pub(super) fn as_it_was(plan: &Arc<Plan>) -> Result<Contender> {
    contender::<FoldedName>("study", plan)
}

/// With hashes made once.
pub(super) fn cured(plan: &Arc<Plan>) -> Result<Contender> {
    contender::<NameHash>("study-cured", plan)
}

fn contender<K: Key>(name: &str, plan: &Arc<Plan>) -> Result<Contender> {
    raise_descriptors(plan.entries.len() as u64 + DESCRIPTORS_SPARE)?;
    let plan = Arc::clone(plan);
    Ok(Contender::new(name, move |destination| {
        run_with::<K>(&plan, destination)
    }))
}

/// Raises this process' soft limit of descriptors: the study keeps a handle per file.
fn raise_descriptors(need: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= need) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < need) {
        return Err(Error::new(format!(
            "{need} open files are more than this process' hard limit allows"
        )));
    }
    let raised = Rlimit {
        current: Some(need),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).what("raise RLIMIT_NOFILE")
}

fn run_with<K: Key>(plan: &Plan, destination: &mut Destination) -> Result<Work> {
    let start = Moment::now();
    let shared = Mutex::new(Shared {
        queued: Vec::<Request<K>>::new(),
        canceled: Vec::new(),
        queuing_ended: false,
    });
    let wake = Condvar::new();
    let (ended, held_ns) = std::thread::scope(|scope| {
        let (shared, wake) = (&shared, &wake);
        let io = scope.spawn(move || Ticker::<K>::new(plan).run(shared, wake, destination));
        let queuing: Vec<_> = (0..SUBMIT_THREADS)
            .map(|thread| scope.spawn(move || queue(plan, thread, shared, wake)))
            .collect();
        let mut held_ns = Vec::new();
        for thread in queuing {
            held_ns.extend(thread.join().unwrap_or_default());
        }
        locked(shared).queuing_ended = true;
        wake.notify_all();
        let ended = io
            .join()
            .unwrap_or_else(|_| Err(Error::new("the I/O thread panicked")));
        (ended, held_ns)
    });
    Ok(Work {
        extra: held(held_ns),
        ..Work::of(0, ended?).took(start.elapsed())
    })
}

/// One queuing thread; nanoseconds of each of its calls.
fn queue<K: Key>(
    plan: &Plan,
    thread: usize,
    shared: &Mutex<Shared<K>>,
    wake: &Condvar,
) -> Vec<u64> {
    let mut held_ns = Vec::new();
    for index in plan.share(thread, SUBMIT_THREADS) {
        let entry = &plan.entries[index];
        let start = Instant::now();
        let name = entry.file.path.to_string_lossy();
        let request = Request {
            index,
            key: K::of(&name),
            priority: entry.priority,
        };
        locked(shared).queued.push(request);
        wake.notify_one();
        if entry.canceled {
            locked(shared).canceled.push(index);
        }
        held_ns.push(start.elapsed().as_nanos() as u64);
    }
    held_ns
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The lists are only pushed to and taken: a panic elsewhere leaves them in order.
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// The I/O thread.
struct Ticker<'a, K> {
    plan: &'a Plan,
    outstanding: Vec<Request<K>>,
    handles: Handles<K, File>,
    ended: usize,
}

impl<'a, K: Key> Ticker<'a, K> {
    fn new(plan: &'a Plan) -> Ticker<'a, K> {
        Ticker {
            plan,
            outstanding: Vec::new(),
            handles: Handles::default(),
            ended: 0,
        }
    }

    /// Ticks until all that was queued has ended; how many requests that were.
    fn run(
        mut self,
        shared: &Mutex<Shared<K>>,
        wake: &Condvar,
        destination: &mut [u8],
    ) -> Result<usize> {
        // A cancel that comes after its request was served finds nothing; who waits for it would
        // leak.
        loop {
            let ended = self.take_over(shared, wake);
            if self.outstanding.is_empty() {
                if ended {
                    return Ok(self.ended);
                }
                continue;
            }
            self.open_ahead()?;
            let next = self.next();
            let request = self.outstanding.swap_remove(next);
            self.serve(&request, destination)?;
            self.ended += 1;
        }
    }

    /// Takes over what was queued and canceled; whether no more will come. Sleeps if there is
    /// nothing to do.
    fn take_over(&mut self, shared: &Mutex<Shared<K>>, wake: &Condvar) -> bool {
        let mut shared = locked(shared);
        while self.outstanding.is_empty() && shared.queued.is_empty() && !shared.queuing_ended {
            shared = wake
                .wait(shared)
                .unwrap_or_else(|poison| poison.into_inner());
        }
        self.outstanding.append(&mut shared.queued);
        for index in shared.canceled.drain(..) {
            let before = self.outstanding.len();
            self.outstanding.retain(|request| request.index != index);
            self.ended += before - self.outstanding.len();
        }
        shared.queuing_ended
    }

    /// Step 1: for every outstanding request, in every tick.
    fn open_ahead(&mut self) -> Result<()> {
        for request in &self.outstanding {
            if !self.handles.contains_key(&request.key) {
                let path = &self.plan.entries[request.index].file.path;
                self.handles
                    .insert(request.key.clone(), open_buffered(path)?);
            }
        }
        Ok(())
    }

    /// Step 2: the most urgent; of these, the one that was asked for first.
    fn next(&self) -> usize {
        let order = |request: &Request<K>| (std::cmp::Reverse(request.priority), request.index);
        (0..self.outstanding.len())
            .min_by_key(|place| order(&self.outstanding[*place]))
            .expect("a tick has an outstanding request")
    }

    /// Step 3.
    fn serve(&self, request: &Request<K>, destination: &mut [u8]) -> Result<()> {
        let entry = &self.plan.entries[request.index];
        let file = self
            .handles
            .get(&request.key)
            .ok_or_else(|| Error::new("a handle opened ahead is gone"))?;
        let read = file.read_exact_at(&mut destination[entry.place.clone()], 0);
        read.on("read", &entry.file.path)
    }
}

/// One look-up.
const LOOKUP: Metric = Metric::lower("lookup", "ns");
/// Look-ups of one run, as rounds over all names.
const ROUNDS: usize = 20;

/// What finding a handle by its name costs, without any read: names compared with folded case,
/// hashes made once, and an index into an array, which is what the engine's file ids are.
pub(super) fn add_lookups(case: &mut Case<'_>, plan: &Plan) {
    let name = |index: usize| plan.entries[index].file.path.to_string_lossy().into_owned();
    let names: Vec<String> = (0..plan.entries.len()).map(name).collect();
    by_key::<FoldedName>(case, "folded-name", &names);
    by_key::<NameHash>(case, "hash-32", &names);
    let array: Vec<usize> = (0..names.len()).collect();
    let ids: Vec<usize> = (0..names.len()).rev().collect();
    case.add("array", move |_| {
        let lookup = |index: usize| array.get(ids[index]).copied();
        Ok(Work::figures(look_up_all(ids.len(), lookup)))
    });
}

fn by_key<K: Key>(case: &mut Case<'_>, name: &str, names: &[String]) {
    let keys: Vec<K> = names.iter().map(|name| K::of(name)).collect();
    let numbered = keys.iter().cloned().enumerate();
    let handles: Handles<K, usize> = numbered.map(|(index, key)| (key, index)).collect();
    case.add(name, move |_| {
        let lookup = |index: usize| handles.get(&keys[index]).copied();
        Ok(Work::figures(look_up_all(keys.len(), lookup)))
    });
}

/// Nanoseconds of one look-up.
fn look_up_all(count: usize, lookup: impl Fn(usize) -> Option<usize>) -> Figures {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for index in 0..count {
            black_box(lookup(black_box(index)));
        }
    }
    let each = start.elapsed().as_nanos() as f64 / (ROUNDS * count) as f64;
    vec![(LOOKUP, each)]
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
