//! Cooked scenes: the same pixels, or nearly; small levels first; within the memory allowed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;

use millstream::{Backend, Priority, Storage};
use millstream_gltf::cook::{SceneCook, Target};
use millstream_gltf::image::{Format, Layout};
use millstream_gltf::record::SceneDescriber;
use millstream_gltf::{Load, Loader, LoaderOptions};
use millstream_pak::{Cook as _, CookError, Inputs, Links, PackOptions, Package, walk, write_file};

struct Packed {
    _base: tempfile::TempDir,
    path: PathBuf,
    made: crate::support::Made,
}

fn packed(seed: u64, side: u32, target: Target) -> Packed {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("scene");
    std::fs::create_dir_all(folder.join("sub dir")).expect("made");
    let made = crate::support::make(seed, 4, 5, side);
    made.write_loose(&folder);
    std::fs::write(folder.join("sub dir/o%ne.glb"), made.glb()).expect("written");
    let path = base.path().join("scene.mpak");
    let cook = SceneCook::new(target);
    let options = PackOptions {
        describers: vec![&SceneDescriber],
        cooks: vec![&cook],
        ..PackOptions::default()
    };
    let (items, errors) = walk(&folder, Links::Refuse);
    assert!(errors.is_empty(), "{errors:?}");
    write_file(items, &options, &path).expect("packed");
    Packed {
        _base: base,
        path,
        made,
    }
}

const NAMES: [&str; 2] = ["scene.gltf", "sub dir/o%ne.glb"];

fn open(loader: &Loader, storage: &Storage, path: &Path, name: &str) -> Load {
    let package = Package::open(storage, path).expect("opened");
    loader
        .open_from(Arc::new(package), name.as_bytes())
        .expect("found")
}

#[test]
fn images_as_rgba8_are_pixel_for_pixel_those_of_the_loose_scene() {
    for target in [Target::Rgba8, Target::Rgba8Levels] {
        let packed = packed(21, 300, target);
        let storage = crate::support::storage(Backend::Auto);
        let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
        for name in NAMES {
            let mut load = open(&loader, &storage, &packed.path, name);
            load.wait();
            assert_eq!(load.progress().batches, 1, "{name}");
            crate::support::check(&load.finish().expect("sound"), &packed.made);
        }
    }
}

struct NoInputs;

impl Inputs for NoInputs {
    fn read(&self, _: &[u8]) -> Result<Vec<u8>, CookError> {
        Err(CookError::new("there is none"))
    }
}

/// Moved, the binary chunk would have other bytes where the extension says that they are.
#[test]
fn a_glb_whose_views_have_extensions_stays_as_it_is() {
    let plain = crate::support::make(23, 2, 2, 8).glb();
    let json_bytes = u32::from_le_bytes(plain[12..16].try_into().expect("four")) as usize;
    let json = std::str::from_utf8(&plain[20..20 + json_bytes]).expect("JSON");
    let extension = r#"{"extensions":{"EXT_meshopt_compression":{"buffer":0}},"buffer":0,"#;
    let last = json.rfind(r#"{"buffer":0,"#).expect("a view");
    let extended = json[..last].to_owned() + extension + &json[last + 12..];
    let extended = crate::support::glb(extended.as_bytes(), Some(&plain[28 + json_bytes..]));
    for (glb, stays) in [(plain, false), (extended, true)] {
        let cook = SceneCook::new(Target::Rgba8);
        let cooked = cook.cook(b"a.glb", &glb, &NoInputs).expect("cooked");
        let scene = cooked.entries.last().expect("the scene");
        assert_eq!(scene.raw == glb, stays);
        assert_eq!(cooked.entries.len() == 1, stays);
    }
}

/// A read straight from the device leaves bytes where they lie within their page; what landed
/// before the JSON said what it is for has to be moved as well, each half of an image.
#[test]
fn images_that_are_read_from_the_device_before_the_json_are_aligned() {
    let packed = packed(21, 300, Target::Rgba8Levels);
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&packed.path);
    let file = file.expect("opened");
    file.sync_all().expect("on the disk");
    let storage = crate::support::storage(Backend::Auto);
    let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
    for round in 0..16 {
        // On a file system in memory it stays, and the test shows less.
        let _ = millstream_io::fs::evict(&file);
        let mut load = open(&loader, &storage, &packed.path, NAMES[round % 2]);
        // Looked at all the time: whatever comes first is taken first.
        while load.poll(Waker::noop()).is_pending() {
            std::thread::yield_now();
        }
        crate::support::check(&load.finish().expect("sound"), &packed.made);
    }
}

#[test]
fn block_compressed_images_have_all_levels_and_look_the_same() {
    for target in [Target::Bc3, Target::Bc7, Target::Bc7Fine] {
        let packed = packed(22, 150, target);
        let storage = crate::support::storage(Backend::Auto);
        let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
        for name in NAMES {
            let load = open(&loader, &storage, &packed.path, name);
            let scene = load.finish().expect("sound");
            crate::support::check_geometry(&scene, &packed.made);
            for (index, (width, height, rgba)) in packed.made.images.iter().enumerate() {
                let image = scene.texture_image(index).expect("there");
                let layout = image.layout();
                assert_eq!(layout.size(0), (*width, *height));
                assert_eq!(layout.levels(), Layout::full_levels(*width.max(height)));
                assert_eq!(layout.first_level(), 0);
                for level in 0..layout.levels() {
                    let bytes = layout.level(level).expect("of the layout").len();
                    assert_eq!(image.level(level).map(<[u8]>::len), Some(bytes));
                }
                let error = mean_error(layout, image.level(0).expect("there"), rgba);
                assert!(
                    error < 12.0,
                    "{target:?} image {index}: {error} per channel"
                );
            }
        }
    }
}

/// Mean difference of a channel between blocks and pixels.
fn mean_error(layout: &Layout, blocks: &[u8], rgba: &[u8]) -> f64 {
    use block_compression::decode::{decode_block_bc1, decode_block_bc3, decode_block_bc7};
    let (width, height) = layout.size(0);
    let block_bytes = if layout.format() == Format::Bc1 {
        8
    } else {
        16
    };
    let wide = width.div_ceil(4) as usize;
    let mut sum = 0;
    for (index, block) in blocks.chunks_exact(block_bytes).enumerate() {
        let mut out = [0u8; 64];
        match layout.format() {
            Format::Bc1 => decode_block_bc1(block, &mut out, 16),
            Format::Bc3 => decode_block_bc3(block, &mut out, 16),
            _ => decode_block_bc7(block, &mut out, 16),
        }
        for (at, pixel) in out.chunks_exact(4).enumerate() {
            let (x, y) = (index % wide * 4 + at % 4, index / wide * 4 + at / 4);
            if x < width as usize && y < height as usize {
                let start = (y * width as usize + x) * 4;
                for (a, b) in pixel.iter().zip(&rgba[start..start + 4]) {
                    sum += u64::from(a.abs_diff(*b));
                }
            }
        }
    }
    sum as f64 / rgba.len() as f64
}

#[test]
fn with_less_memory_the_small_levels_come_and_the_large_do_not() {
    let packed = packed(23, 500, Target::Rgba8Levels);
    let storage = crate::support::storage(Backend::Auto);
    let whole: usize = {
        let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
        let scene = open(&loader, &storage, &packed.path, NAMES[0])
            .finish()
            .expect("sound");
        let bytes = |image: &millstream_gltf::State<Arc<millstream_gltf::image::Image>>| {
            image.get().expect("there").memory_bytes()
        };
        scene.images().iter().map(bytes).sum()
    };
    // Also where images come before what the scene cannot do without.
    for images in [Priority::Low, Priority::Realtime] {
        let mut options = LoaderOptions::default();
        options.memory_max = Some(whole as u64 / 2);
        options.images = images;
        let loader = Loader::new(&storage, options).expect("a loader");
        let scene = open(&loader, &storage, &packed.path, NAMES[0])
            .finish()
            .expect("sound");
        let mut levels_missing = 0;
        let mut memory = 0;
        for state in scene.images() {
            let image = state.get().expect("there");
            let first = image.layout().first_level();
            levels_missing += first;
            memory += image.memory_bytes();
            let bytes = image.layout().level(first).map(|range| range.len());
            assert_eq!(image.level(first).map(<[u8]>::len), bytes);
            assert!(first == 0 || image.level(first - 1).is_none());
        }
        assert!(
            levels_missing > 0 && memory <= whole / 2,
            "{memory} of {whole}"
        );
    }
}

/// A GLB of one stored image, a view of which each number names, and an image for each number.
fn glb_of_shared(stored: &[u8], views: &[usize]) -> Vec<u8> {
    let (len, most) = (stored.len(), views.iter().max().expect("one"));
    let view = format!(r#"{{"buffer":0,"byteLength":{len}}}"#);
    let images = views
        .iter()
        .map(|view| format!(r#"{{"bufferView":{view}}}"#));
    let json = format!(
        r#"{{"asset":{{"version":"2.0"}},"buffers":[{{"byteLength":{len}}}],
        "bufferViews":[{}],"images":[{}]}}"#,
        vec![view; most + 1].join(","),
        images.collect::<Vec<_>>().join(",")
    );
    crate::support::glb(json.as_bytes(), Some(stored))
}

#[test]
fn images_of_one_view_are_cooked_once() {
    let pixels = crate::support::pixels(&mut fastrand::Rng::with_seed(24), 8, 8, 4);
    let stored = crate::support::png(png::ColorType::Rgba, 8, 8, &pixels);
    let glb = glb_of_shared(&stored, &[0, 1, 1, 0, 1]);
    let cook = SceneCook::new(Target::Rgba8);
    let cooked = cook.cook(b"a.glb", &glb, &NoInputs).expect("cooked");
    let names = cooked.entries.iter().map(|entry| &entry.name[..]);
    let expected = [&b"a.glb.0.msim"[..], b"a.glb.1.msim", b"a.glb"];
    assert!(names.eq(expected));
    let ground = crate::support::Ground::new();
    for entry in &cooked.entries {
        ground.write(std::str::from_utf8(&entry.name).expect("text"), &entry.raw);
    }
    let scene = ground.load(&ground.folder.path().join("a.glb"));
    let scene = scene.expect("a scene");
    assert_eq!(crate::support::problems(&scene), [""; 0]);
    assert_eq!(scene.images().len(), 5);
    for image in scene.images() {
        assert!(image.get().expect("there").pixels() == pixels);
    }
}

#[test]
fn each_of_the_images_that_share_damaged_bytes_is_named() {
    let stored = crate::support::png(png::ColorType::Grayscale, 1, 1, &[90]);
    let glb = glb_of_shared(&stored[..40], &[0, 1, 0]);
    let cooked = SceneCook::new(Target::Rgba8).cook(b"a.glb", &glb, &NoInputs);
    let causes = cooked
        .expect("cooked")
        .uncooked
        .into_iter()
        .map(|(_, cause)| cause);
    let places: Vec<String> = causes.map(|cause| cause[..9].to_owned()).collect();
    assert_eq!(places, ["images[0]", "images[2]", "images[1]"]);
}

#[test]
fn a_glb_with_a_byte_order_mark_is_cooked_and_its_alternatives_have_the_colors_of_their_texture() {
    let stored = crate::support::png(png::ColorType::Grayscale, 1, 1, &[90]);
    let len = stored.len();
    let json = format!(
        r#"{{"asset":{{"version":"2.0"}},"buffers":[{{"byteLength":{len}}}],
        "bufferViews":[{{"buffer":0,"byteLength":{len}}},{{"buffer":0,"byteLength":{len}}}],
        "images":[{{"bufferView":0}},{{"bufferView":1}}],"materials":[{{"emissiveTexture":
        {{"index":0}}}}],"textures":[{{"source":1,"extensions":{{"EXT_texture_webp":
        {{"source":0}}}}}}]}}"#
    );
    let glb = crate::support::glb(format!("\u{feff}{json}").as_bytes(), Some(&stored));
    let cooked = SceneCook::new(Target::Rgba8).cook(b"a.glb", &glb, &NoInputs);
    let cooked = cooked.expect("cooked");
    assert_eq!((cooked.entries.len(), &cooked.uncooked[..]), (3, &[][..]));
    for image in &cooked.entries[..2] {
        assert!(Layout::parse(&image.raw).expect("an image").is_srgb());
    }
}

/// Those of `KHR_materials_diffuse_transmission` among them.
#[test]
fn cooked_images_of_colors_are_srgb_and_others_are_not() {
    let stored = crate::support::png(png::ColorType::Grayscale, 1, 1, &[90]);
    for (material, is_srgb) in [
        (r#""normalTexture":{"index":0}"#, false),
        (r#""emissiveTexture":{"index":0}"#, true),
        (
            r#""extensions":{"KHR_materials_diffuse_transmission":
            {"diffuseTransmissionColorTexture":{"index":0}}}"#,
            true,
        ),
        (
            r#""extensions":{"KHR_materials_diffuse_transmission":
            {"diffuseTransmissionTexture":{"index":0}}}"#,
            false,
        ),
        (
            r#""extensions":{"KHR_materials_sheen":{"sheenColorTexture":{"index":0}}}"#,
            true,
        ),
    ] {
        let json = format!(
            r#"{{"asset":{{"version":"2.0"}},"images":[{{"uri":"a.png"}}],
            "textures":[{{"source":0}}],"materials":[{{{material}}}]}}"#
        );
        let others = OneInput(b"a.png", stored.clone());
        let cook = SceneCook::new(Target::Rgba8);
        let cooked = cook.cook(b"a.gltf", json.as_bytes(), &others);
        let image = &cooked.expect("cooked").entries[0];
        let layout = Layout::parse(&image.raw).expect("an image");
        assert_eq!(layout.is_srgb(), is_srgb, "{material}");
    }
}

struct OneInput(&'static [u8], Vec<u8>);

impl Inputs for OneInput {
    fn read(&self, name: &[u8]) -> Result<Vec<u8>, CookError> {
        assert_eq!(name, self.0);
        Ok(self.1.clone())
    }
}

/// Else the package would have two entries of that name: the image, and the scene.
#[test]
fn an_image_that_is_named_as_a_scene_stays_as_it_is() {
    let stored = crate::support::png(png::ColorType::Grayscale, 1, 1, &[90]);
    let cook = SceneCook::new(Target::Rgba8);
    for (name, is_image) in [(&b"b.glb"[..], false), (b"b.GLTF", false), (b"b", true)] {
        let uri = std::str::from_utf8(name).expect("text");
        let json = format!(r#"{{"asset":{{"version":"2.0"}},"images":[{{"uri":"{uri}"}}]}}"#);
        let others = OneInput(name, stored.clone());
        let cooked = cook
            .cook(b"a.gltf", json.as_bytes(), &others)
            .expect("cooked");
        assert_eq!(cooked.entries.len() == 2, is_image, "{uri}");
        assert_eq!(cooked.consumed.len() == 1, is_image, "{uri}");
        assert_eq!(cooked.uncooked.is_empty(), is_image, "{uri}");
    }
}

/// The views are parts of the file, whose bytes count once.
#[test]
fn cooked_images_of_shared_bytes_keep_the_bound_of_the_scene() {
    let side = 2048;
    let stored = crate::support::png(
        png::ColorType::Grayscale,
        side,
        side,
        &vec![90; (side * side) as usize],
    );
    let glb = glb_of_shared(&stored, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let cook = SceneCook::new(Target::Rgba8);
    let cooked = cook.cook(b"a.glb", &glb, &NoInputs).expect("cooked");
    let images = &cooked.entries[..cooked.entries.len() - 1];
    assert!(!images.is_empty());
    let bytes: usize = images.iter().map(|image| image.raw.len()).sum();
    let most = millstream_gltf::limits::scene_memory(glb.len() as u64);
    assert!(bytes as u64 <= most, "{bytes} bytes, more than {most}");
}
