//! Loads a glTF scene and draws, in words, what is there already while the rest is on its way.
//!
//!     cargo run --release -p millstream-gltf --example scene -- FlightHelmet.gltf
//!
//! Without a name it makes a scene of one triangle and loads that.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use millstream::{Storage, StorageOptions};
use millstream_gltf::{Loader, LoaderOptions, image, wait_all};

const TRIANGLE: &str = r#"{
    "asset": {"version": "2.0"},
    "buffers": [{"byteLength": 36, "uri": "triangle.bin"}],
    "bufferViews": [{"buffer": 0, "byteLength": 36}],
    "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
    "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}]
}"#;

/// A scene in the folder for temporary files.
fn triangle() -> std::io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("millstream-triangle-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let corners = [0f32, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    let bytes: Vec<u8> = corners
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    std::fs::write(folder.join("triangle.bin"), bytes)?;
    std::fs::write(folder.join("triangle.gltf"), TRIANGLE)?;
    Ok(folder.join("triangle.gltf"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let path = named.clone().map_or_else(triangle, Ok)?;

    let mut options = StorageOptions::default();
    image::register(&mut options, image::ImageLimits::default());
    let storage = Storage::new(options)?;
    let loader = Loader::new(&storage, LoaderOptions::default())?;

    // A frame's worth of time for the load, then a frame.
    let mut load = loader.open(&path)?;
    while !load.is_done() {
        wait_all(
            std::slice::from_mut(&mut load),
            Some(Duration::from_millis(16)),
        );
        if let Some(scene) = load.scene() {
            let there = scene.images().iter().filter(|image| image.get().is_some());
            println!(
                "frame: {} of {} images, drawable: {}",
                there.count(),
                scene.images().len(),
                load.is_drawable()
            );
        }
    }
    for event in load.events() {
        println!(
            "{:?} after {:?}: {} bytes",
            event.what, event.at, event.bytes
        );
    }
    let scene = load.finish()?;
    for primitive in scene
        .model()
        .meshes
        .iter()
        .flatten()
        .flat_map(|mesh| &mesh.primitives)
    {
        for (name, accessor) in &primitive.as_ref().map_err(Clone::clone)?.attributes {
            let elements = scene.accessor(*accessor)?;
            let copied = elements.as_slice::<[f32; 3]>().is_none();
            println!("{name}: {} elements, copied: {copied}", elements.count());
        }
    }
    if named.is_none() {
        std::fs::remove_dir_all(path.parent().unwrap_or(&path))?;
    }
    Ok(())
}
