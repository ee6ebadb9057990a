//! Workload `packages`: what one file with one table is worth.
//!
//! - opening a large package cold, up to the first lookup, beside a bare read of its tables;
//! - lookups by name and by hash;
//! - short texts with a dictionary and without;
//! - a start-up of many small files from a package, beside the loose files read by threads and by
//!   every rival;
//! - a folder of real data (`packages/NAME` below the corpus folder; links to files are followed),
//!   beside the device, and beside a deflated zip;
//! - what each kind of resource shrinks to, and how fast it is decoded, codec by codec;
//! - the rate of packing beside the codecs alone, and the most memory that packing takes;
//! - `auto` beside every fixed codec, unthrottled and under each throttle.
//!
//! Loaded bytes lie in buffers of the storage, which are recycled; they are compared with the
//! hashes of the loose files outside of the timed part.

use std::path::{Path, PathBuf};

use millstream::{CodecId, Storage};
use millstream_pak::{BatchOptions, Coding, Item, PackOptions, PackReport, Package, Target};
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::ours::{Setup, failed, queue_for};
use crate::rows::{Metric, Params, Row};
use crate::startup::Plan;
use crate::workload::{Field, Session};

mod codings;
mod folder;
mod kinds;
mod loose;
mod memory;
mod packing;
mod tables;
mod texts;
#[cfg(feature = "peers")]
mod zipped;

pub(crate) use memory::PEAK;
pub(crate) use tables::Names;

pub(crate) const WORKLOAD: &str = "packages";
/// From the first call to the last byte.
pub(crate) const TOTAL: Metric = Metric::lower("total", "ms");
/// Raw bytes a second.
pub(crate) const RATE: Metric = Metric::higher("rate", "MB/s");
/// Bytes of the package over the raw bytes.
pub(crate) const SIZE: Metric = Metric::lower("size", "of raw");
/// Open and first lookup.
pub(crate) const FIRST: Metric = Metric::lower("first-lookup", "ms");
/// One lookup.
pub(crate) const LOOKUP: Metric = Metric::lower("lookup", "ns");

/// Counts up when packages are made otherwise: those of an earlier build are not used again.
const MADE: u32 = 5;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let folder = made_folder(session)?;
    // First, while the process has no free memory that would hide what packing takes.
    memory::run(session, &folder)?;
    tables::run(session, &folder)?;
    start_up(session, &folder)?;
    texts::run(session, &folder)?;
    kinds::run(session, &folder)?;
    codings::run(session, &folder)?;
    packing::run(session, &folder)?;
    folder::run(session, &folder)
}

/// Where packages are made and kept.
pub(crate) fn made_folder(session: &Session<'_>) -> Result<PathBuf> {
    let folder = format!("packages-made-{MADE}");
    let folder = session.corpus.folder().join(folder);
    std::fs::create_dir_all(&folder).map_err(|error| Error::file("make", &folder, error))?;
    Ok(folder)
}

/// What a package must deliver.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) xxh3: u64,
}

/// Packs, if the package of that name is not there yet.
pub(crate) fn packed(
    path: &Path,
    coding: Coding,
    items: impl FnOnce() -> Result<Vec<Item>>,
) -> Result<Option<PackReport>> {
    let options = PackOptions {
        coding,
        ..PackOptions::default()
    };
    packed_with(path, &options, items)
}

/// As [`packed`], with more to say.
pub(crate) fn packed_with(
    path: &Path,
    options: &PackOptions<'_>,
    items: impl FnOnce() -> Result<Vec<Item>>,
) -> Result<Option<PackReport>> {
    if path.exists() {
        return Ok(None);
    }
    let report = millstream_pak::write_file(items()?, options, path);
    Ok(Some(report.map_err(|error| failed(&error))?))
}

pub(crate) fn auto(rate: f64) -> Coding {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Coding::Auto(Target {
        megabytes_per_second: rate,
        cores: cores as u32,
    })
}

/// What the fixed codecs are called.
pub(crate) const FIXED: [(&str, CodecId); 5] = [
    ("stored", CodecId::STORED),
    ("zlib", CodecId::ZLIB),
    ("zstd", CodecId::ZSTD),
    ("lz4", CodecId::LZ4_BLOCK),
    ("gdeflate", CodecId::GDEFLATE),
];

/// All entries of a package, in one batch.
pub(crate) struct Batch {
    pub(crate) name: String,
    pub(crate) package: PathBuf,
    pub(crate) wanted: std::sync::Arc<Vec<Wanted>>,
    /// So many such batches, each enqueued before the one ahead of it is waited for.
    pub(crate) passes: usize,
    /// Lives on between runs, so that its buffers are recycled, as everyone's are.
    pub(crate) storage: Option<Storage>,
}

impl Batch {
    /// One pass.
    pub(crate) fn new(
        name: impl Into<String>,
        package: &Path,
        wanted: &std::sync::Arc<Vec<Wanted>>,
    ) -> Batch {
        Batch {
            name: name.into(),
            package: package.to_path_buf(),
            wanted: std::sync::Arc::clone(wanted),
            passes: 1,
            storage: None,
        }
    }
}

impl Contender for Batch {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&mut self) -> Result<()> {
        if self.storage.is_none() {
            let access = millstream::Access::Direct;
            let setup = Setup {
                access,
                retained_bytes: Some(limits::BATCH_RETAINED_BYTES),
                ..Setup::default()
            };
            self.storage = Some(setup.storage()?);
        }
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let storage = self.storage.as_ref();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let queue = queue_for(storage, self.wanted.len() * self.passes.min(2))?;
        let begun = Moment::now();
        let package = Package::open(storage, &self.package).map_err(|error| failed(&error))?;
        let mut entries = Vec::with_capacity(self.wanted.len());
        for wanted in self.wanted.iter() {
            let found = package.lookup(wanted.name.as_bytes());
            let found = found.map_err(|error| failed(&error))?;
            entries.push(found.ok_or_else(|| Error::new("a name is missing"))?.index);
        }
        let (mut ahead, mut loaded) = (None, Vec::new());
        let (mut bytes, mut requests) = (0, 0);
        for pass in 0..=self.passes {
            let enqueue = || package.enqueue_all(&queue, &entries, &BatchOptions::default());
            let next = (pass < self.passes).then(enqueue).transpose();
            let next = next.map_err(|error| failed(&error))?;
            let Some(batch) = std::mem::replace(&mut ahead, next) else {
                continue;
            };
            let wait = |nth| batch.wait(nth).map_err(|error| failed(&error));
            loaded = (0..batch.len()).map(wait).collect::<Result<Vec<_>>>()?;
            bytes += loaded.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            requests += batch.requests() as u64;
        }
        let span = begun.elapsed();
        // The bytes of the last pass: those before it were given back for it.
        for (bytes, wanted) in loaded.iter().zip(self.wanted.iter()) {
            if xxh3_64(bytes) != wanted.xxh3 {
                return Err(Error::new(format!("other bytes than {} has", wanted.name)));
            }
        }
        Ok(Work {
            bytes,
            requests,
            span: Some(span),
            ..Work::default()
        })
    }
}

/// The bytes of a package at the device's rate: direct blocks of 512 KiB, eight in flight.
pub(crate) fn device(path: &Path) -> Result<crate::read::Device> {
    let len = std::fs::metadata(path)
        .map_err(|error| Error::file("find", path, error))?
        .len();
    crate::read::device(path, len)
}

pub(crate) fn figures(span: &crate::clock::Span, work: &Work) -> Vec<(Metric, f64)> {
    vec![
        (TOTAL, span.wall * 1e3),
        (RATE, work.bytes as f64 / 1e6 / span.wall),
    ]
}

fn start_up(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let count = session.size(limits::SMALL_COUNT, limits::QUICK_SMALL_COUNT);
    let name = format!("{count} files cold");
    if !session.wants(&name) {
        return Ok(());
    }
    session.say("corpus: small files");
    let small = session.corpus.small(count)?;
    let root = folder.parent().unwrap_or(folder).to_path_buf();
    let entry_name = |path: &Path| {
        let name = path.strip_prefix(&root).unwrap_or(path);
        name.to_string_lossy().into_owned()
    };
    let wanted: Vec<Wanted> = small
        .iter()
        .map(|file| Wanted {
            name: entry_name(&file.path),
            xxh3: file.raw_xxh3,
        })
        .collect();
    let wanted = std::sync::Arc::new(wanted);
    let mut field = Field::new(WORKLOAD, &name);
    let codings = [
        ("millstream", auto(3500.0)),
        ("millstream-stored", Coding::Fixed(CodecId::STORED)),
    ];
    let mut packages = Vec::new();
    for (who, coding) in codings {
        let path = folder.join(format!("small-{count}-{who}.mpak"));
        packed(&path, coding, || {
            let item = |file: &crate::corpus::CorpusFile| {
                Item::from_file(entry_name(&file.path), &file.path).map_err(|error| failed(&error))
            };
            small.iter().map(item).collect()
        })?;
        packages.push(path.clone());
        field.add(Batch::new(who, &path, &wanted));
    }
    field.try_add("device", device(&packages[1]));
    let plan = std::sync::Arc::new(Plan::of_all(small.clone()));
    loose::contenders(session, &mut field, &plan);
    let largest = packages
        .iter()
        .map(|path| std::fs::metadata(path).map_or(0, |it| it.len() as usize));
    let len = largest.max().unwrap_or(0).max(plan.destination_len) + (1 << 20);
    let mut destination = Destination::new(len)?;
    let case = Case {
        workload: WORKLOAD,
        name,
        runs: session.runs(),
        warm_up: true,
        destination_len: len,
        prepare: &|| {
            let loose = small.iter().map(|file| &file.path);
            loose
                .chain(&packages)
                .try_for_each(|path| cold::drop_path(path))
        },
        check: &|_, _| Ok(()),
        figures: &figures,
        limit_by: None,
    };
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, &mut destination)
}

/// A row of figures that are taken outside of turns.
pub(crate) fn row(case: &str, who: &str, metric: Metric, samples: Vec<f64>) -> Row {
    Row::figures(WORKLOAD, case, who, metric, samples, Params::new())
}
