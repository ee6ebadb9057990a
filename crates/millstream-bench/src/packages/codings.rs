//! `auto` beside every fixed codec on a mixed corpus.
//!
//! A throttled disk lets through at once what it owes for a tenth of a second: at 550 MB/s that is
//! more than a small corpus has, which then measures memory. So a throttled case reads for seconds:
//! the corpus over and over, past the page cache, each pass enqueued before the one ahead of it has
//! come, so that the disk never waits between them. What a run's time is rounded by, a tenth of a
//! second, is then a small part of it.

use std::path::Path;
use std::sync::Arc;

use millstream_pak::{Coding, Item};
use xxhash_rust::xxh3::xxh3_64;

use super::{Batch, FIXED, WORKLOAD, Wanted, auto, figures, packed};
use crate::cold;
use crate::corpus::generate::{self, Kind};
use crate::error::Result;
use crate::limits;
use crate::measure::{Case, Contender as _};
use crate::memory::Destination;
use crate::throttle::Throttle;
use crate::workload::{Field, Session};

/// Rate that `auto` is told where nothing throttles.
pub(super) const UNTHROTTLED_MBPS: f64 = 3500.0;
/// Bytes of a file of the mixed corpus.
const FILE_BYTES: usize = 600_000;
/// Files of it.
pub(super) const FILES: usize = 160;
pub(super) const QUICK_FILES: usize = 60;
/// Fewest files of a throttled case: two of each kind.
const FILES_MIN: usize = 10;
/// Seconds that a throttled case takes for the corpus as it is.
const THROTTLED_SECONDS: f64 = 8.0;
const QUICK_THROTTLED_SECONDS: f64 = 4.0;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let mut rates: Vec<Option<f64>> = vec![None];
    rates.extend(session.options.throttle.iter().copied().map(Some));
    let mut made = Vec::new();
    for rate in rates {
        let (files, passes) = extent(session, rate);
        let case = match rate {
            Some(rate) => format!("mixed {files} files {rate} MB/s"),
            None => format!("mixed {files} files unthrottled"),
        };
        if session.wants(&case) {
            if made.is_empty() {
                made = inputs(FILES);
            }
            one(session, folder, &case, (rate, passes), &made[..files])?;
        }
    }
    Ok(())
}

/// Files of a case, and how often they are read.
fn extent(session: &Session<'_>, rate: Option<f64>) -> (usize, usize) {
    let Some(rate) = rate else {
        return (session.size(FILES, QUICK_FILES), 1);
    };
    let seconds = session.size(THROTTLED_SECONDS, QUICK_THROTTLED_SECONDS);
    let files = (rate * 1e6 * seconds / FILE_BYTES as f64).ceil() as usize;
    let once = files.clamp(FILES_MIN, FILES);
    (once, files.div_ceil(once))
}

/// Files of one kind of data each, in turn: entries differ, and so must their codecs.
pub(super) fn inputs(files: usize) -> Vec<(String, Arc<[u8]>)> {
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

pub(super) fn items(inputs: &[(String, Arc<[u8]>)]) -> Vec<Item> {
    let item =
        |(name, bytes): &(String, Arc<[u8]>)| Item::from_bytes(name.as_str(), Arc::clone(bytes));
    inputs.iter().map(item).collect()
}

fn one(
    session: &mut Session<'_>,
    folder: &Path,
    case: &str,
    (rate, passes): (Option<f64>, usize),
    inputs: &[(String, Arc<[u8]>)],
) -> Result<()> {
    let wanted = |(name, bytes): &(String, Arc<[u8]>)| Wanted {
        name: name.clone(),
        xxh3: xxh3_64(bytes),
    };
    let wanted = Arc::new(inputs.iter().map(wanted).collect::<Vec<_>>());
    let mut field = Field::new(WORKLOAD, case);
    let mut paths = Vec::new();
    let mut destination = Destination::new(4096)?;
    let fixed = FIXED.map(|(word, codec)| (format!("millstream-{word}"), Coding::Fixed(codec)));
    let target = rate.unwrap_or(UNTHROTTLED_MBPS);
    let chosen = (String::from("millstream"), auto(target));
    for (who, coding) in fixed.into_iter().chain([chosen]) {
        let file = match coding {
            Coding::Auto(_) => format!("mixed-{}-auto-{target}.mpak", inputs.len()),
            Coding::Fixed(_) => format!("mixed-{}-{who}.mpak", inputs.len()),
        };
        let path = folder.join(file);
        packed(&path, coding, || Ok(items(inputs)))?;
        cold::drop_path(&path)?;
        let mut batch = Batch::new(who, &path, &wanted);
        if rate.is_some() {
            // The round ahead, before the disk is slow: its memory is what later passes get.
            batch.passes = passes.min(3);
            batch.prepare()?;
            batch.run(&mut destination)?;
            batch.passes = passes;
        }
        paths.push(path);
        field.add(batch);
    }
    let runs = match rate {
        Some(_) => session.runs().min(limits::THROTTLED_RUNS_MAX),
        None => session.runs(),
    };
    let throttle = match rate.map(|rate| Throttle::new(folder, (rate * 1e6) as u64)) {
        Some(Err(error)) => {
            let why = error.to_string();
            let skipped = crate::rows::Row::skipped(WORKLOAD, case, "throttle", &why);
            return session.keep(vec![skipped]);
        }
        Some(Ok(throttle)) => Some(throttle),
        None => None,
    };
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
