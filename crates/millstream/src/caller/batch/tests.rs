//! Tests of a forked child, which finds locks held by threads that it does not have.

use std::task::Waker;
use std::time::Duration;

use millstream_testing::forked;

use crate::sync::lock;
use crate::{Fence, FileOptions, Group, QueueOptions, Read, Storage, StorageOptions};

#[test]
fn a_forked_child_waits_for_no_lock_of_a_queue() {
    let storage = Storage::new(StorageOptions::default()).unwrap();
    let queue = storage.queue(QueueOptions::default()).unwrap();
    let file = storage.open("none", FileOptions::default());
    let (fence, group) = (Fence::new(0), Group::new());
    let held = Read::whole(file).after(&fence, 1).group(&group);
    let ticket = queue.submit(held).unwrap();
    let mut batch = queue.batch();
    batch.signal(&fence, 2).unwrap();
    let short = Some(Duration::from_millis(1));
    // What other threads may have locked when the process forks.
    let shared = queue.shared();
    let locked = (shared.lock_all(), lock(&shared.mailbox.names));
    let mut batch = Some(batch);
    let status = forked(|| {
        let _ = queue.drain(short);
        let _ = queue.take_errors();
        let _ = queue.wait_completions(short);
        let _ = queue.completion_eventfd();
        let _ = storage.open("other", FileOptions::default());
        let _ = queue.close(file);
        let _ = storage.wait(&group, short);
        let _ = ticket.wake_when_complete(Waker::noop());
        storage.log(crate::LogLevel::Warning, "in the child");
        let mut batch = batch.take().expect("the child's");
        let refused = batch.add(Read::whole(file)).is_err();
        drop(batch);
        i32::from(!refused || fence.value() != 0 || ticket.waits_for().is_some())
    });
    drop(locked);
    assert_eq!(
        status, 0,
        "it accepted a request, raised a fence of its parent, or waits for something"
    );
}
