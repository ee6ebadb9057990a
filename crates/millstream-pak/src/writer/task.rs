//! Packing on several machines: one plans and writes, the others encode.
//!
//! ```text
//! PackPlan::new → task → (sent) → encode_task → (sent back) → PackPlan::write_file
//! ```
//!
//! A task says all that its blocks depend on: where their bytes are (or the bytes, if they are in
//! no file), how they are encoded, and the dictionary. So the encoding machine needs no plan, a
//! task may be run again anywhere, and the bytes of the package are those that one machine writes.
//! Paths are absolute: the machines see the inputs under one path.
//!
//! Both messages are a head in postcard's format, and behind it the bytes that it tells the lengths
//! of. Neither is trusted: what does not fit the plan, or the bytes that are there, is an error.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millstream::CodecId;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::block::Encoded;
use super::dictionary::{self, Made};
use super::encode::{Done, cost_model, encode_parts, write_units};
use super::encoder::{BlockEncoder, FreeBuffers};
use super::item::{self, Content, Item, Time};
use super::plan::{self, BlockKind, Part, Plan, Unit};
use super::{Coding, PackOptions, PackReport, Target, check_options, cook};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{BLOCK_SHIFT_MAX, TASK_RAW_BYTES_MAX};

/// Both machines must run the same version: the codecs and the cost model may differ in another.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A package that is planned: its entries and blocks are settled, and nothing is encoded yet.
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
    dictionary: Option<Made>,
}

impl<'a> PackPlan<'a> {
    /// Plans a package: cooks and describes the inputs, finds those that are the same, makes the
    /// dictionary. Blocks until it is done.
    ///
    /// # Errors
    /// As [`write()`](crate::write).
    pub fn new(items: Vec<Item>, options: PackOptions<'a>) -> Result<PackPlan<'a>> {
        check_options(&options)?;
        let plan = plan::plan(cook::cook(items, &options)?, &options)?;
        let dictionary = dictionary::make(&plan, &options, &cost_model(&options))?;
        Ok(PackPlan {
            plan,
            options,
            dictionary,
        })
    }

    /// Blocks, which are numbered from 0 on in the order of the file.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.plan.units.len() as u32
    }

    /// Raw bytes of some blocks.
    ///
    /// # Panics
    /// If the plan has no such blocks.
    #[must_use]
    pub fn raw_bytes(&self, blocks: Range<u32>) -> u64 {
        self.units(blocks).map(|unit| self.unit_bytes(unit)).sum()
    }

    /// All blocks, in ranges of at most so many raw bytes, or of one block. At most 256 MiB.
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

    /// What [`encode_task`] needs to encode some blocks.
    ///
    /// # Errors
    /// Inputs that were cooked cannot be read, or a path cannot be made absolute.
    ///
    /// # Panics
    /// If the plan has no such blocks.
    pub fn task(&self, blocks: Range<u32>) -> Result<Vec<u8>> {
        let first = blocks.start;
        let mut tail = Vec::new();
        let blocks = self.units(blocks).map(|unit| {
            let parts = self.plan.parts(unit);
            let parts = parts.iter().map(|part| part_head(part, &mut tail));
            Ok(TaskBlock {
                kind: self.plan.kind(unit),
                parts: parts.collect::<Result<_>>()?,
            })
        });
        let head = Task {
            version: Cow::Borrowed(VERSION),
            coding: match self.options.coding {
                Coding::Auto(target) => TaskCoding::Auto(target),
                Coding::Fixed(codec) => TaskCoding::Fixed(codec.0),
            },
            level: self.options.level,
            gpu_megabytes_per_second: self.options.gpu_megabytes_per_second,
            first,
            blocks: blocks.collect::<Result<_>>()?,
            dictionary_bytes: self.dictionary.as_ref().map(|made| made.bytes.len() as u32),
        };
        let dictionary = self.dictionary.as_ref().map(|made| &made.bytes[..]);
        message(&head, &[dictionary.unwrap_or_default(), &tail])
    }

    /// Writes the package of all blocks, encoded in ranges in their order, as
    /// [`write_file`](crate::write_file) does. Blocks until it is done.
    ///
    /// # Errors
    /// As [`write()`](crate::write); or `encoded` ends early ([`ErrorKind::Stopped`]), or holds
    /// other blocks than the next of this plan.
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
        let dictionary = self.dictionary.as_ref().map(|made| &made.bytes[..]);
        let written = FreeBuffers::default();
        item::replace(path.as_ref(), |file| {
            let how = ((file, self.plan.raw_bytes), dictionary);
            let needed = |nth| next(nth)?.ok_or_else(early);
            let report = write_units(&self.plan, &self.options, how, (needed, &written))?;
            match next(self.plan.units.len())? {
                Some(_) => Err(corrupt("more results than the plan has blocks for")),
                None => Ok(report),
            }
        })
    }

    /// The blocks of a result, which are the next of the plan.
    fn check(&self, next: usize, encoded: &[u8]) -> Result<Vec<Done<'static>>> {
        let (head, mut tail) = postcard::take_from_bytes::<Outcome>(encoded)
            .map_err(|_| corrupt("encoded blocks are cut or damaged"))?;
        if head.first as usize != next || head.blocks.is_empty() {
            return Err(corrupt("encoded blocks are not the next of the plan"));
        }
        let blocks = head.blocks.into_iter().enumerate().map(|(at, block)| {
            let unit = self.plan.units.get(next + at);
            let unit = unit.ok_or_else(|| corrupt("more blocks than the plan has"))?;
            let stored = split(&mut tail, block.stored_bytes)?;
            self.check_block(unit, block, stored)
        });
        blocks.collect()
    }

    fn check_block(
        &self,
        unit: &Unit,
        block: OutcomeBlock,
        stored: &[u8],
    ) -> Result<Done<'static>> {
        let codec = CodecId(block.codec);
        let raw_bytes = self.unit_bytes(unit);
        let kind = self.plan.kind(unit);
        let has_dictionary = self.dictionary.is_some() && kind == BlockKind::Shared;
        let on_gpu = [CodecId::STORED, CodecId::GDEFLATE];
        let fits = block.hashes.len() == self.plan.parts(unit).len()
            && (codec == CodecId::STORED || !millstream_codec::block_level_range(codec).is_empty())
            && (codec != CodecId::STORED || stored.len() as u64 == raw_bytes)
            && stored.len() as u64 <= raw_bytes
            && (kind != BlockKind::Gpu || on_gpu.contains(&codec))
            && (!block.dictionary || (has_dictionary && codec == CodecId::ZSTD));
        if !fits || block.checksum != xxh3_64(stored) {
            return Err(corrupt("an encoded block is damaged, or not of this plan"));
        }
        Ok(Done {
            encoded: Encoded {
                codec,
                stored: Cow::Owned(stored.to_vec()),
                checksum: block.checksum,
                dictionary: u16::from(block.dictionary),
            },
            raw_bytes: raw_bytes as u32,
            hashes: block.hashes,
        })
    }
}

/// Encodes the blocks of a task on the calling thread, which it keeps busy until they are done: on
/// any machine that sees the inputs under the paths that they have where the package is planned.
///
/// # Errors
/// As [`write()`](crate::write) for the inputs of the task; [`ErrorKind::Changed`] if one changed
/// since it was planned; or `task` is of another version, or damaged.
pub fn encode_task(task: &[u8]) -> Result<Vec<u8>> {
    let (task, mut tail) = postcard::take_from_bytes::<Task<'_>>(task)
        .map_err(|_| corrupt("the task is cut or damaged"))?;
    if task.version != VERSION {
        let cause = format!("the task is of version {}, not {VERSION}", task.version);
        return Err(Error::new(ErrorKind::InvalidArgument, cause));
    }
    let options = options_of(&task)?;
    let dictionary = match task.dictionary_bytes {
        Some(bytes) => Some(dictionary::ready(
            split(&mut tail, bytes)?.to_vec(),
            &options,
        )?),
        None => None,
    };
    let model = cost_model(&options);
    let how = (
        &options,
        &model,
        dictionary.as_ref().map(|made| &made.encoder),
    );
    let (mut blocks, mut stored, mut raw_bytes) = (Vec::new(), Vec::new(), 0);
    let written = FreeBuffers::default();
    let (mut encoder, mut buffer) = (BlockEncoder::new(&written), Vec::new());
    for block in &task.blocks {
        let read = |part: &TaskPart<'_>| item_of(part, &mut tail);
        let items: Vec<Item> = block.parts.iter().map(read).collect::<Result<_>>()?;
        let parts: Vec<Part<'_>> = items
            .iter()
            .zip(&block.parts)
            .map(|(item, part)| Part {
                item,
                offset: part.offset,
                len: part.bytes as usize,
            })
            .collect();
        let bytes: u64 = parts.iter().map(|part| part.len as u64).sum();
        raw_bytes += bytes;
        if bytes == 0 || bytes > 1 << BLOCK_SHIFT_MAX || raw_bytes > TASK_RAW_BYTES_MAX {
            return Err(corrupt(
                "a block of the task, or all, are longer than they may be",
            ));
        }
        let done = encode_parts((&parts, block.kind), how, &mut encoder, &mut buffer)?;
        stored.extend_from_slice(&done.encoded.stored);
        blocks.push(OutcomeBlock {
            codec: done.encoded.codec.0,
            dictionary: done.encoded.dictionary != 0,
            checksum: done.encoded.checksum,
            stored_bytes: done.encoded.stored.len() as u32,
            hashes: done.hashes,
        });
        if let Cow::Owned(buffer) = done.encoded.stored {
            encoder.keep(buffer);
        }
    }
    let first = task.first;
    message(&Outcome { first, blocks }, &[&stored])
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

/// The head of a task. Behind it lie the dictionary, and the bytes of parts that are in no file.
#[derive(Serialize, Deserialize)]
struct Task<'a> {
    #[serde(borrow)]
    version: Cow<'a, str>,
    coding: TaskCoding,
    level: Option<i32>,
    gpu_megabytes_per_second: Option<f64>,
    dictionary_bytes: Option<u32>,
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
    kind: BlockKind,
    #[serde(borrow)]
    parts: Vec<TaskPart<'a>>,
}

/// A part of an item.
#[derive(Serialize, Deserialize)]
struct TaskPart<'a> {
    #[serde(borrow)]
    name: Cow<'a, [u8]>,
    item_bytes: u64,
    offset: u64,
    bytes: u32,
    /// Where it is read; `None` if its bytes are in the task.
    file: Option<TaskFile<'a>>,
}

#[derive(Serialize, Deserialize)]
struct TaskFile<'a> {
    #[serde(borrow)]
    path: Cow<'a, [u8]>,
    modified: Time,
}

/// The head of what [`encode_task`] returns. Behind it lie the stored bytes of each block.
#[derive(Serialize, Deserialize)]
struct Outcome {
    first: u32,
    blocks: Vec<OutcomeBlock>,
}

#[derive(Serialize, Deserialize)]
struct OutcomeBlock {
    codec: u8,
    dictionary: bool,
    checksum: u64,
    stored_bytes: u32,
    hashes: Vec<[u8; 32]>,
}

fn corrupt(cause: &str) -> Error {
    Error::new(ErrorKind::Corrupt, cause)
}

fn message(head: &impl Serialize, tail: &[&[u8]]) -> Result<Vec<u8>> {
    let head = postcard::to_stdvec(head);
    let mut bytes = head.map_err(|_| Error::new(ErrorKind::Limit, "a task is too large"))?;
    for part in tail {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

/// Takes the next bytes of a message.
fn split<'a>(tail: &mut &'a [u8], bytes: u32) -> Result<&'a [u8]> {
    let (front, rest) = tail
        .split_at_checked(bytes as usize)
        .ok_or_else(|| corrupt("a task, or what it gave, is cut"))?;
    *tail = rest;
    Ok(front)
}

/// A part as a task says it; bytes that are in no file are appended to `tail`.
fn part_head<'a>(part: &Part<'a>, tail: &mut Vec<u8>) -> Result<TaskPart<'a>> {
    let item = part.item;
    let file = match &item.content {
        Content::Below(_) | Content::File(_) => {
            let path = item.path();
            let absolute = std::path::absolute(&path)
                .map_err(|error| Error::io(&path, "make absolute", error))?;
            Some(TaskFile {
                path: Cow::Owned(absolute.into_os_string().into_encoded_bytes()),
                modified: item.modified.expect("a file has it"),
            })
        }
        Content::Range(..) | Content::Memory(..) => {
            item.read(part.offset, part.len, tail)?;
            None
        }
    };
    Ok(TaskPart {
        name: Cow::Borrowed(&item.name),
        item_bytes: item.len,
        offset: part.offset,
        bytes: part.len as u32,
        file,
    })
}

/// The item that a part of a task is of.
fn item_of(part: &TaskPart<'_>, tail: &mut &[u8]) -> Result<Item> {
    // Where the tree of hashes has no such part, it cannot be hashed.
    let bytes = u64::from(part.bytes);
    let unit = bytes.next_power_of_two().max(1024);
    let end = part.offset.checked_add(bytes);
    if bytes == 0
        || !part.offset.is_multiple_of(unit)
        || end.is_none_or(|end| end > part.item_bytes)
    {
        return Err(corrupt("a part of the task is not one of an item"));
    }
    let (content, modified) = match &part.file {
        Some(file) => {
            let path = millstream_io::fs::names::os_str(&file.path)
                .map_err(|_| corrupt("a path of the task is not UTF-8"))?;
            (
                Content::File(Arc::from(Path::new(path))),
                Some(file.modified),
            )
        }
        None => {
            let bytes = split(tail, part.bytes)?;
            (Content::Memory(Arc::from(bytes), part.offset), None)
        }
    };
    Ok(Item {
        name: part.name.to_vec(),
        len: part.item_bytes,
        content,
        modified,
        metadata: None,
    })
}
