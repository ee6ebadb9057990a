//! What the threads of a queue pass on: messages to the one that sends, batches to the other.

use std::sync::Arc;

use millstream::Error;

use crate::batch::Batch;
use crate::pieces::{Part, Piece, Plan};

/// A message to the sending thread.
pub(crate) enum Message {
    /// A part, and what its pieces are.
    Arrived(Arc<Part>, Vec<Plan>),
    /// A piece whose tile the device refused.
    Refused(Piece),
    /// A batch that the device is done with; none, if it is lost.
    Retired(Option<Box<Batch>>),
    /// Nothing arrives any more.
    Close,
    /// The application knows that the device is lost.
    Lost,
}

/// A batch, and whose answers it brings.
pub(crate) struct Filled {
    pub(crate) batch: Batch,
    /// Pieces, and the numbers of their tiles.
    pub(crate) pieces: Vec<(Piece, Option<u32>)>,
}

impl Filled {
    /// Ends everything in it, which the device did not take; the batch.
    pub(crate) fn refuse(mut self, error: &Error) -> Batch {
        self.batch.forget();
        for (piece, _) in self.pieces {
            piece.end(Err(error.clone()));
        }
        self.batch
    }

    /// Ends everything in it. The device may still use its memory and write to the destinations:
    /// both are leaked.
    pub(crate) fn fail(self, error: &Error) {
        for (piece, _) in self.pieces {
            std::mem::forget(Arc::clone(&piece.part.target));
            piece.end(Err(error.clone()));
        }
        std::mem::forget(self.batch);
    }
}
