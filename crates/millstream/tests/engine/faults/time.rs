//! Time: timeouts of completed requests, durations beyond all clocks, and signals that race the
//! creation of an eventfd.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream::{CloseReport, Completion, Fence, FileOptions, Group, Read};
use millstream_testing::{Resources, this_test};
use rustix::event::{PollFd, PollFlags, poll};

use crate::faults::rig::{PATIENCE, Rig, each, landed, pattern};

#[test]
fn memory_stays_flat_under_the_timeouts_of_completed_requests() {
    /// Less than the smallest timer (two numbers) would take for all requests.
    const GROWTH_MAX: u64 = 4 << 20;
    const REQUESTS: usize = 400_000;
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, pattern(8192)).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        let run = |count: usize| {
            for _ in 0..count / 1000 {
                let mut batch = rig.queue.batch();
                for _ in 0..1000 {
                    let read = Read::range(file, 0, 16).timeout(Duration::from_secs(3600));
                    batch.detach(read).expect("accepted");
                }
                drop(batch);
                assert!(rig.queue.drain(Some(PATIENCE)).expect("drained"), "{name}");
            }
        };
        run(REQUESTS / 10);
        let before = Resources::now().resident_bytes;
        run(REQUESTS);
        let after = Resources::now().resident_bytes;
        let growth = after.saturating_sub(before);
        assert!(growth < GROWTH_MAX, "{name}: {growth} bytes more");
        rig.finish();
    });
}

#[test]
fn the_longest_duration_means_for_ever() {
    const EVER: Duration = Duration::MAX;
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(8192));
        std::fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        let read = || Read::range(file, 0, 16);
        let (group, fence) = (Group::new(), Fence::new(0));
        let mut ticket = rig.submit(read().timeout(EVER).group(&group));
        let outcome = ticket.wait_timeout(EVER).expect("it can be waited for");
        let bytes = outcome.expect("it completes").into_result().expect("read");
        assert!(bytes[..] == content[..16], "{name}");
        let mut opened = rig.storage.opened(file).expect("accepted");
        let opened = opened.wait_timeout(EVER).expect("it can be waited for");
        assert!(opened.is_some(), "{name}");
        rig.queue.post(read().group(&group)).expect("accepted");
        let completions = rig.queue.wait_completions(Some(EVER));
        assert_eq!(completions.ok(), Some(true), "{name}");
        let completion = &mut [Completion::default()];
        assert_eq!(rig.queue.drain_completions(completion), 1, "{name}");
        assert_eq!(group.wait(Some(EVER)).ok(), Some(true), "{name}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                fence.signal(1);
            });
            assert_eq!(fence.wait(1, Some(EVER)).ok(), Some(true), "{name}");
        });
        let reached = rig.storage.wait(fence.at(1), Some(EVER));
        assert_eq!(reached.ok(), Some(Some(())), "{name}");
        assert_eq!(rig.queue.drain(Some(EVER)).ok(), Some(true), "{name}");
        assert_eq!(rig.storage.close(EVER), CloseReport::default(), "{name}");
        assert!(rig.queue.submit(read()).is_err(), "{name}: it is closed");
    });
}

#[test]
fn a_timeout_of_zero_ends_a_request_that_a_fence_holds_and_no_other_one() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(8192));
        std::fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        let fence = Fence::new(0);
        let held = Read::whole(file).after(&fence, 1);
        let timed = rig.submit(Read::whole(file).after(&fence, 1).timeout(Duration::ZERO));
        let held = rig.submit(held);
        let kind = crate::faults::rig::failure_kind(timed);
        assert_eq!(kind, millstream::ErrorKind::TimedOut, "{name}");
        assert!(!held.is_complete(), "{name}");
        fence.signal(1);
        assert!(landed(held)[..] == content, "{name}");
        rig.finish();
    });
}

/// Whether the fence's eventfd can be read.
fn is_readable(fence: &Fence) -> bool {
    let eventfd = fence.eventfd().expect("an eventfd");
    let mut polled = [PollFd::new(&eventfd, PollFlags::IN)];
    let at_once = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let count = poll(&mut polled, Some(&at_once)).expect("polled");
    count == 1 && polled[0].revents().contains(PollFlags::IN)
}

/// Waits for `round` to become `value`; false if the test ends before.
fn spin_until(round: &AtomicUsize, value: usize, stop: &AtomicBool) -> bool {
    while round.load(Ordering::Acquire) != value {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

#[test]
fn a_signal_that_races_the_creation_of_the_eventfd_makes_it_readable() {
    const ROUNDS: usize = 200_000;
    const LONGEST: Duration = Duration::from_secs(5);
    let shared = Mutex::new(Fence::new(0));
    // Odd: the signaler's turn.
    let (round, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for own in 0.. {
                if !spin_until(&round, 2 * own + 1, &stop) {
                    return;
                }
                let fence = shared.lock().expect("no panic").clone();
                (0..own * 7 % 400).for_each(|_| std::hint::spin_loop());
                fence.signal(1);
                round.store(2 * own + 2, Ordering::Release);
            }
        });
        let begin = Instant::now();
        let mut lost = 0;
        for own in 0..ROUNDS {
            let fence = Fence::new(0);
            *shared.lock().expect("no panic") = fence.clone();
            round.store(2 * own + 1, Ordering::Release);
            fence.eventfd().expect("an eventfd");
            spin_until(&round, 2 * own + 2, &stop);
            lost += usize::from(!is_readable(&fence));
            if begin.elapsed() > LONGEST {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(lost, 0, "signals lost: reached, but not readable");
    });
}
