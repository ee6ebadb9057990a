//! A device that fails in each call of Vulkan, at each time that the library makes it: entries of
//! the function table are replaced. Requests end with the error, and those of the host go on.
#![expect(unsafe_code, reason = "replaces functions of a Vulkan device")]

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering::SeqCst};
use std::time::Duration;

use ash::vk;
use millstream::{CodecId, Decode, ErrorKind, Read, Storage};
use millstream_vulkan::{
    AdoptedDevice, Gpu, GpuOptions, GpuPoint, ImageOptions, QueueAccess, Tier,
};

use crate::application::Application;
use crate::rig::alone;

/// The function that was replaced.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Calls of it that succeed before one fails.
pub(crate) static LEFT: AtomicI64 = AtomicI64::new(0);
/// Calls that fail then.
pub(crate) static FAILING: AtomicI64 = AtomicI64::new(0);
/// What a call that fails returns.
pub(crate) static RESULT: AtomicI64 = AtomicI64::new(0);

fn failure() -> Option<vk::Result> {
    let left = LEFT.fetch_sub(1, SeqCst);
    (left <= 0 && -left < FAILING.load(SeqCst))
        .then(|| vk::Result::from_raw(RESULT.load(SeqCst) as i32))
}

/// Functions of one signature: what replaces them, as an address.
macro_rules! replacement {
    ($name:ident($($argument:ident: $kind:ty),*)) => {
        pub(crate) unsafe extern "system" fn $name($($argument: $kind),*) -> vk::Result {
            if let Some(result) = failure() {
                return result;
            }
            // SAFETY: the function that was replaced, whose signature this is.
            unsafe {
                type Real = unsafe extern "system" fn($($kind),*) -> vk::Result;
                std::mem::transmute::<*mut c_void, Real>(REAL.load(SeqCst))($($argument),*)
            }
        }
    };
}

pub(crate) type Pointer = *mut c_void;
replacement!(creates(device: vk::Device, info: Pointer, allocator: Pointer, made: Pointer));
replacement!(creates_pipelines(
    device: vk::Device, cache: u64, count: u32, infos: Pointer, allocator: Pointer, made: Pointer
));
replacement!(allocates(device: vk::Device, info: Pointer, made: Pointer));
replacement!(binds(device: vk::Device, buffer: u64, memory: u64, offset: u64));
replacement!(maps(
    device: vk::Device, memory: u64, offset: u64, size: u64, flags: u32, address: Pointer
));
replacement!(begins(commands: vk::CommandBuffer, info: Pointer));
replacement!(ends(commands: vk::CommandBuffer));
replacement!(resets(device: vk::Device, pool: u64, flags: u32));
replacement!(submits(queue: vk::Queue, count: u32, submits: Pointer, fence: u64));
replacement!(signals(device: vk::Device, info: Pointer));
replacement!(counts(device: vk::Device, semaphore: u64, value: Pointer));
replacement!(waits(device: vk::Device, info: Pointer, timeout: u64));

/// Every function of a device that the library calls and that can fail.
fn functions() -> Vec<(&'static CStr, Pointer)> {
    let creates = creates as Pointer;
    vec![
        (c"vkCreateDescriptorSetLayout", creates),
        (c"vkCreatePipelineLayout", creates),
        (c"vkCreateShaderModule", creates),
        (c"vkCreateComputePipelines", creates_pipelines as Pointer),
        (c"vkCreateDescriptorPool", creates),
        (c"vkAllocateDescriptorSets", allocates as Pointer),
        (c"vkCreateBuffer", creates),
        (c"vkAllocateMemory", creates),
        (c"vkBindBufferMemory", binds as Pointer),
        (c"vkMapMemory", maps as Pointer),
        (c"vkCreateImage", creates),
        (c"vkBindImageMemory", binds as Pointer),
        (c"vkCreateCommandPool", creates),
        (c"vkAllocateCommandBuffers", allocates as Pointer),
        (c"vkCreateSemaphore", creates),
        (c"vkResetCommandPool", resets as Pointer),
        (c"vkBeginCommandBuffer", begins as Pointer),
        (c"vkEndCommandBuffer", ends as Pointer),
        (c"vkQueueSubmit", submits as Pointer),
        (c"vkWaitSemaphores", waits as Pointer),
        (c"vkSignalSemaphore", signals as Pointer),
        (c"vkGetSemaphoreCounterValue", counts as Pointer),
    ]
}

impl Application {
    /// The device, one function of which fails after so many calls.
    pub(crate) fn failing(
        &self,
        function: &CStr,
        replaced_by: Pointer,
        after: i64,
    ) -> AdoptedDevice {
        let handle = self.device.handle();
        LEFT.store(after, SeqCst);
        let load = |name: &CStr| {
            // SAFETY: asks for a function of the device.
            let real = unsafe { self.instance.get_device_proc_addr(handle, name.as_ptr()) };
            let real = real.map_or(std::ptr::null_mut(), |real| real as Pointer);
            if name == function {
                REAL.store(real, SeqCst);
                return replaced_by.cast_const();
            }
            real.cast_const()
        };
        // SAFETY: the device's own functions, and one of the same signature.
        let device = unsafe { ash::Device::load_with(load, handle) };
        assert!(!REAL.load(SeqCst).is_null(), "{function:?}");
        let mut adopted = self.adopted(QueueAccess::Own, false);
        adopted.device = device;
        adopted
    }
}

/// How requests to a device ended.
#[derive(Default)]
struct Outcome {
    landed: u32,
    errors: Vec<ErrorKind>,
}

/// Texels of 200 by 250, of 4 bytes.
const IMAGE: ImageOptions = ImageOptions {
    format: vk::Format::R8G8B8A8_UNORM,
    extent: vk::Extent3D {
        width: 200,
        height: 250,
        depth: 1,
    },
    mip_levels: 1,
    layers: 1,
    usage: vk::ImageUsageFlags::SAMPLED,
    layout: vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
};

/// Loads raw and encoded bytes into a buffer and an image of the device, several times, and host
/// memory beside.
fn load(gpu: &Gpu, storage: &Storage, used: vk::Semaphore) -> Outcome {
    let queue = storage.queue(Default::default()).expect("a queue");
    let raw = vec![7; 200_000];
    let stored = gdeflate::compress(&raw, gdeflate::Level::DEFAULT, 1).expect("encoded");
    let (raw, stored): (Arc<[u8]>, Arc<[u8]>) = (Arc::from(raw), Arc::from(stored));
    let mut outcome = Outcome::default();
    match gpu.import_staging(storage) {
        Err(error) if error.kind() != ErrorKind::Limit => outcome.errors.push(error.kind()),
        _ => {}
    }
    let point = GpuPoint {
        semaphore: used,
        value: 1,
    };
    for _ in 0..2 {
        // SAFETY: the semaphore is the device's, and is not destroyed.
        match unsafe { gpu.fence(point) } {
            Ok(fence) => {
                let reached = fence.wait(1, Some(Duration::from_secs(20)));
                assert!(reached.expect("no storage thread"), "a request would wait");
            }
            Err(error) => outcome.errors.push(error.kind()),
        }
    }
    for _ in 0..4 {
        let buffer = gpu.buffer(200_000, vk::BufferUsageFlags::VERTEX_BUFFER);
        let (buffer, image) = match (buffer, gpu.image(&IMAGE)) {
            (Ok(buffer), Ok(image)) => (buffer, image),
            (Err(error), _) | (_, Err(error)) => {
                outcome.errors.push(error.kind());
                continue;
            }
        };
        let decode = Decode::codec(CodecId::GDEFLATE);
        let copied = Read::memory(Arc::clone(&raw)).into_device(buffer.clone());
        let decoded = Read::memory(Arc::clone(&stored)).decode(decode.clone());
        let decoded = decoded.into_device(image.clone());
        let tickets = [copied, decoded].map(|read| queue.submit(read).expect("accepted"));
        let host = Read::memory(Arc::clone(&stored)).decode(decode);
        let mut host = queue.submit(host).expect("accepted");
        for mut ticket in tickets {
            match ticket.outcome().result {
                Ok(len) => {
                    assert_eq!(len, 200_000);
                    outcome.landed += 1;
                }
                Err(error) => {
                    assert!(gpu.is_lost() || error.kind() != ErrorKind::DeviceLost);
                    outcome.errors.push(error.kind());
                }
            }
        }
        assert!(*host.wait().expect("host memory needs no device") == *raw);
        let landed = outcome.errors.is_empty();
        for back in [buffer.read_back(0..200_000), image.read_back()] {
            match back {
                Ok(back) if landed => assert!(back == *raw),
                Ok(_) => {}
                // No request has landed in it.
                Err(error) if !landed && error.kind() == ErrorKind::InvalidArgument => {}
                Err(error) => outcome.errors.push(error.kind()),
            }
        }
    }
    outcome
}

/// The functions that decoding calls first, and those that every batch calls. Others are looked at
/// without a shader: each device compiles it, which takes a second.
const DECODING: [&CStr; 8] = [
    c"vkCreateDescriptorSetLayout",
    c"vkCreatePipelineLayout",
    c"vkCreateShaderModule",
    c"vkCreateComputePipelines",
    c"vkCreateDescriptorPool",
    c"vkAllocateDescriptorSets",
    c"vkQueueSubmit",
    c"vkWaitSemaphores",
];

/// Runs everything, with each function failing after so many calls. `check` gets what came out, of
/// a device that was to decode or not.
fn fail_everywhere(
    (result, times): (vk::Result, i64),
    afters: &[i64],
    check: impl Fn(&str, bool, Result<(Tier, Outcome), ErrorKind>),
) {
    let Some(application) = Application::new(false) else {
        return;
    };
    RESULT.store(i64::from(result.as_raw()), SeqCst);
    FAILING.store(times, SeqCst);
    let storage = Storage::new(Default::default()).expect("a storage");
    let used = application.timeline();
    application.reach(used, 1);
    for (function, replaced_by) in functions() {
        let mut options = GpuOptions::default();
        options.decode = DECODING.contains(&function);
        for &after in afters {
            let adopted = application.failing(function, replaced_by, after);
            // SAFETY: the handles belong together; the device is never destroyed, because what a
            // lost one still uses is leaked.
            let gpu = unsafe { Gpu::adopt(adopted, &options) };
            let came = gpu.map(|gpu| (gpu.report().tier, load(&gpu, &storage, used)));
            let came = came.map_err(|error| error.kind());
            if LEFT.load(SeqCst) < 0 {
                check(&format!("{function:?} after {after}"), options.decode, came);
            } else {
                assert!(after > 0, "{function:?} is not called");
                assert!(came.is_ok_and(|(_, outcome)| outcome.errors.is_empty()));
                break;
            }
        }
    }
}

#[test]
fn a_device_that_fails_in_any_call_fails_its_requests_and_no_others() {
    let _alone = alone();
    let lost = (vk::Result::ERROR_DEVICE_LOST, i64::MAX);
    fail_everywhere(lost, &[0, 1, 9], |call, decodes, came| {
        let lost = |kind: &ErrorKind| *kind == ErrorKind::DeviceLost;
        match came {
            Err(kind) => assert!(lost(&kind), "{call}: {kind:?}"),
            // Without a shader workers decode.
            Ok((Tier::Cpu, outcome)) if decodes => assert_eq!(outcome.errors, [], "{call}"),
            Ok((_, Outcome { errors, .. })) => {
                assert!(!errors.is_empty(), "{call}: nothing failed");
                assert!(errors.iter().all(lost), "{call}: {errors:?}");
            }
        }
    });
    // Memory is short once.
    let short = (vk::Result::ERROR_OUT_OF_HOST_MEMORY, 1);
    fail_everywhere(short, &[1, 9], |call, _, came| match came {
        Err(kind) => assert_eq!(kind, ErrorKind::OutOfMemory, "{call}"),
        Ok((_, Outcome { errors, landed })) => {
            // A wait is repeated.
            let fails = !call.contains("vkWaitSemaphores");
            let all = |kind: &ErrorKind| fails && *kind == ErrorKind::OutOfMemory;
            assert!(errors.iter().all(all), "{call}: {errors:?}");
            assert!(landed >= 4, "{call}: {landed}");
        }
    });
}
