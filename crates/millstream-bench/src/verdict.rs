//! How a goal stands.

use serde::Deserialize;

use crate::rows::Metric;

use Bound::{AtLeast, AtMost};

/// A bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The figure must be so much or more.
    AtLeast(f64),
    /// The figure must be so much or less.
    AtMost(f64),
}

impl Bound {
    /// The figure at which the verdict changes.
    pub(crate) fn limit(self) -> f64 {
        match self {
            AtLeast(limit) | AtMost(limit) => limit,
        }
    }

    /// Whether a figure is as it should be.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            AtLeast(limit) => value >= limit,
            AtMost(limit) => value <= limit,
        }
    }
}

/// How a goal stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Workload of the rows.
    pub workload: &'static str,
    /// Case of the rows.
    pub case: String,
    /// Our contender.
    pub contender: String,
    /// What is judged: `rate over limit`.
    pub what: String,
    /// The metric judged.
    pub metric: Metric,
    /// The figure.
    pub value: f64,
    /// What it should be.
    pub bound: Bound,
    /// Whether it is.
    pub reached: bool,
    /// Whether the runs spread across the bound, so that the verdict may be chance.
    pub within_noise: bool,
}

impl Verdict {
    /// `reached` or `missed`, with doubt where there is some.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.reached, self.within_noise) {
            (true, false) => "reached",
            (true, true) => "reached, within noise",
            (false, false) => "missed",
            (false, true) => "missed, within noise",
        }
    }

    /// The bound as text.
    #[must_use]
    pub fn bound_text(&self) -> String {
        match self.bound {
            AtLeast(bound) => format!(">= {bound}"),
            AtMost(bound) => format!("<= {bound}"),
        }
    }
}
