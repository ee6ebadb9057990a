//! How cost grows: with the number of requests and files, and with the size of one request.
//!
//! Every case of a series is the same work at another count (`scale requests 1000`); the last case
//! of a series (`scale requests fit`) has the exponent of the total time in the count, by least
//! squares over the logarithms: 1 is linear, 0 is flat. Requests run on a device that does nothing,
//! so that only the engine's own work is seen; files are links of a few small ones, so that 10⁵ of
//! them need no 10⁵ blocks on disk; one large request reads a sparse file past the cache, which
//! costs a write to memory and nothing of the disk.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use millstream::{FileOptions, Queue, Read, Storage};
use millstream_report::rows::Figures;

use crate::case::{Case, Work, fresh};
use crate::clock::Moment;
use crate::error::{Context, Error, Result, ensure};
use crate::files::{make_folder, open_buffered, remove};
use crate::memory::Destination;
use crate::metric::Metric;
use crate::null_device;
use crate::ours::{Setup, queue_for, serve};
use crate::read::rings::Straight;
use crate::rows::{self, Params};
use crate::session::Session;
use crate::stats;

/// Bytes of a request on the device that does nothing: one of its blocks.
const NULL_BYTES: usize = 512;
/// Small files behind the links, and bytes of each. File systems allow tens of thousands of links
/// of one file.
const LINKED_FILES: usize = 100;
const LINKED_BYTES: usize = 1 << 10;

/// Runs the series.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    for series in ["requests", "files", "size"] {
        let instances = session.cases("requests", &format!("scale-{series}"));
        let counts: Vec<usize> = instances.iter().map(|it| it.get("count")).collect();
        let Some(&most) = counts.last() else { continue };
        let bytes = match series {
            "requests" => most * NULL_BYTES,
            "files" => most * LINKED_BYTES,
            _ => most,
        };
        let mut destination = Destination::new(bytes)?;
        let folder = session.corpus.folder().to_owned();
        let (sparse, links_in) = (folder.join("scale-sparse"), folder.join("scale-links"));
        let links = if series == "files" {
            links(&links_in, most)?
        } else {
            Vec::new()
        };
        if series == "size" {
            let made = File::create(&sparse).and_then(|file| file.set_len(most as u64));
            made.on("make", &sparse)?;
        }
        let mut points = Vec::new();
        for (instance, &count) in instances.iter().zip(&counts) {
            let mut case = session.begin(instance);
            match series {
                "requests" => requests(&mut case, count)?,
                "files" => files(&mut case, &links[..count]),
                _ => size(&mut case, count, &sparse),
            }
            let rows = session.run(case, &mut destination)?;
            let mut ours = rows.iter().filter(|row| row.contender == "millstream");
            let seconds = ours.find_map(|row| seconds_of(row.figures()?, count as f64));
            let seconds = seconds.ok_or(Error::new("a case of the series has no figures"))?;
            points.push((count as f64, seconds));
        }
        if series == "size" {
            remove(&sparse)?;
        }
        let names = ["requests", &format!("scale {series} fit"), "millstream"];
        let params = Params::from([("points".into(), points.len().into())]);
        let exponent = Metric::of("exponent power");
        session.keep(vec![rows::figures(
            names,
            exponent,
            exponents(&points),
            params,
        )])?;
    }
    Ok(())
}

/// The power of the count with which the total time grows, of every run over the points.
fn exponents(points: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let runs = points.iter().map(|(_, seconds)| seconds.len()).min();
    let slope = |run: usize| {
        let logs = points
            .iter()
            .map(|(count, all)| (count.ln(), all[run].ln()));
        stats::slope(&logs.collect::<Vec<_>>())
    };
    (0..runs.unwrap_or(0)).filter_map(slope).collect()
}

/// The total seconds of every run, if the figures tell the time by the wall.
fn seconds_of(figures: &Figures, count: f64) -> Option<Vec<f64>> {
    let seconds: fn(f64, f64) -> f64 = match &*figures.unit {
        "ns/request" if figures.metric == "time" => |count, each| count * each / 1e9,
        "1/s" => |count, rate| count / rate,
        "MB/s" => |bytes, rate| bytes / 1e6 / rate,
        _ => return None,
    };
    let samples = figures.samples.iter();
    Some(samples.map(|sample| seconds(count, *sample)).collect())
}

/// All requests submitted at once, on a device that does nothing.
fn requests(case: &mut Case<'_>, count: usize) -> Result<()> {
    // Few requests are over in microseconds: many times, then.
    let times = (10_000 / count).max(1);
    let (storage, file) = null_device::storage(None)?;
    let run = move |into: &mut Destination| {
        let queue = queue_for(&storage, count)?;
        let start = Moment::now();
        for _ in 0..times {
            let requests = (0..count).map(|number| {
                // Two blocks apart, so that no two of them become one read.
                let offset = (number % (1 << 20) * 2 * NULL_BYTES) as u64;
                let place = number * NULL_BYTES..(number + 1) * NULL_BYTES;
                (Read::range(file, offset, NULL_BYTES as u64), place)
            });
            serve(&queue, into, requests)?;
        }
        let (span, requests) = (start.elapsed(), times * count);
        let cost = null_device::cost(&span, requests);
        Ok(Work::of(0, requests).took(span).with(cost))
    };
    case.add("millstream", run).with("count", count);
    Ok(())
}

/// Small files behind many names, all cached: what a file costs beyond its bytes. One file after
/// the other with the standard library, and all at once.
fn files<'a>(case: &mut Case<'a>, paths: &'a [PathBuf]) {
    case.add("std", |into| {
        for (path, into) in paths.iter().zip(into.chunks_exact_mut(LINKED_BYTES)) {
            open_buffered(path)?.read_exact(into).on("read", path)?;
        }
        Ok(Work::of(0, paths.len()))
    });
    let run = |(storage, queue): &mut (Storage, Queue), into: &mut Destination| {
        let requests = paths.iter().enumerate().map(|(nth, path)| {
            let request = Read::whole(storage.open(path, FileOptions::default()));
            (request, nth * LINKED_BYTES..(nth + 1) * LINKED_BYTES)
        });
        serve(queue, into, requests)?;
        Ok(Work::of(0, paths.len()))
    };
    let make = || Setup::default().with_queue(paths.len());
    case.push("millstream", fresh(make, run));
    let linked: Vec<u8> = (0..LINKED_FILES).flat_map(linked_bytes).collect();
    case.check(paths.len() * LINKED_BYTES, move |bytes, _| {
        let mut pieces = bytes.chunks(linked.len());
        let right = pieces.all(|piece| *piece == linked[..piece.len()]);
        ensure(right, "other bytes than a file has")
    });
}

/// Bytes of the small file number `nth`.
fn linked_bytes(nth: usize) -> Vec<u8> {
    let mut bytes = vec![0; LINKED_BYTES];
    crate::corpus::generate::fill(nth as u64, &mut bytes);
    bytes
}

/// So many names of the small files, made where they are missing.
fn links(folder: &Path, count: usize) -> Result<Vec<PathBuf>> {
    make_folder(folder)?;
    let link = |nth: usize| {
        let path = folder.join(format!("{nth:06}"));
        let first = folder.join(format!("{:06}", nth % LINKED_FILES));
        let made = match nth < LINKED_FILES {
            // The first of each are written anew: nothing of an earlier run has to be trusted.
            true => std::fs::write(&path, linked_bytes(nth)),
            false => std::fs::hard_link(&first, &path),
        };
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(path),
            made => made.on("make", &path).map(|()| path),
        }
    };
    (0..count).map(link).collect()
}

/// One request of up to 4 GiB of a sparse file, past the cache.
fn size<'a>(case: &mut Case<'a>, size: usize, sparse: &'a Path) {
    Straight::add(case, "ring-1024Kx8", sparse, size as u64);
    let run = move |(storage, queue): &mut (Storage, Queue), into: &mut Destination| {
        let file = storage.open(sparse, FileOptions::default());
        let request = Read::range(file, 0, size as u64);
        serve(queue, &mut into[..size], [(request, 0..size)])?;
        Ok(Work::of(size as u64, 1))
    };
    case.push("millstream", fresh(|| Setup::direct().with_queue(1), run));
    case.check(size, |bytes, _| {
        let is_hole = bytes.iter().all(|byte| *byte == 0);
        ensure(is_hole, "a hole of the file has bytes")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_tells_flat_from_linear_from_quadratic() {
        for power in [0.0f64, 1.0, 2.0] {
            let seconds = |count: f64| [3.0, 5.0].map(|it| it * count.powf(power)).to_vec();
            let points = [10.0f64, 100.0, 1000.0].map(|count| (count, seconds(count)));
            let found = exponents(&points);
            assert_eq!(found.len(), 2);
            assert!(
                found.iter().all(|it| (it - power).abs() < 1e-9),
                "{found:?}"
            );
        }
    }
}
