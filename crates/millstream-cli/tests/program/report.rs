//! `report`: a page, or an error and no file.

use std::path::Path;

use crate::common::{
    expect_quiet_success, expect_status, millstream, mixed_bytes, names_in, run, run_with,
};

/// Makes a folder with something to load and a trace of loading it.
fn traced(folder: &Path) -> Vec<u8> {
    let data = folder.join("data");
    std::fs::create_dir(&data).expect("a folder");
    for index in 0..20 {
        let name = format!("<script>alert({index})<{}>", "x".repeat(20));
        std::fs::write(data.join(name), mixed_bytes(index, 50_000)).expect("a file");
    }
    let mut command = millstream(&["load", "data", "--trace", "trace.json"]);
    let output = run(command.current_dir(folder));
    assert!(output.status.success(), "{output:?}");
    std::fs::read(folder.join("trace.json")).expect("the trace")
}

#[test]
fn a_trace_of_load_becomes_a_page_that_runs_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    traced(folder.path());
    let mut command = millstream(&["report", "trace.json", "-o", "page.html"]);
    expect_quiet_success(&run(command.current_dir(folder.path())));
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(
        page.contains("&lt;script&gt;alert(3)"),
        "the names are there"
    );
    assert_eq!(page.matches("<script").count(), 1, "only the page's own");
    assert!(!page.contains("http:") && !page.contains("https:"));
    assert_eq!(names_in(folder.path()), ["data", "page.html", "trace.json"]);
}

#[test]
fn json_tells_where_the_time_went() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    traced(folder.path());
    let mut command = millstream(&["report", "trace.json", "-o", "page.html", "--json"]);
    let output = run(command.current_dir(folder.path()));
    expect_quiet_success(&output);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["requests"], 20);
    let (all, idle) = (&document["seconds"], &document["device_idle_seconds"]);
    assert!(
        all.as_f64() > Some(0.0) && idle.as_f64() <= all.as_f64(),
        "{document}"
    );
    let length = std::fs::metadata(folder.path().join("page.html")).expect("the page");
    assert_eq!(document["bytes"], length.len());
}

#[test]
fn pipes_serve_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = traced(folder.path());
    let output = run_with(&mut millstream(&["report", "-", "-o", "-"]), &trace);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"<!DOCTYPE html>"));
    let output = run_with(&mut millstream(&["report", "-", "-o", "-"]), b"{");
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("first: standard input: at offset "),
        "{errors}"
    );
}

#[test]
fn what_is_no_trace_is_told_with_its_place_and_leaves_the_old_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let whole = traced(folder.path());
    std::fs::write(folder.path().join("page.html"), "old").expect("a file");
    let cases: [(&[u8], &str); 5] = [
        (b"", "cut off"),
        (&whole[..whole.len() / 2], "cut off"),
        (b"\xFF\xFE", "at offset 0"),
        (b"{\"traceEvents\":[]}", "no lanes"),
        (b"{\"traceEvents\":[{\"ph\":\"X\",\"ts\":-1}]}", "at offset"),
    ];
    for (text, part) in cases {
        std::fs::write(folder.path().join("trace.json"), text).expect("a file");
        let mut command = millstream(&["report", "trace.json", "-o", "page.html"]);
        let errors = expect_status(&run(command.current_dir(folder.path())), 1);
        let start = "millstream: 1 failure, the first: trace.json: ";
        assert!(
            errors.starts_with(start) && errors.contains(part),
            "{part}: {errors}"
        );
        let names = names_in(folder.path());
        assert_eq!(names, ["data", "page.html", "trace.json"]);
        let page = std::fs::read(folder.path().join("page.html")).expect("it stays");
        assert_eq!(page, b"old");
    }
    let mut missing = millstream(&["report", "none.json", "-o", "page.html"]);
    expect_status(&run(missing.current_dir(folder.path())), 1);
    for words in [
        &["report", "trace.json"][..],
        &["report", "-o", "page.html"],
        &["report", "trace.json", "-o", "-", "--json"],
    ] {
        expect_status(&run(millstream(words).current_dir(folder.path())), 2);
    }
}
