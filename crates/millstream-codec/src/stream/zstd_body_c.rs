//! Decoding the body of a zstd frame with libzstd's streaming interface.
//!
//! libzstd counts calls without progress and fails after 16 of them; a call without bytes is not an
//! error here, so it is not passed on. Whether libzstd may hold raw bytes not yet written is known
//! by one sign: the last call filled all its room.

use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use super::zstd::BodyProgress;
use crate::block::zstd_fault;
use crate::error::Fault;
use crate::format::zstd_frame::Header;

/// A decoder of the bodies of consecutive frames.
pub(super) struct Body {
    context: Option<DCtx<'static>>,
    /// Whether there may be raw bytes that did not fit the room.
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

    /// Continues decoding the frame.
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
