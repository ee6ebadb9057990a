//! The progress bar: on standard error if that is a terminal, for work of more than a second.
//!
//! Commands set what they do and count bytes; a dedicated thread draws the bar. The bar is global
//! to the program, so that an interruption or a failure can remove it before printing its message.
//! Output to a terminal would mix with a bar on it, so no bar is shown once standard output is
//! opened and is a terminal.

use std::fmt;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{
    HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::limits::{ESTIMATE_MAX, ESTIMATE_SHARE_MAX, PROGRESS_AFTER, PROGRESS_EVERY};

/// What the terminal shows.
struct Shown {
    /// The current work, its start, and its total bytes if known.
    label: &'static str,
    begun: Option<Instant>,
    total_bytes: Option<u64>,
    template: &'static str,
    bar: Option<ProgressBar>,
    /// Whether no bar may be shown any more.
    silent: bool,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown {
    label: "",
    begun: None,
    total_bytes: None,
    template: "{msg} {elapsed}",
    bar: None,
    silent: false,
});

/// Bytes of the work done so far.
static DONE: AtomicU64 = AtomicU64::new(0);

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the label of the current work, and starts the thread that shows it.
pub(crate) fn watch(label: &'static str) {
    {
        let mut shown = shown();
        shown.label = label;
        shown.begun = Some(Instant::now());
    }
    if !std::io::stderr().is_terminal() {
        return;
    }
    let tick = || {
        std::thread::sleep(PROGRESS_AFTER);
        loop {
            let mut shown = shown();
            if shown.silent {
                return;
            }
            let made = shown.bar.take().unwrap_or_else(|| bar(&shown));
            let bar = shown.bar.insert(made);
            bar.set_position(DONE.load(Ordering::Relaxed));
            bar.tick();
            drop(shown);
            std::thread::sleep(PROGRESS_EVERY);
        }
    };
    // The thread ends with the process. If it cannot start, nothing is shown.
    let _ = std::thread::Builder::new()
        .name(String::from("progress"))
        .spawn(tick);
}

/// Resets the byte count, with the total if it is known.
pub(crate) fn begin(total_bytes: Option<u64>) {
    let mut shown = shown();
    take_away(&mut shown);
    DONE.store(0, Ordering::Relaxed);
    shown.begun = Some(Instant::now());
    shown.total_bytes = total_bytes;
    shown.template = match total_bytes {
        Some(_) => "{msg} {wide_bar} {bytes} of {total_bytes}, {rate}{left}",
        None => "{msg} {bytes}, {rate}, {elapsed}",
    };
}

/// Sets the number of bytes done.
pub(crate) fn reach(bytes: u64) {
    DONE.store(bytes, Ordering::Relaxed);
}

/// Adds `bytes` to the number of bytes done.
pub(crate) fn advance(bytes: u64) {
    DONE.fetch_add(bytes, Ordering::Relaxed);
}

/// Removes the bar and lets no other be shown.
pub(crate) fn silence() {
    let mut shown = shown();
    shown.silent = true;
    take_away(&mut shown);
}

/// Runs `print`, which writes to standard error, with the bar hidden.
pub(crate) fn aside(print: impl FnOnce()) {
    let shown = shown();
    match &shown.bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

fn take_away(shown: &mut Shown) {
    if let Some(bar) = shown.bar.take() {
        bar.finish_and_clear();
    }
}

/// Makes a bar whose rate and remaining time are those of the whole work: the work ran before the
/// bar appeared, and the bar's own estimates would take its progress for a jump.
fn bar(shown: &Shown) -> ProgressBar {
    let style = ProgressStyle::with_template(shown.template).expect("all templates are valid");
    let style = style.with_key("rate", rate).with_key("left", left);
    ProgressBar::with_draw_target(shown.total_bytes, ProgressDrawTarget::stderr())
        .with_style(style)
        .with_message(shown.label)
        .with_elapsed(shown.begun.map_or(Duration::ZERO, |begun| begun.elapsed()))
}

fn rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    let seconds = state.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    let rate = HumanBytes((state.pos() as f64 / seconds) as u64);
    write!(out, "{rate}/s").expect("a template takes every write");
}

fn left(state: &ProgressState, out: &mut dyn fmt::Write) {
    let all = state.len().unwrap_or(0);
    if let Some(left) = time_left(state.pos(), all, state.elapsed()) {
        write!(out, ", {:#} left", HumanDuration(left)).expect("a template takes every write");
    }
}

/// Estimates the time that the rest takes; `None` while too little is done, or for too long a time.
fn time_left(done: u64, all: u64, elapsed: Duration) -> Option<Duration> {
    let share = all.saturating_sub(done) as f64 / done as f64;
    let left = Duration::try_from_secs_f64(elapsed.as_secs_f64() * share).ok()?;
    (share <= ESTIMATE_SHARE_MAX && left <= ESTIMATE_MAX).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_estimated_from_next_to_nothing() {
        let second = Duration::from_secs(1);
        assert_eq!(time_left(0, 100, second), None);
        assert_eq!(time_left(0, 0, second), None);
        assert_eq!(time_left(1, 1 << 30, second), None);
        assert_eq!(time_left(25, 100, second), Some(3 * second));
        assert_eq!(time_left(100, 100, second), Some(Duration::ZERO));
        let month = Duration::from_secs(30 * 24 * 3600);
        assert_eq!(time_left(1, 100, month), None);
    }
}
