//! The threads of a device's queues.
//!
//! ```text
//! pieces → send: batch → queue → done: completes
//!           ↑                     │
//!           └── empty batches ────┘
//! ```
//!
//! Each queue has a thread that fills batches and submits them (`sending`), and one that waits for
//! them and completes their pieces (`done`).

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use millstream::Error;

use crate::batch::Batch;
use crate::context::Context;
use crate::decoder::Decoder;
use crate::done::Done;
use crate::lane::{Counters, Lane, Shared};
use crate::limits;
use crate::message::{Filled, Message};
use crate::queue::Queue;
use crate::record::Recorder;
use crate::sending::Sending;

/// A lane whose threads are not started yet, and what they need.
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
            true => Some(Recorder::new(context, to_done.clone(), to_send.clone())?),
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
    fn start(
        self,
        shared: &Arc<Shared>,
        number: usize,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<(), Error> {
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
        // The first thread ends by itself if the second does not start.
        threads.push(spawn(format!("ms-gpu-done-{number}"), || done.run())?);
        threads.push(spawn(format!("ms-gpu-send-{number}"), || sending.run())?);
        Ok(())
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
        if let Err(error) = ends.start(&shared, number, &mut threads) {
            shared.close();
            drop(shared.compute.recorder.as_ref().map(Recorder::close));
            for thread in threads {
                // The thread uses the device until it has ended.
                let _ = thread.join();
            }
            return Err(error);
        }
    }
    Ok((shared, threads))
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let started = std::thread::Builder::new().name(name).spawn(body);
    started.map_err(|error| Error::from_os("starting a thread", &error))
}
