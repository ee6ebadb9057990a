//! The AVX-512 kernel: a turn of all 32 lanes at once, without tables in memory and without
//! gathers.
//!
//! **State.** Lane i is element i of vectors of 16-bit elements: four of them hold a lane's up to
//! 63 unread bits, lowest first, and `surplus` is their number minus 32. Consuming bits is a funnel
//! shift from element to element. Where the surplus becomes negative a word is due: the next words
//! are expanded into just those lanes, in lane order, which is the order of the format, and the
//! cursor moves by the mask's popcount. Only that popcount leaves the vector registers between one
//! turn and the next, and everything is one vector wide: rounds depend on each other, so the time
//! of a round is the latency of its dependency chain, about 45 cycles.
//!
//! **Codewords.** A canonical code is decoded by comparing the next 15 bits, first bit highest,
//! with one limit per length: the codeword has as many bits as there are limits at or below it,
//! plus one. The limits of both codes are in the same registers, so that a pending length only
//! changes the index. Two steps of three comparisons find the length of all 32 codewords; 16-bit
//! shuffles then give its rank. Literals and the other symbols are ranked separately: 32 others and
//! 32 distances fill exactly the 64 elements of two vectors, with base and extra bits, and the
//! literals' ranks are stored unchanged and translated to bytes after the block, 64 at a time, from
//! four vectors. So a block's tables are less than a kilobyte, built by one counting sort: no table
//! of 2^10 entries is ever filled.
//!
//! **End of block.** An end, an unassigned codeword, or a length with 16 extra bits, more than one
//! funnel shift can do, sets a flag that is tested once per round. Such a round is repeated outside
//! the loop; at an end it is committed for the lanes that still have a turn, and a last one is run
//! for the pending distances.
//!
//! # Safety
//! The entry point must run on a CPU with the features that [`is_available`] checks; the caller is
//! the dispatch, which has checked. Memory is accessed in three ways, each bounded where it
//! happens: words are loaded only while 32 are left in the slice (or from a padded copy of the last
//! ones), which is the most that a round takes; the streams are written only after `check_room`,
//! which leaves room for one round and a whole vector after it; constant tables have the size of
//! the loads.
#![expect(
    unsafe_code,
    reason = "vector loads and stores with derived bounds; see # Safety"
)]

mod tables;

use core::arch::x86_64::*;

pub(crate) use self::tables::VectorTables;

use self::tables::Row;
use super::lanes::{Lanes, Words};
use super::tokens::{BEFORES, DISTANCES, LENGTHS, LITERAL_ROOM, MATCH_ROOM, STREAM_SLACK, Tokens};
use crate::cpu::cpu_has;
use crate::error::ErrorKind;
use crate::limits::{LANE_COUNT, TILE_MATCH_COUNT_MAX, TILE_RAW_BYTES, WORD_BYTES};

/// Flag in the extra bits: the symbol ends the block or does not exist.
const SPECIAL: u16 = 0x80;
/// Flag set together with `SPECIAL` for the end of the block.
const END: u16 = 0x40;
/// The bit set in the count of 16 extra bits only; all other counts are at most 14.
const LONG: u16 = 0x10;
/// Mask of the number of extra bits.
const EXTRA_BITS: u16 = 0x1F;

/// Rank of the first distance among the 64 symbols that are not literals.
const DISTANCE_RANK: u16 = 32;

/// Bytes of the padded copy of a tile's last words, which are fewer than 32: a round may begin
/// after the last of them and loads 32.
const PAD_BYTES: usize = 2 * LANE_COUNT * WORD_BYTES;

// A round stores at most 32 literals and 32 matches, in whole vectors of 32 and 64 bytes.
const _: () = assert!(TILE_RAW_BYTES + LANE_COUNT + 64 <= LITERAL_ROOM && STREAM_SLACK >= 64);
const _: () = assert!(TILE_MATCH_COUNT_MAX + 3 * LANE_COUNT <= MATCH_ROOM);

/// Whether this machine has the CPU features that the kernel needs.
pub(crate) fn is_available() -> bool {
    cpu_has!(
        "avx2",
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512dq",
        "avx512vbmi",
        "avx512vbmi2",
        "gfni",
        "popcnt",
        "bmi2"
    )
}

/// Decodes the symbols of one Huffman block, as the portable kernel does.
///
/// # Safety
/// [`is_available`] must have returned `true`.
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2")]
pub(crate) fn symbols(
    lanes: &mut Lanes,
    words: &mut Words<'_>,
    tables: &VectorTables,
    tokens: &mut Tokens,
    room: usize,
) -> Result<(), ErrorKind> {
    let codes = Registers::load(tables);
    let rest = words.rest();
    let mut place = Place {
        state: State::load(lanes),
        cursor: 0,
        ended: false,
    };
    place = place.run(&codes, tokens, room, rest)?;
    words.advance(place.cursor);
    if !place.ended {
        // Fewer than 32 words are left: zeros after them make room for the loads.
        let padded: [u8; PAD_BYTES] = words.padded();
        place.cursor = 0;
        while !place.ended {
            place = place.round_apart(&codes, tokens, room, &padded)?;
            if place.cursor > words.left() {
                return Err(ErrorKind::TruncatedTile);
            }
        }
        words.take(place.cursor)?;
    }
    place.state.store(lanes);
    literals_of_ranks(tables, tokens);
    Ok(())
}

/// Replaces the stored ranks of literals with the literals.
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
            fine: tables.fine.each_ref().map(|limits| row(limits)),
            others_from: row(&tables.others_from),
            other_rank: row(&tables.other_rank),
            literal_rank: row(&tables.literal_rank),
            base: tables.base.each_ref().map(|values| row(values)),
            extra: tables.extra.each_ref().map(|bits| row(bits)),
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

/// The 32 numbers from `first` on in steps of `step`.
const fn numbers(first: u16, step: u16) -> Row {
    let mut row = [0; 32];
    let mut at = 0;
    while at < 32 {
        row[at] = first + step * at as u16;
        at += 1;
    }
    Row(row)
}

/// 0, 1, 2, …
const IOTA: Row = numbers(0, 1);
/// Indices of the lower (`EVEN`) and upper (`ODD`) halves of 32 doublewords in two vectors.
const EVEN: Row = numbers(0, 2);
const ODD: Row = numbers(1, 2);

/// The 32 lanes between rounds.
#[derive(Clone, Copy)]
struct State {
    /// Unread bits, 16 in each vector, the next ones in the first.
    bits: [__m512i; 4],
    /// Number of unread bits minus 32.
    surplus: __m512i,
    /// All ones where a length is pending.
    pending: __m512i,
}

/// The progress of decoding.
#[derive(Clone, Copy)]
struct Place {
    state: State,
    /// Words taken.
    cursor: usize,
    /// The block has ended.
    ended: bool,
}

/// The symbols of a round, before their bits are taken.
#[derive(Clone, Copy)]
struct Round {
    /// Codeword bits minus 1, plus 16 for distances.
    class: __m512i,
    codeword: __m512i,
    /// Bits of the codeword.
    bits: __m512i,
    /// The 16 bits after the codeword.
    behind: __m512i,
    /// Extra bits with flags.
    extra: __m512i,
    /// Base plus the value of the extra bits.
    value: __m512i,
    /// All ones where the symbol is a literal.
    literal: __m512i,
}

impl State {
    #[target_feature(enable = "avx512f")]
    fn load(lanes: &Lanes) -> Self {
        let mut bits = [Row::ZERO; 4];
        let mut surplus = Row::ZERO;
        for lane in 0..LANE_COUNT {
            for (at, piece) in bits.iter_mut().enumerate() {
                piece.0[lane] = (lanes.bits[lane] >> (16 * at)) as u16;
            }
            surplus.0[lane] = (lanes.counts[lane] - 32) as u16;
        }
        Self {
            bits: bits.each_ref().map(|piece| row(piece)),
            surplus: row(&surplus),
            pending: _mm512_setzero_si512(),
        }
    }

    #[target_feature(enable = "avx512f")]
    fn store(&self, lanes: &mut Lanes) {
        let mut rows = [Row::ZERO; 5];
        for (row, vector) in rows
            .iter_mut()
            .zip(self.bits.into_iter().chain([self.surplus]))
        {
            // SAFETY: a row has 64 bytes and is aligned to them.
            unsafe { _mm512_store_si512(row.0.as_mut_ptr().cast(), vector) };
        }
        for lane in 0..LANE_COUNT {
            let pieces = rows[..4].iter().enumerate();
            let bits = pieces.map(|(at, row)| u64::from(row.0[lane]) << (16 * at));
            lanes.bits[lane] = bits.sum();
            lanes.counts[lane] = u32::from(rows[4].0[lane]) + 32;
        }
    }

    /// Decodes one symbol of every lane without taking it.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2")]
    fn look(&self, codes: &Registers) -> Round {
        let pending = self.pending;
        // The next 15 bits, first bit highest.
        let reverse = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        let bytes = _mm512_gf2p8affine_epi64_epi8::<0>(self.bits[0], reverse);
        let next = _mm512_srli_epi16::<1>(_mm512_shrdi_epi16::<8>(bytes, bytes));
        // -1 where `next` is below a limit. Both are at most 2^15, so the sign is right.
        let below = |limit| _mm512_srai_epi16::<15>(_mm512_sub_epi16(next, limit));
        let by_code = |litlen, distance| select(pending, distance, litlen);
        let coarse = |at: usize| below(by_code(codes.coarse[0][at], codes.coarse[1][at]));
        // Number of limits above, as 0 to -3: of the coarse ones, then of the group's fine ones.
        let coarse_above = _mm512_add_epi16(_mm512_add_epi16(coarse(0), coarse(1)), coarse(2));
        let group = _mm512_add_epi16(by_code(splat(3), splat(7)), coarse_above);
        let fine = |at: usize| below(_mm512_permutexvar_epi16(group, codes.fine[at]));
        let fine_above = _mm512_add_epi16(_mm512_add_epi16(fine(0), fine(1)), fine(2));
        let above = _mm512_slli_epi16::<2>(coarse_above);
        let class = _mm512_add_epi16(by_code(splat(15), splat(31)), above);
        let class = _mm512_add_epi16(class, fine_above);
        // 15 minus the codeword's bits; "no codeword" shifts everything out.
        let shift = _mm512_sub_epi16(_mm512_sub_epi16(splat(0xFFFF), above), fine_above);
        let bits = _mm512_add_epi16(_mm512_add_epi16(splat(16), above), fine_above);
        let codeword = _mm512_srlv_epi16(next, shift);
        let others_from = _mm512_permutexvar_epi16(class, codes.others_from);
        let literal = _mm512_srai_epi16::<15>(_mm512_sub_epi16(codeword, others_from));
        let rank = _mm512_permutexvar_epi16(class, codes.other_rank);
        let rank = _mm512_add_epi16(codeword, rank);
        let extra = _mm512_permutex2var_epi16(codes.extra[0], rank, codes.extra[1]);
        let extra = _mm512_andnot_si512(literal, extra);
        let base = _mm512_permutex2var_epi16(codes.base[0], rank, codes.base[1]);
        let behind = _mm512_shrdv_epi16(self.bits[0], self.bits[1], bits);
        let count = _mm512_and_si512(extra, splat(EXTRA_BITS));
        let value = _mm512_andnot_si512(_mm512_sllv_epi16(splat(0xFFFF), count), behind);
        let value = _mm512_add_epi16(base, value);
        Round {
            class,
            codeword,
            bits,
            behind,
            extra,
            value,
            literal,
        }
    }

    /// Consumes the bits of a round, refills, and returns the new cursor. At least 32 words must
    /// follow `cursor`. `bits` and `extra` must have no flags; 16 extra bits require `APART`.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2")]
    fn consume<const APART: bool>(
        &mut self,
        bytes: &[u8],
        cursor: usize,
        bits: __m512i,
        first: __m512i,
        extra: __m512i,
    ) -> usize {
        let zero = _mm512_setzero_si512();
        let [_, b, c, d] = self.bits;
        let mut pieces = [
            first,
            _mm512_shrdv_epi16(b, c, bits),
            _mm512_shrdv_epi16(c, d, bits),
            _mm512_shrdv_epi16(d, zero, bits),
        ];
        if APART {
            let long = _mm512_test_epi16_mask(extra, splat(LONG));
            for at in 0..4 {
                let above = if at < 3 { pieces[at + 1] } else { zero };
                pieces[at] = _mm512_mask_mov_epi16(pieces[at], long, above);
            }
        }
        let [a, b, c, d] = pieces;
        let [a, b, c, d] = [
            _mm512_shrdv_epi16(a, b, extra),
            _mm512_shrdv_epi16(b, c, extra),
            _mm512_shrdv_epi16(c, d, extra),
            _mm512_shrdv_epi16(d, zero, extra),
        ];
        let left = _mm512_sub_epi16(_mm512_sub_epi16(self.surplus, bits), extra);
        let short = _mm512_movepi16_mask(left);
        assert!((cursor + LANE_COUNT) * WORD_BYTES <= bytes.len());
        // SAFETY: 32 words follow the cursor, just asserted.
        let words = unsafe {
            let at = bytes.as_ptr().add(cursor * WORD_BYTES);
            [
                _mm512_loadu_si512(at.cast()),
                _mm512_loadu_si512(at.add(64).cast()),
            ]
        };
        let low = _mm512_permutex2var_epi16(words[0], row(&EVEN), words[1]);
        let high = _mm512_permutex2var_epi16(words[0], row(&ODD), words[1]);
        let low = _mm512_maskz_expand_epi16(short, low);
        let high = _mm512_maskz_expand_epi16(short, high);
        // Where a word is added, `left` is negative, and the lane holds `left` modulo 32 bits, 1 to
        // 31. The word goes above them: shifted by that modulo 16, one piece further from 16 on.
        let surplus = _mm512_and_si512(left, splat(31));
        let upper = _mm512_test_epi16_mask(left, splat(16));
        let shifted = [
            _mm512_shldv_epi16(low, zero, surplus),
            _mm512_shldv_epi16(high, low, surplus),
            _mm512_shldv_epi16(zero, high, surplus),
        ];
        self.bits = [
            or_where(a, !upper, shifted[0]),
            _mm512_or_si512(b, _mm512_mask_mov_epi16(shifted[1], upper, shifted[0])),
            _mm512_or_si512(c, _mm512_mask_mov_epi16(shifted[2], upper, shifted[1])),
            or_where(d, upper, shifted[2]),
        ];
        self.surplus = surplus;
        cursor + short.count_ones() as usize
    }
}

/// `a` where `mask` is all ones, `b` where it is zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn select(mask: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xCA>(mask, a, b)
}

/// The elements of `a`, or-ed with those of `b` where `mask` is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn or_where(a: __m512i, mask: u32, b: __m512i) -> __m512i {
    _mm512_or_si512(a, _mm512_maskz_mov_epi16(mask, b))
}

impl Place {
    /// Runs rounds until the block ends or fewer than 32 words follow the cursor in `bytes`.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2")]
    fn run(
        mut self,
        codes: &Registers,
        tokens: &mut Tokens,
        room: usize,
        bytes: &[u8],
    ) -> Result<Self, ErrorKind> {
        let word_count = bytes.len() / WORD_BYTES;
        while !self.ended && self.cursor + LANE_COUNT <= word_count {
            tokens.check_room(room)?;
            let round = self.state.look(codes);
            let flags = splat(SPECIAL | LONG);
            if _mm512_test_epi16_mask(round.extra, flags) != 0 {
                self = self.round_apart(codes, tokens, room, bytes)?;
                continue;
            }
            let literals = _mm512_movepi16_mask(round.literal);
            let distances = _mm512_movepi16_mask(self.state.pending);
            emit(
                codes,
                tokens,
                &round,
                literals,
                !(literals | distances),
                distances,
            );
            // Neither a literal nor a distance.
            self.state.pending =
                _mm512_ternarylogic_epi64::<0x11>(round.literal, round.literal, self.state.pending);
            self.cursor = self.state.consume::<false>(
                bytes,
                self.cursor,
                round.bits,
                round.behind,
                round.extra,
            );
        }
        Ok(self)
    }

    /// Runs one round of any kind and, if it ends the block, reads the pending distances. At least
    /// 32 words must follow the cursor.
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2")]
    fn round_apart(
        mut self,
        codes: &Registers,
        tokens: &mut Tokens,
        room: usize,
        bytes: &[u8],
    ) -> Result<Self, ErrorKind> {
        tokens.check_room(room)?;
        let round = self.state.look(codes);
        let special = _mm512_test_epi16_mask(round.extra, splat(SPECIAL));
        if special == 0 {
            self.commit_apart(codes, tokens, bytes, &round, u32::MAX, 0);
            return Ok(self);
        }
        // Lanes after the end have a turn only for a pending distance.
        let lane = special.trailing_zeros();
        let ends = _mm512_test_epi16_mask(round.extra, splat(END));
        let pending = _mm512_movepi16_mask(self.state.pending);
        let active = u32::MAX >> (31 - lane) | pending;
        if ends >> lane & 1 == 0 || special & active != 1 << lane {
            return Err(ErrorKind::BadSymbol);
        }
        self.commit_apart(codes, tokens, bytes, &round, active, 1 << lane);
        // The lanes before the end may have read a length in this round. The words of their last
        // turns may lie past those that the slice is known to have.
        let rest = bytes.get(self.cursor * WORD_BYTES..).unwrap_or_default();
        let count = rest.len().min(LANE_COUNT * WORD_BYTES);
        let mut padded = [0; LANE_COUNT * WORD_BYTES];
        padded[..count].copy_from_slice(&rest[..count]);
        let round = self.state.look(codes);
        let special = _mm512_test_epi16_mask(round.extra, splat(SPECIAL));
        let active = _mm512_movepi16_mask(self.state.pending);
        if special & active != 0 {
            return Err(ErrorKind::BadSymbol);
        }
        let start = core::mem::replace(&mut self.cursor, 0);
        self.commit_apart(codes, tokens, &padded, &round, active, 0);
        if self.cursor * WORD_BYTES > count {
            return Err(ErrorKind::TruncatedTile);
        }
        self.cursor += start;
        self.ended = true;
        Ok(self)
    }

    /// Takes a round's symbols of the lanes in the mask `active`; `end` is the mask of the lane
    /// whose symbol ends the block.
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2")]
    fn commit_apart(
        &mut self,
        codes: &Registers,
        tokens: &mut Tokens,
        bytes: &[u8],
        round: &Round,
        active: u32,
        end: u32,
    ) {
        let literals = _mm512_movepi16_mask(round.literal) & active;
        let distances = _mm512_movepi16_mask(self.state.pending) & active;
        let lengths = active & !(literals | distances | end);
        emit(codes, tokens, round, literals, lengths, distances);
        self.state.pending = _mm512_movm_epi16(lengths);
        let bits = _mm512_maskz_mov_epi16(active, round.bits);
        let first = _mm512_mask_mov_epi16(self.state.bits[0], active, round.behind);
        let extra = _mm512_and_si512(round.extra, splat(EXTRA_BITS));
        let extra = _mm512_maskz_mov_epi16(active, extra);
        self.cursor = self
            .state
            .consume::<true>(bytes, self.cursor, bits, first, extra);
    }
}

/// Appends the symbols of `round` to the streams, by the masks of lanes of each kind.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,gfni,popcnt,bmi2")]
fn emit(
    codes: &Registers,
    tokens: &mut Tokens,
    round: &Round,
    literals: u32,
    lengths: u32,
    distances: u32,
) {
    let rank = _mm512_permutexvar_epi16(round.class, codes.literal_rank);
    let rank = _mm512_cvtepi16_epi8(_mm512_add_epi16(round.codeword, rank));
    let ranks = _mm256_maskz_compress_epi8(literals, rank);
    // Number of literals before a lane: the lanes before it minus those that are not literals.
    let iota = row(&IOTA);
    let others_before = _mm512_maskz_expand_epi16(!literals, iota);
    let count = splat(tokens.literal_count as u16);
    let before = _mm512_add_epi16(_mm512_sub_epi16(iota, others_before), count);
    debug_assert!(tokens.literal_count <= TILE_RAW_BYTES + LANE_COUNT);
    debug_assert!(tokens.length_count <= TILE_MATCH_COUNT_MAX + LANE_COUNT);
    debug_assert!(tokens.distance_count <= tokens.length_count);
    // SAFETY: `check_room` was called before this round, or, for the last distances of a block,
    // before the round preceding it; there are never more distances than lengths before them. So
    // the counts are at most what is asserted here, and the vectors fit after them, which is
    // asserted beside the constants.
    unsafe {
        let matches = tokens.matches.as_mut_ptr();
        let at = tokens.literals.as_mut_ptr().add(tokens.literal_count);
        _mm256_storeu_si256(at.cast(), ranks);
        let at = matches.add(BEFORES + tokens.length_count);
        _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(lengths, before));
        let at = matches.add(LENGTHS + tokens.length_count);
        _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi16(lengths, round.value));
        let at = matches.add(DISTANCES + tokens.distance_count);
        _mm512_storeu_si512(
            at.cast(),
            _mm512_maskz_compress_epi16(distances, round.value),
        );
    }
    tokens.literal_count += literals.count_ones() as usize;
    tokens.length_count += lengths.count_ones() as usize;
    tokens.distance_count += distances.count_ones() as usize;
}
