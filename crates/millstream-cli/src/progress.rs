//! Progress bars: on standard error, only where that is a terminal, only for what takes longer
//! than a second.
//!
//! The bar that is shown is known to the whole program, so that an interruption or a failure can
//! take it away before it prints its words. Work that counts bytes shows them; while none is shown,
//! a thread of its own shows what is being done and for how long. What is printed to a terminal
//! would mix with a bar on it, so from the first byte to such a standard output on none is shown.

use std::fmt;
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{
    HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::limits::{PROGRESS_AFTER, PROGRESS_EVERY};

/// What is on the terminal.
struct Shown {
    bar: Option<ProgressBar>,
    /// Nothing may be shown any more.
    silent: bool,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown {
    bar: None,
    silent: false,
});

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on shows, while nothing else is shown, what is being done and for how long.
pub(crate) fn watch(what: &'static str) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let begun = Instant::now();
    let tick = move || {
        std::thread::sleep(PROGRESS_AFTER);
        loop {
            let mut shown = shown();
            if shown.silent {
                return;
            }
            match &shown.bar {
                Some(bar) => bar.tick(),
                None => shown.bar = Some(bar(what, None, "{msg} {elapsed}", begun)),
            }
            drop(shown);
            std::thread::sleep(PROGRESS_EVERY);
        }
    };
    // It ends with the process. Without it the bars of the work itself are still shown.
    let _ = std::thread::Builder::new()
        .name(String::from("progress"))
        .spawn(tick);
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

/// Counts bytes, and shows them when it takes long. The bar goes away when this is dropped.
pub(crate) struct Progress {
    label: &'static str,
    /// Bytes to come in all, where that is known.
    total_bytes: Option<u64>,
    done_bytes: u64,
    begun: Instant,
    drawn: Instant,
    bar: Option<ProgressBar>,
    terminal: bool,
}

impl Progress {
    /// Begins to count, shows nothing yet.
    pub(crate) fn new(label: &'static str, total_bytes: Option<u64>) -> Progress {
        let begun = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        Progress {
            label,
            total_bytes,
            done_bytes: 0,
            begun,
            drawn: begun,
            bar: None,
            terminal,
        }
    }

    /// Counts up to `bytes` in all.
    pub(crate) fn reach(&mut self, bytes: u64) {
        self.advance(bytes - self.done_bytes);
    }

    /// Counts `bytes` more.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        if !self.terminal || self.begun.elapsed() < PROGRESS_AFTER {
            return;
        }
        if self.bar.is_some() && self.drawn.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.drawn = Instant::now();
        if self.bar.is_none() {
            self.bar = show(self.label, self.total_bytes, self.begun);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done_bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.bar.is_some() {
            take_away(&mut shown());
        }
    }
}

/// Shows a bar in place of the last one.
fn show(label: &'static str, total_bytes: Option<u64>, begun: Instant) -> Option<ProgressBar> {
    let template = match total_bytes {
        Some(_) => "{msg} {wide_bar} {bytes} of {total_bytes}, {rate}, {left} left",
        None => "{msg} {bytes}, {rate}, {elapsed}",
    };
    let mut shown = shown();
    if shown.silent {
        return None;
    }
    take_away(&mut shown);
    let made = bar(label, total_bytes, template, begun);
    shown.bar = Some(made.clone());
    Some(made)
}

/// Rates and the time that is left are those of the whole work: it was done for a second before
/// the bar came, which the bar's own estimates would take for a leap.
fn bar(
    label: &'static str,
    total_bytes: Option<u64>,
    template: &str,
    begun: Instant,
) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("all templates are valid");
    let style = style.with_key("rate", rate).with_key("left", left);
    ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr())
        .with_style(style)
        .with_message(label)
        .with_elapsed(begun.elapsed())
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
