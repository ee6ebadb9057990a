//! Compares two figures, and judges how far a figure may be trusted.
//!
//! A ratio is of medians, oriented so that more than 1 is better. Rows carry no individual runs, so
//! the interval of a ratio combines the worst ends of the two intervals of the means: wider than
//! one from pairs of runs would be. Only a ratio whose interval excludes 1 is called ahead or
//! behind. The verdict of a goal is from pairs of runs, and is the benchmark's.

use crate::limits::{ROUGH_SPREAD, WILD_SPREAD};
use crate::page::Cell;
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
    /// Returns the word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Standing::Ahead => "ahead",
            Standing::Level => "within the interval",
            Standing::Behind => "behind",
        }
    }

    /// Returns the CSS class of its text and dots.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Standing::Level => "level",
            other => other.word(),
        }
    }
}

/// The ratio of our figure to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    /// The ratio of medians; more than 1 is better.
    pub(crate) ratio: f64,
    /// Lower end of the ratio's interval.
    pub(crate) low: f64,
    /// Upper end of the ratio's interval.
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

/// Describes the spread of a figure; empty if it is small.
pub(crate) fn spread(figures: &Figures) -> Cell {
    if figures.n < 2 {
        return "one run: the spread is unknown".into();
    }
    let share = figures.ci95.map_or(0.0, |half| half / figures.mean.abs());
    let percent = (share * 100.0).round();
    match share {
        small if !small.is_finite() || small < ROUGH_SPREAD => Cell::default(),
        rough if rough < WILD_SPREAD => format!("±{percent} %: rough").into(),
        wild if wild < 1.0 => Cell::of(
            format!("±{percent} %: the spread makes it meaningless"),
            "doubt",
        ),
        _ => Cell::of("spread wider than the figure: it means nothing", "doubt"),
    }
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
    fn a_spread_is_described_in_words() {
        let words = |ci95| format!("{:?}", spread(&figures(Better::Higher, 100.0, ci95)));
        assert!(words(5.0).contains("text: \"\""));
        assert!(words(15.0).contains("±15 %: rough"));
        assert!(words(40.0).contains("meaningless") && words(40.0).contains("doubt"));
        assert!(words(400.0).contains("means nothing"));
    }
}
