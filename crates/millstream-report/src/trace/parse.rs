//! The trace's text into spans.
//!
//! Events are taken one by one as they are read, so that memory is the spans' and not the text's
//! tree. What a lane is called stands in events of kind "M", which may come anywhere; so lanes are
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

/// A lane of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Requests, from submission to end.
    Queue,
    /// Operations in flight.
    Device,
    /// Jobs of workers.
    Decode,
}

/// Something that took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it is shown.
    pub lane: Lane,
    /// Begin.
    pub start_ns: u64,
    /// End, not before the begin.
    pub end_ns: u64,
    /// Bytes moved or made.
    pub bytes: u64,
    name: u32,
}

/// Memory at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// When.
    pub at_ns: u64,
    /// Staging memory in use.
    pub staging_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
}

/// A trace.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Spans of the three lanes, in the order of the text.
    pub spans: Vec<Span>,
    /// Counters, in the order of the text.
    pub counters: Vec<Counter>,
    /// Events that the recording had no room for.
    pub lost: u64,
    /// Events of other lanes.
    pub ignored: u64,
    /// Workers that there were, if the trace tells.
    pub workers: Option<u64>,
    names: Vec<String>,
}

impl Trace {
    /// The spans of a lane.
    pub fn spans_of(&self, lane: Lane) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(move |span| span.lane == lane)
    }

    /// The name of a span.
    #[must_use]
    pub fn name(&self, span: &Span) -> &str {
        &self.names[span.name as usize]
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

/// A span whose lane is not known yet.
struct Raw {
    tid: i64,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    name: u32,
}

#[derive(Default)]
struct Events {
    raw: Vec<Raw>,
    counters: Vec<Counter>,
    lanes: HashMap<i64, String>,
    names: Vec<String>,
    known: HashMap<String, u32>,
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
                let duration_ns = self.nanoseconds(event.dur, "dur")?;
                let tid = event.tid.unwrap_or(0);
                let name = self.intern(event.name.unwrap_or_default());
                self.raw.push(Raw {
                    tid,
                    start_ns,
                    end_ns: start_ns + duration_ns,
                    bytes: event.args.bytes.unwrap_or(0),
                    name,
                });
            }
            Some("C") => {
                let at_ns = self.nanoseconds(event.ts, "ts")?;
                if let Some((staging_bytes, in_flight_bytes)) =
                    event.args.staging.zip(event.args.in_flight)
                {
                    self.counters.push(Counter {
                        at_ns,
                        staging_bytes,
                        in_flight_bytes,
                    });
                }
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

    /// A time of the event just counted, which is given in microseconds.
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

    fn intern(&mut self, name: String) -> u32 {
        let name = match shorten(&name, NAME_CHARS_MAX) {
            std::borrow::Cow::Borrowed(_) => name,
            std::borrow::Cow::Owned(short) => short,
        };
        if let Some(known) = self.known.get(&name) {
            return *known;
        }
        let index = u32::try_from(self.names.len()).expect("fewer names than events");
        self.names.push(name.clone());
        self.known.insert(name, index);
        index
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

/// Reads a trace.
pub(super) fn parse(text: &[u8]) -> Result<Trace> {
    if text.len() as u64 > TRACE_BYTES_MAX {
        return Err(Error::new(format!(
            "a trace of {} bytes; at most {TRACE_BYTES_MAX} are read",
            text.len()
        )));
    }
    let document: Document = serde_json::from_slice(text)
        .map_err(|error| Error::json(text, "no trace as `load --trace` writes it", &error))?;
    let events = document.events;
    let lane = |tid: i64| match events.lanes.get(&tid)?.as_str() {
        "queue" => Some(Lane::Queue),
        "device" => Some(Lane::Device),
        "decode" => Some(Lane::Decode),
        _ => None,
    };
    if !events.lanes.keys().any(|tid| lane(*tid).is_some()) {
        return Err(Error::new(
            "no lanes named queue, device or decode: no trace as `load --trace` writes it",
        ));
    }
    let total = events.raw.len();
    let spans: Vec<Span> = events
        .raw
        .iter()
        .filter_map(|raw| {
            Some(Span {
                lane: lane(raw.tid)?,
                start_ns: raw.start_ns,
                end_ns: raw.end_ns,
                bytes: raw.bytes,
                name: raw.name,
            })
        })
        .collect();
    Ok(Trace {
        ignored: (total - spans.len()) as u64,
        spans,
        counters: events.counters,
        lost: document.other.lost,
        workers: document.other.workers.filter(|workers| *workers > 0),
        names: events.names,
    })
}
