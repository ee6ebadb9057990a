//! Lookups: from a name, or its hash, to the entry.
//!
//! A lookup hashes the name, finds its bucket by the hash's top bits, finds the hash among the
//! bucket's two entries or so, and compares the name: three dependent memory accesses, all of them
//! cache misses in a package of 10^6 entries (150 ns each). Throughput depends on the processor
//! overlapping a lookup with the next one: it must predict every branch, and have room for both. So
//! there is a fast path for tables whose pages are all verified (after [`Package::preload`];
//! without names, also after enough use), which has no branch that depends on an entry's place in
//! its bucket. What it does not find takes the slow path, which verifies pages on their first
//! touch, searches long buckets, and returns the errors. The fast path compares four entries at a
//! time, and never looks at another bucket, which would be one more cache line to wait for. Batches
//! run in stages, each for all lookups of a group before the next stage of any: what a stage needs
//! is being loaded while the stage before it runs for the others.

use zerocopy::little_endian::{U16, U32, U64};

use super::tables::Tables;
use super::{EntryInfo, Package, info};
use crate::error::{Error, ErrorKind, Result};
use crate::format::EntryRecord;
use crate::limits::BUCKET_WINDOW;
use crate::names;

/// Bytes of an entry's record, and of the records that are compared at once.
const ENTRY_BYTES: usize = size_of::<EntryRecord>();
const WINDOW_BYTES: usize = BUCKET_WINDOW * ENTRY_BYTES;

/// Lookups of a batch that go through the stages together: their cache lines are a third of the L1
/// cache.
const AT_ONCE: usize = 32;

/// Maximum windows of a bucket that the fast path compares: enough for every bucket of a million
/// entries.
const BUCKET_WINDOWS: usize = 4;

/// Offset from the start of a name's item of a second byte whose cache line is loaded, too.
const NAME_TOUCH_BYTES: usize = 40;

/// The tables of the fast path. Each access is bounds-checked, since they may be hostile.
struct FastTables<'a> {
    buckets: &'a [u8],
    entries: &'a [u8],
    shift: u32,
}

impl<'a> FastTables<'a> {
    /// Returns the tables, if all pages of both are verified.
    #[inline(always)]
    fn new(tables: &'a Tables) -> Option<FastTables<'a>> {
        Some(FastTables {
            buckets: tables.buckets.whole(&tables.file)?,
            entries: tables.entries.whole(&tables.file)?,
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

    /// Loads a byte of each cache line that holds the first entries of a bucket. The result has no
    /// meaning.
    #[inline(always)]
    fn touch(&self, start: u32, end: u32) -> u8 {
        let last = last_of_window(start, end);
        let middle = last.min(BUCKET_WINDOW / 2) * ENTRY_BYTES;
        self.window(start).map_or(0, |window| {
            window[0] ^ window[middle] ^ window[last * ENTRY_BYTES]
        })
    }

    /// Returns the entry of a hash, if it is in its bucket. Four entries are compared without a
    /// branch between them: a mispredicted one costs as much as a lookup.
    #[inline(always)]
    fn find(&self, hash: u64, mut start: u32, end: u32) -> Option<(u32, EntryRecord)> {
        for _ in 0..BUCKET_WINDOWS {
            if start >= end {
                return None;
            }
            let window = self.window(start)?;
            let last = last_of_window(start, end);
            let mut hits = 0u32;
            for nth in 0..BUCKET_WINDOW {
                // Past the end of the bucket, its last entry again, not one of another bucket.
                let (found, _) = window[nth.min(last) * ENTRY_BYTES..].split_first_chunk()?;
                hits |= u32::from(u64::from_le_bytes(*found) == hash) << nth;
            }
            if hits != 0 {
                let nth = hits.trailing_zeros();
                let record = window[nth as usize * ENTRY_BYTES..].first_chunk()?;
                return Some((start + nth, record_of(record)));
            }
            start += BUCKET_WINDOW as u32;
        }
        None
    }

    /// Finds a group of hashes, stage by stage; `hit` gets the result for each.
    #[inline(always)]
    fn find_all(&self, hashes: &[u64], mut hit: impl FnMut(usize, Option<(u32, EntryRecord)>)) {
        let mut ranges = [(0, 0); AT_ONCE];
        for (range, &hash) in ranges.iter_mut().zip(hashes) {
            *range = self.bucket(hash).unwrap_or((0, 0));
        }
        // Nothing depends on these loads, so the processor waits for all of them together, and the
        // comparisons find the lines in the cache.
        let mut touched = 0;
        for &(start, end) in &ranges[..hashes.len()] {
            touched ^= self.touch(start, end);
        }
        std::hint::black_box(touched);
        for (nth, (&hash, &(start, end))) in hashes.iter().zip(&ranges).enumerate() {
            hit(nth, self.find(hash, start, end));
        }
    }
}

/// Returns the record in these bytes, read as four words. In a plain copy, the compiler stores the
/// record in pieces and loads fields across two of them: the processor then waits for all earlier
/// stores, and no lookup overlaps another.
#[inline(always)]
fn record_of(bytes: &[u8; ENTRY_BYTES]) -> EntryRecord {
    let word = |nth: usize| {
        let bytes = bytes[nth * 8..].first_chunk();
        u64::from_le_bytes(*bytes.expect("four words of eight bytes"))
    };
    let (third, fourth) = (word(2), word(3));
    EntryRecord {
        hash: U64::new(word(0)),
        raw_bytes: U64::new(word(1)),
        first_block: U32::new(third as u32),
        name_offset: U32::new((third >> 32) as u32),
        offset_in_block: U32::new(fourth as u32),
        block_shift: (fourth >> 32) as u8,
        flags: (fourth >> 40) as u8,
        reserved: U16::new((fourth >> 48) as u16),
    }
}

/// Returns the place in the window of the bucket's last entry, or of the window's.
#[inline(always)]
fn last_of_window(start: u32, end: u32) -> usize {
    (end.wrapping_sub(start).wrapping_sub(1) as usize).min(BUCKET_WINDOW - 1)
}

/// Returns the item at an offset of verified names: one memory access for length and name.
#[inline(always)]
fn name_at(names: &[u8], offset: u32) -> Option<&[u8]> {
    let (len, item) = names.get(offset as usize..)?.split_first_chunk()?;
    item.get(..usize::from(u16::from_le_bytes(*len)))
}

impl Package {
    /// Looks a name up; in a patch, it may find an entry that is [gone](EntryInfo::gone). Empty
    /// parts and `.` in the name are ignored.
    ///
    /// # Errors
    /// The name is empty or absolute, has a part `..` or a NUL; or the tables are damaged.
    #[inline]
    pub fn lookup(&self, name: &[u8]) -> Result<Option<EntryInfo>> {
        if let Some(found) = self.lookup_fast(name) {
            return Ok(Some(found));
        }
        // A name that is found is clean: only others are cleaned.
        if let Some(found) = self.lookup_clean(name)? {
            return Ok(Some(found));
        }
        self.lookup_other(name)
    }

    /// Looks up a name that was not found as it is, after cleaning it.
    #[cold]
    fn lookup_other(&self, name: &[u8]) -> Result<Option<EntryInfo>> {
        let clean = millstream_source::clean_name(name)
            .map_err(|error| Error::new(ErrorKind::BadName, error.cause()).entry(name))?;
        let found = match clean == name {
            true => None,
            false => self.lookup_clean(&clean)?,
        };
        match found.is_none() && self.0.options.fold_case && !self.folds_case() {
            true => self.lookup_folded(&clean),
            false => Ok(found),
        }
    }

    /// Finds a name in another case.
    fn lookup_folded(&self, name: &[u8]) -> Result<Option<EntryInfo>> {
        let order = self.by_folded_name()?;
        let at = order.partition_point(|&index| {
            let other = names::in_lower_case(self.name(index).unwrap_or_default());
            other.lt(names::in_lower_case(name))
        });
        match order.get(at) {
            Some(&index) if names::same(self.name(index)?, name, true) => {
                self.info(index).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The fast path, for verified tables; a name that it does not find may still exist.
    #[inline]
    fn lookup_fast(&self, name: &[u8]) -> Option<EntryInfo> {
        let tables = self.tables();
        let fast = FastTables::new(tables)?;
        let names = tables.names.whole(&tables.file)?;
        let hash = self.hash_name(name);
        let (start, end) = fast.bucket(hash)?;
        let (index, entry) = fast.find(hash, start, end)?;
        let confirm = self.0.options.confirm_names;
        if confirm && name_at(names, entry.name_offset.get())? != name {
            return None;
        }
        Some(info(index, &entry))
    }

    fn lookup_clean(&self, name: &[u8]) -> Result<Option<EntryInfo>> {
        let found = self.lookup_hash(self.hash_name(name))?;
        if let Some(found) = found
            && self.0.options.confirm_names
            && !names::same(self.name(found.index)?, name, self.tables().fold_case)
        {
            return Ok(None);
        }
        Ok(found)
    }

    /// Returns the hash of a name with the package's seed, for [`Package::lookup_hashes`].
    #[must_use]
    #[inline]
    pub fn hash_name(&self, name: &[u8]) -> u64 {
        let tables = self.tables();
        names::hash(name, tables.header.hash_seed.get(), tables.fold_case)
    }

    /// Looks up the hash of a name; the name is not confirmed.
    #[inline]
    fn lookup_hash(&self, hash: u64) -> Result<Option<EntryInfo>> {
        let (start, end) = self.tables().bucket(hash)?;
        let found = self.search(hash, start, end)?;
        Ok(found.map(|(index, entry)| info(index, &entry)))
    }

    /// Looks up many hashes; names are not confirmed. The memory accesses of several lookups
    /// overlap.
    ///
    /// # Errors
    /// The tables are damaged; hashes that could be looked up have their results.
    ///
    /// # Panics
    /// `found` is shorter than `hashes`.
    pub fn lookup_hashes(&self, hashes: &[u64], found: &mut [Option<EntryInfo>]) -> Result<()> {
        let found = &mut found[..hashes.len()];
        let mut failed = None;
        for (hashes, found) in hashes.chunks(AT_ONCE).zip(found.chunks_mut(AT_ONCE)) {
            let mut slow = |hash| {
                let looked_up = self.lookup_hash(hash);
                looked_up.unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    None
                })
            };
            match FastTables::new(self.tables()) {
                Some(fast) => fast.find_all(hashes, |nth, hit| {
                    found[nth] = match hit {
                        Some((index, entry)) => Some(info(index, &entry)),
                        None => slow(hashes[nth]),
                    };
                }),
                None => (found.iter_mut().zip(hashes)).for_each(|(it, &hash)| *it = slow(hash)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Looks up many names. In large packages this is faster than one by one, as
    /// [`Package::lookup_hashes`] is.
    ///
    /// # Errors
    /// As [`Package::lookup`].
    ///
    /// # Panics
    /// `found` is shorter than `names`.
    pub fn lookup_names<N: AsRef<[u8]>>(
        &self,
        names: &[N],
        found: &mut [Option<EntryInfo>],
    ) -> Result<()> {
        let found = &mut found[..names.len()];
        for (names, found) in names.chunks(AT_ONCE).zip(found.chunks_mut(AT_ONCE)) {
            found.fill(None);
            self.find_names(names, found);
            for (name, found) in names.iter().zip(found) {
                if found.is_none() {
                    *found = self.lookup(name.as_ref())?;
                }
            }
        }
        Ok(())
    }

    /// The fast path for a group of names; names that it does not find may still exist.
    fn find_names<N: AsRef<[u8]>>(&self, names: &[N], hits: &mut [Option<EntryInfo>]) {
        let tables = self.tables();
        let (Some(fast), Some(texts)) = (FastTables::new(tables), tables.names.whole(&tables.file))
        else {
            return;
        };
        let mut touched = 0;
        for name in names {
            let name = name.as_ref();
            touched ^= name.first().unwrap_or(&0) ^ name.last().unwrap_or(&0);
        }
        std::hint::black_box(touched);
        let mut hashes = [0; AT_ONCE];
        for (hash, name) in hashes.iter_mut().zip(names) {
            *hash = self.hash_name(name.as_ref());
        }
        let mut places = [0; AT_ONCE];
        fast.find_all(&hashes[..names.len()], |nth, hit| {
            if let Some((index, entry)) = hit {
                places[nth] = entry.name_offset.get();
                hits[nth] = Some(info(index, &entry));
            }
        });
        // A separate loop: a load that waits keeps its place in the processor's reorder buffer,
        // which the longer loop above would fill with a few lookups.
        for &place in &places {
            // Most names lie in one cache line, or in two.
            let near = (place as usize + NAME_TOUCH_BYTES).min(texts.len().max(1) - 1);
            let byte = |at: usize| texts.get(at).copied().unwrap_or(0);
            touched ^= byte(place as usize) ^ byte(near);
        }
        std::hint::black_box(touched);
        if self.0.options.confirm_names {
            for ((hit, place), name) in hits.iter_mut().zip(places).zip(names) {
                if hit.is_some() && name_at(texts, place) != Some(name.as_ref()) {
                    *hit = None;
                }
            }
        }
    }

    /// Finds a hash among the entries of its bucket, which are two or so. Long buckets, such as a
    /// hostile table's, are searched by bisection.
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
