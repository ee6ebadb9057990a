//! `IDStorageCompressionCodec`.
#![expect(unsafe_code, reason = "calls COM methods")]

use std::ffi::c_void;

use direct_storage::*;
use dstorage::abi;
use windows_core::Interface;

use crate::calls::*;
use crate::common::*;

const INSUFFICIENT_BUFFER: i32 = abi::hresult_from_win32(122);

fn codec(format: u8, threads: u32) -> windows_core::Result<IDStorageCompressionCodec> {
    // SAFETY: parameters that the function takes.
    interface(|iid, out| unsafe {
        dstorage::DStorageCreateCompressionCodec(format, threads, iid, out)
    })
}

fn compress(
    codec: &IDStorageCompressionCodec,
    raw: &[u8],
    setting: DSTORAGE_COMPRESSION,
    room: usize,
) -> Result<Vec<u8>, i32> {
    let mut stored = vec![0; room];
    let mut len = usize::MAX;
    let (from, into) = (
        raw.as_ptr().cast::<c_void>(),
        stored.as_mut_ptr().cast::<c_void>(),
    );
    // SAFETY: buffers of these lengths.
    let result = unsafe { codec.CompressBuffer(from, raw.len(), setting, into, room, &mut len) };
    result.map_err(|error| {
        assert_eq!(len, 0);
        error.code().0
    })?;
    stored.truncate(len);
    Ok(stored)
}

fn decompress(
    codec: &IDStorageCompressionCodec,
    stored: &[u8],
    room: usize,
) -> Result<Vec<u8>, i32> {
    let mut raw = vec![0xa5; room + 64];
    let mut len = usize::MAX;
    let (from, into) = (
        stored.as_ptr().cast::<c_void>(),
        raw.as_mut_ptr().cast::<c_void>(),
    );
    // SAFETY: objects and memory that the test holds, and null on purpose.
    let result = unsafe { codec.DecompressBuffer(from, stored.len(), into, room, &mut len) };
    assert!(
        raw[room..].iter().all(|byte| *byte == 0xa5),
        "nothing is written beyond the buffer"
    );
    result.map_err(|error| {
        assert_eq!(len, 0);
        error.code().0
    })?;
    raw.truncate(len);
    Ok(raw)
}

#[test]
fn what_is_compressed_comes_back() {
    for format in [
        abi::DSTORAGE_COMPRESSION_FORMAT_GDEFLATE,
        abi::DSTORAGE_COMPRESSION_FORMAT_ZSTD,
    ] {
        for threads in [0, 1, 3, u32::MAX] {
            let codec = codec(format, threads).expect("a codec");
            for setting in [
                DSTORAGE_COMPRESSION_FASTEST,
                DSTORAGE_COMPRESSION_DEFAULT,
                DSTORAGE_COMPRESSION_BEST_RATIO,
            ] {
                for len in [0, 1, 1000, 65_536, 200_001] {
                    let raw = pattern(len, 70);
                    let bound = codec.bound(len);
                    let stored = compress(&codec, &raw, setting, bound).expect("it fits the bound");
                    assert_eq!(decompress(&codec, &stored, len), Ok(raw.clone()));
                    assert_eq!(decompress(&codec, &stored, len + 100), Ok(raw.clone()));
                    let short = compress(&codec, &raw, setting, stored.len() - 1);
                    assert_eq!(short, Err(INSUFFICIENT_BUFFER));
                    if len > 0 {
                        let short = decompress(&codec, &stored, len - 1);
                        assert_eq!(short, Err(INSUFFICIENT_BUFFER));
                    }
                }
            }
            let wrong = compress(&codec, b"raw", DSTORAGE_COMPRESSION(2), 1000);
            assert_eq!(wrong, Err(abi::E_INVALIDARG));
        }
    }
}

#[test]
fn incompressible_bytes_fit_the_bound() {
    let mut random = millstream_testing::random();
    for format in [
        abi::DSTORAGE_COMPRESSION_FORMAT_GDEFLATE,
        abi::DSTORAGE_COMPRESSION_FORMAT_ZSTD,
    ] {
        let codec = codec(format, 1).expect("a codec");
        for len in [1, 100, 65_537, 300_000] {
            let raw: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            let bound = codec.bound(len);
            for setting in [
                DSTORAGE_COMPRESSION_FASTEST,
                DSTORAGE_COMPRESSION_BEST_RATIO,
            ] {
                let stored = compress(&codec, &raw, setting, bound).expect("it fits");
                assert_eq!(decompress(&codec, &stored, len), Ok(raw.clone()));
            }
        }
        assert!(codec.bound(usize::MAX) >= usize::MAX / 2);
    }
}

#[test]
fn what_the_codec_compressed_is_what_requests_decompress() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let raw = pattern(500_000, 71);
    for format in [GDEFLATE, DSTORAGE_COMPRESSION_FORMAT(2)] {
        let codec = codec(format.0, 0).expect("a codec");
        let bound = codec.bound(raw.len());
        let stored = compress(&codec, &raw, DSTORAGE_COMPRESSION_DEFAULT, bound).expect("it fits");
        let mut into = vec![0; raw.len()];
        assert_eq!(
            run(&session, &queue, &[copy(&stored, format, &mut into)]),
            OK
        );
        assert!(into == raw);
    }
}

#[test]
fn wrong_arguments_and_bytes_are_refused() {
    for format in [0, 3, 0x7f, 0x80, 0xff] {
        assert_eq!(code(codec(format, 1)).0, abi::E_INVALIDARG, "{format}");
    }
    let gdeflate = codec(GDEFLATE.0, 1).expect("a codec");
    let raw = pattern(10_000, 72);
    let stored = compress(&gdeflate, &raw, DSTORAGE_COMPRESSION_DEFAULT, 20_000).expect("it fits");
    let zstd = codec(2, 1).expect("a codec");
    for wrong in [
        &stored[..stored.len() - 1],
        &stored[..9],
        &[][..],
        &[7; 100][..],
    ] {
        let failed = decompress(&gdeflate, wrong, raw.len());
        assert_eq!(failed, Err(abi::E_DSTORAGE_DECOMPRESSION_ERROR));
    }
    assert_eq!(
        decompress(&zstd, &stored, raw.len()),
        Err(abi::E_DSTORAGE_DECOMPRESSION_ERROR)
    );
    let table = Interface::vtable(&gdeflate);
    let (this, null) = (gdeflate.as_raw(), std::ptr::null_mut());
    let from = stored.as_ptr().cast::<c_void>();
    let mut bytes = [0_u8; 100];
    let into = bytes.as_mut_ptr().cast::<c_void>();
    let mut len = 0;
    let setting = DSTORAGE_COMPRESSION_DEFAULT;
    // SAFETY: buffers of these lengths.
    unsafe {
        let no_len = std::ptr::null_mut();
        for (found, expected) in [
            (
                (table.CompressBuffer)(this, from, 5, setting, null, 100, &mut len),
                abi::E_INVALIDARG,
            ),
            (
                (table.CompressBuffer)(this, from, 5, setting, into, 100, no_len),
                abi::E_INVALIDARG,
            ),
            (
                (table.CompressBuffer)(this, null, 5, setting, into, 100, &mut len),
                abi::E_INVALIDARG,
            ),
            (
                (table.CompressBuffer)(this, from, usize::MAX, setting, into, 100, &mut len),
                abi::E_INVALIDARG,
            ),
            (
                (table.DecompressBuffer)(this, from, 5, null, 100, &mut len),
                abi::E_INVALIDARG,
            ),
            (
                (table.DecompressBuffer)(this, from, 5, into, 100, no_len),
                abi::E_INVALIDARG,
            ),
            (
                (table.DecompressBuffer)(this, null, 5, into, 100, &mut len),
                abi::E_INVALIDARG,
            ),
            (
                (table.DecompressBuffer)(this, from, usize::MAX, into, 100, &mut len),
                abi::E_INVALIDARG,
            ),
            (
                (table.DecompressBuffer)(this, from, 5, into, usize::MAX, &mut len),
                abi::E_INVALIDARG,
            ),
        ] {
            assert_eq!(found.0, expected);
        }
    }
}
