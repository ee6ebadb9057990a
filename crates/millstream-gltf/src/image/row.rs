//! Undoing PNG's row filters, over pixels widened to four channels.
//!
//! A pixel is a little-endian `u32`. Of three filters (Sub, Average, Paeth) each pixel needs the
//! one before, so a row takes as long as that chain: what counts is not how many instructions a
//! pixel takes, but how many of them wait for the pixel before. On x86-64 the two long chains run
//! in SSE2, which every such processor has; elsewhere channel by channel.
//!
//! **Average** keeps the complement of the pixel. SSE2's average rounds up, PNG's down, and
//! `down(a, b) = !up(!a, !b)`; with `n = !left`, the next `n` is `up(n, !above) - filtered`: two
//! instructions wait for each other instead of seven.
//!
//! **Paeth** chooses among left `a`, above `b` and corner `c` what is nearest to `p = a + b - c`.
//! With the lesser of `a` and `b` and the greater, let `x = c - lo` and `y = hi - c`: `p` is `|x|`
//! from `hi`, `|y|` from `lo` and `|y - x|` from `c`. So it is `hi` where `2x <= y`, else `lo`
//! where `2y <= x`, else `c`; with `t = 3c - a - b` that is where `t <= lo` and where `hi <= t`.
//! Nothing waits for an absolute value, and `3c - b` waits for no pixel of the row.
//!
//! # Safety
//! Two calls need SSE2, which x86-64 includes. No memory is touched but through slices.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls functions that need SSE2")
)]

/// Undoes the filter of one row. `filtered` has `channels` bytes a pixel, `above` (the row before,
/// none for the first) and `out` have four; missing alpha becomes 255, grey goes to all colours.
pub(super) fn unfilter(
    filter: u8,
    channels: usize,
    filtered: &[u8],
    above: Option<&[u8]>,
    out: &mut [u8],
) -> Result<(), &'static str> {
    // What is above the first row is zero: Up does nothing then, and Paeth becomes Sub.
    let filter = match (filter, above) {
        (2, None) => 0,
        (4, None) => 1,
        (filter, _) => filter,
    };
    match channels {
        1 => rows::<1>(filter, filtered, above, out),
        2 => rows::<2>(filter, filtered, above, out),
        3 => rows::<3>(filter, filtered, above, out),
        _ => rows::<4>(filter, filtered, above, out),
    }
}

const ALPHA: u32 = 0xff00_0000;

/// The filtered pixel, widened; alpha that is not there is 0.
#[inline(always)]
fn widen<const N: usize>(bytes: &[u8; N]) -> u32 {
    match N {
        1 => u32::from(bytes[0]) * 0x0001_0101,
        2 => (u32::from(bytes[0]) * 0x0001_0101) | (u32::from(bytes[1]) << 24),
        3 => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]),
        _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    }
}

/// The pixel as it is stored: opaque if it has no alpha of its own.
#[inline(always)]
fn finish<const N: usize>(pixel: u32) -> u32 {
    if N % 2 == 1 { pixel | ALPHA } else { pixel }
}

/// Adds channel by channel.
#[inline(always)]
fn add(a: u32, b: u32) -> u32 {
    const LOW: u32 = 0x7f7f_7f7f;
    ((a & LOW) + (b & LOW)) ^ ((a ^ b) & !LOW)
}

/// Undoes the filter of a row of `N` channels; `above` has as many pixels, or none.
fn rows<const N: usize>(
    filter: u8,
    filtered: &[u8],
    above: Option<&[u8]>,
    out: &mut [u8],
) -> Result<(), &'static str> {
    let (filtered, _) = filtered.as_chunks::<N>();
    let (out, _) = out.as_chunks_mut::<4>();
    let (above, _) = above.unwrap_or(&[]).as_chunks::<4>();
    match filter {
        0 => {
            for (out, from) in out.iter_mut().zip(filtered) {
                *out = finish::<N>(widen(from)).to_le_bytes();
            }
        }
        2 => {
            for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
                let pixel = add(u32::from_le_bytes(*above), widen(from));
                *out = finish::<N>(pixel).to_le_bytes();
            }
        }
        1 => sub(filtered, out),
        3 if above.is_empty() => chain::average(filtered, std::iter::repeat(&[0; 4]), out),
        3 => chain::average(filtered, above.iter(), out),
        4 => chain::paeth(filtered, above, out),
        _ => return Err("a row of the PNG has an unknown filter"),
    }
    Ok(())
}

/// Each pixel needs the one before, in a chain of one addition.
fn sub<const N: usize>(filtered: &[[u8; N]], out: &mut [[u8; 4]]) {
    let mut left = 0;
    for (out, from) in out.iter_mut().zip(filtered) {
        left = add(left, widen(from));
        *out = finish::<N>(left).to_le_bytes();
    }
}

/// The filters whose chain is longer.
#[cfg(target_arch = "x86_64")]
mod chain {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_and_si128, _mm_andnot_si128, _mm_avg_epu8, _mm_cmpgt_epi16,
        _mm_cvtsi32_si128, _mm_cvtsi128_si32, _mm_max_epi16, _mm_min_epi16, _mm_or_si128,
        _mm_packus_epi16, _mm_set1_epi8, _mm_setzero_si128, _mm_sub_epi8, _mm_sub_epi16,
        _mm_unpacklo_epi8, _mm_xor_si128,
    };

    use super::{finish, widen};

    pub(super) fn average<'a, const N: usize>(
        filtered: &[[u8; N]],
        above: impl Iterator<Item = &'a [u8; 4]>,
        out: &mut [[u8; 4]],
    ) {
        // SAFETY: every x86-64 processor has SSE2; it is part of the architecture.
        unsafe { average_sse2(filtered, above, out) }
    }

    pub(super) fn paeth<const N: usize>(
        filtered: &[[u8; N]],
        above: &[[u8; 4]],
        out: &mut [[u8; 4]],
    ) {
        // SAFETY: as in `average`.
        unsafe { paeth_sse2(filtered, above, out) }
    }

    #[target_feature(enable = "sse2")]
    fn average_sse2<'a, const N: usize>(
        filtered: &[[u8; N]],
        above: impl Iterator<Item = &'a [u8; 4]>,
        out: &mut [[u8; 4]],
    ) {
        let ones = _mm_set1_epi8(-1);
        let load = |pixel: u32| _mm_cvtsi32_si128(pixel.cast_signed());
        // The complement of what is left of the first pixel: zero.
        let mut not_left = ones;
        for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
            let not_above = _mm_xor_si128(load(u32::from_le_bytes(*above)), ones);
            not_left = _mm_sub_epi8(_mm_avg_epu8(not_left, not_above), load(widen(from)));
            let pixel = !_mm_cvtsi128_si32(not_left).cast_unsigned();
            *out = finish::<N>(pixel).to_le_bytes();
        }
    }

    #[target_feature(enable = "sse2")]
    fn paeth_sse2<const N: usize>(filtered: &[[u8; N]], above: &[[u8; 4]], out: &mut [[u8; 4]]) {
        let zero = _mm_setzero_si128();
        // Channels as 16-bit numbers from 0 to 255: t lies between -510 and 765.
        let load = |pixel: u32| _mm_unpacklo_epi8(_mm_cvtsi32_si128(pixel.cast_signed()), zero);
        let choose = |mask: __m128i, yes: __m128i, no: __m128i| {
            _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no))
        };
        let (mut left, mut corner) = (zero, zero);
        for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
            let above = load(u32::from_le_bytes(*above));
            // 3c - b, which waits for no pixel of this row.
            let thrice = _mm_sub_epi16(corner, above);
            let thrice = _mm_sub_epi16(thrice, _mm_sub_epi16(zero, corner));
            let thrice = _mm_sub_epi16(thrice, _mm_sub_epi16(zero, corner));
            let t = _mm_sub_epi16(thrice, left);
            let (lo, hi) = (_mm_min_epi16(left, above), _mm_max_epi16(left, above));
            let lo_or_corner = choose(_mm_cmpgt_epi16(hi, t), corner, lo);
            let nearest = choose(_mm_cmpgt_epi16(t, lo), lo_or_corner, hi);
            // Bytes are added within their 16 bits: the upper bytes are zero and stay so.
            left = _mm_add_epi8(nearest, load(widen(from)));
            corner = above;
            let pixel = _mm_cvtsi128_si32(_mm_packus_epi16(left, left)).cast_unsigned();
            *out = finish::<N>(pixel).to_le_bytes();
        }
    }
}

/// The filters whose chain is longer.
#[cfg(not(target_arch = "x86_64"))]
mod chain {
    use super::{add, finish, plain, widen};

    pub(super) fn average<'a, const N: usize>(
        filtered: &[[u8; N]],
        above: impl Iterator<Item = &'a [u8; 4]>,
        out: &mut [[u8; 4]],
    ) {
        let mut left = 0;
        for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
            let above = u32::from_le_bytes(*above);
            let half = (left & above) + (((left ^ above) & 0xfefe_fefe) >> 1);
            left = add(half, widen(from));
            *out = finish::<N>(left).to_le_bytes();
        }
    }

    pub(super) fn paeth<const N: usize>(
        filtered: &[[u8; N]],
        above: &[[u8; 4]],
        out: &mut [[u8; 4]],
    ) {
        let (mut left, mut corner) = (0, 0);
        for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
            let above = u32::from_le_bytes(*above);
            left = add(plain::nearest(left, above, corner), widen(from));
            corner = above;
            *out = finish::<N>(left).to_le_bytes();
        }
    }
}

/// The definition of the specification, channel by channel.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod plain {
    pub(super) fn nearest(left: u32, above: u32, corner: u32) -> u32 {
        let (a, b, c) = (
            left.to_le_bytes(),
            above.to_le_bytes(),
            corner.to_le_bytes(),
        );
        u32::from_le_bytes(std::array::from_fn(|at| {
            let [a, b, c] = [a[at], b[at], c[at]].map(i16::from);
            let p = a + b - c;
            let (pa, pb, pc) = ((p - a).abs(), (p - b).abs(), (p - c).abs());
            let nearest = if pa <= pb && pa <= pc {
                a
            } else if pb <= pc {
                b
            } else {
                c
            };
            nearest as u8
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paeth_filter_chooses_as_specified_among_all_triples() {
        for corner in 0..=255u8 {
            for above in 0..=255u8 {
                for left in (0..=255u8).step_by(4) {
                    let lefts: [u8; 4] = std::array::from_fn(|at| left + at as u8);
                    // Nothing is left of the first pixel, so what is above it is nearest.
                    let first = lefts.map(|left| left.wrapping_sub(corner));
                    let mut out = [[0; 4]; 2];
                    chain::paeth(&[first, [0; 4]], &[[corner; 4], [above; 4]], &mut out);
                    let word = |byte| u32::from_le_bytes([byte; 4]);
                    let lefts_word = u32::from_le_bytes(lefts);
                    let nearest = plain::nearest(lefts_word, word(above), word(corner));
                    assert_eq!(
                        out,
                        [lefts, nearest.to_le_bytes()],
                        "{left}.. {above} {corner}"
                    );
                }
            }
        }
    }

    /// Row by row and byte by byte, as the specification says it.
    fn slow(filter: u8, channels: usize, filtered: &[u8], above: &[u8]) -> Vec<u8> {
        let mut raw: Vec<u8> = Vec::new();
        for (at, &byte) in filtered.iter().enumerate() {
            let left = at.checked_sub(channels).map_or(0, |at| raw[at]);
            let corner = at.checked_sub(channels).map_or(0, |at| above[at]);
            let predicted = match filter {
                1 => left,
                2 => above[at],
                3 => ((u16::from(left) + u16::from(above[at])) / 2) as u8,
                4 => plain::nearest(left.into(), above[at].into(), corner.into()) as u8,
                _ => 0,
            };
            raw.push(byte.wrapping_add(predicted));
        }
        raw
    }

    fn widened(channels: usize, raw: &[u8]) -> Vec<u8> {
        let pixel = |pixel: &[u8]| match *pixel {
            [grey] => [grey, grey, grey, 255],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue] => [red, green, blue, 255],
            [red, green, blue, alpha] => [red, green, blue, alpha],
            _ => unreachable!("one to four"),
        };
        raw.chunks_exact(channels).flat_map(pixel).collect()
    }

    #[test]
    fn every_filter_and_width_is_as_specified() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..600u32 {
            let (filter, channels) = (round % 5, 1 + (round % 4) as usize);
            let pixels = random.usize(1..40);
            let mut bytes = || -> Vec<u8> {
                // Small steps too: ties between predictors must be seen.
                let span = if random.bool() { 4 } else { 255 };
                (0..pixels * channels)
                    .map(|_| random.u8(0..=span))
                    .collect()
            };
            let (filtered, above) = (bytes(), bytes());
            for first in [false, true] {
                let zero = vec![0; above.len()];
                let raw_above = if first { &zero } else { &above };
                let expected = widened(
                    channels,
                    &slow(filter as u8, channels, &filtered, raw_above),
                );
                let wide_above = widened(channels, &above);
                let given = (!first).then_some(&wide_above[..]);
                let mut out = vec![7; pixels * 4];
                unfilter(filter as u8, channels, &filtered, given, &mut out).expect("known");
                assert_eq!(
                    out, expected,
                    "filter {filter}, {channels} channels, first {first}"
                );
            }
        }
        assert!(unfilter(5, 4, &[0; 4], None, &mut [0; 4]).is_err());
    }
}
