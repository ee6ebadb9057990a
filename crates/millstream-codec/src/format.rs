//! Parsers of the formats around the compressed data: headers, block sizes, trailers. Nothing here
//! decodes. Block, stream and unit decoders share these parsers, so that all accept the same
//! streams.

pub(crate) mod lz4_frame;
pub(crate) mod wrapper;
pub(crate) mod zstd_frame;

use crate::error::{After, Fault};

/// Returns the little-endian integer of up to eight bytes.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    assert!(bytes.len() <= 8);
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

/// Returns the first four bytes as a little-endian integer, if there are four.
pub(crate) fn first_u32(bytes: &[u8]) -> Option<u32> {
    bytes
        .first_chunk::<4>()
        .map(|chunk| u32::from_le_bytes(*chunk))
}

/// Skippable frames of zstd and LZ4 share 16 magic numbers.
pub(crate) const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
pub(crate) const SKIPPABLE_MASK: u32 = 0xFFFF_FFF0;
/// Magic and length of a skippable frame.
pub(crate) const SKIPPABLE_HEADER_BYTES: usize = 8;

/// The parsed start of a frame; `F` is the format's own header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head<F> {
    /// More bytes are needed.
    Incomplete,
    /// A skippable frame: 8 bytes of header, then `content_bytes` to skip.
    Skippable { content_bytes: u32 },
    /// A frame with data.
    Frame(F),
}

/// Returns the header of the first frame with data in `head`, by the format's parser.
pub(crate) fn first_frame<F>(
    head: &[u8],
    parse: impl Fn(&[u8], bool) -> Result<Head<F>, Fault>,
) -> Option<F> {
    let mut rest = head;
    loop {
        match parse(rest, true).ok()? {
            Head::Incomplete => return None,
            Head::Frame(header) => return Some(header),
            Head::Skippable { content_bytes } => {
                let skipped = SKIPPABLE_HEADER_BYTES.checked_add(content_bytes as usize)?;
                rest = rest.get(skipped..)?;
            }
        }
    }
}

/// Reads the magic number at the start of `head`. `magics` are the format's numbers; `first`: no
/// frame came before; `cause` is reported if none of them is found. `Frame` holds the number.
pub(crate) fn parse_magic(
    head: &[u8],
    magics: &[u32],
    first: bool,
    cause: &'static str,
) -> Result<Head<u32>, Fault> {
    let Some(magic) = first_u32(head) else {
        let could_become =
            |&magic: &u32| head.iter().zip(magic.to_le_bytes()).all(|(a, b)| *a == b);
        let mut skippable = (0..16).map(|number| SKIPPABLE_MAGIC + number);
        let plausible = magics.iter().any(could_become) || skippable.any(|it| could_become(&it));
        return if plausible {
            Ok(Head::Incomplete)
        } else {
            Err(no_frame(first, cause))
        };
    };
    if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC {
        return Ok(match first_u32(&head[4..]) {
            Some(content_bytes) => Head::Skippable { content_bytes },
            None => Head::Incomplete,
        });
    }
    match magics.contains(&magic) {
        true => Ok(Head::Frame(magic)),
        false => Err(no_frame(first, cause)),
    }
}

/// Returns the fault for bytes that start no frame: trailing bytes after a whole frame, corrupt
/// before any.
fn no_frame(first: bool, cause: &'static str) -> Fault {
    if first {
        Fault::corrupt(cause)
    } else {
        Fault::TRAILING_BYTES
    }
}

/// A finder of the next frame with data in a stream that may arrive in pieces: it collects the
/// header and skips the skippable frames before it.
pub(crate) struct Frames<const HEADER_BYTES_MAX: usize> {
    header: Field<HEADER_BYTES_MAX>,
    /// Bytes left of a skippable frame.
    skip_bytes: u32,
    any_frame: bool,
}

impl<const HEADER_BYTES_MAX: usize> Frames<HEADER_BYTES_MAX> {
    pub(crate) const fn new() -> Self {
        Frames {
            header: Field::new(),
            skip_bytes: 0,
            any_frame: false,
        }
    }

    /// Takes bytes up to the end of the next frame's header. Returns their number, and the result
    /// of `found` for the header and its bytes. `parse` gets the header bytes so far, and whether
    /// the frame is the first. Header bytes are taken one by one; there are at most 19.
    pub(crate) fn next<F, R>(
        &mut self,
        stored: &[u8],
        parse: impl Fn(&[u8], bool) -> Result<Head<F>, Fault>,
        found: impl FnOnce(F, &[u8]) -> Result<R, Fault>,
    ) -> Result<(usize, Option<R>), Fault> {
        let mut taken = 0;
        while taken < stored.len() {
            let skipped = (self.skip_bytes as usize).min(stored.len() - taken);
            self.skip_bytes -= skipped as u32;
            taken += skipped;
            let Some(byte) = stored.get(taken..taken + 1) else {
                break;
            };
            self.header.fill(self.header.bytes().len() + 1, byte);
            let head = parse(self.header.bytes(), !self.any_frame).after(taken)?;
            taken += 1;
            match head {
                Head::Incomplete => continue,
                Head::Skippable { content_bytes } => self.skip_bytes = content_bytes,
                Head::Frame(header) => {
                    self.any_frame = true;
                    let begun = taken.saturating_sub(self.header.bytes().len());
                    let found = found(header, self.header.bytes()).after(begun)?;
                    self.header.clear();
                    return Ok((taken, Some(found)));
                }
            }
            self.any_frame = true;
            self.header.clear();
        }
        Ok((taken, None))
    }

    /// Whether the stream may end here, if no frame is open.
    pub(crate) fn may_end(&self) -> bool {
        self.any_frame && self.skip_bytes == 0 && self.header.bytes().is_empty()
    }
}

/// A field of fixed size that may arrive in pieces.
#[derive(Debug, Clone)]
pub(crate) struct Field<const BYTES_MAX: usize> {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

impl<const BYTES_MAX: usize> Field<BYTES_MAX> {
    pub(crate) const fn new() -> Self {
        Field {
            bytes: [0; BYTES_MAX],
            len: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Takes bytes from `input` until the field holds `wanted`; returns how many it took.
    pub(crate) fn fill(&mut self, wanted: usize, input: &[u8]) -> usize {
        assert!(wanted <= BYTES_MAX && self.len <= wanted);
        let taken = (wanted - self.len).min(input.len());
        self.bytes[self.len..self.len + taken].copy_from_slice(&input[..taken]);
        self.len += taken;
        taken
    }
}
