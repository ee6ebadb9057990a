//! The time-stamp counter: how often it ticks.
//!
//! # Safety
//! Reading it needs nothing but the machine it is compiled for.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long it is looked at: the clock's own resolution is then a millionth of it.
const LOOK: Duration = Duration::from_millis(50);

/// Ticks in a second; where there is no such counter, nanoseconds.
pub(super) fn per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (clock, begun) = (Instant::now(), now());
        while clock.elapsed() < LOOK {
            std::hint::spin_loop();
        }
        let ticks = now().wrapping_sub(begun);
        match ticks {
            0 => 1e9,
            ticks => ticks as f64 / clock.elapsed().as_secs_f64(),
        }
    })
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "an instruction")]
fn now() -> u64 {
    // SAFETY: every x86-64 machine has the counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_ticks_between_a_hundred_million_and_ten_thousand_million_times_a_second() {
        let rate = super::per_second();
        assert!((1e8..1e10).contains(&rate), "{rate}");
    }
}
