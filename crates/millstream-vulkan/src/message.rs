//! Messages to the sending thread of a queue.

use std::sync::Arc;

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
