//! Whether reads of a file find their bytes in the page cache.

use crate::engine::route::Hits;
use crate::limits;

/// Whether a file's reads find their bytes in the page cache, and so are to be copied from there.
///
/// A copy that misses is expensive: it makes the kernel start to read that page by itself, outside
/// the device's batches (10 µs in a virtual machine, where a copied hit saves less than one). So a
/// file is trusted only after some hits in a row, and no longer after the first miss. Before that
/// the system is asked about a read (`cachestat`, under a microsecond), for cold files about fewer
/// and fewer reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Streak {
    /// Hits in a row.
    hits: u32,
    /// Reads to let pass before the next query, and how many those were last time.
    skip: u32,
    skips: u32,
    /// The system cannot say what is cached, or the file system has no reads that do not block.
    never: bool,
}

/// Hits in a row that earn a file trust.
const TRUSTED_HITS: u32 = 8;

impl Streak {
    #[inline]
    pub(crate) fn view(&self) -> Hits {
        match self.never || self.skip > 0 {
            _ if self.hits >= TRUSTED_HITS => Hits::Trusted,
            true => Hits::Unlikely,
            false => Hits::Due,
        }
    }

    fn hit(&mut self) {
        self.hits = self.hits.saturating_add(1);
        if self.hits >= TRUSTED_HITS {
            (self.skip, self.skips) = (0, 0);
        }
    }

    /// Bytes are not cached, or not all: what the system says, or a copy has found.
    fn cold(&mut self) {
        self.hits = 0;
        self.skips = (2 * self.skips + 1).min(limits::COPY_SKIPS_MAX);
        self.skip = self.skips;
    }

    /// A read went to the device without a query.
    #[inline]
    pub(crate) fn passed(&mut self) {
        self.skip = self.skip.saturating_sub(1);
    }

    /// The system was asked about a read: `None` if it cannot say.
    pub(crate) fn asked(&mut self, cached: Option<bool>) {
        match cached {
            Some(true) => {}
            Some(false) => self.cold(),
            None => {
                *self = Streak {
                    never: true,
                    ..Streak::default()
                };
            }
        }
    }

    /// A copy from the page cache came back: with everything, with less, or the file system cannot.
    pub(crate) fn copied(&mut self, whole: Option<bool>) {
        match whole {
            Some(true) => self.hit(),
            other => self.asked(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file; whether it was a miss about which the system was not asked.
    fn fruitless(streak: &mut Streak, cached: bool) -> bool {
        match (streak.view(), cached) {
            (Hits::Trusted | Hits::Due, true) => streak.hit(),
            (before, false) if before != Hits::Unlikely => {
                streak.cold();
                return before == Hits::Trusted;
            }
            _ => streak.passed(),
        }
        false
    }

    #[test]
    fn a_cold_file_is_asked_about_less_and_less() {
        let mut streak = Streak::default();
        let mut questions = |reads: usize| {
            let asks = |_: &usize| {
                let due = streak.view() == Hits::Due;
                assert!(!fruitless(&mut streak, false));
                due
            };
            (0..reads).filter(asks).count()
        };
        assert_eq!(questions(1), 1);
        assert!(questions(128) <= 7);
        assert_eq!(questions(64 * 100), 100);
    }

    #[test]
    fn a_warm_file_is_trusted_soon_and_again_after_a_miss() {
        let mut streak = Streak::default();
        for _ in 0..4 {
            assert!((0..TRUSTED_HITS + 1).all(|_| !fruitless(&mut streak, true)));
            assert_eq!(streak.view(), Hits::Trusted);
            assert!(fruitless(&mut streak, false));
        }
    }

    #[test]
    fn a_half_cached_file_costs_hardly_a_fruitless_read() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut streak = Streak::default();
        let reads = (0..100_000).filter(|_| fruitless(&mut streak, random.bool()));
        let misses = reads.count();
        assert!(misses < 50, "{misses} of 100000 reads were fruitless");
    }
}
