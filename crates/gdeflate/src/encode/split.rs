//! Splitting a tile into blocks by their estimated cost.
//!
//! A tile's tokens are split into small units, and adjacent ones are merged as long as one block
//! costs no more than two, beginning with the pair that saves most. Costs are estimated from
//! entropies, which is close enough to decide and much cheaper than building codes.

use alloc::vec::Vec;

use super::cost::estimated_bits;
use super::tokens::{Coded, Frequencies};

/// A run of tokens.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) token_end: usize,
    pub(crate) raw_end: usize,
    /// Frequencies of the tokens' symbols and the end of block.
    pub(crate) frequencies: Frequencies,
    bits: i64,
    /// Bits saved by merging it with the next one; negative if two blocks are cheaper.
    gain: i64,
}

/// Sets `segments` to the blocks of a tile, made of units of `unit_tokens` tokens.
#[inline(always)]
pub(crate) fn split(tokens: &[Coded], unit_tokens: usize, segments: &mut Vec<Segment>) {
    cut(tokens, unit_tokens, segments);
    for at in 1..segments.len() {
        set_gain(segments, at - 1);
    }
    while let Some(at) = best_pair(segments) {
        let next = segments.remove(at + 1);
        let segment = &mut segments[at];
        segment.frequencies.add(&next.frequencies);
        segment.bits += next.bits - segment.gain;
        segment.token_end = next.token_end;
        segment.raw_end = next.raw_end;
        segment.gain = i64::MIN;
        if at + 1 < segments.len() {
            set_gain(segments, at);
        }
        if at > 0 {
            set_gain(segments, at - 1);
        }
    }
}

#[inline(always)]
fn cut(tokens: &[Coded], unit_tokens: usize, segments: &mut Vec<Segment>) {
    segments.clear();
    let (mut raw_end, mut token_end) = (0, 0);
    for unit in tokens.chunks(unit_tokens) {
        let frequencies = Frequencies::of_block(unit);
        raw_end += unit.iter().map(|token| token.raw_len()).sum::<usize>();
        token_end += unit.len();
        segments.push(Segment {
            token_end,
            raw_end,
            bits: estimated_bits(&frequencies).into(),
            frequencies,
            gain: i64::MIN,
        });
    }
}

fn set_gain(segments: &mut [Segment], at: usize) {
    let mut both = segments[at].frequencies;
    both.add(&segments[at + 1].frequencies);
    let apart = segments[at].bits + segments[at + 1].bits;
    segments[at].gain = apart - i64::from(estimated_bits(&both));
}

fn best_pair(segments: &[Segment]) -> Option<usize> {
    let pairs = segments.iter().enumerate();
    let best = pairs.max_by_key(|(_, segment)| segment.gain)?;
    (best.1.gain >= 0).then_some(best.0)
}
