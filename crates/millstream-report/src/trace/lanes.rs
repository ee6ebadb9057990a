//! The timeline: a lane for requests, one for the device, one for workers, one for memory.
//!
//! A lane of few spans at once shows each in a row with its name; a crowded one shows how many
//! there were at each moment. Lanes are pictures stretched over the width of the page, without text
//! inside, so that zooming is a change of what part of them is shown. Their size is bounded
//! whatever the trace: what is shorter than a pixel of the deepest zoom is drawn with its
//! neighbours.

use std::fmt::Write as _;

use crate::limits::{TIMELINE_NAMES_MAX, TIMELINE_PIXELS, TIMELINE_POINTS, TIMELINE_ROWS_MAX};
use crate::markup::{escape, seconds, size, whole};
use crate::page::Html;
use crate::svg::number;
use crate::trace::rows::{Axis, pack, runs};
use crate::trace::{Lane, Span, Times, Trace};

const ROW: usize = 14;
const AREA_HEIGHT: usize = 72;
/// Room for the lane's name above what is drawn.
const HEAD: usize = 18;
/// Marks on the ruler of the page without its script.
const MARKS: usize = 4;

/// Writes the timeline.
pub(super) fn write(body: &mut Html, trace: &Trace, times: &Times) {
    let axis = Axis {
        start_ns: times.start_ns,
        total_ns: times.total_ns,
    };
    let named = named_from(trace);
    body.raw(
        "<ul class=\"keys\"><li><span class=\"key k-queue\"></span>requests</li>\
         <li><span class=\"key k-device\"></span>device</li>\
         <li><span class=\"key k-worker\"></span>workers</li>\
         <li><span class=\"key k-idle\"></span>device idle though requests waited</li></ul>",
    );
    body.raw(
        "<div class=\"tools\" role=\"group\" aria-label=\"Zoom\">\
         <button type=\"button\" data-do=\"in\" aria-label=\"Closer\">+</button>\
         <button type=\"button\" data-do=\"out\" aria-label=\"Farther\">−</button>\
         <button type=\"button\" data-do=\"left\" aria-label=\"Earlier\">◀</button>\
         <button type=\"button\" data-do=\"right\" aria-label=\"Later\">▶</button>\
         <button type=\"button\" data-do=\"all\">All</button>\
         <span class=\"soft\" aria-live=\"polite\" id=\"shown\"></span></div>",
    );
    let total = times.total_ns as f64 / 1e9;
    let mut inside = String::new();
    let lanes = [
        (Lane::Queue, "requests", "queue", times.queue.most),
        (Lane::Device, "in flight", "device", times.device.most),
        (Lane::Decode, "decoding", "worker", times.decode.most),
    ];
    for (lane, word, class, most) in lanes {
        if most > 0 {
            let drawing = Drawing {
                trace,
                times,
                axis,
                named,
                class,
            };
            inside.push_str(&drawing.lane(lane, word, most));
        }
    }
    inside.push_str(&memory(trace, axis));
    let _ = write!(inside, "<div class=\"ruler\">{}</div>", marks(total));
    body.raw(&format!(
        "<div id=\"timeline\" tabindex=\"0\" role=\"group\" data-seconds=\"{total:e}\" \
         aria-label=\"Timeline of {}\">{inside}</div>",
        seconds(total)
    ));
    body.paragraph_of(
        "soft",
        &format!(
            "Drag or swipe to move, Ctrl and wheel or two fingers to zoom; with keys: arrows, + and \
             −, 0 for all. What is shorter than {} is drawn together with its neighbours.",
            seconds(total / TIMELINE_PIXELS as f64)
        ),
    );
}

/// Spans at least this long carry their names: the [`TIMELINE_NAMES_MAX`] longest.
fn named_from(trace: &Trace) -> u64 {
    let mut lengths: Vec<u64> = trace
        .spans
        .iter()
        .map(|it| it.end_ns - it.start_ns)
        .collect();
    if lengths.len() <= TIMELINE_NAMES_MAX {
        return 0;
    }
    let at = lengths.len() - TIMELINE_NAMES_MAX;
    let (_, length, _) = lengths.select_nth_unstable(at);
    // More than it, so that many of the same length do not all come in.
    *length + 1
}

struct Drawing<'a> {
    trace: &'a Trace,
    times: &'a Times,
    axis: Axis,
    named: u64,
    class: &'static str,
}

impl Drawing<'_> {
    fn lane(&self, lane: Lane, word: &str, most: u64) -> String {
        let mut spans: Vec<&Span> = self.trace.spans_of(lane).collect();
        spans.sort_by_key(|span| (span.start_ns, span.end_ns));
        let (mut shapes, height) = if most as usize <= TIMELINE_ROWS_MAX {
            self.rows(&spans)
        } else {
            (self.area(&spans, most), AREA_HEIGHT + HEAD)
        };
        if lane == Lane::Device {
            let idle = runs(self.times.idle.iter().copied(), self.axis);
            shapes.insert_str(0, &boxes(&idle, 0, height, "back"));
        }
        let name = match lane {
            Lane::Queue => "queue",
            Lane::Device => "device",
            Lane::Decode => "workers",
        };
        let mean = match lane {
            Lane::Queue => &self.times.queue,
            Lane::Device => &self.times.device,
            Lane::Decode => &self.times.decode,
        };
        let caption = format!(
            "{name}: at most {} {word}, {} on average",
            whole(most as f64),
            crate::markup::figure(mean.mean_while_busy())
        );
        frame(&caption, &shapes, height)
    }

    /// Each span in a row: those of some length one by one with their names, the others as runs.
    fn rows(&self, spans: &[&Span]) -> (String, usize) {
        let rows = pack(spans);
        let count = rows.iter().max().map_or(1, |most| most + 1);
        let mut out = String::new();
        let mut short: Vec<Vec<(u64, u64)>> = vec![Vec::new(); count];
        let mut long = String::new();
        for (span, row) in spans.iter().zip(&rows) {
            let length_ns = span.end_ns - span.start_ns;
            if length_ns < self.named {
                short[*row].push((span.start_ns, span.end_ns));
                continue;
            }
            let (from, to) = (self.axis.at(span.start_ns), self.axis.at(span.end_ns));
            let tip = format!(
                "{}: {} from {}, {}",
                self.trace.name(span),
                seconds(length_ns as f64 / 1e9),
                seconds((span.start_ns - self.axis.start_ns) as f64 / 1e9),
                bytes(span.bytes)
            );
            let _ = write!(
                long,
                "<rect class=\"{}\" x=\"{from:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\">\
                 <title>{}</title></rect>",
                self.class,
                HEAD + row * ROW + 1,
                (to - from).max(0.5),
                ROW - 2,
                escape(&tip)
            );
        }
        for (row, stretches) in short.into_iter().enumerate() {
            let merged = runs(stretches.into_iter(), self.axis);
            out.push_str(&boxes(&merged, HEAD + row * ROW + 1, ROW - 2, self.class));
        }
        (out + &long, HEAD + count * ROW + 3)
    }

    /// How many spans there were at each moment, as the mean of a few pixels.
    fn area(&self, spans: &[&Span], most: u64) -> String {
        let mut sums = vec![0.0f64; TIMELINE_POINTS];
        // Changes of the number of spans that cover a point whole, taken up by one pass at the end.
        let mut steps = vec![0i64; TIMELINE_POINTS + 1];
        let scale = TIMELINE_POINTS as f64 / TIMELINE_PIXELS as f64;
        for span in spans {
            let (from, to) = (
                self.axis.at(span.start_ns) * scale,
                self.axis.at(span.end_ns) * scale,
            );
            let first = (from as usize).min(TIMELINE_POINTS - 1);
            let last = (to as usize).min(TIMELINE_POINTS - 1);
            if first == last {
                sums[first] += to - from;
                continue;
            }
            sums[first] += (first + 1) as f64 - from;
            sums[last] += to - last as f64;
            steps[first + 1] += 1;
            steps[last] -= 1;
        }
        let (mut whole, bottom) = (0i64, HEAD + AREA_HEIGHT);
        let mut d = format!("M0 {bottom}");
        for (point, sum) in sums.iter().enumerate() {
            whole += steps[point];
            let share = ((sum + whole as f64) / most as f64).clamp(0.0, 1.0);
            let y = bottom as f64 - share * (AREA_HEIGHT - 2) as f64;
            let x = point * TIMELINE_PIXELS / TIMELINE_POINTS;
            let _ = write!(d, "L{x} {}", number(y));
        }
        let _ = write!(d, "L{TIMELINE_PIXELS} {bottom}Z");
        format!("<path class=\"area {}\" d=\"{d}\"/>", self.class)
    }
}

/// Boxes of the same height, as one path.
fn boxes(runs: &[(usize, usize)], y: usize, height: usize, class: &str) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut d = String::new();
    for (from, to) in runs {
        let width = to - from;
        let _ = write!(d, "M{from} {y}h{width}v{height}h-{width}");
    }
    format!("<path class=\"{class}\" d=\"{d}\"/>")
}

fn frame(caption: &str, shapes: &str, height: usize) -> String {
    let caption = escape(caption);
    format!(
        "<div class=\"lane\"><b>{caption}</b><svg viewBox=\"0 0 {TIMELINE_PIXELS} {height}\" \
         preserveAspectRatio=\"none\" height=\"{height}\" data-height=\"{height}\" role=\"img\" \
         aria-label=\"{caption}\">{shapes}</svg></div>"
    )
}

/// Staging and bytes in flight, the most in each few pixels.
fn memory(trace: &Trace, axis: Axis) -> String {
    let most = |of: fn(&crate::trace::Counter) -> u64| trace.counters.iter().map(of).max();
    let staging = most(|it| it.staging_bytes).unwrap_or(0);
    let flight = most(|it| it.in_flight_bytes).unwrap_or(0);
    let top = staging.max(flight);
    if top == 0 {
        return String::new();
    }
    let line = |of: fn(&crate::trace::Counter) -> u64, class: &str| {
        let mut values = vec![None::<u64>; TIMELINE_POINTS];
        for counter in &trace.counters {
            let scale = TIMELINE_POINTS as f64 / TIMELINE_PIXELS as f64;
            let point = ((axis.at(counter.at_ns) * scale) as usize).min(TIMELINE_POINTS - 1);
            let value = &mut values[point];
            *value = Some(value.unwrap_or(0).max(of(counter)));
        }
        let bottom = (HEAD + AREA_HEIGHT / 2) as f64;
        let mut d = format!("M0 {bottom}");
        for (point, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = point * TIMELINE_PIXELS / TIMELINE_POINTS;
            let y = bottom - (*value as f64 / top as f64) * (AREA_HEIGHT / 2 - 2) as f64;
            let _ = write!(d, "L{x} {}", number(y));
        }
        format!("<path class=\"{class}\" d=\"{d}\"/>")
    };
    let shapes = line(|it| it.staging_bytes, "memory") + &line(|it| it.in_flight_bytes, "flight");
    let caption = format!(
        "memory: staging {}, in flight {} (dashed)",
        bytes(staging),
        bytes(flight)
    );
    frame(&caption, &shapes, HEAD + AREA_HEIGHT / 2 + 3)
}

fn bytes(count: u64) -> String {
    match size(count as f64) {
        scaled if scaled.ends_with(['K', 'M', 'G']) => scaled + "iB",
        plain => plain + " B",
    }
}

fn marks(total: f64) -> String {
    let mut out = String::new();
    for mark in 0..=MARKS {
        let share = mark as f64 / MARKS as f64;
        let class = if mark == MARKS { " class=\"end\"" } else { "" };
        let _ = write!(
            out,
            "<span{class} style=\"left:{:.0}%\">{}</span>",
            share * 100.0,
            seconds(total * share)
        );
    }
    out
}
