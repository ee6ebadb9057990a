//! Device destinations: memory that the processor does not write, of a GPU or another machine.
//!
//! A sink takes the parts of a request as they become ready, moves each to its place by its own
//! means, and finishes it once it is there:
//!
//! ```text
//! read → staging → worker: checksum → DeviceSink::take → … → DevicePart::finish
//! ```
//!
//! A sink is given encoded bytes if it can decode them itself; anything else is decoded by workers
//! first, into memory of the library, and passed as raw bytes. A part keeps the memory of its
//! bytes, and its request does not complete before all its parts are finished.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use millstream_codec::CodecId;

use crate::error::Error;
use crate::priority::Priority;

/// A destination that moves bytes itself; see [`Read::into_device`](crate::Read::into_device).
/// [`Any`] recovers its type.
pub trait DeviceSink: Any + Send + Sync {
    /// Returns how many bytes it has room for. Must not change.
    fn room(&self) -> u64;

    /// Returns whether it decodes a codec itself: it is then given whole streams of it, as
    /// [`PartForm::Encoded`], and of GDeflate also tiles. Must not change for a codec.
    fn decodes(&self, codec: CodecId) -> bool {
        let _ = codec;
        false
    }

    /// Returns whether each request ends with a [`PartForm::Last`] part. Must not change.
    fn wants_last(&self) -> bool {
        false
    }

    /// Takes a part, to move its bytes and then call [`DevicePart::finish`], on any thread. Called
    /// on a worker thread: it may copy the bytes, but should not wait for the device. A panic fails
    /// the request.
    fn take(&self, part: DevicePart);
}

/// How the bytes of a part are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartForm {
    /// Raw bytes.
    Raw,
    /// A whole stream, or block of a table, of a codec that the sink decodes.
    Encoded(CodecId),
    /// One tile of a GDeflate stream.
    Tile,
    /// No bytes: all other parts of the request are finished, and none failed. Its range is all
    /// that landed, and the request completes when this part is finished.
    Last,
}

/// What a task for a sink carries besides the bytes.
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
    /// Returns its bytes, which stay valid and unchanged until the part is finished.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.task.bytes()
    }

    /// Returns how its bytes are encoded.
    #[must_use]
    pub fn form(&self) -> PartForm {
        self.form
    }

    /// Returns the range of the destination that its raw bytes fill exactly. Unfinished parts of a
    /// request do not overlap, and come in any order. (A stream of tiles that turns out not to fit
    /// staging is passed again, as raw bytes, once all its parts are finished.)
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.raw.clone()
    }

    /// Returns the priority of its request.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns the user data of its request.
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Returns a number that the parts of its request share with no other request.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Finishes the part: its raw bytes are in their place, or `result` is the reason why not.
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
