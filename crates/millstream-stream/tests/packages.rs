//! Entries of real packages as streams: every codec, and seeks that read only what they lead to.

mod support;

use std::path::Path;
use std::sync::Arc;

use millstream::{CodecId, QueueOptions, Storage, StorageOptions};
use millstream_pak::{Coding, Item, PackOptions, Package, write_file};
use millstream_source::Source;
use millstream_stream::blob;
use millstream_stream::limits::FILE_BUFFER_BYTES;
use millstream_stream::{
    ErrorKind, Mode, ReadStream, ReadTyped, Stream, StreamView, Streams, WriteTyped,
};
use support::{Scene, assert_same, scene, walk};

/// All that packages use.
const CODECS: [CodecId; 5] = [
    CodecId::STORED,
    CodecId::ZLIB,
    CodecId::ZSTD,
    CodecId::LZ4_BLOCK,
    CodecId::GDEFLATE,
];

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
    for codec in CODECS {
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

#[test]
fn a_blob_is_used_where_a_package_or_a_request_put_it() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let source = scene(3);
    let bytes = blob::build::<Scene, _>(&source).unwrap();
    for codec in [CodecId::STORED, CodecId::LZ4_BLOCK] {
        let (_, package) = packed(&storage, Coding::Fixed(codec), &[("scene", &bytes)]);
        let queue = storage.queue(QueueOptions::default()).unwrap();
        let found = package.lookup(b"scene").unwrap().unwrap();
        let request = package.request(found.index).unwrap();
        let buffer = queue.submit(request).unwrap().wait().unwrap();
        let seen = blob::view::<Scene>(&buffer).unwrap();
        assert_same(&seen.root, &source.root);
        let built = blob::view::<Scene>(&bytes).unwrap();
        assert_eq!(walk(&seen.root), walk(&built.root));
        let inside = std::ptr::from_ref(seen).addr();
        assert!(buffer.as_ptr_range().contains(&(inside as *const u8)));
        // Another layout in the same place is refused.
        let refused = blob::view::<u64>(&buffer);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Schema);
    }
}
