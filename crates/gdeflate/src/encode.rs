//! Encoding tiles.
//!
//! A level chooses a parser (which matches), and how hard it looks; block borders, codes and block
//! types are then chosen by cost, and `dealer` writes the bits in the order in which a decoder
//! asks for them. A tile whose coded form is not shorter than stored blocks is stored, so that
//! [`compress_bound`](crate::compress_bound) is true for any input.
//!
//! The result depends on the raw bytes and the level alone: an encoder keeps no state between
//! tiles, so it does not matter which thread encodes which tile.
//!
//! # Safety
//! The one unsafe thing here is to call the same safe code, compiled for features that not every
//! machine has.
#![cfg_attr(
    all(target_arch = "x86_64", feature = "std"),
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
use self::buckets::{All, Buckets, Short};
use self::chains::Chains;
use self::codes::Codes;
use self::cost::Costs;
use self::dealer::Dealer;
use self::matches::{Matches, Search};
use self::optimal::Optimal;
use self::parse::Effort;
use self::split::Splitter;
use self::symbols::Symbols;
use self::tokens::{Frequencies, Token};
use self::trees::Trees;
#[cfg(all(target_arch = "x86_64", feature = "std"))]
use crate::cpu::cpu_has;
use crate::error::{Error, ErrorKind};
use crate::limits::TILE_RAW_BYTES;

/// How hard the encoder tries: 0 stores, 1 is quickest, 12 smallest.
///
/// Levels 1–3 take matches as they come, 4–7 look ahead before they take one, 8–12 search for the
/// cheapest parse. Each level compresses better than the one before it on data that compresses at
/// all, taken as a whole; on a single file neighbours may be a hair apart.
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

    /// The level with this number, if there is one: 0 to 12.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number <= 12 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// All levels, ascending.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=12).map(Self)
    }

    const fn method(self) -> Method {
        const fn quick(finder: Quick, nice: usize, lookahead: usize, unit_bytes: usize) -> Method {
            let depth = match finder {
                Quick::Chains(depth) => depth,
                _ => 0,
            };
            let effort = Effort {
                depth,
                nice,
                lookahead,
                insert_max: TILE_RAW_BYTES,
                patience: 256,
            };
            Method::Quick {
                finder,
                effort,
                unit_bytes,
            }
        }
        const fn thorough(finder: Finder, depth: u32, nice: usize, passes: u32) -> Method {
            Method::Thorough {
                finder,
                search: Search { depth, nice },
                passes,
            }
        }
        match self.0 {
            0 => Method::Stored,
            1 => Method::Quick {
                finder: Quick::ShortBuckets,
                effort: Effort {
                    depth: 0,
                    nice: 0,
                    lookahead: 0,
                    insert_max: 16,
                    patience: 64,
                },
                unit_bytes: 16_384,
            },
            2 => quick(Quick::ShortBuckets, 0, 0, 8192),
            3 => quick(Quick::Buckets, 0, 0, 4096),
            4 => quick(Quick::Buckets, 64, 1, 4096),
            5 => quick(Quick::Chains(16), 64, 1, 4096),
            6 => quick(Quick::Chains(48), 100, 1, 2048),
            7 => quick(Quick::Chains(150), 200, 1, 2048),
            8 => thorough(Finder::Buckets, 0, 32, 1),
            9 => thorough(Finder::Buckets, 0, 100, 1),
            10 => thorough(Finder::Trees, 24, 100, 2),
            11 => thorough(Finder::Trees, 60, 160, 3),
            _ => thorough(Finder::Trees, 300, 258, 6),
        }
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How a quick level finds its matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quick {
    /// In buckets by three and four bytes.
    ShortBuckets,
    /// In all buckets.
    Buckets,
    /// In chains, looking at so many candidates.
    Chains(u32),
}

/// How a thorough level finds its matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finder {
    Buckets,
    Trees,
}

/// Raw bytes of the units that a thorough level makes its blocks of.
const THOROUGH_UNIT_BYTES: usize = 1024;

/// What a level does.
#[derive(Debug, Clone, Copy)]
enum Method {
    Stored,
    Quick {
        finder: Quick,
        effort: Effort,
        unit_bytes: usize,
    },
    Thorough {
        finder: Finder,
        search: Search,
        passes: u32,
    },
}

/// Encodes tiles, one at a time. Keeps its memory, 1 to 4 MiB by level and data: make one per
/// thread and use it again. It may be used by one thread at a time and moved between threads.
pub struct Encoder {
    level: Level,
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    wide: bool,
    dealer: Dealer,
    symbols: Symbols,
    fixed: Codes,
    chains: Chains,
    buckets: Buckets,
    tokens: Vec<Token>,
    splitter: Splitter,
    thorough: Option<Thorough>,
}

/// What only the thorough levels need.
struct Thorough {
    trees: Trees,
    matches: Matches,
    optimal: Optimal,
    costs: Costs,
    blocks: Vec<(usize, Frequencies)>,
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
    /// An encoder of one level.
    #[must_use]
    pub fn new(level: Level) -> Self {
        let thorough = matches!(level.method(), Method::Thorough { .. }).then(|| Thorough {
            trees: Trees::new(),
            matches: Matches::default(),
            optimal: Optimal::new(),
            costs: Costs::ZERO,
            blocks: Vec::new(),
            parsed: Vec::new(),
        });
        Self {
            level,
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            wide: is_wide(),
            dealer: Dealer::default(),
            symbols: Symbols::new(),
            fixed: Codes::fixed(),
            chains: Chains::new(),
            buckets: Buckets::new(),
            tokens: Vec::new(),
            splitter: Splitter::default(),
            thorough,
        }
    }

    /// The level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Appends the tile that holds `raw`, at most 64 KiB, to `out`. It takes no more than
    /// [`tile_stored_bytes_bound`](crate::limits::tile_stored_bytes_bound) bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if `raw` is longer than a tile.
    pub fn encode_tile(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if raw.len() > TILE_RAW_BYTES {
            return Err(Error::new(ErrorKind::Argument, 0));
        }
        #[cfg(all(target_arch = "x86_64", feature = "std"))]
        if self.wide {
            // SAFETY: `wide` is what `is_wide` said of this machine.
            unsafe { self.encode_wide(raw, out) };
            return Ok(());
        }
        self.encode_plain(raw, out);
        Ok(())
    }

    /// [`Encoder::encode_plain`], compiled for machines of the last ten years: with their shifts
    /// and bit counts the same code is a fifth faster.
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn encode_wide(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        self.encode_plain(raw, out);
    }

    #[inline(always)]
    fn encode_plain(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        self.dealer.start();
        match self.level.method() {
            Method::Stored => {}
            Method::Quick {
                finder,
                effort,
                unit_bytes,
            } => self.encode_quick(raw, finder, effort, unit_bytes),
            Method::Thorough {
                finder,
                search,
                passes,
            } => {
                self.encode_thorough(raw, finder, search, passes);
            }
        }
        if self.level == Level::STORED || self.dealer.stored_len() > stored_tile_bytes(raw.len()) {
            self.dealer.start();
            block::write_stored(&mut self.dealer, raw, true);
        }
        self.dealer.finish(out);
    }

    #[inline(always)]
    fn encode_quick(&mut self, raw: &[u8], finder: Quick, effort: Effort, unit_bytes: usize) {
        let Self {
            fixed,
            dealer,
            symbols,
            chains,
            buckets,
            tokens,
            splitter,
            ..
        } = self;
        match finder {
            Quick::ShortBuckets => parse::by_buckets::<Short>(raw, buckets, effort, tokens),
            Quick::Buckets => parse::by_buckets::<All>(raw, buckets, effort, tokens),
            Quick::Chains(_) => parse::by_chains(raw, chains, effort, tokens),
        }
        if tokens.is_empty() {
            return block::write_stored(dealer, raw, true);
        }
        let (mut token_start, mut raw_start) = (0, 0);
        splitter.split(tokens, unit_bytes, |token_end, raw_end, frequencies| {
            let block = Block {
                raw: &raw[raw_start..raw_end],
                tokens: &tokens[token_start..token_end],
                frequencies,
            };
            block::write(dealer, symbols, fixed, &block, raw_end == raw.len());
            (token_start, raw_start) = (token_end, raw_end);
        });
    }

    #[inline(always)]
    fn encode_thorough(&mut self, raw: &[u8], finder: Finder, search: Search, passes: u32) {
        let Self {
            fixed,
            dealer,
            symbols,
            buckets,
            tokens,
            splitter,
            thorough,
            ..
        } = self;
        let Thorough {
            trees,
            matches,
            optimal,
            costs,
            blocks,
            parsed,
        } = thorough.as_mut().expect("made with the level");
        match finder {
            Finder::Buckets => buckets.find_all(raw, search, matches),
            Finder::Trees => trees.find_all(raw, search, matches),
        }
        parse::of_found(raw, matches, tokens);
        if tokens.is_empty() {
            return block::write_stored(dealer, raw, true);
        }
        blocks.clear();
        splitter.split(tokens, THOROUGH_UNIT_BYTES, |_, raw_end, frequencies| {
            blocks.push((raw_end, *frequencies))
        });
        let mut raw_start = 0;
        for (raw_end, frequencies) in blocks.iter_mut() {
            for _ in 0..passes {
                costs.set_from(frequencies);
                parsed.clear();
                optimal.parse(
                    raw,
                    (raw_start, *raw_end),
                    matches,
                    costs,
                    search.nice,
                    parsed,
                );
                *frequencies = Frequencies::of_block(parsed);
            }
            let block = Block {
                raw: &raw[raw_start..*raw_end],
                tokens: parsed,
                frequencies,
            };
            block::write(dealer, symbols, fixed, &block, *raw_end == raw.len());
            raw_start = *raw_end;
        }
    }
}

/// Whether this machine has what [`Encoder::encode_wide`] is compiled for.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
fn is_wide() -> bool {
    cpu_has!("avx2", "bmi1", "bmi2", "lzcnt", "popcnt")
}

/// Bytes of a tile of stored blocks, exactly enough to compare: what the bound says.
fn stored_tile_bytes(raw_len: usize) -> usize {
    crate::limits::tile_stored_bytes_bound(raw_len)
}

#[cfg(all(test, target_arch = "x86_64", feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn wide_machines_write_the_same_bytes() {
        if !is_wide() {
            std::println!("SKIP: this machine has no AVX2, so there is one way only");
            return;
        }
        // Runs, repeats near and far, and noise.
        let mut raw = std::vec![7; 3000];
        let mut random = fastrand::Rng::with_seed(1);
        while raw.len() < TILE_RAW_BYTES - 400 {
            let from = random.usize(..raw.len());
            let len = random.usize(1..300).min(raw.len() - from);
            raw.extend_from_within(from..from + len);
            raw.extend((0..random.usize(..40)).map(|_| random.u8(..)));
        }
        for level in Level::all() {
            let (mut plain, mut wide) = (Vec::new(), Vec::new());
            Encoder::new(level).encode_plain(&raw, &mut plain);
            // SAFETY: the machine has been asked.
            unsafe { Encoder::new(level).encode_wide(&raw, &mut wide) };
            assert!(plain == wide, "{level:?}");
        }
    }
}
