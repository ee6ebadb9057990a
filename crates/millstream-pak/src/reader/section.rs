//! Sections of an open package, whose pages are verified when they are first touched.
//!
//! Hot sections are in memory once the package is open. Cold ones are read page by page, or all at
//! once by [`Section::preload`], into contiguous memory. Either way, a page is compared with its
//! hash before a byte of it is used, and the hashes with their digest in the header, which the root
//! covers: a lookup sees what was packed, and opening costs nothing for pages that are never used.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use millstream::{Buffer, Read};

use super::open_file::OpenFile;
use crate::error::{Result, corrupt};
use crate::format::SectionRecord;
use crate::limits::PAGE_BYTES;
use crate::memory;

/// A section of an open package.
pub(crate) struct Section {
    /// The package's path, for errors.
    path: Arc<Path>,
    record: SectionRecord,
    /// Its first byte in the file, and its length.
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
    /// The verified hashes of a cold section's pages.
    hashes: OnceLock<Buffer>,
}

fn boxed<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Box<[T]>> {
    Ok(memory::collect(items)?.into_boxed_slice())
}

/// A page of a cold section, with its number, that the section does not keep. For one section only.
#[derive(Default)]
pub(crate) struct PageView(Option<(usize, Buffer)>);

impl Section {
    /// Creates a section. The caller has checked its record against the file's length and, if it is
    /// hot, against what was read.
    ///
    /// # Errors
    /// There is no memory for the state of each page.
    pub(crate) fn new(path: &Arc<Path>, record: &SectionRecord, is_hot: bool) -> Result<Section> {
        let bytes = usize::try_from(record.bytes.get()).expect("checked by the caller");
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
            hashes: OnceLock::new(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
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

    /// Reads and verifies consecutive pages of a cold section.
    fn read(&self, file: &OpenFile, pages: Range<usize>) -> Result<Buffer> {
        let start = pages.start * PAGE_BYTES;
        let len = self.bytes.min(pages.end * PAGE_BYTES) - start;
        let mut batch = file.queue.batch();
        // Hashes and pages are in flight together.
        let mut ticket = batch.add(Read::range(file.id, self.offset + start as u64, len as u64))?;
        let hashes = match self.hashes.get() {
            Some(hashes) => {
                batch.submit();
                hashes
            }
            None => {
                let place = self.record.hashes_offset.get();
                let mut read =
                    batch.add(Read::range(file.id, place, self.record.hashes_bytes()))?;
                batch.submit();
                let hashes = read.wait()?;
                self.check_hashes(&hashes)?;
                self.hashes.get_or_init(|| hashes)
            }
        };
        let read = ticket.wait()?;
        for (page, bytes) in pages.zip(read.chunks(PAGE_BYTES)) {
            self.check_page(hashes, page, bytes)?;
        }
        Ok(read)
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

    /// Adds the path and the offset in the file to an error.
    fn located(&self, error: crate::error::Error, offset: usize) -> crate::error::Error {
        let offset = offset.min(self.bytes) as u64;
        error.at(self.offset + offset).of(&self.path)
    }
}
