//! Encoding tiles.
//!
//! A level chooses how matches are found and which are taken; block boundaries, codes and block
//! types are then chosen by cost, and `dealer` writes the bits in the order in which a decoder
//! reads them. A tile whose coded form exceeds the bound of stored blocks is stored, so that
//! [`compress_bound`](crate::compress_bound) holds for any input.
//!
//! The result depends on the raw bytes and the level alone: an encoder keeps no state between
//! tiles, so it does not matter which thread encodes which tile.
//!
//! # Safety
//! The only unsafe operation here is the call of the same safe code compiled for CPU features that
//! not every machine has.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "calls a function that needs CPU features; see # Safety"
    )
)]

mod block;
mod buckets;
mod chains;
mod codes;
mod cost;
mod dealer;
mod huffman;
mod matches;
mod optimal;
mod parse;
mod split;
mod symbols;
mod tokens;
mod trees;
mod window;

use alloc::vec::Vec;
use core::fmt;

use self::block::Block;
use self::buckets::Buckets;
use self::chains::Chains;
use self::codes::Codes;
use self::cost::Costs;
use self::dealer::Dealer;
use self::matches::Matches;
use self::optimal::Way;
use self::parse::Effort;
use self::split::Segment;
use self::symbols::Symbols;
use self::tokens::{Frequencies, Token};
use self::trees::Trees;
#[cfg(target_arch = "x86_64")]
use crate::cpu::cpu_has;
use crate::error::{Error, ErrorKind};
use crate::limits::{TILE_RAW_BYTES, tile_stored_bytes_bound};

/// A compression level: 0 stores, 1 is the fastest, 12 gives the smallest output.
///
/// Levels 1–3 parse greedily, 4–7 lazily (with lookahead), 8–12 search for the cheapest parse. Over
/// a corpus of compressible data each level compresses better than the one before it; on a single
/// file adjacent levels may differ very little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// Stored blocks only.
    pub const STORED: Self = Self(0);
    /// The reference encoder's "fastest".
    pub const FASTEST: Self = Self(1);
    /// The reference encoder's "default".
    pub const DEFAULT: Self = Self(9);
    /// The reference encoder's "best ratio".
    pub const BEST_RATIO: Self = Self(12);

    /// Returns the level with this number, 0 to 12, or `None` for any other.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number <= 12 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Returns the level's number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns all levels in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=12).map(Self)
    }

    const fn method(self) -> Method {
        let (finder, nice, passes, unit_bytes) = match self.0 {
            0 => (Finder::None, 0, 0, TILE_RAW_BYTES),
            1 => (Finder::ShortBuckets(Effort::LEAST), 0, 0, 16_384),
            2 => (Finder::ShortBuckets(Effort::of_depth(0)), 0, 0, 8192),
            3 => (Finder::LongBuckets, 0, 0, 4096),
            4 => (Finder::LongBuckets, 64, 0, 4096),
            5 => (Finder::Chains(16), 64, 0, 4096),
            6 => (Finder::Chains(48), 100, 0, 2048),
            7 => (Finder::Chains(150), 200, 0, 2048),
            8 => (Finder::AllOfBuckets, 32, 1, 1024),
            9 => (Finder::AllOfBuckets, 100, 1, 1024),
            10 => (Finder::Trees(24), 100, 2, 1024),
            11 => (Finder::Trees(60), 160, 3, 1024),
            _ => (Finder::Trees(300), 258, 6, 1024),
        };
        Method {
            finder,
            nice,
            passes,
            unit_bytes,
        }
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a level does.
#[derive(Debug, Clone, Copy)]
struct Method {
    finder: Finder,
    /// A match at least this long is taken without looking for a better one.
    nice: usize,
    /// How often each block is parsed again, at the costs of the previous parse's symbols.
    passes: u32,
    /// Raw bytes of the units that blocks are made of.
    unit_bytes: usize,
}

/// How matches are found.
#[derive(Debug, Clone, Copy)]
enum Finder {
    None,
    /// In buckets by three and four bytes, while parsing.
    ShortBuckets(Effort),
    /// In all buckets, while parsing.
    LongBuckets,
    /// In chains, while parsing, looking at up to this many candidates.
    Chains(u32),
    /// In all buckets, for every position.
    AllOfBuckets,
    /// In trees, for every position, looking at up to this many candidates.
    Trees(u32),
}

/// An encoder of tiles, one at a time. It keeps its memory, 1 to 4 MiB by level and data: make one
/// per thread and reuse it. It may be used by one thread at a time and moved between threads.
pub struct Encoder {
    level: Level,
    dealer: Dealer,
    symbols: Symbols,
    fixed: Codes,
    short_buckets: Buckets<false>,
    buckets: Buckets<true>,
    chains: Chains,
    trees: Trees,
    matches: Matches,
    tokens: Vec<Token>,
    segments: Vec<Segment>,
    costs: Costs,
    ways: Vec<Way>,
    /// The output of `optimal::parse` for one block.
    parsed: Vec<Token>,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// Creates an encoder for one level.
    #[must_use]
    pub fn new(level: Level) -> Self {
        Self {
            level,
            dealer: Dealer::default(),
            symbols: Symbols::new(),
            fixed: Codes::fixed(),
            short_buckets: Buckets::new(),
            buckets: Buckets::new(),
            chains: Chains::new(),
            trees: Trees::new(),
            matches: Matches::default(),
            tokens: Vec::new(),
            segments: Vec::new(),
            costs: Costs::ZERO,
            ways: Vec::new(),
            parsed: Vec::new(),
        }
    }

    /// Encodes `raw`, at most 64 KiB, as one tile and appends it to `out`: at most
    /// [`tile_stored_bytes_bound`] bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if `raw` is longer than a tile.
    pub fn encode_tile(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if raw.len() > TILE_RAW_BYTES {
            return Err(Error::new(ErrorKind::Argument, 0));
        }
        #[cfg(target_arch = "x86_64")]
        if cpu_has!("avx2", "bmi1", "bmi2", "lzcnt", "popcnt") {
            // SAFETY: the CPU features were just detected.
            unsafe { self.encode_wide(raw, out) };
            return Ok(());
        }
        self.encode_plain(raw, out);
        Ok(())
    }

    /// [`Encoder::encode_plain`] compiled for AVX2 and BMI, whose shifts and bit counts make the
    /// same code a fifth faster.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn encode_wide(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        self.encode_plain(raw, out);
    }

    #[inline(always)]
    fn encode_plain(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let method = self.level.method();
        self.dealer.start();
        self.parse(raw, method);
        if self.tokens.is_empty() {
            block::write_stored(&mut self.dealer, raw, true);
        } else {
            self.write_blocks(raw, method);
        }
        if self.dealer.stored_len() > tile_stored_bytes_bound(raw.len()) {
            self.dealer.start();
            block::write_stored(&mut self.dealer, raw, true);
        }
        self.dealer.finish(out);
    }

    /// Parses a tile into `self.tokens`; leaves them empty for a tile that is to be stored.
    #[inline(always)]
    fn parse(&mut self, raw: &[u8], Method { finder, nice, .. }: Method) {
        let (matches, tokens) = (&mut self.matches, &mut self.tokens);
        tokens.clear();
        match finder {
            Finder::None => {}
            Finder::ShortBuckets(effort) => {
                parse::as_found(raw, &mut self.short_buckets, effort, nice, tokens);
            }
            Finder::LongBuckets => {
                parse::as_found(raw, &mut self.buckets, Effort::of_depth(0), nice, tokens);
            }
            Finder::Chains(depth) => {
                let effort = Effort::of_depth(depth);
                parse::as_found(raw, &mut self.chains, effort, nice, tokens);
            }
            Finder::AllOfBuckets => {
                self.buckets.find_all(raw, nice, matches);
                parse::of_found(raw, matches, tokens);
            }
            Finder::Trees(depth) => {
                self.trees.find_all(raw, depth, nice, matches);
                parse::of_found(raw, matches, tokens);
            }
        }
    }

    /// Cuts the tokens of a tile into blocks, parses each of them again, and writes them.
    #[inline(always)]
    fn write_blocks(&mut self, raw: &[u8], method: Method) {
        split::split(&self.tokens, method.unit_bytes, &mut self.segments);
        let (mut token_start, mut raw_start) = (0, 0);
        for segment in &self.segments {
            let mut frequencies = segment.frequencies;
            let mut tokens = &self.tokens[token_start..segment.token_end];
            let range = raw_start..segment.raw_end;
            for _ in 0..method.passes {
                self.costs.set_from(&frequencies);
                let (matches, costs, nice) = (&self.matches, &self.costs, method.nice);
                let (range, ways, parsed) = (range.clone(), &mut self.ways, &mut self.parsed);
                optimal::parse(raw, range, matches, costs, nice, ways, parsed);
                frequencies = Frequencies::of_block(parsed.iter().copied());
                tokens = parsed;
            }
            let block = Block {
                raw: &raw[range],
                tokens,
                frequencies: &frequencies,
            };
            let (dealer, symbols) = (&mut self.dealer, &mut self.symbols);
            let last = segment.raw_end == raw.len();
            block::write(dealer, symbols, &self.fixed, &block, last);
            (token_start, raw_start) = (segment.token_end, segment.raw_end);
        }
    }
}
