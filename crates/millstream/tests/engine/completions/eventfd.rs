//! The completion queue as an eventfd.

use std::os::fd::BorrowedFd;

use millstream::Read;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::completions;
use crate::support::{PATIENCE, each_backend_and_pumped};

fn is_readable(eventfd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&eventfd, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&at_once)).expect("polled") == 1
}

#[test]
fn the_eventfd_is_readable_when_completions_have_arrived() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("data", 1000);
        let eventfd = queue.completion_eventfd().expect("an eventfd");
        assert!(!is_readable(eventfd), "nothing has completed");
        for _ in 0..3 {
            queue.post(Read::range(file, 0, 1)).expect("room");
            assert!(bench.wait_for(|| is_readable(eventfd)));
            rustix::io::read(eventfd, &mut [0; 8]).expect("readable");
            assert!(!is_readable(eventfd), "reading resets it");
            completions(&queue, 1);
        }
        // An eventfd that is created late misses nothing.
        let other = bench.queue();
        other.post(Read::range(file, 0, 1)).expect("room");
        assert!(other.wait_completions(Some(PATIENCE)).expect("may wait"));
        let late = other.completion_eventfd().expect("an eventfd");
        assert!(is_readable(late));
        completions(&other, 1);
    });
}
