//! The timeline: a lane for requests, one for the device, one for workers, one for memory.
//!
//! A lane with few overlapping spans shows each in a row with its name; a crowded one shows how
//! many there were at each moment. Lanes are pictures stretched over the width of the page, without
//! text inside, so that zooming changes only the part that is shown. Their size is bounded whatever
//! the trace: spans shorter than a pixel at the deepest zoom are drawn with their neighbors.

use std::fmt::Write as _;

use crate::limits::{TIMELINE_NAMES_MAX, TIMELINE_PIXELS, TIMELINE_POINTS, TIMELINE_ROWS_MAX};
use crate::markup::{escape, figure, seconds, size, whole};
use crate::page::Html;
use crate::svg::number;
use crate::trace::parse::{Counter, Lane, Span, Trace};
use crate::trace::time::Times;

const ROW: usize = 14;
const AREA_HEIGHT: usize = 72;
/// Height of the lane's name above the drawing.
const HEAD: usize = 18;
/// Number of marks on the ruler if the page's script does not run.
const MARKS: usize = 4;

/// The header of the timeline: the colors of the lanes, and the controls of the script.
const TOOLS: &str = "\
<ul class=\"keys\"><li><span class=\"key k-queue\"></span>requests</li>\
<li><span class=\"key k-device\"></span>device</li>\
<li><span class=\"key k-worker\"></span>workers</li>\
<li><span class=\"key k-idle\"></span>device idle though requests waited</li></ul>\
<div class=\"tools\" role=\"group\" aria-label=\"Zoom\">\
<button type=\"button\" data-do=\"in\" aria-label=\"Closer\">+</button>\
<button type=\"button\" data-do=\"out\" aria-label=\"Farther\">−</button>\
<button type=\"button\" data-do=\"left\" aria-label=\"Earlier\">◀</button>\
<button type=\"button\" data-do=\"right\" aria-label=\"Later\">▶</button>\
<button type=\"button\" data-do=\"all\">All</button>\
<span class=\"soft\" aria-live=\"polite\" id=\"shown\"></span></div>";

/// The lanes: what they show, their name, the words for their maximum, and their class.
const LANES: [(Lane, &str, &str, &str); 3] = [
    (Lane::Queue, "queue", "requests", "queue"),
    (Lane::Device, "device", "in flight", "device"),
    (Lane::Decode, "workers", "decoding", "worker"),
];

pub(super) fn write(body: &mut Html, trace: &Trace, times: &Times) {
    body.raw(TOOLS);
    let timeline = Timeline {
        trace,
        times,
        named_ns: named_from(trace),
    };
    let total = times.total_ns as f64 / 1e9;
    let mut inside = String::new();
    for (lane, name, what, class) in LANES {
        if times.of(lane).most > 0 {
            inside.push_str(&timeline.lane(lane, name, what, class));
        }
    }
    inside.push_str(&timeline.memory());
    let _ = write!(inside, "<div class=\"ruler\">{}</div>", marks(total));
    body.raw(&format!(
        "<div id=\"timeline\" tabindex=\"0\" role=\"group\" data-seconds=\"{total:e}\" \
         aria-label=\"Timeline of {}\">{inside}</div>",
        seconds(total)
    ));
    body.paragraph(
        "soft",
        &format!(
            "Drag or swipe to move, Ctrl and wheel or two fingers to zoom; with keys: arrows, + and \
             −, 0 for all. What is shorter than {} is drawn together with its neighbors.",
            seconds(total / TIMELINE_PIXELS as f64)
        ),
    );
}

/// Returns the length from which spans have names: at most the [`TIMELINE_NAMES_MAX`] longest.
fn named_from(trace: &Trace) -> u64 {
    let mut lengths: Vec<u64> = trace.spans.iter().map(Span::length_ns).collect();
    let Some(at) = lengths.len().checked_sub(TIMELINE_NAMES_MAX + 1) else {
        return 0;
    };
    // One more than the longest unnamed span, so that many of one length are not all included.
    *lengths.select_nth_unstable(at).1 + 1
}

struct Timeline<'a> {
    trace: &'a Trace,
    times: &'a Times,
    named_ns: u64,
}

impl Timeline<'_> {
    /// Returns the position of a time, 0 to [`TIMELINE_PIXELS`].
    fn at(&self, time_ns: u64) -> f64 {
        // Counters may lie outside the time of the spans.
        let share = self
            .times
            .share(time_ns.saturating_sub(self.times.start_ns));
        share.min(1.0) * TIMELINE_PIXELS as f64
    }

    /// Returns a time's position in points, 0 to [`TIMELINE_POINTS`], and its point's index.
    fn point(&self, time_ns: u64) -> (f64, usize) {
        let at = self.at(time_ns) * TIMELINE_POINTS as f64 / TIMELINE_PIXELS as f64;
        (at, (at as usize).min(TIMELINE_POINTS - 1))
    }

    fn lane(&self, lane: Lane, name: &str, what: &str, class: &str) -> String {
        let mut spans: Vec<&Span> = self.trace.spans_of(lane).collect();
        spans.sort_by_key(|span| (span.start_ns, span.end_ns));
        let lane_times = self.times.of(lane);
        let (mut shapes, height) = match lane_times.most as usize <= TIMELINE_ROWS_MAX {
            true => self.rows(&spans, class),
            false => (
                self.area(&spans, lane_times.most, class),
                AREA_HEIGHT + HEAD,
            ),
        };
        if lane == Lane::Device {
            let stalls = self.times.stalls.iter();
            let idle: Vec<_> = stalls.map(|it| (it.start_ns, it.end_ns)).collect();
            shapes.insert_str(0, &self.boxes(&idle, 0, height, "back"));
        }
        let (most, mean) = (
            whole(lane_times.most as f64),
            figure(lane_times.mean_while_busy()),
        );
        let caption =
            format!("{name}: at most {most} {what}, {mean} on average while there is any");
        frame(&caption, &shapes, height)
    }

    /// Draws the spans in rows: long ones one by one with their names, the others as boxes.
    fn rows(&self, spans: &[&Span], class: &str) -> (String, usize) {
        // For each row the end of its last span, and its short spans.
        let mut rows: Vec<(u64, Vec<(u64, u64)>)> = Vec::new();
        let mut long = String::new();
        for span in spans {
            let free = rows.iter().position(|(end_ns, _)| *end_ns <= span.start_ns);
            let row = free.unwrap_or(rows.len());
            if row == rows.len() {
                rows.push((0, Vec::new()));
            }
            rows[row].0 = span.end_ns;
            if span.length_ns() < self.named_ns {
                rows[row].1.push((span.start_ns, span.end_ns));
                continue;
            }
            let (from, to) = (self.at(span.start_ns), self.at(span.end_ns));
            let tip = format!(
                "{}: {} from {}, {}",
                span.name,
                seconds(span.length_ns() as f64 / 1e9),
                seconds((span.start_ns - self.times.start_ns) as f64 / 1e9),
                bytes(span.bytes)
            );
            let _ = write!(
                long,
                "<rect class=\"{class}\" x=\"{from:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\">\
                 <title>{}</title></rect>",
                HEAD + row * ROW + 1,
                (to - from).max(0.5),
                ROW - 2,
                escape(&tip)
            );
        }
        let short = rows.iter().enumerate().map(|(row, (_, stretches))| {
            self.boxes(stretches, HEAD + row * ROW + 1, ROW - 2, class)
        });
        (
            short.collect::<String>() + &long,
            HEAD + rows.len().max(1) * ROW + 3,
        )
    }

    /// Draws stretches of time as boxes of whole pixels in one path, merging those that touch. They
    /// must be in order.
    fn boxes(&self, stretches: &[(u64, u64)], y: usize, height: usize, class: &str) -> String {
        let mut boxes: Vec<(usize, usize)> = Vec::new();
        for (start_ns, end_ns) in stretches {
            let from = (self.at(*start_ns).floor() as usize).min(TIMELINE_PIXELS - 1);
            let to = (self.at(*end_ns).ceil() as usize).clamp(from + 1, TIMELINE_PIXELS);
            match boxes.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => boxes.push((from, to)),
            }
        }
        let path = |(from, to): (usize, usize)| {
            let width = to - from;
            format!("M{from} {y}h{width}v{height}h-{width}")
        };
        let d: String = boxes.into_iter().map(path).collect();
        format!("<path class=\"{class}\" d=\"{d}\"/>")
    }

    /// Draws how many spans there were at each moment, averaged over a few pixels.
    fn area(&self, spans: &[&Span], most: u64, class: &str) -> String {
        let mut sums = vec![0.0f64; TIMELINE_POINTS];
        // Changes of the number of spans that cover a whole point, summed by one pass at the end.
        let mut steps = vec![0i64; TIMELINE_POINTS + 1];
        for span in spans {
            let ((from, first), (to, last)) = (self.point(span.start_ns), self.point(span.end_ns));
            if first == last {
                sums[first] += to - from;
                continue;
            }
            sums[first] += (first + 1) as f64 - from;
            sums[last] += to - last as f64;
            steps[first + 1] += 1;
            steps[last] -= 1;
        }
        let mut covering = 0i64;
        let points = sums
            .iter()
            .zip(steps)
            .enumerate()
            .map(|(point, (sum, step))| {
                covering += step;
                (point, (sum + covering as f64) / most as f64)
            });
        let bottom = HEAD + AREA_HEIGHT;
        let d = path(points, bottom, AREA_HEIGHT);
        format!("<path class=\"area {class}\" d=\"{d}L{TIMELINE_PIXELS} {bottom}Z\"/>")
    }

    /// Draws staging memory and bytes in flight, the maximum in each few pixels.
    fn memory(&self) -> String {
        let counters = &self.trace.counters;
        let most = |of: fn(&Counter) -> u64| counters.iter().map(of).max().unwrap_or(0);
        let (staging, flight) = (most(|it| it.staging_bytes), most(|it| it.in_flight_bytes));
        let top = staging.max(flight);
        if top == 0 {
            return String::new();
        }
        let line = |of: fn(&Counter) -> u64, class: &str| {
            let mut values = vec![None::<u64>; TIMELINE_POINTS];
            for counter in counters {
                let value = &mut values[self.point(counter.at_ns).1];
                *value = (*value).max(Some(of(counter)));
            }
            let points = values.iter().enumerate();
            let points = points.filter_map(|(at, it)| Some((at, (*it)? as f64 / top as f64)));
            let d = path(points, HEAD + AREA_HEIGHT / 2, AREA_HEIGHT / 2);
            format!("<path class=\"{class}\" d=\"{d}\"/>")
        };
        let shapes =
            line(|it| it.staging_bytes, "memory") + &line(|it| it.in_flight_bytes, "flight");
        let (staging, flight) = (bytes(staging), bytes(flight));
        let caption = format!("memory: staging {staging}, in flight {flight} (dashed)");
        frame(&caption, &shapes, HEAD + AREA_HEIGHT / 2 + 3)
    }
}

/// Returns the path of a line over points, given as shares of a height above `bottom`.
fn path(points: impl Iterator<Item = (usize, f64)>, bottom: usize, height: usize) -> String {
    let mut d = format!("M0 {bottom}");
    for (point, share) in points {
        let x = point * TIMELINE_PIXELS / TIMELINE_POINTS;
        let y = bottom as f64 - share.clamp(0.0, 1.0) * (height - 2) as f64;
        let _ = write!(d, "L{x} {}", number(y));
    }
    d
}

fn frame(caption: &str, shapes: &str, height: usize) -> String {
    let caption = escape(caption);
    format!(
        "<div class=\"lane\"><b>{caption}</b><svg viewBox=\"0 0 {TIMELINE_PIXELS} {height}\" \
         preserveAspectRatio=\"none\" height=\"{height}\" data-height=\"{height}\" role=\"img\" \
         aria-label=\"{caption}\">{shapes}</svg></div>"
    )
}

fn bytes(count: u64) -> String {
    match size(count as f64) {
        scaled if scaled.ends_with(['K', 'M', 'G']) => scaled + "iB",
        plain => plain + " B",
    }
}

fn marks(total: f64) -> String {
    let mark = |mark: usize| {
        let share = mark as f64 / MARKS as f64;
        let class = if mark == MARKS { "end" } else { "" };
        let (left, time) = (share * 100.0, seconds(total * share));
        format!("<span class=\"{class}\" style=\"left:{left:.0}%\">{time}</span>")
    };
    (0..=MARKS).map(mark).collect()
}
