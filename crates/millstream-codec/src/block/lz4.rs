//! Bare LZ4 blocks, and the blocks of frames.
//!
//! lz4_flex is built in its safe form. Its unsafe loops decode text 8 to 20 % faster (3.4–4.3 GB/s
//! instead of 3.2–3.6), which does not justify trusting them with hostile bytes.

use crate::error::{CodecErrorKind, Fault};
use lz4_flex::block::{DecompressError, decompress_into, decompress_into_with_dict};

/// Decodes one bare block.
pub(crate) fn lz4_block(stored: &[u8], raw: &mut [u8]) -> Result<usize, Fault> {
    decompress_into(stored, raw).map_err(|error| fault(&error))
}

/// Decodes one bare block whose matches may reach into `history`, the bytes before it.
pub(crate) fn lz4_block_with_history(
    stored: &[u8],
    raw: &mut [u8],
    history: &[u8],
) -> Result<usize, Fault> {
    decompress_into_with_dict(stored, raw, history).map_err(|error| fault(&error))
}

fn fault(error: &DecompressError) -> Fault {
    match error {
        DecompressError::OutputTooSmall { .. } => Fault::RAW_TOO_LONG,
        DecompressError::LiteralOutOfBounds | DecompressError::ExpectedAnotherByte => {
            Fault::TRUNCATED
        }
        _ => Fault::corrupt("an LZ4 match reaches before the start of the data"),
    }
}

/// Returns the fault of a block that is complete in its frame: corrupt, never truncated.
pub(crate) fn broken_block(fault: Fault) -> Fault {
    match fault.kind {
        CodecErrorKind::RawTooLong => Fault::corrupt("an LZ4 block expands beyond its limit"),
        _ => Fault::corrupt("the LZ4 data is broken"),
    }
}
