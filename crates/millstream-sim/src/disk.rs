//! The state of the simulated disk: contents, open files, faults, head position, random numbers.

use std::collections::HashMap;
use std::path::PathBuf;

use millstream_io::{Errno, Operation, Segment, Verb};

use crate::{SimFileOptions, SimOptions, fill_segments, gather_segments, segments};

/// The first descriptor; none is used twice, so that a stale one is always detected. None of a
/// system's: larger than those of Unix, with a bit that no handle of Windows has.
const DESCRIPTOR_FIRST: u64 = 1 << 37;

/// Fills `into` with the generated content of a file, from byte `offset` on. The content depends
/// only on the seed and the position.
pub fn generate(seed: u64, offset: u64, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        let position = offset + at as u64;
        let word = mix(seed ^ (position / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
        let skip = (position % 8) as usize;
        let len = (8 - skip).min(into.len() - at);
        into[at..at + len].copy_from_slice(&word[skip..skip + len]);
        at += len;
    }
}

/// The finalizer of SplitMix64.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// SplitMix64: small, and stable across versions, as seeds in bug reports require.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number from `min` to `max`, both included.
    fn between(&mut self, min: u64, max: u64) -> u64 {
        let span = max.saturating_sub(min).saturating_add(1);
        min + self.next() % span
    }

    fn chance(&mut self, chance: f64) -> bool {
        // Always draws one number, so that changing one chance does not affect the others.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 <= chance && chance > 0.0
    }
}

pub(crate) enum Content {
    Bytes(Vec<u8>),
    Generated { seed: u64, len: u64 },
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Generated { len, .. } => *len,
        }
    }

    /// Returns up to `len` bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let len = self.len().saturating_sub(offset).min(len as u64) as usize;
        match self {
            Content::Bytes(_) if len == 0 => Vec::new(),
            Content::Bytes(bytes) => bytes[offset as usize..offset as usize + len].to_vec(),
            Content::Generated { seed, .. } => {
                let mut bytes = vec![0; len];
                generate(*seed, offset, &mut bytes);
                bytes
            }
        }
    }

    /// Returns the content as writable bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        if let Content::Generated { len, .. } = *self {
            *self = Content::Bytes(self.read(0, len as usize));
        }
        match self {
            Content::Bytes(bytes) => bytes,
            Content::Generated { .. } => unreachable!("converted to bytes above"),
        }
    }
}

pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    pub(crate) options: SimFileOptions,
    /// Incremented by each write.
    pub(crate) version: u64,
}

pub(crate) struct Open {
    pub(crate) file: usize,
    pub(crate) write: bool,
    pub(crate) direct: bool,
    in_flight: usize,
}

/// An operation that reached the device, in order of submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimOperation {
    /// Read or write.
    pub verb: Verb,
    /// The file's path at the submission; empty for a bad descriptor.
    pub path: PathBuf,
    /// File offset of the first byte.
    pub offset: u64,
    /// Number of bytes requested.
    pub len: usize,
}

/// Counts of events so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimCounts {
    /// Files opened.
    pub opens: u64,
    /// Files closed.
    pub closes: u64,
    /// Files closed while an operation on them was in flight: a bug of the owner.
    pub closes_in_flight: u64,
    /// Operations on a descriptor that is not open: a bug of the owner.
    pub stale_operations: u64,
    /// Reads that reached the device.
    pub reads: u64,
    /// Writes that reached the device.
    pub writes: u64,
    /// Bytes moved.
    pub bytes_moved: u64,
    /// Distance that the head has traveled, in bytes.
    pub head_travel_bytes: u64,
}

pub(crate) struct Rule {
    pub(crate) file: usize,
    pub(crate) offset: u64,
    pub(crate) end: u64,
    /// `None`: hang.
    pub(crate) errno: Option<Errno>,
    /// How often it still applies; `None` for always.
    pub(crate) left: Option<u64>,
}

pub(crate) struct Disk {
    options: SimOptions,
    random: Random,
    pub(crate) files: Vec<File>,
    pub(crate) names: HashMap<PathBuf, usize>,
    pub(crate) open: HashMap<u64, Open>,
    descriptor_next: u64,
    pub(crate) rules: Vec<Rule>,
    pub(crate) log: Vec<SimOperation>,
    pub(crate) counts: SimCounts,
    /// Operations abandoned by a shutdown; they access their memory when they are released.
    pub(crate) orphans: Vec<Operation>,
    /// Number of operations that hang now.
    pub(crate) hung: usize,
    /// How often hung operations were released.
    pub(crate) releases: u64,
    /// Number of file system calls so far.
    calls: u64,
    /// The calls that will fail, by number.
    failing_calls: HashMap<u64, Errno>,
    /// The transfer path is busy until this time.
    busy_until_ns: u64,
    last_finish_ns: u64,
    head: u64,
}

impl Disk {
    pub(crate) fn new(options: SimOptions) -> Disk {
        Disk {
            random: Random(options.seed),
            options,
            files: Vec::new(),
            names: HashMap::new(),
            open: HashMap::new(),
            descriptor_next: DESCRIPTOR_FIRST,
            rules: Vec::new(),
            log: Vec::new(),
            counts: SimCounts::default(),
            orphans: Vec::new(),
            hung: 0,
            releases: 0,
            calls: 0,
            failing_calls: HashMap::new(),
            busy_until_ns: 0,
            last_finish_ns: 0,
            head: 0,
        }
    }

    /// Counts a call of the file system, and fails it if `fail_call` requested that.
    pub(crate) fn call(&mut self) -> Result<(), Errno> {
        let number = self.calls;
        self.calls += 1;
        self.failing_calls.remove(&number).map_or(Ok(()), Err)
    }

    /// Makes the call after `skip` more calls fail.
    pub(crate) fn fail_call(&mut self, skip: u64, errno: Errno) {
        self.failing_calls.insert(self.calls + skip, errno);
    }

    pub(crate) fn new_descriptor(&mut self, file: usize, write: bool, direct: bool) -> u64 {
        let descriptor = self.descriptor_next;
        self.descriptor_next += 1;
        let open = Open {
            file,
            write,
            direct,
            in_flight: 0,
        };
        self.open.insert(descriptor, open);
        self.counts.opens += 1;
        descriptor
    }

    pub(crate) fn close(&mut self, descriptor: u64) -> Result<(), Errno> {
        let open = self.open.remove(&descriptor).ok_or(Errno::BAD_DESCRIPTOR)?;
        self.counts.closes += 1;
        self.counts.closes_in_flight += u64::from(open.in_flight > 0);
        Ok(())
    }

    /// Returns the file of an open descriptor.
    pub(crate) fn file(&mut self, descriptor: u64) -> Result<&mut File, Errno> {
        let open = self.open.get(&descriptor).ok_or(Errno::BAD_DESCRIPTOR)?;
        Ok(&mut self.files[open.file])
    }

    /// Decides the outcome of an operation that starts now: when it completes, and how many bytes
    /// it then moves. `None`: it hangs.
    pub(crate) fn begin(
        &mut self,
        operation: &Operation,
        now_ns: u64,
    ) -> Option<(u64, Result<usize, Errno>)> {
        let len = operation.segments.bytes();
        self.note(operation, len);
        let finish_ns = self.schedule(operation, len, now_ns);
        if let Err(errno) = self.check(operation) {
            return Some((finish_ns, Err(errno)));
        }
        if let Some(open) = self.open.get_mut(&operation.file.raw()) {
            open.in_flight += 1;
        }
        let options = &self.options;
        let random = &mut self.random;
        let hangs = random.chance(options.hang_chance);
        let interrupted = random.chance(options.interrupted_chance);
        let again = random.chance(options.again_chance);
        let broken = random.chance(options.io_error_chance);
        let short = random.chance(options.short_chance);
        let early = random.chance(options.early_write_chance);
        let (cut, early_cut) = (random.next(), random.next());
        match self.rule_for(operation, len) {
            Some(None) => return None,
            Some(Some(errno)) => return Some((finish_ns, Err(errno))),
            None if hangs => return None,
            None => {}
        }
        let chances = [
            (interrupted, Errno::INTERRUPTED),
            (again, Errno::AGAIN),
            (broken, Errno::IO),
        ];
        if let Some((_, errno)) = chances.into_iter().find(|(happens, _)| *happens) {
            return Some((finish_ns, Err(errno)));
        }
        let bytes = if short {
            self.short_len(operation, len, cut)
        } else {
            len
        };
        if early && operation.verb == Verb::Read {
            self.look_ahead(operation, (early_cut % (bytes as u64 + 1)) as usize);
        }
        Some((finish_ns, Ok(bytes)))
    }

    pub(crate) fn end(&mut self, operation: &Operation) {
        if let Some(open) = self.open.get_mut(&operation.file.raw()) {
            open.in_flight = open.in_flight.saturating_sub(1);
        }
    }

    fn note(&mut self, operation: &Operation, len: usize) {
        let path = self
            .file(operation.file.raw())
            .map(|file| file.path.clone());
        self.log.push(SimOperation {
            verb: operation.verb,
            path: path.unwrap_or_default(),
            offset: operation.offset,
            len,
        });
        match operation.verb {
            Verb::Read => self.counts.reads += 1,
            Verb::Write => self.counts.writes += 1,
        }
    }

    fn check(&mut self, operation: &Operation) -> Result<(), Errno> {
        let Some(open) = self.open.get(&operation.file.raw()) else {
            self.counts.stale_operations += 1;
            return Err(Errno::BAD_DESCRIPTOR);
        };
        if operation.verb == Verb::Write && !open.write {
            return Err(Errno::BAD_DESCRIPTOR);
        }
        if i64::try_from(operation.offset).is_err() {
            return Err(Errno::INVALID);
        }
        match self.files[open.file].options.direct {
            Some(direct) if open.direct => {
                let aligned = |segment: &Segment| {
                    (segment.pointer() as usize).is_multiple_of(direct.memory as usize)
                        && segment.len().is_multiple_of(direct.offset as usize)
                };
                let offset_aligned = operation.offset.is_multiple_of(u64::from(direct.offset));
                if offset_aligned && segments(operation).iter().all(aligned) {
                    Ok(())
                } else {
                    Err(Errno::INVALID)
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns when an operation that starts now completes: its seek and transfer queue behind
    /// earlier ones, then its own latency follows.
    fn schedule(&mut self, operation: &Operation, len: usize, now_ns: u64) -> u64 {
        let position = self.open.get(&operation.file.raw()).and_then(|open| {
            let start = self.files[open.file].options.position?;
            Some(start.saturating_add(operation.offset))
        });
        let mut busy_ns = 0;
        if let Some(position) = position {
            let travel = self.head.abs_diff(position);
            self.counts.head_travel_bytes += travel;
            self.head = position.saturating_add(len as u64);
            busy_ns += scaled(travel, self.options.seek_ns_per_kib, 1024);
        }
        if self.options.bytes_per_second > 0 {
            busy_ns += scaled(len as u64, 1_000_000_000, self.options.bytes_per_second);
        }
        self.busy_until_ns = self.busy_until_ns.max(now_ns).saturating_add(busy_ns);
        let (min, max) = (self.options.latency_min_ns, self.options.latency_max_ns);
        let mut finish_ns = self
            .busy_until_ns
            .saturating_add(self.random.between(min, max));
        if !self.options.reorder {
            finish_ns = finish_ns.max(self.last_finish_ns);
        }
        self.last_finish_ns = finish_ns;
        finish_ns
    }

    fn rule_for(&mut self, operation: &Operation, len: usize) -> Option<Option<Errno>> {
        let file = self.open.get(&operation.file.raw())?.file;
        let end = operation.offset.saturating_add(len as u64);
        let rule = self.rules.iter_mut().find(|rule| {
            rule.file == file
                && rule.offset < end
                && operation.offset < rule.end
                && rule.left != Some(0)
        })?;
        rule.left = rule.left.map(|left| left - 1);
        Some(rule.errno)
    }

    /// Returns fewer bytes than `len`, in whole blocks of a direct file, if `len` has two or more.
    fn short_len(&self, operation: &Operation, len: usize, cut: u64) -> usize {
        let block = self.open.get(&operation.file.raw()).map_or(1, |open| {
            let direct = self.files[open.file].options.direct.filter(|_| open.direct);
            direct.map_or(1, |direct| direct.offset as usize)
        });
        let blocks = len / block;
        if blocks < 2 {
            return len;
        }
        (1 + (cut % (blocks as u64 - 1)) as usize) * block
    }

    /// Writes the first `len` bytes of a read to memory before its completion.
    fn look_ahead(&mut self, operation: &Operation, len: usize) {
        if let Ok(file) = self.file(operation.file.raw()) {
            let bytes = file.content.read(operation.offset, len);
            fill_segments(segments(operation), &bytes);
        }
    }

    /// Moves up to `len` bytes between file and memory.
    pub(crate) fn transfer(&mut self, operation: &Operation, len: usize) -> Result<usize, Errno> {
        let file = self.file(operation.file.raw())?;
        let moved = match operation.verb {
            Verb::Read => {
                let bytes = file.content.read(operation.offset, len);
                fill_segments(segments(operation), &bytes);
                bytes.len()
            }
            Verb::Write => {
                let bytes = gather_segments(segments(operation), len);
                write(file, operation.offset, &bytes)?
            }
        };
        self.counts.bytes_moved += moved as u64;
        Ok(moved)
    }
}

/// Writes all of `bytes`.
pub(crate) fn write(file: &mut File, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
    let start = usize::try_from(offset).map_err(|_| Errno::TOO_LARGE)?;
    let end = start.checked_add(bytes.len()).ok_or(Errno::TOO_LARGE)?;
    let content = file.content.bytes_mut();
    if content.len() < end {
        let more = end - content.len();
        content.try_reserve(more).map_err(|_| Errno::TOO_LARGE)?;
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(bytes);
    file.version += 1;
    Ok(bytes.len())
}

/// `value` × `numerator` ÷ `denominator`, without overflow.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
