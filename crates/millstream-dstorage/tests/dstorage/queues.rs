//! Queues: creation, slots, order, statuses, events, cancellation.
#![expect(unsafe_code, reason = "calls COM methods")]

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

use direct_storage::*;
use dstorage::abi;
use millstream_testing::wait_at_most;
use windows_core::{Interface, PCSTR};

use crate::calls::*;
use crate::common::*;

#[test]
fn wrong_descriptions_are_refused() {
    let session = Session::new();
    let description = |source, capacity, priority| DSTORAGE_QUEUE_DESC {
        SourceType: source,
        Capacity: capacity,
        Priority: DSTORAGE_PRIORITY(priority),
        Name: PCSTR::null(),
        Device: ManuallyDrop::new(None),
    };
    let create = |description: &DSTORAGE_QUEUE_DESC| {
        let queue: windows_core::Result<IDStorageQueue> =
            // SAFETY: parameters that the method takes.
            unsafe { session.factory.CreateQueue(description) };
        code(queue).0
    };
    for (source, capacity, priority, expected) in [
        (FILE, 128, 0, abi::S_OK),
        (FILE, 8192, -1, abi::S_OK),
        (FILE, 129, 1, abi::S_OK),
        (FILE, 128, 2, abi::S_OK),
        (MEMORY, 128, 2, abi::S_OK),
        (FILE, 127, 0, abi::E_DSTORAGE_INVALID_QUEUE_CAPACITY),
        (FILE, 0, 0, abi::E_DSTORAGE_INVALID_QUEUE_CAPACITY),
        (FILE, 8193, 0, abi::E_DSTORAGE_INVALID_QUEUE_CAPACITY),
        (FILE, 128, 3, abi::E_DSTORAGE_INVALID_QUEUE_PRIORITY),
        (FILE, 128, -2, abi::E_DSTORAGE_INVALID_QUEUE_PRIORITY),
        (
            MEMORY,
            128,
            1,
            abi::E_DSTORAGE_INVALID_MEMORY_QUEUE_PRIORITY,
        ),
        (
            DSTORAGE_REQUEST_SOURCE_TYPE(2),
            128,
            0,
            abi::E_DSTORAGE_INVALID_SOURCE_TYPE,
        ),
    ] {
        let found = create(&description(source, capacity, priority));
        assert_eq!(found, expected, "{source:?} {capacity} {priority}");
    }
    // An object that is no device.
    let mut device = description(FILE, 128, 0);
    let object: windows_core::IUnknown = session.factory.cast().expect("IUnknown");
    // SAFETY: it outlives the request.
    device.Device = unsafe { readonly_copy(&object) };
    assert_eq!(create(&device), abi::E_INVALIDARG);
    let null: windows_core::Result<IDStorageQueue> =
        // SAFETY: parameters that the method takes.
        unsafe { session.factory.CreateQueue(std::ptr::null()) };
    assert_eq!(code(null).0, abi::E_INVALIDARG);
    let wrong: windows_core::Result<IDStorageFile> =
        // SAFETY: parameters that the method takes.
        unsafe { session.factory.CreateQueue(&description(FILE, 128, 0)) };
    assert_eq!(code(wrong).0, abi::E_NOINTERFACE);
}

#[test]
fn a_status_array_has_entries_that_begin_complete() {
    let session = Session::new();
    let statuses = session.statuses(2);
    assert!(statuses.is_complete(0));
    assert_eq!(result(&statuses, 1), OK);
    assert_eq!(result(&statuses, 2).0, abi::E_DSTORAGE_INDEX_BOUND);
    assert!(
        statuses.is_complete(u32::MAX),
        "as GetHResult is not E_PENDING"
    );
    for (capacity, expected) in [(0, abi::E_INVALIDARG), (u32::MAX, abi::E_OUTOFMEMORY)] {
        let made: windows_core::Result<IDStorageStatusArray> =
            // SAFETY: parameters that the method takes.
            unsafe { session.factory.CreateStatusArray(capacity, PCSTR::null()) };
        assert_eq!(code(made).0, expected);
    }
}

#[test]
fn a_queue_describes_itself() {
    let session = Session::new();
    let queue = session.queue_of(200, FILE);
    let info = query(&queue);
    assert_eq!((info.Desc.SourceType, info.Desc.Capacity), (FILE, 200));
    assert_eq!(info.Desc.Priority, DSTORAGE_PRIORITY_NORMAL);
    assert_eq!(
        // SAFETY: the name lives as long as the queue.
        unsafe { info.Desc.Name.to_string() }.expect("UTF-8"),
        "test"
    );
    assert_eq!(
        (info.EmptySlotCount, info.RequestCountUntilAutoSubmit),
        (199, 100)
    );
    for (format, expected) in [
        (NONE, DSTORAGE_COMPRESSION_SUPPORT_NONE),
        (GDEFLATE, DSTORAGE_COMPRESSION_SUPPORT_CPU_FALLBACK),
        (
            DSTORAGE_COMPRESSION_FORMAT(abi::DSTORAGE_COMPRESSION_FORMAT_ZSTD),
            DSTORAGE_COMPRESSION_SUPPORT_CPU_FALLBACK,
        ),
        (
            DSTORAGE_COMPRESSION_FORMAT(3),
            DSTORAGE_COMPRESSION_SUPPORT_NONE,
        ),
        (CUSTOM, DSTORAGE_COMPRESSION_SUPPORT_NONE),
    ] {
        assert_eq!(queue.support(format), expected);
    }
    let table = Interface::vtable(&queue);
    let query = table.base__.base__.base__.Query;
    // SAFETY: an object, and what the test passes on purpose.
    unsafe { query(queue.as_raw(), std::ptr::null_mut()) };
}

#[test]
fn requests_read_what_they_name() {
    let session = Session::new();
    let bytes = pattern(5_000_000, 6);
    let file = session.file("a", &bytes);
    let queue = session.queue(FILE);
    let mut parts: Vec<Vec<u8>> = [1, 4096, 100_001, 1 << 20, 3_000_000]
        .map(|len| vec![0; len])
        .to_vec();
    let offsets = [4_999_999, 4096, 77, 3, 2_000_000];
    let requests: Vec<_> = parts
        .iter_mut()
        .zip(offsets)
        .map(|(part, offset)| read(&file, offset, part))
        .collect();
    assert_eq!(run(&session, &queue, &requests), OK);
    for (part, offset) in parts.iter().zip(offsets) {
        let offset = offset as usize;
        assert_eq!(part[..], bytes[offset..offset + part.len()]);
    }
}

#[test]
fn there_are_slots_for_one_entry_less_than_the_capacity() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let mut held = Vec::new();
    for used in 1..=127 {
        held.push(hold(&queue));
        assert_eq!(query(&queue).EmptySlotCount, 127 - used);
    }
    assert_eq!(
        end_held(&session, OK),
        64,
        "half of the capacity was submitted"
    );
    assert_eq!(query(&queue).EmptySlotCount, 64);
    queue.submit();
    assert_eq!(end_held(&session, OK), 63);
    assert_eq!(query(&queue).EmptySlotCount, 127);
}

#[test]
fn half_of_the_capacity_submits_itself() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let statuses = session.statuses(64);
    for enqueued in 1..=63 {
        queue.status(&statuses, enqueued);
        let left = query(&queue).RequestCountUntilAutoSubmit;
        assert_eq!(u32::from(left), 64 - enqueued);
    }
    assert!(!statuses.is_complete(1), "nothing is submitted");
    queue.status(&statuses, 0);
    // Statuses without requests before them complete in the call that submits them.
    for index in 0..64 {
        assert_eq!(result(&statuses, index), OK);
    }
    let info = query(&queue);
    assert_eq!(
        (info.EmptySlotCount, info.RequestCountUntilAutoSubmit),
        (127, 64)
    );
}

#[test]
fn a_full_queue_blocks_until_a_slot_is_free() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let held: Vec<_> = (0..127).map(|_| hold(&queue)).collect();
    assert_eq!(query(&queue).EmptySlotCount, 0);
    let (has_begun, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (from, mut into) = ([7], [0]);
    let mut ended = 0;
    std::thread::scope(|scope| {
        let own = Shared::new((queue.clone(), copy(&from, NONE, &mut into)));
        let (has_begun, has_ended) = (&has_begun, &has_ended);
        scope.spawn(move || {
            has_begun.store(true, Ordering::SeqCst);
            own.0.request(&own.1);
            has_ended.store(true, Ordering::SeqCst);
        });
        assert!(millstream_testing::wait_for(
            || has_begun.load(Ordering::SeqCst)
        ));
        let limit = std::time::Duration::from_millis(50);
        assert!(
            !wait_at_most(limit, || has_ended.load(Ordering::SeqCst)),
            "it blocks"
        );
        ended = end_held(&session, OK);
        assert!(ended >= 64, "half of the capacity was submitted");
    });
    assert!(has_ended.load(Ordering::SeqCst));
    queue.submit();
    assert_eq!(ended + end_held(&session, OK), 127);
    drain(&queue);
    assert_eq!(into, from);
    drop(held);
}

#[test]
fn a_status_is_the_first_failure_in_the_order_of_enqueueing() {
    let session = Session::new();
    let file = session.file("a", &pattern(1000, 7));
    let queue = session.queue(FILE);
    let statuses = session.statuses(4);
    let (mut one, mut two, mut three, mut four) = ([0; 1000], [0; 1000], [0; 10], [0; 10]);
    queue.request(&read(&file, 0, &mut one));
    // Fails late, when the program ends it.
    queue.request(&read_encoded(&file, 0, 10, CUSTOM, &mut three));
    // Fail early.
    queue.request(&read(&file, 1, &mut two));
    let mut wrong = read(&file, 0, &mut four);
    wrong.Options.Reserved1[0] = 1;
    queue.request(&wrong);
    queue.status(&statuses, 0);
    // Without a failure since the last status.
    queue.request(&read(&file, 0, &mut one));
    queue.status(&statuses, 1);
    queue.request(&wrong);
    queue.request(&read(&file, 1, &mut two));
    queue.status(&statuses, 2);
    queue.status(&statuses, 3);
    queue.submit();
    for index in 0..4 {
        assert_eq!(
            result(&statuses, index),
            PENDING,
            "status {index} waits for its turn"
        );
    }
    let custom = session.custom();
    expect_set(custom.event());
    assert_eq!(end_held(&session, windows_core::HRESULT(-77)), 1);
    drain(&queue);
    let expected = [-77, abi::S_OK, abi::E_DSTORAGE_RESERVED_FIELDS, abi::S_OK];
    for (index, expected) in expected.into_iter().enumerate() {
        assert_eq!(
            result(&statuses, index as u32).0,
            expected,
            "status {index}"
        );
    }
    assert_eq!(record(&queue).FailureCount, 5);
}

#[test]
fn a_status_waits_for_what_was_enqueued_before_it_alone() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let statuses = session.statuses(2);
    let (from, mut into) = ([9; 100], [0; 100]);
    queue.request(&copy(&from, NONE, &mut into));
    queue.status(&statuses, 0);
    queue.submit();
    drain(&queue);
    let held = hold(&queue);
    queue.status(&statuses, 1);
    let event = Event::new();
    queue.set_event(event.0);
    queue.submit();
    assert_eq!(result(&statuses, 0), OK);
    assert_eq!(result(&statuses, 1), PENDING);
    assert!(!event.is_set());
    // A status may be enqueued again once it is complete.
    queue.status(&statuses, 0);
    assert_eq!(result(&statuses, 0), PENDING);
    assert_eq!(end_held(&session, OK), 1);
    event.wait();
    drain(&queue);
    assert_eq!((result(&statuses, 0), result(&statuses, 1)), (OK, OK));
    drop(held);
}

#[test]
fn events_are_set_after_failures_and_although_their_handle_is_closed() {
    let session = Session::new();
    let file = session.file("a", b"short");
    let queue = session.queue(FILE);
    let (event, other) = (Event::new(), Event::new());
    let mut into = [0; 100];
    queue.request(&read(&file, 0, &mut into));
    queue.set_event(event.0);
    // Another handle of the same event is closed before the event is set.
    let duplicate = duplicate(other.0);
    queue.set_event(duplicate.0);
    drop(duplicate);
    queue.submit();
    event.wait();
    other.wait();
    assert_eq!(record(&queue).FailureCount, 1);
}

fn duplicate(handle: windows::Win32::Foundation::HANDLE) -> Event {
    use windows_sys::Win32::Foundation::{DUPLICATE_SAME_ACCESS, DuplicateHandle};
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    let mut other = std::ptr::null_mut();
    // SAFETY: objects and memory that the test holds, and null on purpose.
    let duplicated = unsafe {
        let process = GetCurrentProcess();
        DuplicateHandle(
            process,
            handle.0,
            process,
            &mut other,
            0,
            0,
            DUPLICATE_SAME_ACCESS,
        )
    };
    assert_ne!(duplicated, 0);
    Event(windows::Win32::Foundation::HANDLE(other))
}

#[test]
fn canceled_requests_are_no_failures() {
    let session = Session::new();
    let file = session.file("a", &pattern(1 << 20, 8));
    let queue = session.queue_of(1024, FILE);
    let statuses = session.statuses(1);
    let mut parts = vec![[0_u8; 4096]; 300];
    for (at, part) in parts.iter_mut().enumerate() {
        // Those with an odd tag would fail.
        let offset = if at % 2 == 0 {
            at as u64 * 1024
        } else {
            1 << 30
        };
        let mut request = read(&file, offset, part);
        request.CancellationTag = 0xf0 | (at as u64 % 2);
        queue.request(&request);
    }
    // No tag is 2, so this cancels nothing.
    queue.cancel(0xf, 2);
    queue.cancel(0xf, 1);
    queue.status(&statuses, 0);
    drain(&queue);
    assert_eq!(result(&statuses, 0), OK);
    assert_eq!(record(&queue).FailureCount, 0);
    let bytes = pattern(1 << 20, 8);
    for (at, part) in parts.iter().enumerate().step_by(2) {
        assert_eq!(
            part[..],
            bytes[at * 1024..at * 1024 + 4096],
            "request {at} completed"
        );
    }
    assert_eq!(query(&queue).EmptySlotCount, 1023);
}

#[test]
fn a_canceled_request_that_was_submitted_completes_either_way() {
    let session = Session::new();
    let bytes = pattern(8 << 20, 9);
    let file = session.file("a", &bytes);
    let queue = session.queue_of(1024, FILE);
    let statuses = session.statuses(1);
    let mut parts = vec![vec![0_u8; 64 << 10]; 128];
    for (at, part) in parts.iter_mut().enumerate() {
        let mut request = read(&file, at as u64 * (64 << 10), part);
        request.CancellationTag = 5;
        queue.request(&request);
    }
    queue.submit();
    queue.cancel(u64::MAX, 5);
    queue.status(&statuses, 0);
    drain(&queue);
    assert_eq!(result(&statuses, 0), OK);
    assert_eq!(record(&queue).FailureCount, 0);
    assert_eq!(query(&queue).EmptySlotCount, 1023);
    // What was not read is untouched or whole: each request is one block of the engine.
    for (at, part) in parts.iter().enumerate() {
        let is_whole = part[..] == bytes[at * (64 << 10)..(at + 1) * (64 << 10)];
        assert!(
            is_whole || part.iter().all(|byte| *byte == 0),
            "request {at}"
        );
    }
}

#[test]
fn every_priority_completes() {
    let session = Session::new();
    let bytes = pattern(1 << 20, 10);
    let file = session.file("a", &bytes);
    for priority in -1..=2 {
        let description = DSTORAGE_QUEUE_DESC {
            Capacity: 128,
            Priority: DSTORAGE_PRIORITY(priority),
            ..Default::default()
        };
        let queue: IDStorageQueue3 =
            // SAFETY: parameters that the method takes.
            unsafe { session.factory.CreateQueue(&description) }.expect("a queue");
        assert_eq!(query(&queue).Desc.Priority, DSTORAGE_PRIORITY(priority));
        let mut into = vec![0; bytes.len()];
        assert_eq!(run(&session, &queue, &[read(&file, 0, &mut into)]), OK);
        assert_eq!(into, bytes);
    }
}

#[test]
fn an_array_of_requests_larger_than_the_queue_is_enqueued_whole() {
    let session = Session::new();
    let bytes = pattern(1 << 20, 11);
    let file = session.file("a", &bytes);
    let queue = session.queue(FILE);
    let mut into = vec![0; bytes.len()];
    let requests: Vec<_> = into
        .chunks_mut(1024)
        .enumerate()
        .map(|(at, part)| read(&file, at as u64 * 1024, part))
        .collect();
    assert_eq!(requests.len(), 1024);
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    queue.requests(&requests, None, 0, none);
    drain(&queue);
    assert_eq!(into, bytes);
}

#[test]
fn source_and_destination_may_overlap() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let bytes = pattern(100_000, 47);
    for (from, to) in [(0, 1000), (1000, 0)] {
        let mut buffer = bytes.clone();
        let (own, into) = (buffer.as_ptr(), &mut buffer[to..to + 90_000]);
        let mut request = copy(&bytes[..90_000], NONE, into);
        request.Source.Memory.Source = own.wrapping_add(from).cast();
        assert_eq!(run(&session, &queue, &[request]), OK);
        assert!(buffer[to..to + 90_000] == bytes[from..from + 90_000]);
    }
}
