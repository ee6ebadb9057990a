//! Any bytes come back from every level, within the bound, with every kernel.
#![no_main]

use gdeflate::{Decoder, Kernel, Level, ParseOptions, TileStream, compress, compress_bound};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, seed)) = data.split_first() else { return };
    let level = Level::new(choice % 13).expect("0 to 12");
    // Some inputs are repeated, so that there are long and far matches and several tiles.
    let raw = match choice / 13 {
        0..=9 => seed.to_vec(),
        times => seed.repeat(usize::from(times) * 40),
    };
    let stored = compress(&raw, level, 1).expect("short enough");
    assert!(stored.len() <= compress_bound(raw.len()));
    let stream = TileStream::parse(&stored, ParseOptions::default()).expect("our own stream");
    for &kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
        let mut back = vec![0; raw.len()];
        Decoder::with_kernel(kernel).decode(&stream, &mut back).expect("our own tiles");
        assert!(back == raw, "{level:?} {kernel:?}");
    }
});
