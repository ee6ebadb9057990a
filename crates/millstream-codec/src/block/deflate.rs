//! Whole blocks of zlib, gzip and raw deflate.

use crate::Scratch;
use crate::error::Fault;
use crate::format::wrapper::Wrapper;
use crate::stream::decode_whole;

/// Decodes a block, for gzip all its members.
pub(super) fn decode(
    wrapper: Wrapper,
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, Fault> {
    #[cfg(feature = "c")]
    if let Some(raw_bytes) = fast::decode(wrapper, scratch, stored, raw)? {
        return Ok(raw_bytes);
    }
    decode_whole(scratch.stream_deflate(wrapper), stored, raw)
}

#[cfg(feature = "c")]
mod fast {
    use crate::Scratch;
    use crate::error::{After, Fault};
    use crate::format::wrapper::{HeaderReader, Tally, Wrapper};

    /// Decodes with libdeflate. `None`: the block is truncated, corrupt or too long, and the stream
    /// decoder is to determine the error.
    pub(super) fn decode(
        wrapper: Wrapper,
        scratch: &mut Scratch,
        stored: &[u8],
        raw: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let decoder = scratch.deflate_decoder()?;
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let first = consumed == 0;
            let (taken, complete) = HeaderReader::new(wrapper, first)
                .read(&stored[consumed..])
                .after(consumed)?;
            consumed += taken;
            if !complete {
                return Ok(None);
            }
            let body = decoder.decode(&stored[consumed..], &mut raw[produced..]);
            let Some((taken, written)) = body else {
                return Ok(None);
            };
            consumed += taken;
            let Some(trailer) = stored[consumed..].get(..wrapper.trailer_bytes()) else {
                return Ok(None);
            };
            let mut tally = Tally::new(wrapper);
            tally.add(&raw[produced..produced + written]);
            consumed += trailer.len();
            produced += written;
            tally.verify(trailer).after(consumed)?;
            if consumed == stored.len() {
                return Ok(Some(produced));
            }
            if !wrapper.has_members() {
                return Err(Fault::TRAILING_BYTES.after(consumed));
            }
        }
    }
}
