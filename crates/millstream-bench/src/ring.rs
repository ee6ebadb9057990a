//! The bare ring: a plain io_uring loop, as little as the kernel demands. It is the yardstick of
//! this crate, the rival "no library at all".
//!
//! Two shapes. [`BareRing::read_all`] keeps up to `depth` reads of a list in flight, each straight
//! into its place in the destination, in any order. [`BareRing::read_in_order`] keeps a window of
//! blocks in flight and hands them to a consumer in file order out of its own buffers: the study's
//! eight outstanding blocks, copied or decoded on the same thread.
//!
//! The flags are the best the kernel has, as the engine asks for them: `DEFER_TASKRUN` with
//! `SINGLE_ISSUER`, else `COOP_TASKRUN`, else none, so that comparisons are at equal flags. The
//! loop fills what is free, enters once for submission and at least one completion, and reaps all
//! there is.
//!
//! # Safety
//! The kernel writes into the destination while reads are in flight. Every function here returns
//! only when none is: on an error the rest is awaited first (`drain`). Places are checked against
//! the destination's length before a read is pushed. Registered buffers are unregistered before
//! the borrow of the destination ends.
#![expect(
    unsafe_code,
    reason = "the kernel writes to memory named by raw pointers"
)]

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use io_uring::{IoUring, opcode, types};

use crate::clock::{Moment, Span};
use crate::error::{Error, Result};

/// One read: `len` bytes at `offset` of the file number `file` to `place` in the destination, of
/// which the first `need` are there for sure. (A direct read asks for whole blocks and ends at the
/// end of the file.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadJob {
    /// Index into the files given with the jobs.
    pub file: u32,
    /// First byte in the file.
    pub offset: u64,
    /// First byte in the destination.
    pub place: usize,
    /// Bytes asked for, and the room at `place`.
    pub len: u32,
    /// Bytes that must arrive.
    pub need: u32,
}

impl ReadJob {
    /// The job's part of the destination.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<usize> {
        self.place..self.place + self.len as usize
    }
}

/// How reads are pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadStyle {
    /// Reads in flight at most.
    pub depth: usize,
    /// Register the destination and the files for the time of the call (not timed apart: it is
    /// part of the way).
    pub registered: bool,
    /// `IOSQE_ASYNC`: hand every read to a helper thread of the kernel at once.
    pub offload: bool,
}

/// Largest piece of memory that the kernel registers as one buffer (`SZ_1G` in io_uring's rsrc.c).
const REGISTERED_BYTES_MAX: usize = 1 << 30;
/// Tries of one read that ends with `EINTR` or `EAGAIN`.
const RETRIES_MAX: u32 = 100;

/// Sets flags of a ring to be made.
type SetFlags = fn(&mut io_uring::Builder);

/// An io_uring with the best flags of this kernel.
pub struct BareRing {
    ring: IoUring,
    flags: &'static str,
    entries: usize,
}

impl BareRing {
    /// A ring for `depth` operations in flight.
    ///
    /// # Errors
    /// io_uring is not there or refused (by `kernel.io_uring_disabled` or a seccomp filter).
    pub fn new(depth: usize) -> Result<BareRing> {
        let entries = depth.max(1).next_power_of_two() as u32;
        let attempts: [(&'static str, SetFlags); 3] = [
            ("DEFER_TASKRUN|SINGLE_ISSUER", |builder| {
                builder.setup_single_issuer().setup_defer_taskrun();
            }),
            ("COOP_TASKRUN", |builder| {
                builder.setup_coop_taskrun();
            }),
            ("none", |_| {}),
        ];
        let mut last = None;
        for (flags, set) in attempts {
            let mut builder = IoUring::builder();
            set(&mut builder);
            match builder.build(entries) {
                Ok(ring) => {
                    return Ok(BareRing {
                        ring,
                        flags,
                        entries: entries as usize,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(Error::io(
            "io_uring_setup (likely cause: kernel.io_uring_disabled or a seccomp filter)",
            last.unwrap_or_else(|| std::io::Error::from_raw_os_error(libc::ENOSYS)),
        ))
    }

    /// The flags it runs with.
    #[must_use]
    pub fn flags(&self) -> &'static str {
        self.flags
    }

    /// Reads all `jobs` into the destination; the time of the reads alone, without registering.
    ///
    /// # Errors
    /// A read fails or ends early (the file is shorter than its job).
    ///
    /// # Panics
    /// If a job's place lies outside the destination or its file outside `files`.
    pub fn read_all(
        &mut self,
        files: &[RawFd],
        jobs: &[ReadJob],
        destination: &mut [u8],
        style: ReadStyle,
    ) -> Result<Span> {
        for job in jobs {
            assert_in_place(job, destination.len());
            assert!((job.file as usize) < files.len(), "{job:?} names no file");
        }
        let registered = if style.registered {
            self.register(files, destination)?
        } else {
            false
        };
        let mut run = Run {
            files,
            base: destination.as_mut_ptr(),
            registered,
            offload: style.offload,
            in_flight: 0,
            retries: 0,
        };
        let start = Moment::now();
        let mut rest = jobs.iter();
        let result = self.run_jobs(&mut run, style.depth, &mut || Ok(rest.next().copied()));
        let span = start.elapsed();
        self.drain(&mut run.in_flight);
        if registered {
            // Both were registered above; an error would leave them to the ring's end.
            let _ = self.ring.submitter().unregister_buffers();
            let _ = self.ring.submitter().unregister_files();
        }
        result.map(|()| span)
    }

    /// Reads whole files that are opened on the way, while earlier ones are being read: `open`
    /// gives the next file and its job (whose file number is ignored), or `None` at the end.
    ///
    /// # Errors
    /// An open or a read fails.
    ///
    /// # Panics
    /// If a job's place lies outside the destination.
    pub fn read_opening(
        &mut self,
        destination: &mut [u8],
        depth: usize,
        open: &mut dyn FnMut() -> Result<Option<(OwnedFd, ReadJob)>>,
    ) -> Result<()> {
        // Open until the end of the call: closing is cheap, and a slot's file cannot be closed
        // under its read.
        let mut files = Vec::new();
        let len = destination.len();
        let mut run = Run {
            files: &[],
            base: destination.as_mut_ptr(),
            registered: false,
            offload: false,
            in_flight: 0,
            retries: 0,
        };
        let result = self.run_jobs(&mut run, depth, &mut || {
            let Some((file, mut job)) = open()? else {
                return Ok(None);
            };
            assert_in_place(&job, len);
            // The descriptor itself travels in the job: there is no table that could grow under
            // the run.
            job.file = file.as_raw_fd() as u32;
            files.push(file);
            Ok(Some(job))
        });
        self.drain(&mut run.in_flight);
        result
    }

    /// Pushes and submits the jobs one by one, as an application does that wants each on its way
    /// at once; gives the nanoseconds that each such call held the caller. Then awaits all.
    ///
    /// # Errors
    /// A read fails, or there are more jobs than the ring has entries.
    ///
    /// # Panics
    /// If a job's place lies outside the destination or its file outside `files`.
    pub fn submit_each(
        &mut self,
        files: &[RawFd],
        jobs: &[ReadJob],
        destination: &mut [u8],
        offload: bool,
    ) -> Result<Vec<u64>> {
        if jobs.len() > self.entries {
            return Err(Error::new("more jobs than the ring has entries"));
        }
        for job in jobs {
            assert_in_place(job, destination.len());
            assert!((job.file as usize) < files.len(), "{job:?} names no file");
        }
        let mut run = Run {
            files,
            base: destination.as_mut_ptr(),
            registered: false,
            offload,
            in_flight: 0,
            retries: 0,
        };
        let mut slots = jobs.to_vec();
        let result = self.submit_timed(&mut run, &mut slots);
        self.drain(&mut run.in_flight);
        result
    }

    fn submit_timed(&mut self, run: &mut Run<'_>, slots: &mut [ReadJob]) -> Result<Vec<u64>> {
        let mut held = Vec::with_capacity(slots.len());
        for (slot, job) in slots.iter().enumerate() {
            let start = Instant::now();
            self.push(run, slot, *job);
            self.enter(0)?;
            held.push(start.elapsed().as_nanos() as u64);
        }
        let mut done = 0;
        while done < slots.len() {
            self.enter(1)?;
            let completions: &mut [(usize, i32)] = &mut [(0, 0); REAP_MAX];
            let count = self.reap(completions, &mut run.in_flight);
            for (slot, result) in &completions[..count] {
                match progress(&mut slots[*slot], *result, &mut run.retries)? {
                    Step::Done => done += 1,
                    Step::Again => self.push(run, *slot, slots[*slot]),
                }
            }
        }
        Ok(held)
    }

    fn register(&mut self, files: &[RawFd], destination: &mut [u8]) -> Result<bool> {
        let buffers: Vec<libc::iovec> = destination
            .chunks_mut(REGISTERED_BYTES_MAX)
            .map(|chunk| libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: chunk.len(),
            })
            .collect();
        let submitter = self.ring.submitter();
        // SAFETY: the buffers lie in `destination`, whose borrow lasts until read_all has
        // unregistered them.
        match unsafe { submitter.register_buffers(&buffers) } {
            Ok(()) => {}
            // RLIMIT_MEMLOCK of an ordinary user: go on unregistered, as the engine does.
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return Ok(false),
            Err(error) => return Err(Error::io("register buffers", error)),
        }
        if let Err(error) = submitter.register_files(files) {
            let _ = submitter.unregister_buffers();
            return Err(Error::io("register files", error));
        }
        Ok(true)
    }

    fn run_jobs(
        &mut self,
        run: &mut Run<'_>,
        depth: usize,
        supply: &mut dyn FnMut() -> Result<Option<ReadJob>>,
    ) -> Result<()> {
        let depth = depth.clamp(1, self.entries);
        // What is left of the job in each slot; a slot is free when its index is on `free`.
        let mut slots = vec![ReadJob::default(); depth];
        let mut free: Vec<usize> = (0..depth).rev().collect();
        let mut again: Vec<usize> = Vec::new();
        let mut supplied_all = false;
        loop {
            while let Some(slot) = again.pop() {
                self.push(run, slot, slots[slot]);
            }
            let mut unsubmitted = 0;
            while !supplied_all && !free.is_empty() {
                let Some(job) = supply()? else {
                    supplied_all = true;
                    break;
                };
                let slot = free.pop().expect("just seen not to be empty");
                slots[slot] = job;
                self.push(run, slot, job);
                unsubmitted += 1;
                if unsubmitted == SUBMIT_BATCH {
                    self.enter(0)?;
                    unsubmitted = 0;
                }
            }
            if run.in_flight == 0 {
                return Ok(());
            }
            self.enter(1)?;
            let completions: &mut [(usize, i32)] = &mut [(0, 0); REAP_MAX];
            let count = self.reap(completions, &mut run.in_flight);
            for (slot, result) in &completions[..count] {
                match progress(&mut slots[*slot], *result, &mut run.retries)? {
                    Step::Done => free.push(*slot),
                    Step::Again => again.push(*slot),
                }
            }
        }
    }

    /// Copies up to `REAP_MAX` completions out.
    fn reap(&mut self, into: &mut [(usize, i32)], in_flight: &mut usize) -> usize {
        let mut count = 0;
        let mut completion = self.ring.completion();
        while count < into.len() {
            let Some(cqe) = completion.next() else { break };
            into[count] = (cqe.user_data() as usize, cqe.result());
            count += 1;
        }
        *in_flight -= count;
        count
    }

    fn push(&mut self, run: &mut Run<'_>, slot: usize, job: ReadJob) {
        // SAFETY: read_all checked that place + len of the whole job lies in the destination, and
        // what is left of it lies inside.
        let pointer = unsafe { run.base.add(job.place) };
        let flags = if run.offload {
            io_uring::squeue::Flags::ASYNC
        } else {
            io_uring::squeue::Flags::empty()
        };
        let entry = if run.registered {
            let buffer = (job.place / REGISTERED_BYTES_MAX) as u16;
            let end = (job.place + job.len as usize).saturating_sub(1);
            if end / REGISTERED_BYTES_MAX == usize::from(buffer) {
                opcode::ReadFixed::new(types::Fixed(job.file), pointer, job.len, buffer)
                    .offset(job.offset)
                    .build()
            } else {
                // Across the border of two registered pieces: a plain read.
                opcode::Read::new(types::Fixed(job.file), pointer, job.len)
                    .offset(job.offset)
                    .build()
            }
        } else {
            // Without a table of files the job carries the descriptor itself.
            let fd = match run.files.get(job.file as usize) {
                Some(fd) => *fd,
                None => job.file as RawFd,
            };
            opcode::Read::new(types::Fd(fd), pointer, job.len)
                .offset(job.offset)
                .build()
        };
        let entry = entry.flags(flags).user_data(slot as u64);
        // SAFETY: the memory is the destination's, borrowed until `drain` has seen every
        // completion; a slot has one entry at most and there are no more slots than ring entries,
        // so the push has room.
        unsafe { self.ring.submission().push(&entry) }.expect("no more slots than entries");
        run.in_flight += 1;
    }

    fn enter(&mut self, want: usize) -> Result<()> {
        loop {
            match self.ring.submit_and_wait(want) {
                Ok(_) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // Completions must be reaped first: they are there.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(()),
                Err(error) => return Err(Error::io("io_uring_enter", error)),
            }
        }
    }

    /// Waits until nothing is in flight, whatever the results.
    ///
    /// # Panics
    /// If the kernel refuses to wait: memory would be freed under its writes.
    fn drain(&mut self, in_flight: &mut usize) {
        while *in_flight > 0 {
            self.enter(1)
                .expect("a ring that took reads can be waited for");
            let completions: &mut [(usize, i32)] = &mut [(0, 0); REAP_MAX];
            self.reap(completions, in_flight);
        }
    }

    /// Reads `len` bytes of a file in blocks of `buffers[0].len()`, as many in flight as there are
    /// buffers, and hands them to `consume` in file order, on this thread.
    ///
    /// With direct I/O the last block is asked for whole: the kernel ends it at the end of the
    /// file.
    ///
    /// # Errors
    /// A read fails or ends early, or the consumer does.
    pub fn read_in_order(
        &mut self,
        file: RawFd,
        len: u64,
        buffers: &mut [&mut [u8]],
        consume: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut in_flight = 0;
        let result = self.run_in_order(file, len, buffers, consume, &mut in_flight);
        self.drain(&mut in_flight);
        result
    }

    fn run_in_order(
        &mut self,
        file: RawFd,
        len: u64,
        buffers: &mut [&mut [u8]],
        consume: &mut dyn FnMut(&[u8]) -> Result<()>,
        in_flight: &mut usize,
    ) -> Result<()> {
        let window = buffers.len().min(self.entries);
        assert!(window > 0, "no buffer to read into");
        let block = buffers[0].len();
        assert!(block > 0 && buffers.iter().all(|buffer| buffer.len() == block));
        let blocks = len.div_ceil(block as u64) as usize;
        let bytes_of =
            |index: usize| (len - index as u64 * block as u64).min(block as u64) as usize;
        // Bytes of the block in a window's place that have arrived; None while it is not asked for.
        let mut arrived = vec![0usize; window];
        let mut retries = 0;
        for (index, buffer) in buffers.iter_mut().enumerate().take(window.min(blocks)) {
            self.push_block(file, index, block, 0, buffer, in_flight);
        }
        for index in 0..blocks {
            let place = index % window;
            let want = bytes_of(index);
            while arrived[place] < want {
                self.enter(1)?;
                let completions: &mut [(usize, i32)] = &mut [(0, 0); REAP_MAX];
                let count = self.reap(completions, in_flight);
                for (which, result) in &completions[..count] {
                    let slot = which % window;
                    match *result {
                        read if read > 0 => arrived[slot] += read as usize,
                        0 => return Err(Error::new("the file ends earlier than its length said")),
                        error => retry(error, &mut retries)?,
                    }
                    if arrived[slot] < bytes_of(*which) {
                        let from = arrived[slot];
                        self.push_block(file, *which, block, from, buffers[slot], in_flight);
                    }
                }
            }
            consume(&buffers[place][..want])?;
            arrived[place] = 0;
            if index + window < blocks {
                self.push_block(file, index + window, block, 0, buffers[place], in_flight);
                self.enter(0)?;
            }
        }
        Ok(())
    }

    fn push_block(
        &mut self,
        file: RawFd,
        index: usize,
        block: usize,
        from: usize,
        buffer: &mut [u8],
        in_flight: &mut usize,
    ) {
        let offset = index as u64 * block as u64 + from as u64;
        let rest = &mut buffer[from..];
        let entry = opcode::Read::new(types::Fd(file), rest.as_mut_ptr(), rest.len() as u32)
            .offset(offset)
            .build()
            .user_data(index as u64);
        // SAFETY: the buffer is borrowed by read_in_order until `drain` has seen every completion;
        // it is shown to the consumer only when its block is complete, and asked for again only
        // after the consumer returned.
        unsafe { self.ring.submission().push(&entry) }.expect("a window of at most the entries");
        *in_flight += 1;
    }
}

/// Entries pushed before the kernel is told of them: the device then works while the rest is
/// prepared.
const SUBMIT_BATCH: usize = 32;
/// Most completions copied out at a time.
const REAP_MAX: usize = 128;

struct Run<'a> {
    files: &'a [RawFd],
    base: *mut u8,
    registered: bool,
    offload: bool,
    in_flight: usize,
    retries: u32,
}

fn assert_in_place(job: &ReadJob, destination_len: usize) {
    let end = job.place.checked_add(job.len as usize);
    assert!(
        end.is_some_and(|end| end <= destination_len) && job.need <= job.len,
        "{job:?} is out of place"
    );
}

enum Step {
    Done,
    Again,
}

/// Takes a completion's result into account.
fn progress(job: &mut ReadJob, result: i32, retries: &mut u32) -> Result<Step> {
    if result < 0 {
        retry(result, retries)?;
        return Ok(Step::Again);
    }
    let read = result as u32;
    if read >= job.need {
        return Ok(Step::Done);
    }
    if read == 0 {
        return Err(Error::new(format!(
            "the file ends before offset {}",
            job.offset + u64::from(job.need)
        )));
    }
    job.offset += u64::from(read);
    job.place += read as usize;
    job.len -= read;
    job.need -= read;
    Ok(Step::Again)
}

fn retry(result: i32, retries: &mut u32) -> Result<()> {
    let transient = result == -libc::EINTR || result == -libc::EAGAIN;
    *retries += 1;
    if transient && *retries <= RETRIES_MAX {
        return Ok(());
    }
    Err(Error::io(
        "read in the ring",
        std::io::Error::from_raw_os_error(-result),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn ring_or_skip(depth: usize) -> Option<BareRing> {
        match BareRing::new(depth) {
            Ok(ring) => Some(ring),
            Err(error) => {
                println!("SKIP: {error}");
                None
            }
        }
    }

    fn file_of(len: usize, seed: u64) -> (tempfile::NamedTempFile, Vec<u8>) {
        let mut content = vec![0u8; len];
        fastrand::Rng::with_seed(seed).fill(&mut content);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &content).unwrap();
        (file, content)
    }

    #[test]
    fn all_jobs_land_in_their_places_in_every_style() {
        let Some(mut ring) = ring_or_skip(16) else {
            return;
        };
        let (file, content) = file_of(1_000_003, 11);
        let block = 8192usize;
        let mut jobs: Vec<ReadJob> = (0..content.len().div_ceil(block))
            .map(|i| ReadJob {
                file: 0,
                offset: (i * block) as u64,
                place: i * block,
                len: (content.len() - i * block).min(block) as u32,
                need: (content.len() - i * block).min(block) as u32,
            })
            .collect();
        fastrand::Rng::with_seed(12).shuffle(&mut jobs);
        for (registered, offload) in [(false, false), (true, false), (false, true)] {
            let mut destination = vec![0u8; content.len()];
            let style = ReadStyle {
                depth: 16,
                registered,
                offload,
            };
            let fd = file.as_file().as_raw_fd();
            ring.read_all(&[fd], &jobs, &mut destination, style)
                .unwrap();
            assert!(
                destination == content,
                "registered {registered}, offload {offload}"
            );
        }
    }

    #[test]
    fn a_job_past_the_end_is_an_error_and_the_ring_lives_on() {
        let Some(mut ring) = ring_or_skip(4) else {
            return;
        };
        let (file, content) = file_of(10_000, 13);
        let fd = file.as_file().as_raw_fd();
        let mut destination = vec![0u8; 20_000];
        let style = ReadStyle {
            depth: 4,
            ..ReadStyle::default()
        };
        let job = ReadJob {
            file: 0,
            offset: 0,
            place: 0,
            len: 20_000,
            need: 10_001,
        };
        assert!(
            ring.read_all(&[fd], &[job], &mut destination, style)
                .is_err()
        );
        let job = ReadJob {
            need: 10_000,
            ..job
        };
        ring.read_all(&[fd], &[job], &mut destination, style)
            .unwrap();
        assert!(destination[..10_000] == content[..]);
    }

    #[test]
    fn blocks_arrive_in_file_order_whatever_their_number() {
        let Some(mut ring) = ring_or_skip(8) else {
            return;
        };
        for len in [0, 1, 4096, 4096 * 8, 4096 * 8 + 1, 100_001] {
            let (file, content) = file_of(len, 14);
            let mut memory = vec![0u8; 4096 * 8];
            let mut buffers: Vec<&mut [u8]> = memory.chunks_mut(4096).collect();
            let mut seen = Vec::new();
            let fd = file.as_file().as_raw_fd();
            ring.read_in_order(fd, len as u64, &mut buffers, &mut |bytes| {
                seen.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
            assert!(seen == content, "{len} bytes");
        }
    }

    #[test]
    fn a_consumer_that_fails_ends_the_read() {
        let Some(mut ring) = ring_or_skip(8) else {
            return;
        };
        let (file, content) = file_of(100_000, 15);
        let mut memory = vec![0u8; 4096 * 4];
        let mut buffers: Vec<&mut [u8]> = memory.chunks_mut(4096).collect();
        let fd = file.as_file().as_raw_fd();
        let result = ring.read_in_order(fd, content.len() as u64, &mut buffers, &mut |_| {
            Err(Error::new("enough"))
        });
        assert_eq!(result.unwrap_err().to_string(), "enough");
    }
}
