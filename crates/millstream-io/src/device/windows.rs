//! Handles and completion ports as the system calls of Windows take them, and the calls that
//! transfer data, blocking or overlapped.
//!
//! Besides the handle, a [`Descriptor`] carries what must be known before each call: the alignment
//! that an unbuffered handle requires (checked here, since not every file system checks it), and
//! how the handle is associated with a completion port.
//!
//! # Safety
//! Handles are open by the contract of [`Descriptor`]. A number that is no handle makes a call
//! fail; memory safety does not depend on it.
#![expect(
    unsafe_code,
    reason = "reads and writes into memory lent as raw segments; see the section Safety"
)]

use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use windows_sys::Win32::Foundation::{
    ERROR_HANDLE_EOF, ERROR_IO_PENDING, HANDLE, INVALID_HANDLE_VALUE, RtlNtStatusToDosError,
    WAIT_TIMEOUT,
};
use windows_sys::Win32::Storage::FileSystem::{
    ReadFile, SetFileCompletionNotificationModes, WriteFile,
};
use windows_sys::Win32::System::IO::{
    CancelIoEx, CreateIoCompletionPort, GetOverlappedResult, GetQueuedCompletionStatusEx,
    OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0, OVERLAPPED_ENTRY, PostQueuedCompletionStatus,
};
use windows_sys::Win32::System::Threading::CreateEventW;
use windows_sys::Win32::System::WindowsProgramming::{
    FILE_SKIP_COMPLETION_PORT_ON_SUCCESS, FILE_SKIP_SET_EVENT_ON_HANDLE,
};

use super::{Descriptor, Operation, Verb};
use crate::error::{Errno, IoError};
use crate::limits::OPERATION_BYTES_MAX;

/// Handles have 32 significant bits, also in 64-bit programs.
const HANDLE_BITS: u64 = u32::MAX as u64;
/// Position of the binary logarithm of the alignment.
const ALIGNMENT_SHIFT: u32 = 32;
const ALIGNMENT_BITS: u64 = 0x1f << ALIGNMENT_SHIFT;
/// The handle is associated with the completion port of its file system.
const ATTACHED: u64 = 1 << 40;
/// A call that succeeds at once sends no packet to the port.
const SKIPS: u64 = 1 << 41;
/// Position of the port's number, in the remaining bits.
const PORT_SHIFT: u32 = 42;
const PORT_BITS: u64 = !0 << PORT_SHIFT;
/// Number of ports made so far, which numbers them: a device serves only files of its own port,
/// since packets of other files would reach another device.
static PORTS: AtomicU64 = AtomicU64::new(0);

impl Descriptor {
    /// Returns the descriptor of a handle. `alignment` is that of an unbuffered handle, else 1.
    pub(crate) fn of(handle: HANDLE, alignment: u32, port: Option<Attachment>) -> Descriptor {
        assert!(alignment.is_power_of_two(), "alignments are powers of two");
        let port = port.map_or(0, |port| {
            let skips = u64::from(port.skips) * SKIPS;
            ATTACHED | skips | port.number << PORT_SHIFT
        });
        let alignment = u64::from(alignment.trailing_zeros()) << ALIGNMENT_SHIFT;
        Descriptor(handle.addr() as u64 & HANDLE_BITS | alignment | port)
    }

    /// Returns the handle; a null one if the number is no descriptor.
    pub(crate) fn handle(self) -> HANDLE {
        let known = HANDLE_BITS | ALIGNMENT_BITS | ATTACHED | SKIPS | PORT_BITS;
        match self.0 & !known == 0 && self.0 & HANDLE_BITS < HANDLE_BITS {
            true => std::ptr::without_provenance_mut((self.0 & HANDLE_BITS) as usize),
            // To some calls the all-ones number is the calling process; null is valid for none.
            false => null_mut(),
        }
    }

    /// Returns how the handle is associated with a completion port.
    pub(super) fn port(self) -> Option<Attachment> {
        let attached = self.0 & ATTACHED != 0 && !self.handle().is_null();
        attached.then_some(Attachment {
            skips: self.0 & SKIPS != 0,
            number: self.0 >> PORT_SHIFT,
        })
    }

    /// Checks that the handle allows a transfer of `len` bytes at `offset` of the file: an
    /// unbuffered handle transfers whole sectors at aligned addresses.
    pub(crate) fn check(self, offset: u64, pointer: *const u8, len: usize) -> Result<(), Errno> {
        if self.handle().is_null() {
            return Err(Errno::BAD_DESCRIPTOR);
        }
        let mask = (1_u64 << ((self.0 & ALIGNMENT_BITS) >> ALIGNMENT_SHIFT)) - 1;
        let aligned = (offset | pointer.addr() as u64 | len as u64) & mask == 0;
        let valid = aligned && i64::try_from(offset).is_ok();
        if valid { Ok(()) } else { Err(Errno::INVALID) }
    }
}

/// How a handle is associated with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// A call that succeeds at once sends no packet; else every call sends one.
    pub(crate) skips: bool,
    /// The number of the port, in 22 bits.
    pub(crate) number: u64,
}

/// The outcome of starting a call that may complete later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    /// It transferred this many bytes. A port may still get a packet ([`Attachment`]).
    Moved(u32),
    /// It will complete through the `OVERLAPPED`.
    Pending,
    /// It failed; nothing follows.
    Failed(Errno),
}

/// Arguments of one call. The `OVERLAPPED` has the file offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) verb: Verb,
    pub(crate) handle: HANDLE,
    pub(crate) pointer: *mut u8,
    pub(crate) len: u32,
    pub(crate) overlapped: *mut OVERLAPPED,
}

/// The system calls that transfer data. A table, so that tests can simulate other outcomes: a
/// removed volume, a server that hangs, a read that completes at once.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    /// Starts a transfer.
    ///
    /// # Safety
    /// Memory and `OVERLAPPED` are lent until the transfer has ended.
    pub(crate) start: unsafe fn(&Transfer) -> Started,
    /// Asks the system to cancel a transfer. Only a hint: its completion arrives in any case.
    ///
    /// # Safety
    /// The `OVERLAPPED` is that of a transfer on the handle.
    pub(crate) cancel: unsafe fn(HANDLE, *mut OVERLAPPED),
}

impl Functions {
    pub(crate) const SYSTEM: Functions = Functions { start, cancel };
}

/// # Safety
/// As for [`Functions`].
unsafe fn start(transfer: &Transfer) -> Started {
    let (handle, overlapped) = (transfer.handle, transfer.overlapped);
    let (pointer, len) = (transfer.pointer, transfer.len);
    // SAFETY: the caller lends `len` bytes at `pointer`, writable for a read, and the OVERLAPPED.
    let ended = unsafe {
        match transfer.verb {
            Verb::Read => ReadFile(handle, pointer, len, null_mut(), overlapped),
            Verb::Write => WriteFile(handle, pointer, len, null_mut(), overlapped),
        }
    };
    if ended != 0 {
        // SAFETY: the transfer has ended, so the OVERLAPPED is the caller's again.
        return Started::Moved(unsafe { (*overlapped).InternalHigh } as u32);
    }
    match Errno::last() {
        errno if errno.0 == ERROR_IO_PENDING as i32 => Started::Pending,
        errno => Started::Failed(errno),
    }
}

/// # Safety
/// As for [`Functions`].
unsafe fn cancel(handle: HANDLE, overlapped: *mut OVERLAPPED) {
    // SAFETY: by the contract of this function. Failure means that the transfer has ended.
    unsafe { CancelIoEx(handle, overlapped) };
}

/// Returns an `OVERLAPPED` for a transfer at an offset of a file.
pub(crate) fn overlapped_at(offset: u64, event: HANDLE) -> OVERLAPPED {
    OVERLAPPED {
        Internal: 0,
        InternalHigh: 0,
        Anonymous: OVERLAPPED_0 {
            Anonymous: OVERLAPPED_0_0 {
                Offset: offset as u32,
                OffsetHigh: (offset >> 32) as u32,
            },
        },
        hEvent: event,
    }
}

/// Returns the result of a transfer that has ended: the end of the file is no error.
pub(crate) fn outcome(moved: u32, errno: Errno) -> Result<u32, Errno> {
    match errno.0 {
        0 => Ok(moved),
        code if code == ERROR_HANDLE_EOF as i32 => Ok(0),
        _ => Err(errno),
    }
}

/// Moves the bytes of an operation, blocking, and returns the number moved.
///
/// # Safety
/// The operation's memory and list of segments are lent as for [`Device::push`], for as long as the
/// call lasts.
///
/// [`Device::push`]: super::Device::push
pub(super) unsafe fn transfer(operation: &Operation) -> Result<usize, Errno> {
    // SAFETY: the list is lent.
    let segments = unsafe { operation.segments.as_slice() };
    let mut done = 0;
    for segment in segments.iter().filter(|segment| !segment.is_empty()) {
        let at = operation.offset.saturating_add(done as u64);
        let (pointer, len) = (segment.pointer(), segment.len().min(OPERATION_BYTES_MAX));
        // SAFETY: the memory is lent.
        let moved = unsafe { move_at(operation.verb, operation.file, at, pointer, len) };
        match moved {
            Ok(moved) => done += moved,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
        if moved != Ok(segment.len()) {
            break;
        }
    }
    Ok(done)
}

/// Moves bytes at an offset of a file, blocking; returns the number moved, 0 at the end of file.
///
/// # Safety
/// `len` bytes at `pointer` are lent for as long as the call lasts; for a read they are writable.
pub(crate) unsafe fn move_at(
    verb: Verb,
    file: Descriptor,
    offset: u64,
    pointer: *mut u8,
    len: usize,
) -> Result<usize, Errno> {
    file.check(offset, pointer, len)?;
    EVENT.with(|event| {
        let event = event.as_ref().map_err(|errno| *errno)?.as_raw_handle();
        // The lowest bit set means that no completion port gets a packet.
        let mut overlapped = overlapped_at(offset, event.map_addr(|addr| addr | 1));
        let transfer = Transfer {
            verb,
            handle: file.handle(),
            pointer,
            len: u32::try_from(len.min(OPERATION_BYTES_MAX)).expect("bounded"),
            overlapped: &raw mut overlapped,
        };
        // SAFETY: memory and OVERLAPPED outlive the transfer, which has ended below.
        let moved = match unsafe { start(&transfer) } {
            Started::Moved(moved) => Ok(moved),
            Started::Failed(errno) => outcome(0, errno),
            Started::Pending => {
                let mut moved = 0;
                // SAFETY: the transfer begun above, until it has ended; `moved` is written.
                let ended = unsafe {
                    GetOverlappedResult(transfer.handle, transfer.overlapped, &raw mut moved, 1)
                };
                let errno = if ended != 0 { Errno(0) } else { Errno::last() };
                outcome(moved, errno)
            }
        };
        Ok(moved? as usize)
    })
}

thread_local! {
    /// The event that the calling thread waits for in a blocking transfer.
    static EVENT: Result<OwnedHandle, Errno> = {
        // SAFETY: makes an unnamed event that is reset by the calls that use it.
        let event = unsafe { CreateEventW(null(), 1, 0, null()) };
        match event.is_null() {
            true => Err(Errno::last()),
            // SAFETY: a handle just made, which nothing else owns.
            false => Ok(unsafe { OwnedHandle::from_raw_handle(event) }),
        }
    };
}

/// The key of packets of files; the doorbell's have 0.
const KEY_FILE: usize = 1;

/// A completion port, to which overlapped calls on associated handles report their completion. It
/// has at most one device.
#[derive(Debug)]
pub struct Port {
    handle: OwnedHandle,
    number: u64,
    has_device: AtomicBool,
}

/// The packet of a transfer that has ended.
pub(crate) struct Packet {
    pub(crate) overlapped: *mut OVERLAPPED,
    pub(crate) result: Result<u32, Errno>,
}

impl Port {
    /// Makes a port.
    ///
    /// # Errors
    /// The system has not enough memory.
    pub fn new() -> Result<Arc<Port>, IoError> {
        // SAFETY: makes a port that no file is associated with.
        let port = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 1) };
        if port.is_null() {
            return Err(IoError::new("CreateIoCompletionPort", Errno::last()));
        }
        Ok(Arc::new(Port {
            // SAFETY: a handle just made, which nothing else owns.
            handle: unsafe { OwnedHandle::from_raw_handle(port) },
            number: PORTS.fetch_add(1, Ordering::Relaxed) & (PORT_BITS >> PORT_SHIFT),
            has_device: AtomicBool::new(false),
        }))
    }

    /// Claims the port for a device, which alone takes its packets.
    ///
    /// # Panics
    /// If the port has a device: the two would take each other's packets.
    pub(super) fn claim(&self) {
        let before = self.has_device.swap(true, Ordering::Relaxed);
        assert!(!before, "a completion port has one device");
    }

    /// Associates a handle with the port, permanently.
    pub(crate) fn attach(&self, handle: HANDLE) -> Result<Attachment, Errno> {
        // SAFETY: passes two open handles and numbers.
        let port =
            unsafe { CreateIoCompletionPort(handle, self.handle.as_raw_handle(), KEY_FILE, 0) };
        if port.is_null() {
            return Err(Errno::last());
        }
        let modes = FILE_SKIP_COMPLETION_PORT_ON_SUCCESS | FILE_SKIP_SET_EVENT_ON_HANDLE;
        // SAFETY: passes an open handle and a number.
        let set = unsafe { SetFileCompletionNotificationModes(handle, modes as u8) };
        Ok(Attachment {
            skips: set != 0,
            number: self.number,
        })
    }

    /// Returns its number among the ports of the process, as in the descriptors of its files.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Ends the owner's sleep in [`Port::take`], or its next one.
    pub(crate) fn wake(&self) {
        // A packet that the system has no memory for is lost, so the owner never sleeps for long.
        // SAFETY: a packet without an OVERLAPPED.
        unsafe { PostQueuedCompletionStatus(self.handle.as_raw_handle(), 0, 0, null()) };
    }

    /// Delivers the packet of a transfer in place of the system.
    #[cfg(test)]
    pub(crate) fn deliver(&self, overlapped: *mut OVERLAPPED, moved: u32) {
        // SAFETY: tests pass the OVERLAPPED of a transfer that they began and the system did not.
        unsafe {
            PostQueuedCompletionStatus(self.handle.as_raw_handle(), moved, KEY_FILE, overlapped)
        };
    }

    /// Passes the available packets to `each`, or waits for the first; returns whether there may be
    /// more. Packets of [`Port::wake`] only end the wait.
    pub(crate) fn take(&self, wait_ms: u32, mut each: impl FnMut(Packet)) -> Result<bool, Errno> {
        let mut entries = [OVERLAPPED_ENTRY::default(); PACKETS_MAX];
        let mut count = 0;
        // SAFETY: the system writes at most as many entries as there are, and their number.
        let taken = unsafe {
            GetQueuedCompletionStatusEx(
                self.handle.as_raw_handle(),
                entries.as_mut_ptr(),
                PACKETS_MAX as u32,
                &raw mut count,
                wait_ms,
                0,
            )
        };
        if taken == 0 {
            return match Errno::last() {
                errno if errno.0 == WAIT_TIMEOUT as i32 => Ok(false),
                errno => Err(errno),
            };
        }
        for entry in &entries[..count as usize] {
            if entry.lpCompletionKey == KEY_FILE && !entry.lpOverlapped.is_null() {
                // SAFETY: the transfer has ended; its OVERLAPPED stays in place until its owner has
                // seen this packet.
                let status = unsafe { (*entry.lpOverlapped).Internal } as i32;
                // SAFETY: translates a number.
                let code = unsafe { RtlNtStatusToDosError(status) };
                each(Packet {
                    overlapped: entry.lpOverlapped,
                    result: outcome(entry.dwNumberOfBytesTransferred, Errno(code as i32)),
                });
            }
        }
        Ok(count as usize == PACKETS_MAX)
    }
}

/// Maximum number of packets that one call takes from a port.
const PACKETS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_carries_handle_alignment_and_port() {
        let handle: HANDLE = std::ptr::without_provenance_mut(0x1234);
        let plain = Descriptor::of(handle, 1, None);
        assert_eq!(
            (plain.raw(), plain.handle(), plain.port()),
            (0x1234, handle, None)
        );
        let port = Attachment {
            skips: true,
            number: 5,
        };
        let direct = Descriptor::of(handle, 4096, Some(port));
        assert_eq!((direct.handle(), direct.port()), (handle, Some(port)));
        let aligned: *const u8 = std::ptr::without_provenance(8192);
        for (file, offset, shift, len, wanted) in [
            (direct, 4096, 0, 4096, Ok(())),
            (plain, 1, 3, 5, Ok(())),
            (direct, 512, 0, 4096, Err(Errno::INVALID)),
            (direct, 0, 0, 100, Err(Errno::INVALID)),
            (direct, 0, 8, 4096, Err(Errno::INVALID)),
            (plain, 1 << 63, 0, 1, Err(Errno::INVALID)),
            (Descriptor(u64::MAX), 0, 0, 1, Err(Errno::BAD_DESCRIPTOR)),
        ] {
            let found = file.check(offset, aligned.wrapping_add(shift), len);
            assert_eq!(found, wanted, "{offset} {shift} {len}");
        }
        for number in [u64::MAX, u64::from(u32::MAX), 1 << 50] {
            assert!(Descriptor(number).handle().is_null() && Descriptor(number).port().is_none());
        }
    }

    #[test]
    fn a_port_wakes_its_owner_and_then_waits_again() {
        let port = Port::new().unwrap();
        port.wake();
        let none = |_: Packet| panic!("no file is associated");
        assert_eq!(port.take(10_000, none), Ok(false));
        assert_eq!(port.take(1, none), Ok(false));
    }
}
