//! The formats around the compressed data: headers, block sizes, trailers. Parsing only; nothing
//! here decodes. Block, stream and unit decoders read the same headers by the same rules, so that
//! a stream which one of them takes is not refused by another.

pub(crate) mod lz4_frame;
pub(crate) mod wrapper;
pub(crate) mod zstd_frame;

use crate::error::{CodecErrorKind, Fault};

/// Little-endian integer of up to eight bytes.
pub(crate) fn little_endian(bytes: &[u8]) -> u64 {
    assert!(bytes.len() <= 8);
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

/// The first four bytes as a little-endian integer, if there are four.
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

/// What a frame's first bytes say; `F` is the format's own header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head<F> {
    /// More bytes are needed.
    Incomplete,
    /// A skippable frame: 8 bytes of header, then so many that mean nothing.
    Skippable { content_bytes: u32 },
    /// A frame with data.
    Frame(F),
}

/// The header of the first frame with data in `head`, by the format's parser.
pub(crate) fn first_frame<F>(
    head: &[u8],
    parse: impl Fn(&[u8]) -> Result<Head<F>, Fault>,
) -> Option<F> {
    let mut rest = head;
    loop {
        match parse(rest).ok()? {
            Head::Incomplete => return None,
            Head::Frame(header) => return Some(header),
            Head::Skippable { content_bytes } => {
                let skipped = SKIPPABLE_HEADER_BYTES.checked_add(content_bytes as usize)?;
                rest = rest.get(skipped..)?;
            }
        }
    }
}

/// What bytes that start no frame are: trailing bytes after a whole frame, corrupt before any.
pub(crate) fn no_frame(first: bool, cause: &'static str) -> Fault {
    if first {
        Fault::corrupt(cause)
    } else {
        Fault::of(CodecErrorKind::TrailingBytes)
    }
}

/// Whether `head`, shorter than a magic number, could still become `magic` under `mask`.
pub(crate) fn could_become(head: &[u8], magic: u32, mask: u32) -> bool {
    let (magic, mask) = (magic.to_le_bytes(), mask.to_le_bytes());
    head.iter()
        .zip(magic.iter().zip(mask))
        .all(|(byte, (magic, mask))| byte & mask == magic & mask)
}

/// Collects a field of fixed size that may arrive in pieces.
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

    /// Takes bytes from `input` until the field holds `wanted`; how many it took.
    pub(crate) fn fill(&mut self, wanted: usize, input: &[u8]) -> usize {
        assert!(wanted <= BYTES_MAX && self.len <= wanted);
        let taken = (wanted - self.len).min(input.len());
        self.bytes[self.len..self.len + taken].copy_from_slice(&input[..taken]);
        self.len += taken;
        taken
    }
}
