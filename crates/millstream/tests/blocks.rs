//! Tables of blocks: ranges that begin and end within blocks, checksums of stored bytes, and blocks
//! that lie in another file.

mod support;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use millstream::{BlockEntry, CodecId, Error, ErrorKind, Landed, OtherBytes, Request};
use support::{Bench, each_backend};

const BLOCK_BYTES: usize = 100_000;

/// A file of blocks in several codecs, each with its checksum.
fn table_of(raw: &[u8]) -> (Vec<u8>, Vec<BlockEntry>) {
    let kinds = [CodecId::ZLIB, CodecId::STORED, CodecId::LZ4_BLOCK];
    let (mut stored, mut blocks) = (vec![0xee; 13], Vec::new());
    for (index, piece) in raw.chunks(BLOCK_BYTES).enumerate() {
        let codec = kinds[index % kinds.len()];
        let bytes = support::encoded(codec, piece);
        blocks.push(BlockEntry {
            stored_offset: stored.len() as u64,
            stored_len: u32::try_from(bytes.len()).expect("small"),
            raw_len: u32::try_from(piece.len()).expect("small"),
            codec,
            checksum: Some(xxhash_rust::xxh3::xxh3_64(&bytes)),
            elsewhere: false,
            dictionary: 0,
        });
        stored.extend(bytes);
    }
    (stored, blocks)
}

fn landed_bytes(landed: Landed) -> Vec<u8> {
    match landed {
        Landed::Buffer(buffer) => buffer.to_vec(),
        Landed::Pieces(pieces) => pieces.iter().flat_map(|piece| piece.to_vec()).collect(),
        Landed::Landing(memory) => *(memory as Box<dyn Any>).downcast().expect("a vector"),
        other => panic!("nothing landed: {other:?}"),
    }
}

fn failure(bench: &Bench, request: Request) -> Error {
    let ticket = bench.queue().enqueue(request).expect("enqueued");
    ticket.wait().expect_err("must fail").error
}

/// Whatever the destination, the range lands, and nothing else.
#[test]
fn a_trimmed_table_lands_just_the_range() {
    each_backend(|bench| {
        let raw = bench.bytes(1_234_567);
        let (stored, blocks) = table_of(&raw);
        let file = bench.file_of("trimmed", &stored);
        let queue = bench.queue();
        let table: Arc<[_]> = blocks.into();
        let request = || Request::read_file(file).blocks(Arc::clone(&table));
        let ranges = [
            (0, 0),
            (0, 1),
            (99_999, 2),
            (5, 1_234_560),
            (1_234_567, 0),
            (0, 1_234_567),
        ];
        for (skip, take) in ranges {
            let want = &raw[skip..skip + take];
            let trimmed = || request().trim(skip as u64, take as u64);
            let buffer = |bytes: usize| bench.storage.buffer(bytes).expect("memory");
            let half = take / 2;
            let requests = [
                trimmed(),
                trimmed().into_buffer(buffer(raw.len())),
                trimmed().into_buffer(buffer(take)),
                trimmed().into_pieces(vec![buffer(half), buffer(take - half)]),
                trimmed().into_landing(Box::new(vec![0u8; take])),
                trimmed().into_supplied(Box::new(move |asked| {
                    (asked == take).then(|| Box::new(vec![0u8; asked]) as Box<_>)
                })),
            ];
            for (nth, request) in requests.into_iter().enumerate() {
                let done = queue.enqueue(request).expect("enqueued").wait();
                let done = done.unwrap_or_else(|failed| panic!("{skip}+{take}, {nth}: {failed}"));
                let landed = landed_bytes(done.landed);
                assert!(landed == want, "{skip}+{take}, destination {nth}");
            }
        }
        let past = failure(bench, request().trim(1, 1_234_567));
        assert_eq!(past.kind(), ErrorKind::PastEnd);
        let overflow = failure(bench, request().trim(u64::MAX, 2));
        assert_eq!(overflow.kind(), ErrorKind::PastEnd);
        let no_table = failure(bench, Request::read_file(file).trim(0, 1));
        assert_eq!(no_table.kind(), ErrorKind::InvalidArgument);
        let too_small = request().trim(3, 100).into_landing(Box::new(vec![0u8; 99]));
        assert_eq!(
            failure(bench, too_small).kind(),
            ErrorKind::DestinationTooSmall
        );
    });
}

/// A changed stored byte is found before the block is decoded, and the error names the block.
#[test]
fn a_block_whose_checksum_does_not_match_fails_with_its_place() {
    each_backend(|bench| {
        let raw = bench.bytes(400_000);
        let (mut stored, blocks) = table_of(&raw);
        let bad = blocks[1];
        stored[bad.stored_offset as usize + 77] ^= 1;
        let file = bench.file_of("damaged", &stored);
        let table: Arc<[_]> = blocks.into();
        let error = failure(bench, Request::read_file(file).blocks(Arc::clone(&table)));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.offset(), bad.stored_offset, "{error}");
        assert_eq!(error.len(), u64::from(bad.stored_len), "{error}");
        assert!(
            error.path().is_some_and(|path| path.ends_with("damaged")),
            "{error}"
        );
        assert!(error.cause().contains("checksum"), "{error}");
    });
}

/// Stored bytes in memory that stand for another file.
struct Base(Vec<u8>);

impl OtherBytes for Base {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start
            .checked_add(into.len())
            .and_then(|end| self.0.get(start..end));
        let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::PastEnd, "the base is shorter"))?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn path(&self) -> Option<Arc<Path>> {
        Some(Arc::from(Path::new("base")))
    }
}

/// Blocks of two files make one request.
#[test]
fn blocks_that_lie_elsewhere_are_read_there() {
    each_backend(|bench| {
        let raw = bench.bytes(950_000);
        let (base, mut blocks) = table_of(&raw);
        let mut own = vec![0xdd; 40];
        for block in &mut blocks {
            block.elsewhere = true;
        }
        for nth in [0, 4, 5] {
            let block = &mut blocks[nth];
            let start = block.stored_offset as usize;
            block.stored_offset = own.len() as u64;
            block.elsewhere = false;
            own.extend_from_slice(&base[start..start + block.stored_len as usize]);
        }
        let file = bench.file_of("patch", &own);
        let queue = bench.queue();
        let request = |blocks: &[BlockEntry], base: &[u8]| {
            let request = Request::read_file(file).blocks(Arc::from(blocks));
            request.other_bytes(Arc::new(Base(base.to_vec())))
        };
        let whole = queue.enqueue(request(&blocks, &base)).expect("enqueued");
        assert!(*whole.wait().expect("read").into_buffer() == raw[..]);
        let part = request(&blocks, &base).trim(250_000, 600_000);
        let part = queue.enqueue(part).expect("enqueued").wait().expect("read");
        assert!(*part.into_buffer() == raw[250_000..850_000]);

        let mut damaged = base.clone();
        damaged[blocks[2].stored_offset as usize] ^= 0x80;
        let error = failure(bench, request(&blocks, &damaged));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.path(), Some(Path::new("base")), "{error}");
        assert_eq!(error.offset(), blocks[2].stored_offset, "{error}");
        let error = failure(bench, request(&blocks, &base[..100]));
        assert_eq!(error.kind(), ErrorKind::PastEnd, "{error}");
        let nowhere = Request::read_file(file).blocks(Arc::from(&blocks[..]));
        assert_eq!(failure(bench, nowhere).kind(), ErrorKind::InvalidArgument);
        blocks[1].stored_len = u32::MAX;
        let long = failure(bench, request(&blocks, &base));
        assert_eq!(long.kind(), ErrorKind::InvalidArgument);
    });
}

/// Blocks of short texts with two dictionaries between them; and what names a wrong one.
#[test]
fn blocks_decode_with_the_dictionary_that_they_name() {
    use millstream::Dictionary;
    use millstream_codec::{DictionaryEncoder, Scratch, encode_block_with, train_dictionary};
    if millstream_codec::block_level_range(CodecId::ZSTD).is_empty() {
        println!("SKIP: this build cannot encode zstd");
        return;
    }
    let text = |nth: usize| format!("<item number=\"{nth}\" of=\"{}\"/>\n", nth * 31 % 977);
    let texts: Vec<String> = (0..6000).map(text).collect();
    let lens: Vec<usize> = texts.iter().map(String::len).collect();
    let all = texts.concat();
    let trained = |bytes| train_dictionary(all.as_bytes(), &lens, bytes).expect("trained");
    let bytes = [trained(2048), trained(8192)];
    let ready = |bytes: &Vec<u8>| Dictionary::new(bytes).expect("a dictionary");
    let dictionaries: Arc<[Dictionary]> = bytes.iter().map(ready).collect();
    let (mut stored, mut blocks) = (Vec::new(), Vec::new());
    for (nth, piece) in all.as_bytes().chunks(20_000).enumerate() {
        let encoder = DictionaryEncoder::new(&bytes[nth % 2], 3).expect("an encoder");
        let at = stored.len();
        let mut scratch = Scratch::default();
        encode_block_with(&encoder, &mut scratch, piece, &mut stored).expect("encoded");
        blocks.push(BlockEntry {
            stored_offset: at as u64,
            stored_len: u32::try_from(stored.len() - at).expect("small"),
            raw_len: u32::try_from(piece.len()).expect("small"),
            codec: CodecId::ZSTD,
            checksum: Some(xxhash_rust::xxh3::xxh3_64(&stored[at..])),
            elsewhere: false,
            dictionary: 1 + nth as u16 % 2,
        });
    }
    each_backend(|bench| {
        let file = bench.file_of("texts", &stored);
        let queue = bench.queue();
        let request = |blocks: &[BlockEntry]| {
            let request = Request::read_file(file).blocks(Arc::from(blocks));
            request.dictionaries(Arc::clone(&dictionaries))
        };
        let done = queue.enqueue(request(&blocks)).expect("enqueued").wait();
        assert!(*done.expect("decoded").into_buffer() == *all.as_bytes());

        let mut wrong = blocks.clone();
        wrong[1].dictionary = 1;
        assert_eq!(failure(bench, request(&wrong)).kind(), ErrorKind::Corrupt);
        wrong[1].dictionary = 0;
        let error = failure(bench, request(&wrong));
        assert!(error.to_string().contains("dictionary"), "{error}");
        wrong[1].dictionary = 3;
        let error = failure(bench, request(&wrong));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let without = Request::read_file(file).blocks(Arc::from(&blocks[..]));
        assert_eq!(failure(bench, without).kind(), ErrorKind::InvalidArgument);
    });
}
