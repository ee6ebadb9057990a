//! Archives: tagged objects with references between them, readable by older and newer programs.
//!
//! An archive is a sequence of objects, each with a tag (its type), the version of its fields, and
//! an id by which others refer to it. A reader asks for the next object and reads its fields
//! through a window that ends with it: what it does not know (objects with an unknown tag, fields
//! that a newer program added at the end) is skipped; a field that an older program did not write
//! is past the window's end. Within an object, parts are tagged in the same way.
//!
//! The writer gathers an object in memory, because its length precedes it, and then copies it to
//! the stream in one call. An object may be referred to before it is written
//! ([`ArchiveWriter::reserve`]), so graphs with cycles can be saved. `finish` refuses an archive in
//! which a reserved object is missing; a reader recognizes a truncated archive by its missing end.
//! `docs/FORMAT.md` specifies the format.
//!
//! ```
//! use millstream_stream::{
//!     ArchiveReader, ArchiveWriter, MemoryStream, ReadTyped, Stream, WriteTyped,
//! };
//! const SHIP: u32 = 1;
//!
//! let mut stream = MemoryStream::new();
//! let mut archive = ArchiveWriter::new(&mut stream, 0xCAFE)?;
//! let flagship = archive.object(SHIP, 2, |ship| {
//!     ship.write_string("Hull")?;
//!     ship.write_f32_le(0.5)
//! })?;
//! archive.finish()?;
//!
//! stream.seek_to(0)?;
//! let mut archive = ArchiveReader::new(&mut stream, 0xCAFE)?;
//! while let Some(object) = archive.next_object()? {
//!     if object.tag != SHIP {
//!         continue; // Skipped.
//!     }
//!     let mut ship = archive.payload()?;
//!     assert_eq!((object.id, ship.read_string(64)?), (flagship, "Hull".into()));
//!     // A field of version 2.
//!     let armor = if object.version >= 2 { ship.read_f32_le()? } else { 1.0 };
//!     assert_eq!(armor, 0.5);
//! }
//! # Ok::<(), millstream_stream::Error>(())
//! ```

use std::num::NonZeroU32;

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{ARCHIVE_OBJECTS_MAX, OBJECT_BYTES_MAX};
use crate::memory::MemoryStream;
use crate::stream::{Mode, ReadStream, Stream, WriteStream};
use crate::typed::{ReadTyped, WriteTyped};
use crate::view::StreamView;

/// The first bytes of an archive.
pub const MAGIC: [u8; 4] = *b"MSAR";
/// Version of the format.
pub const VERSION: u16 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: u64 = 16;
/// Bytes before each object.
pub const OBJECT_HEADER_BYTES: u64 = 16;
/// The tag of the end marker; no object has it.
pub const END_TAG: u32 = 0;

/// Identifies an object within its archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(NonZeroU32);

impl ObjectId {
    /// Returns its number, from 1 on.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0.get()
    }
}

/// Writes an archive to a stream, from the stream's position on.
#[derive(Debug)]
pub struct ArchiveWriter<'a, W> {
    out: &'a mut W,
    /// The object being gathered.
    scratch: MemoryStream,
    /// For each reserved id, whether its object was written.
    written: Vec<bool>,
    /// Set while an object is written: after an error the stream ends in part of an object.
    broken: bool,
}

impl<'a, W: WriteStream> ArchiveWriter<'a, W> {
    /// Begins an archive. `application` distinguishes the archives of one program from others'.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn new(out: &'a mut W, application: u64) -> Result<Self> {
        let mut header = [0; HEADER_BYTES as usize];
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&VERSION.to_le_bytes());
        header[8..].copy_from_slice(&application.to_le_bytes());
        out.write_slice(&header)?;
        Ok(ArchiveWriter {
            out,
            scratch: MemoryStream::new().len_max(OBJECT_BYTES_MAX),
            written: Vec::new(),
            broken: false,
        })
    }

    /// Reserves an id for an object that is written later with [`ArchiveWriter::object_as`].
    ///
    /// # Errors
    /// `Limit` for more objects than [`ARCHIVE_OBJECTS_MAX`].
    pub fn reserve(&mut self) -> Result<ObjectId> {
        let number = u32::try_from(self.written.len() + 1).unwrap_or(u32::MAX);
        match NonZeroU32::new(number) {
            Some(id) if number <= ARCHIVE_OBJECTS_MAX => {
                self.written.push(false);
                Ok(ObjectId(id))
            }
            _ => {
                let cause = "more objects than an archive may have";
                let at = self.out.position();
                Err(Error::new(ErrorKind::Limit, at, u64::from(number), cause))
            }
        }
    }

    /// Writes an object, whose fields `fields` writes; returns its id. `tag` must not be 0.
    ///
    /// # Errors
    /// Errors of the stream and of `fields`; `Limit` beyond [`OBJECT_BYTES_MAX`] or
    /// [`ARCHIVE_OBJECTS_MAX`]; `InvalidArgument` for the tag 0, or if an earlier object was
    /// written only in part.
    pub fn object(
        &mut self,
        tag: u32,
        version: u16,
        fields: impl FnOnce(&mut MemoryStream) -> Result<()>,
    ) -> Result<ObjectId> {
        let id = self.reserve()?;
        let written = self.object_as(id, tag, version, fields);
        if written.is_err() {
            // The id is not returned, so no caller could write its object.
            self.written.pop();
        }
        written.map(|()| id)
    }

    /// Writes the object of a reserved id.
    ///
    /// # Errors
    /// As [`ArchiveWriter::object`]; `InvalidArgument` for an id of another archive, or one whose
    /// object was written before.
    pub fn object_as(
        &mut self,
        id: ObjectId,
        tag: u32,
        version: u16,
        fields: impl FnOnce(&mut MemoryStream) -> Result<()>,
    ) -> Result<()> {
        let at = self.out.position();
        let refuse = |cause| Err(Error::new(ErrorKind::InvalidArgument, at, 0, cause));
        if self.broken {
            return refuse("an earlier object was written only in part");
        }
        if tag == END_TAG {
            return refuse("the tag 0 means the end");
        }
        let index = id.number() as usize - 1;
        if self.written.get(index) != Some(&false) {
            return refuse("the id was not reserved, or its object was written before");
        }
        self.scratch.clear();
        fields(&mut self.scratch)?;
        // All bytes, wherever `fields` left the position, and even if it replaced the stream.
        let len = self.scratch.as_slice().len() as u64;
        if len > OBJECT_BYTES_MAX {
            let cause = "an object is longer than 2 GiB";
            return Err(Error::new(ErrorKind::Limit, at, len, cause));
        }
        self.broken = true;
        self.head(tag, id.number(), version, len)?;
        self.out.write_slice(self.scratch.as_slice())?;
        self.broken = false;
        self.written[index] = true;
        Ok(())
    }

    #[inline]
    fn head(&mut self, tag: u32, id: u32, version: u16, len: u64) -> Result<()> {
        let mut head = [0; OBJECT_HEADER_BYTES as usize];
        head[..4].copy_from_slice(&tag.to_le_bytes());
        head[4..8].copy_from_slice(&id.to_le_bytes());
        head[8..10].copy_from_slice(&version.to_le_bytes());
        // At most OBJECT_BYTES_MAX, which fits.
        head[12..].copy_from_slice(&(len as u32).to_le_bytes());
        self.out.put(head)
    }

    /// Ends the archive and leaves the stream positioned after it. The caller closes, flushes or
    /// commits the stream.
    ///
    /// # Errors
    /// Errors of the stream; `InvalidArgument` if the object of a reserved id is missing, or one
    /// was written only in part.
    pub fn finish(mut self) -> Result<()> {
        let at = self.out.position();
        let refuse = |id, cause| Err(Error::new(ErrorKind::InvalidArgument, at, id, cause));
        if let Some(index) = self.written.iter().position(|written| !written) {
            return refuse(
                index as u64 + 1,
                "the object of a reserved id was not written",
            );
        }
        if self.broken {
            return refuse(0, "an object was written only in part");
        }
        self.head(END_TAG, 0, 0, 8)?;
        self.out.put((self.written.len() as u64).to_le_bytes())
    }
}

/// Writes references and parts, among the fields of an object.
pub trait WriteObject: WriteStream + Sized {
    /// Writes a reference to another object of the archive, or to none.
    ///
    /// # Errors
    /// The object is too long.
    #[inline]
    fn reference(&mut self, id: Option<ObjectId>) -> Result<()> {
        self.write_u32_le(id.map_or(0, ObjectId::number))
    }

    /// Writes a tagged part, which a reader that does not know the tag can skip.
    ///
    /// # Errors
    /// The object is too long; errors of `fields`; `InvalidArgument` if `fields` removed what was
    /// written before it, or the part is longer than 4 GiB.
    fn part(
        &mut self,
        tag: u32,
        version: u16,
        fields: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.write_u32_le(tag)?;
        self.write_u32_le(u32::from(version))?;
        let len_at = self.position();
        self.write_u32_le(0)?;
        let start = self.position();
        fields(self)?;
        // All bytes, wherever `fields` left the position.
        let end = self.len()?;
        let len = end
            .checked_sub(start)
            .and_then(|len| u32::try_from(len).ok());
        let Some(len) = len else {
            let cause = "a part took away what stands before it, or is longer than 4 GiB";
            return Err(Error::new(ErrorKind::InvalidArgument, start, end, cause));
        };
        self.seek_to(len_at)?;
        self.write_u32_le(len)?;
        self.seek_to(end)
    }
}

impl WriteObject for MemoryStream {}

/// The header of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Its type.
    pub tag: u32,
    /// Version of its fields.
    pub version: u16,
    /// The id by which others refer to it.
    pub id: ObjectId,
    /// Length of its fields in bytes.
    pub len: u32,
}

/// Reads an archive from a stream, from the stream's position on.
#[derive(Debug)]
pub struct ArchiveReader<'a, R> {
    input: &'a mut R,
    /// Where the fields of the current object begin and end.
    payload: (u64, u64),
    /// Length of the stream when the archive was opened.
    end: u64,
    count: u64,
    ended: bool,
}

impl<'a, R: ReadStream> ArchiveReader<'a, R> {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// Errors of the stream; `Corrupt` if it is not an archive; `Schema` for another version of the
    /// format, or another application's archive.
    pub fn new(input: &'a mut R, application: u64) -> Result<Self> {
        let at = input.position();
        let fail = |kind, offset, cause| Err(Error::new(kind, at + offset, 4, cause));
        let header: [u8; HEADER_BYTES as usize] = input.next()?;
        if header[..4] != MAGIC {
            return fail(ErrorKind::Corrupt, 0, "not an archive");
        }
        if header[4..8] != u32::from(VERSION).to_le_bytes() {
            return fail(
                ErrorKind::Schema,
                4,
                "made by another version of the format",
            );
        }
        if header[8..] != application.to_le_bytes() {
            return fail(ErrorKind::Schema, 8, "an archive of another application");
        }
        let (position, end) = (input.position(), input.len()?);
        Ok(ArchiveReader {
            input,
            payload: (position, position),
            end,
            count: 0,
            ended: false,
        })
    }

    /// Returns the next object, or `None` after the last. Skips what was not read of the one
    /// before.
    ///
    /// # Errors
    /// Errors of the stream; `PastEnd` if the archive is truncated; `Corrupt`.
    #[inline]
    pub fn next_object(&mut self) -> Result<Option<Object>> {
        if self.ended {
            return Ok(None);
        }
        let at = self.payload.1;
        if self.input.position() != at {
            self.input.seek_to(at)?;
        }
        let head: [u8; OBJECT_HEADER_BYTES as usize] = self.input.next()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| head[at + i]));
        let (tag, number, len) = (word(0), word(4), word(12));
        let start = at + OBJECT_HEADER_BYTES;
        if u64::from(len) > self.end.saturating_sub(start) {
            let cause = "an object reaches past the end of the stream: the archive is cut";
            return Err(Error::new(ErrorKind::PastEnd, at, u64::from(len), cause));
        }
        self.payload = (start, start + u64::from(len));
        if tag == END_TAG {
            return self.at_end(at, &head);
        }
        let Some(id) = NonZeroU32::new(number).filter(|id| id.get() <= ARCHIVE_OBJECTS_MAX) else {
            return Err(corrupt(at + 4, "an object has a number that none can have"));
        };
        if head[10..12] != [0, 0] {
            return Err(corrupt(at + 10, "reserved bytes are not zero"));
        }
        self.count += 1;
        Ok(Some(Object {
            tag,
            version: u16::from_le_bytes([head[8], head[9]]),
            id: ObjectId(id),
            len,
        }))
    }

    #[cold]
    fn at_end(&mut self, at: u64, head: &[u8; 16]) -> Result<Option<Object>> {
        if head[4..12] != [0; 8] || self.payload.1 - self.payload.0 != 8 {
            return Err(corrupt(at, "the end of the archive is not as it must be"));
        }
        let count = self.input.read_u64_le()?;
        if count != self.count {
            return Err(corrupt(
                at + OBJECT_HEADER_BYTES,
                "objects are missing, or too many",
            ));
        }
        self.ended = true;
        Ok(None)
    }

    /// Returns a window on the fields of the current object.
    ///
    /// # Errors
    /// Errors of the stream.
    #[inline]
    pub fn payload(&mut self) -> Result<StreamView<&mut R>> {
        let (start, end) = self.payload;
        StreamView::new(&mut *self.input, start, end - start, Mode::Read)
    }
}

#[cold]
fn corrupt(at: u64, cause: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, at, 4, cause)
}

/// Reads references and parts. Implemented by every [`ReadStream`].
pub trait ReadObject: ReadStream + Sized {
    /// Reads a reference.
    ///
    /// # Errors
    /// Errors of the stream; `Corrupt` for a number that no object can have.
    #[inline]
    fn read_reference(&mut self) -> Result<Option<ObjectId>> {
        let number = self.read_u32_le()?;
        if number > ARCHIVE_OBJECTS_MAX {
            let at = self.position() - 4;
            return Err(corrupt(
                at,
                "a reference to a number that no object can have",
            ));
        }
        Ok(NonZeroU32::new(number).map(ObjectId))
    }

    /// Returns the next part, with the stream at the start of its fields; `None` at the stream's
    /// end. What is not read of a part must be skipped with a seek to [`Part::end`].
    ///
    /// # Errors
    /// Errors of the stream; `PastEnd` for a part that reaches past the stream's end; `Corrupt` for
    /// an invalid version.
    fn next_part(&mut self) -> Result<Option<Part>> {
        let (at, end) = (self.position(), self.len()?);
        if at >= end {
            return Ok(None);
        }
        let (tag, version, len) = (
            self.read_u32_le()?,
            self.read_u32_le()?,
            self.read_u32_le()?,
        );
        let start = self.position();
        if u64::from(len) > end.saturating_sub(start) {
            let cause = "a part reaches past the end of its object";
            return Err(Error::new(ErrorKind::PastEnd, at, u64::from(len), cause));
        }
        let version = u16::try_from(version).map_err(|_| corrupt(at + 4, "a version too large"))?;
        Ok(Some(Part {
            tag,
            version,
            start,
            len,
        }))
    }
}

impl<S: ReadStream> ReadObject for S {}

/// A part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its type.
    pub tag: u32,
    /// Version of its fields.
    pub version: u16,
    /// Position of its fields in the stream that it was read from.
    pub start: u64,
    /// Length of its fields in bytes.
    pub len: u32,
}

impl Part {
    /// Returns the position of the next part.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Returns a window on the fields.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn view<S: Stream>(&self, stream: S) -> Result<StreamView<S>> {
        StreamView::new(stream, self.start, u64::from(self.len), Mode::Read)
    }
}
