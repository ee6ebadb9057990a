//! What the fault tests share: a storage over each backend, in a child process that must leave
//! nothing behind.

use std::path::Path;

use millstream::{
    Backend, CloseReport, Error, ErrorKind, FileId, FileOptions, Outcome, Queue, QueueOptions,
    Read, Request, Storage, StorageOptions, Ticket, Write,
};
pub(crate) use millstream_testing::PATIENCE;
use millstream_testing::{Child, Resources, Unavailable, wait_for};

/// Opens a file for reading and writing, and creates a missing one.
pub(crate) const WRITING: FileOptions = FileOptions {
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    access: None,
    package: false,
};

/// Bytes that show where they are.
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

    /// Submits one request.
    pub(crate) fn submit<R: Request>(&self, request: R) -> Ticket<R::Output> {
        self.queue.submit(request).expect("accepted")
    }

    /// Submits requests as one batch.
    pub(crate) fn submit_all<R: Request>(
        &self,
        requests: impl IntoIterator<Item = R>,
    ) -> Vec<Ticket<R::Output>> {
        let mut batch = self.queue.batch();
        let add = |request| batch.add(request).expect("accepted");
        requests.into_iter().map(add).collect()
    }

    /// Opens a file for reading.
    pub(crate) fn open(&self, path: impl AsRef<Path>) -> FileId {
        self.storage.open(path, FileOptions::default())
    }

    /// Waits until a file is open; returns its length then.
    pub(crate) fn opened(&self, file: FileId) -> u64 {
        let info = self.storage.opened(file).expect("accepted").wait();
        info.expect("open").len
    }

    pub(crate) fn whole(&self, file: FileId) -> Result<Vec<u8>, Error> {
        result(self.submit(Read::whole(file))).map(|bytes| bytes.to_vec())
    }

    pub(crate) fn append(&self, file: FileId, bytes: &[u8]) {
        landed(self.submit(Write::append(file, bytes.to_vec())));
    }

    /// Closes a file, after all that was submitted before.
    pub(crate) fn close(&self, file: FileId) {
        self.queue.close(file).expect("open");
        assert!(self.queue.drain(None).expect("drained"));
    }

    /// Checks that every request has completed once and that nothing is held, and closes.
    pub(crate) fn finish(self) {
        let name = self.name;
        // A ticket shows its outcome a moment before its room in the queue is free; what a hung
        // read held comes back when the kernel lets go, which may be after completion.
        let is_idle = || self.queue.live() == 0 && self.storage.stats().staging_bytes == 0;
        let is_idle = wait_for(is_idle);
        assert_eq!(self.queue.live(), 0, "{name}: requests have not completed");
        let stats = self.storage.stats();
        let completed = stats.done + stats.failed + stats.canceled;
        assert_eq!(
            stats.requests, completed,
            "{name}: each request completes once: {stats:?}"
        );
        assert!(is_idle, "{name}: staging is given back: {stats:?}");
        assert!(
            stats.staging_peak_bytes <= stats.staging_capacity_bytes,
            "{name}: staging is bounded: {stats:?}"
        );
        assert_eq!(stats.stalls, 0, "{name}");
        drop(self.queue);
        let report = self.storage.close(PATIENCE);
        assert_eq!(report, CloseReport::default(), "{name}");
    }
}

/// A backend's name and a function that returns it.
type NamedBackend = (&'static str, fn() -> Backend);

/// The backends of the system.
fn backends() -> [NamedBackend; 2] {
    [
        ("uring", || Backend::Uring),
        ("threads", || Backend::Threads),
    ]
}

/// The default options of a backend, by its name.
pub(crate) fn options_of(name: &str) -> StorageOptions {
    let mut all = backends().into_iter();
    let (_, backend) = all.find(|(own, _)| *own == name).expect("its name");
    options_with(backend())
}

/// The default options, with a backend.
pub(crate) fn options_with(backend: Backend) -> StorageOptions {
    let mut options = StorageOptions::default();
    options.backend = backend;
    options.abort_on_stall = true;
    options
}

/// Whether the kernel allows a ring; a test without one goes on with the next backend.
fn usable(name: &str) -> Result<(), Unavailable> {
    if name != "uring" {
        return Ok(());
    }
    match Storage::new(options_with(Backend::Uring)) {
        Ok(_) => Ok(()),
        Err(error) => Err(Unavailable::because(format!("no io_uring here: {error}"))),
    }
}

/// Runs `body` over each backend in a child process each, and checks that neither a thread nor a
/// descriptor is left afterwards.
pub(crate) fn each(test: &'static str, body: impl Fn(&'static str, StorageOptions)) {
    each_as(test, |child| child, body);
}

/// As [`each`], with a restricted child.
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

/// As [`each`], for bodies after which the kernel still holds an operation: its memory and files
/// are never freed, but no thread is left.
pub(crate) fn each_leaking(test: &'static str, body: impl Fn(&'static str, StorageOptions)) {
    in_children(test, Child::leaks_on_purpose, |name, options, before| {
        body(name, options);
        // By their ids: a thread gets its name a moment after it began.
        let are_gone = wait_for(|| {
            let now = Resources::now().threads;
            now.keys().eq(before.threads.keys())
        });
        let threads = Resources::now().threads;
        assert!(are_gone, "{name}: threads are left: {threads:?}");
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
            body(name, options_with(backend()), before);
        });
        if let Err(unavailable) = outcome {
            unavailable.announce();
        }
    }
}

/// The outcome of a ticket. A request that never completes fails the test instead of hanging it.
pub(crate) fn outcome<T: 'static>(mut ticket: Ticket<T>) -> Outcome<T> {
    match ticket.wait_timeout(PATIENCE) {
        Ok(Some(outcome)) => outcome,
        Ok(None) => panic!("{ticket:?}: the request has not completed"),
        Err(error) => panic!("the ticket cannot be waited for: {error}"),
    }
}

/// The memory of a request, or its error.
pub(crate) fn result<T: 'static>(ticket: Ticket<T>) -> Result<T, Error> {
    outcome(ticket).into_result()
}

/// The memory of a request that must succeed.
pub(crate) fn landed<T: 'static>(ticket: Ticket<T>) -> T {
    result(ticket).unwrap_or_else(|error| panic!("the request failed: {error}"))
}

/// The error of a request that must fail.
pub(crate) fn failure<T: 'static>(ticket: Ticket<T>) -> Error {
    match outcome(ticket).result {
        Ok(bytes) => panic!("the request succeeded with {bytes} bytes"),
        Err(error) => error,
    }
}

pub(crate) fn failure_kind<T: 'static>(ticket: Ticket<T>) -> ErrorKind {
    failure(ticket).kind()
}
