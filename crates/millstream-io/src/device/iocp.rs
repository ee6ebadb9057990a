//! A device over overlapped calls on a completion port of Windows.
//!
//! A file's handle is associated with the port when its file system opens it (on a thread that may
//! block), so the owner makes one call per transfer and none per file. A transfer of several
//! segments is several concurrent calls (`iocp/slots.rs`): the system's own vectored calls only
//! transfer single pages of unbuffered files.
//!
//! Operations whose overlapped call would block the owner go to a pool of threads beside the port,
//! which rings the same bell: offloaded operations (a buffered read copies inside the call, a write
//! that extends its file waits for the disk), and files of no port or of another port.
//!
//! # Safety
//! The memory of a transfer and its `OVERLAPPED` stay in place until the transfer has ended: the
//! owner guarantees it for lent memory ([`Device::push`]), the slots for the rest, which they leak
//! if the system still holds it.
#![expect(
    unsafe_code,
    reason = "starts transfers with memory lent as raw segments"
)]

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use super::system::Port;
use super::system::{Functions, Started, Transfer};
use super::threads::{Threads, ThreadsOptions};
use super::{Abandoned, Completion, Device, DeviceKind, Doorbell, Operation, reap_until};
use crate::error::IoError;
use crate::limits::{IO_THREADS_DEFAULT, OPERATION_BYTES_MAX, PORT_SLEEP_MS_MAX};
use slots::Slots;

mod slots;

/// Options of an [`Iocp`].
#[derive(Debug, Clone)]
pub struct IocpOptions {
    /// Maximum number of operations pushed and not yet reaped, at least 1.
    pub depth: usize,
    /// Maximum number of threads for operations that the port does not serve.
    pub threads: usize,
}

impl Default for IocpOptions {
    fn default() -> IocpOptions {
        IocpOptions {
            depth: 128,
            threads: IO_THREADS_DEFAULT,
        }
    }
}

/// A [`Device`] over one completion port.
///
/// - A transfer that ends inside the call that starts it needs no packet; `reap` returns it.
/// - `shutdown` asks the system to cancel what is in flight; operations on a network server that
///   does not respond may remain. They are reported and leaked.
/// - `wait` counts in milliseconds, rounded up, and may return early.
///
/// # Broken port
/// When the port fails permanently, `submit` and `wait` return the error from then on.
pub struct Iocp {
    port: Arc<Port>,
    functions: Functions,
    bell: Doorbell,
    /// Taken by the shutdown.
    pool: Option<Box<Threads>>,
    depth: usize,
    in_flight: usize,
    /// Pushed, not yet started.
    pushed: Vec<Operation>,
    slots: ManuallyDrop<Slots>,
    /// Completions not yet reaped.
    ready: Vec<Completion>,
    broken: Option<IoError>,
}

impl Iocp {
    /// Makes the device over a port. Files of no port (those of an
    /// [`OsFileSystem`](crate::fs::OsFileSystem) without one) or of another go to threads.
    ///
    /// # Errors
    /// No thread at all can be started.
    ///
    /// # Panics
    /// If the port already has a device.
    pub fn new(port: Arc<Port>, options: &IocpOptions) -> Result<Iocp, IoError> {
        Iocp::with(port, options, Functions::SYSTEM)
    }

    fn with(port: Arc<Port>, options: &IocpOptions, functions: Functions) -> Result<Iocp, IoError> {
        port.claim();
        let bell = Doorbell::port(Arc::clone(&port));
        let depth = options.depth.max(1);
        let pool = Threads::new(ThreadsOptions {
            threads: options.threads,
            depth,
            doorbell: Some(bell.clone()),
            ..ThreadsOptions::default()
        })?;
        Ok(Iocp {
            port,
            functions,
            bell,
            pool: Some(Box::new(pool)),
            depth,
            in_flight: 0,
            pushed: Vec::with_capacity(depth),
            slots: ManuallyDrop::new(Slots::default()),
            ready: Vec::with_capacity(depth),
            broken: None,
        })
    }

    fn pool(&mut self) -> &mut Threads {
        self.pool
            .as_mut()
            .expect("there is a pool until the shutdown")
    }

    fn start_pushed(&mut self) -> Result<(), IoError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let mut pushed = std::mem::take(&mut self.pushed);
        for operation in pushed.drain(..) {
            match operation.file.port() {
                Some(port) if !operation.offload && port.number == self.port.number() => {
                    self.start(&operation, port.skips);
                }
                _ => {
                    // SAFETY: lent to this device, and so to its pool.
                    let taken = unsafe { self.pool().push(&[operation]) };
                    assert!(taken == 1, "the pool is as deep as the device");
                }
            }
        }
        self.pushed = pushed;
        self.pool().submit()
    }

    /// Starts the transfers of an operation. `skips`: a call that succeeds at once sends no packet.
    fn start(&mut self, operation: &Operation, skips: bool) {
        let slot = self.slots.begin(operation.id);
        let mut offset = operation.offset;
        // SAFETY: pushed, and not completed.
        for segment in unsafe { operation.segments.as_slice() } {
            let len = segment.len().min(OPERATION_BYTES_MAX);
            let overlapped = self.slots.add(slot, operation.file, offset, len);
            let started = match operation.file.check(offset, segment.pointer(), len) {
                Err(errno) => Started::Failed(errno),
                Ok(()) if len == 0 => Started::Moved(0),
                Ok(()) => {
                    let transfer = Transfer {
                        verb: operation.verb,
                        handle: operation.file.handle(),
                        pointer: segment.pointer(),
                        len: len as u32,
                        overlapped,
                    };
                    // SAFETY: the owner lends the memory, the slot keeps the OVERLAPPED.
                    unsafe { (self.functions.start)(&transfer) }
                }
            };
            offset = offset.saturating_add(len as u64);
            match started {
                Started::Pending => {}
                // Its packet reports the result.
                Started::Moved(_) if !skips && len > 0 => {}
                Started::Moved(moved) => self.slots.ended(overlapped, Ok(moved)),
                Started::Failed(errno) => {
                    self.slots
                        .failed(overlapped, super::system::outcome(0, errno));
                    // Data after a gap is useless.
                    break;
                }
            }
        }
        self.ready.extend(self.slots.take_if_ended(slot));
    }

    /// Takes the available packets, or waits for the first.
    fn take_packets(&mut self, mut wait_ms: u32) {
        let (slots, ready) = (&mut self.slots, &mut self.ready);
        loop {
            let taken = self.port.take(wait_ms, |packet| {
                if Slots::is_retired(packet.overlapped) {
                    return;
                }
                slots.ended(packet.overlapped, packet.result);
                ready.extend(slots.take_if_ended(Slots::slot_of(packet.overlapped)));
            });
            match taken {
                Ok(true) => wait_ms = 0,
                Ok(false) => return,
                Err(errno) => {
                    let error = IoError::new("GetQueuedCompletionStatusEx", errno);
                    self.broken.get_or_insert(error);
                    return;
                }
            }
        }
    }

    fn has_completions(&mut self) -> bool {
        if self.ready.is_empty() && self.slots.in_system() > 0 {
            self.take_packets(0);
        }
        !self.ready.is_empty() || self.pool().has_done()
    }
}

impl Device for Iocp {
    pushes!(DeviceKind::Iocp, pushed);

    fn submit(&mut self) -> Result<(), IoError> {
        self.start_pushed()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        if self.slots.in_system() > 0 {
            self.take_packets(0);
        }
        completions.append(&mut self.ready);
        self.pool().reap(completions);
        let count = completions.len() - before;
        self.in_flight -= count;
        count
    }

    fn wait(
        &mut self,
        timeout: Option<Duration>,
        awake: &mut dyn FnMut() -> bool,
    ) -> Result<(), IoError> {
        self.start_pushed()?;
        if self.has_completions() || timeout == Some(Duration::ZERO) || !self.bell.arm() {
            return Ok(());
        }
        if !self.pool().has_done() && !awake() {
            let wait_ms =
                timeout.map_or(u128::MAX, |timeout| timeout.as_nanos().div_ceil(1_000_000));
            self.take_packets(wait_ms.min(u128::from(PORT_SLEEP_MS_MAX)) as u32);
        }
        self.bell.disarm();
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn doorbell(&self) -> Doorbell {
        self.bell.clone()
    }

    /// See [`Device::shutdown`]. Operations that were not started complete with `CANCELED`; those
    /// in flight get half of the time, are then canceled, and get the other half.
    fn shutdown(
        mut self: Box<Self>,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> Abandoned {
        let canceled = |one: Operation| Completion::canceled(&one);
        self.ready.extend(self.pushed.drain(..).map(canceled));
        let halfway = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        reap_until(self.as_mut(), halfway, completions);
        for (handle, overlapped) in self.slots.transfers() {
            // SAFETY: a transfer that was started and has not been reported as ended.
            unsafe { (self.functions.cancel)(handle, overlapped) };
        }
        reap_until(self.as_mut(), deadline, completions);
        self.reap(completions);
        let pool = self.pool.take().expect("shut down once");
        let mut abandoned = pool.shutdown(deadline, completions);
        abandoned.operations.extend(self.slots.held());
        abandoned
    }
}

impl Drop for Iocp {
    fn drop(&mut self) {
        if self.slots.in_system() == 0 {
            // SAFETY: not used again. Otherwise the system may still write to the slots, which are
            // leaked.
            unsafe { ManuallyDrop::drop(&mut self.slots) };
        }
    }
}

#[cfg(test)]
mod tests;
