//! Every kernel gives what the plain parser gives, right or wrong, whole, in pieces, on threads.

use crate::common::{Layout, decode_in_pieces, decode_with, kernels, text, text_of};
use millstream_pnm::Kernel;

/// Bytes that a text may be spoiled with: what separates, what numbers are made of, and strays.
const SPOILERS: &[u8] = b"0123456789 \t\n\x0B\x0C\r#-+,.aP/:\x00\x1F\x7F\x80\xB0\xFF";

/// Replaces some of the bytes.
fn spoil(bytes: &mut [u8], count: usize, random: &mut fastrand::Rng) {
    for _ in 0..count {
        bytes[random.usize(..bytes.len())] = SPOILERS[random.usize(..SPOILERS.len())];
    }
}

#[test]
fn right_texts_give_the_samples_they_were_made_of() {
    let mut random = millstream_testing::random();
    for _ in 0..150 {
        let text = text(&mut random, 3000);
        for kernel in kernels() {
            let image = decode_with(kernel, 1, &text.bytes);
            let image = image.unwrap_or_else(|error| panic!("{}: {error}", kernel.name()));
            let samples: Vec<u16> = match &image.samples {
                millstream_pnm::Samples::U8(samples) => {
                    samples.iter().map(|&sample| u16::from(sample)).collect()
                }
                millstream_pnm::Samples::U16(samples) => samples.clone(),
            };
            assert!(samples == text.samples, "{}: {text:?}", kernel.name());
        }
    }
}

#[test]
fn spoiled_texts_give_the_plain_parsers_result() {
    let mut random = millstream_testing::random();
    for _ in 0..150 {
        let mut bytes = text(&mut random, 1500).bytes;
        let count = random.usize(1..4);
        spoil(&mut bytes, count, &mut random);
        if random.bool() {
            bytes.truncate(random.usize(..bytes.len()));
        }
        let plain = decode_with(Kernel::Plain, 1, &bytes);
        for kernel in kernels() {
            let (name, shown) = (kernel.name(), bytes.escape_ascii());
            assert_eq!(decode_with(kernel, 1, &bytes), plain, "{name}: {shown}");
        }
    }
}

#[test]
fn pieces_give_what_the_whole_gives() {
    let mut random = millstream_testing::random();
    for _ in 0..150 {
        let mut bytes = text(&mut random, 700).bytes;
        let count = random.usize(..2);
        spoil(&mut bytes, count, &mut random);
        let mut cuts: Vec<usize> = (0..random.usize(..6))
            .map(|_| random.usize(..bytes.len()))
            .collect();
        cuts.sort_unstable();
        let whole = decode_with(Kernel::Plain, 1, &bytes);
        let whole = whole.map(|image| image.samples.as_bytes().to_vec());
        for kernel in kernels() {
            let pieces = decode_in_pieces(kernel, &bytes, &cuts);
            let (name, shown) = (kernel.name(), bytes.escape_ascii());
            assert_eq!(pieces, whole, "{name} at {cuts:?}: {shown}");
        }
    }
}

#[test]
fn every_value_from_0_to_65536_is_right_or_refused() {
    for maxval in [
        1u16, 9, 10, 99, 100, 199, 200, 254, 255, 256, 999, 9999, 40_000, 65_534, 65_535,
    ] {
        let step = if maxval < 256 { 1 } else { 61 };
        let near = |value: u32| value.abs_diff(u32::from(maxval)) < 40;
        for value in (0..=99_999u32).filter(|&value| value % step == 0 || near(value)) {
            if value > 1200 && maxval < 256 && value % 100 != 0 {
                continue;
            }
            // In the middle of enough usual text, so that a kernel comes across it.
            let text = format!(
                "P2 101 1 {maxval}\n{}{value} {}",
                "1 ".repeat(50),
                "0 ".repeat(50)
            );
            let right = value <= u32::from(maxval);
            for kernel in kernels().filter(|kernel| *kernel != Kernel::Plain) {
                let result = decode_with(kernel, 1, text.as_bytes());
                assert_eq!(result.is_ok(), right, "{} {maxval} {value}", kernel.name());
                if let Ok(image) = result {
                    let sample = match image.samples {
                        millstream_pnm::Samples::U8(samples) => u32::from(samples[50]),
                        millstream_pnm::Samples::U16(samples) => u32::from(samples[50]),
                    };
                    assert_eq!(sample, value, "{} {maxval}", kernel.name());
                }
            }
        }
    }
}

#[test]
fn every_byte_at_every_place_of_a_block_is_judged_alike() {
    let text = text_of(255, &[123; 100], Layout::Spaces, 1);
    for byte in 0..=255u8 {
        for place in 120..124 {
            let mut bytes = text.clone();
            bytes[place] = byte;
            let plain = decode_with(Kernel::Plain, 1, &bytes);
            for kernel in kernels() {
                let name = kernel.name();
                assert_eq!(
                    decode_with(kernel, 1, &bytes),
                    plain,
                    "{name} {byte} at {place}"
                );
            }
        }
    }
}

#[test]
fn a_border_at_every_byte_changes_nothing() {
    let samples: Vec<u16> = (0..220).map(|index| index * 37 % 256).collect();
    for layout in [Layout::Lines, Layout::Runs, Layout::Comments] {
        for maxval in [255, 300] {
            let bytes = text_of(maxval, &samples, layout, 7);
            let whole = decode_with(Kernel::Plain, 1, &bytes).unwrap();
            for kernel in kernels() {
                for cut in 0..=bytes.len() {
                    let pieces = decode_in_pieces(kernel, &bytes, &[cut]).unwrap();
                    assert!(
                        pieces == whole.samples.as_bytes(),
                        "{} at {cut}",
                        kernel.name()
                    );
                }
            }
        }
    }
}

#[test]
fn many_windows_on_many_threads_give_what_one_thread_gives() {
    let samples: Vec<u16> = (0..700_000u32)
        .map(|index| (index * 31 % 251) as u16)
        .collect();
    let right = text_of(255, &samples, Layout::Lines, 3);
    let mut spoiled = right.clone();
    spoiled[1_500_000] = b'x';
    let mut commented = right.clone();
    commented[1_310_000..1_312_000].fill(b' ');
    commented[1_310_700..1_310_900].fill(b'#');
    let mut longer = right.clone();
    longer.extend_from_slice(b" 7");
    for bytes in [
        &right,
        &spoiled,
        &commented,
        &longer,
        &right[..2_000_000].to_vec(),
    ] {
        let one = decode_with(Kernel::Plain, 1, bytes);
        for kernel in kernels() {
            for threads in [2, 3, 8] {
                let many = decode_with(kernel, threads, bytes);
                assert!(many == one, "{} on {threads}", kernel.name());
            }
        }
    }
}
