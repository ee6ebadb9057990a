//! Fields: numbers lie as the standard library and DWARF have them and come back, and wrong ones
//! are errors at their place.

use millstream_stream::limits::UNSEEN_BYTES_MAX;
use millstream_stream::{ErrorKind, MemoryStream, ReadTyped, Result, Stream, WriteTyped};

/// A stream at its beginning.
fn over(bytes: &[u8]) -> MemoryStream {
    MemoryStream::from_vec(bytes.to_vec())
}

/// The kind and the place of an error.
fn failed<T: std::fmt::Debug>(result: Result<T>) -> (ErrorKind, u64) {
    let error = result.unwrap_err();
    (error.kind(), error.position())
}

macro_rules! each_comes_back {
    ($($number:ty: $write_le:ident, $write_be:ident, $read_le:ident, $read_be:ident;)*) => {$(
        for value in [<$number>::MIN, <$number>::MAX, <$number>::MAX / (7 as $number)] {
            let mut stream = MemoryStream::new();
            stream.$write_le(value).unwrap();
            stream.$write_be(value).unwrap();
            let bytes = [value.to_le_bytes(), value.to_be_bytes()].concat();
            assert_eq!(stream.as_slice(), bytes, stringify!($number));
            stream.seek_to(0).unwrap();
            let read = (stream.$read_le().unwrap(), stream.$read_be().unwrap());
            assert_eq!(read, (value, value));
            assert_eq!(stream.$read_le().unwrap_err().kind(), ErrorKind::PastEnd);
        }
    )*};
}

#[test]
fn numbers_of_both_byte_orders_lie_as_in_the_standard_library() {
    each_comes_back! {
        u16: write_u16_le, write_u16_be, read_u16_le, read_u16_be;
        u32: write_u32_le, write_u32_be, read_u32_le, read_u32_be;
        u64: write_u64_le, write_u64_be, read_u64_le, read_u64_be;
        u128: write_u128_le, write_u128_be, read_u128_le, read_u128_be;
        i16: write_i16_le, write_i16_be, read_i16_le, read_i16_be;
        i32: write_i32_le, write_i32_be, read_i32_le, read_i32_be;
        i64: write_i64_le, write_i64_be, read_i64_le, read_i64_be;
        i128: write_i128_le, write_i128_be, read_i128_le, read_i128_be;
        f32: write_f32_le, write_f32_be, read_f32_le, read_f32_be;
        f64: write_f64_le, write_f64_be, read_f64_le, read_f64_be;
    }
}

#[test]
fn bytes_and_truth_values() {
    let mut stream = MemoryStream::new();
    stream.write_u8(200).unwrap();
    stream.write_i8(-100).unwrap();
    stream.write_bool(true).unwrap();
    stream.write_bool(false).unwrap();
    assert_eq!(stream.as_slice(), [200, 156, 1, 0]);
    stream.seek_to(0).unwrap();
    assert_eq!(
        (stream.read_u8().unwrap(), stream.read_i8().unwrap()),
        (200, -100)
    );
    assert!(stream.read_bool().unwrap() && !stream.read_bool().unwrap());
    let mut stream = over(&[1, 2]);
    assert!(stream.read_bool().unwrap());
    assert_eq!(failed(stream.read_bool()), (ErrorKind::Corrupt, 1));
}

#[test]
fn variable_length_numbers_are_those_of_dwarf() {
    let mut stream = MemoryStream::new();
    stream.write_leb128(624_485).unwrap();
    stream.write_leb128_signed(-123_456).unwrap();
    assert_eq!(stream.as_slice(), [0xE5, 0x8E, 0x26, 0xC0, 0xBB, 0x78]);
    let edges = (0..64).flat_map(|shift| [(1u64 << shift) - 1, 1 << shift, u64::MAX << shift]);
    for value in edges {
        let signed = value as i64;
        let mut stream = MemoryStream::new();
        stream.write_leb128(value).unwrap();
        let len = (64 - value.leading_zeros()).div_ceil(7).max(1);
        assert_eq!(stream.position(), u64::from(len), "{value}");
        stream.write_leb128_signed(signed).unwrap();
        let bits = 65 - signed.leading_zeros().max(signed.leading_ones());
        assert_eq!(
            stream.position(),
            u64::from(len + bits.div_ceil(7)),
            "{signed}"
        );
        stream.seek_to(0).unwrap();
        let read = (
            stream.read_leb128().unwrap(),
            stream.read_leb128_signed().unwrap(),
        );
        assert_eq!(read, (value, signed));
    }
    // Longer forms than needed are read up to ten bytes.
    let long = [0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
    assert_eq!(over(&long).read_leb128().unwrap(), 1);
    assert_eq!(over(&long).read_leb128_signed().unwrap(), 1);
}

#[test]
fn variable_length_numbers_of_more_than_64_bits_are_refused() {
    let beyond = |last: u8| [vec![0xFF; 9], vec![last, 0]].concat();
    assert_eq!(over(&beyond(1)).read_leb128().unwrap(), u64::MAX);
    assert_eq!(over(&beyond(0x7F)).read_leb128_signed().unwrap(), -1);
    for last in [2, 0x7F, 0x80, 0x81] {
        let read = over(&beyond(last)).read_leb128();
        assert_eq!(failed(read), (ErrorKind::Corrupt, 9), "{last}");
    }
    for last in [1, 0x40, 0x80, 0xFF] {
        let read = over(&beyond(last)).read_leb128_signed();
        assert_eq!(failed(read), (ErrorKind::Corrupt, 9), "{last}");
    }
}

#[test]
fn strings_and_elements_are_as_many_as_allowed() {
    assert_eq!(over(b"\x03abc").read_string(3).unwrap(), "abc");
    assert_eq!(
        failed(over(b"\x03abc").read_string(2)),
        (ErrorKind::Limit, 0)
    );
    assert_eq!(
        failed(over(b"\x03a\xFFc").read_string(3)),
        (ErrorKind::Corrupt, 2)
    );
    assert_eq!(
        failed(over(b"\x04abc").read_string(9)).0,
        ErrorKind::PastEnd
    );
    // More than is allocated before as much has been seen.
    let elements: Vec<[u32; 3]> = (0..UNSEEN_BYTES_MAX as u32)
        .map(|at| [at, !at, 7])
        .collect();
    let mut stream = MemoryStream::new();
    stream.write_plain_vec(&elements).unwrap();
    stream.seek_to(0).unwrap();
    assert_eq!(
        stream.read_plain_vec::<[u32; 3]>(elements.len()).unwrap(),
        elements
    );
    let mut forged = over(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]);
    assert_eq!(
        failed(forged.read_plain_vec::<u64>(usize::MAX)),
        (ErrorKind::PastEnd, 9)
    );
}
