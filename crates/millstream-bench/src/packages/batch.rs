//! The load of all entries of a package in one batch, how packages are made, and the small files of
//! a start-up as a package: beside the same files loose, read by threads of the standard library
//! and by every rival, and beside the device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::{CodecId, Storage};
use millstream_pak::{BatchOptions, Coding, Item, PackOptions, Package, Target};
use xxhash_rust::xxh3::xxh3_64;

use crate::ours::{options as ours, queue_for};
use crate::peers::{self, AtWork, bare};
use crate::prelude::*;
use crate::startup::plan::Plan;
use crate::threads::cores;

pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// Rate that `auto` assumes if nothing throttles.
const UNTHROTTLED_MBPS: f64 = 3500.0;

/// The digest of contenders with nothing to check in the destination: packages bring buffers of
/// their own, and check those themselves.
pub(super) const CHECKED: u64 = 1;

pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) xxh3: u64,
}

pub(super) fn options(coding: Coding) -> PackOptions<'static> {
    PackOptions {
        coding,
        ..PackOptions::default()
    }
}

pub(super) fn packed(
    path: &Path,
    coding: Coding,
    items: impl FnOnce() -> Result<Vec<Item>>,
) -> Result<()> {
    if !path.exists() {
        millstream_pak::write_file(items()?, &options(coding), path)?;
    }
    Ok(())
}

pub(super) fn codec_of(word: &str) -> CodecId {
    let named = |codec: &CodecId| codec.facts().block_name == Some(word);
    let codec = CodecId::ALL.into_iter().find(named);
    codec.expect("a codec of cases.toml")
}

/// Returns the coding of a contender: `millstream` is `auto` for a disk of `rate` MB/s and this
/// machine's cores, others name a codec.
pub(super) fn coding_of(contender: &str, rate: Option<f64>) -> Coding {
    match contender.strip_prefix("millstream-") {
        Some(word) => Coding::Fixed(codec_of(word)),
        None => Coding::Auto(Target {
            megabytes_per_second: rate.unwrap_or(UNTHROTTLED_MBPS),
            cores: cores() as u32,
        }),
    }
}

pub(super) struct Batch {
    package: PathBuf,
    wanted: Arc<Vec<Wanted>>,
    /// Number of such batches, each enqueued before the one ahead of it is waited for.
    passes: usize,
    /// Kept between runs, so that its buffers are recycled, as those of all contenders are.
    storage: Storage,
}

impl Batch {
    pub(super) fn new(package: &Path, wanted: &Arc<Vec<Wanted>>, passes: usize) -> Result<Batch> {
        let mut options = ours("millstream-direct")?;
        options.retained_bytes = BATCH_RETAINED_BYTES;
        Ok(Batch {
            package: package.to_path_buf(),
            wanted: Arc::clone(wanted),
            passes,
            storage: Storage::new(options)?,
        })
    }
}

impl Method for Batch {
    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let queue = queue_for(&self.storage, self.wanted.len() * self.passes.min(2))?;
        let begun = Moment::now();
        let package = Package::open(&self.storage, &self.package)?;
        let mut entries = Vec::with_capacity(self.wanted.len());
        for wanted in self.wanted.iter() {
            let found = package.lookup(wanted.name.as_bytes())?;
            entries.push(found.ok_or_else(|| Error::new("a name is missing"))?.index);
        }
        let enqueue = || package.enqueue_all(&queue, &entries, &BatchOptions::default());
        let mut batch = enqueue()?;
        let (mut loaded, mut work) = (Vec::new(), Work::default());
        for left in (0..self.passes).rev() {
            let next = (left > 0).then(enqueue).transpose()?;
            let wait = |nth| batch.wait(nth).map_err(Error::from);
            loaded = (0..batch.len()).map(wait).collect::<Result<Vec<_>>>()?;
            work.bytes += loaded.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            work.requests += batch.requests() as u64;
            batch = next.unwrap_or(batch);
        }
        let span = begun.elapsed();
        // The bytes of the last pass: earlier ones were returned for reuse.
        for (bytes, wanted) in loaded.iter().zip(self.wanted.iter()) {
            if xxh3_64(bytes) != wanted.xxh3 {
                return Err(Error::new(format!("other bytes than {} has", wanted.name)));
            }
        }
        Ok(work.took(span).with_digest(CHECKED))
    }
}

pub(super) fn start_up(session: &mut Session<'_>, made: &Path) -> Result<()> {
    for instance in session.cases("packages", "start-up") {
        let count: usize = instance.get("count");
        let files = session.corpus.small(count)?;
        let named = |path: &Path| {
            let name = path.strip_prefix(session.corpus.folder()).unwrap_or(path);
            name.to_string_lossy().into_owned()
        };
        let wanted = files.iter().map(|file| Wanted {
            name: named(&file.path),
            xxh3: file.raw_xxh3,
        });
        let wanted = Arc::new(wanted.collect());
        let item = |path: &PathBuf| Ok(Item::from_file(named(path), path)?);
        let plan = Plan::of_all(files);
        let mut case = session.begin(&instance);
        let mut packages = Vec::<PathBuf>::new();
        for name in instance.contenders() {
            match name {
                "device" => {
                    let device = peers::device(&packages[0]);
                    let run = |mut device: AtWork| {
                        move |into: &mut Destination| Ok(device.run(into)?.with_digest(CHECKED))
                    };
                    case.try_push(name, device.map(run));
                }
                "std-8" => {
                    peers::add_files(&mut case, name, bare("pread"), POOL_THREADS, &plan);
                }
                _ => {
                    let path = made.join(format!("small-{count}-{name}.mpak"));
                    let items = || plan.paths().iter().map(item).collect();
                    packed(&path, coding_of(name, None), items)?;
                    case.push(name, Batch::new(&path, &wanted, 1)?)
                        .with("stored_bytes", len_of(&path)?);
                    packages.push(path);
                }
            }
        }
        peers::startup(&mut case, &plan);
        let largest = packages.iter().map(|path| len_of(path));
        let largest = largest.collect::<Result<Vec<u64>>>()?.into_iter().max();
        let paths = [plan.paths(), packages].concat();
        case.prepare(move || drop_all(&paths));
        case.check(plan.destination_len, |bytes, work| match work.digest {
            Some(CHECKED) => Ok(()),
            _ => plan.check(bytes),
        });
        case.room = (largest.unwrap_or(0) as usize).max(plan.destination_len) + (1 << 20);
        session.run(case)?;
    }
    Ok(())
}
