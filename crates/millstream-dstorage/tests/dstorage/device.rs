//! A device of D3D12 for the tests, its resources, and what is in them.
#![expect(unsafe_code, reason = "calls D3D12")]

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use direct_storage::*;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;
use windows_core::{GUID, HRESULT, Interface, PCSTR};
use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LoadLibraryA};

use crate::calls::*;
use crate::common::*;

const FEATURE_LEVEL_11_0: i32 = 0xb000;

type CreateDevice =
    unsafe extern "system" fn(*mut c_void, i32, *const GUID, *mut *mut c_void) -> HRESULT;

type CreateQueue = unsafe extern "system" fn(
    *mut c_void,
    *const D3D12_COMMAND_QUEUE_DESC,
    *const GUID,
    *mut *mut c_void,
) -> HRESULT;

/// The environment variable with which a test fails if there is no device.
pub(crate) const NEEDS_DEVICE: &str = "MILLSTREAM_NEEDS_D3D12";

static AT_LOST_SIGNAL: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Sets what is called at each signal that is lost.
pub(crate) fn at_lost_signal(call: impl Fn() + Send + 'static) {
    *AT_LOST_SIGNAL.lock().expect("no panic") = Some(Box::new(call));
}

/// Returns whether the library has written a byte, which begins as 0.
pub(crate) fn is_written(byte: *const u8) -> bool {
    // SAFETY: memory of a request that the test keeps.
    unsafe { byte.read_volatile() != 0 }
}

/// Returns how many references to an object there are.
pub(crate) fn references(object: &impl Interface) -> u32 {
    let raw = object.as_raw();
    // SAFETY: an object begins with a pointer to its table, which begins with `IUnknown`'s.
    unsafe {
        let table = *raw.cast::<*const windows_core::IUnknown_Vtbl>();
        ((*table).AddRef)(raw);
        ((*table).Release)(raw)
    }
}

/// Gives an object a changed copy of its table of methods.
///
/// # Safety
/// The table has this type.
unsafe fn change<T>(object: *mut c_void, change: impl FnOnce(&mut T)) {
    // SAFETY: an object begins with a pointer to its table.
    unsafe {
        let table = object.cast::<*const T>();
        let mut changed = Box::new(std::ptr::read(*table));
        change(&mut changed);
        *table = Box::into_raw(changed);
    }
}

/// A device and a queue of the program.
pub(crate) struct Device {
    pub(crate) device: ID3D12Device,
    pub(crate) queue: ID3D12CommandQueue,
}

/// Where the bytes of subresources are in a request or a buffer.
pub(crate) struct Layout {
    placed: Vec<D3D12_PLACED_SUBRESOURCE_FOOTPRINT>,
    rows: Vec<u32>,
    row_lens: Vec<u64>,
    pub(crate) len: usize,
}

impl Layout {
    /// Returns the bytes of a row of the first.
    pub(crate) fn row_len(&self) -> usize {
        self.row_lens[0] as usize
    }

    /// Returns the bytes of the rows, one after the other, without what is between them.
    pub(crate) fn rows(&self, bytes: &[u8]) -> Vec<u8> {
        let mut rows = Vec::new();
        for at in 0..self.placed.len() {
            let footprint = self.placed[at].Footprint;
            for row in 0..self.rows[at] * footprint.Depth {
                let start = self.placed[at].Offset + u64::from(row) * u64::from(footprint.RowPitch);
                let (start, len) = (start as usize, self.row_lens[at] as usize);
                rows.extend_from_slice(&bytes[start..start + len]);
            }
        }
        rows
    }
}

fn skip(reason: &str) -> Option<Device> {
    let is_needed = std::env::var_os(NEEDS_DEVICE).is_some();
    assert!(!is_needed, "{reason}, and {NEEDS_DEVICE} is set");
    println!("SKIP: {reason}");
    None
}

impl Device {
    /// Returns a device, or says why there is none.
    pub(crate) fn new() -> Option<Device> {
        // SAFETY: the function has this type; parameters that it takes.
        let made = unsafe {
            let library = LoadLibraryA(c"d3d12.dll".as_ptr().cast());
            let function = GetProcAddress(library, c"D3D12CreateDevice".as_ptr().cast());
            let Some(function) = function else {
                return skip("no D3D12CreateDevice in d3d12.dll");
            };
            let create: CreateDevice = std::mem::transmute(function);
            let mut out = std::ptr::null_mut();
            let null = std::ptr::null_mut();
            create(null, FEATURE_LEVEL_11_0, &ID3D12Device::IID, &mut out)
                .ok()
                .map(|()| ID3D12Device::from_raw(out))
        };
        match made {
            Ok(device) => {
                let description = D3D12_COMMAND_QUEUE_DESC::default();
                // SAFETY: a description.
                let queue = unsafe { device.CreateCommandQueue(&description) }.expect("a queue");
                Some(Device { device, queue })
            }
            Err(error) => skip(&format!("no device of D3D12: {error}")),
        }
    }

    pub(crate) fn storage_queue(
        &self,
        session: &Session,
        source: DSTORAGE_REQUEST_SOURCE_TYPE,
    ) -> IDStorageQueue3 {
        let description = DSTORAGE_QUEUE_DESC {
            SourceType: source,
            Capacity: 256,
            Priority: match source {
                MEMORY => DSTORAGE_PRIORITY_REALTIME,
                _ => DSTORAGE_PRIORITY_NORMAL,
            },
            Name: PCSTR::null(),
            // SAFETY: the device outlives the call.
            Device: unsafe { readonly_copy(&self.device) },
        };
        // SAFETY: parameters that the method takes.
        unsafe { session.factory.CreateQueue(&description) }.expect("a queue with a device")
    }

    pub(crate) fn fence(&self) -> ID3D12Fence {
        // SAFETY: parameters that the method takes.
        unsafe { self.device.CreateFence(0, D3D12_FENCE_FLAG_NONE) }.expect("a fence")
    }

    pub(crate) fn resource(&self, description: &D3D12_RESOURCE_DESC) -> ID3D12Resource {
        self.resource_in(
            D3D12_HEAP_TYPE_DEFAULT,
            D3D12_RESOURCE_STATE_COMMON,
            description,
        )
    }

    fn resource_in(
        &self,
        heap: D3D12_HEAP_TYPE,
        state: D3D12_RESOURCE_STATES,
        description: &D3D12_RESOURCE_DESC,
    ) -> ID3D12Resource {
        let properties = D3D12_HEAP_PROPERTIES {
            Type: heap,
            ..Default::default()
        };
        let flags = D3D12_HEAP_FLAG_NONE;
        let mut made = None;
        // SAFETY: descriptions, and memory for the answer.
        unsafe {
            self.device.CreateCommittedResource(
                &properties,
                flags,
                description,
                state,
                None,
                &mut made,
            )
        }
        .expect("a resource");
        made.expect("a resource")
    }

    /// Returns the layout of subresources.
    pub(crate) fn layout(
        &self,
        description: &D3D12_RESOURCE_DESC,
        first: u32,
        count: u32,
    ) -> Layout {
        let room = count as usize;
        let mut layout = Layout {
            placed: vec![Default::default(); room],
            rows: vec![0; room],
            row_lens: vec![0; room],
            len: 0,
        };
        let mut total = 0;
        // SAFETY: arrays with room.
        unsafe {
            self.device.GetCopyableFootprints(
                description,
                first,
                count,
                0,
                Some(layout.placed.as_mut_ptr()),
                Some(layout.rows.as_mut_ptr()),
                Some(layout.row_lens.as_mut_ptr()),
                Some(&mut total),
            );
        }
        layout.len = total as usize;
        layout
    }

    /// Returns the bytes of a buffer.
    pub(crate) fn buffer_bytes(&self, from: &ID3D12Resource, len: usize) -> Vec<u8> {
        self.read_back(len, |list, to| {
            // SAFETY: resources that are held until the list has run.
            unsafe { list.CopyBufferRegion(to, 0, from, 0, len as u64) };
        })
    }

    /// Returns the rows of a subresource of a texture, or those of a box of it.
    pub(crate) fn texture_rows(
        &self,
        from: &ID3D12Resource,
        subresource: u32,
        layout: &Layout,
        part: Option<D3D12_BOX>,
    ) -> Vec<u8> {
        let bytes = self.read_back(layout.len, |list, to| {
            let to = D3D12_TEXTURE_COPY_LOCATION {
                pResource: ManuallyDrop::new(Some(to.clone())),
                Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
                Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
                    PlacedFootprint: layout.placed[0],
                },
            };
            let from = D3D12_TEXTURE_COPY_LOCATION {
                pResource: ManuallyDrop::new(Some(from.clone())),
                Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
                Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
                    SubresourceIndex: subresource,
                },
            };
            let part = part.as_ref().map(std::ptr::from_ref);
            // SAFETY: as above.
            unsafe { list.CopyTextureRegion(&to, 0, 0, 0, &from, part) };
            drop((
                ManuallyDrop::into_inner(to.pResource),
                ManuallyDrop::into_inner(from.pResource),
            ));
        });
        layout.rows(&bytes)
    }

    fn read_back(
        &self,
        len: usize,
        record: impl FnOnce(&ID3D12GraphicsCommandList, &ID3D12Resource),
    ) -> Vec<u8> {
        let state = D3D12_RESOURCE_STATE_COPY_DEST;
        let back = self.resource_in(D3D12_HEAP_TYPE_READBACK, state, &buffer(len as u64));
        self.execute(|list| record(list, &back));
        // SAFETY: the mapped bytes are the buffer's.
        unsafe {
            let mut mapped = std::ptr::null_mut();
            back.Map(0, None, Some(&mut mapped)).expect("mapped");
            std::slice::from_raw_parts(mapped.cast::<u8>(), len).to_vec()
        }
    }

    /// Executes commands and waits for them.
    fn execute(&self, record: impl FnOnce(&ID3D12GraphicsCommandList)) {
        let (_allocator, list) = self.list();
        record(&list);
        let (fence, event) = (self.fence(), Event::new());
        // SAFETY: objects that are held until the list has run.
        unsafe {
            list.Close().expect("it was recorded");
            self.queue
                .ExecuteCommandLists(&[Some(list.cast().expect("a list"))]);
            self.queue.Signal(&fence, 1).expect("a signal");
            fence.SetEventOnCompletion(1, event.0).expect("an event");
        }
        event.wait();
    }

    fn list(&self) -> (ID3D12CommandAllocator, ID3D12GraphicsCommandList) {
        let kind = D3D12_COMMAND_LIST_TYPE_DIRECT;
        // SAFETY: parameters that the methods take.
        unsafe {
            let allocator: ID3D12CommandAllocator = self
                .device
                .CreateCommandAllocator(kind)
                .expect("an allocator");
            let list = self.device.CreateCommandList(0, kind, &allocator, None);
            (allocator, list.expect("a list"))
        }
    }

    /// Returns a buffer of zeros.
    pub(crate) fn buffer(&self, len: u64) -> ID3D12Resource {
        let made = self.resource(&buffer(len));
        self.clear(&made, len);
        made
    }

    /// Fills a buffer with zeros.
    pub(crate) fn clear(&self, made: &ID3D12Resource, len: u64) {
        let state = D3D12_RESOURCE_STATE_GENERIC_READ;
        let zeros = self.resource_in(D3D12_HEAP_TYPE_UPLOAD, state, &buffer(len));
        // SAFETY: the mapped bytes are the buffer's.
        unsafe {
            let mut mapped = std::ptr::null_mut();
            zeros.Map(0, None, Some(&mut mapped)).expect("mapped");
            mapped.cast::<u8>().write_bytes(0, len as usize);
        }
        self.execute(|list| {
            // SAFETY: resources that are held until the list has run.
            unsafe { list.CopyBufferRegion(made, 0, &zeros, 0, len) };
        });
    }

    /// Has the queues that the device makes from now on lose their signals.
    pub(crate) fn lose_signals(&self) {
        static CREATE: OnceLock<CreateQueue> = OnceLock::new();
        unsafe extern "system" fn create(
            this: *mut c_void,
            description: *const D3D12_COMMAND_QUEUE_DESC,
            iid: *const GUID,
            out: *mut *mut c_void,
        ) -> HRESULT {
            // SAFETY: the parameters of the call that it replaces; a queue that was made.
            unsafe {
                let result = CREATE.get().expect("set before")(this, description, iid, out);
                result.ok().expect("a queue");
                change(*out, |table: &mut ID3D12CommandQueue_Vtbl| {
                    table.Signal = signal
                });
                result
            }
        }
        unsafe extern "system" fn signal(_: *mut c_void, _: *mut c_void, _: u64) -> HRESULT {
            if let Some(call) = &*AT_LOST_SIGNAL.lock().expect("no panic") {
                call();
            }
            OK
        }
        // SAFETY: an object whose table has this type.
        unsafe {
            change(self.device.as_raw(), |table: &mut ID3D12Device_Vtbl| {
                CREATE.set(table.CreateCommandQueue).expect("set once");
                table.CreateCommandQueue = create;
            });
        }
    }

    /// Has `Close` fail for lists that copy to this offset of a buffer, as D3D12 tells of what it
    /// refuses.
    pub(crate) fn refuse_copies_to(&self, offset: u64) {
        static DEVICE: OnceLock<ID3D12Device_Vtbl> = OnceLock::new();
        static QUEUE: OnceLock<ID3D12CommandQueue_Vtbl> = OnceLock::new();
        static LIST: OnceLock<&ID3D12GraphicsCommandList_Vtbl> = OnceLock::new();
        static OFFSET: AtomicU64 = AtomicU64::new(u64::MAX);
        static IS_REFUSED: AtomicBool = AtomicBool::new(false);
        unsafe extern "system" fn create_queue(
            this: *mut c_void,
            description: *const D3D12_COMMAND_QUEUE_DESC,
            iid: *const GUID,
            out: *mut *mut c_void,
        ) -> HRESULT {
            // SAFETY: the parameters of the call that it replaces; a queue that was made.
            unsafe {
                let device = DEVICE.get().expect("set before");
                let result = (device.CreateCommandQueue)(this, description, iid, out);
                result.ok().expect("a queue");
                change(*out, |table: &mut ID3D12CommandQueue_Vtbl| {
                    table.ExecuteCommandLists = execute;
                });
                result
            }
        }
        // The implementation checks the table of a list that is executed.
        unsafe extern "system" fn execute(
            this: *mut c_void,
            count: u32,
            lists: *const *mut c_void,
        ) {
            // SAFETY: the parameters of the call that it replaces; one list, which was changed.
            unsafe {
                let table = (*lists).cast::<*const ID3D12GraphicsCommandList_Vtbl>();
                let changed = *table;
                *table = *LIST.get().expect("set before");
                (QUEUE.get().expect("set before").ExecuteCommandLists)(this, count, lists);
                *table = changed;
            }
        }
        unsafe extern "system" fn create_list(
            this: *mut c_void,
            mask: u32,
            kind: D3D12_COMMAND_LIST_TYPE,
            allocator: *mut c_void,
            pipeline: *mut c_void,
            iid: *const GUID,
            out: *mut *mut c_void,
        ) -> HRESULT {
            // SAFETY: the parameters of the call that it replaces; a list that was made.
            unsafe {
                let create = DEVICE.get().expect("set before").CreateCommandList;
                let result = create(this, mask, kind, allocator, pipeline, iid, out);
                result.ok().expect("a list");
                if kind == D3D12_COMMAND_LIST_TYPE_COPY {
                    change(*out, |table: &mut ID3D12GraphicsCommandList_Vtbl| {
                        table.CopyBufferRegion = copy;
                        table.Close = close;
                    });
                }
                result
            }
        }
        unsafe extern "system" fn copy(
            this: *mut c_void,
            to: *mut c_void,
            at: u64,
            from: *mut c_void,
            offset: u64,
            len: u64,
        ) {
            if at == OFFSET.load(Ordering::SeqCst) {
                IS_REFUSED.store(true, Ordering::SeqCst);
                return;
            }
            let list = LIST.get().expect("set before");
            // SAFETY: the parameters of the call that it replaces.
            unsafe { (list.CopyBufferRegion)(this, to, at, from, offset, len) };
        }
        unsafe extern "system" fn close(this: *mut c_void) -> HRESULT {
            // SAFETY: as above.
            let result = unsafe { (LIST.get().expect("set before").Close)(this) };
            match IS_REFUSED.swap(false, Ordering::SeqCst) {
                true => HRESULT(dstorage::abi::E_INVALIDARG),
                false => result,
            }
        }
        OFFSET.store(offset, Ordering::SeqCst);
        let (_allocator, list) = self.list();
        // SAFETY: objects whose tables have these types; those of the implementation stay.
        unsafe {
            let table = *list
                .as_raw()
                .cast::<*const ID3D12GraphicsCommandList_Vtbl>();
            assert!(LIST.set(&*table).is_ok(), "set once");
            let table = *self.queue.as_raw().cast::<*const ID3D12CommandQueue_Vtbl>();
            assert!(QUEUE.set(std::ptr::read(table)).is_ok(), "set once");
            change(self.device.as_raw(), |table: &mut ID3D12Device_Vtbl| {
                assert!(DEVICE.set(std::ptr::read(table)).is_ok(), "set once");
                table.CreateCommandList = create_list;
                table.CreateCommandQueue = create_queue;
            });
        }
    }

    /// Has the device removed: a list is executed that is still recorded.
    pub(crate) fn remove(&self) {
        let (_allocator, list) = self.list();
        // SAFETY: what the runtime detects as an error of the program.
        unsafe {
            self.queue
                .ExecuteCommandLists(&[Some(list.cast().expect("a list"))]);
        }
    }
}

fn buffer(len: u64) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
        Width: len,
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        SampleDesc: DXGI_SAMPLE_DESC {
            Count: 1,
            Quality: 0,
        },
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        ..Default::default()
    }
}

/// Returns a texture of two dimensions.
pub(crate) fn texture(
    format: DXGI_FORMAT,
    width: u64,
    height: u32,
    slices: u16,
    mips: u16,
) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: width,
        Height: height,
        DepthOrArraySize: slices,
        MipLevels: mips,
        Format: format,
        SampleDesc: DXGI_SAMPLE_DESC {
            Count: 1,
            Quality: 0,
        },
        ..Default::default()
    }
}

/// Where a request writes.
pub(crate) enum To<'a> {
    /// Offset and size.
    Buffer(&'a ID3D12Resource, u64, u32),
    /// Subresource and box.
    Region(&'a ID3D12Resource, u32, D3D12_BOX),
    /// The first subresource.
    All(&'a ID3D12Resource, u32),
    /// The first, and how many.
    Range(&'a ID3D12Resource, u32, u32),
    Tiles(&'a ID3D12Resource, D3D12_TILE_REGION_SIZE),
}

/// Returns a request, made for memory, with another destination; its uncompressed size is `len`.
pub(crate) fn to_resource(mut request: DSTORAGE_REQUEST, to: &To, len: usize) -> DSTORAGE_REQUEST {
    request.UncompressedSize = len as u32;
    // SAFETY: the resource outlives the request.
    let of = |resource: &ID3D12Resource| unsafe { readonly_copy(resource) };
    let (kind, destination) = match *to {
        To::Buffer(resource, offset, size) => (
            DSTORAGE_REQUEST_DESTINATION_BUFFER,
            DSTORAGE_DESTINATION {
                Buffer: ManuallyDrop::new(DSTORAGE_DESTINATION_BUFFER {
                    Resource: of(resource),
                    Offset: offset,
                    Size: size,
                }),
            },
        ),
        To::Region(resource, subresource, region) => (
            DSTORAGE_REQUEST_DESTINATION_TEXTURE_REGION,
            DSTORAGE_DESTINATION {
                Texture: ManuallyDrop::new(DSTORAGE_DESTINATION_TEXTURE_REGION {
                    Resource: of(resource),
                    SubresourceIndex: subresource,
                    Region: region,
                }),
            },
        ),
        To::All(resource, first) => (
            DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES,
            DSTORAGE_DESTINATION {
                MultipleSubresources: ManuallyDrop::new(
                    DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES {
                        Resource: of(resource),
                        FirstSubresource: first,
                    },
                ),
            },
        ),
        To::Range(resource, first, count) => (
            DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE,
            DSTORAGE_DESTINATION {
                MultipleSubresourcesRange: ManuallyDrop::new(
                    DSTORAGE_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE {
                        Resource: of(resource),
                        FirstSubresource: first,
                        NumSubresources: count,
                    },
                ),
            },
        ),
        To::Tiles(resource, size) => (
            DSTORAGE_REQUEST_DESTINATION_TILES,
            DSTORAGE_DESTINATION {
                Tiles: ManuallyDrop::new(DSTORAGE_DESTINATION_TILES {
                    Resource: of(resource),
                    TiledRegionStartCoordinate: Default::default(),
                    TileRegionSize: size,
                }),
            },
        ),
    };
    request.Options.set_DestinationType(kind);
    request.Destination = destination;
    request
}

/// Takes, as the program, all requests that wait for it.
pub(crate) fn take_as_program(session: &Session) -> Vec<DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST> {
    let mut requests = vec![DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST::default(); 64];
    let mut count = 0;
    // SAFETY: room for as many requests as it has.
    unsafe { session.custom().GetRequests(&mut requests, &mut count) }.expect("requests");
    requests.truncate(count as usize);
    requests
}

/// Decompresses requests that were taken: their bytes are copied.
pub(crate) fn finish_as_program(
    session: &Session,
    requests: &[DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST],
) {
    for request in requests {
        decompress_as_program(request);
        let result = DSTORAGE_CUSTOM_DECOMPRESSION_RESULT {
            Id: request.Id,
            Result: OK,
        };
        session
            .custom()
            .set_results(&[result])
            .expect("it is known");
    }
}

pub(crate) fn decompress_as_program(request: &DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST) {
    assert_eq!(request.SrcSize, request.DstSize);
    // SAFETY: memory of the library, until the result is set.
    unsafe {
        let (from, to) = (request.SrcBuffer.cast::<u8>(), request.DstBuffer.cast());
        std::ptr::copy_nonoverlapping(from, to, request.DstSize as usize);
    }
}

pub(crate) fn completed(fence: &ID3D12Fence) -> u64 {
    // SAFETY: the object is held.
    unsafe { fence.GetCompletedValue() }
}

pub(crate) fn signal(fence: &ID3D12Fence, value: u64) {
    // SAFETY: the object is held.
    unsafe { fence.Signal(value) }.expect("a signal");
}

pub(crate) fn removed_reason(device: &ID3D12Device) -> Option<HRESULT> {
    // SAFETY: the object is held.
    let reason = unsafe { device.GetDeviceRemovedReason() };
    reason.err().map(|error| error.code())
}

/// Makes another object the resource of a request.
pub(crate) fn set_resource(request: &mut DSTORAGE_REQUEST, object: &impl Interface) {
    request.Destination.Buffer = ManuallyDrop::new(DSTORAGE_DESTINATION_BUFFER {
        // SAFETY: it outlives the request.
        Resource: unsafe { std::mem::transmute_copy(object) },
        Offset: 0,
        Size: 1000,
    });
}
