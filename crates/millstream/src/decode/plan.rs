//! Plans: how a request's stored bytes become raw bytes, window by window. Pure.
//!
//! Decided on the first window:
//! - `Copy`: stored bytes that could not go directly;
//! - `Table`: the request brought a table of blocks: each is a job;
//! - `Units`: a scanner finds parts that decode alone (zstd frames, LZ4 blocks, GDeflate tiles);
//! - `Whole`: everything is in one window: one job with the fastest decoder;
//! - `Stream`: window by window, one job at a time, while the next windows are read; in one window
//!   as well, if the raw size is not known.
//!
//! The raw size of a request is known if the request gives it, or all stored bytes in one window
//! declare it (and not more than `max_raw`, as that may be a lie). The head of a longer stream
//! declares the size of its first frame alone, which other frames may follow, so such a stream is
//! decoded until it ends.
//!
//! Raw offsets given to jobs only grow and never pass the raw size, so jobs write to disjoint parts
//! of the destination, and a stream that holds more than declared fails before anything is written
//! beyond it. What scanners and decoders report is checked before it is used.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_codec::{CodecError, CodecErrorKind, CodecId, StreamDecoder, Unit, UnitScanner};

use crate::decode::jobs::{Codec, Method, guarded};
use crate::decode::spec::{Block, BlockTable, RequestDecoder};
use crate::error::{Error, ErrorKind};
use crate::limits;

pub(crate) type Codecs = BTreeMap<u8, Registered>;

#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) codec: Arc<dyn Codec>,
    /// Asked once, at registration: the layout of windows relies on it.
    pub(crate) is_stream: bool,
}

/// How staged bytes become raw bytes.
pub(crate) enum Mode {
    Undecided,
    Copy,
    Whole,
    /// The next block's index.
    Table(usize),
    Units(Box<dyn UnitScanner>),
    /// `None` while a job has the decoder.
    Stream(Option<Box<dyn StreamDecoder>>),
}

/// A part of a window that decodes alone, in place.
pub(crate) struct Piece {
    pub(crate) codec: CodecId,
    /// Within the window's bytes.
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) raw_start: u64,
    pub(crate) raw_len: u64,
    pub(crate) method: Method,
    /// The block of the table, if there is one.
    pub(crate) block: Option<Block>,
}

/// Why a window was not cut.
pub(crate) enum NotCut {
    /// Everything is to be decoded as a stream, from the start.
    AsStream,
    Failed(Error),
}

impl From<Error> for NotCut {
    fn from(error: Error) -> NotCut {
        NotCut::Failed(error)
    }
}

/// A window's bytes, and their place in the stored bytes.
pub(crate) struct View<'a> {
    pub(crate) bytes: &'a [u8],
    /// First byte, relative to the request's offset.
    pub(crate) stored_at: u64,
    /// No stored bytes follow.
    pub(crate) last: bool,
}

pub(crate) struct Plan {
    pub(crate) codec: CodecId,
    pub(crate) table: Option<Arc<BlockTable>>,
    /// Decodes the request instead of a codec.
    pub(crate) decoder: Option<Arc<dyn RequestDecoder>>,
    pub(crate) mode: Mode,
    /// Raw bytes in all, once they are known: as declared, as decided on the first window, or as
    /// found at the end of a stream.
    pub(crate) raw_len: Option<u64>,
    /// Most raw bytes of a stream whose size is not known: `max_raw`, then what its memory has room
    /// for (`u64::MAX` if it grows).
    pub(crate) raw_len_max: u64,
    /// Raw bytes that the head of such a stream declares.
    pub(crate) declared: Option<u64>,
    /// The raw size was found at the end of the stream.
    pub(crate) is_found: bool,
    /// Never cut into units again: a unit could not be decoded alone.
    force_stream: bool,
    /// Raw bytes given out to jobs, or made by a stream.
    pub(crate) raw_given: u64,
    /// The stream may end here.
    at_end: bool,
}

impl Plan {
    pub(crate) fn new(
        codec: CodecId,
        (table, decoder): (Option<Arc<BlockTable>>, Option<Arc<dyn RequestDecoder>>),
        (raw_len, raw_len_max): (Option<u64>, u64),
    ) -> Plan {
        Plan {
            mode: match codec == CodecId::STORED && table.is_none() {
                true => Mode::Copy,
                false => Mode::Undecided,
            },
            codec,
            table,
            decoder,
            raw_len,
            raw_len_max,
            declared: None,
            is_found: false,
            force_stream: false,
            raw_given: 0,
            at_end: false,
        }
    }

    pub(crate) fn is_decided(&self) -> bool {
        !matches!(self.mode, Mode::Undecided)
    }

    /// Whether the stream's decoder is with a job.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.mode, Mode::Stream(None))
    }

    /// Starts again as a stream.
    pub(crate) fn restart(&mut self) {
        assert!(!self.force_stream, "a stream is not cut into units");
        self.mode = Mode::Undecided;
        self.force_stream = true;
        self.raw_given = 0;
        self.at_end = false;
    }

    /// Decides on the first window; only the raw size of a stream may be unknown afterwards.
    pub(crate) fn decide(
        &mut self,
        codecs: &Codecs,
        view: &View<'_>,
        stored_len: u64,
    ) -> Result<(), Error> {
        if self.table.is_some() {
            self.mode = Mode::Table(0);
            return Ok(());
        }
        if let Some(cause) = millstream_codec::wrong_format(self.codec, view.bytes) {
            return Err(Error::new(ErrorKind::WrongFormat, cause));
        }
        if self.raw_len.is_none() {
            self.declared = declared_by(codecs, self.codec, view.bytes, stored_len)?;
            let is_whole = view.bytes.len() as u64 == stored_len;
            let is_exact = self.codec.facts().declares_whole || codecs.contains_key(&self.codec.0);
            let known = |&len: &u64| is_exact || is_whole && len <= self.raw_len_max;
            self.raw_len = self.declared.filter(known);
        }
        if self
            .raw_len
            .is_some_and(|len| isize::try_from(len).is_err())
        {
            let cause = "the raw size exceeds the address space";
            return Err(Error::new(ErrorKind::Overflow, cause));
        }
        self.mode = self.mode_of(codecs, view.bytes, stored_len)?;
        Ok(())
    }

    fn mode_of(&self, codecs: &Codecs, head: &[u8], stored_len: u64) -> Result<Mode, Error> {
        if let Some(decoder) = &self.decoder {
            self.raw_len.ok_or_else(unknown_size)?;
            return match head.len() as u64 == stored_len {
                true => Ok(Mode::Whole),
                false => Ok(Mode::Stream(Some(guarded(|| Ok(decoder.stream()?))?))),
            };
        }
        if let Some(codec) = codecs.get(&self.codec.0) {
            if !codec.is_stream {
                return self.raw_len.map(|_| Mode::Whole).ok_or_else(unknown_size);
            }
            let codec = &codec.codec;
            let missing = || Error::new(ErrorKind::Application, "the codec made no decoder");
            let decoder = guarded(|| codec.stream().ok_or_else(missing))?;
            return Ok(Mode::Stream(Some(decoder)));
        }
        if let Some(raw_len) = self.raw_len {
            if raw_len >= limits::UNITS_RAW_BYTES_MIN && !self.force_stream {
                let scanner = millstream_codec::unit_scanner(self.codec, head, stored_len, raw_len);
                if let Some(scanner) = scanner {
                    return Ok(Mode::Units(scanner));
                }
            }
            if head.len() as u64 == stored_len {
                return Ok(Mode::Whole);
            }
        } else if self.codec.facts().stream.is_none() {
            return Err(unknown_size());
        }
        let decoder = millstream_codec::stream_decoder(self.codec)?;
        Ok(Mode::Stream(Some(decoder)))
    }

    /// How blocks of a codec are decoded whole.
    pub(crate) fn method_of(&self, codecs: &Codecs, codec: CodecId) -> Method {
        if let Some(decoder) = &self.decoder {
            return Method::Decoder(Arc::clone(decoder));
        }
        match codecs.get(&codec.0) {
            Some(codec) => Method::Application(Arc::clone(&codec.codec)),
            None if codec == CodecId::STORED => Method::Copy,
            None => Method::Whole,
        }
    }

    /// Raw bytes in all, or at most.
    pub(crate) fn raw_len(&self) -> u64 {
        self.raw_len.unwrap_or(self.raw_len_max)
    }

    /// Gives out the next `len` raw bytes; returns where they begin.
    pub(crate) fn take_raw(&mut self, len: u64) -> Result<u64, Error> {
        let start = self.raw_given;
        match start.checked_add(len).filter(|&end| end <= self.raw_len()) {
            Some(end) => {
                self.raw_given = end;
                Ok(start)
            }
            None => {
                let cause = "the stored bytes hold more raw bytes than declared";
                Err(Error::new(ErrorKind::RawSize, cause))
            }
        }
    }

    /// Cuts a window into the parts that it holds whole; returns how many bytes are done with.
    pub(crate) fn cut(
        &mut self,
        codecs: &Codecs,
        view: &View<'_>,
        parts: &mut Vec<Piece>,
    ) -> Result<usize, NotCut> {
        let taken = match &mut self.mode {
            Mode::Units(_) => self.cut_units(view, parts)?,
            Mode::Table(_) => self.cut_blocks(codecs, view, parts)?,
            _ => unreachable!("only units and tables are cut"),
        };
        if view.last && taken < view.bytes.len() {
            let cause = "the stored bytes are truncated, or other bytes follow their end";
            return Err(NotCut::Failed(Error::new(ErrorKind::Corrupt, cause)));
        }
        Ok(taken)
    }

    fn cut_units(&mut self, view: &View<'_>, parts: &mut Vec<Piece>) -> Result<usize, NotCut> {
        let codec = self.codec;
        let Mode::Units(scanner) = &mut self.mode else {
            unreachable!("matched by the caller")
        };
        let mut units = Vec::new();
        let scanned = scanner.scan(view.bytes, view.last, &mut units);
        // The stream decoder decides whether the stream is broken.
        let taken = scanned.map_err(|_| NotCut::AsStream)?;
        if taken > view.bytes.len() {
            return Err(outside().into());
        }
        parts.try_reserve(units.len()).map_err(|_| no_memory())?;
        for unit in units {
            check_unit(&unit, self.raw_given, view.bytes.len())?;
            let raw_start = self.take_raw(unit.raw_len as u64)?;
            parts.push(Piece {
                codec,
                start: unit.stored_start,
                len: unit.stored_len,
                raw_start,
                raw_len: unit.raw_len as u64,
                method: Method::Unit(unit),
                block: None,
            });
        }
        Ok(taken)
    }

    fn cut_blocks(
        &mut self,
        codecs: &Codecs,
        view: &View<'_>,
        parts: &mut Vec<Piece>,
    ) -> Result<usize, Error> {
        let table = Arc::clone(self.table.as_ref().expect("a table mode has a table"));
        let Mode::Table(first) = self.mode else {
            unreachable!("matched by the caller")
        };
        let end = view.stored_at + view.bytes.len() as u64;
        let mut next = first;
        while let Some(block) = table.blocks.get(next) {
            if !block.external && block.stored_offset + u64::from(block.stored_len) > end {
                break;
            }
            let start = match block.external {
                true => 0,
                false => block.stored_offset - view.stored_at,
            };
            parts.try_reserve(1).map_err(|_| no_memory())?;
            parts.push(Piece {
                codec: block.codec,
                start: usize::try_from(start).expect("inside the window"),
                len: block.stored_len as usize,
                raw_start: self.take_raw(u64::from(block.raw_len))?,
                raw_len: u64::from(block.raw_len),
                method: self.method_of(codecs, block.codec),
                block: Some(*block),
            });
            next += 1;
        }
        self.mode = Mode::Table(next);
        // What follows the last block that is whole belongs to the next one, or to none.
        let own = table.blocks[next..].iter().find(|block| !block.external);
        let until = own.map_or(end, |block| block.stored_offset.min(end));
        let until = until.max(view.stored_at);
        Ok(usize::try_from(until - view.stored_at).expect("inside the window"))
    }

    pub(crate) fn streamed(
        &mut self,
        decoder: Box<dyn StreamDecoder>,
        result: Result<(usize, bool), Error>,
    ) -> Result<(), Error> {
        self.mode = Mode::Stream(Some(decoder));
        let (made, at_end) = result.map_err(|error| self.known_cause(error))?;
        self.at_end = at_end;
        self.take_raw(made as u64).map(drop)
    }

    /// The error of a stream. One that is too long for memory of the caller has no declared size
    /// that it exceeds, if none was given.
    fn known_cause(&self, error: Error) -> Error {
        let room = self.raw_len_max;
        if error.kind() != ErrorKind::RawSize || self.raw_len.is_some() || room == u64::MAX {
            return error;
        }
        match self.declared {
            Some(_) => {
                let cause = format!("the stream holds more than the {room} bytes of room");
                Error::new(ErrorKind::DestinationTooSmall, cause)
            }
            None => {
                let cause = format!(
                    "the stream declares no raw size, and holds more than the {room} bytes of \
                     room: give its size as raw_len, or more room"
                );
                Error::new(ErrorKind::RawSizeUnknown, cause)
            }
        }
    }

    /// Fails unless everything declared has come, and nothing else. The raw size is known
    /// afterwards.
    pub(crate) fn check_complete(&mut self, stored_len: u64) -> Result<(), Error> {
        if matches!(self.mode, Mode::Stream(_)) && !self.at_end {
            let kind = CodecErrorKind::Truncated;
            return Err(CodecError::new(kind, self.codec, stored_len).into());
        }
        self.is_found |= self.raw_len.is_none();
        if self.raw_given != *self.raw_len.get_or_insert(self.raw_given) {
            let cause = "the stored bytes hold fewer raw bytes than declared";
            return Err(Error::new(ErrorKind::RawSize, cause));
        }
        Ok(())
    }
}

/// The raw size that the head of stored bytes declares, see `declared_raw_len`.
fn declared_by(
    codecs: &Codecs,
    codec: CodecId,
    head: &[u8],
    stored_len: u64,
) -> Result<Option<u64>, Error> {
    match codecs.get(&codec.0) {
        Some(codec) => guarded(|| {
            let declared = codec.codec.raw_len(head, stored_len);
            declared.map_err(|cause| Error::new(ErrorKind::Application, cause))
        }),
        None => Ok(millstream_codec::declared_raw_len(codec, head, stored_len)),
    }
}

fn unknown_size() -> Error {
    let cause = "neither the request (raw_len) nor the stored bytes declare the raw size";
    Error::new(ErrorKind::RawSizeUnknown, cause)
}

pub(crate) fn no_memory() -> Error {
    let cause = "no memory for the blocks of a window";
    Error::new(ErrorKind::OutOfMemory, cause)
}

fn outside() -> Error {
    Error::new(ErrorKind::Corrupt, "a part of the stream is outside of it")
}

/// Units follow one another in the raw bytes and are inside what was scanned.
fn check_unit(unit: &Unit, raw_at: u64, scanned: usize) -> Result<(), Error> {
    let end = unit.stored_start.checked_add(unit.stored_len);
    match unit.raw_start == raw_at && end.is_some_and(|end| end <= scanned) {
        true => Ok(()),
        false => Err(outside()),
    }
}

/// Checks a table against the request; returns the raw size.
pub(crate) fn check_table(
    table: &BlockTable,
    codecs: &Codecs,
    stored_len: u64,
    declared: Option<u64>,
) -> Result<u64, Error> {
    let wrong = |cause: String| Err(Error::new(ErrorKind::InvalidArgument, cause));
    let (mut end, mut raw_len) = (0, 0u64);
    for (index, block) in table.blocks.iter().enumerate() {
        check_known(codecs, block.codec)?;
        raw_len += u64::from(block.raw_len);
        if block.external {
            let fits = (1..=limits::OTHER_BLOCK_BYTES_MAX).contains(&block.stored_len);
            if table.source.is_none() || !fits {
                return wrong(format!(
                    "block {index} is external, and has no source, or is empty or too long"
                ));
            }
            continue;
        }
        let in_order = block.stored_offset >= end && block.stored_len > 0;
        end = block
            .stored_offset
            .saturating_add(u64::from(block.stored_len));
        if !in_order || end > stored_len {
            let (at, len) = (block.stored_offset, block.stored_len);
            return wrong(format!(
                "block {index}: stored bytes {at}..+{len} overlap, are empty, or exceed the \
                 range ({stored_len} bytes)"
            ));
        }
    }
    let trimmed = table
        .trim
        .map_or(Some(0), |(skip, take)| skip.checked_add(take));
    if trimmed.is_none_or(|end| end > raw_len) {
        let cause = "the trimmed range reaches past the raw bytes of the table's blocks";
        return Err(Error::new(ErrorKind::PastEnd, cause));
    }
    match declared {
        Some(declared) if declared != raw_len => {
            let cause = "the table's raw sizes do not add up to the raw size declared";
            Err(Error::new(ErrorKind::RawSize, cause))
        }
        _ => Ok(raw_len),
    }
}

/// Fails unless a codec is built in or registered.
pub(crate) fn check_known(codecs: &Codecs, codec: CodecId) -> Result<(), Error> {
    if millstream_codec::can_decode(codec) || codecs.contains_key(&codec.0) {
        return Ok(());
    }
    let (name, id) = (codec.name(), codec.0);
    let cause = match CodecId::ALL.contains(&codec) {
        true => format!("{name} is not built in: it needs the feature `c` or `rust`"),
        false => format!("no codec has the id {id:#04x}"),
    };
    Err(Error::new(ErrorKind::UnknownCodec, cause))
}
