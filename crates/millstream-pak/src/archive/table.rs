//! The entries of an open archive: a record for each, in the byte order of names.
//!
//! Records are checked one by one as they are added, and against each other at the end: no two of
//! them have stored bytes in common, and none has any behind the archive's data.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream::CodecId;

use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::limits::{ARCHIVE_REFUSED_MAX, DEFLATE_RATIO_MAX, NAME_BYTES_MAX, ZSTD_RATIO_MAX};
use crate::{memory, names};

/// The flags of a [`Record`].
pub(super) mod flag {
    /// A zip's local header is in front of the stored bytes.
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const ENCRYPTED: u8 = 2;
    /// The entry is a symbolic link.
    pub(crate) const LINK: u8 = 4;
    pub(crate) const EXECUTABLE: u8 = 8;
}

/// Compression methods of zip.
pub(super) mod method {
    pub(crate) const STORED: u16 = 0;
    pub(crate) const DEFLATE: u16 = 8;
    pub(crate) const ZSTD: u16 = 93;
}

/// Bytes of a zip's local header without name and extra fields.
pub(super) const LOCAL_BYTES: usize = 30;

/// What is known of an entry.
#[derive(Clone, Copy)]
pub(super) struct Record {
    /// Where its header begins, or its stored bytes if it has none.
    pub(super) at: u64,
    pub(super) stored: u64,
    pub(super) raw: u64,
    pub(super) crc: u32,
    /// Where its name begins in the table's names.
    name_at: u32,
    /// XXH3-64, cut, of the name as it is in the archive.
    pub(super) local_name_hash: u32,
    /// Bytes that the header may have beyond its fixed fields and the name.
    pub(super) slack: u32,
    name_len: u16,
    /// Bytes of the name in the archive.
    pub(super) local_name_len: u16,
    pub(super) method: u16,
    pub(super) flags: u8,
}

impl Record {
    /// Creates the record of an entry whose raw bytes are in the file as they are.
    pub(super) fn stored(at: u64, bytes: u64) -> Record {
        Record {
            at,
            stored: bytes,
            raw: bytes,
            crc: 0,
            name_at: 0,
            local_name_hash: 0,
            slack: 0,
            name_len: 0,
            local_name_len: 0,
            method: method::STORED,
            flags: 0,
        }
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the bytes of its header without fields of unknown length.
    pub(super) fn least_header(&self) -> u64 {
        match self.is(flag::HEADER) {
            true => LOCAL_BYTES as u64 + u64::from(self.local_name_len),
            false => 0,
        }
    }

    /// Returns the codec of its stored bytes.
    ///
    /// # Errors
    /// `Unsupported`: it cannot be loaded.
    pub(super) fn codec(&self) -> Result<CodecId> {
        let cause = match self.method {
            _ if self.is(flag::ENCRYPTED) => "the entry is encrypted",
            _ if self.is(flag::LINK) => "the entry is a symbolic link, which is not followed",
            method::STORED => return Ok(CodecId::STORED),
            method::DEFLATE => return Ok(CodecId::DEFLATE),
            method::ZSTD if millstream_codec::can_decode(CodecId::ZSTD) => {
                return Ok(CodecId::ZSTD);
            }
            other => {
                let cause = format!("compression method {other} is not supported, or not built in");
                return Err(Error::new(ErrorKind::Unsupported, cause));
            }
        };
        Err(Error::new(ErrorKind::Unsupported, cause))
    }

    /// Refuses sizes that no stored bytes have.
    fn check_sizes(&self) -> Result<()> {
        let is_possible = match self.method {
            _ if self.is(flag::ENCRYPTED) => true,
            method::STORED => self.raw == self.stored,
            method::DEFLATE => self.raw <= self.stored.saturating_mul(DEFLATE_RATIO_MAX),
            method::ZSTD => self.raw <= self.stored.saturating_mul(ZSTD_RATIO_MAX),
            _ => true,
        };
        if is_possible {
            return Ok(());
        }
        let (raw, stored) = (self.raw, self.stored);
        let cause = format!("{stored} stored bytes cannot hold the {raw} raw bytes declared");
        Err(corrupt(cause))
    }
}

/// Collects the entries of a directory.
pub(super) struct Builder {
    pub(super) file_bytes: u64,
    records: Vec<Record>,
    names: Vec<u8>,
    refused: Vec<Error>,
}

impl Builder {
    /// Creates a table of an archive of so many bytes.
    pub(super) fn new(file_bytes: u64) -> Builder {
        Builder {
            file_bytes,
            records: Vec::new(),
            names: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Adds an entry, or the error of its name. A name that ends with `/` is a folder's: folders
    /// are no entries, and nothing is made of their names.
    pub(super) fn add(&mut self, mut record: Record, name: &[u8]) -> Result<()> {
        let named = |error: Error| error.entry(name);
        if name.ends_with(b"/") {
            return Ok(());
        }
        let clean = match check_name(name) {
            Ok(clean) => clean,
            Err(error) if self.refused.len() < ARCHIVE_REFUSED_MAX => {
                return memory::push(&mut self.refused, named(error).at(record.at));
            }
            Err(error) => return Err(named(error)),
        };
        record.check_sizes().map_err(named)?;
        let least = record.least_header().checked_add(record.stored);
        let end = least.and_then(|bytes| record.at.checked_add(bytes));
        if end.is_none_or(|end| end > self.file_bytes) {
            let cause = "the entry reaches past the end of the archive";
            return Err(named(Error::new(ErrorKind::Truncated, cause)));
        }
        record.name_at = u32::try_from(self.names.len()).expect("the directory is bounded");
        record.name_len = u16::try_from(clean.len()).expect("the name is bounded");
        memory::reserve(&mut self.names, clean.len())?;
        self.names.extend_from_slice(&clean);
        memory::push(&mut self.records, record)
    }

    fn name(&self, index: u32) -> &[u8] {
        name_of(&self.names, &self.records[index as usize])
    }

    /// Returns how many bytes all names begin with.
    fn shared_prefix(&self) -> usize {
        let mut names = (0..self.records.len() as u32).map(|nth| self.name(nth));
        let first = names.next().unwrap_or_default();
        names.fold(first.len(), |shared, name| {
            let same = first[..shared].iter().zip(name);
            same.take_while(|(a, b)| a == b).count()
        })
    }

    /// Checks the entries against each other, and puts them into order. Those of an archive with
    /// headers lie before `end`.
    pub(super) fn finish(mut self, end: u64, fold_case: bool) -> Result<Table> {
        self.check_places(end)?;
        // Few comparisons look further than 16 bytes behind what all names begin with. As no name
        // has a NUL, shorter ones come first.
        let shared = self.shared_prefix();
        let key = |name: &[u8]| {
            let mut key = [0; 16];
            let rest = &name[shared..];
            let len = rest.len().min(key.len());
            key[..len].copy_from_slice(&rest[..len]);
            u128::from_be_bytes(key)
        };
        let keyed = self.records.iter().enumerate().map(|(nth, record)| {
            let name = name_of(&self.names, record);
            (key(name), name, nth as u32)
        });
        let mut order: Vec<(u128, &[u8], u32)> = memory::collect(keyed)?;
        order.sort_unstable();
        let (mut duplicates, mut kept) = (Vec::new(), memory::room(order.len())?);
        for (nth, (_, name, index)) in order.iter().enumerate() {
            // The last in the directory is used.
            if order.get(nth + 1).is_some_and(|(_, next, _)| next == name) {
                memory::push(&mut duplicates, kept.len() as u32)?;
            } else {
                kept.push(self.records[*index as usize]);
            }
        }
        duplicates.dedup();
        let mut table = Table {
            headers: memory::collect(kept.iter().map(|_| AtomicU32::new(0)))?,
            records: kept,
            names: self.names,
            duplicates,
            refused: self.refused,
            folded: None,
        };
        if fold_case {
            table.folded = Some(table.by_folded_name()?);
        }
        Ok(table)
    }

    /// Refuses entries that overlap, and notes how long the header of each may be.
    fn check_places(&mut self, end: u64) -> Result<()> {
        let mut order: Vec<u32> = memory::collect(0..self.records.len() as u32)?;
        // Entries without bytes overlap nothing, wherever they are.
        order.retain(|&nth| {
            let record = &self.records[nth as usize];
            record.least_header() + record.stored > 0
        });
        order.sort_unstable_by_key(|&nth| (self.records[nth as usize].at, nth));
        for (nth, &index) in order.iter().enumerate() {
            let record = &self.records[index as usize];
            let next = order.get(nth + 1);
            let limit = next.map_or(end, |&next| self.records[next as usize].at);
            let least = record.at + record.least_header() + record.stored;
            let Some(slack) = limit.checked_sub(least) else {
                let cause = match next {
                    Some(&next) => {
                        let other = names::escape::escape(self.name(next));
                        format!("the entry overlaps entry '{other}'")
                    }
                    None => String::from("the entry overlaps the archive's directory"),
                };
                return Err(corrupt(cause).entry(self.name(index)).at(record.at));
            };
            // No header has more bytes of extra fields.
            self.records[index as usize].slack = slack.min(u64::from(u16::MAX)) as u32;
        }
        Ok(())
    }
}

/// Returns a name without empty parts and `.`; refuses one that leads out of a folder.
fn check_name(name: &[u8]) -> Result<Vec<u8>> {
    let wrong = |cause: &str| Err(Error::new(ErrorKind::BadName, cause));
    if std::str::from_utf8(name).is_err() {
        return wrong("the name is marked as UTF-8, and is not");
    }
    if name.contains(&b'\\') {
        return wrong("the name holds a backslash, which separates folders on some systems");
    }
    let clean = millstream_source::clean_name(name);
    let clean = clean.map_err(|error| Error::new(ErrorKind::BadName, error.cause()))?;
    if clean.len() >= 2 && clean[1] == b':' && clean[0].is_ascii_alphabetic() {
        return wrong("the name begins with the letter of a drive");
    }
    match clean.len() > NAME_BYTES_MAX {
        true => wrong("the name has more than 4096 bytes"),
        false => Ok(clean),
    }
}

/// The entries of an open archive.
pub(super) struct Table {
    records: Vec<Record>,
    names: Vec<u8>,
    /// The bytes of the headers that were seen; 0 for the others.
    headers: Vec<AtomicU32>,
    /// Entries whose names the directory has several times.
    pub(super) duplicates: Vec<u32>,
    /// Why entries were left out: their names.
    pub(super) refused: Vec<Error>,
    /// In the order of names in lower case, then of their bytes.
    folded: Option<Vec<u32>>,
}

fn name_of<'a>(names: &'a [u8], record: &Record) -> &'a [u8] {
    let at = record.name_at as usize;
    &names[at..at + usize::from(record.name_len)]
}

impl Table {
    pub(super) fn len(&self) -> u32 {
        self.records.len() as u32
    }

    pub(super) fn record(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    pub(super) fn name(&self, index: u32) -> &[u8] {
        name_of(&self.names, self.record(index))
    }

    /// Returns where the stored bytes of an entry begin, if that is known.
    pub(super) fn data_at(&self, index: u32) -> Option<u64> {
        let record = self.record(index);
        if !record.is(flag::HEADER) {
            return Some(record.at);
        }
        let header = self.headers[index as usize].load(Ordering::Relaxed);
        (header > 0).then(|| record.at + u64::from(header))
    }

    /// Notes how many bytes the header of an entry has.
    pub(super) fn note_header(&self, index: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).expect("a header is short");
        self.headers[index as usize].store(bytes, Ordering::Relaxed);
    }

    /// Returns the entry of a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        let exact = self
            .records
            .binary_search_by(|record| name_of(&self.names, record).cmp(name));
        match (exact, &self.folded) {
            (Ok(index), _) => Some(index as u32),
            (Err(_), None) => None,
            (Err(_), Some(folded)) => {
                let lower = || names::in_lower_case(name);
                let is_before = |&index: &u32| names::in_lower_case(self.name(index)).lt(lower());
                let found = *folded.get(folded.partition_point(is_before))?;
                self.name(found).eq_ignore_ascii_case(name).then_some(found)
            }
        }
    }

    fn by_folded_name(&self) -> Result<Vec<u32>> {
        let mut order: Vec<u32> = memory::collect(0..self.len())?;
        // Entries are in the order of their bytes already.
        order.sort_unstable_by(|&a, &b| {
            let lower = |index| names::in_lower_case(self.name(index));
            lower(a).cmp(lower(b)).then(a.cmp(&b))
        });
        Ok(order)
    }

    /// Returns the entries in the order in which they lie in the file.
    pub(super) fn by_place(&self, entries: &[u32]) -> Result<Vec<u32>> {
        let mut order = memory::collect(entries.iter().copied())?;
        order.sort_unstable_by_key(|&index| (self.record(index).at, index));
        Ok(order)
    }
}

const _: () = assert!(size_of::<Record>() == 48);
