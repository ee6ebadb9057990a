//! Scales: values to places on a picture, and the ticks between.

/// A mapping of values onto a range of places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

/// Ticks that a linear axis aims at.
const TICKS: f64 = 4.0;
/// A logarithmic scale reaches this much beyond its values.
const LOG_MARGIN: f64 = 1.1;

impl Scale {
    /// A linear scale from 0 (or `low`, if that is negative) to a round number, at least `high`.
    pub(crate) fn linear(low: f64, high: f64, (from, to): (f64, f64)) -> Scale {
        let (low, high) = (finite(low).min(0.0), finite(high).max(0.0));
        let step = round_step(high - low);
        Scale {
            low: (low / step).floor() * step,
            high: ((high / step).ceil() * step).max(step),
            from,
            to,
            log: false,
        }
    }

    /// A logarithmic scale over positive values. Other values are drawn at its start.
    pub(crate) fn log(low: f64, high: f64, (from, to): (f64, f64)) -> Scale {
        let low = if low > 0.0 { finite(low) } else { 1.0 };
        Scale {
            low: (low / LOG_MARGIN).max(f64::MIN_POSITIVE),
            high: (finite(high).max(low) * LOG_MARGIN).min(f64::MAX),
            from,
            to,
            log: true,
        }
    }

    /// A scale over values: logarithmic if the greatest is more than `ratio_max` times the least.
    pub(crate) fn over(
        values: impl Iterator<Item = f64>,
        ratio_max: f64,
        places: (f64, f64),
    ) -> Scale {
        let ends = (f64::INFINITY, 0.0f64);
        let (low, high) = values.fold(ends, |(low, high), value| (low.min(value), high.max(value)));
        match low > 0.0 && high / low > ratio_max {
            true => Scale::log(low, high, places),
            false => Scale::linear(low, high, places),
        }
    }

    /// Whether it is logarithmic.
    pub(crate) fn is_log(&self) -> bool {
        self.log
    }

    /// The place of a value, within the range whatever the value.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        let share = if share.is_finite() { share } else { 0.0 };
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// Values for ticks: round numbers, four or so.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.log {
            return self.log_ticks();
        }
        let step = round_step(self.high - self.low);
        let count = ((self.high - self.low) / step).round() as usize;
        let steps = 0..=count.min(12);
        steps.map(|index| self.low + step * index as f64).collect()
    }

    /// Powers of ten, with multiples between them where there are few.
    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let parts: &[f64] = match decades {
            few if few <= 1.0 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            few if few <= 2.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let stride = (decades / 5.0).ceil().max(1.0) as i32;
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        powers
            .filter(|power| power.rem_euclid(stride) == 0)
            .flat_map(|power| parts.iter().map(move |part| part * 10f64.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// 1, 2, 2.5 or 5 times a power of ten, so that about [`TICKS`] of them make `range`.
fn round_step(range: f64) -> f64 {
    if range <= 0.0 || !range.is_finite() {
        return 1.0;
    }
    let raw = range / TICKS;
    let power = 10f64.powf(raw.log10().floor());
    let rounds = [1.0, 2.0, 2.5, 5.0, 10.0];
    let round = rounds.into_iter().find(|it| raw / power <= it * 1.0001);
    (round.unwrap_or(10.0) * power).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn axes_end_on_round_numbers() {
        let scale = Scale::linear(0.0, 3712.0, (0.0, 100.0));
        assert_eq!(scale.ticks(), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        assert!((scale.at(2000.0) - 50.0).abs() < 1e-9);
        let scale = Scale::over([4.0, 5000.0].into_iter(), 10.0, (0.0, 100.0));
        assert_eq!(scale.ticks(), [10.0, 100.0, 1000.0]);
    }

    proptest! {
        #[test]
        fn every_value_lands_within(
            low in any::<f64>(), high in any::<f64>(), value in any::<f64>()
        ) {
            for make in [Scale::linear, Scale::log] {
                let scale = make(low, high, (10.0, 90.0));
                let at = scale.at(value);
                prop_assert!((10.0..=90.0).contains(&at), "{at}");
                prop_assert!(scale.ticks().len() < 64);
            }
        }
    }
}
