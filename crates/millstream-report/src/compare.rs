//! How two figures compare, and how far a figure may be trusted.
//!
//! A ratio is of medians, made so that more than 1 is better. Rows carry no single runs, so the
//! interval of a ratio is made of the two intervals of the means, put against each other at their
//! worst: wider than one from pairs of runs would be. Only what leads or trails beyond it is said
//! to. A goal's own verdict is of pairs, and comes from the benchmark.

use crate::limits::{ROUGH_SPREAD, WILD_SPREAD};
use crate::rows::{Better, Figures};

/// How ours stands beside another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Better, beyond the interval.
    Ahead,
    /// Neither.
    Level,
    /// Worse, beyond the interval.
    Behind,
}

impl Standing {
    /// The class of its dots.
    #[must_use]
    pub fn dot(self) -> &'static str {
        match self {
            Standing::Ahead => "good",
            Standing::Level => "level",
            Standing::Behind => "bad",
        }
    }

    /// The class of its text.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Standing::Ahead => "ahead",
            Standing::Level => "",
            Standing::Behind => "behind",
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Standing::Ahead => "ahead",
            Standing::Level => "within the interval",
            Standing::Behind => "behind",
        }
    }
}

/// Ours beside another's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// More than 1 is better.
    pub ratio: f64,
    /// It may be as little as this ...
    pub low: f64,
    /// ... and as much as this.
    pub high: f64,
}

impl Comparison {
    /// How it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if self.low > 1.0 {
            Standing::Ahead
        } else if self.high < 1.0 {
            Standing::Behind
        } else {
            Standing::Level
        }
    }
}

/// Compares figures of the same metric; `None` if the ratio means nothing.
#[must_use]
pub fn compare(ours: &Figures, theirs: &Figures) -> Option<Comparison> {
    let (above, below) = match ours.better {
        Better::Higher => (ours, theirs),
        Better::Lower => (theirs, ours),
    };
    let ratio = above.median / below.median;
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    let ends = above.interval().zip(below.interval());
    let (low, high) = match ends {
        Some(((above_low, above_high), (below_low, below_high))) => {
            let low = above_low.max(0.0) / below_high;
            let high = if below_low > 0.0 {
                above_high / below_low
            } else {
                f64::INFINITY
            };
            (low.min(ratio), high.max(ratio))
        }
        None => (0.0, f64::INFINITY),
    };
    Some(Comparison { ratio, low, high })
}

/// What the spread makes of a figure: words, and whether it means nothing by itself.
#[must_use]
pub fn spread(figures: &Figures) -> Option<(String, bool)> {
    if figures.n < 2 {
        return Some(("one run: the spread is unknown".into(), false));
    }
    let half = figures.ci95?;
    let share = half / figures.mean.abs();
    if !share.is_finite() || share < ROUGH_SPREAD {
        return None;
    }
    let percent = (share * 100.0).round();
    if share < WILD_SPREAD {
        return Some((format!("±{percent} %: rough"), false));
    }
    let words = if share >= 1.0 {
        "spread wider than the figure: it means nothing".into()
    } else {
        format!("±{percent} %: the spread makes it meaningless")
    };
    Some((words, true))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn figures(better: Better, median: f64, ci95: f64) -> Figures {
        Figures {
            metric: "rate".into(),
            unit: "MB/s".into(),
            better,
            n: 3,
            min: median - ci95,
            median,
            mean: median,
            max: median + ci95,
            ci95: Some(ci95),
            params: Default::default(),
        }
    }

    #[test]
    fn only_what_is_beyond_both_intervals_leads() {
        let (rival, close, far) = (
            figures(Better::Higher, 100.0, 5.0),
            figures(Better::Higher, 108.0, 5.0),
            figures(Better::Higher, 120.0, 5.0),
        );
        let standing = |a, b| compare(a, b).unwrap().standing();
        assert_eq!(standing(&far, &rival), Standing::Ahead);
        assert_eq!(standing(&close, &rival), Standing::Level);
        assert_eq!(standing(&rival, &far), Standing::Behind);
        let (quick, slow) = (
            figures(Better::Lower, 10.0, 1.0),
            figures(Better::Lower, 20.0, 1.0),
        );
        let comparison = compare(&quick, &slow).unwrap();
        assert!((comparison.ratio - 2.0).abs() < 1e-9);
        assert_eq!(comparison.standing(), Standing::Ahead);
    }

    #[test]
    fn a_single_run_and_nothing_lead_nowhere() {
        let mut single = figures(Better::Higher, 500.0, 0.0);
        (single.n, single.ci95) = (1, None);
        let rival = figures(Better::Higher, 1.0, 0.1);
        assert_eq!(
            compare(&single, &rival).unwrap().standing(),
            Standing::Level
        );
        assert_eq!(compare(&figures(Better::Higher, 0.0, 0.0), &rival), None);
    }

    #[test]
    fn a_spread_is_told_in_words() {
        assert_eq!(spread(&figures(Better::Higher, 100.0, 5.0)), None);
        let rough = spread(&figures(Better::Higher, 100.0, 15.0)).unwrap();
        assert_eq!(rough, ("±15 %: rough".into(), false));
        assert!(spread(&figures(Better::Higher, 100.0, 40.0)).unwrap().1);
        let wild = spread(&figures(Better::Higher, 100.0, 400.0)).unwrap().0;
        assert!(wild.contains("means nothing"));
    }
}
