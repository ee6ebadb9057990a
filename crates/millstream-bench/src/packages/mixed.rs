//! `auto` beside every fixed codec, on a mixed corpus and on folders of real data.
//!
//! A throttled disk delivers a tenth of a second's worth of bytes at once: at 550 MB/s that is more
//! than a small corpus has, which would then measure memory. So a throttled case reads for seconds:
//! the corpus repeatedly, past the page cache, each pass enqueued before the previous one has
//! arrived, so that the disk never waits between them.

use std::path::Path;
use std::sync::Arc;

use millstream_pak::Item;
use toml::Table;
use xxhash_rust::xxh3::xxh3_64;

use super::batch::{Batch, Wanted, coding_of, packed};
use super::{folder, packing};
use crate::error::Result;
use crate::files::drop_all;
use crate::session::Session;
use crate::throttle::Throttle;

/// Number of generated files, in a quick and in a full run; for a slow disk as many as it reads in
/// a case's time, but at least those of a quick run, which has two of each kind.
const FILES_QUICK: usize = 10;
const FILES: usize = 160;
/// Seconds that a throttled case takes for stored data.
const SECONDS_QUICK: f64 = 4.0;
const SECONDS: f64 = 8.0;

/// The items to pack, and what must come back.
struct Corpus {
    items: Vec<Item>,
    wanted: Arc<Vec<Wanted>>,
    raw_bytes: u64,
}

fn made(files: usize) -> Corpus {
    let inputs = packing::inputs(files);
    let wanted = inputs.iter().map(|(name, bytes)| Wanted {
        name: name.clone(),
        xxh3: xxh3_64(bytes),
    });
    Corpus {
        wanted: Arc::new(wanted.collect()),
        raw_bytes: (files * packing::FILE_BYTES) as u64,
        items: packing::items(&inputs),
    }
}

fn real(root: &Path) -> Result<Corpus> {
    let files = folder::files(root)?;
    Ok(Corpus {
        items: files.iter().map(folder::item).collect::<Result<_>>()?,
        wanted: Arc::new(files.iter().map(folder::wanted).collect()),
        raw_bytes: files.iter().map(|(_, file)| file.raw_len).sum(),
    })
}

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let real_folders = folder::real_folders(session);
    let rates = session.options.throttle.iter().copied().map(Some);
    let rates: Vec<Option<f64>> = [None].into_iter().chain(rates).collect();
    let files_max = session.size(FILES, FILES_QUICK);
    let seconds = session.size(SECONDS, SECONDS_QUICK);
    for rate in rates {
        let files = rate.map_or(files_max, |rate| {
            let all = (rate * 1e6 * seconds / packing::FILE_BYTES as f64) as usize;
            all.clamp(FILES_QUICK, files_max)
        });
        let name = format!("{files} files");
        one(session, folder, (&name, rate, seconds), || Ok(made(files)))?;
        for (name, root) in &real_folders {
            one(session, folder, (name, rate, seconds), || real(root))?;
        }
    }
    Ok(())
}

/// Runs the case of a corpus, read from a disk of `rate` MB/s for `seconds`.
fn one(
    session: &mut Session<'_>,
    folder: &Path,
    (name, rate, seconds): (&str, Option<f64>, f64),
    corpus: impl Fn() -> Result<Corpus>,
) -> Result<()> {
    let disk = rate.map_or("unthrottled".into(), |rate| format!("{rate} MB/s"));
    let found = Table::from_iter([("corpus".to_owned(), format!("{name} {disk}").into())]);
    for instance in session.cases_with("packages", "mixed", found) {
        let corpus = corpus()?;
        let asked_bytes = rate.unwrap_or_default() * 1e6 * seconds;
        let passes = (asked_bytes / corpus.raw_bytes as f64).ceil().max(1.0) as usize;
        let mut case = session.begin(&instance);
        let mut paths = Vec::new();
        for contender in instance.contenders() {
            let target = rate.map_or("free".into(), |rate| rate.to_string());
            let path = folder.join(format!("mixed-{name}-{target}-{contender}.mpak"));
            packed(&path, coding_of(contender, rate), || {
                Ok(corpus.items.clone())
            })?;
            case.push(contender, Batch::new(&path, &corpus.wanted, passes)?);
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
