//! Lists of numbers in text, for other formats (meshes, tables): the kernels of the images, without
//! their headers and comments.
//!
//! Numbers are separated by white space, or by white space and commas, of which each must have a
//! number before it. Integers are decimal and may have a sign. Lists of `u8` and `u16` go through
//! the vector kernels. Floats are decimal, with an optional exponent, and correctly rounded (by the
//! crate `fast-float2`, after Lemire, "Number Parsing at a Gigabyte per Second", 2021); one beyond
//! the type's range becomes infinite, as rounding has it.
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

/// What stands between numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Separators {
    /// White space: spaces, tabs, and what ends lines or pages.
    WhiteSpace,
    /// White space and commas; each comma has a number before it.
    Commas,
}

/// A type of number that lists can be of.
pub trait Number: Copy + Default + sealed::Sealed {}

/// All numbers of a text.
///
/// # Errors
/// Something is no number, does not fit the type, or a comma has no number before it; with offset,
/// line and column; or there is not enough memory.
pub fn parse<N: Number>(text: &[u8], separators: Separators) -> Result<Vec<N>, Error> {
    // A number takes two bytes at least, but for the last.
    let zeros = N::new_vec_zeroed(text.len() / 2 + 1);
    let mut numbers = zeros.map_err(|_| Error::at(ErrorKind::OutOfMemory, 0))?;
    let count = parse_into(text, separators, &mut numbers)?;
    numbers.truncate(count);
    numbers.shrink_to_fit();
    Ok(numbers)
}

/// All numbers of a text, into memory of the caller's; how many.
///
/// # Errors
/// As [`parse`], or there is no room for all of them. What `out` holds then is of no meaning.
pub fn parse_into<N: Number>(
    text: &[u8],
    separators: Separators,
    out: &mut [N],
) -> Result<usize, Error> {
    parse_with(text, separators, Kernel::fastest(), out)
}

/// As [`parse_into`], with a kernel of the caller's choice; the portable one, where the machine
/// cannot run it.
///
/// # Errors
/// As [`parse_into`].
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
        // Behind a separator, unless the last number ends the text.
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
    /// Between two tokens; everything before is done with.
    at: usize,
    commas: bool,
    /// A number stands before, with no comma since.
    number_before: bool,
}

impl List<'_> {
    /// A kernel came until here.
    fn take_run(&mut self, at: usize) {
        if at == self.at {
            return;
        }
        // It stops behind a separator that follows a number at once, or behind more white space;
        // a comma only follows a number at once.
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

        /// The number that a token is.
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
                    // Words for infinity and the like are no decimal numbers.
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
