//! Statistics. The engine counts in atomics that only it writes, which costs no locked instruction;
//! a snapshot reads them and does not wait. Latencies are in logarithmic buckets with four steps
//! per octave.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::priority::{PRIORITIES, Priority};

/// A number with one writer.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        let now = self.0.load(Ordering::Relaxed);
        self.0.store(now.wrapping_add(count), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! stats {
    (
        counts { $($(#[$doc:meta])* $name:ident,)* }
        values { $($(#[$value_doc:meta])* $value:ident,)* }
    ) => {
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            $(pub(crate) $value: Counter,)*
            pub(crate) latency: [Latency; PRIORITIES],
        }

        /// Counts of a storage since it was made. Each number is exact at some moment during the
        /// call that took the snapshot. Times are nanoseconds.
        #[derive(Debug, Clone, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$value_doc])* pub $value: u64,)*
            latency: [Buckets; PRIORITIES],
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                let mut stats = Stats {
                    $($name: self.$name.get(),)*
                    $($value: self.$value.get(),)*
                    latency: Default::default(),
                };
                for (own, from) in stats.latency.iter_mut().zip(&self.latency) {
                    *own = from.snapshot();
                }
                stats
            }
        }

        impl Stats {
            /// Returns what was counted since `before`, an earlier snapshot of the same storage.
            /// Current values, limits, peaks and longest times stay as they are in `self`.
            #[must_use]
            pub fn since(&self, before: &Stats) -> Stats {
                let mut since = self.clone();
                $(since.$name = since.$name.saturating_sub(before.$name);)*
                for (own, from) in since.latency.iter_mut().zip(&before.latency) {
                    own.subtract(from);
                }
                since
            }
        }
    };
}

stats! {
    counts {
        /// Requests that succeeded.
        done,
        /// Requests that failed.
        failed,
        /// Requests that were canceled.
        canceled,
        /// Requests that the engine has taken in.
        requests,
        /// Requests completed after their deadline.
        deadlines_missed,
        /// Requests whose timeout passed while their memory was in use and could not be abandoned.
        overdue,
        /// Times that requests waited for the engine and nothing was left to release them: no
        /// operation, call or job was in flight. Each is a fault of the engine, logged once for a
        /// storage.
        stalls,
        /// Times that requests waited for staging, and only the application could free what others
        /// had of it: by a fence, or by the end of jobs that a job system, a codec, a sink or a
        /// block source has.
        blocked_by_application,
        /// Windows of staging outside of its memory: the last resort, where the application or a
        /// mount that hangs holds so much of it that another request would find no room.
        windows_outside,
        /// Operations handed to devices.
        operations,
        /// Operations that carried more than one request.
        merged_operations,
        /// Operations that bypassed the page cache.
        direct_operations,
        /// Operations that copied all their bytes from the page cache, without the disk.
        copied_operations,
        /// Operations continued or repeated because they came back short, interrupted or refused.
        retried_operations,
        /// Bytes that devices moved, and opens that read.
        stored_bytes,
        /// Raw bytes that landed.
        raw_bytes,
        /// Time in which nothing was in flight although requests waited.
        device_idle_ns,
        /// Time in which anything was in flight.
        device_busy_ns,
        /// Jobs done, by workers, the engine or the application.
        jobs,
        /// Time that jobs waited for a worker, summed over jobs.
        decode_wait_ns,
        /// Time that decoding took, summed over jobs.
        decode_ns,
        /// Time that workers slept while operations were in flight, summed over workers.
        worker_starved_ns,
        /// Closes that reported an error, each logged. Syncs of handles of the path report it.
        close_errors,
        /// Opens that returned, including failed and repeated ones.
        opens,
        /// Requests whose bytes were in the page cache and were read with the open of their file.
        read_with_open,
        /// Time that opening took, summed over opens.
        open_ns,
    }
    values {
        /// The longest time that an open took.
        open_max_ns,
        /// Descriptors open now.
        descriptors,
        /// Staging memory in use now.
        staging_bytes,
        /// The largest amount of staging memory that was ever in use.
        staging_peak_bytes,
        /// The limit of staging.
        staging_capacity_bytes,
        /// Bytes in flight now.
        in_flight_bytes,
        /// Operations in flight now.
        in_flight,
    }
}

impl Stats {
    /// Returns the time from submission to completion that `quantile` (0 to 1) of the requests of a
    /// priority do not exceed, in nanoseconds, exact to 19 %, rounded up; 0 if there were none.
    #[must_use]
    pub fn latency_ns(&self, priority: Priority, quantile: f64) -> u64 {
        self.latency[priority as usize].quantile_ns(quantile)
    }

    /// Returns the number of completed requests of a priority.
    #[must_use]
    pub fn completed(&self, priority: Priority) -> u64 {
        self.latency[priority as usize].count()
    }
}

/// Shows in one line how requests ended, what was moved, and where the time went.
impl fmt::Display for Stats {
    #[expect(clippy::cast_precision_loss, reason = "rounded to a tenth of a MiB")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        write!(
            f,
            "{} requests done, {} failed, {} canceled; {:.1} MiB stored, {:.1} MiB raw, \
             {} operations; device busy {:.1?}, idle {:.1?}, decoding {:.1?}",
            self.done,
            self.failed,
            self.canceled,
            mib(self.stored_bytes),
            mib(self.raw_bytes),
            self.operations,
            Duration::from_nanos(self.device_busy_ns),
            Duration::from_nanos(self.device_idle_ns),
            Duration::from_nanos(self.decode_ns),
        )
    }
}

/// A histogram with one writer.
pub(crate) struct Latency {
    counts: [Counter; BUCKETS],
    max_ns: Counter,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            counts: std::array::from_fn(|_| Counter::default()),
            max_ns: Counter::default(),
        }
    }
}

impl Latency {
    #[inline]
    pub(crate) fn add(&self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)].add(1);
        self.max_ns.raise(nanoseconds);
    }

    fn snapshot(&self) -> Buckets {
        Buckets {
            counts: self.counts.iter().map(Counter::get).collect(),
            max_ns: self.max_ns.get(),
        }
    }
}

/// Buckets of a histogram: 64 octaves of 4 steps.
const BUCKETS: usize = 256;

/// A snapshot of counts of durations in nanoseconds. Quantiles are exact to 19 % (a quarter
/// octave), rounded up.
#[derive(Debug, Clone, Default)]
struct Buckets {
    counts: Vec<u64>,
    max_ns: u64,
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros() as usize;
    let step = (value >> (octave - 2)) as usize & 3;
    octave * 4 + step
}

/// Largest value of a bucket.
fn upper(index: usize) -> u64 {
    if index < 8 {
        return (index as u64).min(3);
    }
    let (octave, step) = (index / 4, index % 4);
    let width = 1u64 << (octave - 2);
    (1u64 << octave) + (step as u64 * width) + (width - 1)
}

impl Buckets {
    /// Subtracts an earlier snapshot of the same counts; the maximum stays.
    fn subtract(&mut self, before: &Buckets) {
        for (own, from) in self.counts.iter_mut().zip(&before.counts) {
            *own = own.saturating_sub(*from);
        }
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rank among counts that stay far below 2^53"
    )]
    fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_its_bucket_and_buckets_do_not_overlap() {
        for shift in 0..63 {
            for value in [1u64 << shift, (1 << shift) + 1, (1 << shift) * 3 / 2] {
                let index = bucket(value);
                assert!(value <= upper(index), "{value}");
                let apart = index == 0 || upper(index - 1) < value || index <= 8;
                assert!(apart, "{value}");
            }
        }
    }

    #[test]
    fn statistics_are_shown_in_a_line() {
        let counters = Counters::default();
        counters.done.set(3);
        counters.raw_bytes.set(3 << 19);
        counters.decode_ns.set(1_250_000);
        let shown = "3 requests done, 0 failed, 0 canceled; 0.0 MiB stored, 1.5 MiB raw, \
                     0 operations; device busy 0.0ns, idle 0.0ns, decoding 1.2ms";
        assert_eq!(counters.snapshot().to_string(), shown);
    }

    #[test]
    fn quantiles_are_right_to_a_quarter_octave() {
        let mut counts = [0; BUCKETS];
        (1..=1000u64).for_each(|value| counts[bucket(value * 1000)] += 1);
        let buckets = Buckets {
            counts: counts.into(),
            max_ns: 1_000_000,
        };
        let p50 = buckets.quantile_ns(0.5);
        assert!((500_000..=600_000).contains(&p50), "{p50}");
        let p999 = buckets.quantile_ns(0.999);
        assert!((999_000..=1_000_000).contains(&p999), "{p999}");
        assert_eq!(buckets.quantile_ns(1.0), 1_000_000);
        assert_eq!(buckets.quantile_ns(99.9), 1_000_000, "a percentage");
        assert_eq!(Buckets::default().quantile_ns(0.5), 0);
    }
}
