//! Encoding: threads turn the plan's units into blocks, which are written in order.
//!
//! A thread takes the next unit's number, reads its raw bytes, hashes and encodes them, and puts
//! the result into the window. The calling thread writes what comes next and moves the window; a
//! thread that is too far ahead waits. So memory is bounded by the window, and the file's bytes do
//! not depend on who was first.

use std::fs::File;
use std::path::Path;

use millstream::CodecId;
use millstream_codec::{DictionaryEncoder, Scratch};
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U16, U32, U64};

use super::build::{Builder, Entry, Features};
use super::choose::{AUTO_ZSTD_LEVEL, CANDIDATES, Judge, Target};
use super::plan::{Plan, Unit, thread_count};
use super::window::Window;
use super::{Coding, PackOptions, PackReport, dictionary, tree};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BlockRecord, entry_flag};
use crate::limits::{PACK_AHEAD, PACK_BLOCKS_MAX};

/// A unit that is encoded.
struct Done {
    encoded: Encoded,
    raw_bytes: u32,
    /// Hashes of the items of a shared block, or of this part of an item.
    hashes: Vec<[u8; 32]>,
}

/// A block as one codec stores it.
pub(super) struct Encoded {
    pub(super) codec: CodecId,
    pub(super) stored: Vec<u8>,
    checksum: u64,
    /// The number of its dictionary; 0 for none.
    dictionary: u16,
}

impl Encoded {
    fn new(codec: CodecId, stored: Vec<u8>, with: Option<&DictionaryEncoder>) -> Encoded {
        let named = with.is_some() && codec == CodecId::ZSTD;
        Encoded {
            codec,
            checksum: xxh3_64(&stored),
            stored,
            dictionary: u16::from(named),
        }
    }
}

pub(super) fn encode(plan: &Plan, options: &PackOptions<'_>, file: &File) -> Result<PackReport> {
    let threads = thread_count(options);
    let judge = Judge::new(match options.coding {
        Coding::Auto(target) => target,
        Coding::Fixed(_) => Target::default(),
    });
    let ahead = (threads * PACK_AHEAD).min(PACK_BLOCKS_MAX);
    let window = Window::new(plan.units.len(), ahead);
    let made = dictionary::make(plan, options, &judge)?;
    let with = made.as_ref().map(|made| &made.encoder);
    std::thread::scope(|scope| {
        let _stop = window.stop_at_end();
        for nth in 0..threads.min(plan.units.len()) {
            let builder = std::thread::Builder::new().name(format!("pack {nth}"));
            let spawned = builder.spawn_scoped(scope, || {
                let mut scratch = Scratch::default();
                while let Some(nth) = window.take() {
                    let unit = &plan.units[nth];
                    let worker = std::panic::AssertUnwindSafe(|| {
                        encode_unit(plan, unit, options, (&judge, with), &mut scratch)
                    });
                    let done = std::panic::catch_unwind(worker)
                        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "an encoder panicked")));
                    window.put(nth, done);
                }
            });
            spawned.map_err(|error| Error::io(Path::new(""), "start a thread", error))?;
        }
        let dictionary = made.as_ref().map(|made| &made.bytes[..]);
        write_units(plan, options, (file, dictionary), &window)
    })
}

fn write_units(
    plan: &Plan,
    options: &PackOptions<'_>,
    (file, dictionary): (&File, Option<&[u8]>),
    window: &Window<Done>,
) -> Result<PackReport> {
    let mut report = PackReport {
        entries: plan.items.len() as u64,
        blocks: plan.units.len() as u64,
        raw_bytes: plan.raw_bytes,
        ..PackReport::default()
    };
    let dictionaries = dictionary.as_slice();
    let mut builder = Builder::new(file, report.entries, report.blocks, dictionaries)?;
    let mut contents: Vec<Option<[u8; 32]>> = vec![None; plan.items.len()];
    let mut parts: Vec<[u8; 32]> = Vec::new();
    let mut raw_done = 0;
    for (nth, unit) in plan.units.iter().enumerate() {
        let done = window.get(nth)?;
        let encoded = &done.encoded;
        let index = builder.push(record(encoded, done.raw_bytes), &encoded.stored)?;
        assert_eq!(index as usize, nth, "a block for each unit");
        report.blocks_by_codec[usize::from(encoded.codec.0)] += 1;
        report.blocks_with_dictionary += u64::from(encoded.dictionary != 0);
        match unit {
            Unit::Shared(items) => {
                for (&item, hash) in items.iter().zip(&done.hashes) {
                    contents[item as usize] = Some(*hash);
                }
            }
            Unit::Part { item, nth } => {
                parts.push(done.hashes[0]);
                if nth + 1 == plan.items[*item as usize].unit_count {
                    contents[*item as usize] = Some(tree::root(&parts));
                    parts.clear();
                }
            }
        }
        raw_done += u64::from(done.raw_bytes);
        if options.progress.is_some_and(|progress| !progress(raw_done)) {
            return Err(Error::new(ErrorKind::Stopped, "packing was stopped"));
        }
    }
    let entries = entries(plan, &contents, &mut report)?;
    let features = Features {
        fold_case: options.fold_case,
        base_root: None,
        sign: options.sign,
    };
    (report.root, report.file_bytes) = builder.finish(entries, &features)?;
    Ok(report)
}

fn entries(
    plan: &Plan,
    contents: &[Option<[u8; 32]>],
    report: &mut PackReport,
) -> Result<Vec<Entry>> {
    let empty = *blake3::hash(b"").as_bytes();
    let mut entries = Vec::with_capacity(plan.items.len());
    for (nth, planned) in plan.items.iter().enumerate() {
        let original = match planned.same_as {
            Some((original, hash)) => {
                report.duplicates += 1;
                let original_hash = contents[original as usize];
                let stored = &plan.items[original as usize];
                if original_hash != Some(hash) {
                    return Err(stored.item.changed(Path::new("")));
                }
                original as usize
            }
            None => nth,
        };
        let place = &plan.items[original];
        entries.push(Entry {
            name: planned.item.name.clone(),
            raw_bytes: planned.item.len,
            first_block: place.first_unit,
            offset_in_block: place.offset_in_block,
            block_shift: place.block_shift,
            flags: if place.shared { entry_flag::SHARED } else { 0 },
            content: contents[original].unwrap_or(empty),
            metadata: planned.metadata.clone(),
        });
    }
    Ok(entries)
}

fn record(encoded: &Encoded, raw_bytes: u32) -> BlockRecord {
    let gdeflate = encoded.codec == CodecId::GDEFLATE;
    BlockRecord {
        offset: U64::new(0),
        stored_bytes: U32::new(encoded.stored.len() as u32),
        raw_bytes: U32::new(raw_bytes),
        checksum: U64::new(encoded.checksum),
        codec: encoded.codec.0,
        flags: 0,
        dictionary: U16::new(encoded.dictionary),
        tile_bytes: U32::new(if gdeflate { 65_536 } else { 0 }),
    }
}

fn encode_unit(
    plan: &Plan,
    unit: &Unit,
    options: &PackOptions<'_>,
    (judge, with): (&Judge, Option<&DictionaryEncoder>),
    scratch: &mut Scratch,
) -> Result<Done> {
    let mut raw = Vec::new();
    let mut hashes = Vec::new();
    match unit {
        Unit::Shared(items) => {
            let mut start = 0;
            for len in read_shared(plan, items, &mut raw)? {
                hashes.push(tree::block(&raw[start..start + len], 0, true));
                start += len;
            }
        }
        Unit::Part { item, nth } => {
            let planned = &plan.items[*item as usize];
            let size = 1u64 << planned.block_shift;
            let offset = u64::from(*nth) * size;
            let len = (planned.item.len - offset).min(size);
            planned.item.read(offset, len as usize, &mut raw)?;
            hashes.push(tree::block(&raw, offset, planned.unit_count == 1));
        }
    }
    let raw_bytes = raw.len() as u32;
    let with = with.filter(|_| matches!(unit, Unit::Shared(_)));
    Ok(Done {
        encoded: encode_block(raw, options, (judge, with), scratch)?,
        raw_bytes,
        hashes,
    })
}

/// Appends the items of a shared block; the length of each.
pub(super) fn read_shared(plan: &Plan, items: &[u32], raw: &mut Vec<u8>) -> Result<Vec<usize>> {
    let read = |&nth: &u32| {
        let item = &plan.items[nth as usize].item;
        item.read(0, item.len as usize, raw)?;
        Ok(item.len as usize)
    };
    items.iter().map(read).collect()
}

pub(super) fn encode_block(
    raw: Vec<u8>,
    options: &PackOptions<'_>,
    (judge, with): (&Judge, Option<&DictionaryEncoder>),
    scratch: &mut Scratch,
) -> Result<Encoded> {
    let mut encode = |codec, level| {
        let mut stored = Vec::new();
        let encoded = match with.filter(|_| codec == CodecId::ZSTD) {
            Some(with) => millstream_codec::encode_block_with(with, scratch, &raw, &mut stored),
            None => millstream_codec::encode_block(codec, level, scratch, &raw, &mut stored),
        };
        let failed = |error: millstream_codec::CodecError| {
            let cause = format!("a block cannot be encoded: {error}");
            Error::new(ErrorKind::Limit, cause)
        };
        encoded.map(|()| stored).map_err(failed)
    };
    let default = millstream_codec::default_level;
    match options.coding {
        Coding::Fixed(CodecId::STORED) => {}
        Coding::Fixed(codec) => {
            let stored = encode(codec, options.level.unwrap_or(default(codec)))?;
            if stored.len() < raw.len() {
                return Ok(Encoded::new(codec, stored, with));
            }
        }
        Coding::Auto(_) => {
            let mut candidates = Vec::new();
            for codec in CANDIDATES {
                let levels = millstream_codec::block_level_range(codec);
                if levels.is_empty() {
                    continue;
                }
                let level = match codec {
                    CodecId::ZSTD if with.is_none() => {
                        // What the fastest level does not shrink is not worth a slow one.
                        let quick = encode(codec, 1)?;
                        if quick.len() >= raw.len() - raw.len() / 64 {
                            continue;
                        }
                        options.level.unwrap_or(AUTO_ZSTD_LEVEL)
                    }
                    codec => default(codec),
                };
                let stored = encode(codec, level.clamp(*levels.start(), *levels.end()))?;
                if stored.len() < raw.len() {
                    candidates.push((codec, stored));
                }
            }
            let mut sizes = vec![(CodecId::STORED, raw.len())];
            sizes.extend(
                candidates
                    .iter()
                    .map(|(codec, stored)| (*codec, stored.len())),
            );
            if let Some(nth) = judge.choose(raw.len(), &sizes).checked_sub(1) {
                let (codec, stored) = candidates.swap_remove(nth);
                return Ok(Encoded::new(codec, stored, with));
            }
        }
    }
    Ok(Encoded::new(CodecId::STORED, raw, None))
}
