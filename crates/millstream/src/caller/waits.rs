//! What a request waits for: the causes that the engine records in slots and tickets return.
//!
//! Two causes depend on the state of the whole storage, which changes for all of its requests at
//! once: the slots record `Descriptor` and `Staging`, and readers resolve them by [`SharedCauses`].

use std::fmt;

use crate::sync::{AtomicBool, Ordering};

macro_rules! causes {
    ($($(#[$about:meta])* $cause:ident = $number:literal, $name:literal, $phrase:literal;)*) => {
        /// What a request waits for, as [`Ticket::waits_for`](crate::Ticket::waits_for) returns it.
        /// [`WaitsFor::name`] is a stable word, `Display` a phrase for people.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum WaitsFor {
            $($(#[$about])* $cause = $number,)*
        }

        impl WaitsFor {
            /// All causes, in the order of their values. Later versions may append some.
            pub const ALL: &'static [WaitsFor] = &[$(WaitsFor::$cause),*];

            /// The name, and a phrase that follows "waits for".
            fn texts(self) -> (&'static str, &'static str) {
                match self {
                    $(WaitsFor::$cause => ($name, $phrase),)*
                }
            }
        }
    };
}

causes! {
    /// The engine: the request was submitted, and the engine has not taken it in yet.
    Engine = 0, "engine", "the engine to take it in";
    /// Earlier entries: those of its queue, for calls on names; earlier writes of its file, for
    /// syncs; the append before it, for appends.
    Earlier = 1, "earlier", "earlier entries to complete";
    /// The open of its file, or a call on it.
    File = 2, "file", "its file to be opened, or a call on it";
    /// A free descriptor to open its file with.
    Descriptor = 3, "descriptor", "a free file descriptor";
    /// An operation on a mount that can hang, or room for one more.
    Mount = 4, "mount", "a mount that can hang";
    /// Its fence.
    Fence = 5, "fence", "its fence to be signaled";
    /// Its queue, which is paused.
    Pause = 6, "pause", "its queue to be resumed";
    /// The bandwidth of its queue.
    Bandwidth = 7, "bandwidth", "the bandwidth of its queue";
    /// Staging memory, which other requests use and will give back.
    Staging = 8, "staging", "staging memory";
    /// The device: its turn there, or its operations in flight.
    Device = 9, "device", "the device";
    /// A decode job of the library.
    Job = 10, "job", "a decode job";
    /// The application: a job of its job system, a codec that keeps its job, a device sink, a
    /// supplier of memory, a block source; or staging memory that only requests waiting for these,
    /// for fences or for mounts that hang use.
    Application = 11, "application", "the application";
    /// The submission of its batch.
    Submission = 12, "submission", "its batch to be submitted";
}

impl WaitsFor {
    /// Recorded of a request whose file is queued to be opened. Resolved to `File`, unless opens
    /// wait for a descriptor.
    pub(crate) const QUEUED_OPEN: WaitsFor = WaitsFor::Descriptor;

    /// Returns the cause as one lower-case word, which later versions do not change.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.texts().0
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.texts().1)
    }
}

/// What the causes of all requests of a storage depend on. The engine writes it, and any thread
/// reads it; it orders nothing.
#[derive(Default)]
pub(crate) struct SharedCauses {
    short_of_descriptors: AtomicBool,
    held_by_application: AtomicBool,
}

impl SharedCauses {
    /// Engine: whether queued opens wait for a descriptor.
    pub(crate) fn set_short_of_descriptors(&self, short: bool) {
        set(&self.short_of_descriptors, short);
    }

    /// Engine: whether only the application can free staging.
    pub(crate) fn set_held_by_application(&self, held: bool) {
        set(&self.held_by_application, held);
    }

    /// The cause to report for one that a slot has recorded.
    pub(crate) fn resolve(&self, recorded: WaitsFor) -> WaitsFor {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        match recorded {
            WaitsFor::Descriptor if !is_set(&self.short_of_descriptors) => WaitsFor::File,
            WaitsFor::Staging if is_set(&self.held_by_application) => WaitsFor::Application,
            other => other,
        }
    }
}

/// Stores only a change, as readers share the cache line.
fn set(flag: &AtomicBool, value: bool) {
    if flag.load(Ordering::Relaxed) != value {
        flag.store(value, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(model)))]
mod tests {
    use std::iter::once;
    use std::time::Duration;

    use super::*;
    use crate::caller::request::Request;
    use crate::error::{Error, ErrorKind};
    use crate::handover::slots::{Cache, Delivery, EngineSide, Pool, PoolOwner, Table};
    use crate::ids::{Id, StorageNumber};
    use crate::priority::Priority;
    use crate::{Buffer, FileId, QueueOptions, Read, Storage, StorageOptions};

    #[test]
    fn values_and_texts_of_causes_are_distinct() {
        for (at, cause) in WaitsFor::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, at);
            assert_eq!(cause.name(), format!("{cause:?}").to_lowercase());
            let mut others = WaitsFor::ALL[..at].iter();
            assert!(others.all(|other| other.to_string() != cause.to_string()));
        }
    }

    #[test]
    fn two_causes_are_resolved_by_the_state_of_the_storage() {
        let causes = SharedCauses::default();
        let changed = || -> Vec<(WaitsFor, WaitsFor)> {
            let all = WaitsFor::ALL.iter();
            let resolved = all.map(|cause| (*cause, causes.resolve(*cause)));
            resolved
                .filter(|(cause, resolved)| cause != resolved)
                .collect()
        };
        let file = (WaitsFor::QUEUED_OPEN, WaitsFor::File);
        assert_eq!(changed(), [file]);
        causes.set_short_of_descriptors(true);
        assert_eq!(changed(), []);
        causes.set_short_of_descriptors(false);
        causes.set_held_by_application(true);
        assert_eq!(
            changed(),
            [file, (WaitsFor::Staging, WaitsFor::Application)]
        );
        causes.set_held_by_application(false);
        assert_eq!(changed(), [file]);
    }

    fn pool() -> (PoolOwner<()>, EngineSide<()>) {
        let (storage, first) = StorageNumber::take().expect("a number");
        storage.give_back(first);
        let (table, side) = Table::new(storage, 0).expect("memory");
        (Pool::create(table, 1, ()), side)
    }

    fn fill(pool: &PoolOwner<()>, cache: &mut Cache, mut request: impl Request) -> Id {
        let (mode, priority) = (Delivery::Ticket, Priority::Realtime);
        assert!(pool.secure(cache, 1), "a slot is free");
        pool.fill(cache, request.parts_mut(), mode, priority)
    }

    #[test]
    fn a_slot_keeps_the_last_cause_until_its_request_ends() {
        let (pool, mut side) = pool();
        let mut cache = Cache::default();
        for failed in [false, true] {
            let request = Read::range(FileId::from_bits(0), 0, 8);
            let id = fill(&pool, &mut cache, request);
            let mut ticket = pool.ticket(id);
            assert_eq!(ticket.cause(), Some(WaitsFor::Submission));
            pool.publish(once(id.index()));
            assert_eq!(ticket.cause(), Some(WaitsFor::Engine));
            let before = format!("{:?}", side.head(id.index()));
            let recorded = WaitsFor::ALL
                .iter()
                .filter(|it| **it != WaitsFor::Submission);
            for &cause in recorded.rev() {
                for _ in 0..2 {
                    side.set_waits(id.index(), cause);
                    assert_eq!(ticket.cause(), Some(cause));
                    assert_eq!(format!("{:?}", side.head(id.index())), before);
                }
                assert!(side.is_live(id) && side.is_pending(id) && !ticket.is_ended());
            }
            side.set_waits(id.index(), WaitsFor::Application);
            side.end(
                id.index(),
                5,
                failed.then(|| Error::new(ErrorKind::Canceled, "")),
            );
            side.settle(&mut Vec::new(), |_| panic!("the ticket has the slot"));
            assert_eq!(ticket.cause(), None);
            let result = ticket.claim().expect("it has ended").result;
            assert_eq!(result.map_err(|error: Error| error.kind()).is_err(), failed);
        }
        pool.give_back(&mut cache);
    }

    #[test]
    fn tickets_and_their_numbers_return_what_they_wait_for() {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let mut batch = queue.batch();
        let mut add = || batch.add(Read::memory([1, 2, 3].into())).expect("room");
        let (mut ticket, number) = (add(), add().into_bits());
        let held = Some(WaitsFor::Submission);
        assert_eq!(ticket.waits_for(), held);
        assert_eq!(storage.ticket_waits_for(number), Some(held));
        batch.submit();
        assert!(queue.drain(None).expect("it may block"));
        assert_eq!(ticket.waits_for(), None);
        assert_eq!(storage.ticket_waits_for(number), Some(None));
        assert_eq!(ticket.wait().expect("it is memory").len(), 3);
        assert_eq!(ticket.waits_for(), None, "its outcome was taken");
        drop(storage.ticket::<Buffer>(number));
        assert_eq!(storage.ticket_waits_for(number), None, "no such ticket");

        let mut batch = queue.batch();
        let mut ticket = batch.add(Read::memory([1].into())).expect("room");
        storage.close(Duration::MAX);
        assert_eq!(ticket.waits_for(), held);
        batch.submit();
        assert_eq!(ticket.waits_for(), None);
        assert_eq!(
            ticket.wait().map_err(|error| error.kind()).err(),
            Some(ErrorKind::Closed)
        );
    }
}
