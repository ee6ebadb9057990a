//! Samples in text: the plain parser, and how it and a kernel share the work.
//!
//! The plain parser is a state machine over single bytes. It defines the meaning of every input,
//! can be stopped and resumed anywhere, and is the reference that the kernels are tested against. A
//! kernel runs only from a position between two numbers; where it stops, because text or room runs
//! out or its check fails, the plain parser does a step, and the kernel is tried again after it.
//!
//! Of several errors the one detected at the earliest byte is reported: a sample is too large at
//! the digit that makes it so (leading zeros never do), and is located by its first digit.

use crate::error::{ErrorKind, Fault};
use crate::header::{ends_comment, is_white};
use crate::kernel::{BEFORE_BYTES, BLOCK_BYTES, Convert, Job, Kernel, sample};
use crate::limits::{PLAIN_STEP_BYTES, TAIL_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    /// In a number: its value and number of bytes so far, some of which may be in earlier pieces.
    Number {
        value: u32,
        digits: u64,
    },
    Comment,
}

/// The bytes consumed and samples produced by a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moved {
    pub(crate) consumed: usize,
    pub(crate) produced: usize,
}

impl Moved {
    /// Creates the result of consuming bytes that hold no sample.
    pub(crate) fn over(consumed: usize) -> Moved {
        Moved {
            consumed,
            produced: 0,
        }
    }
}

/// A parser of numbers up to a maximal value, separated by white space and comments.
pub(crate) struct TextSamples {
    state: State,
    maxval: u16,
    wide: bool,
    convert: Convert,
}

impl TextSamples {
    /// Creates a parser, with two bytes per sample if `maxval` is above 255.
    pub(crate) fn new(maxval: u16, kernel: Kernel) -> TextSamples {
        let wide = maxval > 255;
        TextSamples {
            state: State::Between,
            maxval,
            wide,
            convert: Convert::new(kernel, wide),
        }
    }

    /// Whether the position is between two numbers, and not in a comment.
    pub(crate) fn is_between(&self) -> bool {
        self.state == State::Between
    }

    /// Whether the position is in a comment.
    pub(crate) fn in_comment(&self) -> bool {
        self.state == State::Comment
    }

    /// Consumes text and writes samples until either runs out. Never consumes a byte after the
    /// separator of the last sample that there is room for.
    pub(crate) fn feed(&mut self, text: &[u8], out: &mut [u8]) -> Result<Moved, Fault> {
        let sample_bytes = 1 + usize::from(self.wide);
        let room = out.len() / sample_bytes;
        let mut moved = Moved::default();
        while moved.consumed < text.len() && moved.produced < room {
            let mut step_bytes = BEFORE_BYTES;
            if self.state == State::Between && moved.consumed >= BEFORE_BYTES {
                let run = self.convert.run(Job {
                    text,
                    start: moved.consumed,
                    out: &mut out[moved.produced * sample_bytes..],
                    maxval: self.maxval,
                });
                moved.consumed = run.at;
                moved.produced += run.produced;
                let out = &mut out[moved.produced * sample_bytes..];
                let rest = self.tail(&text[moved.consumed..], out).unwrap_or_default();
                moved.consumed += rest.consumed;
                moved.produced += rest.produced;
                step_bytes = PLAIN_STEP_BYTES;
            }
            let step = &text[moved.consumed..];
            let out = &mut out[moved.produced * sample_bytes..];
            let plain = if self.wide {
                self.plain::<2>(step, step_bytes, out)
            } else {
                self.plain::<1>(step, step_bytes, out)
            };
            let plain = plain.map_err(|fault| fault.after(moved.consumed))?;
            moved.consumed += plain.consumed;
            moved.produced += plain.produced;
        }
        Ok(moved)
    }

    /// Runs the kernel on a short rest, for which there is no whole block of text or room: on a
    /// copy padded with white space, into sufficient room. Leaves everything to the plain parser
    /// unless the kernel converts all of the rest's whole numbers, and they fit `out`.
    fn tail(&self, rest: &[u8], out: &mut [u8]) -> Option<Moved> {
        if rest.len() > TAIL_BYTES || out.is_empty() {
            return None;
        }
        // A number cut by the end may continue in the next piece.
        let whole = rest.iter().rposition(|byte| !byte.is_ascii_digit())? + 1;
        let mut padded = [b' '; BEFORE_BYTES + TAIL_BYTES + BLOCK_BYTES];
        padded[BEFORE_BYTES..][..whole].copy_from_slice(&rest[..whole]);
        let used = BEFORE_BYTES + whole.next_multiple_of(BLOCK_BYTES);
        let mut samples = [0; 2 * (TAIL_BYTES + BLOCK_BYTES)];
        let run = self.convert.run(Job {
            text: &padded[..used],
            start: BEFORE_BYTES,
            out: &mut samples,
            maxval: self.maxval,
        });
        let made_bytes = run.produced * (1 + usize::from(self.wide));
        if run.at < BEFORE_BYTES + whole || made_bytes > out.len() {
            return None;
        }
        out[..made_bytes].copy_from_slice(&samples[..made_bytes]);
        let last_digit = rest[..whole].iter().rposition(u8::is_ascii_digit);
        let consumed = match last_digit {
            // No byte after the separator of the last sample.
            Some(at) if made_bytes == out.len() => at + 2,
            _ => whole,
        };
        Some(Moved {
            consumed,
            produced: run.produced,
        })
    }

    /// The plain parser, with samples of `BYTES`: parses `step_bytes` of text and on to the next
    /// position between two numbers.
    fn plain<const BYTES: usize>(
        &mut self,
        text: &[u8],
        step_bytes: usize,
        out: &mut [u8],
    ) -> Result<Moved, Fault> {
        let (samples, _) = out.as_chunks_mut::<BYTES>();
        let (mut at, mut produced) = (0, 0);
        while at < text.len() && produced < samples.len() {
            match self.state {
                State::Comment => {
                    let rest = &text[at..];
                    let Some(end) = rest.iter().position(|&byte| ends_comment(byte)) else {
                        at = text.len();
                        break;
                    };
                    at += end + 1;
                    self.state = State::Between;
                }
                State::Between if at >= step_bytes => break,
                State::Between => {
                    let byte = text[at];
                    if byte.is_ascii_digit() {
                        let (value, digits) = (0, 0);
                        self.state = State::Number { value, digits };
                    } else {
                        self.state = separator(byte, at)?;
                        at += 1;
                    }
                }
                State::Number { value, digits } => {
                    let begin = at;
                    let (value, ended) = self.digits(value, digits, text, &mut at)?;
                    if !ended {
                        let digits = digits + (at - begin) as u64;
                        self.state = State::Number { value, digits };
                        break;
                    }
                    self.state = separator(text[at], at)?;
                    at += 1;
                    samples[produced] = sample(value as u16);
                    produced += 1;
                }
            }
        }
        Ok(Moved {
            consumed: at,
            produced,
        })
    }

    /// Advances over digits of a number, some of which may have been seen before; returns its value
    /// so far, and whether it ends here.
    #[inline]
    fn digits(
        &self,
        mut value: u32,
        digits_before: u64,
        text: &[u8],
        at: &mut usize,
    ) -> Result<(u32, bool), Fault> {
        let begin = *at;
        while let Some(&byte) = text.get(*at) {
            if !byte.is_ascii_digit() {
                return Ok((value, true));
            }
            value = value * 10 + u32::from(byte - b'0');
            if value > u32::from(self.maxval) {
                let before = i64::try_from(digits_before).unwrap_or(i64::MAX);
                return Err(Fault {
                    kind: ErrorKind::SampleTooLarge,
                    at: begin as i64 - before,
                });
            }
            *at += 1;
        }
        Ok((value, false))
    }

    /// Ends the text, which completes a begun number; returns whether one was written to `out`.
    pub(crate) fn end(&mut self, out: &mut [u8]) -> bool {
        let State::Number { value, .. } = self.state else {
            return false;
        };
        let sample_bytes = 1 + usize::from(self.wide);
        if out.len() < sample_bytes {
            return false;
        }
        match sample_bytes {
            1 => out[0] = value as u8,
            _ => out[..2].copy_from_slice(&sample::<2>(value as u16)),
        }
        self.state = State::Between;
        true
    }
}

/// Returns the state after a byte that is not a digit.
#[inline]
fn separator(byte: u8, at: usize) -> Result<State, Fault> {
    match byte {
        b'#' => Ok(State::Comment),
        byte if is_white(byte) => Ok(State::Between),
        _ => Err(Fault::new(ErrorKind::UnexpectedByte(byte), at)),
    }
}

/// Parses the samples of P1, digits 0 and 1 that need no separators, like [`TextSamples::feed`];
/// 1 is black, which is 0 in memory. `in_comment`: whether the position is in a comment.
pub(crate) fn bits(text: &[u8], out: &mut [u8], in_comment: &mut bool) -> Result<Moved, Fault> {
    let mut moved = Moved::default();
    for (at, &byte) in text.iter().enumerate() {
        if moved.produced == out.len() {
            break;
        }
        match byte {
            _ if *in_comment => *in_comment = !ends_comment(byte),
            b'0' | b'1' => {
                out[moved.produced] = b'1' - byte;
                moved.produced += 1;
            }
            b'#' => *in_comment = true,
            byte if is_white(byte) => {}
            _ => return Err(Fault::new(ErrorKind::UnexpectedByte(byte), at)),
        }
        moved.consumed = at + 1;
    }
    Ok(moved)
}
