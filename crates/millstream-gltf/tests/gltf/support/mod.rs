//! Small scenes made from a seed, as files, and storages to load them with.

pub(crate) mod containers;
pub(crate) mod gated;
pub(crate) mod pngs;
pub(crate) mod uncached;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use millstream::{Backend, Storage, StorageOptions};
use millstream_gltf::{Error, Loader, LoaderOptions, Scene, image};

/// A folder for files, and a storage that knows images.
pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) storage: Storage,
}

impl Ground {
    pub(crate) fn new() -> Ground {
        Ground::on(Backend::Auto)
    }

    pub(crate) fn on(backend: Backend) -> Ground {
        Ground {
            folder: tempfile::tempdir().expect("a folder"),
            storage: storage(backend),
        }
    }

    pub(crate) fn loader(&self) -> Loader {
        loader(&self.storage)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// Writes a scene with files of its own; the path of its JSON.
    pub(crate) fn write_loose(&self, made: &Made) -> PathBuf {
        made.write_loose(self.folder.path());
        self.folder.path().join("scene.gltf")
    }

    /// Loads everything that is sound.
    pub(crate) fn load(&self, path: &Path) -> Result<Scene, Error> {
        self.loader().open(path)?.finish_partial()
    }

    /// Loads a document with this inside.
    pub(crate) fn load_json(&self, inside: &str) -> Result<Scene, Error> {
        let json = format!(r#"{{"asset":{{"version":"2.0"}},{inside}}}"#);
        self.load(&self.write("json.gltf", json))
    }
}

pub(crate) fn loader(storage: &Storage) -> Loader {
    Loader::new(storage, LoaderOptions::default()).expect("a loader")
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let value = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        let digit = move |at: usize| match at {
            at if at <= group.len() => DIGITS[(value >> (18 - 6 * at) & 63) as usize],
            _ => b'=',
        };
        (0..4).map(digit).map(char::from).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// That a scene is as it was made.
pub(crate) fn check(scene: &Scene, made: &Made) {
    assert_eq!(problems(scene), [""; 0]);
    for (index, (width, height, rgba)) in made.images.iter().enumerate() {
        let image = scene.texture_image(index).expect("there");
        assert_eq!(image.layout().format(), image::Format::Rgba8);
        assert_eq!(image.layout().size(0), (*width, *height));
        let pixels = image.level(0).expect("the largest");
        assert!(pixels == rgba, "image {index} of {width} x {height}");
        assert_eq!(pixels.as_ptr().addr() % 64, 0, "aligned");
    }
    check_geometry(scene, made);
}

pub(crate) fn check_geometry(scene: &Scene, made: &Made) {
    for (index, positions) in made.positions.iter().enumerate() {
        let elements = scene.accessor(2 * index).expect("loaded");
        assert_eq!(elements.as_slice::<[f32; 3]>().expect("no copy"), positions);
        assert_eq!(&elements.to_f32::<3>().expect("floats"), positions);
        let indices = scene.accessor(2 * index + 1).expect("loaded");
        assert_eq!(
            indices.as_slice::<u16>().expect("no copy"),
            made.indices[index]
        );
        let wide: Vec<u32> = made.indices[index].iter().map(|&at| at.into()).collect();
        assert_eq!(indices.to_indices().expect("indices"), wide);
    }
}

pub(crate) fn problems(scene: &Scene) -> Vec<String> {
    scene.problems().map(ToString::to_string).collect()
}

/// A storage that knows the image codec.
pub(crate) fn storage(backend: Backend) -> Storage {
    let mut options = StorageOptions::default();
    options.backend = backend;
    image::register(&mut options, image::ImageLimits::default());
    Storage::new(options).expect("a storage")
}

/// Pixels with structure: PNG filters of all kinds have something to do.
pub(crate) fn pixels(
    random: &mut fastrand::Rng,
    width: u32,
    height: u32,
    channels: usize,
) -> Vec<u8> {
    let (a, b, noise) = (random.u32(1..7), random.u32(1..7), random.u32(1..32));
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for channel in 0..channels as u32 {
                let smooth = x * a + y * b + channel * 40 + ((x * y) >> 5);
                pixels.push((smooth + random.u32(0..noise)) as u8);
            }
        }
    }
    pixels
}

/// Pixels without edges or noise: what a lossy decoder must come close to.
pub(crate) fn smooth(
    random: &mut fastrand::Rng,
    width: u32,
    height: u32,
    channels: usize,
) -> Vec<u8> {
    let (a, b) = (random.f32() * 0.1, random.f32() * 0.1);
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for channel in 0..channels {
                let wave = (x as f32 * a + y as f32 * b + channel as f32).sin();
                pixels.push((128.0 + wave * 90.0) as u8);
            }
        }
    }
    pixels
}

pub(crate) fn png(color: png::ColorType, width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    let mut encoder = png::Encoder::new(&mut stored, width, height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_filter(png::Filter::Adaptive);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(pixels).expect("rows");
    writer.finish().expect("an end");
    stored
}

/// What a generated scene consists of, for comparison.
pub(crate) struct Made {
    /// RGBA of each image, with its sides.
    pub(crate) images: Vec<(u32, u32, Vec<u8>)>,
    /// `POSITION` of each mesh.
    pub(crate) positions: Vec<Vec<[f32; 3]>>,
    /// Indices of each mesh.
    pub(crate) indices: Vec<Vec<u16>>,
    /// Stored images.
    pngs: Vec<Vec<u8>>,
    /// The buffer: positions and indices of one mesh after the other.
    buffer: Vec<u8>,
    /// Ranges of the buffer: positions, indices, positions, ...
    ranges: Vec<(usize, usize)>,
}

pub(crate) fn make(seed: u64, meshes: usize, images: usize, side: u32) -> Made {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut made = Made {
        images: Vec::new(),
        positions: Vec::new(),
        indices: Vec::new(),
        pngs: Vec::new(),
        buffer: Vec::new(),
        ranges: Vec::new(),
    };
    for _ in 0..meshes {
        let count = random.usize(3..500);
        let number = |random: &mut fastrand::Rng| random.f32() * 2.0 - 1.0;
        let positions: Vec<[f32; 3]> = (0..count)
            .map(|_| std::array::from_fn(|_| number(&mut random)))
            .collect();
        let indices: Vec<u16> = (0..count / 3 * 3)
            .map(|_| random.u16(..count as u16))
            .collect();
        let start = made.buffer.len();
        let bytes = positions
            .iter()
            .flatten()
            .flat_map(|number| number.to_le_bytes());
        made.buffer.extend(bytes);
        made.ranges.push((start, made.buffer.len() - start));
        let start = made.buffer.len();
        made.buffer
            .extend(indices.iter().flat_map(|index| index.to_le_bytes()));
        made.ranges.push((start, made.buffer.len() - start));
        made.buffer.resize(made.buffer.len().next_multiple_of(4), 0);
        made.positions.push(positions);
        made.indices.push(indices);
    }
    for index in 0..images {
        let (width, height) = (random.u32(1..=side), random.u32(1..=side));
        let raw = pixels(
            &mut random,
            width,
            height,
            if index % 2 == 0 { 3 } else { 4 },
        );
        let (color, rgba) = if index % 2 == 0 {
            let widen = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2], 255];
            (png::ColorType::Rgb, raw.chunks(3).flat_map(widen).collect())
        } else {
            (png::ColorType::Rgba, raw.clone())
        };
        made.pngs.push(png(color, width, height, &raw));
        made.images.push((width, height, rgba));
    }
    made
}

impl Made {
    /// The JSON, with images either as names or as views from `first_view` on.
    fn json(&self, buffer: &str, image_views: &str, named: bool) -> String {
        let mut views = String::new();
        let mut accessors = String::new();
        let mut meshes = String::new();
        for (index, (start, len)) in self.ranges.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(
                views,
                r#"{comma}{{"buffer":0,"byteOffset":{start},"byteLength":{len}}}"#
            )
            .expect("a String");
            let (kind, count, shape) = match index % 2 {
                0 => (5126, len / 12, "VEC3"),
                _ => (5123, len / 2, "SCALAR"),
            };
            write!(
                accessors,
                r#"{comma}{{"bufferView":{index},"componentType":{kind},
                    "count":{count},"type":"{shape}"}}"#
            )
            .expect("a String");
            if index % 2 == 1 {
                let comma = if index > 1 { "," } else { "" };
                write!(
                    meshes,
                    r#"{comma}{{"primitives":[{{"attributes":{{"POSITION":{}}},
                        "indices":{index}}}]}}"#,
                    index - 1
                )
                .expect("a String");
            }
        }
        let image = |index: usize| match named {
            true => format!(r#"{{"uri":"tex%20{index}.png"}}"#),
            false => format!(r#"{{"bufferView":{}}}"#, self.ranges.len() + index),
        };
        let list = |item: &dyn Fn(usize) -> String| {
            let items: Vec<String> = (0..self.pngs.len()).map(item).collect();
            items.join(",")
        };
        let images = list(&image);
        let textures = list(&|index| format!(r#"{{"source":{index}}}"#));
        format!(
            r#"{{"asset":{{"version":"2.0"}},"buffers":[{buffer}],
            "bufferViews":[{views}{image_views}],
            "accessors":[{accessors}],"meshes":[{meshes}],"images":[{images}],
            "textures":[{textures}]}}"#
        )
    }

    /// Writes `scene.gltf`, `data.bin` and an image each.
    pub(crate) fn write_loose(&self, folder: &Path) {
        let buffer = format!(r#"{{"uri":"data.bin","byteLength":{}}}"#, self.buffer.len());
        let json = self.json(&buffer, "", true);
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.join(name), bytes).expect("written");
        };
        write("scene.gltf", json.as_bytes());
        write("data.bin", &self.buffer);
        for (index, stored) in self.pngs.iter().enumerate() {
            write(&format!("tex {index}.png"), stored);
        }
    }

    /// The same as one GLB.
    pub(crate) fn glb(&self) -> Vec<u8> {
        let mut binary = self.buffer.clone();
        let mut views = String::new();
        for stored in &self.pngs {
            let start = binary.len();
            binary.extend(stored);
            write!(
                views,
                r#",{{"buffer":0,"byteOffset":{start},"byteLength":{}}}"#,
                stored.len()
            )
            .expect("a String");
            binary.resize(binary.len().next_multiple_of(4), 0);
        }
        let buffer = format!(r#"{{"byteLength":{}}}"#, binary.len());
        glb(self.json(&buffer, &views, false).as_bytes(), Some(&binary))
    }
}

/// A GLB of a JSON text and a binary chunk.
pub(crate) fn glb(json: &[u8], binary: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::from(*b"glTF\x02\0\0\0\0\0\0\0");
    let mut chunk = |kind: &[u8; 4], data: &[u8], fill: u8| {
        let padded = data.len().next_multiple_of(4);
        bytes.extend(u32::try_from(padded).expect("small").to_le_bytes());
        bytes.extend(kind);
        bytes.extend(data);
        bytes.resize(bytes.len() + padded - data.len(), fill);
    };
    chunk(b"JSON", json, b' ');
    if let Some(binary) = binary {
        chunk(b"BIN\0", binary, 0);
    }
    let len = u32::try_from(bytes.len()).expect("small");
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes
}
