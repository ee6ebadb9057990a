//! Samples in text: the plain parser, and how it and a kernel share the work.
//!
//! The plain parser is a state machine over single bytes. It defines what every input means, can be
//! stopped and resumed anywhere, and is what the kernels are checked against. A kernel runs only
//! from a place between two numbers; where it stops, because text or room run out or something is
//! unusual, the plain parser does a step, and the kernel gets another chance behind it.
//!
//! Where several things are wrong the first byte that shows one decides: a sample is too large from
//! the digit on that makes it so, and is named by its first digit; leading zeros do not count.

use crate::error::{ErrorKind, Fault};
use crate::header::{ends_comment, is_white};
use crate::kernel::{BEFORE_BYTES, BLOCK_BYTES, Convert, Job, Kernel, sample};
use crate::limits::{PLAIN_STEP_BYTES, TAIL_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    /// In a number: its value so far, and its bytes, of which some may be in pieces before.
    Number {
        value: u32,
        digits: u64,
    },
    Comment,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moved {
    pub(crate) consumed: usize,
    pub(crate) produced: usize,
}

impl Moved {
    /// So many bytes were taken, which hold no sample.
    pub(crate) fn over(consumed: usize) -> Moved {
        Moved {
            consumed,
            produced: 0,
        }
    }
}

/// Numbers up to a maximal value, with white space and comments between them.
pub(crate) struct TextSamples {
    state: State,
    maxval: u16,
    wide: bool,
    convert: Convert,
}

impl TextSamples {
    /// Two bytes a sample if `maxval` is above 255.
    pub(crate) fn new(maxval: u16, kernel: Kernel) -> TextSamples {
        let wide = maxval > 255;
        TextSamples {
            state: State::Between,
            maxval,
            wide,
            convert: Convert::new(kernel, wide, false),
        }
    }

    /// Whether no number is begun.
    pub(crate) fn is_between(&self) -> bool {
        self.state == State::Between
    }

    /// Whether a comment is begun.
    pub(crate) fn in_comment(&self) -> bool {
        self.state == State::Comment
    }

    /// Takes text and makes samples until either runs out. Never takes a byte behind the separator
    /// of the last sample that there is room for.
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

    /// Has the kernel convert a short rest, for which there is no whole block of text or room: from
    /// a copy with white space behind it, into room that is wide enough. Leaves everything to the
    /// plain parser unless all of the rest's whole numbers are usual and fit.
    fn tail(&self, rest: &[u8], out: &mut [u8]) -> Option<Moved> {
        if rest.len() > TAIL_BYTES || out.is_empty() {
            return None;
        }
        // A number that the end cuts may go on in the next piece.
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
            // No byte behind the separator of the last sample.
            Some(at) if made_bytes == out.len() => at + 2,
            _ => whole,
        };
        Some(Moved {
            consumed,
            produced: run.produced,
        })
    }

    /// The plain parser, with samples of `BYTES`: so many bytes of text and on to the next place
    /// between two numbers.
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

    /// Goes over digits of a number, of which some were seen before: its value so far, and whether
    /// it ends here.
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

    /// The text has ended: a number that is begun is whole. Whether it was put into `out`.
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

/// The state behind a byte that is no digit.
#[inline]
fn separator(byte: u8, at: usize) -> Result<State, Fault> {
    match byte {
        b'#' => Ok(State::Comment),
        byte if is_white(byte) => Ok(State::Between),
        _ => Err(Fault::new(ErrorKind::UnexpectedByte(byte), at)),
    }
}

/// The samples of P1: digits 0 and 1, which need nothing between them. 1 is black, which is 0. As
/// [`TextSamples::feed`]; `in_comment` says whether a comment is begun.
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
