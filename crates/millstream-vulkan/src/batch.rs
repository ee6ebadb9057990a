//! Batches: what is submitted to the device at once.
//!
//! A batch has an upload buffer that the processor fills, and scratch that the device decodes into.
//! Both belong to the device from [`Batch::submit`] until [`Batch::wait`] has returned; in between
//! nothing else uses them. Each tile is decoded into its own part of scratch and copied from there,
//! so destinations need no alignment. The bytes that a rejected tile writes to its destination are
//! undefined; it writes to no other.
#![expect(unsafe_code, reason = "every call of Vulkan is unsafe")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ash::vk::{self, Handle};
use millstream::Error;

use crate::commands::Commands;
use crate::context::Context;
use crate::decoder::{Bound, Decoder, TileEntry};
use crate::limits;
use crate::memory::DeviceBuffer;
use crate::queue::{GpuPoint, Queue};
use crate::regions::{ImageTarget, Transition};

/// Where a copy reads its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An offset of the upload buffer.
    Upload(usize),
    /// The raw bytes of a tile.
    Tile(u32),
    /// An offset of imported staging.
    Staging(vk::Buffer, u64),
}

/// Bytes in host memory, and their place in imported staging if they have one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) imported: Option<(vk::Buffer, u64)>,
}

impl<'a> Bytes<'a> {
    /// Bytes in memory that is not imported.
    pub(crate) fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes {
            bytes,
            imported: None,
        }
    }
}

/// A copy to a buffer that a batch makes once its tiles are decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) from: Source,
    /// The buffer, the offset in it, and the number of bytes.
    pub(crate) to: (vk::Buffer, u64, u64),
}

/// A copy of all bytes of a request to an image, with the transitions around it.
pub(crate) struct ImageCopy {
    from: vk::Buffer,
    to: vk::Image,
    regions: Vec<vk::BufferImageCopy>,
    begin: Vec<Transition>,
    end: Vec<Transition>,
}

impl ImageCopy {
    pub(crate) fn new(from: vk::Buffer, image: &ImageTarget, family: u32) -> ImageCopy {
        ImageCopy {
            from,
            to: image.about.image,
            regions: image.copies.clone(),
            begin: image.begin(family),
            end: image.end(family),
        }
    }
}

/// A range of a buffer to release to another family: buffer, offset, length, family.
type Release = (vk::Buffer, u64, u64, u32);

/// Copies and tiles that are submitted together, and the memory that they use.
pub(crate) struct Batch {
    context: Arc<Context>,
    decoder: Option<Arc<Decoder>>,
    upload: DeviceBuffer,
    scratch: DeviceBuffer,
    table: DeviceBuffer,
    statuses: DeviceBuffer,
    bound: Option<Bound>,
    commands: Option<Commands>,
    /// Reached once the device has completed the batch.
    done: GpuPoint,
    /// The family of the queue that the batch is submitted to.
    pub(crate) family: u32,
    uploaded: usize,
    tiles: u32,
    /// Raw bytes of copies.
    raw_bytes: usize,
    /// Bytes that the device reads from staging itself.
    imported_bytes: usize,
    /// Copies of tiles from staging to the upload buffer, before they are decoded.
    fetches: Vec<(vk::Buffer, vk::BufferCopy)>,
    copies: Vec<Copy>,
    /// Ranges of buffers that copies write: from buffer and first byte to the end.
    written: BTreeMap<(u64, u64), u64>,
    /// Copies to images, after all others.
    pub(crate) images: Vec<ImageCopy>,
    /// What is released to other families, after all copies.
    pub(crate) releases: Vec<Release>,
}

impl Batch {
    /// Makes an empty batch; without a decoder it only copies.
    pub(crate) fn new(
        context: &Arc<Context>,
        queue: &Arc<Queue>,
        decoder: Option<Arc<Decoder>>,
    ) -> Result<Batch, Error> {
        let storage = vk::BufferUsageFlags::STORAGE_BUFFER;
        let source = storage | vk::BufferUsageFlags::TRANSFER_SRC;
        let tiles = if decoder.is_some() {
            limits::BATCH_TILES
        } else {
            0
        };
        let fetched = source | vk::BufferUsageFlags::TRANSFER_DST;
        let upload = DeviceBuffer::mapped(context, limits::UPLOAD_BYTES, fetched)?;
        let scratch = DeviceBuffer::local(context, tiles * limits::TILE_BYTES, source)?;
        let table = DeviceBuffer::mapped(context, tiles * size_of::<TileEntry>(), storage)?;
        let statuses = DeviceBuffer::mapped(context, tiles * size_of::<u32>(), storage)?;
        let bound = match &decoder {
            Some(decoder) => Some(Bound::new(decoder, [&upload, &scratch, &table, &statuses])?),
            None => None,
        };
        let commands = Commands::new(context, queue)?;
        Ok(Batch {
            decoder,
            upload,
            scratch,
            table,
            statuses,
            bound,
            context: Arc::clone(context),
            done: commands.done(),
            commands: Some(commands),
            family: queue.family,
            uploaded: 0,
            tiles: 0,
            raw_bytes: 0,
            imported_bytes: 0,
            fetches: Vec::new(),
            copies: Vec::new(),
            written: BTreeMap::new(),
            images: Vec::new(),
            releases: Vec::new(),
        })
    }

    /// Whether a piece fits that has `raw_len` raw bytes and needs `bytes` in the upload buffer.
    pub(crate) fn has_room(&self, (bytes, raw_len): (usize, usize), is_tile: bool) -> bool {
        let tiles = self.tiles as usize + usize::from(is_tile);
        let padded = self.uploaded + bytes + limits::PADDING_MAX;
        padded <= self.upload.len()
            && tiles <= limits::BATCH_TILES
            && (self.raw_bytes == 0 || self.raw_bytes + raw_len <= limits::BATCH_BYTES)
    }

    /// Adds bytes for which [`Batch::has_room`] has returned true, and returns their source.
    pub(crate) fn add_bytes(&mut self, bytes: Bytes<'_>) -> Source {
        match bytes.imported {
            Some((buffer, offset)) => {
                self.imported_bytes += bytes.bytes.len();
                Source::Staging(buffer, offset)
            }
            None => {
                let begin = self.reserve(bytes.bytes.len());
                let upload = &mut self.upload.bytes()[begin..];
                upload[..bytes.bytes.len()].copy_from_slice(bytes.bytes);
                Source::Upload(begin)
            }
        }
    }

    /// Reserves room in the upload buffer, at a multiple of 4.
    fn reserve(&mut self, len: usize) -> usize {
        let begin = self.uploaded;
        self.uploaded = (begin + len).next_multiple_of(4);
        begin
    }

    /// Adds a tile that is decoded to `raw_len` bytes, and returns its number.
    pub(crate) fn add_tile(&mut self, stored: Bytes<'_>, raw_len: usize) -> u32 {
        let (tile, len) = (self.tiles, stored.bytes.len());
        let at = self.reserve(len);
        match stored.imported {
            Some((from, src_offset)) => {
                // The shader reads words of a tile more than once, and in any order.
                let region = vk::BufferCopy {
                    src_offset,
                    dst_offset: at as u64,
                    size: len as u64,
                };
                self.fetches.push((from, region));
                self.imported_bytes += len;
            }
            None => self.upload.bytes()[at..at + len].copy_from_slice(stored.bytes),
        }
        let words = [
            at / 4,
            len / 4,
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

    /// Whether a copy writes some of these bytes already. Copies of a batch run in any order, but
    /// before those of the next batch.
    pub(crate) fn writes(&self, buffer: vk::Buffer, range: Range<u64>) -> bool {
        let buffer = buffer.as_raw();
        let before = self.written.range(..(buffer, range.end)).next_back();
        before.is_some_and(|((other, _), end)| *other == buffer && *end > range.start)
    }

    pub(crate) fn add_copy(&mut self, copy: Copy) {
        let (buffer, at, len) = copy.to;
        self.written.insert((buffer.as_raw(), at), at + len);
        self.raw_bytes += len as usize;
        self.copies.push(copy);
    }

    /// Returns the bytes written by the processor, those read from staging, and the tile count.
    pub(crate) fn contents(&self) -> (usize, usize, u32) {
        let fetched: u64 = self.fetches.iter().map(|(_, region)| region.size).sum();
        let written = self.uploaded - fetched as usize;
        (written, self.imported_bytes, self.tiles)
    }

    /// Submits the batch.
    pub(crate) fn submit(&mut self) -> Result<(), Error> {
        self.statuses.bytes().fill(0);
        // Taken out of `self`, which recording borrows.
        let mut commands = self.commands.take().expect("one submission at a time");
        let done = commands.submit(|_, buffer| self.record(buffer));
        self.done = commands.done();
        self.commands = Some(commands);
        done
    }

    /// Records the batch into the application's commands, whose submission signals `done`.
    pub(crate) fn hand_over(&mut self, commands: vk::CommandBuffer, done: GpuPoint) {
        self.statuses.bytes().fill(0);
        // Barriers that the application recorded earlier do not cover these copies.
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let writes = vk::AccessFlags::MEMORY_WRITE;
        let uses = vk::AccessFlags::MEMORY_READ | writes;
        barrier(&self.context.device, commands, (all, writes), (all, uses));
        self.record(commands);
        self.done = done;
    }

    fn record(&self, commands: vk::CommandBuffer) {
        let device = &self.context.device;
        if let (Some(decoder), Some(bound), 1..) = (&self.decoder, &self.bound, self.tiles) {
            for (from, region) in &self.fetches {
                let to = self.upload.buffer;
                // SAFETY: inside of staging, and of the upload buffer.
                unsafe { device.cmd_copy_buffer(commands, *from, to, &[*region]) };
            }
            if !self.fetches.is_empty() {
                barrier(device, commands, COPY_WRITES, SHADER_READS);
            }
            decoder.record(commands, bound, self.tiles);
            barrier(device, commands, SHADER_WRITES, COPY_READS);
        }
        for copy in &self.copies {
            record_copy(device, commands, copy, &self.upload, &self.scratch);
        }
        let copies = vk::PipelineStageFlags::TRANSFER;
        let all = |part: fn(&ImageCopy) -> &[Transition]| -> Vec<Transition> {
            self.images.iter().flat_map(part).copied().collect()
        };
        let begins = all(|copy| &copy.begin);
        barriers_of(device, commands, (copies, copies), (&[], &begins));
        for ImageCopy {
            from, to, regions, ..
        } in &self.images
        {
            let layout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;
            // SAFETY: the image is in this layout since the transition above, its regions are
            // texels of it, and the buffer has their bytes, which landed in an earlier batch.
            unsafe { device.cmd_copy_buffer_to_image(commands, *from, *to, layout, regions) };
        }
        barrier(device, commands, COPY_WRITES, LATER_USES);
        let release = |(buffer, offset, len, to): &Release| {
            let barrier = handover_of((*buffer, *offset, *len), (self.family, *to))?;
            Some(barrier.src_access_mask(vk::AccessFlags::TRANSFER_WRITE))
        };
        let releases: Vec<_> = self.releases.iter().filter_map(release).collect();
        let ends = all(|copy| &copy.end);
        let stages = (copies, vk::PipelineStageFlags::ALL_COMMANDS);
        barriers_of(device, commands, stages, (&releases, &ends));
    }

    /// Waits until the device has completed the batch.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.context.wait(self.done)
    }

    /// Returns the status of a tile. Valid after [`Batch::wait`].
    pub(crate) fn status(&mut self, tile: u32) -> u32 {
        let words = self.statuses.bytes().as_chunks::<4>().0;
        u32::from_ne_bytes(words[tile as usize])
    }

    /// Empties the batch, so that it can be filled again.
    pub(crate) fn clear(&mut self) {
        (self.uploaded, self.tiles) = (0, 0);
        (self.raw_bytes, self.imported_bytes) = (0, 0);
        self.fetches.clear();
        self.copies.clear();
        self.written.clear();
        self.images.clear();
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
        Source::Staging(buffer, at) => (buffer, at as usize),
    };
    let (to, dst_offset, size) = copy.to;
    let region = vk::BufferCopy {
        src_offset: offset as u64,
        dst_offset,
        size,
    };
    // SAFETY: inside both buffers: the source has what was added, and a part's range is inside of
    // its destination.
    unsafe { device.cmd_copy_buffer(commands, from, to, &[region]) };
}

/// Pipeline stages, and how they access memory.
pub(crate) type Uses = (vk::PipelineStageFlags, vk::AccessFlags);

const SHADER_READS: Uses = (
    vk::PipelineStageFlags::COMPUTE_SHADER,
    vk::AccessFlags::SHADER_READ,
);
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
/// Everything that is submitted later, and the processor.
const LATER_USES: Uses = (
    vk::PipelineStageFlags::from_raw(
        vk::PipelineStageFlags::ALL_COMMANDS.as_raw() | vk::PipelineStageFlags::HOST.as_raw(),
    ),
    vk::AccessFlags::from_raw(
        vk::AccessFlags::MEMORY_READ.as_raw()
            | vk::AccessFlags::MEMORY_WRITE.as_raw()
            | vk::AccessFlags::HOST_READ.as_raw(),
    ),
);
pub(crate) const HOST_READS: Uses = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);

/// Makes writes of the first stages visible to the second ones.
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
type Barriers<'a> = (&'a [vk::BufferMemoryBarrier<'static>], &'a [Transition]);

pub(crate) fn barriers_of(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    (from, to): (vk::PipelineStageFlags, vk::PipelineStageFlags),
    (buffers, images): Barriers<'_>,
) {
    if buffers.is_empty() && images.is_empty() {
        return;
    }
    let none = vk::DependencyFlags::empty();
    // SAFETY: as above; ranges and layers of destinations.
    unsafe { device.cmd_pipeline_barrier(commands, from, to, none, &[], buffers, images) };
}

/// Returns the barrier that transfers a range of a buffer between two families, if they differ.
/// Both record it: the releasing one with its writes, the acquiring one with its next accesses.
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
