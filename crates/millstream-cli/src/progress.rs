//! Progress bars: on standard error, only where that is a terminal, only for what takes longer
//! than a second.
//!
//! The bar that is shown is known to the whole program, so that an interruption or a failure can
//! take it away before it prints its words.

use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::limits::{PROGRESS_AFTER, PROGRESS_EVERY};

static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

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
        let bar = self
            .bar
            .get_or_insert_with(|| show(self.label, self.total_bytes));
        bar.set_position(self.done_bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.bar.is_some() {
            clear();
        }
    }
}

/// Shows a line about what is being done, in place of the last one.
pub(crate) fn say(what: &str) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let bar = shown.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is valid"));
        bar
    });
    bar.set_message(String::from(what));
}

/// Takes the bar away, if one is shown.
pub(crate) fn clear() {
    if let Some(bar) = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        bar.finish_and_clear();
    }
}

fn show(label: &'static str, total_bytes: Option<u64>) -> ProgressBar {
    let template = match total_bytes {
        Some(_) => "{msg} {wide_bar} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left",
        None => "{msg} {bytes}, {binary_bytes_per_sec}, {elapsed}",
    };
    let style = ProgressStyle::with_template(template).expect("the templates above are valid");
    let bar = ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr());
    bar.set_style(style);
    bar.set_message(label);
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    bar
}
