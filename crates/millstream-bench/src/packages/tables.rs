//! Opening, lookups, and what tiny files cost.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use fastrand::Rng;
use millstream::{Access, CodecId, FileOptions, Read};
use millstream_pak::{Coding, Item, Package};

use super::{FIRST, LOOKUP, SIZE, WORKLOAD, packed, row};
use crate::cold;
use crate::error::{Error, Result};
use crate::ours::{Setup, failed, queue_for};
use crate::workload::Session;

/// Lookups of one sample: fewer would find their entries in the caches.
const LOOKUPS: usize = 1 << 20;
/// Files of the case about tiny ones, and bytes of each.
const TINY_COUNT: usize = 100_000;
const TINY_BYTES: usize = 200;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    for count in [10_000, 1_000_000] {
        let case = format!("lookup {count}");
        let open = format!("open {count} entries cold");
        if !session.wants(&case) && !session.wants(&open) {
            continue;
        }
        session.say(&format!("{WORKLOAD}: {case}"));
        let path = folder.join(format!("names-{count}.mpak"));
        pack_names(&path, count)?;
        if session.wants(&open) {
            first_lookup(session, &open, &path, count)?;
        }
        if session.wants(&case) {
            lookups(session, &case, &path, count)?;
        }
    }
    tiny(session, folder)
}

fn name_of(nth: usize) -> String {
    format!(
        "assets/{:03}/{:02}/object-{nth:07}.bin",
        nth % 499,
        nth % 17
    )
}

/// Open and first lookup, and a bare read of the same tables, in turns.
fn first_lookup(session: &mut Session<'_>, case: &str, path: &Path, count: usize) -> Result<()> {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..=session.runs() {
        cold::drop_path(path)?;
        let setup = Setup {
            access: Access::Direct,
            ..Setup::default()
        };
        let storage = setup.storage()?;
        let begun = Instant::now();
        let package = Package::open(&storage, path).map_err(|error| failed(&error))?;
        let found = package.lookup(name_of(count / 2).as_bytes());
        let found = found.map_err(|error| failed(&error))?;
        ours.push(begun.elapsed().as_secs_f64() * 1e3);
        if found.is_none() {
            return Err(Error::new("a name is missing"));
        }
        let hot = package.hot_bytes();
        drop(package);
        cold::drop_path(path)?;
        let storage = setup.storage()?;
        let queue = queue_for(&storage, 1)?;
        let file = storage.open(path, FileOptions::default());
        let begun = Instant::now();
        black_box(queue.submit(Read::range(file, 0, hot))?.wait()?.len());
        bare.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    // The first of each paid for the machine's first touches.
    let rows = vec![
        row(case, "millstream", FIRST, ours.split_off(1)),
        row(case, "hot-read", FIRST, bare.split_off(1)),
    ];
    session.keep(rows)
}

fn lookups(session: &mut Session<'_>, case: &str, path: &Path, count: usize) -> Result<()> {
    let storage = Setup::default().storage()?;
    let package = Package::open(&storage, path).map_err(|error| failed(&error))?;
    package.preload().map_err(|error| failed(&error))?;
    let mut random = Rng::with_seed(0x100C);
    let picks: Vec<usize> = (0..LOOKUPS).map(|_| random.usize(..count)).collect();
    let names: Vec<String> = picks.iter().map(|&nth| name_of(nth)).collect();
    let hashes: Vec<u64> = names
        .iter()
        .map(|name| package.hash_name(name.as_bytes()))
        .collect();
    let mut found = vec![None; LOOKUPS];
    let (mut by_name, mut by_names, mut by_hash) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=session.runs() {
        let begun = Instant::now();
        let mut hits = 0;
        for name in &names {
            let hit = package
                .lookup(name.as_bytes())
                .map_err(|error| failed(&error))?;
            hits += usize::from(hit.is_some());
        }
        by_name.push(begun.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64);
        let begun = Instant::now();
        let looked = package.lookup_names(&names, &mut found);
        looked.map_err(|error| failed(&error))?;
        by_names.push(begun.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64);
        let all = found.iter().all(Option::is_some);
        found.fill(None);
        let begun = Instant::now();
        let looked = package.lookup_hashes(&hashes, &mut found);
        looked.map_err(|error| failed(&error))?;
        by_hash.push(begun.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64);
        if hits != LOOKUPS || !all || found.iter().any(Option::is_none) {
            return Err(Error::new("a name is missing"));
        }
    }
    let rows = vec![
        row(case, "millstream", LOOKUP, by_name.split_off(1)),
        row(case, "millstream-names", LOOKUP, by_names.split_off(1)),
        row(case, "millstream-hashes", LOOKUP, by_hash.split_off(1)),
    ];
    session.keep(rows)
}

fn tiny(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let case = format!("{TINY_COUNT} files of {TINY_BYTES} bytes");
    if !session.wants(&case) {
        return Ok(());
    }
    session.say(&format!("{WORKLOAD}: {case}"));
    let path = folder.join("tiny.mpak");
    packed(&path, super::auto(3500.0), || {
        let mut random = Rng::with_seed(0x7141);
        let mut item = |nth: usize| {
            // Noise: what could shrink would hide what the tables cost.
            let bytes: Vec<u8> = (0..TINY_BYTES).map(|_| random.u8(..)).collect();
            Item::from_bytes(format!("tiny/{:03}/{nth:06}.bin", nth / 200), bytes)
        };
        Ok((0..TINY_COUNT).map(&mut item).collect())
    })?;
    let bytes = std::fs::metadata(&path)
        .map_err(|error| Error::file("find", &path, error))?
        .len();
    let share = bytes as f64 / (TINY_COUNT * TINY_BYTES) as f64;
    session.keep(vec![row(&case, "millstream", SIZE, vec![share])])
}

/// A package of many names, for the series of `requests` about scale.
pub(crate) struct Names {
    path: std::path::PathBuf,
    names: Vec<String>,
}

impl Names {
    /// The package of so many names in `folder`, made if it is not there.
    pub(crate) fn of(folder: &Path, count: usize) -> Result<Names> {
        let path = folder.join(format!("names-{count}.mpak"));
        pack_names(&path, count)?;
        Ok(Names {
            path,
            names: (0..count).map(name_of).collect(),
        })
    }

    /// Seconds for opening it and finding every name once.
    pub(crate) fn open_and_look_up(&self) -> Result<f64> {
        let storage = Setup::default().storage()?;
        let begun = Instant::now();
        let package = Package::open(&storage, &self.path).map_err(|error| failed(&error))?;
        let mut hits = 0;
        for name in &self.names {
            let found = package.lookup(name.as_bytes());
            hits += usize::from(found.map_err(|error| failed(&error))?.is_some());
        }
        let seconds = begun.elapsed().as_secs_f64();
        if hits != self.names.len() {
            return Err(Error::new("a name is missing"));
        }
        Ok(seconds)
    }
}

fn pack_names(path: &Path, count: usize) -> Result<()> {
    let coding = Coding::Fixed(CodecId::STORED);
    packed(path, coding, || Ok(named_items(count))).map(|_| ())
}

/// Many names with a few bytes each.
pub(super) fn named_items(count: usize) -> Vec<Item> {
    let item = |nth| Item::from_bytes(name_of(nth), (nth as u32).to_le_bytes());
    (0..count).map(item).collect()
}
