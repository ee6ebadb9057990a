//! Scenes load as they were made: pixels, vertices, indices; from every form, over every backend.

use crate::support::{Ground, Made, base64, check, loader};
use millstream::{Backend, Storage};
use millstream_gltf::{Elements, wait_all};

fn backends() -> [Backend; 2] {
    [Backend::Auto, Backend::Threads]
}

#[test]
fn loose_and_binary_scenes_load_as_they_were_made() {
    for backend in backends() {
        let ground = Ground::on(backend);
        for (seed, meshes, images, side) in [(1, 1, 0, 1), (2, 3, 4, 40), (3, 12, 9, 300)] {
            let made = crate::support::make(seed, meshes, images, side);
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
    let made = crate::support::make(4, 2, 2, 50);
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
        .map(|seed| crate::support::make(seed, 2, 3, 120))
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
    let made = crate::support::make(5, 2, 2, 60);
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
    let stored = crate::support::png(png::ColorType::Rgba, 2, 1, &[1, 2, 3, 4, 5, 6, 7, 8]);
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

/// Loads a buffer with these bytes, all of it one view, and its first accessor.
fn with_elements(bytes: &[u8], stride: &str, accessor: &str, look: impl Fn(Elements<'_>)) {
    let json = format!(
        r#""buffers":[{{"byteLength":{len},"uri":"data:;base64,{}"}}],
        "bufferViews":[{{"buffer":0,"byteLength":{len}{stride}}}],"accessors":[{{{accessor}}}]"#,
        base64(bytes),
        len = bytes.len()
    );
    let scene = Ground::new().load_json(&json).expect("a scene");
    look(scene.accessor(0).expect("right"));
}

#[test]
fn tight_elements_are_seen_in_place() {
    let values: [[f32; 3]; 2] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let numbers = values.as_flattened().iter();
    let bytes: Vec<u8> = numbers.flat_map(|it| it.to_le_bytes()).collect();
    let accessor = r#""bufferView":0,"count":2,"componentType":5126,"type":"VEC3""#;
    with_elements(&bytes, "", accessor, |elements| {
        assert_eq!(elements.as_slice::<[f32; 3]>(), Some(&values[..]));
        assert!(elements.as_slice::<[f32; 4]>().is_none() && elements.to_f32::<2>().is_err());
    });
}

#[test]
fn quantized_strided_and_padded_numbers_become_floats() {
    let accessor =
        r#""bufferView":0,"count":2,"componentType":5120,"type":"VEC2","normalized":true"#;
    let bytes = [127, 0x80, 9, 9, 0, 0xff];
    with_elements(&bytes, r#","byteStride":4"#, accessor, |elements| {
        let floats = elements.to_f32::<2>().expect("right");
        assert_eq!(floats, [[1.0, -1.0], [0.0, -1.0 / 127.0]]);
        assert!(elements.as_slice::<[i8; 2]>().is_none(), "there are gaps");
    });
    // Columns begin at multiples of four bytes.
    let accessor = r#""bufferView":0,"count":2,"componentType":5121,"type":"MAT3""#;
    let bytes: Vec<u8> = (0..24).collect();
    with_elements(&bytes, "", accessor, |elements| {
        let floats = elements.to_f32::<9>().expect("right");
        assert_eq!(floats[0], [0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0]);
    });
}

#[test]
fn sparse_elements_replace_and_wrong_indices_are_errors() {
    let accessor = r#""componentType":5123,"type":"SCALAR","count":4,"sparse":{"count":2,
        "indices":{"bufferView":0,"componentType":5121},"values":{"bufferView":0,"byteOffset":2}}"#;
    with_elements(&[1, 3, 7, 0, 8, 1], "", accessor, |elements| {
        assert_eq!(elements.to_indices().expect("right"), [0, 7, 0, 264]);
        assert!(elements.as_slice::<u16>().is_none());
    });
    for [first, second] in [[1, 4], [3, 1], [1, 1]] {
        with_elements(&[first, second, 7, 0, 8, 1], "", accessor, |elements| {
            assert!(elements.to_indices().is_err(), "{first} {second}");
        });
    }
}
