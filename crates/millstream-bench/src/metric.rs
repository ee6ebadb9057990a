//! Metrics: what a figure measures, and how it is computed from a run's time and work.

use millstream_report::rows::Better;

use crate::clock::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metric {
    /// Short name, the same in every case of a workload.
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

/// Units of which more is better, and names for which it is, whatever their unit.
const HIGHER: [&str; 6] = ["MB/s", "MB/cpu-s", "1/s", "raw/stored", "times", "kept"];

impl Metric {
    /// Parses a metric's name and unit from text such as `cpu ms/100MB`. The last word is the unit,
    /// except after ` of `: the unit of `size of raw` is `of raw`.
    pub(crate) fn of(text: &'static str) -> Metric {
        let at = text.find(" of ").or_else(|| text.rfind(' '));
        let (name, unit) = text.split_at(at.expect("a name and a unit"));
        let unit = &unit[1..];
        let higher = HIGHER.iter().any(|it| unit == *it || name.ends_with(it));
        let better = match higher {
            true => Better::Higher,
            false => Better::Lower,
        };
        Metric { name, unit, better }
    }

    /// Computes the figure of a run. Metrics whose name ends with `cpu`, and rates per second of
    /// processor time, use processor time; all others use wall-clock time.
    pub(crate) fn figure(self, span: &Span, bytes: u64, requests: u64) -> f64 {
        let of_cpu = self.name.ends_with("cpu") || self.unit == "MB/cpu-s";
        let seconds = if of_cpu { span.cpu } else { span.wall };
        let megabytes = bytes as f64 / 1e6;
        let (time, per) = self.unit.split_once('/').unwrap_or((self.unit, ""));
        let scale = match time {
            "ns" => 1e9,
            "us" => 1e6,
            _ => 1e3,
        };
        match (time, per) {
            ("MB", _) => megabytes / seconds.max(1e-9),
            ("1", _) => requests as f64 / seconds,
            (_, "") => seconds * scale,
            (_, "100MB") => seconds * scale / megabytes * 100.0,
            _ => seconds * scale / requests as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_made_as_their_units_say() {
        let span = Span {
            wall: 2.0,
            cpu: 0.5,
        };
        for (text, better, figure) in [
            ("rate MB/s", Better::Higher, 100.0),
            ("decode MB/cpu-s", Better::Higher, 400.0),
            ("iops 1/s", Better::Higher, 500.0),
            ("cpu ms/100MB", Better::Lower, 250.0),
            ("cpu us/request", Better::Lower, 500.0),
            ("total ms", Better::Lower, 2000.0),
            ("objects_cpu ns/object", Better::Lower, 500_000.0),
        ] {
            let metric = Metric::of(text);
            assert_eq!(format!("{} {}", metric.name, metric.unit), text);
            let got = metric.figure(&span, 200_000_000, 1000);
            assert_eq!((metric.better, got), (better, figure), "{text}");
        }
        let size = Metric::of("staging-peak of bound");
        assert_eq!((size.name, size.unit), ("staging-peak", "of bound"));
        assert_eq!(Metric::of("bulk-kept x").better, Better::Higher);
    }
}
