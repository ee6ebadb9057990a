//! Tickets that outlive their queue: they cancel their own request or nothing.

use std::time::Duration;

use millstream::{Fence, FileOptions, Priority, QueueOptions, Read, Storage, Ticket};
use millstream_testing::{this_test, wait_for};

use crate::faults::rig::{PATIENCE, Rig, each, landed, pattern};

fn wait_until_complete<T: 'static>(ticket: &Ticket<T>) {
    let is_complete = wait_for(|| ticket.is_complete());
    assert!(is_complete, "the request has not completed");
}

/// The ticket of a completed request whose queue was dropped.
fn orphan(storage: &Storage, read: Read) -> Ticket<millstream::Buffer> {
    let queue = storage.queue(QueueOptions::default()).expect("a queue");
    let ticket = queue.submit(read).expect("accepted");
    drop(queue);
    wait_until_complete(&ticket);
    ticket
}

#[test]
fn canceling_and_reprioritizing_after_the_queue_was_dropped_changes_nothing() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(8192));
        std::fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        let read = || Read::range(file, 0, 4096);
        drop(orphan(&rig.storage, read()).cancel_on_drop());
        orphan(&rig.storage, read()).cancel();
        let late = orphan(&rig.storage, read());
        late.reprioritize(Priority::High, None);
        assert!(landed(late)[..] == content[..4096], "{name}");
        // The engine has handled what was sent by then.
        assert!(landed(rig.submit(read()))[..] == content[..4096], "{name}");
        rig.finish();
    });
}

#[test]
fn a_ticket_of_a_dropped_queue_never_cancels_a_request_of_a_later_queue() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(8192));
        std::fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        let read = || Read::range(file, 0, 4096);
        for _ in 0..100 {
            let (plain, late) = (orphan(&rig.storage, read()), orphan(&rig.storage, read()));
            let late = late.cancel_on_drop();
            // Later queues may get the indices of those that were dropped.
            let fence = Fence::new(0);
            let queue = rig.storage.queue(QueueOptions::default());
            let queue = queue.expect("a queue");
            let gated = [0; 4].map(|_| read().after(&fence, 1));
            let gated = gated.map(|read| queue.submit(read).expect("accepted"));
            plain.cancel();
            plain.reprioritize(Priority::Low, None);
            drop((plain, late));
            assert!(landed(rig.submit(read()))[..] == content[..4096], "{name}");
            assert!(gated.iter().all(|ticket| !ticket.is_complete()), "{name}");
            fence.signal(1);
            for ticket in gated {
                assert!(landed(ticket)[..] == content[..4096], "{name}");
            }
        }
        rig.finish();
    });
}

#[test]
fn dropping_a_queue_lets_its_requests_in_flight_complete() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(1 << 20));
        std::fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        let queue = rig.storage.queue(QueueOptions::default());
        let queue = queue.expect("a queue");
        let mut batch = queue.batch();
        let reads = (0..256).map(|index| Read::range(file, index << 12, 1 << 12));
        let tickets: Vec<_> = reads
            .map(|read| batch.add(read).expect("accepted"))
            .collect();
        drop((batch, queue));
        for (index, mut ticket) in tickets.into_iter().enumerate() {
            let outcome = ticket.wait_timeout(PATIENCE).expect("it can be waited for");
            let bytes = outcome.expect("it completes").into_result().expect("read");
            assert!(bytes[..] == content[index << 12..][..4096], "{name}");
        }
        // Nothing is left of the queue.
        let later = Read::range(file, 0, 1).timeout(Duration::from_secs(30));
        assert!(landed(rig.submit(later))[..] == content[..1], "{name}");
        rig.finish();
    });
}
