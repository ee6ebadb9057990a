//! Latency histograms: logarithmic buckets with four steps an octave, constant memory.

/// Buckets: 64 octaves of 4 steps.
pub(crate) const BUCKETS: usize = 256;

/// A snapshot of counts of durations in nanoseconds. Quantiles are exact to 19 % (a quarter
/// octave), rounded up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buckets {
    counts: Vec<u64>,
    max_ns: u64,
}

/// The bucket of a value.
#[inline]
pub(crate) fn bucket(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() as usize;
    let step = (value >> (octave - 2)) as usize & 3;
    octave * 4 + step
}

/// Largest value of a bucket.
fn upper(index: usize) -> u64 {
    if index < 8 {
        return (index as u64).min(3);
    }
    let (octave, step) = (index / 4, index % 4);
    let width = 1u64 << (octave - 2);
    (1u64 << octave) + (step as u64 * width) + (width - 1)
}

impl Buckets {
    pub(crate) fn new(counts: impl Iterator<Item = u64>, max_ns: u64) -> Buckets {
        let counts = counts.collect();
        Buckets { counts, max_ns }
    }

    /// Takes away what an earlier snapshot of the same counts had; the longest stays.
    pub(crate) fn subtract(&mut self, before: &Buckets) {
        for (own, from) in self.counts.iter_mut().zip(&before.counts) {
            *own = own.saturating_sub(*from);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rank among counts that stay far below 2^53"
    )]
    pub(crate) fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_its_bucket_and_buckets_do_not_overlap() {
        for shift in 0..63 {
            for value in [1u64 << shift, (1 << shift) + 1, (1 << shift) * 3 / 2] {
                let index = bucket(value);
                assert!(value <= upper(index), "{value}");
                let apart = index == 0 || upper(index - 1) < value || index <= 8;
                assert!(apart, "{value}");
            }
        }
    }

    #[test]
    fn quantiles_are_right_to_a_quarter_octave() {
        let mut counts = [0; BUCKETS];
        (1..=1000u64).for_each(|value| counts[bucket(value * 1000)] += 1);
        let buckets = Buckets::new(counts.into_iter(), 1_000_000);
        let p50 = buckets.quantile_ns(0.5);
        assert!((500_000..=600_000).contains(&p50), "{p50}");
        let p999 = buckets.quantile_ns(0.999);
        assert!((999_000..=1_000_000).contains(&p999), "{p999}");
        assert_eq!(buckets.quantile_ns(1.0), 1_000_000);
        assert_eq!(buckets.quantile_ns(99.9), 1_000_000, "a percentage");
        assert_eq!(Buckets::default().quantile_ns(0.5), 0);
    }
}
