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
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use millstream::{Access, FileId, FileOptions, Queue, Read, Storage};
use xxhash_rust::xxh3::xxh3_64;

use super::ours::{one_range, submit_all};
use crate::case::{Case, Contender, Work};
use crate::clock::Moment;
use crate::error::{Context, Error, Result, ensure};
use crate::files::{make_folder, open_buffered, remove};
use crate::lend::Loan;
use crate::memory::Destination;
use crate::null_device::{self, COST};
use crate::packages::batch::{LOOKUP, made_folder};
use crate::packages::tables::Names;
use crate::read::rings::straight;
use crate::requests::cells::{CPU, IOPS, RATE, WORKLOAD};
use crate::rows::{Metric, Params, Row, is_ours};
use crate::session::Session;
use crate::setup::{Setup, queue_for};
use crate::stats;

/// The power of the count with which the total time grows.
const EXPONENT: Metric = Metric::lower("exponent", "power");
const QUEUES: &[u64] = &[1, 2, 4, 8];
/// The series: the word in their cases' names, counts, and how many of these a quick run leaves
/// out.
const SERIES: [(&str, &[u64], usize); 6] = [
    ("requests", &[100, 1_000, 10_000, 100_000, 1_000_000], 2),
    ("queues", QUEUES, 0),
    ("producers", QUEUES, 0),
    ("files", &[100, 1_000, 10_000, 100_000], 2),
    ("entries", &[100, 1_000, 10_000, 100_000, 1_000_000], 2),
    (
        "size",
        &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 4 << 30],
        2,
    ),
];
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

/// Runs the series.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    for (series, counts, left_out) in SERIES {
        if !session.wants(&format!("scale {series} ")) {
            continue;
        }
        session.say(&format!("{WORKLOAD}: scale {series}"));
        let left_out = session.size(0, left_out);
        let counts = &counts[..counts.len() - left_out];
        let name = format!("scale {series} fit");
        match points(session, series, counts) {
            Ok(points) => {
                let row = fit(&name, &points);
                session.keep(vec![row])?;
            }
            Err(error) => {
                session.fail(format!("{WORKLOAD} {name} millstream: {error}"));
                session.skip(WORKLOAD, &name, "millstream", &error)?;
            }
        }
    }
    Ok(())
}

/// A count, and the total seconds of every run at it.
type Point = (f64, Vec<f64>);

/// Runs the cases of a series.
fn points(session: &mut Session<'_>, series: &str, counts: &[u64]) -> Result<Vec<Point>> {
    let most = counts.last().copied().unwrap_or(0) as usize;
    let folder = session.corpus.folder().to_owned();
    let shared = session.size(SHARED_REQUESTS, QUICK_SHARED_REQUESTS);
    let destination_len = match series {
        "requests" => most * NULL_BYTES,
        "queues" | "producers" => shared * NULL_BYTES,
        "files" => most * LINKED_BYTES,
        "size" => most,
        _ => 0,
    };
    let mut destination = Destination::new(destination_len)?;
    let null = Rc::new(null_device::storage(None)?);
    let links = match series {
        "files" => links(&folder.join("scale-links"), most)?,
        _ => Vec::new(),
    };
    let sparse = folder.join("scale-sparse");
    if series == "size" {
        let made = File::create(&sparse).and_then(|file| file.set_len(most as u64));
        made.on("make", &sparse)?;
    }
    let mut points = Vec::new();
    for &count in counts {
        let name = format!("scale {series} {count}");
        let mut case = Case::new(WORKLOAD, name, session.runs().min(RUNS_MAX));
        // What the metric that tells the time is of: seconds are this over the metric, or times it.
        let amount = match series {
            "requests" => requests(&mut case, count as usize, &null),
            "queues" => sides(&mut case, count as usize, shared, &null, false),
            "producers" => sides(&mut case, count as usize, shared, &null, true),
            "files" => files(&mut case, &links[..count as usize]),
            "entries" => entries(&mut case, count as usize, session)?,
            _ => size(&mut case, count as usize, &sparse),
        };
        let rows = session.run(case, &mut destination)?;
        points.push((count as f64, seconds_of(&rows, amount)?));
    }
    if series == "size" {
        remove(&sparse)?;
    }
    Ok(points)
}

/// How the seconds of a run are found from a metric.
type Seconds = (Metric, fn(f64, f64) -> f64, f64);

/// Total seconds of our runs.
fn seconds_of(rows: &[Row], (metric, seconds, amount): Seconds) -> Result<Vec<f64>> {
    let mut ours = rows.iter().filter(|row| is_ours(&row.contender));
    let samples = ours.find_map(|row| row.samples_of(metric.name));
    let samples = samples.ok_or_else(|| Error::new("a case of the series has no figures"))?;
    Ok(samples.iter().map(|it| seconds(amount, *it)).collect())
}

/// The exponent of every run over the points.
fn fit(name: &str, points: &[Point]) -> Row {
    let runs = points.iter().map(|(_, seconds)| seconds.len()).min();
    let slope = |run: usize| {
        let logs = points
            .iter()
            .map(|(count, all)| (count.ln(), all[run].ln()));
        stats::slope(&logs.collect::<Vec<_>>())
    };
    let samples = (0..runs.unwrap_or(0)).filter_map(slope).collect();
    let params = Params::from([("points".into(), points.len().into())]);
    Row::figures(WORKLOAD, name, "millstream", EXPONENT, samples, params)
}

/// All requests submitted at once, on a device that does nothing.
fn requests(case: &mut Case<'_>, count: usize, null: &Rc<(Storage, FileId)>) -> Seconds {
    // Few requests are over in microseconds: many times, then.
    let times = (10_000 / count).max(1);
    let null = Rc::clone(null);
    let run = move |destination: &mut Destination| {
        let (storage, file) = &*null;
        let loan = Loan::new(destination, vec![queue_for(storage, count)?]);
        let start = Moment::now();
        for _ in 0..times {
            submit(&loan, 0, *file, 0..count)?;
            loan.drain()?;
        }
        let span = start.elapsed();
        loan.finish()?;
        let each = 1e9 / (times * count) as f64;
        Ok(Work::figures(vec![
            (COST, span.cpu * each),
            (TIME, span.wall * each),
        ]))
    };
    case.push(Contender::new("millstream", run).with("count", count));
    (TIME, |count, each| count * each / 1e9, count as f64)
}

/// Time of a request by the wall.
const TIME: Metric = Metric::lower("time", "ns/request");

/// Submits the requests of these numbers, each with a place of its own.
fn submit(loan: &Loan<'_>, queue: usize, file: FileId, numbers: Range<usize>) -> Result<()> {
    let requests = numbers.map(|number| {
        // Two blocks apart, so that no two of them become one read.
        let offset = (number % (1 << 20) * 2 * NULL_BYTES) as u64;
        let place = number * NULL_BYTES..(number + 1) * NULL_BYTES;
        (Read::range(file, offset, NULL_BYTES as u64), place)
    });
    submit_all(&mut loan.batch(queue), requests)
}

/// The same requests through 1 to 8 queues, all filled by one thread or each by its own.
fn sides(
    case: &mut Case<'_>,
    count: usize,
    total: usize,
    null: &Rc<(Storage, FileId)>,
    threads: bool,
) -> Seconds {
    let (share, null) = (total / count, Rc::clone(null));
    let run = move |destination: &mut Destination| {
        let (storage, file) = (&null.0, null.1);
        let queues = (0..count).map(|_| queue_for(storage, share));
        let loan = Loan::new(destination, queues.collect::<Result<_>>()?);
        let (all, loan_of) = (0..count, &loan);
        let side = |side| submit(loan_of, side, file, side * share..(side + 1) * share);
        let start = Moment::now();
        if threads {
            std::thread::scope(|scope| {
                let all: Vec<_> = all.map(|it| scope.spawn(move || side(it))).collect();
                let gone = |_| Err(Error::new("a thread of the benchmark panicked"));
                let mut ended = all.into_iter().map(|it| it.join().unwrap_or_else(gone));
                ended.try_for_each(|ended| ended)
            })?;
        } else {
            all.into_iter().try_for_each(side)?;
        }
        loan.finish()?;
        let (span, requests) = (start.elapsed(), (share * count) as f64);
        let cost = (COST, span.cpu * 1e9 / requests);
        Ok(Work::figures(vec![cost, (IOPS, requests / span.wall)]))
    };
    case.push(Contender::new("millstream", run).with("count", count));
    (IOPS, |count, rate| count / rate, (share * count) as f64)
}

/// Small files behind many names, all cached: what a file costs beyond its bytes.
fn files(case: &mut Case<'_>, paths: &[PathBuf]) -> Seconds {
    let count = paths.len();
    case.push(std_files(paths.to_vec()));
    case.push(our_files(paths.to_vec()));
    case.check(count * LINKED_BYTES, |bytes, _| check_links(bytes));
    case.figures(move |span, _| {
        let count = count as f64;
        vec![(IOPS, count / span.wall), (CPU, span.cpu * 1e6 / count)]
    });
    (IOPS, |count, rate| count / rate, count as f64)
}

/// Bytes of the small file number `nth`.
fn linked_bytes(nth: usize) -> Vec<u8> {
    let mut bytes = vec![0; LINKED_BYTES];
    crate::corpus::generate::fill((nth % LINKED_FILES) as u64, &mut bytes);
    bytes
}

/// So many names of the small files, made where they are missing.
fn links(folder: &Path, count: usize) -> Result<Vec<PathBuf>> {
    make_folder(folder)?;
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
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.on("make", &path)?,
        }
        paths.push(path);
    }
    Ok(paths)
}

fn check_links(bytes: &[u8]) -> Result<()> {
    let hashes: Vec<u64> = (0..LINKED_FILES)
        .map(|nth| xxh3_64(&linked_bytes(nth)))
        .collect();
    let mut pieces = bytes.chunks_exact(LINKED_BYTES).zip(hashes.iter().cycle());
    let right = pieces.all(|(piece, hash)| xxh3_64(piece) == *hash);
    ensure(right, "other bytes than a file has")
}

/// One file after the other with the standard library.
fn std_files(paths: Vec<PathBuf>) -> Contender {
    Contender::new("std", move |destination| {
        for (path, into) in paths.iter().zip(destination.chunks_exact_mut(LINKED_BYTES)) {
            open_buffered(path)?.read_exact(into).on("read", path)?;
        }
        Ok(Work::of(0, paths.len()))
    })
}

/// All files at once.
fn our_files(paths: Vec<PathBuf>) -> Contender {
    let count = paths.len();
    let make = move || {
        let storage = Setup::default().storage()?;
        let queue = queue_for(&storage, count)?;
        Ok((storage, queue))
    };
    let run = move |(storage, queue): &mut (Storage, Queue), destination: &mut Destination| {
        let loan = Loan::new(destination, vec![queue.clone()]);
        let requests = paths.iter().enumerate().map(|(nth, path)| {
            let request = Read::whole(storage.open(path, FileOptions::default()));
            (request, nth * LINKED_BYTES..(nth + 1) * LINKED_BYTES)
        });
        submit_all(&mut loan.batch(0), requests)?;
        loan.finish()?;
        Ok(Work::of(0, paths.len()))
    };
    Contender::prepared("millstream", make, run)
}

/// Opening a package and looking up every one of its names once.
fn entries(case: &mut Case<'_>, count: usize, session: &Session<'_>) -> Result<Seconds> {
    let names = Names::of(&made_folder(session)?, count)?;
    let run = move |_: &mut Destination| {
        let each = names.open_and_look_up()? * 1e9 / count as f64;
        Ok(Work::figures(vec![(LOOKUP, each)]))
    };
    case.push(Contender::new("millstream", run).with("count", count));
    Ok((LOOKUP, |count, each| count * each / 1e9, count as f64))
}

/// One request of up to 4 GiB of a sparse file, past the cache.
fn size(case: &mut Case<'_>, size: usize, sparse: &Path) -> Seconds {
    let setup = Setup {
        access: Access::Direct,
        ..Setup::default()
    };
    case.try_push("ring", straight(sparse, size as u64, 1 << 20, 8));
    case.push(one_range(sparse, setup, size));
    case.check(size, |bytes, _| {
        let is_hole = bytes.iter().all(|byte| *byte == 0);
        ensure(is_hole, "a hole of the file has bytes")
    });
    case.figures(|span, work| {
        let rate = work.bytes as f64 / 1e6 / span.wall;
        vec![(RATE, rate), (CPU, span.cpu * 1e6)]
    });
    (RATE, |megabytes, rate| megabytes / rate, size as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_tells_flat_from_linear_from_quadratic() {
        for power in [0.0f64, 1.0, 2.0] {
            let seconds = |count: f64| [3.0, 5.0].map(|it| it * count.powf(power)).to_vec();
            let points = [10.0f64, 100.0, 1000.0].map(|count| (count, seconds(count)));
            let row = fit("test", &points);
            let samples = row.samples_of(EXPONENT.name).unwrap();
            assert_eq!(samples.len(), 2);
            let right = |it: &f64| (it - power).abs() < 1e-9;
            assert!(samples.iter().all(right), "{samples:?}");
        }
    }
}
