//! Scenes load as they were made: pixels, vertices, indices; from every form, over every backend.

mod support;

use millstream::{Backend, Storage};
use millstream_gltf::wait_all;
use support::{Ground, Made, base64, check, loader};

fn backends() -> [Backend; 2] {
    [Backend::Auto, Backend::Threads]
}

#[test]
fn loose_and_binary_scenes_load_as_they_were_made() {
    for backend in backends() {
        let ground = Ground::on(backend);
        for (seed, meshes, images, side) in [(1, 1, 0, 1), (2, 3, 4, 40), (3, 12, 9, 300)] {
            let made = support::make(seed, meshes, images, side);
            let loose = ground.write_loose(&made);
            let binary = ground.write("scene.glb", made.glb());
            let loader = ground.loader();
            for path in [loose, binary] {
                println!(
                    "{:?}, seed {seed}, {}",
                    ground.storage.device_kind(),
                    path.display()
                );
                let load = loader.open(&path).expect("found");
                check(&load.finish().expect("sound"), &made);
            }
        }
    }
}

#[test]
fn the_json_of_a_binary_scene_may_be_longer_than_the_guess() {
    let made = support::make(4, 2, 2, 50);
    let mut stored = made.glb();
    let json_len = u32::from_le_bytes([stored[12], stored[13], stored[14], stored[15]]);
    let extra = 400_000;
    let at = 20 + json_len as usize;
    stored.splice(at..at, std::iter::repeat_n(b' ', extra));
    stored[12..16].copy_from_slice(&(json_len + extra as u32).to_le_bytes());
    let len = stored.len() as u32;
    stored[8..12].copy_from_slice(&len.to_le_bytes());
    let ground = Ground::new();
    let path = ground.write("long.glb", stored);
    check(&ground.load(&path).expect("a scene"), &made);
}

#[test]
fn many_scenes_load_at_once() {
    let ground = Ground::new();
    let loader = ground.loader();
    let made: Vec<Made> = (10..30)
        .map(|seed| support::make(seed, 2, 3, 120))
        .collect();
    let mut loads = Vec::new();
    for (index, made) in made.iter().enumerate() {
        let path = ground.write(&format!("{index}.glb"), made.glb());
        loads.push(loader.open(&path).expect("found"));
    }
    wait_all(&mut loads, None);
    for (load, made) in loads.into_iter().zip(&made) {
        check(&load.finish().expect("sound"), made);
    }
}

#[test]
fn a_storage_without_threads_is_pumped() {
    let mut options = millstream::StorageOptions::default();
    options.threads.pumped = true;
    millstream_gltf::image::register(&mut options, Default::default());
    let storage = Storage::new(options).expect("a storage");
    let made = support::make(5, 2, 2, 60);
    let folder = tempfile::tempdir().expect("a folder");
    made.write_loose(folder.path());
    let loader = loader(&storage);
    let load = loader
        .open(folder.path().join("scene.gltf"))
        .expect("found");
    check(&load.finish().expect("sound"), &made);
}

#[test]
fn data_uris_need_no_second_batch() {
    let stored = support::png(png::ColorType::Rgba, 2, 1, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let json = format!(
        r#"{{"asset":{{"version":"2.0"}},
        "buffers":[{{"uri":"data:;base64,AAAAAAAAgD8=","byteLength":8}}],
        "bufferViews":[{{"buffer":0,"byteLength":8}}],
        "accessors":[{{"bufferView":0,"componentType":5126,"count":2,"type":"SCALAR"}}],
        "images":[{{"uri":"data:image/png;base64,{}"}}]}}"#,
        base64(&stored)
    );
    let ground = Ground::new();
    let path = ground.write("scene.gltf", json);
    let loader = ground.loader();
    let mut load = loader.open(&path).expect("found");
    load.wait();
    assert_eq!(load.progress().batches, 1);
    let scene = load.finish().expect("sound");
    let elements = scene.accessor(0).expect("loaded");
    assert_eq!(elements.to_f32::<1>().expect("floats"), [[0.0], [1.0]]);
    let image = scene.images()[0].get().expect("there");
    assert_eq!(image.pixels(), [1, 2, 3, 4, 5, 6, 7, 8]);
}
