//! The queues that parts are sent to, and the state that their threads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use millstream::{DevicePart, PartForm};

use crate::batch::Bytes;
use crate::context::Context;
use crate::error::closed;
use crate::import::Imported;
use crate::limits;
use crate::message::Message;
use crate::pieces::{Piece, cut};
use crate::record::Recorder;
use crate::target::Target;

/// State shared by a device's handle, its destinations and its threads.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) compute: Arc<Lane>,
    /// The lane for raw bytes, if there is a transfer queue.
    pub(crate) transfer: Option<Arc<Lane>>,
    /// Whether the device decodes.
    pub(crate) decodes: AtomicBool,
    pub(crate) imports: RwLock<Vec<Imported>>,
    pub(crate) counters: Counters,
}

/// The channel to the threads of a queue.
pub(crate) struct Lane {
    pub(crate) sender: Mutex<Option<Sender<Message>>>,
    /// The recorder, if only the application submits to the queue.
    pub(crate) recorder: Option<Recorder>,
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
    /// Sends a part to a queue; a failure ends the part.
    pub(crate) fn take(&self, part: DevicePart, target: Arc<Target>) {
        let is_copied = part.form() == PartForm::Raw && target.is_shared();
        let transfer = self.transfer.as_ref().filter(|_| is_copied);
        let lane = transfer.unwrap_or(&self.compute);
        if let Some((part, plans)) = cut(&self.context, part, target) {
            lane.give(Message::Arrived(part, plans));
        }
    }

    /// Lets the threads end once all earlier parts have been completed.
    pub(crate) fn close(&self) {
        for lane in self.lanes() {
            let sender = lane.sender().take();
            if let Some(sender) = sender {
                // A thread that has ended needs no message.
                let _ = sender.send(Message::Close);
            }
        }
    }

    /// Ends all parts with `DeviceLost`, including those that wait to be recorded.
    pub(crate) fn lose(&self) {
        self.context.set_lost();
        for lane in self.lanes() {
            // A thread that has ended needs no message.
            let _ = lane.sender().as_ref().map(|it| it.send(Message::Lost));
        }
    }

    fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        [&self.compute].into_iter().chain(&self.transfer)
    }

    /// Whether the device decodes this tile.
    pub(crate) fn suits(&self, piece: &Piece) -> bool {
        let stored_len = piece.bytes.len();
        self.decodes.load(Ordering::Relaxed)
            && stored_len.is_multiple_of(4)
            && stored_len <= limits::TILE_STORED_BYTES_MAX
            && piece.raw_len <= limits::TILE_BYTES
    }

    /// Returns bytes of a part with their place in imported staging, if they have one.
    pub(crate) fn found<'a>(&self, bytes: &'a [u8]) -> Bytes<'a> {
        let imports = self.imports.read().unwrap_or_else(PoisonError::into_inner);
        Bytes {
            bytes,
            imported: imports.iter().find_map(|import| import.find(bytes)),
        }
    }
}

impl Lane {
    fn sender(&self) -> MutexGuard<'_, Option<Sender<Message>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a part to the thread; if the thread is gone, the part ends with `Closed`.
    fn give(&self, arrived: Message) {
        let sender = self.sender();
        let refused = match &*sender {
            Some(sender) => sender.send(arrived).err().map(|error| error.0),
            None => Some(arrived),
        };
        drop(sender);
        if let Some(Message::Arrived(part, plans)) = refused {
            for plan in plans {
                part.piece(plan).end(Err(closed()));
            }
        }
    }
}

/// Implements `DeviceSink` for a handle that has a `Target`.
macro_rules! device_sink {
    ($handle:ident) => {
        impl $handle {
            /// Whether the device was lost, see [`Gpu::is_lost`](crate::Gpu::is_lost).
            #[must_use]
            pub fn is_lost(&self) -> bool {
                self.shared.context.is_lost()
            }
        }

        impl millstream::DeviceSink for $handle {
            fn room(&self) -> u64 {
                self.target.len()
            }

            fn decodes(&self, codec: millstream::CodecId) -> bool {
                let decodes = &self.shared.decodes;
                codec == millstream::CodecId::GDEFLATE
                    && decodes.load(std::sync::atomic::Ordering::Relaxed)
            }

            fn wants_last(&self) -> bool {
                self.target.wants_last()
            }

            fn take(&self, part: millstream::DevicePart) {
                self.shared.take(part, Arc::clone(&self.target));
            }
        }
    };
}
pub(crate) use device_sink;
