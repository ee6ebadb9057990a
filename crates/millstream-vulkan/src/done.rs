//! The thread that waits for batches and completes their pieces.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use crate::decoder::GOOD;
use crate::lane::Shared;
use crate::message::{Filled, Message};
use crate::pieces::Work;

/// The state of this thread.
pub(crate) struct Done {
    pub(crate) shared: Arc<Shared>,
    pub(crate) filled: Receiver<Filled>,
    pub(crate) back: Sender<Message>,
}

impl Done {
    pub(crate) fn run(self) {
        while let Ok(mut filled) = self.filled.recv() {
            let message = match filled.batch.wait() {
                Ok(()) => {
                    self.answer(&mut filled);
                    Message::Retired(Some(Box::new(filled.batch)))
                }
                Err(error) => {
                    filled.fail(&error);
                    self.shared.lose();
                    Message::Retired(None)
                }
            };
            // The sending thread ends only when every batch is back.
            let _ = self.back.send(message);
        }
    }

    fn answer(&self, filled: &mut Filled) {
        for (mut piece, tile) in std::mem::take(&mut filled.pieces) {
            match tile.map_or(GOOD, |tile| filled.batch.status(tile)) {
                GOOD => piece.end(Ok(())),
                status => {
                    let refused = &self.shared.counters.refused;
                    refused.fetch_add(1, Ordering::Relaxed);
                    piece.work = Work::Refused(status);
                    let _ = self.back.send(Message::Refused(piece));
                }
            }
        }
    }
}
