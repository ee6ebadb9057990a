//! Undoing PNG's row filters, over pixels widened to four channels.
//!
//! A pixel is a little-endian `u32`. Of three filters (Sub, Average, Paeth) each pixel needs the
//! one before, so a row takes as long as that chain: what counts is not how many instructions a
//! pixel takes, but how many of them wait for the pixel before. On x86-64 the chains run in SSE2,
//! which every such processor has; elsewhere channel by channel.
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
//! **Four rows at once** ([`unfilter_four`]), if they have the same filter, as neighbours mostly
//! do: each row follows a pixel behind the one above it, and the four pixels lie in one register.
//! What is above them are then the four pixels of the step before, moved by one place, with a new
//! one in the first; what is left of them are those of the step before as they lie. A row that has
//! not begun computes zero out of zeros, which is what lies left of its first pixel. Four pixels
//! wait as long for each other as one does in the loop for single rows.
//!
//! # Safety
//! Calls need SSE2, which x86-64 includes. No memory is touched but through slices.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls functions that need SSE2")
)]

const SUB: u8 = 1;
const UP: u8 = 2;
const AVERAGE: u8 = 3;
const PAETH: u8 = 4;

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
        (UP, None) => 0,
        (PAETH, None) => SUB,
        (filter, _) => filter,
    };
    match channels {
        1 => row::<1>(filter, filtered, above, out),
        2 => row::<2>(filter, filtered, above, out),
        3 => row::<3>(filter, filtered, above, out),
        _ => row::<4>(filter, filtered, above, out),
    }
}

/// Pixels of a row that [`unfilter_four`] needs at least.
pub(super) const WAVE_PIXELS_MIN: usize = 4;

/// Whether the filter's pixels wait for the one before, so that [`unfilter_four`] knows it.
pub(super) fn is_chain(filter: u8) -> bool {
    matches!(filter, SUB | AVERAGE | PAETH)
}

/// Undoes the filter, a chain, of four rows that have the same; `filtered` are the rows with the
/// filter's byte before each, `above` and `out` as for [`unfilter`].
pub(super) fn unfilter_four(channels: usize, filtered: &[u8], above: &[u8], out: &mut [u8]) {
    match channels {
        1 => four_rows::<1>(filtered, above, out),
        2 => four_rows::<2>(filtered, above, out),
        3 => four_rows::<3>(filtered, above, out),
        _ => four_rows::<4>(filtered, above, out),
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
fn finish<const N: usize>(pixel: u32) -> [u8; 4] {
    let opaque = if N % 2 == 1 { pixel | ALPHA } else { pixel };
    opaque.to_le_bytes()
}

/// Adds channel by channel.
#[inline(always)]
fn add(a: u32, b: u32) -> u32 {
    const LOW: u32 = 0x7f7f_7f7f;
    ((a & LOW) + (b & LOW)) ^ ((a ^ b) & !LOW)
}

/// Undoes the filter of a row of `N` channels; `above` has as many pixels, or none.
fn row<const N: usize>(
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
                *out = finish::<N>(widen(from));
            }
        }
        UP => {
            for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
                *out = finish::<N>(add(u32::from_le_bytes(*above), widen(from)));
            }
        }
        SUB => follow(chain::sub(), filtered, std::iter::repeat(&[0; 4]), out),
        AVERAGE if above.is_empty() => {
            follow(chain::average(), filtered, std::iter::repeat(&[0; 4]), out);
        }
        AVERAGE => follow(chain::average(), filtered, above.iter(), out),
        PAETH => follow(chain::paeth(), filtered, above.iter(), out),
        _ => return Err("a row of the PNG has an unknown filter"),
    }
    Ok(())
}

/// One step of a chain: the next pixel, from the filtered one and the one above.
trait Step: FnMut(u32, u32) -> u32 {}
impl<F: FnMut(u32, u32) -> u32> Step for F {}

fn follow<'a, const N: usize>(
    mut step: impl Step,
    filtered: &[[u8; N]],
    above: impl Iterator<Item = &'a [u8; 4]>,
    out: &mut [[u8; 4]],
) {
    for ((out, from), above) in out.iter_mut().zip(filtered).zip(above) {
        *out = finish::<N>(step(widen(from), u32::from_le_bytes(*above)));
    }
}

fn four_rows<const N: usize>(filtered: &[u8], above: &[u8], out: &mut [u8]) {
    let filter = filtered[0];
    let wave = Wave::<N> {
        filtered,
        above: above.as_chunks::<4>().0,
        out: out.as_chunks_mut::<4>().0,
    };
    match filter {
        SUB => wave.roll(chain::sub_four::<N>()),
        AVERAGE => wave.roll(chain::average_four::<N>()),
        _ => wave.roll(chain::paeth_four::<N>()),
    }
}

/// One step of four chains: the next pixel of each row, finished, from the filtered ones and from
/// what is above the first row's. What lies in channels that a pixel has not is of no account.
trait FourStep: FnMut([u32; 4], u32) -> [u32; 4] {}
impl<F: FnMut([u32; 4], u32) -> [u32; 4]> FourStep for F {}

/// Four rows that are undone together, each a pixel behind the one above it.
struct Wave<'a, const N: usize> {
    filtered: &'a [u8],
    above: &'a [[u8; 4]],
    out: &'a mut [[u8; 4]],
}

impl<const N: usize> Wave<'_, N> {
    fn roll(mut self, mut step: impl FourStep) {
        let width = self.above.len();
        (0..3).for_each(|at| self.edge(&mut step, at));
        // From here on all four rows have a pixel, the last one up to its third last.
        let inner = width - 3;
        let above = &self.above[3..];
        let filtered: [&[u8]; 4] = std::array::from_fn(|row| {
            let start = row * (1 + width * N) + 1 + (3 - row) * N;
            &self.filtered[start..][..inner * N + usize::from(N == 3)]
        });
        let (a, rest) = self.out.split_at_mut(width);
        let (b, rest) = rest.split_at_mut(width);
        let (c, d) = rest.split_at_mut(width);
        let (a, b) = (&mut a[3..], &mut b[2..][..inner]);
        let (c, d) = (&mut c[1..][..inner], &mut d[..inner]);
        for at in 0..inner {
            let from = std::array::from_fn(|row| load::<N>(filtered[row], at));
            let pixels = step(from, u32::from_le_bytes(above[at]));
            a[at] = pixels[0].to_le_bytes();
            b[at] = pixels[1].to_le_bytes();
            c[at] = pixels[2].to_le_bytes();
            d[at] = pixels[3].to_le_bytes();
        }
        (width..width + 3).for_each(|at| self.edge(&mut step, at));
    }

    /// A step at which some rows have not begun yet, or have ended.
    fn edge(&mut self, step: &mut impl FourStep, at: usize) {
        let width = self.above.len();
        let place = |row: usize| at.checked_sub(row).filter(|&at| at < width);
        let from = std::array::from_fn(|row| {
            let row_bytes = &self.filtered[row * (1 + width * N) + 1..][..width * N];
            place(row).map_or(0, |at| widen(&row_bytes.as_chunks::<N>().0[at]))
        });
        let above = self.above.get(at).copied().unwrap_or_default();
        let pixels = step(from, u32::from_le_bytes(above));
        for (row, pixel) in pixels.into_iter().enumerate() {
            if let Some(at) = place(row) {
                self.out[row * width + at] = pixel.to_le_bytes();
            }
        }
    }
}

/// A filtered pixel, widened; instead of alpha that is not there, whatever comes behind.
#[inline(always)]
fn load<const N: usize>(row: &[u8], at: usize) -> u32 {
    match row[at * N..].first_chunk::<4>() {
        Some(four) if N == 3 => u32::from_le_bytes(*four),
        _ => widen::<N>(row[at * N..].first_chunk().expect("within the row")),
    }
}

/// The filters whose pixels wait for the one before.
#[cfg(target_arch = "x86_64")]
mod chain {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_add_epi16, _mm_and_si128, _mm_andnot_si128, _mm_avg_epu8,
        _mm_cmpgt_epi16, _mm_cvtsi32_si128, _mm_cvtsi128_si32, _mm_max_epi16, _mm_min_epi16,
        _mm_or_si128, _mm_packus_epi16, _mm_set_epi32, _mm_set1_epi8, _mm_set1_epi32,
        _mm_setzero_si128, _mm_shuffle_epi32, _mm_slli_si128, _mm_srli_si128, _mm_sub_epi8,
        _mm_sub_epi16, _mm_unpackhi_epi8, _mm_unpacklo_epi8, _mm_xor_si128,
    };

    use super::{ALPHA, FourStep, Step};

    pub(super) fn sub() -> impl Step {
        // SAFETY: every x86-64 processor has SSE2; it is part of the architecture.
        unsafe { sub_sse2() }
    }

    pub(super) fn average() -> impl Step {
        // SAFETY: as in `sub`.
        unsafe { average_sse2() }
    }

    pub(super) fn paeth() -> impl Step {
        // SAFETY: as in `sub`.
        unsafe { paeth_sse2() }
    }

    pub(super) fn sub_four<const N: usize>() -> impl FourStep {
        // SAFETY: as in `sub`.
        unsafe { sub_four_sse2::<N>() }
    }

    pub(super) fn average_four<const N: usize>() -> impl FourStep {
        // SAFETY: as in `sub`.
        unsafe { average_four_sse2::<N>() }
    }

    pub(super) fn paeth_four<const N: usize>() -> impl FourStep {
        // SAFETY: as in `sub`.
        unsafe { paeth_four_sse2::<N>() }
    }

    #[target_feature(enable = "sse2")]
    fn sub_sse2() -> impl Step {
        let mut left = _mm_setzero_si128();
        move |filtered: u32, _| {
            left = _mm_add_epi8(left, _mm_cvtsi32_si128(filtered.cast_signed()));
            _mm_cvtsi128_si32(left).cast_unsigned()
        }
    }

    #[target_feature(enable = "sse2")]
    fn average_sse2() -> impl Step {
        let ones = _mm_set1_epi8(-1);
        // The complement of what is left of the first pixel: zero.
        let mut not_left = ones;
        move |filtered: u32, above: u32| {
            let not_above = _mm_xor_si128(_mm_cvtsi32_si128(above.cast_signed()), ones);
            let filtered = _mm_cvtsi32_si128(filtered.cast_signed());
            not_left = _mm_sub_epi8(_mm_avg_epu8(not_left, not_above), filtered);
            !_mm_cvtsi128_si32(not_left).cast_unsigned()
        }
    }

    #[target_feature(enable = "sse2")]
    fn paeth_sse2() -> impl Step {
        let zero = _mm_setzero_si128();
        let (mut left, mut corner) = (zero, zero);
        move |filtered: u32, above: u32| {
            let load = |pixel: u32| {
                let pixel = _mm_cvtsi32_si128(pixel.cast_signed());
                _mm_unpacklo_epi8(pixel, zero)
            };
            let above = load(above);
            // Bytes are added within their 16 bits: the upper bytes are zero and stay so.
            left = _mm_add_epi8(nearest(left, above, corner), load(filtered));
            corner = above;
            _mm_cvtsi128_si32(_mm_packus_epi16(left, left)).cast_unsigned()
        }
    }

    /// Paeth's choice. Channels are 16-bit numbers from 0 to 255: t lies between -510 and 765.
    #[target_feature(enable = "sse2")]
    fn nearest(left: __m128i, above: __m128i, corner: __m128i) -> __m128i {
        let choose = |mask: __m128i, yes: __m128i, no: __m128i| {
            _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no))
        };
        // 3c - b, which waits for no pixel of this row.
        let thrice = _mm_add_epi16(_mm_sub_epi16(corner, above), _mm_add_epi16(corner, corner));
        let t = _mm_sub_epi16(thrice, left);
        let (lo, hi) = (_mm_min_epi16(left, above), _mm_max_epi16(left, above));
        let lo_or_corner = choose(_mm_cmpgt_epi16(hi, t), corner, lo);
        choose(_mm_cmpgt_epi16(t, lo), lo_or_corner, hi)
    }

    #[target_feature(enable = "sse2")]
    fn four(pixels: [u32; 4]) -> __m128i {
        let [a, b, c, d] = pixels.map(u32::cast_signed);
        _mm_set_epi32(d, c, b, a)
    }

    #[target_feature(enable = "sse2")]
    fn each<const N: usize>(pixels: __m128i) -> [u32; 4] {
        let pixels = match N % 2 {
            1 => _mm_or_si128(pixels, _mm_set1_epi32(ALPHA.cast_signed())),
            _ => pixels,
        };
        [
            _mm_cvtsi128_si32(pixels),
            _mm_cvtsi128_si32(_mm_shuffle_epi32::<1>(pixels)),
            _mm_cvtsi128_si32(_mm_shuffle_epi32::<2>(pixels)),
            _mm_cvtsi128_si32(_mm_shuffle_epi32::<3>(pixels)),
        ]
        .map(i32::cast_unsigned)
    }

    #[target_feature(enable = "sse2")]
    fn sub_four_sse2<const N: usize>() -> impl FourStep {
        let mut left = _mm_setzero_si128();
        move |filtered: [u32; 4], _| {
            left = _mm_add_epi8(left, four(filtered));
            each::<N>(left)
        }
    }

    #[target_feature(enable = "sse2")]
    fn average_four_sse2<const N: usize>() -> impl FourStep {
        let ones = _mm_set1_epi8(-1);
        let mut not_left = ones;
        move |filtered: [u32; 4], above: u32| {
            let first = _mm_cvtsi32_si128((!above).cast_signed());
            let not_above = _mm_or_si128(_mm_slli_si128::<4>(not_left), first);
            not_left = _mm_sub_epi8(_mm_avg_epu8(not_left, not_above), four(filtered));
            each::<N>(_mm_xor_si128(not_left, ones))
        }
    }

    #[target_feature(enable = "sse2")]
    fn paeth_four_sse2<const N: usize>() -> impl FourStep {
        let zero = _mm_setzero_si128();
        // Two registers, as a channel takes 16 bits.
        let (mut left, mut corner) = ([zero; 2], [zero; 2]);
        move |filtered: [u32; 4], above: u32| {
            let filtered = four(filtered);
            let first = _mm_unpacklo_epi8(_mm_cvtsi32_si128(above.cast_signed()), zero);
            let above = [
                _mm_or_si128(_mm_slli_si128::<8>(left[0]), first),
                _mm_or_si128(_mm_slli_si128::<8>(left[1]), _mm_srli_si128::<8>(left[0])),
            ];
            let nearest = [
                nearest(left[0], above[0], corner[0]),
                nearest(left[1], above[1], corner[1]),
            ];
            left = [
                _mm_add_epi8(nearest[0], _mm_unpacklo_epi8(filtered, zero)),
                _mm_add_epi8(nearest[1], _mm_unpackhi_epi8(filtered, zero)),
            ];
            corner = above;
            each::<N>(_mm_packus_epi16(left[0], left[1]))
        }
    }
}

/// The filters whose pixels wait for the one before.
#[cfg(not(target_arch = "x86_64"))]
mod chain {
    use super::{FourStep, Step, add, finish, plain};

    pub(super) fn sub() -> impl Step {
        let mut left = 0;
        move |filtered, _| {
            left = add(left, filtered);
            left
        }
    }

    pub(super) fn average() -> impl Step {
        let mut left = 0;
        move |filtered, above| {
            let half = (left & above) + (((left ^ above) & 0xfefe_fefe) >> 1);
            left = add(half, filtered);
            left
        }
    }

    pub(super) fn paeth() -> impl Step {
        let (mut left, mut corner) = (0, 0);
        move |filtered, above| {
            left = add(plain::nearest(left, above, corner), filtered);
            corner = above;
            left
        }
    }

    pub(super) fn sub_four<const N: usize>() -> impl FourStep {
        four::<N>([(); 4].map(|()| sub()))
    }

    pub(super) fn average_four<const N: usize>() -> impl FourStep {
        four::<N>([(); 4].map(|()| average()))
    }

    pub(super) fn paeth_four<const N: usize>() -> impl FourStep {
        four::<N>([(); 4].map(|()| paeth()))
    }

    fn four<const N: usize>(mut steps: [impl Step; 4]) -> impl FourStep {
        let mut before = [0; 4];
        move |filtered, above| {
            let above = [above, before[0], before[1], before[2]];
            before = std::array::from_fn(|row| steps[row](filtered[row], above[row]));
            before.map(finish::<N>).map(u32::from_le_bytes)
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
                    let mut step = chain::paeth();
                    let first = step(u32::from_le_bytes(first), u32::from_le_bytes([corner; 4]));
                    let second = step(0, u32::from_le_bytes([above; 4]));
                    let out = [first, second].map(u32::to_le_bytes);
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

    #[test]
    fn four_rows_at_once_are_as_one_after_the_other() {
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..1200usize {
            let (filter, channels) = ([SUB, AVERAGE, PAETH][round % 3], 1 + round % 4);
            let pixels = random.usize(WAVE_PIXELS_MIN..40);
            let span = if random.bool() { 4 } else { 255 };
            let mut bytes =
                |len: usize| -> Vec<u8> { (0..len).map(|_| random.u8(0..=span)).collect() };
            let above = widened(channels, &bytes(pixels * channels));
            let (mut filtered, mut expected) = (Vec::new(), Vec::new());
            let mut before = above.clone();
            for _ in 0..4 {
                let row = bytes(pixels * channels);
                let mut out = vec![0; pixels * 4];
                unfilter(filter, channels, &row, Some(&before), &mut out).expect("known");
                filtered.push(filter);
                filtered.extend(row);
                expected.extend_from_slice(&out);
                before = out;
            }
            let mut out = vec![7; 4 * pixels * 4];
            unfilter_four(channels, &filtered, &above, &mut out);
            assert_eq!(out, expected, "filter {filter}, {channels} channels");
        }
    }
}
