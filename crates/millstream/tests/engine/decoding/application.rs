//! Codecs of the application: whole blocks, streams, declared sizes, and blocks that are decoded
//! later.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use millstream::{
    BlockTable, Codec, CodecId, Decode, ErrorKind, FileId, Job, JobSystem, Read, StorageOptions,
    StreamDecoder,
};

use crate::decoding::blocks::Base;
use crate::decoding::rig::{bytes, each_backend, each_backend_with, encoded};

const INVERTED: CodecId = CodecId(0x80);
const DEFERRED: CodecId = CodecId(0x81);
const PANICKING: CodecId = CodecId(0x82);
const STREAMED: CodecId = CodecId(0x83);
const SIZED: CodecId = CodecId(0x84);

fn invert(stored: &[u8], raw: &mut [u8]) -> usize {
    raw.iter_mut()
        .zip(stored)
        .for_each(|(to, from)| *to = !from);
    stored.len().min(raw.len())
}

fn inverted(raw: &[u8]) -> Vec<u8> {
    raw.iter().map(|byte| !byte).collect()
}

struct Inverted;

impl Codec for Inverted {
    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        Ok(invert(stored, raw))
    }
}

/// Sends its blocks to another thread.
struct Deferred(Mutex<Sender<Job>>);

impl Codec for Deferred {
    fn defer(&self, job: Job) -> Option<Job> {
        self.0
            .lock()
            .expect("no panic")
            .send(job)
            .expect("received");
        None
    }
}

struct Panicking;

impl Codec for Panicking {
    fn decode(&self, _: &[u8], _: &mut [u8]) -> Result<usize, &'static str> {
        panic!("a codec panics")
    }
}

struct Streamed;

impl Codec for Streamed {
    fn is_stream(&self) -> bool {
        true
    }

    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        millstream_codec::stream_decoder(CodecId::ZLIB).ok()
    }
}

/// Blocks of 4 bytes: 0, the raw length in two bytes, and the byte that all raw bytes have.
struct Sized;

impl Codec for Sized {
    fn raw_len(&self, head: &[u8], stored_len: u64) -> Result<Option<u64>, &'static str> {
        match head {
            [0, high, low, _] if stored_len == 4 => {
                Ok(Some(u64::from(*high) << 8 | u64::from(*low)))
            }
            [1, ..] => panic!("a codec panics"),
            [3, ..] => Ok(None),
            _ => Err("no size"),
        }
    }

    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        raw.fill(stored[3]);
        Ok(raw.len())
    }
}

fn with(id: CodecId, codec: impl Codec + 'static) -> StorageOptions {
    let mut options = StorageOptions::default();
    options.codec(id, codec);
    options
}

#[test]
fn a_codec_may_declare_the_raw_size() {
    each_backend_with(
        || with(SIZED, Sized),
        |rig| {
            let read = |head| {
                let stored: Arc<[u8]> = Arc::from([head, 2, 1, 9]);
                Read::memory(stored).decode(Decode::codec(SIZED))
            };
            assert!(rig.run(read(0)).expect("decoded")[..] == [9; 0x201]);
            for (head, kind, cause) in [
                (1, ErrorKind::Application, "panicked"),
                (2, ErrorKind::Application, "no size"),
                (3, ErrorKind::RawSizeUnknown, ""),
            ] {
                let error = rig.failure(read(head));
                assert_eq!(error.kind(), kind, "{error}");
                assert!(error.cause().contains(cause), "{error}");
            }
            let stored = rig.run(Read::memory(Arc::from([0, 0, 3, 7])));
            let stored = Arc::new(stored.expect("copied"));
            let again = rig.run(Read::buffer(stored).decode(Decode::codec(SIZED)));
            assert!(again.expect("decoded")[..] == [7; 3]);
        },
    );
}

fn read(file: FileId, codec: CodecId, raw_len: usize) -> Read {
    let decode = Decode::codec(codec).raw_len(raw_len as u64);
    Read::whole(file).decode(decode).user_data(5)
}

#[test]
fn blocks_and_streams_of_the_application_decode_and_a_panic_fails_its_request_only() {
    let options = || {
        let mut options = with(INVERTED, Inverted);
        options.codec(PANICKING, Panicking);
        options.codec(STREAMED, Streamed);
        options
    };
    each_backend_with(options, |rig| {
        let raw = bytes(3_000_000);
        let inverted = inverted(&raw);
        let file = rig.file_of("inverted", &inverted);
        let zlib = rig.file_of("zlib", &encoded(CodecId::ZLIB, &raw));
        let mut batch = rig.queue.batch();
        let mut add = |file, codec| batch.add(read(file, codec, raw.len())).expect("accepted");
        let mut panics = add(file, PANICKING);
        let mut unknown = add(file, CodecId(0x99));
        let mut whole = add(file, INVERTED);
        let mut stream = add(zlib, STREAMED);
        drop(batch);
        let error = panics.wait().expect_err("the codec panics");
        assert_eq!(error.kind(), ErrorKind::Application, "{error}");
        let error = unknown.wait().expect_err("there is no such codec");
        assert_eq!(error.kind(), ErrorKind::UnknownCodec, "{error}");
        assert!(whole.wait().expect("decoded")[..] == raw);
        assert!(stream.wait().expect("decoded")[..] == raw);
    });
}

#[test]
fn a_deferred_block_is_decoded_on_another_thread_and_a_dropped_one_fails() {
    let (sender, jobs) = channel();
    let options = || with(DEFERRED, Deferred(Mutex::new(sender.clone())));
    each_backend_with(options, |rig| {
        let raw = bytes(3_000_000);
        let inverted = inverted(&raw);
        let file = rig.file_of("inverted", &inverted);
        let mut batch = rig.queue.batch();
        let tickets = [0, 1, 2].map(|_| batch.add(read(file, DEFERRED, raw.len())));
        drop(batch);
        for nth in 0..3 {
            let mut job = jobs.recv().expect("a job");
            assert_eq!(job.user_data(), 5);
            let (stored, into) = job.stored_and_raw();
            let written = invert(stored, into);
            match nth {
                0 => job.finish(Ok(written)),
                1 => job.finish(Err("refused")),
                _ => drop(job),
            }
        }
        let results = tickets.map(|ticket| ticket.expect("accepted").wait());
        let mut causes = Vec::new();
        for result in results {
            match result {
                Ok(bytes) => {
                    assert!(bytes[..] == raw);
                    causes.push(String::from("decoded"));
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Application, "{error}");
                    causes.push(error.cause().to_owned());
                }
            }
        }
        causes.sort();
        let wanted = ["decoded", "refused", "the application dropped the job"];
        assert_eq!(causes, wanted);
    });
}

#[test]
fn a_deferred_block_of_another_file_has_its_stored_bytes() {
    let (sender, jobs) = channel();
    let options = || with(DEFERRED, Deferred(Mutex::new(sender.clone())));
    each_backend_with(options, |rig| {
        let raw = bytes(100_000);
        let inverted = inverted(&raw);
        let mut table = BlockTable::new();
        table.push(DEFERRED, 0..100_000, 100_000);
        table.external_block();
        let table = table.external(Arc::new(Base(inverted)));
        let request = Read::whole(rig.file_of("patch", &[0xdd; 40])).decode(Decode::table(table));
        let mut ticket = rig.queue.submit(request).expect("room");
        let mut job = jobs.recv().expect("a job");
        let (stored, into) = job.stored_and_raw();
        let written = invert(stored, into);
        job.finish(Ok(written));
        assert!(ticket.wait().expect("decoded")[..] == raw);
    });
}

#[test]
fn a_job_to_be_run_is_not_finished_by_hand() {
    struct Finish;
    impl JobSystem for Finish {
        fn spawn(&self, mut job: Job) {
            assert!(job.stored_and_raw().1.is_empty());
            job.finish(Ok(100_000));
        }
    }
    let options = || {
        let mut options = StorageOptions::default();
        options.job_system = Some(Arc::new(Finish));
        options
    };
    each_backend_with(options, |rig| {
        let stored = encoded(CodecId::ZLIB, &bytes(100_000));
        let decode = Decode::codec(CodecId::ZLIB).raw_len(100_000);
        let error = rig.failure(Read::whole(rig.file_of("z", &stored)).decode(decode));
        assert_eq!(error.kind(), ErrorKind::Application, "{error}");
    });
}

/// What a codec of the application reports is checked: neither too many nor too few raw bytes.
#[test]
fn a_codec_that_misreports_what_it_wrote_fails_its_request() {
    struct Liar(isize);
    impl Codec for Liar {
        fn decode(&self, _: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
            Ok(raw.len().wrapping_add_signed(self.0))
        }
    }
    for lie in [-1, 1, isize::MAX] {
        each_backend_with(
            || with(INVERTED, Liar(lie)),
            |rig| {
                let file = rig.file_of("any", &bytes(5000));
                let error = rig.failure(read(file, INVERTED, 5000));
                assert_eq!(error.kind(), ErrorKind::RawSize, "{lie}: {error}");
                let plain = rig.run(Read::whole(file)).expect("read");
                assert!(plain[..] == bytes(5000), "{lie}");
            },
        );
    }
}

#[test]
fn decoding_without_a_size_fails_where_there_is_no_stream() {
    each_backend(|rig| {
        let stored = encoded(CodecId::LZ4_BLOCK, &bytes(1000));
        let decode = Decode::codec(CodecId::LZ4_BLOCK);
        let error = rig.failure(Read::memory(stored.into()).decode(decode));
        assert_eq!(error.kind(), ErrorKind::RawSizeUnknown, "{error}");
        assert!(error.cause().contains("raw_len"), "{error}");
    });
}
