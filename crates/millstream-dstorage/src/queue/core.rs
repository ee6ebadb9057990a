//! A queue: its entries, the engine's queue that runs its requests, and the thread that takes their
//! completions.
//!
//! Lifetimes: the program's object, the thread, and each request that the program decompresses hold
//! the core. The core holds the storage, so the last of them closes it. `Close` returns once no
//! thread of the library uses memory of the program. Releasing the object lets what is submitted
//! complete; the thread ends after that.
//!
//! Locks: the state is locked before that of the custom decompression queue, and no lock is held
//! while code of the program runs (fences). Markers take effect on one thread at a time, so a fence
//! is signaled in the order of enqueueing.
#![expect(unsafe_code, reason = "lends memory of the program to the engine")]

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use millstream::{
    Batch, Buffer, Completion, Delivery, ErrorKind, Priority, Queue, QueueOptions, Read,
};

use crate::abi::*;
use crate::com::{guard, lock};
use crate::custom::{self, CompressedSource, CustomRequest};
use crate::event::Event;
use crate::log;
use crate::queue::state::{Entry, Marker, QueueState, ReadyMarker, Stage};
use crate::record::{Command, Failure};
use crate::request::{PreparedRequest, Work};
use crate::results::hresult_of;
use crate::runtime::Runtime;

/// The user data of the request that wakes the thread.
const DOORBELL: u64 = u64::MAX;

/// Completions taken at once.
const COMPLETIONS: usize = 64;

/// What a method enqueues.
pub(super) enum NewEntry {
    Request(PreparedRequest),
    Refused(Box<Failure>),
    /// With the parameters for a record.
    Marker(Marker, Command),
}

pub(super) struct QueueCore {
    own: Weak<QueueCore>,
    runtime: Arc<Runtime>,
    engine: Queue,
    pub(super) source_type: DSTORAGE_REQUEST_SOURCE_TYPE,
    pub(super) capacity: u16,
    pub(super) priority: DSTORAGE_PRIORITY,
    pub(super) name: CString,
    state: Mutex<QueueState>,
    /// Notified when a slot is free or the queue is closed, and what `close` waits for changes.
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread ends once the engine has no request of the queue.
    stopping: AtomicBool,
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
        let state = QueueState::new(description.Capacity, Event::new()?);
        runtime.add_user();
        let core = Arc::new_cyclic(|own| QueueCore {
            own: own.clone(),
            runtime,
            engine,
            source_type: description.SourceType,
            capacity: description.Capacity,
            priority: description.Priority,
            name,
            state: Mutex::new(state),
            changed: Condvar::new(),
            thread: Mutex::new(None),
            stopping: AtomicBool::new(false),
            is_user: AtomicBool::new(true),
        });
        let own = Arc::clone(&core);
        let thread = std::thread::Builder::new().name(String::from("dstorage-queue"));
        let thread = thread.spawn(move || own.run());
        match thread {
            Ok(thread) => *lock(&core.thread) = Some(thread),
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

    fn wait<'a>(&self, mut state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
        state.waiters += 1;
        let waited = self.changed.wait(state);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state
    }

    fn notify(&self, state: &QueueState) {
        if state.waiters > 0 {
            self.changed.notify_all();
        }
    }

    /// Enqueues an entry; blocks while there is no slot.
    pub(super) fn enqueue(&self, new: NewEntry) {
        let mut state = self.state();
        while !state.closed && state.empty_slots() == 0 {
            state = self.wait(state);
        }
        if state.closed {
            drop(state);
            // Without the lock: it may release a fence of the program.
            let failure = match new {
                NewEntry::Request(request) => request.into_failure(E_DSTORAGE_QUEUE_CLOSED),
                NewEntry::Refused(failure) => failure,
                NewEntry::Marker(_, command) => Failure::new(E_DSTORAGE_QUEUE_CLOSED, command),
            };
            self.state().refuse(failure);
            return;
        }
        match new {
            NewEntry::Request(request) => state.enqueue_request(request),
            NewEntry::Refused(failure) => state.enqueue(Entry::Refused(failure)),
            NewEntry::Marker(marker, command) => {
                if let Marker::Status(statuses, index) = &marker {
                    statuses.set(*index, E_PENDING);
                }
                state.enqueue(Entry::Marker(Box::new((marker, command))));
            }
        }
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
            if let Some(index) = started
                && let Err(result) = self.start(state, index, &mut batch)
            {
                state.end(index, result);
            }
        }
        batch.submit();
        self.notify(state);
    }

    /// Starts a request; `Err` is its result if it has ended.
    fn start(
        &self,
        state: &mut QueueState,
        index: usize,
        batch: &mut Batch,
    ) -> Result<(), HRESULT> {
        let request = state.request(index).expect("it was enqueued");
        if request
            .prepared
            .file
            .as_ref()
            .is_some_and(|file| !file.is_open())
        {
            return Err(E_DSTORAGE_FILE_NOT_OPEN);
        }
        // SAFETY: the program keeps its memory valid until the request completes, and `close`
        // returns only once the engine uses none of it.
        let work = unsafe { request.prepared.work(self.runtime.builtin, index as u64) };
        let posted = match work {
            Work::Nothing => return Err(S_OK),
            Work::Program => {
                self.lend(state, index, None);
                return Ok(());
            }
            Work::Read(read) => batch.deliver(read, Delivery::Posted, false).map(drop),
            Work::ReadForProgram(read) => batch.deliver(read, Delivery::Posted, false).map(drop),
        };
        posted.map_err(|error| hresult_of(&error))?;
        state.advance(index, Stage::Engine);
        Ok(())
    }

    /// Passes a request to the program, with the bytes that were read for it.
    fn lend(&self, state: &mut QueueState, index: usize, buffer: Option<Buffer>) {
        state.advance(index, Stage::Custom);
        let prepared = &state.request(index).expect("it has not ended").prepared;
        let source = match (prepared.memory(), buffer) {
            (None, Some(buffer)) => CompressedSource::Buffer(buffer),
            (Some(memory), _) => CompressedSource::Program(memory.Source, u64::from(memory.Size)),
            (None, None) => unreachable!("a file was read for it"),
        };
        let core = self.own.upgrade().expect("a caller holds it");
        custom::push(CustomRequest {
            queue: self.address(),
            format: prepared.format(),
            source,
            destination: prepared.destination,
            done: Box::new(move |result| core.finish_custom(index, result)),
        });
    }

    /// Identifies the queue among those that exist.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn finish_custom(&self, index: usize, result: HRESULT) {
        let mut state = self.state();
        state.end(index, result);
        self.notify(&state);
        drop(state);
        self.retire();
    }

    /// Takes completions of the engine.
    fn finish(&self, completions: &mut [Completion]) {
        let mut state = self.state();
        for completion in completions {
            if completion.user_data == DOORBELL {
                continue;
            }
            let index = completion.user_data as usize;
            let result = match &completion.result {
                Ok(_) => S_OK,
                Err(error) if error.kind() == ErrorKind::Canceled => S_OK,
                Err(error) => {
                    log::line(|| format!("request failed: {error}"));
                    hresult_of(error)
                }
            };
            // Only a read that the program decompresses returns a buffer.
            match completion.take_memory::<Buffer>() {
                Some(buffer) if completion.result.is_ok() && !state.closed => {
                    self.lend(&mut state, index, Some(buffer));
                }
                _ => state.end(index, result),
            }
        }
        self.notify(&state);
    }

    /// Lets the markers take effect whose turn it is, on one thread at a time: a call that finds
    /// another thread doing so returns, and that thread looks again.
    fn retire(&self) {
        let gates = std::mem::take(&mut self.state().left_gates);
        drop(gates);
        let mut state = self.state();
        if state.retiring.is_some() {
            return;
        }
        loop {
            let ready = state.take_ready();
            if ready.is_empty() {
                break;
            }
            state.retiring = Some(std::thread::current().id());
            self.notify(&state);
            drop(state);
            let failed: Vec<_> = ready.into_iter().filter_map(take_effect).collect();
            state = self.state();
            for (sequence, result, command) in failed {
                state.fail_marker(sequence, result, command);
            }
        }
        state.retiring = None;
        self.notify(&state);
    }

    fn run(&self) {
        let mut completions: [Completion; COMPLETIONS] =
            std::array::from_fn(|_| Default::default());
        // An error: the storage is closed, and has completed all requests.
        while self.engine.wait_completions(None).is_ok() {
            self.take_completions(&mut completions);
            if self.stopping.load(Ordering::Acquire) && self.state().in_engine == 0 {
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
            guard((), || self.retire());
        }
    }

    fn is_own_thread(&self) -> bool {
        let thread = lock(&self.thread);
        let own = thread.as_ref().map(|it| it.thread().id());
        own == Some(std::thread::current().id())
    }

    pub(super) fn cancel(&self, mask: u64, value: u64) {
        self.state().cancel_unsubmitted(mask, value);
        self.engine.cancel_tagged(mask, value);
    }

    /// Closes the queue: nothing more completes once it returns, and no thread of the library uses
    /// memory of its requests. What the program decompresses stays the program's.
    pub(super) fn close(&self) {
        let mut state = self.state();
        let dropped = (!state.closed).then(|| state.close());
        self.changed.notify_all();
        drop(state);
        drop(dropped);
        self.engine.cancel_tagged(0, 0);
        for done in custom::withdraw(self.address()) {
            done(S_OK);
        }
        let (own, current) = (self.is_own_thread(), std::thread::current().id());
        let mut state = self.state();
        // A fence of the program may close the queue that signals it.
        while state.in_engine > 0 || state.retiring.is_some_and(|it| it != current) {
            if !own {
                state = self.wait(state);
                continue;
            }
            drop(state);
            let _ = self.engine.wait_completions(None);
            self.take_completions(&mut [Completion::default()]);
            state = self.state();
        }
        drop(state);
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

    /// Tells the thread to end once the engine has no request of the queue, and waits for that if
    /// it has none.
    pub(super) fn release(&self) {
        self.leave();
        self.stopping.store(true, Ordering::Release);
        let doorbell = Read::memory(Arc::from([0])).user_data(DOORBELL);
        // It fails only once the storage is closed, which ends the thread.
        let _ = self.engine.post(doorbell);
        let is_idle = self.state().in_engine == 0;
        if is_idle && !self.is_own_thread() {
            let thread = lock(&self.thread).take();
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        }
    }
}

/// Lets a marker take effect; returns its place, its error and its parameters if it fails.
fn take_effect(ready: ReadyMarker) -> Option<(u64, HRESULT, Command)> {
    let (marker, command) = *ready.marker;
    let result = match marker {
        Marker::Status(statuses, index) => {
            statuses.set(index, ready.result);
            S_OK
        }
        Marker::Signal(fence, value) => fence.signal(value),
        Marker::Event(event) => event.set(),
    };
    (result < S_OK).then_some((ready.sequence, result, command))
}
