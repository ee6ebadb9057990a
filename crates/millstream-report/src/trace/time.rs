//! Where the time of a trace went.
//!
//! One sweep over the begins and ends of all spans, in order of time, keeps how many requests wait,
//! how many operations are in flight and how many workers decode. Every stretch between two of them
//! belongs to exactly one part: the device alone, device and workers, all workers without the
//! device, some of them, nobody though requests waited, nobody because nothing was asked.

use std::collections::BTreeMap;

use crate::limits::TRACE_TABLE_ROWS;
use crate::markup::{count, figure, percent};
use crate::trace::{Lane, Trace};

/// Times of one lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTimes {
    /// Time in which at least one span was under way.
    pub busy_ns: u64,
    /// All spans' times together.
    pub sum_ns: u64,
    /// Spans under way at once, at most.
    pub most: u64,
}

impl LaneTimes {
    /// Spans under way while at least one was.
    #[must_use]
    pub fn mean_while_busy(&self) -> f64 {
        self.sum_ns as f64 / self.busy_ns.max(1) as f64
    }
}

/// A time in which the device had nothing to do though requests waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Begin.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Workers that decoded meanwhile, at most.
    pub workers: u64,
}

/// What held up the load most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The device: it was hardly idle.
    Device,
    /// The workers: all of them decoded while the device waited.
    Decoding,
    /// Decoding that fewer workers than there are could do.
    Sharing,
    /// Nobody worked though requests waited.
    Waiting,
    /// Nothing was asked.
    Asking,
}

/// Where the time went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// From the first begin to the last end.
    pub total_ns: u64,
    /// When the first span begins.
    pub start_ns: u64,
    /// Requests.
    pub queue: LaneTimes,
    /// Operations.
    pub device: LaneTimes,
    /// Jobs.
    pub decode: LaneTimes,
    /// Workers there were; as many as were seen at work at once, if the trace does not tell.
    pub workers: u64,
    /// The device alone.
    pub device_alone_ns: u64,
    /// Device and workers.
    pub both_ns: u64,
    /// All workers, the device idle.
    pub all_workers_ns: u64,
    /// Some workers, the device idle.
    pub some_workers_ns: u64,
    /// Nobody, though requests waited.
    pub waiting_ns: u64,
    /// Nobody, and nothing was asked.
    pub unasked_ns: u64,
    /// The longest stalls, the longest first.
    pub stalls: Vec<Stall>,
    /// Stalls in the order of time, for the timeline.
    pub(super) idle: Vec<(u64, u64)>,
}

/// A share of idleness of the device that is taken for none.
const IDLE_NONE: f64 = 0.05;
/// The part of all decoding that is a moment.
const MOMENT: u64 = 1000;

impl Times {
    /// A time as a share of the whole.
    #[must_use]
    pub fn share(&self, time_ns: u64) -> f64 {
        time_ns as f64 / self.total_ns.max(1) as f64
    }

    /// Time in which nothing was in flight.
    #[must_use]
    pub fn device_idle_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.device.busy_ns)
    }

    /// What held up the load most.
    #[must_use]
    pub fn limit(&self) -> Limit {
        if self.share(self.device_idle_ns()) < IDLE_NONE {
            return Limit::Device;
        }
        let causes = [
            (self.all_workers_ns, Limit::Decoding),
            (self.some_workers_ns, Limit::Sharing),
            (self.waiting_ns, Limit::Waiting),
            (self.unasked_ns, Limit::Asking),
        ];
        let most = causes.into_iter().max_by_key(|(time_ns, _)| *time_ns);
        most.map_or(Limit::Device, |(_, limit)| limit)
    }

    /// The parts of the whole: a name, a class of the style sheet, the time.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, &'static str, u64); 6] {
        [
            ("device alone", "device", self.device_alone_ns),
            ("device and workers", "both", self.both_ns),
            ("all workers, device idle", "worker", self.all_workers_ns),
            ("some workers, device idle", "some", self.some_workers_ns),
            ("nobody, requests waiting", "idle", self.waiting_ns),
            ("nothing asked", "unasked", self.unasked_ns),
        ]
    }

    /// Where the time went, in a sentence or two.
    #[must_use]
    pub fn words(&self) -> String {
        let idle = percent(self.share(self.device_idle_ns()));
        let depth = figure(self.device.mean_while_busy());
        let of_it = |time_ns| percent(self.share(time_ns));
        match self.limit() {
            Limit::Device => format!(
                "The device was busy {} of the time, with {depth} operations in flight: it was \
                 the limit.",
                percent(self.share(self.device.busy_ns))
            ),
            Limit::Decoding => {
                let workers = match self.workers {
                    1 => "one decode worker was".to_owned(),
                    many => format!("{} were", count(many as usize, "decode worker")),
                };
                format!(
                    "Device idle {idle}: {workers} the limit, decoding without a break for {} of \
                     the time while the device waited.",
                    of_it(self.all_workers_ns)
                )
            }
            Limit::Sharing => format!(
                "Device idle {idle}: decoding that was not shared by all was the limit; for {} of \
                 the time only some of {} had work, and the device waited.",
                of_it(self.some_workers_ns),
                count(self.workers as usize, "worker")
            ),
            Limit::Waiting => format!(
                "Device idle {idle}: for {} of the time requests waited and neither the device nor \
                 a worker had any of them: opening files, hand-overs between threads or gates were \
                 the limit.",
                of_it(self.waiting_ns)
            ),
            Limit::Asking => format!(
                "Device idle {idle}: for {} of the time nothing was asked: the caller was the \
                 limit.",
                of_it(self.unasked_ns)
            ),
        }
    }
}

/// A begin (+1) or an end (-1) of a span.
type Edge = (u64, bool, Lane);

/// Measures a trace.
pub(super) fn measure(trace: &Trace) -> Times {
    let mut times = Times {
        start_ns: trace.spans.iter().map(|it| it.start_ns).min().unwrap_or(0),
        ..Times::default()
    };
    let end_ns = trace.spans.iter().map(|it| it.end_ns).max().unwrap_or(0);
    times.total_ns = end_ns - times.start_ns.min(end_ns);
    let mut edges: Vec<Edge> = Vec::with_capacity(trace.spans.len() * 2);
    for span in trace.spans.iter().filter(|it| it.end_ns > it.start_ns) {
        edges.push((span.start_ns, true, span.lane));
        edges.push((span.end_ns, false, span.lane));
    }
    // Ends before begins: jobs that follow each other at once are one worker's.
    edges.sort_unstable_by_key(|edge| (edge.0, edge.1));
    times.workers = trace.workers.unwrap_or(0).max(workers_seen(&edges));
    sweep(&mut times, &edges);
    times
        .stalls
        .sort_by_key(|stall| std::cmp::Reverse(stall.end_ns - stall.start_ns));
    times.stalls.truncate(TRACE_TABLE_ROWS);
    times
}

/// Workers seen at work at once for more than a moment: begins and ends are rounded, so that a job
/// may seem to begin just before the one ahead of it ended.
fn workers_seen(edges: &[Edge]) -> u64 {
    let mut time_ns: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut now, mut before_ns) = (0u64, 0);
    for (at_ns, begins, _) in edges.iter().filter(|edge| edge.2 == Lane::Decode) {
        if now > 0 {
            *time_ns.entry(now).or_default() += at_ns - before_ns;
        }
        before_ns = *at_ns;
        now = if *begins { now + 1 } else { now - 1 };
    }
    let busy_ns: u64 = time_ns.values().sum();
    let mut with_so_many_ns = 0;
    for (count, length_ns) in time_ns.iter().rev() {
        with_so_many_ns += length_ns;
        if with_so_many_ns > 0 && with_so_many_ns >= busy_ns / MOMENT {
            return *count;
        }
    }
    0
}

/// How many spans are under way.
#[derive(Clone, Copy, Default)]
struct Now {
    queue: u64,
    device: u64,
    decode: u64,
}

fn sweep(times: &mut Times, edges: &[Edge]) {
    let mut now = Now::default();
    let mut before_ns = times.start_ns;
    let mut stall: Option<Stall> = None;
    for (at_ns, begins, lane) in edges {
        if *at_ns > before_ns {
            stretch(times, now, at_ns - before_ns);
            note_stall(times, &mut stall, now, (before_ns, *at_ns));
            before_ns = *at_ns;
        }
        let count = match lane {
            Lane::Queue => &mut now.queue,
            Lane::Device => &mut now.device,
            Lane::Decode => &mut now.decode,
        };
        *count = if *begins { *count + 1 } else { *count - 1 };
    }
    end_stall(times, &mut stall);
}

fn stretch(times: &mut Times, now: Now, length_ns: u64) {
    let lanes = [
        (&mut times.queue, now.queue),
        (&mut times.device, now.device),
        (&mut times.decode, now.decode),
    ];
    for (lane, count) in lanes {
        lane.busy_ns += if count > 0 { length_ns } else { 0 };
        lane.sum_ns = lane.sum_ns.saturating_add(length_ns.saturating_mul(count));
        lane.most = lane.most.max(count);
    }
    let part = match (now.device, now.decode, now.queue) {
        (1.., 0, _) => &mut times.device_alone_ns,
        (1.., 1.., _) => &mut times.both_ns,
        (0, busy, _) if busy > 0 && busy >= times.workers => &mut times.all_workers_ns,
        (0, 1.., _) => &mut times.some_workers_ns,
        (0, 0, 1..) => &mut times.waiting_ns,
        (0, 0, 0) => &mut times.unasked_ns,
    };
    *part += length_ns;
}

fn note_stall(times: &mut Times, stall: &mut Option<Stall>, now: Now, (start, end): (u64, u64)) {
    if now.device > 0 || now.queue == 0 {
        end_stall(times, stall);
        return;
    }
    let running = stall.get_or_insert(Stall {
        start_ns: start,
        end_ns: end,
        workers: 0,
    });
    running.end_ns = end;
    running.workers = running.workers.max(now.decode);
}

fn end_stall(times: &mut Times, stall: &mut Option<Stall>) {
    if let Some(ended) = stall.take() {
        times.idle.push((ended.start_ns, ended.end_ns));
        times.stalls.push(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Span;
    use proptest::prelude::*;

    fn trace(spans: &[(Lane, u64, u64)]) -> Trace {
        let lines: Vec<String> = spans
            .iter()
            .map(|(lane, start, end)| {
                let tid = match lane {
                    Lane::Queue => 1,
                    Lane::Device => 2,
                    Lane::Decode => 3,
                };
                format!(
                    "{{\"ph\":\"X\",\"tid\":{tid},\"ts\":{start},\"dur\":{}}},",
                    end - start
                )
            })
            .collect();
        let names: Vec<String> = [(1, "queue"), (2, "device"), (3, "decode")]
            .iter()
            .map(|(tid, name)| {
                format!(
                    "{{\"name\":\"thread_name\",\"ph\":\"M\",\"tid\":{tid},\
                     \"args\":{{\"name\":\"{name}\"}}}}"
                )
            })
            .collect();
        let text = format!(
            "{{\"traceEvents\":[{}{}]}}",
            lines.concat(),
            names.join(",")
        );
        crate::trace::parse::parse(text.as_bytes()).unwrap()
    }

    use Lane::{Decode, Device, Queue};

    #[test]
    fn each_limit_is_recognised() {
        let limit = |spans: &[(Lane, u64, u64)]| measure(&trace(spans)).limit();
        assert_eq!(limit(&[(Queue, 0, 100), (Device, 0, 98)]), Limit::Device);
        assert_eq!(
            limit(&[(Queue, 0, 100), (Device, 0, 40), (Decode, 30, 100)]),
            Limit::Decoding
        );
        assert_eq!(
            limit(&[
                (Queue, 0, 100),
                (Device, 0, 40),
                (Decode, 30, 100),
                (Decode, 30, 40)
            ]),
            Limit::Sharing
        );
        assert_eq!(limit(&[(Queue, 0, 100), (Device, 60, 100)]), Limit::Waiting);
        assert_eq!(
            limit(&[(Queue, 0, 10), (Device, 0, 10), (Queue, 90, 100)]),
            Limit::Asking
        );
    }

    #[test]
    fn jobs_in_a_row_are_one_worker() {
        let times = measure(&trace(&[(Queue, 0, 30), (Decode, 0, 10), (Decode, 10, 20)]));
        assert_eq!((times.workers, times.decode.most), (1, 1));
        assert_eq!(times.all_workers_ns, 20_000);
        assert_eq!(times.stalls.len(), 1);
    }

    #[test]
    fn jobs_that_overlap_for_a_moment_are_one_worker() {
        let jobs: Vec<(Lane, u64, u64)> = (0..10)
            .map(|index| (Decode, index * 10_000, (index + 1) * 10_000 + 1))
            .collect();
        assert_eq!(measure(&trace(&jobs)).workers, 1);
    }

    proptest! {
        #[test]
        fn the_parts_make_the_whole(
            spans in prop::collection::vec((0u8..3, 0u64..1000, 0u64..100), 0..60)
        ) {
            let spans: Vec<(Lane, u64, u64)> = spans
                .into_iter()
                .map(|(lane, start, length)| {
                    ([Queue, Device, Decode][usize::from(lane)], start, start + length)
                })
                .collect();
            let trace = trace(&spans);
            let times = measure(&trace);
            let parts: u64 = times.parts().iter().map(|part| part.2).sum();
            let lasts = |it: &&Span| it.end_ns > it.start_ns;
            let lasting: Vec<&Span> = trace.spans.iter().filter(lasts).collect();
            // Spans of no length at the ends stretch the whole and are in no part.
            let last = lasting.iter().map(|it| it.end_ns).max().unwrap_or(times.start_ns);
            prop_assert_eq!(parts, last - times.start_ns);
            let busy = times.device_alone_ns + times.both_ns;
            prop_assert_eq!(busy, times.device.busy_ns);
            prop_assert!(!times.words().is_empty());
        }
    }
}
