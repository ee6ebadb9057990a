//! The AVX-512 kernel: a turn of all 32 lanes at once, without tables in memory and without gathers.
//!
//! **State.** Lane i is element i of pairs of vectors: `low` holds its next 32 bits (there are
//! always as many), `high` what it has beyond, `surplus` how many that are (0–31). Consuming n bits
//! is one funnel shift. Where the surplus becomes negative a word is due: the next words are
//! expanded into just those lanes, in lane order, which is the order of the format, and the cursor
//! moves by the mask's popcount.
//!
//! **Codewords.** A canonical code is decided by comparing the next 15 bits, first bit highest, with
//! one limit per length: the codeword has as many bits as there are limits at or below it, plus
//! one. The limits of both codes lie in the registers' lanes side by side, so that a lane with a
//! pending length is only another index. Two steps of three comparisons find the length of all 32
//! codewords; 16-bit shuffles then give its rank. Literals and the other symbols are ranked apart:
//! 32 others and 32 distances fill exactly the 64 elements of two vectors, with base and extra
//! bits, and the literals' ranks are stored as they are and turned into bytes after the block, 64
//! at a time, from four vectors. So a block's tables are a few hundred bytes, built by one
//! counting sort: no table of 2^10 entries is ever filled.
//!
//! **End of block.** An end or an unassigned codeword sets a flag that is tested once a round. The
//! round is then committed for the lanes that still had a turn, and a last one is run for the
//! distances that are pending.
//!
//! # Safety
//! The entry point must run on a CPU with the features that [`is_available`] asks for; the caller is
//! the dispatch, which asked. Memory is touched in three ways, each bounded where it happens:
//! words are loaded only while 32 are left in the slice (or from a padded copy of the last
//! ones), which is the most that a round takes; the streams are written only after `check_room`,
//! which leaves room for one round and a whole vector behind it; constant tables have the size of
//! the loads.
#![expect(unsafe_code, reason = "vector loads and stores with derived bounds; see # Safety")]

use core::arch::x86_64::*;

use super::codes::{Canonical, Lengths};
use super::lanes::{Lanes, Words};
use super::tokens::{LITERAL_ROOM, MATCH_ROOM, STREAM_SLACK, Tokens};
use crate::error::ErrorKind;
use crate::limits::{
    CODEWORD_BITS_MAX, DISTANCE_BASE, DISTANCE_EXTRA, END_OF_BLOCK, LANE_COUNT, LENGTH_BASE,
    LENGTH_EXTRA, LITLEN_SYMBOL_COUNT, TILE_MATCH_COUNT_MAX, TILE_RAW_BYTES, WORD_BYTES,
};

/// Set in the extra bits of symbols that end the block or do not exist.
const SPECIAL: u16 = 0x80;
/// Set too if it is the end of the block.
const END: u16 = 0x40;
/// The extra bits proper.
const EXTRA_BITS: u16 = 0x1F;

/// Where the distances begin among the 64 symbols that are not literals.
const DISTANCE_RANK: u16 = 32;

/// Bytes of the padded copy of a tile's last words: fewer than 32 words are left then, a round may
/// begin behind the last of them and loads 32.
const PAD_BYTES: usize = 2 * LANE_COUNT * WORD_BYTES;

// A round stores at most 32 literals and 32 matches, as whole vectors of 32 and 64 bytes.
const _: () = assert!(TILE_RAW_BYTES + LANE_COUNT + 32 <= LITERAL_ROOM && STREAM_SLACK >= 64);
const _: () = assert!(TILE_MATCH_COUNT_MAX + 3 * LANE_COUNT <= MATCH_ROOM);

/// Whether this machine has what the kernel needs.
#[cfg(feature = "std")]
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi2")
}

/// Whether every machine that this is compiled for has what the kernel needs.
#[cfg(not(feature = "std"))]
pub(crate) fn is_available() -> bool {
    cfg!(all(
        target_feature = "avx512f",
        target_feature = "avx512bw",
        target_feature = "avx512vl",
        target_feature = "avx512dq",
        target_feature = "avx512vbmi",
        target_feature = "avx512vbmi2",
        target_feature = "gfni",
        target_feature = "popcnt",
        target_feature = "bmi2"
    ))
}

/// A vector's worth of 16-bit elements in memory.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Row([u16; 32]);

impl Row {
    const ZERO: Self = Self([0; 32]);
}

/// What the kernel knows of a block's codes. Rows of 32: by codeword bits minus 1, with 16 added
/// for distances; 15 stands for "no codeword".
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct VectorTables {
    /// The limits 4, 8 and 12 of each code, for the first step.
    coarse: [[u16; 3]; 2],
    /// Limits 1, 2 and 3 of each group of four; element: group, 4 added for distances.
    fine: [Row; 3],
    /// First codeword that is no literal.
    others_from: Row,
    /// Codeword to rank among the others.
    other_rank: Row,
    /// Codeword to rank among the literals.
    literal_rank: Row,
    /// Of the others and the distances, by rank: base, and extra bits with flags.
    base: [Row; 2],
    extra: [Row; 2],
    /// The literals by rank.
    literals: [u8; 256],
}

impl VectorTables {
    pub(crate) fn new() -> Self {
        Self {
            coarse: [[0; 3]; 2],
            fine: [Row::ZERO; 3],
            others_from: Row::ZERO,
            other_rank: Row::ZERO,
            literal_rank: Row::ZERO,
            base: [Row::ZERO; 2],
            extra: [Row::ZERO; 2],
            literals: [0; 256],
        }
    }

    /// Prepares a block; the codes are checked on the way.
    pub(crate) fn build(&mut self, lengths: &Lengths) -> Result<(), ErrorKind> {
        let litlen = Canonical::new(&lengths.litlen)?;
        let distance = Canonical::new(&lengths.distance)?;
        self.set_limits(0, &litlen);
        self.set_limits(1, &distance);
        let mut others = [0_u16; 16];
        for &len in &lengths.litlen[END_OF_BLOCK..] {
            others[usize::from(len) % 16] += 1;
        }
        // Where each length's ranks begin.
        let (mut literal_next, mut other_next, mut distance_next) = ([0; 16], [0; 16], [0; 16]);
        let (mut literal, mut other, mut far) = (0_u16, 0_u16, DISTANCE_RANK);
        for len in 1..=CODEWORD_BITS_MAX {
            let at = len - 1;
            let literal_count = litlen.counts[len] - others[len];
            let first = litlen.first[len] as u16;
            literal_next[len] = literal;
            other_next[len] = other;
            distance_next[len] = far;
            self.literal_rank.0[at] = literal.wrapping_sub(first);
            self.others_from.0[at] = first + literal_count;
            self.other_rank.0[at] = other.wrapping_sub(first + literal_count);
            self.others_from.0[16 + at] = 0;
            self.other_rank.0[16 + at] = far.wrapping_sub(distance.first[len] as u16);
            literal += literal_count;
            other += others[len];
            far += distance.counts[len];
        }
        // "No codeword" occurs in codes of at most one codeword, which leave the last ranks free.
        self.others_from.0[15] = 0;
        self.other_rank.0[15] = DISTANCE_RANK - 1;
        self.others_from.0[31] = 0;
        self.other_rank.0[31] = 2 * DISTANCE_RANK - 1;
        for extra in &mut self.extra {
            extra.0[31] = SPECIAL;
        }
        self.sort(lengths, &mut literal_next, &mut other_next, &mut distance_next);
        Ok(())
    }

    fn set_limits(&mut self, code: usize, canonical: &Canonical) {
        let limit = |len: usize| {
            let behind = canonical.first[len] + u32::from(canonical.counts[len]);
            (behind << (CODEWORD_BITS_MAX - len)) as u16
        };
        self.coarse[code] = [limit(4), limit(8), limit(12)];
        for group in 0..4 {
            for step in 0..3 {
                self.fine[step].0[4 * code + group] = limit(4 * group + step + 1);
            }
        }
    }

    /// Puts every symbol at its rank.
    fn sort(
        &mut self,
        lengths: &Lengths,
        literal_next: &mut [u16; 16],
        other_next: &mut [u16; 16],
        distance_next: &mut [u16; 16],
    ) {
        let take = |next: &mut [u16; 16], len: u8| {
            let rank = next[usize::from(len) % 16];
            next[usize::from(len) % 16] += 1;
            usize::from(rank)
        };
        // Symbols without a codeword are put anywhere that a later one overwrites: no branch.
        for (symbol, &len) in lengths.litlen[..END_OF_BLOCK].iter().enumerate() {
            if len > 0 {
                let rank = take(literal_next, len);
                self.literals[rank % 256] = symbol as u8;
            }
        }
        for symbol in END_OF_BLOCK..LITLEN_SYMBOL_COUNT {
            let len = lengths.litlen[symbol];
            if len > 0 {
                let rank = take(other_next, len) % 32;
                let index = symbol.wrapping_sub(END_OF_BLOCK + 1);
                self.base[0].0[rank] = LENGTH_BASE.get(index).copied().unwrap_or(0);
                self.extra[0].0[rank] = match LENGTH_EXTRA.get(index) {
                    Some(&extra) => u16::from(extra),
                    None if symbol == END_OF_BLOCK => SPECIAL | END,
                    None => SPECIAL,
                };
            }
        }
        for (symbol, &len) in lengths.distance.iter().enumerate() {
            if len > 0 {
                let rank = take(distance_next, len) % 32;
                self.base[1].0[rank] = DISTANCE_BASE[symbol];
                self.extra[1].0[rank] = u16::from(DISTANCE_EXTRA[symbol]);
            }
        }
    }
}

/// Decodes the symbols of one Huffman block, as the portable kernel does.
///
/// # Safety
/// [`is_available`] said yes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2"
)]
pub(crate) fn symbols(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &VectorTables,
    tokens: &mut Tokens,
    room: usize,
) -> Result<(), ErrorKind> {
    let codes = Registers::load(tables);
    let mut state = State::load(lanes);
    let rest = words.rest();
    let (mut cursor, mut ended) = state.run(&codes, tokens, room, rest, 0)?;
    words.advance(cursor);
    if !ended {
        // Fewer than 32 words are left: zeros behind them make room for the loads, and taking one
        // of the zeros is running off the tile.
        let rest = words.rest();
        let mut padded = [0; PAD_BYTES];
        padded[..rest.len()].copy_from_slice(rest);
        cursor = 0;
        while !ended {
            (cursor, ended) = state.run(&codes, tokens, room, &padded, cursor)?;
            if cursor > words.left() {
                return Err(ErrorKind::TruncatedTile);
            }
        }
        words.advance(cursor);
    }
    state.store(lanes);
    literals_of_ranks(tables, tokens);
    Ok(())
}

/// Turns the stored ranks of literals into the literals.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn literals_of_ranks(tables: &VectorTables, tokens: &mut Tokens) {
    let count = tokens.literal_count;
    assert!(count + STREAM_SLACK <= LITERAL_ROOM);
    let literals = tables.literals.as_ptr();
    let stream = tokens.literals.as_mut_ptr();
    // SAFETY: the table has 4 x 64 bytes; vectors of the stream begin below `count` and end below
    // count + 64, just asserted to lie inside.
    unsafe {
        let [a, b, c, d] =
            [0, 64, 128, 192].map(|at| _mm512_loadu_si512(literals.add(at).cast::<__m512i>()));
        let mut at = 0;
        while at < count {
            let ranks = _mm512_loadu_si512(stream.add(at).cast());
            let low = _mm512_permutex2var_epi8(a, ranks, b);
            let high = _mm512_permutex2var_epi8(c, ranks, d);
            let values = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(ranks), high);
            _mm512_storeu_si512(stream.add(at).cast(), values);
            at += 64;
        }
    }
}

/// The tables in registers.
#[derive(Clone, Copy)]
struct Registers {
    coarse: [[__m512i; 3]; 2],
    fine: [__m512i; 3],
    others_from: __m512i,
    other_rank: __m512i,
    literal_rank: __m512i,
    base: [__m512i; 2],
    extra: [__m512i; 2],
}

impl Registers {
    #[target_feature(enable = "avx512f,avx512bw")]
    fn load(tables: &VectorTables) -> Self {
        Self {
            coarse: tables.coarse.map(|code| code.map(|limit| splat(limit))),
            fine: [row(&tables.fine[0]), row(&tables.fine[1]), row(&tables.fine[2])],
            others_from: row(&tables.others_from),
            other_rank: row(&tables.other_rank),
            literal_rank: row(&tables.literal_rank),
            base: [row(&tables.base[0]), row(&tables.base[1])],
            extra: [row(&tables.extra[0]), row(&tables.extra[1])],
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn splat(value: u16) -> __m512i {
    _mm512_set1_epi16(value as i16)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn row(row: &Row) -> __m512i {
    // SAFETY: a row has 64 bytes and is aligned to them.
    unsafe { _mm512_load_si512(row.0.as_ptr().cast()) }
}

/// 0, 1, 2, …
const IOTA: Row = {
    let mut row = [0; 32];
    let mut at = 0;
    while at < 32 {
        row[at] = at as u16;
        at += 1;
    }
    Row(row)
};

/// Picks the lower and the upper halves of 32 doublewords in two vectors.
const EVEN: Row = {
    let mut row = [0; 32];
    let mut at = 0;
    while at < 32 {
        row[at] = 2 * at as u16;
        at += 1;
    }
    Row(row)
};
const ODD: Row = {
    let mut row = [0; 32];
    let mut at = 0;
    while at < 32 {
        row[at] = 2 * at as u16 + 1;
        at += 1;
    }
    Row(row)
};

/// The 32 lanes between rounds; element i of the first vectors is lane i, of the second 16 + i.
struct State {
    low: [__m512i; 2],
    high: [__m512i; 2],
    surplus: [__m512i; 2],
    /// Lanes with a pending length.
    pending: u32,
}

/// What a round found, before anything is taken.
struct Round {
    /// Codeword bits minus 1, with 16 added for distances.
    class: __m512i,
    codeword: __m512i,
    /// Extra bits with flags.
    extra: __m512i,
    /// Base and extra bits' value.
    value: __m512i,
    /// Lanes whose symbol is no literal.
    others: u32,
    /// Lanes whose symbol has a flag.
    special: u32,
}

impl State {
    #[target_feature(enable = "avx512f")]
    fn load(lanes: &Lanes) -> Self {
        let mut low = [[0_u32; 16]; 2];
        let mut high = [[0_u32; 16]; 2];
        let mut surplus = [[0_u32; 16]; 2];
        for lane in 0..LANE_COUNT {
            low[lane / 16][lane % 16] = lanes.bits[lane] as u32;
            high[lane / 16][lane % 16] = (lanes.bits[lane] >> 32) as u32;
            surplus[lane / 16][lane % 16] = lanes.counts[lane] - 32;
        }
        // SAFETY: arrays of 64 bytes.
        let load = |half: [u32; 16]| unsafe { _mm512_loadu_si512(half.as_ptr().cast()) };
        Self {
            low: low.map(load),
            high: high.map(load),
            surplus: surplus.map(load),
            pending: 0,
        }
    }

    #[target_feature(enable = "avx512f")]
    fn store(&self, lanes: &mut Lanes) {
        let store = |vector: __m512i| {
            let mut half = [0_u32; 16];
            // SAFETY: an array of 64 bytes.
            unsafe { _mm512_storeu_si512(half.as_mut_ptr().cast(), vector) };
            half
        };
        let low = self.low.map(store);
        let high = self.high.map(store);
        let surplus = self.surplus.map(store);
        for lane in 0..LANE_COUNT {
            let (half, at) = (lane / 16, lane % 16);
            lanes.bits[lane] = u64::from(high[half][at]) << 32 | u64::from(low[half][at]);
            lanes.counts[lane] = surplus[half][at] + 32;
        }
    }

    /// Runs rounds until the block ends or fewer than 32 words follow `cursor` in `bytes`. Returns
    /// the cursor and whether the block has ended.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2"
    )]
    fn run(
        &mut self,
        codes: &Registers,
        tokens: &mut Tokens,
        room: usize,
        bytes: &[u8],
        mut cursor: usize,
    ) -> Result<(usize, bool), ErrorKind> {
        let word_count = bytes.len() / WORD_BYTES;
        while cursor + LANE_COUNT <= word_count {
            tokens.check_room(room)?;
            let round = self.look(codes);
            if round.special != 0 {
                return self.end(codes, tokens, bytes, cursor, &round);
            }
            cursor = self.commit(codes, tokens, bytes, cursor, &round, u32::MAX);
        }
        Ok((cursor, false))
    }

    /// Decodes one symbol of every lane without taking it.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2"
    )]
    fn look(&self, codes: &Registers) -> Round {
        let pending = self.pending;
        let low = _mm512_permutex2var_epi16(self.low[0], row(&EVEN), self.low[1]);
        let high = _mm512_permutex2var_epi16(self.low[0], row(&ODD), self.low[1]);
        // The next 15 bits, first bit highest.
        let reverse = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        let bytes = _mm512_gf2p8affine_epi64_epi8::<0>(low, reverse);
        let next = _mm512_srli_epi16::<1>(_mm512_shrdi_epi16::<8>(bytes, bytes));
        // -1 where it is below a limit. Both are at most 2^15, so the difference's sign is right.
        let below = |limit| _mm512_srai_epi16::<15>(_mm512_sub_epi16(next, limit));
        let coarse =
            |at: usize| below(_mm512_mask_mov_epi16(codes.coarse[0][at], pending, codes.coarse[1][at]));
        let group = _mm512_mask_mov_epi16(splat(3), pending, splat(7));
        let group = _mm512_add_epi16(
            _mm512_add_epi16(group, coarse(0)),
            _mm512_add_epi16(coarse(1), coarse(2)),
        );
        let fine = |at: usize| below(_mm512_permutexvar_epi16(group, codes.fine[at]));
        let class = _mm512_add_epi16(_mm512_slli_epi16::<2>(group), splat(3));
        let class = _mm512_add_epi16(
            _mm512_add_epi16(class, fine(0)),
            _mm512_add_epi16(fine(1), fine(2)),
        );
        // 15 - bits; "no codeword" shifts everything out.
        let shift = _mm512_sub_epi16(splat(14), _mm512_and_si512(class, splat(15)));
        let codeword = _mm512_srlv_epi16(next, shift);
        let others_from = _mm512_permutexvar_epi16(class, codes.others_from);
        let others = _mm512_cmpge_epu16_mask(codeword, others_from);
        let rank =
            _mm512_add_epi16(codeword, _mm512_permutexvar_epi16(class, codes.other_rank));
        let extra =
            _mm512_maskz_permutex2var_epi16(others, codes.extra[0], rank, codes.extra[1]);
        let base = _mm512_permutex2var_epi16(codes.base[0], rank, codes.base[1]);
        let bits = _mm512_add_epi16(_mm512_and_si512(class, splat(15)), splat(1));
        let behind = _mm512_shrdv_epi16(low, high, bits);
        let value = _mm512_andnot_si512(_mm512_sllv_epi16(splat(0xFFFF), extra), behind);
        Round {
            class,
            codeword,
            extra,
            value: _mm512_add_epi16(base, value),
            others,
            special: _mm512_test_epi16_mask(extra, splat(SPECIAL)),
        }
    }

    /// Takes what `round` found for the lanes that are `active`: stores it, consumes the bits,
    /// refills. At least 32 words must follow `cursor`. Returns the cursor.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2"
    )]
    fn commit(
        &mut self,
        codes: &Registers,
        tokens: &mut Tokens,
        bytes: &[u8],
        mut cursor: usize,
        round: &Round,
        active: u32,
    ) -> usize {
        let class_bits = _mm512_and_si512(round.class, splat(15));
        let bits = _mm512_add_epi16(_mm512_add_epi16(class_bits, splat(1)), round.extra);
        let bits = _mm512_maskz_mov_epi16(active, bits);
        self.emit(codes, tokens, round, active);
        let halves = [
            _mm512_cvtepu16_epi32(_mm512_castsi512_si256(bits)),
            _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(bits)),
        ];
        debug_assert!((cursor + LANE_COUNT) * WORD_BYTES <= bytes.len());
        for (half, &bits) in halves.iter().enumerate() {
            let low = _mm512_shrdv_epi32(self.low[half], self.high[half], bits);
            let high = _mm512_srlv_epi32(self.high[half], bits);
            let left = _mm512_sub_epi32(self.surplus[half], bits);
            let short = _mm512_movepi32_mask(left);
            // SAFETY: the caller has 32 words behind the first cursor; the second half's is at most
            // 16 further and it loads 16.
            let next = unsafe { _mm512_loadu_si512(bytes.as_ptr().add(cursor * WORD_BYTES).cast()) };
            let words = _mm512_maskz_expand_epi32(short, next);
            cursor += short.count_ones() as usize;
            // Where a word came, `left` is negative: `left & 31` bits were left of the low half.
            let surplus = _mm512_and_si512(left, _mm512_set1_epi32(31));
            let negated = _mm512_sub_epi32(_mm512_setzero_si512(), left);
            self.low[half] = _mm512_or_si512(low, _mm512_sllv_epi32(words, surplus));
            self.high[half] = _mm512_or_si512(high, _mm512_srlv_epi32(words, negated));
            self.surplus[half] = surplus;
        }
        cursor
    }

    /// Appends what `round` found for the lanes that are `active`, and makes its lengths pending.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2"
    )]
    fn emit(&mut self, codes: &Registers, tokens: &mut Tokens, round: &Round, active: u32) {
        let literals = !round.others & active;
        let distances = self.pending & active;
        let lengths = round.others & !self.pending & !round.special & active;
        let rank = _mm512_permutexvar_epi16(round.class, codes.literal_rank);
        let rank = _mm512_cvtepi16_epi8(_mm512_add_epi16(round.codeword, rank));
        let ranks = _mm256_maskz_compress_epi8(literals, rank);
        // Literals before a lane are the lanes before it less those that are none.
        let iota = row(&IOTA);
        let others_before = _mm512_maskz_expand_epi16(!literals, iota);
        let before = _mm512_add_epi16(
            _mm512_sub_epi16(iota, others_before),
            splat(tokens.literal_count as u16),
        );
        debug_assert!(tokens.literal_count <= TILE_RAW_BYTES);
        debug_assert!(tokens.length_count <= TILE_MATCH_COUNT_MAX + LANE_COUNT);
        debug_assert!(tokens.distance_count <= tokens.length_count);
        // SAFETY: `check_room` was asked before this round, or before the one before it at the end
        // of a block, which adds no literals then; see the constants' assertions.
        unsafe {
            let at = tokens.literals.as_mut_ptr().add(tokens.literal_count);
            _mm256_storeu_si256(at.cast(), ranks);
            let at = tokens.literals_before.as_mut_ptr().add(tokens.length_count);
            _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(lengths, before));
            let at = tokens.lengths.as_mut_ptr().add(tokens.length_count);
            _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(lengths, round.value));
            let at = tokens.distances.as_mut_ptr().add(tokens.distance_count);
            _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(distances, round.value));
        }
        tokens.literal_count += literals.count_ones() as usize;
        tokens.length_count += lengths.count_ones() as usize;
        tokens.distance_count += distances.count_ones() as usize;
        self.pending = lengths;
    }

    /// Commits the round that ends the block, and the pending distances behind it. Needs 64 words
    /// or fewer; where the slice has not as many, the caller's next round finds the same end.
    #[cold]
    #[inline(never)]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2"
    )]
    fn end(
        &mut self,
        codes: &Registers,
        tokens: &mut Tokens,
        bytes: &[u8],
        cursor: usize,
        round: &Round,
    ) -> Result<(usize, bool), ErrorKind> {
        let lane = round.special.trailing_zeros();
        let ends = _mm512_test_epi16_mask(round.extra, splat(END));
        if ends >> lane & 1 == 0 {
            return Err(ErrorKind::BadSymbol);
        }
        let up_to = u32::MAX >> (31 - lane);
        let active = up_to | self.pending;
        if round.special & active & !(1 << lane) != 0 {
            return Err(ErrorKind::BadSymbol);
        }
        let plain = Round {
            extra: _mm512_and_si512(round.extra, splat(EXTRA_BITS)),
            ..*round
        };
        let cursor = self.commit(codes, tokens, bytes, cursor, &plain, active);
        // The lanes before the end may have got a length in this round. The words of their last
        // turns may lie behind those that the slice has left for sure.
        let mut padded = [0; PAD_BYTES];
        let rest = &bytes[(cursor * WORD_BYTES).min(bytes.len())..];
        let count = rest.len().min(LANE_COUNT * WORD_BYTES);
        padded[..count].copy_from_slice(&rest[..count]);
        let last = self.look(codes);
        let active = self.pending;
        if last.special & active != 0 {
            return Err(ErrorKind::BadSymbol);
        }
        let used = self.commit(codes, tokens, &padded, 0, &last, active);
        if used * WORD_BYTES > count {
            return Err(ErrorKind::TruncatedTile);
        }
        Ok((cursor + used, true))
    }
}
