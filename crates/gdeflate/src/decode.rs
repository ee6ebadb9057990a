//! Decoding tiles.
//!
//! A block is decoded in two phases. A kernel reads its symbols into three streams (the reason is
//! in `tokens`), and `copies` expands them into bytes. Block headers, stored blocks, and the
//! portable kernel are safe code; the vector kernels are in their own files behind [`Kernel`].
//!
//! Work is bounded by the tile: every turn takes bits, and the tile's words are bounded by
//! `TILE_STORED_BYTES_MAX`; two turns of a lane make at least one byte, and raw bytes are bounded
//! by what was declared. A decoder allocates its memory, about 273 KiB, once.
//!
//! # Safety
//! The only unsafe operation here is the call of a kernel that not every machine can run.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls kernels that need CPU features")
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod codes;
mod copies;
mod kernel;
mod lanes;
mod portable;
mod stored;
mod tables;
mod tokens;

use alloc::boxed::Box;
use core::fmt;
use core::ops::Range;

pub use self::kernel::Kernel;

pub(crate) use self::codes::{Canonical, Lengths};
use self::lanes::{Lanes, Words};
use self::tables::Tables;
use self::tokens::Tokens;
#[cfg(target_arch = "x86_64")]
use crate::cpu::cpu_has;
use crate::error::{Error, ErrorKind};
use crate::limits::{TILE_RAW_BYTES, TILE_STORED_BYTES_MAX, WORD_BYTES};
use crate::stream::TileStream;

/// A decoder of tiles, one at a time. It keeps its tables, so that decoding allocates nothing: make
/// one per thread and reuse it. It may be used by one thread at a time and moved between threads.
pub struct Decoder {
    kernel: Kernel,
    tables: Box<Tables>,
    #[cfg(target_arch = "x86_64")]
    vector_tables: Box<avx512::VectorTables>,
    tokens: Tokens,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// Creates a decoder with the fastest kernel of this machine, see [`Kernel::fastest`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_kernel(Kernel::fastest())
    }

    /// Creates a decoder with the given kernel, or the portable one if this machine cannot run it.
    #[must_use]
    pub fn with_kernel(kernel: Kernel) -> Self {
        let kernel = if kernel.is_available() {
            kernel
        } else {
            Kernel::Portable
        };
        Self {
            kernel,
            tables: Box::new(Tables::EMPTY),
            #[cfg(target_arch = "x86_64")]
            vector_tables: Box::new(avx512::VectorTables::ZERO),
            tokens: Tokens::new(),
        }
    }

    /// Returns the kernel in use.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Decodes one tile into `raw`, which must have exactly the tile's raw length, at most 64 KiB.
    /// Allocates nothing, and writes nothing outside `raw`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if `raw` is longer than a tile; any fault in the tile, at its offset
    /// from the tile's start. Which of several faults is reported is unspecified, as is `raw` then.
    pub fn decode_tile(&mut self, tile: &[u8], raw: &mut [u8]) -> Result<(), Error> {
        if raw.len() > TILE_RAW_BYTES {
            return Err(Error::new(ErrorKind::Argument, 0));
        }
        if !tile.len().is_multiple_of(WORD_BYTES) || tile.len() > TILE_STORED_BYTES_MAX {
            return Err(Error::new(ErrorKind::TileTable, 0));
        }
        let mut words = Words::new(tile);
        self.decode_words(&mut words, raw)
            .map_err(|kind| Error::new(kind, words.offset() as u64))
    }

    fn decode_words(&mut self, words: &mut Words<'_>, raw: &mut [u8]) -> Result<(), ErrorKind> {
        let mut lanes = Lanes::new(words)?;
        let mut done = 0;
        loop {
            let header = lanes.take(0, 3);
            lanes.refill(0, words)?;
            done = match header >> 1 {
                0 => {
                    let len = lanes.take(0, 16) as usize;
                    let end = done + len;
                    let target = raw.get_mut(done..end).ok_or(ErrorKind::RawTooLong)?;
                    self.decode_stored(&mut lanes, words, target)?;
                    end
                }
                1 => self.decode_symbols(&Lengths::fixed(), &mut lanes, words, raw, done)?,
                2 => {
                    let lengths = Lengths::read(&mut lanes, words)?;
                    self.decode_symbols(&lengths, &mut lanes, words, raw, done)?
                }
                _ => return Err(ErrorKind::BlockType),
            };
            if header & 1 == 1 {
                break;
            }
        }
        if done < raw.len() {
            return Err(ErrorKind::RawTooShort);
        }
        if words.left() > 0 {
            return Err(ErrorKind::UnusedWords);
        }
        Ok(())
    }

    /// Decodes the bytes of a stored block, which follow its length.
    fn decode_stored(
        &self,
        lanes: &mut Lanes,
        words: &mut Words<'_>,
        raw: &mut [u8],
    ) -> Result<(), ErrorKind> {
        // Lane 0 reads its first byte before the refill that the length makes due; refilling first
        // takes the same word, since no other lane is read in between.
        lanes.refill(0, words)?;
        let done = match self.kernel {
            // SAFETY: as for the symbols; AVX2 is among the features of both kernels.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 | Kernel::Avx512 => unsafe { stored::groups_avx2(lanes, words, raw)? },
            _ => stored::groups(lanes, words, raw)?,
        };
        stored::rest(lanes, words, &mut raw[done..])
    }

    fn decode_symbols(
        &mut self,
        lengths: &Lengths,
        lanes: &mut Lanes,
        words: &mut Words<'_>,
        raw: &mut [u8],
        done: usize,
    ) -> Result<usize, ErrorKind> {
        let (tables, tokens) = (&mut self.tables, &mut self.tokens);
        tokens.clear();
        let room = raw.len() - done;
        if self.kernel != Kernel::Avx512 {
            tables::build(tables, lengths)?;
        }
        match self.kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => {
                let tables = &mut self.vector_tables;
                // SAFETY: `with_kernel`, the only constructor, keeps a kernel only if the machine
                // has the CPU features that it needs.
                unsafe {
                    tables.build(lengths)?;
                    avx512::symbols(lanes, words, tables, tokens, room)?;
                }
            }
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::symbols(lanes, words, tables, tokens, room)? },
            // SAFETY: the CPU features were just detected.
            #[cfg(target_arch = "x86_64")]
            _ if cpu_has!("bmi1", "bmi2") => unsafe {
                portable::symbols_bmi2(lanes, words, tables, tokens, room)?;
            },
            _ => portable::symbols(lanes, words, tables, tokens, room)?,
        }
        copies::run(tokens, raw, done)
    }

    /// Decodes a whole stream into `raw`, which must have exactly its raw length.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] for another length; any fault in a tile, with its number and the
    /// offset from the first byte of the stream. The contents of `raw` are then unspecified.
    pub fn decode(&mut self, stream: &TileStream<'_>, raw: &mut [u8]) -> Result<(), Error> {
        self.decode_range(stream, 0..stream.header().tile_count(), raw)
    }

    /// Decodes consecutive tiles of a stream into `raw`, whose length must be exactly the sum of
    /// their raw lengths.
    ///
    /// # Errors
    /// Those of [`Decoder::decode`]; [`ErrorKind::Argument`] for tiles that do not exist.
    pub fn decode_range(
        &mut self,
        stream: &TileStream<'_>,
        tiles: Range<u32>,
        raw: &mut [u8],
    ) -> Result<(), Error> {
        let tile_raw_len = |tile| stream.header().tile_raw_len(tile);
        if tiles.end > stream.header().tile_count()
            || tiles.clone().map(tile_raw_len).sum::<usize>() != raw.len()
        {
            return Err(Error::new(ErrorKind::Argument, 0));
        }
        for (tile, target) in tiles.zip(raw.chunks_mut(TILE_RAW_BYTES)) {
            self.decode_tile(stream.tile(tile), target)
                .map_err(|error| error.in_tile(tile, stream.table().tile_range(tile).start))?;
        }
        Ok(())
    }
}
