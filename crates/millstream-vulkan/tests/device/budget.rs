//! Memory beyond the budget that the driver tells is refused, and what has memory goes on.
#![expect(unsafe_code, reason = "replaces a function of Vulkan")]

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ash::{ext, vk};
use millstream::{CodecId, Decode, Error, ErrorKind, Read, Storage};
use millstream_vulkan::{AdoptedDevice, Gpu, GpuBuffer, GpuOptions};

use crate::adopted::is_right;
use crate::application::Application;
use crate::recorded::IMAGE;
use crate::rig::{alone, bytes, encoded};

/// Of each heap, and what is used of it.
static BUDGET: AtomicU64 = AtomicU64::new(u64::MAX);

/// Tells the budget, and nothing else.
unsafe extern "system" fn tells_budget(
    _: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    budget.heap_budget.fill(BUDGET.load(Ordering::Relaxed));
    budget.heap_usage.fill(500);
    // SAFETY: as the library calls it: this structure follows.
    unsafe {
        let next = (*properties)
            .p_next
            .cast::<vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>();
        assert!((*next).s_type == budget.s_type);
        *next = budget;
    }
}

fn adopt(application: &Application) -> Result<Gpu, Error> {
    // SAFETY: a function of that signature; the handles belong together, and are never destroyed.
    unsafe {
        let function = c"vkGetPhysicalDeviceMemoryProperties2";
        let adopted = AdoptedDevice {
            instance: application.with(function, tells_budget as *const c_void),
            ..application.plain()
        };
        Gpu::adopt(adopted, &GpuOptions::default())
    }
}

#[test]
fn memory_beyond_the_budget_is_refused_and_the_rest_goes_on() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    if !application.offers(ext::memory_budget::NAME) {
        eprintln!("SKIP: the device lacks VK_EXT_memory_budget");
        return;
    }
    let gpu = Arc::new(adopt(&application).expect("adopted"));
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let usage = vk::BufferUsageFlags::VERTEX_BUFFER;
    let raw = bytes(200_000, 1);
    let stored: Arc<[u8]> = Arc::from(encoded(&raw));
    let read = || Read::memory(Arc::clone(&stored)).decode(Decode::codec(CodecId::GDEFLATE));
    // A buffer that is made once its size is known.
    let made = || {
        let gpu = Arc::clone(&gpu);
        let read = read().into_device_of(move |len| Ok(gpu.buffer(len, usage)?));
        let sink: Arc<dyn Any + Send + Sync> = queue.submit(read).expect("accepted").wait()?;
        Ok::<_, Error>(sink.downcast::<GpuBuffer>().expect("a buffer"))
    };
    let buffer = made().expect("landed");
    assert!(is_right(&buffer, &raw));

    BUDGET.store(1500, Ordering::Relaxed);
    let refused = [
        gpu.buffer(1001, usage).map(drop),
        gpu.image(&IMAGE).map(drop),
        made().map(drop),
        adopt(&application).map(drop),
    ];
    for error in refused.map(|refused| refused.expect_err("beyond the budget")) {
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert!(error.to_string().contains("budget"), "{error}");
    }
    let mut landed = queue.submit(read().into_device(buffer)).expect("accepted");
    landed.wait().expect("its memory is there");
    assert!(
        *queue
            .submit(read())
            .expect("accepted")
            .wait()
            .expect("host memory")
            == *raw
    );

    BUDGET.store(u64::MAX, Ordering::Relaxed);
    assert!(is_right(&made().expect("landed"), &raw));
    drop(gpu);
    application.end();
}
