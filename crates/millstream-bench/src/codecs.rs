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

use crate::case::Case;
use crate::codecs::data::Corpus;
use crate::codecs::pieces::{RATE, rate};
use crate::error::{Result, ensure};
use crate::limits;
use crate::memory::Destination;
use crate::session::Session;

pub(crate) mod coders;
pub(crate) mod data;
pub(crate) mod pieces;
pub(crate) mod tiles;

const WORKLOAD: &str = "codecs";
/// Levels of the tiles: stored, fast, as a build would, as small as it gets.
const LEVELS: [u8; 4] = [tiles::STORED_LEVEL, 1, 9, 12];

/// Adds contenders to a case.
type Add<'a> = Box<dyn Fn(&mut Case<'_>, &Arc<Corpus>) -> Result<()> + 'a>;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    session.say("corpus: codecs");
    let bytes = session.size(limits::CODEC_CORPUS_BYTES, limits::QUICK_CODEC_CORPUS_BYTES);
    let mut corpora = data::made(bytes);
    if let Some(folder) = &session.options.corpus {
        corpora.extend(data::found(folder, bytes)?);
    }
    let mut destination = Destination::new(bytes)?;
    let mut cases: Vec<(String, Add<'_>)> = Vec::new();
    let levels = session.size(&LEVELS[..], &LEVELS[..3]);
    for &level in levels {
        let decode = format!("tiles level {level} decode");
        cases.push((
            decode,
            Box::new(move |case, of| tiles::add_decoders(case, of, level)),
        ));
        if level != tiles::STORED_LEVEL {
            let encode = format!("tiles level {level} encode");
            cases.push((
                encode,
                Box::new(move |case, of| tiles::add_encoders(case, of, level)),
            ));
        }
    }
    let threads = format!("tiles on {} threads", limits::CODEC_THREADS);
    cases.push((threads, Box::new(|case, of| tiles::add_scaling(case, of))));
    cases.push(("blocks decode".into(), Box::new(coders::add_decoders)));
    cases.push(("blocks encode".into(), Box::new(coders::add_encoders)));
    for corpus in corpora {
        let corpus = Arc::new(corpus);
        for (name, add) in &cases {
            // Of what is stored, memory and not the decoder would be shown.
            if name.ends_with("threads") && !corpus.compresses {
                continue;
            }
            if let Some(mut case) = session.begin(WORKLOAD, format!("{} {name}", corpus.name)) {
                add(&mut case, &corpus)?;
                measure(session, case, &corpus, &mut destination)?;
            }
        }
    }
    Ok(())
}

/// All contenders leave the corpus' raw bytes in the destination.
fn measure<'a>(
    session: &mut Session<'_>,
    mut case: Case<'a>,
    corpus: &'a Corpus,
    destination: &mut Destination,
) -> Result<()> {
    if case.name.ends_with(" encode") {
        case.runs = case.runs.min(limits::CODEC_ENCODE_RUNS_MAX);
    }
    case.check(corpus.raw.len(), |bytes, _| {
        ensure(bytes == &corpus.raw[..], "other bytes than the corpus has")
    });
    // Decoding is what the span holds, unless a contender says what it is in figures of its own.
    case.figures(|span, work| match work.bytes {
        0 => Vec::new(),
        bytes => vec![(RATE, rate(bytes as usize, span.cpu))],
    });
    session.run(case, destination).map(drop)
}
