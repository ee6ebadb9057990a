//! The progress bar: on standard error, only where that is a terminal, only for what takes longer
//! than a second.
//!
//! Work says what it does and counts bytes; a thread of its own shows that. The bar is known to the
//! whole program, so that an interruption or a failure can take it away before it prints its words.
//! What is printed to a terminal would mix with a bar on it, so from the first byte to such a
//! standard output on none is shown.

use std::fmt;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{
    HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::limits::{PROGRESS_AFTER, PROGRESS_EVERY};

/// What is on the terminal.
struct Shown {
    /// What is being done, since when, and its bytes in all where that is known.
    label: &'static str,
    begun: Option<Instant>,
    total_bytes: Option<u64>,
    template: &'static str,
    bar: Option<ProgressBar>,
    /// Nothing may be shown any more.
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

/// Bytes of the work that are done.
static DONE: AtomicU64 = AtomicU64::new(0);

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on shows what is being done, and for how long.
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
    // It ends with the process. Without it nothing is shown.
    let _ = std::thread::Builder::new()
        .name(String::from("progress"))
        .spawn(tick);
}

/// Begins to count the bytes of the work, of so many in all, where that is known.
pub(crate) fn begin(total_bytes: Option<u64>) {
    let mut shown = shown();
    take_away(&mut shown);
    DONE.store(0, Ordering::Relaxed);
    shown.begun = Some(Instant::now());
    shown.total_bytes = total_bytes;
    shown.template = match total_bytes {
        Some(_) => "{msg} {wide_bar} {bytes} of {total_bytes}, {rate}, {left} left",
        None => "{msg} {bytes}, {rate}, {elapsed}",
    };
}

/// Counts up to `bytes` in all.
pub(crate) fn reach(bytes: u64) {
    DONE.store(bytes, Ordering::Relaxed);
}

/// Counts `bytes` more.
pub(crate) fn advance(bytes: u64) {
    DONE.fetch_add(bytes, Ordering::Relaxed);
}

/// Takes the bar away, and lets no other be shown.
pub(crate) fn silence() {
    let mut shown = shown();
    shown.silent = true;
    take_away(&mut shown);
}

/// Does something that prints to standard error, with no bar in its way.
pub(crate) fn aside(print: impl FnOnce()) {
    match &shown().bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

fn take_away(shown: &mut Shown) {
    if let Some(bar) = shown.bar.take() {
        bar.finish_and_clear();
    }
}

/// Rates and the time that is left are those of the whole work: it was done for a while before the
/// bar came, which the bar's own estimates would take for a leap.
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
    let (done, all) = (state.pos(), state.len().unwrap_or(0));
    let share = all.saturating_sub(done) as f64 / done.max(1) as f64;
    // Nothing is done yet, or hardly anything: no estimate is right.
    let left = Duration::try_from_secs_f64(state.elapsed().as_secs_f64() * share);
    let left = HumanDuration(left.unwrap_or(Duration::MAX));
    write!(out, "{left:#}").expect("a template takes every write");
}
