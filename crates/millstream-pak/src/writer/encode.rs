//! Encoding: threads turn the plan's units into blocks, which are written in order.
//!
//! A thread takes the next unit's number, reads its raw bytes, hashes and encodes them, and puts
//! the result into the window. The calling thread writes what comes next and moves the window; a
//! thread that is too far ahead waits. So memory is bounded by the window, and the file's bytes do
//! not depend on the order of threads.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use millstream::CodecId;
use millstream_codec::DictionaryEncoder;
use zerocopy::little_endian::{U16, U32, U64};

use super::block::{Encoded, encode_block};
use super::build::{Builder, Entry, Features};
use super::choose::{CostModel, Target};
use super::encoder::{BlockEncoder, FreeBuffers};
use super::parallel::thread_count;
use super::plan::{BlockKind, Part, Plan, Unit};
use super::window::Window;
use super::{Coding, PackOptions, PackReport, dictionary, tree};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BlockRecord, entry_flag};
use crate::limits::{PACK_AHEAD, PACK_BLOCKS_MAX};

/// A unit that is encoded.
pub(super) struct Done<'a> {
    pub(super) encoded: Encoded<'a>,
    pub(super) raw_bytes: u32,
    /// Hashes of the items of a shared block, or of this part of an item.
    pub(super) hashes: Vec<[u8; 32]>,
}

/// What prices candidates: for the target, if there is one.
pub(super) fn cost_model(options: &PackOptions<'_>) -> CostModel {
    CostModel::new(match options.coding {
        Coding::Auto(target) => target.recorded().expect("the options were checked"),
        Coding::Fixed(_) => Target::default(),
    })
}

/// Into a file, past the page cache or not.
pub(super) fn encode(
    plan: &Plan,
    options: &PackOptions<'_>,
    (file, past_cache): (&File, bool),
) -> Result<PackReport> {
    let place = (file, if past_cache { plan.raw_bytes } else { 0 });
    let threads = thread_count(options);
    let model = &cost_model(options);
    let ahead = (threads * PACK_AHEAD).min(PACK_BLOCKS_MAX);
    let window = Window::new(plan.units.len(), ahead);
    let made = dictionary::make(plan, options, model)?;
    let with = made.as_ref().map(|made| &made.encoder);
    let written = FreeBuffers::default();
    std::thread::scope(|scope| {
        let _stop = window.stop_at_end();
        for nth in 0..threads.min(plan.units.len()) {
            let builder = std::thread::Builder::new().name(format!("pack {nth}"));
            let spawned = builder.spawn_scoped(scope, || {
                let (mut encoder, mut raw) = (BlockEncoder::new(&written), Vec::new());
                while let Some(nth) = window.take() {
                    let unit = &plan.units[nth];
                    let worker = std::panic::AssertUnwindSafe(|| {
                        let how = (options, model, with);
                        let parts = (&plan.parts(unit)[..], plan.kind(unit));
                        encode_parts(parts, how, &mut encoder, &mut raw)
                    });
                    let done = std::panic::catch_unwind(worker)
                        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Io, "an encoder panicked")));
                    window.put(nth, done);
                }
            });
            match spawned {
                Ok(_) => {}
                Err(error) if nth == 0 => {
                    return Err(Error::io(Path::new(""), "start a thread", error));
                }
                // Those that run do its share.
                Err(_) => break,
            }
        }
        let dictionary = made.as_ref().map(|made| &made.bytes[..]);
        let next = |nth| window.get(nth);
        write_units(plan, options, (place, dictionary), (next, &written))
    })
}

/// Writes the blocks that `next` gives, in order, and the tables. Their buffers go to `written`.
pub(super) fn write_units<'a>(
    plan: &Plan,
    options: &PackOptions<'_>,
    (place, dictionary): ((&File, u64), Option<&[u8]>),
    (mut next, written): (impl FnMut(usize) -> Result<Done<'a>>, &FreeBuffers),
) -> Result<PackReport> {
    let mut report = PackReport {
        entries: plan.items.len() as u64,
        blocks: plan.units.len() as u64,
        raw_bytes: plan.raw_bytes,
        ..PackReport::default()
    };
    let dictionaries = dictionary.as_slice();
    let mut builder = Builder::new(place, report.entries, report.blocks, dictionaries)?;
    let mut contents: Vec<Option<[u8; 32]>> = vec![None; plan.items.len()];
    let mut parts: Vec<[u8; 32]> = Vec::new();
    let mut raw_done = 0;
    for (nth, unit) in plan.units.iter().enumerate() {
        let done = next(nth)?;
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
        if let Cow::Owned(buffer) = done.encoded.stored {
            written.put(buffer);
        }
        if options.progress.is_some_and(|progress| !progress(raw_done)) {
            return Err(Error::new(ErrorKind::Stopped, "packing was stopped"));
        }
    }
    let entries = entries(plan, &contents, &mut report)?;
    drop(contents);
    let features = Features {
        fold_case: options.fold_case,
        base_root: None,
        content_version: options.content_version,
        target: match options.coding {
            Coding::Auto(target) => Some(target),
            Coding::Fixed(_) => None,
        },
        sign: options.sign,
    };
    (report.root, report.file_bytes) = builder.finish(entries, &features)?;
    Ok(report)
}

fn entries<'a>(
    plan: &'a Plan,
    contents: &[Option<[u8; 32]>],
    report: &mut PackReport,
) -> Result<Vec<Entry<'a>>> {
    let empty = *blake3::hash(b"").as_bytes();
    let mut entries = Vec::with_capacity(plan.items.len());
    for (nth, planned) in plan.items.iter().enumerate() {
        if planned.item.len == 0 {
            planned.item.check_empty()?;
        }
        let original = match planned.same_as {
            Some((original, hash)) => {
                report.duplicates += 1;
                let original_hash = contents[original as usize];
                let stored = &plan.items[original as usize];
                if original_hash != Some(hash) {
                    return Err(stored.item.changed());
                }
                original as usize
            }
            None => nth,
        };
        let place = &plan.items[original];
        entries.push(Entry {
            name: Cow::Borrowed(&planned.item.name),
            raw_bytes: planned.item.len,
            first_block: place.first_unit,
            offset_in_block: place.offset_in_block,
            block_shift: place.block_shift,
            flags: if place.shared { entry_flag::SHARED } else { 0 },
            content: contents[original].unwrap_or(empty),
            metadata: planned.metadata.as_deref().map(Cow::Borrowed),
        });
    }
    Ok(entries)
}

fn record(encoded: &Encoded<'_>, raw_bytes: u32) -> BlockRecord {
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

/// How blocks are encoded: as the options say, by this cost model, shared ones with a dictionary.
type How<'a> = (
    &'a PackOptions<'a>,
    &'a CostModel,
    Option<&'a DictionaryEncoder>,
);

/// Encodes a block of these parts. What is read goes into `buffer`, unless it lies in memory as it
/// is.
pub(super) fn encode_parts<'a>(
    (parts, kind): (&[Part<'a>], BlockKind),
    (options, model, with): How<'_>,
    encoder: &mut BlockEncoder<'_>,
    buffer: &mut Vec<u8>,
) -> Result<Done<'a>> {
    buffer.clear();
    let in_memory = match parts {
        [one] => one.item.in_memory(one.offset, one.len),
        _ => None,
    };
    if in_memory.is_none() {
        for part in parts {
            part.item.read(part.offset, part.len, buffer)?;
        }
    }
    let raw = in_memory.unwrap_or(buffer);
    let raw_bytes = raw.len() as u32;
    let (mut hashes, mut rest) = (Vec::with_capacity(parts.len()), raw);
    for part in parts {
        let bytes;
        (bytes, rest) = rest.split_at(part.len);
        hashes.push(tree::block(bytes, part.offset, part.is_whole()));
    }
    let with = with.filter(|_| kind == BlockKind::Shared);
    let encoded = match encode_block((raw, kind), options, (model, with), encoder)? {
        Some(encoded) => encoded,
        None => {
            let stored = match in_memory {
                Some(raw) => Cow::Borrowed(raw),
                None => Cow::Owned(std::mem::replace(buffer, encoder.buffer())),
            };
            Encoded::new(CodecId::STORED, stored, None)
        }
    };
    Ok(Done {
        encoded,
        raw_bytes,
        hashes,
    })
}
