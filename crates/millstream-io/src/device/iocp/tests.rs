//! Simulated outcomes that files of this machine do not produce: calls that end at once, a volume
//! that is gone, a server that hangs.

use std::cell::RefCell;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{ERROR_DEVICE_NOT_CONNECTED, ERROR_HANDLE_EOF, HANDLE};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::*;
use crate::device::system::Attachment;
use crate::device::{Descriptor, Segment, Segments, fake};
use crate::error::Errno;

/// Handles whose calls send no packet when they succeed at once, and those whose calls do.
const SKIPS: bool = true;
const POSTS: bool = false;

/// What the calls of this test do and did; a device calls on its owner's thread.
#[derive(Default)]
struct Script {
    outcomes: Vec<Started>,
    started: Vec<*mut OVERLAPPED>,
    canceled: Vec<*mut OVERLAPPED>,
}

thread_local! {
    static SCRIPT: RefCell<Script> = RefCell::default();
}

unsafe fn start(transfer: &Transfer) -> Started {
    SCRIPT.with_borrow_mut(|script| {
        script.started.push(transfer.overlapped);
        script.outcomes.remove(0)
    })
}

unsafe fn cancel(_: HANDLE, overlapped: *mut OVERLAPPED) {
    SCRIPT.with_borrow_mut(|script| script.canceled.push(overlapped));
}

/// Makes a device whose calls follow the script.
fn device(outcomes: &[Started]) -> (Box<Iocp>, Arc<Port>) {
    SCRIPT.replace(Script {
        outcomes: outcomes.to_vec(),
        ..Script::default()
    });
    let port = Port::new().unwrap();
    let functions = Functions { start, cancel };
    let options = IocpOptions::default();
    let device = Iocp::with(Arc::clone(&port), &options, functions).unwrap();
    (Box::new(device), port)
}

fn started() -> Vec<*mut OVERLAPPED> {
    SCRIPT.with_borrow(|script| script.started.clone())
}

fn file(port: &Port, skips: bool) -> Descriptor {
    let number = port.number();
    let port = Some(Attachment { skips, number });
    Descriptor::of(std::ptr::without_provenance_mut(0x1000), 1, port)
}

/// Pushes and submits a read of as many segments of 100 bytes; nothing touches the memory.
fn read(device: &mut Iocp, id: u64, skips: bool, segments: &[Segment]) {
    let operation = Operation {
        segments: Segments::list(segments),
        ..fake::read(id, file(&device.port, skips), 0, segments[0])
    };
    // SAFETY: the calls of the script touch no memory, and the list outlives the test.
    assert_eq!(unsafe { device.push(&[operation]) }, 1);
    device.submit().unwrap();
}

fn segments(count: usize) -> Vec<Segment> {
    vec![Segment::new(null_mut(), 100); count]
}

fn reaped(device: &mut Iocp) -> Vec<Completion> {
    let mut completions = Vec::new();
    device.reap(&mut completions);
    completions
}

#[test]
fn a_read_that_ends_at_once_waits_for_the_reap() {
    let (mut device, _) = device(&[Started::Moved(100), Started::Moved(60)]);
    let list = segments(2);
    read(&mut device, 7, SKIPS, &list);
    device.wait(None, &mut || false).unwrap();
    assert_eq!(reaped(&mut device), [Completion { id: 7, result: 160 }]);
    assert_eq!((device.in_flight(), reaped(&mut device).len()), (0, 0));
}

#[test]
fn where_a_packet_follows_the_packet_counts() {
    let (mut device, port) = device(&[Started::Moved(100)]);
    let list = segments(1);
    read(&mut device, 7, POSTS, &list);
    assert_eq!(reaped(&mut device), []);
    port.deliver(started()[0], 100);
    device.wait(None, &mut || false).unwrap();
    assert_eq!(reaped(&mut device), [Completion { id: 7, result: 100 }]);
}

#[test]
fn segments_end_in_any_order_and_count_up_to_the_gap() {
    let (mut device, port) = device(&[Started::Pending; 3]);
    let list = segments(3);
    read(&mut device, 7, SKIPS, &list);
    for (index, moved) in [(2, 100), (0, 100), (1, 30)] {
        assert_eq!(reaped(&mut device), []);
        port.deliver(started()[index], moved);
    }
    assert_eq!(reaped(&mut device), [Completion { id: 7, result: 130 }]);
}

#[test]
fn a_removed_volume_is_an_error_of_its_operation_and_nothing_follows() {
    let gone = Errno(ERROR_DEVICE_NOT_CONNECTED as i32);
    let end = Errno(ERROR_HANDLE_EOF as i32);
    let outcomes = [
        Started::Failed(gone),
        Started::Failed(end),
        Started::Moved(100),
        Started::Failed(gone),
    ];
    let (mut device, _) = device(&outcomes);
    let list = segments(2);
    for id in 0..3 {
        read(&mut device, id, SKIPS, &list);
    }
    let results: Vec<_> = reaped(&mut device).iter().map(Completion::moved).collect();
    assert_eq!(results, [Err(gone), Ok(0), Ok(100)]);
    assert_eq!(started().len(), 4, "nothing is started behind a gap");
}

#[test]
fn a_packet_behind_a_failure_ends_no_other_transfer() {
    let gone = Errno(ERROR_DEVICE_NOT_CONNECTED as i32);
    let (mut device, port) = device(&[Started::Failed(gone), Started::Pending]);
    let list = segments(1);
    read(&mut device, 7, POSTS, &list);
    assert_eq!(reaped(&mut device)[0].moved(), Err(gone));
    read(&mut device, 8, POSTS, &list);
    port.deliver(started()[0], 100);
    assert_eq!(reaped(&mut device), []);
    port.deliver(started()[1], 60);
    assert_eq!(reaped(&mut device), [Completion { id: 8, result: 60 }]);
}

#[test]
fn files_of_another_port_go_to_the_pool() {
    let (mut device, _) = device(&[]);
    let other = Port::new().unwrap();
    let operation = fake::read(7, file(&other, SKIPS), 0, segments(1)[0]);
    // SAFETY: there is no such handle, so no call touches the memory.
    assert_eq!(unsafe { device.push(&[operation]) }, 1);
    device.submit().unwrap();
    let mut completions = Vec::new();
    let until = Instant::now() + Duration::from_secs(20);
    Box::new(*device).shutdown(until, &mut completions);
    assert_eq!((completions.len(), completions[0].id), (1, 7));
    assert_eq!(started().len(), 0, "the port is not asked");
}

#[test]
fn what_hangs_is_canceled_and_then_abandoned_in_bounded_time() {
    let (mut device, _) = device(&[Started::Pending; 2]);
    let list = segments(2);
    read(&mut device, 7, SKIPS, &list);
    let begun = Instant::now();
    let mut completions = Vec::new();
    let deadline = begun + Duration::from_millis(200);
    let abandoned = device.shutdown(deadline, &mut completions);
    assert_eq!((abandoned.operations, completions), (vec![7], vec![]));
    assert!(begun.elapsed() < Duration::from_secs(10));
    SCRIPT.with_borrow(|script| assert_eq!(script.canceled, script.started));
}

#[test]
fn what_a_cancel_ends_is_no_longer_abandoned() {
    let (mut device, port) = device(&[Started::Pending]);
    let list = segments(1);
    read(&mut device, 7, SKIPS, &list);
    let overlapped = started()[0].expose_provenance();
    let bell = device.doorbell();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        port.deliver(std::ptr::with_exposed_provenance_mut(overlapped), 40);
        bell.ring();
    });
    let mut completions = Vec::new();
    let abandoned = device.shutdown(Instant::now() + Duration::from_secs(20), &mut completions);
    thread.join().unwrap();
    assert!(abandoned.operations.is_empty());
    assert_eq!(completions, [Completion { id: 7, result: 40 }]);
}

#[test]
#[should_panic(expected = "a completion port has one device")]
fn a_port_has_one_device() {
    let (_device, port) = device(&[]);
    let _ = Iocp::new(port, &IocpOptions::default());
}
