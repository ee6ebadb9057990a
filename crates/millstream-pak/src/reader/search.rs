//! Lookups: from a name, or its hash, to the entry.
//!
//! Hash the name, look up its bucket by the hash's top bits, find the hash among the bucket's two
//! entries or so, and compare the name: three accesses to memory, each of which needs the one
//! before. In a package of 10^6 entries none of them is cached, and each takes 150 ns on a server.
//! What makes lookups fast is that the processor begins the next while it waits for this one, which
//! it does only if it guesses every branch right and its window holds both. So there are two ways:
//!
//! - the quick one, for tables whose pages were all found right (after [`Package::preload`], or
//!   enough use), of a few dozen instructions and no branch that depends on where in its bucket an
//!   entry is. It finds; it does not say that something is missing;
//! - the careful one, which checks pages on their first touch, walks long buckets, and has the
//!   errors. What the quick one does not find goes there.
//!
//! One careful way alone took 715 ns by name among 10^6 entries; the quick one takes about 300, and
//! 65 by hash in batches.

use zerocopy::FromBytes as _;

use super::tables::Tables;
use super::{EntryInfo, Package, info};
use crate::error::{Error, ErrorKind, Result};
use crate::format::EntryRecord;
use crate::limits::BUCKET_WINDOW;
use crate::names;

/// Bytes of an entry's record, and of those that are compared at once.
const ENTRY_BYTES: usize = size_of::<EntryRecord>();
const WINDOW_BYTES: usize = BUCKET_WINDOW * ENTRY_BYTES;

/// The tables of the quick way. Hostile ones lead nowhere: each access has its bounds.
struct Quick<'a> {
    buckets: &'a [u8],
    entries: &'a [u8],
    shift: u32,
}

impl<'a> Quick<'a> {
    /// If all pages of both were found right.
    #[inline(always)]
    fn new(tables: &'a Tables) -> Option<Quick<'a>> {
        Some(Quick {
            buckets: tables.buckets.whole(tables)?,
            entries: tables.entries.whole(tables)?,
            shift: 64 - tables.bucket_bits,
        })
    }

    #[inline(always)]
    fn bucket(&self, hash: u64) -> Option<(u32, u32)> {
        let at = (hash >> self.shift) as usize * 4;
        let pair = u64::from_le_bytes(*self.buckets.get(at..)?.first_chunk()?);
        Some((pair as u32, (pair >> 32) as u32))
    }

    #[inline(always)]
    fn window(&self, start: u32) -> Option<&'a [u8; WINDOW_BYTES]> {
        let entries = self.entries.get(start as usize * ENTRY_BYTES..)?;
        entries.first_chunk()
    }

    /// Loads a byte of both lines in which nearly all entries of a bucket lie; what it gives means
    /// nothing.
    #[inline(always)]
    fn touch(&self, start: u32) -> u8 {
        let window = self.window(start);
        window.map_or(0, |window| window[0] ^ window[WINDOW_BYTES / 2])
    }

    /// The entry of a hash, if it is among the first of its bucket. All of those are compared,
    /// without a branch in between: one guessed wrong costs as much as a lookup.
    #[inline(always)]
    fn find(&self, hash: u64, start: u32, end: u32) -> Option<(u32, EntryRecord)> {
        let window = self.window(start)?;
        let mut hits = 0u32;
        for nth in 0..BUCKET_WINDOW {
            let (found, _) = window[nth * ENTRY_BYTES..].split_first_chunk()?;
            hits |= u32::from(u64::from_le_bytes(*found) == hash) << nth;
        }
        let count = end.saturating_sub(start).min(BUCKET_WINDOW as u32);
        hits &= (1 << count) - 1;
        if hits == 0 {
            return None;
        }
        let nth = hits.trailing_zeros();
        let record = &window[nth as usize * ENTRY_BYTES..][..ENTRY_BYTES];
        Some((start + nth, EntryRecord::read_from_bytes(record).ok()?))
    }
}

impl Package {
    /// The entry of a name. Empty parts and `.` in the name are ignored.
    ///
    /// # Errors
    /// A name that no package may have, or damaged tables.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Result<Option<EntryInfo>> {
        if let Some(found) = self.lookup_quick(name) {
            return Ok(Some(found));
        }
        // A name that is found is clean: only of others is it asked.
        if let Some(found) = self.lookup_clean(name)? {
            return Ok(Some(found));
        }
        self.lookup_other(name)
    }

    /// A name that was not found as it stands.
    #[cold]
    fn lookup_other(&self, name: &[u8]) -> Result<Option<EntryInfo>> {
        if names::is_clean(name) {
            return Ok(None);
        }
        let clean = millstream::source::clean_name(name)
            .map_err(|error| Error::new(ErrorKind::BadName, error.cause()).entry(name))?;
        self.lookup_clean(&clean)
    }

    /// A name that is there, in tables that were found right; what it does not find may be there.
    #[inline]
    fn lookup_quick(&self, name: &[u8]) -> Option<EntryInfo> {
        let tables = self.tables();
        let quick = Quick::new(tables)?;
        let names = tables.names.whole(tables)?;
        let hash = names::hash(name, tables.header.hash_seed.get(), tables.fold_case);
        let (start, end) = quick.bucket(hash)?;
        let (index, entry) = quick.find(hash, start, end)?;
        if self.0.options.confirm_names {
            // Length and name lie together: they are one access.
            let item = names.get(entry.name_offset.get() as usize..)?;
            let (len, item) = item.split_first_chunk()?;
            let found = item.get(..usize::from(u16::from_le_bytes(*len)))?;
            if found != name {
                return None;
            }
        }
        Some(info(index, &entry))
    }

    fn lookup_clean(&self, name: &[u8]) -> Result<Option<EntryInfo>> {
        let tables = self.tables();
        let hash = names::hash(name, tables.header.hash_seed.get(), tables.fold_case);
        let (start, end) = tables.bucket(hash)?;
        let Some((index, entry)) = self.search(hash, start, end)? else {
            return Ok(None);
        };
        let confirm = self.0.options.confirm_names;
        if confirm && !names::same(self.name(index)?, name, tables.fold_case) {
            return Ok(None);
        }
        Ok(Some(info(index, &entry)))
    }

    /// The hash of a name, for [`Package::lookup_hash`] of packages with this seed.
    #[must_use]
    pub fn hash_name(&self, name: &[u8]) -> u64 {
        let tables = self.tables();
        names::hash(name, tables.header.hash_seed.get(), tables.fold_case)
    }

    /// The entry of a name's hash; the name is not confirmed.
    ///
    /// # Errors
    /// Damaged tables.
    #[inline]
    pub fn lookup_hash(&self, hash: u64) -> Result<Option<EntryInfo>> {
        let (start, end) = self.tables().bucket(hash)?;
        let found = self.search(hash, start, end)?;
        Ok(found.map(|(index, entry)| info(index, &entry)))
    }

    /// The entries of many hashes. Faster than one by one in large packages: the memory accesses of
    /// several lookups overlap.
    ///
    /// # Errors
    /// Damaged tables.
    ///
    /// # Panics
    /// `found` is shorter than `hashes`.
    pub fn lookup_hashes(&self, hashes: &[u64], found: &mut [Option<EntryInfo>]) -> Result<()> {
        const AT_ONCE: usize = 32;
        assert!(found.len() >= hashes.len(), "room for what is found");
        let mut ranges = [(0, 0); AT_ONCE];
        for (hashes, found) in hashes.chunks(AT_ONCE).zip(found.chunks_mut(AT_ONCE)) {
            let Some(quick) = Quick::new(self.tables()) else {
                for (found, &hash) in found.iter_mut().zip(hashes) {
                    *found = self.lookup_hash(hash)?;
                }
                continue;
            };
            for (range, &hash) in ranges.iter_mut().zip(hashes) {
                *range = quick.bucket(hash).unwrap_or((0, 0));
            }
            // Nothing depends on these loads, so the processor waits for all of them together, and
            // finds the lines in its cache when it compares.
            let mut touched = 0;
            for &(start, _) in &ranges[..hashes.len()] {
                touched ^= quick.touch(start);
            }
            std::hint::black_box(touched);
            for ((found, &hash), &(start, end)) in found.iter_mut().zip(hashes).zip(&ranges) {
                *found = match quick.find(hash, start, end) {
                    Some((index, entry)) => Some(info(index, &entry)),
                    None => self.lookup_hash(hash)?,
                };
            }
        }
        Ok(())
    }

    /// Finds a hash among the entries of its bucket, which are two or so. However many a hostile
    /// table says there are, a few steps suffice.
    fn search(
        &self,
        hash: u64,
        mut start: u32,
        mut end: u32,
    ) -> Result<Option<(u32, EntryRecord)>> {
        let tables = self.tables();
        while end - start > BUCKET_WINDOW as u32 {
            let middle = start + (end - start) / 2;
            if tables.entry(middle)?.hash.get() <= hash {
                start = middle;
            } else {
                end = middle;
            }
        }
        for index in start..end {
            let entry = tables.entry(index)?;
            if entry.hash.get() == hash {
                return Ok(Some((index, entry)));
            }
        }
        Ok(None)
    }
}
