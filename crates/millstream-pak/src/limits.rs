//! Every bound of packages, with its arithmetic.

/// Bytes of a header: what a disk reads at once.
pub const HEADER_BYTES: usize = 4096;

/// Sections of a package: what fits into the header.
pub const SECTIONS_MAX: usize = 32;

/// Bytes of a page: the unit in which sections are hashed and read on their first touch. At 2 GB/s
/// of BLAKE3 a first touch costs about 30 µs.
pub const PAGE_BYTES: usize = 64 << 10;

/// A packed section has at most so many times the raw bytes of its stored ones: what a small file
/// can make a reader hold. Names shrink to a tenth, metadata of many like images to a thirtieth.
pub const SECTION_RATIO_MAX: u64 = 64;

/// Sections shorter than this are not packed: there is nothing to be saved.
pub const SECTION_PACKED_BYTES_MIN: usize = 16 << 10;

/// The first touch of a packed section reads all of it with its hashes if it has no more stored
/// bytes than this. Of a longer one the hashes say first where the page is.
pub const SECTION_AT_ONCE_BYTES: usize = 256 << 10;

/// What the first read of a package asks for: header and hot sections of some 2000 entries. A
/// larger table takes a second read.
pub const OPEN_BYTES: u64 = 256 << 10;

/// Entries of a package: their indices have 32 bits, and the places of their names.
pub const ENTRIES_MAX: u64 = 1 << 28;

/// Blocks of a package: 2^32 less one, for their indices.
pub const BLOCKS_MAX: u64 = u32::MAX as u64;

/// Bytes of the section of names, and of metadata: their offsets have 32 bits.
pub const OFFSETS_MAX: u64 = u32::MAX as u64;

/// Bytes of a name: what Linux takes for a path.
pub const NAME_BYTES_MAX: usize = 4096;

/// Bytes of one part of a name: what file systems take.
pub const NAME_PART_BYTES_MAX: usize = 255;

/// Blocks that all entries of a package may name together, each counted as often as it is named,
/// where all are looked at: so many times those that it has ...
pub const SHARING_MAX: u64 = 64;

/// ... and so many of any package.
pub const SHARING_BLOCKS_MIN: u64 = 1 << 24;

/// Raw bytes of a block are a power of two from this one ...
pub const BLOCK_SHIFT_MIN: u8 = 12;

/// ... to this one. Longer blocks compress no better, and make ranges expensive.
pub const BLOCK_SHIFT_MAX: u8 = 20;

/// Stored bytes of a block beyond its raw ones: what an application's own codec may add. Our own
/// blocks are never longer than raw.
pub const STORED_EXTRA_MAX: u32 = 64 << 10;

/// Usual raw bytes of a block: 64 KiB less compresses 2 % worse, 1 MiB not 1 % better.
pub const BLOCK_SHIFT_DEFAULT: u8 = 18;

/// Raw bytes of a block of an entry that is read in ranges (mips, samples).
pub const BLOCK_SHIFT_RANGED: u8 = 16;

/// Entries shorter than this share blocks.
pub const SHARED_BYTES_MAX: u64 = 32 << 10;

/// Raw bytes of a shared block.
pub const SHARED_BLOCK_BYTES: usize = 64 << 10;

/// A shared block this full is closed where a folder ends.
pub const SHARED_BLOCK_CLOSE_BYTES: usize = 32 << 10;

/// Dictionaries of a package. Ours has one at most; what is made ready of sixteen takes 1.5 MiB.
pub const DICTIONARIES_MAX: usize = 16;

/// Bytes of a dictionary: with its length it fills a page.
pub const DICTIONARY_BYTES_MAX: usize = PAGE_BYTES - 2;

/// Shared blocks that are looked at to make a dictionary, and to test it: 8 MiB, some hundred
/// times what comes of them.
pub const DICTIONARY_UNITS_MAX: usize = 128;

/// Raw bytes of shared blocks below which `auto` makes none: it could not save its own length.
pub const DICTIONARY_RAW_BYTES_MIN: u64 = 1 << 20;

/// What stored blocks of at least `ALIGNED_BYTES_MIN` start on: any disk's direct reads.
pub const STORED_ALIGNMENT: u64 = 4096;

/// Shorter stored blocks start on 16 as encoded ones: aligned they would waste an eighth and more.
pub const ALIGNED_BYTES_MIN: u32 = 32 << 10;

/// What all other blocks start on.
pub const BLOCK_ALIGNMENT: u64 = 16;

/// What hot sections start on: a line of the cache, so that no entry lies in two.
pub const HOT_ALIGNMENT: u64 = 64;

/// Symbolic links to folders that a walk follows.
pub const LINK_FOLDERS_MAX: u32 = 1 << 16;

/// Bytes of a metadata record. A record never crosses a page, so that it is used in place.
pub const METADATA_BYTES_MAX: usize = 48 << 10;

/// Most bytes of an entry's front that a describer may ask for. The largest JSON part of a scene
/// that we know of has 8 MB.
pub const DESCRIBE_HEAD_BYTES_MAX: usize = 32 << 20;

/// Mip levels of an image; 2^31 texels on a side have 32.
pub const MIP_LEVELS_MAX: usize = 32;

/// Entries of one bucket of the index, on average: 2 lie in one cache line.
pub const BUCKET_ENTRIES: u64 = 2;

/// Entries that a lookup compares at once, without a branch between them: 29 of 30 entries are
/// among the first four of their bucket.
pub const BUCKET_WINDOW: usize = 4;

/// Bits of the bucket index: 2^26 buckets of 4 bytes are 256 MiB.
pub const BUCKET_BITS_MAX: u32 = 26;

/// Seeds that the packer tries before it gives up on a set of names without collisions. At 2^28
/// names one in 2^9 seeds has one; this many in a row have one if the names are made for it.
pub const SEEDS_MAX: u64 = 64;

/// Blocks that the packer lets its threads be ahead of the writing, for each thread: while 1 MiB is
/// written, which takes a millisecond where a page of the cache must be found for every 4 KiB,
/// a thread with a quick codec encodes five of 256 KiB.
pub const PACK_AHEAD: usize = 16;

/// Blocks that it holds at most: of 1 MiB, with three encodings of nearly that length while one is
/// chosen, they are 256 MiB.
pub const PACK_BLOCKS_MAX: usize = 64;

/// Raw bytes of a task of [`PackPlan`](crate::PackPlan) that is encoded elsewhere.
pub const TASK_RAW_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a package that are gathered before they are written: a core's second cache holds them.
pub const PACK_WRITE_BYTES: usize = 1 << 20;

/// Blocks from this length on are not gathered, but written from where they lie: a call costs as
/// much as copying some KiB.
pub const PACK_WRITE_AT_ONCE_BYTES: usize = 32 << 10;

/// Bytes that are gathered for one direct write, which the disk is given one after the other: a
/// virtual disk took 2.1 GB/s in writes of 1 MiB, and 3 in those of 4.
pub const PACK_DIRECT_WRITE_BYTES: usize = 4 << 20;

/// Packages of so many raw bytes that are synced next are written past the page cache: shorter ones
/// are in a moment copied, and likely to be opened next.
pub const PACK_DIRECT_BYTES_MIN: u64 = 16 << 20;

/// Inputs from this length on are sampled before they are hashed as a whole.
pub const SAME_SAMPLED_BYTES_MIN: u64 = 64 << 10;

/// Bytes of one sample.
pub const SAME_SAMPLE_BYTES: usize = 4096;

/// Bytes that are read at once where an input is hashed as a whole.
pub const SAME_PIECE_BYTES: u64 = 1 << 20;

/// Raw bytes of one read of a batch whose neighbours were merged.
pub const RUN_BYTES_MAX: u64 = 1 << 20;

/// Raw bytes of such a read: its blocks may have shrunk to a quarter.
pub const RUN_RAW_BYTES_MAX: u64 = 4 * RUN_BYTES_MAX;

/// Bytes between two entries that are read along rather than asked for apart: at 3 GB/s they cost
/// less than another request.
pub const RUN_GAP_MAX: u64 = 16 << 10;

/// Raw bytes of a piece that a visit shows.
pub const VISIT_PIECE_BYTES: u64 = 4 << 20;

/// Raw bytes and pieces that a visit loads together ...
pub const VISIT_GROUP_BYTES: u64 = 8 << 20;

/// ... or so many pieces, if they are short.
pub const VISIT_GROUP_PIECES: usize = 512;

/// Such groups in memory, the one being shown among them: 4 of 8 MiB, and what is read along.
pub const VISIT_AHEAD: usize = 4;

/// Errors of which a verification gives each; of the others the number.
pub const VERIFY_ERRORS: usize = 10;

/// Layers of an overlay.
pub const LAYERS_MAX: usize = 256;

/// Input bytes that one cook may take.
pub const COOK_BYTES_MAX: u64 = 256 << 20;

/// Requests for tables of a package that are in flight at once.
pub const TABLE_QUEUE_CAPACITY: u32 = 256;

const _: () = assert!(METADATA_BYTES_MAX + 2 <= PAGE_BYTES);
const _: () = assert!(NAME_BYTES_MAX + 2 <= PAGE_BYTES);
const _: () = assert!(DICTIONARY_BYTES_MAX <= millstream_codec::limits::DICTIONARY_BYTES_MAX);
const _: () = assert!(SHARED_BLOCK_BYTES <= 1 << BLOCK_SHIFT_MAX);
const _: () = assert!(SHARED_BYTES_MAX as usize <= SHARED_BLOCK_BYTES);
const _: () = assert!(3 * SAME_SAMPLE_BYTES as u64 <= SAME_SAMPLED_BYTES_MIN);
