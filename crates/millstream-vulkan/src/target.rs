//! Destinations of requests, and the copies that transfer bytes to them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use millstream::{DevicePart, Error, PartForm};

use crate::batch::{Batch, Bytes, Copy, ImageCopy, Source};
use crate::context::Context;
use crate::error::invalid;
use crate::memory::{DeviceBuffer, DeviceImage};
use crate::regions::ImageTarget;

/// The buffer range or image that requests land in.
pub(crate) enum Target {
    Managed(DeviceBuffer),
    Adopted {
        buffer: vk::Buffer,
        offset: u64,
        len: u64,
        /// The family that the range is handed over to.
        handover: Option<u32>,
    },
    Image(ImagePlace),
}

/// An image that requests land in.
pub(crate) struct ImagePlace {
    pub(crate) image: ImageTarget,
    /// Its memory, unless the application owns it.
    pub(crate) made: Option<DeviceImage>,
    /// The bytes of a request until all are on the device, from its first part to the end of the
    /// last one; those of a request that fails serve the next.
    landing: Mutex<Option<DeviceBuffer>>,
}

impl ImagePlace {
    pub(crate) fn new(image: ImageTarget, made: Option<DeviceImage>) -> ImagePlace {
        ImagePlace {
            image,
            made,
            landing: Mutex::default(),
        }
    }

    fn landing(&self) -> MutexGuard<'_, Option<DeviceBuffer>> {
        self.landing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the buffer that a request's bytes land in, if there is none.
    fn make_landing(&self, context: &Arc<Context>) -> Result<(), Error> {
        let mut landing = self.landing();
        if landing.is_none() {
            let len = usize::try_from(self.image.len());
            let len = len.map_err(|_| invalid("an image of too many bytes"))?;
            let copies = vk::BufferUsageFlags::TRANSFER_DST | vk::BufferUsageFlags::TRANSFER_SRC;
            *landing = Some(DeviceBuffer::local(context, len, copies)?);
        }
        Ok(())
    }
}

impl Target {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Target::Managed(buffer) => buffer.len() as u64,
            Target::Adopted { len, .. } => *len,
            Target::Image(place) => place.image.len(),
        }
    }

    /// Returns the buffer that bytes land in, and the offset of the destination in it. `None`: an
    /// image that expects no part.
    pub(crate) fn buffer(&self) -> Option<(vk::Buffer, u64)> {
        match self {
            Target::Managed(buffer) => Some((buffer.buffer, 0)),
            Target::Adopted { buffer, offset, .. } => Some((*buffer, *offset)),
            Target::Image(place) => place.landing().as_ref().map(|it| (it.buffer, 0)),
        }
    }

    /// Announces a part of a request, which an image may refuse.
    pub(crate) fn expect(&self, context: &Arc<Context>, part: &DevicePart) -> Result<(), Error> {
        let Target::Image(place) = self else {
            return Ok(());
        };
        let bytes = (part.form() != PartForm::Last).then(|| part.range());
        place.image.expect(part.request(), bytes)?;
        let made = place.make_landing(context);
        if made.is_err() {
            place.image.part_ended(false);
        }
        made
    }

    /// Reports that a part announced by [`Target::expect`] is about to be completed; `landed`: it
    /// is the last one, and the request has landed.
    pub(crate) fn part_ended(&self, landed: bool) {
        if let Target::Image(place) = self {
            if landed {
                // Before another request is let in.
                drop(place.landing().take());
            }
            place.image.part_ended(landed);
        }
    }

    /// Whether any queue may write to it: one that is handed over belongs to the compute queue.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(
            self,
            Target::Managed(_) | Target::Adopted { handover: None, .. }
        )
    }

    /// Whether it needs a transition or release once all bytes have landed.
    pub(crate) fn wants_last(&self) -> bool {
        match self {
            Target::Managed(_) => false,
            Target::Adopted { handover, .. } => handover.is_some(),
            Target::Image(..) => true,
        }
    }

    /// Whether `landed` bytes are too few: requests must fill an image.
    pub(crate) fn is_short(&self, landed: u64) -> bool {
        matches!(self, Target::Image(place) if landed < place.image.len())
    }

    /// Whether a batch already writes some of these bytes.
    pub(crate) fn is_written(&self, batch: &Batch, at: u64, raw_len: usize) -> bool {
        self.buffer().is_some_and(|(buffer, offset)| {
            let begin = offset + at;
            batch.writes(buffer, begin..begin + raw_len as u64)
        })
    }

    /// Adds the copy of raw bytes to `at`.
    pub(crate) fn add_bytes(&self, batch: &mut Batch, at: u64, bytes: Bytes<'_>) {
        let from = batch.add_bytes(bytes);
        self.add_run(batch, (from, at, bytes.bytes.len()));
    }

    /// Adds a tile and the copy of its raw bytes to `at`; returns the tile's number.
    pub(crate) fn add_tile(
        &self,
        batch: &mut Batch,
        (at, raw_len): (u64, usize),
        stored: Bytes<'_>,
    ) -> u32 {
        let tile = batch.add_tile(stored, raw_len);
        self.add_run(batch, (Source::Tile(tile), at, raw_len));
        tile
    }

    /// Adds the copy to an image, or the release, that follows once all bytes have landed.
    pub(crate) fn add_last(&self, batch: &mut Batch) {
        match self {
            Target::Managed(_) => {}
            Target::Adopted {
                buffer,
                offset,
                len,
                handover,
            } => {
                if let Some(to) = *handover {
                    batch.releases.push((*buffer, *offset, *len, to));
                }
            }
            Target::Image(place) => {
                let (from, _) = self.buffer().expect("the last part is expected");
                let copy = ImageCopy::new(from, &place.image, batch.family);
                batch.images.push(copy);
            }
        }
    }

    /// Adds the copy of a run of bytes.
    fn add_run(&self, batch: &mut Batch, (from, at, len): (Source, u64, usize)) {
        if len == 0 {
            // Vulkan does not allow empty copies.
            return;
        }
        let (buffer, offset) = self.buffer().expect("its part is expected");
        batch.add_copy(Copy {
            from,
            to: (buffer, offset + at, len as u64),
        });
    }
}
