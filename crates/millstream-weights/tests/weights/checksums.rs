//! Checksums: reads that are compared with them, and files of checksums that lie.

use std::ops::ControlFlow;
use std::path::PathBuf;

use fastrand::Rng;
use millstream::{Error, ErrorKind, Queue, QueueOptions, Storage, StorageOptions};
use millstream_weights::{Checksums, Model};

use crate::files::{noise, safetensors_file};

const MIB: u64 = 1 << 20;

struct Rig {
    folder: tempfile::TempDir,
    storage: Storage,
    queue: Queue,
}

impl Rig {
    /// With a model of three tensors, which begin and end inside of blocks.
    fn new(random: &mut Rng) -> Rig {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let folder = tempfile::tempdir().expect("a folder");
        let lens = [MIB * 5 / 2, 1000, MIB + 7];
        let tensor = |(nth, len): (usize, &u64)| {
            let name = format!("t{nth}");
            (name, "U8", vec![*len], noise(random, *len))
        };
        let tensors: Vec<_> = lens.iter().enumerate().map(tensor).collect();
        let rig = Rig {
            folder,
            storage,
            queue,
        };
        std::fs::write(rig.path("m.safetensors"), safetensors_file(&tensors)).expect("written");
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> Model {
        Model::open(&self.storage, self.path("m.safetensors")).expect("a model")
    }

    fn hash(&self) -> Checksums {
        let hashed = self.open().hash(&self.queue, &mut |_| true);
        hashed.expect("read").expect("not ended")
    }

    fn load(&self, checksums: &Checksums) -> Result<(), Error> {
        let mut model = self.open();
        model.check(checksums)?;
        let names = ["t0", "t1", "t2"];
        let loaded = model.load(&self.queue, names)?;
        let plain = self.open().load(&self.queue, names)?;
        assert!(names.iter().all(|name| loaded.get(name) == plain.get(name)));
        let whole = model.file_reads().expect("not too long");
        let reads = &mut |_: &_, _| ControlFlow::Continue(());
        model.read(&self.queue, &whole, reads)
    }
}

#[test]
fn an_intact_model_matches_its_checksums_and_a_damaged_one_is_refused_with_the_offset() {
    let mut random = millstream_testing::random();
    let rig = Rig::new(&mut random);
    let checksums = rig.hash();
    let again = Checksums::parse(&checksums.to_bytes()).expect("it is intact");
    assert_eq!(checksums, again);
    rig.load(&checksums).expect("it matches");
    let path = rig.path("m.safetensors");
    let good = std::fs::read(&path).expect("read");
    // The header ends within the first bytes, and a damaged one may be refused itself.
    let data = good.len() as u64 - (MIB * 5 / 2 + 1000 + MIB + 7);
    for _ in 0..40 {
        let at = random.u64(data..good.len() as u64);
        let mut bad = good.clone();
        bad[at as usize] ^= 1 << random.u8(..8);
        std::fs::write(&path, &bad).expect("written");
        let error = rig.load(&checksums).expect_err("it is damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.path(), Some(&*path));
        assert_eq!(error.offset(), at - at % MIB, "{error}");
        let found = rig.hash();
        let error = rig.open().compare(&found, &checksums);
        assert_eq!(error.expect_err("it differs").kind(), ErrorKind::Corrupt);
    }
    std::fs::write(&path, &good).expect("written");
    let same = rig.open().compare(&rig.hash(), &checksums);
    same.expect("the same");
}

#[test]
fn any_range_of_a_file_is_read_and_none_past_its_end() {
    let mut random = millstream_testing::random();
    let rig = Rig::new(&mut random);
    let (model, checksums) = (rig.open(), rig.hash());
    let file = &model.files()[0];
    let whole = std::fs::read(&file.path).expect("read");
    let checks = checksums.file(&file.path, file.bytes).expect("its own");
    for _ in 0..200 {
        let offset = random.u64(..=file.bytes);
        let len = random.u64(..=file.bytes - offset) / random.u64(1..2000);
        let request = checks.request(file.id, offset, len);
        let read = rig.queue.submit(request).expect("submitted").wait();
        let range = offset as usize..(offset + len) as usize;
        assert!(read.expect("read")[..] == whole[range], "{offset}, {len}");
    }
    for (offset, len) in [
        (file.bytes, 1),
        (file.bytes - 1, 2),
        (file.bytes + MIB, 5),
        (u64::MAX, 1),
        (0, u64::MAX),
        (3, u64::MAX - 3),
    ] {
        let ticket = rig.queue.submit(checks.request(file.id, offset, len));
        let refused = ticket.and_then(|mut ticket| ticket.wait());
        assert!(refused.is_err(), "{offset}, {len}");
    }
}

#[test]
fn checksums_of_another_model_are_refused() {
    let mut random = millstream_testing::random();
    let rig = Rig::new(&mut random);
    let checksums = rig.hash();
    let path = rig.path("m.safetensors");
    let other = rig.path("other.safetensors");
    std::fs::rename(&path, &other).expect("renamed");
    let mut model = Model::open(&rig.storage, &other).expect("a model");
    let error = model.check(&checksums).expect_err("another name");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.path(), Some(&*other));
    let file = safetensors_file(&[(String::from("t"), "U8", vec![9], vec![1; 9])]);
    std::fs::write(&path, file).expect("written");
    let error = rig.load(&checksums).expect_err("another length");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.path(), Some(&*path));
}

/// Replaces the root of a file of checksums by the right one.
fn with_root(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len() - 32;
    let root = blake3::hash(&bytes[..body]);
    bytes[body..].copy_from_slice(root.as_bytes());
    bytes
}

#[test]
fn a_file_of_checksums_that_lies_is_refused() {
    let mut random = millstream_testing::random();
    let rig = Rig::new(&mut random);
    let mut signed = rig.hash();
    signed.signature = Some(([1; 32], [2; 64]));
    assert_eq!(
        Checksums::parse(&signed.to_bytes()).expect("intact"),
        signed
    );
    let good = rig.hash().to_bytes();
    for end in 0..good.len() {
        Checksums::parse(&good[..end]).expect_err("it is truncated");
        let mut bad = good.clone();
        bad[end] ^= 1 << random.u8(..8);
        Checksums::parse(&bad).expect_err("a bit is wrong");
    }
    let path = rig.path("sums");
    std::fs::write(&path, &good[..good.len() - 1]).expect("written");
    let error = Checksums::read(&path).expect_err("truncated");
    assert_eq!(error.path(), Some(&*path));
    assert!(error.offset() > 0, "{error}");
    let fifo = rig.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|made| made.success()) {
        Checksums::read(&fifo).expect_err("a FIFO without a writer");
    }
    let missing = Checksums::read(&rig.path("missing")).expect_err("missing");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    // With the right root every field can lie; then it contradicts others, or the model.
    for nth in 0..2000 {
        let mut bad = good.clone();
        let at = random.usize(..good.len() - 32);
        match nth % 3 {
            0 => bad[at] = random.u8(..),
            1 => bad[at..].fill(0xff),
            _ => drop(bad.drain(at..(at + 9).min(good.len() - 32))),
        }
        if bad == good {
            continue;
        }
        let Ok(lies) = Checksums::parse(&with_root(bad)) else {
            continue;
        };
        // The BLAKE3 is compared apart.
        let differs = rig.open().compare(&rig.hash(), &lies).is_err();
        assert!(differs || rig.load(&lies).is_err(), "a lie about byte {at}");
    }
    let mut huge = good[..12].to_vec();
    huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    Checksums::parse(&huge).expect_err("more files than a model has");
    huge[8..12].copy_from_slice(&1u32.to_le_bytes());
    huge.extend(u64::MAX.to_le_bytes());
    huge.extend([0; 36]);
    huge.extend([0; 64]);
    Checksums::parse(&huge).expect_err("more blocks than there are");
}

#[test]
fn hashing_ends_when_it_is_told_to() {
    let mut random = millstream_testing::random();
    let rig = Rig::new(&mut random);
    let ended = rig.open().hash(&rig.queue, &mut |_| false);
    assert_eq!(ended.expect("read"), None);
}
