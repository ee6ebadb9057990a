//! Zstandard streams: frames one after the other, skippable ones between them.
//!
//! The frame headers are read here, before the library sees them, so that window, dictionary and
//! reserved bits are judged by the one rule of [`crate::format::zstd_frame`] however the bytes are
//! cut. The frame's body is the library's: libzstd, or ruzstd where there is no C compiler.

use super::zstd_body::Body;
use super::{Core, Progress};
use crate::error::Fault;
use crate::format::zstd_frame;
use crate::format::{Field, Head, SKIPPABLE_HEADER_BYTES};
use crate::limits::ZSTD_HEADER_BYTES_MAX;

enum State {
    /// Between frames, or within the header of one.
    Header,
    /// So many bytes of a skippable frame are left.
    Skip {
        left: u32,
    },
    Body,
}

/// What one call of a body did.
pub(super) struct BodyProgress {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    /// The frame is over and all its raw bytes are written.
    pub(super) ended: bool,
}

/// The decoder of one stream.
pub(crate) struct Zstd {
    state: State,
    header: Field<ZSTD_HEADER_BYTES_MAX>,
    body: Body,
    /// Number of the dictionary that all frames name; 0 for none.
    dictionary: u32,
    /// A frame of any kind has ended.
    any_frame: bool,
}

impl Zstd {
    pub(crate) fn new() -> Zstd {
        Zstd {
            state: State::Header,
            header: Field::new(),
            body: Body::new(),
            dictionary: 0,
            any_frame: false,
        }
    }

    /// A decoder of frames that all name one dictionary.
    #[cfg(not(feature = "c"))]
    pub(crate) fn with_dictionary(dictionary: &crate::Dictionary) -> Result<Zstd, Fault> {
        let mut zstd = Zstd::new();
        zstd.dictionary = dictionary.id();
        zstd.body.add_dictionary(dictionary)?;
        Ok(zstd)
    }

    /// Reads header bytes one by one (there are at most 18): how many, and whether a frame began.
    fn read_header(&mut self, stored: &[u8]) -> Result<(usize, bool), Fault> {
        for (index, byte) in stored.iter().enumerate() {
            let wanted = self.header.bytes().len() + 1;
            self.header.fill(wanted, std::slice::from_ref(byte));
            let head = zstd_frame::parse(self.header.bytes(), !self.any_frame, self.dictionary);
            match head.map_err(|fault| fault.after(index))? {
                Head::Incomplete => {}
                Head::Skippable { content_bytes } => {
                    assert_eq!(self.header.bytes().len(), SKIPPABLE_HEADER_BYTES);
                    self.state = State::Skip {
                        left: content_bytes,
                    };
                }
                Head::Frame(header) => {
                    assert_eq!(self.header.bytes().len(), header.header_bytes);
                    self.body.begin(&header, self.header.bytes())?;
                    self.state = State::Body;
                }
            }
            if !matches!(self.state, State::Header) {
                self.header.clear();
                return Ok((index + 1, true));
            }
        }
        Ok((stored.len(), false))
    }
}

impl Core for Zstd {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let rest = &stored[consumed..];
            match self.state {
                State::Header => {
                    let (taken, begun) = self
                        .read_header(rest)
                        .map_err(|fault| fault.after(consumed))?;
                    consumed += taken;
                    if !begun {
                        break;
                    }
                }
                State::Skip { left: 0 } => {
                    self.any_frame = true;
                    self.state = State::Header;
                }
                State::Skip { left } => {
                    let taken = rest.len().min(left as usize);
                    consumed += taken;
                    self.state = State::Skip {
                        left: left - taken as u32,
                    };
                    if taken == 0 {
                        break;
                    }
                }
                State::Body => {
                    let target = &mut raw[produced..];
                    let step = self
                        .body
                        .step(rest, target)
                        .map_err(|fault| fault.after(consumed))?;
                    consumed += step.consumed;
                    produced += step.produced;
                    if step.ended {
                        self.any_frame = true;
                        self.state = State::Header;
                    } else if step.consumed == 0 && step.produced == 0 {
                        break;
                    }
                }
            }
        }
        let between = matches!(self.state, State::Header) && self.header.bytes().is_empty();
        Ok(Progress {
            consumed,
            produced,
            at_end: between && self.any_frame,
        })
    }
}
