//! The tables of methods of the ten interfaces, in the order that the binary interface has. A
//! derived interface begins with the table of its base.
#![expect(
    non_snake_case,
    missing_docs,
    reason = "the names are those of dstorage.h, which documents them"
)]

use std::ffi::{c_char, c_void};

use windows_sys::Win32::Storage::FileSystem::BY_HANDLE_FILE_INFORMATION;

use crate::abi::*;

type This = *mut c_void;
type Out = *mut *mut c_void;

macro_rules! tables {
    ($($(#[$about:meta])* struct $name:ident $(: $base:ident)? {
        $(fn $method:ident($($kind:ty),*) $(-> $result:ty)?;)*
    })*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            pub struct $name {
                $(pub base: $base,)?
                $(pub $method: unsafe extern "system" fn(This $(, $kind)*) $(-> $result)?,)*
            }
        )*
    };
}

tables! {
    struct IUnknownVtbl {
        fn QueryInterface(*const GUID, Out) -> HRESULT;
        fn AddRef() -> u32;
        fn Release() -> u32;
    }

    struct IDStorageFileVtbl: IUnknownVtbl {
        fn Close();
        fn GetFileInformation(*mut BY_HANDLE_FILE_INFORMATION) -> HRESULT;
    }

    struct IDStorageCustomDecompressionQueueVtbl: IUnknownVtbl {
        fn GetEvent() -> HANDLE;
        fn GetRequests(u32, *mut DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST, *mut u32) -> HRESULT;
        fn SetRequestResults(u32, *const DSTORAGE_CUSTOM_DECOMPRESSION_RESULT) -> HRESULT;
    }

    struct IDStorageCustomDecompressionQueue1Vtbl: IDStorageCustomDecompressionQueueVtbl {
        fn GetRequests1(
            DSTORAGE_GET_REQUEST_FLAGS,
            u32,
            *mut DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST,
            *mut u32
        ) -> HRESULT;
    }

    struct IDStorageFactoryVtbl: IUnknownVtbl {
        fn CreateQueue(*const DSTORAGE_QUEUE_DESC, *const GUID, Out) -> HRESULT;
        fn OpenFile(*const u16, *const GUID, Out) -> HRESULT;
        fn CreateStatusArray(u32, *const c_char, *const GUID, Out) -> HRESULT;
        fn SetDebugFlags(u32);
        fn SetStagingBufferSize(u32) -> HRESULT;
    }

    struct IDStorageStatusArrayVtbl: IUnknownVtbl {
        fn IsComplete(u32) -> bool;
        fn GetHResult(u32) -> HRESULT;
    }

    struct IDStorageQueueVtbl: IUnknownVtbl {
        fn EnqueueRequest(*const DSTORAGE_REQUEST);
        fn EnqueueStatus(*mut c_void, u32);
        fn EnqueueSignal(*mut c_void, u64);
        fn Submit();
        fn CancelRequestsWithTag(u64, u64);
        fn Close();
        fn GetErrorEvent() -> HANDLE;
        fn RetrieveErrorRecord(*mut DSTORAGE_ERROR_RECORD);
        fn Query(*mut DSTORAGE_QUEUE_INFO);
    }

    struct IDStorageQueue1Vtbl: IDStorageQueueVtbl {
        fn EnqueueSetEvent(HANDLE);
    }

    struct IDStorageQueue2Vtbl: IDStorageQueue1Vtbl {
        fn GetCompressionSupport(DSTORAGE_COMPRESSION_FORMAT) -> DSTORAGE_COMPRESSION_SUPPORT;
    }

    struct IDStorageQueue3Vtbl: IDStorageQueue2Vtbl {
        fn EnqueueRequests(
            *const DSTORAGE_REQUEST,
            u32,
            *mut c_void,
            u64,
            DSTORAGE_ENQUEUE_REQUEST_FLAGS
        );
    }

    struct IDStorageCompressionCodecVtbl: IUnknownVtbl {
        fn CompressBuffer(
            *const c_void,
            usize,
            DSTORAGE_COMPRESSION,
            *mut c_void,
            usize,
            *mut usize
        ) -> HRESULT;
        fn DecompressBuffer(*const c_void, usize, *mut c_void, usize, *mut usize) -> HRESULT;
        fn CompressBufferBound(usize) -> usize;
    }
}
