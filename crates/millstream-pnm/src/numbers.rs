//! Parsing lists of numbers in text, for other formats (meshes, tables), with the kernels of the
//! image formats, without headers and comments.
//!
//! Numbers are separated by white space, or by white space and commas, each of which must have a
//! number before it. Integers are decimal and may have a sign. Lists of `u8` and `u16` use the
//! vector kernels. Floats are decimal, with an optional exponent, and correctly rounded (by the
//! crate `fast-float2`, after Lemire, "Number Parsing at a Gigabyte per Second", 2021); a value
//! beyond the type's range rounds to infinity.
//!
//! ```
//! use millstream_pnm::numbers::{Separators, parse};
//! let faces: Vec<u32> = parse(b"1 2 3\n3 4 1\n", Separators::WhiteSpace)?;
//! assert_eq!(faces, [1, 2, 3, 3, 4, 1]);
//! let row: Vec<f32> = parse(b"0.1, -2e3, 5", Separators::Commas)?;
//! assert_eq!(row, [0.1, -2000.0, 5.0]);
//! # Ok::<(), millstream_pnm::Error>(())
//! ```

use zerocopy::IntoBytes as _;

use crate::error::{Error, ErrorKind, Place};
use crate::header::is_white;
use crate::kernel::{BEFORE_BYTES, Convert, Job, Kernel};
use crate::limits::PLAIN_STEP_BYTES;

/// The separators between numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Separators {
    /// White space: spaces, tabs, and line or page breaks.
    WhiteSpace,
    /// White space and commas; each comma has a number before it.
    Commas,
}

/// A type of number that can be parsed.
pub trait Number: Copy + Default + sealed::Sealed {}

/// Parses all numbers of a text.
///
/// # Errors
/// A token is not a number or does not fit the type, or a comma has no number before it; with
/// offset, line and column. `OutOfMemory`.
pub fn parse<N: Number>(text: &[u8], separators: Separators) -> Result<Vec<N>, Error> {
    // A number takes at least two bytes, except the last.
    let zeros = N::new_vec_zeroed(text.len() / 2 + 1);
    let mut numbers = zeros.map_err(|_| Error::at(ErrorKind::OutOfMemory, 0))?;
    let count = parse_into(text, separators, &mut numbers)?;
    numbers.truncate(count);
    numbers.shrink_to_fit();
    Ok(numbers)
}

/// Parses all numbers of a text into `out`; returns how many.
///
/// # Errors
/// Those of [`parse`]; `NoRoom` if `out` is too small. The contents of `out` are then unspecified.
pub fn parse_into<N: Number>(
    text: &[u8],
    separators: Separators,
    out: &mut [N],
) -> Result<usize, Error> {
    parse_with(text, separators, Kernel::fastest(), out)
}

/// Like [`parse_into`], with the given kernel, or the portable one if this machine cannot run it.
///
/// # Errors
/// Those of [`parse_into`].
pub fn parse_with<N: Number>(
    text: &[u8],
    separators: Separators,
    kernel: Kernel,
    out: &mut [N],
) -> Result<usize, Error> {
    let commas = separators == Separators::Commas;
    let mut list = List {
        text,
        at: 0,
        commas,
        number_before: false,
    };
    let mut count = 0;
    loop {
        list.skip_separators().map_err(|kind| list.error(kind))?;
        // After a separator, unless the last number ends the text.
        let may_run = (BEFORE_BYTES..text.len()).contains(&list.at);
        if may_run && let Some(maxval) = N::KERNEL_MAX {
            let run = Convert::new(kernel, maxval > 255, commas).run(Job {
                text,
                start: list.at,
                out: out[count..].as_mut_bytes(),
                maxval,
            });
            count += run.produced;
            list.take_run(run.at);
        }
        let until = list.at + PLAIN_STEP_BYTES;
        while list.at < until {
            let Some(token) = list.next_token().map_err(|kind| list.error(kind))? else {
                return Ok(count);
            };
            let words = str::from_utf8(&text[token.clone()]).map_err(|_| ErrorKind::NotANumber);
            let number = words.and_then(N::of_token).map_err(|kind| {
                list.at = token.start;
                list.error(kind)
            })?;
            let Some(room) = out.get_mut(count) else {
                list.at = token.start;
                return Err(list.error(ErrorKind::NoRoom));
            };
            *room = number;
            count += 1;
        }
    }
}

/// A walk over tokens.
struct List<'a> {
    text: &'a [u8],
    /// Offset between two tokens; everything before it is parsed.
    at: usize,
    commas: bool,
    /// Whether a number comes before, with no comma since.
    number_before: bool,
}

impl List<'_> {
    /// Advances to `at`, up to which a kernel has converted the text.
    fn take_run(&mut self, at: usize) {
        if at == self.at {
            return;
        }
        // A kernel stops after a separator directly following a number, or after more white space;
        // it accepts a comma only directly after a number.
        let since = self.text[..at].iter().rposition(|&byte| !is_white(byte));
        self.number_before = since.is_some_and(|last| self.text[last] != b',');
        self.at = at;
    }

    fn skip_separators(&mut self) -> Result<(), ErrorKind> {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                byte if is_white(byte) => {}
                b',' if self.commas => {
                    if !self.number_before {
                        return Err(ErrorKind::EmptyField);
                    }
                    self.number_before = false;
                }
                _ => break,
            }
            self.at += 1;
        }
        Ok(())
    }

    fn next_token(&mut self) -> Result<Option<std::ops::Range<usize>>, ErrorKind> {
        self.skip_separators()?;
        let start = self.at;
        if start == self.text.len() {
            return Ok(None);
        }
        let ends = |byte: &u8| is_white(*byte) || (self.commas && *byte == b',');
        let rest = &self.text[start..];
        let len = rest.iter().position(ends).unwrap_or(rest.len());
        self.at = start + len;
        self.number_before = true;
        Ok(Some(start..self.at))
    }

    fn error(&self, kind: ErrorKind) -> Error {
        let mut place = Place::default();
        place.advance(&self.text[..self.at], true);
        let (line, column) = place.line_and_column();
        Error {
            kind,
            offset: place.offset,
            line: Some(line),
            column: Some(column),
        }
    }
}

mod sealed {
    use std::num::IntErrorKind;

    use zerocopy::{FromBytes, IntoBytes};

    use super::ErrorKind;

    pub trait Sealed: FromBytes + IntoBytes + Sized {
        /// The largest number of the type, if there are kernels for it.
        const KERNEL_MAX: Option<u16> = None;

        /// Parses a token.
        fn of_token(token: &str) -> Result<Self, ErrorKind>;
    }

    macro_rules! integers {
        ($($type:ty, $kernel_max:expr;)*) => {$(
            impl super::Number for $type {}
            impl Sealed for $type {
                const KERNEL_MAX: Option<u16> = $kernel_max;

                fn of_token(token: &str) -> Result<$type, ErrorKind> {
                    token.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
                        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
                            ErrorKind::NumberTooLarge
                        }
                        _ => ErrorKind::NotANumber,
                    })
                }
            }
        )*};
    }

    integers! {
        u8, Some(u8::MAX as u16);
        u16, Some(u16::MAX);
        u32, None;
        u64, None;
        i8, None;
        i16, None;
        i32, None;
        i64, None;
    }

    macro_rules! floats {
        ($($type:ty)*) => {$(
            impl super::Number for $type {}
            impl Sealed for $type {
                fn of_token(token: &str) -> Result<$type, ErrorKind> {
                    // Words such as `inf` and `nan` are not decimal numbers.
                    if token.contains(|c| !matches!(c, '0'..='9' | '.' | '+' | '-' | 'e' | 'E')) {
                        return Err(ErrorKind::NotANumber);
                    }
                    fast_float2::parse(token).map_err(|_| ErrorKind::NotANumber)
                }
            }
        )*};
    }

    floats!(f32 f64);
}
