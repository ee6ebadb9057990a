//! Compares two figures.
//!
//! A ratio is of medians, oriented so that more than 1 is better. Rows carry no individual runs, so
//! the interval of a ratio combines the worst ends of the two intervals of the means: wider than
//! one from pairs of runs would be. Only a ratio whose interval excludes 1 is called ahead or
//! behind. The verdict of a goal is from pairs of runs, and is the benchmark's.

use crate::rows::{Better, Figures};

/// How our figure compares with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Better, and the interval excludes 1.
    Ahead,
    /// The interval includes 1.
    Level,
    /// Worse, and the interval excludes 1.
    Behind,
}

impl Standing {
    /// Returns the word for it, which is the CSS class of its dots.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Standing::Ahead => "ahead",
            Standing::Level => "level",
            Standing::Behind => "behind",
        }
    }
}

/// The ratio of our figure to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Comparison {
    pub(crate) fn standing(&self) -> Standing {
        match self {
            ahead if ahead.low > 1.0 => Standing::Ahead,
            behind if behind.high < 1.0 => Standing::Behind,
            _ => Standing::Level,
        }
    }
}

/// Compares figures of the same metric; `None` if their ratio is not finite and positive.
pub(crate) fn compare(ours: &Figures, theirs: &Figures) -> Option<Comparison> {
    let (above, below) = match ours.better {
        Better::Higher => (ours, theirs),
        Better::Lower => (theirs, ours),
    };
    let ratio = above.median / below.median;
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    let (low, high) = match above.interval().zip(below.interval()) {
        Some((above, below)) if below.0 > 0.0 => (above.0.max(0.0) / below.1, above.1 / below.0),
        Some((above, below)) => (above.0.max(0.0) / below.1, f64::INFINITY),
        None => (0.0, f64::INFINITY),
    };
    Some(Comparison {
        ratio,
        low: low.min(ratio),
        high: high.max(ratio),
    })
}

/// Returns the geometric mean of the positive finite values; `None` if there are none.
pub(crate) fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let sound = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    let (sum, count) = sound.fold((0.0, 0.0), |(sum, count), it| (sum + it.ln(), count + 1.0));
    (count > 0.0).then(|| f64::exp(sum / count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::row;

    fn figures(better: Better, median: f64, ci95: f64) -> Figures {
        row([""; 3], better, median, ci95)
            .figures()
            .expect("it has")
            .clone()
    }

    #[test]
    fn only_what_is_beyond_both_intervals_leads() {
        let rate = |median| figures(Better::Higher, median, 5.0);
        let standing = |a, b| compare(&a, &b).unwrap().standing();
        assert_eq!(standing(rate(120.0), rate(100.0)), Standing::Ahead);
        assert_eq!(standing(rate(108.0), rate(100.0)), Standing::Level);
        assert_eq!(standing(rate(100.0), rate(120.0)), Standing::Behind);
        let time = |median| figures(Better::Lower, median, 1.0);
        let comparison = compare(&time(10.0), &time(20.0)).unwrap();
        assert!((comparison.ratio - 2.0).abs() < 1e-9);
        assert_eq!(comparison.standing(), Standing::Ahead);
        let mut single = rate(500.0);
        (single.n, single.ci95) = (1, None);
        assert_eq!(standing(single, rate(100.0)), Standing::Level);
        assert_eq!(compare(&rate(0.0), &rate(1.0)), None);
    }

    #[test]
    fn the_mean_is_geometric() {
        let mean = geometric_mean([0.5, 2.0, f64::NAN, -1.0].into_iter());
        assert!(mean.is_some_and(|it| (it - 1.0).abs() < 1e-12));
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }
}
