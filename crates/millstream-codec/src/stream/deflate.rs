//! Streams of zlib, gzip and raw deflate, on zlib-rs.
//!
//! zlib-rs is used instead of flate2: its own stable interface (`Inflate`) is safe, reports bytes
//! consumed and produced, distinguishes the end from missing input, and can be reset; flate2 would
//! only add a layer. [`crate::format::wrapper`] parses the wrapper; the library gets raw deflate.
//!
//! State: Header → Body → Trailer → Ended, and for gzip from Ended back to Header when more bytes
//! come, or to Padding if they are zeros, which `gzip` ignores up to the end of its input. The
//! stream may end only in Ended or Padding, after a whole member.

use zlib_rs::{Inflate, InflateError, InflateFlush, Status};

use super::{Core, Progress};
use crate::error::{After, Fault};
use crate::format::Field;
use crate::format::wrapper::{HeaderReader, TRAILER_BYTES_MAX, Tally, Wrapper};

/// Log2 of the deflate window; the largest decodes every stream.
const WINDOW_BITS: u8 = 15;

enum State {
    Header(HeaderReader),
    Body,
    Trailer,
    Ended,
    /// Zeros after the last member of gzip.
    Padding,
}

/// The decoder of one stream.
pub(crate) struct Deflate {
    wrapper: Wrapper,
    state: State,
    inflate: Inflate,
    tally: Tally,
    trailer: Field<TRAILER_BYTES_MAX>,
}

impl Deflate {
    pub(crate) fn new(wrapper: Wrapper) -> Deflate {
        Deflate {
            wrapper,
            state: State::Header(HeaderReader::new(wrapper, true)),
            inflate: Inflate::new(false, WINDOW_BITS),
            tally: Tally::new(wrapper),
            trailer: Field::new(),
        }
    }

    /// Resets the decoder for another stream, keeping its memory.
    pub(crate) fn reset(&mut self, wrapper: Wrapper) {
        self.wrapper = wrapper;
        self.begin_member(true);
    }

    fn begin_member(&mut self, first: bool) {
        self.inflate.reset(false);
        self.tally = Tally::new(self.wrapper);
        self.trailer.clear();
        self.state = State::Header(HeaderReader::new(self.wrapper, first));
    }

    /// Inflates while it can; returns bytes consumed, bytes produced, and whether the body ended.
    fn inflate(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<(usize, usize, bool), Fault> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
            let input = &stored[consumed..];
            let status =
                self.inflate
                    .decompress(input, &mut raw[produced..], InflateFlush::NoFlush);
            let taken = (self.inflate.total_in() - in_before) as usize;
            let written = (self.inflate.total_out() - out_before) as usize;
            self.tally.add(&raw[produced..produced + written]);
            consumed += taken;
            produced += written;
            match status {
                Ok(Status::StreamEnd) => return Ok((consumed, produced, true)),
                Ok(Status::Ok | Status::BufError) if taken == 0 && written == 0 => {
                    return Ok((consumed, produced, false));
                }
                Ok(Status::Ok | Status::BufError) => {}
                Err(error) => return Err(inflate_fault(error).after(consumed)),
            }
        }
    }
}

fn inflate_fault(error: InflateError) -> Fault {
    match error {
        InflateError::MemError => Fault::OUT_OF_MEMORY,
        _ => Fault::corrupt("the deflate data is broken"),
    }
}

impl Core for Deflate {
    fn step(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let rest = &stored[consumed..];
            match &mut self.state {
                State::Header(reader) => {
                    let (taken, complete) = reader.read(rest).after(consumed)?;
                    consumed += taken;
                    if !complete {
                        break;
                    }
                    self.state = State::Body;
                }
                State::Body => {
                    let (taken, written, ended) =
                        self.inflate(rest, &mut raw[produced..]).after(consumed)?;
                    consumed += taken;
                    produced += written;
                    if !ended {
                        break;
                    }
                    self.state = State::Trailer;
                }
                State::Trailer => {
                    let wanted = self.wrapper.trailer_bytes();
                    consumed += self.trailer.fill(wanted, rest);
                    if self.trailer.bytes().len() < wanted {
                        break;
                    }
                    self.tally.verify(self.trailer.bytes()).after(consumed)?;
                    self.state = State::Ended;
                }
                State::Ended | State::Padding if rest.is_empty() => break,
                State::Ended if self.wrapper.has_members() && rest[0] != 0 => {
                    self.begin_member(false);
                }
                State::Ended if self.wrapper.has_members() => self.state = State::Padding,
                State::Ended => return Err(Fault::TRAILING_BYTES.after(consumed)),
                State::Padding => match rest.iter().position(|&byte| byte != 0) {
                    Some(zeros) => return Err(Fault::TRAILING_BYTES.after(consumed + zeros)),
                    None => consumed = stored.len(),
                },
            }
        }
        let at_end = matches!(self.state, State::Ended | State::Padding);
        Ok(Progress {
            consumed,
            produced,
            at_end,
        })
    }
}
