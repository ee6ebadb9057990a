//! Decodes an entry of a zip: checks and skips its local header, decodes its stored bytes, and
//! compares the CRC-32 if all raw bytes are wanted. Runs on the workers.

use std::sync::Arc;

use millstream::StreamDecoder;
use millstream::{CodecError, CodecErrorKind, CodecId, Progress, RequestDecoder, Scratch};
use zlib_rs::crc32::crc32;

use super::Entries;
use super::table::{LOCAL_BYTES, Record, flag, method};
use super::zip::{check_local, check_local_name};
use crate::limits::ARCHIVE_DROP_BYTES;

/// Decodes one range of one entry.
#[derive(Clone)]
pub(super) struct EntryDecoder {
    entries: Arc<Entries>,
    index: u32,
    /// Raw bytes in front of the range, and those of the range.
    skip: u64,
    take: u64,
}

impl EntryDecoder {
    pub(super) fn new(
        entries: &Arc<Entries>,
        index: u32,
        (skip, take): (u64, u64),
    ) -> EntryDecoder {
        EntryDecoder {
            entries: Arc::clone(entries),
            index,
            skip,
            take,
        }
    }

    fn record(&self) -> &Record {
        self.entries.table.record(self.index)
    }

    fn codec(&self) -> CodecId {
        match self.record().method {
            method::DEFLATE => CodecId::DEFLATE,
            method::ZSTD => CodecId::ZSTD,
            _ => CodecId::STORED,
        }
    }

    fn is_whole(&self) -> bool {
        self.take == self.record().raw
    }

    fn wrong(&self, kind: CodecErrorKind, offset: u64) -> CodecError {
        CodecError::new(kind, self.codec(), offset)
    }

    /// Checks the header at the start of stored bytes, as far as its extra fields; returns its
    /// length.
    pub(super) fn see(&self, stored: &[u8]) -> Result<usize, &'static str> {
        let record = self.record();
        if !record.is(flag::HEADER) {
            return Ok(0);
        }
        if (stored.len() as u64) < record.least_header() {
            return Err("the local header is truncated");
        }
        let len = check_local(record, &stored[..LOCAL_BYTES])?;
        check_local_name(record, stored)?;
        self.entries.table.note_header(self.index, len);
        Ok(len)
    }

    fn check_crc(&self, crc: u32, offset: u64) -> Result<(), CodecError> {
        if crc == self.record().crc || !self.entries.checks(self.index) {
            return Ok(());
        }
        let cause = "the CRC-32 does not match the directory's: the entry is damaged";
        Err(self.wrong(CodecErrorKind::Checksum, offset).because(cause))
    }

    fn entry_stream(&self) -> Result<EntryStream, CodecError> {
        let codec = self.codec();
        let record = self.record();
        Ok(EntryStream {
            head: Vec::new(),
            head_bytes: match record.is(flag::HEADER) {
                true => LOCAL_BYTES,
                false => 0,
            },
            inner: match codec {
                CodecId::STORED => None,
                codec => Some(millstream_codec::stream_decoder(codec)?),
            },
            stored_left: record.stored,
            consumed: 0,
            made: 0,
            crc: 0,
            is_done: false,
            failed: None,
            dropped: Vec::new(),
            entry: self.clone(),
        })
    }
}

impl RequestDecoder for EntryDecoder {
    fn decode(
        &self,
        scratch: &mut Scratch,
        stored: &[u8],
        raw: &mut [u8],
    ) -> Result<usize, CodecError> {
        if !self.is_whole() {
            return decode_range(&mut self.entry_stream()?, stored, raw);
        }
        let corrupt = self.wrong(CodecErrorKind::Corrupt, 0);
        let start = self.see(stored).map_err(|cause| corrupt.because(cause))?;
        // The table has checked that it ends before the next entry.
        let len = usize::try_from(self.record().stored).ok();
        let body = len.and_then(|len| stored.get(start..)?.get(..len));
        let body = body.ok_or_else(|| self.wrong(CodecErrorKind::Truncated, start as u64))?;
        let made = match self.codec() {
            CodecId::STORED if body.len() == raw.len() => {
                raw.copy_from_slice(body);
                raw.len()
            }
            CodecId::STORED => body.len(),
            CodecId::DEFLATE if self.entries.checks(self.index) => {
                millstream_codec::decode_deflate_of_checked(scratch, body, raw)?
            }
            codec => millstream_codec::decode_block(codec, scratch, body, raw)?,
        };
        if made == raw.len() && self.entries.checks(self.index) {
            self.check_crc(crc32(0, raw), stored.len() as u64)?;
        }
        Ok(made)
    }

    fn stream(&self) -> Result<Box<dyn StreamDecoder>, CodecError> {
        Ok(Box::new(self.entry_stream()?))
    }
}

/// Decodes all stored bytes through a stream; returns the raw bytes of the range.
fn decode_range(
    stream: &mut EntryStream,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, CodecError> {
    let (mut consumed, mut made) = (0, 0);
    loop {
        let progress = stream.decode(&stored[consumed..], &mut raw[made..])?;
        consumed += progress.consumed;
        made += progress.produced;
        if progress.at_end {
            return Ok(made);
        }
        if progress.consumed + progress.produced == 0 {
            let kind = CodecErrorKind::Truncated;
            return Err(stream.entry.wrong(kind, stream.consumed));
        }
    }
}

/// Decodes an entry piece by piece.
struct EntryStream {
    entry: EntryDecoder,
    /// The header as far as it was read, and how long it is as far as that is known.
    head: Vec<u8>,
    head_bytes: usize,
    /// None for stored bytes.
    inner: Option<Box<dyn StreamDecoder>>,
    /// Stored bytes of the entry that were not consumed.
    stored_left: u64,
    consumed: u64,
    /// Raw bytes made, those in front of the range included.
    made: u64,
    crc: u32,
    /// All of the range was made, and compared with its checksum.
    is_done: bool,
    failed: Option<CodecError>,
    /// Room for raw bytes in front of the range.
    dropped: Vec<u8>,
}

impl EntryStream {
    /// Consumes bytes of the header; returns how many.
    fn take_head(&mut self, stored: &[u8]) -> Result<usize, CodecError> {
        let mut taken = 0;
        while self.head.len() < self.head_bytes {
            let count = (self.head_bytes - self.head.len()).min(stored.len() - taken);
            if count == 0 {
                break;
            }
            self.head.extend_from_slice(&stored[taken..taken + count]);
            taken += count;
            if self.head.len() < self.head_bytes {
                break;
            }
            let corrupt = self.entry.wrong(CodecErrorKind::Corrupt, 0);
            let wrong = |cause| corrupt.because(cause);
            if self.head.len() == LOCAL_BYTES {
                let len = check_local(self.entry.record(), &self.head);
                self.head_bytes = len.map_err(wrong)?;
            }
            if self.head.len() == self.head_bytes {
                self.entry.see(&self.head).map_err(wrong)?;
            }
        }
        Ok(taken)
    }

    /// Makes progress in the entry's stored bytes.
    fn take_body(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        let len = usize::try_from(self.stored_left).map_or(stored.len(), |it| it.min(stored.len()));
        let stored = &stored[..len];
        let (skip, take) = (self.entry.skip, self.entry.take);
        let skipping = usize::try_from(skip.saturating_sub(self.made)).unwrap_or(usize::MAX);
        let left = usize::try_from(skip + take - self.made.max(skip)).unwrap_or(usize::MAX);
        let room = match skipping {
            0 => {
                let len = raw.len().min(left);
                &mut raw[..len]
            }
            _ => {
                self.dropped.resize(skipping.min(ARCHIVE_DROP_BYTES), 0);
                &mut self.dropped[..]
            }
        };
        let progress = match &mut self.inner {
            Some(inner) => inner.decode(stored, room)?,
            None => {
                let count = stored.len().min(room.len());
                room[..count].copy_from_slice(&stored[..count]);
                Progress {
                    consumed: count,
                    produced: count,
                    at_end: self.stored_left == count as u64,
                }
            }
        };
        if self.entry.is_whole() && self.entry.entries.checks(self.entry.index) {
            self.crc = crc32(self.crc, &room[..progress.produced]);
        }
        self.stored_left -= progress.consumed as u64;
        self.made += progress.produced as u64;
        let is_made = self.made == skip + take;
        if !self.entry.is_whole() {
            self.is_done = is_made;
        } else if self.stored_left == 0 && progress.at_end {
            if !is_made {
                return Err(self.entry.wrong(CodecErrorKind::RawTooShort, self.consumed));
            }
            self.entry.check_crc(self.crc, self.consumed)?;
            self.is_done = true;
        } else if self.stored_left == 0 && progress.consumed + progress.produced == 0 {
            return Err(self.entry.wrong(CodecErrorKind::Truncated, self.consumed));
        }
        Ok(Progress {
            produced: if skipping > 0 { 0 } else { progress.produced },
            ..progress
        })
    }

    fn advance(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            if self.is_done {
                // What is behind the range, or between this entry and the next.
                return Ok(Progress {
                    consumed: stored.len(),
                    produced,
                    at_end: true,
                });
            }
            if self.head.len() < self.head_bytes {
                let taken = self.take_head(&stored[consumed..])?;
                consumed += taken;
                self.consumed += taken as u64;
                if self.head.len() < self.head_bytes {
                    break;
                }
            }
            let before = self.made;
            let progress = self.take_body(&stored[consumed..], &mut raw[produced..])?;
            consumed += progress.consumed;
            produced += progress.produced;
            self.consumed += progress.consumed as u64;
            if progress.consumed == 0 && self.made == before && !self.is_done {
                break;
            }
        }
        Ok(Progress {
            consumed,
            produced,
            at_end: false,
        })
    }
}

impl StreamDecoder for EntryStream {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let advanced = self.advance(stored, raw);
        advanced.inspect_err(|error| self.failed = Some(*error))
    }
}
