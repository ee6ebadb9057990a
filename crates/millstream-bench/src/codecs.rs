//! Workload `codecs`: every codec of the engine, in memory.
//!
//! Rates are in MB of raw bytes per second of processor time, on one thread. Corpora are made from
//! a seed (the example `speed` of the crate `gdeflate` takes files). Two views:
//!
//! - *tiles*: GDeflate with each of its kernels, beside libdeflate, which decodes deflate of the
//!   same bytes, cut at the same 64 KiB, encoded at the same level: what a lane format costs or
//!   gains a CPU. Level 0 is stored blocks, beside a bare copy. Also how fast and how small both
//!   encode.
//! - *blocks*: all codecs through `millstream-codec`, in blocks as the engine's decode jobs have
//!   them, at their default levels, beside the libraries called directly and a bare copy.
//!
//! GDeflate's reference codec is no contender: it is not available as a library, and not safe to
//! run in the process.

use gdeflate::limits::TILE_RAW_BYTES;
use toml::Table;

use crate::codecs::coders::Coder;
use crate::corpus::generate::Kind;
use crate::prelude::*;

mod coders;

const SEED: u64 = 0x6364_6563;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let Some(size) = session.cases("codecs", "corpus").pop() else {
        return Ok(());
    };
    let bytes = size.get::<Bytes>("bytes").len();
    for kind in Kind::ALL {
        let raw = kind.made(SEED, bytes);
        let corpus = format!("made {}", kind.name());
        let found = Table::from_iter([("corpus".to_owned(), corpus.into())]);
        for instance in session.cases_with("codecs", "coders", found) {
            one(session, &instance, &raw)?;
        }
    }
    Ok(())
}

/// Runs a case. All contenders leave the corpus' raw bytes in the destination.
fn one(session: &mut Session<'_>, instance: &Instance, raw: &[u8]) -> Result<()> {
    let mut case = session.begin(instance);
    let level: Option<i32> = instance.find("level");
    let piece = if level.is_some() {
        TILE_RAW_BYTES
    } else {
        BLOCK_BYTES
    };
    let way: String = instance.get("way");
    for name in instance.contenders() {
        add(&mut case, name, &way, level, raw, piece)?;
    }
    case.check(raw.len(), |bytes, _| {
        ensure(bytes == raw, "other bytes than the corpus has")
    });
    session.run(case)
}

/// Adds a contender of `cases.toml`; `way` is `decode` or `encode`.
fn add<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    way: &str,
    level: Option<i32>,
    raw: &'a [u8],
    piece: usize,
) -> Result<()> {
    let (mut coder, shown) = match coders::of(name, level) {
        Ok(coder) => coder,
        Err(why) => {
            case.skip(name, &why.to_string());
            return Ok(());
        }
    };
    let contender = match way {
        // The encoded data is decoded after the clock has stopped, to be checked.
        "encode" => case.add(name, move |into| {
            let (pieces, span) = span_of(|| Pieces::encode(raw, piece, &mut coder));
            let pieces = pieces?;
            pieces.decode(&mut coder, into)?;
            Ok(pieces.work().took(span))
        }),
        _ => {
            let pieces = Pieces::encode(raw, piece, &mut coder)?;
            case.add(name, move |into| {
                pieces.decode(&mut coder, into)?;
                Ok(pieces.work())
            })
        }
    };
    if let Some(level) = shown {
        contender.with("level", level);
    }
    Ok(())
}

/// A corpus in pieces, each encoded separately.
struct Pieces {
    stored: Vec<Vec<u8>>,
    raw_len: usize,
    piece_bytes: usize,
}

impl Pieces {
    fn encode(raw: &[u8], piece_bytes: usize, coder: &mut Coder) -> Result<Pieces> {
        let mut encode = |raw: &[u8]| {
            let mut stored = Vec::new();
            (coder.encode)(raw, &mut stored)?;
            Ok(stored)
        };
        let stored = raw.chunks(piece_bytes).map(&mut encode);
        Ok(Pieces {
            stored: stored.collect::<Result<_>>()?,
            raw_len: raw.len(),
            piece_bytes,
        })
    }

    fn decode(&self, coder: &mut Coder, raw: &mut [u8]) -> Result<()> {
        let places = raw[..self.raw_len].chunks_mut(self.piece_bytes);
        let mut pieces = self.stored.iter().zip(places);
        pieces.try_for_each(|(stored, raw)| (coder.decode)(stored, raw))
    }

    /// Returns the work of coding all of it.
    fn work(&self) -> Work {
        let stored: usize = self.stored.iter().map(Vec::len).sum();
        let ratio = self.raw_len as f64 / stored as f64;
        let ratio = vec![(Metric::of("ratio raw/stored"), ratio)];
        Work::of(self.raw_len as u64, 0).with(ratio)
    }
}
