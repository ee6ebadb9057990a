//! The storage behind the factory.
//!
//! It exists while the factory has a reference, or a queue or a file of it exists: each of them
//! holds it. It is created with the first queue or file, as the configuration may be changed until
//! then.

use std::fs::File;
use std::io::BufWriter;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::limits::FILES_MAX;
use millstream::{Access, CodecId, LogLevel, Queue, QueueOptions, Storage, StorageOptions};

use crate::abi::{DSTORAGE_STAGING_BUFFER_SIZE_32MB, HRESULT};
use crate::memory::MemoryCodec;
use crate::results::hresult_of;
use crate::{log, system};

/// The environment variable that names a file for a trace of the engine.
const TRACE_VARIABLE: &str = "MILLSTREAM_DSTORAGE_TRACE";

/// Least staging: `SetStagingBufferSize` may ask for none, which compressed files need.
const STAGING_BYTES_MIN: usize = 4 << 20;

/// Most worker threads.
const WORKERS_MAX: usize = 256;

/// The codec of compressed memory; see [`MemoryCodec`].
pub(crate) const MEMORY_CODEC: CodecId = CodecId::APPLICATION;

/// What `DStorageSetConfiguration` and `SetStagingBufferSize` set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Configuration {
    /// Threads that decompress; `None` for the engine's choice.
    pub(crate) workers: Option<usize>,
    /// Whether the library decompresses, or the program alone.
    pub(crate) builtin: bool,
    /// Whether files are read through the system's cache alone.
    pub(crate) buffered: bool,
    pub(crate) staging_bytes: u32,
}

impl Configuration {
    pub(crate) const DEFAULT: Configuration = Configuration {
        workers: None,
        builtin: true,
        buffered: false,
        staging_bytes: DSTORAGE_STAGING_BUFFER_SIZE_32MB,
    };
}

pub(crate) struct Runtime {
    pub(crate) storage: Storage,
    /// The queue of the closes of files.
    pub(crate) closes: Queue,
    pub(crate) builtin: bool,
    /// Length of the upload heap of a queue.
    pub(crate) staging_bytes: usize,
    /// Queues and files that are open: the configuration is fixed while there are any.
    users: AtomicUsize,
}

impl Runtime {
    pub(crate) fn new(configuration: &Configuration) -> Result<Arc<Runtime>, HRESULT> {
        let mut options = StorageOptions::default();
        let staging_bytes = STAGING_BYTES_MIN.max(configuration.staging_bytes as usize);
        options.staging_bytes = staging_bytes;
        // Buffers are for what the program decompresses alone: no more stay than staging has.
        options.retained_bytes = options.staging_bytes;
        // Files stay open until their close, with up to two handles each: one closed to make
        // room would be opened again by its path, which may lead to another file by then.
        options.descriptors = 2 * FILES_MAX;
        options.threads.workers = configuration.workers.map(|it| it.min(WORKERS_MAX));
        if configuration.buffered {
            options.access = Access::Buffered;
        }
        options.log = Some(Arc::new(|level, text: &str| {
            let is_warning = level == LogLevel::Warning;
            log::line(|| format!("{}: {text}", if is_warning { "warning" } else { "engine" }));
        }));
        options.codec(MEMORY_CODEC, MemoryCodec::default());
        let made = Storage::new(options).and_then(|storage| {
            let mut options = QueueOptions::default();
            options.name = String::from("closes");
            let closes = storage.queue(options)?;
            Ok((storage, closes))
        });
        let (storage, closes) = made.map_err(|error| {
            log::error(|| format!("cannot create the storage: {error}"));
            hresult_of(&error)
        })?;
        log::line(|| format!("storage created: {configuration:?}"));
        if std::env::var_os(TRACE_VARIABLE).is_some() {
            storage.start_trace();
        }
        Ok(Arc::new(Runtime {
            storage,
            closes,
            builtin: configuration.builtin,
            staging_bytes,
            users: AtomicUsize::new(0),
        }))
    }

    /// Counts a queue or file that was opened.
    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn remove_user(&self) {
        let before = self.users.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a queue or file was counted twice");
    }

    pub(crate) fn has_users(&self) -> bool {
        self.users.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if system::is_exiting() {
            std::mem::forget(self.storage.clone());
            return;
        }
        if system::holds_loader_lock() {
            // Closing waits for threads to end, which they cannot now: another thread closes it.
            let storage = ManuallyDrop::new(self.storage.clone());
            let closer = move || drop(ManuallyDrop::into_inner(storage));
            // If it cannot start, the storage stays open.
            let _ = std::thread::Builder::new().spawn(closer);
        }
        log::line(|| String::from("storage closed"));
        let Some(path) = std::env::var_os(TRACE_VARIABLE) else {
            return;
        };
        let written = File::create(&path).and_then(|file| {
            let mut file = BufWriter::new(file);
            self.storage.take_trace().write_json(&mut file)
        });
        if let Err(error) = written {
            log::error(|| format!("cannot write the trace {path:?}: {error}"));
        }
    }
}
