//! Sections of an open package: their pages are hashed when they are first touched.
//!
//! Hot sections are in memory from the first read on. Cold ones are read page by page, or all at
//! once, into memory without gaps, by [`Section::preload`]. Either way a page is compared with its
//! hash before a byte of it is used, and the hashes with their digest in the header, which the root
//! covers: so what a lookup sees is what was packed, and opening costs nothing for what is never
//! looked at.
//!
//! The pages of a packed section are compressed one by one. Their hashes are of the stored bytes,
//! so that no decoder sees bytes that were not packed so, and the length of each stands behind the
//! hashes. What is decoded is never more than the header said, which the stored bytes bound.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use millstream::{Buffer, CodecId, Read};
use millstream_codec::Scratch;

use super::open_file::OpenFile;
use crate::error::{Result, corrupt};
use crate::format::SectionRecord;
use crate::limits::{PAGE_BYTES, SECTION_AT_ONCE_BYTES};
use crate::memory;

/// A section, see the module.
pub(crate) struct Section {
    /// The package, for errors.
    path: Arc<Path>,
    pub(crate) kind: u32,
    offset: u64,
    /// Bytes in memory.
    bytes: usize,
    stored_bytes: usize,
    hashes_offset: u64,
    hashes_bytes: usize,
    hashes_digest: [u8; 32],
    memory: Memory,
}

enum Memory {
    Hot {
        /// A bit for each page that was found right.
        checked: Box<[AtomicU64]>,
        /// Pages that were not checked yet.
        left: AtomicUsize,
        hashes_checked: OnceLock<()>,
    },
    Cold {
        pages: Box<[OnceLock<Buffer>]>,
        index: OnceLock<PageIndex>,
        whole: OnceLock<Buffer>,
    },
}

fn boxed<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Box<[T]>> {
    Ok(memory::collect(items)?.into_boxed_slice())
}

/// A page of a cold section that the section does not keep; of one section only.
#[derive(Default)]
pub(crate) struct PageView(Option<(usize, Buffer)>);

/// What is stored after a cold section: the hashes of its pages, found right, and of a packed one
/// where they lie.
struct PageIndex {
    hashes: Buffer,
    /// Where each page begins in the stored bytes, and where the last ends; empty if not packed.
    starts: Box<[u64]>,
}

impl Section {
    /// A section whose record was checked against the file's length (and, for a hot one, against
    /// what was read).
    ///
    /// # Errors
    /// There is no memory for a word for each page.
    pub(crate) fn new(path: &Arc<Path>, record: &SectionRecord, hot: bool) -> Result<Section> {
        let usize = |bytes: u64| usize::try_from(bytes).expect("checked by the caller");
        let bytes = usize(record.raw_bytes.get());
        let pages = bytes.div_ceil(PAGE_BYTES);
        let memory = if hot {
            Memory::Hot {
                checked: boxed((0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)))?,
                left: AtomicUsize::new(pages),
                hashes_checked: OnceLock::new(),
            }
        } else {
            Memory::Cold {
                pages: boxed((0..pages).map(|_| OnceLock::new()))?,
                index: OnceLock::new(),
                whole: OnceLock::new(),
            }
        };
        Ok(Section {
            path: Arc::clone(path),
            kind: record.kind.get(),
            offset: record.offset.get(),
            bytes,
            stored_bytes: usize(record.stored_bytes.get()),
            hashes_offset: record.hashes_offset.get(),
            hashes_bytes: usize(record.hashes_bytes()),
            hashes_digest: record.hashes_digest,
            memory,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    fn is_packed(&self) -> bool {
        self.stored_bytes != self.bytes
    }

    /// The whole section, if all of its pages are in memory and were found right: what a lookup
    /// uses without further questions.
    #[inline(always)]
    pub(crate) fn whole<'a>(&'a self, file: &'a OpenFile) -> Option<&'a [u8]> {
        match &self.memory {
            Memory::Hot { left, .. } => {
                let start = self.offset as usize;
                let is_known = left.load(Ordering::Acquire) == 0;
                is_known.then(|| &file.hot[start..start + self.bytes])
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
        file: &'a OpenFile,
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
                    self.check_hot(file, page, last)?;
                }
                let start = self.offset as usize;
                Ok(&file.hot[start + offset..start + end])
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
                    None => self.fetch(file, page)?,
                };
                let start = offset % PAGE_BYTES;
                Ok(&bytes[start..start + len])
            }
        }
    }

    #[cold]
    fn check_hot(&self, file: &OpenFile, first: usize, last: usize) -> Result<()> {
        let Memory::Hot {
            checked,
            left,
            hashes_checked,
        } = &self.memory
        else {
            unreachable!("called for hot sections")
        };
        let at = self.hashes_offset as usize;
        let hashes = &file.hot[at..at + self.hashes_bytes];
        if hashes_checked.get().is_none() {
            self.check_hashes(hashes)?;
            let _ = hashes_checked.set(());
        }
        for page in first..=last {
            let bit = 1u64 << (page % 64);
            if checked[page / 64].load(Ordering::Acquire) & bit == 0 {
                let start = self.offset as usize + page * PAGE_BYTES;
                let bytes = &file.hot[start..start + self.page_bytes(page)];
                self.check_page(hashes, page, bytes)?;
                if checked[page / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
                    left.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn fetch<'a>(&'a self, file: &OpenFile, page: usize) -> Result<&'a [u8]> {
        let Memory::Cold { pages, .. } = &self.memory else {
            unreachable!("called for cold sections")
        };
        let bytes = self.read_page(file, page)?;
        Ok(pages[page].get_or_init(|| bytes))
    }

    /// Returns the item at `offset`, of 1 to `most` bytes: two bytes of its length, then its bytes,
    /// all in one page. A page that is not in memory is read into `view`, and not kept by the
    /// section; without a view it is kept. `what` begins the error of another length.
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
        let is_kept = match &self.memory {
            Memory::Hot { .. } => true,
            Memory::Cold { pages, whole, .. } => {
                whole.get().is_some() || pages[page].get().is_some()
            }
        };
        let bytes = match view.filter(|_| !is_kept) {
            None => self.get(file, page * PAGE_BYTES, self.page_bytes(page))?,
            Some(view) => {
                let (_, bytes) = match view.0.take().filter(|(held, _)| *held == page) {
                    Some(held) => view.0.insert(held),
                    None => view.0.insert((page, self.read_page(file, page)?)),
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

    /// Checks every page. Of a cold section one page at a time is in memory, and none is kept.
    pub(crate) fn check_pages(&self, file: &OpenFile) -> Result<()> {
        match &self.memory {
            Memory::Hot { .. } => self.preload(file),
            Memory::Cold { pages, .. } => {
                (0..pages.len()).try_for_each(|page| self.read_page(file, page).map(|_| ()))
            }
        }
    }

    /// Reads a page of a cold section, checks and decodes it.
    fn read_page(&self, file: &OpenFile, page: usize) -> Result<Buffer> {
        let Memory::Cold { index, .. } = &self.memory else {
            unreachable!("called for cold sections")
        };
        let range = |at: u64, len: usize| Read::range(file.id, at, len as u64);
        let mut batch = file.queue.batch();
        // Hashes and page are on their way together, unless the ones say where the other is.
        let ahead = match (index.get(), self.is_packed()) {
            (Some(_), _) => None,
            (None, false) => Some((page * PAGE_BYTES, self.page_bytes(page))),
            (None, true) => {
                Some((0, self.stored_bytes)).filter(|(_, len)| *len <= SECTION_AT_ONCE_BYTES)
            }
        };
        let ahead = match ahead {
            Some((at, len)) => Some((at, batch.add(range(self.offset + at as u64, len))?)),
            None => None,
        };
        let index = match index.get() {
            Some(index) => index,
            None => {
                let mut hashes = batch.add(range(self.hashes_offset, self.hashes_bytes))?;
                batch.submit();
                let found = self.index(hashes.wait()?)?;
                index.get_or_init(|| found)
            }
        };
        let (start, len) = self.place(index, page);
        let (at, mut ticket) = match ahead {
            Some(ahead) => ahead,
            None => (start, batch.add(range(self.offset + start as u64, len))?),
        };
        batch.submit();
        let read = ticket.wait()?;
        let stored = &read[start - at..][..len];
        self.check_page(&index.hashes, page, stored)?;
        if !self.is_packed() {
            return Ok(read);
        }
        let mut raw = file.buffer(self.page_bytes(page))?;
        self.decode(page, stored, &mut raw, &mut file.scratch())?;
        Ok(raw)
    }

    /// Brings all of a cold section into memory, and checks it.
    pub(crate) fn preload(&self, file: &OpenFile) -> Result<()> {
        let Memory::Cold { index, whole, .. } = &self.memory else {
            if self.bytes > 0 {
                self.check_hot(file, 0, (self.bytes - 1) / PAGE_BYTES)?;
            }
            return Ok(());
        };
        if self.bytes == 0 || whole.get().is_some() {
            return Ok(());
        }
        let range = |at: u64, len: usize| Read::range(file.id, at, len as u64);
        let mut batch = file.queue.batch();
        let mut stored = batch.add(range(self.offset, self.stored_bytes))?;
        let mut hashes = batch.add(range(self.hashes_offset, self.hashes_bytes))?;
        batch.submit();
        let found = self.index(hashes.wait()?)?;
        let found = index.get_or_init(|| found);
        let stored = stored.wait()?;
        let mut raw = match self.is_packed() {
            true => file.buffer(self.bytes)?,
            false => Buffer::empty(),
        };
        let mut scratch = file.scratch();
        for page in 0..self.bytes.div_ceil(PAGE_BYTES) {
            let (start, len) = self.place(found, page);
            let stored = &stored[start..start + len];
            self.check_page(&found.hashes, page, stored)?;
            if self.is_packed() {
                let raw = &mut raw[page * PAGE_BYTES..][..self.page_bytes(page)];
                self.decode(page, stored, raw, &mut scratch)?;
            }
        }
        let _ = whole.set(match self.is_packed() {
            true => raw,
            false => stored,
        });
        Ok(())
    }

    fn page_bytes(&self, page: usize) -> usize {
        PAGE_BYTES.min(self.bytes - page * PAGE_BYTES)
    }

    /// Where a page is in the stored bytes: first byte and length.
    fn place(&self, index: &PageIndex, page: usize) -> (usize, usize) {
        match index.starts.get(page..page + 2) {
            Some(ends) => (ends[0] as usize, (ends[1] - ends[0]) as usize),
            None => (page * PAGE_BYTES, self.page_bytes(page)),
        }
    }

    /// Checks hashes that were read, and finds the places of pages.
    fn index(&self, hashes: Buffer) -> Result<PageIndex> {
        self.check_hashes(&hashes)?;
        if !self.is_packed() {
            let starts = Box::default();
            return Ok(PageIndex { hashes, starts });
        }
        let pages = self.bytes.div_ceil(PAGE_BYTES);
        let mut starts = memory::room(pages + 1)?;
        let mut at = 0u64;
        starts.push(at);
        for (page, len) in hashes[pages * 32..].chunks_exact(4).enumerate() {
            let len = u32::from_le_bytes(len.try_into().expect("four of them"));
            at += u64::from(len);
            let fits = (1..=self.page_bytes(page)).contains(&(len as usize));
            if !fits || at > self.stored_bytes as u64 {
                let cause = "a packed page has an impossible length";
                return Err(self.wrong(0, cause));
            }
            starts.push(at);
        }
        if at != self.stored_bytes as u64 {
            let cause = "its packed pages are not all of it";
            return Err(self.wrong(0, cause));
        }
        let starts = starts.into_boxed_slice();
        Ok(PageIndex { hashes, starts })
    }

    /// Decodes a page that was found right; one of its raw length is as it is.
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
        if *blake3::hash(hashes).as_bytes() == self.hashes_digest {
            return Ok(());
        }
        let cause = format!(
            "the page hashes of section {} are not those of the header",
            self.kind
        );
        Err(corrupt(cause).at(self.hashes_offset).of(&self.path))
    }

    fn check_page(&self, hashes: &[u8], page: usize, bytes: &[u8]) -> Result<()> {
        if blake3::hash(bytes).as_bytes()[..] == hashes[page * 32..page * 32 + 32] {
            return Ok(());
        }
        let cause = "has another hash: its bytes are damaged, or the file was changed";
        let cause = format!("page {page} of section {} {cause}", self.kind);
        Err(self.located(corrupt(cause), page * PAGE_BYTES))
    }

    /// An error at a place of the section.
    pub(crate) fn wrong(&self, offset: usize, cause: &str) -> crate::error::Error {
        self.located(corrupt(format!("section {}: {cause}", self.kind)), offset)
    }

    /// Of a packed section the file has no byte for each of its own: it is named itself then.
    fn located(&self, error: crate::error::Error, offset: usize) -> crate::error::Error {
        let within = if self.is_packed() {
            0
        } else {
            offset.min(self.bytes)
        };
        error.at(self.offset + within as u64).of(&self.path)
    }
}
