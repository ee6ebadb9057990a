//! Two clocks: the wall and the processor time of the whole process.
//!
//! Processor time counts every thread of the process, among them the kernel's io_uring helpers
//! (`iou-wrk`, which belong to the process), so that nobody hides work in another thread. What the
//! kernel does in interrupts and in block-device threads is in no one's account.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    wall: Instant,
    cpu: Duration,
}

/// Time between two moments, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// By the wall.
    pub wall: f64,
    /// Processor time of the process.
    pub cpu: f64,
}

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Moment {
        // The processor time first: what reading the wall costs then counts for neither.
        let cpu = process_cpu();
        Moment {
            wall: Instant::now(),
            cpu,
        }
    }

    /// From this moment until now.
    #[must_use]
    pub fn elapsed(&self) -> Span {
        let wall = self.wall.elapsed();
        Span {
            wall: wall.as_secs_f64(),
            cpu: process_cpu().saturating_sub(self.cpu).as_secs_f64(),
        }
    }
}

fn process_cpu() -> Duration {
    duration_of(ClockId::ProcessCPUTime)
}

/// Processor time of the calling thread alone.
#[must_use]
pub fn thread_cpu() -> Duration {
    duration_of(ClockId::ThreadCPUTime)
}

fn duration_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Both parts are never negative on these clocks.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_and_sleep_is_not() {
        let start = Moment::now();
        std::thread::sleep(Duration::from_millis(20));
        let asleep = start.elapsed();
        assert!(asleep.wall >= 0.02);
        let before = thread_cpu();
        let mut sum = 0u64;
        for i in 0..2_000_000u64 {
            sum = sum.wrapping_add(std::hint::black_box(i) * 3);
        }
        std::hint::black_box(sum);
        assert!(thread_cpu() > before);
    }
}
