//! Two clocks: wall-clock time, and the processor time of the whole process.
//!
//! Processor time covers every thread of the process, including the kernel's io_uring workers
//! (`iou-wrk`, which belong to the process), so that work in another thread is counted, too. What
//! the kernel does in interrupts and in block-device threads is not counted.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    wall: Instant,
    cpu: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) wall: f64,
    /// Processor time of the process.
    pub(crate) cpu: f64,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        // Processor time first, so that reading the wall clock does not count as processor time.
        let cpu = process_cpu();
        Moment {
            wall: Instant::now(),
            cpu,
        }
    }

    pub(crate) fn elapsed(&self) -> Span {
        let wall = self.wall.elapsed();
        Span {
            wall: wall.as_secs_f64(),
            cpu: process_cpu().saturating_sub(self.cpu).as_secs_f64(),
        }
    }
}

pub(crate) fn span_of<T>(work: impl FnOnce() -> T) -> (T, Span) {
    let start = Moment::now();
    let done = work();
    (done, start.elapsed())
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Both parts are never negative on this clock.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}
