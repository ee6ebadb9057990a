//! Models of the concurrent parts, on the code that ships. Loom checks them over all interleavings
//! and reorderings that it knows, up to a bound of preemptions
//! (`RUSTFLAGS="--cfg model --cfg loom"`); shuttle checks them, and a composition that is too large
//! for loom, over many random interleavings (`--cfg model --cfg shuttle`).
//!
//! In a model loom treats SeqCst accesses as acquire and release: only SeqCst fences order stores
//! before loads. Blocking calls block in loom, which reports a thread that is never woken.

mod completion;
#[cfg(shuttle)]
mod composition;
mod crew;
mod mail;
mod slots;

use std::sync::Arc;

use crate::caller::request::Read;
use crate::handover::mailbox::Shared;
use crate::handover::names::Names;
use crate::ids::StorageNumber;
use crate::options::StorageOptions;
use crate::sync::thread::spawn;
use crate::sync::{AtomicU64, Ordering};
use crate::{Buffer, FileId};

/// Checks a model over random interleavings.
#[cfg(shuttle)]
fn check(_preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(model, 2000);
}

/// Checks a model with at most `preemptions` preemptions in an execution.
#[cfg(loom)]
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
