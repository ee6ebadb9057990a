//! Copies to resources of D3D12: the device of a queue, its upload heap, and its copy queue.
//!
//! The bytes of a request are read or decompressed into the upload heap. Then the thread of the
//! queue copies them, with all others that are there, on a command queue of the library, and waits
//! for its fence, while the engine reads on. Only public methods of D3D12 are called.
//!
//! A fence that is not reached in time loses the copy queue: what it was to copy fails, and nothing
//! that the GPU may still use is released.
#![expect(unsafe_code, reason = "calls D3D12 on objects of the program")]

mod heap;
mod target;

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{HRESULT, Interface, Result};

use crate::abi::{E_DSTORAGE_IO_TIMEOUT, E_INVALIDARG, S_OK};
use crate::com::{lock, query};
use crate::event::Event;
use crate::log;

use self::heap::Heap;
pub(crate) use self::heap::Space;
pub(crate) use self::target::Target;

/// The environment variable that says how long a copy may take.
const SECONDS_VARIABLE: &str = "MILLSTREAM_DSTORAGE_COPY_SECONDS";

/// Far longer than a driver lets a GPU hang.
const SECONDS_DEFAULT: u16 = 30;

/// How often the fence is read if there is no event.
const POLL: Duration = Duration::from_millis(5);

/// A request whose bytes are in the upload heap.
pub(crate) struct Copy {
    pub(crate) sequence: u64,
    pub(crate) target: Target,
    pub(crate) space: Space,
}

pub(crate) struct Gpu {
    pub(crate) device: ID3D12Device,
    heap: Arc<Heap>,
    queue: ID3D12CommandQueue,
    allocator: ID3D12CommandAllocator,
    /// Closed, except while copies are recorded.
    list: ID3D12GraphicsCommandList,
    fence: ID3D12Fence,
    reached: Event,
    timeout: Duration,
    /// The value of the fence after the last copies. Locked during copies.
    value: Mutex<u64>,
    /// Why nothing is copied any more.
    lost: AtomicI32,
}

impl Gpu {
    /// Makes a copy queue on a device of the program.
    ///
    /// # Safety
    /// `device` is a COM object that the caller holds.
    pub(crate) unsafe fn new(device: *mut c_void, heap_len: usize) -> Result<Arc<Gpu>> {
        let kind = D3D12_COMMAND_LIST_TYPE_COPY;
        let description = D3D12_COMMAND_QUEUE_DESC {
            Type: kind,
            ..Default::default()
        };
        let seconds = std::env::var(SECONDS_VARIABLE).ok();
        let seconds = seconds.and_then(|it| it.parse().ok());
        let seconds = seconds.unwrap_or(SECONDS_DEFAULT);
        // SAFETY: as the caller promises; a description, and objects of the device.
        unsafe {
            let device: ID3D12Device = query(device).ok_or(HRESULT(E_INVALIDARG))?;
            let allocator: ID3D12CommandAllocator = device.CreateCommandAllocator(kind)?;
            let list: ID3D12GraphicsCommandList =
                device.CreateCommandList(0, kind, &allocator, None)?;
            list.Close()?;
            Ok(Arc::new(Gpu {
                heap: Heap::new(&device, heap_len),
                queue: device.CreateCommandQueue(&description)?,
                allocator,
                list,
                fence: device.CreateFence(0, D3D12_FENCE_FLAG_NONE)?,
                device,
                reached: Event::new().map_err(HRESULT)?,
                timeout: Duration::from_secs(seconds.into()),
                value: Mutex::new(0),
                lost: AtomicI32::new(S_OK),
            }))
        }
    }

    /// Returns space in the upload heap; `None` until other space is free.
    pub(crate) fn take(&self, len: u64) -> Result<Option<Space>> {
        HRESULT(self.lost.load(Ordering::Relaxed)).ok()?;
        self.heap.take(len)
    }

    /// Copies; returns the sequence number and the result of each, once the GPU has done it.
    pub(crate) fn copy(self: &Arc<Gpu>, copies: Vec<Copy>) -> Vec<(u64, HRESULT)> {
        if copies.is_empty() {
            return Vec::new();
        }
        let mut value = lock(&self.value);
        let recorded = self.record(&copies);
        if recorded.is_err() && copies.len() > 1 {
            drop(value);
            // One that D3D12 refuses fails alone.
            let alone = copies.into_iter().map(|it| self.copy(vec![it]));
            return alone.flatten().collect();
        }
        let sequences: Vec<u64> = copies.iter().map(|copy| copy.sequence).collect();
        let copied = recorded.and_then(|()| self.execute(&mut value, copies));
        let result = copied.map_or_else(|error| error.code(), |()| HRESULT(S_OK));
        sequences.into_iter().map(|it| (it, result)).collect()
    }

    /// Fails if the device is removed.
    fn check(&self) -> Result<()> {
        // SAFETY: without arguments.
        unsafe { self.device.GetDeviceRemovedReason() }
    }

    fn record(&self, copies: &[Copy]) -> Result<()> {
        HRESULT(self.lost.load(Ordering::Relaxed)).ok()?;
        self.check()?;
        // SAFETY: the GPU has done what was recorded before.
        unsafe {
            self.allocator.Reset()?;
            self.list.Reset(&self.allocator, None)?;
        }
        for copy in copies {
            let (buffer, offset) = (copy.space.resource(), copy.space.offset());
            copy.target.record(&self.list, buffer, offset);
        }
        // SAFETY: without arguments.
        unsafe { self.list.Close() }
    }

    /// Executes what is recorded.
    fn execute(self: &Arc<Gpu>, value: &mut u64, copies: Vec<Copy>) -> Result<()> {
        *value += 1;
        if matches!(self.reaches(*value), Ok(true)) {
            return self.check();
        }
        let removed = self.check().map_err(|error| error.code()).err();
        let reason = removed.unwrap_or(HRESULT(E_DSTORAGE_IO_TIMEOUT));
        log::error(|| format!("a copy queue is lost, its fence is not reached: {reason}"));
        self.lost.store(reason.0, Ordering::Relaxed);
        std::mem::forget((copies, Arc::clone(self)));
        reason.ok()
    }

    /// Returns whether the GPU does what is recorded in time.
    fn reaches(&self, value: u64) -> Result<bool> {
        let deadline = Instant::now() + self.timeout;
        self.reached.reset();
        // SAFETY: the list is closed; the event stays open until it is set.
        let event = unsafe {
            self.queue.ExecuteCommandLists(&[Some(self.list.cast()?)]);
            self.queue.Signal(&self.fence, value)?;
            let event = HANDLE(self.reached.handle());
            self.fence.SetEventOnCompletion(value, event)
        };
        let step = if event.is_ok() { self.timeout } else { POLL };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let is_set = self.reached.is_set_within(left.min(step));
            // SAFETY: without arguments.
            let is_reached = unsafe { self.fence.GetCompletedValue() } >= value;
            if is_reached && event.is_ok() && !is_set {
                // It is still to be set, which must not happen after it is closed.
                self.reached.is_set_within(self.timeout);
            }
            if is_reached || left.is_zero() {
                return Ok(is_reached);
            }
            // It was set late, for an earlier value.
            self.reached.reset();
        }
    }
}
