//! A queue: its entries, the engine's queue that runs its requests, and the thread that takes their
//! completions.
//!
//! Lifetimes: the program's object, the thread, and each request that the program decompresses hold
//! the core. The core holds the storage, so the last of them closes it. `Close` returns once no
//! thread of the library uses memory of the program. Releasing the object lets what is submitted
//! complete; the thread ends after that.
//!
//! Locks: the state is locked before that of the custom decompression queue and that of the upload
//! heap, under which buffers of D3D12 are made. No lock is held while a fence of the program is
//! signaled; that of copies alone while the GPU is waited for. Markers take effect on one thread at
//! a time, so a fence is signaled in the order of enqueueing.
#![expect(unsafe_code, reason = "lends memory of the program to the engine")]

use std::convert::Infallible;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

use millstream::{
    Batch, Buffer, Completion, Delivery, ErrorKind, Priority, Queue, QueueOptions, Read,
};

use crate::abi::*;
use crate::com::{guard, lock};
use crate::custom::{self, CompressedSource, CustomRequest};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::queue::state::{Entry, Marker, QueueState, ReadyMarker, Stage};
use crate::record::{Command, Failure};
use crate::request::Work;
use crate::results::hresult_of;
use crate::runtime::Runtime;
use crate::{log, system};

/// The user data of the request that wakes the thread.
const DOORBELL: u64 = u64::MAX;

/// Completions taken at once.
const COMPLETIONS: usize = 64;

/// How long a thread that pumps waits for completions before it looks again.
const PUMP_WAIT: Duration = Duration::from_millis(5);

pub(super) struct QueueCore {
    own: Weak<QueueCore>,
    runtime: Arc<Runtime>,
    engine: Queue,
    /// If the queue has a device.
    pub(super) gpu: Option<Arc<Gpu>>,
    pub(super) source_type: DSTORAGE_REQUEST_SOURCE_TYPE,
    pub(super) capacity: u16,
    pub(super) priority: DSTORAGE_PRIORITY,
    pub(super) name: CString,
    state: Mutex<QueueState>,
    /// Notified when a slot is free or the queue is closed, and what `close` waits for changes.
    changed: Condvar,
    thread: OnceLock<ThreadId>,
    /// Fails once the thread has dropped its reference. The thread is not joined: its end needs the
    /// loader lock.
    ended: Mutex<Receiver<Infallible>>,
    /// The thread ends once the engine has no request of the queue.
    stopping: AtomicBool,
    /// A doorbell is rung that the thread has not taken: as many are not needed as calls.
    rung: AtomicBool,
    /// It counts as an open queue of the storage.
    is_user: AtomicBool,
}

impl QueueCore {
    pub(super) fn new(
        runtime: Arc<Runtime>,
        description: &DSTORAGE_QUEUE_DESC,
        name: CString,
    ) -> Result<Arc<QueueCore>, HRESULT> {
        let mut options = QueueOptions::default();
        options.name = name.to_string_lossy().into_owned();
        options.priority = match description.Priority {
            DSTORAGE_PRIORITY_LOW => Priority::Low,
            DSTORAGE_PRIORITY_NORMAL => Priority::Normal,
            DSTORAGE_PRIORITY_HIGH => Priority::High,
            _ => Priority::Realtime,
        };
        // Slots are counted here; the engine's queue never is full.
        options.capacity = u32::from(description.Capacity) * 2;
        options.auto_submit = false;
        let engine = runtime.storage.queue(options).map_err(|error| {
            log::error(|| format!("cannot create a queue: {error}"));
            match error.kind() {
                ErrorKind::Limit => E_DSTORAGE_TOO_MANY_QUEUES,
                _ => hresult_of(&error),
            }
        })?;
        let gpu = match description.Device.is_null() {
            true => None,
            // SAFETY: the program passes a device that it holds.
            false => Some(unsafe { Gpu::new(description.Device, runtime.staging_bytes) }),
        };
        let gpu = gpu.transpose().map_err(|error| {
            log::error(|| format!("cannot create a copy queue: {error}"));
            error.code().0
        })?;
        let state = QueueState::new(description.Capacity, Event::new()?);
        runtime.add_user();
        let (running, ended) = mpsc::channel();
        let core = Arc::new_cyclic(|own| QueueCore {
            own: own.clone(),
            runtime,
            engine,
            gpu,
            source_type: description.SourceType,
            capacity: description.Capacity,
            priority: description.Priority,
            name,
            state: Mutex::new(state),
            changed: Condvar::new(),
            thread: OnceLock::new(),
            ended: Mutex::new(ended),
            stopping: AtomicBool::new(false),
            rung: AtomicBool::new(false),
            is_user: AtomicBool::new(true),
        });
        let own = Arc::clone(&core);
        let thread = std::thread::Builder::new().name(String::from("dstorage-queue"));
        let thread = thread.spawn(move || {
            own.run();
            drop(own);
            drop(running);
        });
        match thread {
            Ok(thread) => core.thread.set(thread.thread().id()).expect("set once"),
            Err(error) => {
                log::error(|| format!("cannot start the thread of a queue: {error}"));
                core.leave();
                return Err(E_OUTOFMEMORY);
            }
        }
        Ok(core)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there may be a slot. A fence may enqueue in its `Signal`: that call holds up the
    /// markers behind it, and may be one of the queue's thread, so both go on here.
    fn wait_for_slot<'a>(
        &'a self,
        state: MutexGuard<'a, QueueState>,
    ) -> MutexGuard<'a, QueueState> {
        let is_nested = state.retiring == Some(std::thread::current().id());
        if !is_nested && !self.is_own_thread() {
            return self.wait(state);
        }
        drop(state);
        self.retire();
        self.pump();
        self.state()
    }

    /// Enqueues an entry; blocks while there is no slot.
    pub(super) fn enqueue(&self, new: Entry) {
        let mut state = self.state();
        while !state.closed && state.empty_slots() == 0 {
            state = self.wait_for_slot(state);
        }
        if state.closed {
            drop(state);
            // Without the lock: it may release a fence of the program.
            let failure = match new {
                Entry::Request(request) => request.prepared.failure(E_DSTORAGE_QUEUE_CLOSED),
                Entry::Refused(failure) => failure,
                Entry::Marker(marker) => Failure::new(E_DSTORAGE_QUEUE_CLOSED, marker.1),
                Entry::Failed(_) => unreachable!("it was never enqueued"),
            };
            self.state().refuse(failure);
            return;
        }
        if let Entry::Marker(marker) = &new
            && let Marker::Status(statuses, index) = &marker.0
        {
            statuses.set(*index, E_PENDING);
        }
        state.enqueue(new);
        if state.until_auto_submit() == 0 {
            self.submit_all(&mut state);
            drop(state);
            self.retire();
        }
    }

    pub(super) fn submit(&self) {
        self.submit_all(&mut self.state());
        self.retire();
    }

    fn submit_all(&self, state: &mut QueueState) {
        if state.closed {
            return;
        }
        let mut batch = self.engine.batch();
        while let Some(started) = state.submit_next() {
            if let Some(sequence) = started
                && let Err(result) = self.start(state, sequence, &mut batch)
            {
                state.end(sequence, result);
            }
        }
        self.place(state, &mut batch);
        batch.submit();
        if !state.waiting.is_empty() {
            // What failed may have left space, which only the thread gives to others.
            self.ring();
        }
        self.changed.notify_all();
    }

    /// Starts requests that wait for space in the upload heap, as far as there is any.
    fn place(&self, state: &mut QueueState, batch: &mut Batch) {
        while let Some(&sequence) = state.waiting.front()
            && let Some(gpu) = &self.gpu
        {
            let request = state.request(sequence).expect("it waits");
            let placed = match gpu.take(request.prepared.destination.Size.into()) {
                Ok(None) => break,
                Ok(Some(space)) => {
                    request.prepared.set_space(space);
                    self.start(state, sequence, batch)
                }
                Err(error) => Err(error.code().0),
            };
            state.waiting.pop_front();
            if let Err(result) = placed {
                state.end_or_copy(sequence, result);
            }
        }
    }

    /// Starts a request; `Err` is its result if it has ended.
    fn start(
        &self,
        state: &mut QueueState,
        sequence: u64,
        batch: &mut Batch,
    ) -> Result<(), HRESULT> {
        let prepared = &mut state.request(sequence).expect("it was enqueued").prepared;
        if prepared.open_file.is_none()
            && let Some(file) = &prepared.file
        {
            let open = file.keep_open().ok_or(E_DSTORAGE_FILE_NOT_OPEN)?;
            prepared.open_file = prepared.has_target().then_some(open);
        }
        if prepared.needs_space() && prepared.gate.is_none() {
            state.waiting.push_back(sequence);
            return Ok(());
        }
        // SAFETY: the program keeps its memory valid until the request completes, and `close`
        // returns only once the engine uses none of it.
        let work = unsafe { prepared.work(self.runtime.builtin, sequence) };
        let posted = match work {
            Work::Nothing => return Err(S_OK),
            Work::Program => {
                self.lend(state, sequence, None);
                return Ok(());
            }
            Work::Read(read) => batch.deliver(read, Delivery::Posted, false).map(drop),
            Work::ReadForProgram(read) => batch.deliver(read, Delivery::Posted, false).map(drop),
        };
        posted.map_err(|error| hresult_of(&error))?;
        state.advance(sequence, Stage::Engine);
        Ok(())
    }

    /// Passes a request to the program, with the bytes that were read for it.
    fn lend(&self, state: &mut QueueState, sequence: u64, buffer: Option<Buffer>) {
        state.advance(sequence, Stage::Custom);
        let prepared = &state.request(sequence).expect("it has not ended").prepared;
        let source = match (prepared.memory(), buffer) {
            (None, Some(buffer)) => CompressedSource::Buffer(buffer),
            (Some(memory), _) => CompressedSource::Program(memory.Source, u64::from(memory.Size)),
            (None, None) => unreachable!("a file was read for it"),
        };
        let core = self.own.upgrade().expect("a caller holds it");
        let (format, destination) = (prepared.format(), prepared.destination);
        custom::push(CustomRequest {
            queue: self.address(),
            format,
            source,
            destination,
            done: Box::new(move |result| core.finish_custom(sequence, result)),
        });
    }

    /// Identifies the queue among those that exist.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn finish_custom(&self, sequence: u64, result: HRESULT) {
        let mut state = self.state();
        state.end_or_copy(sequence, result);
        self.changed.notify_all();
        drop(state);
        if self.gpu.is_some() {
            // The thread copies, and waits for the GPU. A fence may hold up what is behind this.
            self.ring();
        }
        self.retire();
    }

    /// Takes completions of the engine.
    fn finish(&self, completions: &mut [Completion]) {
        let mut state = self.state();
        for completion in completions {
            let sequence = completion.user_data;
            if sequence == DOORBELL {
                // Before `copy` looks for what it was rung for.
                self.rung.swap(false, Ordering::AcqRel);
                continue;
            }
            let ended = guard(Some(E_FAIL), || self.finish_one(&mut state, completion));
            if let Some(result) = ended {
                state.end_or_copy(sequence, result);
            }
        }
        self.changed.notify_all();
    }

    /// Passes a request on to the program, or returns its result.
    fn finish_one(&self, state: &mut QueueState, completion: &mut Completion) -> Option<HRESULT> {
        let sequence = completion.user_data;
        let is_closed = state.closed;
        let request = state.request(sequence).expect("it has not ended");
        let result = match &completion.result {
            Ok(_) => S_OK,
            Err(error) if error.kind() == ErrorKind::Canceled => {
                request.canceled = true;
                S_OK
            }
            Err(error) => {
                log::line(|| format!("request failed: {error}"));
                hresult_of(error)
            }
        };
        // Only a read that the program decompresses, or one without bytes, returns a buffer.
        match completion.take_memory::<Buffer>() {
            Some(buffer) if completion.result.is_ok() => {
                let is_dropped = is_closed || request.canceled;
                if is_dropped || request.prepared.destination.Size == 0 {
                    return Some(S_OK);
                }
                match request.prepared.needs_space() {
                    // It only waited for its gate.
                    true => {
                        state.advance(sequence, Stage::Enqueued);
                        state.waiting.push_back(sequence);
                    }
                    false => self.lend(state, sequence, Some(buffer)),
                }
                None
            }
            _ => Some(result),
        }
    }

    /// Lets the markers take effect that are ready, on one thread at a time: a call that finds
    /// another thread doing so returns, and that thread looks again. A call of a fence that this
    /// thread signals goes on behind that signal, which was the last that this thread took.
    fn retire(&self) {
        self.drop_left();
        let current = std::thread::current().id();
        let mut state = self.state();
        let before = state.retiring;
        if before.is_some_and(|it| it != current) {
            return;
        }
        state.retiring = Some(current);
        loop {
            let ready = state.take_ready();
            if ready.is_empty() {
                break;
            }
            self.changed.notify_all();
            drop(state);
            // A panic must not leave the claim behind.
            let failed: Vec<_> = guard(Vec::new(), || {
                ready.into_iter().filter_map(take_effect).collect()
            });
            state = self.state();
            for (sequence, result, command) in failed {
                state.fail_marker(sequence, result, command);
            }
        }
        state.retiring = before;
        self.changed.notify_all();
    }

    /// Drops what requests held that ended.
    fn drop_left(&self) {
        let left = std::mem::take(&mut self.state().left);
        drop(left);
    }

    /// Copies to resources what is in the upload heap, and starts others in the space that is free
    /// then. Waits for the GPU.
    fn copy(&self) {
        let Some(gpu) = &self.gpu else { return };
        loop {
            let mut state = self.state();
            let mut batch = self.engine.batch();
            self.place(&mut state, &mut batch);
            batch.submit();
            let copies = std::mem::take(&mut state.copies);
            if copies.is_empty() && state.left.is_empty() {
                break;
            }
            drop(state);
            let copied = gpu.copy(copies);
            let mut state = self.state();
            for (sequence, result) in copied {
                state.end(sequence, result.0);
            }
            self.changed.notify_all();
            drop(state);
            self.retire();
        }
    }

    fn run(&self) {
        let mut completions: [Completion; COMPLETIONS] =
            std::array::from_fn(|_| Default::default());
        // An error: the storage is closed, and has completed all requests.
        while self.engine.wait_completions(None).is_ok() {
            self.take_completions(&mut completions);
            if self.stopping.load(Ordering::Acquire) && self.state().is_idle() {
                break;
            }
        }
    }

    fn take_completions(&self, completions: &mut [Completion]) {
        loop {
            let count = self.engine.drain_completions(completions);
            if count == 0 {
                break;
            }
            guard((), || self.finish(&mut completions[..count]));
            // Not after the copies: a GPU that hangs holds up only what completes later.
            guard((), || self.retire());
            guard((), || self.copy());
        }
    }

    /// Takes completions on a thread that the queue's thread waits for, or that it cannot relieve.
    fn pump(&self) {
        // What is waited for may also be ended by another thread.
        let _ = self.engine.wait_completions(Some(PUMP_WAIT));
        self.take_completions(&mut [Completion::default()]);
    }

    fn is_own_thread(&self) -> bool {
        self.thread.get() == Some(&std::thread::current().id())
    }

    pub(super) fn cancel(&self, mask: u64, value: u64) {
        let mut state = self.state();
        state.cancel_unread(mask, value);
        let others_wait = !state.waiting.is_empty();
        self.changed.notify_all();
        drop(state);
        self.engine.cancel_tagged(mask, value);
        if others_wait {
            // The first of them may have been one that is canceled.
            self.ring();
        }
        self.retire();
    }

    /// Closes the queue: nothing more completes once it returns, and no thread of the library uses
    /// memory of its requests. What the program decompresses stays the program's.
    pub(super) fn close(&self) {
        if system::is_exiting() {
            return;
        }
        let mut state = self.state();
        let dropped = (!state.closed).then(|| state.close());
        self.changed.notify_all();
        drop(state);
        drop(dropped);
        self.engine.cancel_tagged(0, 0);
        for done in custom::withdraw(self.address()) {
            done(S_OK);
        }
        let current = std::thread::current().id();
        // Under the loader lock the queue's thread may be one that could not start yet.
        let pumps = self.is_own_thread() || system::holds_loader_lock();
        let mut state = self.state();
        // A fence of the program may close the queue that signals it.
        while state.in_engine > 0 || state.retiring.is_some_and(|it| it != current) {
            if !pumps {
                state = self.wait(state);
                continue;
            }
            drop(state);
            self.pump();
            state = self.state();
        }
        drop(state);
        self.drop_left();
        self.leave();
    }

    /// Removes it from the number of open queues, once.
    fn leave(&self) {
        if self.is_user.swap(false, Ordering::SeqCst) {
            self.runtime.remove_user();
            let state = self.state();
            let (completed, failed) = (state.completed, state.failed);
            log::line(|| format!("queue closed: {completed} requests, {failed} failures"));
        }
    }

    /// Has the thread look for what waits for space or is to be copied.
    fn ring(&self) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let doorbell = Read::memory(Arc::from([0])).user_data(DOORBELL);
        // It fails only once the storage is closed, which ends the thread.
        let _ = self.engine.post(doorbell);
    }

    /// Tells the thread to end once the engine has no request of the queue, and waits for that if
    /// it has none.
    pub(super) fn release(&self) {
        self.leave();
        self.stopping.store(true, Ordering::Release);
        // In any case: another thread may just take the doorbell that is rung.
        self.rung.store(false, Ordering::Release);
        self.ring();
        let is_idle = self.state().is_idle();
        // Under the loader lock the thread may be one that could not start yet.
        if is_idle && !self.is_own_thread() && !system::holds_loader_lock() {
            let _ = lock(&self.ended).recv();
        }
    }
}

/// Lets a marker take effect; returns its sequence number, its error and its parameters on failure.
fn take_effect(ready: ReadyMarker) -> Option<(u64, HRESULT, Command)> {
    let (sequence, marker, stored) = ready;
    let (marker, command) = *marker;
    let result = match marker {
        Marker::Status(statuses, index) => {
            statuses.set(index, stored);
            S_OK
        }
        // SAFETY: without pointers.
        Marker::Signal(fence, value) => match unsafe { fence.Signal(value) } {
            Ok(()) => S_OK,
            Err(error) => error.code().0,
        },
        Marker::Event(event) => event.set(),
    };
    (result < S_OK).then_some((sequence, result, command))
}
