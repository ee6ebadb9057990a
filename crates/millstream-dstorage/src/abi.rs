//! The types, constants and interface identifiers of DirectStorage 1.3, as `dstorage.h` and
//! `dstorageerr.h` define them for 64-bit Windows.
//!
//! Enumerations are integers: a program may pass any value. Bit fields are laid out as MSVC does.
//! The tests compare every size, offset, identifier and number with independent declarations.
#![expect(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    reason = "the names are those of dstorage.h, which documents them"
)]

use std::ffi::{c_char, c_void};

use windows::Win32::Graphics::Direct3D12::{
    D3D12_BOX, D3D12_TILE_REGION_SIZE, D3D12_TILED_RESOURCE_COORDINATE,
};
pub use windows::core::GUID;

pub type HRESULT = i32;
pub type BOOL = i32;
pub type HANDLE = *mut c_void;

macro_rules! identifiers {
    ($($name:ident = $bits:literal;)*) => {
        $(pub const $name: GUID = GUID::from_u128($bits);)*
    };
}

identifiers! {
    IID_IUnknown = 0x00000000_0000_0000_c000_000000000046;
    IID_IDStorageFactory = 0x6924ea0c_c3cd_4826_b10a_f64f4ed927c1;
    IID_IDStorageFile = 0x5de95e7b_955a_4868_a73c_243b29f4b8da;
    IID_IDStorageStatusArray = 0x82397587_7cd5_453b_a02e_31379bd64656;
    IID_IDStorageQueue = 0xcfdbd83f_9e06_4fda_8ea5_69042137f49b;
    IID_IDStorageQueue1 = 0xdd2f482c_5eff_41e8_9c9e_d2374b278128;
    IID_IDStorageQueue2 = 0xb1c9d643_3a49_44a2_b46f_653649470d18;
    IID_IDStorageQueue3 = 0xdeb54c52_eca8_46b3_82a7_031b72262653;
    IID_IDStorageCustomDecompressionQueue = 0x97179b2f_2c21_49ca_8291_4e1bf4a160df;
    IID_IDStorageCustomDecompressionQueue1 = 0x0d47c6c9_e61a_4706_93b4_68bfe3f4aa4a;
    IID_IDStorageCompressionCodec = 0x84ef5121_9b43_4d03_b5c1_cc34606b262d;
}

macro_rules! results {
    ($($name:ident = $number:literal;)*) => {
        $(pub const $name: HRESULT = $number as u32 as HRESULT;)*
    };
}

results! {
    S_OK = 0;
    E_NOTIMPL = 0x80004001;
    E_NOINTERFACE = 0x80004002;
    E_POINTER = 0x80004003;
    E_FAIL = 0x80004005;
    E_PENDING = 0x8000000a;
    E_HANDLE = 0x80070006;
    E_OUTOFMEMORY = 0x8007000e;
    E_INVALIDARG = 0x80070057;
    E_DSTORAGE_NOT_RUNNING = 0x89240002;
    E_DSTORAGE_INVALID_QUEUE_CAPACITY = 0x89240003;
    E_DSTORAGE_END_OF_FILE = 0x89240007;
    E_DSTORAGE_ACCESS_VIOLATION = 0x89240009;
    E_DSTORAGE_UNSUPPORTED_FILE = 0x8924000a;
    E_DSTORAGE_FILE_NOT_OPEN = 0x8924000b;
    E_DSTORAGE_RESERVED_FIELDS = 0x8924000c;
    E_DSTORAGE_INVALID_DESTINATION_SIZE = 0x8924000f;
    E_DSTORAGE_QUEUE_CLOSED = 0x89240010;
    E_DSTORAGE_TOO_MANY_QUEUES = 0x89240012;
    E_DSTORAGE_INVALID_QUEUE_PRIORITY = 0x89240013;
    E_DSTORAGE_TOO_MANY_FILES = 0x89240014;
    E_DSTORAGE_INDEX_BOUND = 0x89240015;
    E_DSTORAGE_IO_TIMEOUT = 0x89240016;
    E_DSTORAGE_INVALID_FILE_HANDLE = 0x89240017;
    E_DSTORAGE_INVALID_SOURCE_TYPE = 0x8924001b;
    E_DSTORAGE_STAGING_BUFFER_LOCKED = 0x8924001f;
    E_DSTORAGE_INVALID_FENCE = 0x89240022;
    E_DSTORAGE_INVALID_STATUS_ARRAY = 0x89240023;
    E_DSTORAGE_INVALID_MEMORY_QUEUE_PRIORITY = 0x89240024;
    E_DSTORAGE_DECOMPRESSION_ERROR = 0x89240030;
    E_DSTORAGE_INVALID_DESTINATION_TYPE = 0x89240040;
    E_DSTORAGE_FILEBUFFERING_REQUIRES_DISABLED_BYPASSIO = 0x89240041;
}

/// Returns the `HRESULT` of an error number of the system.
#[must_use]
pub const fn hresult_from_win32(error: u32) -> HRESULT {
    windows::core::HRESULT::from_win32(error).0
}

pub const DSTORAGE_MIN_QUEUE_CAPACITY: u16 = 0x80;
pub const DSTORAGE_MAX_QUEUE_CAPACITY: u16 = 0x2000;
pub const DSTORAGE_REQUEST_MAX_NAME: usize = 64;
pub const DSTORAGE_STAGING_BUFFER_SIZE_32MB: u32 = 32 << 20;
pub const DSTORAGE_DISABLE_BUILTIN_CPU_DECOMPRESSION: i32 = -1;
pub const MAX_PATH: usize = 260;

macro_rules! enumerations {
    ($(enum $kind:ident: $integer:ty {
        $($(#[$about:meta])* $name:ident = $number:literal,)*
    })*) => {
        $(
            pub type $kind = $integer;
            $($(#[$about])* pub const $name: $kind = $number;)*
        )*
    };
}

enumerations! {
    enum DSTORAGE_PRIORITY: i8 {
        DSTORAGE_PRIORITY_LOW = -1,
        DSTORAGE_PRIORITY_NORMAL = 0,
        DSTORAGE_PRIORITY_HIGH = 1,
        DSTORAGE_PRIORITY_REALTIME = 2,
    }
    enum DSTORAGE_REQUEST_SOURCE_TYPE: u64 {
        DSTORAGE_REQUEST_SOURCE_FILE = 0,
        DSTORAGE_REQUEST_SOURCE_MEMORY = 1,
    }
    enum DSTORAGE_REQUEST_DESTINATION_TYPE: u64 {
        DSTORAGE_REQUEST_DESTINATION_MEMORY = 0,
        DSTORAGE_REQUEST_DESTINATION_BUFFER = 1,
        DSTORAGE_REQUEST_DESTINATION_TEXTURE_REGION = 2,
        DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES = 3,
        DSTORAGE_REQUEST_DESTINATION_TILES = 4,
        DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE = 5,
    }
    enum DSTORAGE_COMPRESSION_FORMAT: u8 {
        DSTORAGE_COMPRESSION_FORMAT_NONE = 0,
        DSTORAGE_COMPRESSION_FORMAT_GDEFLATE = 1,
        /// Of the preview of 1.4.
        DSTORAGE_COMPRESSION_FORMAT_ZSTD = 2,
        DSTORAGE_CUSTOM_COMPRESSION_0 = 0x80,
    }
    enum DSTORAGE_COMPRESSION: i32 {
        DSTORAGE_COMPRESSION_FASTEST = -1,
        DSTORAGE_COMPRESSION_DEFAULT = 0,
        DSTORAGE_COMPRESSION_BEST_RATIO = 1,
    }
    enum DSTORAGE_COMPRESSION_SUPPORT: u32 {
        DSTORAGE_COMPRESSION_SUPPORT_NONE = 0,
        DSTORAGE_COMPRESSION_SUPPORT_CPU_FALLBACK = 4,
    }
    enum DSTORAGE_DEBUG: u32 {
        DSTORAGE_DEBUG_SHOW_ERRORS = 1,
        DSTORAGE_DEBUG_BREAK_ON_ERROR = 2,
    }
    enum DSTORAGE_ENQUEUE_REQUEST_FLAGS: u32 {
        DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE = 0,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_GPU_WORK = 1,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_SOURCE_ACCESS = 2,
    }
    enum DSTORAGE_COMMAND_TYPE: i32 {
        DSTORAGE_COMMAND_TYPE_NONE = -1,
        DSTORAGE_COMMAND_TYPE_REQUEST = 0,
        DSTORAGE_COMMAND_TYPE_STATUS = 1,
        DSTORAGE_COMMAND_TYPE_SIGNAL = 2,
        DSTORAGE_COMMAND_TYPE_EVENT = 3,
    }
    enum DSTORAGE_GET_REQUEST_FLAGS: u32 {
        DSTORAGE_GET_REQUEST_FLAG_SELECT_CUSTOM = 1,
        DSTORAGE_GET_REQUEST_FLAG_SELECT_BUILTIN = 2,
        DSTORAGE_GET_REQUEST_FLAG_SELECT_ALL = 3,
    }
    enum DSTORAGE_CUSTOM_DECOMPRESSION_FLAGS: u32 {
        DSTORAGE_CUSTOM_DECOMPRESSION_FLAG_NONE = 0,
    }
}

/// Structs and unions, all of plain memory.
macro_rules! layouts {
    ($($(#[$about:meta])* $form:ident $name:ident {
        $($(#[$field_about:meta])* $field:ident: $kind:ty,)*
    })*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub $form $name {
                $($(#[$field_about])* pub $field: $kind,)*
            }
        )*
    };
}

layouts! {
    struct DSTORAGE_QUEUE_DESC {
        SourceType: DSTORAGE_REQUEST_SOURCE_TYPE, Capacity: u16, Priority: DSTORAGE_PRIORITY,
        Name: *const c_char, Device: *mut c_void,
    }
    struct DSTORAGE_QUEUE_INFO {
        Desc: DSTORAGE_QUEUE_DESC, EmptySlotCount: u16, RequestCountUntilAutoSubmit: u16,
    }
    struct DSTORAGE_REQUEST_OPTIONS {
        CompressionFormat: DSTORAGE_COMPRESSION_FORMAT,
        Reserved1: [u8; 7],
        /// From the lowest bit: `SourceType` (1), `DestinationType` (7), `Reserved` (48), padding.
        bits: u64,
    }
    struct DSTORAGE_SOURCE_FILE { Source: *mut c_void, Offset: u64, Size: u32, }
    struct DSTORAGE_SOURCE_MEMORY { Source: *const c_void, Size: u32, }
    struct DSTORAGE_DESTINATION_MEMORY { Buffer: *mut c_void, Size: u32, }
    struct DSTORAGE_DESTINATION_BUFFER { Resource: *mut c_void, Offset: u64, Size: u32, }
    struct DSTORAGE_DESTINATION_TEXTURE_REGION {
        Resource: *mut c_void, SubresourceIndex: u32, Region: D3D12_BOX,
    }
    struct DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES {
        Resource: *mut c_void, FirstSubresource: u32,
    }
    struct DSTORAGE_DESTINATION_TILES {
        Resource: *mut c_void,
        TiledRegionStartCoordinate: D3D12_TILED_RESOURCE_COORDINATE,
        TileRegionSize: D3D12_TILE_REGION_SIZE,
    }
    struct DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE {
        Resource: *mut c_void, FirstSubresource: u32, NumSubresources: u32,
    }
    /// Which member is valid depends on [`DSTORAGE_REQUEST_OPTIONS::source_type`].
    union DSTORAGE_SOURCE { Memory: DSTORAGE_SOURCE_MEMORY, File: DSTORAGE_SOURCE_FILE, }
    /// Which member is valid depends on [`DSTORAGE_REQUEST_OPTIONS::destination_type`].
    union DSTORAGE_DESTINATION {
        Memory: DSTORAGE_DESTINATION_MEMORY,
        Buffer: DSTORAGE_DESTINATION_BUFFER,
        Texture: DSTORAGE_DESTINATION_TEXTURE_REGION,
        MultipleSubresources: DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES,
        Tiles: DSTORAGE_DESTINATION_TILES,
        MultipleSubresourcesRange: DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE,
    }
    struct DSTORAGE_REQUEST {
        Options: DSTORAGE_REQUEST_OPTIONS,
        Source: DSTORAGE_SOURCE, Destination: DSTORAGE_DESTINATION,
        UncompressedSize: u32, CancellationTag: u64, Name: *const c_char,
    }
    struct DSTORAGE_ERROR_PARAMETERS_REQUEST {
        Filename: [u16; MAX_PATH],
        RequestName: [u8; DSTORAGE_REQUEST_MAX_NAME],
        Request: DSTORAGE_REQUEST,
    }
    struct DSTORAGE_ERROR_PARAMETERS_STATUS { StatusArray: *mut c_void, Index: u32, }
    struct DSTORAGE_ERROR_PARAMETERS_SIGNAL { Fence: *mut c_void, Value: u64, }
    struct DSTORAGE_ERROR_PARAMETERS_EVENT { Handle: HANDLE, }
    /// The anonymous union of [`DSTORAGE_ERROR_FIRST_FAILURE`].
    union DSTORAGE_ERROR_PARAMETERS {
        Request: DSTORAGE_ERROR_PARAMETERS_REQUEST,
        Status: DSTORAGE_ERROR_PARAMETERS_STATUS,
        Signal: DSTORAGE_ERROR_PARAMETERS_SIGNAL,
        Event: DSTORAGE_ERROR_PARAMETERS_EVENT,
    }
    struct DSTORAGE_ERROR_FIRST_FAILURE {
        HResult: HRESULT, CommandType: DSTORAGE_COMMAND_TYPE, Parameters: DSTORAGE_ERROR_PARAMETERS,
    }
    struct DSTORAGE_ERROR_RECORD {
        FailureCount: u32, FirstFailure: DSTORAGE_ERROR_FIRST_FAILURE,
    }
    struct DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST {
        Id: u64,
        CompressionFormat: DSTORAGE_COMPRESSION_FORMAT, Reserved: [u8; 3],
        Flags: DSTORAGE_CUSTOM_DECOMPRESSION_FLAGS,
        SrcSize: u64, SrcBuffer: *const c_void,
        DstSize: u64, DstBuffer: *mut c_void,
    }
    struct DSTORAGE_CUSTOM_DECOMPRESSION_RESULT { Id: u64, Result: HRESULT, }
    struct DSTORAGE_CONFIGURATION {
        NumSubmitThreads: u32, NumBuiltInCpuDecompressionThreads: i32,
        ForceMappingLayer: BOOL, DisableBypassIO: BOOL, DisableTelemetry: BOOL,
        DisableGpuDecompressionMetacommand: BOOL, DisableGpuDecompression: BOOL,
    }
    /// Begins as [`DSTORAGE_CONFIGURATION`].
    struct DSTORAGE_CONFIGURATION1 {
        NumSubmitThreads: u32, NumBuiltInCpuDecompressionThreads: i32,
        ForceMappingLayer: BOOL, DisableBypassIO: BOOL, DisableTelemetry: BOOL,
        DisableGpuDecompressionMetacommand: BOOL, DisableGpuDecompression: BOOL,
        ForceFileBuffering: BOOL,
    }
}

impl DSTORAGE_REQUEST_OPTIONS {
    #[must_use]
    pub fn source_type(&self) -> DSTORAGE_REQUEST_SOURCE_TYPE {
        self.bits & 1
    }

    #[must_use]
    pub fn destination_type(&self) -> DSTORAGE_REQUEST_DESTINATION_TYPE {
        self.bits >> 1 & 0x7f
    }

    /// Returns whether a reserved field is not 0.
    #[must_use]
    pub fn has_reserved(&self) -> bool {
        self.Reserved1 != [0; 7] || self.bits >> 8 & ((1 << 48) - 1) != 0
    }
}
