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

/// Where a copy's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An offset of the upload buffer.
    Upload(usize),
    /// The raw bytes of a tile.
    Tile(u32),
}

/// A copy that a batch makes once its tiles are decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) from: Source,
    pub(crate) to: vk::Buffer,
    pub(crate) at: u64,
    pub(crate) len: usize,
}

/// See the header.
pub(crate) struct Batch {
    decoder: Option<Arc<Decoder>>,
    upload: DeviceBuffer,
    scratch: DeviceBuffer,
    table: DeviceBuffer,
    statuses: DeviceBuffer,
    bound: Option<Bound>,
    commands: Commands,
    uploaded: usize,
    tiles: u32,
    copies: Vec<Copy>,
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
            uploaded: 0,
            tiles: 0,
            copies: Vec::new(),
        })
    }

    /// Whether so many more bytes fit, and one more tile if they are one.
    pub(crate) fn has_room(&self, bytes: usize, is_tile: bool) -> bool {
        let tiles = self.tiles as usize + usize::from(is_tile);
        self.uploaded + bytes + 4 <= self.upload.len() && tiles <= limits::BATCH_TILES
    }

    /// Takes bytes in that were looked at by [`Batch::has_room`]; where they are.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) -> Source {
        let begin = self.uploaded;
        let end = begin + bytes.len();
        self.upload.bytes()[begin..end].copy_from_slice(bytes);
        self.uploaded = end.next_multiple_of(4);
        Source::Upload(begin)
    }

    /// As [`Batch::add_bytes`], of a tile that is decoded to `raw_len` bytes.
    pub(crate) fn add_tile(&mut self, stored: &[u8], raw_len: usize) -> Source {
        let tile = self.tiles;
        let Source::Upload(at) = self.add_bytes(stored) else {
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
        Source::Tile(tile)
    }

    pub(crate) fn add_copy(&mut self, copy: Copy) {
        self.copies.push(copy);
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
            ..
        } = self;
        commands.submit(|device, commands| {
            if let (Some(decoder), Some(bound), 1..) = (decoder, bound, *tiles) {
                decoder.record(commands, bound, *tiles);
                barrier(
                    device,
                    commands,
                    (
                        vk::PipelineStageFlags::COMPUTE_SHADER,
                        vk::AccessFlags::SHADER_WRITE,
                    ),
                    (
                        vk::PipelineStageFlags::TRANSFER | vk::PipelineStageFlags::HOST,
                        vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::HOST_READ,
                    ),
                );
            }
            for copy in copies.iter() {
                record_copy(device, commands, copy, upload, scratch);
            }
            barrier(
                device,
                commands,
                (
                    vk::PipelineStageFlags::TRANSFER,
                    vk::AccessFlags::TRANSFER_WRITE,
                ),
                (
                    vk::PipelineStageFlags::ALL_COMMANDS | vk::PipelineStageFlags::HOST,
                    vk::AccessFlags::MEMORY_READ | vk::AccessFlags::HOST_READ,
                ),
            );
        })
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
    let region = vk::BufferCopy {
        src_offset: offset as u64,
        dst_offset: copy.at,
        size: copy.len as u64,
    };
    // SAFETY: inside both buffers: the source has what was added, and a part's range is inside of
    // its destination.
    unsafe { device.cmd_copy_buffer(commands, from, copy.to, &[region]) };
}

/// Makes writes of the first stages visible to the second.
pub(crate) fn barrier(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    (from, writes): (vk::PipelineStageFlags, vk::AccessFlags),
    (to, reads): (vk::PipelineStageFlags, vk::AccessFlags),
) {
    let memory = vk::MemoryBarrier::default()
        .src_access_mask(writes)
        .dst_access_mask(reads);
    let none = vk::DependencyFlags::empty();
    // SAFETY: commands that are being recorded, outside of a render pass.
    unsafe { device.cmd_pipeline_barrier(commands, from, to, none, &[memory], &[], &[]) };
}
