//! From reader to writer: failures on either side are told apart, pieces of any size do, and memory
//! does not grow with the stream.

use std::io::{self, ErrorKind, Read, Write};

use crate::common::{Kind, sample, streamed};
use millstream_codec::{
    CodecErrorKind, CodecId, StreamError, compress, decompress, default_level, level_range,
};

/// Codecs that this build reads and writes as streams.
fn codecs() -> impl Iterator<Item = CodecId> {
    streamed().filter(|&codec| !level_range(codec).is_empty())
}

/// Reads in pieces of odd sizes, is interrupted every third time, and fails after `left` bytes.
struct Trickle<'a> {
    data: &'a [u8],
    left: usize,
    calls: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(ErrorKind::Interrupted.into());
        }
        if self.left == 0 {
            return Err(io::Error::other("the disk is gone"));
        }
        let bytes = (self.calls * 7 % 5000 + 1)
            .min(buffer.len())
            .min(self.data.len());
        let bytes = bytes.min(self.left);
        buffer[..bytes].copy_from_slice(&self.data[..bytes]);
        self.data = &self.data[bytes..];
        self.left -= bytes;
        Ok(bytes)
    }
}

/// Takes `left` bytes, then is full.
struct Full {
    left: usize,
}

impl Write for Full {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let bytes = buffer.len().min(self.left);
        self.left -= bytes;
        if bytes == 0 && !buffer.is_empty() {
            Err(ErrorKind::StorageFull.into())
        } else {
            Ok(bytes)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn readers_may_trickle_and_be_interrupted() {
    let raw = sample(Kind::Text, 600_000, 1);
    for codec in codecs() {
        let (mut stored, mut back) = (Vec::new(), Vec::new());
        let mut reader = Trickle {
            data: &raw,
            left: usize::MAX,
            calls: 0,
        };
        compress(codec, default_level(codec), &mut reader, &mut stored).unwrap();
        let mut reader = Trickle {
            data: &stored,
            left: usize::MAX,
            calls: 0,
        };
        decompress(codec, &mut reader, &mut back).unwrap();
        assert!(back == raw, "{}", codec.name());
    }
}

#[test]
fn failures_of_reader_writer_and_codec_are_told_apart() {
    let raw = sample(Kind::Random, 600_000, 1);
    for codec in codecs() {
        let level = default_level(codec);
        let mut stored = Vec::new();
        compress(codec, level, &mut &raw[..], &mut stored).unwrap();
        for left in [0, 1000, 300_000] {
            let mut reader = Trickle {
                data: &raw,
                left,
                calls: 0,
            };
            let failed = compress(codec, level, &mut reader, &mut io::sink()).unwrap_err();
            assert!(
                matches!(failed, StreamError::Read(_)),
                "{}: {failed}",
                codec.name()
            );
            let mut reader = Trickle {
                data: &stored,
                left,
                calls: 0,
            };
            let failed = decompress(codec, &mut reader, &mut io::sink()).unwrap_err();
            assert!(
                matches!(failed, StreamError::Read(_)),
                "{}: {failed}",
                codec.name()
            );
            let failed = compress(codec, level, &mut &raw[..], &mut Full { left }).unwrap_err();
            assert!(
                matches!(failed, StreamError::Write(_)),
                "{}: {failed}",
                codec.name()
            );
            let failed = decompress(codec, &mut &stored[..], &mut Full { left }).unwrap_err();
            assert!(
                matches!(failed, StreamError::Write(_)),
                "{}: {failed}",
                codec.name()
            );
        }
        let failed = decompress(codec, &mut &stored[..stored.len() - 1], &mut io::sink());
        match failed.unwrap_err() {
            StreamError::Codec(error) => {
                assert_eq!(error.kind, CodecErrorKind::Truncated);
                assert_eq!(error.offset, stored.len() as u64 - 1);
            }
            other => panic!("{}: {other}", codec.name()),
        }
    }
}

#[test]
fn codecs_without_streams_are_unsupported() {
    for codec in [CodecId::LZ4_BLOCK, CodecId(77), CodecId::APPLICATION] {
        let failed = compress(codec, 1, &mut io::empty(), &mut io::sink()).unwrap_err();
        assert!(
            matches!(failed, StreamError::Codec(error) if error.kind == CodecErrorKind::Unsupported)
        );
        let failed = decompress(codec, &mut io::empty(), &mut io::sink()).unwrap_err();
        assert!(
            matches!(failed, StreamError::Codec(error) if error.kind == CodecErrorKind::Unsupported)
        );
    }
}

/// Most memory that this process has had, if the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// Writes into the bin, and counts.
struct Bin(u64);

impl Write for Bin {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn memory_does_not_grow_with_the_stream() {
    const RAW_BYTES: u64 = 192 << 20;
    const GROWTH_BYTES_MAX: u64 = 64 << 20;
    // GDeflate is encoded in memory.
    for codec in codecs().filter(|&codec| codec != CodecId::GDEFLATE) {
        let Some(before) = peak_bytes() else {
            println!("SKIP: the system does not tell a process's peak of memory");
            return;
        };
        let mut stored = Vec::new();
        compress(codec, 1, &mut io::repeat(7).take(RAW_BYTES), &mut stored).unwrap();
        let mut bin = Bin(0);
        decompress(codec, &mut &stored[..], &mut bin).unwrap();
        assert_eq!(bin.0, RAW_BYTES);
        // The kernel sums the figure up from per-CPU counters: it may come out a little lower.
        let grown = peak_bytes()
            .expect("it was told before")
            .saturating_sub(before);
        assert!(
            grown < GROWTH_BYTES_MAX,
            "{}: grew by {grown} bytes",
            codec.name()
        );
    }
}
