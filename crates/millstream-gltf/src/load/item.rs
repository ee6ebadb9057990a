//! An item of a load: one request, or several in sequence, for a buffer or an image.

use std::sync::Arc;
use std::task::{Context, Poll};

use millstream::{Buffer, Priority, Ticket};
use millstream_source::Located;

use super::EventKind;
use super::budget::Charged;
use crate::device_memory::DeviceMemory;
use crate::error::{Error, ErrorKind};
use crate::image::Layout;
use crate::plan::{Origin, Purpose};

/// What the bytes of an item's request are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Stored bytes: of a buffer, or of an image that may have to be decoded.
    Raw,
    /// A decoded image.
    Pixels,
    /// The first bytes of a cooked image, with its small levels; the layout is the whole image's.
    /// The next item is its large levels.
    SmallLevels(Layout),
    /// The bytes after the small levels, up to the end of the image.
    LargeLevels(Layout),
    /// A whole image ready for upload, which lands on the device.
    OnDevice(Layout),
}

/// What has landed for an item.
pub(super) enum Landed {
    Host(Buffer),
    Device(DeviceMemory),
}

/// A request in flight, and where it lands.
pub(super) enum Flight {
    Host(Ticket<Buffer>),
    Device(Ticket<()>, DeviceMemory),
}

impl Flight {
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Landed, millstream::Error>> {
        match self {
            Flight::Host(ticket) => ticket
                .poll_outcome(context)
                .map(|outcome| outcome.into_result().map(Landed::Host)),
            Flight::Device(ticket, memory) => ticket.poll_outcome(context).map(|outcome| {
                let landed = outcome.into_result();
                landed.map(|()| Landed::Device(memory.clone()))
            }),
        }
    }

    pub(super) fn cancel(&self) {
        match self {
            Flight::Host(ticket) => ticket.cancel(),
            Flight::Device(ticket, _) => ticket.cancel(),
        };
    }

    pub(super) fn reprioritize(&self, priority: Priority) {
        match self {
            Flight::Host(ticket) => ticket.reprioritize(priority, None),
            Flight::Device(ticket, _) => ticket.reprioritize(priority, None),
        };
    }
}

/// The state of an item.
pub(super) enum Task {
    /// Not requested yet.
    Waiting,
    /// Requested.
    Running(Flight),
    /// A half of an image that has landed; the large half waits here for the small one.
    Landed(Buffer),
    /// Complete.
    Ended,
}

pub(super) struct Item {
    pub(super) origin: Origin,
    pub(super) purpose: Purpose,
    /// Fetched because a package's record predicts it, and not confirmed by the JSON yet: only the
    /// kind of its purpose is known.
    pub(super) promised: bool,
    pub(super) place: String,
    /// For error messages.
    pub(super) file: String,
    pub(super) content: Content,
    pub(super) priority: Priority,
    /// The first byte to read of an entry.
    pub(super) start: u64,
    /// Bytes to read.
    pub(super) stored_bytes: u64,
    /// The entry; `None` for bytes in memory.
    pub(super) located: Option<Located>,
    /// The memory that it has taken from the scene's budget.
    pub(super) charged: Arc<Charged>,
    /// Not needed: the completion of its request completes it, whatever the outcome.
    pub(super) dropped: bool,
    /// Canceled: no request follows the one in flight.
    pub(super) canceled: bool,
    pub(super) task: Task,
}

impl Item {
    /// Returns a copy that is not requested yet.
    pub(super) fn copy(&self) -> Item {
        Item {
            origin: self.origin.clone(),
            purpose: self.purpose.clone(),
            place: self.place.clone(),
            file: self.file.clone(),
            charged: Arc::default(),
            task: Task::Waiting,
            ..*self
        }
    }

    /// Returns the error of its request.
    pub(super) fn error(&self, error: &millstream::Error) -> Error {
        Error::of_request(&self.place, &self.file, error)
    }

    /// Returns an error about its file.
    pub(super) fn wrong(&self, kind: ErrorKind, cause: impl Into<String>) -> Error {
        Error::new(kind, &self.place[..], cause).in_file(&self.file)
    }

    /// Returns the error of an invalid image.
    pub(super) fn bad_image(&self, cause: &'static str) -> Error {
        self.wrong(ErrorKind::Image, cause)
    }

    /// Returns the error of its cancellation.
    pub(super) fn was_canceled(&self) -> Error {
        Error::new(ErrorKind::Canceled, &self.place[..], "was canceled")
    }

    /// Whether its bytes are those of `image`.
    pub(super) fn shows(&self, image: usize) -> bool {
        matches!(&self.purpose, Purpose::Images(images) if images.contains(&image))
    }

    /// Whether its bytes are those of a buffer, not of an image.
    pub(super) fn is_geometry(&self) -> bool {
        matches!(self.purpose, Purpose::Buffer { .. })
    }

    /// Whether its entry contains the range of an origin, if that has one.
    pub(super) fn reaches(&self, origin: &Origin) -> bool {
        let located = self.located.as_ref();
        match origin {
            Origin::Entry {
                range: Some(range), ..
            } => located.is_none_or(|located| range.end <= located.raw_bytes()),
            _ => true,
        }
    }

    pub(super) fn is_large(&self) -> bool {
        matches!(self.content, Content::LargeLevels(_))
    }

    /// Whether it is complete and its bytes were handled.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.task, Task::Ended)
    }

    pub(super) fn event_kind(&self) -> EventKind {
        match (self.is_geometry(), self.content) {
            (true, _) => EventKind::Buffer,
            (false, Content::SmallLevels(_)) => EventKind::SmallLevels,
            (false, Content::LargeLevels(_)) => EventKind::LargeLevels,
            (false, _) => EventKind::Image,
        }
    }
}
