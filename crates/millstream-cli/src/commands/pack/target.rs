//! `pack --target`: the disk that `auto` chooses codecs for, measured or recorded in a package.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use millstream::{Access, FileOptions, QueueOptions, Read, Storage, StorageOptions};
use millstream_io::fs::AtomicFile;
use millstream_pak::Target;

use crate::args::PackArgs;
use crate::backend;
use crate::failure::{Ending, Failure};
use crate::limits::{TARGET_FILE_BYTES, TARGET_READ_BYTES, TARGET_READS, TARGET_TIME};
use crate::loader::describe;
use crate::package::Reading;

/// Returns the target that the arguments name.
pub(super) fn target(args: &PackArgs) -> Result<Target, Ending> {
    let Some(word) = args.target.as_deref() else {
        return Ok(Target {
            megabytes_per_second: args.target_mbps,
            cores: args.target_cores,
        });
    };
    if word != "here" {
        return recorded(Path::new(word));
    }
    let cores = available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Target {
        megabytes_per_second: two_digits(disk_rate(&args.output)? / 1e6),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
    })
}

/// Returns the target that a package was packed for.
fn recorded(path: &Path) -> Result<Target, Ending> {
    let reading = Reading::open(path)?;
    let cause = "the package records no target: it was packed with one codec";
    let target = reading.package.target();
    Ok(target.ok_or_else(|| Failure::new(path, cause))?)
}

/// Rounds a figure to two digits, so that another measurement likely gives the same.
fn two_digits(figure: f64) -> f64 {
    let unit = 10f64.powf(figure.max(1.0).log10().floor() - 1.0);
    (figure / unit).round().max(1.0) * unit
}

/// Returns the read rate of the disk under `output` without the page cache, in bytes per second.
///
/// A scratch file of noise beside `output` is read repeatedly. The first reads, into fresh memory,
/// do not count.
fn disk_rate(output: &OsStr) -> Result<f64, Ending> {
    let output = Path::new(output);
    let failed = |error| Failure::system(output, "write a scratch file beside", &error);
    let (scratch, path) = AtomicFile::create_named(output).map_err(failed)?;
    let mut noise = vec![0; TARGET_READ_BYTES as usize];
    for _ in 0..TARGET_FILE_BYTES / TARGET_READ_BYTES {
        fastrand::fill(&mut noise);
        let written = scratch.file().write_all(&noise);
        written.map_err(|error| Failure::io(&path, "write", &error))?;
    }
    let synced = scratch.file().sync_data();
    synced.map_err(|error| Failure::io(&path, "sync", &error))?;
    read_rate(&path, backend::options(None)?).map_err(|error| match error.kind() {
        millstream::ErrorKind::NoDirectIo => {
            let cause = "the page cache cannot be bypassed here, so the disk cannot be measured: \
                         give its rate with --target-mbps";
            Ending::from(Failure::new(output, cause))
        }
        _ => Ending::from(describe(&path, &error)),
    })
}

fn read_rate(path: &Path, options: StorageOptions) -> Result<f64, millstream::Error> {
    let storage = Storage::new(options)?;
    let queue = storage.queue(QueueOptions::default())?;
    let options = FileOptions {
        access: Some(Access::Direct),
        ..FileOptions::default()
    };
    let file = storage.open(path, options);
    let mut reads = VecDeque::new();
    let (mut begun, mut bytes) = (Instant::now(), 0);
    for offset in (0..TARGET_FILE_BYTES)
        .step_by(TARGET_READ_BYTES as usize)
        .cycle()
    {
        reads.push_back(queue.submit(Read::range(file, offset, TARGET_READ_BYTES))?);
        if reads.len() < TARGET_READS {
            continue;
        }
        let ticket = reads.pop_front();
        ticket.expect("pushed above").wait()?;
        bytes += TARGET_READ_BYTES;
        if bytes == TARGET_READS as u64 * TARGET_READ_BYTES {
            begun = Instant::now();
        }
        if bytes > TARGET_FILE_BYTES && begun.elapsed() >= TARGET_TIME {
            break;
        }
    }
    let counted = bytes - TARGET_READS as u64 * TARGET_READ_BYTES;
    Ok(counted as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_kept() {
        let kept = |figure| two_digits(figure);
        assert_eq!(
            [48.3, 551.0, 2049.9, 14_960.0].map(kept),
            [48.0, 550.0, 2000.0, 15_000.0]
        );
        assert_eq!([0.0, 0.04, 1.26].map(kept), [0.1, 0.1, 1.3]);
    }
}
