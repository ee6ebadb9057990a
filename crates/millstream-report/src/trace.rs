//! A recorded trace as a page: where the time went in words and in a bar, then a timeline of queue,
//! device and workers that zooms and pans, then the longest requests and stalls.
//!
//! The page is whole without its script; what the script adds is looking closer.

use crate::chart::share::{self, Shares};
use crate::error::Result;
use crate::limits::TRACE_TABLE_ROWS;
use crate::markup::{count, figure, percent, seconds, whole};
use crate::page::{self, Html, Script, Set, Table};
use crate::theme;

mod lanes;
mod parse;
mod rows;
mod time;

pub use parse::{Counter, Lane, Span, Trace};
pub use time::{Limit, Times};

/// The script of the timeline.
const SCRIPT: Script = Script {
    text: include_str!("trace/timeline.js"),
    hash: "OmXErecHKKNaij2c7H9nxeXrq6HGzb/n97gdlrgb2fk=",
};

/// A page, and what it says in figures.
#[derive(Debug, Clone)]
pub struct Page {
    /// The HTML.
    pub html: String,
    /// Where the time went.
    pub times: Times,
    /// Requests in the trace.
    pub requests: usize,
    /// The limit in a sentence.
    pub words: String,
}

/// Makes a page of a trace as `load --trace` and `scene --trace` write it; `name` is what the page
/// calls it.
///
/// # Errors
/// The text is no such trace: no JSON, cut off, without lanes of ours, with times that cannot be,
/// or larger than the bounds in [`crate::limits`]. An empty trace is none: it gives a page that
/// says so.
pub fn page(name: &str, text: &[u8]) -> Result<Page> {
    let trace = parse::parse(text)?;
    let times = time::measure(&trace);
    let requests = trace.spans_of(Lane::Queue).count();
    let words = times.words();
    let mut body = Html::new();
    body.paragraph_of("soft", name);
    if trace.spans.is_empty() {
        body.paragraph_of("lead", "Nothing happened in this trace.");
    } else {
        body.paragraph_of("lead", &words);
        write(&mut body, &trace, &times, requests);
    }
    let script = (!trace.spans.is_empty()).then_some(SCRIPT);
    let html = page::render("Millstream: trace", &body, &[], theme::TIMELINE, script);
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
        body.paragraph_of(
            "doubt",
            &format!(
                "{lost} events no longer fitted into the recording; what they would change here \
                 is unknown."
            ),
        );
    }
    body.terms(&terms(trace, times, requests));
    let bar = Shares {
        label: String::new(),
        parts: times
            .parts()
            .iter()
            .filter(|(_, _, time_ns)| *time_ns > 0)
            .map(|(name, class, time_ns)| {
                let share = *time_ns as f64 / times.total_ns.max(1) as f64;
                ((*name).to_owned(), *class, share)
            })
            .collect(),
    };
    let picture = share::draw("Where the time went", "", &[bar]);
    body.wide_figure(&picture, "");
    body.section("timeline-head", "Timeline");
    lanes::write(body, trace, times);
    body.section("tables", "Longest");
    body.table(&requests_table(trace, times));
    if !times.stalls.is_empty() {
        body.table(&stalls_table(times));
    }
}

fn terms(trace: &Trace, times: &Times, requests: usize) -> Vec<(String, String)> {
    let total = times.total_ns as f64 / 1e9;
    let bytes: u64 = trace
        .spans_of(Lane::Queue)
        .fold(0, |sum, span| sum.saturating_add(span.bytes));
    let mut terms = vec![
        ("time".to_owned(), seconds(total)),
        (
            "requests".to_owned(),
            format!(
                "{}, {} MB of them{}, at most {} waiting at once",
                whole(requests as f64),
                figure(bytes as f64 / 1e6),
                match total > 0.0 {
                    true => format!(" ({} MB/s)", figure(bytes as f64 / 1e6 / total)),
                    false => String::new(),
                },
                whole(times.queue.most as f64)
            ),
        ),
        (
            "device".to_owned(),
            format!(
                "busy {}, with {} in flight on average then, {} at most",
                percent(times.share(times.device.busy_ns)),
                figure(times.device.mean_while_busy()),
                whole(times.device.most as f64)
            ),
        ),
    ];
    let decode = match times.decode.most {
        0 => "nothing was decoded by workers".to_owned(),
        _ => format!(
            "{} of {} at work at once at most; together {} of one worker's time",
            whole(times.decode.most.min(times.workers) as f64),
            count(times.workers as usize, "worker"),
            percent(times.share(times.decode.sum_ns))
        ),
    };
    terms.push(("workers".to_owned(), decode));
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
    spans.sort_by_key(|span| std::cmp::Reverse(span.end_ns - span.start_ns));
    let columns = [
        ("request", Set::Name),
        ("from", Set::Number),
        ("took", Set::Number),
        ("bytes", Set::Number),
    ];
    let mut table = Table::new("The requests that took longest", &columns);
    for span in spans.into_iter().take(TRACE_TABLE_ROWS) {
        table.row(
            "",
            vec![
                trace.name(span).into(),
                seconds((span.start_ns - times.start_ns) as f64 / 1e9).into(),
                seconds((span.end_ns - span.start_ns) as f64 / 1e9).into(),
                whole(span.bytes as f64).into(),
            ],
        );
    }
    table
}

fn stalls_table(times: &Times) -> Table {
    let columns = [
        ("from", Set::Number),
        ("for", Set::Number),
        ("meanwhile", Set::Words),
    ];
    let mut table = Table::new(
        "The longest times in which the device had nothing to do though requests waited",
        &columns,
    );
    for stall in &times.stalls {
        let words = match stall.workers {
            0 => "no worker decoded either".to_owned(),
            most => format!("at most {} at work", count(most as usize, "worker")),
        };
        table.row(
            "",
            vec![
                seconds((stall.start_ns - times.start_ns) as f64 / 1e9).into(),
                seconds((stall.end_ns - stall.start_ns) as f64 / 1e9).into(),
                words.into(),
            ],
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_trace_says_who_was_the_limit() {
        let page = page("t.json", TRACE.as_bytes()).unwrap();
        assert_eq!(page.requests, 1);
        assert_eq!(page.times.limit(), Limit::Decoding);
        assert!(
            page.words
                .contains("Device idle 67 %: one decode worker was the limit"),
            "{}",
            page.words
        );
    }

    #[test]
    fn a_hostile_name_does_not_become_markup() {
        let page = page("<script>x</script>", TRACE.as_bytes()).unwrap().html;
        assert_eq!(page.matches("<script").count(), 1, "only our own");
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }

    #[test]
    fn the_policy_names_the_scripts_hash() {
        let digest = Sha256::digest(SCRIPT.text.as_bytes());
        assert_eq!(SCRIPT.hash, base64(&digest));
        assert!(!SCRIPT.text.contains("</script"));
    }

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let padded = [chunk, &[0, 0]].concat();
            let bits =
                (u32::from(padded[0]) << 16) | (u32::from(padded[1]) << 8) | u32::from(padded[2]);
            for place in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
                out.push(if place <= chunk.len() {
                    char::from(letter)
                } else {
                    '='
                });
            }
        }
        out
    }

    #[test]
    fn traces_that_are_none_are_told_with_their_place() {
        let cut = &TRACE[..TRACE.len() / 2];
        let cases: [(&str, &str); 8] = [
            ("", "cut off"),
            ("nonsense", "no trace"),
            ("[]", "no trace"),
            ("{}", "traceEvents"),
            (cut, "cut off"),
            (r#"{"traceEvents":[]}"#, "no lanes"),
            (
                r#"{"traceEvents":[{"ph":"X","ts":-1,"dur":1,"tid":1}]}"#,
                "event 1",
            ),
            (
                r#"{"traceEvents":[{"ph":"X","ts":1e300,"dur":1,"tid":1}]}"#,
                "event 1",
            ),
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
            .filter(|line| {
                !["\"X\"", "\"C\"", "\"bytes\""]
                    .iter()
                    .any(|it| line.contains(it))
            })
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
