//! Aborts a test program in which no test ends for too long, and prints the stacks of all threads.
//!
//! [`watch!`](crate::watch) in a test program starts the watchdog's thread before `main`. Tests
//! need not cooperate: libtest runs each in a thread of its own, while the main thread sleeps until
//! one of them ends. So a test has ended when a thread is gone and the main thread has run. (It
//! also runs once for each test that takes a minute, to warn.)
//!
//! Time is counted in looks, so that a process that was stopped does not count as hung.
#![expect(unsafe_code, reason = "clocks and signals of threads")]

use std::backtrace::Backtrace;
use std::ffi::c_int;
use std::fs;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use rustix::fs::{RawDir, SeekFrom, seek};

use crate::{ALIVE, wait_at_most};

/// Seconds without the end of a test after which the program is aborted.
const SECONDS_MAX: f64 = 120.0;

/// Sets other seconds: for the tests of the watchdog, and programs that a sanitizer slows down.
pub(crate) const VARIABLE: &str = "MILLSTREAM_HANG_SECONDS";

/// Looks at the threads until the program counts as hung.
const LOOKS: u32 = 24;

/// The longest wait for the stack of one thread.
const STACK_WAIT: Duration = Duration::from_secs(5);

/// Threads whose stack does not come; more than these are not waited for.
const STACKS_MISSED_MAX: usize = 4;

fn seconds() -> f64 {
    let set = std::env::var(VARIABLE);
    set.map_or(SECONDS_MAX, |text| text.parse().expect("seconds"))
}

/// Returns the time without the end of a test after which this process counts as hung.
pub(crate) fn limit() -> Duration {
    Duration::from_secs_f64(seconds())
}

/// Starts the watchdog of this process. Called by the loader, on the main thread.
pub extern "C" fn start() {
    let seconds = seconds();
    let mut clock = 0;
    // SAFETY: asks for the clock of this thread, which lives as long as the process.
    let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
    // Opened once: tests look at the descriptors of the process, or leave it none.
    let (Ok(tasks), 0) = (fs::File::open("/proc/self/task"), failed) else {
        return;
    };
    let mut watch = Watch {
        clock,
        tasks,
        threads: Vec::new(),
        before: Vec::new(),
        thread_gone: false,
        progress: (0, 0),
    };
    let look_every = Duration::from_secs_f64(seconds / f64::from(LOOKS));
    let thread = std::thread::Builder::new().name("watchdog".into());
    let started = thread.spawn(move || {
        let mut looks = 0;
        while looks < LOOKS {
            std::thread::sleep(look_every);
            looks = if watch.has_progress() { 0 } else { looks + 1 };
        }
        // What follows takes locks that a thread which hangs may hold.
        // SAFETY: takes a number; the default action of the signal ends the process.
        unsafe { libc::alarm(60) };
        eprintln!("\nno test has ended for {seconds} s; the stacks of all threads:");
        print_stacks(&watch.threads);
        std::process::abort();
    });
    drop(started.expect("a thread"));
}

/// What the watchdog has seen.
struct Watch {
    /// The clock that runs while the main thread does.
    clock: libc::clockid_t,
    tasks: fs::File,
    threads: Vec<i32>,
    /// The threads of the look before: reused, as tests count allocations.
    before: Vec<i32>,
    /// Whether a thread has ended since the last progress.
    thread_gone: bool,
    /// [`ALIVE`], and the time of the main thread.
    progress: (u64, i64),
}

impl Watch {
    fn has_progress(&mut self) -> bool {
        std::mem::swap(&mut self.threads, &mut self.before);
        self.list_threads();
        self.thread_gone |= self.before.iter().any(|id| !self.threads.contains(id));
        let progress = (ALIVE.load(Ordering::Relaxed), self.main_time());
        let has_progress =
            progress.0 != self.progress.0 || (self.thread_gone && progress.1 != self.progress.1);
        if has_progress {
            self.progress = progress;
            self.thread_gone = false;
        }
        has_progress
    }

    fn list_threads(&mut self) {
        self.threads.clear();
        let _ = seek(&self.tasks, SeekFrom::Start(0));
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&self.tasks, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_str();
            let id = name.ok().and_then(|name| name.parse::<i32>().ok());
            self.threads.extend(id);
        }
    }

    /// Nanoseconds that the main thread has run.
    fn main_time(&self) -> i64 {
        let mut time = MaybeUninit::<libc::timespec>::zeroed();
        // SAFETY: writes the time; all zeros are a time, too.
        let time = unsafe {
            libc::clock_gettime(self.clock, time.as_mut_ptr());
            time.assume_init()
        };
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}

/// The stack that a thread captured last, and the thread's id.
static CAPTURED: AtomicPtr<(i32, Backtrace)> = AtomicPtr::new(null_mut());

/// Captures the stack of the thread that it interrupts. It allocates, which a handler of signals
/// must not do: a thread that holds the allocator's lock gives no stack.
extern "C" fn capture(_: c_int) {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let captured = Box::new((thread, Backtrace::force_capture()));
    CAPTURED.store(Box::into_raw(captured), Ordering::Release);
}

/// Prints the stacks of all these threads but the calling one.
fn print_stacks(threads: &[i32]) {
    let handler: extern "C" fn(c_int) = capture;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are an action without flags, and `capture` is a handler.
    unsafe {
        (*action.as_mut_ptr()).sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR2, action.as_ptr(), null_mut());
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let mut missed = 0;
    for &thread in threads.iter().filter(|&&thread| thread != own) {
        let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
        eprintln!("\nthread {thread} {:?}:", name.unwrap_or_default().trim());
        // SAFETY: a signal that has a handler, to a thread of this process or to none.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR2) };
        let mut stack = null_mut();
        let wait = if missed < STACKS_MISSED_MAX {
            STACK_WAIT
        } else {
            Duration::ZERO
        };
        let has_come = sent == 0
            && wait_at_most(wait, || {
                stack = CAPTURED.swap(null_mut(), Ordering::Acquire);
                !stack.is_null()
            });
        if has_come {
            // SAFETY: `capture` made it and left it to this thread.
            let (of, stack) = *unsafe { Box::from_raw(stack) };
            eprintln!(
                "{}{stack}",
                if of == thread {
                    ""
                } else {
                    "(of a thread before)\n"
                }
            );
        } else {
            missed += 1;
            eprintln!(
                "  no stack: it ended, or blocks the signal, or holds a lock that this needs"
            );
        }
    }
}
