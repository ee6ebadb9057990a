//! `scene`: loose, in a package, cooked, and broken.

use std::path::Path;

use crate::common::{expect_quiet_success, expect_status, millstream, run};
use serde_json::{Value, json};

/// A scene of one triangle with a texture, as four files; where it is.
fn scene(root: &Path) -> String {
    std::fs::create_dir_all(root).expect("made");
    let vertices: Vec<u8> = [0f32, 0., 0., 1., 0., 0., 0., 1., 0.]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    std::fs::write(root.join("data.bin"), &vertices).expect("written");
    for name in ["red.png", "blue.png"] {
        std::fs::write(root.join(name), png()).expect("written");
    }
    let document = json!({
        "asset": {"version": "2.0"},
        "buffers": [{"uri": "data.bin", "byteLength": 36}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{
            "bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3",
            "min": [0, 0, 0], "max": [1, 1, 0],
        }],
        "images": [{"uri": "red.png"}, {"uri": "blue.png"}],
        "textures": [{"source": 0}, {"source": 1}],
        "materials": [{
            "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}},
            "emissiveTexture": {"index": 1},
        }],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "material": 0}]}],
        "nodes": [{"mesh": 0}],
        "scenes": [{"nodes": [0]}],
    });
    let path = root.join("scene.gltf");
    std::fs::write(&path, document.to_string()).expect("written");
    path.to_str().expect("a plain path").into()
}

/// One white pixel: grey, 8 bits, a stored deflate block.
fn png() -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        bytes.extend((data.len() as u32).to_be_bytes());
        let body = [&kind[..], data].concat();
        bytes.extend(&body);
        bytes.extend(crc32(&body).to_be_bytes());
    };
    chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]);
    // zlib: header, one last stored block of two bytes (filter, pixel), Adler-32.
    let zlib = [0x78, 1, 1, 2, 0, 0xFD, 0xFF, 0, 255, 1, 1, 1, 0];
    chunk(b"IDAT", &zlib);
    chunk(b"IEND", &[]);
    bytes
}

/// Bit by bit: of a few bytes.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

fn document(words: &[&str]) -> Value {
    let output = run(&mut millstream(words));
    expect_quiet_success(&output);
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn a_scene_takes_two_batches_loose_and_one_from_a_package_cooked_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("plain").to_owned();
    let loose = scene(&folder.path().join("in"));
    let trace = at("trace.json");
    let told = document(&["scene", &loose, "--json", "--trace", &trace]);
    assert_eq!((&told["batches"], &told["files"]), (&json!(2), &json!(4)));
    assert_eq!((&told["images"], &told["failed"]), (&json!(2), &json!(0)));
    let trace = std::fs::read(trace).expect("a trace");
    serde_json::from_slice::<Value>(&trace).expect("JSON");
    for (name, cook) in [("plain.mpak", None), ("cooked.mpak", Some("scene"))] {
        let (source, package) = (at("in"), at(name));
        let mut words = vec!["pack", &source, "-o", &package];
        words.extend(cook.map(|_| "--cook"));
        words.extend(cook);
        expect_quiet_success(&run(&mut millstream(&words)));
        let told = document(&["scene", &package, "--json"]);
        let counts = [&told["batches"], &told["images"], &told["failed"]];
        assert_eq!(counts, [&json!(1), &json!(2), &json!(0)], "{name}");
        let file = std::fs::metadata(&package).expect("packed").len();
        assert!(told["stored_bytes"].as_u64() <= Some(file), "{told}");
    }
}

#[test]
#[cfg(not(feature = "gpu"))]
fn a_build_without_vulkan_says_how_to_get_one_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let loose = scene(folder.path());
    let refused = run(&mut millstream(&["scene", &loose, "--gpu"]));
    let errors = expect_status(&refused, 2);
    assert!(errors.contains("--features gpu"), "{errors}");
    let about = document(&["info", "--json"]);
    let refused = about["vulkan"]["refused"].as_str();
    assert!(
        refused.is_some_and(|it| it.contains("--features gpu")),
        "{about}"
    );
}

/// Loose, packed, cooked, and packed for a GPU, the same bytes land in memory and on a device.
#[test]
#[cfg(feature = "gpu")]
fn a_scene_on_a_device_has_the_hashes_of_one_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("plain").to_owned();
    let loose = scene(&folder.path().join("in"));
    let probe = run(&mut millstream(&["scene", &loose, "--gpu"]));
    if !probe.status.success() {
        let errors = String::from_utf8_lossy(&probe.stderr);
        assert!(errors.contains("Vulkan"), "{errors}");
        println!("SKIP: {errors}");
        return;
    }
    let source = at("in");
    let packings = [
        ("plain.mpak", &[][..]),
        ("cooked.mpak", &["--cook", "scene-levels"]),
        ("gpu.mpak", &["--cook", "scene-levels", "--target-gpu"]),
    ];
    let mut files = vec![loose];
    for (name, options) in packings {
        let package = at(name);
        let words = [&["pack", &source, "-o", &package], options].concat();
        expect_quiet_success(&run(&mut millstream(&words)));
        files.push(package);
    }
    for file in &files {
        let host = document(&["scene", file, "--json", "--hash"]);
        let device = document(&["scene", file, "--json", "--hash", "--gpu"]);
        let hashes = host["hashes"].as_array().expect("hashes");
        assert_eq!(hashes.len(), 3, "{file}");
        assert_eq!(hashes[0]["name"], "buffers[0] 0..36");
        assert_eq!(device["hashes"], host["hashes"], "{file}");
        assert_eq!(device["batches"], host["batches"], "{file}");
        assert!(device["gpu"]["device"].is_string() && host["gpu"].is_null());
        let printed = run(&mut millstream(&["scene", file, "--hash", "--gpu"]));
        expect_quiet_success(&printed);
        let first = format!(
            "{}  buffers[0] 0..36\n",
            hashes[0]["hash"].as_str().expect("text")
        );
        let text = String::from_utf8_lossy(&printed.stdout);
        assert!(text.starts_with(&first), "{text}");
    }
    let refused = run(&mut millstream(&["scene", &files[0], "--gpu=99"]));
    let errors = expect_status(&refused, 1);
    assert!(
        errors.contains("the GPU: there is no such Vulkan device"),
        "{errors}"
    );
}

#[test]
fn a_broken_scene_fails_and_the_sound_rest_loads_with_partial() {
    let folder = tempfile::tempdir().expect("a folder");
    let loose = scene(folder.path());
    std::fs::remove_file(folder.path().join("blue.png")).expect("removed");
    let words = ["scene", &loose, "--json"];
    let output = run(&mut millstream(&words));
    expect_status(&output, 1);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("images[1]") && told.contains("blue.png"),
        "{told}"
    );
    let output = run(millstream(&words).arg("--partial"));
    expect_status(&output, 1);
    let told: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!((&told["images"], &told["failed"]), (&json!(1), &json!(1)));
    std::fs::write(&loose, "{\"asset\": {\"version\": \"2.0\"").expect("cut");
    expect_status(&run(&mut millstream(&words)), 1);
    expect_status(&run(&mut millstream(&["scene"])), 2);
}

#[test]
fn a_scene_of_a_package_that_cannot_begin_is_one_failure_among_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, package) = (folder.path().join("in"), folder.path().join("p.mpak"));
    let first = scene(&source);
    std::fs::copy(&first, source.join("second.gltf")).expect("copied");
    // Longer than the JSON of a scene may be.
    let long = std::fs::File::create(source.join("a.gltf")).expect("a file");
    long.set_len(65 << 20).expect("a hole");
    let [source, package] = [&source, &package].map(|path| path.to_str().expect("plain"));
    expect_quiet_success(&run(&mut millstream(&["pack", source, "-o", package])));
    let output = run(&mut millstream(&["scene", package, "--json"]));
    let told = expect_status(&output, 1);
    assert!(told.contains("a.gltf"), "{told}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let counts = [&told["batches"], &told["images"], &told["failed"]];
    assert_eq!(counts, [&json!(2), &json!(4), &json!(1)], "{told}");
}

#[test]
fn what_cannot_be_cooked_is_told_and_packed_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, package) = (folder.path().join("in"), folder.path().join("p.mpak"));
    scene(&source);
    std::fs::write(source.join("blue.png"), &png()[..40]).expect("cut");
    std::fs::write(source.join("a.gltf"), "{").expect("written");
    std::fs::write(source.join("b.glb"), b"glTF\x02\0\0\0").expect("written");
    let [source, package] = [&source, &package].map(|path| path.to_str().expect("plain"));
    let words = ["pack", source, "-o", package, "--cook", "scene"];
    let told = expect_status(&run(&mut millstream(&words)), 0);
    let start = "millstream: --cook: packed as they are: 3 files, the first: a.gltf: ";
    assert!(told.starts_with(start), "{told}");
    assert!(
        told.contains("\n  b.glb: ") && told.contains("\n  blue.png: "),
        "{told}"
    );
    // Each failure names its scene, and the entry that it is about.
    let output = run(&mut millstream(&["scene", package, "--json"]));
    let told = expect_status(&output, 1);
    assert!(told.contains("scene 'a.gltf': "), "{told}");
    assert!(
        told.contains("scene 'scene.gltf': entry 'blue.png': images[1]: "),
        "{told}"
    );
}

#[test]
fn failures_name_the_file_that_they_are_about_and_the_place_in_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let loose = scene(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().expect("plain").to_owned();
    let told = |path: &str| {
        let output = run(&mut millstream(&["scene", path, "--json"]));
        let errors = expect_status(&output, 1);
        (errors, output.stdout)
    };
    let text = std::fs::read_to_string(&loose).expect("read");
    std::fs::write(at("cut.png"), &png()[..40]).expect("written");
    std::fs::write(at("names.gltf"), text.replace("red.png", "cut.png")).expect("written");
    let (errors, _) = told(&at("names.gltf"));
    assert!(
        errors.contains(&format!("first: {}: images[0]: ", at("cut.png"))),
        "{errors}"
    );
    // A name cannot drive the terminal, and is told without loss.
    let forged = text.replace("data.bin", "a\\u001b[31m\\n.bin");
    std::fs::write(at("forged.gltf"), forged).expect("written");
    let (errors, _) = told(&at("forged.gltf"));
    let shown = at(r"a\x1b[31m\x0a.bin: buffers[0]: no such file");
    assert!(errors.contains(&format!("first: {shown}")), "{errors}");
    // JSON that breaks has a byte where it does.
    std::fs::write(at("broken.gltf"), "{\n  \"asset\": {\n  oops").expect("written");
    let (errors, _) = told(&at("broken.gltf"));
    let words = format!("first: {}: at byte 17 of the JSON: ", at("broken.gltf"));
    assert!(
        errors.contains(&words) && !errors.contains("column"),
        "{errors}"
    );
    // What is not there has a document, too; what is no file is told so.
    let (errors, document) = told(&at("none.gltf"));
    let words = format!("first: {}: no such file", at("none.gltf"));
    assert!(errors.contains(&words), "{errors}");
    let document: Value = serde_json::from_slice(&document).expect("one JSON document");
    assert_eq!(document["failed"], 1);
    let (errors, _) = told(folder.path().to_str().expect("plain"));
    assert!(errors.contains("Is a directory"), "{errors}");
    let (errors, _) = told("/dev/zero");
    assert!(
        errors.contains("/dev/zero: a FIFO, a socket or a device"),
        "{errors}"
    );
}
