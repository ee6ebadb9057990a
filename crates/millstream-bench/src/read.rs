//! Workload `read`: one big file into memory, as fast as possible, stored and encoded, cold, and
//! under throttles.
//!
//! Everyone opens the file, delivers all raw bytes to the destination and closes it, within the
//! time that counts. Single streams (zlib, zstd, lz4) are decoded by all rivals with the same
//! decoder, on the reading thread, as the study did; `blocks-threads` shows what independent
//! blocks and a thread per core make of the same data.

use millstream::{Access, BlockTable, Decode, FileOptions, Read, Storage};
use millstream_codec::{Scratch, decode_block};
use xxhash_rust::xxh3::xxh3_64;

use crate::case::{Case, Contender, Work};
use crate::cold;
use crate::corpus::{CorpusFile, Form};
use crate::error::{Context, Error, Result};
use crate::files::DIRECT_ALIGNMENT;
use crate::lend::Loan;
use crate::limits;
use crate::memory::Destination;
use crate::rows::{Metric, Params, Row};
use crate::session::Session;
use crate::setup::{Setup, queue_for};
use crate::throttle::Throttle;
use crate::together;

pub(crate) mod blocks;
pub(crate) mod mapped;
pub(crate) mod plain;
pub(crate) mod rings;
pub(crate) mod sink;

const WORKLOAD: &str = "read";
/// Raw bytes by the wall.
const RATE: Metric = Metric::higher("rate", "MB/s");
/// Processor time of the whole process.
const CPU: Metric = Metric::lower("cpu", "ms/100MB");

/// Blocks and depths of the bare ring: around the best that was found on devices of NVMe class.
const RING_SHAPES: [(usize, usize); 4] =
    [(256 << 10, 8), (512 << 10, 4), (512 << 10, 8), (1 << 20, 8)];

/// The forms that the study's rivals read, each with forms of independent blocks for those that
/// use them: with a table, and as frames of one stream.
const FORMS: [(Form, &[Form]); 4] = [
    (Form::Stored, &[]),
    (Form::Zlib, &[Form::ZlibBlocks]),
    (Form::Zstd, &[Form::ZstdBlocks]),
    (Form::Lz4, &[Form::Lz4Blocks, Form::Lz4Frame]),
];

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let quick = session.options.quick;
    let mut extents = match quick {
        true => vec![(limits::QUICK_BIG_BYTES, None)],
        false => vec![(limits::BIG_BYTES, None), (limits::HUGE_BYTES, None)],
    };
    let (usual, slow) = (extents[0].0, limits::SLOW_THROTTLE_MBPS);
    let len_at = |rate: f64| {
        if rate < slow {
            limits::SLOW_BYTES
        } else {
            usual
        }
    };
    let rates = session.options.throttle.iter();
    extents.extend(rates.map(|&rate| (len_at(rate), Some(rate))));
    for (len, rate) in extents {
        let mut destination = Destination::new(len as usize + DIRECT_ALIGNMENT as usize)?;
        for (stream, others) in FORMS {
            let state = rate.map_or("cold".into(), |rate| format!("{rate} MB/s"));
            let name = format!("{} {state} {}", size_name(len), stream.name());
            let Some(mut case) = session.begin(WORKLOAD, name) else {
                continue;
            };
            if rate.is_some() || (len == limits::HUGE_BYTES && stream != Form::Stored) {
                // A run takes seconds then, and its spread is small.
                case.runs = case.runs.min(limits::THROTTLED_RUNS_MAX);
            }
            session.say(&format!("corpus: {} {}", size_name(len), stream.name()));
            let file = session.corpus.big(len, stream)?;
            let others = others.iter().map(|form| session.corpus.big(len, *form));
            let others = others.collect::<Result<Vec<_>>>()?;
            one(session, case, &file, &others, rate, &mut destination)?;
        }
    }
    Ok(())
}

/// A size as a case names it.
fn size_name(len: u64) -> String {
    match len.is_multiple_of(1 << 30) {
        true => format!("{}GiB", len >> 30),
        false => format!("{}MB", len / 1_000_000),
    }
}

fn one<'a>(
    session: &mut Session<'_>,
    mut case: Case<'a>,
    file: &'a CorpusFile,
    others: &[CorpusFile],
    rate: Option<f64>,
    destination: &mut Destination,
) -> Result<()> {
    add_contenders(&mut case, file, others);
    // A throttled trial would take seconds, and the rivals' depths hardly matter then.
    if file.form == Form::Stored && rate.is_none() {
        session.peers.read(&mut case, file);
    }
    let paths: Vec<_> = others
        .iter()
        .chain([file])
        .map(|it| it.path.clone())
        .collect();
    let make_cold = move || cold::drop_all(&paths);
    // Written just now, perhaps: what is still dirty must not be written back under a throttle.
    make_cold()?;
    case.prepare(make_cold);
    case.check(file.raw_len as usize, |bytes, work| {
        check(file, bytes, work)
    });
    case.figures(|span, work| {
        let megabytes = work.bytes as f64 / 1e6;
        let cpu = span.cpu * 1e3 / megabytes * 100.0;
        vec![(RATE, megabytes / span.wall), (CPU, cpu)]
    });
    case.with_limit();
    case.warm_up = rate.is_none();
    let Some(rate) = rate else {
        return session.run(case, destination).map(drop);
    };
    let (name, runs) = (case.name.clone(), case.runs);
    match Throttle::new(session.corpus.folder(), (rate * 1e6) as u64) {
        Ok(throttle) => {
            session.run(case, destination)?;
            drop(throttle);
            let row = ideal(&name, file, others.first(), rate, runs)?;
            session.keep(vec![row])
        }
        Err(error) => session.skip(WORKLOAD, &name, "throttle", &error),
    }
}

/// Everyone who takes part in a case.
fn add_contenders(case: &mut Case<'_>, file: &CorpusFile, others: &[CorpusFile]) {
    let is_stored = file.form == Form::Stored;
    case.push(plain::stdio(file));
    case.push(plain::read_call(file));
    case.push(mapped::copied("map-windows", file, mapped::WINDOW_BYTES));
    case.push(mapped::copied("map-copy", file, file.stored_len as usize));
    if is_stored {
        case.push(mapped::touched(file));
    }
    case.try_push("async-8", rings::outstanding(file));
    if is_stored {
        for (block, depth) in RING_SHAPES {
            let ring = rings::straight(&file.path, file.stored_len, block, depth);
            case.try_push("ring", ring);
        }
    }
    let direct = Setup {
        access: Access::Direct,
        ..Setup::default()
    };
    let buffered = Setup {
        access: Access::Buffered,
        ..Setup::default()
    };
    case.push(whole_file("millstream", file, Setup::default()));
    case.push(whole_file("millstream-threads", file, Setup::on_threads()));
    if is_stored {
        case.push(whole_file("millstream-direct", file, direct));
        case.push(whole_file("millstream-buffered", file, buffered));
    }
    for other in others {
        if other.blocks.is_empty() {
            case.push(whole_file("millstream-frame", other, Setup::default()));
            continue;
        }
        case.push(blocks::threads(other));
        case.push(whole_file("millstream-blocks", other, Setup::default()));
        if other.form == Form::ZstdBlocks {
            // The same file without its table: frames of one stream, found while they arrive.
            let mut units = other.clone();
            units.blocks.clear();
            case.push(whole_file("millstream-units", &units, Setup::default()));
        }
    }
}

/// One request for the whole file.
fn whole_file(name: &str, file: &CorpusFile, setup: Setup) -> Contender {
    let (file, codec) = (file.clone(), file.form.codec());
    let form = file.form.name();
    let mut table = BlockTable::new();
    for block in &file.blocks {
        let stored = block.stored_offset..block.stored_offset + u64::from(block.stored_len);
        table.push(codec, stored, block.raw_len);
    }
    let decode = match file.form {
        _ if !file.blocks.is_empty() => Some(Decode::table(table)),
        Form::Stored => None,
        _ => Some(Decode::codec(codec).raw_len(file.raw_len)),
    };
    let run = move |storage: &mut Storage, destination: &mut Destination| {
        let raw_len = file.raw_len as usize;
        let loan = Loan::new(&mut destination[..raw_len], vec![queue_for(storage, 1)?]);
        let mut request = Read::whole(storage.open(&file.path, FileOptions::default()));
        if let Some(decode) = &decode {
            request = request.decode(decode.clone());
        }
        loan.batch(0).detach(request, 0..raw_len)?;
        loan.finish()?;
        Ok(Work::of(file.raw_len, 1))
    };
    Contender::prepared(name, move || setup.storage(), run).with("form", form)
}

fn check(file: &CorpusFile, bytes: &[u8], work: &Work) -> Result<()> {
    let right = work.bytes == file.raw_len
        && match work.digest {
            Some(sum) => sum == file.raw_word_sum,
            None => xxh3_64(bytes) == file.raw_xxh3,
        };
    if right {
        return Ok(());
    }
    let (count, path) = (work.bytes, file.path.display());
    Err(Error::new(format!(
        "{count} bytes that do not hash as {path} does"
    )))
}

/// What a throttled case could reach at best: the device's rate with the encoding's gain, or the
/// codec on all cores, in memory, whichever is less.
fn ideal(
    case: &str,
    file: &CorpusFile,
    blocks: Option<&CorpusFile>,
    device_rate: f64,
    runs: usize,
) -> Result<Row> {
    let from_device = device_rate * file.raw_len as f64 / file.stored_len as f64;
    let mut samples = vec![from_device; runs];
    if let Some(blocks) = blocks {
        for sample in &mut samples {
            *sample = codec_rate(blocks)?.min(from_device);
        }
    }
    let params = Params::from([("device_times_gain".into(), from_device.into())]);
    Ok(Row::figures(WORKLOAD, case, "ideal", RATE, samples, params))
}

/// MB/s of raw bytes when every core decodes blocks out of memory.
fn codec_rate(file: &CorpusFile) -> Result<f64> {
    let stored = std::fs::read(&file.path).on("read", &file.path)?;
    let state = || (Scratch::default(), vec![0; limits::CODEC_BLOCK_BYTES]);
    let span = together::each(
        together::cores(),
        &file.blocks,
        state,
        |(scratch, raw), span| {
            let at = span.stored_offset as usize;
            let block = &stored[at..at + span.stored_len as usize];
            decode_block(file.form.codec(), scratch, block, raw)?;
            Ok(())
        },
    )?;
    Ok(file.raw_len as f64 / 1e6 / span.wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;

    /// Not a multiple of any block, so that every contender meets its tail.
    const LEN: u64 = 3_000_001;

    #[test]
    fn every_contender_delivers_every_byte_and_none_that_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let mut destination = Destination::new(LEN as usize + DIRECT_ALIGNMENT as usize).unwrap();
        for (stream, others) in FORMS {
            let file = corpus.big(LEN, stream).unwrap();
            let others = others.iter().map(|form| corpus.big(LEN, *form).unwrap());
            let others: Vec<CorpusFile> = others.collect();
            for damaged in [false, true] {
                for file in others.iter().chain([&file]).filter(|_| damaged) {
                    let mut bytes = std::fs::read(&file.path).unwrap();
                    let middle = bytes.len() / 2;
                    bytes[middle..middle + 64].fill(0x55);
                    std::fs::write(&file.path, bytes).unwrap();
                }
                let mut case = Case::new(WORKLOAD, "test", 1);
                add_contenders(&mut case, &file, &others);
                println!("SKIP: {:?}", case.skipped);
                assert!(case.contenders.len() > 6);
                for contender in &mut case.contenders {
                    destination.fill(0xA5);
                    (contender.prepare)().unwrap();
                    let work = (contender.run)(&mut destination);
                    let raw = &destination[..LEN as usize];
                    let result = work.and_then(|work| check(&file, raw, &work));
                    let (name, form) = (&contender.name, stream.name());
                    assert_eq!(result.is_err(), damaged, "{name} of {form}: {result:?}");
                }
            }
        }
    }
}
