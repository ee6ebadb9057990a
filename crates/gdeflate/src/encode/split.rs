//! Where blocks begin: by what they would cost.
//!
//! A tile's tokens are cut into small units, and neighbours are put together as long as one block
//! costs less than two, the pair first that gains most. Costs are estimated from entropies, which
//! is close enough to decide and a good deal cheaper than building codes.

use alloc::vec::Vec;

use super::cost::estimated_bits;
use super::tokens::{Counts, Frequencies, Token};
use crate::limits::END_OF_BLOCK;

/// A run of tokens.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) token_end: usize,
    pub(crate) raw_end: usize,
    /// Of the tokens, with the block's end.
    pub(crate) frequencies: Frequencies,
    bits: u32,
    /// Bits saved by joining it with the next one; negative where two blocks are better.
    gain: i64,
}

/// Memory of the splitter.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    segments: Vec<Segment>,
}

impl Splitter {
    /// The blocks of a tile. Units hold at least `unit_bytes` raw bytes.
    #[inline(always)]
    pub(crate) fn split(&mut self, tokens: &[Token], unit_bytes: usize) -> &[Segment] {
        self.cut(tokens, unit_bytes);
        for at in 1..self.segments.len() {
            self.set_gain(at - 1);
        }
        while let Some(at) = self.best_pair() {
            let next = self.segments.remove(at + 1);
            let segment = &mut self.segments[at];
            segment.frequencies.add(&next.frequencies);
            segment.frequencies.litlen[END_OF_BLOCK] = 1;
            segment.bits = estimated_bits(&segment.frequencies);
            segment.token_end = next.token_end;
            segment.raw_end = next.raw_end;
            segment.gain = i64::MIN;
            if at + 1 < self.segments.len() {
                self.set_gain(at);
            }
            if at > 0 {
                self.set_gain(at - 1);
            }
        }
        &self.segments
    }

    #[inline(always)]
    fn cut(&mut self, tokens: &[Token], unit_bytes: usize) {
        self.segments.clear();
        let mut raw_end = 0;
        let mut token_end = 0;
        while token_end < tokens.len() {
            let unit_end = raw_end + unit_bytes;
            let mut counts = Counts::ZERO;
            for &token in &tokens[token_end..] {
                counts.count(token);
                raw_end += token.raw_len();
                token_end += 1;
                if raw_end >= unit_end {
                    break;
                }
            }
            let mut frequencies = counts.frequencies();
            frequencies.litlen[END_OF_BLOCK] = 1;
            let bits = estimated_bits(&frequencies);
            self.segments.push(Segment {
                token_end,
                raw_end,
                frequencies,
                bits,
                gain: i64::MIN,
            });
        }
    }

    fn set_gain(&mut self, at: usize) {
        let mut both = self.segments[at].frequencies;
        both.add(&self.segments[at + 1].frequencies);
        both.litlen[END_OF_BLOCK] = 1;
        let apart = i64::from(self.segments[at].bits) + i64::from(self.segments[at + 1].bits);
        self.segments[at].gain = apart - i64::from(estimated_bits(&both));
    }

    fn best_pair(&self) -> Option<usize> {
        let pairs = self.segments.iter().enumerate();
        let best = pairs.max_by_key(|(_, segment)| segment.gain)?;
        (best.1.gain >= 0).then_some(best.0)
    }
}
