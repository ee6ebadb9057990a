//! Log messages of the library, handed to a hook of the application on a thread of their own.
//!
//! The engine must not wait for the application's hook, nor be hurt by its panic. So lines go into
//! a bounded queue, and one thread, started with the first line, calls the hook. What does not fit
//! is counted and reported as one line. Without a hook nothing is stored, and no thread is started.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::error::guard;
use crate::limits::LOG_LINES_MAX;

/// Importance of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Something was lost or will be slow.
    Warning,
    /// A decision worth knowing (which backend and why).
    Info,
}

/// Receives log messages, one call at a time, on a thread of the log's own. A panic of it is caught
/// and loses that message alone.
pub type LogHook = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// A handle to the log of one storage. Clones write to the same log. After the last one is dropped
/// the thread delivers what is queued and ends.
#[derive(Clone)]
pub struct Log {
    handle: Option<Arc<Handle>>,
}

/// What all clones share; the thread has only `shared`, so that it can outlive them.
struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    hook: LogHook,
    state: Mutex<State>,
    /// There are lines, or there will never be any again.
    work: Condvar,
    /// Everything is delivered.
    idle: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<(LogLevel, String)>,
    /// Lines that did not fit since the last report.
    lost: u64,
    /// The log's thread, once it has been started.
    thread: Option<ThreadId>,
    /// A thread is in the hook.
    delivering: bool,
    closing: bool,
}

impl Log {
    /// A log that calls `hook`; without one, a log that does nothing.
    #[must_use]
    pub fn new(hook: Option<LogHook>) -> Log {
        let handle = hook.map(|hook| {
            let shared = Shared {
                hook,
                state: Mutex::default(),
                work: Condvar::new(),
                idle: Condvar::new(),
            };
            Arc::new(Handle {
                shared: Arc::new(shared),
            })
        });
        Log { handle }
    }

    /// Queues a message. Never waits for the hook, unless the log's thread cannot be started: then
    /// the hook is called here.
    pub fn write(&self, level: LogLevel, message: String) {
        let Some(handle) = &self.handle else { return };
        let shared = &handle.shared;
        let mut state = shared.state();
        if state.lines.len() < LOG_LINES_MAX {
            state.lines.push_back((level, message));
        } else {
            state.lost += 1;
        }
        if state.thread.is_none() && !shared.start_thread(&mut state) {
            drop(shared.deliver(state));
            return;
        }
        drop(state);
        shared.work.notify_one();
    }

    /// Waits until every message written before has been delivered, at most `timeout`; whether they
    /// were. From within the hook it returns false at once (after `timeout`, if no thread could be
    /// started).
    pub fn flush(&self, timeout: Duration) -> bool {
        let Some(handle) = &self.handle else {
            return true;
        };
        let shared = &handle.shared;
        let mut state = shared.state();
        if state.thread == Some(std::thread::current().id()) {
            return false;
        }
        if state.thread.is_none() {
            state = shared.deliver(state);
        }
        let until = Instant::now().checked_add(timeout);
        while state.has_lines() || state.delivering {
            let left = until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return false;
            }
            let waited = shared.idle.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("enabled", &self.handle.is_some())
            .finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closing = true;
        if state.thread.is_none() {
            state = self.shared.deliver(state);
        }
        drop(state);
        self.shared.work.notify_one();
    }
}

impl State {
    fn has_lines(&self) -> bool {
        !self.lines.is_empty() || self.lost > 0
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the log's thread; whether it runs.
    fn start_thread(self: &Arc<Self>, state: &mut State) -> bool {
        let shared = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name("ms-log".to_owned())
            .spawn(move || shared.run());
        state.thread = started.ok().map(|handle| handle.thread().id());
        state.thread.is_some()
    }

    /// Delivers lines until the last handle is dropped.
    fn run(&self) {
        let mut state = self.state();
        loop {
            if state.has_lines() {
                state = self.deliver(state);
            } else if state.closing {
                return;
            } else {
                let waited = self.work.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Calls the hook for what is queued now. Lines that the hook itself writes wait for the next
    /// time, as does all while another call is under way (only without a thread), so that a hook
    /// that logs cannot recur.
    fn deliver<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.delivering || !state.has_lines() {
            return state;
        }
        state.delivering = true;
        let lines = std::mem::take(&mut state.lines);
        let lost = std::mem::take(&mut state.lost);
        drop(state);
        for (level, message) in lines {
            self.call(level, &message);
        }
        if lost > 0 {
            let message = format!("{lost} log messages were lost: the log hook is too slow");
            self.call(LogLevel::Warning, &message);
        }
        let mut state = self.state();
        state.delivering = false;
        self.idle.notify_all();
        state
    }

    fn call(&self, level: LogLevel, message: &str) {
        let _ = guard(|| (self.hook)(level, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(20);

    /// A log whose lines arrive in a channel, from the threads that called the hook.
    fn recorded() -> (Log, mpsc::Receiver<(LogLevel, String, ThreadId)>) {
        let (sender, receiver) = mpsc::channel();
        let hook: LogHook = Arc::new(move |level, message: &str| {
            let _ = sender.send((level, message.to_owned(), std::thread::current().id()));
        });
        (Log::new(Some(hook)), receiver)
    }

    #[test]
    fn lines_arrive_in_order_on_another_thread() {
        let (log, lines) = recorded();
        for number in 0..100 {
            log.clone().write(LogLevel::Info, number.to_string());
        }
        log.write(LogLevel::Warning, "last".to_owned());
        assert!(log.flush(LONG));
        let got: Vec<_> = lines.try_iter().collect();
        assert_eq!(got.len(), 101);
        for (number, line) in got[..100].iter().enumerate() {
            assert_eq!((line.0, &line.1), (LogLevel::Info, &number.to_string()));
            assert_ne!(line.2, std::thread::current().id());
        }
        assert_eq!(
            (got[100].0, got[100].1.as_str()),
            (LogLevel::Warning, "last")
        );
    }

    #[test]
    fn a_slow_hook_loses_lines_and_says_how_many() {
        let (sender, lines) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let hook: LogHook = Arc::new(move |_, message: &str| {
            let _ = sender.send(message.to_owned());
            let _ = gate.lock().unwrap().recv();
        });
        let log = Log::new(Some(hook));
        log.write(LogLevel::Info, "first".to_owned());
        assert_eq!(lines.recv_timeout(LONG).unwrap(), "first");
        for number in 0..LOG_LINES_MAX + 7 {
            log.write(LogLevel::Info, number.to_string());
        }
        assert!(!log.flush(Duration::from_millis(1)), "the hook is stuck");
        drop(go);
        assert!(log.flush(LONG));
        let got: Vec<String> = lines.try_iter().collect();
        assert_eq!(got.len(), LOG_LINES_MAX + 1);
        assert!(got[LOG_LINES_MAX].starts_with("7 log messages were lost"));
    }

    #[test]
    fn a_panic_of_the_hook_ends_nothing() {
        let (sender, lines) = mpsc::channel();
        let hook: LogHook = Arc::new(move |_, message: &str| {
            let _ = sender.send(message.to_owned());
            assert!(message != "bad", "a panic on purpose");
        });
        let log = Log::new(Some(hook));
        log.write(LogLevel::Info, "bad".to_owned());
        log.write(LogLevel::Info, "good".to_owned());
        assert!(log.flush(LONG));
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), ["bad", "good"]);
    }

    #[test]
    fn dropping_the_log_delivers_what_is_queued_and_ends_the_thread() {
        let (log, lines) = recorded();
        for number in 0..50 {
            log.write(LogLevel::Info, number.to_string());
        }
        drop(log);
        // The channel closes when the thread lets go of the hook.
        let got = std::iter::from_fn(|| lines.recv_timeout(LONG).ok()).count();
        assert_eq!(got, 50);
        assert_eq!(lines.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }

    #[test]
    fn the_hook_may_log_and_flush() {
        let slot: Arc<Mutex<Option<Log>>> = Arc::default();
        let (sender, lines) = mpsc::channel();
        let inner = Arc::clone(&slot);
        let hook: LogHook = Arc::new(move |_, message: &str| {
            let log = inner.lock().unwrap().clone().unwrap();
            if message == "outer" {
                log.write(LogLevel::Info, "inner".to_owned());
                assert!(!log.flush(LONG), "would wait for itself");
            }
            let _ = sender.send(message.to_owned());
        });
        let log = Log::new(Some(hook));
        *slot.lock().unwrap() = Some(log.clone());
        log.write(LogLevel::Info, "outer".to_owned());
        assert!(log.flush(LONG));
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), ["outer", "inner"]);
        slot.lock().unwrap().take();
    }

    #[test]
    fn without_a_thread_the_hook_is_called_here_and_cannot_recur() {
        let (log, lines) = recorded();
        let shared = &log.handle.as_ref().unwrap().shared;
        let mut state = shared.state();
        state.lines.push_back((LogLevel::Info, "here".to_owned()));
        state = shared.deliver(state);
        state.lines.push_back((LogLevel::Info, "later".to_owned()));
        state.delivering = true;
        let mut state = shared.deliver(state);
        assert_eq!(state.lines.len(), 1, "a call is under way");
        state.delivering = false;
        drop(state);
        drop(log);
        let got: Vec<_> = lines.try_iter().collect();
        assert_eq!(got.len(), 2, "the rest is delivered by the drop");
        assert_eq!(got[0].2, std::thread::current().id());
    }

    #[test]
    fn without_a_hook_nothing_happens() {
        let log = Log::new(None);
        log.write(LogLevel::Warning, "not delivered".to_owned());
        assert!(log.flush(Duration::ZERO));
    }
}
