//! Archives of other programs as they are: zip (pk3), Quake's PACK and Godot's PCK.
//!
//! The directory is read once, in pieces, into a compact table: some 48 bytes and the name for each
//! entry. All that a directory says is checked against the file and against its other entries
//! before an entry can be requested, so that entries neither overlap nor reach past their archive.
//!
//! Where the bytes of a zip's entry begin is known only from a header in front of them. A request
//! reads from that header on, as far as the next entry permits, and its decoder checks and skips
//! the header (`decoder.rs`), so that no read depends on another. Once an entry's header was seen,
//! ranges of stored entries are plain reads.

mod decoder;
mod directory;
mod godot;
mod quake;
mod table;
mod visit;
mod zip;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::{CodecId, Decode, Read, Storage};
use millstream_source::{Located, Source, check_range, clean_name};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{ARCHIVE_SKIP_BYTES_MAX, ARCHIVE_TAIL_BYTES};
use crate::names;
use crate::reader::open_file::OpenFile;
use crate::reader::{PackageOptions, below, check_version, first_part};
use decoder::EntryDecoder;
use table::{Builder, Table};

/// What the directory says about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveEntry {
    /// The entry's number, from 0 on, in the byte order of names.
    pub index: u32,
    /// Raw bytes.
    pub raw_bytes: u64,
    /// Stored bytes, without headers.
    pub stored_bytes: u64,
    /// The codec, if the entry can be loaded.
    pub codec: Option<CodecId>,
    /// The entry is of a file that its owner may execute.
    pub executable: bool,
}

/// An open archive of another program, as a source of entries.
///
/// Cloning returns another handle. All methods may be called from any thread.
///
/// ```
/// # use std::io::Write as _;
/// use millstream::{QueueOptions, Storage, StorageOptions};
/// use millstream_pak::Archive;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("pak0.pak");
/// # let mut file = std::fs::File::create(&path)?;
/// # file.write_all(b"PACK\x10\0\0\0\x40\0\0\0BSP!")?;
/// # file.write_all(b"maps/e1m1.bsp\0")?;
/// # file.write_all(&[0; 42])?;
/// # file.write_all(b"\x0c\0\0\0\x04\0\0\0")?;
/// let storage = Storage::new(StorageOptions::default())?;
/// let queue = storage.queue(QueueOptions::default())?;
/// let archive = Archive::open(&storage, &path)?;
/// let map = queue.submit(archive.read("maps/e1m1.bsp")?)?.wait()?;
/// assert_eq!(&map[..], b"BSP!");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Archive(Arc<Inner>);

struct Inner {
    path: PathBuf,
    file: OpenFile,
    file_bytes: u64,
    entries: Arc<Entries>,
    options: PackageOptions,
    /// Tells its entries from those of other archives.
    mark: u64,
}

/// Returns whether these are the first bytes of an archive. An archive behind a program begins with
/// the bytes of the program: false, though [`Archive::open`] opens it.
#[must_use]
pub fn is_archive(head: &[u8]) -> bool {
    let magics: [&[u8]; 4] = [zip::LOCAL_MAGIC, zip::END_MAGIC, quake::MAGIC, godot::MAGIC];
    magics.iter().any(|magic| head.starts_with(magic))
}

/// Recognizes an archive of `file_bytes` bytes, and reads its directory.
fn read_directory(file: &OpenFile, file_bytes: u64, fold_case: bool) -> Result<Table> {
    let head = file.read(0, file_bytes.min(4))?;
    let tail_at = file_bytes.saturating_sub(ARCHIVE_TAIL_BYTES);
    let tail = file.read(tail_at, file_bytes - tail_at)?;
    let mut builder = Builder::new(file_bytes);
    let of_godot = match head.starts_with(godot::MAGIC) {
        true => Some(0),
        false => match godot::embedded(&tail, file_bytes) {
            // Else the last bytes are those of a comment.
            Some(start) if file.read(start, 4)?[..] == *godot::MAGIC => Some(start),
            _ => None,
        },
    };
    // Where the data end.
    let end = match of_godot {
        _ if head.starts_with(quake::MAGIC) => quake::read(file, &mut builder)?,
        Some(start) => godot::read(file, start, &mut builder)?,
        None => zip::read(file, (&tail, tail_at), &mut builder)?,
    };
    builder.finish(end, fold_case)
}

impl Archive {
    /// Opens an archive and reads its directory. Blocks until that is done.
    ///
    /// # Errors
    /// The file cannot be read, or is no archive of a known format; the directory is truncated or
    /// damaged, or has a thousand names that lead out; entries overlap or reach past the end; an
    /// entry declares more raw bytes than its stored bytes can hold; the options require a version.
    pub fn open(storage: &Storage, path: impl AsRef<Path>) -> Result<Archive> {
        Archive::open_with(storage, path, PackageOptions::default())
    }

    /// As [`Archive::open`], with options.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn open_with(
        storage: &Storage,
        path: impl AsRef<Path>,
        options: PackageOptions,
    ) -> Result<Archive> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let path = path.as_ref();
        let file = OpenFile::open(storage, path)?;
        let opened = storage.opened(file.id)?.wait();
        let file_bytes = opened.map_err(Error::from)?.len;
        let read = read_directory(&file, file_bytes, options.fold_case);
        let mut table = read.map_err(|error| error.of(path))?;
        let refused = std::mem::take(&mut table.refused).into_iter();
        table.refused = refused.map(|error| error.of(path)).collect();
        check_version(0, options.min_version).map_err(|error| error.of(path))?;
        Ok(Archive(Arc::new(Inner {
            path: path.to_path_buf(),
            file,
            file_bytes,
            entries: Arc::new(Entries {
                table,
                verify: options.verify,
            }),
            options,
            mark: OPENED.fetch_add(1, Ordering::Relaxed),
        })))
    }

    /// Returns the path of the archive's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.0.file_bytes
    }

    /// Returns the number of entries; folders are none.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.entries.table.len()
    }

    /// Returns whether the archive has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entries whose names the directory lists several times. The last of each is used.
    #[must_use]
    pub fn duplicates(&self) -> &[u32] {
        &self.0.entries.table.duplicates
    }

    /// Returns the errors of entries that were left out because of their names: those that lead out
    /// of a folder, are absolute, have a drive or a backslash, or are marked as UTF-8 and are not.
    #[must_use]
    pub fn refused(&self) -> &[Error] {
        &self.0.entries.table.refused
    }

    /// Returns the name of an entry: UTF-8, without empty parts, `.` and `..`.
    ///
    /// # Panics
    /// There is no such entry.
    #[must_use]
    pub fn name(&self, index: u32) -> &[u8] {
        self.0.entries.table.name(index)
    }

    /// Returns what the directory says about an entry.
    ///
    /// # Panics
    /// There is no such entry.
    #[must_use]
    pub fn info(&self, index: u32) -> ArchiveEntry {
        let record = self.0.entries.table.record(index);
        ArchiveEntry {
            index,
            raw_bytes: record.raw,
            stored_bytes: record.stored,
            codec: record.codec().ok(),
            executable: record.is(table::flag::EXECUTABLE),
        }
    }

    /// Returns the entry of a name, if there is one.
    ///
    /// # Errors
    /// No archive may have the name.
    pub fn lookup(&self, name: &[u8]) -> Result<Option<u32>> {
        Ok(self.0.entries.table.find(&clean_name(name)?))
    }

    /// Returns the entries whose names match a pattern, as [`Package::matching`] does.
    ///
    /// [`Package::matching`]: crate::Package::matching
    #[must_use]
    pub fn matching(&self, pattern: &[u8]) -> Vec<u32> {
        let folds = self.0.options.fold_case;
        let lower = pattern.to_ascii_lowercase();
        let matches = |index: &u32| match folds {
            true => names::matches(&lower, &self.name(*index).to_ascii_lowercase()),
            false => names::matches(pattern, self.name(*index)),
        };
        (0..self.len()).filter(matches).collect()
    }

    /// Adds what a folder holds, as [`Mounts::folder`](crate::Mounts::folder) lists it, except for
    /// names that are hidden.
    pub(crate) fn list_folder(
        &self,
        folder: &[u8],
        found: &mut BTreeSet<Vec<u8>>,
        is_hidden: impl Fn(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let folds = self.0.options.fold_case;
        for index in 0..self.len() {
            let name = self.name(index);
            if let Some(part) = below(folder, name, folds).map(first_part)
                && !found.contains(part)
                && !is_hidden(name)?
            {
                found.insert(part.to_vec());
            }
        }
        Ok(())
    }

    /// Returns a request for all raw bytes of the entry of a name; see [`Archive::range`].
    ///
    /// # Errors
    /// `NotFound`: there is no such entry. As [`Archive::lookup`] and [`Archive::range`].
    pub fn read(&self, name: impl AsRef<[u8]>) -> Result<Read> {
        let name = name.as_ref();
        let none = || Error::new(ErrorKind::NotFound, "there is no such entry");
        let found = self.lookup(name)?;
        self.request(found.ok_or_else(|| none().entry(name).of(self.path()))?)
    }

    /// Returns a request for all raw bytes of an entry; see [`Archive::range`].
    ///
    /// # Errors
    /// As [`Archive::range`].
    ///
    /// # Panics
    /// There is no such entry.
    pub fn request(&self, index: u32) -> Result<Read> {
        self.range(index, 0, self.0.entries.table.record(index).raw)
    }

    /// Returns a request for `len` raw bytes of an entry from `offset` on. A range of a compressed
    /// entry reads all of its stored bytes and decodes those up to the range's end. The caller may
    /// set destination, priority, deadline, tag, group and fences. A range far into a stored entry
    /// whose header was not seen yet first reads that, and blocks meanwhile.
    ///
    /// # Errors
    /// The range reaches past the end; the entry is encrypted, a symbolic link, or compressed by a
    /// method that this library does not know; its header cannot be read, or contradicts the
    /// directory.
    ///
    /// # Panics
    /// There is no such entry.
    pub fn range(&self, index: u32, offset: u64, len: u64) -> Result<Read> {
        let request = self.request_of(index, offset, len);
        let request = request.map_err(|error| error.entry(self.name(index)).of(self.path()))?;
        Ok(match self.0.options.name_requests {
            true => request.name(&*String::from_utf8_lossy(self.name(index))),
            false => request,
        })
    }

    fn request_of(&self, index: u32, offset: u64, len: u64) -> Result<Read> {
        let (entries, file) = (&self.0.entries, self.0.file.id);
        let record = entries.table.record(index);
        if offset.checked_add(len).is_none_or(|end| end > record.raw) {
            let cause = format!(
                "the range {offset} + {len} reaches past its {} bytes",
                record.raw
            );
            return Err(Error::new(ErrorKind::PastEnd, cause));
        }
        let codec = record.codec()?;
        let is_whole = len == record.raw;
        // Of an empty entry of a zip, header and stored bytes are checked as those of others.
        if len == 0 && !(is_whole && record.is(table::flag::HEADER)) {
            return Ok(Read::range(file, 0, 0));
        }
        let is_stored = codec == CodecId::STORED;
        let mut data = entries.table.data_at(index);
        if is_stored && data.is_none() && offset > ARCHIVE_SKIP_BYTES_MAX {
            data = Some(self.see_header(index)?);
        }
        if let Some(data) = data.filter(|_| is_stored && !(is_whole && entries.checks(index))) {
            return Ok(Read::range(file, data + offset, len));
        }
        let stored = match is_stored {
            true => offset + len,
            false => record.stored,
        };
        let end = match data {
            Some(data) => data + stored,
            None => record.at + record.least_header() + u64::from(record.slack) + stored,
        };
        let decoder = EntryDecoder::new(entries, index, (offset, len));
        let read = Read::range(file, record.at, end - record.at);
        Ok(read.decode(Decode::by(Arc::new(decoder), len)))
    }

    /// Reads the header of an entry; returns where its stored bytes begin.
    fn see_header(&self, index: u32) -> Result<u64> {
        let record = self.0.entries.table.record(index);
        let head = self.0.file.read(record.at, record.least_header())?;
        let decoder = EntryDecoder::new(&self.0.entries, index, (0, record.raw));
        let seen = decoder.see(&head);
        let wrong = |cause| Error::new(ErrorKind::Corrupt, cause).at(record.at);
        Ok(record.at + seen.map_err(wrong)? as u64)
    }
}

/// What decoders need. They hold no file and no queue: the last one may be dropped by a thread of
/// the storage, which cannot close that.
struct Entries {
    table: Table,
    verify: bool,
}

impl Entries {
    /// Whether an entry that is read whole is compared with its checksum.
    fn checks(&self, index: u32) -> bool {
        self.verify && self.table.record(index).is(table::flag::HEADER)
    }
}

impl Source for Archive {
    fn find(&self, name: &[u8]) -> std::result::Result<Option<Located>, millstream::Error> {
        let found = self.0.entries.table.find(&clean_name(name)?);
        Ok(found.map(|index| {
            let raw_bytes = self.0.entries.table.record(index).raw;
            Located::new(raw_bytes, [u64::from(index), self.mark()])
        }))
    }

    fn request_range(
        &self,
        entry: &Located,
        offset: u64,
        len: u64,
    ) -> std::result::Result<Read, millstream::Error> {
        let [index, mark] = entry.place();
        let index = u32::try_from(index)
            .ok()
            .filter(|index| *index < self.len());
        let Some(index) = index.filter(|_| mark == self.mark()) else {
            let cause = "the entry was found in another archive";
            let kind = millstream::ErrorKind::InvalidArgument;
            return Err(millstream::Error::new(kind, cause));
        };
        check_range(entry, offset, len)?;
        self.range(index, offset, len).map_err(Error::into_engine)
    }

    fn is_read_whole(&self, entry: &Located) -> bool {
        let [index, mark] = entry.place();
        let index = u32::try_from(index).ok();
        let index = index.filter(|index| mark == self.mark() && *index < self.len());
        let codec = index.and_then(|index| self.info(index).codec);
        codec.is_some_and(|codec| codec != CodecId::STORED)
    }

    fn metadata(&self, _: &Located) -> std::result::Result<Option<&[u8]>, millstream::Error> {
        Ok(None)
    }

    fn stored_in(&self, _: &Located) -> (u64, u64) {
        (self.mark(), self.0.file_bytes)
    }
}

impl Archive {
    /// Distinguishes this archive's entries from those of others.
    pub(crate) fn mark(&self) -> u64 {
        self.0.mark
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive")
            .field("path", &self.path())
            .field("entries", &self.len())
            .finish()
    }
}
