//! Workload `archives`: archives of other programs as they are.
//!
//! - `pk3`: opening an archive of deflated entries, and all of them into memory, in its order, one
//!   after the other. The crate `zip` has an archive on each core, over one map; PhysFS (feature
//!   `peers`) reads on each core, too; `7z` writes all entries into a pipe.
//! - `list`: opening an archive and listing its names. `peak` is the memory that this takes beyond
//!   what is resident before.

use std::io::{BufReader, Cursor, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fastrand::Rng;
use millstream::Storage;
use millstream_pak::Archive;
use xxhash_rust::xxh3::xxh3_64;
use zip::ZipArchive;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::corpus::generate::fill;
use crate::memory::peak_of;
use crate::ours::{queue_for, serve, storage};
use crate::prelude::*;
use crate::read::rivals::map;
use crate::threads::{cores, each};

const SEED: u64 = 0xA2C;
/// Least bytes of an entry.
const LEN_MIN: f64 = 200.0;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    for instance in session.cases("archives", "load") {
        let made = &Made::new(session, &instance)?;
        let mut case = session.begin(&instance);
        instance
            .contenders()
            .for_each(|name| add_load(&mut case, name, made));
        case.check(made.bytes, |bytes, _| {
            ensure(xxh3_64(bytes) == made.digest, "other bytes than went in")
        });
        made.run(session, case, &instance)?;
    }
    for instance in session.cases("archives", "list") {
        let made = &Made::new(session, &instance)?;
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let run = move |storage: &mut Storage, _: &mut Destination| {
                let (listed, span) = span_of(|| made.list(name, storage));
                let (again, peak) = peak_of(|| made.list(name, storage))?;
                let wanted = sum(made.entries.iter().map(|(name, _)| name.as_bytes()));
                let right = [listed?, again?] == [wanted; 2];
                ensure(right, "other names than went in")?;
                let peak = vec![(Metric::of("peak MiB"), peak)];
                Ok(made.work().took(span).with(peak))
            };
            case.push(name, fresh(|| storage("millstream"), run));
        }
        made.run(session, case, &instance)?;
    }
    Ok(())
}

/// An archive, and what is in it.
struct Made {
    path: PathBuf,
    /// Names and lengths of entries in their order.
    entries: Vec<(String, usize)>,
    bytes: usize,
    digest: u64,
}

impl Made {
    /// Makes the archive unless it exists. Lengths are evenly distributed in their logarithm.
    fn new(session: &Session<'_>, instance: &Instance) -> Result<Made> {
        let (count, len_max): (usize, usize) = (instance.get("count"), instance.get("len_max"));
        let mut random = Rng::with_seed(SEED);
        let entry = |nth| {
            let len = LEN_MIN * (len_max as f64 / LEN_MIN).powf(random.f64());
            let name = format!("models/{:03}/{:02}/part-{nth:06}.md3", nth % 499, nth % 17);
            (name, len as usize)
        };
        let entries: Vec<(String, usize)> = (0..count).map(entry).collect();
        let mut raw = vec![0; entries.iter().map(|(_, len)| len).sum()];
        fill(SEED, &mut raw);
        let path = session
            .corpus
            .folder()
            .join(format!("archive-{count}-{len_max}.pk3"));
        if !path.exists() {
            let (mut zip, mut rest) = (ZipWriter::new(Cursor::new(Vec::new())), &raw[..]);
            for (name, len) in &entries {
                zip.start_file(name, SimpleFileOptions::default())?;
                zip.write_all(rest.split_off(..*len).expect("the bytes of all"))?;
            }
            replace(&path, zip.finish()?.get_ref())?;
        }
        let (bytes, digest) = (raw.len(), xxh3_64(&raw));
        Ok(Made {
            path,
            entries,
            bytes,
            digest,
        })
    }

    fn run(&self, session: &mut Session<'_>, mut case: Case<'_>, of: &Instance) -> Result<()> {
        let is_cold = of.get::<String>("state") == "cold";
        let paths = [self.path.clone()];
        case.prepare(move || make_ready(&paths, is_cold));
        session.run(case)
    }

    fn work(&self) -> Work {
        Work::of(self.bytes as u64, self.entries.len())
    }

    fn load(&self, storage: &Storage, into: &mut [u8]) -> Result<Work> {
        let archive = Archive::open(storage, &self.path)?;
        let mut at = 0;
        let request = |(name, len): &(String, usize)| {
            at += len;
            Ok((archive.read(name)?, at - len..at))
        };
        let requests: Result<Vec<_>> = self.entries.iter().map(request).collect();
        serve(&queue_for(storage, self.entries.len())?, into, requests?)?;
        Ok(self.work())
    }

    /// Reads each entry on one of as many threads as there are cores, with a state of its own.
    fn by_threads<S>(
        &self,
        mut into: &mut [u8],
        state: impl Fn() -> S + Sync,
        read: impl Fn(&mut S, (usize, &mut [u8])) -> Result<()> + Sync,
    ) -> Result<Work> {
        let part = |(_, len): &(String, usize)| into.split_off_mut(..*len).expect("room for all");
        let parts: Vec<&mut [u8]> = self.entries.iter().map(part).collect();
        each(cores(), parts.into_iter().enumerate(), state, read)?;
        Ok(self.work())
    }

    fn by_zip(&self, into: &mut [u8]) -> Result<Work> {
        let map = map(&open_buffered(&self.path)?, 0, len_of(&self.path)? as usize)?;
        let archive = ZipArchive::new(Cursor::new(&map[..]))?;
        let state = || archive.clone();
        self.by_threads(into, state, |archive, (nth, into)| {
            let mut entry = archive.by_index(nth)?;
            entry.read_exact(into)?;
            // At its end the checksum is compared.
            ensure(entry.read(&mut [0])? == 0, "an entry is too long")
        })
    }

    #[cfg(feature = "peers")]
    fn by_physfs(&self, into: &mut [u8]) -> Result<Work> {
        let mounted = millstream_peers::physfs::Mounted::new(&self.path)?;
        let state = || ();
        self.by_threads(into, state, |(), (nth, into)| {
            Ok(mounted.read(&self.entries[nth].0, into)?)
        })
    }

    fn by_7z(&self, into: &mut [u8]) -> Result<Work> {
        let mut command = Command::new("7z");
        command
            .args(["x", "-so"])
            .arg(&self.path)
            .stderr(Stdio::null());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.what("start 7z")?;
        let read = child.stdout.take().map(|mut pipe| pipe.read_exact(into));
        let is_done = child.wait()?.success() && read.is_some_and(|read| read.is_ok());
        ensure(is_done, "7z failed").map(|()| self.work())
    }

    /// Opens the archive; returns the sum of its names' hashes.
    fn list(&self, contender: &str, storage: &Storage) -> Result<u64> {
        if contender == "zip" {
            let archive = ZipArchive::new(BufReader::new(open_buffered(&self.path)?))?;
            return Ok(sum(archive.file_names_raw()));
        }
        let archive = Archive::open(storage, &self.path)?;
        Ok(sum((0..archive.len()).map(|index| archive.name(index))))
    }
}

fn sum<'a>(names: impl Iterator<Item = &'a [u8]>) -> u64 {
    names.map(xxh3_64).fold(0, u64::wrapping_add)
}

fn add_load<'a>(case: &mut Case<'a>, name: &'static str, made: &'a Made) {
    match name {
        "zip" => case.add(name, |into| made.by_zip(into)),
        "7z" => case.add(name, |into| made.by_7z(&mut into[..made.bytes])),
        #[cfg(feature = "peers")]
        "physfs" => case.add(name, |into| made.by_physfs(into)),
        #[cfg(not(feature = "peers"))]
        "physfs" => return,
        _ => {
            let run = |storage: &mut Storage, into: &mut Destination| made.load(storage, into);
            case.push(name, fresh(move || storage(name), run))
        }
    };
}
