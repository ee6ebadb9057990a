//! Entries of real packages as streams: every codec, and seeks that read only what they lead to;
//! and as data of rkyv, used in the buffer of the request.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::{CodecId, QueueOptions, Read, Storage, StorageOptions};
use millstream_pak::{Coding, Item, PackOptions, Package, write_file};
use millstream_source::{Located, Source};
use millstream_stream::limits::FILE_BUFFER_BYTES;
use millstream_stream::{
    ErrorKind, Mode, ReadStream, ReadTyped, Stream, StreamView, Streams, WriteTyped,
};

/// Words that tell their place, with some order for codecs to find.
fn content(len: usize) -> Vec<u8> {
    let word = |index: usize| (index as u32).wrapping_mul(0x9E37_79B9) & 0x00FF_0FFF;
    let words = (0..len.div_ceil(4)).flat_map(|index| word(index).to_le_bytes());
    words.take(len).collect()
}

fn packed(
    storage: &Storage,
    coding: Coding,
    entries: &[(&str, &[u8])],
) -> (Arc<dyn Source>, Package) {
    // Removed at the end of this function; the package stays open.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.mpak");
    let item = |(name, bytes): &(&str, &[u8])| Item::from_bytes(*name, bytes.to_vec());
    let options = PackOptions {
        coding,
        ..PackOptions::default()
    };
    write_file(entries.iter().map(item).collect(), &options, &path).unwrap();
    let package = Package::open(storage, &path).unwrap();
    (Arc::new(package.clone()), package)
}

#[test]
fn every_codec_is_read_sought_and_viewed_as_the_bytes_that_were_packed() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let streams = Streams::new(&storage).unwrap();
    let bytes = content(5 * FILE_BUFFER_BYTES + 1234);
    let seed = 11;
    for codec in CodecId::ALL {
        let coding = Coding::Fixed(codec);
        let (source, _) = packed(&storage, coding, &[("a", &bytes), ("empty", b"")]);
        let open = |name: &[u8]| streams.open_entry(&source, name).unwrap();
        let mut stream = open(b"a");
        assert_eq!(stream.len().unwrap(), bytes.len() as u64);
        let mut whole = vec![0; bytes.len()];
        stream.read_slice(&mut whole).unwrap();
        assert!(whole == bytes, "{codec:?}");
        let error = stream.read_u8().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PastEnd);
        assert_eq!((error.position(), error.len()), (bytes.len() as u64, 1));
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..40 {
            let at = random.usize(..bytes.len() - 8);
            stream.seek_to(at as u64).unwrap();
            let expected = u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
            let context = format!("{codec:?} at {at}, seed {seed}");
            assert_eq!(stream.read_u64_le().unwrap(), expected, "{context}");
        }
        let begin = FILE_BUFFER_BYTES as u64 - 3;
        let mut view = StreamView::new(&mut stream, begin, 8, Mode::Read).unwrap();
        let expected = *bytes[begin as usize..].first_chunk().unwrap();
        assert_eq!(view.read_u64_le().unwrap(), u64::from_le_bytes(expected));
        assert_eq!(view.read_u8().unwrap_err().kind(), ErrorKind::PastEnd);
        let error = open(b"empty").read_u8().unwrap_err();
        assert_eq!((error.kind(), error.position()), (ErrorKind::PastEnd, 0));
        let missing = streams.open_entry(&source, b"none");
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

/// A source whose entries are decoded from their start on; counts requests.
struct FromStart(Arc<dyn Source>, AtomicUsize);

impl Source for FromStart {
    fn find(&self, name: &[u8]) -> Result<Option<Located>, millstream::Error> {
        self.0.find(name)
    }

    fn request_range(
        &self,
        entry: &Located,
        offset: u64,
        len: u64,
    ) -> Result<Read, millstream::Error> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.request_range(entry, offset, len)
    }

    fn metadata(&self, entry: &Located) -> Result<Option<&[u8]>, millstream::Error> {
        self.0.metadata(entry)
    }

    fn is_read_whole(&self, _: &Located) -> bool {
        true
    }
}

#[test]
fn an_entry_that_is_decoded_from_its_start_on_is_requested_once() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let streams = Streams::new(&storage).unwrap();
    let bytes = content(9 * FILE_BUFFER_BYTES + 77);
    let coding = Coding::Fixed(CodecId::ZSTD);
    let (packed, _) = packed(&storage, coding, &[("a", &bytes), ("empty", b"")]);
    let source = Arc::new(FromStart(packed, AtomicUsize::new(0)));
    let shared: Arc<dyn Source> = Arc::clone(&source) as _;
    let mut stream = streams.open_entry(&shared, b"a").unwrap();
    let mut read = vec![0; bytes.len()];
    for part in read.chunks_mut(10_000) {
        stream.read_exact(part).unwrap();
    }
    assert_eq!(read, bytes);
    stream.seek_to(5 * FILE_BUFFER_BYTES as u64).unwrap();
    assert_eq!(stream.read_u8().unwrap(), bytes[5 * FILE_BUFFER_BYTES]);
    assert_eq!(source.1.load(Ordering::Relaxed), 1);
    let mut empty = streams.open_entry(&shared, b"empty").unwrap();
    assert_eq!(empty.read_u8().unwrap_err().kind(), ErrorKind::PastEnd);
}

#[test]
fn an_entry_is_read_only_and_ends_with_its_stream() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let coding = Coding::Fixed(CodecId::LZ4_BLOCK);
    let bytes = content(1000);
    let (source, _) = packed(&storage, coding, &[("a", &bytes)]);
    let streams = Streams::new(&storage).unwrap();
    let mut stream = streams.open_entry(&source, b"a").unwrap();
    assert_eq!((stream.mode(), stream.path()), (Mode::Read, Path::new("a")));
    assert_eq!(stream.write_u8(1).unwrap_err().kind(), ErrorKind::WrongMode);
    stream.sync().unwrap();
    stream.seek_to(2000).unwrap();
    let error = stream.read_u8().unwrap_err();
    assert_eq!((error.kind(), error.position()), (ErrorKind::PastEnd, 2000));
    stream.seek_to(4).unwrap();
    assert_eq!(stream.window().unwrap(), &bytes[4..]);
    stream.close().unwrap();
    assert_eq!(stream.read_u8().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_seek_decodes_what_it_leads_to_and_nothing_before_it() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let streams = Streams::new(&storage).unwrap();
    let bytes = content(64 * FILE_BUFFER_BYTES);
    for codec in [CodecId::ZSTD, CodecId::GDEFLATE, CodecId::STORED] {
        let (source, _) = packed(&storage, Coding::Fixed(codec), &[("a", &bytes)]);
        let mut stream = streams.open_entry(&source, b"a").unwrap();
        let before = storage.stats();
        let at = bytes.len() - 100;
        stream.seek_to(at as u64).unwrap();
        let expected = u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        assert_eq!(stream.read_u32_le().unwrap(), expected);
        let after = storage.stats();
        let stored = after.stored_bytes - before.stored_bytes;
        let raw = after.raw_bytes - before.raw_bytes;
        assert!(raw > 0, "the seek went through the engine");
        // Blocks are verified, so they are read whole: up to a MiB.
        assert!(
            stored <= 1 << 20 && raw <= 2 * FILE_BUFFER_BYTES as u64,
            "{codec:?}: {stored} stored bytes, {raw} raw ones"
        );
    }
}

#[derive(rkyv::Archive, rkyv::Serialize)]
struct Node {
    name: String,
    weights: Vec<f32>,
    target: Option<u64>,
}

fn nodes() -> Vec<Node> {
    let node = |index: u32| Node {
        name: format!("node {index}"),
        weights: (0..index % 5).map(|weight| weight as f32).collect(),
        target: index.is_multiple_of(3).then_some(u64::from(index) << 32),
    };
    (0..40).map(node).collect()
}

type ArchivedNodes = rkyv::Archived<Vec<Node>>;

fn access(bytes: &[u8]) -> Result<&ArchivedNodes, rkyv::rancor::Error> {
    rkyv::access(bytes)
}

#[test]
fn rkyv_uses_the_buffer_of_a_request_in_place() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let expected = nodes();
    let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&expected).unwrap();
    for codec in [CodecId::STORED, CodecId::LZ4_BLOCK] {
        let (_, package) = packed(&storage, Coding::Fixed(codec), &[("nodes", &bytes)]);
        let queue = storage.queue(QueueOptions::default()).unwrap();
        let found = package.lookup(b"nodes").unwrap().unwrap();
        let request = package.request(found.index).unwrap();
        let buffer = queue.submit(request).unwrap().wait().unwrap();
        let seen = access(&buffer).unwrap();
        assert_eq!(seen.len(), expected.len());
        for (seen, node) in seen.iter().zip(&expected) {
            assert_eq!(seen.name, node.name);
            assert!(seen.weights.iter().eq(node.weights.iter()));
            assert_eq!(seen.target.as_ref().map(|it| it.to_native()), node.target);
        }
        let inside = std::ptr::from_ref(&seen[0]).addr();
        assert!(buffer.as_ptr_range().contains(&(inside as *const u8)));
    }
}

#[test]
fn damaged_data_of_rkyv_is_an_error_or_leads_nowhere_outside() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let queue = storage.queue(QueueOptions::default()).unwrap();
    let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&nodes()).unwrap();
    // Every way in which a byte of a relative pointer, a length or a name may be wrong.
    let mut refused = 0;
    for (at, value) in (0..bytes.len()).flat_map(|at| [0, 0x7F, 0xFF].map(|value| (at, value))) {
        let mut damaged = bytes.to_vec();
        damaged[at] = value;
        let request = Read::memory(damaged.into());
        let buffer = queue.submit(request).unwrap().wait().unwrap();
        match access(&buffer) {
            Ok(nodes) => {
                let within = |bytes: &[u8]| {
                    let (all, part) = (buffer.as_ptr_range(), bytes.as_ptr_range());
                    bytes.is_empty() || (all.start <= part.start && part.end <= all.end)
                };
                assert!(nodes.iter().all(|node| within(node.name.as_bytes())));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > bytes.len() / 2, "{refused} of {}", bytes.len());
}
