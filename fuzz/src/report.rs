//! Traces as text of any kind: an error or a page, never a panic; and no markup of theirs in it.

/// A trace, or rows.
pub fn trace(data: &[u8]) {
    // Whole documents are rare among random bytes: the second form has lanes and takes the bytes
    // for events.
    let mut events = Vec::from(
        &b"{\"traceEvents\":[{\"name\":\"thread_name\",\"ph\":\"M\",\"tid\":1,\"args\":\
        {\"name\":\"queue\"}},{\"name\":\"thread_name\",\"ph\":\"M\",\"tid\":2,\"args\":\
        {\"name\":\"device\"}},{\"name\":\"thread_name\",\"ph\":\"M\",\"tid\":3,\"args\":\
        {\"name\":\"decode\"}},"[..],
    );
    events.extend_from_slice(data);
    events.extend_from_slice(b"]}");
    for text in [data, &events] {
        if let Ok(page) = millstream_report::trace::page("fuzz", text) {
            let html = &page.html;
            assert!(html.matches("<script").count() <= 1 && html.matches("<img").count() == 0);
            coordinates_are_numbers(html);
            assert!(html.ends_with("</html>\n"));
            assert!(page.times.device_idle_ns() <= page.times.total_ns);
        }
    }
    // Rows are read by the same rules.
    if let Ok(rows) = millstream_report::rows::parse(data) {
        let run = millstream_report::bench::Run {
            rows,
            ..Default::default()
        };
        let html = millstream_report::bench::page(&run);
        assert!(!html.contains("<script") && html.ends_with("</html>\n"));
        coordinates_are_numbers(&html);
    }
}

/// A name may say `NaN`; no coordinate does.
fn coordinates_are_numbers(html: &str) {
    for name in "x y cx cy d width height viewBox style fill-opacity".split(' ') {
        // Quotation marks of names are escaped.
        for part in html.split(&format!(" {name}=\"")).skip(1) {
            let value = part.split('"').next().unwrap_or_default();
            assert!(!value.contains("NaN"), "{name}: {value}");
        }
    }
}
