//! Parses a trace into spans.
//!
//! Events are processed one by one as they are read, so that memory holds the spans and not a tree
//! of the text. The names of lanes are in events of kind "M", which may come anywhere; so lanes are
//! resolved at the end.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use crate::error::{Error, Result};
use crate::limits::{
    NAME_CHARS_MAX, TRACE_BYTES_MAX, TRACE_EVENTS_MAX, TRACE_LANES_MAX, TRACE_MICROS_MAX,
};
use crate::markup::shorten;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Requests, from submission to completion.
    Queue,
    /// Operations in flight.
    Device,
    /// Jobs of workers.
    Decode,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) lane: Lane,
    pub(crate) start_ns: u64,
    /// Not before the start.
    pub(crate) end_ns: u64,
    /// Bytes read or decoded.
    pub(crate) bytes: u64,
    /// Cut to [`NAME_CHARS_MAX`].
    pub(crate) name: String,
}

impl Span {
    pub(crate) fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) at_ns: u64,
    pub(crate) staging_bytes: u64,
    pub(crate) in_flight_bytes: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// Spans of the three lanes, in the order of the text.
    pub(crate) spans: Vec<Span>,
    /// In the order of the text.
    pub(crate) counters: Vec<Counter>,
    /// Number of events that the recording had no room for.
    pub(crate) lost: u64,
    /// Number of spans in other lanes.
    pub(crate) ignored: usize,
    /// Number of workers.
    pub(crate) workers: u64,
}

impl Trace {
    pub(crate) fn spans_of(&self, lane: Lane) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(move |span| span.lane == lane)
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "traceEvents")]
    events: Events,
    #[serde(rename = "otherData", default)]
    other: Other,
}

#[derive(Deserialize, Default)]
struct Other {
    #[serde(default)]
    lost: u64,
    workers: Option<u64>,
}

#[derive(Deserialize)]
struct Event {
    name: Option<String>,
    ph: Option<String>,
    ts: Option<f64>,
    dur: Option<f64>,
    tid: Option<i64>,
    #[serde(default)]
    args: Args,
}

#[derive(Deserialize, Default)]
struct Args {
    name: Option<String>,
    bytes: Option<u64>,
    staging: Option<u64>,
    in_flight: Option<u64>,
}

#[derive(Default)]
struct Events {
    /// Spans whose lanes are not resolved yet.
    spans: Vec<Span>,
    /// Lane number (`tid`) of each span.
    tids: Vec<i64>,
    counters: Vec<Counter>,
    lanes: HashMap<i64, String>,
    count: usize,
}

impl Events {
    fn take(&mut self, event: Event) -> std::result::Result<(), String> {
        self.count += 1;
        if self.count > TRACE_EVENTS_MAX {
            return Err(format!("more than {TRACE_EVENTS_MAX} events"));
        }
        match event.ph.as_deref() {
            Some("X") => {
                let start_ns = self.nanoseconds(event.ts, "ts")?;
                let span = Span {
                    lane: Lane::Queue,
                    start_ns,
                    end_ns: start_ns + self.nanoseconds(event.dur, "dur")?,
                    bytes: event.args.bytes.unwrap_or(0),
                    name: shorten(&event.name.unwrap_or_default(), NAME_CHARS_MAX),
                };
                self.spans.push(span);
                self.tids.push(event.tid.unwrap_or(0));
            }
            Some("C") => {
                let at_ns = self.nanoseconds(event.ts, "ts")?;
                let memory = event.args.staging.zip(event.args.in_flight);
                self.counters
                    .extend(memory.map(|(staging_bytes, in_flight_bytes)| Counter {
                        at_ns,
                        staging_bytes,
                        in_flight_bytes,
                    }));
            }
            Some("M") if event.name.as_deref() == Some("thread_name") => {
                if let (Some(tid), Some(name)) = (event.tid, event.args.name) {
                    if self.lanes.len() >= TRACE_LANES_MAX {
                        return Err(format!("more than {TRACE_LANES_MAX} lanes"));
                    }
                    self.lanes.insert(tid, name);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Converts a time of the event just counted, given in microseconds, to nanoseconds.
    fn nanoseconds(&self, micros: Option<f64>, field: &str) -> std::result::Result<u64, String> {
        match micros {
            Some(micros) if (0.0..=TRACE_MICROS_MAX).contains(&micros) => {
                Ok((micros * 1000.0).round() as u64)
            }
            Some(micros) => Err(format!(
                "event {}: `{field}` is {micros:e}, not between 0 and {TRACE_MICROS_MAX:e}",
                self.count
            )),
            None => Err(format!("event {} has no `{field}`", self.count)),
        }
    }
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Events;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of trace events")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut sequence: A,
            ) -> std::result::Result<Events, A::Error> {
                let mut events = Events::default();
                while let Some(event) = sequence.next_element::<Event>()? {
                    events.take(event).map_err(A::Error::custom)?;
                }
                Ok(events)
            }
        }
        deserializer.deserialize_seq(Take)
    }
}

pub(super) fn parse(text: &[u8]) -> Result<Trace> {
    if text.len() as u64 > TRACE_BYTES_MAX {
        let cause = format!(
            "a trace of {} bytes; at most {TRACE_BYTES_MAX} are read",
            text.len()
        );
        return Err(Error::new(cause));
    }
    let document: Document = serde_json::from_slice(text)
        .map_err(|error| Error::json(text, "not a trace of `load --trace`", &error))?;
    let events = document.events;
    let lanes = events.lanes;
    let lane = |tid: i64| match lanes.get(&tid)?.as_str() {
        "queue" => Some(Lane::Queue),
        "device" => Some(Lane::Device),
        "decode" => Some(Lane::Decode),
        _ => None,
    };
    if !lanes.keys().any(|tid| lane(*tid).is_some()) {
        return Err(Error::new(
            "no lanes named queue, device or decode: not a trace of `load --trace`",
        ));
    }
    let mut spans = events.spans;
    let total = spans.len();
    let mut lanes = events.tids.into_iter().map(lane);
    spans.retain_mut(|span| {
        let known = lanes.next().flatten();
        span.lane = known.unwrap_or(span.lane);
        known.is_some()
    });
    Ok(Trace {
        ignored: total - spans.len(),
        spans,
        counters: events.counters,
        lost: document.other.lost,
        workers: document.other.workers.unwrap_or(1).max(1),
    })
}
