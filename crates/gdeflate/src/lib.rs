//! An encoder and a validating decoder for GDeflate, the compression of DirectStorage and RTX IO.
//!
//! GDeflate is DEFLATE64 interleaved over 32 lanes, in independent tiles of 64 KiB, so that a GPU
//! can decode it in parallel. This crate is for the CPU side: tools that write such data, engines
//! that must read it without a GPU, and validation before data goes to one. It does no I/O, has no
//! dependencies, and accepts arbitrary bytes: hostile input gives an [`Error`], never a panic, a
//! write outside the output, or work out of proportion to the tile.
//!
//! ```
//! use gdeflate::{Level, compress, decompress};
//!
//! let raw = b"tile tile tile tile tile tile tile tile".repeat(100);
//! let stored = compress(&raw, Level::DEFAULT, 2)?;
//! assert!(stored.len() < raw.len() / 4);
//! assert_eq!(decompress(&stored, 2)?, raw);
//! # Ok::<(), gdeflate::Error>(())
//! ```
//!
//! An engine that receives the stream in pieces and has its own threads can locate the tiles as
//! soon as the table has arrived, and decode each one separately:
//!
//! ```
//! # let raw = vec![7; 100_000];
//! # let stored = gdeflate::compress(&raw, gdeflate::Level::FASTEST, 1)?;
//! use gdeflate::{Decoder, Header, TileTable, limits::HEADER_BYTES};
//!
//! let header = Header::parse(&stored[..HEADER_BYTES])?;
//! let table = TileTable::parse(&stored[..header.data_start()])?;
//! let mut decoder = Decoder::new();
//! for tile in 0..header.tile_count() {
//!     let bytes = table.tile_range(tile);
//!     let mut raw = vec![0; header.tile_raw_len(tile)];
//!     decoder.decode_tile(&stored[bytes.start as usize..bytes.end as usize], &mut raw)?;
//! }
//! # Ok::<(), gdeflate::Error>(())
//! ```
//!
//! # The format
//!
//! All numbers are little-endian.
//!
//! **Stream.** Byte 4, byte 0xFB, tile count (u16), then a u32: bits 0–1 tile size index (1 for
//! 64 KiB), bits 2–19 raw size of the last tile (0 for a full one), the rest 0. Then one u32 per
//! tile: entry 0 is the stored size of the *last* tile, entry i the offset of tile i from the end
//! of the table; tile 0 begins at 0. Then the tiles without gaps. There is no checksum.
//!
//! **Words and lanes.** A tile is a sequence of 32-bit words, handed out by one cursor to 32 bit
//! readers, the lanes. Each lane first takes one word, in order. After each *turn* of a lane (the
//! reading of one item), if it holds fewer than 32 bits, it takes the next word. This defines the
//! order of all words. Bits are read lowest first, codewords from their first bit, as in DEFLATE.
//! A tile ends with its last block, having used every word.
//!
//! **Blocks.** Lane 0 reads 1 bit "last" and 2 bits type, one turn. Type 0, stored: lane 0 reads a
//! length of 16 bits, and byte k is read by lane k mod 32; nothing is aligned, and there is no
//! complement. Type 1, static: DEFLATE's codes, with all 32 distances. Type 2, dynamic: lane 0
//! reads the three counts in one turn; length k of the precode is read by lane k; item k of the
//! code lengths, with its extra bits, by lane k mod 32.
//!
//! **Symbols.** Lanes take turns from lane 0 on. A lane without a pending length reads a literal,
//! an end of block, or a length with its extra bits, and then has a length pending. A lane with one
//! reads its distance with extra bits, exactly 32 turns later. A match is output at the position of
//! its length. After the end of block the other lanes, in turn order, read pending distances.
//!
//! **Alphabets.** As in DEFLATE, but symbol 285 means 3 plus 16 extra bits, and distance symbols 30
//! and 31 begin at 32,769 and 49,153 with 14 extra bits. Matches reach back to the tile's first
//! byte.
//!
//! **Codes** are canonical and complete. As exceptions, a code may be empty or have a single
//! codeword of one bit; reading a codeword that such a code leaves unassigned is an error here (the
//! reference decoder reads it as the first symbol; no known encoder relies on that). Symbols 286
//! and 287 are errors, too.
//!
//! # Features
//!
//! - `std` (on by default): threads, and the choice of a decode kernel at run time, by CPUID.
//!   Without it the crate is `no_std` with `alloc`.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(target_arch = "x86_64")]
mod cpu;
mod decode;
mod encode;
mod error;
pub mod limits;
mod parallel;
mod stream;

use alloc::boxed::Box;
use alloc::vec;

pub use decode::{Decoder, Kernel};
pub use encode::{Encoder, Level};
pub use error::{Error, ErrorKind};
pub use limits::compress_bound;
pub use parallel::{compress, decompress};
pub use stream::{Header, TileStream, TileTable};

#[cfg(test)]
millstream_testing::watch!();

/// Allocates a zeroed array directly on the heap, so that pages never touched take no memory.
fn zeroed<T: Copy + Default, const LEN: usize>() -> Box<[T; LEN]> {
    match vec![T::default(); LEN].into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("the vector has LEN elements"),
    }
}
