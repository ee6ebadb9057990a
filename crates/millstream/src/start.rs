//! Start and stop of a storage: its device is made on the thread that will own it.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_io::backend::{BackendOptions, Maker};
use millstream_io::fs::reserve_descriptors;
use millstream_io::thread::is_alone;
use millstream_io::{DeviceKind, FileSystem};

use crate::caller::queue::{EngineSide, Mailbox};
use crate::decode::workers::Workers;
use crate::engine::files::Files;
use crate::engine::lanes::Lanes;
use crate::engine::{Engine, or_abort};
use crate::error::{Error, ErrorKind};
use crate::handover::park::StorageThread;
use crate::options::StorageOptions;
use crate::sync::{Mutex, lock};

/// Takes the backend out of the options: how to make the device, and the file system that goes with
/// it.
pub(crate) fn backend(options: &mut StorageOptions) -> (Maker, Arc<dyn FileSystem>) {
    let backend = std::mem::take(&mut options.backend);
    backend.maker(BackendOptions {
        depth: options.depth,
        io_threads: options.threads.io_threads,
        single_issuer: !options.threads.pumped,
        mask: options.masked_features,
    })
}

/// Descriptors that the process has beside those of the storage's files.
const OTHER_DESCRIPTORS: usize = 64;

/// Most descriptors that room is made for ahead: 128 KiB of the kernel's memory.
const RESERVED_DESCRIPTORS_MAX: usize = 16_384;

/// How long a close waits for threads that have nothing more to do.
const JOIN_GRACE: Duration = Duration::from_millis(100);

/// The threads of a storage, and its device.
pub(crate) struct Started {
    pub(crate) kind: DeviceKind,
    pub(crate) reason: String,
    engine: Mutex<Option<EngineThread>>,
    workers: Arc<Workers>,
}

/// The engine's thread.
struct EngineThread {
    handle: JoinHandle<()>,
    /// Disconnected once the thread has dropped all that it had of the application.
    ended: mpsc::Receiver<Result<About, Error>>,
}

/// Starts the engine and the workers; returns once the device is made.
pub(crate) fn start(
    shared: &Arc<Mailbox>,
    side: EngineSide,
    maker: Maker,
) -> Result<Started, Error> {
    let threads = &shared.options.threads;
    let count = match threads.pumped {
        true => 0,
        false => threads.workers.unwrap_or(1),
    };
    // The first opens would wait for the growth of the table several times. While there are no
    // threads it takes microseconds.
    let descriptors = Files::descriptors_max(shared.options.descriptors);
    let descriptors = descriptors.min(RESERVED_DESCRIPTORS_MAX) + OTHER_DESCRIPTORS;
    let later = (!is_alone()).then_some(descriptors);
    if later.is_none() {
        reserve_descriptors(descriptors);
    }
    let workers = Workers::start(count, &threads.worker, later);
    let workers = workers.map_err(|_| no_thread())?;
    let workers = Arc::new(workers);
    let (thread, (kind, reason)) = if threads.pumped {
        let (engine, about) = create(shared, side, maker, Arc::clone(&workers))?;
        shared.set_pump(Box::new(engine));
        (None, about)
    } else {
        let started = start_engine(shared, side, maker, Arc::clone(&workers));
        let (thread, about) = started.inspect_err(|_| workers.end(None))?;
        (Some(thread), about)
    };
    Ok(Started {
        kind,
        reason,
        engine: Mutex::new(thread),
        workers,
    })
}

/// The kind of the device, and why it was chosen.
type About = (DeviceKind, String);

fn start_engine(
    shared: &Arc<Mailbox>,
    side: EngineSide,
    maker: Maker,
    workers: Arc<Workers>,
) -> Result<(EngineThread, About), Error> {
    let (send, ended) = mpsc::sync_channel(1);
    let own = Arc::clone(shared);
    let body = move |send: &mpsc::SyncSender<_>| {
        let _on = StorageThread::enter();
        own.options.threads.engine.apply(0);
        match create(&own, side, maker, workers) {
            Ok((mut engine, about)) => {
                let _ = send.send(Ok(about));
                or_abort(&own, || engine.run());
            }
            Err(error) => {
                let _ = send.send(Err(error));
            }
        }
    };
    // The channel ends after the body has dropped what it captured.
    let run = move || body(&send);
    let handle = std::thread::Builder::new()
        .name("ms-engine".into())
        .spawn(run)
        .map_err(|_| no_thread())?;
    match ended.recv() {
        Ok(Ok(about)) => Ok((EngineThread { handle, ended }, about)),
        Ok(Err(error)) => {
            let _ = handle.join();
            Err(error)
        }
        Err(_) => Err(Error::new(
            ErrorKind::Io,
            "the engine thread ended while the device was being made",
        )),
    }
}

fn create(
    shared: &Arc<Mailbox>,
    side: EngineSide,
    maker: Maker,
    workers: Arc<Workers>,
) -> Result<(Engine, About), Error> {
    let made = maker()?;
    let about = (made.device.kind(), made.reason);
    let fs = Arc::clone(&shared.fs);
    let lanes = Lanes::new(made.device, made.slow_apart, &shared.options, fs);
    shared.set_bell(lanes.doorbell());
    Ok((Engine::new(shared, side, lanes, workers)?, about))
}

fn no_thread() -> Error {
    Error::new(ErrorKind::OutOfMemory, "the system refused another thread")
}

impl Started {
    /// Ends the threads after a close. `clean`: the engine has ended and the system holds nothing.
    /// Else the engine's thread is not joined: when a thread exits the kernel waits for its ring's
    /// operations. It is waited for, a moment, until it has dropped what it had of the application.
    /// What the threads left behind may touch is not freed.
    pub(crate) fn join(&self, clean: bool) {
        let grace = if clean { JOIN_GRACE } else { Duration::ZERO };
        self.workers.end(Some(Instant::now() + grace));
        let engine = lock(&self.engine).take();
        match engine {
            Some(engine) if clean => _ = engine.handle.join(),
            Some(engine) => _ = engine.ended.recv_timeout(JOIN_GRACE),
            None => {}
        }
    }
}
