//! What the fault tests share: a storage over each backend, in a process of its own, that must
//! leave nothing behind.

use std::time::{Duration, Instant};

use millstream::{
    Backend, Buffer, CloseReport, Done, ErrorKind, Failed, Queue, QueueOptions, Storage,
    StorageOptions, Ticket,
};
use millstream_testing::{Child, Resources, Unavailable};

/// Long enough for a loaded machine; nothing waits for it when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that tell where they are.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 31 + index / 253 * 7) as u8)
        .collect()
}

/// A storage with a queue, over one of the system's backends.
pub(crate) struct Rig {
    pub(crate) name: &'static str,
    pub(crate) storage: Storage,
    pub(crate) queue: Queue,
}

impl Rig {
    pub(crate) fn new(name: &'static str, options: StorageOptions) -> Rig {
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        Rig {
            name,
            storage,
            queue,
        }
    }

    /// Checks that every request has ended once and that nothing is held, and closes.
    pub(crate) fn finish(self) {
        assert_eq!(
            self.queue.live(),
            0,
            "{}: requests have not ended",
            self.name
        );
        // What a hung read held comes back when the kernel lets go, which may be after the end.
        let until = Instant::now() + PATIENCE;
        while self.storage.stats().staging_bytes > 0 && Instant::now() < until {
            std::thread::yield_now();
        }
        let stats = self.storage.stats();
        let ended = stats.done + stats.failed + stats.cancelled;
        assert_eq!(
            stats.requests, ended,
            "{}: each request ends once: {stats:?}",
            self.name
        );
        assert_eq!(
            stats.staging_bytes, 0,
            "{}: staging is given back",
            self.name
        );
        assert!(
            stats.staging_peak_bytes <= stats.staging_capacity_bytes,
            "{}",
            self.name
        );
        drop(self.queue);
        assert_eq!(
            self.storage.close(PATIENCE),
            CloseReport::default(),
            "{}",
            self.name
        );
    }
}

/// A backend and how to ask for it.
type NamedBackend = (&'static str, fn() -> Backend);

/// The backends of the system with their options, everything else at its default.
fn backends() -> [NamedBackend; 2] {
    [
        ("uring", || Backend::Uring),
        ("threads", || Backend::Threads),
    ]
}

/// Whether the kernel gives us a ring; a test goes on without, and says so.
fn usable(name: &str) -> Result<(), Unavailable> {
    if name != "uring" {
        return Ok(());
    }
    let options = StorageOptions {
        backend: Backend::Uring,
        ..StorageOptions::default()
    };
    match Storage::new(options) {
        Ok(_) => Ok(()),
        Err(error) => Err(Unavailable::because(format!("no io_uring here: {error}"))),
    }
}

/// Runs `body` over each backend in a child each, and checks that neither a thread nor a
/// descriptor is left when it has ended.
pub(crate) fn each(test: &'static str, body: impl Fn(&'static str, StorageOptions)) {
    each_as(test, |child| child, body);
}

/// The same with a restricted child.
pub(crate) fn each_as(
    test: &'static str,
    restrict: impl Fn(Child) -> Child,
    body: impl Fn(&'static str, StorageOptions),
) {
    in_children(test, restrict, |name, options, before| {
        body(name, options);
        assert_eq!(
            before.settle(PATIENCE),
            [] as [String; 0],
            "{name}: left behind"
        );
    });
}

/// The same for bodies in which the kernel is left holding an operation: what belongs to that is
/// never freed and stays open, but no thread stays.
pub(crate) fn each_leaking(test: &'static str, body: impl Fn(&'static str, StorageOptions)) {
    in_children(test, Child::leaks_on_purpose, |name, options, before| {
        body(name, options);
        let until = Instant::now() + PATIENCE;
        while Resources::now().threads != before.threads {
            let threads = Resources::now().threads;
            assert!(
                Instant::now() < until,
                "{name}: threads were left: {threads:?}"
            );
            std::thread::yield_now();
        }
    });
}

fn in_children(
    test: &'static str,
    restrict: impl Fn(Child) -> Child,
    body: impl Fn(&'static str, StorageOptions, Resources),
) {
    for (name, backend) in backends() {
        let child = restrict(Child::of(test).case(name));
        let outcome = child.run(|| {
            if let Err(unavailable) = usable(name) {
                unavailable.announce();
                return;
            }
            let before = Resources::now();
            let options = StorageOptions {
                backend: backend(),
                ..StorageOptions::default()
            };
            body(name, options, before);
        });
        if let Err(unavailable) = outcome {
            unavailable.announce();
        }
    }
}

/// The outcome of a ticket, which must come: a request that never ends is a failure of the test
/// and not a hang.
pub(crate) fn outcome(ticket: Ticket) -> Result<Done, Failed> {
    match ticket.wait_timeout(PATIENCE) {
        Ok(outcome) => outcome,
        Err(ticket) => panic!("{ticket:?}: the request has not ended"),
    }
}

pub(crate) fn bytes(ticket: Ticket) -> Buffer {
    match outcome(ticket) {
        Ok(done) => done.into_buffer(),
        Err(failed) => panic!("the request failed: {failed}"),
    }
}

pub(crate) fn failure(ticket: Ticket) -> Failed {
    match outcome(ticket) {
        Ok(done) => panic!("the request ended well: {done:?}"),
        Err(failed) => failed,
    }
}

pub(crate) fn failure_kind(ticket: Ticket) -> ErrorKind {
    failure(ticket).error.kind()
}
