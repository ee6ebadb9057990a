//! One stream, one answer: whatever its size, its memory, and the windows it is cut into.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::{Buffer, CodecId, Decode, Error, ErrorKind, FileId, Read, StorageOptions};
use millstream_codec::{
    CodecError, CodecErrorKind, Scratch, compress, decode_block, default_level, stream_decoder,
};

use crate::decoding::rig::{Rig, bytes, each_backend, each_backend_with, encoded};

/// Runs a test with windows of at least 4 MiB, which hold short streams whole, and of 4 KiB.
fn each_window(test: impl Fn(&Rig)) {
    let short = || {
        let mut options = StorageOptions::default();
        options.block_bytes = 4 << 10;
        options.staging_bytes = 16 << 10;
        options
    };
    for options in [StorageOptions::default, short] {
        each_backend_with(options, &test);
    }
}

/// A file of these bytes, with a name that no other has.
fn file_of(rig: &Rig, bytes: &[u8]) -> FileId {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let name = FILES.fetch_add(1, Ordering::Relaxed).to_string();
    rig.file_of(&name, bytes)
}

/// A stream whose frames do not declare how many raw bytes they hold.
fn undeclared(codec: CodecId, raw: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    compress(codec, default_level(codec), &mut &raw[..], &mut stored).expect("encoded");
    stored
}

/// Bytes, or kind and cause of an error.
type Answer = Result<Vec<u8>, (ErrorKind, String)>;

fn answer(result: Result<impl std::ops::Deref<Target = [u8]>, Error>) -> Answer {
    let answer = result.map(|bytes| bytes.to_vec());
    answer.map_err(|error| match error.kind() {
        // The engine names the format that it found.
        ErrorKind::WrongFormat => {
            let cause = "the stored bytes violate their format";
            (ErrorKind::Corrupt, cause.to_owned())
        }
        ErrorKind::RawSizeUnknown => (ErrorKind::RawSize, String::new()),
        kind => (kind, error.cause().to_owned()),
    })
}

fn by_block(codec: CodecId, stored: &[u8], room: usize) -> Answer {
    let mut raw = vec![0; room];
    let decoded = decode_block(codec, &mut Scratch::default(), stored, &mut raw);
    answer(decoded.map_err(Error::from).map(|len| {
        raw.truncate(len);
        raw
    }))
}

/// Decodes a stream in pieces of these lengths of stored and of raw bytes.
fn by_stream(
    codec: CodecId,
    stored: &[u8],
    room: usize,
    pieces: impl FnMut() -> (usize, usize),
) -> Answer {
    answer(streamed(codec, stored, room, pieces).map_err(Error::from))
}

fn streamed(
    codec: CodecId,
    stored: &[u8],
    room: usize,
    mut pieces: impl FnMut() -> (usize, usize),
) -> Result<Vec<u8>, CodecError> {
    let mut decoder = stream_decoder(codec).expect("it has streams");
    let (mut raw, mut taken, mut written) = (vec![0; room], 0, 0);
    loop {
        let (stored_piece, raw_piece) = pieces();
        let input = &stored[taken..stored.len().min(taken + stored_piece)];
        let room = room.min(written + raw_piece);
        let progress = decoder.decode(input, &mut raw[written..room])?;
        taken += progress.consumed;
        written += progress.produced;
        if taken == stored.len() && progress.consumed == 0 && progress.produced == 0 {
            raw.truncate(written);
            let truncated = CodecError::new(CodecErrorKind::Truncated, codec, taken as u64);
            return progress.at_end.then_some(raw).ok_or(truncated);
        }
    }
}

/// Fails unless two routes gave the same bytes or the same error. Which of several faults comes
/// first depends on the room if one of them is that there are too many bytes.
fn agree(context: &str, one: &Answer, other: &Answer) {
    match (one, other) {
        (Ok(one), Ok(other)) => assert!(one == other, "{context}: other bytes"),
        (Err(one), Err(other)) => assert!(
            one == other || [one.0, other.0].contains(&ErrorKind::RawSize),
            "{context}: {one:?}, {other:?}"
        ),
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => panic!("{context}: bytes, or {error:?}"),
    }
}

/// Damages a stream at one to three places, of which half are in its first bytes.
fn damage(stored: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        let reach = stored.len().min([40, usize::MAX][random.usize(..2)]);
        if reach == 0 {
            return;
        }
        let place = random.usize(..reach);
        match random.u8(..5) {
            0 => stored[place] ^= 1 << random.u8(..8),
            1 => stored[place] = random.u8(..),
            2 => stored.truncate(place),
            3 => stored.insert(place, random.u8(..)),
            _ => stored.extend(std::iter::repeat_n(random.u8(..2), random.usize(1..9))),
        }
    }
}

/// Compares all routes of one stream, with and without its raw size.
fn compare(rig: &Rig, codec: CodecId, stored: &[u8], raw_len: usize, random: &mut fastrand::Rng) {
    const ROOM: usize = 1 << 20;
    let file = file_of(rig, stored);
    let memory: Arc<[u8]> = Arc::from(stored);
    let run = |decode: &Decode| {
        let mut reads = vec![Read::memory(memory.clone())];
        // All of a bare block must be in staging at once.
        if codec != CodecId::LZ4_BLOCK {
            reads.push(Read::whole(file));
        }
        let runs = reads
            .into_iter()
            .map(|read| rig.run(read.decode(decode.clone())));
        runs.map(answer).collect::<Vec<_>>()
    };
    let exactly = |answer: Answer| match answer {
        Ok(raw) if raw.len() < raw_len => Err((ErrorKind::RawSize, String::new())),
        answer => answer,
    };
    let sized = exactly(by_block(codec, stored, raw_len));
    for answer in run(&Decode::codec(codec).raw_len(raw_len as u64)) {
        agree("the engine, sized", &sized, &answer);
    }
    if codec != CodecId::LZ4_BLOCK {
        let whole = by_block(codec, stored, ROOM);
        let pieces = || (random.usize(1..3000), random.usize(1..9000));
        agree("a stream", &whole, &by_stream(codec, stored, ROOM, pieces));
        for answer in run(&Decode::codec(codec).max_raw(ROOM as u64)) {
            agree("the engine", &whole, &answer);
        }
    }
}

#[test]
fn damaged_streams_get_one_answer_by_every_route() {
    each_window(|rig| {
        let mut random = millstream_testing::random();
        for round in 0..200 {
            let codec = CodecId(random.u8(CodecId::ZLIB.0..=CodecId::GDEFLATE.0));
            // Units begin at 128 KiB of raw bytes.
            let len = random.usize(..[6000, 6000, 6000, 6000, 400_000][round % 5]);
            let raw = bytes(len);
            let is_framed = [CodecId::GZIP, CodecId::ZSTD, CodecId::LZ4].contains(&codec);
            let frames = if is_framed { random.usize(1..4) } else { 1 };
            let frame = match is_framed && random.bool() {
                true => undeclared(codec, &raw),
                false => encoded(codec, &raw),
            };
            let mut stored = frame.repeat(frames);
            damage(&mut stored, &mut random);
            if stored.is_empty() {
                continue;
            }
            eprintln!("round {round}: {codec:?}, {frames} of {len} bytes");
            compare(rig, codec, &stored, len * frames, &mut random);
        }
    });
}

/// The codes are those of `codec/hostile`: libdeflate takes them, zlib does not.
#[test]
fn deflate_codes_that_zlib_refuses_are_refused_at_every_size() {
    each_window(|rig| {
        for stored_blocks in [0, 1, 100] {
            // Stored blocks of 64 KiB, and a block with the length code 286.
            let mut stored = Vec::new();
            for _ in 0..stored_blocks {
                stored.extend([0x00, 0xff, 0xff, 0x00, 0x00]);
                stored.resize(stored.len() + 0xffff, 0);
            }
            stored.extend([0x73, 0x1c, 0x03, 0x00]);
            let raw_len = stored_blocks * 0xffff + 259;
            let decode = Decode::codec(CodecId::DEFLATE);
            let file = file_of(rig, &stored);
            for decode in [decode.clone(), decode.raw_len(raw_len)] {
                let error = rig.failure(Read::whole(file).decode(decode));
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{stored_blocks}: {error}");
            }
        }
    });
}

/// Runs a read into each kind of memory with room for `len` bytes and more; returns what landed.
fn into_each(rig: &Rig, file: FileId, decode: &Decode, len: usize) -> Vec<Vec<u8>> {
    let read = || Read::whole(file).decode(decode.clone());
    let pool = rig.run(read()).expect("a buffer of the library").to_vec();
    let reused: Buffer = rig
        .run(Read::memory(Arc::from(vec![0; len + 7])))
        .expect("copied");
    let own = rig.run(read().into(reused)).expect("a buffer").to_vec();
    let mut vector = rig.run(read().into(vec![7; len + 1])).expect("a vector");
    assert_eq!(
        vector.pop(),
        Some(7),
        "nothing is written past the raw bytes"
    );
    let supplied = read().supplied(|len| Some(vec![0; len]));
    let supplied = rig.run(supplied).expect("supplied memory");
    let mut lent = vec![7; len + 1];
    #[expect(unsafe_code, reason = "lends memory")]
    // SAFETY: the request has ended before the memory is used.
    let borrowed = unsafe { read().borrowed(lent.as_mut_ptr(), lent.len()) };
    let mut ticket = rig.queue.submit(borrowed).expect("accepted");
    assert_eq!(ticket.outcome().result.expect("lent memory"), len as u64);
    assert_eq!(lent.pop(), Some(7), "nothing is written past the raw bytes");
    vec![pool, own, vector, supplied, lent]
}

#[test]
fn streams_of_unknown_size_decode_at_every_size_to_every_memory() {
    each_window(|rig| {
        for len in [0, 1, 700_000] {
            let raw = bytes(len);
            for codec in [CodecId::ZLIB, CodecId::GZIP, CodecId::ZSTD, CodecId::LZ4] {
                let one = undeclared(codec, &raw);
                let mut streams = vec![(one.clone(), raw.clone())];
                if codec != CodecId::ZLIB {
                    let two = [&encoded(codec, &raw)[..], &one].concat();
                    streams.push((two, raw.repeat(2)));
                }
                for (stored, raw) in streams {
                    let file = file_of(rig, &stored);
                    let decode = Decode::codec(codec);
                    for landed in into_each(rig, file, &decode, raw.len()) {
                        assert!(landed == raw, "{codec:?} of {}", raw.len());
                    }
                }
            }
        }
    });
}

#[test]
fn skippable_frames_and_padding_are_part_of_a_stream_at_every_size() {
    each_window(|rig| {
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"hello"].concat();
        for len in [100, 300_000] {
            let raw = bytes(len);
            for (codec, more) in [
                (CodecId::ZSTD, &skippable[..]),
                (CodecId::LZ4, &skippable),
                (CodecId::GZIP, &[0; 512]),
            ] {
                let file = file_of(rig, &[&encoded(codec, &raw), more].concat());
                let landed = rig.run(Read::whole(file).decode(Decode::codec(codec)));
                assert!(landed.expect("decoded")[..] == raw, "{codec:?} {len}");
            }
        }
    });
}

#[test]
fn truncation_trailing_bytes_and_unknown_sizes_are_told_apart_at_every_size() {
    each_window(|rig| {
        for len in [1000, 300_000] {
            let raw = bytes(len);
            for codec in [CodecId::ZLIB, CodecId::GZIP, CodecId::ZSTD, CodecId::LZ4] {
                for stored in [encoded(codec, &raw), undeclared(codec, &raw)] {
                    let context = format!("{codec:?} {len}");
                    let cut = file_of(rig, &stored[..stored.len() - 1]);
                    let more = file_of(rig, &[&stored[..], b"x"].concat());
                    let file = file_of(rig, &stored);
                    for decode in [
                        Decode::codec(codec),
                        Decode::codec(codec).raw_len(len as u64),
                    ] {
                        let error = rig.failure(Read::whole(cut).decode(decode.clone()));
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error}");
                        assert!(error.cause().contains("truncated"), "{context}: {error}");
                        let error = rig.failure(Read::whole(more).decode(decode));
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{context}: {error}");
                        assert!(error.cause().contains("bytes follow"), "{context}: {error}");
                    }
                    let short = Read::whole(file).decode(Decode::codec(codec));
                    let error = rig.failure(short.into(vec![0; len - 1]));
                    let is_declared = stored == encoded(codec, &raw)
                        && [CodecId::ZSTD, CodecId::LZ4].contains(&codec);
                    if is_declared {
                        assert_eq!(error.kind(), ErrorKind::DestinationTooSmall, "{context}");
                    } else {
                        assert_eq!(
                            error.kind(),
                            ErrorKind::RawSizeUnknown,
                            "{context}: {error}"
                        );
                        assert!(error.cause().contains("raw_len"), "{context}: {error}");
                        let decode = Decode::codec(codec).max_raw(len as u64 - 1);
                        let error = rig.failure(Read::whole(file).decode(decode));
                        assert_eq!(
                            error.kind(),
                            ErrorKind::RawSizeUnknown,
                            "{context}: {error}"
                        );
                        assert!(error.cause().contains("raw_len"), "{context}: {error}");
                    }
                    let exact = Decode::codec(codec).max_raw(len as u64);
                    let landed = rig.run(Read::whole(file).decode(exact)).expect(&context);
                    assert!(landed[..] == raw, "{context}");
                }
            }
        }
    });
}

/// A few bytes that declare 2^60: they take no memory for them, and are an error as any other.
#[test]
fn a_frame_that_declares_more_than_it_holds_is_corrupt() {
    each_backend(|rig| {
        // A window of 1 KiB, a content size of eight bytes, a last block of three stored bytes.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x00];
        frame.extend((1u64 << 60).to_le_bytes());
        frame.extend([0x19, 0, 0, b'a', b'b', b'c']);
        let read = Read::memory(frame.into()).decode(Decode::codec(CodecId::ZSTD));
        let error = rig.failure(read);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    });
}

#[test]
fn the_legacy_format_of_lz4_is_named() {
    each_backend(|rig| {
        let legacy = Arc::from([0x02, 0x21, 0x4c, 0x18, 1, 0, 0, 0, 0]);
        let error = rig.failure(Read::memory(legacy).decode(Decode::codec(CodecId::LZ4)));
        assert_eq!(error.kind(), ErrorKind::UnknownCodec, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("LZ4 frame of the legacy format is not supported"),
            "{text}"
        );
        assert!(!text.contains("unknown codec"), "{text}");
    });
}
