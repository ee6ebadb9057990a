//! A busy machine: threads that spin on every core, beside which wakes and preemptions show.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// Fewest spinning threads.
const HOGS_MIN: usize = 2;

/// Spinning threads, one for each core and at least two, until it is dropped.
pub(crate) struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts them.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start() -> Result<Hogs> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
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
            let hog = hog.map_err(|error| Error::io("start a thread", error))?;
            hogs.threads.push(hog);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use std::time::Duration;

    #[test]
    fn hogs_use_processor_time_until_they_are_dropped() {
        let hogs = Hogs::start().unwrap();
        assert!(hogs.count() >= HOGS_MIN);
        let stop = Arc::clone(&hogs.stop);
        let start = Moment::now();
        std::thread::sleep(Duration::from_millis(50));
        assert!(start.elapsed().cpu > 0.005);
        drop(hogs);
        assert_eq!(Arc::strong_count(&stop), 1);
    }
}
