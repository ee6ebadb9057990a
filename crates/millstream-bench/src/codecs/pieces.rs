//! A corpus cut into pieces, and the contenders that encode and decode them one by one.

use std::sync::Arc;

use super::data::Corpus;
use crate::case::{Contender, Figures, Work};
use crate::clock::Moment;
use crate::error::Result;
use crate::rows::Metric;

/// Decoding.
pub(super) const RATE: Metric = Metric::higher("decode", "MB/cpu-s");
/// Encoding.
const ENCODE_RATE: Metric = Metric::higher("encode", "MB/cpu-s");
/// Raw bytes over stored ones.
const RATIO: Metric = Metric::higher("ratio", "raw/stored");

/// MB per second.
pub(super) fn rate(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / 1e6 / seconds.max(1e-9)
}

/// Encodes and decodes one piece at a time; keeps what it needs between pieces.
pub(super) trait Coder {
    /// Puts `raw`, encoded, into `stored`, which is empty.
    fn encode(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> Result<()>;

    /// Fills `raw` from what [`Coder::encode`] made of it.
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<()>;
}

/// A corpus in pieces, each encoded by itself.
pub(super) struct Pieces {
    stored: Vec<Vec<u8>>,
    raw_len: usize,
    piece_bytes: usize,
}

impl Pieces {
    pub(super) fn encode(
        corpus: &Corpus,
        piece_bytes: usize,
        coder: &mut dyn Coder,
    ) -> Result<Pieces> {
        let mut stored = Vec::new();
        for raw in corpus.raw.chunks(piece_bytes) {
            let mut piece = Vec::new();
            coder.encode(raw, &mut piece)?;
            stored.push(piece);
        }
        Ok(Pieces {
            stored,
            raw_len: corpus.raw.len(),
            piece_bytes,
        })
    }

    pub(super) fn raw_len(&self) -> usize {
        self.raw_len
    }

    /// Each piece with the place of its raw bytes.
    pub(super) fn with_places<'a>(
        &'a self,
        raw: &'a mut [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a mut [u8])> {
        let places = raw[..self.raw_len].chunks_mut(self.piece_bytes);
        self.stored.iter().map(Vec::as_slice).zip(places)
    }

    fn decode(&self, coder: &mut dyn Coder, raw: &mut [u8]) -> Result<()> {
        self.with_places(raw)
            .try_for_each(|(stored, raw)| coder.decode(stored, raw))
    }

    fn ratio(&self) -> Figures {
        let stored: usize = self.stored.iter().map(Vec::len).sum();
        vec![(RATIO, self.raw_len as f64 / stored as f64)]
    }
}

/// A contender that decodes all pieces.
pub(super) fn decoder(
    name: &str,
    level: Option<i32>,
    pieces: Arc<Pieces>,
    mut coder: Box<dyn Coder>,
) -> Contender {
    let contender = Contender::new(name, move |destination| {
        pieces.decode(coder.as_mut(), destination)?;
        Ok(Work {
            extra: pieces.ratio(),
            ..Work::of(pieces.raw_len as u64, 0)
        })
    });
    with_level(contender, level)
}

/// A contender that encodes a corpus. What it made is decoded after the clock has stopped, to be
/// checked.
pub(super) fn encoder(
    name: &str,
    level: Option<i32>,
    corpus: &Arc<Corpus>,
    piece_bytes: usize,
    mut coder: Box<dyn Coder>,
) -> Contender {
    let corpus = Arc::clone(corpus);
    let contender = Contender::new(name, move |destination| {
        let start = Moment::now();
        let pieces = Pieces::encode(&corpus, piece_bytes, coder.as_mut())?;
        let span = start.elapsed();
        pieces.decode(coder.as_mut(), destination)?;
        let mut extra = vec![(ENCODE_RATE, rate(pieces.raw_len, span.cpu))];
        extra.extend(pieces.ratio());
        Ok(Work::figures(extra).took(span))
    });
    with_level(contender, level)
}

/// A contender with its level in its rows.
pub(super) fn with_level(contender: Contender, level: Option<i32>) -> Contender {
    match level {
        Some(level) => contender.with("level", level),
        None => contender,
    }
}
