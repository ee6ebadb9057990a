//! What the tests share: sample data and drivers for each way of decoding.

use millstream_codec::{
    CodecError, CodecErrorKind, CodecId, Scratch, block_level_range, decode_unit, default_level,
    encode_block, stream_decoder, unit_scanner,
};

/// The codecs that decode streams.
pub(crate) fn streamed() -> impl Iterator<Item = CodecId> {
    CodecId::ALL
        .into_iter()
        .filter(|codec| codec.facts().stream.is_some())
}

/// Kinds of data: what compresses well, fairly, not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Zeros,
    Text,
    Texture,
    Random,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Zeros, Kind::Text, Kind::Texture, Kind::Random];

/// `len` bytes of that kind, the same for the same seed.
pub(crate) fn sample(kind: Kind, len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut data = Vec::with_capacity(len + 16);
    match kind {
        Kind::Zeros => data.resize(len, 0),
        Kind::Random => data.resize_with(len, || random.u8(..)),
        Kind::Text => {
            let words: Vec<String> = (0..500)
                .map(|_| {
                    (0..random.usize(2..9))
                        .map(|_| random.lowercase())
                        .collect()
                })
                .collect();
            while data.len() < len {
                // Squaring makes some words common and most rare, as in text.
                let rank = random.f64() * random.f64();
                data.extend_from_slice(words[(rank * 500.0) as usize].as_bytes());
                data.push(if random.u8(..8) == 0 { b'\n' } else { b' ' });
            }
        }
        Kind::Texture => {
            // Rows of four-byte pixels whose channels drift with a little noise.
            let mut pixel = [128u8, 100, 60, 255];
            while data.len() < len {
                for channel in &mut pixel[..3] {
                    *channel = channel.wrapping_add(random.u8(..5)).wrapping_sub(2);
                }
                data.extend_from_slice(&pixel);
            }
        }
    }
    data.truncate(len);
    data
}

/// `raw` as a whole stream at the default level; `None` if this build cannot encode the codec.
pub(crate) fn encoded(codec: CodecId, raw: &[u8]) -> Option<Vec<u8>> {
    if block_level_range(codec).is_empty() {
        println!("SKIP: {} cannot be encoded in this build", codec.name());
        return None;
    }
    let mut out = Vec::new();
    encode_block(
        codec,
        default_level(codec),
        &mut Scratch::default(),
        raw,
        &mut out,
    )
    .expect("encoding");
    Some(out)
}

/// Decodes a whole block into a buffer of `raw_len`.
pub(crate) fn by_block(
    codec: CodecId,
    stored: &[u8],
    raw_len: usize,
) -> Result<Vec<u8>, CodecError> {
    let mut raw = vec![0xAA; raw_len];
    let written = millstream_codec::decode_block(codec, &mut Scratch::default(), stored, &mut raw)?;
    raw.truncate(written);
    Ok(raw)
}

/// Decodes as a stream whose pieces have the sizes that `piece` draws: first of the input, then of
/// the output. Never writes more than `raw_len`, and asks at the end whether there is more.
pub(crate) fn by_stream(
    codec: CodecId,
    stored: &[u8],
    raw_len: usize,
    mut piece: impl FnMut() -> (usize, usize),
) -> Result<Vec<u8>, CodecError> {
    let mut decoder = stream_decoder(codec)?;
    let mut raw = vec![0; raw_len];
    let (mut consumed, mut produced, mut idle_calls) = (0, 0, 0);
    loop {
        let (in_max, out_max) = piece();
        let input = &stored[consumed..stored.len().min(consumed + in_max)];
        let room = raw.len().min(produced + out_max);
        let progress = decoder.decode(input, &mut raw[produced..room])?;
        assert!(progress.consumed <= input.len() && progress.produced <= room - produced);
        let moved = progress.consumed > 0 || progress.produced > 0;
        if !input.is_empty() && room > produced {
            assert!(moved, "bytes and room, but no progress");
        }
        consumed += progress.consumed;
        produced += progress.produced;
        idle_calls = if moved { 0 } else { idle_calls + 1 };
        if consumed == stored.len() && !moved {
            raw.truncate(produced);
            return match progress.at_end {
                true => Ok(raw),
                false => Err(CodecError::new(
                    CodecErrorKind::Truncated,
                    codec,
                    consumed as u64,
                )),
            };
        }
        assert!(
            idle_calls < 3,
            "no progress at {consumed} of {} bytes",
            stored.len()
        );
    }
}

/// As a stream in large pieces.
pub(crate) fn by_large_pieces(
    codec: CodecId,
    stored: &[u8],
    raw_len: usize,
) -> Result<Vec<u8>, CodecError> {
    by_stream(codec, stored, raw_len, || (1 << 20, 1 << 20))
}

/// Decodes by units, the stored bytes arriving in pieces of `piece_bytes`. `None`: no scanner. The
/// second value is the number of units.
pub(crate) fn by_units(
    codec: CodecId,
    stored: &[u8],
    raw_len: usize,
    piece_bytes: usize,
) -> Option<Result<(Vec<u8>, usize), CodecError>> {
    let head = &stored[..stored.len().min(4096)];
    let mut scanner = unit_scanner(codec, head, stored.len() as u64, raw_len as u64)?;
    let mut raw = vec![0; raw_len];
    let mut scratch = Scratch::default();
    let (mut done, mut arrived, mut count) = (0, 0, 0);
    let mut covered = 0u64;
    let mut run = || {
        loop {
            arrived = stored.len().min(arrived + piece_bytes);
            let end = arrived == stored.len();
            let mut units = Vec::new();
            let input = &stored[done..arrived];
            let consumed = scanner.scan(input, end, &mut units)?;
            assert!(consumed <= input.len());
            for unit in &units {
                assert_eq!(
                    unit.raw_start, covered,
                    "units follow each other without gaps"
                );
                covered += unit.raw_len as u64;
                assert!(covered <= raw_len as u64, "units stay within the raw bytes");
                let part = &input[unit.stored_start..][..unit.stored_len];
                let target = &mut raw[unit.raw_start as usize..][..unit.raw_len];
                decode_unit(codec, unit, &mut scratch, part, target)?;
                count += 1;
            }
            done += consumed;
            if end {
                assert_eq!(done, stored.len(), "at the end everything is consumed");
                assert_eq!(covered, raw_len as u64, "at the end everything is covered");
                return scanner.verify(&raw);
            }
        }
    };
    let outcome = run();
    Some(outcome.map(|()| (raw, count)))
}
