//! Scenes made from a seed, kept in the corpus.

use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde_json::json;

use crate::prelude::*;
use crate::threads;

/// Version of the generator; each version makes new files.
const VERSION: u32 = 3;
const VERTEX_BYTES: usize = 200_000;
const WAVES: usize = 6;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(format!("the scene cannot be made: {error}"))
}

/// Generates a texture as artists make them: large shapes, fine grain, some of it flat.
fn pixels(random: &mut Rng, side: u32, channels: usize) -> Vec<u8> {
    let waves: [[f32; 4]; WAVES] = std::array::from_fn(|_| std::array::from_fn(|_| random.f32()));
    let grain = random.u32(4..24);
    // sin(a + b) = sin(a) cos(b) + cos(a) sin(b): columns and rows are tabulated.
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
    let color = if rgba {
        png::ColorType::Rgba
    } else {
        png::ColorType::Rgb
    };
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    encoder.set_filter(png::Filter::Adaptive);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&raw).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(stored)
}

pub(crate) struct Scene {
    pub(crate) folder: PathBuf,
    pub(crate) gltf: PathBuf,
}

pub(super) const NAME: &str = "scene.gltf";

pub(crate) fn scene(corpus: &Path, images: usize, side: u32) -> Result<Scene> {
    let folder = corpus.join(format!("scene-{VERSION}-{images}x{side}"));
    let gltf = folder.join(NAME);
    if gltf.exists() {
        return Ok(Scene { folder, gltf });
    }
    make_folder(&folder)?;
    let make = |(): &mut (), index: usize| {
        let mut random = Rng::with_seed(u64::from(side) << 8 | index as u64);
        let stored = png(&mut random, side, index % 3 == 2)?;
        fs::write(folder.join(format!("{index}.png")), stored).map_err(failed)
    };
    threads::each(threads::cores(), 0..images, || (), make)?;
    let mut random = Rng::with_seed(u64::from(side));
    let vertices = VERTEX_BYTES * images / 12;
    let floats = (0..vertices * 3).flat_map(|_| random.f32().to_le_bytes());
    fs::write(folder.join("data.bin"), floats.collect::<Vec<u8>>()).map_err(failed)?;
    let uris = (0..images).map(|image| json!({ "uri": format!("{image}.png") }));
    let textures = (0..images).map(|image| json!({ "source": image }));
    let scene = json!({
        "asset": { "version": "2.0" },
        "buffers": [{ "uri": "data.bin", "byteLength": vertices * 12 }],
        "bufferViews": [{ "buffer": 0, "byteLength": vertices * 12 }],
        "accessors": [{
            "bufferView": 0, "componentType": 5126, "count": vertices, "type": "VEC3",
            "min": [0, 0, 0], "max": [1, 1, 1]
        }],
        "meshes": [{ "primitives": [{ "attributes": { "POSITION": 0 } }] }],
        "nodes": [{ "mesh": 0 }],
        "scenes": [{ "nodes": [0] }],
        "images": uris.collect::<Vec<_>>(),
        "textures": textures.collect::<Vec<_>>(),
    });
    // Last, so that a scene whose file exists is complete.
    fs::write(&gltf, scene.to_string()).map_err(failed)?;
    Ok(Scene { folder, gltf })
}
