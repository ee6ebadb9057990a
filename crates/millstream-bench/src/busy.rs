//! A busy machine: threads that spin on every core, beside which wakes and preemptions show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::{Context, Result};

/// Fewest spinning threads.
const HOGS_MIN: usize = 2;

/// Spinning threads, one for each core and at least two, until it is dropped.
pub(crate) struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts them.
    pub(crate) fn start() -> Result<Hogs> {
        let cores = crate::together::cores();
        let mut hogs = Hogs {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..cores.max(HOGS_MIN) {
            let stop = Arc::clone(&hogs.stop);
            let spin = move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let hog = std::thread::Builder::new().name("hog".into()).spawn(spin);
            hogs.threads.push(hog.what("start a thread")?);
        }
        Ok(hogs)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for hog in self.threads.drain(..) {
            // A loop over a flag does not panic.
            let _ = hog.join();
        }
    }
}
