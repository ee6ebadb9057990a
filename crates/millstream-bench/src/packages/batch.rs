//! What all cases of workload `packages` share: metrics, packages that are made once, and the load
//! of all entries in one batch.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use millstream::{Access, CodecId, Storage};
use millstream_pak::{BatchOptions, Coding, Item, PackOptions, Package, Target};
use xxhash_rust::xxh3::xxh3_64;

use crate::case::{Case, Contender, Work};
use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result};
use crate::files::make_folder;
use crate::limits;
use crate::rows::Metric;
use crate::session::Session;
use crate::setup::{Setup, queue_for};

pub(crate) const WORKLOAD: &str = "packages";
/// From the first call to the last byte.
const TOTAL: Metric = Metric::lower("total", "ms");
/// Raw bytes a second.
pub(crate) const RATE: Metric = Metric::higher("rate", "MB/s");
/// Bytes of the package over the raw bytes.
pub(crate) const SIZE: Metric = Metric::lower("size", "of raw");
/// One lookup.
pub(crate) const LOOKUP: Metric = Metric::lower("lookup", "ns");
/// Bytes of the blocks that packing makes.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// Counts up when packages are made otherwise: those of an earlier build are not used again.
const MADE: u32 = 5;
/// Rate that `auto` chooses for where nothing throttles.
pub(super) const UNTHROTTLED_MBPS: f64 = 3500.0;

/// Where packages are made and kept.
pub(crate) fn made_folder(session: &Session<'_>) -> Result<PathBuf> {
    let folder = format!("packages-made-{MADE}");
    let folder = session.corpus.folder().join(folder);
    make_folder(&folder)?;
    Ok(folder)
}

/// What a package must deliver.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) xxh3: u64,
}

impl Wanted {
    /// These bytes under a name.
    pub(super) fn of(name: &str, bytes: &[u8]) -> Wanted {
        Wanted {
            name: name.to_owned(),
            xxh3: xxh3_64(bytes),
        }
    }
}

/// Options of packing.
pub(super) fn options(coding: Coding) -> PackOptions<'static> {
    PackOptions {
        coding,
        ..PackOptions::default()
    }
}

/// Packs, if the package of that name is not there yet.
pub(super) fn packed(
    path: &Path,
    options: &PackOptions<'_>,
    items: impl FnOnce() -> Result<Vec<Item>>,
) -> Result<()> {
    if !path.exists() {
        millstream_pak::write_file(items()?, options, path)?;
    }
    Ok(())
}

/// The coding that is chosen for a disk of so many MB/s, on this machine's cores.
pub(super) fn auto(rate: f64) -> Coding {
    Coding::Auto(Target {
        megabytes_per_second: rate,
        cores: crate::together::cores() as u32,
    })
}

/// What the fixed codecs are called.
pub(super) const FIXED: [(&str, CodecId); 5] = [
    ("stored", CodecId::STORED),
    ("zlib", CodecId::ZLIB),
    ("zstd", CodecId::ZSTD),
    ("lz4", CodecId::LZ4_BLOCK),
    ("gdeflate", CodecId::GDEFLATE),
];

/// All entries of a package, in one batch.
pub(super) struct Batch {
    package: PathBuf,
    wanted: Arc<Vec<Wanted>>,
    /// So many such batches, each enqueued before the one ahead of it is waited for.
    passes: usize,
    /// Kept between runs, so that its buffers are recycled, as those of all contenders are.
    storage: Option<Storage>,
}

impl Batch {
    pub(super) fn new(package: &Path, wanted: &Arc<Vec<Wanted>>) -> Batch {
        Batch {
            package: package.to_path_buf(),
            wanted: Arc::clone(wanted),
            passes: 1,
            storage: None,
        }
    }

    /// So many passes, of which some are run now: their memory is what later ones get.
    pub(super) fn passes(mut self, passes: usize) -> Result<Batch> {
        self.passes = passes.min(3);
        self.prepare()?;
        self.load()?;
        self.passes = passes;
        Ok(self)
    }

    pub(super) fn named(self, name: impl Into<String>) -> Contender {
        let batch = Rc::new(RefCell::new(self));
        let same = Rc::clone(&batch);
        Contender {
            prepare: Box::new(move || same.borrow_mut().prepare()),
            ..Contender::new(name, move |_| batch.borrow().load())
        }
    }

    fn prepare(&mut self) -> Result<()> {
        if self.storage.is_none() {
            let setup = Setup {
                access: Access::Direct,
                retained_bytes: Some(limits::BATCH_RETAINED_BYTES),
                ..Setup::default()
            };
            self.storage = Some(setup.storage()?);
        }
        Ok(())
    }

    fn load(&self) -> Result<Work> {
        let storage = self.storage.as_ref();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let queue = queue_for(storage, self.wanted.len() * self.passes.min(2))?;
        let begun = Moment::now();
        let package = Package::open(storage, &self.package)?;
        let mut entries = Vec::with_capacity(self.wanted.len());
        for wanted in self.wanted.iter() {
            let found = package.lookup(wanted.name.as_bytes())?;
            entries.push(found.ok_or_else(|| Error::new("a name is missing"))?.index);
        }
        let (mut ahead, mut loaded) = (None, Vec::new());
        let (mut bytes, mut requests) = (0, 0);
        for pass in 0..=self.passes {
            let enqueue = || package.enqueue_all(&queue, &entries, &BatchOptions::default());
            let next = (pass < self.passes).then(enqueue).transpose()?;
            let Some(batch) = std::mem::replace(&mut ahead, next) else {
                continue;
            };
            let wait = |nth| batch.wait(nth).map_err(Error::from);
            loaded = (0..batch.len()).map(wait).collect::<Result<Vec<_>>>()?;
            bytes += loaded.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
            requests += batch.requests();
        }
        let span = begun.elapsed();
        // The bytes of the last pass: those before it were given back for it.
        for (bytes, wanted) in loaded.iter().zip(self.wanted.iter()) {
            if xxh3_64(bytes) != wanted.xxh3 {
                return Err(Error::new(format!("other bytes than {} has", wanted.name)));
            }
        }
        Ok(Work::of(bytes, requests).took(span))
    }
}

/// Files are cold before each run, and the figures are of whole loads.
pub(super) fn loads_cold(case: &mut Case<'_>, files: Vec<PathBuf>) {
    case.prepare(move || cold::drop_all(&files));
    case.figures(|span, work| {
        let rate = work.bytes as f64 / 1e6 / span.wall;
        vec![(TOTAL, span.wall * 1e3), (RATE, rate)]
    });
}
