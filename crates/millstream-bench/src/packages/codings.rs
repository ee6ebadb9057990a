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

use crate::cold;
use crate::corpus::generate::{self, Kind};
use crate::error::Result;
use crate::limits;
use crate::memory::Destination;
use crate::packages::batch::{
    Batch, FIXED, UNTHROTTLED_MBPS, WORKLOAD, Wanted, auto, loads_cold, options, packed,
};
use crate::session::Session;
use crate::throttle::Throttle;

/// Bytes of a file of the mixed corpus.
const FILE_BYTES: usize = 600_000;
/// Files of it.
pub(super) const FILES: usize = 160;
pub(super) const QUICK_FILES: usize = 10;
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
            session.say(&format!("{WORKLOAD}: {case}"));
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
    let file = |nth: usize| {
        let mut bytes = vec![0; FILE_BYTES];
        let kind = Kind::ALL[nth % Kind::ALL.len()];
        for (chunk, part) in bytes.chunks_mut(generate::CHUNK_BYTES).enumerate() {
            let seed = (nth * 1000 + chunk) as u64;
            kind.fill(&mut fastrand::Rng::with_seed(seed), part);
        }
        (format!("{}/{nth:04}", kind.name()), Arc::from(bytes))
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
    name: &str,
    (rate, passes): (Option<f64>, usize),
    inputs: &[(String, Arc<[u8]>)],
) -> Result<()> {
    let Some(mut case) = session.begin(WORKLOAD, name) else {
        return Ok(());
    };
    let wanted = inputs.iter().map(|(name, bytes)| Wanted::of(name, bytes));
    let wanted = Arc::new(wanted.collect());
    let target = rate.unwrap_or(UNTHROTTLED_MBPS);
    let chosen = ("", format!("auto-{target}"), auto(target));
    let fixed = FIXED.map(|(word, codec)| (word, word.to_owned(), Coding::Fixed(codec)));
    let mut paths = Vec::new();
    for (word, file, coding) in fixed.into_iter().chain([chosen]) {
        let path = folder.join(format!("mixed-{}-{file}.mpak", inputs.len()));
        packed(&path, &options(coding), || Ok(items(inputs)))?;
        // Written just now, perhaps: what is dirty must not be written back under a throttle.
        cold::drop_path(&path)?;
        let mut batch = Batch::new(&path, &wanted);
        if rate.is_some() {
            // The round ahead, before the disk is slow.
            batch = batch.passes(passes)?;
        }
        paths.push(path);
        let who = match word {
            "" => "millstream".into(),
            word => format!("millstream-{word}"),
        };
        case.push(batch.named(who));
    }
    loads_cold(&mut case, paths);
    let mut destination = Destination::new(0)?;
    let Some(rate) = rate else {
        return session.run(case, &mut destination).map(drop);
    };
    (case.runs, case.warm_up) = (case.runs.min(limits::THROTTLED_RUNS_MAX), false);
    match Throttle::new(folder, (rate * 1e6) as u64) {
        Ok(_throttle) => session.run(case, &mut destination).map(drop),
        Err(error) => session.skip(WORKLOAD, name, "throttle", &error),
    }
}
