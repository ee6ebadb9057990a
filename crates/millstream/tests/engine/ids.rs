//! File ids: one of another storage, or a stale one, is noticed and never names something else.

use crate::support::{Bench, each_backend_and_pumped};
use millstream::{
    Buffer, Error, ErrorKind, Fence, FileId, FileOp, FileOptions, QueueOptions, Read, Request,
    Storage, StorageOptions, Write,
};

fn kind<T>(result: Result<T, Error>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

fn is_stale<R: Request>(bench: &Bench, request: R) {
    let outcome = bench.queue().submit(request).expect("room").outcome();
    assert_eq!(kind(outcome.result), Err(ErrorKind::StaleFile));
}

/// Every use of an id fails with `StaleFile`.
fn is_stale_everywhere(bench: &Bench, file: FileId) {
    is_stale(bench, Read::range(file, 0, 1));
    is_stale(bench, Read::whole(file));
    is_stale(bench, Read::range(file, 0, 0));
    is_stale(bench, Write::at(file, 0, vec![1u8; 4]));
    is_stale(bench, Write::append(file, vec![1u8; 4]));
    is_stale(bench, FileOp::sync(file));
    let opened = bench.storage.opened(file).expect("room").wait();
    assert_eq!(kind(opened), Err(ErrorKind::StaleFile));
}

/// Closing an id that names nothing closes nothing: `own` stays open.
fn closes_nothing(bench: &Bench, file: FileId, own: FileId) {
    let queue = bench.queue();
    let mut batch = queue.batch();
    if let Err(error) = batch.close(file) {
        assert_eq!(error.kind(), ErrorKind::StaleFile);
    }
    batch.submit();
    assert_eq!(kind(queue.drain(None)), Ok(true));
    let mut ticket = queue.submit(Read::whole(own)).expect("room");
    assert_eq!(&*ticket.wait().expect("still open"), b"own");
}

/// A storage with the file "other" as its first, and the folder that holds it.
fn other_storage() -> (Storage, FileId, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other");
    std::fs::write(&path, b"other").expect("written");
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let file = storage.open(&path, FileOptions::default());
    (storage, file, folder)
}

#[test]
fn an_id_of_another_storage_is_stale() {
    each_backend_and_pumped(|bench| {
        let own = bench.file_of("own", b"own");
        let (other, file, _folder) = other_storage();
        assert_ne!(own, file);
        assert_eq!(
            other.opened(file).expect("room").wait().expect("open").len,
            5
        );
        is_stale_everywhere(bench, file);
        closes_nothing(bench, file, own);
        assert_eq!(
            other.opened(file).expect("room").wait().expect("open").len,
            5
        );
    });
}

/// The number of a storage is given out again, but not the generations of its ids.
#[test]
fn an_id_of_a_storage_that_is_gone_is_stale_in_the_next_one() {
    let mut gone = Vec::new();
    for _ in 0..8 {
        let (storage, file, _folder) = other_storage();
        storage.close(crate::support::PATIENCE);
        gone.push(file);
    }
    each_backend_and_pumped(|bench| {
        let own = bench.file_of("own", b"own");
        for &file in &gone {
            assert_ne!(own, file);
            is_stale_everywhere(bench, file);
            closes_nothing(bench, file, own);
        }
    });
}

#[test]
fn an_id_of_a_closed_file_stays_stale_when_its_index_is_used_again() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let file = bench.file("closed", 10);
        queue.batch().close(file).expect("room");
        assert_eq!(kind(queue.drain(None)), Ok(true));
        is_stale_everywhere(bench, file);
        let own = bench.file_of("own", b"own");
        let again = bench.open("closed");
        assert!(again != file && own != file);
        is_stale_everywhere(bench, file);
        closes_nothing(bench, file, own);
    });
}

#[test]
fn two_opens_of_a_path_are_two_handles_with_a_close_each() {
    each_backend_and_pumped(|bench| {
        let queue = bench.queue();
        let (first, second) = (bench.file_of("own", b"own"), bench.open("own"));
        assert_ne!(first, second);
        assert_eq!(
            bench.storage.find(bench.folder.path().join("own")),
            Some(second)
        );
        queue.batch().close(first).expect("room");
        assert_eq!(kind(queue.drain(None)), Ok(true));
        is_stale_everywhere(bench, first);
        let mut ticket = queue.submit(Read::whole(second)).expect("room");
        assert_eq!(&*ticket.wait().expect("still open"), b"own");
        queue.batch().close(second).expect("room");
        assert_eq!(kind(queue.drain(None)), Ok(true));
        is_stale_everywhere(bench, second);
        assert_eq!(bench.storage.find(bench.folder.path().join("own")), None);
    });
}

#[test]
fn an_id_travels_as_a_number_and_made_up_numbers_are_stale() {
    each_backend_and_pumped(|bench| {
        let own = bench.file_of("own", b"own");
        assert_eq!(FileId::from_bits(own.to_bits()), own);
        let bits = own.to_bits();
        let mut numbers = vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 63, !bits];
        numbers.extend((0..64).map(|bit| bits ^ 1 << bit));
        let mut random = fastrand::Rng::with_seed(7);
        numbers.extend((0..64).map(|_| random.u64(..)));
        for number in numbers {
            let file = FileId::from_bits(number);
            is_stale(bench, Read::range(file, 0, 1));
            is_stale(bench, FileOp::sync(file));
            let opened = bench.storage.opened(file).expect("room").wait();
            assert_eq!(kind(opened), Err(ErrorKind::StaleFile), "{number:#x}");
            closes_nothing(bench, file, own);
        }
    });
}

#[test]
fn no_id_is_given_twice_by_storages_that_follow_one_another() {
    let mut given = std::collections::HashSet::new();
    for _ in 0..8 {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        for _ in 0..3 {
            let file = storage.open("/no/such/file", FileOptions::default());
            assert!(given.insert(file.to_bits()), "{file:?} was given before");
            queue.close(file).expect("open");
            assert_eq!(kind(queue.drain(None)), Ok(true));
        }
    }
}

#[test]
fn a_ticket_travels_as_a_number_and_becomes_a_ticket_once() {
    each_backend_and_pumped(|bench| {
        let (storage, queue) = (&bench.storage, bench.queue());
        let file = bench.file_of("own", b"own");
        let number = queue.submit(Read::whole(file)).expect("room").into_bits();
        assert!(bench.wait_for(|| storage.is_ticket_complete(number) == Some(true)));
        let mut ticket = storage.ticket::<Buffer>(number).expect("kept above");
        assert_eq!(&*ticket.wait().expect("read"), b"own");
        assert!(storage.ticket::<Buffer>(number).is_none(), "taken before");
        assert_eq!(storage.is_ticket_complete(number), None);

        let mut taken = queue.submit(Read::whole(file)).expect("room");
        taken.wait().expect("read");
        let number = taken.into_bits();
        assert!(
            storage.ticket::<Buffer>(number).is_none(),
            "of a claimed ticket"
        );
    });
}

#[test]
fn no_ticket_has_a_number_of_a_storage_before() {
    let mut given = std::collections::HashSet::new();
    for _ in 0..8 {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let file = storage.open("/no/such/file", FileOptions::default());
        for _ in 0..3 {
            let number = queue.submit(Read::whole(file)).expect("room").into_bits();
            assert!(given.insert(number), "{number:#x} was given before");
        }
    }
}

#[test]
fn made_up_numbers_are_of_no_ticket() {
    each_backend_and_pumped(|bench| {
        let (storage, queue) = (&bench.storage, bench.queue());
        let (other, _, _folder) = other_storage();
        let file = bench.file_of("own", b"own");
        // Tickets that are no numbers are not to be had by a number.
        let held: Vec<_> = (0..4)
            .map(|_| queue.submit(Read::whole(file)).expect("room"))
            .collect();
        let number = queue.submit(Read::whole(file)).expect("room").into_bits();
        let mut numbers = vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 63, !number];
        numbers.extend((0..64).map(|bit| number ^ 1 << bit));
        numbers.extend(
            (0..8)
                .filter(|less| *less > 0)
                .map(|less| number.wrapping_sub(less)),
        );
        for made_up in numbers {
            assert!(storage.ticket::<Buffer>(made_up).is_none(), "{made_up:#x}");
            assert_eq!(storage.is_ticket_complete(made_up), None, "{made_up:#x}");
            storage.cancel_ticket(made_up);
        }
        assert!(
            other.ticket::<Buffer>(number).is_none(),
            "of another storage"
        );
        other.cancel_ticket(number);
        for mut ticket in held {
            assert_eq!(&*ticket.wait().expect("nobody canceled it"), b"own");
        }
        let mut ticket = storage.ticket::<Buffer>(number).expect("kept above");
        assert_eq!(&*ticket.wait().expect("nobody canceled it"), b"own");
    });
}

#[test]
fn a_request_is_canceled_by_its_number_and_numbers_end_with_their_storage() {
    each_backend_and_pumped(|bench| {
        let (storage, queue) = (&bench.storage, bench.queue());
        let (file, never) = (bench.file_of("own", b"own"), Fence::new(0));
        let held = || {
            let request = Read::whole(file).after(&never, 1);
            queue.submit(request).expect("room").into_bits()
        };
        let (number, _left) = (held(), held());
        assert_eq!(storage.is_ticket_complete(number), Some(false));
        storage.cancel_ticket(number);
        let outcome = storage
            .ticket::<Buffer>(number)
            .expect("kept above")
            .outcome();
        assert_eq!(kind(outcome.result), Err(ErrorKind::Canceled));
    });
}
