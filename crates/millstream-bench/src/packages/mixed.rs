//! `auto` beside every fixed codec, on a mixed corpus.
//!
//! A throttled disk delivers a tenth of a second's worth of bytes at once: at 550 MB/s that is more
//! than a small corpus has, which would then measure memory. So a throttled case reads for seconds:
//! the corpus repeatedly, past the page cache, each pass enqueued before the previous one has
//! arrived, so that the disk never waits between them.

use std::path::Path;
use std::sync::Arc;

use toml::Table;
use xxhash_rust::xxh3::xxh3_64;

use super::batch::{Batch, Wanted, coding_of, packed};
use super::packing::{FILE_BYTES, inputs, items};
use crate::prelude::*;
use crate::throttle::Throttle;

/// Number of generated files, in a quick and in a full run; for a slow disk as many as it reads in
/// a case's time, but at least those of a quick run, which has two of each kind.
const FILES_QUICK: usize = 10;
const FILES: usize = 160;
/// Seconds that a throttled case takes for stored data.
const SECONDS_QUICK: f64 = 4.0;
const SECONDS: f64 = 8.0;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
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
