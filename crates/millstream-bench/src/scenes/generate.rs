//! Scenes made from a seed, kept in the corpus.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::error::{Error, Result};
use crate::files::replace;
use crate::threads;

/// Names the generator; another one makes other files.
const VERSION: u32 = 2;
/// What names of generated folders begin with.
pub(super) const PREFIX: &str = "scene-";
pub(super) const GLB_PREFIX: &str = "glbs-";
/// Bytes of vertices for each image.
const VERTEX_BYTES: usize = 200_000;
/// Side of a GLB's image.
const GLB_SIDE: u32 = 384;
/// Shapes of a texture: sines along a direction.
const WAVES: usize = 6;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(format!("the scene cannot be made: {error}"))
}

/// A texture as artists make them: large shapes, fine grain, some of it flat.
fn pixels(random: &mut Rng, side: u32, channels: usize) -> Vec<u8> {
    let waves: [[f32; 4]; WAVES] = std::array::from_fn(|_| std::array::from_fn(|_| random.f32()));
    let grain = random.u32(4..24);
    // sin(a + b) = sin(a) cos(b) + cos(a) sin(b): columns and rows are looked up.
    let along = |of: &dyn Fn(f32, &[f32; 4]) -> f32| -> Vec<[(f32, f32); WAVES]> {
        let at = |place: u32| waves.map(|wave| of(place as f32 / side as f32, &wave).sin_cos());
        (0..side).map(at).collect()
    };
    let rows = along(&|v, wave| v * wave[1] * 40.0 + wave[2] * 6.0);
    let columns: Vec<_> = (0..channels)
        .map(|channel| along(&|u, wave| u * wave[0] * 40.0 + channel as f32 * wave[3]))
        .collect();
    let mut pixels = Vec::with_capacity(side as usize * side as usize * channels);
    for (y, row) in rows.iter().enumerate() {
        for x in 0..side as usize {
            let flat = (x / 64 + y / 64) % 5 == 0;
            for column in &columns {
                let both = column[x].iter().zip(row);
                let shape: f32 = both.map(|(a, b)| a.0 * b.1 + a.1 * b.0).sum();
                let noise = if flat { 0 } else { random.u32(0..grain) };
                pixels.push((128.0 + shape * 18.0) as u8 ^ (noise as u8 & 0x1f));
            }
        }
    }
    pixels
}

fn png(random: &mut Rng, side: u32, rgba: bool) -> Result<Vec<u8>> {
    let raw = pixels(random, side, if rgba { 4 } else { 3 });
    let mut stored = Vec::new();
    let mut encoder = png::Encoder::new(&mut stored, side, side);
    encoder.set_color(if rgba {
        png::ColorType::Rgba
    } else {
        png::ColorType::Rgb
    });
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    encoder.set_filter(png::Filter::Adaptive);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&raw).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(stored)
}

/// The JSON of a scene with one mesh and these images.
fn json(buffer: &str, views: &str, images: &str, count: usize, vertices: usize) -> String {
    let textures: Vec<String> = (0..count)
        .map(|image| format!(r#"{{"source":{image}}}"#))
        .collect();
    format!(
        r#"{{"asset":{{"version":"2.0"}},"buffers":[{buffer}],"bufferViews":[{{"buffer":0,
        "byteLength":{}}}{views}],"accessors":[{{"bufferView":0,"componentType":5126,
        "count":{vertices},"type":"VEC3","min":[0,0,0],"max":[1,1,1]}}],"meshes":[{{"primitives":[
        {{"attributes":{{"POSITION":0}}}}]}}],"nodes":[{{"mesh":0}}],"scenes":[{{"nodes":[0]}}],
        "images":[{images}],"textures":[{}]}}"#,
        vertices * 12,
        textures.join(",")
    )
}

fn vertices(random: &mut Rng, bytes: usize) -> Vec<u8> {
    let count = bytes / 12;
    (0..count * 3)
        .flat_map(|_| random.f32().to_le_bytes())
        .collect()
}

/// Makes a loose scene, unless it is there; gives its `.gltf`.
pub(crate) fn scene(corpus: &Path, images: usize, side: u32) -> Result<PathBuf> {
    let folder = corpus.join(format!("{PREFIX}{VERSION}-{images}x{side}"));
    let gltf = folder.join("scene.gltf");
    if gltf.exists() {
        return Ok(gltf);
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    on_all_cores(images, &|index| {
        let mut random = Rng::with_seed(u64::from(side) << 8 | index as u64);
        let stored = png(&mut random, side, index % 3 == 2)?;
        fs::write(folder.join(format!("{index}.png")), stored).map_err(failed)
    })?;
    let mut random = Rng::with_seed(u64::from(side));
    let data = vertices(&mut random, VERTEX_BYTES * images);
    fs::write(folder.join("data.bin"), &data).map_err(failed)?;
    let buffer = format!(r#"{{"uri":"data.bin","byteLength":{}}}"#, data.len());
    let uris: Vec<String> = (0..images)
        .map(|image| format!(r#"{{"uri":"{image}.png"}}"#))
        .collect();
    let text = json(&buffer, "", &uris.join(","), images, data.len() / 12);
    // Last, so that a scene that is there is whole.
    fs::write(&gltf, text).map_err(failed)?;
    Ok(gltf)
}

/// Does `work` for all numbers below `count`, on all cores.
fn on_all_cores(count: usize, work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    threads::each(threads::cores(), 0..count, || (), |(), index| work(index)).map(drop)
}

/// Makes GLBs of three images each, unless they are there.
pub(crate) fn glbs(corpus: &Path, count: usize) -> Result<Vec<PathBuf>> {
    let folder = corpus.join(format!("{GLB_PREFIX}{VERSION}"));
    fs::create_dir_all(&folder).map_err(failed)?;
    let paths: Vec<PathBuf> = (0..count)
        .map(|index| folder.join(format!("{index}.glb")))
        .collect();
    on_all_cores(count, &|index| match paths[index].exists() {
        true => Ok(()),
        false => one_glb(index as u64, &paths[index]),
    })?;
    Ok(paths)
}

fn one_glb(seed: u64, path: &Path) -> Result<()> {
    let mut random = Rng::with_seed(seed);
    let mut binary = vertices(&mut random, VERTEX_BYTES / 4);
    let vertex_count = binary.len() / 12;
    let (mut views, mut images) = (String::new(), Vec::new());
    for image in 0..3 {
        let stored = png(&mut random, GLB_SIDE, false)?;
        let (start, len) = (binary.len(), stored.len());
        write!(
            views,
            r#",{{"buffer":0,"byteOffset":{start},"byteLength":{len}}}"#
        )
        .map_err(failed)?;
        images.push(format!(
            r#"{{"bufferView":{},"mimeType":"image/png"}}"#,
            image + 1
        ));
        binary.extend(stored);
        binary.resize(binary.len().next_multiple_of(4), 0);
    }
    let buffer = format!(r#"{{"byteLength":{}}}"#, binary.len());
    let text = json(&buffer, &views, &images.join(","), 3, vertex_count);
    replace(path, &glb(text.as_bytes(), &binary))
}

fn glb(json: &[u8], binary: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(*b"glTF\x02\0\0\0\0\0\0\0");
    for (kind, data, fill) in [(b"JSON", json, b' '), (b"BIN\0", binary, 0)] {
        let padded = data.len().next_multiple_of(4);
        bytes.extend((padded as u32).to_le_bytes());
        bytes.extend(kind);
        bytes.extend(data);
        bytes.resize(bytes.len() + padded - data.len(), fill);
    }
    let total = bytes.len() as u32;
    bytes[8..12].copy_from_slice(&total.to_le_bytes());
    bytes
}
