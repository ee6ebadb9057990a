//! The format's records, as they lie in the file; `docs/FORMAT.md` is normative.
//!
//! All numbers are little-endian, and records have neither padding nor alignment, so that tables
//! are used in place. No value is trusted: the reader checks each where it is used, and the header
//! when the package is opened.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::{HEADER_BYTES, PAGE_BYTES, SECTIONS_MAX};

/// First bytes of a package. A transfer as text, or one that drops the eighth bit, changes them.
pub const MAGIC: [u8; 8] = *b"\x89MPAK\r\n\x1a";

/// Major version: a reader refuses others.
pub const VERSION_MAJOR: u16 = 2;

/// Minor version: a reader takes later ones.
pub const VERSION_MINOR: u16 = 0;

/// Required features: a reader that lacks one refuses the package.
pub mod feature {
    /// Names are compared without regard to ASCII case.
    pub const FOLD_CASE: u64 = 1;
    /// Blocks may lie in a base package, and entries may be gone.
    pub const PATCH: u64 = 2;
    /// All features that this reader has.
    pub const KNOWN: u64 = FOLD_CASE | PATCH;
}

/// The header: the first 4096 bytes of a package, repeated as the last.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION_MAJOR`].
    pub major: U16,
    /// At least [`VERSION_MINOR`].
    pub minor: U16,
    /// Bytes of this header: 4096.
    pub header_bytes: U32,
    /// Features that a reader must have.
    pub required: U64,
    /// Features that a reader may ignore.
    pub optional: U64,
    /// Bytes of the whole file.
    pub file_bytes: U64,
    /// Seed of the name hashes.
    pub hash_seed: U64,
    /// Number of entries.
    pub entry_count: U64,
    /// Number of blocks.
    pub block_count: U64,
    /// Alignment of stored blocks of 32 KiB and more: 4096.
    pub alignment: U32,
    /// Number of records of the section table that are used.
    pub section_count: U32,
    /// Bytes from the start of the file to the end of the last hot section's hashes.
    pub hot_bytes: U64,
    /// First byte of the data.
    pub data_offset: U64,
    /// Bytes of the data.
    pub data_bytes: U64,
    /// Root hash of the base of a patch; else zeros.
    pub base_root: [u8; 32],
    /// A number raised with each release, or 0; only a verified signature vouches for it.
    pub content_version: U64,
    /// If codecs were chosen for a target, what its device reads in bytes a second; else 0.
    pub target_bytes_per_second: U64,
    /// The cores of that target, or 0.
    pub target_cores: U32,
    /// Zeros.
    pub reserved: [u8; 108],
    /// The section table.
    pub sections: [SectionRecord; SECTIONS_MAX],
    /// Zeros.
    pub reserved_tail: [u8; 736],
    /// BLAKE3 of all bytes of the header before this field.
    pub root: [u8; 32],
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

/// A record of the section table: where a section is.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SectionRecord {
    /// One of the kinds in [`section`].
    pub kind: U32,
    /// See [`section_flag`].
    pub flags: U32,
    /// First byte.
    pub offset: U64,
    /// Length in bytes.
    pub bytes: U64,
    /// First byte of the hashes of the section's pages, 32 bytes for each 64 KiB; 0 without hashes.
    pub hashes_offset: U64,
    /// BLAKE3 of those hashes.
    pub hashes_digest: [u8; 32],
    /// Zeros.
    pub reserved: [u8; 32],
}

const _: () = assert!(size_of::<SectionRecord>() == 96);

impl SectionRecord {
    /// Returns whether the section has page hashes.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.flags.get() & section_flag::UNHASHED == 0
    }

    /// Returns the ranges of its bytes and of its hashes: first byte, and one past the last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u64, u64)> {
        let (offset, hashes) = (self.offset.get(), self.hashes_offset.get());
        let hashes = (hashes, hashes + self.hashes_bytes());
        let hashes = self.is_hashed().then_some(hashes);
        std::iter::once((offset, offset + self.bytes.get())).chain(hashes)
    }

    /// Whether the section and its hashes end at or before `end`, an offset in the file.
    pub(crate) fn is_within(&self, end: u64) -> bool {
        self.parts().all(|part| part.1 <= end)
    }

    /// Returns the bytes of the page hashes.
    #[must_use]
    pub fn hashes_bytes(&self) -> u64 {
        self.bytes.get().div_ceil(PAGE_BYTES as u64) * 32
    }
}

/// Flags of a section.
pub mod section_flag {
    /// A reader that does not know the section's kind refuses the package.
    pub const REQUIRED: u32 = 1;
    /// The section has no page hashes (the signature, which is made over the root).
    pub const UNHASHED: u32 = 2;
    /// All flags that this reader knows.
    pub const KNOWN: u32 = REQUIRED | UNHASHED;
}

/// Kinds of sections.
pub mod section {
    /// Hot: the first entry for each value of the hash's top bits, then the number of entries.
    pub const BUCKETS: u32 = 1;
    /// Hot: [`EntryRecord`](super::EntryRecord)s, sorted by hash.
    pub const ENTRIES: u32 = 2;
    /// Hot: [`BlockRecord`](super::BlockRecord)s, in the order of the data.
    pub const BLOCKS: u32 = 3;
    /// Names, each with its length before it; none crosses a page.
    pub const NAMES: u32 = 4;
    /// [`MetadataPlace`](super::MetadataPlace)s, sorted by entry.
    pub const METADATA_INDEX: u32 = 5;
    /// Metadata records, each with its length before it; none crosses a page.
    pub const METADATA: u32 = 6;
    /// The BLAKE3 of each entry's raw bytes.
    pub const CONTENTS: u32 = 7;
    /// Public key and signature of the root.
    pub const SIGNATURE: u32 = 8;

    /// Returns whether this version has the kind.
    #[must_use]
    pub const fn is_known(kind: u32) -> bool {
        matches!(kind, BUCKETS..=SIGNATURE)
    }
}

/// The record of an entry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct EntryRecord {
    /// XXH3-64 of the entry's name, with the package's seed.
    pub hash: U64,
    /// Raw bytes.
    pub raw_bytes: U64,
    /// The number of its first block.
    pub first_block: U32,
    /// Offset of its name in the section of names.
    pub name_offset: U32,
    /// Where it begins in the raw bytes of its block, if it shares one; else 0.
    pub offset_in_block: U32,
    /// All its blocks but the last have 2 to this power raw bytes, so the number of blocks follows
    /// from its length.
    pub block_shift: u8,
    /// See [`entry_flag`].
    pub flags: u8,
    /// Zero.
    pub reserved: U16,
}

const _: () = assert!(size_of::<EntryRecord>() == 32);

/// Flags of an entry.
pub mod entry_flag {
    /// The entry is of a file that its owner may execute.
    pub const EXECUTABLE: u8 = 1;
    /// The entry shares its one block with others.
    pub const SHARED: u8 = 2;
    /// In a patch: hides the name in the layers below.
    pub const GONE: u8 = 4;
    /// All flags that this reader knows.
    pub const KNOWN: u8 = EXECUTABLE | SHARED | GONE;
}

/// The record of a block: bytes that are read, checked and decoded together.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct BlockRecord {
    /// First byte in the file (of the base, if it lies there).
    pub offset: U64,
    /// Bytes in the file.
    pub stored_bytes: U32,
    /// Bytes in memory.
    pub raw_bytes: U32,
    /// XXH3-64 (seed 0) of the stored bytes.
    pub checksum: U64,
    /// The number of the block's codec in `CodecId`.
    pub codec: u8,
    /// See [`block_flag`].
    pub flags: u8,
    /// Zero.
    pub reserved: U16,
    /// Raw bytes of a GDeflate tile; 0 for other codecs.
    pub tile_bytes: U32,
}

const _: () = assert!(size_of::<BlockRecord>() == 32);

/// Flags of a block.
pub mod block_flag {
    /// The block lies in the base package.
    pub const IN_BASE: u8 = 1;
    /// All flags that this reader knows.
    pub const KNOWN: u8 = IN_BASE;
}

/// Where an entry's metadata is.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MetadataPlace {
    /// The number of the entry.
    pub entry: U32,
    /// Offset of its record in the section of metadata.
    pub offset: U32,
}

/// The section of the signature.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SignatureRecord {
    /// Ed25519 public key.
    pub public_key: [u8; 32],
    /// Ed25519 signature of [`SIGNED_PREFIX`] and the root hash.
    pub signature: [u8; 64],
}

/// Precedes the root in the signed message, so that a signature of a package is valid for nothing
/// else.
pub const SIGNED_PREFIX: &[u8; 16] = b"mpak root v1\0\0\0\0";

impl Header {
    /// Returns the used records of the section table.
    pub(crate) fn used_sections(&self) -> &[SectionRecord] {
        &self.sections[..self.section_count.get() as usize]
    }

    /// Returns the BLAKE3 of all bytes of the header but `root`, which it must equal.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let bytes = self.as_bytes();
        *blake3::hash(&bytes[..HEADER_BYTES - 32]).as_bytes()
    }
}

impl BlockRecord {
    /// Returns whether the block lies in the base.
    #[must_use]
    pub fn in_base(&self) -> bool {
        self.flags & block_flag::IN_BASE != 0
    }

    /// Returns one past the block's last byte in the file. The record must have been checked.
    pub(crate) fn end(&self) -> u64 {
        self.offset.get() + u64::from(self.stored_bytes.get())
    }
}

impl EntryRecord {
    /// Returns whether the entry has a flag of [`entry_flag`].
    #[must_use]
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns how many consecutive blocks hold the entry; an arbitrary number if the record is
    /// invalid.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        if self.is(entry_flag::SHARED) {
            return u64::from(!self.is(entry_flag::GONE));
        }
        // Without a division, since every lookup does this.
        let (bytes, shift) = (self.raw_bytes.get(), u32::from(self.block_shift) % 64);
        (bytes >> shift) + u64::from(bytes & ((1 << shift) - 1) != 0)
    }
}
