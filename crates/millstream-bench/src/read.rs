//! Workload `read`: one big file into memory, as fast as possible, stored and encoded, cold, and
//! under throttles.
//!
//! Everyone opens the file, delivers all raw bytes to the destination and closes it, within the
//! time that counts. Single streams (zlib, zstd, lz4) are decoded by all rivals with the same
//! decoder, on the reading thread, as the study did; `blocks-threads` shows what independent
//! blocks and a thread per core make of the same data.

use millstream::{BlockTable, Decode, FileOptions, Read, Storage};
use millstream_codec::{Scratch, decode_block};

use crate::case::{Case, Method, Work, fresh};
use crate::cases::{Bytes, Instance};
use crate::corpus::{BLOCK_BYTES, Corpus, CorpusFile, Form};
use crate::error::{Context, Result, ensure};
use crate::files::{DIRECT_ALIGNMENT, drop_all};
use crate::limits::SLOW_THROTTLE_MBPS;
use crate::memory::Destination;
use crate::metric::Metric;
use crate::ours::{Setup, queue_for, serve};
use crate::peers;
use crate::rows::{Params, figures};
use crate::session::Session;
use crate::threads;
use crate::throttle::Throttle;

pub(crate) mod rings;
pub(crate) mod rivals;
pub(crate) mod sink;

use rings::Straight;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut cases = session.cases("read", "cold");
    let rates = |slow: bool| {
        let rates = session.options.throttle.iter();
        let rates = rates.filter(move |rate| (**rate < SLOW_THROTTLE_MBPS) == slow);
        rates.map(f64::to_string)
    };
    // A slow disk reads a shorter file: 8 MB take 3.5 s at 2.4 MB/s.
    cases.extend(session.cases_with("read", "slow", "rate", rates(true)));
    cases.extend(session.cases_with("read", "throttled", "rate", rates(false)));
    for case in cases {
        one(session, &case)?;
    }
    Ok(())
}

/// The file of a case, and its forms of independent blocks: with a table, and as frames of one
/// stream.
struct Files {
    file: CorpusFile,
    blocks: Option<CorpusFile>,
    frame: Option<CorpusFile>,
}

impl Files {
    fn of(corpus: &Corpus, len: u64, form: Form) -> Result<Files> {
        let (blocks, frame) = match form {
            Form::Zlib => (Some(Form::ZlibBlocks), None),
            Form::Zstd => (Some(Form::ZstdBlocks), None),
            Form::Lz4 => (Some(Form::Lz4Blocks), Some(Form::Lz4Frame)),
            _ => (None, None),
        };
        let of = |form: Option<Form>| form.map(|form| corpus.big(len, form)).transpose();
        Ok(Files {
            file: corpus.big(len, form)?,
            blocks: of(blocks)?,
            frame: of(frame)?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &CorpusFile> {
        [&self.blocks, &self.frame]
            .into_iter()
            .flatten()
            .chain([&self.file])
    }
}

fn one(session: &mut Session<'_>, instance: &Instance) -> Result<()> {
    let (size, form): (Bytes, Form) = (instance.get("size"), instance.get("form"));
    // MB/s of a throttle.
    let rate: Option<String> = instance.find("rate");
    let mut destination = Destination::new(size.len() + DIRECT_ALIGNMENT as usize)?;
    session.say(&format!("corpus: {}", instance.name));
    let files = Files::of(&session.corpus, size.0, form)?;
    let mut case = session.begin(instance);
    for name in instance.contenders() {
        add(&mut case, name, &files);
    }
    // A throttled trial would take seconds, and the rivals' depths hardly matter then.
    if form == Form::Stored && rate.is_none() {
        peers::read(&mut case, &files.file);
    }
    let paths: Vec<_> = files.all().map(|it| it.path.clone()).collect();
    // Written just now, perhaps: what is still dirty must not be written back under a throttle.
    drop_all(&paths)?;
    case.prepare(move || drop_all(&paths));
    case.check(size.len(), |bytes, work| check(&files.file, bytes, work));
    let Some(rate) = rate.and_then(|rate| rate.parse::<f64>().ok()) else {
        return session.run(case, &mut destination).map(drop);
    };
    let runs = case.runs;
    match Throttle::new(session.corpus.folder(), (rate * 1e6) as u64) {
        Ok(throttle) => {
            session.run(case, &mut destination)?;
            drop(throttle);
            ideal(session, instance, &files, rate, runs)
        }
        Err(error) => session.skip(instance, "throttle", &error),
    }
}

/// Adds a contender of `cases.toml`.
fn add<'a>(case: &mut Case<'a>, name: &'static str, files: &'a Files) {
    let file = &files.file;
    if name == "async-8" {
        case.try_push(name, rings::outstanding(file));
        return;
    }
    if name.starts_with("ring-") {
        return Straight::add(case, name, &file.path, file.stored_len);
    }
    match name {
        "stdio" => case.add(name, |into| rivals::stdio(file, into)),
        "read" => case.add(name, |into| rivals::read_call(file, into)),
        "map-windows" => case.add(name, |into| rivals::map_windows(file, into)),
        "blocks-threads" => {
            let blocks = files.blocks.as_ref().expect("a form with blocks");
            let run = |into: &mut Destination| rivals::blocks(blocks, into);
            case.add(name, run).with("form", blocks.form.name())
        }
        _ => {
            let (of, with_table) = match name {
                "millstream-blocks" => (files.blocks.as_ref(), true),
                // The same file without its table: frames of one stream, found while they arrive.
                "millstream-units" => (files.blocks.as_ref(), false),
                "millstream-frame" => (files.frame.as_ref(), false),
                _ => (Some(file), false),
            };
            let of = of.expect("a form that has it");
            let contender = case.push(name, whole_file(of, with_table, Setup::named(name)));
            contender.with("form", of.form.name())
        }
    };
}

/// One request for the whole file.
fn whole_file(file: &CorpusFile, with_table: bool, setup: Setup) -> impl Method {
    let codec = file.form.codec();
    let decode = match file.form {
        Form::Stored => None,
        _ if with_table => {
            let mut table = BlockTable::new();
            for block in &file.blocks {
                let stored = block.stored_offset..block.stored_offset + u64::from(block.stored_len);
                table.push(codec, stored, block.raw_len);
            }
            Some(Decode::table(table))
        }
        _ => Some(Decode::codec(codec).raw_len(file.raw_len)),
    };
    let run = move |storage: &mut Storage, into: &mut Destination| {
        let queue = queue_for(storage, 1)?;
        let raw_len = file.raw_len as usize;
        let mut request = Read::whole(storage.open(&file.path, FileOptions::default()));
        if let Some(decode) = &decode {
            request = request.decode(decode.clone());
        }
        serve(&queue, &mut into[..raw_len], [(request, 0..raw_len)])?;
        Ok(Work::of(file.raw_len, 1))
    };
    fresh(move || setup.storage(), run)
}

fn check(file: &CorpusFile, bytes: &[u8], work: &Work) -> Result<()> {
    ensure(
        work.bytes == file.raw_len,
        "not as many bytes as the file has",
    )?;
    file.check(bytes)
}

/// Keeps a row of what a throttled case could reach at best: the device's rate with the encoding's
/// gain, or the codec on all cores, in memory, whichever is less.
fn ideal(
    session: &mut Session<'_>,
    instance: &Instance,
    files: &Files,
    rate: f64,
    runs: usize,
) -> Result<()> {
    let from_device = rate * files.file.raw_len as f64 / files.file.stored_len as f64;
    let mut samples = vec![from_device; runs];
    if let Some(blocks) = &files.blocks {
        for sample in &mut samples {
            *sample = codec_rate(blocks)?.min(from_device);
        }
    }
    let params = Params::from([("device_times_gain".into(), from_device.into())]);
    let names = ["read", &instance.name, "ideal"];
    session.keep(vec![figures(
        names,
        Metric::of("rate MB/s"),
        samples,
        params,
    )])
}

/// MB/s of raw bytes when every core decodes blocks out of memory.
fn codec_rate(file: &CorpusFile) -> Result<f64> {
    let stored = std::fs::read(&file.path).on("read", &file.path)?;
    let span = threads::each(
        threads::cores(),
        &file.blocks,
        || (Scratch::default(), vec![0; BLOCK_BYTES]),
        |(scratch, raw), span| {
            let block = &stored[span.stored_offset as usize..][..span.stored_len as usize];
            decode_block(file.form.codec(), scratch, block, raw)?;
            Ok(())
        },
    )?;
    Ok(file.raw_len as f64 / 1e6 / span.wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_delivers_every_byte_and_none_that_is_damaged() {
        // Not a multiple of any block, so that every contender meets its tail.
        const LEN: u64 = 3_000_001;
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let mut destination = Destination::new(LEN as usize + DIRECT_ALIGNMENT as usize).unwrap();
        for instance in crate::cases::of("read", "cold", true, &toml::Table::new()) {
            let files = Files::of(&corpus, LEN, instance.get("form")).unwrap();
            for damaged in [false, true] {
                for file in files.all().filter(|_| damaged) {
                    let mut bytes = std::fs::read(&file.path).unwrap();
                    let middle = bytes.len() / 2;
                    bytes[middle..middle + 64].fill(0x55);
                    std::fs::write(&file.path, bytes).unwrap();
                }
                let mut case = Case::new("read", "test", 1);
                instance
                    .contenders()
                    .for_each(|name| add(&mut case, name, &files));
                println!("SKIP: {:?}", case.skipped);
                assert!(case.contenders.len() > 6);
                for contender in &mut case.contenders {
                    destination.fill(0xA5);
                    contender.method.prepare().unwrap();
                    let work = contender.method.run(&mut destination);
                    let raw = &destination[..LEN as usize];
                    let result = work.and_then(|work| check(&files.file, raw, &work));
                    let (name, case) = (&contender.name, &instance.name);
                    assert_eq!(result.is_err(), damaged, "{name} of {case}: {result:?}");
                }
            }
        }
    }
}
