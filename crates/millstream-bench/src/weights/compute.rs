//! What a layer computes: the same number of steps on all cores, as a matrix product does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::error::{Context, Result};
use crate::threads::cores;

struct Shared {
    start: Barrier,
    end: Barrier,
    steps: u64,
    ends: AtomicBool,
}

/// Threads that compute; of none if there is nothing to compute.
pub(super) struct Compute {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Compute {
    /// Starts a thread for each core but one; each layer takes about `us` microseconds on idle
    /// cores.
    pub(super) fn start(us: u64) -> Result<Compute> {
        let threads = if us == 0 { 0 } else { cores() - 1 };
        let shared = Arc::new(Shared {
            start: Barrier::new(threads + 1),
            end: Barrier::new(threads + 1),
            steps: steps_in(us),
            ends: AtomicBool::new(false),
        });
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            let run = move || loop {
                shared.start.wait();
                if shared.ends.load(Ordering::Relaxed) {
                    return;
                }
                burn(shared.steps);
                shared.end.wait();
            };
            std::thread::Builder::new()
                .spawn(run)
                .what("start a thread")
        };
        let threads = (0..threads).map(spawn).collect::<Result<_>>()?;
        Ok(Compute { shared, threads })
    }

    pub(super) fn run(&self) {
        let steps = self.shared.steps;
        if steps == 0 {
            return;
        }
        self.shared.start.wait();
        burn(steps);
        self.shared.end.wait();
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if !self.threads.is_empty() {
            self.shared.start.wait();
        }
        for thread in self.threads.drain(..) {
            // It has nothing that could panic.
            let _ = thread.join();
        }
    }
}

#[inline(never)]
fn burn(steps: u64) {
    let mut x = 88_172_645_463_325_252u64;
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    std::hint::black_box(x);
}

/// Steps that take this long on an idle core: by the fastest of many tries.
fn steps_in(us: u64) -> u64 {
    const STEPS: u64 = 200_000;
    let took = |_| {
        let start = Instant::now();
        burn(STEPS);
        start.elapsed().as_nanos() as u64
    };
    let least = (0..50).map(took).min().unwrap_or(1).max(1);
    us * 1000 * STEPS / least
}
