//! Whole blocks of zstd: the frames are found by their block headers, then each is decoded in one
//! call; with libzstd directly into the caller's memory, without a window.

use crate::Scratch;
use crate::error::{After, Fault};
use crate::format::zstd_frame;

/// Decodes all frames of a block.
pub(crate) fn decode(scratch: &mut Scratch, stored: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
    if stored.is_empty() {
        return Err(Fault::TRUNCATED);
    }
    let (mut consumed, mut produced) = (0, 0);
    while consumed < stored.len() {
        let rest = &stored[consumed..];
        let (len, header) = zstd_frame::measure(rest, consumed == 0).after(consumed)?;
        if let Some(header) = header {
            let room = &mut raw[produced..];
            if header.content_bytes.unwrap_or(0) > room.len() as u64 {
                return Err(Fault::RAW_TOO_LONG.after(consumed));
            }
            produced += decode_frame(scratch, &rest[..len], room).after(consumed)?;
        }
        consumed += len;
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
