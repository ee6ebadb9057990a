//! Writing images.

use std::io::{self, Write};

use crate::format::{Format, Header};
use crate::image::{Image, Samples};

/// Maximum characters of a line of text, by the formats.
const LINE_CHARS_MAX: usize = 70;
/// Bytes buffered before they are written.
const GATHER_BYTES: usize = 64 << 10;

/// Writes an image in the format of its header. Does not flush the writer.
///
/// ```
/// let image = millstream_pnm::decode(b"P2 2 1 9 # grey\n4   5")?;
/// let mut bytes = Vec::new();
/// millstream_pnm::encode(&image, &mut bytes)?;
/// assert_eq!(bytes, b"P2\n2 1\n9\n4 5\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The writer fails; or `InvalidInput`: the samples do not match the header, or the format cannot
/// hold them.
pub fn encode(image: &Image, to: &mut dyn Write) -> io::Result<()> {
    check(image).map_err(|cause| io::Error::new(io::ErrorKind::InvalidInput, cause))?;
    let header = &image.header;
    to.write_all(head(header).as_bytes())?;
    let mut gathered = Gathered {
        to,
        bytes: Vec::with_capacity(GATHER_BYTES + 16),
        column: 0,
    };
    match (&image.samples, header.format) {
        (Samples::U8(samples), Format::Bitmap) => {
            for row in samples.chunks(header.width as usize) {
                for pixels in row.chunks(8) {
                    let bit = |(index, pixel): (usize, &u8)| (1 - pixel) << (7 - index);
                    let byte = pixels.iter().enumerate().map(bit).sum();
                    gathered.put(&[byte])?;
                }
            }
        }
        (Samples::U8(samples), Format::PlainBitmap) => {
            for sample in samples {
                gathered.word(u16::from(1 - sample))?;
            }
        }
        (Samples::U8(samples), format) if format.is_plain() => {
            for sample in samples {
                gathered.word(u16::from(*sample))?;
            }
        }
        (Samples::U16(samples), format) if format.is_plain() => {
            for sample in samples {
                gathered.word(*sample)?;
            }
        }
        (Samples::U8(samples), _) => return gathered.to.write_all(samples),
        (Samples::U16(samples), _) => {
            for sample in samples {
                gathered.put(&sample.to_be_bytes())?;
            }
        }
    }
    if gathered.column > 0 {
        gathered.put(b"\n")?;
    }
    gathered.to.write_all(&gathered.bytes)
}

fn check(image: &Image) -> Result<(), &'static str> {
    let header = &image.header;
    if header.width == 0 || header.height == 0 || header.channels == 0 || header.maxval == 0 {
        return Err("width, height, channels and maximal value are 1 at least");
    }
    if header.checked_sample_count() != Some(image.samples.len() as u64) {
        return Err("the number of samples is not what the header says");
    }
    let format = header.format;
    if format
        .channels()
        .is_some_and(|channels| channels != header.channels)
    {
        return Err("the format has another number of channels");
    }
    if format == Format::Arbitrary && header.channels < header.tuple_type.channels_min() {
        return Err("fewer channels than the tuple type has");
    }
    if format == Format::Arbitrary && header.tuple_type.name().contains('\n') {
        return Err("a tuple type is a line");
    }
    if format.is_bilevel() && header.maxval != 1 {
        return Err("a bilevel format has the maximal value 1");
    }
    let most = match &image.samples {
        Samples::U8(samples) if header.sample_bytes() == 1 => {
            samples.iter().copied().max().map(u16::from)
        }
        Samples::U16(samples) if header.sample_bytes() == 2 => samples.iter().copied().max(),
        _ => return Err("the samples are not of the width that the maximal value asks for"),
    };
    if most.is_some_and(|most| most > header.maxval) {
        return Err("a sample is larger than the maximal value");
    }
    Ok(())
}

fn head(header: &Header) -> String {
    let (magic, maxval) = (header.format.magic(), header.maxval);
    let (width, height, channels) = (header.width, header.height, header.channels);
    match header.format {
        Format::PlainBitmap | Format::Bitmap => format!("{magic}\n{width} {height}\n"),
        Format::Arbitrary => {
            let tuple_type = match header.tuple_type.name() {
                "" => String::new(),
                name => format!("TUPLTYPE {name}\n"),
            };
            format!(
                "{magic}\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {maxval}\n\
                 {tuple_type}ENDHDR\n"
            )
        }
        _ => format!("{magic}\n{width} {height}\n{maxval}\n"),
    }
}

struct Gathered<'a> {
    to: &'a mut dyn Write,
    bytes: Vec<u8>,
    /// Characters in the current line of text.
    column: usize,
}

impl Gathered<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= GATHER_BYTES {
            self.to.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    /// Writes a number after a space or on a new line.
    fn word(&mut self, value: u16) -> io::Result<()> {
        let mut digits = [0; 5];
        let mut begin = digits.len();
        let mut rest = value;
        loop {
            begin -= 1;
            digits[begin] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let digits = &digits[begin..];
        if self.column + 1 + digits.len() > LINE_CHARS_MAX {
            self.put(b"\n")?;
            self.column = 0;
        } else if self.column > 0 {
            self.put(b" ")?;
            self.column += 1;
        }
        self.column += digits.len();
        self.put(digits)
    }
}
