//! The limits of packages, with the arithmetic behind them.

/// Bytes of a header: the unit in which disks read.
pub const HEADER_BYTES: usize = 4096;

/// Maximum sections of a package: the section table of the header has room for these.
pub const SECTIONS_MAX: usize = 32;

/// Bytes of a page: the unit in which sections are hashed, and read when first touched. At 2 GB/s
/// of BLAKE3 a first touch costs about 30 µs.
pub const PAGE_BYTES: usize = 64 << 10;

/// Bytes of the first read of a package: header and hot sections of some 11,000 entries. Larger
/// tables take a second read: 0.2 ms on a virtual disk, where 128 KiB more take 0.05 ms.
pub const OPEN_BYTES: u64 = 384 << 10;

/// Maximum entries of a package: their indices and the offsets of their names have 32 bits.
pub const ENTRIES_MAX: u64 = 1 << 28;

/// Maximum blocks of a package: their indices have 32 bits.
pub const BLOCKS_MAX: u64 = u32::MAX as u64;

/// Maximum bytes of the section of names, and of that of metadata: their offsets have 32 bits.
pub const OFFSETS_MAX: u64 = u32::MAX as u64;

/// Maximum bytes of a name: `PATH_MAX` of Linux.
pub const NAME_BYTES_MAX: usize = 4096;

/// Maximum bytes of one part of a name: that of most file systems.
pub const NAME_PART_BYTES_MAX: usize = 255;

/// Where every entry is processed, the entries of a package must name fewer blocks, counted as
/// often as they are named, than the package has blocks times this ...
pub const SHARING_MAX: u64 = 64;

/// ... or than this, whichever is more.
pub const SHARING_BLOCKS_MIN: u64 = 1 << 24;

/// The raw size of a block is a power of two, from 2 to this power ...
pub const BLOCK_SHIFT_MIN: u8 = 12;

/// ... to 2 to this power. Longer blocks compress no better, and make ranges expensive.
pub const BLOCK_SHIFT_MAX: u8 = 20;

/// Maximum stored bytes of a block beyond its raw bytes, for an application's own codec. The
/// packer's blocks are never longer than their raw bytes.
pub const STORED_EXTRA_MAX: u32 = 64 << 10;

/// Default raw size of a block, 256 KiB: 64 KiB compress 2 % worse, 1 MiB less than 1 % better.
pub const BLOCK_SHIFT_DEFAULT: u8 = 18;

/// Raw size of a block of an entry that is read in ranges (mips, samples).
pub const BLOCK_SHIFT_RANGED: u8 = 16;

/// Entries shorter than this share blocks.
pub const SHARED_BYTES_MAX: u64 = 32 << 10;

/// Maximum raw bytes of a block that several entries share.
pub const SHARED_BLOCK_BYTES: usize = 64 << 10;

/// A shared block with at least this many raw bytes ends where a folder ends.
pub const SHARED_BLOCK_CLOSE_BYTES: usize = 32 << 10;

/// Alignment of stored blocks of at least `ALIGNED_BYTES_MIN` bytes, for direct reads.
pub const STORED_ALIGNMENT: u64 = 4096;

/// Shorter stored blocks are aligned to 16, like encoded ones: padding to 4096 could add an eighth.
pub const ALIGNED_BYTES_MIN: u32 = 32 << 10;

/// Alignment of all other blocks.
pub const BLOCK_ALIGNMENT: u64 = 16;

/// Alignment of hot sections: a cache line, so that no entry record spans two.
pub const HOT_ALIGNMENT: u64 = 64;

/// Maximum symbolic links to folders that a walk follows.
pub const LINK_FOLDERS_MAX: u32 = 1 << 16;

/// Maximum bytes of a metadata record, which never crosses a page, so that it is used in place.
pub const METADATA_BYTES_MAX: usize = 48 << 10;

/// Maximum bytes of an entry's start that a describer is given. The largest JSON part of a scene
/// that we know of has 8 MB.
pub const DESCRIBE_HEAD_BYTES_MAX: usize = 32 << 20;

/// Maximum mip levels of an image: 2^31 texels on a side have 32.
pub const MIP_LEVELS_MAX: usize = 32;

/// Maximum average entries of a bucket, in packages of up to 2^27: a cache line holds two.
pub const BUCKET_ENTRIES: u64 = 2;

/// Entries that a lookup compares without a branch between them: 29 of 30 entries are among the
/// first four of their bucket.
pub const BUCKET_WINDOW: usize = 4;

/// Maximum bits of the bucket index: 2^26 buckets of 4 bytes are 256 MiB.
pub const BUCKET_BITS_MAX: u32 = 26;

/// Seeds that the packer tries to find one without a hash collision. With 2^28 names, one seed in
/// 2^9 has a collision; this many in a row have one only if the names are made for it.
pub const SEEDS_MAX: u64 = 64;

/// Blocks, per thread, that encoding may run ahead of writing: while 1 MiB is written, which takes
/// a millisecond if a page of the page cache must be allocated for every 4 KiB, a thread with a
/// fast codec encodes five blocks of 256 KiB.
pub const PACK_AHEAD: usize = 16;

/// Maximum blocks that the packer holds: at 1 MiB, with three encodings of nearly that length while
/// one is chosen, they take 256 MiB.
pub const PACK_BLOCKS_MAX: usize = 64;

/// Maximum raw bytes of a task of [`PackPlan`](crate::PackPlan), which any machine may encode.
pub const TASK_RAW_BYTES_MAX: u64 = 256 << 20;

/// Bytes that are gathered for one buffered write: a core's L2 cache holds them.
pub const PACK_WRITE_BYTES: usize = 1 << 20;

/// Buffered writes do not gather blocks of at least this length, but write them from where they
/// lie: a call costs as much as copying some KiB.
pub const PACK_WRITE_AT_ONCE_BYTES: usize = 32 << 10;

/// Bytes that are gathered for one direct write, of which one is in flight at a time: a virtual
/// disk took 2.1 GB/s in writes of 1 MiB, and 3 GB/s in writes of 4 MiB.
pub const PACK_DIRECT_WRITE_BYTES: usize = 4 << 20;

/// Packages of at least this many raw bytes that are synced when written bypass the page cache:
/// shorter ones are copied quickly, and likely to be opened next.
pub const PACK_DIRECT_BYTES_MIN: u64 = 16 << 20;

/// Inputs of at least this length are sampled before they are hashed as a whole.
pub const SAME_SAMPLED_BYTES_MIN: u64 = 64 << 10;

/// Bytes of one sample of an input.
pub const SAME_SAMPLE_BYTES: usize = 4096;

/// Bytes per read while an input is hashed as a whole.
pub const SAME_PIECE_BYTES: u64 = 1 << 20;

/// Maximum bytes of the file that one read of a batch spans, if it merges neighbors.
pub const RUN_BYTES_MAX: u64 = 1 << 20;

/// Maximum raw bytes of such a read: its blocks may have shrunk to a quarter.
pub const RUN_RAW_BYTES_MAX: u64 = 4 * RUN_BYTES_MAX;

/// Maximum bytes of the file between two entries that one read covers: at 3 GB/s they cost less
/// than another request.
pub const RUN_GAP_MAX: u64 = 16 << 10;

/// Maximum raw bytes of a piece that a visit shows.
pub const VISIT_PIECE_BYTES: u64 = 4 << 20;

/// Maximum raw bytes that a visit loads together ...
pub const VISIT_GROUP_BYTES: u64 = 8 << 20;

/// ... and maximum pieces, if they are short.
pub const VISIT_GROUP_PIECES: usize = 512;

/// Groups that a visit holds in memory, including the one being shown: 4 of 8 MiB, and the gaps.
pub const VISIT_AHEAD: usize = 4;

/// Errors that a verification reports; further ones are only counted.
pub const VERIFY_ERRORS: usize = 10;

/// Maximum bytes of the directory of an archive that is no package: two million entries of a zip,
/// of which as much memory is held.
pub const ARCHIVE_DIRECTORY_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a directory that are read at once.
pub const ARCHIVE_PIECE_BYTES: u64 = 256 << 10;

/// Bytes at the end of a zip in which its directory's place is looked for: the longest comment, and
/// the records in front of it.
pub const ARCHIVE_TAIL_BYTES: u64 = (64 << 10) + 256;

/// Entries with names that no archive may have which are left out and reported; with more of them
/// the archive is refused.
pub const ARCHIVE_REFUSED_MAX: usize = 1000;

/// A range of a stored entry whose header was not seen is read from the header on, unless it begins
/// more than this many bytes into the entry: then the header is read first.
pub const ARCHIVE_SKIP_BYTES_MAX: u64 = 256 << 10;

/// Bytes of a compressed entry that are decoded at once and dropped, in front of a range.
pub const ARCHIVE_DROP_BYTES: usize = 64 << 10;

/// Maximum raw bytes of a deflated entry for each of its stored bytes: 258 for two bits, less a
/// stream's header.
pub const DEFLATE_RATIO_MAX: u64 = 1032;

/// Maximum raw bytes of a zstd entry for each of its stored bytes: blocks of 128 KiB of one byte,
/// which take four.
pub const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// Raw bytes in flight while the entries of an archive are visited; a single entry may have more.
pub const ARCHIVE_VISIT_BYTES: u64 = 64 << 20;

/// Requests in flight while the entries of an archive are visited.
pub const ARCHIVE_VISIT_REQUESTS: usize = 2048;

/// Maximum layers of an overlay.
pub const LAYERS_MAX: usize = 256;

/// Maximum bytes of an input that a cook reads.
pub const COOK_BYTES_MAX: u64 = 256 << 20;

/// Maximum requests in flight for the tables of a package.
pub const TABLE_QUEUE_CAPACITY: u32 = 256;

const _: () = assert!(METADATA_BYTES_MAX + 2 <= PAGE_BYTES);
const _: () = assert!(NAME_BYTES_MAX + 2 <= PAGE_BYTES);
const _: () = assert!(SHARED_BLOCK_BYTES <= 1 << BLOCK_SHIFT_MAX);
const _: () = assert!(SHARED_BYTES_MAX as usize <= SHARED_BLOCK_BYTES);
const _: () = assert!(3 * SAME_SAMPLE_BYTES as u64 <= SAME_SAMPLED_BYTES_MIN);
