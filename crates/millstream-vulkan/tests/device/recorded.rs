//! Devices whose application alone submits: what is recorded for it, and what it never submits.
#![expect(unsafe_code, reason = "calls Vulkan as an application does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ash::vk;
use millstream::{Error, ErrorKind, Read, Storage};
use millstream_testing::wait_for;
use millstream_vulkan::{AdoptedQueue, Gpu, ImageOptions, ImageState, QueueAccess, Recorded, Tier};

use crate::adopted::{adopt, is_right};
use crate::application::Application;
use crate::lost::{FAILING, Pointer, RESULT, submits};
use crate::rig::{alone, bytes, encoded, gdeflate};

/// A command buffer and its pool.
unsafe fn commands(application: &Application) -> (vk::CommandPool, vk::CommandBuffer) {
    let device = &application.device;
    // SAFETY: valid descriptions.
    unsafe {
        let info = vk::CommandPoolCreateInfo::default();
        let info = info.queue_family_index(application.wanted.compute);
        let pool = device.create_command_pool(&info, None).expect("a pool");
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool);
        let info = info.command_buffer_count(1);
        (
            pool,
            device.allocate_command_buffers(&info).expect("a buffer")[0],
        )
    }
}

/// Records what waits as soon as it is anything, and does not submit it.
fn record<'a>(application: &Application, gpu: &'a Gpu) -> (vk::CommandPool, Recorded<'a>) {
    let device = &application.device;
    // SAFETY: the commands are never submitted, which is what the callers say.
    unsafe {
        let (pool, commands) = commands(application);
        let begun = device.begin_command_buffer(commands, &Default::default());
        begun.expect("begun");
        let mut recorded = None;
        let has_recorded = wait_for(|| {
            recorded = gpu.record(commands);
            recorded.is_some()
        });
        assert!(has_recorded, "nothing waits to be recorded");
        assert!(gpu.record(commands).is_none(), "the first is not settled");
        device.end_command_buffer(commands).expect("ended");
        (pool, recorded.expect("recorded"))
    }
}

/// Records and submits what waits, until told to stop.
fn frames(application: &Application, gpu: &Gpu, stop: &AtomicBool) -> u64 {
    let (device, mut submitted) = (&application.device, 0);
    // SAFETY: valid descriptions; the device is idle before a pool is reset or destroyed, and
    // nothing else submits.
    unsafe {
        let (pool, commands) = commands(application);
        while !stop.load(Ordering::Relaxed) {
            device
                .reset_command_pool(pool, Default::default())
                .expect("reset");
            device
                .begin_command_buffer(commands, &Default::default())
                .expect("begun");
            let recorded = gpu.record(commands);
            device.end_command_buffer(commands).expect("ended");
            if let Some(recorded) = recorded {
                let point = recorded.point();
                let (commands, semaphores) = ([commands], [point.semaphore]);
                let values = [point.value];
                let mut timeline =
                    vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
                let info = vk::SubmitInfo::default().command_buffers(&commands);
                let info = info.signal_semaphores(&semaphores).push_next(&mut timeline);
                let submitting =
                    device.queue_submit(application.queue, &[info], Default::default());
                submitting.expect("submitted");
                recorded.submitted();
                submitted += 1;
            }
            device.device_wait_idle().expect("idle");
            std::thread::sleep(Duration::from_millis(1));
        }
        device.destroy_command_pool(pool, None);
    }
    submitted
}

#[test]
fn an_application_submits_what_was_recorded() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let gpu = adopt(application.adopted(QueueAccess::Recorded, false));
    assert_eq!(gpu.report().tier, Tier::Cpu, "a device that was not tested");
    let other = adopt(application.adopted(QueueAccess::Own, false));
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let raws: Vec<_> = (0..40).map(|seed| bytes(900_000, seed)).collect();
    let landing = other
        .buffer(40 * 900_000, vk::BufferUsageFlags::VERTEX_BUFFER)
        .expect("a buffer");
    let stop = AtomicBool::new(false);
    let submitted = std::thread::scope(|scope| {
        let frames = scope.spawn(|| frames(&application, &gpu, &stop));
        let mut tickets = Vec::new();
        for (index, raw) in raws.iter().enumerate() {
            // SAFETY: the buffer is the device's, and outlives the requests.
            let range = unsafe {
                gpu.adopt_buffer((landing.vk_buffer(), index as u64 * 900_000, 900_000), None)
            };
            let read = match index % 2 {
                0 => Read::memory(Arc::from(&raw[..])),
                _ => gdeflate(&encoded(raw)),
            };
            tickets.push(queue.submit(read.into_device(range)).expect("accepted"));
        }
        for mut ticket in tickets {
            ticket.wait().expect("landed");
        }
        stop.store(true, Ordering::Relaxed);
        frames.join().expect("no panic")
    });
    assert!(submitted > 0);
    assert!(is_right(&landing, &raws.concat()));

    // Requests that are not recorded fail when the handle is dropped.
    let buffer = gpu
        .buffer(99, vk::BufferUsageFlags::VERTEX_BUFFER)
        .expect("a buffer");
    let error = buffer
        .read_back(0..9)
        .map(drop)
        .expect_err("the application submits");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let read = Read::memory(Arc::from(&raws[0][..99])).into_device(buffer);
    let batches = gpu.stats().batches;
    let mut ticket = queue.submit(read).expect("accepted");
    assert!(wait_for(|| gpu.stats().batches > batches));
    assert!(!ticket.is_complete());
    drop(gpu);
    let error: Error = ticket.outcome().result.expect_err("not submitted");
    assert_eq!(error.kind(), ErrorKind::Closed);
    drop((landing, other));
    application.end();
}

/// Texels of 100 by 100, of 4 bytes.
pub(crate) const IMAGE: ImageOptions = ImageOptions {
    format: vk::Format::R8G8B8A8_UNORM,
    extent: vk::Extent3D {
        width: 100,
        height: 100,
        depth: 1,
    },
    mip_levels: 1,
    layers: 1,
    usage: vk::ImageUsageFlags::SAMPLED,
    layout: vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
};

#[test]
fn what_is_recorded_and_not_submitted_fails_and_the_next_lands() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let gpu = adopt(application.adopted(QueueAccess::Recorded, false));
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let image = gpu.image(&IMAGE).expect("an image");
    let read = || Read::memory(Arc::from(bytes(40_000, 1))).into_device(image.clone());
    // More than there are batches.
    for _ in 0..5 {
        let mut ticket = queue.submit(read()).expect("accepted");
        let (pool, recorded) = record(&application, &gpu);
        assert!(!ticket.is_complete());
        drop(recorded);
        let error = ticket.outcome().result.expect_err("not submitted");
        assert_eq!(error.kind(), ErrorKind::NotSubmitted, "{error}");
        assert_eq!(image.state(), ImageState::UNDEFINED);
        // SAFETY: its commands were never submitted.
        unsafe { application.device.destroy_command_pool(pool, None) };
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let frames = scope.spawn(|| frames(&application, &gpu, &stop));
        let landed = queue.submit(read()).expect("accepted").outcome().result;
        stop.store(true, Ordering::Relaxed);
        frames.join().expect("no panic");
        landed.expect("landed")
    });
    assert_eq!(image.state(), ImageState::SAMPLED);
    drop((image, gpu));
    application.end();
}

#[test]
fn a_device_that_the_application_knows_to_be_lost_fails_its_requests() {
    let _alone = alone();
    let Some(application) = Application::new(true) else {
        return;
    };
    let gpu = adopt(application.adopted(QueueAccess::Recorded, false));
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let buffer = gpu.buffer(40_000, vk::BufferUsageFlags::VERTEX_BUFFER);
    let buffer = buffer.expect("a buffer");
    let read = || Read::memory(Arc::from(bytes(40_000, 1))).into_device(buffer.clone());
    let mut running = queue.submit(read()).expect("accepted");
    let (_, recorded) = record(&application, &gpu);
    recorded.submitted();
    let mut waiting = queue.submit(read()).expect("accepted");
    assert!(wait_for(|| gpu.stats().batches > 1));
    assert!(!running.is_complete() && !waiting.is_complete() && !gpu.is_lost());
    gpu.lost();
    assert!(gpu.is_lost());
    let mut later = queue.submit(read()).expect("accepted");
    for ticket in [&mut running, &mut waiting, &mut later] {
        let error = ticket.outcome().result.expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    }
    drop(gpu);
    application.end();
}

#[test]
fn what_waits_to_be_recorded_fails_once_another_queue_has_lost_the_device() {
    let _alone = alone();
    let Some(application) = Application::new(false) else {
        return;
    };
    let lost = vk::Result::ERROR_DEVICE_LOST;
    RESULT.store(i64::from(lost.as_raw()), Ordering::SeqCst);
    FAILING.store(i64::MAX, Ordering::SeqCst);
    let mut adopted = application.failing(c"vkQueueSubmit", submits as Pointer, 0);
    adopted.compute.access = QueueAccess::Recorded;
    adopted.transfer = Some(AdoptedQueue {
        queue: application.queue,
        family: application.wanted.compute,
        access: QueueAccess::Own,
    });
    let gpu = adopt(adopted);
    let storage = Storage::new(Default::default()).expect("a storage");
    let queue = storage.queue(Default::default()).expect("a queue");
    let image = gpu.image(&IMAGE).expect("an image");
    let buffer = gpu.buffer(40_000, vk::BufferUsageFlags::VERTEX_BUFFER);
    let read = || Read::memory(Arc::from(bytes(40_000, 1)));
    let waiting = queue.submit(read().into_device(image)).expect("accepted");
    assert!(wait_for(|| gpu.stats().batches > 0));
    let copied = read().into_device(buffer.expect("a buffer"));
    let copied = queue.submit(copied).expect("accepted");
    for mut ticket in [copied, waiting] {
        let ended = ticket.wait_timeout(Duration::from_secs(20));
        let ended = ended.expect("it may wait").expect("it ends");
        let error = ended.result.expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    }
}
