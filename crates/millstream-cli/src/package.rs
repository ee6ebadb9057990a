//! What the package commands share: opening packages, and error messages.

use std::path::Path;

use millstream::{CodecId, Queue, QueueOptions, Storage};
use millstream_io::fs::file;
use millstream_pak::{
    Archive, EntryInfo, Error, ErrorKind, Package, PackageOptions, Storing, Target,
};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};

use crate::backend;
use crate::failure::{self, Ending, Failure, check_path, counted, hex, refused};
use crate::input::refuse_fifo;
use crate::limits::{RAW_BYTES_MIN, RAW_RATIO_MAX};
use crate::table::Table;

/// An open package with the storage and queue that read it.
pub(crate) struct Reading {
    pub(crate) package: Package,
    /// The base of a patch, whose entries are visible unless the patch replaces or removes them.
    pub(crate) base: Option<Package>,
    pub(crate) queue: Queue,
    pub(crate) storage: Storage,
}

impl Reading {
    /// Opens a package.
    pub(crate) fn open(path: &Path) -> Result<Reading, Ending> {
        Reading::open_over(path, None, false)
    }

    /// Opens a package, over the base of a patch if one is given; `fold_case`: names are looked up
    /// without regard to case.
    pub(crate) fn open_over(
        path: &Path,
        base: Option<&Path>,
        fold_case: bool,
    ) -> Result<Reading, Ending> {
        let storage = Storage::new(backend::options(None)?).map_err(refused)?;
        let options = PackageOptions {
            fold_case,
            ..PackageOptions::default()
        };
        let open = |path: &Path| {
            let opened = Package::open_with(&storage, path, options);
            opened.map_err(|error| describe(path, &error))
        };
        let mut package = open(path)?;
        let base = base.map(open).transpose()?;
        if let Some(base) = &base {
            let over = package.with_base(base);
            package = over.map_err(|error| describe(path, &error))?;
        }
        let queue = storage.queue(QueueOptions::default()).map_err(refused)?;
        Ok(Reading {
            package,
            base,
            queue,
            storage,
        })
    }

    /// Returns the entry of a name and the package that holds it: the patch, or its base.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<(&Package, EntryInfo)>, Failure> {
        for package in [&self.package].into_iter().chain(&self.base) {
            let found = package.lookup(name);
            if let Some(info) = found.map_err(|error| describe(package.path(), &error))? {
                return Ok((!info.gone).then_some((package, info)));
            }
        }
        Ok(None)
    }

    /// Converts an error of this package.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        describe(self.package.path(), error)
    }
}

/// Returns the entries whose names match, in the byte order of their names, except those that a
/// package in `above` replaces or removes.
pub(crate) fn visible(
    package: &Package,
    pattern: &[u8],
    above: &[&Package],
) -> millstream_pak::Result<Vec<u32>> {
    let mut found = package.matching(pattern)?;
    for patch in above {
        let mut hidden = Ok(());
        found.retain(|&index| {
            let known = package.name(index).and_then(|name| patch.lookup(name));
            known.map_or_else(
                |error| {
                    hidden = Err(error);
                    false
                },
                |known| known.is_none(),
            )
        });
        hidden?;
    }
    Ok(found)
}

/// File bytes of packages, and raw bytes of their entries: any number of entries may share a block.
#[derive(Default)]
pub(crate) struct Sizes {
    file_bytes: u64,
    raw_bytes: u64,
}

impl Sizes {
    /// Adds a package and the given entries of it.
    pub(crate) fn add(&mut self, package: &Package, indices: impl IntoIterator<Item = u32>) {
        self.file_bytes = self.file_bytes.saturating_add(package.file_bytes());
        for index in indices {
            // An entry that cannot be looked up fails when it is read.
            let raw_bytes = package.info(index).map_or(0, |info| info.raw_bytes);
            self.raw_bytes = self.raw_bytes.saturating_add(raw_bytes);
        }
    }

    /// Adds an archive and the given entries of it.
    pub(crate) fn add_archive(&mut self, archive: &Archive, all: impl IntoIterator<Item = u32>) {
        self.file_bytes = self.file_bytes.saturating_add(archive.file_bytes());
        for index in all {
            let info = archive.info(index);
            // One that cannot be decoded fails before its size matters.
            let raw_bytes = info.codec.map_or(0, |_| info.raw_bytes);
            self.raw_bytes = self.raw_bytes.saturating_add(raw_bytes);
        }
    }

    /// Refuses more raw bytes than `--max-bytes` allows.
    pub(crate) fn check(&self, path: &Path, max_bytes: Option<u64>) -> Result<(), Failure> {
        let most = max_raw_bytes(self.file_bytes, max_bytes);
        match self.raw_bytes <= most {
            true => Ok(()),
            false => Err(too_many_raw_bytes(path, most)),
        }
    }
}

/// Reads the key that an option names, if it is given.
pub(crate) fn key<'a, T>(
    path: Option<&'a Path>,
    read: fn(&'a Path) -> millstream_pak::Result<T>,
) -> Result<Option<T>, Failure> {
    let read = |path| {
        refuse_fifo(path)?;
        read(path).map_err(|error| describe(path, &error))
    };
    path.map(read).transpose()
}

/// Returns how many raw bytes a command may read from packages of `file_bytes` bytes.
pub(crate) fn max_raw_bytes(file_bytes: u64, max_bytes: Option<u64>) -> u64 {
    max_bytes.unwrap_or_else(|| RAW_BYTES_MIN.max(file_bytes.saturating_mul(RAW_RATIO_MAX)))
}

/// The failure for entries with more raw bytes than `most`.
pub(crate) fn too_many_raw_bytes(path: &Path, most: u64) -> Failure {
    let cause = format!("the entries have more than {most} raw bytes; --max-bytes allows more");
    Failure::new(path, cause).kind(&ErrorKind::Limit)
}

/// Converts an error of a package; `path` is used if the error names no file.
pub(crate) fn describe(path: &Path, error: &Error) -> Failure {
    let place = error.path().unwrap_or(path).as_os_str();
    let cause = match error.system() {
        Some(system) if error.entry_name().is_none() => {
            format!("{}: {}", error.cause(), failure::explain(system))
        }
        _ => error.detail(),
    };
    let kind: &dyn std::fmt::Debug = match (error.engine(), error.system()) {
        (Some(engine), _) => &engine.kind(),
        (_, Some(system)) => &system.kind(),
        (None, None) => &error.kind(),
    };
    Failure::new(place, cause).kind(kind).at(error.offset())
}

/// Returns the codecs of an entry as one word.
pub(crate) fn codec_word(storing: &Storing) -> String {
    if storing.codecs.is_empty() {
        return String::from(CodecId::STORED.name());
    }
    let words: Vec<&str> = storing.codecs.iter().map(codec_name).collect();
    words.join("+")
}

/// Returns the name of a block codec.
pub(crate) fn codec_name(codec: &CodecId) -> &'static str {
    codec.facts().block_name.unwrap_or(codec.name())
}

/// Adds a row for the target that a package was packed for.
pub(crate) fn target_row(table: &mut Table, target: Target) {
    let rate = format!("{} MB/s", target.megabytes_per_second);
    let cores = counted(u64::from(target.cores), "core");
    let cores = format!("of the disk that codecs were chosen for; {cores}");
    table.row("target", rate, cores);
}

/// Returns the target as part of a JSON document.
pub(crate) fn target_document(target: Target) -> Value {
    json!({
        "bytes_per_second": target.megabytes_per_second * 1e6,
        "cores": target.cores,
    })
}

/// Returns whether a file named on the command line is a package, by its first bytes.
pub(crate) fn is_package(path: &Path) -> bool {
    head(path).is_some_and(|head| millstream_pak::is_package(&head))
}

/// Returns the first bytes of a file named on the command line; `None` if it has fewer, is no
/// regular file, or cannot be read.
pub(crate) fn head(path: &Path) -> Option<[u8; 8]> {
    use std::io::Read as _;
    // Never a FIFO or a device: opening one may block or have side effects.
    let is_file = |about: std::fs::Metadata| about.is_file();
    if check_path(path, "read").is_err() || !std::fs::metadata(path).is_ok_and(is_file) {
        return None;
    }
    let mut head = [0; 8];
    let read = file::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok().then_some(head)
}

/// A name in a document, as it is: `name`, or, if it is not UTF-8, `name_hex` beside null.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) Vec<u8>);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let text = std::str::from_utf8(&self.0).ok();
        map.serialize_entry("name", &text)?;
        if text.is_none() {
            map.serialize_entry("name_hex", &hex(&self.0))?;
        }
        map.end()
    }
}
