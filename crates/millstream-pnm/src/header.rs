//! Parsing headers a byte at a time, so that they may arrive in pieces.
//!
//! Accepted are, after the magic number, numbers separated by any white space and comments. A
//! comment begins with `#` anywhere, even right after a number, and ends with a line feed or
//! carriage return; that byte then counts as white space. So the one byte of white space between
//! header and samples may be the end of a comment, as in the reference implementation. PAM headers
//! are lines of a word and a value; lines that begin with `#` are comments.

use crate::error::{ErrorKind, Fault};
use crate::format::{Format, Header, TupleType};
use crate::limits::{DIMENSION_MAX, MAXVAL_MAX, PAM_LINE_BYTES_MAX, TUPLE_TYPE_BYTES_MAX};

/// Whether a byte is one of the six white space characters.
pub(crate) const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0D)
}

/// Whether a byte ends a comment.
pub(crate) const fn ends_comment(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Bytes of the magic number seen; 2: before the byte after it.
    Magic(u8),
    Between,
    Number,
    Comment,
    /// After P7, up to the end of its line.
    PamFirstLine,
    /// In a line of a PAM header, from its first byte on.
    PamLine,
    PamComment,
    Ended,
}

/// An incremental parser of one header.
#[derive(Debug)]
pub(crate) struct HeaderParser {
    state: State,
    format: Format,
    /// Width, height, depth (of PAM only) and maximal value, once seen.
    width: Option<u32>,
    height: Option<u32>,
    depth: Option<u32>,
    maxval: Option<u32>,
    /// The value so far of the current number.
    number: u32,
    line: Vec<u8>,
    tuple_type: String,
}

impl HeaderParser {
    pub(crate) fn new() -> HeaderParser {
        HeaderParser {
            state: State::Magic(0),
            format: Format::PlainBitmap,
            width: None,
            height: None,
            depth: None,
            maxval: None,
            number: 0,
            line: Vec::new(),
            tuple_type: String::new(),
        }
    }

    /// Takes bytes until the header ends; returns how many, and the header if it ended.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(usize, Option<Header>), Fault> {
        for (at, byte) in bytes.iter().enumerate() {
            self.byte(*byte).map_err(|kind| Fault::new(kind, at))?;
            if self.state == State::Ended {
                let header = self.header().map_err(|kind| Fault::new(kind, at))?;
                return Ok((at + 1, Some(header)));
            }
        }
        Ok((bytes.len(), None))
    }

    fn byte(&mut self, byte: u8) -> Result<(), ErrorKind> {
        match self.state {
            State::Magic(0) => {
                self.state = State::Magic(1);
                (byte == b'P').then_some(()).ok_or(ErrorKind::NotPnm)
            }
            State::Magic(1) => {
                self.format = Format::of_digit(byte).ok_or(ErrorKind::NotPnm)?;
                self.state = State::Magic(2);
                Ok(())
            }
            State::Magic(_) if self.format == Format::Arbitrary => self.first_line(byte),
            State::Magic(_) if !is_white(byte) && byte != b'#' => Err(ErrorKind::NotPnm),
            State::Magic(_) | State::Between => self.between(byte),
            State::Number => self.number(byte),
            State::Comment => {
                if ends_comment(byte) {
                    self.state = self.behind_separator();
                }
                Ok(())
            }
            State::PamFirstLine => self.first_line(byte),
            State::PamLine => self.pam_byte(byte),
            State::PamComment => {
                if byte == b'\n' {
                    self.state = State::PamLine;
                }
                Ok(())
            }
            State::Ended => unreachable!("no byte is taken behind the header"),
        }
    }

    fn between(&mut self, byte: u8) -> Result<(), ErrorKind> {
        match byte {
            b'#' => self.state = State::Comment,
            byte if is_white(byte) => self.state = State::Between,
            b'0'..=b'9' => {
                self.state = State::Number;
                self.number = u32::from(byte - b'0');
            }
            _ => return Err(ErrorKind::Header("a byte in the header that is no number")),
        }
        Ok(())
    }

    fn number(&mut self, byte: u8) -> Result<(), ErrorKind> {
        if byte.is_ascii_digit() {
            let number = u64::from(self.number) * 10 + u64::from(byte - b'0');
            let number = u32::try_from(number).ok();
            self.number =
                number
                    .filter(|&number| number <= DIMENSION_MAX)
                    .ok_or(ErrorKind::Header(
                        "a number in the header is above 2147483647",
                    ))?;
            return Ok(());
        }
        if !is_white(byte) && byte != b'#' {
            return Err(ErrorKind::Header("a byte in the header that is no number"));
        }
        self.keep_number()?;
        self.state = match byte {
            b'#' => State::Comment,
            _ => self.behind_separator(),
        };
        Ok(())
    }

    fn keep_number(&mut self) -> Result<(), ErrorKind> {
        let number = self.number;
        if self.width.is_none() {
            self.width = Some(dimension(number)?);
        } else if self.height.is_none() {
            self.height = Some(dimension(number)?);
        } else {
            self.maxval = Some(maximal(number)?);
        }
        Ok(())
    }

    /// Returns the state after white space: more numbers, or the end of the header.
    fn behind_separator(&self) -> State {
        let whole = match self.format {
            Format::PlainBitmap | Format::Bitmap => self.height.is_some(),
            _ => self.maxval.is_some(),
        };
        if whole { State::Ended } else { State::Between }
    }

    fn first_line(&mut self, byte: u8) -> Result<(), ErrorKind> {
        self.state = match byte {
            b'\n' => State::PamLine,
            byte if is_white(byte) => State::PamFirstLine,
            _ => return Err(ErrorKind::NotPnm),
        };
        Ok(())
    }

    fn pam_byte(&mut self, byte: u8) -> Result<(), ErrorKind> {
        match byte {
            b'#' if self.line.is_empty() => self.state = State::PamComment,
            b'\n' => {
                let line = std::mem::take(&mut self.line);
                self.pam_line(&line)?;
            }
            _ if self.line.len() == PAM_LINE_BYTES_MAX => {
                return Err(ErrorKind::Header("a line of the header is too long"));
            }
            _ => self.line.push(byte),
        }
        Ok(())
    }

    fn pam_line(&mut self, line: &[u8]) -> Result<(), ErrorKind> {
        let line = trim(line);
        let split = line.iter().position(|&byte| is_white(byte));
        let (word, value) = line.split_at(split.unwrap_or(line.len()));
        let value = trim(value);
        let (field, check): (_, fn(u32) -> _) = match word {
            b"" => return Ok(()),
            b"ENDHDR" if value.is_empty() => {
                self.state = State::Ended;
                return Ok(());
            }
            b"TUPLTYPE" => return self.add_tuple_type(value),
            b"WIDTH" => (&mut self.width, dimension),
            b"HEIGHT" => (&mut self.height, dimension),
            b"DEPTH" => (&mut self.depth, dimension),
            b"MAXVAL" => (&mut self.maxval, maximal),
            _ => {
                let cause = "an unknown line in the header; ENDHDR missing?";
                return Err(ErrorKind::Header(cause));
            }
        };
        if field.is_some() {
            return Err(ErrorKind::Header("a line of the header comes twice"));
        }
        *field = Some(check(pam_number(value)?)?);
        Ok(())
    }

    /// Appends a tuple type line, separated from the ones before by a space.
    fn add_tuple_type(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
        if value.is_empty() {
            return Err(ErrorKind::Header("a tuple type without a name"));
        }
        if !self.tuple_type.is_empty() {
            self.tuple_type.push(' ');
        }
        self.tuple_type.push_str(&String::from_utf8_lossy(value));
        if self.tuple_type.len() > TUPLE_TYPE_BYTES_MAX {
            return Err(ErrorKind::Header("the tuple type is too long"));
        }
        Ok(())
    }

    /// Validates and returns the complete header.
    fn header(&mut self) -> Result<Header, ErrorKind> {
        let missing = |cause| move || ErrorKind::Header(cause);
        let channels = match self.format.channels() {
            Some(channels) => channels,
            None => self.depth.ok_or_else(missing("the header has no DEPTH"))?,
        };
        let maxval = match self.maxval {
            Some(maxval) => maxval,
            None if self.format.is_bilevel() => 1,
            None => return Err(ErrorKind::Header("the header has no MAXVAL")),
        };
        let tuple_type = match self.format {
            Format::Arbitrary => TupleType::from_name(&self.tuple_type),
            format => TupleType::of(format),
        };
        let header = Header {
            format: self.format,
            width: self.width.ok_or_else(missing("the header has no WIDTH"))?,
            height: self
                .height
                .ok_or_else(missing("the header has no HEIGHT"))?,
            channels,
            maxval: maxval as u16,
            tuple_type,
        };
        if header.channels < header.tuple_type.channels_min() {
            return Err(ErrorKind::Header("fewer channels than the tuple type has"));
        }
        if header.tuple_type == TupleType::BlackAndWhite && header.maxval != 1 {
            return Err(ErrorKind::Header("BLACKANDWHITE has the maximal value 1"));
        }
        header.checked_sample_count().ok_or(ErrorKind::TooLarge)?;
        Ok(header)
    }
}

fn dimension(number: u32) -> Result<u32, ErrorKind> {
    match number {
        0 => Err(ErrorKind::Header("width, height and depth are 1 at least")),
        number => Ok(number),
    }
}

fn maximal(number: u32) -> Result<u32, ErrorKind> {
    if (1..=MAXVAL_MAX).contains(&number) {
        Ok(number)
    } else {
        Err(ErrorKind::Header("the maximal value is from 1 to 65535"))
    }
}

fn pam_number(value: &[u8]) -> Result<u32, ErrorKind> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u32>()
        .ok()
        .filter(|&number| digits && number <= DIMENSION_MAX)
        .ok_or(ErrorKind::Header(
            "a line of the header has no number from 0 to 2147483647",
        ))
}

fn trim(bytes: &[u8]) -> &[u8] {
    let is_kept = |byte: &u8| !is_white(*byte);
    let begin = bytes.iter().position(is_kept).unwrap_or(bytes.len());
    let end = bytes
        .iter()
        .rposition(is_kept)
        .map_or(begin, |last| last + 1);
    &bytes[begin..end]
}
