//! The destination of a rival's pieces of a file: copied to memory, or decoded into it on the same
//! thread while the device reads on, as in the study.

use millstream_codec::{CodecId, StreamDecoder, stream_decoder};

use crate::prelude::*;

/// Takes a file's stored bytes piece by piece, in order.
pub(crate) struct Sink<'a> {
    destination: &'a mut [u8],
    produced: usize,
    decoder: Option<Box<dyn StreamDecoder>>,
    at_end: bool,
}

impl<'a> Sink<'a> {
    /// Creates a sink into `destination`, which has exactly the length of the raw bytes.
    pub(crate) fn new(codec: CodecId, destination: &'a mut [u8]) -> Result<Sink<'a>> {
        let decoder = match codec {
            CodecId::STORED => None,
            codec => Some(stream_decoder(codec)?),
        };
        Ok(Sink {
            destination,
            produced: 0,
            decoder,
            at_end: false,
        })
    }

    pub(crate) fn take(&mut self, mut piece: &[u8]) -> Result<()> {
        let Some(decoder) = &mut self.decoder else {
            let room = &mut self.destination[self.produced..];
            let fits = piece.len() <= room.len();
            ensure(fits, "the file is longer than its record says")?;
            room[..piece.len()].copy_from_slice(piece);
            self.produced += piece.len();
            return Ok(());
        };
        while !piece.is_empty() {
            let progress = decoder.decode(piece, &mut self.destination[self.produced..])?;
            let goes_on = progress.consumed > 0 || progress.produced > 0;
            ensure(goes_on, "a decoder makes no progress")?;
            piece = &piece[progress.consumed..];
            self.produced += progress.produced;
            self.at_end = progress.at_end;
        }
        Ok(())
    }

    /// Ends the stream; returns the number of raw bytes delivered.
    pub(crate) fn finish(mut self) -> Result<u64> {
        if let Some(decoder) = &mut self.decoder {
            // Bytes buffered in the decoder come out without further input.
            while !self.at_end {
                let progress = decoder.decode(&[], &mut self.destination[self.produced..])?;
                self.produced += progress.produced;
                self.at_end = progress.at_end;
                let goes_on = progress.produced > 0 || progress.at_end;
                ensure(goes_on, "the stream ends early")?;
            }
        }
        let (got, want) = (self.produced, self.destination.len());
        match got == want {
            true => Ok(got as u64),
            false => Err(Error::new(format!("{got} raw bytes instead of {want}"))),
        }
    }
}
