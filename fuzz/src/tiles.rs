//! GDeflate: every kernel judges hostile tiles and streams as the plain decoder does, and any bytes
//! come back from every level.

use gdeflate::{Decoder, Kernel, Level, TileStream, compress, compress_bound};

#[path = "../../crates/gdeflate/tests/gdeflate/support/plain.rs"]
mod plain;

/// The plain decoder is slow; longer outputs than this say nothing new.
const RAW_BYTES_MAX: u64 = 1 << 18;

/// Hostile tiles and streams.
pub fn decode(data: &[u8]) {
    let mut decoders: Vec<Decoder> = Kernel::ALL
        .iter()
        .filter(|kernel| kernel.is_available())
        .map(|&kernel| Decoder::with_kernel(kernel))
        .collect();
    if let Ok(stream) = TileStream::parse_prefix(data)
        && stream.header().raw_len() <= RAW_BYTES_MAX
    {
        for tile in 0..stream.header().tile_count() {
            compare(
                stream.tile(tile),
                stream.header().tile_raw_len(tile),
                &mut decoders,
            );
        }
    }
    // The same bytes as one tile: raw length first, then a multiple of four.
    if let Some((len, tile)) = data.split_first_chunk::<2>() {
        let tile = &tile[..tile.len() / 4 * 4];
        compare(tile, usize::from(u16::from_le_bytes(*len)), &mut decoders);
    }
}

fn compare(tile: &[u8], raw_len: usize, decoders: &mut [Decoder]) {
    let expected = plain::decode_tile(tile, raw_len);
    for decoder in decoders {
        let mut raw = vec![0; raw_len];
        let result = decoder.decode_tile(tile, &mut raw);
        match (&expected, result) {
            (Ok(expected), Ok(())) => assert!(raw == *expected, "{:?}", decoder.kernel()),
            (Err(_), Err(_)) => {}
            (expected, result) => {
                panic!(
                    "{:?}: {:?}, {result:?}",
                    decoder.kernel(),
                    expected.as_ref().err()
                );
            }
        }
    }
}

/// Any bytes come back from every level, within the bound, with every kernel.
pub fn round_trip(data: &[u8]) {
    let Some((&choice, seed)) = data.split_first() else {
        return;
    };
    let level = Level::new(choice % 13).expect("0 to 12");
    // Some inputs are repeated, so that there are long and far matches, and up to two tiles. Few
    // are so long: level 12 takes 10 ms for a tile, and 130 for the slowest.
    let raw: Vec<u8> = match usize::from(choice / 13) {
        0..=9 => seed.to_vec(),
        more => {
            let len = (more - 9).pow(2) * 700;
            seed.iter().copied().cycle().take(len).collect()
        }
    };
    let stored = compress(&raw, level, 1).expect("short enough");
    assert!(stored.len() <= compress_bound(raw.len()));
    let stream = TileStream::parse(&stored).expect("our own stream");
    for &kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
        let mut back = vec![0; raw.len()];
        Decoder::with_kernel(kernel)
            .decode(&stream, &mut back)
            .expect("our own tiles");
        assert!(back == raw, "{level:?} {kernel:?}");
    }
}
