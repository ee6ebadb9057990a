//! What a forked child finds locked: by threads that it does not have.
#![expect(unsafe_code, reason = "forks, and waits for the child")]

use std::task::Waker;
use std::time::Duration;

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
    // SAFETY: the child makes the calls that this test is about, and leaves by _exit; if one waits,
    // the alarm ends it.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(10);
            let _ = queue.drain(short);
            let _ = queue.take_errors();
            let _ = queue.wait_completions(short);
            let _ = queue.completion_eventfd();
            let _ = storage.open("other", FileOptions::default());
            let _ = queue.close(file);
            let _ = storage.wait(&group, short);
            let _ = ticket.wake_when_complete(Waker::noop());
            storage.log(crate::LogLevel::Warning, "in the child");
            let refused = batch.add(Read::whole(file)).is_err();
            drop(batch);
            libc::_exit(i32::from(!refused || fence.value() != 0));
        }
        child
    };
    drop(locked);
    let mut status = 0;
    // SAFETY: waits for the child made above, and writes one number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status),
        "the child waits for a thread of its parent"
    );
    assert_eq!(
        libc::WEXITSTATUS(status),
        0,
        "it accepted a request, or raised a fence of its parent"
    );
}
