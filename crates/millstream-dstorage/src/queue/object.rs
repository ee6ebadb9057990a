//! The object of a queue: creation, and the methods, which check what the program passes.
#![expect(unsafe_code, reason = "implements methods on raw pointers")]

use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

use windows::core::Interface;

use crate::abi::*;
use crate::com::{self, Class, methods, unknown};
use crate::event::Event;
use crate::fence::Gate;
use crate::log;
use crate::memory::codec_of;
use crate::queue::core::QueueCore;
use crate::queue::state::{Entry, Marker, RequestState};
use crate::record::{Command, Failure};
use crate::request::{Gated, PreparedRequest};
use crate::runtime::Runtime;
use crate::status::Statuses;
use crate::vtables::*;

impl Class for QueueCore {
    type Vtable = IDStorageQueue3Vtbl;

    const INTERFACES: &'static [GUID] = &[
        IID_IDStorageQueue,
        IID_IDStorageQueue1,
        IID_IDStorageQueue2,
        IID_IDStorageQueue3,
    ];

    const VTABLE: &'static IDStorageQueue3Vtbl = &VTABLE;

    fn released(&self) {
        self.release();
    }
}

const VTABLE: IDStorageQueue3Vtbl = IDStorageQueue3Vtbl {
    base: IDStorageQueue2Vtbl {
        base: IDStorageQueue1Vtbl {
            base: IDStorageQueueVtbl {
                base: unknown::<QueueCore>(),
                EnqueueRequest: enqueue_request,
                EnqueueStatus: enqueue_status,
                EnqueueSignal: enqueue_signal,
                Submit: submit,
                CancelRequestsWithTag: cancel_requests_with_tag,
                Close: close,
                GetErrorEvent: get_error_event,
                RetrieveErrorRecord: retrieve_error_record,
                Query: query,
            },
            EnqueueSetEvent: enqueue_set_event,
        },
        GetCompressionSupport: get_compression_support,
    },
    EnqueueRequests: enqueue_requests,
};

/// `IDStorageFactory::CreateQueue`.
///
/// # Safety
/// The pointers are null or valid.
pub(crate) unsafe fn create(
    runtime: impl FnOnce() -> Result<Arc<Runtime>, HRESULT>,
    description: *const DSTORAGE_QUEUE_DESC,
    iid: *const GUID,
    out: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: as the caller promises; a name ends with a NUL.
    unsafe {
        com::create(iid, out, || {
            let description = com::read(description).ok_or(E_INVALIDARG)?;
            check(&description).inspect_err(|error| {
                log::error(|| format!("cannot create a queue: HRESULT {error:#010x}"));
            })?;
            let name = match description.Name.is_null() {
                true => CString::default(),
                false => CStr::from_ptr(description.Name).to_owned(),
            };
            let queue = QueueCore::new(runtime()?, &description, name)?;
            let (name, source, capacity) = (&queue.name, queue.source_type, queue.capacity);
            let priority = queue.priority;
            log::line(|| {
                format!("queue created: {name:?}, source {source}, {capacity}, {priority}")
            });
            Ok(queue)
        })
    }
}

fn check(description: &DSTORAGE_QUEUE_DESC) -> Result<(), HRESULT> {
    let capacities = DSTORAGE_MIN_QUEUE_CAPACITY..=DSTORAGE_MAX_QUEUE_CAPACITY;
    let priorities = DSTORAGE_PRIORITY_LOW..=DSTORAGE_PRIORITY_REALTIME;
    let is_memory = description.SourceType == DSTORAGE_REQUEST_SOURCE_MEMORY;
    if description.SourceType > DSTORAGE_REQUEST_SOURCE_MEMORY {
        Err(E_DSTORAGE_INVALID_SOURCE_TYPE)
    } else if !capacities.contains(&description.Capacity) {
        Err(E_DSTORAGE_INVALID_QUEUE_CAPACITY)
    } else if !priorities.contains(&description.Priority) {
        Err(E_DSTORAGE_INVALID_QUEUE_PRIORITY)
    } else if is_memory && description.Priority != DSTORAGE_PRIORITY_REALTIME {
        Err(E_DSTORAGE_INVALID_MEMORY_QUEUE_PRIORITY)
    } else {
        Ok(())
    }
}

/// Enqueues a request, or its failure; `None` if the program passed null.
///
/// # Safety
/// The request's name is null or a string.
unsafe fn enqueue(
    queue: &QueueCore,
    request: Option<DSTORAGE_REQUEST>,
    gate: Result<Option<Gated>, HRESULT>,
) {
    let refuse = |result, request| {
        let name = [0; DSTORAGE_REQUEST_MAX_NAME];
        Entry::Refused(Failure::of_request(result, &request, &name, None))
    };
    queue.enqueue(match (request, gate) {
        // SAFETY: numbers and pointers, for which zero is valid.
        (None, _) => refuse(E_INVALIDARG, unsafe { std::mem::zeroed() }),
        (Some(request), Err(result)) => refuse(result, request),
        (Some(request), Ok(gate)) => {
            let (source, gpu) = (queue.source_type, queue.gpu.as_deref());
            // SAFETY: as the caller promises.
            match unsafe { PreparedRequest::new(request, source, gpu, gate) } {
                Ok(prepared) => Entry::Request(Box::new(RequestState::new(prepared))),
                Err(failure) => Entry::Refused(failure),
            }
        }
    });
}

/// Enqueues a marker, or its failure.
fn enqueue_marker(queue: &QueueCore, marker: Result<Marker, HRESULT>, command: Command) {
    queue.enqueue(match marker {
        Ok(marker) => Entry::Marker(Box::new((marker, command))),
        Err(result) => Entry::Refused(Failure::new(result, command)),
    });
}

/// Returns what requests wait for before they write, or also before they read.
///
/// # Safety
/// `fence` is null or a COM object of the caller.
unsafe fn gate_of(
    fence: *mut c_void,
    value: u64,
    flags: DSTORAGE_ENQUEUE_REQUEST_FLAGS,
) -> Result<Option<Gated>, HRESULT> {
    let before_write_only = match flags {
        // A resource is written after the fence, so the GPU is used after it.
        DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE
        | DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_GPU_WORK => true,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_SOURCE_ACCESS => false,
        _ => return Err(E_INVALIDARG),
    };
    if fence.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let fence = unsafe { com::query(fence) }.ok_or(E_DSTORAGE_INVALID_FENCE)?;
    let gate = Gate::new(fence, value)?;
    Ok(gate.map(|gate| (gate, before_write_only)))
}

methods! { QueueCore as queue;
    fn enqueue_request(request: *const DSTORAGE_REQUEST) {
        // SAFETY: the request is null or valid.
        unsafe { enqueue(&queue, com::read(request), Ok(None)) }
    }

    fn enqueue_requests(
        requests: *const DSTORAGE_REQUEST,
        count: u32,
        fence: *mut c_void,
        value: u64,
        flags: DSTORAGE_ENQUEUE_REQUEST_FLAGS
    ) {
        let count = match requests.is_null() {
            // One failure for the call.
            true => count.min(1),
            false => count,
        };
        // SAFETY: null or an array of that many; null or a fence of the caller.
        unsafe {
            let gate = gate_of(fence, value, flags);
            for at in 0..count as usize {
                enqueue(&queue, com::read(requests.wrapping_add(at)), gate.clone());
            }
        }
    }

    fn enqueue_status(array: *mut c_void, index: u32) {
        let marker = Statuses::find(array, index).map(|it| Marker::Status(it, index));
        enqueue_marker(&queue, marker, Command::Status(array, index));
    }

    fn enqueue_signal(fence: *mut c_void, value: u64) {
        // SAFETY: null or a fence of the caller.
        let marker = unsafe { com::query(fence) }.map(|it| Marker::Signal(it, value));
        let marker = marker.ok_or(E_DSTORAGE_INVALID_FENCE);
        enqueue_marker(&queue, marker, Command::Signal(fence, value));
    }

    fn enqueue_set_event(handle: HANDLE) {
        let marker = Event::duplicate(handle).map(Marker::Event);
        enqueue_marker(&queue, marker, Command::Event(handle));
    }

    fn submit() {
        queue.submit();
    }

    fn cancel_requests_with_tag(mask: u64, value: u64) {
        queue.cancel(mask, value);
    }

    fn close() {
        queue.close();
    }

    fn get_error_event() -> HANDLE, or std::ptr::null_mut(); {
        queue.state().error_event.handle()
    }

    fn retrieve_error_record(record: *mut DSTORAGE_ERROR_RECORD) {
        if !record.is_null() {
            let taken = queue.state().take_record();
            // SAFETY: the caller passes memory for it.
            unsafe { com::store(record, taken) };
        }
    }

    fn query(info: *mut DSTORAGE_QUEUE_INFO) {
        let state = queue.state();
        let (empty, until) = (state.empty_slots(), state.until_auto_submit());
        drop(state);
        let queried = DSTORAGE_QUEUE_INFO {
            Desc: DSTORAGE_QUEUE_DESC {
                SourceType: queue.source_type,
                Capacity: queue.capacity,
                Priority: queue.priority,
                // Valid as long as the queue.
                Name: match queue.name.is_empty() {
                    true => std::ptr::null(),
                    false => queue.name.as_ptr(),
                },
                Device: queue.gpu.as_ref().map_or_else(std::ptr::null_mut, |it| it.device.as_raw()),
            },
            EmptySlotCount: empty,
            RequestCountUntilAutoSubmit: until,
        };
        // SAFETY: the caller passes null or memory for it.
        unsafe { com::store(info, queried) };
    }
}

methods! {
    fn get_compression_support(
        format: DSTORAGE_COMPRESSION_FORMAT
    ) -> DSTORAGE_COMPRESSION_SUPPORT, or DSTORAGE_COMPRESSION_SUPPORT_NONE; {
        match codec_of(format) {
            Some(_) => DSTORAGE_COMPRESSION_SUPPORT_CPU_FALLBACK,
            None => DSTORAGE_COMPRESSION_SUPPORT_NONE,
        }
    }
}
