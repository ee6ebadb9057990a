//! Encoding: threads turn the plan's units into blocks, which are written in order.
//!
//! The calling thread sends the numbers of units to the encoding threads, at most a fixed number
//! ahead of the one that it writes, and waits for the result of each in turn. So memory is bounded,
//! and the file's bytes do not depend on the order of threads.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use millstream::CodecId;
use zerocopy::little_endian::{U16, U32, U64};

use super::build::{Builder, Entry, Features};
use super::encoder::{Done, Encoder, FreeBuffers};
use super::parallel::thread_count;
use super::plan::{Plan, Unit};
use super::{Coding, PackOptions, PackReport, tree};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{BlockRecord, entry_flag};
use crate::limits::{PACK_AHEAD, PACK_BLOCKS_MAX};

/// Encodes a plan into a file; past the page cache if the flag is set and the package is long.
pub(super) fn encode(
    plan: &Plan,
    options: &PackOptions<'_>,
    (file, past_cache): (&File, bool),
) -> Result<PackReport> {
    let threads = thread_count(options).min(plan.units.len());
    let ahead = (threads * PACK_AHEAD).min(PACK_BLOCKS_MAX);
    let free = FreeBuffers::default();
    let over = AtomicBool::new(false);
    let (numbers, taken) = mpsc::channel::<(usize, mpsc::SyncSender<Result<Done<'_>>>)>();
    let taken = Mutex::new(taken);
    std::thread::scope(|scope| {
        for nth in 0..threads {
            let builder = std::thread::Builder::new().name(format!("pack {nth}"));
            let spawned = builder.spawn_scoped(scope, || {
                let mut encoder = Encoder::new(options, &free);
                let next = || taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok((nth, result)) = next() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let unit = &plan.units[nth];
                    let work = || encoder.encode(&plan.parts(unit), plan.on_gpu(unit));
                    // After a panic, the writing thread sees that the channel is closed.
                    if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
                        let _ = result.send(done);
                    }
                }
            });
            match spawned {
                Ok(_) => {}
                Err(error) if nth == 0 => {
                    return Err(Error::io(Path::new(""), "start a thread", error));
                }
                // The threads that run do its share.
                Err(_) => break,
            }
        }
        let (mut units, mut results) = (0..plan.units.len(), VecDeque::new());
        let next = |_| {
            while results.len() < ahead
                && let Some(nth) = units.next()
            {
                let (sender, result) = mpsc::sync_channel(1);
                results.push_back(result);
                let _ = numbers.send((nth, sender));
            }
            let panicked = |_| Err(Error::new(ErrorKind::Io, "an encoder panicked"));
            let result = results.pop_front().expect("a unit is written once");
            result.recv().unwrap_or_else(panicked)
        };
        let place = (file, if past_cache { plan.raw_bytes } else { 0 });
        let written = write_units(plan, options, place, (next, &free));
        over.store(true, Ordering::Relaxed);
        drop(numbers);
        written
    })
}

/// Writes the blocks that `next` returns, in order, and the tables. Their buffers become free.
pub(super) fn write_units<'a>(
    plan: &Plan,
    options: &PackOptions<'_>,
    place: (&File, u64),
    (mut next, free): (impl FnMut(usize) -> Result<Done<'a>>, &FreeBuffers),
) -> Result<PackReport> {
    let mut report = PackReport {
        entries: plan.items.len() as u64,
        blocks: plan.units.len() as u64,
        raw_bytes: plan.raw_bytes,
        ..PackReport::default()
    };
    let mut builder = Builder::new(place, report.entries, report.blocks)?;
    let mut contents: Vec<Option<[u8; 32]>> = vec![None; plan.items.len()];
    let mut parts: Vec<[u8; 32]> = Vec::new();
    let mut raw_done = 0;
    for (nth, unit) in plan.units.iter().enumerate() {
        let done = next(nth)?;
        builder.push(record(&done), &done.stored)?;
        report.blocks_by_codec[usize::from(done.codec)] += 1;
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
        if let Cow::Owned(buffer) = done.stored {
            free.put(buffer);
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
            name: &planned.item.name,
            raw_bytes: planned.item.len,
            first_block: place.first_unit,
            offset_in_block: place.offset_in_block,
            block_shift: place.block_shift,
            flags: if place.shared { entry_flag::SHARED } else { 0 }
                | if planned.item.executable {
                    entry_flag::EXECUTABLE
                } else {
                    0
                },
            content: contents[original].unwrap_or(empty),
            metadata: planned.metadata.as_deref(),
        });
    }
    Ok(entries)
}

fn record(done: &Done<'_>) -> BlockRecord {
    let gdeflate = done.codec == CodecId::GDEFLATE.0;
    BlockRecord {
        offset: U64::new(0),
        stored_bytes: U32::new(done.stored.len() as u32),
        raw_bytes: U32::new(done.raw_bytes),
        checksum: U64::new(done.checksum),
        codec: done.codec,
        flags: 0,
        reserved: U16::new(0),
        tile_bytes: U32::new(if gdeflate { 65_536 } else { 0 }),
    }
}
