//! Whole blocks of zstd: the frames are found by their block headers, then each is decoded in one
//! call; with libzstd directly into the caller's memory, without a window.

use crate::Scratch;
use crate::dictionary::Dictionary;
use crate::error::{After, Fault};
use crate::format::zstd_frame::{self, Extent};

/// Decodes all frames of a block, each of which must name `dictionary`, or no dictionary if `None`.
pub(crate) fn decode(
    scratch: &mut Scratch,
    dictionary: Option<&Dictionary>,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, Fault> {
    let number = dictionary.map_or(0, Dictionary::id);
    if stored.is_empty() {
        return Err(Fault::TRUNCATED);
    }
    let (mut consumed, mut produced) = (0, 0);
    while consumed < stored.len() {
        let rest = &stored[consumed..];
        let extent = zstd_frame::measure(rest, consumed == 0, number).after(consumed)?;
        consumed += match extent {
            Extent::Skippable { stored_bytes } => stored_bytes,
            Extent::Frame {
                header,
                stored_bytes,
            } => {
                let room = &mut raw[produced..];
                let content_bytes = header.content_bytes.unwrap_or(0);
                if content_bytes > room.len() as u64 {
                    return Err(Fault::RAW_TOO_LONG.after(consumed));
                }
                let frame = &rest[..stored_bytes];
                let decoded = match dictionary {
                    None => decode_frame(scratch, frame, room),
                    Some(dictionary) => decode_frame_with(scratch, dictionary, frame, room),
                };
                produced += decoded.after(consumed)?;
                stored_bytes
            }
        };
    }
    Ok(produced)
}

/// Decodes exactly one frame.
#[cfg(feature = "c")]
pub(crate) fn decode_frame(
    scratch: &mut Scratch,
    frame: &[u8],
    raw: &mut [u8],
) -> Result<usize, Fault> {
    let context = scratch.zstd_decoder()?;
    context.decompress(raw, frame).map_err(zstd_fault)
}

/// Decodes exactly one frame.
#[cfg(not(feature = "c"))]
pub(crate) fn decode_frame(_: &mut Scratch, frame: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
    crate::stream::decode_whole(&mut crate::stream::Zstd::new(), frame, raw)
}

/// Decodes exactly one frame that names the dictionary.
#[cfg(feature = "c")]
fn decode_frame_with(
    scratch: &mut Scratch,
    dictionary: &Dictionary,
    frame: &[u8],
    raw: &mut [u8],
) -> Result<usize, Fault> {
    let context = scratch.zstd_decoder()?;
    let decoded = context.decompress_using_ddict(raw, frame, dictionary.ready());
    decoded.map_err(zstd_fault)
}

/// Decodes exactly one frame that names the dictionary.
#[cfg(not(feature = "c"))]
fn decode_frame_with(
    _: &mut Scratch,
    dictionary: &Dictionary,
    frame: &[u8],
    raw: &mut [u8],
) -> Result<usize, Fault> {
    let mut decoder = crate::stream::Zstd::with_dictionary(dictionary)?;
    crate::stream::decode_whole(&mut decoder, frame, raw)
}

/// Converts an error code of libzstd.
#[cfg(feature = "c")]
pub(crate) fn zstd_fault(code: zstd_safe::ErrorCode) -> Fault {
    use zstd_safe::zstd_sys::ZSTD_ErrorCode as Code;
    const MEMORY: usize = Code::ZSTD_error_memory_allocation as usize;
    const CHECKSUM: usize = Code::ZSTD_error_checksum_wrong as usize;
    const ROOM: usize = Code::ZSTD_error_dstSize_tooSmall as usize;
    const WINDOW: usize = Code::ZSTD_error_frameParameter_windowTooLarge as usize;
    const FEATURE: usize = Code::ZSTD_error_frameParameter_unsupported as usize;
    const DICTIONARY: usize = Code::ZSTD_error_dictionary_wrong as usize;
    const CUT: usize = Code::ZSTD_error_srcSize_wrong as usize;
    // libzstd returns its codes as the negative of the enumeration.
    match code.wrapping_neg() {
        MEMORY => Fault::OUT_OF_MEMORY,
        CHECKSUM => zstd_frame::DAMAGED,
        ROOM => Fault::RAW_TOO_LONG,
        WINDOW => zstd_frame::WINDOW_TOO_LARGE,
        FEATURE => Fault::unsupported("the zstd frame has a feature of a later version"),
        DICTIONARY => zstd_frame::NEEDS_DICTIONARY,
        // Frames are passed whole, so the content of a block ends too early.
        CUT => Fault::corrupt("a zstd block is shorter than its content"),
        _ => zstd_frame::BROKEN,
    }
}
