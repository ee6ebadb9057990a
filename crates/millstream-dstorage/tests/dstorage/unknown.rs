//! The rules of `IUnknown`.
#![expect(unsafe_code, reason = "calls COM methods")]

use std::ffi::c_void;

use direct_storage::*;
use dstorage::abi;
use windows_core::{GUID, IUnknown, Interface};

use crate::calls::*;
use crate::common::*;

/// Returns the count of references of an object, by adding one and releasing it.
fn references(object: &IUnknown) -> u32 {
    let table = Interface::vtable(object);
    // SAFETY: an object, and what the test passes on purpose.
    unsafe {
        (table.AddRef)(object.as_raw());
        (table.Release)(object.as_raw())
    }
}

fn query_of(object: &IUnknown, iid: *const GUID) -> (i32, *mut c_void) {
    let mut out = std::ptr::dangling_mut();
    let result =
        // SAFETY: an object, and what the test passes on purpose.
        unsafe { (Interface::vtable(object).QueryInterface)(object.as_raw(), iid, &mut out) };
    (result.0, out)
}

/// Checks an object that has exactly these interfaces.
fn check(object: &IUnknown, interfaces: &[GUID]) {
    let identity = query_of(object, &IUnknown::IID);
    assert_eq!(identity.0, abi::S_OK);
    // SAFETY: a reference that the query returned.
    let identity = unsafe { IUnknown::from_raw(identity.1) };
    let before = references(object);
    for from in interfaces {
        let (result, one) = query_of(object, from);
        assert_eq!(result, abi::S_OK, "{from:?}");
        // SAFETY: a reference that the query returned.
        let one = unsafe { IUnknown::from_raw(one) };
        assert_eq!(
            references(object),
            before + 1,
            "a query takes one reference"
        );
        // Symmetric, transitive, reflexive: each interface from each.
        for to in interfaces.iter().chain([&IUnknown::IID]) {
            let (result, other) = query_of(&one, to);
            assert_eq!(result, abi::S_OK, "{to:?} from {from:?}");
            // SAFETY: a reference that the query returned.
            let other = unsafe { IUnknown::from_raw(other) };
            let (_, same) = query_of(&other, &IUnknown::IID);
            // SAFETY: a reference that the query returned.
            let same = unsafe { IUnknown::from_raw(same) };
            assert_eq!(same.as_raw(), identity.as_raw(), "one identity");
        }
        for unknown in [
            GUID::from_u128(1),
            IDStorageCompressionCodec::IID,
            IDStorageFactory::IID,
            IDStorageQueue::IID,
        ] {
            if !interfaces.contains(&unknown) {
                assert_eq!(
                    query_of(&one, &unknown),
                    (abi::E_NOINTERFACE, std::ptr::null_mut())
                );
            }
        }
        assert_eq!(query_of(&one, std::ptr::null()).0, abi::E_POINTER);
        let table = Interface::vtable(&one);
        let no_place =
            // SAFETY: an object, and what the test passes on purpose.
            unsafe { (table.QueryInterface)(one.as_raw(), &IUnknown::IID, std::ptr::null_mut()) };
        assert_eq!(no_place.0, abi::E_POINTER);
    }
    assert_eq!(references(object), before, "all references are released");
}

#[test]
fn every_interface_comes_from_every_interface_of_an_object() {
    let session = Session::new();
    let factory: IUnknown = session.factory.cast().expect("IUnknown");
    check(
        &factory,
        &[
            IDStorageFactory::IID,
            IDStorageCustomDecompressionQueue::IID,
            IDStorageCustomDecompressionQueue1::IID,
        ],
    );
    for source in [FILE, MEMORY] {
        let queue: IUnknown = session.queue(source).cast().expect("IUnknown");
        let versions = [
            IDStorageQueue::IID,
            IDStorageQueue1::IID,
            IDStorageQueue2::IID,
            IDStorageQueue3::IID,
        ];
        check(&queue, &versions);
    }
    let file: IUnknown = session.file("a", b"a").cast().expect("IUnknown");
    check(&file, &[IDStorageFile::IID]);
    let statuses: IUnknown = session.statuses(1).cast().expect("IUnknown");
    check(&statuses, &[IDStorageStatusArray::IID]);
    // SAFETY: parameters that the function takes.
    let codec: IDStorageCompressionCodec = interface(|iid, out| unsafe {
        dstorage::DStorageCreateCompressionCodec(GDEFLATE.0, 1, iid, out)
    })
    .expect("a codec");
    let unknown = codec.cast::<IUnknown>().expect("IUnknown");
    drop(codec);
    let codec = unknown;
    // `check` expects no codec of other objects.
    let (result, same) = query_of(&codec, &IDStorageCompressionCodec::IID);
    assert_eq!((result, same), (abi::S_OK, codec.as_raw()));
    // SAFETY: a reference that the query returned.
    drop(unsafe { IUnknown::from_raw(same) });
    assert_eq!(references(&codec), 1);
}

#[test]
fn the_factory_is_one_object_that_begins_anew_after_its_last_release() {
    let session = Session::new();
    let other = factory();
    assert_eq!(other.as_raw(), session.factory.as_raw());
    let unknown: IUnknown = session.factory.cast().expect("IUnknown");
    assert_eq!(references(&unknown), 3);
    drop((other, unknown));
    // A file keeps the storage; the factory comes back to it.
    let file = session.file("a", b"bytes");
    let Session {
        factory: last,
        folder: _folder,
        _turn,
    } = session;
    drop(last);
    let mut information = Default::default();
    file.information(&mut information)
        .expect("the file is open");
    let again = Session {
        factory: factory(),
        folder: _folder,
        _turn,
    };
    let queue = again.queue(FILE);
    let mut bytes = [0; 5];
    assert_eq!(run(&again, &queue, &[read(&file, 0, &mut bytes)]), OK);
    assert_eq!(&bytes, b"bytes");
}

#[test]
fn calls_of_a_released_factory_fail() {
    let _turn = turn();
    let factory = factory();
    let raw = factory.as_raw();
    drop(factory);
    // SAFETY: a pointer that is passed on, and never released.
    let stale = unsafe { std::mem::ManuallyDrop::new(IDStorageFactory::from_raw(raw)) };
    assert_eq!(code(open(&stale, "a")).0, abi::E_DSTORAGE_NOT_RUNNING);
    let description = DSTORAGE_QUEUE_DESC {
        Capacity: 128,
        ..Default::default()
    };
    // SAFETY: parameters that the method takes.
    let queue: windows_core::Result<IDStorageQueue> = unsafe { stale.CreateQueue(&description) };
    assert_eq!(code(queue).0, abi::E_DSTORAGE_NOT_RUNNING);
    let staged = stale.set_staging(1 << 20);
    assert_eq!(code(staged).0, abi::E_DSTORAGE_NOT_RUNNING);
    // A release too many changes nothing.
    let table = Interface::vtable(&*stale);
    // SAFETY: an object, and what the test passes on purpose.
    assert_eq!(unsafe { (table.base__.Release)(raw) }, 0);
    drop(crate::common::factory());
}
