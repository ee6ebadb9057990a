//! Where the time of a trace went.
//!
//! One sweep over the starts and ends of all spans, in order of time, tracks how many requests are
//! outstanding, operations in flight and workers decoding. Every stretch between two of them
//! belongs to exactly one part: the device alone, device and workers, all workers without the
//! device, some of them, nothing although requests waited, nothing because there were none.

use crate::markup::{count, figure, percent};
use crate::trace::parse::{Lane, Trace};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneTimes {
    /// Time in which at least one span was active.
    pub(crate) busy_ns: u64,
    /// Sum of the times of all spans.
    pub(crate) sum_ns: u64,
    /// Maximum number of spans active at once.
    pub(crate) most: u64,
}

impl LaneTimes {
    /// Returns the mean number of active spans while there was at least one.
    pub(crate) fn mean_while_busy(&self) -> f64 {
        self.sum_ns as f64 / self.busy_ns.max(1) as f64
    }
}

/// A time in which the device was idle although requests waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Maximum number of workers that decoded in it.
    pub(crate) workers: u64,
}

/// What was active at a moment; as the limit of a load, its main cause of delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The device, but no worker.
    Device,
    Both,
    /// All workers, while the device was idle.
    AllWorkers,
    /// Some of the workers, while the device was idle.
    SomeWorkers,
    /// Nothing, although requests waited.
    Waiting,
    /// Nothing, and no request was outstanding.
    Unasked,
}

/// For each [`Part`], in its order: a name and a class of the style sheet.
pub(crate) const PARTS: [(&str, &str); 6] = [
    ("device alone", "device"),
    ("device and workers", "both"),
    ("all workers, device idle", "worker"),
    ("some workers, device idle", "some"),
    ("nobody, requests waiting", "idle"),
    ("nothing asked", "unasked"),
];

/// Where the time went.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// From the first start to the last end.
    pub total_ns: u64,
    pub(crate) start_ns: u64,
    /// Number of workers; 1 if the trace does not have it.
    pub workers: u64,
    /// Times of the lanes, in the order of [`Lane`].
    pub(crate) lanes: [LaneTimes; 3],
    /// Times of the parts, in the order of [`PARTS`].
    pub(crate) parts_ns: [u64; 6],
    /// All stalls in the order of time.
    pub(crate) stalls: Vec<Stall>,
}

/// Below this share the device counts as never idle.
const IDLE_NONE: f64 = 0.05;

impl Times {
    pub(crate) fn of(&self, lane: Lane) -> &LaneTimes {
        &self.lanes[lane as usize]
    }

    /// Returns a time as a share of the whole.
    pub(crate) fn share(&self, time_ns: u64) -> f64 {
        time_ns as f64 / self.total_ns.max(1) as f64
    }

    /// Returns the time in which nothing was in flight, in nanoseconds.
    #[must_use]
    pub fn device_idle_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.of(Lane::Device).busy_ns)
    }

    /// Returns what delayed the load most.
    pub(crate) fn limit(&self) -> Part {
        if self.share(self.device_idle_ns()) < IDLE_NONE {
            return Part::Device;
        }
        let causes = [
            Part::AllWorkers,
            Part::SomeWorkers,
            Part::Waiting,
            Part::Unasked,
        ];
        let most = causes
            .into_iter()
            .max_by_key(|part| self.parts_ns[*part as usize]);
        most.unwrap_or(Part::Device)
    }

    /// Describes where the time went, in a sentence or two.
    pub(crate) fn words(&self) -> String {
        let idle = percent(self.share(self.device_idle_ns()));
        let device = self.of(Lane::Device);
        let limit = self.limit();
        let share = percent(self.share(self.parts_ns[limit as usize]));
        match limit {
            Part::Device | Part::Both => format!(
                "The device was busy {} of the time, with {} operations in flight: it was the \
                 limit.",
                percent(self.share(device.busy_ns)),
                figure(device.mean_while_busy())
            ),
            Part::AllWorkers => {
                let workers = match self.workers {
                    1 => "one decode worker was".to_owned(),
                    many => format!("{} were", count(many as usize, "decode worker")),
                };
                format!(
                    "Device idle {idle}: {workers} the limit, decoding without a break for {share} \
                     of the time while the device waited."
                )
            }
            Part::SomeWorkers => format!(
                "Device idle {idle}: decoding that was not shared by all was the limit; for \
                 {share} of the time only some of {} had work, and the device waited.",
                count(self.workers as usize, "worker")
            ),
            Part::Waiting => format!(
                "Device idle {idle}: for {share} of the time requests waited and neither the \
                 device nor a worker had any of them: opening files, hand-overs between threads or \
                 gates were the limit."
            ),
            Part::Unasked => format!(
                "Device idle {idle}: for {share} of the time nothing was asked: the caller was \
                 the limit."
            ),
        }
    }
}

/// A start (true) or an end of a span, at a time.
type Edge = (u64, bool, Lane);

pub(super) fn measure(trace: &Trace) -> Times {
    let start_ns = trace.spans.iter().map(|it| it.start_ns).min().unwrap_or(0);
    let end_ns = trace.spans.iter().map(|it| it.end_ns).max().unwrap_or(0);
    let lasting = trace.spans.iter().filter(|it| it.length_ns() > 0);
    let edges = lasting.flat_map(|span| {
        [
            (span.start_ns, true, span.lane),
            (span.end_ns, false, span.lane),
        ]
    });
    let mut edges: Vec<Edge> = edges.collect();
    // Ends before starts: a job that begins as another ends may run on the same worker.
    edges.sort_unstable_by_key(|edge| (edge.0, edge.1));
    let mut times = Times {
        start_ns,
        total_ns: end_ns - start_ns,
        workers: trace.workers,
        ..Times::default()
    };
    sweep(&mut times, &edges);
    times
}

/// Number of active spans of each lane, in the order of [`Lane`].
type Now = [u64; 3];

fn sweep(times: &mut Times, edges: &[Edge]) {
    let mut now = Now::default();
    let mut before_ns = times.start_ns;
    for (at_ns, starts, lane) in edges {
        if *at_ns > before_ns {
            stretch(times, now, at_ns - before_ns);
            if now[Lane::Device as usize] == 0 && now[Lane::Queue as usize] > 0 {
                let workers = now[Lane::Decode as usize];
                match times.stalls.last_mut().filter(|it| it.end_ns == before_ns) {
                    Some(last) => {
                        last.end_ns = *at_ns;
                        last.workers = last.workers.max(workers);
                    }
                    None => times.stalls.push(Stall {
                        start_ns: before_ns,
                        end_ns: *at_ns,
                        workers,
                    }),
                }
            }
            before_ns = *at_ns;
        }
        let count = &mut now[*lane as usize];
        *count = if *starts { *count + 1 } else { *count - 1 };
    }
    debug_assert!(
        times.parts_ns.iter().sum::<u64>() <= times.total_ns
            && times
                .lanes
                .iter()
                .all(|lane| lane.busy_ns <= times.total_ns),
        "the parts make no more than the whole"
    );
}

/// Adds a stretch of time to the lanes and to its part.
fn stretch(times: &mut Times, now: Now, length_ns: u64) {
    for (lane, count) in times.lanes.iter_mut().zip(now) {
        lane.busy_ns += if count > 0 { length_ns } else { 0 };
        lane.sum_ns = lane.sum_ns.saturating_add(length_ns.saturating_mul(count));
        lane.most = lane.most.max(count);
    }
    let [queue, device, decode] = now;
    let part = match (device, decode, queue) {
        (1.., 0, _) => Part::Device,
        (1.., 1.., _) => Part::Both,
        (0, busy, _) if busy > 0 && busy >= times.workers => Part::AllWorkers,
        (0, 1.., _) => Part::SomeWorkers,
        (0, 0, 1..) => Part::Waiting,
        (0, 0, 0) => Part::Unasked,
    };
    times.parts_ns[part as usize] += length_ns;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse::Span;
    use Lane::{Decode, Device, Queue};

    fn trace(spans: &[(Lane, u64, u64)]) -> Trace {
        let span = |(lane, start_ns, end_ns): &(Lane, u64, u64)| Span {
            lane: *lane,
            start_ns: *start_ns,
            end_ns: *end_ns,
            bytes: 0,
            name: String::new(),
        };
        Trace {
            spans: spans.iter().map(span).collect(),
            counters: Vec::new(),
            lost: 0,
            ignored: 0,
            workers: 1,
        }
    }

    #[test]
    fn each_limit_is_recognized() {
        let of = |spans: &[(Lane, u64, u64)], workers| {
            measure(&Trace {
                workers,
                ..trace(spans)
            })
            .limit()
        };
        let limit = |spans: &[(Lane, u64, u64)]| of(spans, 1);
        let decoding = [(Queue, 0, 100), (Device, 0, 40), (Decode, 30, 100)];
        assert_eq!(limit(&[(Queue, 0, 100), (Device, 0, 98)]), Part::Device);
        assert_eq!(limit(&decoding), Part::AllWorkers);
        assert_eq!(of(&decoding, 2), Part::SomeWorkers);
        assert_eq!(limit(&[(Queue, 0, 100), (Device, 60, 100)]), Part::Waiting);
        assert_eq!(
            limit(&[(Queue, 0, 10), (Device, 0, 10), (Queue, 90, 100)]),
            Part::Unasked
        );
    }

    #[test]
    fn jobs_in_a_row_are_one_worker() {
        let times = measure(&trace(&[(Queue, 0, 30), (Decode, 0, 10), (Decode, 10, 20)]));
        assert_eq!((times.workers, times.of(Decode).most), (1, 1));
        assert_eq!(times.parts_ns[Part::AllWorkers as usize], 20);
        let stall = Stall {
            start_ns: 0,
            end_ns: 30,
            workers: 1,
        };
        assert_eq!(times.stalls, [stall]);
    }

    #[test]
    fn the_parts_make_the_whole() {
        let mut random = millstream_testing::random();
        for _ in 0..256 {
            let count = random.usize(..60);
            let spans = (0..count).map(|_| {
                let lane = [Queue, Device, Decode][random.usize(..3)];
                let (start, length) = (random.u64(..1000), random.u64(..100));
                (lane, start, start + length)
            });
            let trace = trace(&spans.collect::<Vec<_>>());
            let times = measure(&trace);
            // Spans of no length at the ends extend the whole and are in no part.
            let lasting = trace.spans.iter().filter(|it| it.length_ns() > 0);
            let last = lasting.map(|it| it.end_ns).max().unwrap_or(times.start_ns);
            let parts = times.parts_ns;
            assert_eq!(parts.iter().sum::<u64>(), last - times.start_ns);
            let busy = parts[Part::Device as usize] + parts[Part::Both as usize];
            assert_eq!(busy, times.of(Device).busy_ns);
            assert!(!times.words().is_empty());
        }
    }
}
