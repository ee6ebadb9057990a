//! The body of a zstd frame through libzstd's streaming interface.
//!
//! libzstd counts calls that move nothing and fails after 16 of them; a caller that offers no bytes
//! is no error here, so such calls are not passed on. What libzstd took but has not written yet is
//! known by one sign: the last call filled all the room it had.

use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::zstd::BodyProgress;
use crate::block::zstd_fault;
use crate::error::Fault;
use crate::format::zstd_frame::Header;

/// Decodes one frame after the other.
pub(super) struct Body {
    context: Option<DCtx<'static>>,
    /// There may be raw bytes that had no room.
    pending: bool,
}

impl Body {
    pub(super) fn new() -> Body {
        Body {
            context: None,
            pending: false,
        }
    }

    /// Begins a frame with its whole header.
    pub(super) fn begin(&mut self, _: &Header, bytes: &[u8]) -> Result<(), Fault> {
        if self.context.is_none() {
            self.context = DCtx::try_create();
        }
        let out_of_memory = Fault::OUT_OF_MEMORY;
        let context = self.context.as_mut().ok_or(out_of_memory)?;
        context
            .reset(ResetDirective::SessionOnly)
            .map_err(zstd_fault)?;
        self.pending = false;
        let mut input = InBuffer::around(bytes);
        let mut nothing = [0u8; 0];
        let mut output = OutBuffer::around(&mut nothing[..]);
        context
            .decompress_stream(&mut output, &mut input)
            .map_err(zstd_fault)?;
        assert_eq!(input.pos(), bytes.len(), "a frame header is taken whole");
        Ok(())
    }

    /// Goes on with the frame.
    pub(super) fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<BodyProgress, Fault> {
        if raw.is_empty() || (stored.is_empty() && !self.pending) {
            return Ok(BodyProgress {
                consumed: 0,
                produced: 0,
                ended: false,
            });
        }
        let room = raw.len();
        let context = self.context.as_mut().expect("a frame has begun");
        let mut input = InBuffer::around(stored);
        let mut output = OutBuffer::around(raw);
        let hint = context.decompress_stream(&mut output, &mut input);
        let (consumed, produced) = (input.pos(), output.pos());
        let hint = hint.map_err(|code| zstd_fault(code).after(consumed))?;
        self.pending = produced == room;
        Ok(BodyProgress {
            consumed,
            produced,
            ended: hint == 0,
        })
    }
}
