//! Mounts: an overlay of packages, archives and folders, as one source.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream::{Read, Storage};
use millstream_source::{Folder, Located, Source, clean_name};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::LAYERS_MAX;
use crate::names;
use crate::{Package, PackageOptions};

/// An overlay of packages, archives and folders, as one source. Lookups may be made from any
/// thread.
///
/// The layer that was mounted last is searched first: a patch or a mod over the base, loose files
/// over both during development, a folder that the user may write to on top. A patch hides the
/// names that it marks as gone. A patch finds its base among the layers below it.
///
/// Each lookup checks loose files again, so a changed one is loaded with its new content (hot
/// reload); [`Mounts::changes`] returns which of the names that were looked up have changed since.
///
/// ```
/// use millstream::{Storage, StorageOptions};
/// use millstream_pak::{Item, Mounts, PackOptions, write_file};
/// use millstream_source::Source;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("millstream-mounts-{}", std::process::id()));
/// # std::fs::create_dir_all(folder.join("mod"))?;
/// let base = folder.join("base.mpak");
/// let items = vec![Item::from_bytes("a.txt", *b"base"), Item::from_bytes("b.txt", *b"base")];
/// write_file(items, &PackOptions::default(), &base)?;
/// std::fs::write(folder.join("mod/b.txt"), b"changed")?;
///
/// let storage = Storage::new(StorageOptions::default())?;
/// let mut mounts = Mounts::new();
/// mounts.mount_package(&storage, &base)?;
/// mounts.mount_folder(&storage, folder.join("mod"))?;
/// let changed = mounts.find(b"b.txt")?.ok_or("there is one")?;
/// assert_eq!(changed.raw_bytes(), 7);
/// assert_eq!(mounts.folder(b"")?, Some(vec![b"a.txt".to_vec(), b"b.txt".to_vec()]));
/// assert_eq!(mounts.folder(b"none")?, None);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Mounts {
    /// In the order of mounting: the lowest first.
    layers: Vec<Layer>,
    /// Whether layers that are mounted from now on ignore case.
    fold_case: bool,
    /// The folder of [`Mounts::mount_writable`].
    writable: Option<PathBuf>,
    /// What the first lookups found, for [`Mounts::changes`]; empty while no folder is mounted.
    seen: Mutex<BTreeMap<Vec<u8>, Option<Located>>>,
}

enum Layer {
    Package(Package),
    #[cfg(feature = "archives")]
    Archive(crate::Archive),
    Folder(Box<Folder>),
}

impl Mounts {
    /// Creates an overlay without layers.
    #[must_use]
    pub fn new() -> Mounts {
        Mounts::default()
    }

    /// Makes packages and archives that are opened from now on, and folders that are mounted,
    /// ignore ASCII case, as [`PackageOptions::fold_case`] and [`Folder::fold_case`].
    #[must_use]
    pub fn fold_case(self) -> Mounts {
        Mounts {
            fold_case: true,
            ..self
        }
    }

    /// Opens a package and mounts it over all layers. Blocks until its tables are read. The base of
    /// a patch must be mounted.
    ///
    /// # Errors
    /// As [`Package::open`]; a patch whose base is not mounted; too many layers.
    pub fn mount_package(&mut self, storage: &Storage, path: impl AsRef<Path>) -> Result<()> {
        self.mount(Package::open_with(storage, path, self.options())?)
    }

    fn options(&self) -> PackageOptions {
        PackageOptions {
            fold_case: self.fold_case,
            ..PackageOptions::default()
        }
    }

    /// Mounts an open package over all layers.
    ///
    /// # Errors
    /// A patch whose base is not mounted, or that has other handles; too many layers.
    pub fn mount(&mut self, package: Package) -> Result<()> {
        let package = match package.base_root() {
            Some(root) if package.0.base.is_none() => {
                let base = self.packages().find(|base| base.root() == root);
                let base = base.cloned().ok_or_else(|| {
                    let cause = "the base of the patch is not mounted below it";
                    Error::new(ErrorKind::Base, cause).of(package.path())
                })?;
                package.with_base(&base)?
            }
            _ => package,
        };
        self.push(Layer::Package(package))
    }

    /// Opens an archive of another program and mounts it over all layers. Blocks until its
    /// directory is read.
    ///
    /// # Errors
    /// As [`Archive::open`](crate::Archive::open); too many layers.
    #[cfg(feature = "archives")]
    pub fn mount_archive(&mut self, storage: &Storage, path: impl AsRef<Path>) -> Result<()> {
        let archive = crate::Archive::open_with(storage, path, self.options())?;
        self.push(Layer::Archive(archive))
    }

    /// Mounts a folder of loose files over all layers.
    ///
    /// # Errors
    /// The storage is closing, or has too many queues; too many layers.
    pub fn mount_folder(&mut self, storage: &Storage, root: impl Into<PathBuf>) -> Result<()> {
        let folder = Folder::new(storage, root)?;
        self.push(Layer::Folder(Box::new(match self.fold_case {
            true => folder.fold_case(),
            false => folder,
        })))
    }

    /// Mounts a folder over all layers, as the one that [`Mounts::writable_path`] returns paths in.
    ///
    /// # Errors
    /// As [`Mounts::mount_folder`].
    pub fn mount_writable(&mut self, storage: &Storage, root: impl Into<PathBuf>) -> Result<()> {
        let root = root.into();
        self.mount_folder(storage, &root)?;
        self.writable = Some(root);
        Ok(())
    }

    fn push(&mut self, layer: Layer) -> Result<()> {
        if self.layers.len() == LAYERS_MAX {
            return Err(Error::new(ErrorKind::Limit, "too many layers are mounted"));
        }
        self.layers.push(layer);
        Ok(())
    }

    fn packages(&self) -> impl Iterator<Item = &Package> {
        self.layers.iter().filter_map(|layer| match layer {
            Layer::Package(package) => Some(package),
            _ => None,
        })
    }

    /// Returns the path to write the file of a name to, below the writable folder; `None` if none
    /// is mounted. Write it with [`FileOp::replace`](millstream::FileOp::replace); it hides the
    /// name in the layers below.
    ///
    /// # Errors
    /// A name that no package may have, or that this system does not take.
    pub fn writable_path(&self, name: &[u8]) -> Result<Option<PathBuf>> {
        let clean = clean_name(name)?;
        names::check(&clean)?;
        let path = names::path(&clean)?;
        Ok(self.writable.as_ref().map(|root| root.join(path)))
    }

    /// Returns whether a layer has the name, and none above it marks it as gone.
    ///
    /// # Errors
    /// As [`Source::find`].
    pub fn exists(&self, name: &[u8]) -> Result<bool> {
        Ok(self.find(name)?.is_some())
    }

    /// Returns the names whose lookup has another result than at the previous call or, since that,
    /// at their first lookup: a changed or another file, a loose file over a packed entry, none any
    /// more, or one at last. Looks them all up again, with a system call for each folder that has
    /// to be asked. Names that were looked up while a folder was mounted are kept as long as the
    /// mounts.
    ///
    /// A loose file has changed if its device, inode number, length or time of modification has. On
    /// mounts that can hang, whose inode numbers may be made anew at any time, length and time
    /// alone count.
    ///
    /// # Errors
    /// As [`Source::find`]; the next call then reports the changes.
    pub fn changes(&self) -> Result<Vec<Vec<u8>>> {
        let before = mem::take(&mut *self.seen());
        let mut changed = Vec::new();
        for (name, old) in &before {
            match self.find(name) {
                Ok(now) if now == *old => {}
                Ok(_) => changed.push(name.clone()),
                Err(error) => {
                    self.seen().extend(before);
                    return Err(error.into());
                }
            }
        }
        Ok(changed)
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Option<Located>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a name up in one layer after the other.
    fn search(&self, name: &[u8]) -> std::result::Result<Option<Located>, millstream::Error> {
        for (nth, layer) in self.layers.iter().enumerate().rev() {
            let located = match layer {
                Layer::Package(package) => {
                    let found = package.lookup(name);
                    let found = found.map_err(|error| error.of(package.path()).into_engine())?;
                    match found {
                        Some(found) if found.gone => return Ok(None),
                        found => found.map(|found| package.locate(&found)),
                    }
                }
                #[cfg(feature = "archives")]
                Layer::Archive(archive) => archive.find(name)?,
                Layer::Folder(folder) => folder.find(name)?,
            };
            if let Some(located) = located {
                let [inner, _] = located.place();
                return Ok(Some(Located::new(located.raw_bytes(), [inner, nth as u64])));
            }
        }
        Ok(None)
    }

    /// Lists a folder in all layers: names of entries and, with a `/` at their end, of folders,
    /// sorted by their bytes; `None` if no layer has such a folder. An empty name is the root.
    /// Reads the folders of loose files.
    ///
    /// # Errors
    /// A folder or a package's names cannot be read.
    pub fn folder(&self, name: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let clean = match name {
            b"" => Vec::new(),
            name => clean_name(name)?,
        };
        let (mut found, mut exists) = (BTreeSet::new(), clean.is_empty());
        for (nth, layer) in self.layers.iter().enumerate() {
            match layer {
                Layer::Package(package) => {
                    let is_hidden = |name: &[u8]| self.is_hidden(nth, name);
                    package.list_folder(&clean, &mut found, is_hidden)?;
                }
                #[cfg(feature = "archives")]
                Layer::Archive(archive) => {
                    let is_hidden = |name: &[u8]| self.is_hidden(nth, name);
                    archive.list_folder(&clean, &mut found, is_hidden)?;
                }
                Layer::Folder(folder) => {
                    let listed = list_loose(folder, &clean)?;
                    exists |= listed.is_some();
                    for part in listed.into_iter().flatten() {
                        // A folder of loose files is listed even if it is empty.
                        let name = [&clean[..], b"/", &part].concat();
                        let name = if clean.is_empty() { &part } else { &name };
                        if part.ends_with(b"/") || !self.is_hidden(nth, name)? {
                            found.insert(part);
                        }
                    }
                }
            }
        }
        let exists = exists || !found.is_empty();
        Ok(exists.then(|| found.into_iter().collect()))
    }

    /// Whether a patch above a layer marks the name as gone. A layer above that patch lists the
    /// name again, if it has it.
    fn is_hidden(&self, layer: usize, name: &[u8]) -> Result<bool> {
        for above in &self.layers[layer + 1..] {
            if let Layer::Package(package) = above
                && package.base_root().is_some()
                && package.lookup(name)?.is_some_and(|found| found.gone)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the layer of an entry, and the entry's location in that layer.
    fn inner(
        &self,
        entry: &Located,
    ) -> std::result::Result<(&dyn Source, Located), millstream::Error> {
        let [inner, nth] = entry.place();
        let nth = usize::try_from(nth).ok();
        let (source, mark): (&dyn Source, _) = match nth.and_then(|nth| self.layers.get(nth)) {
            // The mark that `Package::locate` sets.
            Some(Layer::Package(package)) => (package, package.mark()),
            #[cfg(feature = "archives")]
            Some(Layer::Archive(archive)) => (archive, archive.mark()),
            Some(Layer::Folder(folder)) => (&**folder, 0),
            None => {
                let cause = "the entry was not found by these mounts";
                let kind = millstream::ErrorKind::InvalidArgument;
                return Err(millstream::Error::new(kind, cause));
            }
        };
        Ok((source, Located::new(entry.raw_bytes(), [inner, mark])))
    }
}

/// Lists a folder of loose files, as [`Mounts::folder`] does; `None` if there is none.
fn list_loose(source: &Folder, folder: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    let path = source.resolve(names::path(folder)?);
    let failed = |error| Error::io(&path, "read the folder", error);
    let list = match std::fs::read_dir(&path) {
        Ok(list) => list,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
        // Wine returns another error if the path is a file.
        Err(_) if path.is_file() => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in list {
        let entry = entry.map_err(failed)?;
        let mut name = entry.file_name().as_encoded_bytes().to_vec();
        // Symbolic links count as their targets; dangling ones are left out.
        match std::fs::metadata(entry.path()) {
            Ok(about) if about.is_dir() => name.push(b'/'),
            Ok(about) if about.is_file() => {}
            _ => continue,
        }
        found.push(name);
    }
    Ok(Some(found))
}

impl Source for Mounts {
    fn find(&self, name: &[u8]) -> std::result::Result<Option<Located>, millstream::Error> {
        let found = self.search(name)?;
        let is_folder = |layer: &Layer| matches!(layer, Layer::Folder(_));
        if self.layers.iter().any(is_folder) {
            // A change is reported even if it was looked up since.
            self.seen().entry(clean_name(name)?).or_insert(found);
        }
        Ok(found)
    }

    fn request_range(
        &self,
        entry: &Located,
        offset: u64,
        len: u64,
    ) -> std::result::Result<Read, millstream::Error> {
        let (source, inner) = self.inner(entry)?;
        source.request_range(&inner, offset, len)
    }

    fn is_read_whole(&self, entry: &Located) -> bool {
        let inner = self.inner(entry);
        inner.is_ok_and(|(source, inner)| source.is_read_whole(&inner))
    }

    fn metadata(&self, entry: &Located) -> std::result::Result<Option<&[u8]>, millstream::Error> {
        let (source, inner) = self.inner(entry)?;
        source.metadata(&inner)
    }

    fn stored_in(&self, entry: &Located) -> (u64, u64) {
        let inner = self.inner(entry);
        inner.map_or((0, 0), |(source, inner)| source.stored_in(&inner))
    }
}

impl std::fmt::Debug for Mounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = |layer: &Layer| match layer {
            Layer::Package(package) => package.path().to_path_buf(),
            #[cfg(feature = "archives")]
            Layer::Archive(archive) => archive.path().to_path_buf(),
            Layer::Folder(folder) => folder.root().to_path_buf(),
        };
        f.debug_list()
            .entries(self.layers.iter().map(path))
            .finish()
    }
}
