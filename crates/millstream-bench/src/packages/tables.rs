//! Opening, lookups, and what tiny files cost.

use std::cell::RefCell;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use fastrand::Rng;
use millstream::{Access, CodecId, FileOptions, Read, Storage};
use millstream_pak::{Coding, Item, Package};

use crate::case::{Case, Contender, Work};
use crate::cold;
use crate::error::{Result, ensure};
use crate::files::len_of;
use crate::memory::Destination;
use crate::packages::batch::{LOOKUP, SIZE, UNTHROTTLED_MBPS, WORKLOAD, auto, options, packed};
use crate::rows::Metric;
use crate::session::Session;
use crate::setup::{Setup, queue_for};

/// Open and first lookup.
const FIRST: Metric = Metric::lower("first-lookup", "ms");
/// Lookups of one sample: fewer would find their entries in the caches.
const LOOKUPS: usize = 1 << 20;
/// Files of the case about tiny ones, and bytes of each.
const TINY_COUNT: usize = 100_000;
const TINY_BYTES: usize = 200;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let mut destination = Destination::new(0)?;
    for count in [10_000, session.size(1_000_000, 100_000)] {
        if let Some(mut case) = session.begin(WORKLOAD, format!("open {count} entries cold")) {
            add_first_lookups(&mut case, &pack_names(folder, count)?, count)?;
            session.run(case, &mut destination)?;
        }
        if let Some(mut case) = session.begin(WORKLOAD, format!("lookup {count}")) {
            add_lookups(&mut case, &pack_names(folder, count)?, count)?;
            session.run(case, &mut destination)?;
        }
    }
    let name = format!("{TINY_COUNT} files of {TINY_BYTES} bytes");
    let Some(mut case) = session.begin(WORKLOAD, name) else {
        return Ok(());
    };
    let path = folder.join("tiny.mpak");
    packed(&path, &options(auto(UNTHROTTLED_MBPS)), || {
        let mut random = Rng::with_seed(0x7141);
        let mut item = |nth: usize| {
            // Noise: what could shrink would hide what the tables cost.
            let bytes: Vec<u8> = (0..TINY_BYTES).map(|_| random.u8(..)).collect();
            Item::from_bytes(format!("tiny/{:03}/{nth:06}.bin", nth / 200), bytes)
        };
        Ok((0..TINY_COUNT).map(&mut item).collect())
    })?;
    let share = len_of(&path)? as f64 / (TINY_COUNT * TINY_BYTES) as f64;
    case.add("millstream", move |_| {
        Ok(Work::figures(vec![(SIZE, share)]))
    });
    (case.runs, case.warm_up) = (1, false);
    session.run(case, &mut destination).map(drop)
}

fn name_of(nth: usize) -> String {
    format!(
        "assets/{:03}/{:02}/object-{nth:07}.bin",
        nth % 499,
        nth % 17
    )
}

/// Open and first lookup, and a bare read of the same tables.
fn add_first_lookups(case: &mut Case<'_>, path: &Path, count: usize) -> Result<()> {
    let setup = Setup {
        access: Access::Direct,
        ..Setup::default()
    };
    let hot = Package::open(&setup.storage()?, path)?.hot_bytes();
    let figure = |begun: Instant| {
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        Ok(Work::figures(vec![(FIRST, milliseconds)]))
    };
    let from = path.to_owned();
    let first = move |storage: &mut Storage, _: &mut Destination| {
        let begun = Instant::now();
        let package = Package::open(storage, &from)?;
        let found = package.lookup(name_of(count / 2).as_bytes())?;
        let work = figure(begun);
        ensure(found.is_some(), "a name is missing")?;
        work
    };
    let from = path.to_owned();
    let bare = move |storage: &mut Storage, _: &mut Destination| {
        let queue = queue_for(storage, 1)?;
        let file = storage.open(&from, FileOptions::default());
        let begun = Instant::now();
        black_box(queue.submit(Read::range(file, 0, hot))?.wait()?.len());
        figure(begun)
    };
    case.push(Contender::prepared(
        "millstream",
        move || setup.storage(),
        first,
    ));
    case.push(Contender::prepared(
        "hot-read",
        move || setup.storage(),
        bare,
    ));
    let path = path.to_owned();
    case.prepare(move || cold::drop_path(&path));
    Ok(())
}

/// Lookups one by one by name, and many at once by name and by hash.
fn add_lookups(case: &mut Case<'_>, path: &Path, count: usize) -> Result<()> {
    let storage = Setup::default().storage()?;
    let package = Package::open(&storage, path)?;
    package.preload()?;
    let mut random = Rng::with_seed(0x100C);
    let names: Vec<String> = (0..LOOKUPS)
        .map(|_| name_of(random.usize(..count)))
        .collect();
    let hash = |name: &String| package.hash_name(name.as_bytes());
    let hashes: Vec<u64> = names.iter().map(hash).collect();
    let shared = Rc::new((package, names, storage));
    let found = Rc::new(RefCell::new(vec![None; LOOKUPS]));
    let figure = |begun: Instant| {
        let each = begun.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64;
        Work::figures(vec![(LOOKUP, each)])
    };
    let of = Rc::clone(&shared);
    case.add("millstream", move |_| {
        let (package, names, _) = &*of;
        let (begun, mut hits) = (Instant::now(), 0);
        for name in names {
            let hit = package.lookup(name.as_bytes())?;
            hits += usize::from(hit.is_some());
        }
        let work = figure(begun);
        ensure(hits == LOOKUPS, "a name is missing")?;
        Ok(work)
    });
    let all_found = |found: &mut [Option<_>]| {
        let all = found.iter().all(Option::is_some);
        found.fill(None);
        ensure(all, "a name is missing")
    };
    let (of, into) = (Rc::clone(&shared), Rc::clone(&found));
    case.add("millstream-names", move |_| {
        let (package, names, _) = &*of;
        let mut into = into.borrow_mut();
        let begun = Instant::now();
        package.lookup_names(names, &mut into)?;
        let work = figure(begun);
        all_found(&mut into).map(|()| work)
    });
    case.add("millstream-hashes", move |_| {
        let mut into = found.borrow_mut();
        let begun = Instant::now();
        shared.0.lookup_hashes(&hashes, &mut into)?;
        let work = figure(begun);
        all_found(&mut into).map(|()| work)
    });
    Ok(())
}

/// A package of many names, for the series of `requests` about scale.
pub(crate) struct Names {
    path: PathBuf,
    names: Vec<String>,
}

impl Names {
    /// The package of so many names in `folder`, made if it is not there.
    pub(crate) fn of(folder: &Path, count: usize) -> Result<Names> {
        Ok(Names {
            path: pack_names(folder, count)?,
            names: (0..count).map(name_of).collect(),
        })
    }

    /// Seconds for opening it and finding every name once.
    pub(crate) fn open_and_look_up(&self) -> Result<f64> {
        let storage = Setup::default().storage()?;
        let begun = Instant::now();
        let package = Package::open(&storage, &self.path)?;
        let mut hits = 0;
        for name in &self.names {
            let found = package.lookup(name.as_bytes());
            hits += usize::from(found?.is_some());
        }
        let seconds = begun.elapsed().as_secs_f64();
        ensure(hits == self.names.len(), "a name is missing")?;
        Ok(seconds)
    }
}

/// The package of so many names in `folder`, made if it is not there.
fn pack_names(folder: &Path, count: usize) -> Result<PathBuf> {
    let path = folder.join(format!("names-{count}.mpak"));
    let options = options(Coding::Fixed(CodecId::STORED));
    packed(&path, &options, || Ok(named_items(count)))?;
    Ok(path)
}

/// Many names with a few bytes each.
pub(super) fn named_items(count: usize) -> Vec<Item> {
    let item = |nth| Item::from_bytes(name_of(nth), (nth as u32).to_le_bytes());
    (0..count).map(item).collect()
}
