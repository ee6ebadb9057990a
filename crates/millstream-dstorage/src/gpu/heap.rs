//! The upload heap of a queue: memory that the library writes and the GPU copies from.
//!
//! Its pages are cached, unlike those of `D3D12_HEAP_TYPE_UPLOAD`: decompressors read what they
//! wrote. It is a ring: space is given out in order, and reused once all that was given out before
//! it is free. A request that is larger than the ring has a buffer of its own, one at a time.
#![expect(unsafe_code, reason = "creates and maps buffers of D3D12")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Result;

use crate::com::lock;

/// Alignment of each space: a multiple of what textures and direct reads need.
const ALIGNMENT: u64 = 64 << 10;

/// A buffer of the heap, mapped as long as it exists.
#[derive(Clone)]
struct Buffer {
    resource: ID3D12Resource,
    address: usize,
}

impl Buffer {
    fn new(device: &ID3D12Device, len: u64) -> Result<Buffer> {
        let properties = D3D12_HEAP_PROPERTIES {
            Type: D3D12_HEAP_TYPE_CUSTOM,
            CPUPageProperty: D3D12_CPU_PAGE_PROPERTY_WRITE_BACK,
            MemoryPoolPreference: D3D12_MEMORY_POOL_L0,
            ..Default::default()
        };
        let mut description = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
            Width: len,
            Height: 1,
            DepthOrArraySize: 1,
            MipLevels: 1,
            Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
            ..Default::default()
        };
        description.SampleDesc.Count = 1;
        let (flags, state) = (D3D12_HEAP_FLAG_NONE, D3D12_RESOURCE_STATE_COMMON);
        let mut made: Option<ID3D12Resource> = None;
        let mut address = std::ptr::null_mut();
        // SAFETY: descriptions, and memory for the answers. Nothing is read on the processor.
        unsafe {
            let made = &mut made;
            device.CreateCommittedResource(&properties, flags, &description, state, None, made)?;
            let resource = made.take().expect("the call succeeded");
            resource.Map(0, Some(&D3D12_RANGE::default()), Some(&mut address))?;
            Ok(Buffer {
                resource,
                address: address as usize,
            })
        }
    }
}

pub(crate) struct Heap {
    device: ID3D12Device,
    len: u64,
    state: Mutex<HeapState>,
}

#[derive(Default)]
struct HeapState {
    /// That of the ring, made for the first request.
    buffer: Option<Buffer>,
    ring: Ring,
    /// A request has a buffer of its own.
    has_large: bool,
}

/// Space for the bytes of a request, free once it is dropped.
pub(crate) struct Space {
    buffer: Buffer,
    /// Dropped after the buffer, so that two large ones never exist.
    part: Part,
}

struct Part {
    heap: Arc<Heap>,
    /// In the ring; `None` for a buffer of its own.
    position: Option<u64>,
}

impl Heap {
    pub(crate) fn new(device: &ID3D12Device, len: usize) -> Arc<Heap> {
        let len = (len as u64).next_multiple_of(ALIGNMENT);
        Arc::new(Heap {
            device: device.clone(),
            len,
            state: Mutex::default(),
        })
    }

    /// Returns space for `len` bytes; `None` until other spaces are free.
    pub(crate) fn take(self: &Arc<Heap>, len: u64) -> Result<Option<Space>> {
        let mut state = lock(&self.state);
        let (buffer, position) = if len > self.len {
            if state.has_large {
                return Ok(None);
            }
            let buffer = Buffer::new(&self.device, len)?;
            state.has_large = true;
            (buffer, None)
        } else {
            let buffer = match &state.buffer {
                Some(buffer) => buffer.clone(),
                None => Buffer::new(&self.device, self.len)?,
            };
            state.buffer = Some(buffer.clone());
            let Some(position) = state.ring.take(len, self.len) else {
                return Ok(None);
            };
            (buffer, Some(position))
        };
        let heap = Arc::clone(self);
        Ok(Some(Space {
            buffer,
            part: Part { heap, position },
        }))
    }
}

impl Space {
    /// Returns the buffer that the GPU copies from.
    pub(crate) fn resource(&self) -> &ID3D12Resource {
        &self.buffer.resource
    }

    /// Returns where the space begins in the buffer.
    pub(crate) fn offset(&self) -> u64 {
        let part = &self.part;
        part.position.map_or(0, |it| it % part.heap.len)
    }

    /// Returns the address at which the processor writes.
    pub(crate) fn address(&self) -> usize {
        self.buffer.address + self.offset() as usize
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut state = lock(&self.heap.state);
        match self.position {
            Some(position) => state.ring.free(position),
            None => state.has_large = false,
        }
    }
}

/// The spaces of a ring. Positions grow without end; their remainder by its length is the offset.
#[derive(Default)]
struct Ring {
    next: u64,
    /// Start, end, and whether it is free; oldest first. The first is not free.
    spaces: VecDeque<(u64, u64, bool)>,
}

impl Ring {
    /// Returns the start of a space in a ring of `ring_len` bytes.
    fn take(&mut self, len: u64, ring_len: u64) -> Option<u64> {
        let len = len.next_multiple_of(ALIGNMENT);
        let mut start = self.next;
        if start % ring_len + len > ring_len {
            start = start.next_multiple_of(ring_len);
        }
        let oldest = self.spaces.front().map_or(start, |oldest| oldest.0);
        if start + len - oldest > ring_len {
            return None;
        }
        self.next = start + len;
        self.spaces.push_back((start, self.next, false));
        Some(start)
    }

    fn free(&mut self, start: u64) {
        let found = self.spaces.binary_search_by_key(&start, |space| space.0);
        self.spaces[found.expect("it was taken")].2 = true;
        while self.spaces.front().is_some_and(|oldest| oldest.2) {
            self.spaces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_of_a_ring_never_overlap_and_never_run_out() {
        let mut random = fastrand::Rng::with_seed(42);
        let len = 64 * ALIGNMENT;
        let mut ring = Ring::default();
        // Positions and lengths.
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for round in 0..20_000 {
            let most = len >> random.u32(0..7);
            let wanted = random.u64(1..=most);
            while let Some(start) = ring.take(wanted, len) {
                let offset = start % len;
                assert!(
                    offset.is_multiple_of(ALIGNMENT) && offset + wanted <= len,
                    "{round}"
                );
                for (other, other_len) in &taken {
                    let other = other % len;
                    let is_apart = offset + wanted <= other || other + other_len <= offset;
                    assert!(is_apart, "{round}: {offset} overlaps {other}");
                }
                taken.push((start, wanted));
                if random.u8(..) < 128 {
                    break;
                }
            }
            assert!(
                !taken.is_empty(),
                "{round}: an empty ring has no space for {wanted}"
            );
            ring.free(taken.swap_remove(random.usize(..taken.len())).0);
        }
    }
}
