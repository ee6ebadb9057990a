//! A corpus cut into pieces, and the contenders that encode and decode them one by one.

use std::sync::Arc;

use super::data::Corpus;
use super::{ENCODE_RATE, RATIO, rate};
use crate::clock::Moment;
use crate::error::Result;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::rows::{Metric, Params};

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
    ) -> Result<Arc<Pieces>> {
        let mut stored = Vec::new();
        for raw in corpus.raw.chunks(piece_bytes) {
            let mut piece = Vec::new();
            coder.encode(raw, &mut piece)?;
            stored.push(piece);
        }
        Ok(Arc::new(Pieces {
            stored,
            raw_len: corpus.raw.len(),
            piece_bytes,
        }))
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

    fn ratio(&self) -> (Metric, f64) {
        let stored: usize = self.stored.iter().map(Vec::len).sum();
        (RATIO, self.raw_len as f64 / stored as f64)
    }
}

/// What a contender is called, and how it is set up.
pub(super) struct Label {
    pub(super) name: String,
    pub(super) level: Option<i32>,
}

impl Label {
    pub(super) fn new(name: impl Into<String>, level: impl Into<Option<i32>>) -> Label {
        let (name, level) = (name.into(), level.into());
        Label { name, level }
    }

    pub(super) fn params(&self) -> Params {
        let level = self.level.map(|level| ("level".to_owned(), level.into()));
        level.into_iter().collect()
    }
}

/// Decodes all pieces.
pub(super) struct Decoding {
    pub(super) label: Label,
    pub(super) pieces: Arc<Pieces>,
    pub(super) coder: Box<dyn Coder>,
}

impl Contender for Decoding {
    fn name(&self) -> String {
        self.label.name.clone()
    }

    fn params(&self) -> Params {
        self.label.params()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        self.pieces.decode(self.coder.as_mut(), destination)?;
        Ok(Work {
            bytes: self.pieces.raw_len as u64,
            extra: vec![self.pieces.ratio()],
            ..Work::default()
        })
    }
}

/// Encodes all pieces. What it made is decoded after the clock has stopped, to be checked.
pub(super) struct Encoding {
    pub(super) label: Label,
    pub(super) corpus: Arc<Corpus>,
    pub(super) piece_bytes: usize,
    pub(super) coder: Box<dyn Coder>,
}

impl Contender for Encoding {
    fn name(&self) -> String {
        self.label.name.clone()
    }

    fn params(&self) -> Params {
        self.label.params()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let pieces = Pieces::encode(&self.corpus, self.piece_bytes, self.coder.as_mut())?;
        let span = start.elapsed();
        pieces.decode(self.coder.as_mut(), destination)?;
        let encode = (ENCODE_RATE, rate(pieces.raw_len, span.cpu));
        Ok(Work {
            span: Some(span),
            extra: vec![encode, pieces.ratio()],
            ..Work::default()
        })
    }
}
