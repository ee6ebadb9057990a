//! The methods of the interfaces as safe calls. What they ask of a program holds in these tests:
//! objects are held, memory of requests is kept until they complete or their queue is closed.
#![expect(unsafe_code, reason = "calls COM methods")]

use direct_storage::*;
use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::ID3D12Fence;
use windows::Win32::Storage::FileSystem::BY_HANDLE_FILE_INFORMATION;
use windows_core::{Param, Result};

macro_rules! calls {
    ($($calls:ident for $interface:ident {
        $($name:ident = $method:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*
    })*) => {
        $(
            pub(crate) trait $calls {
                $(fn $name(&self $(, $argument: $kind)*) $(-> $result)?;)*
            }

            impl $calls for $interface {
                $(fn $name(&self $(, $argument: $kind)*) $(-> $result)? {
                    // SAFETY: as the header says.
                    unsafe { self.$method($($argument),*) }
                })*
            }
        )*
    };
}

calls! {
    QueueCalls for IDStorageQueue3 {
        request = EnqueueRequest(request: &DSTORAGE_REQUEST);
        set_event = EnqueueSetEvent(event: HANDLE);
        submit = Submit();
        cancel = CancelRequestsWithTag(mask: u64, value: u64);
        close = Close();
        error_event = GetErrorEvent() -> HANDLE;
        support = GetCompressionSupport(
            format: DSTORAGE_COMPRESSION_FORMAT
        ) -> DSTORAGE_COMPRESSION_SUPPORT;
        requests = EnqueueRequests(
            requests: &[DSTORAGE_REQUEST],
            fence: impl Param<ID3D12Fence>,
            value: u64,
            flags: DSTORAGE_ENQUEUE_REQUEST_FLAGS
        );
        status = EnqueueStatus(statuses: impl Param<IDStorageStatusArray>, index: u32);
        signal = EnqueueSignal(fence: impl Param<ID3D12Fence>, value: u64);
    }
    FileCalls for IDStorageFile {
        close = Close();
        information = GetFileInformation(into: &mut BY_HANDLE_FILE_INFORMATION) -> Result<()>;
    }
    StatusCalls for IDStorageStatusArray {
        is_complete = IsComplete(index: u32) -> bool;
    }
    CustomCalls for IDStorageCustomDecompressionQueue {
        event = GetEvent() -> HANDLE;
        set_results = SetRequestResults(
            results: &[DSTORAGE_CUSTOM_DECOMPRESSION_RESULT]
        ) -> Result<()>;
    }
    FactoryCalls for IDStorageFactory {
        set_debug_flags = SetDebugFlags(flags: DSTORAGE_DEBUG);
        set_staging = SetStagingBufferSize(bytes: u32) -> Result<()>;
    }
    CodecCalls for IDStorageCompressionCodec {
        bound = CompressBufferBound(len: usize) -> usize;
    }
}
