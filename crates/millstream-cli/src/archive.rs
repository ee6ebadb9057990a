//! What the commands do with archives of other programs (zip, pk3, PACK, PCK) instead of packages.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;

use millstream::{Buffer, Queue, QueueOptions, Storage};
use millstream_pak::{
    Archive, BatchOptions, ErrorKind, Item, PackageOptions, Verification, is_archive, names,
};

use crate::backend;
use crate::failure::{self, Ending, Failure, Failures, counted, refused};
use crate::limits::FAILURES_LISTED;
use crate::package::{self, Sizes, describe};
use crate::progress;

/// An open archive with the storage and queue that read it.
pub(crate) struct Archived {
    pub(crate) archive: Archive,
    queue: Queue,
    /// Closed when it is dropped.
    _storage: Storage,
}

/// Opens an archive for a command that takes packages, too; `None` if the file is no archive, so
/// that opening it as a package reports what it is not. `base`: that of a patch, as given.
///
/// # Errors
/// The engine does not start, the archive is damaged, or it is given a base.
pub(crate) fn open(
    path: &Path,
    base: Option<&Path>,
    fold_case: bool,
) -> Result<Option<Archived>, Ending> {
    let Some(head) = package::head(path).filter(|head| !millstream_pak::is_package(head)) else {
        return Ok(None);
    };
    let storage = Storage::new(backend::options(None)?).map_err(refused)?;
    let options = PackageOptions {
        fold_case,
        ..PackageOptions::default()
    };
    let archive = match open_in(&storage, path, options) {
        Ok(archive) => archive,
        // A self-extracting archive begins as any program does.
        Err(error) if error.kind() == ErrorKind::NotAPackage && !is_archive(&head) => {
            return Ok(None);
        }
        Err(error) => return Err(describe(path, &error).into()),
    };
    if base.is_some() {
        let cause = "--base: an archive is no patch of a package";
        return Err(Ending::Usage(String::from(cause)));
    }
    let queue = storage.queue(QueueOptions::default()).map_err(refused)?;
    Ok(Some(Archived {
        archive,
        queue,
        _storage: storage,
    }))
}

/// Opens an archive, and reports names that it has several times.
pub(crate) fn open_in(
    storage: &Storage,
    path: &Path,
    options: PackageOptions,
) -> millstream_pak::Result<Archive> {
    let archive = Archive::open_with(storage, path, options)?;
    if let [first, ..] = archive.duplicates() {
        let names = counted(archive.duplicates().len() as u64, "name");
        let first = names::escape(archive.name(*first));
        failure::tell(&format!(
            "{}: the directory lists {names} several times, the first: '{first}'; the last entry \
             of each is used",
            failure::shown(path)
        ));
    }
    Ok(archive)
}

/// Returns the failures of entries that are left out because of their names.
pub(crate) fn refused_names(archive: &Archive) -> Failures {
    let refused = archive.refused();
    let listed = refused.iter().map(|error| describe(archive.path(), error));
    Failures::new(refused.len() as u64, listed.take(FAILURES_LISTED))
}

/// Whether a file named on the command line is an archive, by its first bytes.
pub(crate) fn is_named(path: &Path) -> bool {
    package::head(path).is_some_and(|head| is_archive(&head))
}

/// Returns the name of an entry's codec.
pub(crate) fn codec_word(archive: &Archive, index: u32) -> &'static str {
    let codec = archive.info(index).codec;
    codec.map_or("unsupported", |codec| codec.name())
}

impl Archived {
    /// Loads entries, in the order in which they lie in the archive.
    ///
    /// # Errors
    /// There is no memory for their list.
    pub(crate) fn visit(
        &self,
        indices: &[u32],
        mut each: impl FnMut(u32, millstream_pak::Result<Buffer>) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let options = BatchOptions::default();
        let archive = &self.archive;
        let visited = archive.visit(&self.queue, indices, &options, &mut |index, loaded| {
            progress::advance(archive.info(index).raw_bytes);
            each(index, loaded)
        });
        visited.map_err(|error| describe(archive.path(), &error))
    }

    /// Returns the entry of a name, as it is or as `list` prints it.
    ///
    /// # Errors
    /// No archive may have the name.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<u32>, Failure> {
        let find = |name: &[u8]| {
            let found = self.archive.lookup(name);
            found.map_err(|error| describe(self.archive.path(), &error))
        };
        match find(name)? {
            None => find(&names::unescape(name)),
            found => Ok(found),
        }
    }

    /// Loads all entries and compares them with their checksums.
    ///
    /// # Errors
    /// There is no memory for their list.
    pub(crate) fn verify(
        &self,
        max_bytes: Option<u64>,
    ) -> Result<(Verification, Failures), Failure> {
        let archive = &self.archive;
        let all: Vec<u32> = (0..archive.len()).collect();
        let (mut found, mut failures) = (Verification::default(), refused_names(archive));
        // An entry is in memory as a whole, so this is known before any is loaded.
        let mut sizes = Sizes::default();
        sizes.add_archive(archive, all.iter().copied());
        if let Err(failure) = sizes.check(archive.path(), max_bytes) {
            failures.add(failure);
            return Ok((found, failures));
        }
        progress::begin(None);
        self.visit(&all, |_, loaded| {
            found.entries += 1;
            match loaded {
                Ok(loaded) => {
                    found.raw_bytes += loaded.len() as u64;
                    found.blocks += u64::from(!loaded.is_empty());
                }
                Err(error) => failures.add(describe(archive.path(), &error)),
            }
            ControlFlow::Continue(())
        })?;
        Ok((found, failures))
    }

    /// Loads all entries, as items of a package.
    ///
    /// # Errors
    /// An entry cannot be loaded, or they have too many raw bytes.
    pub(crate) fn items(&self) -> Result<Vec<Item>, Ending> {
        let archive = &self.archive;
        refused_names(archive).ending()?;
        let mut sizes = Sizes::default();
        sizes.add_archive(archive, 0..archive.len());
        sizes.check(archive.path(), None)?;
        let total = (0..archive.len()).map(|index| archive.info(index).raw_bytes);
        progress::begin(Some(total.sum()));
        let before = Cell::new(0);
        let items = archive.items(&self.queue, &|done| {
            progress::advance(done - before.replace(done));
            true
        });
        let items = items.map_err(|error| describe(archive.path(), &error))?;
        let refused = items.iter().filter_map(|item| {
            let error = names::check(item.name()).err()?;
            Some(describe(archive.path(), &error))
        });
        let refused: Vec<Failure> = refused.collect();
        let count = refused.len() as u64;
        Failures::new(count, refused.into_iter().take(FAILURES_LISTED)).ending()?;
        Ok(items)
    }
}
