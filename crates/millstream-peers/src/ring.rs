//! A plain io_uring loop, as little as the kernel demands: the benchmark's baseline, the rival "no
//! library at all".
//!
//! The setup flags are the best that the kernel has, as the engine uses them: `DEFER_TASKRUN` with
//! `SINGLE_ISSUER`, else `COOP_TASKRUN`, else none, so that comparisons are at equal flags.
//!
//! # Safety
//! The kernel writes into a destination while reads are in flight. [`InFlight`] waits for all of
//! them when it is dropped, which is before its caller's borrow of the memory ends. Registered
//! memory is pinned by the kernel, which writes to it only for reads in flight.
#![expect(
    unsafe_code,
    reason = "the kernel writes to memory named by raw pointers"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use io_uring::{IoUring, opcode, squeue, types};

use crate::lent::{Flight, serve};
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open, open_file};

/// Entries pushed before they are submitted: the device then works while more are prepared.
const SUBMIT_BATCH: usize = 32;
/// Minimum number of entries of a ring, so that a hundred reads can be submitted at once.
const ENTRIES_MIN: usize = 128;

const fn rival(name: &'static str, make: fn(usize) -> io::Result<Box<dyn Peer>>) -> Rival {
    Rival {
        name,
        version: "",
        accesses: &[Access::Direct, Access::Buffered],
        threads: false,
        make,
    }
}

/// With registered files and memory.
pub(crate) const REGISTERED: Rival = rival("ring", |depth| Ring::start(depth, true, false));
pub(crate) const PLAIN: Rival = rival("ring-plain", |depth| Ring::start(depth, false, false));
/// `IOSQE_ASYNC`: every read is handed to a kernel worker thread at once.
pub(crate) const ASYNC: Rival = rival("ring-async", |depth| Ring::start(depth, false, true));

/// Creates a ring for `depth` reads in flight.
pub(crate) fn ring_of(depth: usize) -> io::Result<IoUring> {
    let entries = depth.max(ENTRIES_MIN).next_power_of_two() as u32;
    let (mut best, mut fair) = (IoUring::builder(), IoUring::builder());
    best.setup_single_issuer().setup_defer_taskrun();
    fair.setup_coop_taskrun();
    let made = best.build(entries).or_else(|_| fair.build(entries));
    made.or_else(|_| IoUring::new(entries)).map_err(|error| {
        let causes = "likely cause: kernel.io_uring_disabled or a seccomp filter";
        io::Error::new(error.kind(), format!("io_uring_setup: {error} ({causes})"))
    })
}

struct Ring {
    ring: IoUring,
    depth: usize,
    registers: bool,
    offload: bool,
    files: Vec<File>,
    registered: bool,
    registered_files: bool,
}

impl Ring {
    fn start(depth: usize, registers: bool, offload: bool) -> io::Result<Box<dyn Peer>> {
        Ok(Box::new(Ring {
            ring: ring_of(depth)?,
            depth,
            registers,
            offload,
            files: Vec::new(),
            registered: false,
            registered_files: false,
        }))
    }

    /// Serves reads of open files; with `each`, every read is submitted by itself.
    fn serve_open(
        &mut self,
        plan: &Plan,
        destination: &mut [u8],
        (depth, each): (usize, bool),
    ) -> io::Result<Vec<u64>> {
        let is_registered = self.registered && self.registered_files;
        let mut flight = InFlight::new(&mut self.ring, depth, self.offload);
        (flight.registered, flight.each) = (is_registered, each);
        serve(plan, destination, depth, &mut flight, &mut |_, read, _| {
            let file = self.files.get(read.file as usize).ok_or_else(not_open)?;
            match is_registered {
                true => Ok(read.file as RawFd),
                false => Ok(file.as_raw_fd()),
            }
        })
    }
}

impl Peer for Ring {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        let files = plan.files().iter().map(|path| open_file(path, access));
        self.files = files.collect::<io::Result<_>>()?;
        let submitter = self.ring.submitter();
        if self.registered_files {
            submitter.unregister_files()?;
        }
        let descriptors: Vec<RawFd> = self.files.iter().map(AsRawFd::as_raw_fd).collect();
        self.registered_files = self.registers && !descriptors.is_empty();
        if self.registered_files {
            submitter.register_files(&descriptors)?;
        }
        Ok(())
    }

    fn expect(&mut self, destination: &mut [u8]) -> io::Result<()> {
        let submitter = self.ring.submitter();
        if std::mem::take(&mut self.registered) {
            submitter.unregister_buffers()?;
        }
        if self.registers && !destination.is_empty() {
            let buffer = libc::iovec {
                iov_base: destination.as_mut_ptr().cast(),
                iov_len: destination.len(),
            };
            // If an ordinary user may not lock this much memory, reads go on unregistered, as the
            // engine's do.
            // SAFETY: the kernel pins the pages and writes to them only for reads, each of which
            // names memory that is lent to it.
            self.registered = unsafe { submitter.register_buffers(&[buffer]) }.is_ok();
        }
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let how = (self.depth, false);
        self.serve_open(plan, destination, how).map(drop)
    }

    /// Files are opened by the caller and read by the ring, both at the same time.
    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        // Kept open until the end: a file cannot be closed while a read of it is in flight.
        let mut files = Vec::new();
        let mut flight = InFlight::new(&mut self.ring, self.depth, self.offload);
        let served = serve(
            plan,
            destination,
            self.depth,
            &mut flight,
            &mut |path, _, _| {
                files.push(open_file(path, Access::Buffered)?);
                Ok(files[files.len() - 1].as_raw_fd())
            },
        );
        served.map(drop)
    }

    fn hand_over(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<Vec<u64>> {
        self.serve_open(plan, destination, (plan.reads().len(), true))
    }
}

/// Reads the first `len` bytes of a file with direct I/O in blocks, as many in flight as fit in
/// `window`, and passes them to `consume` in file order, on this thread.
///
/// # Errors
/// No ring can be made, a read fails, or `consume` does.
pub fn read_in_order(
    path: &Path,
    len: u64,
    block: usize,
    window: &mut [u8],
    consume: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let file = open_file(path, Access::Direct)?;
    let depth = window.len() / block;
    let mut ring = ring_of(depth)?;
    let base = window.as_mut_ptr();
    let mut flight = InFlight::new(&mut ring, depth, false);
    let need = |index: u64| (len - index * block as u64).min(block as u64) as usize;
    let slot_of = |index: u64| (index % depth as u64) as usize;
    // SAFETY: the slot's block lies in the window.
    let place = |index: u64| unsafe { base.add(slot_of(index) * block) };
    let push = |flight: &mut InFlight<'_>, index: u64| {
        let left = Left {
            file: file.as_raw_fd(),
            offset: index * block as u64,
            to: place(index),
            len: block as u32,
            beyond: (block - need(index)) as u32,
        };
        flight.push(slot_of(index), left);
    };
    let blocks = len.div_ceil(block as u64);
    (0..blocks.min(depth as u64)).for_each(|index| push(&mut flight, index));
    for index in 0..blocks {
        let mut failed = None;
        while flight.slots[slot_of(index)].is_some() && failed.is_none() {
            flight.complete(&mut |_, result| failed = failed.take().or(result.err()));
        }
        failed.map_or(Ok(()), |error| Err(named(error, path)))?;
        // SAFETY: the block lies in the window, and no read of it is in flight.
        consume(unsafe { std::slice::from_raw_parts(place(index), need(index)) })?;
        if index + (depth as u64) < blocks {
            push(&mut flight, index + depth as u64);
            flight.enter(0);
        }
    }
    Ok(())
}

/// The remainder of a read: direct reads ask for whole blocks, the last of which may lie partly
/// `beyond` the end of the file.
struct Left {
    file: RawFd,
    offset: u64,
    to: *mut u8,
    len: u32,
    beyond: u32,
}

/// Reads in flight. Dropping it waits for them.
struct InFlight<'a> {
    ring: &'a mut IoUring,
    offload: bool,
    /// Whether files are indices of registered ones, and the memory is registered.
    registered: bool,
    /// Whether each read is submitted by itself.
    each: bool,
    slots: Vec<Option<Left>>,
    in_flight: usize,
    unsubmitted: usize,
}

impl<'a> InFlight<'a> {
    fn new(ring: &'a mut IoUring, depth: usize, offload: bool) -> InFlight<'a> {
        InFlight {
            ring,
            offload,
            registered: false,
            each: false,
            slots: (0..depth).map(|_| None).collect(),
            in_flight: 0,
            unsubmitted: 0,
        }
    }

    fn push(&mut self, slot: usize, left: Left) {
        let (file, to, len) = (left.file, left.to, left.len);
        let entry = if self.registered {
            let read = opcode::ReadFixed::new(types::Fixed(file as u32), to, len, 0);
            read.offset(left.offset).build()
        } else {
            let read = opcode::Read::new(types::Fd(file), to, len);
            read.offset(left.offset).build()
        };
        let flags = match self.offload {
            true => squeue::Flags::ASYNC,
            false => squeue::Flags::empty(),
        };
        let entry = entry.flags(flags).user_data(slot as u64);
        // SAFETY: the memory is lent to this read until its completion, which `drop` awaits.
        unsafe { self.ring.submission().push(&entry) }.expect("no more reads than entries");
        self.slots[slot] = Some(left);
        self.in_flight += 1;
        self.unsubmitted += 1;
        if self.each || self.unsubmitted == SUBMIT_BATCH {
            self.enter(0);
        }
    }

    /// Submits what was pushed, and waits for `want` completions. Aborts the process if the kernel
    /// refuses: otherwise memory would be freed while the kernel writes to it.
    fn enter(&mut self, want: usize) {
        self.unsubmitted = 0;
        while let Err(error) = self.ring.submit_and_wait(want) {
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The completion queue is full: completions must be reaped first.
                Some(libc::EBUSY) => return,
                _ => {
                    eprintln!("io_uring_enter: {error}; ending the process");
                    std::process::abort();
                }
            }
        }
    }
}

impl Flight<RawFd> for InFlight<'_> {
    fn begin(&mut self, slot: usize, file: RawFd, read: &Read, to: *mut u8) -> io::Result<()> {
        let left = Left {
            file,
            offset: read.offset,
            to,
            len: read.len,
            beyond: 0,
        };
        self.push(slot, left);
        Ok(())
    }

    fn is_pending(&self) -> bool {
        self.in_flight > 0
    }

    /// Takes all available completions, after waiting for one; incomplete reads continue.
    fn complete(&mut self, ended: &mut dyn FnMut(usize, io::Result<()>)) {
        self.enter(1);
        loop {
            let next = self.ring.completion().next();
            let Some(entry) = next else { break };
            let (slot, result) = (entry.user_data() as usize, entry.result());
            let mut left = self.slots[slot]
                .take()
                .expect("one completion for each read");
            self.in_flight -= 1;
            match u32::try_from(result) {
                Err(_) if result == -libc::EINTR || result == -libc::EAGAIN => {}
                Err(_) => {
                    ended(slot, Err(io::Error::from_raw_os_error(-result)));
                    continue;
                }
                Ok(0) if left.len > left.beyond => {
                    ended(slot, Err(io::ErrorKind::UnexpectedEof.into()));
                    continue;
                }
                Ok(read) => {
                    left.offset += u64::from(read);
                    left.len -= read;
                    left.to = left.to.wrapping_add(read as usize);
                }
            }
            match left.len <= left.beyond {
                true => ended(slot, Ok(())),
                false => self.push(slot, left),
            }
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            self.complete(&mut |_, _| {});
        }
    }
}
