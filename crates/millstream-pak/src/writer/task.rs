//! Packing on several machines: one plans and writes, the others encode.
//!
//! ```text
//! PackPlan::new → task → (sent) → encode_task → (sent back) → PackPlan::write_file
//! ```
//!
//! A task contains all that its blocks depend on: where their bytes are (or the bytes, if they have
//! no path), and how they are encoded. So the encoding machine needs no plan, a task may be run
//! again anywhere, and the package has the bytes that one machine would write. Paths are absolute:
//! all machines must see the inputs under the same paths.
//!
//! Both messages are in postcard's format. Neither is trusted: one that is damaged, or does not fit
//! the plan or the inputs, is an error.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millstream::CodecId;
use serde::{Deserialize, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use super::encode::write_units;
use super::encoder::{Done, Encoder, FreeBuffers};
use super::item::{self, Content, Item, Time};
use super::plan::{Part, Plan, Unit};
use super::{Coding, PackOptions, PackReport, Target, check_options, planned};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{BLOCK_SHIFT_MAX, TASK_RAW_BYTES_MAX};

/// Both machines must run the same version: the codecs and the cost model may differ in another.
/// The number after it is raised when the messages change between versions.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+messages.3");

/// A planned package: its entries and blocks are decided, and nothing is encoded yet.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use millstream_pak::{Item, PackOptions, PackPlan, encode_task};
///
/// let items = vec![Item::from_bytes("level", vec![7; 3_000_000])];
/// let plan = PackPlan::new(items, PackOptions::default())?;
/// // Tasks of about 1 MiB; `encode_task` may run anywhere.
/// let tasks = plan.ranges(1 << 20).into_iter().map(|blocks| plan.task(blocks));
/// let tasks: Vec<Vec<u8>> = tasks.collect::<Result<_, _>>()?;
/// let encoded = tasks.iter().map(|task| encode_task(task).expect("encoded"));
/// let report = plan.write_file(encoded, folder.path().join("level.mpak"))?;
/// assert_eq!(report.blocks, 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PackPlan<'a> {
    plan: Plan,
    options: PackOptions<'a>,
}

impl<'a> PackPlan<'a> {
    /// Plans a package: cooks and describes the inputs, and finds those with the same content.
    /// Blocks until it is done.
    ///
    /// # Errors
    /// As [`write()`](crate::write).
    pub fn new(items: Vec<Item>, options: PackOptions<'a>) -> Result<PackPlan<'a>> {
        let plan = planned(items, &options)?;
        Ok(PackPlan { plan, options })
    }

    /// Returns the number of blocks, which are numbered from 0 on in the order of the file.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.plan.units.len() as u32
    }

    /// Returns the raw bytes of some blocks.
    ///
    /// # Panics
    /// If the plan has no such blocks.
    #[must_use]
    pub fn raw_bytes(&self, blocks: Range<u32>) -> u64 {
        self.units(blocks).map(|unit| self.unit_bytes(unit)).sum()
    }

    /// Returns all blocks, in ranges of at most `raw_bytes`, and at most 256 MiB, or of one block.
    #[must_use]
    pub fn ranges(&self, raw_bytes: u64) -> Vec<Range<u32>> {
        let limit = raw_bytes.min(TASK_RAW_BYTES_MAX);
        let (mut ranges, mut bytes) = (Vec::<Range<u32>>::new(), 0);
        for (nth, unit) in (0..).zip(&self.plan.units) {
            bytes += self.unit_bytes(unit);
            match ranges.last_mut() {
                Some(last) if bytes <= limit => last.end = nth + 1,
                _ => {
                    bytes = self.unit_bytes(unit);
                    ranges.push(nth..nth + 1);
                }
            }
        }
        ranges
    }

    fn units(&self, blocks: Range<u32>) -> impl Iterator<Item = &Unit> {
        self.plan.units[blocks.start as usize..blocks.end as usize].iter()
    }

    fn unit_bytes(&self, unit: &Unit) -> u64 {
        let parts = self.plan.parts(unit);
        parts.iter().map(|part| part.len as u64).sum()
    }

    /// Returns the message that [`encode_task`] needs to encode some blocks.
    ///
    /// # Errors
    /// Cooked inputs cannot be read, a path cannot be made absolute, or the task is too large.
    ///
    /// # Panics
    /// If the plan has no such blocks.
    pub fn task(&self, blocks: Range<u32>) -> Result<Vec<u8>> {
        let first = blocks.start;
        let blocks = self.units(blocks).map(|unit| {
            let parts = self.plan.parts(unit);
            Ok(TaskBlock {
                on_gpu: self.plan.on_gpu(unit),
                parts: parts.iter().map(TaskPart::of).collect::<Result<_>>()?,
            })
        });
        message(&Task {
            version: Cow::Borrowed(VERSION),
            coding: match self.options.coding {
                Coding::Auto(target) => TaskCoding::Auto(target),
                Coding::Fixed(codec) => TaskCoding::Fixed(codec.0),
            },
            level: self.options.level,
            gpu_megabytes_per_second: self.options.gpu_megabytes_per_second,
            first,
            blocks: blocks.collect::<Result<_>>()?,
        })
    }

    /// Writes the package from the results of [`encode_task`], in the order of their blocks, as
    /// [`write_file`](crate::write_file) does. Blocks until it is done.
    ///
    /// # Errors
    /// As [`write()`](crate::write); or `encoded` ends early ([`ErrorKind::Stopped`]), or a result
    /// is damaged or not that of the plan's next blocks.
    pub fn write_file(
        &self,
        encoded: impl IntoIterator<Item = Vec<u8>>,
        path: impl AsRef<Path>,
    ) -> Result<PackReport> {
        let mut encoded = encoded.into_iter();
        let mut blocks = Vec::new().into_iter();
        let mut next = |nth: usize| -> Result<Option<Done<'static>>> {
            loop {
                if let Some(done) = blocks.next() {
                    return Ok(Some(done));
                }
                match encoded.next() {
                    Some(encoded) => blocks = self.check(nth, &encoded)?.into_iter(),
                    None => return Ok(None),
                }
            }
        };
        let early = || Error::new(ErrorKind::Stopped, "there are more blocks than were given");
        let free = FreeBuffers::default();
        item::replace(path.as_ref(), |file| {
            let place = (file, self.plan.raw_bytes);
            let needed = |nth| next(nth)?.ok_or_else(early);
            let report = write_units(&self.plan, &self.options, place, (needed, &free))?;
            match next(self.plan.units.len())? {
                Some(_) => Err(corrupt("more results than the plan has blocks for")),
                None => Ok(report),
            }
        })
    }

    /// Returns the blocks of a result, after checking that they are the plan's next ones.
    fn check(&self, next: usize, encoded: &[u8]) -> Result<Vec<Done<'static>>> {
        let outcome = postcard::from_bytes::<Outcome<'_>>(encoded)
            .map_err(|_| corrupt("encoded blocks are cut or damaged"))?;
        if outcome.first as usize != next || outcome.blocks.is_empty() {
            return Err(corrupt("encoded blocks are not the next of the plan"));
        }
        let blocks = outcome.blocks.into_iter().enumerate().map(|(at, done)| {
            let unit = self.plan.units.get(next + at);
            let unit = unit.ok_or_else(|| corrupt("more blocks than the plan has"))?;
            self.check_block(unit, &done)?;
            let stored = Cow::Owned(done.stored.into_owned());
            Ok(Done { stored, ..done })
        });
        blocks.collect()
    }

    fn check_block(&self, unit: &Unit, done: &Done<'_>) -> Result<()> {
        let codec = CodecId(done.codec);
        let raw_bytes = self.unit_bytes(unit);
        let stored_bytes = done.stored.len() as u64;
        let of_gpu = [CodecId::STORED, CodecId::GDEFLATE];
        let fits = done.hashes.len() == self.plan.parts(unit).len()
            && u64::from(done.raw_bytes) == raw_bytes
            && (codec == CodecId::STORED || !millstream_codec::block_level_range(codec).is_empty())
            && (codec != CodecId::STORED || stored_bytes == raw_bytes)
            && stored_bytes <= raw_bytes
            && (!self.plan.on_gpu(unit) || of_gpu.contains(&codec));
        match fits && done.checksum == xxh3_64(&done.stored) {
            true => Ok(()),
            false => Err(corrupt("an encoded block is damaged, or not of this plan")),
        }
    }
}

/// Encodes the blocks of a task on the calling thread, and returns the result. Blocks until it is
/// done. The machine must see the inputs under the paths that they have where the task was made.
///
/// # Errors
/// As [`write()`](crate::write) for the inputs of the task; [`ErrorKind::Changed`] if one changed
/// since it was planned; or `task` is of another version, or damaged.
pub fn encode_task(task: &[u8]) -> Result<Vec<u8>> {
    let damaged = |_| corrupt("the task is cut or damaged");
    let (version, _) = postcard::take_from_bytes::<&str>(task).map_err(damaged)?;
    if version != VERSION {
        let cause = format!("the task is of version {version}, not {VERSION}");
        return Err(Error::new(ErrorKind::InvalidArgument, cause));
    }
    let task = postcard::from_bytes::<Task<'_>>(task).map_err(damaged)?;
    let options = options_of(&task)?;
    let items = |block: &TaskBlock<'_>| block.parts.iter().map(TaskPart::item).collect();
    let items: Vec<Vec<Item>> = task.blocks.iter().map(items).collect::<Result<_>>()?;
    let free = FreeBuffers::default();
    let mut encoder = Encoder::new(&options, &free);
    let (mut blocks, mut raw_bytes) = (Vec::new(), 0);
    for (block, items) in task.blocks.iter().zip(&items) {
        let parts = items.iter().zip(&block.parts);
        let parts: Vec<Part<'_>> = parts
            .map(|(item, part)| Part {
                item,
                offset: part.offset,
                len: part.bytes as usize,
            })
            .collect();
        let bytes: u64 = parts.iter().map(|part| part.len as u64).sum();
        raw_bytes += bytes;
        if bytes == 0 || bytes > 1 << BLOCK_SHIFT_MAX || raw_bytes > TASK_RAW_BYTES_MAX {
            let cause = "a block of the task, or all, are longer than they may be";
            return Err(corrupt(cause));
        }
        blocks.push(encoder.encode(&parts, block.on_gpu)?);
    }
    let first = task.first;
    message(&Outcome { first, blocks })
}

fn options_of(task: &Task<'_>) -> Result<PackOptions<'static>> {
    let options = PackOptions {
        coding: match task.coding {
            TaskCoding::Auto(target) => Coding::Auto(target),
            TaskCoding::Fixed(codec) => Coding::Fixed(CodecId(codec)),
        },
        level: task.level,
        gpu_megabytes_per_second: task.gpu_megabytes_per_second,
        ..PackOptions::default()
    };
    check_options(&options)?;
    Ok(options)
}

/// The message to [`encode_task`].
#[derive(Serialize, Deserialize)]
struct Task<'a> {
    #[serde(borrow)]
    version: Cow<'a, str>,
    coding: TaskCoding,
    level: Option<i32>,
    gpu_megabytes_per_second: Option<f64>,
    /// The number of the first block.
    first: u32,
    #[serde(borrow)]
    blocks: Vec<TaskBlock<'a>>,
}

#[derive(Serialize, Deserialize)]
enum TaskCoding {
    Auto(Target),
    Fixed(u8),
}

#[derive(Serialize, Deserialize)]
struct TaskBlock<'a> {
    on_gpu: bool,
    #[serde(borrow)]
    parts: Vec<TaskPart<'a>>,
}

/// A part of an item.
#[derive(Serialize, Deserialize)]
struct TaskPart<'a> {
    #[serde(borrow, serialize_with = "as_bytes")]
    name: Cow<'a, [u8]>,
    item_bytes: u64,
    offset: u64,
    bytes: u32,
    #[serde(borrow)]
    content: TaskContent<'a>,
}

#[derive(Serialize, Deserialize)]
enum TaskContent<'a> {
    /// The path of a file, and when it was last modified.
    File(
        #[serde(borrow, serialize_with = "as_bytes")] Cow<'a, [u8]>,
        Time,
    ),
    /// The part's bytes, if they have no path.
    Bytes(#[serde(borrow, serialize_with = "as_bytes")] Cow<'a, [u8]>),
}

/// The message that [`encode_task`] returns.
#[derive(Serialize, Deserialize)]
struct Outcome<'a> {
    first: u32,
    #[serde(borrow)]
    blocks: Vec<Done<'a>>,
}

/// Serializes a slice of bytes as such: by default, serde writes the bytes one by one.
pub(super) fn as_bytes<S: Serializer>(bytes: &[u8], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_bytes(bytes)
}

fn corrupt(cause: &str) -> Error {
    Error::new(ErrorKind::Corrupt, cause)
}

fn message(content: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(content);
    bytes.map_err(|_| Error::new(ErrorKind::Limit, "a task is too large"))
}

impl<'a> TaskPart<'a> {
    fn of(part: &Part<'a>) -> Result<TaskPart<'a>> {
        let item = part.item;
        let content = match &item.content {
            Content::Below(_) | Content::File(_) => {
                let path = item.path();
                let absolute = std::path::absolute(&path)
                    .map_err(|error| Error::io(&path, "make absolute", error))?;
                let path = absolute.into_os_string().into_encoded_bytes();
                let modified = item.modified.expect("a file has it");
                TaskContent::File(Cow::Owned(path), modified)
            }
            Content::Range(..) | Content::Memory(..) => {
                let mut bytes = Vec::new();
                item.read(part.offset, part.len, &mut bytes)?;
                TaskContent::Bytes(Cow::Owned(bytes))
            }
        };
        Ok(TaskPart {
            name: Cow::Borrowed(&item.name),
            item_bytes: item.len,
            offset: part.offset,
            bytes: part.len as u32,
            content,
        })
    }

    /// Returns the item that the part belongs to.
    fn item(&self) -> Result<Item> {
        // A part that is not a subtree of the hash tree cannot be hashed.
        let bytes = u64::from(self.bytes);
        let unit = bytes.next_power_of_two().max(1024);
        let end = self.offset.checked_add(bytes);
        let is_inside = end.is_some_and(|end| end <= self.item_bytes);
        if bytes == 0 || !self.offset.is_multiple_of(unit) || !is_inside {
            return Err(corrupt("a part of the task is not one of an item"));
        }
        let (content, modified) = match &self.content {
            TaskContent::File(path, modified) => {
                let path = millstream_io::fs::names::os_str(path)
                    .map_err(|_| corrupt("a path of the task is not UTF-8"))?;
                (Content::File(Arc::from(Path::new(path))), Some(*modified))
            }
            TaskContent::Bytes(held) if held.len() as u64 == bytes => {
                (Content::Memory(Arc::from(&held[..]), self.offset), None)
            }
            TaskContent::Bytes(_) => return Err(corrupt("a part of the task is cut")),
        };
        Ok(Item {
            name: self.name.to_vec(),
            len: self.item_bytes,
            content,
            modified,
            executable: false,
            metadata: None,
        })
    }
}
