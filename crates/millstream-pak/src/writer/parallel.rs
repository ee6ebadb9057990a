//! Runs work on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use super::PackOptions;

/// Runs `work` for `0..count` on several threads, including the calling one, and returns the
/// results in order. If the system refuses a thread, fewer are used. For cooks and the packer.
///
/// ```
/// let squares = millstream_pak::in_parallel(4, 2, |n| Ok::<_, ()>(n * n));
/// assert_eq!(squares, Ok(vec![0, 1, 4, 9]));
/// ```
///
/// # Errors
/// Of the errors that `work` returned before all threads stopped, that of the lowest number.
///
/// # Panics
/// If `work` does.
pub fn in_parallel<T: Send, E: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    // Errors are kept apart: they are much larger than most results, and at most one is kept.
    let all: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let results = Mutex::new((all, None::<(usize, E)>));
    let run = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                return;
            }
            let result = work(nth);
            let mut results = results.lock().expect("no thread panics with it");
            match result {
                Ok(result) => results.0[nth] = Some(result),
                Err(error) => {
                    next.store(count, Ordering::Relaxed);
                    if results.1.as_ref().is_none_or(|(first, _)| nth < *first) {
                        results.1 = Some((nth, error));
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            if Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    let (all, error) = results.into_inner().expect("no thread panicked with it");
    match error {
        Some((_, error)) => Err(error),
        None => Ok(all.into_iter().flatten().collect()),
    }
}

pub(super) fn thread_count(options: &PackOptions<'_>) -> usize {
    if options.threads > 0 {
        return options.threads.min(1024);
    }
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
