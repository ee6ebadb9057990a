//! The two threads of a device: one fills and submits batches, one waits for them and answers.
//!
//! ```text
//! pieces → ms-gpu-send → batch → device → ms-gpu-done → answers
//!              ↑                                │
//!              └──────── empty batches ─────────┘
//! ```
//!
//! Pieces wait by priority and arrival. A batch is submitted as soon as nothing is left to add; it
//! waits for more for a moment only while others are in flight. When the device is lost, everything
//! ends with that error, and batches in flight are leaked: the device may still use their memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use ash::vk;
use millstream::{DevicePart, Error, ErrorKind, Priority};

use crate::batch::Batch;
use crate::context::Context;
use crate::decoder::{Decoder, GOOD, LIMIT};
use crate::limits;
use crate::pieces::{Piece, Work, corrupt, cut};
use crate::target::Target;

/// What a device's handle, its buffers and its threads share.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    sender: Mutex<Option<Sender<Arrival>>>,
    /// Whether the device decodes.
    pub(crate) decodes: AtomicBool,
    in_flight: AtomicU64,
    pub(crate) counters: Counters,
}

/// The pieces of a part.
type Arrival = (Priority, Vec<Piece>);

/// See [`GpuStats`](crate::GpuStats).
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) uploaded_bytes: AtomicU64,
    pub(crate) tiles: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) disagreed: AtomicU64,
}

impl Shared {
    /// Takes a part in; a failure ends it.
    pub(crate) fn take(&self, part: DevicePart, target: Arc<Target>) {
        let priority = part.priority();
        let pieces = cut(part, target);
        if pieces.is_empty() {
            return;
        }
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = match &*sender {
            Some(sender) => sender.send((priority, pieces)).err().map(|error| error.0.1),
            None => Some(pieces),
        };
        drop(sender);
        for piece in refused.into_iter().flatten() {
            let cause = "the GPU's handle was dropped";
            piece
                .part
                .piece_ended(Err(Error::new(ErrorKind::Closed, cause)));
        }
    }

    /// Lets the threads end once everything before has been answered.
    pub(crate) fn close(&self) {
        self.sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

/// A batch, and whose answers it brings.
struct Filled {
    batch: Batch,
    pieces: Vec<(Piece, Option<u32>)>,
}

/// Starts the threads of a device.
pub(crate) fn start(
    context: Arc<Context>,
    decoder: Option<Arc<Decoder>>,
) -> Result<(Arc<Shared>, Vec<JoinHandle<()>>), Error> {
    let (sender, work) = channel();
    let (to_send, free) = channel();
    let (to_done, filled) = channel();
    for _ in 0..limits::BATCHES {
        let batch = Batch::new(&context, decoder.clone())?;
        to_send.send(batch).expect("its receiver is here");
    }
    let fix = Batch::new(&context, None)?;
    let shared = Arc::new(Shared {
        context,
        sender: Mutex::new(Some(sender)),
        decodes: AtomicBool::new(decoder.is_some()),
        in_flight: AtomicU64::new(0),
        counters: Counters::default(),
    });
    let mut threads = Vec::new();
    let sending = Sending {
        shared: Arc::clone(&shared),
        work,
        free,
        filled: to_done,
        spare: None,
        pending: BTreeMap::new(),
        arrivals: 0,
        decoder: gdeflate::Decoder::new(),
    };
    threads.push(spawn("ms-gpu-send", move || sending.run())?);
    let done = Done {
        shared: Arc::clone(&shared),
        fix,
        decoder: gdeflate::Decoder::new(),
    };
    match spawn("ms-gpu-done", move || done.run(&filled, to_send)) {
        Ok(thread) => threads.push(thread),
        Err(error) => {
            shared.close();
            return Err(error);
        }
    }
    Ok((shared, threads))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    started.map_err(|error| Error::from_os("starting a thread", &error))
}

/// The thread that fills and submits batches.
struct Sending {
    shared: Arc<Shared>,
    work: Receiver<Arrival>,
    free: Receiver<Batch>,
    filled: Sender<Filled>,
    /// A batch that the device did not take.
    spare: Option<Batch>,
    pending: BTreeMap<(Reverse<Priority>, u64), Piece>,
    arrivals: u64,
    decoder: gdeflate::Decoder,
}

impl Sending {
    fn run(mut self) {
        loop {
            if self.pending.is_empty() {
                match self.work.recv() {
                    Ok(work) => self.arrive(work),
                    Err(_) => return,
                }
            }
            if self.shared.context.is_lost() {
                self.fail_all();
                continue;
            }
            // None comes back from a device that was lost meanwhile.
            match self.spare.take().ok_or(()).or_else(|()| self.free.recv()) {
                Ok(batch) => self.fill_and_submit(batch),
                Err(_) => self.fail_all(),
            }
        }
    }

    fn arrive(&mut self, (priority, pieces): Arrival) {
        for piece in pieces {
            self.pending
                .insert((Reverse(priority), self.arrivals), piece);
            self.arrivals += 1;
        }
    }

    fn fail_all(&mut self) {
        for (_, piece) in std::mem::take(&mut self.pending) {
            piece.part.piece_ended(Err(lost()));
        }
    }

    fn fill_and_submit(&mut self, batch: Batch) {
        let mut filled = Filled {
            batch,
            pieces: Vec::new(),
        };
        filled.batch.clear();
        let until = Instant::now() + limits::GATHER_WAIT;
        loop {
            let is_full = !self.add_pending(&mut filled);
            let busy = self.shared.in_flight.load(Ordering::Relaxed) > 0;
            let left = match busy {
                true => until.saturating_duration_since(Instant::now()),
                false => std::time::Duration::ZERO,
            };
            if is_full {
                break;
            }
            match self.work.recv_timeout(left) {
                Ok(work) => self.arrive(work),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let (bytes, tiles) = filled.batch.contents();
        let counters = &self.shared.counters;
        counters.batches.fetch_add(1, Ordering::Relaxed);
        counters
            .uploaded_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        counters
            .tiles
            .fetch_add(u64::from(tiles), Ordering::Relaxed);
        self.shared.in_flight.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = filled.batch.submit() {
            self.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
            match self.shared.context.is_lost() {
                true => filled.fail(&error),
                false => self.spare = Some(filled.refuse(&error)),
            }
            return;
        }
        if let Err(back) = self.filled.send(filled) {
            back.0.fail(&lost());
        }
    }

    /// Adds what is pending, most important first; false: the batch is full.
    fn add_pending(&mut self, filled: &mut Filled) -> bool {
        while let Some(first) = self.pending.first_entry() {
            let piece = first.get();
            let here = piece.work == Work::Tile && !self.shared.suits(piece);
            let bytes = if here {
                piece.raw_len
            } else {
                piece.bytes.len()
            };
            if !filled
                .batch
                .has_room(bytes, piece.work == Work::Tile && !here)
            {
                return false;
            }
            let piece = first.remove();
            match here {
                true => self.add_decoded(filled, piece),
                false => filled.add(piece),
            }
        }
        true
    }

    /// Adds a tile that the processor decodes.
    fn add_decoded(&mut self, filled: &mut Filled, piece: Piece) {
        let mut raw = vec![0; piece.raw_len];
        let decoder = &mut self.decoder;
        let decode = |stored: &[u8]| decoder.decode_tile(stored, &mut raw);
        match piece.part.with_bytes(piece.bytes.clone(), decode) {
            Ok(()) => {
                let target = Arc::clone(&piece.part.target);
                target.add_bytes(&mut filled.batch, piece.at, &raw);
                filled.pieces.push((piece, None));
            }
            Err(error) => piece.part.piece_ended(Err(corrupt(&error))),
        }
    }
}

impl Shared {
    /// Whether the device decodes this tile.
    fn suits(&self, piece: &Piece) -> bool {
        let stored_len = piece.bytes.len();
        self.decodes.load(Ordering::Relaxed)
            && stored_len.is_multiple_of(4)
            && stored_len <= limits::TILE_STORED_BYTES_MAX
            && piece.raw_len <= limits::TILE_BYTES
            && piece.part.target.takes_tile(piece.at, piece.raw_len)
    }
}

impl Filled {
    fn add(&mut self, piece: Piece) {
        let (target, batch) = (Arc::clone(&piece.part.target), &mut self.batch);
        let (at, raw_len) = (piece.at, piece.raw_len);
        let bytes = piece.bytes.clone();
        let tile = piece.part.with_bytes(bytes, |bytes| match piece.work {
            Work::Copy => {
                target.add_bytes(batch, at, bytes);
                None
            }
            Work::Tile => Some(target.add_tile(batch, (at, raw_len), bytes)),
            Work::Last => {
                target.add_last(batch);
                None
            }
        });
        self.pieces.push((piece, tile));
    }

    /// Ends everything in it, which the device did not take; the batch.
    fn refuse(self, error: &Error) -> Batch {
        for (piece, _) in self.pieces {
            piece.part.piece_ended(Err(error.clone()));
        }
        self.batch
    }

    /// Ends everything in it. The device may still use its memory and write to the destinations:
    /// both are leaked.
    fn fail(self, error: &Error) {
        for (piece, _) in self.pieces {
            std::mem::forget(Arc::clone(&piece.part.target));
            piece.part.piece_ended(Err(error.clone()));
        }
        std::mem::forget(self.batch);
    }
}

/// The thread that waits for batches.
struct Done {
    shared: Arc<Shared>,
    /// For tiles that the processor decodes again.
    fix: Batch,
    decoder: gdeflate::Decoder,
}

impl Done {
    fn run(mut self, filled: &Receiver<Filled>, free: Sender<Batch>) {
        let mut free = Some(free);
        while let Ok(mut filled) = filled.recv() {
            let waited = filled.batch.wait();
            self.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = waited {
                // The other thread may be waiting for a batch, and none comes back any more.
                free = None;
                filled.fail(&error);
                continue;
            }
            for (piece, tile) in std::mem::take(&mut filled.pieces) {
                let status = tile.map_or(GOOD, |tile| filled.batch.status(tile));
                let result = match status {
                    GOOD => Ok(()),
                    status => self.decode_again(&piece, status),
                };
                piece.part.piece_ended(result);
            }
            // Once the other thread has ended, it is not filled again.
            if let Some(free) = &free {
                let _ = free.send(filled.batch);
            }
        }
        if self.shared.context.is_lost() {
            std::mem::forget(self.fix);
        }
    }

    /// The device refused a tile: what the processor says of it counts.
    fn decode_again(&mut self, piece: &Piece, status: u32) -> Result<(), Error> {
        let counters = &self.shared.counters;
        counters.refused.fetch_add(1, Ordering::Relaxed);
        let mut raw = vec![0; piece.raw_len];
        let decoder = &mut self.decoder;
        let decode = |stored: &[u8]| decoder.decode_tile(stored, &mut raw);
        let decoded = piece.part.with_bytes(piece.bytes.clone(), decode);
        decoded.map_err(|error| corrupt(&error))?;
        if status != LIMIT {
            let disagreed = counters.disagreed.fetch_add(1, Ordering::Relaxed) + 1;
            if disagreed >= limits::DISAGREEMENTS_MAX {
                self.shared.decodes.store(false, Ordering::Relaxed);
            }
        }
        if self.shared.context.is_lost() {
            // It may still be in use.
            return Err(lost());
        }
        self.fix.clear();
        let target = &piece.part.target;
        target.add_bytes(&mut self.fix, piece.at, &raw);
        let fixed = self.fix.submit().and_then(|()| self.fix.wait());
        if fixed.is_err() {
            std::mem::forget(Arc::clone(&piece.part.target));
        }
        fixed
    }
}

fn lost() -> Error {
    let result = vk::Result::ERROR_DEVICE_LOST;
    Error::new(ErrorKind::DeviceLost, result.to_string())
}
