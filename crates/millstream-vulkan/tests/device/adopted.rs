//! Devices of an application: its queues, its locks, its submissions, and staging that the device
//! reads itself.
#![expect(unsafe_code, reason = "calls Vulkan as an application does")]

use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ash::vk::{self, TaggedStructure};
use millstream::{CodecId, Decode, ErrorKind, Fence, Queue, Read, Storage, StorageOptions};
use millstream_vulkan::{
    AdoptedDevice, Gpu, GpuBuffer, GpuOptions, GpuPoint, QueueAccess, QueueLock,
};

use crate::application::{Application, FAMILIES};
use crate::rig::{alone, bytes, encoded, gdeflate};

pub(crate) fn adopt(adopted: AdoptedDevice) -> Gpu {
    // SAFETY: the handles belong together, and are never destroyed.
    unsafe { Gpu::adopt(adopted, &GpuOptions::default()) }.expect("adopted")
}

fn load(queue: &Queue, gpu: &Gpu, read: Read, raw: &[u8]) -> Arc<GpuBuffer> {
    let usage = vk::BufferUsageFlags::VERTEX_BUFFER;
    let buffer = gpu.buffer(raw.len() as u64, usage).expect("a buffer");
    let mut ticket = queue
        .submit(read.into_device(buffer.clone()))
        .expect("accepted");
    ticket.wait().expect("landed");
    buffer
}

pub(crate) fn is_right(buffer: &GpuBuffer, raw: &[u8]) -> bool {
    buffer.read_back(0..raw.len() as u64).expect("read back") == raw
}

#[test]
fn raw_bytes_go_by_the_queue_that_copies_and_tiles_by_the_other() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let gpu = adopt(application.adopted(application.locked(), true));
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    for seed in 0..8 {
        let raw = bytes(700_000, seed);
        let copied = load(&queue, &gpu, Read::memory(Arc::from(&raw[..])), &raw);
        let decoded = load(&queue, &gpu, gdeflate(&encoded(&raw)), &raw);
        assert!(is_right(&copied, &raw) && is_right(&decoded, &raw));
    }
    assert!(gpu.stats().tiles > 0);
    drop(gpu);
    application.end();
}

/// An application whose device reads memory of the processor.
fn importing() -> Option<Application> {
    let application = Application::new(true)?;
    if !application.wanted.features.external_memory_host {
        eprintln!("SKIP: the device lacks VK_EXT_external_memory_host");
        return None;
    }
    Some(application)
}

#[test]
fn staging_that_is_imported_is_read_by_the_device_itself() {
    let _alone = alone();
    let Some(application) = importing() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let raw = bytes(9_000_001, 7);
    let (plain, tiles) = (folder.path().join("plain"), folder.path().join("tiles"));
    std::fs::write(&plain, &raw).expect("written");
    std::fs::write(&tiles, encoded(&raw)).expect("written");
    for (staging_bytes, is_twice) in [(1 << 20, false), (128 << 20, true)] {
        let gpu = adopt(application.adopted(application.locked(), is_twice));
        let mut options = StorageOptions::default();
        options.staging_bytes = staging_bytes;
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(Default::default()).expect("a queue");
        gpu.import_staging(&storage).expect("imported");
        gpu.import_staging(&storage).expect("once");
        let open = |path| storage.open(path, Default::default());
        let (plain, tiles) = (open(&plain), open(&tiles));
        let copied = load(&queue, &gpu, Read::whole(plain), &raw);
        let part = &raw[77..][..3_000_003];
        let shifted = load(&queue, &gpu, Read::range(plain, 77, 3_000_003), part);
        let tiles = Read::whole(tiles).decode(Decode::codec(CodecId::GDEFLATE));
        let decoded = load(&queue, &gpu, tiles, &raw);
        assert!(is_right(&copied, &raw) && is_right(&decoded, &raw));
        assert!(is_right(&shifted, &raw[77..][..3_000_003]));
        let stats = gpu.stats();
        assert!(stats.imported_bytes >= 12_000_004, "{stats:?}");
        // What goes from the application's own memory is copied.
        let small = load(
            &queue,
            &gpu,
            Read::memory(Arc::from(&raw[..99])),
            &raw[..99],
        );
        assert!(is_right(&small, &raw[..99]));
        drop((gpu, storage));
    }
    application.end();
}

#[test]
fn staging_is_not_imported_without_the_extension() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let gpu = adopt(application.plain());
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let error = gpu.import_staging(&storage).expect_err("not enabled");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let raw = bytes(100_000, 8);
    let copied = load(&queue, &gpu, Read::memory(Arc::from(&raw[..])), &raw);
    assert!(is_right(&copied, &raw));
    assert_eq!(gpu.stats().imported_bytes, 0);
    drop(gpu);
    application.end();
}

/// Says that the device imports memory at multiples of 4 GiB.
unsafe extern "system" fn coarse_alignment(
    _: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: as Vulkan is called: a chain of valid structures.
    unsafe {
        let mut next = (*properties).p_next.cast::<vk::BaseOutStructure<'_>>();
        while let Some(one) = next.as_mut() {
            let host = next.cast::<vk::PhysicalDeviceExternalMemoryHostPropertiesEXT<'_>>();
            if one.s_type == vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::STRUCTURE_TYPE {
                (*host).min_imported_host_pointer_alignment = 1 << 32;
            }
            next = one.p_next;
        }
    }
}

/// Says that the device imports no memory.
unsafe extern "system" fn imports_nothing(
    _: vk::PhysicalDevice,
    _: *const vk::PhysicalDeviceExternalBufferInfo<'_>,
    properties: *mut vk::ExternalBufferProperties<'_>,
) {
    // SAFETY: as Vulkan is called.
    unsafe { (*properties).external_memory_properties = Default::default() };
}

#[test]
fn staging_is_not_imported_that_the_device_does_not_take() {
    let _alone = alone();
    let Some(application) = importing() else {
        return;
    };
    let storage = Storage::new(Default::default()).expect("a storage");
    for (function, replaced_by, why) in [
        (
            c"vkGetPhysicalDeviceProperties2",
            coarse_alignment as *const c_void,
            "aligned",
        ),
        (
            c"vkGetPhysicalDeviceExternalBufferProperties",
            imports_nothing as *const c_void,
            "imports no memory",
        ),
    ] {
        let mut adopted = application.plain();
        adopted.features.external_memory_host = true;
        // SAFETY: functions of those signatures.
        adopted.instance = unsafe { application.with(function, replaced_by) };
        let error = adopt(adopted).import_staging(&storage).expect_err(why);
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    application.end();
}

#[test]
fn requests_write_after_a_point_and_signal_one() {
    let _alone = alone();
    // Without the layer: some of its versions take the wait for any of several semaphores for a
    // wait for all, and then wait 10 seconds for the others.
    let Some(application) = Application::new(false) else {
        return;
    };
    let gpu = adopt(application.adopted(QueueAccess::Own, false));
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let (used, landed) = (application.timeline(), application.timeline());
    let raws = [bytes(300_000, 1), bytes(300_000, 2)];
    let buffer = load(
        &queue,
        &gpu,
        Read::memory(Arc::from(&raws[0][..])),
        &raws[0],
    );
    for round in 1..20 {
        let raw = &raws[round as usize % 2];
        let point = |semaphore| GpuPoint {
            semaphore,
            value: round,
        };
        let landing = Fence::new(0);
        // SAFETY: the semaphores are the device's, and are not destroyed.
        let gate = unsafe {
            gpu.signal(&landing, round, point(landed))
                .expect("a thread");
            gpu.fence(point(used)).expect("a thread")
        };
        let mut batch = queue.batch();
        let read = Read::memory(Arc::from(&raw[..])).write_after(&gate, 1);
        let mut ticket = batch
            .add(read.into_device(buffer.clone()))
            .expect("accepted");
        batch.signal(&landing, round).expect("accepted");
        batch.submit();
        if round < 4 {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!ticket.is_complete() && !landing.has_reached(round));
        assert!(
            is_right(&buffer, &raws[(round as usize + 1) % 2]),
            "{round}: too early"
        );
        application.reach(used, round);
        assert!(application.wait(landed, round), "{round}: not signaled");
        assert!(is_right(&buffer, raw));
        ticket.wait().expect("landed");
    }
    // Without the handle it is never reached.
    let late = GpuPoint {
        semaphore: used,
        value: 100,
    };
    // SAFETY: as above.
    let gate = unsafe { gpu.fence(late) }.expect("a thread");
    drop((buffer, gpu));
    application.reach(used, 100);
    std::thread::sleep(Duration::from_millis(5));
    assert!(!gate.has_reached(1));
    application.end();
}

/// The families of queues that a device seems to have: one that only copies.
unsafe extern "system" fn one_that_copies(
    _: vk::PhysicalDevice,
    count: *mut u32,
    families: *mut vk::QueueFamilyProperties,
) {
    // SAFETY: as `vkGetPhysicalDeviceQueueFamilyProperties` is called: null, or with room for one.
    unsafe {
        if !families.is_null() {
            *families = vk::QueueFamilyProperties {
                queue_flags: vk::QueueFlags::TRANSFER,
                queue_count: 1,
                ..Default::default()
            };
        }
        *count = 1;
    }
}

#[test]
fn a_thread_of_the_device_may_drop_it() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let slot = Arc::new(Mutex::new(None));
    let in_lock = Arc::clone(&slot);
    let lock: QueueLock = Box::new(move |call| {
        drop(in_lock.lock().expect("no panic").take());
        call();
    });
    let gpu = adopt(application.adopted(QueueAccess::Locked(lock), false));
    let buffer = gpu.buffer(100_000, vk::BufferUsageFlags::VERTEX_BUFFER);
    let buffer = buffer.expect("a buffer");
    *slot.lock().expect("no panic") = Some(gpu);
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let raw = bytes(100_000, 9);
    let read = || Read::memory(Arc::from(&raw[..])).into_device(buffer.clone());
    let mut ticket = queue.submit(read()).expect("accepted");
    ticket.wait().expect("landed");
    assert!(slot.lock().expect("no panic").is_none());
    assert!(is_right(&buffer, &raw));
    let late = queue.submit(read()).expect("accepted").outcome().result;
    assert_eq!(late.expect_err("closed").kind(), ErrorKind::Closed);
    application.end();
}

#[test]
fn a_device_that_does_not_compute_or_lacks_a_feature_is_refused() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let refused = |adopted: AdoptedDevice| {
        // SAFETY: the handles belong together; what does not fit is looked at first.
        let adopted = unsafe { Gpu::adopt(adopted, &GpuOptions::default()) };
        adopted.map(drop).expect_err("refused")
    };
    let mut elsewhere = application.plain();
    elsewhere.compute.family = 99;
    assert_eq!(refused(elsewhere).kind(), ErrorKind::Limit);
    if !application.wanted.features.subgroups_of_32 {
        let mut claims = application.plain();
        claims.features.subgroups_of_32 = true;
        assert_eq!(refused(claims).kind(), ErrorKind::InvalidArgument);
    }

    // SAFETY: a function of that signature.
    let instance = unsafe { application.with(FAMILIES, one_that_copies as *const c_void) };
    let adopted = AdoptedDevice {
        instance,
        ..application.plain()
    };
    let error = refused(adopted);
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("computes"), "{error}");
    application.end();
}

#[test]
fn a_queue_that_the_application_records_does_not_serve_beside_another() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let mut adopted = application.adopted(application.locked(), true);
    let transfer = adopted.transfer.as_mut().expect("asked for");
    transfer.access = QueueAccess::Recorded;
    // SAFETY: the handles belong together, and are never destroyed.
    let refused = unsafe { Gpu::adopt(adopted, &GpuOptions::default()) };
    let error = refused.expect_err("two queues recorded").kind();
    assert_eq!(error, ErrorKind::InvalidArgument);
    application.end();
}
