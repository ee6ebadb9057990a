//! The bare ring: a plain io_uring loop, as little as the kernel demands. It is the yardstick of
//! this crate, the rival "no library at all".
//!
//! [`BareRing::read_all`] keeps up to `depth` reads in flight, each straight into its place in the
//! destination, in any order. [`BareRing::read_in_order`] keeps a window of blocks in flight and
//! hands them to a consumer in file order: the study's eight outstanding blocks, copied or decoded
//! on the same thread.
//!
//! The flags are the best the kernel has, as the engine asks for them: `DEFER_TASKRUN` with
//! `SINGLE_ISSUER`, else `COOP_TASKRUN`, else none, so that comparisons are at equal flags.
//!
//! # Safety
//! The kernel writes into the destination while reads are in flight. [`Reads`] holds its mutable
//! borrow, checks every place against its length, and when it is dropped awaits what is in flight
//! and then unregisters what was registered.
#![expect(
    unsafe_code,
    reason = "the kernel writes to memory named by raw pointers"
)]

use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::Instant;

use io_uring::{IoUring, opcode, squeue, types};

use crate::clock::{Moment, Span};
use crate::error::{Context, Error, Result, ensure};

/// One read: `len` bytes at `offset` of a file to `place` in the destination, of which the first
/// `need` are there for sure. (A direct read asks for whole blocks and ends at the end of the
/// file.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadJob {
    /// First byte in the file.
    pub(crate) offset: u64,
    /// First byte in the destination.
    pub(crate) place: usize,
    /// Bytes asked for, and the room at `place`.
    pub(crate) len: u32,
    /// Bytes that must arrive.
    pub(crate) need: u32,
}

impl ReadJob {
    /// A read all of whose bytes must arrive.
    pub(crate) fn new(offset: u64, place: usize, len: usize) -> ReadJob {
        let len = len as u32;
        ReadJob {
            offset,
            place,
            len,
            need: len,
        }
    }

    /// The job's part of the destination.
    pub(crate) fn range(&self) -> Range<usize> {
        self.place..self.place + self.len as usize
    }
}

/// How reads are pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadStyle {
    /// Reads in flight at most.
    pub(crate) depth: usize,
    /// Register the destination (of at most 1 GiB: `SZ_1G` in io_uring's rsrc.c) and the file for
    /// the time of the call, untimed.
    pub(crate) registered: bool,
    /// `IOSQE_ASYNC`: hand every read to a helper thread of the kernel at once.
    pub(crate) offload: bool,
}

impl ReadStyle {
    /// Plain reads, so many in flight.
    pub(crate) fn plain(depth: usize) -> ReadStyle {
        ReadStyle {
            depth,
            ..ReadStyle::default()
        }
    }
}

/// Tries of reads that end with `EINTR` or `EAGAIN`.
const RETRIES_MAX: u32 = 100;
/// Entries pushed before they are submitted: the device then works while the rest is prepared.
const SUBMIT_BATCH: usize = 32;

/// An io_uring with the best flags of this kernel.
pub(crate) struct BareRing {
    ring: IoUring,
    flags: &'static str,
    entries: usize,
}

impl BareRing {
    /// A ring for `depth` operations in flight.
    pub(crate) fn new(depth: usize) -> Result<BareRing> {
        let entries = depth.max(1).next_power_of_two();
        let (mut best, mut fair) = (IoUring::builder(), IoUring::builder());
        best.setup_single_issuer().setup_defer_taskrun();
        fair.setup_coop_taskrun();
        let made = |builder: &io_uring::Builder, flags| Ok((builder.build(entries as u32)?, flags));
        let made: std::io::Result<(IoUring, &str)> = made(&best, "DEFER_TASKRUN|SINGLE_ISSUER")
            .or_else(|_| made(&fair, "COOP_TASKRUN"))
            .or_else(|_| made(&IoUring::builder(), "none"));
        let causes = "likely cause: kernel.io_uring_disabled or a seccomp filter";
        let (ring, flags) = made.what(&format!("io_uring_setup ({causes})"))?;
        Ok(BareRing {
            ring,
            flags,
            entries,
        })
    }

    /// The flags it runs with.
    pub(crate) fn flags(&self) -> &'static str {
        self.flags
    }

    /// Reads all `jobs` into the destination; the time of the reads alone, without registering.
    pub(crate) fn read_all(
        &mut self,
        file: RawFd,
        jobs: &[ReadJob],
        destination: &mut [u8],
        style: ReadStyle,
    ) -> Result<Span> {
        let mut reads = Reads::new(self, destination, style);
        if style.registered {
            reads.register(file)?;
        }
        let start = Moment::now();
        let mut jobs = jobs.iter();
        reads.run(&mut || Ok(jobs.next().map(|job| (file, *job))))?;
        Ok(start.elapsed())
    }

    /// Reads what `supply` gives, a descriptor and a job at a time, until there is no more.
    pub(crate) fn read_supplied(
        &mut self,
        destination: &mut [u8],
        style: ReadStyle,
        supply: &mut dyn FnMut() -> Result<Option<(RawFd, ReadJob)>>,
    ) -> Result<()> {
        Reads::new(self, destination, style).run(supply)
    }

    /// Pushes and submits the jobs one by one, as an application does that wants each on its way
    /// at once; gives the nanoseconds that each such call held the caller. Then awaits all.
    pub(crate) fn submit_each(
        &mut self,
        file: RawFd,
        jobs: &[ReadJob],
        destination: &mut [u8],
        offload: bool,
    ) -> Result<Vec<u64>> {
        ensure(
            jobs.len() <= self.entries,
            "more jobs than the ring has entries",
        )?;
        let style = ReadStyle {
            offload,
            ..ReadStyle::plain(jobs.len())
        };
        let mut reads = Reads::new(self, destination, style);
        let mut held_ns = Vec::with_capacity(jobs.len());
        for job in jobs {
            let start = Instant::now();
            reads.push(file, *job);
            reads.enter(0)?;
            held_ns.push(start.elapsed().as_nanos() as u64);
        }
        while reads.in_flight > 0 {
            reads.complete()?;
        }
        Ok(held_ns)
    }

    /// Reads `len` bytes of a file in blocks, as many in flight as have room in `buffers`, and
    /// hands them to `consume` in file order, on this thread. With direct I/O the last block is
    /// asked for whole: the kernel ends it at the end of the file.
    pub(crate) fn read_in_order(
        &mut self,
        file: RawFd,
        len: u64,
        block: usize,
        buffers: &mut [u8],
        consume: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let style = ReadStyle::plain(buffers.len() / block);
        let mut reads = Reads::new(self, buffers, style);
        let window = reads.free.len() as u64;
        let blocks = len.div_ceil(block as u64);
        let job = |index: u64| {
            let offset = index * block as u64;
            let place = (index % window) as usize * block;
            ReadJob {
                need: (len - offset).min(block as u64) as u32,
                ..ReadJob::new(offset, place, block)
            }
        };
        for index in 0..window.min(blocks) {
            reads.push(file, job(index));
        }
        for index in 0..blocks {
            let (place, need) = (job(index).place, job(index).need as usize);
            while reads.is_in_flight(&(place..place + need)) {
                reads.complete()?;
            }
            consume(reads.settled(place..place + need))?;
            if index + window < blocks {
                reads.push(file, job(index + window));
                reads.enter(0)?;
            }
        }
        Ok(())
    }
}

/// Reads in flight into a destination; see the module.
struct Reads<'a> {
    ring: &'a mut IoUring,
    base: *mut u8,
    len: usize,
    destination: PhantomData<&'a mut [u8]>,
    offload: bool,
    registered: bool,
    /// What is left of the read in each slot, with its file.
    slots: Vec<Option<(RawFd, ReadJob)>>,
    free: Vec<usize>,
    in_flight: usize,
    retries: u32,
    completions: Vec<(usize, i32)>,
}

impl<'a> Reads<'a> {
    fn new(ring: &'a mut BareRing, destination: &'a mut [u8], style: ReadStyle) -> Reads<'a> {
        let depth = style.depth.clamp(1, ring.entries);
        Reads {
            ring: &mut ring.ring,
            base: destination.as_mut_ptr(),
            len: destination.len(),
            destination: PhantomData,
            offload: style.offload,
            registered: false,
            slots: vec![None; depth],
            free: (0..depth).rev().collect(),
            in_flight: 0,
            retries: 0,
            completions: Vec::with_capacity(depth),
        }
    }

    /// Registers the destination and the file.
    fn register(&mut self, file: RawFd) -> Result<()> {
        let buffer = libc::iovec {
            iov_base: self.base.cast(),
            iov_len: self.len,
        };
        let submitter = self.ring.submitter();
        // SAFETY: the buffer is the destination; it is unregistered in `drop`.
        match unsafe { submitter.register_buffers(&[buffer]) } {
            // RLIMIT_MEMLOCK of an ordinary user: go on unregistered, as the engine does.
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return Ok(()),
            registered => registered.what("register buffers")?,
        }
        self.registered = true;
        submitter.register_files(&[file]).what("register a file")
    }

    /// Reads what `supply` gives until there is no more.
    fn run(&mut self, supply: &mut dyn FnMut() -> Result<Option<(RawFd, ReadJob)>>) -> Result<()> {
        let mut more = true;
        loop {
            let mut unsubmitted = 0;
            while more && !self.free.is_empty() {
                let Some((file, job)) = supply()? else {
                    more = false;
                    break;
                };
                self.push(file, job);
                unsubmitted += 1;
                if unsubmitted == SUBMIT_BATCH {
                    self.enter(0)?;
                    unsubmitted = 0;
                }
            }
            if self.in_flight == 0 {
                return Ok(());
            }
            self.complete()?;
        }
    }

    /// Begins a read in a free slot.
    fn push(&mut self, file: RawFd, job: ReadJob) {
        let end = job.place.checked_add(job.len as usize);
        assert!(
            end.is_some_and(|end| end <= self.len) && job.need <= job.len,
            "{job:?} is out of place"
        );
        let slot = self.free.pop().expect("no more reads than slots");
        // SAFETY: the place was just seen to lie in the destination.
        let pointer = unsafe { self.base.add(job.place) };
        let entry = if self.registered {
            let read = opcode::ReadFixed::new(types::Fixed(0), pointer, job.len, 0);
            read.offset(job.offset).build()
        } else {
            let read = opcode::Read::new(types::Fd(file), pointer, job.len);
            read.offset(job.offset).build()
        };
        let flags = match self.offload {
            true => squeue::Flags::ASYNC,
            false => squeue::Flags::empty(),
        };
        let entry = entry.flags(flags).user_data(slot as u64);
        // SAFETY: the memory is the destination's, borrowed until `drop` has seen every
        // completion; a slot has one entry at most and there are no more slots than ring entries.
        unsafe { self.ring.submission().push(&entry) }.expect("no more slots than entries");
        self.slots[slot] = Some((file, job));
        self.in_flight += 1;
    }

    fn enter(&mut self, want: usize) -> Result<()> {
        loop {
            match self.ring.submit_and_wait(want) {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // Completions must be reaped first: they are there.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(()),
                entered => return entered.map(drop).what("io_uring_enter"),
            }
        }
    }

    /// Waits for a completion and takes all that there are into account; a read that is not
    /// complete goes on.
    fn complete(&mut self) -> Result<()> {
        self.enter(1)?;
        let mut completions = std::mem::take(&mut self.completions);
        let all = self.ring.completion();
        completions.extend(all.map(|entry| (entry.user_data() as usize, entry.result())));
        self.in_flight -= completions.len();
        for (slot, result) in completions.drain(..) {
            let read = self.slots[slot].take();
            let (file, mut job) = read.expect("one completion for each read");
            self.free.push(slot);
            if self.ended(&mut job, result)? {
                continue;
            }
            self.push(file, job);
        }
        self.completions = completions;
        Ok(())
    }

    /// Takes a read's result into account; whether all that is needed has arrived.
    fn ended(&mut self, job: &mut ReadJob, result: i32) -> Result<bool> {
        if result < 0 {
            let transient = result == -libc::EINTR || result == -libc::EAGAIN;
            self.retries += 1;
            if transient && self.retries <= RETRIES_MAX {
                return Ok(false);
            }
            let error = std::io::Error::from_raw_os_error(-result);
            return Err(error).what("read in the ring");
        }
        let read = result as u32;
        if read >= job.need {
            return Ok(true);
        }
        if read == 0 {
            let end = job.offset + u64::from(job.need);
            return Err(Error::new(format!("the file ends before offset {end}")));
        }
        job.offset += u64::from(read);
        job.place += read as usize;
        job.len -= read;
        job.need -= read;
        Ok(false)
    }

    /// Whether a read into a part of the destination is in flight.
    fn is_in_flight(&self, part: &Range<usize>) -> bool {
        let overlaps = |job: &ReadJob| job.place < part.end && part.start < job.range().end;
        let mut jobs = self.slots.iter().flatten();
        jobs.any(|(_, job)| overlaps(job))
    }

    /// A part of the destination that no read in flight writes to.
    fn settled(&self, part: Range<usize>) -> &[u8] {
        assert!(part.end <= self.len && !self.is_in_flight(&part));
        // SAFETY: the part lies in the destination and nothing writes to it: a new read needs
        // `self` mutably.
        unsafe { std::slice::from_raw_parts(self.base.add(part.start), part.len()) }
    }
}

impl Drop for Reads<'_> {
    /// # Panics
    /// If the kernel refuses to wait: memory would be freed under its writes.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            self.enter(1)
                .expect("a ring that took reads can be waited for");
            self.in_flight -= self.ring.completion().count();
        }
        if self.registered {
            // An error would leave them to the ring's end.
            let _ = self.ring.submitter().unregister_buffers();
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    /// A ring, and a file of so many bytes; none where there is no io_uring.
    fn ring_and_file(len: usize) -> Option<(BareRing, tempfile::NamedTempFile, Vec<u8>)> {
        let ring = BareRing::new(16);
        let ring = ring.inspect_err(|error| println!("SKIP: {error}")).ok()?;
        let mut content = vec![0u8; len];
        fastrand::Rng::with_seed(11).fill(&mut content);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        Some((ring, file, content))
    }

    #[test]
    fn all_jobs_land_in_their_places_in_every_style_and_errors_leave_the_ring_alive() {
        let Some((mut ring, file, content)) = ring_and_file(1_000_003) else {
            return;
        };
        let fd = file.as_file().as_raw_fd();
        let places = (0..content.len()).step_by(8192);
        let job = |at: usize| ReadJob::new(at as u64, at, (content.len() - at).min(8192));
        let mut jobs: Vec<ReadJob> = places.map(job).collect();
        fastrand::Rng::with_seed(12).shuffle(&mut jobs);
        for (registered, offload) in [(false, false), (true, false), (false, true)] {
            let mut destination = vec![0u8; content.len() + 1];
            let style = ReadStyle {
                depth: 16,
                registered,
                offload,
            };
            let beyond = ReadJob::new(0, 0, content.len() + 1);
            assert!(
                ring.read_all(fd, &[beyond], &mut destination, style)
                    .is_err()
            );
            destination.fill(0);
            ring.read_all(fd, &jobs, &mut destination, style).unwrap();
            assert!(destination[..content.len()] == content, "{style:?}");
        }
    }

    #[test]
    fn blocks_arrive_in_file_order_until_the_consumer_fails() {
        for len in [0, 1, 4096, 4096 * 8, 4096 * 8 + 1, 100_001] {
            let Some((mut ring, file, content)) = ring_and_file(len) else {
                return;
            };
            let mut memory = vec![0u8; 4096 * 8];
            let mut seen = Vec::new();
            let mut read = |consume: &mut dyn FnMut(&[u8]) -> Result<()>| {
                let fd = file.as_file().as_raw_fd();
                ring.read_in_order(fd, len as u64, 4096, &mut memory, consume)
            };
            let enough = read(&mut |_| Err(Error::new("enough")));
            assert_eq!(enough.is_err(), len > 0);
            read(&mut |bytes| {
                seen.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
            assert!(seen == content, "{len} bytes");
        }
    }
}
