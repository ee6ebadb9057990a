//! Messages to the sending thread of a queue.

use crate::batch::Batch;
use crate::pieces::Piece;

/// A message to the sending thread.
pub(crate) enum Message {
    /// The pieces of a part.
    Arrived(Vec<Piece>),
    /// A piece whose tile the device refused.
    Refused(Piece),
    /// A batch that the device is done with; none, if it is lost.
    Retired(Option<Box<Batch>>),
    /// Nothing arrives any more.
    Close,
    /// The application knows that the device is lost.
    Lost,
}
