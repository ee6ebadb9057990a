//! Statistics of a handful of runs.
//!
//! A figure is the median; the mean carries the interval. `ci95` is the half width of Student's
//! t-interval of the mean (two-sided, 95 %), the usual choice for 3 to 30 runs. Comparing two
//! contenders uses the ratio of their medians; whether the difference means anything is judged on
//! pairs: contenders take turns within a round, so the ratio of the two figures *of one round* is
//! free of the slow drift of a shared machine, and the t-interval of the logarithms of these
//! ratios says how far the ratio of medians may be trusted.

/// Summary of the runs of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    /// Of an even number the mean of the two middle ones.
    pub(crate) median: f64,
    pub(crate) mean: f64,
    pub(crate) max: f64,
    /// Half width of the 95 % t-interval of the mean; `None` for a single run.
    pub(crate) ci95: Option<f64>,
}

/// Quantiles 0.975 of Student's t for 1 to 30 degrees of freedom; beyond, the normal's 1.96.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The normal distribution's quantile 0.975.
const NORMAL_975: f64 = 1.96;

/// Summary of `samples`; `None` if there are none or one is not a finite number.
pub(crate) fn summarize(samples: &[f64]) -> Option<Summary> {
    if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (mean, ci95) = mean_and_interval(samples);
    Some(Summary {
        min: sorted[0],
        median: median_of_sorted(&sorted),
        mean,
        max: sorted[sorted.len() - 1],
        ci95,
    })
}

/// Median; NaN of nothing.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

fn mean_and_interval(samples: &[f64]) -> (f64, Option<f64>) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    if samples.len() < 2 {
        return (mean, None);
    }
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    let t = T_975.get(samples.len() - 2).copied().unwrap_or(NORMAL_975);
    (mean, Some(t * (variance / n).sqrt()))
}

/// The `quantile` (0 to 1) of unsorted values, nearest rank; 0 of nothing. Sorts in place.
pub(crate) fn percentile(values: &mut [u64], quantile: f64) -> u64 {
    if values.is_empty() {
        return 0;
    }
    values.sort_unstable();
    let rank = (quantile * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// A figure, and between what bounds it may be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Whether a claim that the figure is above or below `threshold` is not carried by the runs.
    pub(crate) fn within_noise(&self, threshold: f64) -> bool {
        self.low <= threshold && threshold <= self.high
    }

    /// Another figure with these bounds, widened to hold it.
    pub(crate) fn holding(self, value: f64) -> Interval {
        Interval {
            value,
            low: self.low.min(value),
            high: self.high.max(value),
        }
    }
}

/// The median with the t-interval of the mean; `None` of nothing.
pub(crate) fn interval(samples: &[f64]) -> Option<Interval> {
    let summary = summarize(samples)?;
    let half = summary.ci95.unwrap_or(f64::INFINITY);
    let (low, high) = (summary.mean - half, summary.mean + half);
    let value = summary.median;
    Some(Interval { value, low, high }.holding(value))
}

/// The ratio of `ours` to `theirs`, judged sample by sample of the same rounds. With a single
/// round, or if the rounds differ in number, the bounds are infinite: nothing is known about the
/// spread.
pub(crate) fn compare(ours: &[f64], theirs: &[f64]) -> Option<Interval> {
    let value = median(ours) / median(theirs);
    if !value.is_finite() {
        return None;
    }
    let positive = ours.iter().chain(theirs).all(|x| *x > 0.0);
    if ours.len() != theirs.len() || ours.len() < 2 || !positive {
        let (low, high) = (0.0, f64::INFINITY);
        return Some(Interval { value, low, high });
    }
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a / b).ln()).collect();
    let (mean, half) = mean_and_interval(&logs);
    let half = half.unwrap_or(f64::INFINITY);
    let (low, high) = ((mean - half).exp(), (mean + half).exp());
    // The interval is about the geometric mean of the ratios, and the ratio of medians is reported.
    Some(Interval { value, low, high }.holding(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_known_sample_gives_known_figures() {
        let summary = summarize(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.min, summary.max), (1.0, 4.0));
        assert_eq!((summary.median, summary.mean), (2.5, 2.5));
        // Standard deviation 1.2910, over sqrt(4), times t(3) = 3.182.
        assert!((summary.ci95.unwrap() - 2.0540).abs() < 1e-3);
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut values, 0.5), 50);
        assert_eq!(percentile(&mut values, 0.99), 99);
        assert_eq!(percentile(&mut values, 1.0), 100);
        assert_eq!(percentile(&mut [], 0.5), 0);
    }

    #[test]
    fn a_steady_difference_stands_out_of_a_drift_common_to_both() {
        let theirs = [1.0, 2.0, 4.0, 8.0, 16.0];
        let ours: Vec<f64> = theirs.iter().map(|x| x * 1.1).collect();
        let comparison = compare(&ours, &theirs).unwrap();
        assert!((comparison.value - 1.1).abs() < 1e-9);
        assert!(!comparison.within_noise(1.0));
    }

    #[test]
    fn a_single_round_proves_nothing() {
        assert!(compare(&[2.0], &[1.0]).unwrap().within_noise(1.0));
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_reported_ratio(
            pairs in prop::collection::vec((0.1f64..10.0, 0.1f64..10.0), 1..20)
        ) {
            let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let comparison = compare(&ours, &theirs).unwrap();
            prop_assert!(comparison.within_noise(comparison.value));
        }
    }
}
