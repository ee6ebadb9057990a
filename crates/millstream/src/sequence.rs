//! The sequence window of a queue: which entries have ended, and below which number all have.
//!
//! One bit per entry from the watermark on. Entries may end in any order; the watermark passes a
//! run of ended ones, so that the cost per entry is constant.

use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct SequenceWindow {
    /// Everything below has ended.
    watermark: u64,
    /// Bit `i` of word `w`: entry `base + 64 w + i` has ended. `base` is the watermark rounded down
    /// to 64.
    words: VecDeque<u64>,
}

impl SequenceWindow {
    pub(crate) fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Marks an entry as ended (once).
    #[inline]
    pub(crate) fn end(&mut self, sequence: u64) {
        assert!(sequence >= self.watermark, "an entry ends once");
        let base = self.watermark & !63;
        let word = usize::try_from((sequence - base) / 64).expect("the window is bounded");
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let bit = 1u64 << (sequence % 64);
        assert_eq!(self.words[word] & bit, 0, "an entry ends once");
        self.words[word] |= bit;
    }

    /// Moves the watermark over ended entries, but not beyond `limit`; where it stands then.
    pub(crate) fn advance(&mut self, limit: u64) -> u64 {
        while self.watermark < limit {
            let Some(&word) = self.words.front() else {
                break;
            };
            let bit = self.watermark % 64;
            let run = u64::from((!(word >> bit)).trailing_zeros()).min(64 - bit);
            let step = run.min(limit - self.watermark);
            if step == 0 {
                break;
            }
            self.watermark += step;
            if self.watermark.is_multiple_of(64) {
                self.words.pop_front();
            }
        }
        self.watermark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_is_the_first_entry_that_has_not_ended_in_any_order_of_ends() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let count = random.u64(1..500);
            let mut order: Vec<u64> = (0..count).collect();
            random.shuffle(&mut order);
            let mut window = SequenceWindow::default();
            let mut ended = vec![false; count as usize];
            for sequence in order {
                window.end(sequence);
                ended[sequence as usize] = true;
                let first = ended
                    .iter()
                    .position(|&ended| !ended)
                    .unwrap_or(ended.len()) as u64;
                let limit = random.u64(0..=count);
                let expected = first.min(limit.max(window.watermark()));
                assert_eq!(
                    window.advance(limit.max(window.watermark())),
                    expected,
                    "seed {seed}"
                );
            }
            assert_eq!(window.advance(u64::MAX), count, "seed {seed}");
        }
    }
}
