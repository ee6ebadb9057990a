//! A device of wgpu's, and a storage.
#![expect(unsafe_code, reason = "lends the device to the library")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{DeviceSink, Error, ErrorKind, Queue, Read, Storage, Ticket};
use millstream_vulkan::AdoptedQueue;

use millstream_wgpu::WgpuDevice;

pub(crate) struct Rig {
    // Dropped before wgpu's device.
    pub(crate) gpu: WgpuDevice,
    pub(crate) device: wgpu::Device,
    pub(crate) wgpu_queue: wgpu::Queue,
    pub(crate) queue: Queue,
    _storage: Storage,
}

/// The value of a future of wgpu's, which are ready at once on native systems.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future of wgpu's that waits"),
    }
}

/// `None`: there is no Vulkan device.
pub(crate) fn rig() -> Option<Rig> {
    rig_with(|_| None)
}

/// With a second queue.
pub(crate) fn rig_with(second: fn(&wgpu::Device) -> Option<AdoptedQueue>) -> Option<Rig> {
    let mut about = wgpu::InstanceDescriptor::new_without_display_handle();
    about.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(about);
    let adapter = match ready(instance.request_adapter(&Default::default())) {
        Ok(adapter) => adapter,
        Err(error) => {
            let driver = millstream_vulkan::devices().map(drop);
            let none = driver.expect_err(&format!("wgpu finds no device: {error}"));
            assert_eq!(none.kind(), ErrorKind::NotFound, "{none}");
            eprintln!("SKIP: {none}");
            return None;
        }
    };
    let (device, wgpu_queue) =
        ready(adapter.request_device(&Default::default())).expect("a device");
    // SAFETY: they belong together, and the device lives longer.
    let gpu = unsafe { WgpuDevice::adopt_with(&adapter, &device, &wgpu_queue, second(&device)) };
    let gpu = gpu.expect("adopted");
    let storage = Storage::new(Default::default()).expect("a storage");
    Some(Rig {
        gpu,
        device,
        wgpu_queue,
        queue: storage.queue(Default::default()).expect("a queue"),
        _storage: storage,
    })
}

impl Rig {
    pub(crate) fn land(&self, read: Read, to: &Arc<impl DeviceSink>) -> Result<u64, Error> {
        let to: Arc<dyn DeviceSink> = to.clone();
        let ticket = self.queue.submit(read.into_device(to)).expect("accepted");
        self.frames([ticket]).remove(0)
    }

    /// Makes frames until all these have completed.
    pub(crate) fn frames(
        &self,
        tickets: impl IntoIterator<Item = Ticket<()>>,
    ) -> Vec<Result<u64, Error>> {
        let mut tickets: Vec<_> = tickets.into_iter().collect();
        let are_complete = millstream_testing::wait_for(|| {
            self.gpu.submit();
            tickets.iter().all(Ticket::is_complete)
        });
        assert!(are_complete, "requests do not complete");
        let outcomes = tickets.iter_mut().map(|ticket| ticket.outcome().result);
        outcomes.collect()
    }

    /// The bytes that commands bring to a buffer of this length.
    pub(crate) fn read_back(
        &self,
        size: u64,
        record: impl FnOnce(&mut wgpu::CommandEncoder, &wgpu::Buffer),
    ) -> Vec<u8> {
        let back = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        record(&mut encoder, &back);
        self.wgpu_queue.submit([encoder.finish()]);
        back.map_async(wgpu::MapMode::Read, .., |result| result.expect("mapped"));
        self.device
            .poll(wgpu::PollType::wait_indefinitely())
            .expect("the device works");
        let mapped = back.get_mapped_range(..).expect("mapped");
        mapped.to_vec()
    }
}

/// Compressible bytes, different for each seed.
pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let words: Vec<u32> = (0..200).map(|_| random.u32(..)).collect();
    let made = (0..len.div_ceil(4)).flat_map(|_| words[random.usize(0..200)].to_le_bytes());
    made.take(len).collect()
}

pub(crate) fn memory(raw: &[u8]) -> Read {
    Read::memory(Arc::from(raw))
}

pub(crate) fn gdeflate(raw: &[u8]) -> Read {
    let stored = gdeflate::compress(raw, gdeflate::Level::DEFAULT, 1).expect("encoded");
    memory(&stored).decode(millstream::Decode::codec(millstream::CodecId::GDEFLATE))
}
