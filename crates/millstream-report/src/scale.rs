//! Scales: values to places on a picture, and the ticks between.

/// A mapping of values onto a stretch of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

/// Ticks that a linear axis aims at.
const TICKS: f64 = 4.0;

impl Scale {
    /// A linear scale from 0 (or `low`, if that is negative) to a round number from `high` on.
    #[must_use]
    pub fn linear(low: f64, high: f64, from: f64, to: f64) -> Scale {
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

    /// A logarithmic scale over positive values, widened to whole ticks. What is not positive is
    /// drawn at its begin.
    #[must_use]
    pub fn log(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let low = if low > 0.0 { finite(low) } else { 1.0 };
        let high = finite(high).max(low);
        let widen = if high / low < 1.05 { 1.1 } else { 1.0 };
        Scale {
            low: low / widen,
            high: high * widen,
            from,
            to,
            log: true,
        }
    }

    /// Whether it is logarithmic.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// The place of a value, within the stretch whatever the value.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            let value = value.max(self.low);
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let share = if share.is_finite() { share } else { 0.0 };
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// Values for ticks: round numbers, four or so.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        if self.log {
            return self.log_ticks();
        }
        let step = round_step(self.high - self.low);
        let count = ((self.high - self.low) / step).round() as usize;
        (0..=count.min(12))
            .map(|index| self.low + step * index as f64)
            .collect()
    }

    /// Powers of ten; with 2 and 5 between them where there are few.
    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let parts: &[f64] = match decades {
            few if few <= 1.0 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            few if few <= 2.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let stride = (decades / 5.0).ceil().max(1.0) as i32;
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let mut ticks = Vec::new();
        for power in (first..=last).filter(|power| power.rem_euclid(stride) == 0) {
            for part in parts {
                let tick = part * 10f64.powi(power);
                if tick >= self.low * 0.999 && tick <= self.high * 1.001 {
                    ticks.push(tick);
                }
            }
        }
        ticks
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
    let lead = raw / power;
    let round = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .find(|round| lead <= *round * 1.0001)
        .unwrap_or(10.0);
    (round * power).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn axes_end_on_round_numbers() {
        let scale = Scale::linear(0.0, 3712.0, 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        assert!((scale.at(2000.0) - 50.0).abs() < 1e-9);
        let scale = Scale::log(4.0, 5000.0, 0.0, 100.0);
        assert_eq!(scale.ticks(), [10.0, 100.0, 1000.0]);
    }

    proptest! {
        #[test]
        fn every_value_lands_within(
            low in any::<f64>(), high in any::<f64>(), value in any::<f64>()
        ) {
            for scale in [
                Scale::linear(low, high, 10.0, 90.0),
                Scale::log(low, high, 10.0, 90.0),
            ] {
                let at = scale.at(value);
                prop_assert!((10.0..=90.0).contains(&at), "{at}");
                prop_assert!(scale.ticks().len() < 64);
            }
        }
    }
}
