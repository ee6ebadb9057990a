//! Workload `codecs`: every codec of the engine, in memory.
//!
//! Rates are in MB of raw bytes per second of processor time, on one thread unless a case says
//! otherwise. Corpora are made from a seed; of a folder given by the caller what it holds of each
//! kind is a corpus more (`data`). Two views:
//!
//! - *tiles*: GDeflate as each of its kernels decodes it, beside libdeflate, which decodes deflate
//!   of the same bytes, cut at the same 64 KiB, encoded at the same level: what a lane format costs
//!   or gains a CPU. Level 0 is stored blocks, beside a bare copy. How both scale on two threads.
//!   How fast and how small both encode.
//! - *blocks*: all codecs through `millstream-codec`, in blocks as the engine's decode jobs have
//!   them, at their default levels, beside the libraries called directly and a bare copy.
//!
//! GDeflate's reference codec is no contender: it is not to be had as a library, and not to be
//! trusted with a process.

use std::sync::Arc;

use crate::clock::Span;
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, Work};
use crate::memory::Destination;
use crate::rows::Metric;
use crate::workload::{Field, Session};

mod blocks;
pub(crate) mod data;
mod pieces;
mod tiles;

use data::Corpus;

pub(crate) const WORKLOAD: &str = "codecs";
/// Decoding.
pub(crate) const RATE: Metric = Metric::higher("decode", "MB/cpu-s");
/// Encoding.
pub(crate) const ENCODE_RATE: Metric = Metric::higher("encode", "MB/cpu-s");
/// Raw bytes over stored ones.
pub(crate) const RATIO: Metric = Metric::higher("ratio", "raw/stored");
/// Decoding on several threads, by the wall.
pub(crate) const WALL_RATE: Metric = Metric::higher("decode", "MB/s");
/// That over the same on one thread.
pub(crate) const SCALING: Metric = Metric::higher("scaling", "times");

/// Levels of the tiles: fast, as a build would, as small as it gets; and stored.
const LEVELS: [u8; 3] = [1, 9, 12];
const QUICK_LEVELS: [u8; 2] = [1, 9];
const STORED_LEVEL: u8 = 0;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    session.say("corpus: codecs");
    let bytes = session.size(limits::CODEC_CORPUS_BYTES, limits::QUICK_CODEC_CORPUS_BYTES);
    let mut corpora = data::made(bytes);
    if let Some(folder) = &session.options.corpus {
        corpora.extend(data::found(folder, bytes)?);
    }
    let mut destination = Destination::new(bytes)?;
    for corpus in corpora {
        let corpus = Arc::new(corpus);
        tile_cases(session, &corpus, &mut destination)?;
        block_cases(session, &corpus, &mut destination)?;
    }
    Ok(())
}

fn tile_cases(
    session: &mut Session<'_>,
    corpus: &Arc<Corpus>,
    destination: &mut Destination,
) -> Result<()> {
    let levels = session.size(&LEVELS[..], &QUICK_LEVELS[..]);
    for &level in [STORED_LEVEL].iter().chain(levels) {
        let name = format!("{} tiles level {level} decode", corpus.name);
        if session.wants(&name) {
            let field = tiles::decode_field(&name, corpus, level)?;
            run_case(session, corpus, &name, field, destination)?;
        }
        let name = format!("{} tiles level {level} encode", corpus.name);
        if level != STORED_LEVEL && session.wants(&name) {
            let field = tiles::encode_field(&name, corpus, level)?;
            run_case(session, corpus, &name, field, destination)?;
        }
    }
    let name = format!("{} tiles on {} threads", corpus.name, limits::CODEC_THREADS);
    // Of what is stored, memory and not the decoder would be shown.
    if session.wants(&name) && corpus.compresses {
        let field = tiles::scaling_field(&name, corpus)?;
        run_case(session, corpus, &name, field, destination)?;
    }
    Ok(())
}

fn block_cases(
    session: &mut Session<'_>,
    corpus: &Arc<Corpus>,
    destination: &mut Destination,
) -> Result<()> {
    let name = format!("{} blocks decode", corpus.name);
    if session.wants(&name) {
        let field = blocks::decode_field(&name, corpus)?;
        run_case(session, corpus, &name, field, destination)?;
    }
    let name = format!("{} blocks encode", corpus.name);
    if session.wants(&name) {
        let field = blocks::encode_field(&name, corpus)?;
        run_case(session, corpus, &name, field, destination)?;
    }
    Ok(())
}

/// All contenders leave the corpus' raw bytes in the destination.
fn run_case(
    session: &mut Session<'_>,
    corpus: &Corpus,
    name: &str,
    field: Field,
    destination: &mut Destination,
) -> Result<()> {
    let runs = match name.ends_with(" encode") {
        true => session.runs().min(limits::CODEC_ENCODE_RUNS_MAX),
        false => session.runs(),
    };
    let case = Case {
        workload: WORKLOAD,
        name: name.to_owned(),
        runs,
        warm_up: true,
        destination_len: corpus.raw.len(),
        prepare: &|| Ok(()),
        check: &|bytes, _| match bytes == &corpus.raw[..] {
            true => Ok(()),
            false => Err(Error::new("other bytes than the corpus has")),
        },
        figures: &figures,
        limit_by: None,
    };
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, destination)
}

/// Decoding is what the span holds, unless a contender says what it is in figures of its own.
fn figures(span: &Span, work: &Work) -> Vec<(Metric, f64)> {
    match work.bytes {
        0 => Vec::new(),
        bytes => vec![(RATE, rate(bytes as usize, span.cpu))],
    }
}

/// MB per second.
fn rate(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds.max(1e-9)
}
