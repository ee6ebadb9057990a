//! Encoding tiles.
//!
//! A level chooses how thoroughly matches are searched and which are taken; block boundaries, codes
//! and block types are then chosen by cost, and `dealer` writes the bits in the order in which a
//! decoder reads them. Noise is recognized and stored. A tile whose coded form exceeds the bound of
//! stored blocks is stored, so that [`compress_bound`](crate::compress_bound) holds for any input.
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

pub(crate) mod block;
mod codes;
mod cost;
pub(crate) mod dealer;
mod huffman;
mod links;
mod matches;
mod optimal;
mod parse;
mod split;
mod symbols;
mod tokens;
mod window;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use self::block::Block;
use self::codes::Codes;
use self::cost::Costs;
use self::dealer::Dealer;
use self::links::{Links, Search, Threes};
use self::matches::Matches;
use self::optimal::Way;
use self::parse::TileTokens;
use self::split::Segment;
use self::symbols::Symbols;
use self::tokens::{Coded, Frequencies};
use self::window::Window;
#[cfg(target_arch = "x86_64")]
use crate::cpu::cpu_has;
use crate::error::{Error, ErrorKind};
use crate::limits::{TILE_RAW_BYTES, tile_stored_bytes_bound};
use crate::zeroed;

/// A compression level: 0 stores, 1 is the fastest, 12 gives the smallest output.
///
/// The levels correspond to libdeflate's: 1–4 parse greedily, 5–7 lazily, 8 and 9 lazily with a
/// lookahead of two positions, and 10–12 search for the cheapest parse. Over a corpus of
/// compressible data each level compresses better than the one before it; on a single file adjacent
/// levels may differ very little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// Stored blocks only.
    pub const STORED: Self = Self(0);
    /// The reference encoder's "fastest".
    pub const FASTEST: Self = Self(1);
    /// The fastest level that searches for the cheapest parse.
    pub const DEFAULT: Self = Self(10);
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
        match self.0 {
            0 => Method::Stored,
            1 => Method::direct(1, 32, 0),
            2 => Method::direct(6, 10, 0),
            3 => Method::direct(12, 14, 0),
            4 => Method::direct(16, 30, 0),
            5 => Method::direct(16, 30, 1),
            6 => Method::direct(35, 65, 1),
            7 => Method::direct(100, 130, 1),
            8 => Method::direct(60, 258, 2),
            9 => Method::direct(600, 258, 2),
            10 => Method::optimal(6, 64, 6, 1),
            11 => Method::optimal(30, 64, 8, 2),
            _ => Method::optimal(150, 96, 96, 4),
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
enum Method {
    Stored,
    /// Takes matches from left to right, unless a better one begins up to `ahead` positions later.
    Direct {
        search: Search,
        ahead: usize,
    },
    /// Finds the matches of all positions, see [`Links::find_all`], then parses each block `passes`
    /// times, at the costs of the previous parse's symbols.
    Optimal {
        search: Search,
        carry: usize,
        passes: u32,
    },
}

impl Method {
    const fn direct(depth: u32, nice: usize, ahead: usize) -> Self {
        let search = Search {
            depth,
            depth_mean: 8,
            nice,
            threes: Threes::Few,
            threes_below: if depth == 1 { 80 } else { 208 },
        };
        Self::Direct { search, ahead }
    }

    const fn optimal(depth: u32, nice: usize, carry: usize, passes: u32) -> Self {
        let search = Search {
            depth,
            depth_mean: 16,
            nice,
            threes: match passes {
                1 => Threes::Near,
                _ => Threes::All,
            },
            threes_below: 208,
        };
        Self::Optimal {
            search,
            carry,
            passes,
        }
    }

    /// Returns the passes over each block, and the length from which they do not shorten a match.
    const fn passes(self) -> (u32, usize) {
        match self {
            Self::Optimal { search, passes, .. } => (passes, search.nice),
            Self::Stored | Self::Direct { .. } => (0, 0),
        }
    }
}

/// The last pass over a block is the one that saves less than this fraction of its bits.
const PASS_GAIN: u32 = 2048;

/// Tokens of the units that blocks are made of, without and with passes over the blocks.
const UNIT_TOKENS: usize = 2048;
const UNIT_TOKENS_OF_PASSES: usize = 512;

/// An encoder of tiles, one at a time. It keeps its memory, 1 to 4 MiB by level and data: make one
/// per thread and reuse it. It may be used by one thread at a time and moved between threads.
pub struct Encoder {
    level: Level,
    dealer: Dealer,
    symbols: Symbols,
    fixed: Codes,
    window: Window,
    links: Links,
    matches: Matches,
    tokens: Box<TileTokens>,
    segments: Vec<Segment>,
    costs: Costs,
    ways: Vec<Way>,
    /// The output of `optimal::parse` for one block.
    parsed: Vec<Coded>,
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
            window: Window::new(),
            links: Links::new(),
            matches: Matches::default(),
            tokens: zeroed(),
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
    /// same code much faster, above all the writing of bits.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn encode_wide(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        self.encode_plain(raw, out);
    }

    #[inline(always)]
    fn encode_plain(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let method = self.level.method();
        self.dealer.start();
        match self.parse(raw, method) {
            0 => block::write_stored(&mut self.dealer, raw, true),
            count => self.write_blocks(raw, count, method),
        }
        if self.dealer.stored_len() > tile_stored_bytes_bound(raw.len()) {
            self.dealer.start();
            block::write_stored(&mut self.dealer, raw, true);
        }
        self.dealer.finish(out);
    }

    /// Parses a tile and returns the number of tokens, 0 for a tile that is to be stored.
    #[inline(always)]
    fn parse(&mut self, raw: &[u8], method: Method) -> usize {
        let (Method::Direct { search, .. } | Method::Optimal { search, .. }) = method else {
            return 0;
        };
        let (window, links) = (&mut self.window, &mut self.links);
        let (matches, tokens) = (&mut self.matches, &mut self.tokens);
        window.set(raw);
        let mut len_min = parse::shortest_worthwhile(raw);
        let fours = links.link(window, len_min);
        if fours == 0 && is_noise(raw) {
            return 0;
        }
        if fours >= search.threes_below {
            len_min = len_min.max(4);
        }
        if len_min < 4 {
            links.link_threes(window, search.threes);
        }
        match method {
            Method::Direct { ahead, .. } => {
                parse::by_links(raw, window, links, len_min, (search, ahead), tokens)
            }
            Method::Stored => 0,
            Method::Optimal { carry, .. } => {
                links.find_all(window, len_min.min(4), search, carry, matches);
                parse::of_found(raw, matches, tokens)
            }
        }
    }

    /// Cuts the tokens of a tile into blocks, parses each of them again, and writes them.
    #[inline(always)]
    fn write_blocks(&mut self, raw: &[u8], token_count: usize, method: Method) {
        let (passes, nice) = method.passes();
        let unit_tokens = match passes {
            0 => UNIT_TOKENS,
            _ => UNIT_TOKENS_OF_PASSES,
        };
        split::split(&self.tokens[..token_count], unit_tokens, &mut self.segments);
        let (mut token_start, mut raw_start) = (0, 0);
        for segment in &self.segments {
            let mut frequencies = segment.frequencies;
            let mut tokens = &self.tokens[token_start..segment.token_end];
            let range = raw_start..segment.raw_end;
            let mut bits = cost::estimated_bits(&frequencies);
            for _ in 0..passes {
                self.costs.set_from(&frequencies);
                let (matches, costs) = (&self.matches, &self.costs);
                let (range, ways, parsed) = (range.clone(), &mut self.ways, &mut self.parsed);
                optimal::parse(raw, range, matches, costs, nice, ways, parsed);
                frequencies = Frequencies::of_block(parsed);
                tokens = parsed;
                let before = core::mem::replace(&mut bits, cost::estimated_bits(&frequencies));
                if bits + before / PASS_GAIN >= before {
                    break;
                }
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

/// Smallest tile that can be classified as noise: in a quarter of fewer bytes the frequencies of
/// noise are too uneven.
const NOISE_BYTES_MIN: usize = TILE_RAW_BYTES / 4;

/// Returns whether the bytes of a tile, of which it counts a quarter, are so equally frequent that
/// codes for them save less than one percent.
fn is_noise(raw: &[u8]) -> bool {
    let mut frequencies = Frequencies::ZERO;
    let mut count = 0;
    // All places of a word are counted.
    for &byte in raw.chunks(64).flat_map(|piece| piece.iter().take(16)) {
        frequencies.litlen[usize::from(byte)] += 1;
        count += 1;
    }
    raw.len() >= NOISE_BYTES_MIN && cost::estimated_bits(&frequencies) >= 8 * count
}
