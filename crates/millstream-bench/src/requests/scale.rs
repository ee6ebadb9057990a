//! How cost grows: with the number of requests, files and entries of a package, with queues, with
//! threads that submit, and with the size of one request.
//!
//! Every case of a series is the same work at another count (`scale requests 1000`); the last case
//! of a series (`scale requests fit`) has the exponent of the total time in the count, by least
//! squares over the logarithms: 1 is linear, 0 is flat. Requests, queues and threads run on a
//! device that does nothing, so that only the engine's own work is seen; files are links of a
//! few small ones, so that 10⁵ of them need no 10⁵ blocks on disk; one large request reads a
//! sparse file past the cache, which costs a write to memory and nothing of the disk.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use millstream::{Access, FileId, FileOptions, Queue, Read, Storage};
use xxhash_rust::xxh3::xxh3_64;

use super::{CPU, IOPS, WORKLOAD, heat};
use crate::clock::Moment;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::null_device::{self, COST};
use crate::ours::{Loan, Setup, queue_for};
use crate::packages;
use crate::read::Straight;
use crate::rows::{Metric, Params, Row};
use crate::stats;
use crate::workload::{Field, Session};

/// The power of the count with which the total time grows.
pub(crate) const EXPONENT: Metric = Metric::lower("exponent", "power");
/// How a case of this kind begins.
const PREFIX: &str = "scale ";

const REQUESTS: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const FILES: [usize; 4] = [100, 1_000, 10_000, 100_000];
const ENTRIES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const SIDES: [usize; 4] = [1, 2, 4, 8];
const SIZES: [u64; 6] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 4 << 30];
/// In a quick run the largest of each series are left out.
const QUICK_LEFT_OUT: usize = 2;
/// Counted runs of a case.
const RUNS_MAX: usize = 5;
/// Bytes of a request on the device that does nothing: one of its blocks.
const NULL_BYTES: usize = 512;
/// Requests shared by queues and by threads.
const SHARED_REQUESTS: usize = 200_000;
const QUICK_SHARED_REQUESTS: usize = 20_000;
/// Small files behind the links, and bytes of each. File systems allow tens of thousands of links
/// of one file.
const LINKED_FILES: usize = 100;
const LINKED_BYTES: usize = 1 << 10;
/// Requests of a batch.
const BATCH: usize = 256;

/// The series, by the word in their cases' names.
const SERIES: [&str; 6] = [
    "requests",
    "queues",
    "producers",
    "files",
    "entries",
    "size",
];

fn case_name(series: &str, count: u64) -> String {
    format!("{PREFIX}{series} {count}")
}

/// Runs the series.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    for series in SERIES {
        if !session.wants(&format!("{PREFIX}{series} ")) {
            continue;
        }
        session.say(&format!("{WORKLOAD}: {PREFIX}{series}"));
        let points = match series {
            "requests" => requests(session),
            "queues" => sides(session, series, false),
            "producers" => sides(session, series, true),
            "files" => files(session),
            "entries" => entries(session),
            _ => sizes(session),
        };
        match points {
            Ok(points) => session.keep(fit(series, &points))?,
            Err(error) => {
                let name = format!("{PREFIX}{series} fit");
                session.fail(format!("{WORKLOAD} {name} millstream: {error}"));
                let why = error.to_string();
                session.keep(vec![Row::skipped(WORKLOAD, &name, "millstream", &why)])?;
            }
        }
    }
    Ok(())
}

/// Counts of a series, fewer in a quick run.
fn counts<T: Copy>(session: &Session<'_>, all: &[T]) -> Vec<T> {
    let left_out = session.size(0, QUICK_LEFT_OUT);
    all[..all.len() - left_out].to_vec()
}

fn runs(session: &Session<'_>) -> usize {
    session.runs().min(RUNS_MAX)
}

/// A count, and the total seconds of every run at it.
type Point = (f64, Vec<f64>);

/// The exponent of every run over the points, as one row.
fn fit(series: &str, points: &[Point]) -> Vec<Row> {
    let runs = points
        .iter()
        .map(|(_, seconds)| seconds.len())
        .min()
        .unwrap_or(0);
    let samples: Vec<f64> = (0..runs)
        .filter_map(|run| {
            let logs = points
                .iter()
                .map(|(count, all)| (count.ln(), all[run].ln()));
            stats::slope(&logs.collect::<Vec<_>>())
        })
        .collect();
    let name = format!("{PREFIX}{series} fit");
    let params = Params::from([("points".into(), points.len().into())]);
    vec![Row::figures(
        WORKLOAD,
        &name,
        "millstream",
        EXPONENT,
        samples,
        params,
    )]
}

fn figure(series: &str, count: u64, metric: Metric, samples: Vec<f64>) -> Row {
    let params = Params::from([("count".into(), count.into())]);
    let name = case_name(series, count);
    Row::figures(WORKLOAD, &name, "millstream", metric, samples, params)
}

/// All requests submitted at once, on a device that does nothing.
fn requests(session: &mut Session<'_>) -> Result<Vec<Point>> {
    let (storage, file) = null_device::storage(None)?;
    let mut points = Vec::new();
    for count in counts(session, &REQUESTS) {
        let mut destination = Destination::new(count * NULL_BYTES)?;
        let (mut seconds, mut cost) = (Vec::new(), Vec::new());
        // Few requests are over in microseconds: many times, then.
        let times = (10_000 / count).max(1);
        for run in 0..=runs(session) {
            let queue = queue_for(&storage, count)?;
            let loan = Loan::new(&mut destination, vec![queue]);
            let start = Moment::now();
            for _ in 0..times {
                submit(&loan, 0, file, 0..count)?;
                loan.drain()?;
            }
            let span = start.elapsed();
            loan.finish()?;
            // One run goes ahead: it grows the tables.
            if run > 0 {
                seconds.push(span.wall / times as f64);
                cost.push(span.cpu * 1e9 / (times * count) as f64);
            }
        }
        session.keep(vec![figure("requests", count as u64, COST, cost)])?;
        points.push((count as f64, seconds));
    }
    Ok(points)
}

/// Submits the requests of these numbers, each with a place of its own.
fn submit(loan: &Loan<'_>, queue: usize, file: FileId, numbers: Range<usize>) -> Result<()> {
    let mut batch = loan.batch(queue);
    for number in numbers {
        let place = number * NULL_BYTES..(number + 1) * NULL_BYTES;
        // Two blocks apart, so that no two of them become one read.
        let offset = (number % (1 << 20) * 2 * NULL_BYTES) as u64;
        batch.detach(Read::range(file, offset, NULL_BYTES as u64), place)?;
        if number % BATCH == BATCH - 1 {
            batch.submit();
        }
    }
    Ok(())
}

/// The same requests through 1 to 8 queues, all filled by one thread or each by its own.
fn sides(session: &mut Session<'_>, series: &str, threads: bool) -> Result<Vec<Point>> {
    let (storage, file) = null_device::storage(None)?;
    let total = session.size(SHARED_REQUESTS, QUICK_SHARED_REQUESTS);
    let mut destination = Destination::new(total * NULL_BYTES)?;
    let mut points = Vec::new();
    for count in SIDES {
        let share = total / count;
        let (mut seconds, mut cost, mut rate) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..=runs(session) {
            let queues = (0..count).map(|_| queue_for(&storage, share));
            let loan = Loan::new(&mut destination, queues.collect::<Result<_>>()?);
            let range = |side: usize| side * share..(side + 1) * share;
            let start = Moment::now();
            if threads {
                std::thread::scope(|scope| {
                    let loan = &loan;
                    let side = |side| move || submit(loan, side, file, range(side));
                    let all: Vec<_> = (0..count).map(|it| scope.spawn(side(it))).collect();
                    let gone = |_| Err(Error::new("a thread of the benchmark panicked"));
                    all.into_iter()
                        .try_for_each(|it| it.join().unwrap_or_else(gone))
                })?;
            } else {
                (0..count).try_for_each(|side| submit(&loan, side, file, range(side)))?;
            }
            loan.finish()?;
            let span = start.elapsed();
            if run > 0 {
                seconds.push(span.wall);
                cost.push(span.cpu * 1e9 / (share * count) as f64);
                rate.push((share * count) as f64 / span.wall);
            }
        }
        let rows = vec![
            figure(series, count as u64, COST, cost),
            figure(series, count as u64, IOPS, rate),
        ];
        session.keep(rows)?;
        points.push((count as f64, seconds));
    }
    Ok(points)
}

/// Small files behind many names, all cached: what a file costs beyond its bytes.
fn files(session: &mut Session<'_>) -> Result<Vec<Point>> {
    let counts = counts(session, &FILES);
    let most = counts.last().copied().unwrap_or(0);
    let folder = session.corpus.folder().join("scale-links");
    let paths = links(&folder, most)?;
    let mut destination = Destination::new(most * LINKED_BYTES)?;
    let mut points = Vec::new();
    for count in counts {
        let paths = &paths[..count];
        let mut field = Field::new(WORKLOAD, &case_name("files", count as u64));
        field.add(StdFiles(paths.to_vec()));
        field.add(OurFiles(paths.to_vec(), None));
        let case = Case {
            workload: WORKLOAD,
            name: case_name("files", count as u64),
            runs: runs(session),
            warm_up: true,
            destination_len: count * LINKED_BYTES,
            prepare: &|| Ok(()),
            check: &|bytes, _| check_links(bytes),
            figures: &|span, work| {
                let count = work.requests as f64;
                vec![(IOPS, count / span.wall), (CPU, span.cpu * 1e6 / count)]
            },
            limit_by: None,
        };
        let rows = session.case_rows(&case, field.contenders, &mut destination)?;
        points.push((count as f64, seconds_of(&rows, IOPS, count as f64)));
    }
    Ok(points)
}

/// Total seconds of our runs, from a rate.
fn seconds_of(rows: &[Row], metric: Metric, amount: f64) -> Vec<f64> {
    let ours = rows.iter().filter(|row| row.contender == "millstream");
    let samples = ours.filter_map(|row| row.samples_of(metric.name)).next();
    samples
        .unwrap_or_default()
        .iter()
        .map(|rate| amount / rate)
        .collect()
}

/// Bytes of the small file number `nth`.
fn linked_bytes(nth: usize) -> Vec<u8> {
    let mut bytes = vec![0; LINKED_BYTES];
    crate::corpus::generate::fill((nth % LINKED_FILES) as u64, &mut bytes);
    bytes
}

/// So many names of the small files, made where they are missing.
fn links(folder: &Path, count: usize) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, error))?;
    let mut paths = Vec::with_capacity(count);
    for nth in 0..count {
        let path = folder.join(format!("{nth:06}"));
        let first = folder.join(format!("{:06}", nth % LINKED_FILES));
        let made = match nth < LINKED_FILES {
            // The first of each are written anew: nothing of an earlier run has to be trusted.
            true => std::fs::write(&path, linked_bytes(nth)),
            false => std::fs::hard_link(&first, &path),
        };
        match made {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::file("make", &path, error));
            }
            _ => paths.push(path),
        }
    }
    Ok(paths)
}

fn check_links(bytes: &[u8]) -> Result<()> {
    let hashes: Vec<u64> = (0..LINKED_FILES)
        .map(|nth| xxh3_64(&linked_bytes(nth)))
        .collect();
    for (nth, piece) in bytes.chunks_exact(LINKED_BYTES).enumerate() {
        if xxh3_64(piece) != hashes[nth % LINKED_FILES] {
            return Err(Error::new(format!("other bytes than file {nth} has")));
        }
    }
    Ok(())
}

/// One file after the other with the standard library.
struct StdFiles(Vec<PathBuf>);

impl Contender for StdFiles {
    fn name(&self) -> String {
        "std".into()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        use std::io::Read as _;
        for (path, into) in self
            .0
            .iter()
            .zip(destination.chunks_exact_mut(LINKED_BYTES))
        {
            let read = File::open(path).and_then(|mut file| file.read_exact(into));
            read.map_err(|error| Error::file("read", path, error))?;
        }
        Ok(Work {
            requests: self.0.len() as u64,
            ..Work::default()
        })
    }
}

/// All files at once.
struct OurFiles(Vec<PathBuf>, Option<(Storage, Queue)>);

impl Contender for OurFiles {
    fn name(&self) -> String {
        "millstream".into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.1 = None;
        let storage = Setup::default().storage()?;
        let queue = queue_for(&storage, self.0.len())?;
        self.1 = Some((storage, queue));
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let Some((storage, queue)) = &self.1 else {
            return Err(Error::new("run without a preparation"));
        };
        let loan = Loan::new(destination, vec![queue.clone()]);
        let mut batch = loan.batch(0);
        for (nth, path) in self.0.iter().enumerate() {
            let request = Read::whole(storage.open(path, FileOptions::default()));
            batch.detach(request, nth * LINKED_BYTES..(nth + 1) * LINKED_BYTES)?;
            if nth % BATCH == BATCH - 1 {
                batch.submit();
            }
        }
        drop(batch);
        loan.finish()?;
        Ok(Work {
            requests: self.0.len() as u64,
            ..Work::default()
        })
    }
}

/// Opening a package and looking up every one of its names once.
fn entries(session: &mut Session<'_>) -> Result<Vec<Point>> {
    let folder = packages::made_folder(session)?;
    let mut points = Vec::new();
    for count in counts(session, &ENTRIES) {
        let names = packages::Names::of(&folder, count)?;
        let (mut seconds, mut cost) = (Vec::new(), Vec::new());
        for run in 0..=runs(session) {
            let spent = names.open_and_look_up()?;
            if run > 0 {
                seconds.push(spent);
                cost.push(spent * 1e9 / count as f64);
            }
        }
        session.keep(vec![figure(
            "entries",
            count as u64,
            packages::LOOKUP,
            cost,
        )])?;
        points.push((count as f64, seconds));
    }
    Ok(points)
}

/// One request of up to 4 GiB of a sparse file, past the cache.
fn sizes(session: &mut Session<'_>) -> Result<Vec<Point>> {
    let sizes = counts(session, &SIZES);
    let most = sizes.last().copied().unwrap_or(0);
    let path = session.corpus.folder().join("scale-sparse");
    let sparse = File::create(&path).and_then(|file| file.set_len(most));
    sparse.map_err(|error| Error::file("make", &path, error))?;
    let mut destination = Destination::new(most as usize)?;
    let mut points = Vec::new();
    for size in sizes {
        let mut field = Field::new(WORKLOAD, &case_name("size", size));
        let file = CorpusFile::stored(&path, size, 0);
        field.try_add("ring", Straight::new(&file, 1 << 20, 8));
        field.add(OneRequest(path.clone(), size, None));
        let case = Case {
            workload: WORKLOAD,
            name: case_name("size", size),
            runs: runs(session),
            warm_up: true,
            destination_len: size as usize,
            prepare: &|| Ok(()),
            check: &|bytes, _| match bytes.iter().all(|byte| *byte == 0) {
                true => Ok(()),
                false => Err(Error::new("a hole of the file has bytes")),
            },
            figures: &|span, work| {
                let rate = work.bytes as f64 / 1e6 / span.wall;
                vec![(heat::RATE, rate), (CPU, span.cpu * 1e6)]
            },
            limit_by: None,
        };
        session.keep(field.skipped)?;
        let rows = session.case_rows(&case, field.contenders, &mut destination)?;
        let seconds = seconds_of(&rows, heat::RATE, size as f64 / 1e6);
        points.push((size as f64, seconds));
    }
    std::fs::remove_file(&path).map_err(|error| Error::file("remove", &path, error))?;
    Ok(points)
}

/// One request for the whole of a size.
struct OneRequest(PathBuf, u64, Option<(Storage, Queue)>);

impl Contender for OneRequest {
    fn name(&self) -> String {
        "millstream".into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.2 = None;
        let setup = Setup {
            access: Access::Direct,
            ..Setup::default()
        };
        let storage = setup.storage()?;
        let queue = queue_for(&storage, 1)?;
        self.2 = Some((storage, queue));
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let Some((storage, queue)) = &self.2 else {
            return Err(Error::new("run without a preparation"));
        };
        let file = storage.open(&self.0, FileOptions::default());
        let into = &mut destination[..self.1 as usize];
        let loan = Loan::new(into, vec![queue.clone()]);
        let request = Read::range(file, 0, self.1);
        loan.batch(0).detach(request, 0..self.1 as usize)?;
        loan.finish()?;
        Ok(Work {
            bytes: self.1,
            requests: 1,
            ..Work::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_tells_flat_from_linear_from_quadratic() {
        for power in [0.0f64, 1.0, 2.0] {
            let points: Vec<Point> = [10.0f64, 100.0, 1000.0]
                .map(|count| {
                    (
                        count,
                        vec![3.0 * count.powf(power), 5.0 * count.powf(power)],
                    )
                })
                .to_vec();
            let rows = fit("requests", &points);
            let samples = rows[0].samples_of(EXPONENT.name).unwrap();
            assert_eq!(samples.len(), 2);
            assert!(
                samples.iter().all(|it| (it - power).abs() < 1e-9),
                "{samples:?}"
            );
        }
    }

    #[test]
    fn links_are_the_small_files_again_and_wrong_bytes_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let paths = links(folder.path(), 250).unwrap();
        // Once more: what exists is kept.
        assert_eq!(links(folder.path(), 250).unwrap(), paths);
        let mut destination = Destination::new(250 * LINKED_BYTES).unwrap();
        for mut contender in [
            Box::new(StdFiles(paths.clone())) as Box<dyn Contender>,
            Box::new(OurFiles(paths.clone(), None)),
        ] {
            destination.poison();
            contender.prepare().unwrap();
            contender.run(&mut destination).unwrap();
            check_links(&destination[..250 * LINKED_BYTES]).unwrap();
        }
        destination[7 * LINKED_BYTES] ^= 1;
        assert!(check_links(&destination[..250 * LINKED_BYTES]).is_err());
    }
}
