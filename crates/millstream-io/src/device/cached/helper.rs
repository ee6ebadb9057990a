//! A helper thread: copies as long as there is anything, looks a little longer, and sleeps.

use std::time::{Duration, Instant};

use super::copy;
use super::shared::{Share, Shared};
use crate::device::{Completion, Operation};
use crate::limits::{COPY_HELP_BYTES_MAX, COPY_HELP_OPERATIONS_MAX, COPY_HELP_SPIN_NS};

/// What a helper copies before it hands over what is done.
const SHARE: Share = Share {
    operations: COPY_HELP_OPERATIONS_MAX,
    bytes: COPY_HELP_BYTES_MAX,
};

/// Copies as helper `number`, until the device ends.
pub(super) fn run(shared: &Shared, number: usize) {
    shared.settings.apply(number);
    let mut taken: Vec<Operation> = Vec::with_capacity(SHARE.operations);
    let mut finished: Vec<Completion> = Vec::with_capacity(SHARE.operations);
    while shared.await_call() {
        help(shared, number, &mut taken, &mut finished);
        shared.leave();
    }
}

fn help(
    shared: &Shared,
    number: usize,
    taken: &mut Vec<Operation>,
    finished: &mut Vec<Completion>,
) {
    let spin = Duration::from_nanos(COPY_HELP_SPIN_NS);
    let mut idle_since: Option<Instant> = None;
    loop {
        if shared.waiting() > 0 || !finished.is_empty() {
            shared.exchange(number, SHARE, finished, taken);
        }
        if !taken.is_empty() {
            idle_since = None;
            let fs = shared.fs.as_ref();
            finished.extend(taken.drain(..).map(|taken| copy::execute(fs, &taken)));
        } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= spin {
            return;
        } else {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }
}
