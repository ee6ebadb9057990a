//! Reads that a thread does itself that waits for them, through a descriptor that callers share.
//!
//! A thread that blocks on a plain short read, which the engine has not taken yet and beside which
//! nothing is in flight, takes the read's parcel back, reads, ends the slot, and hands the parcel
//! over once more, as served: the engine settles order, capacity and statistics. So a read that one
//! thread waits for needs no other thread.
//!
//! Invariants:
//! - A parcel is in its queue, the engine's, or taken back, and changes hands under the queue's
//!   lock. Of a slot whose parcel it does not have, the engine uses the state word alone.
//! - The numbers of a parcel that is taken back stay open: no later entry takes effect before it.
//! - It is handed over once more, with its numbers, whatever the read does: served, or as it was.
//! - Nobody else waits for the thread meanwhile, but entries of its queue that are ordered after
//!   the read: it holds no lock, and no memory but the request's.
#![expect(
    unsafe_code,
    reason = "uses the slot of a parcel that it keeps the engine from taking"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream_io::fs::is_out_of_descriptors;
use millstream_io::{LocalFile, OpenMode};

use super::{FIFO, Fifo, Parcel, QueueShared};
use crate::caller::request::{Body, FileOp};
use crate::error::Error;
use crate::handover::names::Local;
use crate::ids::{FileId, Id};
use crate::limits::{DESCRIPTORS_PER_LOCAL, DIRECT_BYTES_MIN, LOCAL_FILES_MAX, LOCAL_WAITS};
use crate::sync::{Ordering, lock};

/// A read whose parcel was taken back. Dropped, it hands the parcel over once more.
struct TakenBack<'a> {
    queue: &'a Arc<QueueShared>,
    parcel: Parcel,
    body: Body,
    local: Arc<LocalFile>,
}

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        let parcel = std::mem::replace(&mut self.parcel, Parcel::new());
        self.queue.hand_over_again(parcel);
    }
}

impl TakenBack<'_> {
    /// Reads, and ends the request if it is read to its end; returns whether it has ended.
    fn read(mut self, id: Id) -> bool {
        let began = Instant::now();
        let (local, body) = (&self.local, &self.body);
        let read = |memory: &mut [u8]| local.read_at(body.offset, memory).ok();
        let buffers = &self.queue.mailbox.buffers;
        // SAFETY: this thread has the parcel (see the header), and waits for its one request.
        let is_served = unsafe { self.queue.pool.serve(id, buffers, read) };
        if is_served {
            let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let served = Fifo::Served(self.parcel.highest, self.body.len, ns);
            self.parcel.indices[0] = FIFO;
            self.parcel.fifos.push_back(served);
        }
        is_served
    }
}

impl QueueShared {
    /// Reads for a request on this thread, which waits for it, if the engine has not taken it and
    /// has nothing else to do; returns whether it has ended.
    pub(crate) fn read_in_place(self: &Arc<Self>, id: Id) -> bool {
        let taken = self.is_idle_but_for_one().then(|| self.take_back(id));
        taken.flatten().is_some_and(|taken| taken.read(id))
    }

    /// Whether nothing of the storage is in flight, and one entry of the queue has not completed.
    fn is_idle_but_for_one(&self) -> bool {
        let mailbox = &self.mailbox;
        let counters = &mailbox.counters;
        let ended = counters.done.get() + counters.failed.get() + counters.canceled.get();
        self.live().checked_sub(self.held.load(Ordering::SeqCst)) == Some(1)
            && counters.requests.get() == ended
            && !mailbox.recorder.is_on()
            && !mailbox.is_closing()
    }

    fn take_back(self: &Arc<Self>, id: Id) -> Option<TakenBack<'_>> {
        let mut submitted = lock(&self.submitted);
        let is_limited = submitted.paused || submitted.has_bandwidth;
        let is_last = |parcel: &Parcel| parcel.indices == [id.index()];
        if is_limited
            || !submitted.wishes.selections.is_empty()
            || !submitted.parcels.last().is_some_and(is_last)
        {
            return None;
        }
        // SAFETY: the engine takes the parcel under the lock, which is held.
        let body = unsafe { self.pool.plain_read(id) }?;
        let local = match self.find_local(body.file, body.len, LOCAL_WAITS)? {
            Local::Open(local) => local,
            Local::Due(place) => {
                // Without the lock: the engine reads meanwhile.
                drop(submitted);
                self.open_local(body.file, &place);
                return None;
            }
            Local::Unread(_) | Local::Never => return None,
        };
        Some(TakenBack {
            queue: self,
            parcel: submitted.parcels.pop()?,
            body,
            local,
        })
    }

    /// Hands a parcel over that was taken back, with its numbers.
    fn hand_over_again(self: &Arc<Self>, mut parcel: Parcel) {
        let mut submitted = lock(&self.submitted);
        if submitted.closed {
            drop(submitted);
            let indices = parcel.indices.iter().copied();
            self.pool.unpublish(indices.filter(|index| *index != FIFO));
            return self.refuse(&mut parcel);
        }
        submitted.parcels.push(parcel);
        self.wake_engine(submitted);
    }

    /// The file through which the calling thread reads so many bytes of a handle, if it may, after
    /// `reads` others.
    pub(crate) fn local_file(
        self: &Arc<Self>,
        file: FileId,
        len: u64,
        reads: u32,
    ) -> Option<Arc<LocalFile>> {
        if self.mailbox.is_closing() {
            return None;
        }
        match self.find_local(file, len, reads)? {
            Local::Open(local) => Some(local),
            Local::Due(place) => self.open_local(file, &place),
            Local::Unread(_) | Local::Never => None,
        }
    }

    fn find_local(&self, file: FileId, len: u64, reads: u32) -> Option<Local> {
        let is_short = (1..DIRECT_BYTES_MIN).contains(&len);
        let may_read = is_short && self.mailbox.options.disk_model.is_none();
        may_read.then(|| lock(&self.mailbox.names).local(file, self.local_files_max(), reads))
    }

    fn local_files_max(&self) -> usize {
        LOCAL_FILES_MAX.min(self.mailbox.options.descriptors / DESCRIPTORS_PER_LOCAL)
    }

    /// Opens the file of a handle a second time, if its path still leads to it.
    fn open_local(self: &Arc<Self>, file: FileId, place: &Arc<Path>) -> Option<Arc<LocalFile>> {
        let opened = self.open_again(file, place);
        let mut names = lock(&self.mailbox.names);
        match opened {
            // A close takes what was lent, once no more is.
            Ok(Some(local)) if !self.mailbox.is_closing() => {
                names.lend(file, &local, self.local_files_max());
                Some(local)
            }
            Ok(local) => local,
            Err(_) => {
                names.unlend(file);
                None
            }
        }
    }

    /// `None`: callers cannot read the handle.
    ///
    /// # Errors
    /// What may not last: the queue is full, or no descriptor is left.
    fn open_again(
        self: &Arc<Self>,
        file: FileId,
        place: &Arc<Path>,
    ) -> Result<Option<Arc<LocalFile>>, Error> {
        let info = self.put(&mut FileOp::info(file), false)?.wait();
        let Some(known) = info
            .ok()
            .and_then(|info| Some((info.identity, info.local?)))
        else {
            return Ok(None);
        };
        let fs = Arc::clone(&self.mailbox.fs);
        match LocalFile::open(fs, place, OpenMode::default()) {
            Ok(local) => {
                // A later file may have the number of one that was removed, and its time of
                // modification.
                let (identity, birth_ns) = (local.opened().identity, local.opened().birth_ns);
                let is_same = (identity, birth_ns) == (known.0, Some(known.1));
                Ok(is_same.then(|| Arc::new(local)))
            }
            Err(error) if is_out_of_descriptors(&error) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}
