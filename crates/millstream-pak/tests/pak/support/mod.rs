//! Folders of generated entries, and packages of them.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::PathBuf;

use millstream::{CodecId, Queue, QueueOptions, Storage, StorageOptions};
use millstream_pak::metadata::{Audio, Container, Image, Kind};
use millstream_pak::{Coding, Item, Metadata, PackOptions, Package, write_file};

pub(crate) struct Bench {
    pub(crate) storage: Storage,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let folder = tempfile::tempdir().expect("a folder");
        Bench { storage, folder }
    }

    pub(crate) fn queue(&self) -> Queue {
        self.storage
            .queue(QueueOptions::default())
            .expect("a queue")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn pack(
        &self,
        name: &str,
        entries: &[(String, Vec<u8>)],
        coding: Coding,
    ) -> PathBuf {
        let options = PackOptions {
            coding,
            ..PackOptions::default()
        };
        let path = self.path(name);
        write_file(items(entries), &options, &path).expect("packed");
        path
    }

    pub(crate) fn open(&self, path: &PathBuf) -> Package {
        Package::open(&self.storage, path).expect("a package")
    }

    pub(crate) fn load(&self, package: &Package, name: &str) -> Result<Vec<u8>, String> {
        let found = package
            .lookup(name.as_bytes())
            .map_err(|error| error.to_string())?;
        let found = found.ok_or_else(|| format!("{name} is missing"))?;
        let request = package
            .request(found.index)
            .map_err(|error| error.to_string())?;
        let queue = self.queue();
        let loaded = queue.submit(request).and_then(|mut ticket| ticket.wait());
        let loaded = loaded.map_err(|error| error.to_string())?;
        Ok(loaded.to_vec())
    }
}

pub(crate) fn items(entries: &[(String, Vec<u8>)]) -> Vec<Item> {
    let item = |(name, bytes): &(String, Vec<u8>)| Item::from_bytes(name.as_str(), bytes.clone());
    entries.iter().map(item).collect()
}

/// What an application says of a WAVE file.
pub(crate) fn sound() -> Metadata {
    let mut record = Metadata::new(Kind::AUDIO);
    record.audio = Some(Audio {
        rate_hz: 44_100,
        channels: 2,
        bits: 16,
        frames: 64,
        offset: 44,
        container: Container::WAV,
        codec: 1,
    });
    record
}

/// A package whose names and metadata take several pages each, and those of its entries.
pub(crate) fn many_names(bench: &Bench) -> (PathBuf, Vec<(Vec<u8>, Metadata)>) {
    let entry = |nth: u32| {
        let name = format!("textures/region-{:02}/tile-{nth:05}.ktx2", nth % 61);
        let mut record = Metadata::new(Kind::IMAGE);
        record.image = Some(Image {
            width: 1 + nth % 4096,
            height: 1024,
            ..Image::default()
        });
        (name.into_bytes(), record)
    };
    let entries: Vec<_> = (0..6000).map(entry).collect();
    let item = |(name, record): &(Vec<u8>, Metadata)| {
        Item::from_bytes(name.clone(), name.clone()).metadata(record.clone())
    };
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::STORED),
        ..PackOptions::default()
    };
    let path = bench.path("many.mpak");
    write_file(entries.iter().map(item).collect(), &options, &path).expect("packed");
    (path, entries)
}

/// Words from a small vocabulary: they shrink to a half or so.
pub(crate) fn words(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let vocabulary: Vec<[u8; 6]> = (0..512)
        .map(|_| random.u64(..).to_le_bytes()[..6].try_into().expect("six"))
        .collect();
    let mut out = Vec::with_capacity(len + 6);
    while out.len() < len {
        out.extend_from_slice(&vocabulary[random.usize(0..512)]);
    }
    out.truncate(len);
    out
}

pub(crate) fn noise(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.u8(..)).collect()
}

/// Entries of all sizes that the format tells apart, some of them the same, some noise.
pub(crate) fn entries(seed: u64) -> Vec<(String, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let sizes = [
        0, 1, 15, 16, 4095, 4096, 4097, 32_767, 32_768, 65_535, 65_536, 65_537, 262_143, 262_144,
        262_145, 1_000_001,
    ];
    let mut entries = Vec::new();
    for size in sizes {
        entries.push((format!("words/{size}"), words(&mut random, size)));
        entries.push((format!("noise/{size}"), noise(&mut random, size)));
    }
    for nth in 0..300 {
        let size = random.usize(1..2000);
        entries.push((
            format!("small/{}/{nth}.txt", nth % 7),
            words(&mut random, size),
        ));
    }
    let same = entries[20].1.clone();
    entries.push((String::from("again/a"), same.clone()));
    entries.push((String::from("again/b"), same));
    let small = entries[200].1.clone();
    entries.push((String::from("again/small"), small));
    entries.push((String::from("ü/日本 語"), vec![7; 100_000]));
    entries
}

pub(crate) fn codings() -> Vec<Coding> {
    let mut codings = vec![Coding::Auto(Default::default())];
    let encodes = |&codec: &CodecId| !millstream_codec::block_level_range(codec).is_empty();
    codings.extend(CodecId::ALL.into_iter().filter(encodes).map(Coding::Fixed));
    codings
}
