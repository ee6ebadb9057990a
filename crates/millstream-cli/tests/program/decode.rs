//! `decode`: every format to raw samples, the document, and what is refused.

use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

use crate::common::{
    expect_quiet_success, expect_status, limited, millstream, names_in, run, run_with,
};

/// File, format, width, height, channels, maximal value, and the raw bytes.
type Right = (&'static [u8], &'static str, [u64; 4], &'static [u8]);

const RIGHT: &[Right] = &[
    (b"P1\n3 1\n1 0 1\n", "P1", [3, 1, 1, 1], &[0, 1, 0]),
    (
        b"P1\n2 2\n1 0 0 1\nthis is junk that pbm(5) allows\n",
        "P1",
        [2, 2, 1, 1],
        &[0, 1, 1, 0],
    ),
    (b"P5 2 1 255\nab and more", "P5", [2, 1, 1, 255], b"ab"),
    (b"P2 2 1 9 # c\n3 4", "P2", [2, 1, 1, 9], &[3, 4]),
    (b"P2 2 1 300 1 300\n", "P2", [2, 1, 1, 300], &[1, 0, 44, 1]),
    (
        b"P3\n1 1\n255\n7 8 9\nP3 1 1 1 0 0 0",
        "P3",
        [1, 1, 3, 255],
        &[7, 8, 9],
    ),
    (b"P4 3 1\n\xA0", "P4", [3, 1, 1, 1], &[0, 1, 0]),
    (b"P5 2 1 255\nab", "P5", [2, 1, 1, 255], b"ab"),
    (
        b"P6 1 1 65535\n\x01\x02\x03\x04\x05\x06",
        "P6",
        [1, 1, 3, 65_535],
        &[2, 1, 4, 3, 6, 5],
    ),
    (
        b"P7\nWIDTH 1\nHEIGHT 2\nDEPTH 2\nMAXVAL 100\nTUPLTYPE GRAYSCALE_ALPHA\n\
          ENDHDR\n\x01\x02\x03\x04",
        "P7",
        [1, 2, 2, 100],
        &[1, 2, 3, 4],
    ),
];

#[test]
fn every_format_becomes_raw_samples_and_is_described() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (image, raw) = (folder.path().join("image"), folder.path().join("out.raw"));
    for (bytes, format, [width, height, channels, maxval], expected) in RIGHT {
        std::fs::write(&image, bytes).expect("a file");
        let mut command = millstream(&["decode", "--json"]);
        let output = run(command.args([&image, &raw]));
        expect_quiet_success(&output);
        assert_eq!(
            std::fs::read(&raw).expect("the output"),
            *expected,
            "{format}"
        );
        let document: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON document");
        let bytes_count = expected.len();
        let wanted = serde_json::json!({
            "format": format, "width": width, "height": height, "channels": channels,
            "maxval": maxval, "bytes": bytes_count,
        });
        assert_eq!(document, wanted);
        let piped = run_with(&mut millstream(&["decode", "-", "-"]), bytes);
        expect_quiet_success(&piped);
        assert_eq!(piped.stdout, *expected, "{format}");
    }
}

#[test]
fn wrong_images_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cases: [(&[u8], &str); 4] = [
        (
            b"",
            "at offset 0: line 1, column 1: the bytes end before the image does",
        ),
        (
            b"P3 1 1 9\n1 2 10",
            "at offset 13: line 2, column 5: a sample is larger than the maximal",
        ),
        (
            b"P5 4 4 255\nabc",
            "at offset 14: the bytes end before the image does",
        ),
        (b"GIF89a", "at offset 0: line 1, column 1: no PNM image"),
    ];
    for (bytes, words) in cases {
        std::fs::write(folder.path().join("image"), bytes).expect("a file");
        let mut command = millstream(&["decode", "image", "out.raw", "--json"]);
        let output = run(command.current_dir(folder.path()));
        let errors = expect_status(&output, 1);
        let start = "millstream: 1 failure, the first: image: ";
        assert!(
            errors.starts_with(start) && errors.contains(words),
            "{errors}"
        );
        let document: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("one JSON document");
        assert_eq!(document["error"]["path"], "image");
        assert_eq!(names_in(folder.path()), ["image"]);
    }
    let missing = run(millstream(&["decode", "missing", "out.raw"]).current_dir(folder.path()));
    assert!(
        expect_status(&missing, 1).contains("missing: at offset 0: cannot read: ")
            || expect_status(&missing, 1).contains("missing: cannot read: ")
    );
    let both = run(millstream(&["decode", "image", "-", "--json"]).current_dir(folder.path()));
    expect_status(&both, 2);
}

#[test]
fn a_stream_without_end_is_refused_at_its_first_wrong_byte() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Whoever reads on until the end runs out of memory here.
    let mut command = limited("-v 2000000", &["decode", "-", "out.raw"]);
    let mut feeder = Command::new("yes")
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is `yes`");
    let endless = feeder.stdout.take().expect("a pipe was asked for");
    let output = run(command.current_dir(folder.path()).stdin(endless));
    feeder.kill().expect("it is our child");
    feeder.wait().expect("it is our child");
    let errors = expect_status(&output, 1);
    let words = "first: standard input: at offset 0: line 1, column 1: no PNM image";
    assert!(errors.contains(words), "{errors}");
    let output = run(millstream(&["decode", "/dev/zero", "out.raw"]).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(errors.contains("/dev/zero: at offset 0: "), "{errors}");
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn an_image_that_memory_cannot_hold_is_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for head in ["P6 30000 30000 255\n", "P3 30000 30000 255\n"] {
        // The header is no lie: a hole has bytes enough.
        let file = std::fs::File::create(folder.path().join("image")).expect("a file");
        file.write_all_at(head.as_bytes(), 0).expect("written");
        file.set_len(6 << 30).expect("a hole");
        let mut command = limited("-v 2000000", &["decode", "image", "out.raw"]);
        let errors = expect_status(&run(command.current_dir(folder.path())), 1);
        let words = "first: image: at offset 19: there is not enough memory for the image";
        assert!(errors.contains(words), "{head}: {errors}");
        assert_eq!(names_in(folder.path()), ["image"]);
    }
}
