//! The thread that fills and submits batches.
//!
//! Pieces wait by priority and arrival. A batch is submitted as soon as nothing is left to add; it
//! waits briefly for more only while others are in flight. A tile that the device rejected is
//! decoded by the processor. When the device is lost, everything ends with that error, and batches
//! in flight are leaked: the device may still use their memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use millstream::{Error, Priority};

use crate::batch::{Batch, Bytes};
use crate::decoder::LIMIT;
use crate::error::{closed, lost};
use crate::lane::{Lane, Shared};
use crate::limits;
use crate::message::{Filled, Message};
use crate::pieces::{Piece, Work, corrupt};
use crate::record::Recorder;

/// The state of this thread.
pub(crate) struct Sending {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
    messages: Receiver<Message>,
    filled: Sender<Filled>,
    free: Vec<Batch>,
    /// Number of batches that the device or the application has.
    out: usize,
    closing: bool,
    pending: BTreeMap<(Reverse<Priority>, u64), Piece>,
    arrivals: u64,
    decoder: gdeflate::Decoder,
}

impl Sending {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        lane: Arc<Lane>,
        (messages, filled): (Receiver<Message>, Sender<Filled>),
        free: Vec<Batch>,
    ) -> Sending {
        Sending {
            shared: Arc::clone(shared),
            lane,
            messages,
            filled,
            free,
            out: 0,
            closing: false,
            pending: BTreeMap::new(),
            arrivals: 0,
            decoder: gdeflate::Decoder::new(),
        }
    }

    pub(crate) fn run(mut self) {
        loop {
            while !self.pending.is_empty() && !self.shared.context.is_lost() {
                let Some(batch) = self.free.pop() else { break };
                self.fill_and_submit(batch);
            }
            if self.shared.context.is_lost() {
                self.close_recorder(&lost());
                for (_, piece) in std::mem::take(&mut self.pending) {
                    piece.end(Err(lost()));
                }
            }
            if self.closing && self.pending.is_empty() && self.out == 0 {
                return;
            }
            match self.messages.recv() {
                Ok(message) => self.handle(message),
                Err(_) => return,
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Arrived(part, plans) => {
                let pieces = plans.into_iter().map(|plan| part.piece(plan));
                pieces.for_each(|piece| self.arrive(piece));
            }
            Message::Refused(piece) => self.arrive(piece),
            Message::Retired(batch) => {
                self.out -= 1;
                self.free.extend(batch.map(|batch| *batch));
            }
            // `run` checks for it.
            Message::Lost => {}
            Message::Close => {
                self.closing = true;
                self.close_recorder(&closed());
            }
        }
    }

    /// Closes the recorder: batches that were not recorded end with `error`.
    fn close_recorder(&mut self, error: &Error) {
        let recorder = self.lane.recorder.as_ref();
        for filled in recorder.map(Recorder::close).into_iter().flatten() {
            self.out -= 1;
            self.free.push(filled.refuse(error));
        }
    }

    fn arrive(&mut self, piece: Piece) {
        let key = (Reverse(piece.part.priority), self.arrivals);
        self.pending.insert(key, piece);
        self.arrivals += 1;
    }

    fn fill_and_submit(&mut self, batch: Batch) {
        let mut filled = Filled {
            batch,
            pieces: Vec::new(),
        };
        filled.batch.clear();
        let until = Instant::now() + limits::GATHER_WAIT;
        while self.add_pending(&mut filled) {
            let left = match self.out {
                0 => Duration::ZERO,
                _ => until.saturating_duration_since(Instant::now()),
            };
            match self.messages.recv_timeout(left) {
                Ok(message) => self.handle(message),
                Err(_) => break,
            }
        }
        if filled.pieces.is_empty() {
            // The processor rejected its tiles, too.
            return self.free.push(filled.batch);
        }
        self.count(&filled.batch);
        if let Some(recorder) = &self.lane.recorder {
            match recorder.offer(filled) {
                None => self.out += 1,
                Some(filled) => {
                    let is_lost = self.shared.context.is_lost();
                    let error = if is_lost { lost() } else { closed() };
                    self.free.push(filled.refuse(&error));
                }
            }
            return;
        }
        match filled.batch.submit() {
            Ok(()) => {
                self.out += 1;
                if let Err(back) = self.filled.send(filled) {
                    back.0.fail(&lost());
                }
            }
            Err(error) if self.shared.context.is_lost() => {
                filled.fail(&error);
                self.shared.lose();
            }
            Err(error) => self.free.push(filled.refuse(&error)),
        }
    }

    fn count(&self, batch: &Batch) {
        let (uploaded, imported, tiles) = batch.contents();
        let counters = &self.shared.counters;
        let add = |to: &std::sync::atomic::AtomicU64, count: usize| {
            to.fetch_add(count as u64, Ordering::Relaxed);
        };
        add(&counters.batches, 1);
        add(&counters.uploaded_bytes, uploaded);
        add(&counters.imported_bytes, imported);
        add(&counters.tiles, tiles as usize);
    }

    /// Adds pending pieces, highest priority first; false if the next one needs another batch.
    fn add_pending(&mut self, filled: &mut Filled) -> bool {
        while let Some(first) = self.pending.first_entry() {
            let piece = first.get();
            let on_device = piece.work == Work::Tile && self.shared.suits(piece);
            let is_decoded = matches!(piece.work, Work::Tile | Work::Refused(_)) && !on_device;
            let bytes = match is_decoded {
                true => piece.raw_len,
                false => piece.bytes.len(),
            };
            let batch = &filled.batch;
            if !batch.has_room((bytes, piece.raw_len), on_device)
                || piece.part.target.is_written(batch, piece.at, piece.raw_len)
            {
                return false;
            }
            let piece = first.remove();
            match is_decoded {
                true => self.add_decoded(filled, piece),
                false => self.add(filled, piece),
            }
        }
        true
    }

    fn add(&self, filled: &mut Filled, piece: Piece) {
        let (target, batch) = (Arc::clone(&piece.part.target), &mut filled.batch);
        let tile = piece.with_bytes(|bytes| {
            let bytes = self.shared.found(bytes);
            match piece.work {
                Work::Tile => Some(target.add_tile(batch, (piece.at, piece.raw_len), bytes)),
                Work::Last => {
                    target.add_last(batch);
                    None
                }
                Work::Copy | Work::Refused(_) => {
                    target.add_bytes(batch, piece.at, bytes);
                    None
                }
            }
        });
        filled.pieces.push((piece, tile));
    }

    /// Decodes a tile on the processor, whose result counts, and adds its raw bytes.
    fn add_decoded(&mut self, filled: &mut Filled, piece: Piece) {
        let mut raw = vec![0; piece.raw_len];
        let decoder = &mut self.decoder;
        let decoded = piece.with_bytes(|stored| decoder.decode_tile(stored, &mut raw));
        match decoded {
            Ok(()) => {
                if let Work::Refused(status) = piece.work {
                    self.disagree(status);
                }
                let target = Arc::clone(&piece.part.target);
                target.add_bytes(&mut filled.batch, piece.at, Bytes::new(&raw));
                filled.pieces.push((piece, None));
            }
            Err(error) => piece.end(Err(corrupt(&error))),
        }
    }

    /// Counts a tile that the device rejected but the processor finds valid.
    fn disagree(&self, status: u32) {
        if status == LIMIT {
            return;
        }
        let counters = &self.shared.counters;
        let disagreed = counters.disagreed.fetch_add(1, Ordering::Relaxed) + 1;
        if disagreed >= limits::DISAGREEMENTS_MAX {
            self.shared.decodes.store(false, Ordering::Relaxed);
        }
    }
}
