//! Sections of an open package, whose pages are verified when they are first touched.
//!
//! Hot sections are in memory once the package is open. Cold ones are read page by page, or all at
//! once by [`Section::preload`], into contiguous memory. Either way, a page is compared with its
//! hash before a byte of it is used, and the hashes with their digest in the header, which the root
//! covers: a lookup sees what was packed, and opening costs nothing for pages that are never used.
//!
//! The pages of a packed section are compressed one by one. Their hashes are of the stored bytes,
//! so that no decoder sees bytes that the packer did not write, and are followed by the stored
//! length of each page. Decoding never yields more than the raw length in the header, which is
//! bounded by a multiple of the stored length.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use millstream::{Buffer, CodecId, Read};
use millstream_codec::Scratch;

use super::open_file::OpenFile;
use crate::error::{Result, corrupt};
use crate::format::SectionRecord;
use crate::limits::{PAGE_BYTES, SECTION_AT_ONCE_BYTES};
use crate::memory;

/// A section of an open package.
pub(crate) struct Section {
    /// The package's path, for errors.
    path: Arc<Path>,
    record: SectionRecord,
    /// Its first byte in the file, and its size in memory.
    offset: u64,
    bytes: usize,
    /// It is in memory once the package is open.
    is_hot: bool,
    hashes_checked: OnceLock<()>,
    /// Which pages of a hot section are verified, and how many are not yet.
    checked: Box<[AtomicBool]>,
    left: AtomicUsize,
    /// Pages of a cold section that were read one by one; the whole section, if it was preloaded.
    pages: Box<[OnceLock<Buffer>]>,
    whole: OnceLock<Buffer>,
    index: OnceLock<PageIndex>,
}

fn boxed<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Box<[T]>> {
    Ok(memory::collect(items)?.into_boxed_slice())
}

/// A page of a cold section, with its number, that the section does not keep. For one section only.
#[derive(Default)]
pub(crate) struct PageView(Option<(usize, Buffer)>);

/// What is stored after a cold section: the verified hashes of its pages and, for a packed section,
/// where they lie.
struct PageIndex {
    hashes: Buffer,
    /// Where each page begins in the stored bytes, and where the last ends; empty if not packed.
    starts: Box<[u64]>,
}

impl Section {
    /// Creates a section. The caller has checked its record against the file's length and, if it is
    /// hot, against what was read.
    ///
    /// # Errors
    /// There is no memory for the state of each page.
    pub(crate) fn new(path: &Arc<Path>, record: &SectionRecord, is_hot: bool) -> Result<Section> {
        let bytes = usize::try_from(record.raw_bytes.get()).expect("checked by the caller");
        let pages = bytes.div_ceil(PAGE_BYTES);
        let (hot_pages, cold_pages) = if is_hot { (pages, 0) } else { (0, pages) };
        Ok(Section {
            path: Arc::clone(path),
            record: *record,
            offset: record.offset.get(),
            bytes,
            is_hot,
            hashes_checked: OnceLock::new(),
            checked: boxed((0..hot_pages).map(|_| AtomicBool::new(false)))?,
            left: AtomicUsize::new(hot_pages),
            pages: boxed((0..cold_pages).map(|_| OnceLock::new()))?,
            whole: OnceLock::new(),
            index: OnceLock::new(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    fn stored_bytes(&self) -> usize {
        // At most the raw bytes, which fit a `usize`.
        self.record.stored_bytes.get() as usize
    }

    /// The whole section, if it is in contiguous memory and all its pages are verified: lookups
    /// then use it without further checks.
    #[inline(always)]
    pub(crate) fn whole<'a>(&'a self, file: &'a OpenFile) -> Option<&'a [u8]> {
        if self.is_hot {
            let start = self.offset as usize;
            let is_known = self.left.load(Ordering::Acquire) == 0;
            return is_known.then(|| &file.hot[start..start + self.bytes]);
        }
        self.whole.get().map(|whole| &whole[..])
    }

    /// Returns bytes of the section. `len` must not be 0; a cold range must not cross a page.
    ///
    /// # Errors
    /// The range leaves the section, its page cannot be read, or has another hash.
    #[inline]
    pub(crate) fn get<'a>(
        &'a self,
        file: &'a OpenFile,
        offset: usize,
        len: usize,
    ) -> Result<&'a [u8]> {
        let end = offset.checked_add(len).filter(|&end| end <= self.bytes);
        let end = end.ok_or_else(|| self.wrong(offset, "a table refers beyond its section"))?;
        let (page, last) = (offset / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        if self.is_hot {
            if !self.checked[page].load(Ordering::Acquire) || last != page {
                self.check_hot(file, page, last)?;
            }
            let start = self.offset as usize;
            return Ok(&file.hot[start + offset..start + end]);
        }
        if last != page {
            return Err(self.wrong(offset, "an item crosses a page"));
        }
        if let Some(whole) = self.whole.get() {
            return Ok(&whole[offset..end]);
        }
        let bytes = match self.pages[page].get() {
            Some(bytes) => bytes,
            None => self.fetch(file, page)?,
        };
        let start = offset % PAGE_BYTES;
        Ok(&bytes[start..start + len])
    }

    #[cold]
    fn check_hot(&self, file: &OpenFile, first: usize, last: usize) -> Result<()> {
        let at = self.record.hashes_offset.get() as usize;
        let hashes = &file.hot[at..at + self.record.hashes_bytes() as usize];
        if self.hashes_checked.get().is_none() {
            self.check_hashes(hashes)?;
            let _ = self.hashes_checked.set(());
        }
        for page in first..=last {
            if !self.checked[page].load(Ordering::Acquire) {
                let start = self.offset as usize + page * PAGE_BYTES;
                let bytes = &file.hot[start..start + self.page_bytes(page)];
                self.check_page(hashes, page, bytes)?;
                if !self.checked[page].swap(true, Ordering::AcqRel) {
                    self.left.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn fetch<'a>(&'a self, file: &OpenFile, page: usize) -> Result<&'a [u8]> {
        let bytes = self.read(file, page..page + 1)?;
        Ok(self.pages[page].get_or_init(|| bytes))
    }

    /// Returns the item at `offset`, of 1 to `most` bytes: two bytes of its length, then its bytes,
    /// all in one page. A page that is not in memory is read into `view`, and not kept by the
    /// section; without a view it is kept. `what` names the item in the error of another length.
    pub(crate) fn item<'a>(
        &'a self,
        file: &'a OpenFile,
        view: Option<&'a mut PageView>,
        offset: usize,
        (most, what): (usize, &str),
    ) -> Result<&'a [u8]> {
        if offset >= self.bytes {
            return Err(self.wrong(offset, "a table refers beyond its section"));
        }
        let (page, start) = (offset / PAGE_BYTES, offset % PAGE_BYTES);
        let is_read = || self.whole.get().is_some() || self.pages[page].get().is_some();
        let is_kept = self.is_hot || is_read();
        let bytes = match view.filter(|_| !is_kept) {
            None => self.get(file, page * PAGE_BYTES, self.page_bytes(page))?,
            Some(view) => {
                let (_, bytes) = match view.0.take().filter(|(held, _)| *held == page) {
                    Some(held) => view.0.insert(held),
                    None => view.0.insert((page, self.read(file, page..page + 1)?)),
                };
                &bytes[..]
            }
        };
        let crosses = || self.wrong(offset, "an item crosses a page");
        let (len, rest) = bytes[start..].split_first_chunk().ok_or_else(crosses)?;
        let len = usize::from(u16::from_le_bytes(*len));
        if !(1..=most).contains(&len) {
            return Err(self.wrong(offset, &format!("{what} has an impossible length")));
        }
        rest.get(..len).ok_or_else(crosses)
    }

    /// Verifies every page of a cold section. One page at a time is in memory, and none is kept.
    pub(crate) fn check_pages(&self, file: &OpenFile) -> Result<()> {
        (0..self.page_count()).try_for_each(|page| self.read(file, page..page + 1).map(drop))
    }

    /// Reads, verifies and decodes pages of a cold section.
    fn read(&self, file: &OpenFile, pages: Range<usize>) -> Result<Buffer> {
        let range = |at: u64, len: usize| Read::range(file.id, at, len as u64);
        let raw_start = pages.start * PAGE_BYTES;
        let raw_bytes = self.bytes.min(pages.end * PAGE_BYTES) - raw_start;
        let mut batch = file.queue.batch();
        // Hashes and pages are in flight together, unless the hashes must say where the pages are.
        let ahead = match (self.index.get(), self.record.is_packed()) {
            (Some(_), _) => None,
            (None, false) => Some((raw_start, raw_bytes)),
            (None, true) => Some((0, self.stored_bytes()))
                .filter(|(_, len)| *len <= SECTION_AT_ONCE_BYTES || raw_bytes == self.bytes),
        };
        let ahead = match ahead {
            Some((at, len)) => Some((at, batch.add(range(self.offset + at as u64, len))?)),
            None => None,
        };
        let index = match self.index.get() {
            Some(index) => index,
            None => {
                let mut hashes = batch.add(range(
                    self.record.hashes_offset.get(),
                    self.record.hashes_bytes() as usize,
                ))?;
                batch.submit();
                let found = self.index_of(hashes.wait()?)?;
                self.index.get_or_init(|| found)
            }
        };
        let (at, mut ticket) = match ahead {
            Some(ahead) => ahead,
            None => {
                let (start, _) = self.place(index, pages.start);
                let (last, len) = self.place(index, pages.end - 1);
                let read = range(self.offset + start as u64, last + len - start);
                (start, batch.add(read)?)
            }
        };
        batch.submit();
        let read = ticket.wait()?;
        let mut packed = match self.record.is_packed() {
            true => Some((file.buffer(raw_bytes)?, file.scratch())),
            false => None,
        };
        for page in pages {
            let (start, len) = self.place(index, page);
            let stored = &read[start - at..][..len];
            self.check_page(&index.hashes, page, stored)?;
            if let Some((raw, scratch)) = &mut packed {
                let raw = &mut raw[page * PAGE_BYTES - raw_start..][..self.page_bytes(page)];
                self.decode(page, stored, raw, scratch)?;
            }
        }
        Ok(packed.map_or(read, |(raw, _)| raw))
    }

    /// Brings the whole section into memory and verifies it.
    pub(crate) fn preload(&self, file: &OpenFile) -> Result<()> {
        let pages = self.page_count();
        if pages > 0 && self.is_hot {
            self.check_hot(file, 0, pages - 1)?;
        } else if pages > 0 && self.whole.get().is_none() {
            let _ = self.whole.set(self.read(file, 0..pages)?);
        }
        Ok(())
    }

    fn page_count(&self) -> usize {
        self.bytes.div_ceil(PAGE_BYTES)
    }

    fn page_bytes(&self, page: usize) -> usize {
        PAGE_BYTES.min(self.bytes - page * PAGE_BYTES)
    }

    /// Returns where a page is in the stored bytes: first byte and length.
    fn place(&self, index: &PageIndex, page: usize) -> (usize, usize) {
        match index.starts.get(page..page + 2) {
            Some(ends) => (ends[0] as usize, (ends[1] - ends[0]) as usize),
            None => (page * PAGE_BYTES, self.page_bytes(page)),
        }
    }

    /// Verifies hashes that were read, and finds the places of pages.
    fn index_of(&self, hashes: Buffer) -> Result<PageIndex> {
        self.check_hashes(&hashes)?;
        if !self.record.is_packed() {
            let starts = Box::default();
            return Ok(PageIndex { hashes, starts });
        }
        let pages = self.page_count();
        let mut starts = memory::room(pages + 1)?;
        let mut at = 0u64;
        starts.push(at);
        for (page, len) in hashes[pages * 32..].chunks_exact(4).enumerate() {
            let len = u32::from_le_bytes(len.try_into().expect("four of them"));
            at += u64::from(len);
            let fits = (1..=self.page_bytes(page)).contains(&(len as usize));
            if !fits || at > self.record.stored_bytes.get() {
                let cause = "a packed page has an impossible length";
                return Err(self.wrong(0, cause));
            }
            starts.push(at);
        }
        if at != self.record.stored_bytes.get() {
            let cause = "its packed pages are not all of it";
            return Err(self.wrong(0, cause));
        }
        let starts = starts.into_boxed_slice();
        Ok(PageIndex { hashes, starts })
    }

    /// Decodes a verified page; one that has its raw length is stored uncompressed.
    fn decode(
        &self,
        page: usize,
        stored: &[u8],
        raw: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        if stored.len() == raw.len() {
            raw.copy_from_slice(stored);
            return Ok(());
        }
        let decoded = millstream_codec::decode_block(CodecId::ZSTD, scratch, stored, raw);
        let cause = match decoded {
            Ok(len) if len == raw.len() => return Ok(()),
            Ok(_) => "fewer raw bytes than it should have",
            Err(error) => error.cause,
        };
        let cause = format!("packed page {page}: {cause}");
        Err(self.wrong(page * PAGE_BYTES, &cause))
    }

    fn check_hashes(&self, hashes: &[u8]) -> Result<()> {
        if *blake3::hash(hashes).as_bytes() == self.record.hashes_digest {
            return Ok(());
        }
        let cause = format!(
            "the page hashes of section {} are not those of the header",
            self.record.kind
        );
        Err(corrupt(cause)
            .at(self.record.hashes_offset.get())
            .of(&self.path))
    }

    fn check_page(&self, hashes: &[u8], page: usize, bytes: &[u8]) -> Result<()> {
        if blake3::hash(bytes).as_bytes()[..] == hashes[page * 32..page * 32 + 32] {
            return Ok(());
        }
        let cause = "has another hash: its bytes are damaged, or the file was changed";
        let cause = format!("page {page} of section {} {cause}", self.record.kind);
        Err(self.located(corrupt(cause), page * PAGE_BYTES))
    }

    /// Returns an error at an offset in the section.
    pub(crate) fn wrong(&self, offset: usize, cause: &str) -> crate::error::Error {
        self.located(
            corrupt(format!("section {}: {cause}", self.record.kind)),
            offset,
        )
    }

    /// Adds the path and the offset in the file to an error. For a packed section it is that of the
    /// section's first byte, since its raw offsets are not offsets in the file.
    fn located(&self, error: crate::error::Error, offset: usize) -> crate::error::Error {
        let within = if self.record.is_packed() {
            0
        } else {
            offset.min(self.bytes)
        };
        error.at(self.offset + within as u64).of(&self.path)
    }
}
