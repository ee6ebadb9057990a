//! `auto` beside every fixed codec, on a mixed corpus and on folders of real data.
//!
//! A throttled disk lets through at once what it owes for a tenth of a second: at 550 MB/s that is
//! more than a small corpus has, which then measures memory. So a throttled case reads for seconds:
//! the corpus over and over, past the page cache, each pass enqueued before the one ahead of it has
//! come, so that the disk never waits between them. What a run's time is rounded by, a tenth of a
//! second, is then a small part of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_pak::Item;
use xxhash_rust::xxh3::xxh3_64;

use super::batch::{Batch, Wanted, coding_of, loads_cold, packed};
use super::folder;
use crate::cases::Instance;
use crate::corpus::generate::Kind;
use crate::error::Result;
use crate::files::drop_path;
use crate::memory::Destination;
use crate::session::Session;
use crate::throttle::Throttle;

/// Bytes of a file of the mixed corpus.
const FILE_BYTES: usize = 600_000;
/// Files of a quick and of a full run, and the fewest and the most of a throttled case: two of each
/// kind at least.
const FILES_MIN: usize = 10;
const FILES_MAX: usize = 160;
/// Seconds that a throttled case takes for the corpus as it is.
const THROTTLED_SECONDS: f64 = 8.0;
const QUICK_THROTTLED_SECONDS: f64 = 4.0;
/// The same for a folder of real data, which has more bytes than what is let through at once.
const REAL_THROTTLED_SECONDS: f64 = 2.0;

/// Named contents.
pub(super) type Inputs = Vec<(String, Arc<[u8]>)>;

/// Files of one kind of data each, in turn: entries differ, and so must their codecs.
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

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let files = session.size(FILES_MAX, FILES_MIN);
    let case = format!("{files} files unthrottled");
    for instance in session.cases_with("packages", "mixed", "case", [case]) {
        made(session, folder, &instance, (None, 1), &inputs(files))?;
    }
    for rate in session.options.throttle.clone() {
        let seconds = session.size(THROTTLED_SECONDS, QUICK_THROTTLED_SECONDS);
        let all = (rate * 1e6 * seconds / FILE_BYTES as f64).ceil() as usize;
        let once = all.clamp(FILES_MIN, FILES_MAX);
        let case = format!("{once} files {rate} MB/s");
        for instance in session.cases_with("packages", "mixed-throttled", "case", [case]) {
            let passes = all.div_ceil(once);
            let inputs = inputs(once);
            made(session, folder, &instance, (Some(rate), passes), &inputs)?;
        }
    }
    Ok(())
}

/// The same on folders of real data.
pub(super) fn real(
    session: &mut Session<'_>,
    folder: &Path,
    folders: &[(String, PathBuf)],
) -> Result<()> {
    for (name, root) in folders {
        let rates = session.options.throttle.iter().copied().map(Some);
        let rates: Vec<Option<f64>> = [None].into_iter().chain(rates).collect();
        for rate in rates {
            let disk = rate.map_or("unthrottled".into(), |rate| format!("{rate} MB/s"));
            let case = format!("{name} {disk}");
            for instance in session.cases_with("packages", "mixed", "case", [case]) {
                let files = folder::files(root)?;
                let wanted = files.iter().map(folder::wanted).collect();
                let raw: u64 = files.iter().map(|(_, file)| file.raw_len).sum();
                let seconds = rate.map_or(0.0, |_| REAL_THROTTLED_SECONDS);
                let asked = rate.unwrap_or_default() * 1e6 * seconds;
                let passes = (asked / raw as f64).ceil().max(1.0) as usize;
                let inputs = || files.iter().map(folder::item).collect();
                let load = (name.as_str(), rate, passes);
                one(session, folder, &instance, load, (wanted, &inputs))?;
            }
        }
    }
    Ok(())
}

fn made(
    session: &mut Session<'_>,
    folder: &Path,
    instance: &Instance,
    (rate, passes): (Option<f64>, usize),
    inputs: &Inputs,
) -> Result<()> {
    let wanted = inputs.iter().map(|(name, bytes)| Wanted {
        name: name.clone(),
        xxh3: xxh3_64(bytes),
    });
    let load = (&*inputs.len().to_string(), rate, passes);
    let inputs = || Ok(items(inputs));
    one(session, folder, instance, load, (wanted.collect(), &inputs))
}

/// A case: packages of these inputs, by the stem of their names, from a disk of this rate.
fn one(
    session: &mut Session<'_>,
    folder: &Path,
    instance: &Instance,
    (stem, rate, passes): (&str, Option<f64>, usize),
    (wanted, items): (Vec<Wanted>, &dyn Fn() -> Result<Vec<Item>>),
) -> Result<()> {
    let wanted = Arc::new(wanted);
    let mut case = session.begin(instance);
    let mut paths = Vec::new();
    for name in instance.contenders() {
        let target = rate.map_or("free".into(), |rate| rate.to_string());
        let path = folder.join(format!("mixed-{stem}-{target}-{name}.mpak"));
        packed(&path, coding_of(name, rate), items)?;
        // Written just now, perhaps: what is dirty must not be written back under a throttle.
        drop_path(&path)?;
        case.push(name, Batch::new(&path, &wanted, passes)?);
        paths.push(path);
    }
    loads_cold(&mut case, paths);
    let mut destination = Destination::new(0)?;
    let throttle = rate.map(|rate| Throttle::new(folder, (rate * 1e6) as u64));
    match throttle.transpose() {
        Ok(_throttle) => session.run(case, &mut destination).map(drop),
        Err(error) => session.skip(instance, "throttle", &error),
    }
}
