//! Encoding tiles.
//!
//! A level chooses a parser (which matches), and how hard it looks; block borders, codes and block
//! types are then chosen by cost, and `dealer` writes the bits in the order in which a decoder
//! asks for them. A tile whose coded form is not shorter than stored blocks is stored, so that
//! [`compress_bound`](crate::compress_bound) is true for any input.
//!
//! The result depends on the raw bytes and the level alone: an encoder keeps no state between
//! tiles, so it does not matter which thread encodes which tile.

mod block;
mod chains;
mod cost;
mod dealer;
mod huffman;
mod matches;
mod optimal;
mod parse;
mod split;
mod tokens;
mod trees;
mod window;

use alloc::vec::Vec;
use core::fmt;

use self::block::Codes;
use self::chains::Chains;
use self::cost::Costs;
use self::dealer::Dealer;
use self::matches::{Matches, Search};
use self::optimal::{Optimal, costs_of};
use self::parse::Effort;
use self::split::Splitter;
use self::tokens::Token;
use self::trees::Trees;
use crate::error::{Error, ErrorKind};
use crate::limits::TILE_RAW_BYTES;

/// How hard the encoder tries: 0 stores, 1 is quickest, 12 smallest.
///
/// Levels 1–4 take matches as they come, 5–7 look ahead before they take one, 8–12 search for the
/// cheapest parse. Each level compresses better than the one before it on data that
/// compresses at all, taken as a whole; on a single file neighbours may be a hair apart.
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
        const fn quick(depth: u32, nice: usize, lookahead: usize, unit_bytes: usize) -> Method {
            let effort = Effort {
                depth,
                nice,
                lookahead,
                insert_max: TILE_RAW_BYTES,
                patience: 256,
            };
            Method::Quick { effort, unit_bytes }
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
                effort: Effort {
                    depth: 1,
                    nice: 32,
                    lookahead: 0,
                    insert_max: 2,
                    patience: 32,
                },
                unit_bytes: 16_384,
            },
            2 => quick(4, 32, 0, 8192),
            3 => quick(10, 48, 0, 4096),
            4 => quick(24, 64, 0, 4096),
            5 => quick(24, 64, 1, 4096),
            6 => quick(50, 100, 1, 2048),
            7 => quick(150, 200, 1, 2048),
            8 => thorough(Finder::Chains, 16, 48, 1),
            9 => thorough(Finder::Trees, 10, 48, 1),
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

/// How a thorough level finds its matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finder {
    Chains,
    Trees,
}

/// Raw bytes of the units that a thorough level makes its blocks of.
const THOROUGH_UNIT_BYTES: usize = 1024;

/// What a level does.
#[derive(Debug, Clone, Copy)]
enum Method {
    Stored,
    Quick {
        effort: Effort,
        unit_bytes: usize,
    },
    Thorough {
        finder: Finder,
        search: Search,
        passes: u32,
    },
}

/// Encodes tiles, one at a time. Keeps its memory, up to 2 MiB: make one per thread and use it
/// again. It may be used by one thread at a time and moved between threads.
pub struct Encoder {
    level: Level,
    dealer: Dealer,
    fixed: Codes,
    chains: Chains,
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
    blocks: Vec<(usize, usize)>,
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
            optimal: Optimal::default(),
            costs: Costs::ZERO,
            blocks: Vec::new(),
            parsed: Vec::new(),
        });
        Self {
            level,
            dealer: Dealer::default(),
            fixed: Codes::fixed(),
            chains: Chains::new(),
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
        self.dealer.start();
        match self.level.method() {
            Method::Stored => {}
            Method::Quick { effort, unit_bytes } => self.encode_quick(raw, effort, unit_bytes),
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
        Ok(())
    }

    fn encode_quick(&mut self, raw: &[u8], effort: Effort, unit_bytes: usize) {
        let Self {
            fixed,
            dealer,
            chains,
            tokens,
            splitter,
            ..
        } = self;
        parse::parse(raw, chains, effort, tokens);
        if tokens.is_empty() {
            return block::write(dealer, fixed, raw, tokens, true);
        }
        let (mut token_start, mut raw_start) = (0, 0);
        splitter.split(tokens, unit_bytes, |token_end, raw_end| {
            let last = raw_end == raw.len();
            block::write(
                dealer,
                fixed,
                &raw[raw_start..raw_end],
                &tokens[token_start..token_end],
                last,
            );
            (token_start, raw_start) = (token_end, raw_end);
        });
    }

    fn encode_thorough(&mut self, raw: &[u8], finder: Finder, search: Search, passes: u32) {
        let Self {
            fixed,
            dealer,
            chains,
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
            Finder::Chains => chains.find_all(raw, search, matches),
            Finder::Trees => trees.find_all(raw, search, matches),
        }
        parse::parse_found(raw, matches, tokens);
        if tokens.is_empty() {
            return block::write(dealer, fixed, raw, tokens, true);
        }
        blocks.clear();
        splitter.split(tokens, THOROUGH_UNIT_BYTES, |token_end, raw_end| {
            blocks.push((token_end, raw_end))
        });
        let (mut token_start, mut raw_start) = (0, 0);
        for &(token_end, raw_end) in blocks.iter() {
            costs_of(&tokens[token_start..token_end], costs);
            for pass in 0..passes {
                if pass > 0 {
                    costs_of(parsed, costs);
                }
                parsed.clear();
                optimal.parse(raw, (raw_start, raw_end), matches, costs, parsed);
            }
            let last = raw_end == raw.len();
            block::write(dealer, fixed, &raw[raw_start..raw_end], parsed, last);
            (token_start, raw_start) = (token_end, raw_end);
        }
    }
}

/// Bytes of a tile of stored blocks, exactly enough to compare: what the bound says.
fn stored_tile_bytes(raw_len: usize) -> usize {
    crate::limits::tile_stored_bytes_bound(raw_len)
}
