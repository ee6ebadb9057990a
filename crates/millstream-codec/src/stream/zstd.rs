//! Zstandard streams: consecutive frames, with skippable frames between them.
//!
//! The frame headers are parsed here, before the library gets them, so that window, dictionary and
//! reserved bits are checked by [`crate::format::zstd_frame`] however the bytes are split. The
//! library decodes the frame's body: libzstd, or ruzstd without the feature `c`.

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
    /// ID of the dictionary that all frames must name; 0 for none.
    dictionary: u32,
}

impl Zstd {
    pub(crate) fn new() -> Zstd {
        Zstd {
            frames: Frames::new(),
            body: Body::new(),
            in_body: false,
            dictionary: 0,
        }
    }

    /// Creates a decoder of frames that all name one dictionary.
    #[cfg(not(feature = "c"))]
    pub(crate) fn with_dictionary(dictionary: &crate::Dictionary) -> Result<Zstd, Fault> {
        let mut zstd = Zstd::new();
        zstd.dictionary = dictionary.id();
        zstd.body.add_dictionary(dictionary)?;
        Ok(zstd)
    }
}

impl Core for Zstd {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let rest = &stored[consumed..];
            if !self.in_body {
                let (dictionary, body) = (self.dictionary, &mut self.body);
                let parse = |head: &[u8], first| zstd_frame::parse(head, first, dictionary);
                let begin = |header, bytes: &[u8]| body.begin(&header, bytes);
                let (taken, begun) = self.frames.next(rest, parse, begin).after(consumed)?;
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
