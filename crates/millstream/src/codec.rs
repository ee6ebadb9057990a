//! Codecs of the application, from number 0x80 on.
//!
//! Three kinds: a function over a whole block, a stream decoder (parsers are of this kind), and a
//! codec that the application pulls: it takes [`PulledDecode`]s from the storage and answers them
//! when it likes, on any thread.
//!
//! ```
//! use millstream::codec::{ApplicationCodec, Codecs};
//! use millstream::CodecId;
//! let mut codecs = Codecs::default();
//! codecs.add(CodecId(0x80), ApplicationCodec::whole(|stored, raw| {
//!     for (to, from) in raw.iter_mut().zip(stored) {
//!         *to = !from;
//!     }
//!     Ok(stored.len())
//! }));
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use millstream_codec::{CodecId, StreamDecoder};

use crate::error::{Error, ErrorKind};
use crate::job::{DecodeJob, JobResult, decoded};
use crate::park;
use crate::storage::Shared;
use crate::waiters::{Waiters, lock};

/// Decodes a whole block: stored bytes to raw bytes; returns how many raw bytes it wrote, or the
/// likely cause of the failure.
pub type WholeFunction = dyn Fn(&[u8], &mut [u8]) -> Result<usize, &'static str> + Send + Sync;

/// Makes a stream decoder for one request.
pub type StreamFactory = dyn Fn() -> Box<dyn StreamDecoder> + Send + Sync;

/// A codec of the application.
#[derive(Clone)]
#[non_exhaustive]
pub enum ApplicationCodec {
    /// A function over the whole stored bytes, run on a worker. They must fit into staging at once.
    Whole(Arc<WholeFunction>),
    /// A decoder that is fed window by window, on workers, while the next windows are read.
    Stream(Arc<StreamFactory>),
    /// Taken by the application with [`Storage::pull`](crate::Storage::pull), and answered later.
    Pulled,
}

impl ApplicationCodec {
    /// A whole-block codec from a function.
    pub fn whole(
        function: impl Fn(&[u8], &mut [u8]) -> Result<usize, &'static str> + Send + Sync + 'static,
    ) -> ApplicationCodec {
        ApplicationCodec::Whole(Arc::new(function))
    }

    /// A stream codec from a factory.
    pub fn stream(
        factory: impl Fn() -> Box<dyn StreamDecoder> + Send + Sync + 'static,
    ) -> ApplicationCodec {
        ApplicationCodec::Stream(Arc::new(factory))
    }
}

/// Raw bytes that stored bytes hold, read from their head: the first window of them (all of them
/// for a whole-block codec) and how many there are in all; or the likely cause of the failure.
pub type SizeFunction = dyn Fn(&[u8], u64) -> Result<u64, &'static str> + Send + Sync;

#[derive(Clone)]
struct Registered {
    codec: ApplicationCodec,
    size: Option<Arc<SizeFunction>>,
}

/// The application's codecs of a storage.
#[derive(Clone, Default)]
pub struct Codecs(BTreeMap<u8, Registered>);

impl Codecs {
    /// Registers a codec. Its requests must say their raw length.
    ///
    /// # Panics
    /// If the number is below 0x80 or taken.
    pub fn add(&mut self, id: CodecId, codec: ApplicationCodec) {
        self.register(id, codec, None);
    }

    /// Registers a codec whose stored bytes declare how many raw bytes they hold: its requests need
    /// not. `size` runs on the engine's thread, so it must look at a header and no more; a panic
    /// fails the request.
    ///
    /// # Panics
    /// If the number is below 0x80 or taken.
    pub fn add_sized(
        &mut self,
        id: CodecId,
        codec: ApplicationCodec,
        size: impl Fn(&[u8], u64) -> Result<u64, &'static str> + Send + Sync + 'static,
    ) {
        self.register(id, codec, Some(Arc::new(size)));
    }

    fn register(&mut self, id: CodecId, codec: ApplicationCodec, size: Option<Arc<SizeFunction>>) {
        assert!(
            id >= CodecId::APPLICATION,
            "numbers below 0x80 are the library's"
        );
        assert!(
            self.0.insert(id.0, Registered { codec, size }).is_none(),
            "codec {:#x} is taken",
            id.0
        );
    }

    pub(crate) fn get(&self, id: CodecId) -> Option<&ApplicationCodec> {
        self.0.get(&id.0).map(|registered| &registered.codec)
    }

    /// The raw size that `head` declares, if the codec can tell.
    pub(crate) fn declared(
        &self,
        id: CodecId,
        head: &[u8],
        stored_len: u64,
    ) -> Option<Result<u64, Error>> {
        let size = self.0.get(&id.0)?.size.as_ref()?;
        let declared = catch_unwind(AssertUnwindSafe(|| size(head, stored_len)))
            .unwrap_or(Err("the codec panicked"))
            .map_err(|cause| Error::new(ErrorKind::Application, cause));
        Some(declared)
    }
}

impl std::fmt::Debug for Codecs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Blocks that wait to be pulled.
#[derive(Default)]
pub(crate) struct Pull {
    waiting: Mutex<VecDeque<DecodeJob>>,
    waiters: Waiters,
}

impl Pull {
    pub(crate) fn push(&self, job: DecodeJob) {
        lock(&self.waiting).push_back(job);
        self.waiters.wake();
    }

    pub(crate) fn wait(&self, shared: &Arc<Shared>, timeout: Duration) -> Option<PulledDecode> {
        let deadline = Some(Instant::now() + timeout);
        let mut job = park::block_on(deadline, |waker: &Waker| {
            let look = || lock(&self.waiting).pop_front();
            if let Some(job) = look() {
                return Poll::Ready(job);
            }
            self.waiters.add(waker);
            look().map_or(Poll::Pending, Poll::Ready)
        })?;
        if let Err(error) = job.prepare() {
            shared.job_result(decoded(job, Err(error)));
            return None;
        }
        Some(PulledDecode {
            job: Some(job),
            shared: Arc::clone(shared),
        })
    }

    /// Answers everything that nobody pulled: the storage closes.
    pub(crate) fn refuse_all(&self, shared: &Shared) {
        let jobs: Vec<DecodeJob> = lock(&self.waiting).drain(..).collect();
        for job in jobs {
            let error = Error::new(ErrorKind::Closed, "the storage is closing");
            shared.job_result(decoded(job, Err(error)));
        }
    }
}

/// A block that the application decodes. Dropping it unanswered fails the request.
pub struct PulledDecode {
    job: Option<DecodeJob>,
    shared: Arc<Shared>,
}

impl PulledDecode {
    fn job(&self) -> &DecodeJob {
        self.job.as_ref().expect("present until answered")
    }

    /// The codec's number.
    #[must_use]
    pub fn codec(&self) -> CodecId {
        self.job().codec
    }

    /// The request's user data.
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.job().user_data
    }

    /// The stored bytes, and the destination of the raw bytes.
    pub fn bytes(&mut self) -> (&[u8], &mut [u8]) {
        self.job.as_mut().expect("present until answered").bytes()
    }

    /// Ends it: the number of raw bytes written, or the likely cause of the failure.
    pub fn answer(mut self, result: Result<usize, &'static str>) {
        self.finish(result);
    }

    fn finish(&mut self, result: Result<usize, &'static str>) {
        if let Some(job) = self.job.take() {
            let result = result.map_err(|cause| Error::new(ErrorKind::Corrupt, cause));
            let result: JobResult = decoded(job, result);
            self.shared.job_result(result);
        }
    }
}

impl Drop for PulledDecode {
    fn drop(&mut self) {
        self.finish(Err("the application dropped the block without an answer"));
    }
}
