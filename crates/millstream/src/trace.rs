//! Traces: what happened when, as Chrome trace-event JSON.
//!
//! Lanes: `queue` (a request from submission to its end), `device` (an operation in flight),
//! `decode` (a job), and counters for staging and in-flight bytes. Format: an object with
//! `traceEvents`, an array of events `{"name","ph":"X","ts","dur","pid","tid","args"}` with times
//! in microseconds (`ph` "C" for counters, "M" for lane names).

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use crate::limits;

/// A lane of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Requests, from submission to end.
    Queue,
    /// Operations, from issue to completion.
    Device,
    /// Jobs, from start to end.
    Decode,
}

/// What an event is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// Something that took time.
    Span {
        /// Where it is shown.
        lane: Lane,
        /// Nanoseconds.
        duration_ns: u64,
        /// Bytes moved or made.
        bytes: u64,
        /// Offset in its file.
        offset: u64,
        /// Number of the request it belongs to, in the order of submission.
        request: u64,
    },
    /// Counters at a moment.
    Counters {
        /// Staging memory in use.
        staging_bytes: u64,
        /// Bytes in flight.
        in_flight_bytes: u64,
    },
}

/// An event of a trace.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TraceEvent {
    /// Nanoseconds since the trace began.
    pub start_ns: u64,
    /// The file or the request's name.
    pub name: Option<Arc<str>>,
    /// What it is.
    pub kind: EventKind,
}

/// A recorded trace.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Trace {
    /// Events in the order of their ends.
    pub events: Vec<TraceEvent>,
    /// Events that no longer fitted (`limits::TRACE_EVENTS_MAX`).
    pub lost: u64,
    /// Workers of the storage: who reads the trace can tell how many of them had nothing to do.
    pub workers: usize,
}

impl Trace {
    pub(crate) fn push(&mut self, event: TraceEvent) {
        if self.events.len() < limits::TRACE_EVENTS_MAX {
            self.events.push(event);
        } else {
            self.lost += 1;
        }
    }

    /// Writes the trace as Chrome trace-event JSON.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(
            out,
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"lost\":{},\"workers\":{}}},",
            self.lost, self.workers
        )?;
        writeln!(out, "\"traceEvents\":[")?;
        for (tid, name) in [(1, "queue"), (2, "device"), (3, "decode")] {
            writeln!(
                out,
                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\
                 \"args\":{{\"name\":\"{name}\"}}}},"
            )?;
        }
        for event in &self.events {
            write_event(event, out)?;
            writeln!(out, ",")?;
        }
        let name = "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":";
        writeln!(out, "{name}\"millstream\"}}}}\n]}}")
    }
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

fn write_event(event: &TraceEvent, out: &mut dyn io::Write) -> io::Result<()> {
    let start = microseconds(event.start_ns);
    match event.kind {
        EventKind::Span {
            lane,
            duration_ns,
            bytes,
            offset,
            request,
        } => {
            let tid = match lane {
                Lane::Queue => 1,
                Lane::Device => 2,
                Lane::Decode => 3,
            };
            let name = escaped(event.name.as_deref().unwrap_or("request"));
            let duration = microseconds(duration_ns);
            write!(
                out,
                "{{\"name\":\"{name}\",\"ph\":\"X\",\"ts\":{start},\"dur\":{duration},\"pid\":1,\
                 \"tid\":{tid},\"args\":{{\"bytes\":{bytes},\"offset\":{offset},\
                 \"request\":{request}}}}}"
            )
        }
        EventKind::Counters {
            staging_bytes,
            in_flight_bytes,
        } => write!(
            out,
            "{{\"name\":\"memory\",\"ph\":\"C\",\"ts\":{start},\"pid\":1,\
             \"args\":{{\"staging\":{staging_bytes},\"in_flight\":{in_flight_bytes}}}}}"
        ),
    }
}

/// A JSON string's inside.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_times_are_microseconds() {
        let mut trace = Trace::default();
        let kind = EventKind::Span {
            lane: Lane::Device,
            duration_ns: 1500,
            bytes: 7,
            offset: 9,
            request: 3,
        };
        trace.push(TraceEvent {
            start_ns: 2_000_001,
            name: Some("a\"b\n\\".into()),
            kind,
        });
        let mut out = Vec::new();
        trace.write_json(&mut out).expect("writing to memory");
        let text = String::from_utf8(out).expect("JSON is UTF-8");
        assert!(text.contains(r#""name":"a\"b\u000a\\""#), "{text}");
        assert!(text.contains(r#""lost":0,"workers":0"#), "{text}");
        assert!(text.contains(r#""ts":2000.001,"dur":1.500"#), "{text}");
        let args = r#""args":{"bytes":7,"offset":9,"request":3}"#;
        assert!(text.contains(args), "{text}");
        assert!(text.trim_end().ends_with("]}"), "{text}");
    }
}
