//! Opening packages, and lookups.

use std::cell::RefCell;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use millstream::{CodecId, FileOptions, Read, Storage};
use millstream_pak::{Coding, EntryInfo, Item, Package};

use super::batch::packed;
use crate::ours::{self, queue_for};
use crate::prelude::*;

/// Lookups of one sample: fewer would find their entries in the processor's caches.
const LOOKUPS: usize = 1 << 20;
/// Stands for the digest of lookups whose results lie in `found`.
const IN_FOUND: u64 = 1;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    for instance in session.cases("packages", "open") {
        let count = instance.get("count");
        let path = pack_names(folder, count)?;
        let mut case = session.begin(&instance);
        add_first_lookups(&mut case, &path, count)?;
        case.prepare(|| drop_path(&path));
        session.run(case)?;
    }
    for instance in session.cases("packages", "lookup") {
        let count = instance.get("count");
        let names = Names::new(&pack_names(folder, count)?, count)?;
        let mut case = session.begin(&instance);
        names.add(&mut case);
        session.run(case)?;
    }
    Ok(())
}

fn name_of(nth: usize) -> String {
    let (folder, below) = (nth % 499, nth % 17);
    format!("assets/{folder:03}/{below:02}/object-{nth:07}.bin")
}

/// Returns the package of `count` names in `folder`, making it if it does not exist.
fn pack_names(folder: &Path, count: usize) -> Result<PathBuf> {
    let path = folder.join(format!("names-{count}.mpak"));
    let stored = Coding::Fixed(CodecId::STORED);
    let item = |nth| Item::from_bytes(name_of(nth), (nth as u32).to_le_bytes());
    packed(&path, stored, || Ok((0..count).map(item).collect()))?;
    Ok(path)
}

/// Adds open with a first lookup, and a bare read of the same tables.
fn add_first_lookups<'a>(case: &mut Case<'a>, path: &'a Path, count: usize) -> Result<()> {
    let hot = Package::open(&ours::direct()?, path)?.hot_bytes();
    let make = ours::direct;
    let first = move |storage: &mut Storage, _: &mut Destination| {
        let package = Package::open(storage, path)?;
        let found = package.lookup(name_of(count / 2).as_bytes())?;
        ensure(found.is_some(), "a name is missing")?;
        Ok(Work::default())
    };
    case.push("millstream", fresh(make, first));
    let make = move || {
        let storage = ours::direct()?;
        let (queue, file) = (
            queue_for(&storage, 1)?,
            storage.open(path, FileOptions::default()),
        );
        Ok((storage, queue, file))
    };
    let bare = move |(_, queue, file): &mut (Storage, millstream::Queue, _),
                     _: &mut Destination| {
        black_box(queue.submit(Read::range(*file, 0, hot))?.wait()?.len());
        Ok(Work::default())
    };
    case.push("hot-read", fresh(make, bare));
    Ok(())
}

struct Names {
    package: Package,
    names: Vec<String>,
    hashes: Vec<u64>,
    found: RefCell<Vec<Option<EntryInfo>>>,
    _storage: Storage,
}

impl Names {
    fn new(path: &Path, count: usize) -> Result<Names> {
        let storage = ours::storage("millstream")?;
        let package = Package::open(&storage, path)?;
        package.preload()?;
        let mut random = Rng::with_seed(0x100C);
        let names = (0..LOOKUPS).map(|_| name_of(random.usize(..count)));
        let names: Vec<String> = names.collect();
        let hashes = names.iter().map(|name| package.hash_name(name.as_bytes()));
        Ok(Names {
            hashes: hashes.collect(),
            found: RefCell::new(vec![None; LOOKUPS]),
            names,
            package,
            _storage: storage,
        })
    }

    /// Adds lookups one by one by name, and many at once by hash.
    fn add<'a>(&'a self, case: &mut Case<'a>) {
        let looked_up = || Work::of(0, LOOKUPS);
        case.add("millstream", move |_| {
            let mut hits = 0;
            for name in &self.names {
                let hit = self.package.lookup(name.as_bytes())?;
                hits += usize::from(hit.is_some());
            }
            ensure(hits == LOOKUPS, "a name is missing")?;
            Ok(looked_up())
        });
        case.add("millstream-hashes", move |_| {
            self.package
                .lookup_hashes(&self.hashes, &mut self.found.borrow_mut())?;
            Ok(looked_up().with_digest(IN_FOUND))
        });
        case.check(0, |_, work| {
            let mut found = self.found.borrow_mut();
            let all = work.digest != Some(IN_FOUND) || found.iter().all(Option::is_some);
            found.fill(None);
            ensure(all, "a name is missing")
        });
    }
}
