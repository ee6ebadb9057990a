//! A set of small numbers that finds its lowest member in a few steps.
//!
//! A tree of 64-bit words: a bit of level n + 1 says that a word of level n is not zero. Three
//! levels hold 262,144 members, a gibibyte of pages.

const WORD_BITS: usize = u64::BITS as usize;

/// A set of numbers below a fixed bound.
pub(super) struct Bitmap {
    /// From the members (first) to a single word (last).
    levels: Vec<Box<[u64]>>,
}

impl Bitmap {
    /// An empty set for numbers below `bound`.
    pub(super) fn new(bound: usize) -> Bitmap {
        let mut levels = Vec::new();
        let mut word_count = bound.div_ceil(WORD_BITS).max(1);
        loop {
            levels.push(vec![0; word_count].into_boxed_slice());
            if word_count == 1 {
                return Bitmap { levels };
            }
            word_count = word_count.div_ceil(WORD_BITS);
        }
    }

    /// Puts `member` in; it must not be in.
    pub(super) fn insert(&mut self, member: usize) {
        debug_assert!(!self.contains(member));
        let mut index = member;
        for level in &mut self.levels {
            let word = &mut level[index / WORD_BITS];
            let was_empty = *word == 0;
            *word |= 1 << (index % WORD_BITS);
            if !was_empty {
                return;
            }
            index /= WORD_BITS;
        }
    }

    /// Takes `member` out; whether it was in.
    pub(super) fn remove(&mut self, member: usize) -> bool {
        if !self.contains(member) {
            return false;
        }
        let mut index = member;
        for level in &mut self.levels {
            let word = &mut level[index / WORD_BITS];
            *word &= !(1 << (index % WORD_BITS));
            if *word != 0 {
                break;
            }
            index /= WORD_BITS;
        }
        true
    }

    /// Whether `member` is in. Numbers beyond the bound are not.
    pub(super) fn contains(&self, member: usize) -> bool {
        self.levels[0]
            .get(member / WORD_BITS)
            .is_some_and(|word| word >> (member % WORD_BITS) & 1 == 1)
    }

    /// The lowest member.
    pub(super) fn lowest(&self) -> Option<usize> {
        let mut index = 0;
        for level in self.levels.iter().rev() {
            let word = level[index];
            if word == 0 {
                return None; // Only the top word can be zero here.
            }
            index = index * WORD_BITS + word.trailing_zeros() as usize;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::Bitmap;
    use std::collections::BTreeSet;

    #[test]
    fn bitmap_agrees_with_a_sorted_set() {
        for bound in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut random = fastrand::Rng::with_seed(bound as u64);
            let mut ours = Bitmap::new(bound);
            let mut model = BTreeSet::new();
            for _ in 0..4000 {
                let member = random.usize(..bound);
                if random.bool() && !model.contains(&member) {
                    ours.insert(member);
                    model.insert(member);
                } else {
                    assert_eq!(ours.remove(member), model.remove(&member));
                }
                assert_eq!(ours.lowest(), model.first().copied());
                assert_eq!(ours.contains(member), model.contains(&member));
            }
        }
    }
}
