//! One thing that a load waits for.

use std::any::Any;
use std::sync::Arc;

use millstream::{Buffer, Done, Landed, Located, Priority, Ticket};

use super::EventKind;
use super::budget::Supplied;
use crate::image::Layout;
use crate::plan::{Origin, Purpose};

/// What the bytes of an item's request are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Stored bytes: of a buffer, or of an image that may have to be decoded.
    Raw,
    /// A decoded image.
    Pixels,
    /// The first bytes of an image of ours, with the levels that are whole in them.
    SmallLevels(Layout),
    /// The bytes behind them, up to the end or to what memory allows.
    LargeLevels(Layout),
}

/// How far it is.
pub(super) enum Task {
    /// Not asked for yet.
    Waiting,
    /// Asked for.
    Running(Ticket),
    /// There, but not known what for.
    Landed(Buffer),
    /// Done with.
    Ended,
}

pub(super) struct Item {
    pub(super) origin: Origin,
    /// `None`: fetched because a package's record says so.
    pub(super) purpose: Option<Purpose>,
    /// Bytes of a buffer, and not of an image.
    pub(super) geometry: bool,
    pub(super) place: String,
    /// For messages.
    pub(super) file: String,
    pub(super) content: Content,
    pub(super) class: Priority,
    /// Bytes to read, for the order.
    pub(super) stored_bytes: u64,
    /// The entry, where it is one.
    pub(super) located: Option<Located>,
    /// Of the scene's memory, taken for the request under way.
    pub(super) held_bytes: u64,
    /// The other half of the image.
    pub(super) partner: Option<usize>,
    /// What its decoded bytes took of the scene's memory.
    pub(super) supplied: Arc<Supplied>,
    pub(super) failed: bool,
    /// Nobody wants it any more: its request's end is the end of it, whatever it brings.
    pub(super) dropped: bool,
    /// Cancelled while a request was under way: if that one wins, none follows it.
    pub(super) cancelled: bool,
    pub(super) task: Task,
}

impl Item {
    /// The same, not asked for yet.
    pub(super) fn copy(&self) -> Item {
        Item {
            origin: self.origin.clone(),
            purpose: self.purpose.clone(),
            place: self.place.clone(),
            file: self.file.clone(),
            supplied: Arc::default(),
            task: Task::Waiting,
            ..*self
        }
    }

    pub(super) fn shows(&self, image: usize) -> bool {
        matches!(&self.purpose, Some(Purpose::Images(images)) if images.contains(&image))
    }

    /// Whether it is the large half of an image whose small half is the item before it.
    pub(super) fn is_second_half(&self, index: usize) -> bool {
        self.partner.is_some_and(|partner| partner < index)
    }

    /// Whether its entry has all bytes of a range; what is not an entry's was looked up whole.
    pub(super) fn reaches(&self, origin: &Origin) -> bool {
        match (origin, &self.located) {
            (Origin::Entry { range, .. }, Some(located)) => range.end <= located.raw_bytes(),
            _ => true,
        }
    }

    pub(super) fn is_large(&self) -> bool {
        matches!(self.content, Content::LargeLevels(_))
    }

    pub(super) fn is_small(&self) -> bool {
        matches!(self.content, Content::SmallLevels(_))
    }

    /// Whether nothing more is to be read for it.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.task, Task::Ended | Task::Landed(_))
    }

    /// Whether it is done with, bytes and all.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.task, Task::Ended)
    }

    /// The buffer that has landed, if it is there; the item waits then, until the caller says more.
    pub(super) fn take_landed(&mut self) -> Option<Buffer> {
        match std::mem::replace(&mut self.task, Task::Waiting) {
            Task::Landed(buffer) => Some(buffer),
            task => {
                self.task = task;
                None
            }
        }
    }

    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        if let Task::Running(ticket) = &self.task {
            ticket.cancel();
        }
    }

    pub(super) fn set_priority(&mut self, class: Priority) {
        self.class = class;
        if let Task::Running(ticket) = &self.task {
            ticket.reprioritise(class, None);
        }
    }

    pub(super) fn event_kind(&self) -> EventKind {
        match (self.geometry, self.content) {
            (true, _) => EventKind::Buffer,
            (false, Content::SmallLevels(_)) => EventKind::SmallLevels,
            (false, Content::LargeLevels(_)) => EventKind::LargeLevels,
            (false, _) => EventKind::Image,
        }
    }
}

/// The buffer that a request has landed in, whether it took it itself or was supplied with it.
pub(super) fn landed_buffer(done: Done) -> Buffer {
    match done.landed {
        Landed::Buffer(buffer) => buffer,
        Landed::Landing(memory) => {
            let memory: Box<dyn Any> = memory;
            let buffer = memory.downcast::<Buffer>();
            *buffer.expect("only buffers are supplied")
        }
        _ => Buffer::empty(),
    }
}
