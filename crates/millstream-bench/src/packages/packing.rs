//! The rate of packing beside the codec alone, and `auto` beside every fixed codec, both on a mixed
//! corpus.
//!
//! The contender `codec` encodes the same blocks on as many threads, each into one buffer that it
//! reuses, and discards them. Packing does more: it looks for equal contents, hashes raw bytes
//! (BLAKE3) and stored ones (XXH3), and writes them in order into a file, on the same cores;
//! `millstream-synced` also waits until the file is on the disk, and renames it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use millstream::CodecId;
use millstream_codec::{Scratch, default_level, encode_block};
use millstream_pak::{Coding, Item};
use toml::Table;
use xxhash_rust::xxh3::xxh3_64;

use super::batch::{BLOCK_BYTES, Batch, Wanted, codec_of, coding_of, options, packed};
use crate::corpus::generate::Kind;
use crate::prelude::*;
use crate::threads;
use crate::throttle::Throttle;

pub(super) const FILE_BYTES: usize = 600_000;

pub(super) type Inputs = Vec<(String, Arc<[u8]>)>;

/// Returns files of one kind of data each, in turn: entries differ, and so must their codecs.
pub(super) fn inputs(files: usize) -> Inputs {
    let file = |nth: usize| {
        let kind = Kind::ALL[nth % Kind::ALL.len()];
        let bytes = kind.made(nth as u64, FILE_BYTES);
        (format!("{}/{nth:04}", kind.name()), Arc::from(bytes))
    };
    (0..files).map(file).collect()
}

pub(super) fn items(inputs: &Inputs) -> Vec<Item> {
    let inputs = inputs.iter();
    let items = inputs.map(|(name, bytes)| Item::from_bytes(name.as_str(), Arc::clone(bytes)));
    items.collect()
}

pub(super) fn rate(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    for instance in session.cases("packages", "pack") {
        let codec = codec_of(&instance.get::<String>("codec"));
        let inputs = inputs(instance.get("files"));
        let raw: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let (inputs, path) = (&inputs, folder.join(format!("packing-{name}.mpak")));
            case.add(name, move |_| {
                let span = match name {
                    "codec" => codec_alone(codec, inputs)?,
                    _ => packing(codec, inputs, &path, name == "millstream-synced")?,
                };
                Ok(Work::of(raw as u64, 1).took(span))
            });
        }
        session.run(case)?;
    }
    Ok(())
}

fn packing(codec: CodecId, inputs: &Inputs, path: &Path, synced: bool) -> Result<Span> {
    let (items, options) = (items(inputs), options(Coding::Fixed(codec)));
    if synced {
        let (written, span) = span_of(|| millstream_pak::write_file(items, &options, path));
        written?;
        return remove(path).map(|()| span);
    }
    let file = File::create(path).on("make", path)?;
    let (written, span) = span_of(|| millstream_pak::write(items, &options, &file));
    written?;
    // The next run makes a new file: neither writing this one back nor removing it is its work.
    file.sync_all().on("sync", path)?;
    remove(path).map(|()| span)
}

fn codec_alone(codec: CodecId, inputs: &Inputs) -> Result<Span> {
    let blocks = inputs
        .iter()
        .flat_map(|(_, bytes)| bytes.chunks(BLOCK_BYTES));
    let state = || (Scratch::default(), Vec::new());
    let encode = |(scratch, out): &mut (Scratch, Vec<u8>), block: &[u8]| {
        out.clear();
        encode_block(codec, default_level(codec), scratch, block, out)?;
        Ok(())
    };
    threads::each(threads::cores(), blocks, state, encode)
}

/// Number of generated files, in a quick and in a full run; for a slow disk as many as it reads in
/// a case's time, but at least those of a quick run, which has two of each kind.
const FILES_QUICK: usize = 10;
const FILES: usize = 160;
const SECONDS_QUICK: f64 = 4.0;
const SECONDS: f64 = 8.0;

pub(super) fn mixed(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let files_max = session.size(FILES, FILES_QUICK);
    let seconds = session.size(SECONDS, SECONDS_QUICK);
    one(session, folder, files_max, None)?;
    for &rate in &session.options.throttle {
        let asked = rate * 1e6 * seconds / FILE_BYTES as f64;
        let files = (asked as usize).clamp(FILES_QUICK, files_max);
        let passes = (asked / files as f64).ceil() as usize;
        one(session, folder, files, Some((rate, passes)))?;
    }
    Ok(())
}

/// Runs the case of a number of files, read `passes` times from a disk of a rate in MB/s.
fn one(
    session: &mut Session<'_>,
    folder: &Path,
    files: usize,
    throttled: Option<(f64, usize)>,
) -> Result<()> {
    let (rate, passes) = (throttled.map(|it| it.0), throttled.map_or(1, |it| it.1));
    let disk = rate.map_or("unthrottled".into(), |rate| format!("{rate} MB/s"));
    let found = format!("{files} files {disk}").into();
    let found = Table::from_iter([("corpus".to_owned(), found)]);
    for instance in session.cases_with("packages", "mixed", found) {
        let inputs = inputs(files);
        let wanted = inputs.iter().map(|(name, bytes)| Wanted {
            name: name.clone(),
            xxh3: xxh3_64(bytes),
        });
        let wanted = Arc::new(wanted.collect());
        let mut case = session.begin(&instance);
        let mut paths = Vec::new();
        for contender in instance.contenders() {
            let path =
                folder.join(format!("mixed-{files}-{disk}-{contender}.mpak").replace('/', "-"));
            packed(&path, coding_of(contender, rate), || Ok(items(&inputs)))?;
            case.push(contender, Batch::new(&path, &wanted, passes)?);
            paths.push(path);
        }
        case.prepare(move || drop_all(&paths));
        let throttle = rate.map(|rate| Throttle::new(folder, (rate * 1e6) as u64));
        match throttle.transpose() {
            Ok(_throttle) => session.run(case)?,
            Err(error) => session.skip(&instance, "throttle", &error)?,
        }
    }
    Ok(())
}
