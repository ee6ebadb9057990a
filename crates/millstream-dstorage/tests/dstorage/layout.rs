//! Layouts and numbers, compared with the declarations of `direct-storage`, which were generated
//! from Microsoft's header.

use std::mem::{align_of, offset_of, size_of};

use direct_storage as theirs;
use dstorage::{abi, vtables};
use windows_core::{GUID, Interface};

/// Compares size, alignment and offsets of structs.
macro_rules! same_structs {
    ($($name:ident in $place:path { $($field:ident),* })*) => {
        $({
            use $place as their;
            assert_eq!(size_of::<abi::$name>(), size_of::<their>(), stringify!($name));
            assert_eq!(align_of::<abi::$name>(), align_of::<their>(), stringify!($name));
            $(assert_eq!(
                offset_of!(abi::$name, $field),
                offset_of!(their, $field),
                concat!(stringify!($name), "::", stringify!($field)),
            );)*
        })*
    };
}

#[test]
fn structs_are_laid_out_as_declared_elsewhere() {
    same_structs! {
        DSTORAGE_QUEUE_DESC in theirs::DSTORAGE_QUEUE_DESC {
            SourceType, Capacity, Priority, Name, Device
        }
        DSTORAGE_QUEUE_INFO in theirs::DSTORAGE_QUEUE_INFO {
            Desc, EmptySlotCount, RequestCountUntilAutoSubmit
        }
        DSTORAGE_REQUEST_OPTIONS in theirs::DSTORAGE_REQUEST_OPTIONS { Reserved1 }
        DSTORAGE_SOURCE_FILE in theirs::DSTORAGE_SOURCE_FILE { Source, Offset, Size }
        DSTORAGE_SOURCE_MEMORY in theirs::DSTORAGE_SOURCE_MEMORY { Source, Size }
        DSTORAGE_DESTINATION_MEMORY in theirs::DSTORAGE_DESTINATION_MEMORY { Buffer, Size }
        DSTORAGE_SOURCE in theirs::DSTORAGE_SOURCE { Memory, File }
        DSTORAGE_DESTINATION_BUFFER in theirs::DSTORAGE_DESTINATION_BUFFER {
            Resource, Offset, Size
        }
        DSTORAGE_DESTINATION_TEXTURE_REGION in theirs::DSTORAGE_DESTINATION_TEXTURE_REGION {
            Resource, SubresourceIndex, Region
        }
        DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES in
            theirs::DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES { Resource, FirstSubresource }
        DSTORAGE_DESTINATION_TILES in theirs::DSTORAGE_DESTINATION_TILES {
            Resource, TiledRegionStartCoordinate, TileRegionSize
        }
        DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE in
            theirs::DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE {
                Resource, FirstSubresource, NumSubresources
            }
        DSTORAGE_DESTINATION in theirs::DSTORAGE_DESTINATION {
            Memory, Buffer, Texture, MultipleSubresources, Tiles, MultipleSubresourcesRange
        }
        DSTORAGE_REQUEST in theirs::DSTORAGE_REQUEST {
            Options, Source, Destination, UncompressedSize, CancellationTag, Name
        }
        DSTORAGE_ERROR_PARAMETERS_REQUEST in theirs::DSTORAGE_ERROR_PARAMETERS_REQUEST {
            Filename, RequestName, Request
        }
        DSTORAGE_ERROR_PARAMETERS_STATUS in theirs::DSTORAGE_ERROR_PARAMETERS_STATUS {
            StatusArray, Index
        }
        DSTORAGE_ERROR_PARAMETERS_SIGNAL in theirs::DSTORAGE_ERROR_PARAMETERS_SIGNAL {
            Fence, Value
        }
        DSTORAGE_ERROR_PARAMETERS_EVENT in theirs::DSTORAGE_ERROR_PARAMETERS_EVENT { Handle }
        DSTORAGE_ERROR_PARAMETERS in theirs::DSTORAGE_ERROR_FIRST_FAILURE_0 {
            Request, Status, Signal, Event
        }
        DSTORAGE_ERROR_FIRST_FAILURE in theirs::DSTORAGE_ERROR_FIRST_FAILURE {
            HResult, CommandType
        }
        DSTORAGE_ERROR_RECORD in theirs::DSTORAGE_ERROR_RECORD { FailureCount, FirstFailure }
        DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST in theirs::DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST {
            Id, CompressionFormat, Reserved, Flags, SrcSize, SrcBuffer, DstSize, DstBuffer
        }
        DSTORAGE_CUSTOM_DECOMPRESSION_RESULT in theirs::DSTORAGE_CUSTOM_DECOMPRESSION_RESULT {
            Id, Result
        }
        DSTORAGE_CONFIGURATION in theirs::DSTORAGE_CONFIGURATION {
            NumSubmitThreads, NumBuiltInCpuDecompressionThreads, ForceMappingLayer,
            DisableBypassIO, DisableTelemetry, DisableGpuDecompressionMetacommand,
            DisableGpuDecompression
        }
        DSTORAGE_CONFIGURATION1 in theirs::DSTORAGE_CONFIGURATION1 {
            NumSubmitThreads, NumBuiltInCpuDecompressionThreads, ForceMappingLayer,
            DisableBypassIO, DisableTelemetry, DisableGpuDecompressionMetacommand,
            DisableGpuDecompression, ForceFileBuffering
        }
    }
    assert_eq!(
        offset_of!(abi::DSTORAGE_ERROR_FIRST_FAILURE, Parameters),
        offset_of!(theirs::DSTORAGE_ERROR_FIRST_FAILURE, Anonymous)
    );
}

#[test]
fn sizes_are_those_of_64_bit_windows() {
    let sizes = [
        (size_of::<abi::DSTORAGE_QUEUE_DESC>(), 32),
        (size_of::<abi::DSTORAGE_QUEUE_INFO>(), 40),
        (size_of::<abi::DSTORAGE_REQUEST_OPTIONS>(), 16),
        (size_of::<abi::DSTORAGE_SOURCE>(), 24),
        (size_of::<abi::DSTORAGE_DESTINATION>(), 40),
        (size_of::<abi::DSTORAGE_REQUEST>(), 104),
        (size_of::<abi::DSTORAGE_ERROR_PARAMETERS_REQUEST>(), 688),
        (size_of::<abi::DSTORAGE_ERROR_RECORD>(), 704),
        (size_of::<abi::DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST>(), 48),
        (size_of::<abi::DSTORAGE_CONFIGURATION>(), 28),
        (size_of::<abi::DSTORAGE_CONFIGURATION1>(), 32),
    ];
    for (at, (size, expected)) in sizes.into_iter().enumerate() {
        assert_eq!(size, expected, "struct {at}");
    }
}

#[test]
fn bit_fields_are_where_the_setters_put_them() {
    use crate::common::{CUSTOM, MEMORY};
    let mut their = theirs::DSTORAGE_REQUEST_OPTIONS::default();
    their.set_CompressionFormat(CUSTOM);
    their.set_SourceType(MEMORY);
    their.set_DestinationType(theirs::DSTORAGE_REQUEST_DESTINATION_TILES);
    let ours = abi::DSTORAGE_REQUEST_OPTIONS {
        CompressionFormat: their.CompressionFormat().0,
        Reserved1: their.Reserved1,
        bits: their._bitfield2,
    };
    assert_eq!(ours.source_type(), 1);
    assert_eq!(ours.destination_type(), 4);
    assert!(!ours.has_reserved());
    for (bit, expected) in [(8, true), (55, true), (56, false), (63, false)] {
        let mut changed = ours;
        changed.bits |= 1 << bit;
        assert_eq!(changed.has_reserved(), expected, "bit {bit}");
    }
    let mut changed = ours;
    changed.Reserved1[6] = 1;
    assert!(changed.has_reserved());
}

/// Compares offsets of methods: one slot each, in the same order.
macro_rules! same_tables {
    ($($ours:ident, $theirs:ident { $($method:ident),* })*) => {
        $(
            assert_eq!(size_of::<vtables::$ours>(), size_of::<theirs::$theirs>());
            $(assert_eq!(
                offset_of!(vtables::$ours, $method),
                offset_of!(theirs::$theirs, $method),
                stringify!($method),
            );)*
        )*
    };
}

#[test]
fn methods_are_in_the_same_order() {
    same_tables! {
        IDStorageFactoryVtbl, IDStorageFactory_Vtbl {
            CreateQueue, OpenFile, CreateStatusArray, SetDebugFlags, SetStagingBufferSize
        }
        IDStorageFileVtbl, IDStorageFile_Vtbl { Close, GetFileInformation }
        IDStorageStatusArrayVtbl, IDStorageStatusArray_Vtbl { IsComplete, GetHResult }
        IDStorageQueueVtbl, IDStorageQueue_Vtbl {
            EnqueueRequest, EnqueueStatus, EnqueueSignal, Submit, CancelRequestsWithTag, Close,
            GetErrorEvent, RetrieveErrorRecord, Query
        }
        IDStorageQueue1Vtbl, IDStorageQueue1_Vtbl { EnqueueSetEvent }
        IDStorageQueue2Vtbl, IDStorageQueue2_Vtbl { GetCompressionSupport }
        IDStorageQueue3Vtbl, IDStorageQueue3_Vtbl { EnqueueRequests }
        IDStorageCustomDecompressionQueueVtbl, IDStorageCustomDecompressionQueue_Vtbl {
            GetEvent, GetRequests, SetRequestResults
        }
        IDStorageCustomDecompressionQueue1Vtbl, IDStorageCustomDecompressionQueue1_Vtbl {
            GetRequests1
        }
        IDStorageCompressionCodecVtbl, IDStorageCompressionCodec_Vtbl {
            CompressBuffer, DecompressBuffer, CompressBufferBound
        }
    }
}

#[test]
fn identifiers_are_the_same() {
    let identifiers = [
        (abi::IID_IDStorageFactory, theirs::IDStorageFactory::IID),
        (abi::IID_IDStorageFile, theirs::IDStorageFile::IID),
        (
            abi::IID_IDStorageStatusArray,
            theirs::IDStorageStatusArray::IID,
        ),
        (abi::IID_IDStorageQueue, theirs::IDStorageQueue::IID),
        (abi::IID_IDStorageQueue1, theirs::IDStorageQueue1::IID),
        (abi::IID_IDStorageQueue2, theirs::IDStorageQueue2::IID),
        (abi::IID_IDStorageQueue3, theirs::IDStorageQueue3::IID),
        (
            abi::IID_IDStorageCustomDecompressionQueue,
            theirs::IDStorageCustomDecompressionQueue::IID,
        ),
        (
            abi::IID_IDStorageCustomDecompressionQueue1,
            theirs::IDStorageCustomDecompressionQueue1::IID,
        ),
        (
            abi::IID_IDStorageCompressionCodec,
            theirs::IDStorageCompressionCodec::IID,
        ),
        (abi::IID_IUnknown, windows_core::IUnknown::IID),
    ];
    for (ours, theirs) in identifiers {
        let ours = GUID::from_values(ours.data1, ours.data2, ours.data3, ours.data4);
        assert_eq!(ours, theirs);
    }
}

/// Compares `HRESULT`s and numbers by name.
macro_rules! same_numbers {
    ($($name:ident),* $(,)?) => {
        $(assert_eq!(i64::from(abi::$name), theirs::$name.0 as i64, stringify!($name));)*
    };
}

#[test]
fn numbers_are_the_same() {
    same_numbers!(
        E_DSTORAGE_NOT_RUNNING,
        E_DSTORAGE_INVALID_QUEUE_CAPACITY,
        E_DSTORAGE_END_OF_FILE,
        E_DSTORAGE_ACCESS_VIOLATION,
        E_DSTORAGE_UNSUPPORTED_FILE,
        E_DSTORAGE_FILE_NOT_OPEN,
        E_DSTORAGE_RESERVED_FIELDS,
        E_DSTORAGE_INVALID_DESTINATION_SIZE,
        E_DSTORAGE_QUEUE_CLOSED,
        E_DSTORAGE_TOO_MANY_QUEUES,
        E_DSTORAGE_INVALID_QUEUE_PRIORITY,
        E_DSTORAGE_TOO_MANY_FILES,
        E_DSTORAGE_INDEX_BOUND,
        E_DSTORAGE_IO_TIMEOUT,
        E_DSTORAGE_INVALID_FILE_HANDLE,
        E_DSTORAGE_INVALID_SOURCE_TYPE,
        E_DSTORAGE_STAGING_BUFFER_LOCKED,
        E_DSTORAGE_INVALID_FENCE,
        E_DSTORAGE_INVALID_STATUS_ARRAY,
        E_DSTORAGE_INVALID_MEMORY_QUEUE_PRIORITY,
        E_DSTORAGE_DECOMPRESSION_ERROR,
        E_DSTORAGE_INVALID_DESTINATION_TYPE,
        E_DSTORAGE_FILEBUFFERING_REQUIRES_DISABLED_BYPASSIO,
        DSTORAGE_PRIORITY_LOW,
        DSTORAGE_PRIORITY_NORMAL,
        DSTORAGE_PRIORITY_HIGH,
        DSTORAGE_PRIORITY_REALTIME,
        DSTORAGE_COMPRESSION_FORMAT_NONE,
        DSTORAGE_COMPRESSION_FORMAT_GDEFLATE,
        DSTORAGE_CUSTOM_COMPRESSION_0,
        DSTORAGE_COMPRESSION_FASTEST,
        DSTORAGE_COMPRESSION_DEFAULT,
        DSTORAGE_COMPRESSION_BEST_RATIO,
        DSTORAGE_COMPRESSION_SUPPORT_NONE,
        DSTORAGE_COMPRESSION_SUPPORT_CPU_FALLBACK,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_GPU_WORK,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_SOURCE_ACCESS,
        DSTORAGE_COMMAND_TYPE_NONE,
        DSTORAGE_COMMAND_TYPE_REQUEST,
        DSTORAGE_COMMAND_TYPE_STATUS,
        DSTORAGE_COMMAND_TYPE_SIGNAL,
        DSTORAGE_COMMAND_TYPE_EVENT,
        DSTORAGE_GET_REQUEST_FLAG_SELECT_CUSTOM,
        DSTORAGE_GET_REQUEST_FLAG_SELECT_BUILTIN,
        DSTORAGE_GET_REQUEST_FLAG_SELECT_ALL,
        DSTORAGE_CUSTOM_DECOMPRESSION_FLAG_NONE,
    );
    assert_eq!(
        abi::DSTORAGE_REQUEST_SOURCE_FILE,
        theirs::DSTORAGE_REQUEST_SOURCE_FILE.0
    );
    assert_eq!(
        abi::DSTORAGE_REQUEST_SOURCE_MEMORY,
        theirs::DSTORAGE_REQUEST_SOURCE_MEMORY.0
    );
    for (ours, theirs) in [
        (
            abi::DSTORAGE_REQUEST_DESTINATION_BUFFER,
            theirs::DSTORAGE_REQUEST_DESTINATION_BUFFER,
        ),
        (
            abi::DSTORAGE_REQUEST_DESTINATION_TEXTURE_REGION,
            theirs::DSTORAGE_REQUEST_DESTINATION_TEXTURE_REGION,
        ),
        (
            abi::DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES,
            theirs::DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES,
        ),
        (
            abi::DSTORAGE_REQUEST_DESTINATION_TILES,
            theirs::DSTORAGE_REQUEST_DESTINATION_TILES,
        ),
        (
            abi::DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE,
            theirs::DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE,
        ),
    ] {
        assert_eq!(ours, theirs.0);
    }
    assert_eq!(
        u32::from(abi::DSTORAGE_MIN_QUEUE_CAPACITY),
        theirs::DSTORAGE_MIN_QUEUE_CAPACITY
    );
    assert_eq!(
        u32::from(abi::DSTORAGE_MAX_QUEUE_CAPACITY),
        theirs::DSTORAGE_MAX_QUEUE_CAPACITY
    );
    assert_eq!(
        abi::DSTORAGE_REQUEST_MAX_NAME,
        theirs::DSTORAGE_REQUEST_MAX_NAME as usize
    );
    let disable = theirs::DSTORAGE_DISABLE_BUILTIN_CPU_DECOMPRESSION;
    assert_eq!(abi::DSTORAGE_DISABLE_BUILTIN_CPU_DECOMPRESSION, disable);
    let staging = theirs::DSTORAGE_STAGING_BUFFER_SIZE_32MB.0;
    assert_eq!(abi::DSTORAGE_STAGING_BUFFER_SIZE_32MB, staging);
}
