//! Batches: what is submitted to the device at once.
//!
//! A batch has an upload buffer that the processor fills, and scratch that the device decodes into.
//! Both belong to the device from [`Batch::submit`] until [`Batch::wait`] has returned; in between
//! nothing touches them. Tiles are decoded into scratch, each into a place of its own, and copied
//! from there: so destinations need no alignment. What a tile that is refused brings to its own
//! destination is undefined; it reaches no other.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::sync::Arc;

use ash::vk;
use millstream::Error;

use crate::context::{Commands, Context};
use crate::decoder::{Bound, Decoder, TileEntry};
use crate::limits;
use crate::memory::DeviceBuffer;
use crate::target::Target;
use crate::texels::Transition;

/// Where a copy's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An offset of the upload buffer.
    Upload(usize),
    /// The raw bytes of a tile.
    Tile(u32),
}

/// Where a copy's bytes go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CopyTo {
    /// An offset of a buffer, and how many bytes.
    Buffer(vk::Buffer, u64, u64),
    /// Texels of an image.
    Image(vk::Image, vk::BufferImageCopy),
}

/// A copy that a batch makes once its tiles are decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) from: Source,
    /// Bytes of the source before the first.
    pub(crate) skip: u64,
    pub(crate) to: CopyTo,
}

/// Ranges of a buffer that another family is to own: buffer, offset, length, family.
type Release = (vk::Buffer, u64, u64, u32);

/// See the header.
pub(crate) struct Batch {
    decoder: Option<Arc<Decoder>>,
    upload: DeviceBuffer,
    scratch: DeviceBuffer,
    table: DeviceBuffer,
    statuses: DeviceBuffer,
    bound: Option<Bound>,
    commands: Commands,
    family: u32,
    uploaded: usize,
    tiles: u32,
    copies: Vec<Copy>,
    /// Before all copies: images that are written from this batch on.
    begins: Vec<Transition>,
    begun: Vec<Arc<Target>>,
    /// Behind all copies: what is handed over.
    ends: Vec<Transition>,
    releases: Vec<Release>,
}

impl Batch {
    /// Without a decoder it only copies.
    pub(crate) fn new(
        context: &Arc<Context>,
        decoder: Option<Arc<Decoder>>,
    ) -> Result<Batch, Error> {
        let storage = vk::BufferUsageFlags::STORAGE_BUFFER;
        let source = storage | vk::BufferUsageFlags::TRANSFER_SRC;
        let tiles = if decoder.is_some() {
            limits::BATCH_TILES
        } else {
            0
        };
        let upload = DeviceBuffer::mapped(context, limits::UPLOAD_BYTES, source)?;
        let scratch = DeviceBuffer::local(context, tiles * limits::TILE_BYTES, source)?;
        let table = DeviceBuffer::mapped(context, tiles * size_of::<TileEntry>(), storage)?;
        let statuses = DeviceBuffer::mapped(context, tiles * size_of::<u32>(), storage)?;
        let bound = match &decoder {
            Some(decoder) => Some(Bound::new(decoder, [&upload, &scratch, &table, &statuses])?),
            None => None,
        };
        Ok(Batch {
            decoder,
            upload,
            scratch,
            table,
            statuses,
            bound,
            commands: Commands::new(context)?,
            family: context.family,
            uploaded: 0,
            tiles: 0,
            copies: Vec::new(),
            begins: Vec::new(),
            begun: Vec::new(),
            ends: Vec::new(),
            releases: Vec::new(),
        })
    }

    /// The family of the queue that it is submitted to.
    pub(crate) fn family(&self) -> u32 {
        self.family
    }

    /// Whether so many more bytes fit, and one more tile if they are one.
    pub(crate) fn has_room(&self, bytes: usize, is_tile: bool) -> bool {
        let tiles = self.tiles as usize + usize::from(is_tile);
        let padded = self.uploaded + bytes + limits::PADDING_MAX;
        padded <= self.upload.len() && tiles <= limits::BATCH_TILES
    }

    /// Takes bytes in that were looked at by [`Batch::has_room`], at a multiple of `align` and of
    /// 4; where they are.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8], align: usize) -> Source {
        let step = match align % 4 {
            0 => align,
            2 => align * 2,
            _ => align * 4,
        };
        let begin = self.uploaded.next_multiple_of(step);
        let end = begin + bytes.len();
        self.upload.bytes()[begin..end].copy_from_slice(bytes);
        self.uploaded = end.next_multiple_of(4);
        Source::Upload(begin)
    }

    /// Takes in a tile that is decoded to `raw_len` bytes; its number.
    pub(crate) fn add_tile(&mut self, stored: &[u8], raw_len: usize) -> u32 {
        let tile = self.tiles;
        let Source::Upload(at) = self.add_bytes(stored, 4) else {
            unreachable!("bytes go into the upload buffer")
        };
        let words = [
            at / 4,
            stored.len() / 4,
            tile as usize * limits::TILE_BYTES / 4,
            raw_len,
        ];
        let begin = tile as usize * size_of::<TileEntry>();
        let entry = self.table.bytes()[begin..].as_chunks_mut::<4>().0;
        for (to, word) in entry.iter_mut().zip(words) {
            *to = (word as u32).to_ne_bytes();
        }
        self.tiles += 1;
        tile
    }

    pub(crate) fn add_copy(&mut self, copy: Copy) {
        self.copies.push(copy);
    }

    /// Transitions before all copies, of an image.
    pub(crate) fn add_begin(&mut self, begin: Vec<Transition>, target: Arc<Target>) {
        self.begins.extend(begin);
        self.begun.push(target);
    }

    /// Transitions behind all copies.
    pub(crate) fn add_end(&mut self, end: Vec<Transition>) {
        self.ends.extend(end);
    }

    /// Releases a range of a buffer to another family, behind all copies.
    pub(crate) fn add_release(&mut self, (buffer, offset, len): (vk::Buffer, u64, u64), to: u32) {
        self.releases.push((buffer, offset, len, to));
    }

    /// Bytes and tiles of the batch.
    pub(crate) fn contents(&self) -> (usize, u32) {
        (self.uploaded, self.tiles)
    }

    /// Gives it to the device.
    pub(crate) fn submit(&mut self) -> Result<(), Error> {
        self.statuses.bytes().fill(0);
        let Batch {
            decoder,
            bound,
            commands,
            tiles,
            copies,
            upload,
            scratch,
            begins,
            ends,
            releases,
            family,
            ..
        } = self;
        let done = commands.submit(|device, commands| {
            if let (Some(decoder), Some(bound), 1..) = (decoder, bound, *tiles) {
                decoder.record(commands, bound, *tiles);
                barrier(device, commands, SHADER_WRITES, COPY_READS);
            }
            if !begins.is_empty() {
                let barriers = begins.iter().map(Transition::barrier);
                let barriers = (Vec::new(), barriers.collect());
                let copies = vk::PipelineStageFlags::TRANSFER;
                barriers_of(device, commands, (copies, copies), barriers);
            }
            for copy in copies.iter() {
                record_copy(device, commands, copy, upload, scratch);
            }
            barrier(device, commands, COPY_WRITES, LATER_READS);
            if !(ends.is_empty() && releases.is_empty()) {
                let release = |(buffer, offset, len, to): &Release| {
                    let barrier = handover_of((*buffer, *offset, *len), (*family, *to))?;
                    Some(barrier.src_access_mask(vk::AccessFlags::TRANSFER_WRITE))
                };
                let released = releases.iter().filter_map(release);
                let ended = ends.iter().map(Transition::barrier);
                let barriers = (released.collect(), ended.collect());
                let stages = (
                    vk::PipelineStageFlags::TRANSFER,
                    vk::PipelineStageFlags::ALL_COMMANDS,
                );
                barriers_of(device, commands, stages, barriers);
            }
        });
        if done.is_err() {
            for target in &self.begun {
                target.forget_begin();
            }
        }
        done
    }

    /// Waits until the device is done with it.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.commands.wait()
    }

    /// The status of a tile; after [`Batch::wait`].
    pub(crate) fn status(&mut self, tile: u32) -> u32 {
        let words = self.statuses.bytes().as_chunks::<4>().0;
        u32::from_ne_bytes(words[tile as usize])
    }

    /// Empties it, to be filled again.
    pub(crate) fn clear(&mut self) {
        (self.uploaded, self.tiles) = (0, 0);
        self.copies.clear();
        self.begins.clear();
        self.begun.clear();
        self.ends.clear();
        self.releases.clear();
    }
}

fn record_copy(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    copy: &Copy,
    upload: &DeviceBuffer,
    scratch: &DeviceBuffer,
) {
    let (from, offset) = match copy.from {
        Source::Upload(at) => (upload.buffer, at),
        Source::Tile(tile) => (scratch.buffer, tile as usize * limits::TILE_BYTES),
    };
    let src_offset = offset as u64 + copy.skip;
    match copy.to {
        CopyTo::Buffer(to, dst_offset, size) => {
            let region = vk::BufferCopy {
                src_offset,
                dst_offset,
                size,
            };
            // SAFETY: inside both buffers: the source has what was added, and a part's range is
            // inside of its destination.
            unsafe { device.cmd_copy_buffer(commands, from, to, &[region]) };
        }
        CopyTo::Image(to, mut region) => {
            region.buffer_offset = src_offset;
            let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
            // SAFETY: as above; the image is in this layout since the transition that came first.
            unsafe { device.cmd_copy_buffer_to_image(commands, from, to, layout, &[region]) };
        }
    }
}

/// Stages, and how they use memory.
pub(crate) type Uses = (vk::PipelineStageFlags, vk::AccessFlags);

const SHADER_WRITES: Uses = (
    vk::PipelineStageFlags::COMPUTE_SHADER,
    vk::AccessFlags::SHADER_WRITE,
);
const COPY_READS: Uses = (
    vk::PipelineStageFlags::from_raw(
        vk::PipelineStageFlags::TRANSFER.as_raw() | vk::PipelineStageFlags::HOST.as_raw(),
    ),
    vk::AccessFlags::from_raw(
        vk::AccessFlags::TRANSFER_READ.as_raw() | vk::AccessFlags::HOST_READ.as_raw(),
    ),
);
pub(crate) const COPY_WRITES: Uses = (
    vk::PipelineStageFlags::TRANSFER,
    vk::AccessFlags::TRANSFER_WRITE,
);
/// Whatever is submitted later, and the processor.
const LATER_READS: Uses = (
    vk::PipelineStageFlags::from_raw(
        vk::PipelineStageFlags::ALL_COMMANDS.as_raw() | vk::PipelineStageFlags::HOST.as_raw(),
    ),
    vk::AccessFlags::from_raw(
        vk::AccessFlags::MEMORY_READ.as_raw() | vk::AccessFlags::HOST_READ.as_raw(),
    ),
);
pub(crate) const HOST_READS: Uses = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);

/// Makes writes of the first stages visible to the second.
pub(crate) fn barrier(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    (from, writes): Uses,
    (to, reads): Uses,
) {
    let memory = vk::MemoryBarrier::default()
        .src_access_mask(writes)
        .dst_access_mask(reads);
    let none = vk::DependencyFlags::empty();
    // SAFETY: commands that are being recorded, outside of a render pass.
    unsafe { device.cmd_pipeline_barrier(commands, from, to, none, &[memory], &[], &[]) };
}

/// Barriers of buffers and images.
type Barriers = (
    Vec<vk::BufferMemoryBarrier<'static>>,
    Vec<vk::ImageMemoryBarrier<'static>>,
);

pub(crate) fn barriers_of(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    (from, to): (vk::PipelineStageFlags, vk::PipelineStageFlags),
    (buffers, images): Barriers,
) {
    let none = vk::DependencyFlags::empty();
    // SAFETY: as above; ranges and layers of destinations.
    unsafe { device.cmd_pipeline_barrier(commands, from, to, none, &[], &buffers, &images) };
}

/// The barrier by which a range of a buffer goes from one family to another, if it does. Both
/// record it: the one that releases it with what it wrote, the other with what it does next.
pub(crate) fn handover_of(
    (buffer, offset, size): (vk::Buffer, u64, u64),
    (from, to): (u32, u32),
) -> Option<vk::BufferMemoryBarrier<'static>> {
    let barrier = vk::BufferMemoryBarrier::default()
        .buffer(buffer)
        .offset(offset)
        .size(size)
        .src_queue_family_index(from)
        .dst_queue_family_index(to);
    (from != to).then_some(barrier)
}
