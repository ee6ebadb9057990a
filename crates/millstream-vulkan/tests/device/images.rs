//! Requests that land in images: texels of all levels and layers, however the bytes are cut.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use ash::vk;
use millstream::{CodecId, Decode, DevicePart, DeviceSink, Error, ErrorKind, PartForm, Read};
use millstream_pak::{Coding, Item, PackOptions, Package, write_file};
use millstream_testing::PATIENCE;
use millstream_vulkan::{AdoptedImage, GpuImage, ImageOptions, ImageRegion, ImageState, Tier};

use crate::rig::{Rig, bytes, encoded, gdeflate, rig, rig_with};

fn options(format: vk::Format, sides: (u32, u32, u32), levels: u32, layers: u32) -> ImageOptions {
    ImageOptions {
        format,
        extent: vk::Extent3D {
            width: sides.0,
            height: sides.1,
            depth: sides.2,
        },
        mip_levels: levels,
        layers,
        usage: vk::ImageUsageFlags::SAMPLED,
        layout: vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
    }
}

fn run(rig: &Rig, read: Read, image: &Arc<GpuImage>) -> Result<u64, Error> {
    let submitted = rig.queue.submit(read.into_device(image.clone()));
    submitted.expect("accepted").outcome().result
}

/// Loads the same bytes into an image in each way that bytes come.
fn load(rig: &Rig, image: &Arc<GpuImage>, seed: u64) {
    let len = image.bytes() as usize;
    let raw = bytes(len, seed);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raw");
    // Windows of a file begin at multiples of its blocks: texels come in two parts.
    let shifted = [&[0; 77], &raw[..]].concat();
    std::fs::write(&path, shifted).expect("written");
    let file = rig.storage.open(&path, Default::default());
    let mut zstd = Vec::new();
    millstream_codec::compress(CodecId::ZSTD, 3, &mut &raw[..], &mut zstd).expect("encoded");
    let decode = Decode::codec(CodecId::ZSTD).raw_len(len as u64);
    let reads = [
        Read::range(file, 77, len as u64),
        gdeflate(&encoded(&raw)),
        Read::memory(Arc::from(zstd)).decode(decode),
    ];
    for (index, read) in reads.into_iter().enumerate() {
        assert_eq!(run(rig, read, image).expect("landed"), len as u64);
        let landed = image.read_back().expect("read back");
        assert!(landed == raw, "seed {seed}, read {index}: wrong texels");
        let empty = image.bytes() as usize;
        let other = Read::memory(Arc::from(vec![0xa5; empty]));
        run(rig, other, image).expect("landed");
    }
}

#[test]
fn texels_of_all_levels_and_layers_land() {
    let Some(rig) = rig() else { return };
    use vk::Format as F;
    let images = [
        (F::R8G8B8A8_UNORM, (300, 200, 1), 9, 3),
        (F::R8_UNORM, (1000, 777, 1), 1, 1),
        (F::R16G16_SFLOAT, (129, 65, 1), 3, 5),
        (F::R32G32B32A32_SFLOAT, (100, 100, 1), 2, 1),
        (F::BC7_UNORM_BLOCK, (1024, 512, 1), 11, 1),
        (F::BC1_RGBA_UNORM_BLOCK, (250, 130, 1), 8, 2),
        (F::BC4_UNORM_BLOCK, (64, 64, 1), 7, 1),
        (F::R8G8B8A8_UNORM, (40, 30, 20), 3, 1),
    ];
    let mut loaded = 0;
    for (seed, (format, sides, levels, layers)) in (0..).zip(images) {
        match rig.gpu.image(&options(format, sides, levels, layers)) {
            Ok(image) => load(&rig, &image, seed),
            Err(error) if error.kind() == ErrorKind::Limit => continue,
            Err(error) => panic!("{}: {error}", format.as_raw()),
        }
        loaded += 1;
    }
    assert!(loaded >= 5, "{loaded} formats");
    if rig.gpu.report().tier != Tier::Cpu {
        assert!(rig.gpu.stats().tiles > 0);
    }
    rig.end();
}

#[test]
fn images_land_where_workers_decode() {
    let Some(rig) = rig_with(false, true) else {
        return;
    };
    let image = rig
        .gpu
        .image(&options(vk::Format::R8G8B8A8_UNORM, (64, 64, 1), 7, 2));
    load(&rig, &image.expect("an image"), 1);
    rig.end();
}

#[test]
fn an_entry_of_a_package_lands_in_an_image() {
    let Some(rig) = rig() else { return };
    let image = rig.gpu.image(&options(
        vk::Format::BC7_UNORM_BLOCK,
        (2048, 1024, 1),
        12,
        1,
    ));
    let Ok(image) = image else { return };
    let raw = bytes(image.bytes() as usize, 9);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("textures.mpak");
    for codec in [CodecId::GDEFLATE, CodecId::LZ4, CodecId::STORED] {
        let packing = PackOptions {
            coding: Coding::Fixed(codec),
            ..PackOptions::default()
        };
        let items = vec![Item::from_bytes("texture", raw.clone())];
        write_file(items, &packing, &path).expect("packed");
        let package = Package::open(&rig.storage, &path).expect("opened");
        let read = package
            .request(0)
            .expect("a request")
            .into_device(image.clone());
        rig.queue
            .submit(read)
            .expect("accepted")
            .wait()
            .expect("landed");
        assert!(image.read_back().expect("read back") == raw, "{codec:?}");
    }
    rig.end();
}

#[test]
fn levels_land_from_bytes_with_a_header_and_gaps() {
    let Some(rig) = rig() else { return };
    let about = options(vk::Format::R8G8B8A8_UNORM, (256, 200, 1), 3, 1);
    let level = |mip_level: u32| ImageRegion {
        mip_level,
        layers: 0..1,
        offset: vk::Offset3D::default(),
        extent: vk::Extent3D {
            width: 256 >> mip_level,
            height: 200 >> mip_level,
            depth: 1,
        },
    };
    let starts = [64, 64 + 12_800 + 4, 70_000];
    let lens = [12_800, 51_200, 204_800];
    let placed: Vec<(u64, ImageRegion)> = starts.into_iter().zip([2, 1, 0].map(level)).collect();
    let image = rig.gpu.image_at(&about, placed.clone()).expect("an image");
    let raw = bytes(image.bytes() as usize, 3);
    for read in [gdeflate(&encoded(&raw)), Read::memory(raw.clone().into())] {
        assert_eq!(run(&rig, read, &image).expect("landed"), raw.len() as u64);
        let landed = image.read_back().expect("read back");
        for (start, len) in starts.into_iter().zip(lens) {
            let range = start as usize..start as usize + len;
            assert!(landed[range.clone()] == raw[range], "bytes from {start} on");
        }
    }
    let wrong = |change: fn(&mut (u64, ImageRegion))| {
        let mut placed = placed.clone();
        change(&mut placed[2]);
        let refused = rig.gpu.image_at(&about, placed).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    };
    wrong(|(at, _)| *at = 70_001);
    wrong(|(at, _)| *at = 64);
    wrong(|(_, region)| region.mip_level = 3);
    wrong(|(_, region)| region.layers = 1..2);
    wrong(|(_, region)| region.extent.width = 257);
    wrong(|(_, region)| region.offset.x = -1);
    wrong(|(_, region)| region.extent.depth = 0);
    rig.end();
}

#[test]
fn a_rectangle_of_an_image_changes_and_nothing_else() {
    let Some(rig) = rig() else { return };
    let rgba = vk::Format::R8G8B8A8_UNORM;
    let atlas = rig
        .gpu
        .image(&options(rgba, (256, 128, 1), 1, 2))
        .expect("an image");
    let mut expected = bytes(256 * 128 * 4 * 2, 1);
    run(&rig, Read::memory(Arc::from(&expected[..])), &atlas).expect("landed");
    let region = |x, y, layer| ImageRegion {
        mip_level: 0,
        layers: layer..layer + 1,
        offset: vk::Offset3D { x, y, z: 0 },
        extent: vk::Extent3D {
            width: 33,
            height: 21,
            depth: 1,
        },
    };
    // SAFETY: the image outlives the requests below, and is as they say.
    #[expect(unsafe_code, reason = "layers of an image of the application's")]
    let tiles = unsafe {
        rig.gpu.adopt_image(AdoptedImage {
            image: atlas.vk_image(),
            format: rgba,
            regions: vec![region(7, 100, 1), region(40, 100, 1), region(223, 0, 0)],
            before: ImageState::SAMPLED,
            handover: ImageState::SAMPLED,
        })
    };
    let tiles = tiles.expect("regions");
    assert_eq!(tiles.bytes(), 3 * 33 * 21 * 4);
    for (seed, is_encoded) in [(2, false), (3, true)] {
        let raw = bytes(3 * 33 * 21 * 4, seed);
        let read = match is_encoded {
            true => gdeflate(&encoded(&raw)),
            false => Read::memory(Arc::from(&raw[..])),
        };
        run(&rig, read, &tiles).expect("landed");
        let places = [(7, 100, 1), (40, 100, 1), (223, 0, 0)];
        for ((x, y, layer), texels) in places.into_iter().zip(raw.chunks(33 * 21 * 4)) {
            for (row, texels) in texels.chunks(33 * 4).enumerate() {
                let at = ((layer * 128 + y + row) * 256 + x) * 4;
                expected[at..at + texels.len()].copy_from_slice(texels);
            }
        }
        assert!(atlas.read_back().expect("read back") == expected);
    }
    let error = tiles.read_back().expect_err("the application's");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    rig.end();
}

#[test]
fn a_request_that_does_not_fill_an_image_fails_and_the_next_lands() {
    let Some(rig) = rig() else { return };
    let image = rig
        .gpu
        .image(&options(vk::Format::R8G8B8A8_UNORM, (200, 100, 1), 1, 1));
    let image = image.expect("an image");
    let raw = bytes(80_000, 4);
    let error = image.read_back().expect_err("nothing landed");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let mut broken = encoded(&raw);
    let middle = broken.len() / 2;
    broken[middle..middle + 64].fill(0xff);
    let reads = [
        (Read::memory(Arc::from(&raw[..79_999])), ErrorKind::RawSize),
        (Read::memory(Arc::from(&raw[..0])), ErrorKind::RawSize),
        (
            Read::memory(Arc::from(vec![0; 80_001])),
            ErrorKind::DestinationTooSmall,
        ),
        (gdeflate(&broken), ErrorKind::Corrupt),
    ];
    for (read, kind) in reads {
        let error = run(&rig, read, &image).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
        run(&rig, gdeflate(&encoded(&raw)), &image).expect("landed");
        assert!(image.read_back().expect("read back") == raw);
    }
    rig.end();
}

/// Passes on the last part of a request instead of giving it to the image.
struct Held {
    image: Arc<GpuImage>,
    last: Sender<DevicePart>,
}

impl DeviceSink for Held {
    fn room(&self) -> u64 {
        self.image.room()
    }

    fn wants_last(&self) -> bool {
        true
    }

    fn take(&self, part: DevicePart) {
        match part.form() {
            PartForm::Last => self.last.send(part).expect("the test waits for it"),
            _ => self.image.take(part),
        }
    }
}

#[test]
fn of_two_requests_in_an_image_at_a_time_one_fails() {
    let Some(rig) = rig() else { return };
    let about = options(vk::Format::R8G8B8A8_UNORM, (200, 100, 1), 1, 1);
    let image = rig.gpu.image(&about).expect("an image");
    let raws = [bytes(80_000, 5), bytes(80_000, 6)];
    let [first, second] = raws.each_ref().map(|raw| Read::memory(Arc::from(&raw[..])));
    let (sender, parts) = channel();
    let held = Arc::new(Held {
        image: image.clone(),
        last: sender,
    });
    let queued = rig.queue.submit(first.into_device(held));
    let mut queued = queued.expect("accepted");
    let last = parts.recv_timeout(PATIENCE).expect("all bytes landed");
    assert_eq!(image.state(), ImageState::UNDEFINED);
    run(&rig, second, &image).expect("landed");
    assert_eq!(image.state(), ImageState::SAMPLED);
    image.take(last);
    let error = queued
        .outcome()
        .result
        .expect_err("the other one has landed");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(image.read_back().expect("read back") == raws[1]);
    rig.end();
}

#[test]
fn images_that_the_device_lacks_are_refused() {
    let Some(rig) = rig() else { return };
    use vk::{ImageLayout as Layout, ImageUsageFlags as Usage};
    let rgba = vk::Format::R8G8B8A8_UNORM;
    let with = |usage, layout| ImageOptions {
        usage,
        layout,
        ..options(rgba, (8, 8, 1), 1, 1)
    };
    rig.gpu
        .image(&with(Usage::STORAGE, Layout::GENERAL))
        .expect("an image");
    let refused = [
        (options(rgba, (1 << 20, 1, 1), 1, 1), ErrorKind::Limit),
        (options(rgba, (8, 8, 1), 5, 1), ErrorKind::InvalidArgument),
        (options(rgba, (8, 8, 1), 1, 0), ErrorKind::InvalidArgument),
        (
            options(vk::Format::D32_SFLOAT, (8, 8, 1), 1, 1),
            ErrorKind::InvalidArgument,
        ),
        (
            with(Usage::SAMPLED, Layout::PRESENT_SRC_KHR),
            ErrorKind::InvalidArgument,
        ),
        (
            with(Usage::SAMPLED, Layout::PREINITIALIZED),
            ErrorKind::InvalidArgument,
        ),
        (
            with(Usage::STORAGE, Layout::SHADER_READ_ONLY_OPTIMAL),
            ErrorKind::InvalidArgument,
        ),
        (
            with(Usage::SAMPLED, Layout::COLOR_ATTACHMENT_OPTIMAL),
            ErrorKind::InvalidArgument,
        ),
        (
            with(Usage::HOST_TRANSFER_EXT, Layout::GENERAL),
            ErrorKind::InvalidArgument,
        ),
    ];
    for (options, kind) in refused {
        let error = rig.gpu.image(&options).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
    rig.end();
}
