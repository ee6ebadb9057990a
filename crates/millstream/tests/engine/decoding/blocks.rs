//! Tables of blocks: ranges that begin and end within blocks, checksums of stored bytes, and
//! external blocks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millstream::{
    Access, BlockSource, BlockTable, Buffer, CodecId, Decode, Error, ErrorKind, FileOptions,
    QueueOptions, Read, Storage, StorageOptions,
};
use millstream_io::fs::DirectAlignment;
use millstream_sim::{Sim, SimFileOptions, SimOptions};

use crate::decoding::rig::{Rig, bytes, each_backend, each_backend_with, encoded};
use crate::support::{landed, noise, over_sim};

const BLOCK_BYTES: usize = 100_000;

/// One block of a table to be.
#[derive(Clone)]
struct Block {
    codec: CodecId,
    stored: Range<u64>,
    raw_len: u32,
    checksum: Option<u64>,
    external: bool,
}

fn table_of(blocks: &[Block]) -> BlockTable {
    let mut table = BlockTable::new();
    for block in blocks {
        table.push(block.codec, block.stored.clone(), block.raw_len);
        if let Some(checksum) = block.checksum {
            table.checksum(checksum);
        }
        if block.external {
            table.external_block();
        }
    }
    table
}

/// Appends a stored block to `stored`.
fn append(stored: &mut Vec<u8>, codec: CodecId, bytes: &[u8], raw_len: usize) -> Block {
    let start = stored.len() as u64;
    stored.extend_from_slice(bytes);
    Block {
        codec,
        stored: start..stored.len() as u64,
        raw_len: u32::try_from(raw_len).expect("small"),
        checksum: Some(xxhash_rust::xxh3::xxh3_64(bytes)),
        external: false,
    }
}

/// A file of blocks in several codecs, each with its checksum, and `gap` bytes between them.
fn blocks_of(raw: &[u8], kinds: &[CodecId], gap: usize) -> (Vec<u8>, Vec<Block>) {
    let (mut stored, mut blocks) = (vec![0xee; 13], Vec::new());
    for (piece, &codec) in raw.chunks(BLOCK_BYTES).zip(kinds.iter().cycle()) {
        blocks.push(append(
            &mut stored,
            codec,
            &encoded(codec, piece),
            piece.len(),
        ));
        stored.resize(stored.len() + gap, 0xee);
    }
    (stored, blocks)
}

const KINDS: [CodecId; 3] = [CodecId::ZLIB, CodecId::STORED, CodecId::LZ4_BLOCK];

fn whole(file: millstream::FileId, table: BlockTable) -> Read {
    Read::whole(file).decode(Decode::table(table))
}

#[test]
fn a_table_decodes_each_block_with_its_own_codec() {
    each_backend(|rig| {
        let raw = bytes(5_000_000);
        let kinds = [&KINDS[..], &[CodecId::ZSTD]].concat();
        let (stored, mut blocks) = blocks_of(&raw, &kinds, 5);
        for block in &mut blocks {
            block.checksum = None;
        }
        let table = Arc::new(table_of(&blocks));
        assert_eq!(table.raw_len(), raw.len() as u64);
        let file = rig.file_of("blocks", &stored);
        let decode = || Decode::table(Arc::clone(&table));
        let from_file = rig.run(Read::whole(file).decode(decode()));
        assert!(from_file.expect("decoded")[..] == raw);
        let from_memory = rig.run(Read::memory(stored.into()).decode(decode()));
        assert!(from_memory.expect("decoded")[..] == raw);
        let wrong = decode().raw_len(raw.len() as u64 + 1);
        let error = rig.failure(Read::whole(file).decode(wrong));
        let kinds = [ErrorKind::RawSize, ErrorKind::InvalidArgument];
        assert!(kinds.contains(&error.kind()), "{error}");
    });
}

#[test]
fn overlapping_and_impossible_blocks_are_refused() {
    each_backend(|rig| {
        let raw = bytes(500_000);
        let (stored, blocks) = blocks_of(&raw, &KINDS, 5);
        let file = rig.file_of("blocks", &stored);
        let refused = |change: fn(&mut Vec<Block>), kinds: &[ErrorKind]| {
            let mut blocks = blocks.clone();
            change(&mut blocks);
            let error = rig.failure(whole(file, table_of(&blocks)));
            assert!(kinds.contains(&error.kind()), "{error}");
        };
        let invalid = [ErrorKind::InvalidArgument];
        refused(|blocks| blocks[3].stored.start -= 6, &invalid);
        refused(|blocks| blocks.swap(1, 2), &invalid);
        refused(
            |blocks| blocks[1].stored = blocks[1].stored.end..blocks[1].stored.start,
            &invalid,
        );
        let past = [ErrorKind::PastEnd, ErrorKind::InvalidArgument];
        refused(|blocks| blocks[4].stored.end += 1 << 20, &past);
        refused(|blocks| blocks[4].stored.end = 5 << 32, &past);
    });
}

/// Checks that a trimmed read lands `want` in every kind of destination.
fn lands_everywhere(rig: &Rig, read: impl Fn() -> Read, want: &[u8], raw_len: usize) {
    let take = want.len();
    let buffer = |len: usize| rig.storage.buffer(len).expect("memory");
    let landed = |read: Read<Buffer>| rig.run(read).expect("decoded");
    assert!(landed(read())[..] == *want, "the library's buffer");
    let roomy = read().into(buffer(raw_len));
    assert!(landed(roomy)[..] == *want, "a buffer with room for all");
    let exact = read().into(buffer(take));
    assert!(
        landed(exact)[..] == *want,
        "a buffer with room for the range"
    );
    let vector = rig.run(read().into(vec![0u8; take])).expect("decoded");
    assert!(vector == want, "a vector");
    let supplied = read().supplied(move |len| (len == take).then(|| vec![0u8; len]));
    assert!(rig.run(supplied).expect("decoded") == want, "supplied");
}

#[test]
fn a_trimmed_table_lands_just_its_range_in_any_destination() {
    each_backend(|rig| {
        let raw = bytes(1_234_567);
        let (stored, blocks) = blocks_of(&raw, &KINDS, 0);
        let file = rig.file_of("trimmed", &stored);
        let trimmed = |skip, take| whole(file, table_of(&blocks).trim(skip, take));
        for (skip, take) in [
            (0, 0),
            (0, 1),
            (99_999, 2),
            (5, 1_234_560),
            (1_234_567, 0),
            (0, 1_234_567),
        ] {
            let want = &raw[skip..skip + take];
            let read = || trimmed(skip as u64, take as u64);
            lands_everywhere(rig, read, want, raw.len());
        }
        for (skip, take) in [(1, 1_234_567), (u64::MAX, 2)] {
            let error = rig.failure(trimmed(skip, take));
            assert_eq!(error.kind(), ErrorKind::PastEnd, "{skip}+{take}: {error}");
        }
        let error = rig.failure(trimmed(3, 100).into(vec![0u8; 99]));
        assert_eq!(error.kind(), ErrorKind::DestinationTooSmall, "{error}");
    });
}

/// A changed stored byte is found before the block is decoded, and the error names the block.
#[test]
fn a_block_whose_checksum_does_not_match_fails_with_its_range() {
    each_backend(|rig| {
        let raw = bytes(400_000);
        let (mut stored, blocks) = blocks_of(&raw, &KINDS, 0);
        let bad = &blocks[1].stored;
        stored[bad.start as usize + 77] ^= 1;
        let file = rig.file_of("damaged", &stored);
        let error = rig.failure(whole(file, table_of(&blocks)));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.offset(), bad.start, "{error}");
        assert_eq!(error.len(), bad.end - bad.start, "{error}");
        let path = error.path().expect("the file");
        assert!(path.ends_with("damaged"), "{error}");
        assert!(error.cause().contains("checksum"), "{error}");
    });
}

/// Stored bytes in memory that stand for another file.
pub(crate) struct Base(pub(crate) Vec<u8>);

impl BlockSource for Base {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.checked_add(into.len());
        let bytes = end.and_then(|end| self.0.get(start..end));
        let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::PastEnd, "the base is shorter"))?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn path(&self) -> Option<Arc<Path>> {
        Some(Arc::from(Path::new("base")))
    }
}

#[test]
fn external_blocks_are_read_from_their_source() {
    each_backend(|rig| {
        let raw = bytes(950_000);
        let (base, mut blocks) = blocks_of(&raw, &KINDS, 0);
        let mut own = vec![0xdd; 40];
        for (index, block) in blocks.iter_mut().enumerate() {
            block.external = ![0, 4, 5].contains(&index);
            if !block.external {
                let bytes = &base[block.stored.start as usize..block.stored.end as usize];
                *block = append(&mut own, block.codec, bytes, block.raw_len as usize);
            }
        }
        let file = rig.file_of("patch", &own);
        let table = |blocks: &[Block], base: &[u8]| {
            table_of(blocks).external(Arc::new(Base(base.to_vec())))
        };
        let bytes = rig.run(whole(file, table(&blocks, &base)));
        assert!(bytes.expect("decoded")[..] == raw);
        let trimmed = table(&blocks, &base).trim(250_000, 600_000);
        let bytes = rig.run(whole(file, trimmed));
        assert!(bytes.expect("decoded")[..] == raw[250_000..850_000]);

        let mut damaged = base.clone();
        damaged[blocks[2].stored.start as usize] ^= 0x80;
        let error = rig.failure(whole(file, table(&blocks, &damaged)));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.path(), Some(Path::new("base")), "{error}");
        assert_eq!(error.offset(), blocks[2].stored.start, "{error}");
        let error = rig.failure(whole(file, table(&blocks, &base[..100])));
        assert_eq!(error.kind(), ErrorKind::PastEnd, "{error}");
        let error = rig.failure(whole(file, table_of(&blocks)));
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidArgument,
            "no source: {error}"
        );
        // Without checksums the decoder finds it.
        let mut unchecked = blocks.clone();
        unchecked.iter_mut().for_each(|block| block.checksum = None);
        let lz4 = unchecked
            .iter()
            .find(|it| it.external && it.codec == CodecId::LZ4_BLOCK);
        let start = lz4.expect("one of them").stored.start;
        let mut damaged = base.clone();
        damaged[start as usize..][..64].fill(0xff);
        let error = rig.failure(whole(file, table(&unchecked, &damaged)));
        assert_eq!(error.path(), Some(Path::new("base")), "{error}");
        assert_eq!(error.offset(), start, "{error}");
        blocks[1].stored.end = blocks[1].stored.start + u64::from(u32::MAX);
        let error = rig.failure(whole(file, table(&blocks, &base)));
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidArgument,
            "too long: {error}"
        );
    });
}

/// A table with gaps of any size between its blocks, of which some are external.
struct Gapped {
    stored: Vec<u8>,
    table: BlockTable,
    raw: Vec<u8>,
}

impl Gapped {
    fn new(seed: u64, all_external: bool) -> Gapped {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut stored, mut base) = (vec![0xee; random.usize(1..9000)], Vec::new());
        let (mut table, mut raw) = (BlockTable::new(), Vec::new());
        let longest = [300, 5_000, 90_000][random.usize(0..3)];
        let widest = [1, 5_000, 300_000][random.usize(0..3)];
        for _ in 0..random.usize(1..40) {
            let piece = noise(random.u64(..), random.usize(1..longest));
            let codec = KINDS[random.usize(0..3)];
            let external = all_external || random.u8(0..4) == 0;
            let to = if external { &mut base } else { &mut stored };
            let block = append(to, codec, &encoded(codec, &piece), piece.len());
            table.push(codec, block.stored, block.raw_len);
            table.checksum(block.checksum.expect("appended with one"));
            if external {
                table.external_block();
            }
            raw.extend_from_slice(&piece);
            if random.bool() {
                stored.resize(stored.len() + random.usize(0..widest), 0xee);
            }
        }
        let mut table = table.external(Arc::new(Base(base)));
        if random.u8(0..3) == 0 {
            let skip = random.usize(0..raw.len());
            let take = random.usize(1..=raw.len() - skip);
            table = table.trim(skip as u64, take as u64);
            raw = raw[skip..skip + take].to_vec();
        }
        Gapped { stored, table, raw }
    }
}

#[test]
fn tables_with_gaps_of_any_size_land_their_blocks() {
    for access in [Access::Auto, Access::Buffered] {
        let little = || {
            let mut options = StorageOptions::default();
            options.access = access;
            options.staging_bytes = 1 << 20;
            options.block_bytes = 64 << 10;
            options
        };
        each_backend_with(little, |rig| {
            for seed in 0..60 {
                let Gapped { stored, table, raw } = Gapped::new(seed, seed % 8 == 0);
                let file = rig.file_of(&format!("gapped{seed}"), &stored);
                let landed = rig.run(whole(file, table)).expect("decoded");
                assert!(landed[..] == raw, "seed {seed}");
            }
        });
    }
}

#[test]
fn windows_of_a_table_begin_and_end_with_blocks_whatever_the_alignment() {
    for (access, seed) in [Access::Direct, Access::Buffered]
        .into_iter()
        .flat_map(|access| (0..60).map(move |seed| (access, seed)))
    {
        let Gapped { stored, table, raw } = Gapped::new(seed, seed % 8 == 0);
        let (sim, files) = Sim::new(SimOptions {
            seed,
            reorder: true,
            short_chance: 0.2,
            ..SimOptions::default()
        });
        let mut options = SimFileOptions::default();
        let align = 512 << (seed % 4);
        options.direct = Some(DirectAlignment {
            offset: align,
            memory: align,
        });
        files.add("f", stored, options);
        let mut options = over_sim(sim, &files, access);
        options.staging_bytes = 1 << 20;
        options.block_bytes = 4096 << (seed % 5);
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let file = storage.open("f", FileOptions::default());
        let ticket = queue.submit(whole(file, table)).expect("accepted");
        assert!(landed(ticket)[..] == raw, "seed {seed}");
        let stats = storage.stats();
        assert_eq!(stats.direct_operations > 0, access == Access::Direct);
        assert_eq!((stats.stalls, stats.staging_bytes), (0, 0));
    }
}
