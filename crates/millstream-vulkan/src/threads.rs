//! The queues that parts go to, and what their threads share.
//!
//! ```text
//! pieces → send: batch → queue → done: answers
//!           ↑                     │
//!           └── empty batches ────┘
//! ```
//!
//! Each queue has a thread that fills batches and submits them (`sending`), and one that waits for
//! them and answers (`done`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use ash::vk;
use millstream::{DevicePart, Error, ErrorKind, PartForm};

use crate::batch::{Batch, Bytes};
use crate::context::Context;
use crate::decoder::Decoder;
use crate::done::Done;
use crate::import::Imported;
use crate::limits;
use crate::pieces::{Piece, cut};
use crate::queue::Queue;
use crate::record::Recorder;
use crate::sending::Sending;
use crate::target::Target;

/// What a device's handle, its destinations and its threads share.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) compute: Arc<Lane>,
    /// For raw bytes, if there is a queue that only copies.
    transfer: Option<Arc<Lane>>,
    /// Whether the device decodes.
    pub(crate) decodes: AtomicBool,
    pub(crate) imports: RwLock<Vec<Imported>>,
    pub(crate) counters: Counters,
}

/// The way to the threads of a queue.
pub(crate) struct Lane {
    sender: Mutex<Option<Sender<Message>>>,
    /// Of a queue that the application submits to.
    pub(crate) recorder: Option<Recorder>,
}

/// What the sending thread is told.
pub(crate) enum Message {
    /// The pieces of a part.
    Arrived(Vec<Piece>),
    /// A piece whose tile the device refused.
    Refused(Piece),
    /// A batch that the device is done with; none, if it is lost.
    Retired(Option<Box<Batch>>),
    /// Nothing arrives any more.
    Close,
}

/// See [`GpuStats`](crate::GpuStats).
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) uploaded_bytes: AtomicU64,
    pub(crate) imported_bytes: AtomicU64,
    pub(crate) tiles: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) disagreed: AtomicU64,
}

impl Shared {
    /// Takes a part in; a failure ends it.
    pub(crate) fn take(&self, part: DevicePart, target: Arc<Target>) {
        let is_copied = part.form() == PartForm::Raw && target.is_shared();
        let transfer = self.transfer.as_ref().filter(|_| is_copied);
        let lane = transfer.unwrap_or(&self.compute);
        let pieces = cut(part, target);
        if !pieces.is_empty() {
            lane.give(pieces);
        }
    }

    /// Lets the threads end once everything before has been answered.
    pub(crate) fn close(&self) {
        let lanes = [Some(&self.compute), self.transfer.as_ref()];
        for lane in lanes.into_iter().flatten() {
            let mut sender = lane.sender.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sender) = sender.take() {
                // A thread that has ended needs no message.
                let _ = sender.send(Message::Close);
            }
        }
    }

    /// Whether the device decodes this tile.
    pub(crate) fn suits(&self, piece: &Piece) -> bool {
        let stored_len = piece.bytes.len();
        self.decodes.load(Ordering::Relaxed)
            && stored_len.is_multiple_of(4)
            && stored_len <= limits::TILE_STORED_BYTES_MAX
            && piece.raw_len <= limits::TILE_BYTES
            && piece.part.target.takes_tile(piece.at, piece.raw_len)
    }

    /// Bytes of a part, and where the device finds them.
    pub(crate) fn found<'a>(&self, bytes: &'a [u8]) -> Bytes<'a> {
        let imports = self.imports.read().unwrap_or_else(PoisonError::into_inner);
        Bytes {
            bytes,
            imported: imports.iter().find_map(|import| import.find(bytes)),
        }
    }
}

impl Lane {
    fn give(&self, pieces: Vec<Piece>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = match &*sender {
            Some(sender) => sender
                .send(Message::Arrived(pieces))
                .err()
                .map(|error| error.0),
            None => Some(Message::Arrived(pieces)),
        };
        drop(sender);
        if let Some(Message::Arrived(pieces)) = refused {
            for piece in pieces {
                piece.end(Err(closed()));
            }
        }
    }
}

/// A batch, and whose answers it brings.
pub(crate) struct Filled {
    pub(crate) batch: Batch,
    /// Pieces, and the numbers of their tiles.
    pub(crate) pieces: Vec<(Piece, Option<u32>)>,
}

impl Filled {
    /// Ends everything in it, which the device did not take; the batch.
    pub(crate) fn refuse(mut self, error: &Error) -> Batch {
        self.batch.forget();
        for (piece, _) in self.pieces {
            piece.end(Err(error.clone()));
        }
        self.batch
    }

    /// Ends everything in it. The device may still use its memory and write to the destinations:
    /// both are leaked.
    pub(crate) fn fail(self, error: &Error) {
        for (piece, _) in self.pieces {
            std::mem::forget(Arc::clone(&piece.part.target));
            piece.end(Err(error.clone()));
        }
        std::mem::forget(self.batch);
    }
}

/// A lane to be, and what its threads need of it.
struct Ends {
    lane: Arc<Lane>,
    batches: Vec<Batch>,
    to_send: Sender<Message>,
    messages: Receiver<Message>,
    to_done: Sender<Filled>,
    filled: Receiver<Filled>,
}

impl Ends {
    fn new(
        context: &Arc<Context>,
        queue: &Arc<Queue>,
        decoder: Option<&Arc<Decoder>>,
    ) -> Result<Ends, Error> {
        let (to_send, messages) = channel();
        let (to_done, filled) = channel();
        let recorder = match queue.is_recorded() {
            true => Some(Recorder::new(context, to_done.clone())?),
            false => None,
        };
        let batch = |_| Batch::new(context, queue, decoder.cloned());
        Ok(Ends {
            lane: Arc::new(Lane {
                sender: Mutex::new(Some(to_send.clone())),
                recorder,
            }),
            batches: (0..limits::BATCHES).map(batch).collect::<Result<_, _>>()?,
            to_send,
            messages,
            to_done,
            filled,
        })
    }

    /// Starts the threads, which end when the lane is closed.
    fn start(self, shared: &Arc<Shared>, number: usize) -> Result<[JoinHandle<()>; 2], Error> {
        let done = Done {
            shared: Arc::clone(shared),
            filled: self.filled,
            back: self.to_send,
        };
        let sending = Sending::new(
            shared,
            self.lane,
            (self.messages, self.to_done),
            self.batches,
        );
        // The waiting one ends by itself where the other does not start.
        let done = spawn(format!("ms-gpu-done-{number}"), move || done.run())?;
        let sending = spawn(format!("ms-gpu-send-{number}"), move || sending.run())?;
        Ok([sending, done])
    }
}

/// Starts the threads of a device.
pub(crate) fn start(
    context: Arc<Context>,
    decoder: Option<Arc<Decoder>>,
) -> Result<(Arc<Shared>, Vec<JoinHandle<()>>), Error> {
    let compute = Ends::new(&context, &context.compute, decoder.as_ref())?;
    let transfer = context.transfer.as_ref();
    let transfer = transfer.map(|queue| Ends::new(&context, queue, None));
    let transfer = transfer.transpose()?;
    let shared = Arc::new(Shared {
        compute: Arc::clone(&compute.lane),
        transfer: transfer.as_ref().map(|ends| Arc::clone(&ends.lane)),
        context,
        decodes: AtomicBool::new(decoder.is_some()),
        imports: RwLock::default(),
        counters: Counters::default(),
    });
    let mut threads = Vec::new();
    for (number, ends) in [Some(compute), transfer].into_iter().flatten().enumerate() {
        match ends.start(&shared, number) {
            Ok(started) => threads.extend(started),
            Err(error) => {
                shared.close();
                return Err(error);
            }
        }
    }
    Ok((shared, threads))
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let started = std::thread::Builder::new().name(name).spawn(body);
    started.map_err(|error| Error::from_os("starting a thread", &error))
}

pub(crate) fn lost() -> Error {
    let result = vk::Result::ERROR_DEVICE_LOST;
    Error::new(ErrorKind::DeviceLost, result.to_string())
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the GPU's handle was dropped")
}
