//! Fences of D3D12: signals, and requests that wait. The fence is the test's own object with the
//! interface of `ID3D12Fence`, so it needs no device; the library calls only public methods.
#![expect(unsafe_code, reason = "calls and implements COM methods")]

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use direct_storage::*;
use dstorage::abi;
use millstream_testing::{wait_at_most, wait_for};
use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::{
    ID3D12DeviceChild_Impl, ID3D12Fence, ID3D12Fence_Impl, ID3D12Object_Impl, ID3D12Pageable_Impl,
};
use windows_core::{GUID, HRESULT, IUnknown, Interface, PCWSTR, Ref, Result, implement};
use windows_sys::Win32::System::Threading::SetEvent;

use crate::calls::*;
use crate::common::*;

/// Fences that exist.
static ALIVE: AtomicU32 = AtomicU32::new(0);

#[derive(Default)]
pub(crate) struct FenceState {
    value: u64,
    signals: Vec<u64>,
    waits: Vec<(u64, isize)>,
    /// What `Signal` returns instead of a success.
    failure: Option<HRESULT>,
    /// What `Signal` closes.
    closes: Option<IDStorageQueue3>,
    /// The queue in which the first `Signal` enqueues so many events.
    enqueues: Option<(IDStorageQueue3, usize, HANDLE)>,
    /// What `Signal` waits for.
    pub(crate) blocks: Option<HANDLE>,
    /// What the first `Signal` reports as decompressed.
    pub(crate) finishes: Option<(
        IDStorageCustomDecompressionQueue1,
        DSTORAGE_CUSTOM_DECOMPRESSION_RESULT,
    )>,
}

#[implement(ID3D12Fence)]
pub(crate) struct TestFence(pub(crate) Mutex<FenceState>);

impl Drop for TestFence {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestFence {
    pub(crate) fn new() -> windows_core::ComObject<TestFence> {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        windows_core::ComObject::new(TestFence(Mutex::default()))
    }

    fn raise(&self, value: u64) {
        let mut state = self.0.lock().expect("no panic");
        state.value = value;
        state.signals.push(value);
        state.waits.retain(|(at, event)| {
            if *at <= value {
                // SAFETY: a handle that is open.
                unsafe { SetEvent(*event as *mut c_void) };
            }
            *at > value
        });
    }
}

impl ID3D12Object_Impl for TestFence_Impl {
    fn GetPrivateData(&self, _: *const GUID, _: *mut u32, _: *mut c_void) -> Result<()> {
        unreachable!("never called")
    }
    fn SetPrivateData(&self, _: *const GUID, _: u32, _: *const c_void) -> Result<()> {
        unreachable!("never called")
    }
    fn SetPrivateDataInterface(&self, _: *const GUID, _: Ref<IUnknown>) -> Result<()> {
        unreachable!("never called")
    }
    fn SetName(&self, _: &PCWSTR) -> Result<()> {
        unreachable!("never called")
    }
}

impl ID3D12DeviceChild_Impl for TestFence_Impl {
    fn GetDevice(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()> {
        unreachable!("never called")
    }
}

impl ID3D12Pageable_Impl for TestFence_Impl {}

impl ID3D12Fence_Impl for TestFence_Impl {
    fn GetCompletedValue(&self) -> u64 {
        self.0.lock().expect("no panic").value
    }

    fn SetEventOnCompletion(&self, value: u64, event: HANDLE) -> Result<()> {
        let mut state = self.0.lock().expect("no panic");
        match state.value >= value {
            // SAFETY: a handle that is open.
            true => drop(unsafe { SetEvent(event.0) }),
            false => state.waits.push((value, event.0 as isize)),
        }
        Ok(())
    }

    fn Signal(&self, value: u64) -> Result<()> {
        let mut state = self.0.lock().expect("no panic");
        if let Some(failure) = state.failure {
            return Err(failure.into());
        }
        let (closes, enqueues) = (state.closes.clone(), state.enqueues.take());
        let (blocks, finishes) = (state.blocks, state.finishes.take());
        drop(state);
        if let Some((custom, result)) = finishes {
            custom.set_results(&[result]).expect("it is known");
        }
        if let Some((queue, count, event)) = enqueues {
            for _ in 0..count {
                queue.set_event(event);
            }
            queue.submit();
        }
        if let Some(event) = blocks {
            expect_set(event);
        }
        if let Some(queue) = closes {
            queue.close();
        }
        self.raise(value);
        Ok(())
    }
}

/// Checks that no fence is left: the library released what it took.
fn expect_none_left() {
    assert!(
        wait_for(|| ALIVE.load(Ordering::SeqCst) == 0),
        "every fence is released"
    );
}

#[test]
fn fences_are_signaled_in_order_and_after_failures() {
    let session = Session::new();
    let file = session.file("a", &pattern(100_000, 90));
    let queue = session.queue(FILE);
    let fence = TestFence::new();
    let as_fence: ID3D12Fence = fence.to_interface();
    let mut into = vec![0; 100_000];
    for round in 0..100_u64 {
        // Every other fails.
        let offset = round % 2;
        queue.request(&read(&file, offset, &mut into));
        queue.signal(&as_fence, round + 1);
    }
    drain(&queue);
    let signals = fence.0.lock().expect("no panic").signals.clone();
    assert_eq!(signals, (1..=100).collect::<Vec<u64>>());
    assert_eq!(record(&queue).FailureCount, 50);
    drop((fence, as_fence));
    expect_none_left();
}

#[test]
fn a_signal_that_fails_is_a_failure_of_the_next_status() {
    let session = Session::new();
    let queue = session.queue(FILE);
    let fence = TestFence::new();
    let as_fence: ID3D12Fence = fence.to_interface();
    fence.0.lock().expect("no panic").failure = Some(HRESULT(-9));
    let statuses = session.statuses(2);
    queue.signal(&as_fence, 5);
    queue.signal(None, 6);
    queue.status(&statuses, 0);
    queue.status(&statuses, 1);
    drain(&queue);
    assert_eq!(
        (result(&statuses, 0), result(&statuses, 1)),
        (HRESULT(-9), OK)
    );
    let found = record(&queue);
    assert_eq!(
        (found.FailureCount, found.FirstFailure.HResult),
        (2, HRESULT(-9))
    );
    // SAFETY: the member that the type of the command or request names.
    let signal = unsafe { &found.FirstFailure.Anonymous.Signal };
    assert_eq!(signal.Value, 5);
    drop((fence, as_fence));
    expect_none_left();
}

#[test]
fn objects_that_are_no_fences_are_refused() {
    let session = Session::new();
    let file = session.file("a", b"bytes");
    let queue = session.queue(FILE);
    // SAFETY: a pointer that is passed on, and never released.
    let other = unsafe { std::mem::ManuallyDrop::new(ID3D12Fence::from_raw(file.as_raw())) };
    let mut into = [0; 5];
    let request = read(&file, 0, &mut into);
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    queue.signal(&*other, 1);
    queue.requests(&[request], &*other, 1, none);
    drain(&queue);
    let found = record(&queue);
    assert_eq!(found.FailureCount, 2);
    assert_eq!(found.FirstFailure.HResult.0, abi::E_DSTORAGE_INVALID_FENCE);
    assert_eq!(into, [0; 5]);
}

#[test]
fn requests_wait_for_a_fence_before_they_write() {
    let session = Session::new();
    let bytes = pattern(200_000, 91);
    let file = session.file("a", &bytes);
    let stored = gdeflate::compress(&bytes, gdeflate::Level::FASTEST, 1).expect("compressed");
    let (files, memory) = (session.queue(FILE), session.queue(MEMORY));
    for flags in [0, 1, 2] {
        let flags = DSTORAGE_ENQUEUE_REQUEST_FLAGS(flags);
        let fence = TestFence::new();
        let as_fence: ID3D12Fence = fence.to_interface();
        let (mut one, mut two, mut three) = (vec![0; 200_000], vec![0; 200_000], vec![0; 200_000]);
        let event = Event::new();
        let requests = [
            copy(&bytes, NONE, &mut two),
            copy(&stored, GDEFLATE, &mut three),
        ];
        files.requests(&[read(&file, 0, &mut one)], &as_fence, 3, flags);
        memory.requests(&requests, &as_fence, 3, flags);
        let file_event = Event::new();
        files.set_event(file_event.0);
        files.submit();
        memory.set_event(event.0);
        memory.submit();
        fence.raise(2);
        assert!(
            !wait_at_most(Duration::from_millis(30), || event.is_set()
                || file_event.is_set()),
            "{flags:?}"
        );
        fence.raise(3);
        event.wait();
        drain(&files);
        assert!(one == bytes && two == bytes && three == bytes, "{flags:?}");
        // A value that is reached needs no wait.
        one.fill(0);
        files.requests(&[read(&file, 0, &mut one)], &as_fence, 3, flags);
        assert!(fence.0.lock().expect("no panic").waits.is_empty());
        drain(&files);
        assert!(one == bytes);
    }
    expect_none_left();
}

#[test]
fn custom_requests_wait_for_a_fence_before_the_program_gets_them() {
    let session = Session::new();
    let bytes = pattern(1000, 92);
    let file = session.file("a", &bytes);
    let (files, memory) = (session.queue(FILE), session.queue(MEMORY));
    let custom = session.custom().event();
    for is_file in [true, false] {
        let fence = TestFence::new();
        let as_fence: ID3D12Fence = fence.to_interface();
        let mut into = vec![0; 1000];
        let (queue, request) = match is_file {
            true => (&files, read_encoded(&file, 0, 1000, CUSTOM, &mut into)),
            false => (&memory, copy(&bytes, CUSTOM, &mut into)),
        };
        let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
        queue.requests(&[request], &as_fence, 1, none);
        queue.submit();
        assert!(!is_set_within(custom, 20));
        fence.raise(1);
        expect_set(custom);
        assert_eq!(end_held(&session, OK), 1);
        drain(queue);
    }
    expect_none_left();
}

#[test]
fn a_fence_that_is_never_reached_does_not_hold_up_close() {
    let session = Session::new();
    let file = session.file("a", &pattern(1000, 93));
    let fence = TestFence::new();
    let as_fence: ID3D12Fence = fence.to_interface();
    for flags in [0, 2] {
        let queue = session.queue(FILE);
        let mut into = vec![0; 1000];
        let flags = DSTORAGE_ENQUEUE_REQUEST_FLAGS(flags);
        queue.requests(&[read(&file, 0, &mut into)], &as_fence, 1, flags);
        queue.submit();
        queue.close();
        into.fill(0xa5);
        fence.raise(1);
        fence.0.lock().expect("no panic").value = 0;
        drop(queue);
        assert!(
            into.iter().all(|byte| *byte == 0xa5),
            "nothing is written after Close"
        );
    }
    drop((fence, as_fence));
    expect_none_left();
}

#[test]
fn canceled_requests_leave_their_fence() {
    let session = Session::new();
    let file = session.file("a", &pattern(1000, 94));
    let queue = session.queue(FILE);
    let fence = TestFence::new();
    let as_fence: ID3D12Fence = fence.to_interface();
    let mut into = vec![0; 1000];
    let mut request = read(&file, 0, &mut into);
    request.CancellationTag = 8;
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    queue.requests(&[request], &as_fence, 1, none);
    queue.submit();
    queue.cancel(8, 8);
    drain(&queue);
    assert_eq!(record(&queue).FailureCount, 0);
    drop((fence, as_fence));
    expect_none_left();
}

#[test]
fn a_fence_may_close_the_queue_that_signals_it() {
    let session = Session::new();
    let file = session.file("a", &pattern(100_000, 95));
    let queue = session.queue(FILE);
    let fence = TestFence::new();
    let as_fence: ID3D12Fence = fence.to_interface();
    fence.0.lock().expect("no panic").closes = Some(queue.clone());
    let statuses = session.statuses(1);
    let mut parts = vec![vec![0; 100_000]; 10];
    for part in &mut parts {
        queue.request(&read(&file, 0, part));
    }
    queue.signal(&as_fence, 1);
    queue.status(&statuses, 0);
    // In flight until it is canceled.
    let mut gated = vec![0; 1000];
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    let never: ID3D12Fence = TestFence::new().to_interface();
    queue.requests(&[read(&file, 0, &mut gated)], &never, 1, none);
    queue.submit();
    assert!(wait_for(|| fence.0.lock().expect("no panic").value == 1));
    assert_eq!(
        result(&statuses, 0),
        PENDING,
        "nothing completes after Close"
    );
    fence.0.lock().expect("no panic").closes = None;
    drop((queue, fence, as_fence, never));
    expect_none_left();
}

#[test]
fn a_fence_may_enqueue_more_than_the_queue_has_slots() {
    let session = Session::new();
    let file = session.file("a", &pattern(1000, 96));
    for is_idle in [true, false] {
        let queue = session.queue(FILE);
        let fence = TestFence::new();
        let as_fence: ID3D12Fence = fence.to_interface();
        let (first, last) = (Event::new(), Event::new());
        let enqueues = Some((queue.clone(), 500, first.0));
        fence.0.lock().expect("no panic").enqueues = enqueues;
        let mut into = vec![0; 1000];
        if !is_idle {
            // The queue's thread signals.
            queue.request(&read(&file, 0, &mut into));
        }
        queue.signal(&as_fence, 1);
        queue.submit();
        first.wait();
        assert!(wait_for(|| fence.0.lock().expect("no panic").value == 1));
        queue.set_event(last.0);
        queue.submit();
        last.wait();
    }
}

#[test]
fn close_waits_for_a_fence_that_is_being_signaled() {
    let session = Session::new();
    let queue = session.queue(FILE);
    let fence = TestFence::new();
    let as_fence: ID3D12Fence = fence.to_interface();
    let release = Event::new();
    fence.0.lock().expect("no panic").blocks = Some(release.0);
    queue.signal(&as_fence, 1);
    std::thread::scope(|scope| {
        let own = Shared::new(queue.clone());
        let submits = scope.spawn(move || own.submit());
        let limit = Duration::from_millis(20);
        assert!(!wait_at_most(limit, || submits.is_finished()));
        let own = Shared::new(queue.clone());
        let closes = scope.spawn(move || own.close());
        assert!(!wait_at_most(limit, || closes.is_finished()));
        release.set();
        assert!(wait_for(|| closes.is_finished()));
    });
    assert_eq!(fence.0.lock().expect("no panic").signals, [1]);
}

#[test]
fn a_request_without_bytes_waits_for_its_fence() {
    let session = Session::new();
    let file = session.file("a", b"bytes");
    let (files, memory) = (session.queue(FILE), session.queue(MEMORY));
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    for (queue, request) in [
        (&files, read(&file, 0, &mut [])),
        (&memory, copy(&[], NONE, &mut [])),
    ] {
        let fence = TestFence::new();
        let as_fence: ID3D12Fence = fence.to_interface();
        let event = Event::new();
        queue.requests(&[request], &as_fence, 1, none);
        queue.set_event(event.0);
        queue.submit();
        assert!(!wait_at_most(Duration::from_millis(20), || event.is_set()));
        fence.raise(1);
        event.wait();
        assert_eq!(record(queue).FailureCount, 0);
    }
}

/// Enqueues requests that wait for a fence at 1, and cancels them.
fn cancel_gated(session: &Session, queue: &IDStorageQueue3, fence: &ID3D12Fence, count: usize) {
    let file = session.file("gated", &pattern(1000, 97));
    let mut into = vec![0; 1000];
    let request = read(&file, 0, &mut into);
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    for _ in 0..count {
        queue.requests(std::slice::from_ref(&request), fence, 1, none);
        queue.submit();
        queue.cancel(0, 0);
        drain(queue);
    }
}

#[test]
fn events_of_canceled_requests_are_closed_once_the_fence_is_reached() {
    let session = Session::new();
    let queue = session.queue(FILE);
    let mut highest = Vec::new();
    for _ in 0..2 {
        let fence = TestFence::new();
        let as_fence: ID3D12Fence = fence.to_interface();
        cancel_gated(&session, &queue, &as_fence, 200);
        fence.raise(1);
        let other = TestFence::new();
        let as_fence: ID3D12Fence = other.to_interface();
        cancel_gated(&session, &queue, &as_fence, 1);
        other.raise(1);
        highest.push(highest_handle());
    }
    assert!(highest[1] < highest[0] + 4 * 90, "{highest:?}");
}

#[test]
fn an_event_that_a_fence_is_about_to_set_stays_open() {
    let session = Session::new();
    let queue = session.queue(FILE);
    let fence = TestFence::new();
    let as_fence: ID3D12Fence = fence.to_interface();
    let file = session.file("a", &pattern(1000, 98));
    let mut into = vec![0; 1000];
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    queue.requests(&[read(&file, 0, &mut into)], &as_fence, 1, none);
    queue.submit();
    // A fence publishes its value before it sets events.
    fence.0.lock().expect("no panic").value = 1;
    queue.cancel(0, 0);
    drain(&queue);
    let others: Vec<_> = (0..64).map(|_| Event::new()).collect();
    fence.raise(1);
    assert!(others.iter().all(|event| !event.is_set()));
}
