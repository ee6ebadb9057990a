//! Threads that work on a list together, and processes that keep the machine busy.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::clock::{Span, span_of};
use crate::error::{Context, Error, Result};

/// Processes every item on one of `threads` threads, each of which takes the next item as soon as
/// it is free, with a state of its own. Returns the time from releasing the threads until the last
/// one is done. They exist before the clock starts, as a real pool outlives a batch.
pub(crate) fn each<T: Send, S>(
    threads: usize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) -> Result<()> + Sync,
) -> Result<Span> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    let items = Mutex::new(items.into_iter());
    // A panic elsewhere leaves the iterator valid: it is only advanced.
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let one_thread = |_: rayon::BroadcastContext<'_>| -> Result<()> {
        let mut state = state();
        while let Some(item) = next() {
            work(&mut state, item)?;
        }
        Ok(())
    };
    let (results, span) = span_of(|| pool.broadcast(one_thread));
    results.into_iter().collect::<Result<()>>()?;
    Ok(span)
}

pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let gone = |_| Err(Error::new("a thread of the benchmark panicked"));
    thread.join().unwrap_or_else(gone)
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// A shell script in another process that keeps the machine busy until this is dropped. If the
/// benchmark is killed, the kernel kills the process, too.
pub(crate) struct Disturber(Child);

impl Disturber {
    /// Starts `script`, whose `$1` is `word`, with a nice value relative to that of this process.
    #[expect(unsafe_code, reason = "sets up the process between fork and exec")]
    pub(crate) fn start(script: &str, word: &Path, nice: i32) -> Result<Disturber> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(word);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let parent = rustix::process::getpid();
        let set_up = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() != Some(parent) {
                return Err(std::io::ErrorKind::NotFound.into());
            }
            rustix::process::nice(nice)?;
            Ok(())
        };
        // SAFETY: the closure makes system calls only, which is safe between fork and exec.
        unsafe { command.pre_exec(set_up) };
        let child = command.spawn().what("start a process that disturbs")?;
        Ok(Disturber(child))
    }

    pub(crate) fn loops(count: usize, nice: i32) -> Result<Vec<Disturber>> {
        let spin = |_| Disturber::start("while :; do :; done", Path::new(""), nice);
        (0..count).map(spin).collect()
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill. Processes that it started run
        // to their end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_runs_at_its_nice_value_until_it_is_dropped() {
        let all = Disturber::loops(1, 7).unwrap();
        let folder = format!("/proc/{}", all[0].0.id());
        let stat = std::fs::read_to_string(format!("{folder}/stat")).unwrap();
        let (_, after_name) = stat.rsplit_once(')').unwrap();
        let nice = after_name.split_whitespace().nth(16).unwrap();
        let own = rustix::process::nice(0).unwrap();
        assert_eq!(nice.parse::<i32>().unwrap(), (own + 7).min(19));
        drop(all);
        assert!(!Path::new(&folder).exists());
    }
}
