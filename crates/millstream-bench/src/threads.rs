//! Threads: a pool that starts together; and processes that keep the machine busy.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use crate::clock::{Moment, Span};
use crate::error::{Context, Error, Result};

/// Runs `work` on `threads` threads, which exist before the clock starts, as a real pool lives
/// longer than one batch; the time from letting them go until the last one is done.
///
/// The clock starts when every thread waits at the start, before any is let go: on a busy machine
/// they may be done before the thread that let them go runs again.
pub(crate) fn timed(threads: usize, work: &(dyn Fn() -> Result<()> + Sync)) -> Result<Span> {
    if threads == 1 {
        let start = Moment::now();
        work()?;
        return Ok(start.elapsed());
    }
    let ready = AtomicUsize::new(0);
    let (go, done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let one_thread = || {
        ready.fetch_add(1, Ordering::SeqCst);
        go.wait();
        // A panic must not keep the others waiting at the end.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.wait();
        result.unwrap_or_else(|_| Err(Error::new("a thread of a pool panicked")))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        while ready.load(Ordering::SeqCst) < threads.len() {
            std::thread::yield_now();
        }
        let start = Moment::now();
        go.wait();
        done.wait();
        let span = start.elapsed();
        threads.into_iter().try_for_each(joined)?;
        Ok(span)
    })
}

/// Has every item worked on by one of `threads` threads, each of which takes the next one as soon
/// as it is free, with a state of its own; the time as [`timed`] takes it.
pub(crate) fn each<T: Send, S>(
    threads: usize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> Result<()> + Sync,
) -> Result<Span> {
    let items = Mutex::new(items.into_iter());
    // A panic elsewhere leaves the iterator in order: it is only advanced.
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    timed(threads, &|| {
        let mut state = state();
        while let Some(item) = next() {
            work(&mut state, item)?;
        }
        Ok(())
    })
}

/// What a thread came to.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let gone = |_| Err(Error::new("a thread of the benchmark panicked"));
    thread.join().unwrap_or_else(gone)
}

/// Threads that make use of every core.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Another process that keeps the machine busy, a script of the shell, until this is dropped.
pub(crate) struct Disturber(Child);

impl Disturber {
    /// Starts `script`, whose `$1` is `word`.
    pub(crate) fn start(script: &str, word: &Path) -> Result<Disturber> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(word);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().what("start a process that disturbs")?;
        Ok(Disturber(child))
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end. What it started goes on to
        // its end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_span_holds_all_of_the_work_and_a_failure_of_one_thread_is_one_of_all() {
        for threads in [1, 3] {
            let count = AtomicUsize::new(0);
            let span = timed(threads, &|| {
                std::thread::sleep(Duration::from_millis(5));
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .unwrap();
            assert_eq!(count.load(Ordering::SeqCst), threads);
            assert!(span.wall >= 0.005);
        }
        assert!(timed(3, &|| Err(Error::new("no"))).is_err());
        let first = AtomicUsize::new(0);
        let result = timed(3, &|| {
            let nth = first.fetch_add(1, Ordering::SeqCst);
            assert!(nth != 0, "the first one panics");
            Ok(())
        });
        assert!(result.is_err());
    }
}
