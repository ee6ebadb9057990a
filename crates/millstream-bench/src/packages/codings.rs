//! `auto` beside every fixed codec on a mixed corpus, and packing beside the codec alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream::CodecId;
use millstream_codec::Scratch;
use millstream_pak::{Coding, Item, PackOptions};
use xxhash_rust::xxh3::xxh3_64;

use super::{Batch, RATE, SIZE, WORKLOAD, Wanted, auto, figures, packed, row};
use crate::cold;
use crate::corpus::generate::{self, Kind};
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::Case;
use crate::memory::Destination;
use crate::ours::failed;
use crate::throttle::Throttle;
use crate::workload::{Field, Session};

/// Rate that `auto` is told where nothing throttles.
const UNTHROTTLED_MBPS: f64 = 3500.0;
/// Bytes of a file of the mixed corpus.
const FILE_BYTES: usize = 600_000;
/// Files of it.
const FILES: usize = 160;
const QUICK_FILES: usize = 24;

/// What the fixed codecs are called.
const FIXED: [(&str, CodecId); 4] = [
    ("stored", CodecId::STORED),
    ("zlib", CodecId::ZLIB),
    ("zstd", CodecId::ZSTD),
    ("lz4", CodecId::LZ4_BLOCK),
];

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let files = session.size(FILES, QUICK_FILES);
    let inputs = inputs(files);
    kinds(session, folder, &inputs)?;
    let mut rates: Vec<Option<f64>> = vec![None];
    rates.extend(session.options.throttle.iter().copied().map(Some));
    for rate in rates {
        let case = match rate {
            Some(rate) => format!("mixed {files} files {rate} MB/s"),
            None => format!("mixed {files} files unthrottled"),
        };
        if session.wants(&case) {
            one(session, folder, &case, rate, &inputs)?;
        }
    }
    let case = format!("pack {files} files zstd");
    if session.wants(&case) {
        session.say(&format!("{WORKLOAD}: {case}"));
        packing(session, folder, &case, &inputs)?;
    }
    Ok(())
}

/// Files of one kind of data each, in turn: entries differ, and so must their codecs.
fn inputs(files: usize) -> Vec<(String, Arc<[u8]>)> {
    let kinds = [
        Kind::Noise,
        Kind::Vertices,
        Kind::Text,
        Kind::Table,
        Kind::Pixels,
    ];
    let file = |nth: usize| {
        let mut bytes = vec![0; FILE_BYTES];
        let kind = kinds[nth % kinds.len()];
        for (chunk, part) in bytes.chunks_mut(generate::CHUNK_BYTES).enumerate() {
            let seed = (nth * 1000 + chunk) as u64;
            kind.fill(&mut fastrand::Rng::with_seed(seed), part);
        }
        (
            format!("{kind:?}/{nth:04}").to_lowercase(),
            Arc::from(bytes),
        )
    };
    (0..files).map(file).collect()
}

fn items(inputs: &[(String, Arc<[u8]>)]) -> Vec<Item> {
    let item =
        |(name, bytes): &(String, Arc<[u8]>)| Item::from_bytes(name.as_str(), Arc::clone(bytes));
    inputs.iter().map(item).collect()
}

/// How far each kind of data shrinks with each codec.
fn kinds(session: &mut Session<'_>, folder: &Path, inputs: &[(String, Arc<[u8]>)]) -> Result<()> {
    let kinds = ["noise", "vertices", "text", "table", "pixels"];
    for kind in kinds {
        let case = format!("size of {kind}");
        if !session.wants(&case) {
            continue;
        }
        let those: Vec<_> = inputs
            .iter()
            .filter(|(name, _)| name.starts_with(kind))
            .cloned()
            .collect();
        let raw: usize = those.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut rows = Vec::new();
        let fixed = FIXED.map(|(word, codec)| (word, Coding::Fixed(codec)));
        for (word, coding) in fixed.into_iter().chain([("auto", auto(UNTHROTTLED_MBPS))]) {
            let path = folder.join(format!("{kind}-{}-{word}.mpak", inputs.len()));
            packed(&path, coding, || Ok(items(&those)))?;
            let len =
                std::fs::metadata(&path).map_err(|error| Error::file("find", &path, error))?;
            let who = format!("millstream-{word}");
            rows.push(row(&case, &who, SIZE, vec![len.len() as f64 / raw as f64]));
        }
        session.keep(rows)?;
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    folder: &Path,
    case: &str,
    rate: Option<f64>,
    inputs: &[(String, Arc<[u8]>)],
) -> Result<()> {
    let wanted: Vec<Wanted> = inputs
        .iter()
        .map(|(name, bytes)| Wanted {
            name: name.clone(),
            xxh3: xxh3_64(bytes),
        })
        .collect();
    let wanted = Arc::new(wanted);
    let mut field = Field::new(WORKLOAD, case);
    let mut paths = Vec::new();
    let target = rate.unwrap_or(UNTHROTTLED_MBPS);
    let fixed = FIXED.map(|(word, codec)| (format!("millstream-{word}"), Coding::Fixed(codec)));
    for (who, coding) in fixed
        .into_iter()
        .chain([(String::from("millstream"), auto(target))])
    {
        let file = format!("mixed-{}-{who}-{}.mpak", inputs.len(), rate.unwrap_or(0.0));
        let path = folder.join(file);
        packed(&path, coding, || Ok(items(inputs)))?;
        cold::drop_path(&path)?;
        paths.push(path.clone());
        field.add(Batch {
            name: who,
            package: path,
            wanted: Arc::clone(&wanted),
            storage: None,
        });
    }
    let runs = match rate {
        Some(_) => session.runs().min(limits::THROTTLED_RUNS_MAX),
        None => session.runs(),
    };
    let throttle = match rate {
        Some(rate) => match Throttle::new(folder, (rate * 1e6) as u64) {
            Ok(throttle) => Some(throttle),
            Err(error) => {
                let why = error.to_string();
                let skipped = crate::rows::Row::skipped(WORKLOAD, case, "throttle", &why);
                return session.keep(vec![skipped]);
            }
        },
        None => None,
    };
    let mut destination = Destination::new(4096)?;
    let case = Case {
        workload: WORKLOAD,
        name: String::from(case),
        runs,
        warm_up: rate.is_none(),
        destination_len: 4096,
        prepare: &|| paths.iter().try_for_each(|path| cold::drop_path(path)),
        check: &|_, _| Ok(()),
        figures: &figures,
        limit_by: None,
    };
    let ran = session.case(&case, field.contenders, &mut destination);
    drop(throttle);
    ran
}

/// Packing into a file, beside the codec on as many threads and nothing else.
fn packing(
    session: &mut Session<'_>,
    folder: &Path,
    case: &str,
    inputs: &[(String, Arc<[u8]>)],
) -> Result<()> {
    let raw: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
    let path = folder.join("packing.mpak");
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::ZSTD),
        ..PackOptions::default()
    };
    let (mut ours, mut codec) = (Vec::new(), Vec::new());
    for _ in 0..=session.runs() {
        let items = items(inputs);
        let file = std::fs::File::create(&path).map_err(|it| Error::file("make", &path, it))?;
        let begun = Instant::now();
        millstream_pak::write(items, &options, &file).map_err(|error| failed(&error))?;
        ours.push(raw as f64 / 1e6 / begun.elapsed().as_secs_f64());
        codec.push(raw as f64 / 1e6 / codec_alone(inputs)?);
    }
    let removed = std::fs::remove_file(&path);
    removed.map_err(|error| Error::file("remove", &path, error))?;
    session.keep(vec![
        row(case, "millstream", RATE, ours.split_off(1)),
        row(case, "codec", RATE, codec.split_off(1)),
    ])
}

/// Seconds that the codec takes on all cores for the same blocks.
fn codec_alone(inputs: &[(String, Arc<[u8]>)]) -> Result<f64> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const BLOCK_BYTES: usize = 256 << 10;
    let blocks: Vec<&[u8]> = inputs
        .iter()
        .flat_map(|(_, bytes)| bytes.chunks(BLOCK_BYTES))
        .collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let level = millstream_codec::default_level(CodecId::ZSTD);
    let work = || -> Result<()> {
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        while let Some(block) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
            out.clear();
            let encoded =
                millstream_codec::encode_block(CodecId::ZSTD, level, &mut scratch, block, &mut out);
            encoded.map_err(|error| failed(&error))?;
        }
        Ok(())
    };
    Ok(crate::together::timed(threads, &work)?.wall)
}
