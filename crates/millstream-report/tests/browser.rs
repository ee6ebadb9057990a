//! Pages in a real browser without a screen: nothing in the console, nothing to scroll sideways at
//! 360 pixels, and a timeline that zooms. Without a chromium the test says SKIP.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use millstream_report::bench::{Goal, Run};
use millstream_report::{bench, rows, trace};
use millstream_testing::wait_for;

millstream_testing::watch!();

millstream_testing::watch!();

/// Width of a narrow phone, in pixels.
const PHONE: u32 = 360;

/// Around the page under test: shows it in a frame as wide as a phone, acts on it, and leaves what
/// it saw as text.
const FRAME: &str = r##"<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<iframe id="it" src="page.html" width="PHONE" height="800" style="border:0"></iframe>
<pre id="seen">nothing</pre><script>
const it = document.getElementById("it");
it.onload = () => {
  const page = it.contentDocument;
  const lane = page.querySelector("#timeline svg");
  const before = lane && lane.getAttribute("viewBox");
  const closer = page.querySelector("button[data-do=in]");
  if (closer) closer.click();
  const after = lane && lane.getAttribute("viewBox");
  const empty = Array.from(page.querySelectorAll("main svg.picture"))
    .filter((svg) => svg.getBoundingClientRect().height < 20).length;
  document.getElementById("seen").textContent = "SEEN " + JSON.stringify({
    width: page.documentElement.scrollWidth,
    room: page.documentElement.clientWidth,
    zoomed: lane !== null && before !== after,
    title: page.title,
    hacked: it.contentWindow.hacked === true,
    pictures: page.querySelectorAll("svg").length,
    empty,
  });
};
</script>"##;

fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| {
        let asked = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    })
}

/// Runs the browser on `frame.html` of a folder: the page as it then stands, and the log.
fn visit(browser: &str, folder: &Path) -> (String, String) {
    let out = folder.join("dom.txt");
    let log = folder.join("log.txt");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--allow-file-access-from-files", "--enable-logging=stderr"])
        .arg("--virtual-time-budget=3000")
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("file://{}", folder.join("frame.html").display()))
        .stdout(fs::File::create(&out).expect("a file"))
        .stderr(fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("the browser starts");
    let has_ended = wait_for(|| child.try_wait().expect("our own child").is_some());
    if !has_ended {
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        panic!(
            "the browser hangs: {}",
            fs::read_to_string(&log).unwrap_or_default()
        );
    }
    let text = |path| String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned();
    (text(&out), text(&log))
}

/// Looks at a page; gives what was seen of it.
fn look(html: &str) -> Option<serde_json::Value> {
    let Some(browser) = browser() else {
        println!("SKIP: no chromium");
        return None;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("page.html"), html).expect("a file");
    let frame = FRAME.replace("PHONE", &PHONE.to_string());
    fs::write(folder.path().join("frame.html"), frame).expect("a file");
    let (dom, log) = visit(browser, folder.path());
    let console: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(console.is_empty(), "the console says: {console:?}");
    let (_, rest) = dom
        .split_once("SEEN ")
        .unwrap_or_else(|| panic!("not seen: {dom}\n{log}"));
    let (json, _) = rest.split_once("</pre>").expect("the end of the text");
    Some(serde_json::from_str(&json.replace("&lt;", "<").replace("&gt;", ">")).expect("JSON"))
}

fn expect_a_good_page(seen: &serde_json::Value) {
    assert_eq!(seen["width"], seen["room"], "it scrolls sideways: {seen}");
    assert!(seen["room"].as_u64() <= Some(u64::from(PHONE)), "{seen}");
    assert_eq!(seen["hacked"], false, "a script from outside ran: {seen}");
    assert_eq!(seen["empty"], 0, "pictures without a height: {seen}");
    assert!(seen["pictures"].as_u64() > Some(1), "{seen}");
}

const EVIL: &str = "<script>window.hacked=true</script>\\\"><img src=x onerror=hacked=true>";

#[test]
fn a_traces_page_fits_a_phone_and_zooms() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut text = String::from("{\"traceEvents\":[");
    for (tid, name) in [(1, "queue"), (2, "device"), (3, "decode")] {
        text.push_str(&format!(
            "{{\"name\":\"thread_name\",\"ph\":\"M\",\"tid\":{tid},\
             \"args\":{{\"name\":\"{name}\"}}}},"
        ));
    }
    for index in 0..400u32 {
        let (tid, ts) = (1 + index % 3, random.u32(0..100_000));
        text.push_str(&format!(
            "{{\"name\":\"{EVIL}-{index}-{}\",\"ph\":\"X\",\"ts\":{ts},\"dur\":{},\"tid\":{tid},\
             \"args\":{{\"bytes\":65536}}}},",
            "long".repeat(30),
            random.u32(0..4000)
        ));
    }
    text.push_str("{\"ph\":\"C\",\"ts\":5,\"args\":{\"staging\":4096,\"in_flight\":8192}}]}");
    let page = trace::page(&EVIL.replace('\\', ""), text.as_bytes()).expect("a good trace");
    if let Some(seen) = look(&page.html) {
        expect_a_good_page(&seen);
        assert_eq!(seen["zoomed"], true, "{seen}");
        assert_eq!(seen["title"], "Millstream: trace");
    }
}

#[test]
fn a_run_of_nothing_is_a_page() {
    let page = bench::page(&Run::default());
    assert!(page.contains("Nothing was measured") && page.ends_with("</html>\n"));
}

/// Rows of every kind of picture, with names as hostile as they come.
fn run() -> Run {
    let mut lines = String::new();
    let mut random = fastrand::Rng::with_seed(5);
    let mut cases: Vec<String> = [4, 64, 256].map(|n| format!("file read {n}K")).into();
    for size in ["4K", "16K", "64K", "256K", "1M", "4M"] {
        for depth in [1, 8, 32, 128, 256] {
            cases.push(format!("direct {size} depth {depth}"));
        }
    }
    cases.push(format!("{EVIL} {}", "wide".repeat(40)));
    for case in &cases {
        for contender in ["millstream", "millstream-threads", "ring", "limit", EVIL] {
            let median = random.f64() * 1000.0 + 1.0;
            for metric in ["rate", "device idle", "p50", "p99"] {
                lines.push_str(&format!(
                    "{{\"workload\":\"requests\",\"case\":\"{case}\",\"contender\":\"{contender}\",\
                     \"metric\":\"{metric}\",\"unit\":\"MB/s\",\"better\":\"higher\",\"n\":3,\
                     \"min\":{0},\"median\":{median},\"mean\":{median},\"max\":{1},\"ci95\":{2},\
                     \"params\":{{\"flags\":\"{EVIL}\"}}}}\n",
                    median * 0.9,
                    median * 1.1,
                    median * random.f64() * 1.5
                ));
            }
        }
        lines.push_str(&format!(
            "{{\"workload\":\"requests\",\"case\":\"{case}\",\"contender\":\"x\",\
             \"skipped\":\"{EVIL}{}\"}}\n",
            "no".repeat(200)
        ));
    }
    let rows = rows::parse(lines.as_bytes()).expect("good rows");
    Run {
        goals: vec![Goal {
            workload: "requests".into(),
            case: cases[0].clone(),
            contender: "millstream".into(),
            what: EVIL.into(),
            bound: ">= 1".into(),
            value: 0.5,
            reached: false,
            within_noise: true,
        }],
        study: Some(|_, case, who| {
            let is_it = (case, who) == ("file read 4K", "ring");
            is_it.then_some("47.847 / 48.828 / 48.527")
        }),
        failures: vec![EVIL.repeat(5)],
        facts: vec![("processor".into(), "x".repeat(300))],
        rows,
    }
}

#[test]
fn a_benchmarks_page_fits_a_phone() {
    let page = bench::page(&run());
    for part in [
        "0 of 1 reached",
        "47.847 / 48.828 / 48.527",
        "xxxxxxxx",
        "heat outline",
        "<td class=\"n\">",
        "&lt;script&gt;",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!page.contains("<script") && !page.contains("NaN"));
    assert!(!page.contains("http:") && !page.contains("https:"));
    if let Some(seen) = look(&page) {
        expect_a_good_page(&seen);
        assert_eq!(seen["title"], "Millstream: benchmark");
    }
}
