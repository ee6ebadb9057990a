//! What the library does to a device once its handle is gone: nothing, without destinations.
#![expect(unsafe_code, reason = "calls Vulkan as an application does")]

use std::ffi::CStr;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ash::vk;
use millstream::{Fence, Read, Storage};
use millstream_testing::wait_for;
use millstream_vulkan::{Gpu, GpuPoint, QueueAccess};

use crate::adopted::adopt;
use crate::application::Application;
use crate::lost::{FAILING, LEFT, Pointer, counts, signals};
use crate::rig::{alone, bytes};

/// Drops a device's handle when it is woken, and notes how often a function was called by then.
struct Drops {
    gpu: Mutex<Option<Gpu>>,
    left: AtomicI64,
}

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        drop(self.gpu.lock().expect("no panic").take());
        self.left.store(LEFT.load(SeqCst), SeqCst);
    }
}

impl Drops {
    /// Of a device whose calls of a function are counted.
    fn new(application: &Application, function: &CStr, counting: Pointer) -> Arc<Drops> {
        FAILING.store(0, SeqCst);
        let adopted = application.failing(function, counting, 0);
        Arc::new(Drops {
            gpu: Mutex::new(Some(adopt(adopted))),
            left: AtomicI64::new(0),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Gpu) -> T) -> T {
        work(self.gpu.lock().expect("no panic").as_ref().expect("there"))
    }

    /// A fence that follows a semaphore.
    fn fence(&self, semaphore: vk::Semaphore) -> Fence {
        // SAFETY: the semaphore is the device's, and is not destroyed.
        self.with(|gpu| unsafe {
            gpu.fence(GpuPoint {
                semaphore,
                value: 1,
            })
        })
        .expect("a thread")
    }

    /// Wakes it once a fence has reached 1.
    fn woken_by(self: &Arc<Self>, fence: &Fence, then: impl FnOnce()) {
        let waker = Waker::from(Arc::clone(self));
        let mut reached = pin!(fence.at(1));
        let polled = reached.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Pending);
        then();
    }
}

#[test]
fn a_fence_that_drops_the_device_and_then_wakes_it_reaches_nothing() {
    let _alone = alone();
    let Some(application) = Application::new(false) else {
        return;
    };
    let drops = Drops::new(&application, c"vkSignalSemaphore", signals as Pointer);
    let (fence, reached) = (Fence::new(0), application.timeline());
    application.reach(reached, 1);
    drops.woken_by(&fence, || {
        let point = GpuPoint {
            semaphore: application.timeline(),
            value: 1,
        };
        // SAFETY: the semaphore is the device's, and is not destroyed.
        drops
            .with(|gpu| unsafe { gpu.signal(&fence, 1, point) })
            .expect("a thread");
        // The thread has looked at the fence before it looks at the second point.
        for _ in 0..2 {
            assert!(drops.fence(reached).wait(1, None).expect("it may wait"));
        }
        fence.signal(1);
    });
    assert!(drops.gpu.lock().expect("no panic").is_none());
    assert_eq!(LEFT.load(SeqCst), drops.left.load(SeqCst), "a late call");
}

#[test]
fn a_point_that_drops_the_device_is_the_last_one_looked_at() {
    let _alone = alone();
    let Some(application) = Application::new(false) else {
        return;
    };
    let function = c"vkGetSemaphoreCounterValue";
    let drops = Drops::new(&application, function, counts as Pointer);
    let first = application.timeline();
    let fence = drops.fence(first);
    for _ in 0..100 {
        drops.fence(application.timeline());
    }
    drops.woken_by(&fence, || {
        application.reach(first, 1);
        assert!(wait_for(|| drops.left.load(SeqCst) != 0));
    });
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(LEFT.load(SeqCst), drops.left.load(SeqCst), "a late call");
}

#[test]
fn what_is_kept_with_a_device_goes_with_the_last_destination() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let kept = Arc::new(());
    let mut adopted = application.adopted(QueueAccess::Own, false);
    adopted.keep = Some(kept.clone());
    let gpu = adopt(adopted);
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let buffer = gpu.buffer(9000, vk::BufferUsageFlags::VERTEX_BUFFER);
    let buffer = buffer.expect("a buffer");
    let read = Read::memory(Arc::from(bytes(9000, 1))).into_device(buffer.clone());
    queue
        .submit(read)
        .expect("accepted")
        .wait()
        .expect("landed");
    drop((gpu, storage, queue));
    assert_eq!(Arc::strong_count(&kept), 2);
    drop(buffer);
    assert_eq!(Arc::strong_count(&kept), 1);
    application.end();
}
