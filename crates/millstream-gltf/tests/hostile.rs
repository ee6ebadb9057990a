//! Broken and hostile scenes: a clear error that names the place, and the sound rest still loads.

mod support;

use std::path::Path;

use millstream::{Backend, Storage};
use millstream_gltf::model::Model;
use millstream_gltf::{Error, ErrorKind, Loader, LoaderOptions, Scene};

fn load(storage: &Storage, path: &Path) -> Result<Scene, Error> {
    let loader = Loader::new(storage, LoaderOptions::default()).expect("a loader");
    loader.open(path)?.finish_partial()
}

/// A document with this inside, and its first mistake.
fn first_mistake(inside: &str) -> Option<(ErrorKind, String)> {
    let json = format!(r#"{{"asset":{{"version":"2.0"}},{inside}}}"#);
    let model = match Model::parse(json.as_bytes()) {
        Ok(model) => model,
        Err(error) => return Some((error.kind(), error.place().to_owned())),
    };
    let first = model.problems().next();
    first.map(|error| (error.kind(), error.place().to_owned()))
}

#[test]
fn every_mistake_in_the_json_is_named_by_its_place() {
    use ErrorKind::{Invalid, Limit, Refused, Unsupported};
    let base = r#""buffers":[{"byteLength":64}],"bufferViews":[{"buffer":0,"byteLength":64}],"#;
    let with = |more: &str| format!("{base}{more}");
    let accessor = |more: &str| {
        with(&format!(
            r#""accessors":[{{"bufferView":0,"componentType":5126,"type":"VEC3",{more}}}]"#
        ))
    };
    let table = [
        (r#""buffers":{}"#.to_owned(), Invalid, "buffers"),
        (r#""buffers":[7]"#.to_owned(), Invalid, "buffers[0]"),
        (
            r#""buffers":[{}]"#.to_owned(),
            Invalid,
            "buffers[0].byteLength",
        ),
        (
            r#""buffers":[{"byteLength":-1}]"#.to_owned(),
            Invalid,
            "buffers[0].byteLength",
        ),
        (
            r#""buffers":[{"byteLength":0}]"#.to_owned(),
            Invalid,
            "buffers[0].byteLength",
        ),
        (
            r#""buffers":[{"byteLength":9,"uri":7}]"#.to_owned(),
            Invalid,
            "buffers[0].uri",
        ),
        (
            r#""buffers":[{"byteLength":9,"uri":"../a"}]"#.to_owned(),
            Refused,
            "buffers[0].uri",
        ),
        (
            r#""images":[{"uri":"https://host/a.png"}]"#.to_owned(),
            Refused,
            "images[0].uri",
        ),
        (r#""images":[{}]"#.to_owned(), Invalid, "images[0].uri"),
        (
            r#""images":[{"bufferView":0}]"#.to_owned(),
            Invalid,
            "images[0].bufferView",
        ),
        (
            with(r#""images":[{"bufferView":1}]"#),
            Invalid,
            "images[0].bufferView",
        ),
        (
            r#""bufferViews":[{"buffer":0,"byteLength":1}]"#.to_owned(),
            Invalid,
            "bufferViews[0].buffer",
        ),
        (
            r#""buffers":[{"byteLength":9}],
            "bufferViews":[{"buffer":0,"byteOffset":5,"byteLength":5}]"#
                .to_owned(),
            Invalid,
            "bufferViews[0].byteLength",
        ),
        (
            r#""buffers":[{"byteLength":9}],
            "bufferViews":[{"buffer":0,"byteOffset":18446744073709551615,"byteLength":5}]"#
                .to_owned(),
            Invalid,
            "bufferViews[0].byteLength",
        ),
        (accessor(r#""count":6"#), Invalid, "accessors[0].count"),
        (accessor(r#""count":0"#), Invalid, "accessors[0].count"),
        (
            accessor(r#""count":18446744073709551615"#),
            Invalid,
            "accessors[0].count",
        ),
        (
            accessor(r#""count":1,"byteOffset":2"#),
            Invalid,
            "accessors[0].byteOffset",
        ),
        (
            accessor(r#""count":1,"byteOffset":60"#),
            Invalid,
            "accessors[0].count",
        ),
        (
            accessor(r#""count":1,"sparse":{"count":2}"#),
            Invalid,
            "accessors[0].sparse.count",
        ),
        (
            accessor(r#""count":1,"sparse":{"count":1}"#),
            Invalid,
            "accessors[0].sparse.indices",
        ),
        (
            r#""accessors":[{"componentType":1,"type":"VEC3","count":1}]"#.to_owned(),
            Invalid,
            "accessors[0].componentType",
        ),
        (
            r#""accessors":[{"componentType":5126,"type":"VEC9","count":1}]"#.to_owned(),
            Invalid,
            "accessors[0].type",
        ),
        (
            r#""accessors":[{"componentType":5126,"type":"MAT4","count":2000000000}]"#.to_owned(),
            Limit,
            "accessors[0].count",
        ),
        (
            r#""textures":[{"source":0}]"#.to_owned(),
            Invalid,
            "textures[0].source",
        ),
        (
            r#""materials":[{"normalTexture":{"index":3}}]"#.to_owned(),
            Invalid,
            "materials[0].normalTexture.index",
        ),
        (
            r#""meshes":[{"primitives":[{"attributes":{"POSITION":4}}]}]"#.to_owned(),
            Invalid,
            "meshes[0].primitives[0].attributes.POSITION",
        ),
        (
            r#""meshes":[{"primitives":[{"extensions":
            {"KHR_draco_mesh_compression":{}}}]}]"#
                .to_owned(),
            Unsupported,
            "meshes[0].primitives[0].extensions.KHR_draco_mesh_compression",
        ),
        (
            r#""nodes":[{"children":[0]}]"#.to_owned(),
            Invalid,
            "nodes[0].children",
        ),
        (
            r#""nodes":[{"children":[1]},{"children":[2]},{"children":[0]}]"#.to_owned(),
            Invalid,
            "nodes[0].children",
        ),
        (
            r#""nodes":[{"children":[2]},{"children":[2]},{}]"#.to_owned(),
            Invalid,
            "nodes[1].children[0]",
        ),
        (
            r#""nodes":[{"children":[9]}]"#.to_owned(),
            Invalid,
            "nodes[0].children[0]",
        ),
        (
            r#""nodes":[{"mesh":0}]"#.to_owned(),
            Invalid,
            "nodes[0].mesh",
        ),
        (
            r#""nodes":[{"matrix":[1]}]"#.to_owned(),
            Invalid,
            "nodes[0].matrix",
        ),
        (
            r#""scenes":[{"nodes":[0]}]"#.to_owned(),
            Invalid,
            "scenes[0].nodes[0]",
        ),
        (r#""scene":3"#.to_owned(), Invalid, "scene"),
    ];
    for (inside, kind, place) in table {
        let found = first_mistake(&inside);
        assert_eq!(found, Some((kind, place.to_owned())), "{inside}");
    }
    assert_eq!(
        first_mistake(r#""unknown":[1],"extensions":{"X":{"y":2}}"#),
        None
    );
}

#[test]
fn what_is_no_gltf_2_is_refused() {
    for (json, kind) in [
        ("", ErrorKind::Malformed),
        ("{", ErrorKind::Malformed),
        ("[]", ErrorKind::Invalid),
        ("{}", ErrorKind::Malformed),
        (r#"{"asset":{}}"#, ErrorKind::Invalid),
        (r#"{"asset":{"version":"1.0"}}"#, ErrorKind::Unsupported),
        (
            r#"{"asset":{"version":"2.1","minVersion":"2.1"}}"#,
            ErrorKind::Unsupported,
        ),
    ] {
        let error = Model::parse(json.as_bytes()).expect_err(json);
        assert_eq!(error.kind(), kind, "{json}: {error}");
    }
    let deep = "[".repeat(100_000);
    assert!(Model::parse(deep.as_bytes()).is_err());
}

#[test]
fn the_sound_rest_of_a_broken_scene_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = support::make(31, 3, 4, 60);
    made.write_loose(folder.path());
    let path = folder.path().join("scene.gltf");
    std::fs::remove_file(folder.path().join("tex 1.png")).expect("there");
    let damaged = folder.path().join("tex 2.png");
    let mut stored = std::fs::read(&damaged).expect("read");
    let len = stored.len();
    stored.truncate(len / 2);
    std::fs::write(&damaged, stored).expect("written");
    let storage = support::storage(Backend::Auto);
    let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
    let error = loader
        .open(&path)
        .expect("found")
        .finish()
        .expect_err("broken");
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Missing, "images[1]")
    );
    let scene = load(&storage, &path).expect("the rest");
    let places: Vec<&str> = scene.problems().map(Error::place).collect();
    assert_eq!(places, ["images[1]", "images[2]"]);
    for index in [0, 3] {
        let image = scene.texture_image(index).expect("sound");
        assert!(image.pixels() == made.images[index].2);
    }
    support::check_geometry(&scene, &made);

    std::fs::write(folder.path().join("data.bin"), [0; 100]).expect("written");
    let scene = load(&storage, &path).expect("the rest");
    assert!(scene.problems().any(|error| error.place() == "buffers[0]"));
    assert!(scene.accessor(0).is_err());
    assert!(scene.texture_image(0).is_some());
}

#[test]
fn image_bombs_are_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    // A header of 60,000 x 60,000 pixels over a few bytes of data.
    let mut bomb = support::png(png::ColorType::Rgb, 1, 1, &[1, 2, 3]);
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    std::fs::write(folder.path().join("bomb.png"), bomb).expect("written");
    let json = r#"{"asset":{"version":"2.0"},"images":[{"uri":"bomb.png"}]}"#;
    let path = folder.path().join("scene.gltf");
    std::fs::write(&path, json).expect("written");
    let storage = support::storage(Backend::Auto);
    let scene = load(&storage, &path).expect("a scene");
    let error = scene.problems().next().expect("refused");
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Image, "images[0]")
    );
}

#[test]
fn the_memory_of_a_scene_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = support::make(32, 1, 6, 200);
    made.write_loose(folder.path());
    let storage = support::storage(Backend::Auto);
    let mut options = LoaderOptions::default();
    options.memory_max = 150_000;
    let loader = Loader::new(&storage, options).expect("a loader");
    let load = loader
        .open(folder.path().join("scene.gltf"))
        .expect("found");
    let scene = load.finish_partial().expect("a scene");
    let memory: usize = scene
        .images()
        .iter()
        .filter_map(|image| image.get())
        .map(|image| image.memory_bytes())
        .sum();
    assert!(memory <= 150_000);
    assert!(
        scene
            .problems()
            .all(|error| error.kind() == ErrorKind::Limit)
    );
    assert!(scene.problems().count() > 0);
}

#[test]
fn cut_and_changed_glbs_never_hang_or_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = support::make(33, 2, 2, 30).glb();
    let storage = support::storage(Backend::Auto);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..150 {
        let mut bytes = whole.clone();
        if random.bool() {
            bytes.truncate(random.usize(..bytes.len()));
        }
        for _ in 0..random.usize(0..4) {
            if !bytes.is_empty() {
                let at = random.usize(..bytes.len().min(4000));
                bytes[at] = random.u8(..);
            }
        }
        let path = folder.path().join(format!("{round}.glb"));
        std::fs::write(&path, &bytes).expect("written");
        if let Ok(scene) = load(&storage, &path) {
            for accessor in 0..scene.model().accessors.len() {
                if let Ok(elements) = scene.accessor(accessor) {
                    let _ = (
                        elements.packed(),
                        elements.to_indices(),
                        elements.to_f32::<3>(),
                    );
                }
            }
        }
    }
}

#[test]
fn cancelling_ends_a_load_and_keeps_what_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = support::make(34, 3, 8, 400);
    made.write_loose(folder.path());
    let storage = support::storage(Backend::Auto);
    let loader = Loader::new(&storage, LoaderOptions::default()).expect("a loader");
    for after in [0, 1, 3, 10] {
        let mut load = loader
            .open(folder.path().join("scene.gltf"))
            .expect("found");
        let time = Some(std::time::Duration::from_millis(after));
        millstream_gltf::wait_all(std::slice::from_mut(&mut load), time);
        load.cancel();
        match load.finish_partial() {
            Ok(scene) => {
                for problem in scene.problems() {
                    assert_eq!(problem.kind(), ErrorKind::Cancelled, "{problem}");
                }
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        }
    }
}
