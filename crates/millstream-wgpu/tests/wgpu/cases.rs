//! Buffers and textures, and a device that is lost or not of Vulkan.
#![expect(unsafe_code, reason = "promises that wgpu leaves destinations alone")]

use ash::vk;
use millstream::ErrorKind;
use millstream_testing::wait_for;
use millstream_vulkan::{AdoptedQueue, ImageRegion, QueueAccess, Tier};

use crate::rig::{Rig, bytes, gdeflate, memory, rig, rig_with};

fn about(size: u64, usage: wgpu::BufferUsages) -> wgpu::BufferDescriptor<'static> {
    wgpu::BufferDescriptor {
        label: None,
        size,
        usage,
        mapped_at_creation: false,
    }
}

#[test]
fn bytes_land_in_a_buffer_that_wgpu_uses() {
    let Some(rig) = rig() else { return };
    assert_eq!(rig.gpu.report().tier, Tier::Cpu);
    let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::STORAGE;
    // SAFETY: nothing uses it until the request has completed.
    let buffer = unsafe { rig.gpu.buffer(&about(3_000_000, usage)) }.expect("a buffer");
    for seed in 0..4 {
        let raw = bytes(3_000_000, seed);
        let read = if seed % 2 == 0 {
            memory(&raw)
        } else {
            gdeflate(&raw)
        };
        assert_eq!(rig.land(read, &buffer).expect("landed"), 3_000_000);
        let back = rig.read_back(3_000_000, |encoder, to| {
            encoder.copy_buffer_to_buffer(buffer.resource(), 0, to, 0, 3_000_000);
        });
        assert!(back == raw, "{seed}");
    }
    assert!(!rig.gpu.submit(), "nothing waits");
}

/// wgpu's own queue, as devices may have no other.
fn same_queue(device: &wgpu::Device) -> Option<AdoptedQueue> {
    // SAFETY: the queue is not destroyed.
    let hal = unsafe { device.as_hal::<wgpu::hal::api::Vulkan>() }?;
    Some(AdoptedQueue {
        queue: hal.raw_queue(),
        family: hal.queue_family_index(),
        // The test, which alone submits to wgpu's queue, waits meanwhile.
        access: QueueAccess::Locked(Box::new(|call| call())),
    })
}

#[test]
fn bytes_land_by_a_second_queue_without_a_submission_of_wgpu() {
    let Some(rig) = rig_with(same_queue) else {
        return;
    };
    let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::STORAGE;
    // SAFETY: nothing uses it until the request has completed.
    let buffer = unsafe { rig.gpu.buffer(&about(1_000_000, usage)) }.expect("a buffer");
    for seed in 0..4 {
        let raw = bytes(1_000_000, seed);
        let read = if seed % 2 == 0 {
            memory(&raw)
        } else {
            gdeflate(&raw)
        };
        let mut ticket = rig
            .queue
            .submit(read.into_device(buffer.clone()))
            .expect("accepted");
        ticket.wait().expect("landed");
        assert!(!rig.gpu.submit(), "nothing waits");
        let back = rig.read_back(1_000_000, |encoder, to| {
            encoder.copy_buffer_to_buffer(buffer.resource(), 0, to, 0, 1_000_000);
        });
        assert!(back == raw, "{seed}");
    }
}

#[test]
fn buffers_of_other_usages_are_left_to_wgpu() {
    let Some(rig) = rig() else { return };
    let usages = [wgpu::BufferUsages::MAP_READ, wgpu::BufferUsages::INDIRECT];
    let vertices = wgpu::BufferUsages::VERTEX;
    let refused = usages.map(|usage| about(64, usage | vertices));
    let sizes = [0, u64::MAX].map(|size| about(size, vertices));
    for about in refused.iter().chain(&sizes) {
        // SAFETY: none is made.
        let error = unsafe { rig.gpu.buffer(about) }
            .map(drop)
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{about:?}");
    }
}

/// Four layers of 128 by 128, which are zero.
fn atlas(rig: &Rig, usage: wgpu::TextureUsages, samples: u32) -> wgpu::Texture {
    let size = wgpu::Extent3d {
        width: 128,
        height: 128,
        depth_or_array_layers: if samples == 1 { 4 } else { 1 },
    };
    let atlas = rig.device.create_texture(&wgpu::TextureDescriptor {
        label: None,
        size,
        mip_level_count: 1,
        sample_count: samples,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage,
        view_formats: &[],
    });
    if usage.contains(wgpu::TextureUsages::COPY_DST) {
        let rows = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(512),
            rows_per_image: Some(128),
        };
        let zeros = vec![0; 4 * 65_536];
        rig.wgpu_queue
            .write_texture(atlas.as_image_copy(), &zeros, rows, size);
    }
    atlas
}

fn region(layer: u32, (x, y): (i32, i32), (width, height): (u32, u32)) -> ImageRegion {
    ImageRegion {
        mip_level: 0,
        layers: layer..layer + 1,
        offset: vk::Offset3D { x, y, z: 0 },
        extent: vk::Extent3D {
            width,
            height,
            depth: 1,
        },
    }
}

#[test]
fn rectangles_of_a_texture_change_and_nothing_else() {
    let Some(rig) = rig() else { return };
    let usage = wgpu::TextureUsages::COPY_DST
        | wgpu::TextureUsages::COPY_SRC
        | wgpu::TextureUsages::TEXTURE_BINDING;
    let atlas = atlas(&rig, usage, 1);
    let mut expected = vec![0; 4 * 65_536];
    for round in 0..3 {
        let places = [(3, 5), (70, 90)];
        let mut tickets = Vec::new();
        for layer in 0..4_u32 {
            let regions = places.map(|place| region(layer, place, (33, 21))).to_vec();
            // SAFETY: nothing uses it until the requests have completed; it was written to.
            let tiles = unsafe { rig.gpu.adopt_texture(&atlas, regions) }.expect("regions");
            let raw = bytes(2 * 33 * 21 * 4, u64::from(round * 4 + layer));
            let read = if layer % 2 == 0 {
                memory(&raw)
            } else {
                gdeflate(&raw)
            };
            tickets.push(rig.queue.submit(read.into_device(tiles)).expect("accepted"));
            for ((x, y), texels) in places.into_iter().zip(raw.chunks(33 * 21 * 4)) {
                for (row, texels) in texels.chunks(33 * 4).enumerate() {
                    let row = layer as usize * 128 + y as usize + row;
                    let at = (row * 128 + x as usize) * 4;
                    expected[at..at + texels.len()].copy_from_slice(texels);
                }
            }
        }
        for landed in rig.frames(tickets) {
            landed.expect("landed");
        }
        // Leaves the texture in another layout than the next round finds it in.
        let back = rig.read_back(4 * 65_536, |encoder, buffer| {
            let layout = wgpu::TexelCopyBufferLayout {
                offset: 0,
                bytes_per_row: Some(512),
                rows_per_image: Some(128),
            };
            let to = wgpu::TexelCopyBufferInfo { buffer, layout };
            encoder.copy_texture_to_buffer(atlas.as_image_copy(), to, atlas.size());
        });
        assert!(back == expected, "round {round}");
    }
}

#[test]
fn textures_that_do_not_fit_are_refused() {
    let Some(rig) = rig() else { return };
    let (to, sampled) = (
        wgpu::TextureUsages::COPY_DST,
        wgpu::TextureUsages::TEXTURE_BINDING,
    );
    let refused = |texture: &wgpu::Texture, regions: Vec<ImageRegion>| {
        // SAFETY: no request is made.
        let adopted = unsafe { rig.gpu.adopt_texture(texture, regions) };
        let error = adopted.map(drop).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    };
    let whole = || vec![region(0, (0, 0), (128, 128))];
    refused(&atlas(&rig, to, 1), whole());
    refused(&atlas(&rig, sampled, 1), whole());
    let drawn = wgpu::TextureUsages::RENDER_ATTACHMENT;
    refused(&atlas(&rig, sampled | drawn, 4), whole());
    let fits = atlas(&rig, to | sampled, 1);
    refused(&fits, Vec::new());
    refused(&fits, vec![region(0, (0, 0), (129, 1))]);
    refused(&fits, vec![region(4, (0, 0), (1, 1))]);
}

#[test]
fn what_nobody_submits_ends_with_the_device() {
    let Some(rig) = rig() else { return };
    let vertices = wgpu::BufferUsages::VERTEX;
    // SAFETY: nothing uses it.
    let buffer = unsafe { rig.gpu.buffer(&about(64, vertices)) }.expect("a buffer");
    let read = memory(&[7; 64]).into_device(buffer);
    let mut ticket = rig.queue.submit(read).expect("accepted");
    assert!(wait_for(|| rig.gpu.stats().batches > 0));
    drop(rig.gpu);
    let error = ticket.outcome().result.expect_err("not submitted");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn requests_fail_once_the_device_is_lost() {
    for by_wgpu in [false, true] {
        let Some(rig) = rig() else { return };
        let vertices = wgpu::BufferUsages::VERTEX;
        // SAFETY: nothing uses it.
        let buffer = unsafe { rig.gpu.buffer(&about(64, vertices)) }.expect("a buffer");
        let read = || memory(&[7; 64]).into_device(buffer.clone());
        let mut waiting = rig.queue.submit(read()).expect("accepted");
        assert!(wait_for(|| rig.gpu.stats().batches > 0));
        if by_wgpu {
            // It takes no commands any more. Nothing is submitted that could use the buffer.
            rig.device.destroy();
            assert!(!rig.gpu.submit());
        } else {
            rig.gpu.lost();
        }
        let mut later = rig.queue.submit(read()).expect("accepted");
        for ticket in [&mut waiting, &mut later] {
            let error = ticket.outcome().result.expect_err("lost");
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        }
    }
}

#[cfg(feature = "noop")]
#[test]
fn other_backends_than_vulkan_are_refused() {
    use crate::rig::ready;
    use millstream_wgpu::WgpuDevice;

    let mut about = wgpu::InstanceDescriptor::new_without_display_handle();
    about.backends = wgpu::Backends::NOOP;
    about.backend_options.noop.enable = true;
    let instance = wgpu::Instance::new(about);
    let adapter = ready(instance.request_adapter(&Default::default())).expect("an adapter");
    let (device, queue) = ready(adapter.request_device(&Default::default())).expect("a device");
    // SAFETY: they belong together.
    let adopted = unsafe { WgpuDevice::adopt(&adapter, &device, &queue) };
    let error = adopted.map(drop).expect_err("it is not one of Vulkan");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}
