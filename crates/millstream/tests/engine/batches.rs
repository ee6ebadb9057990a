//! Batches: what they hold back, what they reserve, and what a full queue does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::support::{Bench, each_backend, each_backend_and_pumped};
use millstream::{
    Buffer, Error, ErrorKind, Fence, FileId, Group, Queue, Read, Refused, StatusArray, Ticket,
};

fn read(file: FileId) -> Read {
    Read::range(file, 0, 1)
}

fn kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.map_err(|error| error.kind()).err()
}

fn refusal<R>(result: Result<Ticket<Buffer>, Refused<R>>) -> Option<ErrorKind> {
    result.map_err(|refused| refused.error.kind()).err()
}

#[test]
fn a_full_queue_refuses_signals_and_status_entries_that_may_not_wait() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| o.capacity = 2);
        let file = bench.file("data", 100);
        let (gate, reached, statuses) = (Fence::new(0), Fence::new(0), StatusArray::new(1));
        let mut batch = queue.batch();
        let gated = read(file).after(&gate, 1);
        batch.detach(gated).expect("room");
        let _gated = queue.submit(read(file).after(&gate, 1)).expect("room");
        let refused = [
            batch.try_signal(&reached, 1),
            batch.try_status(&statuses, 0),
        ];
        for refused in refused {
            assert_eq!(
                refused.map_err(|error| error.kind()),
                Err(ErrorKind::QueueFull)
            );
        }
        gate.signal(1);
        assert!(is_idle(bench, &queue), "what the batch held was submitted");
        batch.try_status(&statuses, 0).expect("room");
        batch.try_signal(&reached, 1).expect("room");
        batch.submit();
        assert!(bench.wait_for(|| reached.has_reached(1)));
        assert_eq!(statuses.result(0), Some(0));
    });
}

/// Waits until nothing of the queue is live or reserved.
fn is_idle(bench: &Bench, queue: &Queue) -> bool {
    bench.wait_for(|| queue.live() == 0)
}

#[test]
fn a_refused_request_comes_back_whole_and_can_be_added_again() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| o.capacity = 1);
        let file = bench.file("data", 1000);
        let (gate, group) = (Fence::new(0), Group::new());
        let mut first = queue.submit(read(file).after(&gate, 1)).expect("room");
        let request = || {
            let request = Read::range(file, 5, 10).into(vec![1u8; 10]);
            request.user_data(7).group(&group)
        };
        let mut batch = queue.batch();
        let refused = batch.try_add(request()).expect_err("full");
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
        let again = queue.try_submit(refused.request).expect_err("still full");
        assert_eq!(group.remaining(), 0, "a refused request is not counted");
        gate.signal(1);
        first.wait().expect("read");
        let mut added = batch.add(again.request).expect("room again");
        batch.submit();
        let outcome = added.outcome();
        assert_eq!((outcome.result.expect("read"), outcome.user_data), (10, 7));
        assert_eq!(
            outcome.memory.expect("the vector"),
            bench.bytes(1000)[5..15]
        );
        assert!(bench.wait_for(|| group.remaining() == 0));
        assert_eq!(group.done(), 1);
    });
}

#[test]
fn a_submitted_batch_returns_the_room_that_it_did_not_use() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| (o.capacity, o.auto_submit) = (8, false));
        let file = bench.file("data", 1000);
        let mut reserving = queue.batch();
        let mut ticket = reserving.add(read(file)).expect("room");
        assert!(queue.live() >= 1, "reserved room counts");
        reserving.submit();
        ticket.wait().expect("read");
        assert!(is_idle(bench, &queue), "{} entries are live", queue.live());
        // The first batch lives on; all room is the second one's.
        let mut other = queue.batch();
        let gate = Fence::new(0);
        for index in 0..8 {
            let added = other.try_add(read(file).after(&gate, 1));
            assert_eq!(refusal(added), None, "entry {index}");
        }
        assert_eq!(
            refusal(other.try_add(read(file))),
            Some(ErrorKind::QueueFull)
        );
        gate.signal(1);
        assert!(is_idle(bench, &queue));
    });
}

/// Slots are as few as the queue may have: what one batch took ahead must not starve others.
#[test]
fn a_batch_takes_no_slots_from_others_that_it_does_not_use() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| (o.capacity, o.unclaimed) = (8, 8));
        let file = bench.file("data", 1000);
        let gate = Fence::new(0);
        let mut batches: Vec<_> = (0..3).map(|_| queue.batch()).collect();
        let mut tickets = Vec::new();
        for batch in &mut batches {
            let ticket = batch.add(read(file)).map_err(|error| error.kind());
            assert!(ticket.is_ok(), "beside other batches: {ticket:?}");
            tickets.extend(ticket);
        }
        let alone = queue.submit(read(file).after(&gate, 1));
        tickets.push(alone.expect("a slot beside three batches"));
        gate.signal(1);
        batches.clear();
        for mut ticket in tickets {
            ticket.wait().expect("read");
        }
    });
}

#[test]
fn a_queue_full_of_entries_that_are_not_submitted_is_reported_and_never_waited_for() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| (o.capacity, o.auto_submit) = (4, false));
        let file = bench.file("data", 1000);
        let mut holding = queue.batch();
        let add = |_| holding.add(read(file)).expect("room");
        let mut tickets: Vec<_> = (0..4).map(add).collect();
        let mut other = queue.batch();
        assert_eq!(kind(other.add(read(file))), Some(ErrorKind::QueueFull));
        assert_eq!(kind(other.detach(read(file))), Some(ErrorKind::QueueFull));
        assert_eq!(kind(other.post(read(file))), Some(ErrorKind::QueueFull));
        let signaled = other.signal(&Fence::new(0), 1);
        assert_eq!(kind(signaled), Some(ErrorKind::QueueFull));
        assert_eq!(kind(queue.submit(read(file))), Some(ErrorKind::QueueFull));
        // The batch that fills the queue submits itself, and waits.
        tickets.push(holding.add(read(file)).expect("room, in the end"));
        holding.submit();
        tickets.push(other.add(read(file)).expect("room, in the end"));
        other.submit();
        for mut ticket in tickets {
            ticket.wait().expect("read");
        }
    });
}

/// Two threads that fill a tiny queue never see it full: there is always something to wait for.
#[test]
fn adding_blocks_while_requests_are_with_the_engine() {
    each_backend(|bench| {
        let queue = bench.queue_with(|o| o.capacity = 1);
        let file = bench.file("data", 1000);
        let group = Group::new();
        let submit = || {
            for _ in 0..2_000 {
                queue
                    .detach(read(file).group(&group))
                    .expect("room, in the end");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(submit);
            scope.spawn(submit);
        });
        assert!(
            group
                .wait(Some(crate::support::PATIENCE))
                .expect("may wait")
        );
        assert_eq!(group.done(), 4_000);
    });
}

#[test]
fn fifo_entries_count_towards_the_capacity() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| (o.capacity, o.auto_submit) = (4, false));
        let file = bench.file("data", 1000);
        let (gate, fence, statuses) = (Fence::new(0), Fence::new(0), StatusArray::new(1));
        let mut batch = queue.batch();
        batch.detach(read(file).after(&gate, 1)).expect("room");
        batch.signal(&fence, 1).expect("room");
        batch.status(&statuses, 0).expect("room");
        batch.signal(&fence, 2).expect("room");
        let refused = batch.try_add(read(file));
        assert_eq!(refusal(refused), Some(ErrorKind::QueueFull));
        assert_eq!(queue.live(), 4);
        gate.signal(1);
        assert!(bench.wait_for(|| fence.has_reached(2) && statuses.is_complete(0)));
        assert!(is_idle(bench, &queue), "{} entries are live", queue.live());
        let mut added = batch.try_add(read(file)).expect("room again");
        batch.submit();
        added.wait().expect("read");
    });
}

#[test]
fn a_batch_submits_by_itself_when_it_holds_half_of_the_capacity() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| o.capacity = 8);
        let file = bench.file("data", 1000);
        let mut batch = queue.batch();
        let add = |_| batch.add(read(file)).expect("room");
        let mut tickets: Vec<_> = (0..5).map(add).collect();
        let mut last = tickets.pop().expect("five");
        for ticket in &mut tickets {
            ticket.wait().expect("submitted by the batch");
        }
        assert_eq!(kind(last.wait()), Some(ErrorKind::NotSubmitted));
        batch.submit();
        last.wait().expect("read");
    });
}

#[test]
fn the_byte_budget_bounds_the_destination_bytes_under_way() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| o.bytes = Some(10_000));
        let file = bench.file("data", 50_000);
        let gate = Fence::new(0);
        let held = |len| Read::range(file, 0, len).after(&gate, 1);
        let mut first = queue.submit(held(6_000)).expect("room");
        let mut batch = queue.batch();
        let refused = batch.try_add(held(4_001));
        assert_eq!(refusal(refused), Some(ErrorKind::QueueFull));
        let mut second = batch.try_add(held(4_000)).expect("exactly the rest");
        assert_eq!(
            refusal(queue.try_submit(held(1))),
            Some(ErrorKind::QueueFull)
        );
        batch.submit();
        gate.signal(1);
        first.wait().expect("read");
        second.wait().expect("read");
        // Alone, even a request above the budget is accepted; beside it nothing is.
        let gate = Fence::new(0);
        let big = Read::range(file, 0, 50_000).after(&gate, 1);
        let mut big = queue.submit(big).expect("alone");
        let one = queue.try_submit(read(file));
        assert_eq!(refusal(one), Some(ErrorKind::QueueFull));
        big.cancel();
        assert_eq!(kind(big.wait()), Some(ErrorKind::Canceled));
        let mut after = queue.submit(Read::range(file, 0, 10_000)).expect("room");
        assert_eq!(after.wait().expect("read").len(), 10_000);
        assert!(is_idle(bench, &queue));
    });
}

#[test]
fn a_full_byte_budget_blocks_until_bytes_have_completed() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue_with(|o| o.bytes = Some(10_000));
        let file = bench.file("data", 50_000);
        let mut batch = queue.batch();
        let tickets: Vec<_> = (0..100)
            .map(|index| Read::range(file, index * 100, 6_000))
            .map(|request| batch.add(request).expect("room, in the end"))
            .collect();
        batch.submit();
        for mut ticket in tickets {
            assert_eq!(ticket.wait().expect("read").len(), 6_000);
        }
    });
}

#[test]
fn a_whole_file_counts_in_the_byte_budget_once_its_length_is_known() {
    each_backend(|bench| {
        let queue = bench.queue_with(|o| o.bytes = Some(10_000));
        let file = bench.file("data", 8_000);
        let gate = Fence::new(0);
        let whole = Read::whole(file).write_after(&gate, 1);
        let mut whole = queue.submit(whole).expect("room");
        let part = || Read::range(file, 0, 2_001);
        let counted = bench.wait_for(|| match queue.try_submit(part()) {
            Ok(mut ticket) => {
                ticket.wait().expect("read");
                false
            }
            Err(refused) => refused.error.kind() == ErrorKind::QueueFull,
        });
        assert!(counted, "8,000 bytes are under way");
        gate.signal(1);
        whole.wait().expect("read");
        let mut part = queue.submit(part()).expect("room again");
        part.wait().expect("read");
    });
}

#[test]
fn a_whole_file_into_supplied_memory_counts_once_in_the_byte_budget() {
    each_backend(|bench| {
        let queue = bench.queue_with(|o| o.bytes = Some(10_000));
        let (file, other) = (bench.file("data", 4_000), bench.file("other", 6_000));
        let gate = Fence::new(0);
        let supply = |len| Some(vec![0u8; len]);
        let whole = Read::whole(file).write_after(&gate, 1).supplied(supply);
        let mut whole = queue.submit(whole).expect("room");
        let is_staged = || bench.storage.stats().stored_bytes == 4_000;
        assert!(bench.wait_for(is_staged), "its bytes wait for the fence");
        let part = queue.try_submit(Read::range(other, 0, 6_000));
        assert_eq!(refusal(part), None, "4,000 bytes are under way");
        gate.signal(1);
        whole.wait().expect("read");
    });
}

/// Lengths near 2^63 would wrap the count of the queue's bytes.
#[test]
#[cfg(target_os = "linux")]
fn whole_files_of_any_length_count_as_no_more_than_the_byte_budget() {
    each_backend(|bench| {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            return eprintln!("SKIP: no /dev/shm");
        };
        let path = folder.path().join("endless");
        let endless = std::fs::File::create(&path).expect("a file");
        if endless.set_len(i64::MAX as u64).is_err() {
            return eprintln!("SKIP: no files of 2^63 bytes");
        }
        let queue = bench.queue_with(|o| o.bytes = Some(10_000));
        let file = bench.storage.open(&path, Default::default());
        let mut opened = bench.storage.opened(file).expect("room");
        assert_eq!(opened.wait().expect("opened").len, i64::MAX as u64);
        queue.pause();
        let submit = |_| queue.submit(Read::whole(file)).expect("room");
        let mut tickets: Vec<_> = (0..3).map(submit).collect();
        // All are counted by then; a count that wraps would end the process.
        std::thread::sleep(Duration::from_millis(20));
        tickets[0].cancel();
        assert_eq!(kind(tickets[0].wait()), Some(ErrorKind::Canceled));
        queue.resume();
        for ticket in &mut tickets[1..] {
            assert_eq!(kind(ticket.wait()), Some(ErrorKind::OutOfMemory));
        }
        assert!(is_idle(bench, &queue));
    });
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_held_ticket_reports_that_it_is_not_submitted_and_stays_valid() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let mut batch = queue.batch();
        let mut ticket = batch.add(read(file).user_data(3)).expect("room");
        assert_eq!(kind(ticket.wait()), Some(ErrorKind::NotSubmitted));
        let timed = ticket.wait_timeout(Duration::ZERO);
        assert_eq!(kind(timed), Some(ErrorKind::NotSubmitted));
        assert!(ticket.try_take().is_none() && !ticket.is_complete());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let Poll::Ready(polled) = ticket.poll_outcome(&mut context) else {
            panic!("a wait that nothing would end")
        };
        assert_eq!(kind(polled.result), Some(ErrorKind::NotSubmitted));
        assert!(!ticket.wake_when_complete(&waker));
        batch.submit();
        let woken = || count.0.load(Ordering::SeqCst) > 0;
        assert!(bench.wait_for(woken), "the waker was registered before");
        let Poll::Ready(outcome) = ticket.poll_outcome(&mut context) else {
            panic!("woken, so it is complete")
        };
        assert_eq!((outcome.result.expect("read"), outcome.user_data), (1, 3));
    });
}

#[test]
fn dropping_a_batch_submits_it() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let fence = Fence::new(0);
        let mut batch = queue.batch();
        let mut ticket = batch.add(read(file)).expect("room");
        batch.signal(&fence, 1).expect("room");
        drop(batch);
        ticket.wait().expect("submitted");
        assert!(bench.wait_for(|| fence.has_reached(1)));
        // Also after its queue was dropped, and if the ticket is.
        let group = Group::new();
        let other = bench.queue();
        let mut batch = other.batch();
        drop(batch.add(read(file).group(&group)).expect("room"));
        drop(other);
        drop(batch);
        assert!(bench.wait_for(|| group.remaining() == 0));
        assert_eq!(group.done(), 1);
    });
}

#[test]
fn held_entries_can_be_canceled_before_they_are_submitted() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let mut batch = queue.batch();
        let mut canceled = batch.add(read(file)).expect("room");
        let dropped = batch.add(read(file)).expect("room").cancel_on_drop();
        let mut other = batch.add(read(file)).expect("room");
        canceled.cancel();
        drop(dropped);
        batch.submit();
        assert_eq!(kind(canceled.wait()), Some(ErrorKind::Canceled));
        other.wait().expect("read");
        assert!(is_idle(bench, &queue));
        assert_eq!(bench.storage.stats().canceled, 2);
    });
}
