//! Destinations of requests, and the copies that transfer bytes to them.

use std::borrow::Cow;
use std::sync::Arc;

use ash::vk;
use millstream::{DevicePart, Error, PartForm};

use crate::batch::{Batch, Bytes, Copy, CopyTo, Source};
use crate::memory::{DeviceBuffer, DeviceImage};
use crate::texels::ImageTarget;

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
    /// An image, and its memory unless the application owns it.
    Image(Arc<ImageTarget>, Option<DeviceImage>),
}

impl Target {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Target::Managed(buffer) => buffer.len() as u64,
            Target::Adopted { len, .. } => *len,
            Target::Image(image, _) => image.len(),
        }
    }

    /// Returns the buffer and the offset of the destination in it; `None` for an image.
    pub(crate) fn buffer(&self) -> Option<(vk::Buffer, u64)> {
        match self {
            Target::Managed(buffer) => Some((buffer.buffer, 0)),
            Target::Adopted { buffer, offset, .. } => Some((*buffer, *offset)),
            Target::Image(..) => None,
        }
    }

    /// Announces a part of a request, which an image may refuse.
    pub(crate) fn expect(&self, part: &DevicePart) -> Result<(), Error> {
        let Target::Image(image, _) = self else {
            return Ok(());
        };
        let bytes = (part.form() != PartForm::Last).then(|| part.range());
        image.expect(part.request(), bytes)
    }

    /// Reports that a part announced by [`Target::expect`] is about to be completed.
    pub(crate) fn part_ended(&self) {
        if let Target::Image(image, _) = self {
            image.part_ended();
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
        matches!(self, Target::Image(image, _) if landed < image.len())
    }

    /// Whether the raw bytes of a tile can be copied here from the device's scratch.
    pub(crate) fn takes_tile(&self, at: u64, raw_len: usize) -> bool {
        match self {
            Target::Image(image, _) => image.is_whole(&(at..at + raw_len as u64)),
            _ => true,
        }
    }

    /// Whether this holds for all tiles of streams, which begin at multiples of their length.
    pub(crate) fn takes_tiles(&self) -> bool {
        match self {
            Target::Image(image, _) => image.block.bytes.is_power_of_two(),
            _ => true,
        }
    }

    /// Whether a batch already writes some of these bytes of a buffer; images are not checked.
    pub(crate) fn is_written(&self, batch: &Batch, at: u64, raw_len: usize) -> bool {
        self.buffer().is_some_and(|(buffer, offset)| {
            let begin = offset + at;
            batch.writes(buffer, begin..begin + raw_len as u64)
        })
    }

    /// Adds the copies of raw bytes to `at`.
    pub(crate) fn add_bytes(self: &Arc<Target>, batch: &mut Batch, at: u64, bytes: Bytes<'_>) {
        let Target::Image(image, _) = &**self else {
            let from = batch.add_bytes(bytes, 1);
            return self.add_run(batch, (from, at, bytes.bytes.len()));
        };
        for (first, run) in image.split(at, bytes.bytes) {
            let run = match &run {
                Cow::Borrowed(run) => {
                    let begin = (first - at) as usize;
                    bytes.range(begin..begin + run.len())
                }
                Cow::Owned(run) => Bytes::new(run),
            };
            // Offsets of copies to images are multiples of a texel block.
            let from = batch.add_bytes(run, image.block.bytes as usize);
            self.add_run(batch, (from, first, run.bytes.len()));
        }
    }

    /// Adds a tile and the copies of its raw bytes to `at`; returns the tile's number.
    pub(crate) fn add_tile(
        self: &Arc<Target>,
        batch: &mut Batch,
        (at, raw_len): (u64, usize),
        stored: Bytes<'_>,
    ) -> u32 {
        let tile = batch.add_tile(stored, raw_len);
        self.add_run(batch, (Source::Tile(tile), at, raw_len));
        tile
    }

    /// Adds the transitions or the release that follow once all bytes have landed.
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
                    batch.add_release((*buffer, *offset, *len), to);
                }
            }
            Target::Image(image, _) => batch.add_completed(image),
        }
    }

    /// Adds the copies of a run of bytes; for an image, the run must be whole texel blocks.
    fn add_run(self: &Arc<Target>, batch: &mut Batch, (from, at, len): (Source, u64, usize)) {
        if len == 0 {
            // Vulkan does not allow empty copies.
            return;
        }
        batch.add_raw_bytes(len);
        if let Some((buffer, offset)) = self.buffer() {
            let to = CopyTo::Buffer(buffer, offset + at, len as u64);
            return batch.add_copy(Copy { from, skip: 0, to });
        }
        let Target::Image(image, _) = &**self else {
            unreachable!("everything else is a buffer")
        };
        batch.add_image(image);
        for copy in image.copies(at..at + len as u64) {
            let to = CopyTo::Image(image.about.image, copy);
            let skip = copy.buffer_offset - at;
            batch.add_copy(Copy { from, skip, to });
        }
    }
}
