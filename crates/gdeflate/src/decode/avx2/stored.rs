//! Stored blocks with AVX2: 128 bytes, four rounds of all lanes, at once.
//!
//! The method of `decode::stored` in registers: the lanes' next 32 bits are four vectors of
//! doublewords. Bytes of one round are brought together within each (a shuffle, then a permutation
//! of doublewords), and the resulting square of quadwords, rounds by vectors, is transposed.
//!
//! The words of the next four rounds come in an order that stays the same for the block. Lanes that
//! take theirs in the same round take consecutive words, so a vector's words are a few runs (one if
//! all its lanes hold equally many bits), each a load and a permutation: a third of the time of a
//! gather.
//!
//! # Safety
//! The entry point must run on a CPU with AVX2; the caller is the dispatch, which has checked.
//! Loads and stores are of whole arrays and of chunks of 128 bytes that safe code has sliced; a
//! run's load begins at most 24 words into such a chunk.
#![expect(
    unsafe_code,
    reason = "vector loads and stores of whole chunks; see # Safety"
)]

use core::arch::x86_64::*;

use super::{GROUP, GROUP_COUNT};
use crate::decode::lanes::{Chunk, Lanes, Words};
use crate::decode::stored::{GROUP_BYTES, word_order};
use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, WORD_BYTES};

const _: () = assert!(GROUP_BYTES == GROUP_COUNT * 32 && GROUP_COUNT == 4);

#[inline]
#[target_feature(enable = "avx2")]
fn load_one(lanes: &[u32; GROUP]) -> __m256i {
    // SAFETY: the array has eight doublewords.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

/// All lanes, eight doublewords per vector.
pub(super) type Square = [__m256i; GROUP_COUNT];

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(lanes: &[u32; LANE_COUNT]) -> Square {
    // SAFETY: the array has eight doublewords at each of the four offsets.
    core::array::from_fn(|at| unsafe { _mm256_loadu_si256(lanes.as_ptr().add(at * GROUP).cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(square: Square) -> [u32; LANE_COUNT] {
    let mut lanes = [0; LANE_COUNT];
    for (vector, lanes) in square.into_iter().zip(lanes.chunks_exact_mut(GROUP)) {
        // SAFETY: the chunk has eight doublewords.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), vector) };
    }
    lanes
}

/// Consecutive words of a group, for some lanes of one vector.
#[derive(Clone, Copy)]
struct Run {
    /// Index in the group of the first word loaded, at most 24.
    first: usize,
    /// For each lane of the run the index of its word among the eight loaded.
    places: __m256i,
    /// All ones for the lanes of the run.
    members: __m256i,
}

/// The runs of one vector: at most one per round.
struct Runs {
    runs: [Run; ROUND_COUNT],
    count: usize,
}

/// Rounds of a group.
const ROUND_COUNT: usize = 4;

/// Returns the runs of the eight lanes from `vector * 8` on. Lanes of one run take their words in
/// the same round, so their words are consecutive in lane order, whatever lanes of other runs lie
/// between them.
#[target_feature(enable = "avx2")]
fn runs(vector: usize, counts: &[u32; LANE_COUNT], order: &[u32; LANE_COUNT]) -> Runs {
    let lanes = vector * GROUP..(vector + 1) * GROUP;
    let (counts, order) = (&counts[lanes.clone()], &order[lanes]);
    let zero = _mm256_setzero_si256();
    let mut runs = Runs {
        runs: [Run {
            first: 0,
            places: zero,
            members: zero,
        }; ROUND_COUNT],
        count: 0,
    };
    for round in 0..ROUND_COUNT {
        let is_member = |lane: usize| (counts[lane] as usize - 32) / 8 == round;
        let Some(leader) = (0..GROUP).find(|&lane| is_member(lane)) else {
            continue;
        };
        let first = order[leader].min((LANE_COUNT - GROUP) as u32);
        let mut places = [0; GROUP];
        let mut members = [0; GROUP];
        for lane in (0..GROUP).filter(|&lane| is_member(lane)) {
            places[lane] = order[lane] - first;
            members[lane] = u32::MAX;
        }
        runs.runs[runs.count] = Run {
            first: first as usize,
            places: load_one(&places),
            members: load_one(&members),
        };
        runs.count += 1;
    }
    runs
}

/// Returns the words of one vector's lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(runs: &Runs, chunk: &Chunk) -> __m256i {
    let mut words = _mm256_setzero_si256();
    for run in &runs.runs[..runs.count] {
        let eight = &chunk[run.first * WORD_BYTES..][..GROUP * WORD_BYTES];
        // SAFETY: the slice has 32 bytes.
        let eight = unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) };
        let placed = _mm256_permutevar8x32_epi32(eight, run.places);
        words = _mm256_or_si256(words, _mm256_and_si256(placed, run.members));
    }
    words
}

/// Writes the bytes of four rounds, from the lanes' next 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn deal(taken: Square, raw: &mut [u8; GROUP_BYTES]) {
    let by_round = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
    ));
    let halves = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let [a, b, c, d] = taken
        .map(|vector| _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(vector, by_round), halves));
    let (even, odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let (even_after, odd_after) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    let rounds = [
        _mm256_permute2x128_si256::<0x20>(even, even_after),
        _mm256_permute2x128_si256::<0x20>(odd, odd_after),
        _mm256_permute2x128_si256::<0x31>(even, even_after),
        _mm256_permute2x128_si256::<0x31>(odd, odd_after),
    ];
    for (round, raw) in rounds.into_iter().zip(raw.chunks_exact_mut(LANE_COUNT)) {
        // SAFETY: the chunk has 32 bytes.
        unsafe { _mm256_storeu_si256(raw.as_mut_ptr().cast(), round) };
    }
}

/// Decodes as many whole groups of a stored block as `raw` has room for, with the lanes refilled;
/// returns the number of bytes written.
#[inline(never)]
#[target_feature(enable = "avx2")]
pub(crate) fn groups(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    raw: &mut [u8],
) -> Result<usize, ErrorKind> {
    let order = word_order(&lanes.counts);
    let runs: [Runs; GROUP_COUNT] =
        core::array::from_fn(|vector| runs(vector, &lanes.counts, &order));
    let [low, high, surplus, missing] = lanes.halves();
    let (mut low, mut high) = (load(&low), load(&high));
    let (surplus, missing) = (load(&surplus), load(&missing));
    let mut done = 0;
    for group in raw.chunks_exact_mut(GROUP_BYTES) {
        let chunk = words.next_chunk()?;
        deal(low, group.try_into().expect("a whole group"));
        for at in 0..GROUP_COUNT {
            let word = spread(&runs[at], chunk);
            low[at] = _mm256_or_si256(high[at], _mm256_sllv_epi32(word, surplus[at]));
            high[at] = _mm256_srlv_epi32(word, missing[at]);
        }
        done += GROUP_BYTES;
    }
    lanes.set_halves(store(low), store(high));
    Ok(done)
}
