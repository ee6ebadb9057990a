//! Workload `read`: one big file into memory, as fast as possible, stored and encoded, cold, and
//! under throttles.
//!
//! Every contender opens the file, delivers all raw bytes to the destination and closes it, within
//! the time that counts. Single streams (zlib, zstd, lz4) are decoded by all rivals with the same
//! decoder, on the reading thread, as in the study; `blocks-threads` decodes independent blocks of
//! the same data with one thread per core.

use millstream::{BlockTable, Decode, FileOptions, Read, Storage};
use millstream_codec::{Scratch, decode_block};
use toml::Table;

use crate::ours::{self, queue_for, serve};
use crate::peers;
use crate::prelude::*;
use crate::rows::{Params, figures};
use crate::threads;
use crate::throttle::Throttle;

pub(crate) mod rivals;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut cases = session.cases("read", "cold");
    let rates = |slow: bool| {
        let rates = session.options.throttle.iter();
        let rates = rates.filter(move |rate| (**rate < SLOW_THROTTLE_MBPS) == slow);
        let rates: Vec<String> = rates.map(f64::to_string).collect();
        Table::from_iter([("rate".to_owned(), rates.into())])
    };
    // A slow disk reads a shorter file: 8 MB take 3.3 s at 2.4 MB/s.
    cases.extend(session.cases_with("read", "slow", rates(true)));
    cases.extend(session.cases_with("read", "throttled", rates(false)));
    for case in cases {
        one(session, &case)?;
    }
    Ok(())
}

/// The file of a case, and the same data as independent blocks with a table.
struct Files {
    file: CorpusFile,
    blocks: Option<CorpusFile>,
}

impl Files {
    fn of(corpus: &Corpus, len: u64, form: Form) -> Result<Files> {
        let blocks = match form {
            Form::Zlib => Some(Form::ZlibBlocks),
            Form::Zstd => Some(Form::ZstdBlocks),
            Form::Lz4 => Some(Form::Lz4Blocks),
            _ => None,
        };
        Ok(Files {
            file: corpus.big(len, form)?,
            blocks: blocks.map(|form| corpus.big(len, form)).transpose()?,
        })
    }
}

fn one(session: &mut Session<'_>, instance: &Instance) -> Result<()> {
    let (size, form): (Bytes, Form) = (instance.get("size"), instance.get("form"));
    // MB/s of a throttle.
    let rate: Option<String> = instance.find("rate");
    session.say(&format!("corpus: {}", instance.name));
    let files = Files::of(&session.corpus, size.0, form)?;
    let mut case = session.begin(instance);
    case.room = size.len() + DIRECT_ALIGNMENT as usize;
    for name in instance.contenders() {
        add(&mut case, name, &files);
    }
    // A throttled trial would take seconds, and then the rivals' depths hardly matter.
    if form == Form::Stored && rate.is_none() {
        peers::read(&mut case, &files.file);
    }
    let all = files.blocks.iter().chain([&files.file]);
    let paths: Vec<_> = all.map(|it| it.path.clone()).collect();
    // The files may have just been written: dirty pages must not be written back under a throttle.
    drop_all(&paths)?;
    case.prepare(move || drop_all(&paths));
    case.check(size.len(), |bytes, work| check(&files.file, bytes, work));
    let Some(rate) = rate.and_then(|rate| rate.parse::<f64>().ok()) else {
        return session.run(case);
    };
    let runs = case.runs;
    match Throttle::new(session.corpus.folder(), (rate * 1e6) as u64) {
        Ok(throttle) => {
            session.run(case)?;
            drop(throttle);
            ideal(session, instance, &files, rate, runs)
        }
        Err(error) => session.skip(instance, "throttle", &error),
    }
}

fn add<'a>(case: &mut Case<'a>, name: &'static str, files: &'a Files) {
    let file = &files.file;
    if name.starts_with("ring-") {
        return peers::add_straight(case, name, &file.path, file.stored_len);
    }
    match name {
        "async-8" => case.add(name, |into| rivals::outstanding(file, into)),
        "stdio" => case.add(name, |into| rivals::stdio(file, into)),
        "read" => case.add(name, |into| rivals::read_call(file, into)),
        "map-windows" => case.add(name, |into| rivals::map_windows(file, into)),
        "blocks-threads" => {
            let blocks = files.blocks.as_ref().expect("a form with blocks");
            let run = |into: &mut Destination| rivals::blocks(blocks, into);
            case.add(name, run).with("form", blocks.form.name())
        }
        _ => {
            let of = match name {
                "millstream-blocks" => files.blocks.as_ref().expect("a form with blocks"),
                _ => file,
            };
            let contender = case.push(name, whole_file(of, name));
            contender.with("form", of.form.name())
        }
    };
}

fn whole_file(file: &CorpusFile, name: &'static str) -> impl Method {
    let codec = file.form.codec();
    let decode = match file.form {
        Form::Stored => None,
        _ if !file.blocks.is_empty() => {
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
    fresh(move || ours::storage(name), run)
}

fn check(file: &CorpusFile, bytes: &[u8], work: &Work) -> Result<()> {
    ensure(
        work.bytes == file.raw_len,
        "not as many bytes as the file has",
    )?;
    file.check(bytes)
}

/// Keeps a row with the best possible rate of a throttled case: the device's rate times the
/// compression ratio, or the rate of the codec on all cores in memory, whichever is less.
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
    let (names, rate) = (["read", &instance.name, "ideal"], Metric::of("rate MB/s"));
    session.keep(vec![figures(names, rate, samples, Params::new())])
}

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
