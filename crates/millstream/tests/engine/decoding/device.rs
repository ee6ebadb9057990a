//! Destinations that move bytes themselves: what they are given, and that a request ends with the
//! last of their answers.

use std::any::Any;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::{
    BlockTable, CodecId, Decode, DevicePart, DeviceSink, Error, ErrorKind, PartForm, Read,
    StorageOptions,
};

use crate::decoding::blocks::Base;
use crate::decoding::rig::{Rig, bytes, each_backend, each_backend_with, encoded};

/// A device that is a vector.
#[derive(Default)]
struct Remote {
    memory: Mutex<Vec<u8>>,
    taken: Mutex<Vec<(PartForm, Range<u64>)>>,
    decodes_gdeflate: bool,
    /// Whether it is given last parts, and what it answers them.
    last: Option<fn() -> Result<(), Error>>,
    /// Parts are answered by who receives them, and not at once.
    later: Option<Mutex<Sender<DevicePart>>>,
}

impl Remote {
    fn new(room: usize) -> Remote {
        Remote {
            memory: Mutex::new(vec![0xcc; room]),
            ..Remote::default()
        }
    }

    /// Of which parts are received and answered by the test.
    fn answered_later(room: usize) -> (Arc<Remote>, Receiver<DevicePart>) {
        let (sender, receiver) = channel();
        let remote = Remote {
            later: Some(Mutex::new(sender)),
            ..Remote::new(room)
        };
        (Arc::new(remote), receiver)
    }

    /// Moves a part's bytes, and checks that none come twice.
    fn land(&self, part: &DevicePart) {
        let range = part.range();
        let (begin, end) = (range.start as usize, range.end as usize);
        let mut taken = self.taken.lock().expect("no panic");
        let apart = |(_, other): &(PartForm, Range<u64>)| {
            other.end <= range.start || range.end <= other.start
        };
        assert!(taken.iter().all(apart), "{range:?} comes twice");
        taken.push((part.form(), range));
        let raw = &mut self.memory.lock().expect("no panic")[begin..end];
        match part.form() {
            PartForm::Raw => raw.copy_from_slice(part.bytes()),
            PartForm::Tile => gdeflate::Decoder::new()
                .decode_tile(part.bytes(), raw)
                .expect("a tile"),
            PartForm::Encoded(codec) => {
                let mut scratch = millstream_codec::Scratch::default();
                let made = millstream_codec::decode_block(codec, &mut scratch, part.bytes(), raw);
                assert_eq!(made.expect("a stream"), raw.len());
            }
            form => panic!("{form:?} is not known"),
        }
    }

    fn forms(&self) -> Vec<PartForm> {
        let taken = self.taken.lock().expect("no panic");
        taken.iter().map(|(form, _)| *form).collect()
    }

    fn holds(&self, raw: &[u8]) -> bool {
        self.memory.lock().expect("no panic")[..raw.len()] == *raw
    }
}

impl DeviceSink for Remote {
    fn room(&self) -> u64 {
        self.memory.lock().expect("no panic").len() as u64
    }

    fn decodes(&self, codec: CodecId) -> bool {
        self.decodes_gdeflate && codec == CodecId::GDEFLATE
    }

    fn wants_last(&self) -> bool {
        self.last.is_some()
    }

    fn take(&self, part: DevicePart) {
        if let (PartForm::Last, Some(answer)) = (part.form(), self.last) {
            assert!(part.bytes().is_empty());
            let mut taken = self.taken.lock().expect("no panic");
            let landed: u64 = taken.iter().map(|(_, raw)| raw.end - raw.start).sum();
            assert_eq!(part.range(), 0..landed, "all others have landed");
            taken.push((PartForm::Last, part.range()));
            drop(taken);
            return part.finish(answer());
        }
        match &self.later {
            Some(later) => later
                .lock()
                .expect("no panic")
                .send(part)
                .expect("received"),
            None => {
                self.land(&part);
                part.finish(Ok(()));
            }
        }
    }
}

/// Reads into a device; what it was given.
fn load(rig: &Rig, read: Read, raw: &[u8], decodes_gdeflate: bool) -> Vec<PartForm> {
    let remote = Arc::new(Remote {
        decodes_gdeflate,
        ..Remote::new(raw.len() + 7)
    });
    let mut ticket = rig
        .queue
        .submit(read.into_device(remote.clone()))
        .expect("accepted");
    let outcome = ticket.outcome();
    assert_eq!(outcome.result.expect("landed"), raw.len() as u64);
    assert!(remote.holds(raw));
    remote.forms()
}

#[test]
fn stored_bytes_are_given_as_they_are_read() {
    each_backend(|rig| {
        let raw = bytes(5_000_000);
        let file = rig.file_of("raw", &raw);
        let forms = load(rig, Read::whole(file), &raw, false);
        assert!(forms.len() > 1, "several windows");
        assert!(forms.iter().all(|form| *form == PartForm::Raw));
        let part = &raw[12_345..12_345 + 99];
        load(rig, Read::range(file, 12_345, 99), part, true);
        load(rig, Read::range(file, 77, 0), &[], true);
        load(rig, Read::memory(Arc::from(part)), part, false);
    });
}

#[test]
fn what_a_device_decodes_is_given_encoded() {
    each_backend(|rig| {
        let raw = bytes(3_000_000);
        let file = rig.file_of("gdeflate", &encoded(CodecId::GDEFLATE, &raw));
        let read = || Read::whole(file).decode(Decode::codec(CodecId::GDEFLATE));
        let forms = load(rig, read(), &raw, true);
        assert_eq!(forms, vec![PartForm::Tile; raw.len().div_ceil(65536)]);
        // One that does not is given all raw bytes at the end.
        assert_eq!(load(rig, read(), &raw, false), [PartForm::Raw]);

        let small = bytes(1000);
        let stored: Arc<[u8]> = Arc::from(encoded(CodecId::GDEFLATE, &small));
        let read = Read::memory(stored).decode(Decode::codec(CodecId::GDEFLATE));
        let forms = load(rig, read, &small, true);
        assert_eq!(forms, [PartForm::Encoded(CodecId::GDEFLATE)]);
    });
}

#[test]
fn what_a_device_does_not_decode_is_decoded_before() {
    each_backend(|rig| {
        let raw = bytes(700_000);
        for codec in [CodecId::ZSTD, CodecId::LZ4, CodecId::ZLIB, CodecId::GZIP] {
            let file = rig.file_of(&format!("{}", codec.0), &encoded(codec, &raw));
            let read = Read::whole(file).decode(Decode::codec(codec).raw_len(raw.len() as u64));
            assert_eq!(load(rig, read, &raw, true), [PartForm::Raw]);
        }
    });
}

/// A table of blocks of 100,000 raw bytes each, in turns of two codecs, and its stored bytes.
fn table(raw: &[u8], codecs: [CodecId; 2]) -> (BlockTable, Vec<u8>) {
    let (mut table, mut stored) = (BlockTable::new(), Vec::new());
    for (piece, codec) in raw.chunks(100_000).zip(codecs.into_iter().cycle()) {
        let begin = stored.len() as u64;
        let block = encoded(codec, piece);
        stored.extend_from_slice(&block);
        table.push(codec, begin..stored.len() as u64, piece.len() as u32);
        table.checksum(xxhash_rust::xxh3::xxh3_64(&block));
    }
    (table, stored)
}

#[test]
fn blocks_of_a_table_are_given_each_by_itself_if_all_can_be() {
    each_backend(|rig| {
        let raw = bytes(1_234_567);
        let (stored, gdeflate) = (PartForm::Raw, PartForm::Encoded(CodecId::GDEFLATE));
        let (blocks, bytes) = table(&raw, [CodecId::GDEFLATE, CodecId::STORED]);
        let file = rig.file_of("blocks", &bytes);
        let read = Read::whole(file).decode(Decode::table(blocks));
        let mut forms = load(rig, read, &raw, true);
        forms.sort_by_key(|form| *form != stored);
        assert_eq!(forms, [vec![stored; 6], vec![gdeflate; 7]].concat());

        let (blocks, bytes) = table(&raw, [CodecId::GDEFLATE, CodecId::ZSTD]);
        let file = rig.file_of("mixed", &bytes);
        let read = Read::whole(file).decode(Decode::table(blocks));
        assert_eq!(load(rig, read, &raw, true), [stored]);
    });
}

#[test]
fn blocks_of_another_file_are_not_held_until_the_device_has_them() {
    each_backend(|rig| {
        let raw = bytes(1_234_567);
        let (mut blocks, stored) = table(&raw[..1_200_000], [CodecId::GDEFLATE, CodecId::STORED]);
        let last = encoded(CodecId::GDEFLATE, &raw[1_200_000..]);
        blocks.push(CodecId::GDEFLATE, 0..last.len() as u64, 34_567);
        blocks.external_block();
        let file = rig.file_of("patch", &stored);
        let read = Read::whole(file).decode(Decode::table(blocks.external(Arc::new(Base(last)))));
        assert_eq!(load(rig, read, &raw, true), [PartForm::Raw]);
    });
}

#[test]
fn a_trimmed_table_lands_without_what_is_cut_off() {
    each_backend(|rig| {
        let raw = bytes(500_000);
        let (blocks, bytes) = table(&raw, [CodecId::GDEFLATE, CodecId::STORED]);
        let file = rig.file_of("trimmed", &bytes);
        let read = Read::whole(file).decode(Decode::table(blocks.trim(123, 400_000)));
        let forms = load(rig, read, &raw[123..400_123], true);
        assert_eq!(forms, [PartForm::Raw]);
    });
}

#[test]
fn a_damaged_block_is_not_given_to_the_device() {
    each_backend(|rig| {
        let raw = bytes(90_000);
        let (blocks, mut bytes) = table(&raw, [CodecId::GDEFLATE, CodecId::STORED]);
        bytes[1000] ^= 1;
        let file = rig.file_of("damaged", &bytes);
        let remote = Arc::new(Remote {
            decodes_gdeflate: true,
            ..Remote::new(raw.len())
        });
        let read = Read::whole(file).decode(Decode::table(blocks));
        let error = rig.failure(read.into_device(remote.clone()));
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(remote.forms(), []);
    });
}

#[test]
fn stored_blocks_of_another_length_than_declared_are_not_given_to_the_device() {
    each_backend(|rig| {
        let bytes = bytes(5000);
        let file = rig.file_of("lies", &bytes);
        for raw_len in [4999, 5001] {
            let mut blocks = BlockTable::new();
            blocks.push(CodecId::STORED, 0..5000, raw_len);
            let remote = Arc::new(Remote::new(6000));
            let read = Read::whole(file).decode(Decode::table(blocks));
            let error = rig.failure(read.into_device(remote.clone()));
            assert_eq!(error.kind(), ErrorKind::RawSize);
            assert_eq!(remote.forms(), []);
            // The same of all stored bytes, which are no block of a table.
            let decode = Decode::codec(CodecId::STORED).raw_len(u64::from(raw_len));
            let read = Read::whole(file).decode(decode).into_device(remote.clone());
            assert_eq!(rig.failure(read).kind(), ErrorKind::RawSize);
            assert_eq!(remote.forms(), []);
        }
    });
}

#[test]
fn an_error_of_a_part_names_its_block() {
    each_backend(|rig| {
        let raw = bytes(300_000);
        let (blocks, stored) = table(&raw, [CodecId::STORED; 2]);
        let file = rig.file_of("blocks", &stored);
        let (remote, parts) = Remote::answered_later(raw.len());
        let read = Read::whole(file).decode(Decode::table(blocks));
        let mut ticket = rig
            .queue
            .submit(read.into_device(remote.clone()))
            .expect("accepted");
        for _ in 0..3 {
            let part = parts.recv().expect("a part");
            match part.range().start {
                200_000 => part.finish(Err(Error::new(ErrorKind::DeviceLost, "by the test"))),
                _ => part.finish(Ok(())),
            }
        }
        let error = ticket.outcome().result.expect_err("it was refused");
        assert_eq!((error.offset(), error.len()), (200_000, 100_000));
    });
}

#[test]
fn tiles_that_do_not_fit_staging_end_as_raw_bytes() {
    let options = || {
        let mut options = StorageOptions::default();
        options.staging_bytes = 1 << 20;
        options
    };
    each_backend_with(options, |rig| {
        // Compressible tiles, then some that are stored as long as they are.
        let mut random = fastrand::Rng::with_seed(5);
        let noise: Vec<u8> = (0..300_000).map(|_| random.u8(..)).collect();
        let raw = [bytes(500_000), noise].concat();
        let file = rig.file_of("tiles", &encoded(CodecId::GDEFLATE, &raw));
        let remote = Arc::new(Again(Remote {
            decodes_gdeflate: true,
            ..Remote::new(raw.len())
        }));
        let read = Read::whole(file).decode(Decode::codec(CodecId::GDEFLATE));
        rig.run(read.into_device(remote.clone())).expect("landed");
        assert!(remote.0.holds(&raw));
        let forms = remote.0.forms();
        assert_eq!(forms.last(), Some(&PartForm::Raw));
    });
}

/// Lets parts come twice.
struct Again(Remote);

impl DeviceSink for Again {
    fn room(&self) -> u64 {
        self.0.room()
    }

    fn decodes(&self, codec: CodecId) -> bool {
        self.0.decodes(codec)
    }

    fn take(&self, part: DevicePart) {
        if part.form() == PartForm::Raw {
            let before = std::mem::take(&mut *self.0.taken.lock().expect("no panic"));
            assert!(!before.is_empty(), "tiles came first");
        }
        self.0.take(part);
    }
}

#[test]
fn a_request_ends_with_the_last_answer() {
    each_backend(|rig| {
        let raw = bytes(1_500_000);
        let file = rig.file_of("late", &raw);
        let (remote, parts) = Remote::answered_later(raw.len());
        let read = Read::whole(file).into_device(remote.clone());
        let mut ticket = rig.queue.submit(read).expect("accepted");
        let mut missing = raw.len() as u64;
        while missing > 0 {
            let part = parts.recv().expect("a part");
            assert!(ticket.try_take().is_none(), "{missing} bytes are missing");
            let range = part.range();
            missing -= range.end - range.start;
            remote.land(&part);
            part.finish(Ok(()));
        }
        ticket.wait().expect("landed");
        assert!(remote.holds(&raw));
    });
}

#[test]
fn a_device_is_supplied_once_the_raw_size_is_known() {
    each_backend(|rig| {
        let raw = bytes(300_000);
        let stored = rig.file_of("raw", &raw);
        let unknown = rig.file_of("unknown", &encoded(CodecId::ZLIB, &raw));
        let encoded = rig.file_of("encoded", &encoded(CodecId::GDEFLATE, &raw));
        let empty = rig.file_of("empty", &[]);
        let gdeflate = || Decode::codec(CodecId::GDEFLATE);
        let (blocks, bytes) = table(&raw, [CodecId::GDEFLATE, CodecId::STORED]);
        let blocks = Decode::table(blocks.trim(123, 1000));
        let trimmed = rig.file_of("trimmed", &bytes);
        for (read, raw) in [
            (Read::whole(stored), &raw[..]),
            (Read::whole(encoded).decode(gdeflate()), &raw),
            (
                Read::whole(unknown).decode(Decode::codec(CodecId::ZLIB)),
                &raw,
            ),
            (Read::whole(trimmed).decode(blocks), &raw[123..1123]),
            (Read::whole(empty), &[]),
        ] {
            let read = read.into_device_of(|len| {
                Ok(Arc::new(Remote {
                    decodes_gdeflate: true,
                    ..Remote::new(len as usize)
                }))
            });
            let sink: Arc<dyn Any + Send + Sync> = rig.run(read).expect("landed");
            let remote = sink.downcast::<Remote>().expect("what was supplied");
            assert_eq!(remote.room(), raw.len() as u64);
            assert!(remote.holds(raw));
        }
        let short = |_| Err(Error::new(ErrorKind::OutOfMemory, "by the test"));
        let error = rig.failure(Read::whole(stored).into_device_of(short));
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    });
}

#[test]
fn an_answer_may_be_an_error() {
    each_backend(|rig| {
        let raw = bytes(10_000);
        let file = rig.file_of("lost", &raw);
        let refused = |answer: fn(DevicePart)| {
            let (remote, parts) = Remote::answered_later(raw.len());
            let read = Read::whole(file).into_device(remote);
            let mut ticket = rig.queue.submit(read).expect("accepted");
            answer(parts.recv().expect("a part"));
            ticket.outcome().result.expect_err("it was refused")
        };
        let lost = |part: DevicePart| {
            part.finish(Err(Error::new(ErrorKind::DeviceLost, "by the test")));
        };
        let error = refused(lost);
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
        assert!(
            error.path().is_some_and(|path| path.ends_with("lost")),
            "{error}"
        );
        assert_eq!(refused(drop).kind(), ErrorKind::Application);
    });
}

/// A device that panics wherever it is asked.
struct Panicking(u64);

impl DeviceSink for Panicking {
    fn room(&self) -> u64 {
        match self.0 {
            0 => panic!("asked for its room"),
            room => room,
        }
    }

    fn decodes(&self, _: CodecId) -> bool {
        panic!("asked for its codecs")
    }

    fn take(&self, _: DevicePart) {
        panic!("given a part")
    }
}

#[test]
fn a_device_that_panics_or_has_no_room_fails_its_request_alone() {
    each_backend(|rig| {
        let raw = bytes(10_000);
        let file = rig.file_of("raw", &raw);
        let whole = |sink: Arc<dyn DeviceSink>| rig.failure(Read::whole(file).into_device(sink));
        let too_small = whole(Arc::new(Remote::new(raw.len() - 1)));
        assert_eq!(too_small.kind(), ErrorKind::DestinationTooSmall);
        let no_room = whole(Arc::new(Panicking(0)));
        assert_eq!(no_room.kind(), ErrorKind::DestinationTooSmall);
        let panicked = whole(Arc::new(Panicking(1 << 20)));
        assert_eq!(panicked.kind(), ErrorKind::Application);

        let stored: Arc<[u8]> = Arc::from(encoded(CodecId::GDEFLATE, &raw));
        let read = Read::memory(stored).decode(Decode::codec(CodecId::GDEFLATE));
        let sink = Arc::new(Panicking(1 << 20));
        assert_eq!(
            rig.failure(read.into_device(sink)).kind(),
            ErrorKind::Application
        );
        load(rig, Read::whole(file), &raw, true);
    });
}

#[test]
fn a_last_part_comes_behind_all_others_and_decides() {
    let refuse = || Err(Error::new(ErrorKind::DeviceLost, "it went"));
    each_backend(|rig| {
        let raw = bytes(1_500_000);
        let file = rig.file_of("raw", &raw);
        let encoded = |codec| {
            let stored: Arc<[u8]> = Arc::from(encoded(codec, &raw));
            Read::memory(stored).decode(Decode::codec(codec).raw_len(raw.len() as u64))
        };
        let all = [
            (Read::whole(file), raw.len()),
            (Read::range(file, 5, 0), 0),
            (encoded(CodecId::GDEFLATE), raw.len()),
            // Workers decode it.
            (encoded(CodecId::ZSTD), raw.len()),
        ];
        for (read, len) in all {
            let remote = Arc::new(Remote {
                decodes_gdeflate: true,
                last: Some(|| Ok(())),
                ..Remote::new(raw.len())
            });
            rig.run(read.into_device(remote.clone())).expect("landed");
            assert!(remote.holds(&raw[..len]));
            let forms = remote.forms();
            let lasts = forms.iter().filter(|form| **form == PartForm::Last);
            assert_eq!((lasts.count(), forms.last()), (1, Some(&PartForm::Last)));
        }
        let remote = Remote {
            last: Some(refuse),
            ..Remote::new(raw.len())
        };
        let error = rig.failure(Read::whole(file).into_device(Arc::new(remote)));
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
    });
}

#[test]
fn a_canceled_or_late_request_waits_for_parts_that_are_out() {
    each_backend(|rig| {
        let raw = bytes(10_000);
        let file = rig.file_of("raw", &raw);
        for timeout in [None, Some(Duration::from_millis(20))] {
            let (remote, parts) = Remote::answered_later(raw.len());
            let mut read = Read::whole(file).into_device(remote);
            if let Some(timeout) = timeout {
                read = read.timeout(timeout);
            }
            let mut ticket = rig.queue.submit(read).expect("accepted");
            let part = parts.recv().expect("a part");
            if timeout.is_none() {
                ticket.cancel();
            }
            let early = ticket
                .wait_timeout(Duration::from_millis(60))
                .expect("it can wait");
            assert!(early.is_none(), "the device still writes");
            let overdue = u64::from(timeout.is_some());
            let is_late = || rig.storage.stats().overdue == overdue;
            assert!(millstream_testing::wait_for(is_late));
            part.finish(Ok(()));
            let result = ticket.outcome().result;
            match timeout {
                None => {
                    assert!(result.is_err_and(|error| error.kind() == ErrorKind::Canceled));
                }
                // Too late, and landed all the same.
                Some(_) => {
                    assert_eq!(result.expect("landed"), raw.len() as u64);
                }
            }
        }
    });
}
