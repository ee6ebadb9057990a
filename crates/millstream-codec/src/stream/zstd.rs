//! Zstandard streams: consecutive frames, with skippable frames between them.
//!
//! The frame headers are parsed here, before the library gets them, so that window, dictionary and
//! reserved bits are checked by [`crate::format::zstd_frame`] however the bytes are split. The
//! library decodes the frame's body: libzstd, or ruzstd without the feature `c` and with `rust`.

use super::zstd_body::Body;
use super::{Core, Progress};
use crate::error::{After, Fault};
use crate::format::Frames;
use crate::format::zstd_frame;
use crate::limits::ZSTD_HEADER_BYTES_MAX;

/// The result of one step of a body.
pub(super) struct BodyProgress {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    /// Whether the frame has ended and all its raw bytes are written.
    pub(super) ended: bool,
}

/// The decoder of one stream.
pub(crate) struct Zstd {
    frames: Frames<ZSTD_HEADER_BYTES_MAX>,
    body: Body,
    /// Whether a frame's header was read and its end was not.
    in_body: bool,
}

impl Zstd {
    pub(crate) fn new() -> Zstd {
        Zstd {
            frames: Frames::new(),
            body: Body::new(),
            in_body: false,
        }
    }
}

impl Core for Zstd {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let rest = &stored[consumed..];
            if !self.in_body {
                let begin = |header, bytes: &[u8]| self.body.begin(&header, bytes);
                let next = self.frames.next(rest, zstd_frame::parse, begin);
                let (taken, begun) = next.after(consumed)?;
                consumed += taken;
                if begun.is_none() {
                    break;
                }
                self.in_body = true;
                continue;
            }
            let step = self.body.step(rest, &mut raw[produced..]).after(consumed)?;
            consumed += step.consumed;
            produced += step.produced;
            self.in_body = !step.ended;
            if self.in_body && step.consumed == 0 && step.produced == 0 {
                break;
            }
        }
        Ok(Progress {
            consumed,
            produced,
            at_end: !self.in_body && self.frames.may_end(),
        })
    }
}
