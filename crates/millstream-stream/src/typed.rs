//! Fields: numbers of either byte order, plain data in one copy, strings with a limit, LEB128.
//!
//! A length from the stream is not trusted: memory is allocated ahead of the bytes read by at most
//! [`limits::UNSEEN_BYTES_MAX`], or as many bytes as were read already.
//!
//! Plain data is what zerocopy calls `FromBytes` and `IntoBytes`: integers, floats, arrays and
//! structures of them. It is copied as it lies in memory; for a fixed byte order use zerocopy's
//! types (`zerocopy::big_endian::U32`), which are plain data too.
//!
//! LEB128 is the variable-length number of DWARF (version 5, section 7.6): seven bits a byte,
//! lowest first. Numbers of more than 64 bits are an error; the shortest form is written, and
//! overlong forms are read up to ten bytes.
//!
//! ```
//! use millstream_stream::{MemoryStream, ReadTyped, Stream, WriteTyped};
//! let mut stream = MemoryStream::new();
//! stream.write_u16_be(0x1234)?;
//! stream.write_leb128(300)?;
//! stream.write_string("hull")?;
//! stream.write_plain(&[[1.0f32, 2.0, 3.0]; 4])?;
//! stream.seek_to(0)?;
//! assert_eq!(stream.read_u16_be()?, 0x1234);
//! assert_eq!(stream.read_leb128()?, 300);
//! assert_eq!(stream.read_string(64)?, "hull");
//! let mut vectors = [[0.0f32; 3]; 4];
//! stream.read_plain(&mut vectors)?;
//! assert_eq!(vectors[3], [1.0, 2.0, 3.0]);
//! # Ok::<(), millstream_stream::Error>(())
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::stream::{ReadStream, WriteStream};

macro_rules! readers {
    ($($number:ty, $le:ident, $be:ident;)*) => {$(
        #[doc = concat!("Reads a `", stringify!($number), "`, lowest byte first.")]
        #[inline(always)]
        fn $le(&mut self) -> Result<$number> {
            Ok(<$number>::from_le_bytes(self.next()?))
        }
        #[doc = concat!("Reads a `", stringify!($number), "`, highest byte first.")]
        #[inline(always)]
        fn $be(&mut self) -> Result<$number> {
            Ok(<$number>::from_be_bytes(self.next()?))
        }
    )*};
}

macro_rules! writers {
    ($($number:ty, $le:ident, $be:ident;)*) => {$(
        #[doc = concat!("Writes a `", stringify!($number), "`, lowest byte first.")]
        #[inline(always)]
        fn $le(&mut self, value: $number) -> Result<()> {
            self.put(value.to_le_bytes())
        }
        #[doc = concat!("Writes a `", stringify!($number), "`, highest byte first.")]
        #[inline(always)]
        fn $be(&mut self, value: $number) -> Result<()> {
            self.put(value.to_be_bytes())
        }
    )*};
}

/// Reads fields. Implemented by every [`ReadStream`]. Where nothing else is said, a method fails as
/// [`ReadStream::read_slice`] does.
pub trait ReadTyped: ReadStream + Sized {
    readers! {
        u16, read_u16_le, read_u16_be;
        u32, read_u32_le, read_u32_be;
        u64, read_u64_le, read_u64_be;
        u128, read_u128_le, read_u128_be;
        i16, read_i16_le, read_i16_be;
        i32, read_i32_le, read_i32_be;
        i64, read_i64_le, read_i64_be;
        i128, read_i128_le, read_i128_be;
        f32, read_f32_le, read_f32_be;
        f64, read_f64_le, read_f64_be;
    }

    /// Reads a byte.
    #[inline(always)]
    fn read_u8(&mut self) -> Result<u8> {
        Ok(self.next::<1>()?[0])
    }

    /// Reads a signed byte.
    #[inline(always)]
    fn read_i8(&mut self) -> Result<i8> {
        Ok(i8::from_le_bytes(self.next()?))
    }

    /// Reads a byte that is 0 or 1.
    ///
    /// # Errors
    /// As [`ReadStream::read_slice`], and `Corrupt` for another byte.
    #[inline]
    fn read_bool(&mut self) -> Result<bool> {
        match self.read_u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => {
                let (at, cause) = (self.position() - 1, "a truth value is neither 0 nor 1");
                Err(Error::new(ErrorKind::Corrupt, at, 1, cause))
            }
        }
    }

    /// Fills `into` in one copy.
    fn read_plain<T: FromBytes + IntoBytes>(&mut self, into: &mut [T]) -> Result<()> {
        self.read_slice(into.as_mut_bytes())
    }

    /// Reads a number of elements (LEB128), at most `max`, and that many elements.
    ///
    /// # Errors
    /// As [`ReadStream::read_slice`]; `Limit` beyond `max`; `OutOfMemory`.
    fn read_plain_vec<T: FromBytes + IntoBytes>(&mut self, max: usize) -> Result<Vec<T>> {
        let count = read_count(self, max)?;
        let step = (limits::UNSEEN_BYTES_MAX / size_of::<T>().max(1)).max(1);
        let mut elements = Vec::new();
        while elements.len() < count {
            let seen = elements.len();
            let more = (count - seen).min(step.max(seen));
            let at = self.position();
            elements
                .try_reserve(more)
                .map_err(|_| no_memory(at, count))?;
            elements.resize_with(seen + more, T::new_zeroed);
            self.read_plain(&mut elements[seen..])?;
        }
        Ok(elements)
    }

    /// Reads a length (LEB128), at most `max`, and that many bytes of UTF-8.
    ///
    /// # Errors
    /// As [`ReadTyped::read_plain_vec`]; `Corrupt` if they are not UTF-8.
    fn read_string(&mut self, max: usize) -> Result<String> {
        let bytes = self.read_plain_vec::<u8>(max)?;
        let start = self.position() - bytes.len() as u64;
        String::from_utf8(bytes).map_err(|error| {
            let error = error.utf8_error();
            let at = start + error.valid_up_to() as u64;
            Error::new(ErrorKind::Corrupt, at, 1, "a string is not UTF-8")
        })
    }

    /// Reads an unsigned LEB128 number.
    ///
    /// # Errors
    /// As [`ReadStream::read_slice`]; `Corrupt` beyond 64 bits.
    #[inline]
    fn read_leb128(&mut self) -> Result<u64> {
        Ok(leb128(self, |tenth| tenth <= 1)?.0)
    }

    /// Reads a signed LEB128 number.
    ///
    /// # Errors
    /// As [`ReadTyped::read_leb128`].
    #[inline]
    fn read_leb128_signed(&mut self) -> Result<i64> {
        let (value, bits) = leb128(self, |tenth| tenth == 0 || tenth == 0x7F)?;
        let unused = 64 - bits.min(64);
        Ok(value.cast_signed() << unused >> unused)
    }
}

impl<S: ReadStream> ReadTyped for S {}

/// Writes fields. Implemented by every [`WriteStream`]. Each method fails as
/// [`WriteStream::write_slice`] does.
pub trait WriteTyped: WriteStream + Sized {
    writers! {
        u16, write_u16_le, write_u16_be;
        u32, write_u32_le, write_u32_be;
        u64, write_u64_le, write_u64_be;
        u128, write_u128_le, write_u128_be;
        i16, write_i16_le, write_i16_be;
        i32, write_i32_le, write_i32_be;
        i64, write_i64_le, write_i64_be;
        i128, write_i128_le, write_i128_be;
        f32, write_f32_le, write_f32_be;
        f64, write_f64_le, write_f64_be;
    }

    /// Writes a byte.
    #[inline(always)]
    fn write_u8(&mut self, value: u8) -> Result<()> {
        self.put([value])
    }

    /// Writes a signed byte.
    #[inline(always)]
    fn write_i8(&mut self, value: i8) -> Result<()> {
        self.put(value.to_le_bytes())
    }

    /// Writes a boolean as a byte, 0 or 1.
    #[inline(always)]
    fn write_bool(&mut self, value: bool) -> Result<()> {
        self.put([u8::from(value)])
    }

    /// Writes plain data in one copy.
    fn write_plain<T: IntoBytes + Immutable>(&mut self, plain: &[T]) -> Result<()> {
        self.write_slice(plain.as_bytes())
    }

    /// Writes the number of elements (LEB128), then the elements in one copy.
    fn write_plain_vec<T: IntoBytes + Immutable>(&mut self, plain: &[T]) -> Result<()> {
        self.write_leb128(plain.len() as u64)?;
        self.write_plain(plain)
    }

    /// Writes the length (LEB128) and the bytes of a string.
    fn write_string(&mut self, text: &str) -> Result<()> {
        self.write_plain_vec(text.as_bytes())
    }

    /// Writes an unsigned LEB128 number in its shortest form.
    #[inline]
    fn write_leb128(&mut self, mut value: u64) -> Result<()> {
        while value >= 0x80 {
            self.put([value as u8 | 0x80])?;
            value >>= 7;
        }
        self.put([value as u8])
    }

    /// Writes a signed LEB128 number in its shortest form.
    #[inline]
    fn write_leb128_signed(&mut self, mut value: i64) -> Result<()> {
        loop {
            let byte = value as u8 & 0x7F;
            value >>= 7;
            let last = (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0);
            if last {
                return self.put([byte]);
            }
            self.put([byte | 0x80])?;
        }
    }
}

impl<S: WriteStream> WriteTyped for S {}

/// Reads a LEB128 number; returns its bits, and how many its bytes have room for. `fitting` must
/// accept the bits of a tenth byte.
#[inline(always)]
fn leb128<S: ReadStream>(stream: &mut S, fitting: impl Fn(u64) -> bool) -> Result<(u64, u32)> {
    let mut value = 0;
    for index in 0..limits::LEB128_BYTES_MAX {
        let byte = stream.read_u8()?;
        let bits = u64::from(byte & 0x7F);
        let shift = 7 * index as u32;
        if shift == 63 && !fitting(bits) {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((value, shift + 7));
        }
    }
    Err(too_long(stream.position()))
}

fn read_count<S: ReadStream>(stream: &mut S, max: usize) -> Result<usize> {
    let at = stream.position();
    let count = stream.read_leb128()?;
    match usize::try_from(count) {
        Ok(count) if count <= max => Ok(count),
        _ => {
            let cause = "more elements than the caller allows";
            Err(Error::new(ErrorKind::Limit, at, count, cause))
        }
    }
}

#[cold]
fn no_memory(position: u64, count: usize) -> Error {
    let cause = "no memory for the elements that the stream announces";
    Error::new(ErrorKind::OutOfMemory, position, count as u64, cause)
}

#[cold]
fn too_long(position: u64) -> Error {
    let cause = "a LEB128 number has more than 64 bits";
    Error::new(ErrorKind::Corrupt, position.saturating_sub(1), 1, cause)
}
