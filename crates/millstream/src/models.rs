//! Models of the concurrent parts, checked over all interleavings and reorderings that loom knows
//! (up to a bound of preemptions), on the code that ships: `RUSTFLAGS="--cfg loom"`.
//!
//! In a model loom treats SeqCst accesses as acquire and release: only SeqCst fences order stores
//! before loads. Blocking calls block in loom, which reports a thread that is never woken.

mod completion;
mod mail;
mod slots;

use std::sync::Arc;

use loom::thread;

use crate::ids::StorageNumber;
use crate::names::Names;
use crate::options::StorageOptions;
use crate::request::{Parts, Read, Request};
use crate::sync::{AtomicU64, Ordering};
use crate::{Buffer, FileId, mailbox::Shared};

/// Checks a model with at most `preemptions` preemptions in an execution.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A request that keeps a reference to `token` until its memory is dropped.
fn request(token: &Arc<()>) -> Read<Buffer> {
    let token = Arc::clone(token);
    let supply = move |_| {
        drop(token);
        None
    };
    Read::range(FileId::from_bits(0), 0, 8)
        .supplied(supply)
        .user_data(7)
}

fn parts(token: &Arc<()>) -> Parts {
    fn taken_apart(request: impl Request) -> Parts {
        request.into_parts()
    }
    taken_apart(request(token))
}

/// The shared half of a storage that has no files and no threads.
fn mailbox<Q: Send + Sync + 'static>() -> Arc<Shared<Q>> {
    let (storage, first) = StorageNumber::take().expect("a number");
    storage.give_back(first);
    let files = Arc::new(millstream_io::fs::OsFileSystem::new());
    Shared::new(StorageOptions::default(), files, Names::new(storage, first))
}

/// A step that loom orders against the same step of other threads in all ways. Put before an atomic
/// load whose value a load and compare-exchange of another thread changes, which loom overlooks.
fn step(steps: &AtomicU64) {
    steps.fetch_add(1, Ordering::Relaxed);
}

fn spawn<T: 'static>(run: impl FnOnce() -> T + 'static) -> thread::JoinHandle<T> {
    thread::spawn(run)
}
