//! Memory that the processor does not write: of a GPU, or on another machine.
//!
//! Such a destination takes the parts of a request as they become ready, moves each where it
//! belongs by means of its own, and answers when it is there:
//!
//! ```text
//! read → staging → worker: checksum → DeviceSink::take → … → DevicePart::finish
//! ```
//!
//! What it can decode itself, it is given encoded; anything else is decoded by workers first, into
//! memory of the library, and is given as raw bytes. A part keeps the memory of its bytes, and its
//! request does not complete before all its parts are answered.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use millstream_codec::CodecId;

use crate::error::Error;
use crate::priority::Priority;

/// A destination that moves bytes itself; see [`Read::into_device`](crate::Read::into_device).
/// Whoever is handed one finds its type by [`Any`].
pub trait DeviceSink: Any + Send + Sync {
    /// Bytes that it has room for. Always the same.
    fn room(&self) -> u64;

    /// Whether it decodes a codec itself: then it is given whole streams of it, as
    /// [`PartForm::Encoded`], and of GDeflate also tiles. Always the same for a codec.
    fn decodes(&self, codec: CodecId) -> bool {
        let _ = codec;
        false
    }

    /// Whether it is given one part more of each request, [`PartForm::Last`]. Always the same.
    fn wants_last(&self) -> bool {
        false
    }

    /// Takes a part, to move its bytes and then to call [`DevicePart::finish`], on any thread.
    /// Called on a worker thread: it may copy the bytes, and should not wait for the device. A
    /// panic fails the request.
    fn take(&self, part: DevicePart);
}

/// How the bytes of a part are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartForm {
    /// They are raw bytes.
    Raw,
    /// A whole stream, or block of a table, of a codec that the sink decodes.
    Encoded(CodecId),
    /// One tile of a GDeflate stream.
    Tile,
    /// No bytes: all other parts of the request were answered, and none failed. Its range is all
    /// that landed, and the request completes with its answer.
    Last,
}

/// What a task for a sink says beside the bytes.
#[derive(Clone)]
pub(crate) struct DevicePlace {
    pub(crate) sink: Arc<dyn DeviceSink>,
    pub(crate) form: PartForm,
    pub(crate) raw: Range<u64>,
}

/// The task behind a part. Dropping it fails its request.
pub(crate) trait PartTask: Send {
    fn bytes(&self) -> &[u8];
    fn end(self: Box<Self>, result: Result<(), Error>);
}

/// A part of a request, on its way to a [`DeviceSink`]. Dropping it fails the request.
#[must_use = "dropping a part fails its request"]
pub struct DevicePart {
    pub(crate) task: Box<dyn PartTask>,
    pub(crate) form: PartForm,
    pub(crate) raw: Range<u64>,
    pub(crate) priority: Priority,
    pub(crate) user_data: u64,
    pub(crate) request: u64,
}

impl DevicePart {
    /// Its bytes, in memory that stays valid and unchanged until the part is finished.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.task.bytes()
    }

    /// How its bytes are encoded.
    #[must_use]
    pub fn form(&self) -> PartForm {
        self.form
    }

    /// Where its raw bytes belong: bytes of the destination, exactly as many as they are. Parts of
    /// a request that are out at the same time do not overlap, and come in any order. (A stream of
    /// tiles that turns out not to fit staging is given once more, raw, when all its parts are
    /// answered.)
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.raw.clone()
    }

    /// The priority of its request.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The user data of its request.
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.user_data
    }

    /// A number that all parts of its request have, and those of no other request.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Answers: the raw bytes are where they belong, or why they are not.
    pub fn finish(self, result: Result<(), Error>) {
        self.task.end(result);
    }
}

impl std::fmt::Debug for DevicePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DevicePart")
            .field("form", &self.form())
            .field("range", &self.range())
            .finish_non_exhaustive()
    }
}
