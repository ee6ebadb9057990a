//! Streams the pages of a texture atlas of wgpu's, reads it back, and compares.
#![expect(unsafe_code, reason = "promises that wgpu leaves the atlas alone")]

use ash::vk;
use millstream::{Read, Storage, Ticket};
use millstream_vulkan::ImageRegion;
use millstream_wgpu::WgpuDevice;
use millstream_wgpu::wgpu::{self, TextureUsages};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut about = wgpu::InstanceDescriptor::new_without_display_handle();
    about.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(about);
    let adapter = pollster::block_on(instance.request_adapter(&Default::default()))?;
    let (device, queue) = pollster::block_on(adapter.request_device(&Default::default()))?;
    let (side, pages, page_bytes) = (256, 8, 256 * 256 * 4);
    let mut size = wgpu::Extent3d::default();
    (size.width, size.height, size.depth_or_array_layers) = (side, side, pages);
    let atlas = device.create_texture(&wgpu::TextureDescriptor {
        label: Some("atlas"),
        size,
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8UnormSrgb,
        usage: TextureUsages::TEXTURE_BINDING | TextureUsages::COPY_DST | TextureUsages::COPY_SRC,
        view_formats: &[],
    });
    let mut layout = wgpu::TexelCopyBufferLayout::default();
    (layout.bytes_per_row, layout.rows_per_image) = (Some(side * 4), Some(side));
    let texels: Vec<u8> = (0..8 * page_bytes).map(|at| (at / 4 * 7) as u8).collect();
    // wgpu clears what it has not written itself, so it writes first.
    queue.write_texture(
        atlas.as_image_copy(),
        &vec![0; 8 * page_bytes],
        layout,
        size,
    );

    let storage = Storage::new(Default::default())?;
    let requests = storage.queue(Default::default())?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("pages"), &texels)?;
    let file = storage.open(folder.path().join("pages"), Default::default());
    // SAFETY: they belong together. No frame here uses the atlas before its pages have landed.
    let gpu = unsafe { WgpuDevice::adopt(&adapter, &device, &queue)? };
    let mut tickets = Vec::new();
    for page in 0..pages {
        let mut extent = vk::Extent3D::default();
        (extent.width, extent.height, extent.depth) = (side, side, 1);
        let (layers, offset) = (page..page + 1, Default::default());
        #[rustfmt::skip]
        let whole = ImageRegion { mip_level: 0, layers, offset, extent };
        // SAFETY: as above.
        let to = unsafe { gpu.adopt_texture(&atlas, vec![whole])? };
        let read = Read::range(file, u64::from(page) * page_bytes as u64, page_bytes as u64);
        tickets.push(requests.submit(read.into_device(to))?);
    }
    while !tickets.iter().all(Ticket::is_complete) {
        gpu.submit(); // The frame's own submissions go here.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    tickets.iter_mut().try_for_each(|ticket| ticket.wait())?;
    let buffer = &device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: texels.len() as u64,
        usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
        mapped_at_creation: false,
    });
    let mut encoder = device.create_command_encoder(&Default::default());
    let to = wgpu::TexelCopyBufferInfo { buffer, layout };
    encoder.copy_texture_to_buffer(atlas.as_image_copy(), to, size);
    queue.submit([encoder.finish()]);
    buffer.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("mapped"));
    device.poll(wgpu::PollType::wait_indefinitely())?;
    assert!(buffer.get_mapped_range(..)?[..] == texels, "wrong texels");
    println!("{pages} pages landed in the atlas: {:?}", gpu.stats());
    Ok(())
}
