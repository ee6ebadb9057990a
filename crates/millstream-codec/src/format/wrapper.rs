//! The zlib (RFC 1950) and gzip (RFC 1952) wrappers of deflate: a header and a trailer with
//! checksums.
//!
//! Both are parsed here instead of by the deflate libraries, for three reasons: the whole-block
//! decoder and the stream decoder then accept the same streams, a wrong checksum is distinguished
//! from corrupt data, and a decoder can be reset from one gzip member to the next.
//!
//! Names and comments are skipped, never kept, so a header of any length takes no memory.

use super::{Field, little_endian};
use crate::CodecId;
use crate::error::{After, Fault};

/// The wrapper of a deflate stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapper {
    Raw,
    Zlib,
    Gzip,
}

const ZLIB_TRAILER_BYTES: usize = 4;
const GZIP_TRAILER_BYTES: usize = 8;
pub(crate) const TRAILER_BYTES_MAX: usize = GZIP_TRAILER_BYTES;

const GZIP_FIXED_BYTES: usize = 10;
const GZIP_FLAG_HEADER_CRC: u8 = 0x02;
const GZIP_FLAG_EXTRA: u8 = 0x04;
const GZIP_FLAG_NAME: u8 = 0x08;
const GZIP_FLAG_COMMENT: u8 = 0x10;
const GZIP_FLAGS_RESERVED: u8 = 0xE0;

impl Wrapper {
    /// Returns the wrapper of a codec of deflate.
    pub(crate) fn of(codec: CodecId) -> Wrapper {
        match codec {
            CodecId::ZLIB => Wrapper::Zlib,
            CodecId::GZIP => Wrapper::Gzip,
            _ => Wrapper::Raw,
        }
    }

    /// Whether another member may follow a member.
    pub(crate) fn has_members(self) -> bool {
        self == Wrapper::Gzip
    }

    pub(crate) fn trailer_bytes(self) -> usize {
        match self {
            Wrapper::Raw => 0,
            Wrapper::Zlib => ZLIB_TRAILER_BYTES,
            Wrapper::Gzip => GZIP_TRAILER_BYTES,
        }
    }

    /// Returns the header that the encoders of this crate write.
    pub(crate) fn header(self) -> &'static [u8] {
        match self {
            Wrapper::Raw => &[],
            // Deflate, 32 KiB window, default level; 0x789C is a multiple of 31.
            Wrapper::Zlib => &[0x78, 0x9C],
            // No name, no time, unknown system: the same bytes on every machine.
            Wrapper::Gzip => &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF],
        }
    }
}

/// The checksum and the number of a member's raw bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    wrapper: Wrapper,
    checksum: u32,
    raw_bytes: u64,
}

impl Tally {
    pub(crate) fn new(wrapper: Wrapper) -> Tally {
        Tally {
            wrapper,
            checksum: u32::from(wrapper == Wrapper::Zlib),
            raw_bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, raw: &[u8]) {
        self.raw_bytes += raw.len() as u64;
        self.checksum = match self.wrapper {
            Wrapper::Raw => 0,
            Wrapper::Zlib => zlib_rs::adler32::adler32(self.checksum, raw),
            Wrapper::Gzip => zlib_rs::crc32::crc32(self.checksum, raw),
        };
    }

    /// Returns the trailer for the bytes added, and its length.
    pub(crate) fn trailer(&self) -> ([u8; TRAILER_BYTES_MAX], usize) {
        let mut bytes = [0; TRAILER_BYTES_MAX];
        match self.wrapper {
            Wrapper::Raw => {}
            Wrapper::Zlib => bytes[..4].copy_from_slice(&self.checksum.to_be_bytes()),
            Wrapper::Gzip => {
                bytes[..4].copy_from_slice(&self.checksum.to_le_bytes());
                // RFC 1952: the size modulo 2^32.
                bytes[4..].copy_from_slice(&(self.raw_bytes as u32).to_le_bytes());
            }
        }
        (bytes, self.wrapper.trailer_bytes())
    }

    /// Verifies a trailer from the stream against the bytes added.
    pub(crate) fn verify(&self, trailer: &[u8]) -> Result<(), Fault> {
        let (bytes, len) = self.trailer();
        assert_eq!(trailer.len(), len);
        match trailer
            .iter()
            .zip(bytes)
            .position(|(&stored, computed)| stored != computed)
        {
            None => Ok(()),
            Some(0..4) if self.wrapper == Wrapper::Zlib => Err(Fault::checksum(
                "the data does not match its Adler-32: it is damaged",
            )),
            Some(0..4) => Err(Fault::checksum(
                "the data does not match its CRC-32: it is damaged",
            )),
            Some(_) => Err(Fault::checksum(
                "the data does not match the size in the gzip trailer",
            )),
        }
    }
}

/// The fields of a header, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Fixed,
    ExtraLen,
    Extra { left: usize },
    Name,
    Comment,
    HeaderCrc,
    Done,
}

/// Bytes read of a field, and the next field once this one is complete.
type Step = (usize, Option<Part>);

/// A reader of one header that may arrive in pieces.
#[derive(Debug, Clone)]
pub(crate) struct HeaderReader {
    wrapper: Wrapper,
    /// No member came before this one.
    first: bool,
    part: Part,
    field: Field<GZIP_FIXED_BYTES>,
    flags: u8,
    /// CRC-32 of the header so far; its low half is the header CRC.
    crc: u32,
}

impl HeaderReader {
    pub(crate) fn new(wrapper: Wrapper, first: bool) -> HeaderReader {
        let part = if wrapper == Wrapper::Raw {
            Part::Done
        } else {
            Part::Fixed
        };
        HeaderReader {
            wrapper,
            first,
            part,
            field: Field::new(),
            flags: 0,
            crc: 0,
        }
    }

    /// Takes header bytes from `input`; returns how many, and whether the header is complete.
    pub(crate) fn read(&mut self, input: &[u8]) -> Result<(usize, bool), Fault> {
        let mut taken = 0;
        while self.part != Part::Done {
            let rest = &input[taken..];
            let step = match self.part {
                Part::Fixed if self.wrapper == Wrapper::Zlib => self.read_zlib(rest),
                Part::Fixed => self.read_gzip_fixed(rest),
                Part::ExtraLen => Ok(self.read_extra_len(rest)),
                Part::Extra { left } => Ok(self.skip_extra(left, rest)),
                Part::Name => Ok(self.skip_text(GZIP_FLAG_NAME, Part::Comment, rest)),
                Part::Comment => Ok(self.skip_text(GZIP_FLAG_COMMENT, Part::HeaderCrc, rest)),
                Part::HeaderCrc => self.read_header_crc(rest),
                Part::Done => unreachable!("the loop ends at Done"),
            };
            let (read, next) = step.after(taken)?;
            taken += read;
            let Some(next) = next else {
                assert_eq!(taken, input.len());
                return Ok((taken, false));
            };
            self.part = next;
            self.field.clear();
        }
        Ok((taken, true))
    }

    fn read_zlib(&mut self, input: &[u8]) -> Result<Step, Fault> {
        let taken = self.field.fill(2, input);
        let &[method, flags] = self.field.bytes() else {
            return Ok((taken, None));
        };
        if method & 0x0F != 8 || method >> 4 > 7 {
            return Err(Fault::corrupt(
                "this is no zlib stream: the header names no deflate",
            ));
        }
        if u16::from_be_bytes([method, flags]) % 31 != 0 {
            return Err(Fault::corrupt(
                "this is no zlib stream: the header's check bits are wrong",
            ));
        }
        if flags & 0x20 != 0 {
            return Err(Fault::unsupported(
                "the zlib stream needs a preset dictionary",
            ));
        }
        Ok((taken, Some(Part::Done)))
    }

    fn read_gzip_fixed(&mut self, input: &[u8]) -> Result<Step, Fault> {
        let taken = self.field.fill(GZIP_FIXED_BYTES, input);
        let fixed = self.field.bytes();
        if fixed
            .iter()
            .zip([0x1F, 0x8B])
            .any(|(&byte, magic)| byte != magic)
        {
            return Err(if self.first {
                Fault::corrupt("this is no gzip stream: the magic number is missing")
            } else {
                Fault::TRAILING_BYTES
            });
        }
        if fixed.get(2).is_some_and(|&method| method != 8) {
            return Err(Fault::unsupported("a gzip member that is not deflated"));
        }
        if fixed
            .get(3)
            .is_some_and(|&flags| flags & GZIP_FLAGS_RESERVED != 0)
        {
            return Err(Fault::unsupported(
                "a reserved flag is set in the gzip header",
            ));
        }
        if fixed.len() < GZIP_FIXED_BYTES {
            return Ok((taken, None));
        }
        self.flags = fixed[3];
        self.crc = zlib_rs::crc32::crc32(0, fixed);
        let extra = self.flags & GZIP_FLAG_EXTRA != 0;
        let next = if extra { Part::ExtraLen } else { Part::Name };
        Ok((taken, Some(next)))
    }

    fn read_extra_len(&mut self, input: &[u8]) -> Step {
        let taken = self.field.fill(2, input);
        if self.field.bytes().len() < 2 {
            return (taken, None);
        }
        self.crc = zlib_rs::crc32::crc32(self.crc, self.field.bytes());
        let left = little_endian(self.field.bytes()) as usize;
        (taken, Some(Part::Extra { left }))
    }

    fn skip_extra(&mut self, left: usize, input: &[u8]) -> Step {
        let taken = left.min(input.len());
        self.crc = zlib_rs::crc32::crc32(self.crc, &input[..taken]);
        if taken == left {
            return (taken, Some(Part::Name));
        }
        self.part = Part::Extra { left: left - taken };
        (taken, None)
    }

    /// Skips text up to its zero byte, if `flag` is set in the header.
    fn skip_text(&mut self, flag: u8, next: Part, input: &[u8]) -> Step {
        if self.flags & flag == 0 {
            return (0, Some(next));
        }
        let end = input.iter().position(|&byte| byte == 0);
        let taken = end.map_or(input.len(), |end| end + 1);
        self.crc = zlib_rs::crc32::crc32(self.crc, &input[..taken]);
        (taken, end.map(|_| next))
    }

    fn read_header_crc(&mut self, input: &[u8]) -> Result<Step, Fault> {
        if self.flags & GZIP_FLAG_HEADER_CRC == 0 {
            return Ok((0, Some(Part::Done)));
        }
        let taken = self.field.fill(2, input);
        if self.field.bytes().len() < 2 {
            return Ok((taken, None));
        }
        if little_endian(self.field.bytes()) != u64::from(self.crc & 0xFFFF) {
            return Err(Fault::checksum(
                "the gzip header does not match its checksum",
            ));
        }
        Ok((taken, Some(Part::Done)))
    }
}
