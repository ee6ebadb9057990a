//! Files: opening, closing, information.
#![expect(unsafe_code, reason = "calls COM methods")]

use dstorage::abi;
use windows_core::{Interface, PCWSTR};

use crate::calls::*;
use crate::common::*;

/// `HRESULT_FROM_WIN32`.
fn win32(error: u32) -> i32 {
    abi::hresult_from_win32(error)
}

#[test]
fn what_cannot_be_opened_is_the_error_of_the_system() {
    let session = Session::new();
    let folder = session.path("");
    let folder = folder
        .to_str()
        .expect("UTF-8")
        .trim_end_matches(['/', '\\']);
    let long = format!("{folder}\\{}", "a".repeat(32_000));
    let longer = "a".repeat(32_768);
    let missing_folder = format!("{folder}\\no\\a");
    let missing = format!("{folder}\\none");
    let cases: [(&str, &[i32]); 8] = [
        (&missing, &[win32(2)]),
        (&missing_folder, &[win32(3)]),
        (folder, &[win32(5)]),
        ("", &[win32(2), win32(3)]),
        // A name of a file is too long, or the path is: systems differ.
        (&long, &[win32(2), win32(3), win32(123), win32(206)]),
        (&longer, &[win32(206)]),
        ("a\u{1}b?*", &[win32(2), win32(123)]),
        ("NUL", &[abi::E_DSTORAGE_UNSUPPORTED_FILE]),
    ];
    for (path, expected) in cases {
        let opened = open(&session.factory, path);
        let found = code(opened).0;
        let shown: String = path.chars().take(60).collect();
        assert!(expected.contains(&found), "{shown:?}: {found:#010x}");
    }
    let none: windows_core::Result<direct_storage::IDStorageFile> =
        // SAFETY: parameters that the method takes.
        unsafe { session.factory.OpenFile(PCWSTR::null()) };
    assert_eq!(code(none).0, abi::E_INVALIDARG);
}

#[test]
fn a_path_longer_than_260_characters_opens() {
    let session = Session::new();
    let folder = session.path(&"f".repeat(120)).join("g".repeat(120));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("h".repeat(100));
    let bytes = pattern(70_000, 1);
    std::fs::write(&path, &bytes).expect("a file");
    let file = open(&session.factory, path.to_str().expect("UTF-8")).expect("it opens");
    let queue = session.queue(FILE);
    let mut into = vec![0; bytes.len()];
    assert_eq!(run(&session, &queue, &[read(&file, 0, &mut into)]), OK);
    assert_eq!(into, bytes);
    // A record has room for 259 characters of it.
    assert_ne!(run(&session, &queue, &[read(&file, 1, &mut into)]), OK);
    let record = record(&queue);
    // SAFETY: the member that the type of the command or request names.
    let name = unsafe { &record.FirstFailure.Anonymous.Request.Filename };
    let wide = wide(path.to_str().expect("UTF-8"));
    assert_eq!(name[..259], wide[..259]);
    assert_eq!(name[259], 0);
}

#[test]
fn the_information_of_a_file_is_there_until_its_close() {
    let session = Session::new();
    let file = session.file("a", &pattern(12_345, 2));
    let mut information = Default::default();
    file.information(&mut information).expect("information");
    assert_eq!(
        (information.nFileSizeHigh, information.nFileSizeLow),
        (0, 12_345)
    );
    assert_eq!(information.nNumberOfLinks, 1);
    // SAFETY: objects and memory that the test holds, and null on purpose.
    let null = unsafe {
        (Interface::vtable(&file).GetFileInformation)(file.as_raw(), std::ptr::null_mut())
    };
    assert_eq!(null.0, abi::E_POINTER);
    file.close();
    let closed = file.information(&mut information);
    assert_eq!(code(closed).0, abi::E_DSTORAGE_FILE_NOT_OPEN);
    // Twice is no error.
    file.close();
}

#[test]
fn a_closed_file_completes_what_was_submitted_and_refuses_the_rest() {
    let session = Session::new();
    let bytes = pattern(3 << 20, 3);
    let file = session.file("a", &bytes);
    let queue = session.queue(FILE);
    let statuses = session.statuses(3);
    let mut submitted = vec![0; bytes.len()];
    let (mut unsubmitted, mut later) = ([0; 9], [0; 9]);
    queue.request(&read(&file, 0, &mut submitted));
    queue.status(&statuses, 0);
    queue.submit();
    queue.request(&read(&file, 0, &mut unsubmitted));
    queue.status(&statuses, 1);
    file.close();
    queue.request(&read(&file, 0, &mut later));
    queue.status(&statuses, 2);
    drain(&queue);
    assert_eq!(result(&statuses, 0), OK);
    assert_eq!(submitted, bytes);
    assert_eq!(result(&statuses, 1).0, abi::E_DSTORAGE_FILE_NOT_OPEN);
    assert_eq!(result(&statuses, 2).0, abi::E_DSTORAGE_FILE_NOT_OPEN);
    assert_eq!((unsubmitted, later), ([0; 9], [0; 9]));
}

#[test]
fn a_released_file_completes_what_was_enqueued() {
    let session = Session::new();
    let bytes = pattern(2 << 20, 4);
    let file = session.file("a", &bytes);
    let queue = session.queue(FILE);
    let mut into = vec![0; bytes.len()];
    queue.request(&read(&file, 0, &mut into));
    drop(file);
    drain(&queue);
    assert_eq!(into, bytes);
    assert_eq!(record(&queue).FailureCount, 0);
}

#[test]
fn requests_read_the_file_that_was_opened_whatever_its_path_leads_to() {
    let session = Session::new();
    let queue = session.queue(FILE);
    // More files than the engine holds open by default.
    let expected = |at: usize| (at as u64).to_le_bytes();
    let files: Vec<_> = (0..600)
        .map(|at| {
            let name = format!("{at}");
            let file = session.file(&name, &expected(at));
            let path = session.path(&name);
            std::fs::rename(&path, session.path(&format!("moved {at}"))).expect("it moves");
            if at % 2 == 0 {
                std::fs::write(&path, b"another!").expect("another file");
            }
            file
        })
        .collect();
    for round in 0..2 {
        let mut parts = vec![[0; 8]; files.len()];
        for (file, part) in files.iter().zip(&mut parts) {
            queue.request(&read(file, 0, part));
        }
        drain(&queue);
        assert_eq!(record(&queue).FailureCount, 0, "round {round}");
        for (at, part) in parts.iter().enumerate() {
            assert_eq!(*part, expected(at), "round {round}, file {at}");
        }
    }
}
