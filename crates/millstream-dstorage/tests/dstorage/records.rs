//! Error records and error events.
#![expect(unsafe_code, reason = "calls COM methods")]

use direct_storage::*;
use dstorage::abi;
use windows::Win32::Foundation::HANDLE;
use windows_core::{HRESULT, Interface, PCSTR};

use crate::calls::*;
use crate::common::*;

#[test]
fn a_record_has_the_first_failure_in_the_order_of_enqueueing() {
    let session = Session::new();
    let file = session.file("records.bin", &pattern(100, 30));
    let queue = session.queue(FILE);
    let error = queue.error_event();
    assert!(!is_set_within(error, 0));
    let (mut one, mut two) = ([0; 10], [0; 10]);
    let mut first = read_encoded(&file, 5, 10, CUSTOM, &mut one);
    first.Name = PCSTR(c"the first".as_ptr().cast());
    first.CancellationTag = 42;
    let mut second = read(&file, 1000, &mut two);
    second.Name = PCSTR(c"the second".as_ptr().cast());
    queue.request(&first);
    queue.request(&second);
    queue.request(&second);
    queue.submit();
    // The second fails first.
    expect_set(error);
    expect_set(session.custom().event());
    assert_eq!(end_held(&session, HRESULT(-5)), 1);
    drain(&queue);
    let found = record(&queue);
    assert_eq!(found.FailureCount, 3);
    assert_eq!(found.FirstFailure.HResult, HRESULT(-5));
    assert_eq!(
        found.FirstFailure.CommandType,
        DSTORAGE_COMMAND_TYPE_REQUEST
    );
    // SAFETY: the member that the type of the command or request names.
    let parameters = unsafe { &found.FirstFailure.Anonymous.Request };
    let name: Vec<u8> = parameters
        .RequestName
        .iter()
        .map(|byte| *byte as u8)
        .collect();
    assert_eq!(&name[..10], b"the first\0");
    assert!(name[10..].iter().all(|byte| *byte == 0));
    let filename = String::from_utf16_lossy(&parameters.Filename);
    let filename = filename.split('\0').next().expect("a name");
    assert!(filename.ends_with("records.bin"), "{filename}");
    assert_eq!(parameters.Request.CancellationTag, 42);
    // SAFETY: the member that the type of the command or request names.
    assert_eq!(unsafe { parameters.Request.Source.File.Offset }, 5);
    assert_eq!(parameters.Request.UncompressedSize, 10);
    // Retrieved: the next begins anew.
    assert!(!is_set_within(error, 0));
    let none = record(&queue);
    assert_eq!(none.FailureCount, 0);
    assert_eq!(none.FirstFailure.CommandType, DSTORAGE_COMMAND_TYPE_NONE);
    assert_eq!(none.FirstFailure.HResult, OK);
    assert_eq!(
        run(&session, &queue, &[second]).0,
        abi::E_DSTORAGE_END_OF_FILE
    );
    expect_set(error);
    let parameters = record(&queue);
    assert_eq!(parameters.FailureCount, 1);
}

#[test]
fn a_name_of_a_request_has_63_characters_in_a_record() {
    let session = Session::new();
    let file = session.file("a", b"bytes");
    let queue = session.queue(FILE);
    for len in [0, 1, 62, 63, 64, 65, 1000] {
        let mut into = [0; 10];
        let name = [vec![b'n'; len], vec![0]].concat();
        let mut request = read(&file, 0, &mut into);
        request.Name = PCSTR(name.as_ptr());
        assert_ne!(run(&session, &queue, &[request]), OK);
        let found = record(&queue);
        // SAFETY: the member that the type of the command or request names.
        let found = unsafe { &found.FirstFailure.Anonymous.Request.RequestName };
        let kept = len.min(63);
        assert!(
            found[..kept].iter().all(|byte| *byte == b'n' as i8),
            "{len}"
        );
        assert!(found[kept..].iter().all(|byte| *byte == 0), "{len}");
    }
}

#[test]
fn each_kind_of_command_is_recorded_with_its_parameters() {
    let session = Session::new();
    let queue = session.queue(FILE);
    let statuses = session.statuses(1);
    queue.status(&statuses, 9);
    drain(&queue);
    let found = record(&queue).FirstFailure;
    assert_eq!(found.CommandType, DSTORAGE_COMMAND_TYPE_STATUS);
    assert_eq!(found.HResult.0, abi::E_DSTORAGE_INDEX_BOUND);
    // SAFETY: the member that the type of the command or request names.
    let status = unsafe { &found.Anonymous.Status };
    let array = status.StatusArray.as_ref().map(Interface::as_raw);
    assert_eq!((array, status.Index), (Some(statuses.as_raw()), 9));

    queue.signal(None, 7);
    drain(&queue);
    let found = record(&queue).FirstFailure;
    assert_eq!(found.CommandType, DSTORAGE_COMMAND_TYPE_SIGNAL);
    assert_eq!(found.HResult.0, abi::E_DSTORAGE_INVALID_FENCE);
    // SAFETY: the member that the type of the command or request names.
    let signal = unsafe { &found.Anonymous.Signal };
    assert!(signal.Fence.is_none());
    assert_eq!(signal.Value, 7);

    // A handle of another kind.
    let other = std::fs::File::open(std::env::current_exe().expect("a path")).expect("it opens");
    let handle = HANDLE(std::os::windows::io::AsRawHandle::as_raw_handle(&other));
    queue.set_event(handle);
    drain(&queue);
    let found = record(&queue).FirstFailure;
    assert_eq!(found.CommandType, DSTORAGE_COMMAND_TYPE_EVENT);
    assert!(found.HResult.is_err());

    // Null, the pseudo handle of the process, a number that is no handle, a closed handle.
    let closed = Event::new();
    let handle = closed.0;
    drop(closed);
    for wrong in [0_isize, -1, 0x7ff_fffc, handle.0 as isize] {
        let wrong = HANDLE(wrong as *mut _);
        let statuses = session.statuses(2);
        queue.status(&statuses, 1);
        queue.set_event(wrong);
        queue.status(&statuses, 0);
        drain(&queue);
        let found = record(&queue).FirstFailure;
        assert_eq!(found.CommandType, DSTORAGE_COMMAND_TYPE_EVENT, "{wrong:?}");
        assert_eq!(found.HResult.0, abi::E_HANDLE, "{wrong:?}");
        // SAFETY: the member that the type of the command or request names.
        assert_eq!(unsafe { found.Anonymous.Event.Handle }, wrong);
        assert_eq!(
            result(&statuses, 0).0,
            abi::E_HANDLE,
            "a later status has it"
        );
    }
}

#[test]
fn a_failure_holds_no_file_until_its_record_is_retrieved() {
    let session = Session::new();
    let file = session.file("held.bin", &pattern(100, 31));
    let queue = session.queue(FILE);
    let mut into = [0; 10];
    assert_ne!(run(&session, &queue, &[read(&file, 99, &mut into)]), OK);
    drop(file);
    queue.close();
    let resized = session.factory.set_staging(1 << 20);
    assert_eq!(code(resized), OK, "the released file is closed");
    let found = record(&queue);
    // SAFETY: the member that the type of the command or request names.
    let filename = unsafe { found.FirstFailure.Anonymous.Request.Filename };
    assert!(String::from_utf16_lossy(&filename).contains("held.bin"));
}
