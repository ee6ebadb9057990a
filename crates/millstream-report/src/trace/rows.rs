//! Spans of a lane laid out in rows, so that none covers another, and made few enough to draw.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::limits::TIMELINE_PIXELS;
use crate::trace::Span;

/// From times to places on the timeline, in pixels of the deepest zoom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) start_ns: u64,
    pub(super) total_ns: u64,
}

impl Axis {
    /// The place of a time, 0 to [`TIMELINE_PIXELS`].
    pub(super) fn at(&self, time_ns: u64) -> f64 {
        let share = time_ns.saturating_sub(self.start_ns) as f64 / self.total_ns.max(1) as f64;
        share.min(1.0) * TIMELINE_PIXELS as f64
    }
}

/// Puts each span in the first row that is free at its begin; spans must be in the order of their
/// begins. Gives the row of each.
pub(super) fn pack(spans: &[&Span]) -> Vec<usize> {
    // Rows by the end of their last span, and free ones by number: the lowest free one is taken.
    let mut busy: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut count = 0;
    let mut rows = Vec::with_capacity(spans.len());
    for span in spans {
        while let Some(Reverse((end_ns, row))) = busy.peek().copied() {
            if end_ns > span.start_ns {
                break;
            }
            busy.pop();
            free.push(Reverse(row));
        }
        let row = match free.pop() {
            Some(Reverse(row)) => row,
            None => {
                count += 1;
                count - 1
            }
        };
        busy.push(Reverse((span.end_ns, row)));
        rows.push(row);
    }
    rows
}

/// Stretches of time as whole pixels, those that touch put together; they must be in order.
pub(super) fn runs(stretches: impl Iterator<Item = (u64, u64)>, axis: Axis) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (start_ns, end_ns) in stretches {
        let from = (axis.at(start_ns).floor() as usize).min(TIMELINE_PIXELS - 1);
        let to = (axis.at(end_ns).ceil() as usize).clamp(from + 1, TIMELINE_PIXELS);
        match runs.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => runs.push((from, to)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_stretches_become_one() {
        let axis = Axis {
            start_ns: 0,
            total_ns: TIMELINE_PIXELS as u64 * 10,
        };
        let stretches = [(0, 5), (6, 9), (12, 30), (100, 101)];
        assert_eq!(runs(stretches.into_iter(), axis), [(0, 3), (10, 11)]);
        let end = axis.total_ns;
        assert_eq!(
            runs([(end, end)].into_iter(), axis),
            [(TIMELINE_PIXELS - 1, TIMELINE_PIXELS)]
        );
    }
}
