//! Traces: what happened when, as Chrome trace-event JSON.
//!
//! Lanes: `queue` (a request from submission to completion), `device` (an operation in flight),
//! `decode` (a job), and counters for staging and bytes in flight. Format: an object with
//! `traceEvents`, an array of events `{"name","ph":"X","ts","dur","pid","tid","args"}` with times
//! in microseconds (`ph` "C" for counters, "M" for track names). A request with several names has
//! them in `args.names` of its event in track `queue`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits;
use crate::sync::{Mutex, lock};

/// A track of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Track {
    Queue = 1,
    Device = 2,
    Decode = 3,
}

/// Something that took time. Times are nanoseconds of the engine's clock.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) track: Track,
    /// The name of the request (see [`title`]), or of its file.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
    /// Number of the request in the order of intake.
    pub(crate) request: u64,
    /// Bytes in use at its end: of staging, and in flight.
    pub(crate) memory: (u64, u64),
}

/// A recorded trace.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    start_ns: u64,
    spans: Vec<Span>,
    lost: u64,
    workers: usize,
}

/// The trace being recorded, if any: written by the engine, started and taken by callers.
#[derive(Default)]
pub(crate) struct Recorder {
    on: AtomicBool,
    trace: Mutex<Trace>,
}

impl Recorder {
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn start(&self, now_ns: u64, workers: usize) {
        *lock(&self.trace) = Trace {
            start_ns: now_ns,
            workers,
            ..Trace::default()
        };
        self.on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Trace {
        self.on.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.trace))
    }

    pub(crate) fn add(&self, span: Span) {
        let mut trace = lock(&self.trace);
        match trace.spans.len() < limits::TRACE_EVENTS_MAX {
            true => trace.spans.push(span),
            false => trace.lost += 1,
        }
    }
}

impl Trace {
    /// Writes the trace as Chrome trace-event JSON.
    ///
    /// # Errors
    /// The writer's error.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let (lost, workers) = (self.lost, self.workers);
        writeln!(
            out,
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"lost\":{lost},\"workers\":{workers}}},"
        )?;
        writeln!(out, "\"traceEvents\":[")?;
        for (tid, name) in [(1, "queue"), (2, "device"), (3, "decode")] {
            writeln!(
                out,
                "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\
                 \"args\":{{\"name\":\"{name}\"}}}},"
            )?;
        }
        for span in &self.spans {
            self.write_span(span, out)?;
        }
        // The memory in use at the completion of each operation.
        let device = |span: &&Span| span.track == Track::Device;
        for span in self.spans.iter().filter(device) {
            let at = microseconds(span.end_ns.saturating_sub(self.start_ns));
            let (staging, in_flight) = span.memory;
            writeln!(
                out,
                "{{\"name\":\"memory\",\"ph\":\"C\",\"ts\":{at},\"pid\":1,\
                 \"args\":{{\"staging\":{staging},\"in_flight\":{in_flight}}}}},"
            )?;
        }
        let name = "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":";
        writeln!(out, "{name}\"millstream\"}}}}\n]}}")
    }

    fn write_span(&self, span: &Span, out: &mut dyn io::Write) -> io::Result<()> {
        let start_ns = span.start_ns.saturating_sub(self.start_ns);
        let end_ns = span.end_ns.saturating_sub(self.start_ns);
        let names = span.name.as_deref().unwrap_or("request");
        let name = escaped(&title(names));
        // A request may end in the round that took it in, whose time is from before its submission.
        let spent_ns = end_ns.saturating_sub(start_ns);
        let (start, duration) = (microseconds(start_ns), microseconds(spent_ns));
        let (tid, bytes, offset) = (span.track as u32, span.bytes, span.offset);
        write!(
            out,
            "{{\"name\":\"{name}\",\"ph\":\"X\",\"ts\":{start},\"dur\":{duration},\"pid\":1,\
             \"tid\":{tid},\"args\":{{\"bytes\":{bytes},\"offset\":{offset},\
             \"request\":{}",
            span.request
        )?;
        if span.track == Track::Queue && names.contains('\0') {
            let listed = names
                .split('\0')
                .map(|name| format!("\"{}\"", escaped(name)));
            write!(out, ",\"names\":[{}]", listed.collect::<Vec<_>>().join(","))?;
        }
        writeln!(out, "}}}},")
    }
}

/// A request's name in one line: of several names separated by NUL, the first and how many follow.
pub(crate) fn title(name: &str) -> Cow<'_, str> {
    match name.split_once('\0') {
        None => Cow::Borrowed(name),
        Some((first, rest)) => {
            let others = rest.split('\0').count();
            Cow::Owned(format!("{first} and {others} more"))
        }
    }
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// `text` escaped for the inside of a JSON string.
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

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    fn span(track: Track, name: &str) -> Span {
        Span {
            track,
            name: Some(name.into()),
            start_ns: 2_001_001,
            end_ns: 2_002_501,
            bytes: 7,
            offset: 9,
            request: 3,
            memory: (5, 6),
        }
    }

    /// The trace of such spans, from 1 µs on.
    fn traced(spans: impl IntoIterator<Item = Span>) -> String {
        let recorder = Recorder::default();
        recorder.start(1_000, 0);
        spans.into_iter().for_each(|span| recorder.add(span));
        let (mut out, trace) = (Vec::new(), recorder.take());
        trace.write_json(&mut out).expect("memory takes it");
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn names_are_escaped_and_times_are_microseconds() {
        let text = traced([span(Track::Device, "a\"b\n\\")]);
        for part in [
            r#""name":"a\"b\u000a\\""#,
            r#""lost":0,"workers":0"#,
            r#""ts":2000.001,"dur":1.500"#,
            r#""args":{"bytes":7,"offset":9,"request":3}"#,
            r#""args":{"staging":5,"in_flight":6}"#,
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(text.trim_end().ends_with("]}"), "{text}");
    }

    #[test]
    fn several_names_are_listed_in_the_track_of_requests() {
        let text = traced([Track::Queue, Track::Device].map(|track| span(track, "a\0b\"\0c")));
        let title = r#""name":"a and 2 more""#;
        assert_eq!(text.matches(title).count(), 2, "{text}");
        let listed = r#","names":["a","b\"","c"]"#;
        assert_eq!(text.matches(listed).count(), 1, "{text}");
    }
}
