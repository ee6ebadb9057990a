//! The codecs' own tools: what they write is read here by every way of decoding, and what is
//! written here they read.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{KINDS, Kind, by_block, by_large_pieces, by_stream, by_units, encoded, sample};
use millstream_codec::{CodecErrorKind, CodecId, can_decode, compress, default_level, level_range};

/// Runs `tool` over `input`; `None` and a word about it where there is no such tool.
fn run(tool: &str, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("SKIP: {tool} cannot be run: {error}");
            return None;
        }
    };
    let mut stdin = child.stdin.take().expect("piped");
    let output = std::thread::scope(|scope| {
        // The tool may give up before it has read everything; its status tells.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("waiting")
    });
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}",
        output.status
    );
    Some(output.stdout)
}

/// Decodes by every way and compares; a codec that is not built in is refused by every way.
fn assert_decodes(codec: CodecId, stored: &[u8], raw: &[u8], what: &str) {
    if !can_decode(codec) {
        let units = by_units(codec, stored, raw.len(), 100_000);
        let units = units.map(|units| units.map(|(raw, _)| raw));
        let outcomes = [
            by_block(codec, stored, raw.len()),
            by_large_pieces(codec, stored, raw.len()),
        ];
        for outcome in outcomes.into_iter().chain(units) {
            let error = outcome.expect_err(what);
            assert_eq!(error.kind, CodecErrorKind::Unsupported, "{what}: {error}");
            assert!(error.cause.contains("not built in"), "{what}: {error}");
        }
        return;
    }
    assert!(
        by_block(codec, stored, raw.len()).expect(what) == raw,
        "{what}: block"
    );
    assert!(
        by_large_pieces(codec, stored, raw.len()).expect(what) == raw,
        "{what}: stream"
    );
    let pieces = || (1009, 4099);
    assert!(
        by_stream(codec, stored, raw.len(), pieces).expect(what) == raw,
        "{what}: pieces"
    );
    if let Some(units) = by_units(codec, stored, raw.len(), 100_000) {
        assert!(units.expect(what).0 == raw, "{what}: units");
    }
}

#[test]
fn what_gzip_writes_is_read() {
    for kind in KINDS {
        let raw = sample(kind, 300_000, 1);
        for level in ["-1", "-9"] {
            let Some(stored) = run("gzip", &["-c", level], &raw) else {
                return;
            };
            assert_decodes(CodecId::GZIP, &stored, &raw, level);
            assert_decodes(
                CodecId::GZIP,
                &stored.repeat(2),
                &raw.repeat(2),
                "two members",
            );
        }
    }
    // From a file gzip writes the name into the header.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a name");
    std::fs::write(&path, b"named").expect("writing");
    let path = path.to_str().expect("a plain path");
    let Some(stored) = run("gzip", &["-c", path], b"") else {
        return;
    };
    assert_decodes(CodecId::GZIP, &stored, b"named", "a member with a name");
}

#[test]
fn what_zstd_writes_is_read() {
    for kind in KINDS {
        let raw = sample(kind, 700_000, 2);
        for arguments in [
            &["-1"][..],
            &["-19"],
            &["--no-check"],
            &["--long=27", "-5"],
            &["--fast=5"],
        ] {
            let all = [arguments, &["-c", "-q"]].concat();
            let Some(stored) = run("zstd", &all, &raw) else {
                return;
            };
            let what = format!("zstd {arguments:?} {kind:?}");
            assert_decodes(CodecId::ZSTD, &stored, &raw, &what);
            assert_decodes(CodecId::ZSTD, &stored.repeat(2), &raw.repeat(2), &what);
        }
    }
}

#[test]
fn what_lz4_writes_is_read() {
    for kind in KINDS {
        let raw = sample(kind, 700_000, 3);
        for arguments in [
            &["-1"][..],
            &["-9"],
            // Linked blocks of 64 KiB, alone and with all checksums.
            &["-BD", "-B4"],
            &["-BD", "-BX", "-B4"],
            &["-B4"],
            &["-BX", "-B5"],
            &["--no-frame-crc"],
        ] {
            let all = [arguments, &["-c", "-q"]].concat();
            let Some(stored) = run("lz4", &all, &raw) else {
                return;
            };
            let what = format!("lz4 {arguments:?} {kind:?}");
            assert_decodes(CodecId::LZ4, &stored, &raw, &what);
        }
        let Some(small) = run("lz4", &["-c", "-q", "-B4"], &raw) else {
            return;
        };
        let (_, count) = by_units(CodecId::LZ4, &small, raw.len(), 50_000)
            .unwrap()
            .unwrap();
        assert_eq!(
            count,
            700_000usize.div_ceil(65_536),
            "the tool's blocks are units"
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("sized");
    let raw = sample(Kind::Text, 200_000, 4);
    std::fs::write(&path, &raw).expect("writing");
    let path = path.to_str().expect("a plain path");
    let arguments = ["-c", "-q", "-B4", "--content-size", path];
    let Some(stored) = run("lz4", &arguments, b"") else {
        return;
    };
    assert_decodes(CodecId::LZ4, &stored, &raw, "a frame with its size");
    assert_decodes(
        CodecId::LZ4,
        &stored.repeat(3),
        &raw.repeat(3),
        "three frames with sizes",
    );
}

#[test]
fn what_is_written_here_the_tools_read() {
    let tools = [
        (CodecId::GZIP, "gzip"),
        (CodecId::ZSTD, "zstd"),
        (CodecId::LZ4, "lz4"),
    ];
    for (codec, tool) in tools {
        if level_range(codec).is_empty() {
            println!("SKIP: {tool} is not written in this build");
            continue;
        }
        for kind in KINDS {
            for len in [0, 1, 256 << 10, 900_000] {
                let raw = sample(kind, len, 5);
                let block = encoded(codec, &raw).expect("it can be encoded");
                let mut stream = Vec::new();
                compress(codec, default_level(codec), &mut &raw[..], &mut stream).unwrap();
                for stored in [block, stream] {
                    let Some(read) = run(tool, &["-d", "-c", "-q"], &stored) else {
                        continue;
                    };
                    assert!(read == raw, "{tool} {kind:?} {len}");
                }
            }
        }
    }
}

/// Streams of the tools that lie beside this file, so that builds and machines without the tools
/// are tested too. Their raw bytes are 140,000 bytes of the numbers below as text.
#[test]
fn streams_kept_from_the_tools_are_read() {
    let mut raw = Vec::new();
    for number in 0.. {
        if raw.len() >= 140_000 {
            break;
        }
        raw.extend_from_slice(format!("{}\n", number % 977).as_bytes());
    }
    raw.truncate(140_000);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (name, codec) in [
        ("gzip.gz", CodecId::GZIP),
        ("zstd-19.zst", CodecId::ZSTD),
        ("zstd-1-check-two-frames.zst", CodecId::ZSTD),
        ("lz4-linked-checked.lz4", CodecId::LZ4),
        ("lz4-independent.lz4", CodecId::LZ4),
    ] {
        let stored = std::fs::read(folder.join(name)).expect(name);
        assert_decodes(codec, &stored, &raw, name);
    }
}
