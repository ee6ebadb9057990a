//! PNG's row filters (specification, section 9), undone over pixels widened to four channels.
//!
//! Filters work on each channel by itself, so a pixel is a little-endian `u32` whose bytes are
//! added together in one register. Of three filters (Sub, Average, Paeth) each pixel depends on the
//! one to the left, so the length of that chain of instructions decides the speed.
//!
//! **Paeth** chooses among left `a`, above `b` and corner `c` the nearest to `p = a + b - c`. With
//! `lo` and `hi` the lesser and the greater of `a` and `b`, let `x = c - lo` and `y = hi - c`: `p`
//! is `|x|` from `hi`, `|y|` from `lo` and `|y - x|` from `c`. So it is `hi` where `2x <= y`, else
//! `lo` where `2y <= x`, else `c`; with `t = 3c - a - b` these are `t <= lo` and `hi <= t`. No step
//! of the chain needs an absolute value, and `3c - b` depends on no pixel of the row.
//!
//! # Safety
//! Calls need SSE2, which x86-64 includes. Memory is accessed only through slices.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls a function that needs SSE2")
)]

/// Undoes the filter of one row. `filtered` has `channels` bytes per pixel; `above` (the row
/// before, or zeros) and `out` have four. Missing alpha becomes 255, gray all colors.
pub(super) fn unfilter(
    filter: u8,
    channels: usize,
    filtered: &[u8],
    above: &[u8],
    out: &mut [u8],
) -> Result<(), &'static str> {
    match channels {
        1 => row::<1>(filter, filtered, above, out),
        2 => row::<2>(filter, filtered, above, out),
        3 => row::<3>(filter, filtered, above, out),
        _ => row::<4>(filter, filtered, above, out),
    }
}

fn row<const N: usize>(
    filter: u8,
    filtered: &[u8],
    above: &[u8],
    out: &mut [u8],
) -> Result<(), &'static str> {
    let (filtered, _) = filtered.as_chunks::<N>();
    let (above, _) = above.as_chunks::<4>();
    let (out, _) = out.as_chunks_mut::<4>();
    let mut left = 0;
    match filter {
        0 => each(filtered, above, out, |from, _| from),
        1 => each(filtered, above, out, |from, _| {
            left = add(left, from);
            left
        }),
        2 => each(filtered, above, out, |from, above| add(above, from)),
        3 => each(filtered, above, out, |from, above| {
            left = add(average(left, above), from);
            left
        }),
        4 => each(filtered, above, out, paeth()),
        _ => return Err("a row of the PNG has an unknown filter"),
    }
    Ok(())
}

/// Computes each pixel from the filtered one and the one above.
#[inline(always)]
fn each<const N: usize>(
    filtered: &[[u8; N]],
    above: &[[u8; 4]],
    out: &mut [[u8; 4]],
    mut make: impl FnMut(u32, u32) -> u32,
) {
    const ALPHA: u32 = 0xff00_0000;
    for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
        let pixel = make(widen(from), u32::from_le_bytes(*above));
        let opaque = if N % 2 == 1 { pixel | ALPHA } else { pixel };
        *out = opaque.to_le_bytes();
    }
}

/// Returns the filtered pixel in four channels; missing alpha is 0.
#[inline(always)]
fn widen<const N: usize>(bytes: &[u8; N]) -> u32 {
    match N {
        1 => u32::from(bytes[0]) * 0x0001_0101,
        2 => (u32::from(bytes[0]) * 0x0001_0101) | (u32::from(bytes[1]) << 24),
        3 => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]),
        _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    }
}

/// Adds channel by channel.
#[inline(always)]
fn add(a: u32, b: u32) -> u32 {
    const LOW: u32 = 0x7f7f_7f7f;
    ((a & LOW) + (b & LOW)) ^ ((a ^ b) & !LOW)
}

/// Returns the average of each channel, rounded down.
#[inline(always)]
fn average(a: u32, b: u32) -> u32 {
    (a & b) + (((a ^ b) & 0xfefe_fefe) >> 1)
}

/// Returns a function from a row's next filtered pixel and the one above to the pixel.
#[cfg(target_arch = "x86_64")]
fn paeth() -> impl FnMut(u32, u32) -> u32 {
    // SAFETY: every x86-64 processor has SSE2; it is part of the architecture.
    unsafe { paeth_sse2() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn paeth_sse2() -> impl FnMut(u32, u32) -> u32 {
    use std::arch::x86_64::*;

    let zero = _mm_setzero_si128();
    // Channels are 16-bit numbers from 0 to 255, so t lies between -510 and 765.
    let load = move |pixel: u32| {
        let pixel = _mm_cvtsi32_si128(pixel.cast_signed());
        _mm_unpacklo_epi8(pixel, zero)
    };
    let choose = |mask: __m128i, yes: __m128i, no: __m128i| {
        _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no))
    };
    let (mut left, mut corner) = (zero, zero);
    move |filtered: u32, above: u32| {
        let above = load(above);
        let thrice = _mm_add_epi16(_mm_sub_epi16(corner, above), _mm_add_epi16(corner, corner));
        let t = _mm_sub_epi16(thrice, left);
        let (lo, hi) = (_mm_min_epi16(left, above), _mm_max_epi16(left, above));
        let lo_or_corner = choose(_mm_cmpgt_epi16(hi, t), corner, lo);
        let nearest = choose(_mm_cmpgt_epi16(t, lo), lo_or_corner, hi);
        // Bytes are added within their 16 bits: the upper bytes are zero and stay so.
        left = _mm_add_epi8(nearest, load(filtered));
        corner = above;
        _mm_cvtsi128_si32(_mm_packus_epi16(left, left)).cast_unsigned()
    }
}

/// As above, for other processors.
#[cfg(not(target_arch = "x86_64"))]
fn paeth() -> impl FnMut(u32, u32) -> u32 {
    let (mut left, mut corner) = (0u32, 0u32);
    move |filtered: u32, above: u32| {
        let [a, b, c] = [left, above, corner].map(u32::to_le_bytes);
        let nearest = std::array::from_fn(|at| {
            let [a, b, c] = [a[at], b[at], c[at]].map(i16::from);
            let (lo, hi) = (a.min(b), a.max(b));
            let t = 3 * c - a - b;
            let lo_or_corner = if hi <= t { lo } else { c };
            (if t <= lo { hi } else { lo_or_corner }) as u8
        });
        left = add(u32::from_le_bytes(nearest), filtered);
        corner = above;
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's filters, byte by byte, over pixels of `channels` bytes.
    fn oracle(filter: u8, channels: usize, filtered: &[u8], above: &[u8]) -> Vec<u8> {
        let mut raw = vec![0u8; filtered.len()];
        for at in 0..filtered.len() {
            let before = |row: &[u8]| at.checked_sub(channels).map_or(0, |left| row[left]);
            let (a, b, c) = (before(&raw), above[at], before(above));
            let [wide_a, wide_b, wide_c] = [a, b, c].map(i32::from);
            let p = wide_a + wide_b - wide_c;
            let nearest = [(wide_a, a), (wide_b, b), (wide_c, c)];
            let (_, paeth) = nearest
                .into_iter()
                .min_by_key(|(it, _)| (p - it).abs())
                .unwrap();
            let predicted = match filter {
                0 => 0,
                1 => a,
                2 => b,
                3 => ((wide_a + wide_b) / 2) as u8,
                _ => paeth,
            };
            raw[at] = filtered[at].wrapping_add(predicted);
        }
        raw
    }

    /// Pixels of four channels, as the filters take and make them.
    fn widened(channels: usize, bytes: &[u8]) -> Vec<u8> {
        let wide = |pixel: &[u8]| match *pixel {
            [gray] => [gray, gray, gray, 255],
            [gray, alpha] => [gray, gray, gray, alpha],
            [red, green, blue] => [red, green, blue, 255],
            _ => pixel.try_into().unwrap(),
        };
        bytes.chunks(channels).flat_map(wide).collect()
    }

    #[test]
    fn rows_are_what_the_specification_makes_of_them() {
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..2000 {
            let (filter, channels) = (round as u8 % 5, 1 + round % 4);
            let len = channels * random.usize(1..40);
            let [filtered, above] = [(); 2].map(|()| {
                let most = [3, 255][random.usize(0..2)];
                (0..len).map(|_| random.u8(0..=most)).collect::<Vec<u8>>()
            });
            let expected = widened(channels, &oracle(filter, channels, &filtered, &above));
            let mut out = vec![0; expected.len()];
            let above = widened(channels, &above);
            unfilter(filter, channels, &filtered, &above, &mut out).unwrap();
            assert_eq!(out, expected, "filter {filter}, {channels} channels");
        }
    }
}
