//! `ID3D12Fence` of the program: signaled by queues, and waited for by requests.
//!
//! Only its public methods are called. A wait is an event that the fence sets, and a wait of the
//! system's thread pool on that event, which signals a fence of the engine.
#![expect(unsafe_code, reason = "calls COM methods on pointers of the program")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use millstream::Fence;
use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEONLYONCE,
};

use crate::abi::{E_DSTORAGE_INVALID_FENCE, HRESULT, IID_ID3D12Fence, S_OK};
use crate::com::lock;
use crate::event::{Event, last_error};
use crate::vtables::{ID3D12FenceVtbl, IUnknownVtbl};

/// A reference to a fence of the program.
pub(crate) struct D3D12Fence(NonNull<c_void>);

// SAFETY: D3D12 objects may be used from any thread.
unsafe impl Send for D3D12Fence {}
// SAFETY: as above.
unsafe impl Sync for D3D12Fence {}

impl D3D12Fence {
    /// Takes a reference.
    ///
    /// # Safety
    /// `object` is null, or a COM object that the caller holds.
    pub(crate) unsafe fn new(object: *mut c_void) -> Result<D3D12Fence, HRESULT> {
        if object.is_null() {
            return Err(E_DSTORAGE_INVALID_FENCE);
        }
        let mut fence = std::ptr::null_mut();
        // SAFETY: every COM object begins with a pointer to a table that begins with `IUnknown`.
        let result = unsafe {
            let table = *object.cast::<*const IUnknownVtbl>();
            ((*table).QueryInterface)(object, &IID_ID3D12Fence, &mut fence)
        };
        match NonNull::new(fence).filter(|_| result >= S_OK) {
            Some(fence) => Ok(D3D12Fence(fence)),
            None => Err(E_DSTORAGE_INVALID_FENCE),
        }
    }

    fn table(&self) -> &ID3D12FenceVtbl {
        // SAFETY: `QueryInterface` returned this interface, and the reference keeps it alive.
        unsafe { &**self.0.as_ptr().cast::<*const ID3D12FenceVtbl>() }
    }

    pub(crate) fn signal(&self, value: u64) -> HRESULT {
        // SAFETY: the object of the table.
        unsafe { (self.table().Signal)(self.0.as_ptr(), value) }
    }
}

impl Drop for D3D12Fence {
    fn drop(&mut self) {
        // SAFETY: the reference of `QueryInterface`, released once.
        unsafe { (self.table().base.Release)(self.0.as_ptr()) };
    }
}

/// A fence of the engine that is at 1 once a fence of the program has reached a value.
pub(crate) struct Gate {
    /// Boxed: the thread pool has its address. Dropped after `wait`, which ends the callback.
    open: Box<Fence>,
    wait: HANDLE,
    /// `None` while the gate is dropped.
    event: Option<Event>,
    _fence: D3D12Fence,
}

// SAFETY: the wait is a handle that any thread may use.
unsafe impl Send for Gate {}
// SAFETY: as above.
unsafe impl Sync for Gate {}

impl Gate {
    /// Returns a gate, or `None` if the fence has reached the value.
    pub(crate) fn new(fence: D3D12Fence, value: u64) -> Result<Option<Arc<Gate>>, HRESULT> {
        let (table, object) = (fence.table(), fence.0.as_ptr());
        // SAFETY: the object of the table.
        if unsafe { (table.GetCompletedValue)(object) } >= value {
            return Ok(None);
        }
        close_passed();
        let event = Event::new()?;
        let handle = event.handle();
        // SAFETY: as above; the event stays open until it is set.
        let result = unsafe { (table.SetEventOnCompletion)(object, value, handle) };
        if result < S_OK {
            return Err(result);
        }
        let mut gate = Gate {
            open: Box::new(Fence::new(0)),
            wait: std::ptr::null_mut(),
            event: Some(event),
            _fence: fence,
        };
        let open = std::ptr::from_ref(&*gate.open);
        // SAFETY: the callback uses `open` until the drop of the gate has ended the wait.
        let registered = unsafe {
            RegisterWaitForSingleObject(
                &mut gate.wait,
                handle,
                Some(opened),
                open.cast(),
                INFINITE,
                WT_EXECUTEONLYONCE,
            )
        };
        match registered {
            0 => Err(last_error()),
            _ => Ok(Some(Arc::new(gate))),
        }
    }

    /// Returns the fence to wait for, at value 1.
    pub(crate) fn fence(&self) -> &Fence {
        &self.open
    }
}

unsafe extern "system" fn opened(open: *mut c_void, _: bool) {
    // SAFETY: the gate waits for this call before it drops its fence.
    let open = unsafe { &*open.cast::<Fence>() };
    crate::com::guard((), || open.signal(1));
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !self.wait.is_null() {
            // SAFETY: a wait of this gate; the call returns once its callback has. No callback
            // drops a gate: it only signals.
            unsafe { UnregisterWaitEx(self.wait, INVALID_HANDLE_VALUE) };
        }
        if let Some(event) = self.event.take() {
            lock(&PASSED).push(event);
        }
        close_passed();
    }
}

/// Events of gates that are gone. A fence has no handle of its own to its events, and publishes a
/// value before it sets them: an event that is closed early could be another one by then.
static PASSED: Mutex<Vec<Event>> = Mutex::new(Vec::new());

/// Closes the events that their fences have set.
fn close_passed() {
    lock(&PASSED).retain(|event| !event.is_set());
}
