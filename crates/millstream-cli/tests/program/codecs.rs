//! `compress` and `decompress`: every codec there and back, against the usual tools, and on bytes
//! that are wrong.

use std::process::Command;

use crate::common::{
    CODECS, expect_quiet_success, expect_status, installed, millstream, mixed_bytes, names_in, run,
    run_with,
};

fn compress(codec: &str, raw: &[u8], more: &[&str]) -> Vec<u8> {
    let words = ["compress", "--codec", codec, "-", "-"];
    let output = run_with(millstream(&words).args(more), raw);
    expect_quiet_success(&output);
    output.stdout
}

fn decompress(codec: &str, stored: &[u8]) -> std::process::Output {
    run_with(
        &mut millstream(&["decompress", "--codec", codec, "-", "-"]),
        stored,
    )
}

/// Decompresses what must not be, and gives the words.
fn refused(codec: &str, stored: &[u8]) -> String {
    let errors = expect_status(&decompress(codec, stored), 1);
    let start = "millstream: 1 failure, the first: standard input: at offset ";
    assert!(errors.starts_with(start), "{codec}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{codec}: {errors}");
    errors
}

#[test]
fn every_codec_goes_there_and_back() {
    let inputs = [
        Vec::new(),
        b"x".to_vec(),
        vec![0; 1 << 20],
        mixed_bytes(11, 65_536),
        mixed_bytes(12, 5_000_001),
    ];
    for &codec in CODECS {
        for raw in &inputs {
            let output = decompress(codec, &compress(codec, raw, &[]));
            expect_quiet_success(&output);
            assert!(output.stdout == *raw, "{codec} changes {} bytes", raw.len());
        }
    }
}

#[test]
fn files_and_json_tell_the_same_sizes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raw = mixed_bytes(13, 300_000);
    std::fs::write(folder.path().join("raw"), &raw).expect("a file");
    for &codec in CODECS {
        for (command, input, output) in [
            ("compress", "raw", "stored"),
            ("decompress", "stored", "again"),
        ] {
            let words = [command, "--codec", codec, "--json", input, output];
            let done = run(millstream(&words).current_dir(folder.path()));
            expect_quiet_success(&done);
            let document: serde_json::Value =
                serde_json::from_slice(&done.stdout).expect("one JSON document");
            let len = |name: &str| {
                std::fs::metadata(folder.path().join(name))
                    .expect("it is there")
                    .len()
            };
            assert_eq!(document["codec"], codec);
            assert_eq!(document["in_bytes"], len(input));
            assert_eq!(document["out_bytes"], len(output));
            assert_eq!(document["failed"], 0);
            assert!(document["first_error"].is_null());
            assert!(
                document["seconds"]
                    .as_f64()
                    .is_some_and(|seconds| seconds > 0.0)
            );
        }
        assert!(std::fs::read(folder.path().join("again")).expect("it is there") == raw);
    }
    let words = ["decompress", "--codec", "zstd", "--json", "raw", "out"];
    let done = run(millstream(&words).current_dir(folder.path()));
    expect_status(&done, 1);
    let document: serde_json::Value =
        serde_json::from_slice(&done.stdout).expect("one JSON document");
    assert_eq!(document["failed"], 1);
    assert!(
        document["first_error"]
            .as_str()
            .is_some_and(|error| error.starts_with("raw: "))
    );
    assert_eq!(names_in(folder.path()), ["again", "raw", "stored"]);
}

#[test]
fn levels_change_the_size() {
    let raw = mixed_bytes(14, 1 << 20);
    for &codec in CODECS.iter().filter(|&&codec| codec != "lz4") {
        let low = compress(codec, &raw, &["--level", "1"]);
        let high = compress(codec, &raw, &["--level", "9"]);
        assert!(
            high.len() < low.len(),
            "{codec}: {} and {}",
            high.len(),
            low.len()
        );
    }
}

/// A tool that compresses and decompresses from standard input to standard output.
struct Tool {
    codec: &'static str,
    program: &'static str,
    compress: &'static [&'static str],
    decompress: &'static [&'static str],
}

const TOOLS: [Tool; 5] = [
    Tool {
        codec: "gzip",
        program: "gzip",
        compress: &["-c"],
        decompress: &["-dc"],
    },
    Tool {
        codec: "zstd",
        program: "zstd",
        compress: &["-qc"],
        decompress: &["-dqc"],
    },
    Tool {
        codec: "lz4",
        program: "lz4",
        compress: &["-qc"],
        decompress: &["-dqc"],
    },
    Tool {
        codec: "zlib",
        program: "python3",
        compress: &[
            "-c",
            "import sys,zlib;sys.stdout.buffer.write(zlib.compress(sys.stdin.buffer.read()))",
        ],
        decompress: &[
            "-c",
            "import sys,zlib;sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))",
        ],
    },
    Tool {
        codec: "deflate",
        program: "python3",
        compress: &[
            "-c",
            "import sys,zlib;o=zlib.compressobj(6,8,-15);\
             sys.stdout.buffer.write(o.compress(sys.stdin.buffer.read())+o.flush())",
        ],
        decompress: &[
            "-c",
            "import sys,zlib;\
             sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read(),-15))",
        ],
    },
];

#[test]
fn the_usual_tools_understand_us_and_we_them() {
    for tool in &TOOLS {
        if !CODECS.contains(&tool.codec) || !installed(tool.program) {
            continue;
        }
        for raw in [Vec::new(), mixed_bytes(21, 10), mixed_bytes(22, 3_000_000)] {
            let ours = compress(tool.codec, &raw, &[]);
            let output = run_with(Command::new(tool.program).args(tool.decompress), &ours);
            assert!(
                output.status.success(),
                "{}: {}",
                tool.codec,
                crate::common::errors(&output)
            );
            assert!(output.stdout == raw, "{} reads us wrongly", tool.program);

            let theirs = run_with(Command::new(tool.program).args(tool.compress), &raw).stdout;
            let output = decompress(tool.codec, &theirs);
            expect_quiet_success(&output);
            assert!(output.stdout == raw, "we read {} wrongly", tool.program);
        }
    }
}

#[test]
fn concatenated_members_and_frames_are_one_stream() {
    let (first, second) = (mixed_bytes(31, 100_000), mixed_bytes(32, 70_000));
    for &codec in CODECS
        .iter()
        .filter(|codec| ["gzip", "zstd", "lz4"].contains(codec))
    {
        let mut stored = compress(codec, &first, &[]);
        stored.extend(compress(codec, &second, &[]));
        let output = decompress(codec, &stored);
        expect_quiet_success(&output);
        assert!(
            output.stdout == [&first[..], &second[..]].concat(),
            "{codec}"
        );
    }
}

#[test]
fn empty_input_is_an_error() {
    for &codec in CODECS {
        refused(codec, b"");
    }
}

#[test]
fn every_cut_is_an_error() {
    let raw = mixed_bytes(41, 3000);
    for &codec in CODECS {
        let stored = compress(codec, &raw, &[]);
        let step = stored.len() / 40 + 1;
        let near_the_ends = (1..12).chain(stored.len() - 12..stored.len());
        for len in near_the_ends.chain((12..stored.len() - 12).step_by(step)) {
            refused(codec, &stored[..len]);
        }
    }
}

#[test]
fn bytes_after_the_end_are_an_error_with_their_place() {
    let raw = mixed_bytes(42, 3000);
    for &codec in CODECS {
        let stored = compress(codec, &raw, &[]);
        refused(codec, &[&stored[..], b"garbage after the end"].concat());
        for zeros in [1, 70_000] {
            let padded = [&stored[..], &vec![0; zeros]].concat();
            if codec == "gzip" {
                let output = decompress(codec, &padded);
                expect_quiet_success(&output);
                assert!(output.stdout == raw, "padding is ignored");
                continue;
            }
            refused(codec, &padded);
        }
        if codec != "gdeflate" {
            let errors = refused(codec, &[&stored[..], b"garbage"].concat());
            assert!(
                errors.contains(&format!("at offset {}: ", stored.len())),
                "{errors}"
            );
        }
    }
}

#[test]
fn damaged_bytes_never_pass_for_good_where_there_is_a_checksum() {
    let raw = mixed_bytes(43, 20_000);
    for &codec in CODECS
        .iter()
        .filter(|codec| !["deflate", "gdeflate"].contains(codec))
    {
        let stored = compress(codec, &raw, &[]);
        for place in (0..stored.len()).step_by(stored.len() / 30 + 1) {
            let mut damaged = stored.clone();
            damaged[place] ^= 0x10;
            let output = decompress(codec, &damaged);
            if output.status.success() {
                assert!(
                    output.stdout == raw,
                    "{codec}: a flipped bit at {place} passes"
                );
            } else {
                expect_status(&output, 1);
            }
        }
    }
}

#[test]
fn a_codec_of_another_kind_is_an_error() {
    let raw = mixed_bytes(44, 3000);
    for &codec in CODECS {
        let stored = compress(codec, &raw, &[]);
        for &other in CODECS.iter().filter(|&&other| other != codec) {
            let output = decompress(other, &stored);
            assert!(
                !output.status.success() || output.stdout != raw,
                "{codec} as {other}"
            );
            if output.status.success() {
                println!("{codec} passes for {other}");
            } else {
                expect_status(&output, 1);
            }
        }
    }
}

#[test]
fn memory_is_bounded() {
    const RAW_BYTES: usize = 192 << 20;
    const MEMORY_KIB: usize = 128 << 10;
    for &codec in CODECS.iter().filter(|&&codec| codec != "gdeflate") {
        let script = format!(
            "set -e; ulimit -v {MEMORY_KIB}
             head -c {RAW_BYTES} /dev/zero | \"$0\" compress --codec {codec} - - \\
             | \"$0\" decompress --codec {codec} - - | wc -c"
        );
        let mut command = Command::new("sh");
        let output = run(command.args(["-c", &script, env!("CARGO_BIN_EXE_millstream")]));
        expect_quiet_success(&output);
        let counted = String::from_utf8_lossy(&output.stdout);
        assert_eq!(counted.trim(), RAW_BYTES.to_string(), "{codec}");
    }
}

#[test]
fn gdeflate_beyond_its_container_is_an_error_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = std::fs::File::create(folder.path().join("in")).expect("a file");
    // One byte more than 65,535 tiles of 64 KiB; a hole, so it takes no space.
    file.set_len((4 << 30) - (64 << 10) + 1)
        .expect("the file system has large files");
    let words = ["compress", "--codec", "gdeflate", "in", "out"];
    let output = run(millstream(&words).current_dir(folder.path()));
    let errors = expect_status(&output, 1);
    assert!(
        errors.contains("in: ") && errors.contains("4 GiB"),
        "{errors}"
    );
    assert_eq!(names_in(folder.path()), ["in"]);
}
