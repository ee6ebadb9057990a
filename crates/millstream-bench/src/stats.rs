//! Statistics of a few runs.
//!
//! A figure is the median. The mean carries the interval: half the width of Student's t-interval
//! (two-sided, 95 %), the usual choice for 3 to 30 runs. A goal is judged on pairs: contenders take
//! turns within a round, so that the ratio of two figures *of one round* is free of the slow drift
//! of a shared machine.

/// 0.975 quantiles of Student's t for 1 to 30 degrees of freedom; beyond, the normal's 1.96.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
const NORMAL_975: f64 = 1.96;

/// Returns the median, for an even number the mean of the two middle values; NaN if empty.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Returns the mean, and half the width of its 95 % t-interval; a single run has none.
pub(crate) fn mean_and_interval(samples: &[f64]) -> (f64, Option<f64>) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    if samples.len() < 2 {
        return (mean, None);
    }
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    let t = T_975.get(samples.len() - 2).copied().unwrap_or(NORMAL_975);
    (mean, Some(t * (variance / n).sqrt()))
}

/// Returns the `quantile` (0 to 1) of values by nearest rank; 0 if empty. Sorts them in place.
pub(crate) fn percentile(values: &mut [u64], quantile: f64) -> u64 {
    if values.is_empty() {
        return 0;
    }
    values.sort_unstable();
    let rank = (quantile * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}

/// Returns whether the runs leave open on which side of `bound` a figure lies: the bound is within
/// the t-interval of the mean of the runs (`each`), widened to include the reported `value`. A
/// single run leaves everything open.
pub(crate) fn is_open(each: &[f64], value: f64, bound: f64) -> bool {
    let (mean, half) = mean_and_interval(each);
    let low = mean - half.unwrap_or(f64::INFINITY);
    let high = mean + half.unwrap_or(f64::INFINITY);
    !low.is_finite() || (value.min(low)..=value.max(high)).contains(&bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_sample_gives_known_figures() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        let (mean, half) = mean_and_interval(&samples);
        assert_eq!((median(&samples), mean), (2.5, 2.5));
        // Standard deviation 1.2910, over sqrt(4), times t(3) = 3.182.
        assert!((half.unwrap() - 2.0540).abs() < 1e-3);
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
    fn runs_leave_open_what_their_interval_holds() {
        assert!(!is_open(&[1.1, 1.1, 1.1], 1.1, 1.0));
        assert!(is_open(&[0.9, 1.2, 1.2], 1.2, 1.0));
        assert!(is_open(&[1.2], 1.2, 1.0) && is_open(&[f64::NAN; 3], 1.2, 1.0));
    }
}
