//! The queue of custom decompression: requests that the program decompresses.
//!
//! There is one for the process, as there is one factory. A request *waits* until `GetRequests`
//! takes it, then is *lent* until `SetRequestResults` names its id. Its source stays in memory
//! until then, even if its queue is closed meanwhile: the program may still read it. The event is
//! set while requests wait.
#![expect(unsafe_code, reason = "hands pointers of the program over to it")]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::Mutex;

use millstream::Buffer;

use crate::abi::*;
use crate::com::lock;
use crate::event::Event;

/// Called with the program's result, once.
pub(crate) type Done = Box<dyn FnOnce(HRESULT) + Send>;

/// Where the compressed bytes are.
pub(crate) enum CompressedSource {
    /// In memory of the program.
    Program(*const c_void, u64),
    /// In a buffer into which a file was read.
    Buffer(Buffer),
}

pub(crate) struct CustomRequest {
    /// Identifies its queue.
    pub(crate) queue: usize,
    pub(crate) format: DSTORAGE_COMPRESSION_FORMAT,
    pub(crate) source: CompressedSource,
    pub(crate) destination: DSTORAGE_DESTINATION_MEMORY,
    pub(crate) done: Done,
}

// SAFETY: the pointers are handed to the program, and never followed here.
unsafe impl Send for CustomRequest {}

impl CustomRequest {
    fn is_selected(&self, flags: DSTORAGE_GET_REQUEST_FLAGS) -> bool {
        let own = match self.format >= DSTORAGE_CUSTOM_COMPRESSION_0 {
            true => DSTORAGE_GET_REQUEST_FLAG_SELECT_CUSTOM,
            false => DSTORAGE_GET_REQUEST_FLAG_SELECT_BUILTIN,
        };
        flags & own != 0
    }

    fn describe(&self, id: u64) -> DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST {
        let (buffer, size) = match &self.source {
            CompressedSource::Program(address, size) => (*address, *size),
            CompressedSource::Buffer(buffer) => (buffer.as_ptr().cast(), buffer.len() as u64),
        };
        DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST {
            Id: id,
            CompressionFormat: self.format,
            Reserved: [0; 3],
            Flags: DSTORAGE_CUSTOM_DECOMPRESSION_FLAG_NONE,
            SrcSize: size,
            SrcBuffer: buffer,
            DstSize: u64::from(self.destination.Size),
            DstBuffer: self.destination.Buffer,
        }
    }
}

struct CustomQueue {
    event: Option<Event>,
    waiting: VecDeque<CustomRequest>,
    lent: BTreeMap<u64, CustomRequest>,
    next_id: u64,
}

static CUSTOM: Mutex<CustomQueue> = Mutex::new(CustomQueue {
    event: None,
    waiting: VecDeque::new(),
    lent: BTreeMap::new(),
    next_id: 1,
});

impl CustomQueue {
    fn update_event(&self) {
        match &self.event {
            Some(event) if self.waiting.is_empty() => event.reset(),
            Some(event) => {
                event.set();
            }
            None => {}
        }
    }
}

/// Adds a request, to be taken by the program.
pub(crate) fn push(request: CustomRequest) {
    let mut custom = lock(&CUSTOM);
    custom.waiting.push_back(request);
    if custom.waiting.len() == 1 {
        custom.update_event();
    }
}

/// Removes the requests of a queue that wait; returns what is to be called for them.
pub(crate) fn withdraw(queue: usize) -> Vec<Done> {
    let mut custom = lock(&CUSTOM);
    let waiting = std::mem::take(&mut custom.waiting);
    let (own, others): (VecDeque<_>, _) = waiting.into_iter().partition(|it| it.queue == queue);
    custom.waiting = others;
    custom.update_event();
    drop(custom);
    own.into_iter().map(|request| request.done).collect()
}

/// Returns the event; null if there is none. It is valid until the factory is released.
pub(crate) fn event() -> HANDLE {
    let mut custom = lock(&CUSTOM);
    if custom.event.is_none() {
        custom.event = Event::new().ok();
        custom.update_event();
    }
    let event = custom.event.as_ref();
    event.map_or(std::ptr::null_mut(), Event::handle)
}

/// Closes the event if no request waits: no factory is left, so no program knows it.
pub(crate) fn close_event() {
    let mut custom = lock(&CUSTOM);
    if custom.waiting.is_empty() {
        custom.event = None;
    }
}

/// Takes at most `most` of the selected requests that wait, oldest first.
pub(crate) fn take(
    flags: DSTORAGE_GET_REQUEST_FLAGS,
    most: usize,
) -> Vec<DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST> {
    let mut custom = lock(&CUSTOM);
    let custom = &mut *custom;
    let mut taken = Vec::new();
    let mut left = Vec::new();
    while taken.len() < most
        && let Some(request) = custom.waiting.pop_front()
    {
        if !request.is_selected(flags) {
            left.push(request);
            continue;
        }
        let id = custom.next_id;
        custom.next_id += 1;
        taken.push(request.describe(id));
        custom.lent.insert(id, request);
    }
    for request in left.into_iter().rev() {
        custom.waiting.push_front(request);
    }
    custom.update_event();
    taken
}

/// Ends a request that was taken; returns whether there is one with this id.
pub(crate) fn finish(id: u64, result: HRESULT) -> bool {
    let lent = lock(&CUSTOM).lent.remove(&id);
    let Some(request) = lent else { return false };
    // Without the lock: the queue may push another request.
    (request.done)(result);
    true
}
