//! Log messages of the library, passed to a hook of the application on a thread of their own.
//!
//! The engine must neither wait for the application's hook nor be affected by its panic. So lines
//! go into a bounded channel, and one thread, started with the first line, calls the hook. Lines
//! that do not fit are lost, and the thread reports how many; where no thread can be started, all
//! are lost. Without a hook nothing is stored, and no thread is started.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
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

/// Receives log messages, one call at a time, on the log's own thread. A panic of the hook is
/// caught, and loses only that message.
pub type LogHook = Arc<dyn Fn(LogLevel, &str) + Send + Sync>;

/// A handle to the log of one storage. Clones write to the same log. After the last one is dropped
/// the thread delivers what is queued and ends.
#[derive(Clone)]
pub struct Log {
    shared: Option<Arc<Hooked>>,
}

/// State shared by all clones. The thread has `counts` and the receiver, so it can outlive them.
struct Hooked {
    hook: LogHook,
    /// The channel to the thread, made with the first line.
    lines: OnceLock<SyncSender<Line>>,
    counts: Arc<Counts>,
}

type Line = (LogLevel, String);

#[derive(Default)]
struct Counts {
    /// Lines queued, and lines that the hook has returned from.
    queued: AtomicU64,
    delivered: AtomicU64,
    /// Lines lost since the last report.
    lost: AtomicU64,
}

impl Log {
    /// Returns a log that calls `hook`; without one, a log that does nothing.
    #[must_use]
    pub fn new(hook: Option<LogHook>) -> Log {
        let shared = hook.map(|hook| {
            Arc::new(Hooked {
                hook,
                lines: OnceLock::new(),
                counts: Arc::default(),
            })
        });
        Log { shared }
    }

    /// Queues a message. Never waits for the hook.
    pub fn write(&self, level: LogLevel, message: String) {
        let Some(shared) = &self.shared else { return };
        let lines = shared.lines.get_or_init(|| shared.start_thread());
        // Counted before it is sent: `flush` waits for what is queued.
        shared.counts.queued.fetch_add(1, SeqCst);
        if lines.try_send((level, message)).is_err() {
            shared.counts.queued.fetch_sub(1, SeqCst);
            shared.counts.lost.fetch_add(1, SeqCst);
        }
    }

    /// Waits at most `timeout` until every message written before is delivered; returns whether it
    /// is. Called by the hook, it times out: the hook's own message is not delivered yet.
    pub fn flush(&self, timeout: Duration) -> bool {
        let Some(shared) = &self.shared else {
            return true;
        };
        let wanted = shared.counts.queued.load(SeqCst);
        let started = Instant::now();
        while shared.counts.delivered.load(SeqCst) < wanted {
            if started.elapsed() >= timeout {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

debug!(Log, it: enabled = it.shared.is_some());

impl Hooked {
    /// Starts the log's thread; where that fails, the receiver is dropped and lines are lost.
    fn start_thread(&self) -> SyncSender<Line> {
        let (sender, lines) = sync_channel(LOG_LINES_MAX);
        let (hook, counts) = (Arc::clone(&self.hook), Arc::clone(&self.counts));
        let _ = std::thread::Builder::new()
            .name("ms-log".to_owned())
            .spawn(move || deliver(&lines, &hook, &counts));
        sender
    }
}

/// Calls the hook for each line, until the last handle is dropped and nothing is queued.
fn deliver(lines: &Receiver<Line>, hook: &LogHook, counts: &Counts) {
    let call = |level, message: &str| guard(|| hook(level, message));
    while let Ok((level, message)) = lines.recv() {
        let _ = call(level, &message);
        counts.delivered.fetch_add(1, SeqCst);
        let lost = counts.lost.swap(0, SeqCst);
        if lost > 0 {
            let message = format!("{lost} log messages were lost: the log hook is too slow");
            let _ = call(LogLevel::Warning, &message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};
    use std::thread::ThreadId;

    const LONG: Duration = Duration::from_secs(20);

    /// A log whose lines arrive in a channel, from the threads that called the hook.
    fn recorded() -> (Log, mpsc::Receiver<(LogLevel, String, ThreadId)>) {
        let (sender, receiver) = mpsc::channel();
        let hook: LogHook = Arc::new(move |level, message: &str| {
            let _ = sender.send((level, message.to_owned(), std::thread::current().id()));
            assert!(message != "bad", "a panic on purpose");
        });
        (Log::new(Some(hook)), receiver)
    }

    #[test]
    fn lines_arrive_in_order_on_another_thread_whatever_the_hook_does() {
        let (log, lines) = recorded();
        let words = ["0", "1", "bad", "2"];
        for word in words {
            log.clone().write(LogLevel::Info, word.to_owned());
        }
        log.write(LogLevel::Warning, "last".to_owned());
        assert!(log.flush(LONG));
        let got: Vec<_> = lines.try_iter().collect();
        assert_eq!(got.len(), words.len() + 1);
        for (line, word) in got.iter().zip(words) {
            assert_eq!((line.0, line.1.as_str()), (LogLevel::Info, word));
            assert_ne!(line.2, std::thread::current().id());
        }
        let last = got.last().expect("counted above");
        assert_eq!((last.0, last.1.as_str()), (LogLevel::Warning, "last"));
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
        assert!(got[0].starts_with("7 log messages were lost"));
    }

    #[test]
    fn dropping_the_log_delivers_what_is_queued_and_ends_the_thread() {
        let (log, lines) = recorded();
        for number in 0..50 {
            log.write(LogLevel::Info, number.to_string());
        }
        drop(log);
        // The channel closes when the thread drops the hook.
        let got = std::iter::from_fn(|| lines.recv_timeout(LONG).ok()).count();
        assert_eq!(got, 50);
        assert_eq!(lines.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }

    #[test]
    fn the_hook_may_log() {
        let slot: Arc<Mutex<Option<Log>>> = Arc::default();
        let (sender, lines) = mpsc::channel();
        let inner = Arc::clone(&slot);
        let hook: LogHook = Arc::new(move |_, message: &str| {
            let log = inner.lock().unwrap().clone().unwrap();
            if message == "outer" {
                log.write(LogLevel::Info, "inner".to_owned());
                assert!(!log.flush(Duration::ZERO), "would wait for itself");
            }
            let _ = sender.send(message.to_owned());
        });
        let log = Log::new(Some(hook));
        *slot.lock().unwrap() = Some(log.clone());
        log.write(LogLevel::Info, "outer".to_owned());
        for word in ["outer", "inner"] {
            assert_eq!(lines.recv_timeout(LONG).unwrap(), word);
        }
        slot.lock().unwrap().take();
    }

    #[test]
    fn without_a_hook_nothing_happens() {
        let log = Log::new(None);
        log.write(LogLevel::Warning, "not delivered".to_owned());
        assert!(log.flush(Duration::ZERO));
    }
}
