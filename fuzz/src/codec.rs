//! Every codec over any bytes, by every way of decoding: no panic, no stall, nothing beyond the
//! declared raw size, and one result however the bytes are cut.
//!
//! Input: a byte for the codec, a byte for the size of the pieces, two for the declared raw size
//! (in steps of 16 bytes, up to 1 MiB), then the stored bytes.

use millstream_codec::{
    CodecError, CodecErrorKind, CodecId, Scratch, declared_raw_len, decode_block, decode_unit,
    stream_decoder, unit_scanner,
};

/// Sizes of the pieces in which a stream comes and goes.
const PIECES: [usize; 8] = [1, 2, 3, 17, 255, 4096, 65_537, 1 << 20];

/// Stored bytes of a codec.
pub fn decode(input: &[u8]) {
    let Some((&[codec, pieces, low, high], stored)) = input.split_first_chunk() else {
        return;
    };
    let codec = CodecId::ALL[usize::from(codec) % CodecId::ALL.len()];
    let raw_len = usize::from(u16::from_le_bytes([low, high])) * 16;
    let in_piece = PIECES[usize::from(pieces & 7)];
    let out_piece = PIECES[usize::from(pieces >> 3 & 7)];
    let _ = declared_raw_len(codec, stored, stored.len() as u64);

    let mut scratch = Scratch::default();
    let mut raw = vec![0; raw_len];
    let block = decode_block(codec, &mut scratch, stored, &mut raw).map(|written| {
        assert!(written <= raw.len());
        raw.truncate(written);
        raw
    });
    if stream_decoder(codec).is_ok() {
        let whole = by_stream(codec, stored, raw_len, 1 << 20, 1 << 20);
        let cut = by_stream(codec, stored, raw_len, in_piece, out_piece);
        for other in [&cut, &block] {
            match (&whole, other) {
                (Ok(whole), Ok(other)) => assert_eq!(whole, other),
                // Which of two faults is seen first is up to the room; one alone has one name.
                (Err(whole), Err(other)) => {
                    let too_long = [whole.kind, other.kind].contains(&CodecErrorKind::RawTooLong);
                    assert!(too_long || whole.kind == other.kind, "{whole} or {other}");
                }
                _ => panic!("the way decides: {whole:?} {other:?}"),
            }
        }
        if let (Some(units), Ok(whole)) = (by_units(codec, stored, raw_len, in_piece), &whole) {
            assert_eq!(&units, whole);
        }
    } else if let (Some(units), Ok(block)) = (by_units(codec, stored, raw_len, in_piece), block) {
        assert_eq!(units, block);
    }
}

/// Decodes in pieces; a cut stream is an error as the others are.
fn by_stream(
    codec: CodecId,
    stored: &[u8],
    raw_len: usize,
    in_piece: usize,
    out_piece: usize,
) -> Result<Vec<u8>, CodecError> {
    let mut decoder = stream_decoder(codec)?;
    let mut raw = vec![0; raw_len];
    let (mut consumed, mut produced) = (0, 0);
    loop {
        let input = &stored[consumed..stored.len().min(consumed + in_piece)];
        let end = raw.len().min(produced + out_piece);
        let progress = decoder.decode(input, &mut raw[produced..end])?;
        consumed += progress.consumed;
        produced += progress.produced;
        if progress.consumed == 0 && progress.produced == 0 {
            assert_eq!(consumed, stored.len(), "a stall");
            raw.truncate(produced);
            return if progress.at_end {
                Ok(raw)
            } else {
                Err(CodecError::new(
                    CodecErrorKind::Truncated,
                    codec,
                    consumed as u64,
                ))
            };
        }
    }
}

/// Decodes by units; `None` if there are none or they are refused.
fn by_units(codec: CodecId, stored: &[u8], raw_len: usize, piece: usize) -> Option<Vec<u8>> {
    let head = &stored[..stored.len().min(4096)];
    let mut scanner = unit_scanner(codec, head, stored.len() as u64, raw_len as u64)?;
    let mut scratch = Scratch::default();
    let mut raw = vec![0; raw_len];
    let (mut done, mut arrived) = (0, 0);
    loop {
        arrived = stored.len().min(arrived + piece);
        let mut units = Vec::new();
        let input = &stored[done..arrived];
        let consumed = scanner
            .scan(input, arrived == stored.len(), &mut units)
            .ok()?;
        for unit in &units {
            let part = &input[unit.stored_start..][..unit.stored_len];
            let target = &mut raw[unit.raw_start as usize..][..unit.raw_len];
            decode_unit(codec, unit, &mut scratch, part, target).ok()?;
        }
        done += consumed;
        if arrived == stored.len() {
            assert_eq!(done, stored.len());
            scanner.verify(&raw).ok()?;
            return Some(raw);
        }
    }
}
