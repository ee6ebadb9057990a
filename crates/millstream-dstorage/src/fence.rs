//! Waits for an `ID3D12Fence`: a wait is an event that the fence sets, and a wait of the
//! system's thread pool on that event, which signals a fence of the engine.
#![expect(unsafe_code, reason = "calls COM methods on pointers of the program")]

use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::Fence;
use windows::Win32::Foundation::HANDLE;
pub(crate) use windows::Win32::Graphics::Direct3D12::ID3D12Fence;
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEONLYONCE,
};

use crate::abi::HRESULT;
use crate::com::lock;
use crate::event::{Event, last_error};

/// A fence of the engine that is at 1 once a fence of the program has reached a value.
pub(crate) struct Gate {
    /// Boxed: the thread pool has its address. Dropped after `wait`, which ends the callback.
    open: Box<Fence>,
    wait: *mut c_void,
    /// `None` while the gate is dropped.
    event: Option<Event>,
    _fence: ID3D12Fence,
}

// SAFETY: the wait is a handle that any thread may use.
unsafe impl Send for Gate {}
// SAFETY: as above.
unsafe impl Sync for Gate {}

impl Gate {
    /// Returns a gate, or `None` if the fence has reached the value.
    pub(crate) fn new(fence: ID3D12Fence, value: u64) -> Result<Option<Arc<Gate>>, HRESULT> {
        // SAFETY: without arguments.
        if unsafe { fence.GetCompletedValue() } >= value {
            return Ok(None);
        }
        close_passed();
        let event = Event::new()?;
        let handle = event.handle();
        // SAFETY: the event stays open until it is set.
        let waits = unsafe { fence.SetEventOnCompletion(value, HANDLE(handle)) };
        waits.map_err(|error| error.code().0)?;
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
    lock(&PASSED).retain(|event| !event.is_set_within(Duration::ZERO));
}
