//! The AVX2 kernel: turns of eight lanes at once, over the portable kernel's tables.
//!
//! Four groups of eight lanes take their turns one after the other: gather the eight entries, add
//! the extra bits, shift the bits out, and distribute the next words to the lanes that need one.
//! Expanding and compressing by a mask, which AVX-512 has as instructions, are shuffles by one of
//! 256 patterns here. The kernel's speed depends on that of gathers.
//!
//! Codewords longer than the root table cost the group a second gather. The end of the block,
//! errors, and the last words of a tile are left to the portable kernel, from the first lane of the
//! group on.
//!
//! # Safety
//! The entry point must run on a CPU with the features that [`is_available`] checks; the caller is
//! the dispatch, which has checked. Memory is accessed in four ways: gathers are masked to the
//! table's length or follow a pointer that `tables::build` made, which is masked, too; words are
//! loaded only while 32 are left, the most that four groups take; the streams are written only
//! after `check_room`, which leaves room for one round and a whole vector after it; patterns are
//! indexed by eight bits.
#![expect(
    unsafe_code,
    reason = "vector loads and stores with derived bounds; see # Safety"
)]

use core::arch::x86_64::*;

use super::lanes::{Lanes, Words};
use super::portable;
use super::tables::{
    DISTANCE, DISTANCE_START, ENTRY_COUNT, LENGTH, LITERAL, ROOT_BITS, SPECIAL, TAKE, Tables,
};
use super::tokens::{BEFORES, DISTANCES, LENGTHS, Tokens};
use crate::cpu::cpu_has;
use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, TILE_MATCH_COUNT_MAX, TILE_RAW_BYTES, WORD_BYTES};

/// Lanes of one vector.
const GROUP: usize = 8;
const GROUP_COUNT: usize = LANE_COUNT / GROUP;

const _: () = assert!(ENTRY_COUNT.is_power_of_two());

/// Whether this machine has the CPU features that the kernel needs.
pub(crate) fn is_available() -> bool {
    cpu_has!("avx2", "bmi1", "bmi2", "popcnt")
}

/// For each mask of eight lanes, eight bytes.
type Patterns = [[u8; GROUP]; 256];

/// For each lane its rank in the mask, the number of the mask's lanes before it: which of the next
/// words it takes.
static RANK_PATTERNS: Patterns = patterns(true);
/// The lanes of the mask, in order.
static MEMBER_PATTERNS: Patterns = patterns(false);

/// Builds the ranks of the lanes, or the lanes by their ranks.
const fn patterns(ranks: bool) -> Patterns {
    let mut patterns = [[0; GROUP]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut rank) = (0, 0);
        while lane < GROUP {
            let is_member = mask >> lane & 1 == 1;
            if ranks {
                patterns[mask][lane] = rank as u8;
            } else if is_member {
                patterns[mask][rank] = lane as u8;
            }
            rank += is_member as usize;
            lane += 1;
        }
        mask += 1;
    }
    patterns
}

/// The bits of eight lanes.
#[derive(Clone, Copy)]
struct Group {
    /// The next 32 bits.
    low: __m256i,
    /// The bits after those.
    high: __m256i,
    /// Number of bits in `high`, 0 to 31.
    surplus: __m256i,
    /// All ones where a length is pending.
    pending: __m256i,
}

/// Decodes the symbols of one Huffman block, as the portable kernel does.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(crate) fn symbols(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &Tables,
    tokens: &mut Tokens,
    room: usize,
) -> Result<(), ErrorKind> {
    let mut groups = load(lanes);
    let bytes = words.rest();
    let word_count = bytes.len() / WORD_BYTES;
    let mut cursor = 0;
    let mut stopped = 0;
    'rounds: while cursor + LANE_COUNT <= word_count {
        tokens.check_room(room)?;
        for (at, group) in groups.iter_mut().enumerate() {
            let entries = look_up(group, tables);
            if _mm256_movemask_epi8(flag(entries, SPECIAL)) != 0 {
                stopped = at * GROUP;
                break 'rounds;
            }
            let value = consume(group, entries, bytes, &mut cursor);
            emit(tokens, entries, value);
        }
    }
    words.advance(cursor);
    let mut pending = store(&groups, lanes);
    portable::finish(lanes, words, tables, tokens, room, &mut pending, stopped)
}

#[inline(never)]
#[target_feature(enable = "avx2")]
fn load(lanes: &Lanes) -> [Group; GROUP_COUNT] {
    let rows = lanes.halves();
    core::array::from_fn(|at| {
        // SAFETY: a row has eight doublewords at each of the four offsets.
        let [low, high, surplus] = core::array::from_fn(|nth| unsafe {
            _mm256_loadu_si256(rows[nth].as_ptr().add(at * GROUP).cast())
        });
        Group {
            low,
            high,
            surplus,
            pending: _mm256_setzero_si256(),
        }
    })
}

/// Writes the lanes back; returns their pending state in the portable kernel's form.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn store(groups: &[Group; GROUP_COUNT], lanes: &mut Lanes) -> [usize; LANE_COUNT] {
    let mut rows = [[0_u32; LANE_COUNT]; 4];
    // Loops, because closures are not always inlined into functions with target features.
    for (at, group) in groups.iter().enumerate() {
        let vectors = [group.low, group.high, group.surplus, group.pending];
        for (row, vector) in rows.iter_mut().zip(vectors) {
            let eight = &mut row[at * GROUP..][..GROUP];
            // SAFETY: eight doublewords.
            unsafe { _mm256_storeu_si256(eight.as_mut_ptr().cast(), vector) };
        }
    }
    let [low, high, surplus, waiting] = rows;
    lanes.set_halves(low, high);
    let mut pending = [0; LANE_COUNT];
    for lane in 0..LANE_COUNT {
        lanes.counts[lane] = surplus[lane] + 32;
        pending[lane] = waiting[lane] as usize & DISTANCE_START;
    }
    pending
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(value: u32) -> __m256i {
    _mm256_set1_epi32(value as i32)
}

/// All ones where an entry has this flag, a single bit.
#[inline]
#[target_feature(enable = "avx2")]
fn flag(entries: __m256i, flag: u32) -> __m256i {
    let shift = _mm_cvtsi32_si128(flag.leading_zeros() as i32);
    _mm256_srai_epi32::<31>(_mm256_sll_epi32(entries, shift))
}

/// [`flag`] as a mask of lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn flag_mask(entries: __m256i, flag: u32) -> usize {
    let shift = _mm_cvtsi32_si128(flag.leading_zeros() as i32);
    let signs = _mm256_castsi256_ps(_mm256_sll_epi32(entries, shift));
    _mm256_movemask_ps(signs) as usize & 0xFF
}

/// The values of entries, given the lanes' bits: see `tables::value`.
#[inline]
#[target_feature(enable = "avx2")]
fn value(entries: __m256i, low: __m256i) -> __m256i {
    let take = _mm256_and_si256(entries, splat(TAKE));
    let taken = _mm256_andnot_si256(_mm256_sllv_epi32(splat(u32::MAX), take), low);
    let code_bits = _mm256_and_si256(_mm256_srli_epi32::<8>(entries), splat(15));
    let extra = _mm256_srlv_epi32(taken, code_bits);
    _mm256_add_epi32(_mm256_srli_epi32::<16>(entries), extra)
}

/// The entries of a group's next symbols.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(group: &Group, tables: &Tables) -> __m256i {
    let root = _mm256_and_si256(group.low, splat((1 << ROOT_BITS) - 1));
    let start = _mm256_and_si256(group.pending, splat(DISTANCE_START as u32));
    let index = _mm256_or_si256(root, start);
    let table = tables.0.as_ptr().cast::<i32>();
    // SAFETY: `index` is at most 2048 + 1023, below ENTRY_COUNT.
    let entries = unsafe { _mm256_i32gather_epi32::<4>(table, index) };
    let special = flag(entries, SPECIAL);
    if _mm256_movemask_epi8(special) == 0 {
        return entries;
    }
    let pointers = _mm256_and_si256(special, flag(entries, DISTANCE));
    let index = _mm256_and_si256(value(entries, group.low), splat(ENTRY_COUNT as u32 - 1));
    // SAFETY: `index` is masked to the table's length.
    unsafe { _mm256_mask_i32gather_epi32::<4>(entries, table, index, pointers) }
}

/// Takes the bits of a group's symbols, refills, and returns the symbols' values. At least eight
/// words must follow the cursor.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn consume(group: &mut Group, entries: __m256i, bytes: &[u8], cursor: &mut usize) -> __m256i {
    let value = value(entries, group.low);
    // 1 to 31.
    let bits = _mm256_and_si256(entries, splat(TAKE));
    let from_high = _mm256_sllv_epi32(group.high, _mm256_sub_epi32(splat(32), bits));
    let low = _mm256_or_si256(_mm256_srlv_epi32(group.low, bits), from_high);
    let high = _mm256_srlv_epi32(group.high, bits);
    let left = _mm256_sub_epi32(group.surplus, bits);
    let short = _mm256_movemask_ps(_mm256_castsi256_ps(left)) as usize & 0xFF;
    assert!((*cursor + GROUP) * WORD_BYTES <= bytes.len());
    // SAFETY: eight words follow the cursor, just asserted; a pattern has eight bytes.
    let (next, ranks) = unsafe {
        let next = _mm256_loadu_si256(bytes.as_ptr().add(*cursor * WORD_BYTES).cast());
        (next, _mm_loadl_epi64(RANK_PATTERNS[short].as_ptr().cast()))
    };
    *cursor += short.count_ones() as usize;
    let spread = _mm256_permutevar8x32_epi32(next, _mm256_cvtepu8_epi32(ranks));
    let words = _mm256_and_si256(spread, _mm256_srai_epi32::<31>(left));
    // Where a word is added, `left` is negative and the lane holds `left` modulo 32 bits.
    let surplus = _mm256_and_si256(left, splat(31));
    let negated = _mm256_sub_epi32(_mm256_setzero_si256(), left);
    group.low = _mm256_or_si256(low, _mm256_sllv_epi32(words, surplus));
    group.high = _mm256_or_si256(high, _mm256_srlv_epi32(words, negated));
    group.surplus = surplus;
    group.pending = flag(entries, LENGTH);
    value
}

/// Appends a group's values to the streams they belong to.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn emit(tokens: &mut Tokens, entries: __m256i, values: __m256i) {
    let literals = flag_mask(entries, LITERAL);
    let lengths = flag_mask(entries, LENGTH);
    let distances = flag_mask(entries, DISTANCE);
    let packed = _mm256_packus_epi32(values, values);
    let values = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b10_00>(packed));
    let low_bytes = _mm_packus_epi16(_mm_and_si128(values, _mm_set1_epi16(0xFF)), values);
    debug_assert!(tokens.literal_count <= TILE_RAW_BYTES + LANE_COUNT);
    debug_assert!(tokens.length_count <= TILE_MATCH_COUNT_MAX + LANE_COUNT);
    debug_assert!(tokens.distance_count <= tokens.length_count);
    // SAFETY: patterns have eight bytes. `check_room` was called before the round, and there are
    // never more distances than lengths before them, so the counts are at most what is asserted
    // here, and the vectors fit after them, which is asserted beside the streams' sizes.
    unsafe {
        let pattern = |patterns: &Patterns, mask: usize| {
            _mm_loadl_epi64(patterns[mask & 0xFF].as_ptr().cast())
        };
        let matches = tokens.matches.as_mut_ptr();
        let at = tokens.literals.as_mut_ptr().add(tokens.literal_count);
        let taken = _mm_shuffle_epi8(low_bytes, pattern(&MEMBER_PATTERNS, literals));
        _mm_storel_epi64(at.cast(), taken);

        let before = _mm_cvtepu8_epi16(pattern(&RANK_PATTERNS, literals));
        let count = _mm_set1_epi16(tokens.literal_count as i16);
        let before = _mm_add_epi16(before, count);
        let members = pairs(pattern(&MEMBER_PATTERNS, lengths));
        let at = matches.add(BEFORES + tokens.length_count);
        _mm_storeu_si128(at.cast(), _mm_shuffle_epi8(before, members));
        let at = matches.add(LENGTHS + tokens.length_count);
        _mm_storeu_si128(at.cast(), _mm_shuffle_epi8(values, members));

        let members = pairs(pattern(&MEMBER_PATTERNS, distances));
        let at = matches.add(DISTANCES + tokens.distance_count);
        _mm_storeu_si128(at.cast(), _mm_shuffle_epi8(values, members));
    }
    tokens.literal_count += literals.count_ones() as usize;
    tokens.length_count += lengths.count_ones() as usize;
    tokens.distance_count += distances.count_ones() as usize;
}

/// Converts element indices to shuffle indices for elements of two bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs(indices: __m128i) -> __m128i {
    let doubled = _mm_slli_epi16::<1>(_mm_unpacklo_epi8(indices, indices));
    _mm_add_epi8(doubled, _mm_set1_epi16(0x0100))
}
