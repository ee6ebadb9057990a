//! What the threads of a queue exchange: messages to the sending thread, batches to the other.

use std::sync::Arc;

use millstream::Error;

use crate::batch::Batch;
use crate::pieces::{Part, Piece, Plan};

/// A message to the sending thread.
pub(crate) enum Message {
    /// A part and its planned pieces.
    Arrived(Arc<Part>, Vec<Plan>),
    /// A piece whose tile the device rejected.
    Refused(Piece),
    /// A batch that the device has completed; `None` if it was leaked because the device is lost.
    Retired(Option<Box<Batch>>),
    /// No part arrives any more.
    Close,
    /// The device is lost.
    Lost,
}

/// A batch and the pieces in it.
pub(crate) struct Filled {
    pub(crate) batch: Batch,
    /// The pieces, and the numbers of their tiles.
    pub(crate) pieces: Vec<(Piece, Option<u32>)>,
}

impl Filled {
    /// Ends the pieces of a batch that was not submitted, and returns the batch.
    pub(crate) fn refuse(self, error: &Error) -> Batch {
        for (piece, _) in self.pieces {
            piece.end(Err(error.clone()));
        }
        self.batch
    }

    /// Ends the pieces. The device may still use the batch's memory and write to the destinations:
    /// both are leaked.
    pub(crate) fn fail(self, error: &Error) {
        for (piece, _) in self.pieces {
            std::mem::forget(Arc::clone(&piece.part.target));
            piece.end(Err(error.clone()));
        }
        std::mem::forget(self.batch);
    }
}
