//! The page of a recorded trace: where the time went in words and in a bar, then a timeline of
//! queue, device and workers that zooms and pans, then the longest requests and stalls.
//!
//! The page is complete without its script, which only adds zooming and panning.

use std::cmp::Reverse;

use crate::error::Result;
use crate::limits::TRACE_TABLE_ROWS;
use crate::markup::{count, figure, percent, seconds, whole};
use crate::page::{self, Html, Script, Table};

mod lanes;
mod parse;
mod time;

use parse::{Lane, Span, Trace};
use time::LaneTimes;
pub use time::Times;

const STYLE: &str = include_str!("trace/timeline.css");

const SCRIPT: Script = Script {
    text: include_str!("trace/timeline.js"),
    hash: "OmXErecHKKNaij2c7H9nxeXrq6HGzb/n97gdlrgb2fk=",
};

/// A page, and its main figures.
#[derive(Debug, Clone)]
pub struct Page {
    /// The HTML.
    pub html: String,
    /// Where the time went.
    pub times: Times,
    /// Number of requests in the trace.
    pub requests: usize,
    /// What limited the load, in a sentence.
    pub words: String,
}

/// Makes a page from a trace as `load --trace` and `scene --trace` write it; `name` is its title.
///
/// # Errors
/// The text is not such a trace: not JSON, truncated, without the engine's lanes, with impossible
/// times, or larger than the limits in [`crate::limits`]. An empty trace is not an error: its page
/// says so.
pub fn page(name: &str, text: &[u8]) -> Result<Page> {
    let trace = parse::parse(text)?;
    let times = time::measure(&trace);
    let requests = trace.spans_of(Lane::Queue).count();
    let words = times.words();
    let mut body = Html::default();
    body.paragraph("soft", name);
    if trace.spans.is_empty() {
        body.paragraph("lead", "Nothing happened in this trace.");
    } else {
        body.paragraph("lead", &words);
        write(&mut body, &trace, &times, requests);
    }
    let script = (!trace.spans.is_empty()).then_some(SCRIPT);
    let html = page::render("Millstream: trace", &body, STYLE, script);
    Ok(Page {
        html,
        times,
        requests,
        words,
    })
}

fn write(body: &mut Html, trace: &Trace, times: &Times, requests: usize) {
    if trace.lost > 0 {
        let lost = whole(trace.lost as f64);
        body.paragraph(
            "doubt",
            &format!(
                "{lost} events no longer fitted into the recording; what they would change here \
                 is unknown."
            ),
        );
    }
    body.terms(&terms(trace, times, requests));
    parts(body, times);
    body.section("timeline-head", "Timeline");
    lanes::write(body, trace, times);
    body.section("tables", "Longest");
    body.table(&requests_table(trace, times));
    if !times.stalls.is_empty() {
        body.table(&stalls_table(times));
    }
}

/// Draws where the time went: a bar of the parts, with their shares as its legend.
fn parts(body: &mut Html, times: &Times) {
    let (mut bar, mut key) = (String::new(), String::new());
    for ((name, class), time_ns) in time::PARTS.iter().zip(times.parts_ns) {
        if time_ns > 0 {
            let share = percent(times.share(time_ns));
            let color = format!("class=\"key k-{class}\"");
            bar += &format!("<span {color} style=\"flex-grow:{time_ns}\"></span>");
            key += &format!("<li><span {color}></span>{name} {share}</li>");
        }
    }
    body.raw(&format!(
        "<h3>Where the time went</h3><div class=\"parts\">{bar}</div><ul class=\"keys\">{key}</ul>"
    ));
}

fn terms(trace: &Trace, times: &Times, requests: usize) -> Vec<(String, String)> {
    let total = times.total_ns as f64 / 1e9;
    let bytes: u64 = trace
        .spans_of(Lane::Queue)
        .fold(0, |sum, span| sum.saturating_add(span.bytes));
    let megabytes = bytes as f64 / 1e6;
    let rate = match total > 0.0 {
        true => format!(" ({} MB/s)", figure(megabytes / total)),
        false => String::new(),
    };
    let [queue, device, decode] = &times.lanes;
    let [queue_most, device_most] = [queue, device].map(|it| whole(it.most as f64));
    let busy = |lane: &LaneTimes| percent(times.share(lane.busy_ns));
    let decoded = match decode.most {
        0 => "nothing was decoded by workers".to_owned(),
        _ => format!(
            "busy {}, with {} of {} at work on average then, {} at most; together they decoded for \
             {}",
            busy(decode),
            figure(decode.mean_while_busy()),
            count(times.workers as usize, "worker"),
            whole(decode.most.min(times.workers) as f64),
            seconds(decode.sum_ns as f64 / 1e9)
        ),
    };
    let mut terms = vec![
        ("time".to_owned(), seconds(total)),
        (
            "requests".to_owned(),
            format!(
                "{}, {} MB of them{rate}, at most {queue_most} waiting at once",
                whole(requests as f64),
                figure(megabytes),
            ),
        ),
        (
            "device".to_owned(),
            format!(
                "busy {}, with {} in flight on average then, {device_most} at most",
                busy(device),
                figure(device.mean_while_busy()),
            ),
        ),
        ("workers".to_owned(), decoded),
    ];
    if trace.ignored > 0 {
        let ignored = whole(trace.ignored as f64);
        terms.push((
            "left out".to_owned(),
            format!("{ignored} events of other lanes"),
        ));
    }
    terms
}

fn requests_table(trace: &Trace, times: &Times) -> Table {
    let mut spans: Vec<&Span> = trace.spans_of(Lane::Queue).collect();
    spans.sort_by_key(|span| Reverse(span.length_ns()));
    let columns = "request | >from | >took | >bytes";
    let mut table = Table::new("The requests that took longest", columns);
    for span in spans.into_iter().take(TRACE_TABLE_ROWS) {
        table.row(vec![
            span.name.clone(),
            seconds((span.start_ns - times.start_ns) as f64 / 1e9),
            seconds(span.length_ns() as f64 / 1e9),
            whole(span.bytes as f64),
        ]);
    }
    table
}

fn stalls_table(times: &Times) -> Table {
    let caption = "The longest times in which the device had nothing to do though requests waited";
    let mut table = Table::new(caption, ">from | >for | meanwhile");
    let mut stalls = times.stalls.clone();
    stalls.sort_by_key(|stall| Reverse(stall.end_ns - stall.start_ns));
    for stall in stalls.into_iter().take(TRACE_TABLE_ROWS) {
        let words = match stall.workers {
            0 => "no worker decoded either".to_owned(),
            most => format!("at most {} at work", count(most as usize, "worker")),
        };
        table.row(vec![
            seconds((stall.start_ns - times.start_ns) as f64 / 1e9),
            seconds((stall.end_ns - stall.start_ns) as f64 / 1e9),
            words,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64ct::{Base64, Encoding as _};
    use sha2::{Digest as _, Sha256};

    /// A trace of two requests: 1 ms of device, then 2 ms of a worker.
    const TRACE: &str = r#"{"displayTimeUnit":"ms","otherData":{"lost":0},"traceEvents":[
{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"queue"}},
{"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"device"}},
{"name":"thread_name","ph":"M","pid":1,"tid":3,"args":{"name":"decode"}},
{"name":"a<script>alert(1)</script>.dds","ph":"X","ts":0.000,"dur":3000.000,"pid":1,"tid":1,
"args":{"bytes":3000000,"offset":0}},
{"name":"a<script>alert(1)</script>.dds","ph":"X","ts":0.000,"dur":1000.000,"pid":1,"tid":2,
"args":{"bytes":1000000,"offset":0}},
{"name":"memory","ph":"C","ts":1000.000,"pid":1,"args":{"staging":1048576,"in_flight":0}},
{"name":"a<script>alert(1)</script>.dds","ph":"X","ts":1000.000,"dur":2000.000,"pid":1,"tid":3,
"args":{"bytes":3000000,"offset":0}},
{"name":"process_name","ph":"M","pid":1,"args":{"name":"millstream"}}
]}"#;

    #[test]
    fn a_trace_says_who_was_the_limit_and_its_names_are_no_markup() {
        let page = page("<script>x</script>", TRACE.as_bytes()).unwrap();
        assert_eq!(page.requests, 1);
        assert_eq!(page.times.limit(), time::Part::AllWorkers);
        assert!(page.html.contains(&page.words), "{}", page.words);
        for part in [
            "Device idle 67 %: one decode worker was the limit",
            "busy 67 %, with 1.00 of 1 worker at work on average then, 1 at most; together they \
             decoded for 2 ms",
            "1.00 on average while there is any",
            "&lt;script&gt;alert(1)",
            ".dds: 2 ms from 1 ms",
            "at most 1 worker at work",
        ] {
            assert!(page.html.contains(part), "{part} is missing");
        }
        assert_eq!(page.html.matches("<script").count(), 1, "only our own");
    }

    #[test]
    fn the_policy_names_the_scripts_hash() {
        let digest = Sha256::digest(SCRIPT.text.as_bytes());
        assert_eq!(SCRIPT.hash, Base64::encode_string(&digest));
        assert!(!SCRIPT.text.contains("</script"));
    }

    #[test]
    fn traces_that_are_none_are_told_with_their_place() {
        let cut = &TRACE[..TRACE.len() / 2];
        let cases: [(&str, &str); 8] = [
            ("", "cut off"),
            ("nonsense", "not a trace"),
            ("[]", "not a trace"),
            ("{}", "traceEvents"),
            (cut, "cut off"),
            (r#"{"traceEvents":[]}"#, "no lanes"),
            (r#"{"traceEvents":[{"ph":"X","ts":-1,"dur":1}]}"#, "event 1"),
            (r#"{"traceEvents":[{"ph":"X","ts":1e300}]}"#, "event 1"),
        ];
        for (text, part) in cases {
            let error = page("t", text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        assert!(page("t", &[0xFF, 0xFE]).is_err());
        let deep = format!("{{\"traceEvents\":{}", "[".repeat(100_000));
        assert!(page("t", deep.as_bytes()).is_err());
    }

    #[test]
    fn an_empty_trace_is_a_page() {
        let empty: String = TRACE
            .lines()
            .filter(|line| !line.contains("\"ts\"") && !line.contains("\"bytes\""))
            .collect();
        let page = page("t", empty.as_bytes()).unwrap();
        assert!(page.html.contains("Nothing happened"));
        assert_eq!(page.requests, 0);
    }

    #[test]
    fn a_huge_trace_gives_a_page_of_bounded_size() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut text = TRACE.lines().take(4).collect::<Vec<_>>().join("\n");
        text.push('\n');
        for index in 0..100_000u64 {
            let (lane, start) = (1 + index % 3, random.u64(0..1_000_000));
            let length = random.u64(0..if lane == 1 { 50_000 } else { 60 });
            text.push_str(&format!(
                "{{\"name\":\"f{index}\",\"ph\":\"X\",\"ts\":{start}.5,\"dur\":{length}.25,\
                 \"pid\":1,\"tid\":{lane},\"args\":{{\"bytes\":4096,\"offset\":0}}}},\n"
            ));
        }
        text.push_str("{\"ph\":\"M\"}]}");
        let page = page("t", text.as_bytes()).unwrap();
        assert!(page.html.len() < 3 << 20, "{} bytes", page.html.len());
        assert!(page.requests > 30_000);
    }
}
