//! GDeflate in tiles, and deflate of the same pieces.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gdeflate::limits::TILE_RAW_BYTES;
use gdeflate::{Decoder, Encoder, Kernel, Level};
use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::blocks::Copying;
use super::data::Corpus;
use super::pieces::{Coder, Decoding, Encoding, Label, Pieces};
use super::{SCALING, WALL_RATE, WORKLOAD, rate};
use crate::error::{Error, Result};
use crate::limits::CODEC_THREADS;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::rows::Params;
use crate::together;
use crate::workload::Field;

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
        self.encoder
            .encode_tile(raw, stored)
            .map_err(|error| Error::new(error.to_string()))
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        self.decoder
            .decode_tile(stored, raw)
            .map_err(|error| Error::new(error.to_string()))
    }
}

/// Bare deflate.
struct Deflate {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Deflate {
    fn new(level: u8) -> Result<Deflate> {
        let level = CompressionLvl::new(i32::from(level))
            .map_err(|_| Error::new(format!("libdeflate has no level {level}")))?;
        Ok(Deflate {
            compressor: Compressor::new(level),
            decompressor: Decompressor::new(),
        })
    }
}

impl Coder for Deflate {
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.resize(self.compressor.deflate_compress_bound(raw.len()), 0);
        let len = self
            .compressor
            .deflate_compress(raw, stored)
            .map_err(|error| Error::new(format!("libdeflate: {error}")))?;
        stored.truncate(len);
        Ok(())
    }

    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()> {
        self.decompressor
            .deflate_decompress(stored, raw)
            .map(|_| ())
            .map_err(|error| Error::new(format!("libdeflate: {error}")))
    }
}

/// Every kernel of ours, and libdeflate; for stored blocks a bare copy, too.
pub(super) fn decode_field(case: &str, corpus: &Corpus, level: u8) -> Result<Field> {
    let mut field = Field::new(WORKLOAD, case);
    let label = |name: &str| Label::new(name, i32::from(level));
    let ours = Pieces::encode(
        corpus,
        TILE_RAW_BYTES,
        &mut Tiles::new(level, Kernel::fastest())?,
    )?;
    for &kernel in Kernel::ALL.iter().rev() {
        let name = format!("millstream-{}", format!("{kernel:?}").to_lowercase());
        let decoding = match kernel.is_available() {
            true => Tiles::new(level, kernel).map(|tiles| Decoding {
                label: label(&name),
                pieces: ours.clone(),
                coder: Box::new(tiles),
            }),
            false => Err(Error::new("this processor lacks what the kernel needs")),
        };
        field.try_add(&name, decoding);
    }
    let mut deflate = Deflate::new(level)?;
    field.add(Decoding {
        label: label("libdeflate"),
        pieces: Pieces::encode(corpus, TILE_RAW_BYTES, &mut deflate)?,
        coder: Box::new(deflate),
    });
    if level == super::STORED_LEVEL {
        field.add(Decoding {
            label: Label::new("memcpy", None),
            pieces: Pieces::encode(corpus, TILE_RAW_BYTES, &mut Copying)?,
            coder: Box::new(Copying),
        });
    }
    Ok(field)
}

/// Ours and libdeflate.
pub(super) fn encode_field(case: &str, corpus: &Arc<Corpus>, level: u8) -> Result<Field> {
    let mut field = Field::new(WORKLOAD, case);
    let mut add = |name: &str, coder: Box<dyn Coder>| {
        field.add(Encoding {
            label: Label::new(name, i32::from(level)),
            corpus: corpus.clone(),
            piece_bytes: TILE_RAW_BYTES,
            coder,
        });
    };
    add(
        "millstream",
        Box::new(Tiles::new(level, Kernel::fastest())?),
    );
    add("libdeflate", Box::new(Deflate::new(level)?));
    Ok(field)
}

/// The kernel that a decoder takes by itself, and libdeflate, with one decoder per thread.
pub(super) fn scaling_field(case: &str, corpus: &Corpus) -> Result<Field> {
    let mut field = Field::new(WORKLOAD, case);
    let mut add = |name: &str, make: Make| -> Result<()> {
        let coders = (0..CODEC_THREADS).map(|_| make().map(Mutex::new));
        let mut coders = coders.collect::<Result<Vec<_>>>()?;
        let first = coders[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        field.add(Scaling {
            label: Label::new(name, i32::from(SCALING_LEVEL)),
            pieces: Pieces::encode(corpus, TILE_RAW_BYTES, first.as_mut())?,
            coders,
        });
        Ok(())
    };
    add("millstream", || {
        Ok(Box::new(Tiles::new(SCALING_LEVEL, Kernel::fastest())?))
    })?;
    add("libdeflate", || Ok(Box::new(Deflate::new(SCALING_LEVEL)?)))?;
    Ok(field)
}

type Make = fn() -> Result<Box<dyn Coder + Send>>;

/// The pieces on one thread, then on several.
struct Scaling {
    label: Label,
    pieces: Arc<Pieces>,
    /// One for each thread.
    coders: Vec<Mutex<Box<dyn Coder + Send>>>,
}

impl Scaling {
    fn seconds_on(&self, threads: usize, raw: &mut [u8]) -> Result<f64> {
        // A coder is taken once, and a piece by one thread at a time; the locks hand them over.
        let work: Vec<_> = self.pieces.with_places(raw).map(Mutex::new).collect();
        let (next_piece, next_coder) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let decode = || -> Result<()> {
            let coder = &self.coders[next_coder.fetch_add(1, Ordering::Relaxed)];
            let mut coder = coder.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let index = next_piece.fetch_add(1, Ordering::Relaxed);
                if index >= SCALING_PASSES * work.len() {
                    break;
                }
                let piece = &work[index % work.len()];
                let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
                let (stored, raw) = &mut *piece;
                coder.decode(stored, raw)?;
            }
            Ok(())
        };
        Ok(together::timed(threads, &decode)?.wall)
    }
}

impl Contender for Scaling {
    fn name(&self) -> String {
        self.label.name.clone()
    }

    fn params(&self) -> Params {
        self.label.params()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let alone = self.seconds_on(1, destination)?;
        let together = self.seconds_on(CODEC_THREADS, destination)?;
        let wall_rate = rate(SCALING_PASSES * self.pieces.raw_len(), together);
        Ok(Work {
            extra: vec![
                (WALL_RATE, wall_rate),
                (SCALING, alone / together.max(1e-9)),
            ],
            ..Work::default()
        })
    }
}
