//! GDeflate and zstd, from files and memory: bytes, and streams that lie.
#![expect(unsafe_code, reason = "calls COM methods")]

use direct_storage::*;
use dstorage::abi;
use gdeflate::Level;
use millstream_codec::{CodecId, Scratch, encode_block};

use crate::calls::*;
use crate::common::*;

const ZSTD: DSTORAGE_COMPRESSION_FORMAT =
    DSTORAGE_COMPRESSION_FORMAT(abi::DSTORAGE_COMPRESSION_FORMAT_ZSTD);

fn gdeflate(raw: &[u8]) -> Vec<u8> {
    gdeflate::compress(raw, Level::FASTEST, 1).expect("it is compressed")
}

fn zstd(raw: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    encode_block(CodecId::ZSTD, 3, &mut Scratch::default(), raw, &mut stored).expect("compressed");
    stored
}

#[test]
fn compressed_files_and_memory_land_decompressed() {
    let session = Session::new();
    let (files, memory) = (session.queue(FILE), session.queue(MEMORY));
    for len in [1, 100, 65_536, 65_537, 1_000_000, 9_000_000] {
        let raw = pattern(len, len as u64);
        for (format, stored) in [(GDEFLATE, gdeflate(&raw)), (ZSTD, zstd(&raw))] {
            // With other bytes around them in the file.
            let around = [&[1; 77][..], &stored, &[2; 33]].concat();
            let file = session.file("a", &around);
            let mut into = vec![0; len];
            let size = stored.len() as u32;
            let request = read_encoded(&file, 77, size, format, &mut into);
            assert_eq!(run(&session, &files, &[request]), OK, "{format:?} {len}");
            assert!(into == raw, "{format:?} {len}");
            let mut into = vec![0; len];
            let request = copy(&stored, format, &mut into);
            assert_eq!(run(&session, &memory, &[request]), OK, "{format:?} {len}");
            assert!(into == raw, "{format:?} {len}");
        }
    }
}

/// Runs a stream from a file and from memory into a destination between canaries.
fn expect_error(session: &Session, format: DSTORAGE_COMPRESSION_FORMAT, stored: &[u8], len: usize) {
    let file = session.file("lies", stored);
    let (files, memory) = (session.queue(FILE), session.queue(MEMORY));
    for is_file in [true, false] {
        let mut around = vec![0xa5; len + 2 * 4096];
        let into = &mut around[4096..4096 + len];
        let (queue, request) = match is_file {
            true => (
                &files,
                read_encoded(&file, 0, stored.len() as u32, format, into),
            ),
            false => (&memory, copy(stored, format, into)),
        };
        let found = run(session, queue, std::slice::from_ref(&request));
        assert_eq!(
            found.0,
            abi::E_DSTORAGE_DECOMPRESSION_ERROR,
            "file: {is_file}"
        );
        let record = record(queue);
        assert_eq!(record.FailureCount, 1);
        assert_eq!(record.FirstFailure.HResult, found);
        assert_eq!(
            record.FirstFailure.CommandType,
            DSTORAGE_COMMAND_TYPE_REQUEST
        );
        // SAFETY: the member that the type of the command or request names.
        let recorded = unsafe { &record.FirstFailure.Anonymous.Request.Request };
        assert_eq!(recorded.UncompressedSize, len as u32);
        let canaries = around[..4096].iter().chain(&around[4096 + len..]);
        assert!(
            canaries.into_iter().all(|byte| *byte == 0xa5),
            "no byte beyond it is written"
        );
    }
}

#[test]
fn streams_that_lie_are_decompression_errors() {
    let session = Session::new();
    let raw = pattern(200_000, 40);
    for (format, stored) in [(GDEFLATE, gdeflate(&raw)), (ZSTD, zstd(&raw))] {
        let len = raw.len();
        // Another raw size than the request says, cut, followed by other bytes, nothing.
        expect_error(&session, format, &stored, len - 1);
        expect_error(&session, format, &stored, len + 1);
        expect_error(&session, format, &stored, 1);
        expect_error(&session, format, &stored[..stored.len() - 1], len);
        expect_error(&session, format, &stored[..7], len);
        expect_error(
            &session,
            format,
            &[stored.clone(), vec![9; 64]].concat(),
            len,
        );
        expect_error(&session, format, &[0], len);
        expect_error(&session, format, &[0xff; 5000], len);
    }
    // Headers and tile tables of GDeflate: id, magic, number of tiles, size of a tile, size of
    // the last, ends of tiles.
    let stored = gdeflate(&raw);
    for at in 0..8 + 4 * 4 {
        for change in [0x01, 0x80, 0xff] {
            let mut lie = stored.clone();
            lie[at] ^= change;
            expect_error(&session, GDEFLATE, &lie, raw.len());
        }
    }
    // A stream of the other format.
    expect_error(&session, GDEFLATE, &zstd(&raw), raw.len());
    expect_error(&session, ZSTD, &stored, raw.len());
}

#[test]
fn damaged_tiles_never_write_beyond_the_destination() {
    let session = Session::new();
    let raw = pattern(100_000, 41);
    let stored = gdeflate(&raw);
    let queue = session.queue(MEMORY);
    let mut random = millstream_testing::random();
    for _ in 0..200 {
        let mut damaged = stored.clone();
        for _ in 0..random.usize(1..5) {
            let at = random.usize(8..damaged.len());
            damaged[at] ^= 1 << random.u8(..8);
        }
        let mut around = vec![0xa5; raw.len() + 2 * 4096];
        let request = copy(&damaged, GDEFLATE, &mut around[4096..4096 + raw.len()]);
        // Damage may decode to other bytes: the format has no checksum.
        let found = run(&session, &queue, std::slice::from_ref(&request));
        assert!(
            found == OK || found.0 == abi::E_DSTORAGE_DECOMPRESSION_ERROR,
            "{found:?}"
        );
        let canaries = around[..4096].iter().chain(&around[4096 + raw.len()..]);
        assert!(canaries.into_iter().all(|byte| *byte == 0xa5));
    }
}

#[test]
fn requests_larger_than_staging_complete() {
    let session = Session::new();
    session
        .factory
        .set_staging(1 << 20)
        .expect("there is no queue");
    let raw = pattern(40 << 20, 42);
    let stored = gdeflate(&raw);
    let file = session.file("raw", &raw);
    let compressed = session.file("compressed", &stored);
    let packed = session.file("zstd", &zstd(&raw));
    let queue = session.queue(FILE);
    let mut into = vec![0; raw.len()];
    assert_eq!(run(&session, &queue, &[read(&file, 0, &mut into)]), OK);
    assert!(into == raw);
    for (file, format) in [(&compressed, GDEFLATE), (&packed, ZSTD)] {
        let path = if format == GDEFLATE {
            "compressed"
        } else {
            "zstd"
        };
        let size = std::fs::metadata(session.path(path))
            .expect("it is there")
            .len() as u32;
        into.fill(0);
        let request = read_encoded(file, 0, size, format, &mut into);
        assert_eq!(run(&session, &queue, &[request]), OK);
        assert!(into == raw);
    }
    // And one that the program decompresses.
    let mut ended = vec![0; 1];
    queue.request(&read_encoded(
        &file,
        0,
        raw.len() as u32,
        CUSTOM,
        &mut ended,
    ));
    queue.submit();
    let custom = session.custom();
    expect_set(custom.event());
    let mut requests = [DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST::default(); 2];
    let mut count = 0;
    // SAFETY: room for as many requests as it has.
    unsafe { custom.GetRequests(&mut requests, &mut count) }.expect("requests");
    assert_eq!((count, requests[0].SrcSize), (1, raw.len() as u64));
    let source =
        // SAFETY: memory that the library lends until the result is set.
        unsafe { std::slice::from_raw_parts(requests[0].SrcBuffer.cast::<u8>(), raw.len()) };
    assert!(source == raw);
    let results = [DSTORAGE_CUSTOM_DECOMPRESSION_RESULT {
        Id: requests[0].Id,
        Result: OK,
    }];
    custom.set_results(&results).expect("it is known");
    drain(&queue);
    assert_eq!(record(&queue).FailureCount, 0);
}
