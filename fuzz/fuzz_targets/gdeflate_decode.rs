//! Hostile tiles and streams: every kernel judges them as the plain decoder does.
#![no_main]

use gdeflate::{Decoder, Kernel, ParseOptions, TileStream};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/gdeflate/tests/support/plain.rs"]
mod plain;

/// The plain decoder is slow; longer outputs than this say nothing new.
const RAW_BYTES_MAX: u64 = 1 << 18;

fuzz_target!(|data: &[u8]| {
    let mut decoders: Vec<Decoder> = Kernel::ALL
        .iter()
        .filter(|kernel| kernel.is_available())
        .map(|&kernel| Decoder::with_kernel(kernel))
        .collect();
    if let Ok(stream) = TileStream::parse(data, ParseOptions::default().allow_trailing(true))
        && stream.raw_len() <= RAW_BYTES_MAX
    {
        for tile in 0..stream.tile_count() {
            compare(stream.tile(tile), stream.tile_raw_len(tile), &mut decoders);
        }
    }
    // The same bytes as one tile: raw length first, then a multiple of four.
    if let Some((len, tile)) = data.split_first_chunk::<2>() {
        let tile = &tile[..tile.len() / 4 * 4];
        compare(tile, usize::from(u16::from_le_bytes(*len)), &mut decoders);
    }
});

fn compare(tile: &[u8], raw_len: usize, decoders: &mut [Decoder]) {
    let expected = plain::decode_tile(tile, raw_len);
    for decoder in decoders {
        let mut raw = vec![0; raw_len];
        let result = decoder.decode_tile(tile, &mut raw);
        match (&expected, result) {
            (Ok(expected), Ok(())) => assert!(raw == *expected, "{:?}", decoder.kernel()),
            (Err(_), Err(_)) => {}
            (expected, result) => {
                panic!("{:?}: {:?}, {result:?}", decoder.kernel(), expected.as_ref().err());
            }
        }
    }
}
