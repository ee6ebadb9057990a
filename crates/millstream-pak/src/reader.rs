//! The reader: an open package, lookups in its tables, and requests for its entries.

pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod open_file;
pub(crate) mod plan;
mod search;
pub(crate) mod section;
pub(crate) mod tables;
pub(crate) mod visit;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use millstream::{BlockSource, Read, Storage};
use millstream_source::{Located, Source};
use zerocopy::FromBytes;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{EntryRecord, MetadataPlace, SignatureRecord, entry_flag};
use crate::limits::{METADATA_BYTES_MAX, NAME_BYTES_MAX, SHARING_BLOCKS_MIN, SHARING_MAX};
use crate::memory;
use crate::names;
use crate::writer::Target;
use section::PageView;
use tables::Tables;

/// An open package: lookups in its tables, and requests for its entries.
///
/// The tables are used in place; bounds are checked where a lookup or a request needs them, not for
/// all entries when the package is opened. Requests are [`Read`]s of the engine with a table of the
/// blocks that hold the range, each with its checksum. Without [`PackageOptions::verify`], a
/// request for stored blocks is a plain read.
///
/// Cloning returns another handle. All methods may be called from any thread; they block where they
/// touch a part of the cold tables for the first time (see [`Package::preload`]).
///
/// ```
/// # use millstream_pak::{Item, PackOptions, write_file};
/// use millstream::{QueueOptions, Storage, StorageOptions};
/// use millstream_pak::Package;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("game.mpak");
/// # let items = vec![Item::from_bytes("levels/1", vec![7; 300_000])];
/// # write_file(items, &PackOptions::default(), &path)?;
/// let storage = Storage::new(StorageOptions::default())?;
/// let queue = storage.queue(QueueOptions::default())?;
/// let package = Package::open(&storage, &path)?;
/// let level = package.lookup(b"levels/1")?.ok_or("no such level")?;
/// let mut whole = queue.submit(package.request(level.index)?)?;
/// let mut head = queue.submit(package.range(level.index, 0, 16)?)?;
/// assert_eq!((head.wait()?.len(), whole.wait()?.len()), (16, 300_000));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Package(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    tables: Tables,
    pub(crate) base: Option<Arc<dyn BlockSource>>,
    base_bytes: u64,
    options: PackageOptions,
    /// Entries in the byte order of their names; made by the first [`Package::by_name`].
    by_name: OnceLock<Vec<u32>>,
    /// The same by names without case, made by the first lookup that needs it.
    by_folded_name: OnceLock<Vec<u32>>,
}

/// How a package is read, or an archive of another program.
#[derive(Debug, Clone, Copy)]
pub struct PackageOptions {
    /// Compare the name of the entry that a lookup finds. Without it, a lookup trusts the 64-bit
    /// hash: it finds a name that the package lacks with a probability of entries / 2^64.
    pub confirm_names: bool,
    /// Compare every block that is read with its checksum, and a whole entry that [`visit()`] shows
    /// with the entry's content hash; of a zip, entries that are read whole with their CRC-32.
    /// Without it, damage may go unnoticed, and stored blocks are read into their destination,
    /// without staging memory and worker threads: those of a zip once the header of their entry was
    /// seen. Archives of other kinds have no checksums.
    ///
    /// [`visit()`]: crate::visit()
    pub verify: bool,
    /// Give every request the name of its entry, for errors and traces.
    pub name_requests: bool,
    /// The minimum [`Package::content_version`]; opening refuses lower ones. If the signature is
    /// verified too, this rejects older packages of the same key.
    pub min_version: u64,
    /// Compare names without regard to ASCII case, even if the package was not packed so. Where
    /// several differ in case only, a lookup finds that in the case asked for, else the first in
    /// byte order. The first lookup that does not find the case asked for reads all names.
    pub fold_case: bool,
}

impl Default for PackageOptions {
    fn default() -> PackageOptions {
        PackageOptions {
            confirm_names: true,
            verify: true,
            name_requests: true,
            min_version: 0,
            fold_case: false,
        }
    }
}

/// What the tables say about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryInfo {
    /// The entry's number, from 0 on, in the order of the name hashes.
    pub index: u32,
    /// Raw bytes.
    pub raw_bytes: u64,
    /// Blocks that hold it.
    pub block_count: u32,
    /// The entry shares its one block with others.
    pub shared: bool,
    /// In a patch: the entry hides the name in the base and has no content.
    pub gone: bool,
    /// The entry is of a file that its owner may execute.
    pub executable: bool,
}

/// How an entry is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Storing {
    /// Stored bytes of its blocks; of a shared block, the entry's share by raw bytes.
    pub stored_bytes: u64,
    /// Codecs of its blocks, without repetition, in the order of their numbers.
    pub codecs: Vec<millstream::CodecId>,
    /// Those of its stored bytes that lie in the base of a patch.
    pub base_bytes: u64,
}

impl Package {
    /// Opens a package with one read, or two if its tables are large. Blocks until they are done.
    ///
    /// # Errors
    /// The file cannot be read, is not a package, is cut or damaged, or needs a later reader.
    pub fn open(storage: &Storage, path: impl AsRef<Path>) -> Result<Package> {
        Package::open_with(storage, path, PackageOptions::default())
    }

    /// As [`Package::open`], with options.
    ///
    /// # Errors
    /// As [`Package::open`]; or [`ErrorKind::Outdated`].
    pub fn open_with(
        storage: &Storage,
        path: impl AsRef<Path>,
        options: PackageOptions,
    ) -> Result<Package> {
        let opening = Package::open_async(storage.clone(), path.as_ref().to_path_buf(), options);
        let opened = storage.wait(opening, None)?;
        opened.expect("no time was set")
    }

    /// As [`Package::open_with`], without blocking: any executor may poll the future, on any
    /// thread. The first poll starts the reads; dropping the future closes the file.
    ///
    /// # Errors
    /// As [`Package::open_with`].
    pub async fn open_async(
        storage: Storage,
        path: PathBuf,
        options: PackageOptions,
    ) -> Result<Package> {
        let opened = Tables::open(&storage, &path).await;
        let tables = opened.map_err(|error| error.of(&path))?;
        let package = Package(Arc::new(Inner {
            tables,
            base: None,
            base_bytes: 0,
            options,
            by_name: OnceLock::new(),
            by_folded_name: OnceLock::new(),
        }));
        package.require_version(options.min_version)?;
        Ok(package)
    }

    /// Refuses a package of a lower [`content_version`](Package::content_version).
    ///
    /// # Errors
    /// [`ErrorKind::Outdated`].
    pub fn require_version(&self, least: u64) -> Result<()> {
        let checked = check_version(self.content_version(), least);
        checked.map_err(|error| error.of(self.path()).at(128))
    }

    /// Returns the patch with its base attached: blocks that the patch does not hold are read from
    /// the base's file. [`Mounts`](crate::Mounts) does this by itself.
    ///
    /// # Errors
    /// The package is not a patch of this base, or has other handles; the base is a patch itself,
    /// was replaced, or cannot be opened again.
    pub fn with_base(self, base: &Package) -> Result<Package> {
        let wrong = |cause: &str| Err(Error::new(ErrorKind::Base, cause).of(self.path()));
        if self.base_root().is_none_or(|root| root != base.root()) {
            return wrong("the package is no patch of this base");
        }
        if base.base_root().is_some() {
            return wrong("the base is a patch itself");
        }
        let file = plan::BaseFile::open(base)?;
        match Arc::try_unwrap(self.0) {
            Ok(mut inner) => {
                inner.base = Some(Arc::new(file));
                inner.base_bytes = base.tables().header.file_bytes.get();
                Ok(Package(Arc::new(inner)))
            }
            Err(shared) => {
                let error = Error::new(ErrorKind::InvalidArgument, "the patch is in use already");
                Err(error.of(&shared.tables.path))
            }
        }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.0.tables
    }

    /// Returns the path of the package's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.tables().path
    }

    /// Returns the number of entries, including those of a patch that mark a name as gone.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.tables().entry_count()).expect("bounded when it was opened")
    }

    /// Returns whether the package has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the root hash, which identifies the package's tables, and through them its content.
    #[must_use]
    pub fn root(&self) -> [u8; 32] {
        self.tables().header.root
    }

    /// Returns the root hash of the base, if the package is a patch.
    #[must_use]
    pub fn base_root(&self) -> Option<[u8; 32]> {
        let header = &self.tables().header;
        let patch = header.required.get() & crate::format::feature::PATCH != 0;
        patch.then_some(header.base_root)
    }

    /// Returns whether the package was packed with names that are compared without regard to ASCII
    /// case.
    #[must_use]
    pub fn folds_case(&self) -> bool {
        self.tables().fold_case
    }

    /// Returns the package's [content version](crate::PackOptions::content_version), or 0. Unless
    /// the signature is verified, anyone may have set it.
    #[must_use]
    pub fn content_version(&self) -> u64 {
        self.tables().header.content_version.get()
    }

    /// Returns the target that the package's codecs were chosen for, if they were. With it, the
    /// same inputs and options give the same package on any machine.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        let header = &self.tables().header;
        Target::of_bytes(
            header.target_bytes_per_second.get(),
            header.target_cores.get(),
        )
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.tables().header.file_bytes.get()
    }

    /// Returns the size of the header and the hot sections in bytes: what must be read to open it.
    #[must_use]
    pub fn hot_bytes(&self) -> u64 {
        self.tables().header.hot_bytes.get()
    }

    /// Returns whether the package has a name, and does not mark it as gone.
    ///
    /// # Errors
    /// As [`Package::lookup`].
    pub fn exists(&self, name: &[u8]) -> Result<bool> {
        Ok(self.lookup(name)?.is_some_and(|found| !found.gone))
    }

    /// Returns what the tables say about an entry.
    ///
    /// # Errors
    /// There is no such entry, or the tables are damaged.
    pub fn info(&self, index: u32) -> Result<EntryInfo> {
        Ok(info(index, &self.tables().entry(index)?))
    }

    /// Refuses a package whose entries name its blocks over and over; for callers that process each
    /// block of each entry, whose work could otherwise be quadratic in the size of the package. The
    /// packer lets only entries of equal content name the same blocks, and short ones share one.
    ///
    /// # Errors
    /// `Limit`: the entries name at least 2^24 blocks, and at least 64 times as many as there are;
    /// or the tables are damaged.
    pub fn check_sharing(&self) -> Result<()> {
        let block_count = self.tables().header.block_count.get();
        let most = SHARING_BLOCKS_MIN.max(block_count.saturating_mul(SHARING_MAX));
        let mut named = 0;
        for index in 0..self.len() {
            let info = self.info(index)?;
            // An entry that is gone, or claims more blocks than there are, is never read.
            if !info.gone && u64::from(info.block_count) <= block_count {
                named += u64::from(info.block_count);
            }
            if named >= most {
                let cause = "the entries name the package's blocks over and over";
                return Err(Error::new(ErrorKind::Limit, cause).of(self.path()));
            }
        }
        Ok(())
    }

    /// Returns the name of an entry.
    ///
    /// # Errors
    /// There is no such entry, or the tables are damaged.
    #[inline]
    pub fn name(&self, index: u32) -> Result<&[u8]> {
        self.name_in(index, None)
    }

    /// As [`Package::name`]; with a `view`, a page of names that is not in memory is read into the
    /// view, and the section does not keep it.
    pub(crate) fn name_in<'a>(
        &'a self,
        index: u32,
        view: Option<&'a mut PageView>,
    ) -> Result<&'a [u8]> {
        let tables = self.tables();
        let offset = tables.entry(index)?.name_offset.get() as usize;
        let bounds = (NAME_BYTES_MAX, "a name");
        tables.names.item(&tables.file, view, offset, bounds)
    }

    /// Returns the BLAKE3 hash of an entry's raw bytes, if the package has content hashes.
    ///
    /// # Errors
    /// There is no such entry, or the tables are damaged.
    pub fn content_hash(&self, index: u32) -> Result<Option<[u8; 32]>> {
        let tables = self.tables();
        let Some(contents) = &tables.contents else {
            return Ok(None);
        };
        let bytes = contents.get(&tables.file, index as usize * 32, 32)?;
        Ok(Some(bytes.try_into().expect("so many were asked for")))
    }

    /// Returns the metadata record of an entry, if it has one; see
    /// [`Metadata::decode`](crate::Metadata::decode).
    ///
    /// # Errors
    /// The tables are damaged.
    pub fn metadata(&self, index: u32) -> Result<Option<&[u8]>> {
        let tables = self.tables();
        let (Some(places), Some(records)) = (&tables.metadata_index, &tables.metadata) else {
            return Ok(None);
        };
        let place = |nth: usize| {
            let bytes = places.get(&tables.file, nth * 8, 8)?;
            let place = MetadataPlace::read_from_bytes(bytes).expect("so many were asked for");
            Ok::<_, Error>(place)
        };
        let (mut start, mut end) = (0, places.len() / 8);
        while start < end {
            let middle = start + (end - start) / 2;
            let found = place(middle)?;
            match found.entry.get().cmp(&index) {
                std::cmp::Ordering::Less => start = middle + 1,
                std::cmp::Ordering::Greater => end = middle,
                std::cmp::Ordering::Equal => {
                    let offset = found.offset.get() as usize;
                    let bounds = (METADATA_BYTES_MAX, "a metadata record");
                    return records.item(&tables.file, None, offset, bounds).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Returns how an entry is stored.
    ///
    /// # Errors
    /// There is no such entry, or its tables are damaged.
    pub fn storing(&self, index: u32) -> Result<Storing> {
        plan::storing(self, index).map_err(|error| self.blame(index, error))
    }

    /// Reads names and metadata into memory and verifies them, so that no later lookup or request
    /// blocks.
    ///
    /// # Errors
    /// They cannot be read, or are damaged.
    pub fn preload(&self) -> Result<()> {
        let tables = self.tables();
        let needed = [&tables.buckets, &tables.entries, &tables.names];
        let optional = [tables.metadata_index.as_ref(), tables.metadata.as_ref()];
        for section in needed.into_iter().chain(optional.into_iter().flatten()) {
            section.preload(&tables.file)?;
        }
        Ok(())
    }

    /// Returns all entries in the byte order of their names. The first call reads all names.
    ///
    /// # Errors
    /// The names cannot be read, or are damaged.
    pub fn by_name(&self) -> Result<&[u32]> {
        if let Some(order) = self.0.by_name.get() {
            return Ok(order);
        }
        let order = self.order_by_name();
        let order = order.map_err(|error| error.of(self.path()))?;
        Ok(self.0.by_name.get_or_init(|| order))
    }

    fn order_by_name(&self) -> Result<Vec<u32>> {
        let tables = self.tables();
        tables.names.preload(&tables.file)?;
        let mut named: Vec<(&[u8], u32)> = memory::room(self.len() as usize)?;
        for index in 0..self.len() {
            named.push((self.name(index)?, index));
        }
        named.sort_unstable();
        memory::collect(named.into_iter().map(|(_, index)| index))
    }

    /// Whether case is ignored, because of the options or the package.
    fn ignores_case(&self) -> bool {
        self.0.options.fold_case || self.folds_case()
    }

    /// Returns all entries in the order of their names in lower case, then of their bytes.
    pub(crate) fn by_folded_name(&self) -> Result<&[u32]> {
        if let Some(order) = self.0.by_folded_name.get() {
            return Ok(order);
        }
        let mut order = memory::collect(self.by_name()?.iter().copied())?;
        // All names were read for the other order.
        let name = |index: &u32| self.name(*index).unwrap_or_default();
        order.sort_unstable_by(|a, b| {
            let (a, b) = (name(a), name(b));
            names::in_lower_case(a)
                .cmp(names::in_lower_case(b))
                .then(a.cmp(b))
        });
        Ok(self.0.by_folded_name.get_or_init(|| order))
    }

    /// Returns the entries whose names match a pattern (`*`, `**`, `?`; a folder stands for all
    /// below it), in the byte order of their names, without those that are gone.
    ///
    /// # Errors
    /// As [`Package::by_name`].
    pub fn matching(&self, pattern: &[u8]) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        let lower = self.ignores_case().then(|| pattern.to_ascii_lowercase());
        let matches = |name: &[u8]| match &lower {
            Some(pattern) => names::matches(pattern, &name.to_ascii_lowercase()),
            None => names::matches(pattern, name),
        };
        for &index in self.by_name()? {
            if matches(self.name(index)?) && !self.info(index)?.gone {
                memory::push(&mut found, index).map_err(|error| error.of(self.path()))?;
            }
        }
        Ok(found)
    }

    /// Lists a folder of the package: names of its entries and, with a `/` at their end, of its
    /// folders, sorted by their bytes; `None` if the package has no entry below it. An empty name
    /// is the package's root, which always exists.
    ///
    /// # Errors
    /// As [`Package::by_name`].
    pub fn folder(&self, folder: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let mut found = BTreeSet::new();
        self.list_folder(folder, &mut found, |_| Ok(false))?;
        let exists = folder.is_empty() || !found.is_empty();
        Ok(exists.then(|| found.into_iter().collect()))
    }

    /// Adds what a folder holds, except for names that are hidden.
    pub(crate) fn list_folder(
        &self,
        folder: &[u8],
        found: &mut BTreeSet<Vec<u8>>,
        is_hidden: impl Fn(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        for &index in self.by_name()? {
            let name = self.name(index)?;
            if let Some(part) = below(folder, name, self.ignores_case()).map(first_part)
                && !found.contains(part)
                && !self.info(index)?.gone
                && !is_hidden(name)?
            {
                found.insert(part.to_vec());
            }
        }
        Ok(())
    }

    /// Returns a request for all raw bytes of the entry of a name; see [`Package::lookup`] and
    /// [`Package::range`].
    ///
    /// # Errors
    /// `NotFound`: there is no such entry. As [`Package::lookup`] and [`Package::range`].
    pub fn read(&self, name: impl AsRef<[u8]>) -> Result<Read> {
        let name = name.as_ref();
        let found = self.lookup(name)?.filter(|found| !found.gone);
        let none = || Error::new(ErrorKind::NotFound, "there is no such entry");
        let found = found.ok_or_else(|| none().entry(name).of(self.path()))?;
        self.request(found.index)
    }

    /// Returns a request for all raw bytes of an entry; see [`Package::range`].
    ///
    /// # Errors
    /// As [`Package::range`].
    pub fn request(&self, index: u32) -> Result<Read> {
        let raw_bytes = self.info(index)?.raw_bytes;
        self.range(index, 0, raw_bytes)
    }

    /// Returns a request for `len` raw bytes of an entry from `offset` on. Only the blocks that
    /// hold them are read, compared with their checksums if [`PackageOptions::verify`] is set, and
    /// decoded. The caller may set destination, priority, deadline, tag, group and fences.
    ///
    /// # Errors
    /// There is no such entry, the range reaches past its end, or the tables are damaged.
    pub fn range(&self, index: u32, offset: u64, len: u64) -> Result<Read> {
        plan::request(self, index, offset, len).map_err(|error| self.blame(index, error))
    }

    /// Adds the file and the entry's name to an error. May read a page of names.
    #[must_use]
    pub fn blame(&self, index: u32, error: Error) -> Error {
        let error = error.of(self.path());
        if error.entry_name().is_some() {
            return error;
        }
        match self.name_in(index, Some(&mut PageView::default())) {
            Ok(name) => error.entry(name),
            Err(_) => error,
        }
    }

    /// Reads the public key and the signature, if the package is signed. Verifies nothing.
    ///
    /// # Errors
    /// The signature cannot be read.
    pub fn signature(&self) -> Result<Option<SignatureRecord>> {
        let tables = self.tables();
        let Some(record) = &tables.signature else {
            return Ok(None);
        };
        let (offset, len) = (record.offset.get(), record.bytes.get());
        let bytes = tables.file.read(offset, len)?;
        let read = SignatureRecord::read_from_bytes(&bytes);
        Ok(Some(read.expect("its length was checked")))
    }
}

/// Refuses a content version below the least that is accepted.
pub(crate) fn check_version(version: u64, least: u64) -> Result<()> {
    if version >= least {
        return Ok(());
    }
    let cause = format!("the content version is {version}, and at least {least} is required");
    Err(Error::new(ErrorKind::Outdated, cause))
}

fn info(index: u32, entry: &EntryRecord) -> EntryInfo {
    EntryInfo {
        index,
        raw_bytes: entry.raw_bytes.get(),
        block_count: u32::try_from(entry.block_count()).unwrap_or(u32::MAX),
        shared: entry.is(entry_flag::SHARED),
        gone: entry.is(entry_flag::GONE),
        executable: entry.is(entry_flag::EXECUTABLE),
    }
}

/// Returns the part of a name below a folder, if the name lies below it.
pub(crate) fn below<'a>(folder: &[u8], name: &'a [u8], fold_case: bool) -> Option<&'a [u8]> {
    if folder.is_empty() {
        return Some(name);
    }
    let (start, rest) = name.split_at_checked(folder.len())?;
    let rest = names::same(start, folder, fold_case).then_some(rest)?;
    rest.strip_prefix(b"/")
}

/// Returns the first part of a name, with a `/` at its end if it is a folder.
pub(crate) fn first_part(name: &[u8]) -> &[u8] {
    let slash = name.iter().position(|&byte| byte == b'/');
    slash.map_or(name, |slash| &name[..=slash])
}

impl Source for Package {
    fn find(&self, name: &[u8]) -> std::result::Result<Option<Located>, millstream::Error> {
        let found = self
            .lookup(name)
            .map_err(|error| error.of(self.path()).into_engine())?;
        let found = found.filter(|found| !found.gone);
        Ok(found.map(|found| self.locate(&found)))
    }

    fn request_range(
        &self,
        entry: &Located,
        offset: u64,
        len: u64,
    ) -> std::result::Result<Read, millstream::Error> {
        let index = self.located(entry).map_err(Error::into_engine)?;
        self.range(index, offset, len).map_err(Error::into_engine)
    }

    fn metadata(&self, entry: &Located) -> std::result::Result<Option<&[u8]>, millstream::Error> {
        let index = self.located(entry).map_err(Error::into_engine)?;
        Package::metadata(self, index).map_err(|error| self.blame(index, error).into_engine())
    }

    /// The package's file; for a patch, together with that of its base.
    fn stored_in(&self, _: &Located) -> (u64, u64) {
        let bytes = self.tables().header.file_bytes.get();
        (self.mark(), bytes.saturating_add(self.0.base_bytes))
    }
}

impl Package {
    /// Returns the location of an entry, for the methods of [`Source`].
    #[must_use]
    pub fn locate(&self, entry: &EntryInfo) -> Located {
        Located::new(entry.raw_bytes, [u64::from(entry.index), self.mark()])
    }

    /// Distinguishes this package's entries from those of others.
    pub(crate) fn mark(&self) -> u64 {
        let root = &self.tables().header.root;
        u64::from_le_bytes(root[..8].try_into().expect("eight of them"))
    }

    pub(crate) fn located(&self, entry: &Located) -> Result<u32> {
        let [index, mark] = entry.place();
        if mark != self.mark() {
            let cause = "the entry was found in another package";
            return Err(Error::new(ErrorKind::InvalidArgument, cause).of(self.path()));
        }
        Ok(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

impl std::fmt::Debug for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Package")
            .field("path", &self.path())
            .field("entries", &self.len())
            .finish()
    }
}
