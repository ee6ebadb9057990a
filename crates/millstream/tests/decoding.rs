//! Decoding on the way, over every backend: each codec from files and memory, damage, tables of
//! blocks, streams of several frames, and codecs of the application.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream::codec::{ApplicationCodec, Codecs};
use millstream::{CodecId, ErrorKind, Request, StorageOptions};
use support::{Bench, each_backend, each_backend_with, encoded};

fn codec_cases(bench: &Bench) -> Vec<(CodecId, Vec<u8>, usize)> {
    let mut cases = Vec::new();
    let codecs = [
        CodecId::ZLIB,
        CodecId::GZIP,
        CodecId::DEFLATE,
        CodecId::ZSTD,
        CodecId::LZ4,
        CodecId::LZ4_BLOCK,
        CodecId::GDEFLATE,
    ];
    for len in [1, 1000, 300_000, 9_000_000] {
        let raw = bench.bytes(len);
        for codec in codecs {
            cases.push((codec, encoded(codec, &raw), len));
        }
    }
    cases
}

/// Every codec, small and large, from a file and from memory; what is wrong is an error.
#[test]
fn encoded_requests_decode_and_damage_is_an_error() {
    each_backend(|bench| {
        let queue = bench.queue();
        for (index, (codec, stored, len)) in codec_cases(bench).into_iter().enumerate() {
            let raw = bench.bytes(len);
            let file = bench.file_of(&format!("c{index}"), &stored);
            let whole = || Request::read_file(file).codec(codec).raw_len(len as u64);
            let memory = Request::from_memory(stored.clone().into()).codec(codec);
            let good = queue.enqueue(whole()).expect("enqueued");
            let from_memory = queue.enqueue(memory.raw_len(len as u64)).expect("enqueued");
            let short = queue
                .enqueue(whole().raw_len(len as u64 - 1))
                .expect("enqueued");
            let long = queue
                .enqueue(whole().raw_len(len as u64 + 1))
                .expect("enqueued");
            let cut = Request::read(file, 0, stored.len() as u64 - 1).codec(codec);
            let cut = queue.enqueue(cut.raw_len(len as u64)).expect("enqueued");
            let mut junk = stored.clone();
            junk.push(0x55);
            let junk = Request::from_memory(junk.into())
                .codec(codec)
                .raw_len(len as u64);
            let junk = queue.enqueue(junk).expect("enqueued");
            queue.submit();
            let context = format!("{codec:?} {len}");
            assert!(
                *good.wait().expect(&context).into_buffer() == raw[..],
                "{context}"
            );
            assert!(
                *from_memory.wait().expect(&context).into_buffer() == raw[..],
                "{context}"
            );
            for (what, ticket) in [
                ("short", short),
                ("long", long),
                ("cut", cut),
                ("junk", junk),
            ] {
                let failed = ticket.wait().expect_err(&format!("{context} {what}"));
                let kind = failed.error.kind();
                let fits = matches!(kind, ErrorKind::RawSize | ErrorKind::Corrupt);
                assert!(fits, "{context} {what}: {failed}");
            }
        }
        let stats = bench.storage.stats();
        assert!(stats.staging_peak_bytes <= stats.staging_capacity_bytes);
        assert_eq!(stats.staging_bytes, 0, "all staging is back");
    });
}

/// Independent blocks of one request, each with its own codec.
#[test]
fn a_table_of_blocks_decodes_each_with_its_own_codec() {
    each_backend(|bench| {
        let raw = bench.bytes(5_000_000);
        let kinds = [
            CodecId::ZLIB,
            CodecId::STORED,
            CodecId::LZ4_BLOCK,
            CodecId::ZSTD,
        ];
        let (mut stored, mut blocks) = (vec![0xee; 13], Vec::new());
        for (index, piece) in raw.chunks(200_000).enumerate() {
            let codec = kinds[index % kinds.len()];
            let bytes = encoded(codec, piece);
            blocks.push(millstream::BlockEntry {
                checksum: None,
                elsewhere: false,
                dictionary: 0,
                stored_offset: stored.len() as u64,
                stored_len: u32::try_from(bytes.len()).expect("small"),
                raw_len: u32::try_from(piece.len()).expect("small"),
                codec,
            });
            stored.extend(bytes);
            stored.extend([0xee; 5]);
        }
        let file = bench.file_of("blocks", &stored);
        let queue = bench.queue();
        let table: Arc<[_]> = blocks.clone().into();
        let request = Request::read_file(file).blocks(Arc::clone(&table));
        let done = queue
            .enqueue(request)
            .expect("enqueued")
            .wait()
            .expect("decoded");
        assert!(*done.into_buffer() == raw[..]);
        let memory = Request::from_memory(stored.into()).blocks(table);
        let done = queue
            .enqueue(memory)
            .expect("enqueued")
            .wait()
            .expect("decoded");
        assert!(*done.into_buffer() == raw[..]);
        blocks[3].stored_offset -= 6;
        let wrong = Request::read_file(file).blocks(blocks.into());
        let failed = queue
            .enqueue(wrong)
            .expect("enqueued")
            .wait()
            .expect_err("overlap");
        assert_eq!(failed.error.kind(), ErrorKind::InvalidArgument);
    });
}

/// Streams of several frames decode in parts on all workers, or as streams where their parts
/// cannot be told apart; far larger than staging either way.
#[test]
fn streams_of_several_frames_decode_whatever_their_parts() {
    let options = || StorageOptions {
        staging_bytes: 1 << 20,
        ..Default::default()
    };
    each_backend_with(options, |bench| {
        let queue = bench.queue();
        let raw = bench.bytes(12_000_001);
        for codec in [CodecId::ZSTD, CodecId::LZ4, CodecId::GZIP] {
            for piece_bytes in [100_000, 1_500_001, 7_000_000] {
                let stored: Vec<u8> = raw
                    .chunks(piece_bytes)
                    .flat_map(|piece| encoded(codec, piece))
                    .collect();
                let file = bench.file_of(&format!("{codec:?}{piece_bytes}"), &stored);
                let request = Request::read_file(file).codec(codec);
                let request = request.raw_len(raw.len() as u64);
                let ticket = queue.enqueue(request).expect("enqueued");
                let done = ticket.wait().unwrap_or_else(|failed| {
                    panic!("{codec:?} in pieces of {piece_bytes}: {failed}")
                });
                assert!(*done.into_buffer() == raw[..], "{codec:?} {piece_bytes}");
            }
        }
        let stats = bench.storage.stats();
        assert!(stats.staging_peak_bytes <= stats.staging_capacity_bytes);
    });
}

/// Codecs of the application: a function, a stream, and pulled ones.
#[test]
fn codecs_of_the_application_decode() {
    let codecs = || {
        let mut codecs = Codecs::default();
        codecs.add(
            CodecId(0x80),
            ApplicationCodec::whole(|stored, raw| {
                raw.iter_mut()
                    .zip(stored)
                    .for_each(|(to, from)| *to = !from);
                Ok(stored.len())
            }),
        );
        codecs.add(CodecId(0x81), ApplicationCodec::Pulled);
        codecs.add(
            CodecId(0x82),
            ApplicationCodec::whole(|_, _| panic!("a bad codec")),
        );
        codecs.add(
            CodecId(0x83),
            ApplicationCodec::stream(|| {
                millstream_codec::stream_decoder(CodecId::ZLIB).expect("zlib streams")
            }),
        );
        codecs.add_sized(
            CodecId(0x84),
            ApplicationCodec::whole(|stored, raw| {
                raw.fill(stored[3]);
                Ok(raw.len())
            }),
            |head, stored_len| match head {
                [0, high, low, _] if stored_len == 4 => Ok(u64::from(*high) << 8 | u64::from(*low)),
                [1, ..] => panic!("a bad size"),
                _ => Err("no size"),
            },
        );
        codecs
    };
    let options = || StorageOptions {
        codecs: codecs(),
        ..Default::default()
    };
    each_backend_with(options, |bench| {
        let queue = bench.queue();
        for (head, ends) in [(0, None), (1, Some("panicked")), (2, Some("no size"))] {
            let stored: Arc<[u8]> = Arc::from([head, 2, 1, 9]);
            let request = Request::from_memory(stored).codec(CodecId(0x84));
            match (queue.enqueue(request).expect("enqueued").wait(), ends) {
                (Ok(done), None) => assert!(*done.into_buffer() == [9; 0x201]),
                (Err(failed), Some(cause)) => {
                    assert_eq!(failed.error.kind(), ErrorKind::Application);
                    assert!(failed.error.cause().ends_with(cause), "{}", failed.error);
                }
                (ended, _) => panic!("{ended:?}"),
            }
        }
        let landed = queue.enqueue(Request::from_memory(Arc::from([0, 0, 3, 7])));
        let landed = landed.expect("enqueued").wait().expect("copied");
        let again = Request::from_buffer(Arc::new(landed.into_buffer())).codec(CodecId(0x84));
        let again = queue.enqueue(again).expect("enqueued").wait();
        assert!(*again.expect("decoded").into_buffer() == [7; 3]);
        let bytes = bench.bytes(3_000_000);
        let inverted: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        let file = bench.file_of("inverted", &inverted);
        let zlib = bench.file_of("zlib", &encoded(CodecId::ZLIB, &bytes));
        let request = |file, id| {
            Request::read_file(file)
                .codec(CodecId(id))
                .raw_len(3_000_000)
                .user_data(5)
        };
        let whole = queue.enqueue(request(file, 0x80)).expect("enqueued");
        let pulled = queue.enqueue(request(file, 0x81)).expect("enqueued");
        let ignored = queue.enqueue(request(file, 0x81)).expect("enqueued");
        let panics = queue.enqueue(request(file, 0x82)).expect("enqueued");
        let stream = queue.enqueue(request(zlib, 0x83)).expect("enqueued");
        let unknown = queue.enqueue(request(file, 0x99)).expect("enqueued");
        queue.submit();
        let answered = AtomicBool::new(false);
        for _ in 0..2 {
            let mut block = bench
                .storage
                .pull(Duration::from_secs(20))
                .expect("a block");
            assert_eq!((block.codec(), block.user_data()), (CodecId(0x81), 5));
            if answered.swap(true, Ordering::Relaxed) {
                drop(block);
                continue;
            }
            let (stored, raw) = block.bytes();
            raw.iter_mut()
                .zip(stored)
                .for_each(|(to, from)| *to = !from);
            block.answer(Ok(3_000_000));
        }
        assert!(*whole.wait().expect("decoded").into_buffer() == bytes[..]);
        assert!(*stream.wait().expect("decoded").into_buffer() == bytes[..]);
        let (first, second) = (pulled.wait(), ignored.wait());
        assert_eq!(usize::from(first.is_ok()) + usize::from(second.is_ok()), 1);
        assert_eq!(
            panics.wait().expect_err("panics").error.kind(),
            ErrorKind::Application
        );
        assert_eq!(
            unknown.wait().expect_err("unknown").error.kind(),
            ErrorKind::UnknownCodec
        );
    });
}
