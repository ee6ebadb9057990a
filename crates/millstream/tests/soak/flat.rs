//! What a process holds over time, in windows of equal length.

use std::fmt;
use std::time::Duration;

use millstream_testing::Resources;

const WINDOWS: usize = 10;
/// The first window in which caches and pools are full.
const WARM: usize = 3;
/// What may be more in the end than when it was warm.
const RESIDENT_MORE_BYTES: u64 = 32 << 20;
const DESCRIPTORS_MORE: usize = 16;
/// Latency is the machine's as much as ours: what grows shows in a multiple.
const LATENCY_TIMES: u32 = 4;
const LATENCY_MORE: Duration = Duration::from_millis(20);

/// Buckets of latencies: four for each power of two of nanoseconds, as a list of all would grow.
const BUCKETS: usize = 64 * 4;

struct Window {
    resident_bytes: u64,
    descriptors: usize,
    latencies: [u64; BUCKETS],
}

impl Default for Window {
    fn default() -> Window {
        Window {
            resident_bytes: 0,
            descriptors: 0,
            latencies: [0; BUCKETS],
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Windows([Window; WINDOWS]);

impl Windows {
    /// Adds what there is after a round; `share` of the time is over.
    pub(crate) fn add(&mut self, share: f64, now: &Resources, latencies: &[Duration]) {
        let at = (share * WINDOWS as f64) as usize;
        let window = &mut self.0[at.min(WINDOWS - 1)];
        window.resident_bytes = window.resident_bytes.max(now.resident_bytes);
        window.descriptors = window.descriptors.max(now.descriptors.len());
        for latency in latencies {
            window.latencies[bucket(latency.as_nanos() as u64)] += 1;
        }
    }

    /// Fails the test if the last window has more than the first warm one.
    pub(crate) fn expect_flat(&self) {
        let (warm, last) = (&self.0[WARM], &self.0[WINDOWS - 1]);
        assert!(warm.count() > 0, "a round took too long\n{self}");
        let memory_max = warm.resident_bytes + warm.resident_bytes / 4 + RESIDENT_MORE_BYTES;
        assert!(last.resident_bytes <= memory_max, "memory grows\n{self}");
        let descriptors_max = warm.descriptors + DESCRIPTORS_MORE;
        assert!(last.descriptors <= descriptors_max, "descriptors\n{self}");
        let latency_max = warm.p99() * LATENCY_TIMES + LATENCY_MORE;
        assert!(last.p99() <= latency_max, "latency grows\n{self}");
    }
}

impl Window {
    fn count(&self) -> u64 {
        self.latencies.iter().sum()
    }

    /// What 99 of 100 do not exceed, rounded up to the end of a bucket.
    fn p99(&self) -> Duration {
        let mut left = self.count() * 99 / 100;
        let within = |&(_, &count): &(usize, &u64)| {
            let is_last = count > left;
            left = left.saturating_sub(count);
            is_last
        };
        let found = self.latencies.iter().enumerate().find(within);
        found.map_or(Duration::ZERO, |(index, _)| {
            Duration::from_nanos(end(index))
        })
    }
}

/// The bucket of a number: its highest bit and the two behind it.
fn bucket(nanoseconds: u64) -> usize {
    let number = nanoseconds.max(4);
    let high = number.ilog2() as usize;
    high * 4 + (number >> (high - 2)) as usize % 4
}

/// The first number behind a bucket.
fn end(bucket: usize) -> u64 {
    let high = bucket / 4;
    (bucket as u64 % 4 + 5) << (high - 2)
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, window) in self.0.iter().enumerate() {
            writeln!(
                f,
                "{index}: {} KiB resident, {} descriptors, p99 {:?} of {}",
                window.resident_bytes / 1024,
                window.descriptors,
                window.p99(),
                window.count()
            )?;
        }
        Ok(())
    }
}
