//! GDeflate in tiles, and deflate of the same pieces.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gdeflate::limits::TILE_RAW_BYTES;
use gdeflate::{Decoder, Encoder, Kernel, Level};

use super::coders::{Copying, Libdeflate};
use super::data::Corpus;
use super::pieces::{Coder, Pieces, decoder, encoder, rate, with_level};
use crate::case::{Case, Contender, Work};
use crate::error::{Error, Result};
use crate::limits::CODEC_THREADS;
use crate::rows::Metric;
use crate::together;

/// Decoding on several threads, by the wall.
const WALL_RATE: Metric = Metric::higher("decode", "MB/s");
/// That over the same on one thread.
const SCALING: Metric = Metric::higher("scaling", "times");
pub(super) const STORED_LEVEL: u8 = 0;
/// The level at which decoding on several threads is measured.
const SCALING_LEVEL: u8 = 9;
/// How often each piece is decoded then: waking a thread takes as long as decoding several tiles.
const SCALING_PASSES: usize = 16;

/// GDeflate, a tile at a time.
struct Tiles {
    encoder: Encoder,
    decoder: Decoder,
}

impl Tiles {
    fn new(level: u8, kernel: Kernel) -> Result<Tiles> {
        let level = Level::new(level).ok_or(Error::new(format!("no level {level}")))?;
        Ok(Tiles {
            encoder: Encoder::new(level),
            decoder: Decoder::with_kernel(kernel),
        })
    }
}

impl Coder for Tiles {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        Ok(self.encoder.encode_tile(raw, stored)?)
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        Ok(self.decoder.decode_tile(stored, raw)?)
    }
}

/// Adds every kernel of ours, and libdeflate; for stored blocks a bare copy, too.
pub(super) fn add_decoders(case: &mut Case<'_>, corpus: &Corpus, level: u8) -> Result<()> {
    let mut fastest = Tiles::new(level, Kernel::fastest())?;
    let ours = Arc::new(Pieces::encode(corpus, TILE_RAW_BYTES, &mut fastest)?);
    let shown = Some(i32::from(level));
    for &kernel in Kernel::ALL.iter().rev() {
        let name = format!("millstream-{}", format!("{kernel:?}").to_lowercase());
        if kernel.is_available() {
            let tiles = Box::new(Tiles::new(level, kernel)?);
            case.push(decoder(&name, shown, Arc::clone(&ours), tiles));
        } else {
            case.skip(&name, "this processor lacks what the kernel needs");
        }
    }
    let libdeflate = Box::new(Libdeflate::new(i32::from(level), false)?);
    let mut rivals: Vec<(&str, Option<i32>, Box<dyn Coder>)> =
        vec![("libdeflate", shown, libdeflate)];
    if level == STORED_LEVEL {
        rivals.push(("memcpy", None, Box::new(Copying)));
    }
    for (name, level, mut coder) in rivals {
        let pieces = Pieces::encode(corpus, TILE_RAW_BYTES, coder.as_mut())?;
        case.push(decoder(name, level, Arc::new(pieces), coder));
    }
    Ok(())
}

/// Adds ours and libdeflate.
pub(super) fn add_encoders(case: &mut Case<'_>, corpus: &Arc<Corpus>, level: u8) -> Result<()> {
    for (name, make) in CODERS {
        let (shown, coder) = (Some(i32::from(level)), make(level)?);
        case.push(encoder(name, shown, corpus, TILE_RAW_BYTES, coder));
    }
    Ok(())
}

/// Makes a coder of a level.
type Make = fn(u8) -> Result<Box<dyn Coder + Send>>;

/// The kernel that a decoder takes by itself, and bare deflate of libdeflate.
const CODERS: [(&str, Make); 2] = [
    ("millstream", |level| {
        Ok(Box::new(Tiles::new(level, Kernel::fastest())?))
    }),
    ("libdeflate", |level| {
        Ok(Box::new(Libdeflate::new(i32::from(level), false)?))
    }),
];

/// Adds ours and libdeflate on one thread, then on several, with one decoder per thread.
pub(super) fn add_scaling(case: &mut Case<'_>, corpus: &Corpus) -> Result<()> {
    for (name, make) in CODERS {
        let coders = (0..CODEC_THREADS).map(|_| make(SCALING_LEVEL).map(Mutex::new));
        let mut coders: Coders = coders.collect::<Result<_>>()?;
        let first = coders[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        let pieces = Pieces::encode(corpus, TILE_RAW_BYTES, first.as_mut())?;
        let contender = Contender::new(name, move |destination| {
            let alone = seconds_on(1, &coders, &pieces, destination)?;
            let together = seconds_on(CODEC_THREADS, &coders, &pieces, destination)?;
            let wall_rate = rate(SCALING_PASSES * pieces.raw_len(), together);
            let scaling = alone / together.max(1e-9);
            Ok(Work::figures(vec![
                (WALL_RATE, wall_rate),
                (SCALING, scaling),
            ]))
        });
        case.push(with_level(contender, Some(i32::from(SCALING_LEVEL))));
    }
    Ok(())
}

/// One for each thread.
type Coders = Vec<Mutex<Box<dyn Coder + Send>>>;

fn seconds_on(threads: usize, coders: &Coders, pieces: &Pieces, raw: &mut [u8]) -> Result<f64> {
    // A coder is taken once, and a piece by one thread at a time; the locks hand them over.
    let work: Vec<_> = pieces.with_places(raw).map(Mutex::new).collect();
    let (next_piece, next_coder) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let decode = || -> Result<()> {
        let coder = &coders[next_coder.fetch_add(1, Ordering::Relaxed)];
        let mut coder = coder.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let index = next_piece.fetch_add(1, Ordering::Relaxed);
            if index >= SCALING_PASSES * work.len() {
                return Ok(());
            }
            let piece = &work[index % work.len()];
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            let (stored, raw) = &mut *piece;
            coder.decode(stored, raw)?;
        }
    };
    Ok(together::timed(threads, &decode)?.wall)
}
