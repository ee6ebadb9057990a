//! Sections of an open package: their pages are hashed when they are first touched.
//!
//! Hot sections are in memory from the first read on. Cold ones are read page by page, or all at
//! once, into memory without gaps, by [`Section::preload`]. Either way a page is compared with its
//! hash before a byte of it is used, and the hashes with their digest in the header, which the root
//! covers: so what a lookup sees is what was packed, and opening costs nothing for what is never
//! looked at.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use millstream::{Buffer, Priority, Request};

use super::tables::Tables;
use crate::error::{Result, corrupt};
use crate::format::SectionRecord;
use crate::limits::PAGE_BYTES;

/// A section, see the module.
pub(crate) struct Section {
    pub(crate) kind: u32,
    offset: u64,
    bytes: usize,
    hashes_offset: u64,
    hashes_digest: [u8; 32],
    memory: Memory,
}

enum Memory {
    Hot {
        /// A bit for each page that was found right.
        checked: Box<[AtomicU64]>,
        /// Pages that nobody has looked at yet.
        left: AtomicUsize,
        hashes_checked: OnceLock<()>,
    },
    Cold {
        pages: Box<[OnceLock<Buffer>]>,
        hashes: OnceLock<Buffer>,
        whole: OnceLock<Buffer>,
    },
}

impl Section {
    /// A section whose record was checked against the file's length (and, for a hot one, against
    /// what was read).
    pub(crate) fn new(record: &SectionRecord, hot: bool) -> Section {
        let bytes = usize::try_from(record.raw_bytes.get()).expect("checked by the caller");
        let pages = bytes.div_ceil(PAGE_BYTES);
        let memory = if hot {
            Memory::Hot {
                checked: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
                left: AtomicUsize::new(pages),
                hashes_checked: OnceLock::new(),
            }
        } else {
            Memory::Cold {
                pages: (0..pages).map(|_| OnceLock::new()).collect(),
                hashes: OnceLock::new(),
                whole: OnceLock::new(),
            }
        };
        Section {
            kind: record.kind.get(),
            offset: record.offset.get(),
            bytes,
            hashes_offset: record.hashes_offset.get(),
            hashes_digest: record.hashes_digest,
            memory,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The whole section, if all of its pages are in memory and were found right: what a lookup
    /// uses without further questions.
    #[inline(always)]
    pub(crate) fn whole<'a>(&'a self, tables: &'a Tables) -> Option<&'a [u8]> {
        match &self.memory {
            Memory::Hot { left, .. } => {
                let start = self.offset as usize;
                let is_known = left.load(Ordering::Acquire) == 0;
                is_known.then(|| &tables.hot[start..start + self.bytes])
            }
            Memory::Cold { whole, .. } => whole.get().map(|whole| &whole[..]),
        }
    }

    /// Bytes of the section. `len` must not be 0; a cold range must not cross a page.
    ///
    /// # Errors
    /// The range leaves the section, its page cannot be read, or has another hash.
    #[inline]
    pub(crate) fn get<'a>(
        &'a self,
        tables: &'a Tables,
        offset: usize,
        len: usize,
    ) -> Result<&'a [u8]> {
        let end = offset.checked_add(len).filter(|&end| end <= self.bytes);
        let end = end.ok_or_else(|| self.wrong(offset, "a table refers beyond its section"))?;
        let page = offset / PAGE_BYTES;
        match &self.memory {
            Memory::Hot { checked, .. } => {
                let last = (end - 1) / PAGE_BYTES;
                let bit = 1u64 << (page % 64);
                let known = checked[page / 64].load(Ordering::Acquire) & bit != 0;
                if !known || last != page {
                    self.check_hot(tables, page, last)?;
                }
                let start = self.offset as usize;
                Ok(&tables.hot[start + offset..start + end])
            }
            Memory::Cold { pages, whole, .. } => {
                if (end - 1) / PAGE_BYTES != page {
                    return Err(self.wrong(offset, "an item crosses a page"));
                }
                if let Some(whole) = whole.get() {
                    return Ok(&whole[offset..end]);
                }
                let bytes = match pages[page].get() {
                    Some(bytes) => bytes,
                    None => self.fetch(tables, page)?,
                };
                let start = offset % PAGE_BYTES;
                Ok(&bytes[start..start + len])
            }
        }
    }

    #[cold]
    fn check_hot(&self, tables: &Tables, first: usize, last: usize) -> Result<()> {
        let Memory::Hot {
            checked,
            left,
            hashes_checked,
        } = &self.memory
        else {
            unreachable!("called for hot sections")
        };
        let at = self.hashes_offset as usize;
        let hashes = &tables.hot[at..at + self.hashes_bytes()];
        if hashes_checked.get().is_none() {
            self.check_hashes(hashes)?;
            let _ = hashes_checked.set(());
        }
        for page in first..=last {
            let bit = 1u64 << (page % 64);
            if checked[page / 64].load(Ordering::Acquire) & bit == 0 {
                let start = self.offset as usize + page * PAGE_BYTES;
                let bytes = &tables.hot[start..start + self.page_bytes(page)];
                self.check_page(hashes, page, bytes)?;
                if checked[page / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
                    left.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn fetch<'a>(&'a self, tables: &Tables, page: usize) -> Result<&'a Buffer> {
        let Memory::Cold { pages, hashes, .. } = &self.memory else {
            unreachable!("called for cold sections")
        };
        let at = self.offset + (page * PAGE_BYTES) as u64;
        let read = |at, len| Request::read(tables.file, at, len).priority(Priority::High);
        let bytes = tables
            .queue
            .enqueue(read(at, self.page_bytes(page) as u64))?;
        // Both are on their way before either is waited for.
        let told = match hashes.get() {
            Some(_) => None,
            None => {
                let len = self.hashes_bytes() as u64;
                Some(tables.queue.enqueue(read(self.hashes_offset, len))?)
            }
        };
        tables.queue.submit();
        if let Some(told) = told {
            let told = told.wait()?.into_buffer();
            self.check_hashes(&told)?;
            let _ = hashes.set(told);
        }
        let bytes = bytes.wait()?.into_buffer();
        let known = hashes.get().expect("set above");
        self.check_page(known, page, &bytes)?;
        Ok(pages[page].get_or_init(|| bytes))
    }

    /// Brings all of a cold section into memory, and checks it.
    pub(crate) fn preload(&self, tables: &Tables) -> Result<()> {
        let Memory::Cold { hashes, whole, .. } = &self.memory else {
            if self.bytes > 0 {
                self.check_hot(tables, 0, (self.bytes - 1) / PAGE_BYTES)?;
            }
            return Ok(());
        };
        if self.bytes == 0 || whole.get().is_some() {
            return Ok(());
        }
        let read = |at, len| Request::read(tables.file, at, len);
        let bytes = tables.queue.enqueue(read(self.offset, self.bytes as u64))?;
        let len = self.hashes_bytes() as u64;
        let told = tables.queue.enqueue(read(self.hashes_offset, len))?;
        tables.queue.submit();
        let told = told.wait()?.into_buffer();
        self.check_hashes(&told)?;
        let bytes = bytes.wait()?.into_buffer();
        for (page, bytes) in bytes.chunks(PAGE_BYTES).enumerate() {
            self.check_page(&told, page, bytes)?;
        }
        let _ = hashes.set(told);
        let _ = whole.set(bytes);
        Ok(())
    }

    fn page_bytes(&self, page: usize) -> usize {
        PAGE_BYTES.min(self.bytes - page * PAGE_BYTES)
    }

    /// Bytes of the hashes of all pages.
    fn hashes_bytes(&self) -> usize {
        self.bytes.div_ceil(PAGE_BYTES) * 32
    }

    fn check_hashes(&self, hashes: &[u8]) -> Result<()> {
        if *blake3::hash(hashes).as_bytes() == self.hashes_digest {
            return Ok(());
        }
        let cause = format!(
            "the page hashes of section {} are not those of the header",
            self.kind
        );
        Err(corrupt(cause).at(self.hashes_offset))
    }

    fn check_page(&self, hashes: &[u8], page: usize, bytes: &[u8]) -> Result<()> {
        if blake3::hash(bytes).as_bytes()[..] == hashes[page * 32..page * 32 + 32] {
            return Ok(());
        }
        let cause = "has another hash: its bytes are damaged, or the file was changed";
        let cause = format!("page {page} of section {} {cause}", self.kind);
        Err(corrupt(cause).at(self.offset + (page * PAGE_BYTES) as u64))
    }

    /// An error at a place of the section.
    pub(crate) fn wrong(&self, offset: usize, cause: &str) -> crate::error::Error {
        let place = self.offset + offset.min(self.bytes) as u64;
        corrupt(format!("section {}: {cause}", self.kind)).at(place)
    }
}
