//! Broken and hostile scenes: a clear error that names the place, and the sound rest still loads.

use crate::support::Ground;
use millstream_gltf::model::Model;
use millstream_gltf::{Error, ErrorKind, Loader, LoaderOptions};

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
fn primitives_are_bounded_like_other_elements() {
    // Each of them would be an error, which is far larger than its text.
    let primitives = vec!["0"; (1 << 20) + 1].join(",");
    let inside = format!(r#""meshes":[{{"primitives":[{primitives}]}}]"#);
    let place = String::from("meshes[0].primitives");
    assert_eq!(first_mistake(&inside), Some((ErrorKind::Limit, place)));
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
    for (inside, kind, place) in [
        (r#""buffers":{}"#, Invalid, "buffers"),
        (r#""buffers":[7]"#, Invalid, "buffers[0]"),
        (r#""buffers":[{}]"#, Invalid, "buffers[0]"),
        (
            r#""buffers":[{"byteLength":-1}]"#,
            Invalid,
            "buffers[0].byteLength",
        ),
        (
            r#""buffers":[{"byteLength":0}]"#,
            Invalid,
            "buffers[0].byteLength",
        ),
        (
            r#""buffers":[{"byteLength":9,"uri":7}]"#,
            Invalid,
            "buffers[0].uri",
        ),
        (
            r#""buffers":[{"byteLength":9,"uri":"../a"}]"#,
            Refused,
            "buffers[0].uri",
        ),
        (
            r#""images":[{"uri":"https://host/a.png"}]"#,
            Refused,
            "images[0].uri",
        ),
        (r#""images":[{}]"#, Invalid, "images[0]"),
        (
            r#""images":[{"bufferView":0}]"#,
            Invalid,
            "images[0].bufferView",
        ),
        (
            &with(r#""images":[{"bufferView":1}]"#),
            Invalid,
            "images[0].bufferView",
        ),
        (
            r#""bufferViews":[{"buffer":0,"byteLength":1}]"#,
            Invalid,
            "bufferViews[0].buffer",
        ),
        (
            r#""buffers":[{"byteLength":9}],
            "bufferViews":[{"buffer":0,"byteOffset":5,"byteLength":5}]"#,
            Invalid,
            "bufferViews[0].byteLength",
        ),
        (
            r#""buffers":[{"byteLength":9}],
            "bufferViews":[{"buffer":0,"byteOffset":18446744073709551615,"byteLength":5}]"#,
            Invalid,
            "bufferViews[0].byteLength",
        ),
        (&accessor(r#""count":6"#), Invalid, "accessors[0].count"),
        (&accessor(r#""count":0"#), Invalid, "accessors[0].count"),
        (
            &accessor(r#""count":18446744073709551615"#),
            Invalid,
            "accessors[0].count",
        ),
        (
            &accessor(r#""count":1,"byteOffset":2"#),
            Invalid,
            "accessors[0].byteOffset",
        ),
        (
            &accessor(r#""count":1,"byteOffset":60"#),
            Invalid,
            "accessors[0].count",
        ),
        (
            &accessor(
                r#""count":1,"sparse":{"count":2,"indices":{"bufferView":0,"componentType":5121},
                "values":{"bufferView":0}}"#,
            ),
            Invalid,
            "accessors[0].sparse.count",
        ),
        (
            &accessor(r#""count":1,"sparse":{"count":1}"#),
            Invalid,
            "accessors[0].sparse",
        ),
        (
            r#""accessors":[{"componentType":1,"type":"VEC3","count":1}]"#,
            Invalid,
            "accessors[0].componentType",
        ),
        (
            r#""accessors":[{"componentType":5126,"type":"VEC9","count":1}]"#,
            Invalid,
            "accessors[0].type",
        ),
        (
            r#""accessors":[{"componentType":5126,"type":"MAT4","count":2000000000}]"#,
            Limit,
            "accessors[0].count",
        ),
        (
            r#""textures":[{"source":0}]"#,
            Invalid,
            "textures[0].source",
        ),
        (
            r#""materials":[{"normalTexture":{"index":3}}]"#,
            Invalid,
            "materials[0].normalTexture.index",
        ),
        (
            r#""meshes":[{"primitives":[{"attributes":{"POSITION":4}}]}]"#,
            Invalid,
            "meshes[0].primitives[0].attributes.POSITION",
        ),
        (
            r#""extensionsRequired":["KHR_draco_mesh_compression"],"meshes":[{"primitives":[
            {"extensions":{"KHR_draco_mesh_compression":{}}}]}]"#,
            Unsupported,
            "meshes[0].primitives[0].extensions.KHR_draco_mesh_compression",
        ),
        (
            r#""textures":[{"sampler":0}]"#,
            Invalid,
            "textures[0].sampler",
        ),
        (
            r#""samplers":[{"wrapS":"repeat"}]"#,
            Invalid,
            "samplers[0].wrapS",
        ),
        (
            r#""nodes":[{"children":[0]}]"#,
            Invalid,
            "nodes[0].children",
        ),
        (
            r#""nodes":[{"children":[1]},{"children":[2]},{"children":[0]}]"#,
            Invalid,
            "nodes[0].children",
        ),
        (
            r#""nodes":[{"children":[2]},{"children":[2]},{}]"#,
            Invalid,
            "nodes[1].children[0]",
        ),
        (
            r#""nodes":[{"children":[9]}]"#,
            Invalid,
            "nodes[0].children[0]",
        ),
        (r#""nodes":[{"mesh":0}]"#, Invalid, "nodes[0].mesh"),
        (r#""nodes":[{"matrix":[1]}]"#, Invalid, "nodes[0].matrix"),
        (
            r#""nodes":[{"scale":[1,1,1,1]}]"#,
            Invalid,
            "nodes[0].scale",
        ),
        (r#""scenes":[{"nodes":[0]}]"#, Invalid, "scenes[0].nodes[0]"),
        (r#""scene":3"#, Invalid, "scene"),
        (r#""scene":"hello""#, Invalid, "scene"),
        (
            r#""meshes":[{"primitives":{}}]"#,
            Invalid,
            "meshes[0].primitives",
        ),
        (
            r#""materials":[{"normalTexture":{"scale":1}}]"#,
            Invalid,
            "materials[0].normalTexture.index",
        ),
        (
            r#""textures":[{}],"materials":[{"normalTexture":{"index":0,"texCoord":-1}}]"#,
            Invalid,
            "materials[0].normalTexture.texCoord",
        ),
        (
            r#""materials":[{"normalTexture":{"index":-1}}]"#,
            Invalid,
            "materials[0].normalTexture.index",
        ),
        (
            r#""materials":[{"pbrMetallicRoughness":{"baseColorTexture":7}}]"#,
            Invalid,
            "materials[0].pbrMetallicRoughness.baseColorTexture",
        ),
    ] {
        let found = first_mistake(inside);
        assert_eq!(found, Some((kind, place.to_owned())), "{inside}");
    }
    assert_eq!(
        first_mistake(r#""unknown":[1],"extensions":{"X":{"y":2}}"#),
        None
    );
}

/// What serde derives would take an array of an object's fields for the object.
#[test]
fn arrays_in_the_place_of_objects_are_errors_of_that_place() {
    let error = Model::parse(br#"{"asset":["2.0"]}"#).expect_err("an array");
    assert_eq!((error.kind(), error.place()), (ErrorKind::Invalid, "asset"));
    let accessor = |sparse: &str| {
        format!(
            r#""accessors":[{{"componentType":5126,"type":"VEC3","count":1,"sparse":{sparse}}}]"#
        )
    };
    for (inside, place) in [
        (r#""buffers":[[8]]"#, "buffers[0]"),
        (
            r#""buffers":[{"byteLength":8,"extensions":[[true]]}]"#,
            "buffers[0].extensions",
        ),
        (
            r#""buffers":[{"byteLength":8,"extensions":{"EXT_meshopt_compression":[true]}}]"#,
            "buffers[0].extensions.EXT_meshopt_compression",
        ),
        (r#""bufferViews":[[0,0,8,4]]"#, "bufferViews[0]"),
        (
            r#""accessors":[[0,0,5126,false,1,"VEC3",null]]"#,
            "accessors[0]",
        ),
        (&accessor("[1,{},{}]"), "accessors[0].sparse"),
        (
            &accessor(r#"{"count":1,"indices":[0,0,5121]}"#),
            "accessors[0].sparse.indices",
        ),
        (
            &accessor(r#"{"count":1,"values":[0,0]}"#),
            "accessors[0].sparse.values",
        ),
        (r#""images":[["a.png",null]]"#, "images[0]"),
        (r#""samplers":[[9728,9728,1,1]]"#, "samplers[0]"),
        (r#""textures":[[null,null,{}]]"#, "textures[0]"),
        (
            r#""textures":[{"extensions":{"EXT_texture_webp":[0]}}]"#,
            "textures[0].extensions.EXT_texture_webp",
        ),
        (r#""materials":[[]]"#, "materials[0]"),
        (r#""meshes":[[[]]]"#, "meshes[0]"),
        (
            r#""meshes":[{"primitives":[[{},null,null,4,{}]]}]"#,
            "meshes[0].primitives[0]",
        ),
        (
            r#""meshes":[{"primitives":[{"extensions":[null]}]}]"#,
            "meshes[0].primitives[0].extensions",
        ),
        (r#""nodes":[[null,[]]]"#, "nodes[0]"),
        (r#""scenes":[[[]]]"#, "scenes[0]"),
    ] {
        let expected = Some((ErrorKind::Invalid, place.to_owned()));
        assert_eq!(first_mistake(inside), expected, "{inside}");
    }
}

#[test]
fn nodes_scenes_and_samplers_are_read() {
    let json = r#"{"asset":{"version":"2.0"},"images":[{"uri":"a.png"}],
        "samplers":[{"magFilter":9729,"wrapS":33071}],"textures":[{"source":0,"sampler":0}],
        "materials":[{"normalTexture":{"index":0,"texCoord":1}}],
        "nodes":[{"children":[1],"translation":[1,2.5,3]},{"rotation":[1,0,0,0]},
            {"children":[3,1]},{"scale":[2,2,2]}],
        "scenes":[{},{"nodes":[0,3]}],"scene":1}"#;
    let model = Model::parse(json.as_bytes()).expect("a model");
    let sampler = model.samplers[0].as_ref().expect("right");
    let filters = (sampler.mag_filter, sampler.min_filter);
    assert_eq!(
        (filters, sampler.wrap_s, sampler.wrap_t),
        ((Some(9729), None), 33071, 10497)
    );
    assert_eq!(model.textures[0].as_ref().expect("right").sampler, Some(0));
    let material = model.materials[0].as_ref().expect("right");
    assert_eq!(material.textures[0].coordinates, 1);
    let node = |index: usize| model.nodes[index].as_ref().expect("right");
    assert_eq!((&node(0).children[..], node(0).mesh), (&[1][..], None));
    assert_eq!(
        (node(0).translation, node(0).rotation),
        ([1.0, 2.5, 3.0], [0.0, 0.0, 0.0, 1.0])
    );
    assert_eq!(
        (node(1).rotation, node(1).scale),
        ([1.0, 0.0, 0.0, 0.0], [1.0; 3])
    );
    // A mistake of a node is none of its children.
    assert_eq!(node(3).scale, [2.0; 3]);
    let places: Vec<&str> = model.problems().map(Error::place).collect();
    assert_eq!(places, ["nodes[2].children[1]"]);
    assert_eq!(model.scenes[1].as_ref().expect("right").nodes, [0, 3]);
    assert_eq!(model.scene, Some(1));
}

#[test]
fn a_model_whose_images_the_caller_took_away_can_still_be_asked_for_them() {
    let json = r#"{"asset":{"version":"2.0"},
        "images":[{"uri":"a.png"},{"uri":"b.webp"},{"uri":"c.png"}],
        "textures":[{"source":0,"extensions":{"EXT_texture_webp":{"source":1}}}]}"#;
    let mut model = Model::parse(json.as_bytes()).expect("a model");
    assert_eq!(model.wanted_images(), [false, true, true]);
    model.images.clear();
    assert_eq!(model.wanted_images(), [false; 0]);
}

#[test]
fn whole_numbers_may_have_a_fraction_of_zero() {
    let json = r#"{"asset":{"version":"2.0"},"buffers":[{"byteLength":64.0}],
        "bufferViews":[{"buffer":0.0,"byteOffset":4.0,"byteLength":6e1,"byteStride":12.0}],
        "accessors":[{"bufferView":0.0,"componentType":5126.0,"type":"VEC3","count":5.0}],
        "images":[{"bufferView":0.0}],"textures":[{"source":0.0}],
        "materials":[{"normalTexture":{"index":0.0,"texCoord":1.0}}],
        "meshes":[{"primitives":[{"attributes":{"POSITION":0.0},"material":0.0,"mode":4.0}]}],
        "nodes":[{"mesh":0.0,"scale":[2.5,2.0,1]}],"scenes":[{"nodes":[0.0]}]}"#;
    let model = Model::parse(json.as_bytes()).expect("a model");
    assert_eq!(model.problems().next().map(ToString::to_string), None);
    let view = model.views[0].as_ref().expect("right");
    assert_eq!((view.offset, view.len, view.stride), (4, 60, Some(12)));
    let mesh = model.meshes[0].as_ref().expect("right");
    let primitive = mesh.primitives[0].as_ref().expect("right");
    assert_eq!(
        (primitive.attributes["POSITION"], primitive.material),
        (0, Some(0))
    );
    let node = model.nodes[0].as_ref().expect("right");
    assert_eq!((node.mesh, node.scale), (Some(0), [2.5, 2.0, 1.0]));
    for number in ["64.5", "-1.0", "1e300", "9007199254740994.0"] {
        let inside = format!(r#""buffers":[{{"byteLength":{number}}}]"#);
        let place = String::from("buffers[0].byteLength");
        assert_eq!(
            first_mistake(&inside),
            Some((ErrorKind::Invalid, place)),
            "{number}"
        );
    }
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
    let ground = Ground::new();
    let made = crate::support::make(31, 3, 4, 60);
    let path = ground.write_loose(&made);
    let beside = |name: &str| ground.folder.path().join(name);
    std::fs::remove_file(beside("tex 1.png")).expect("there");
    let stored = std::fs::read(beside("tex 2.png")).expect("read");
    ground.write("tex 2.png", &stored[..stored.len() / 2]);
    let loader = ground.loader();
    let error = loader
        .open(&path)
        .expect("found")
        .finish()
        .expect_err("broken");
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Missing, "images[1]")
    );
    let scene = ground.load(&path).expect("the rest");
    let places: Vec<&str> = scene.problems().map(Error::place).collect();
    assert_eq!(places, ["images[1]", "images[2]"]);
    for index in [0, 3] {
        let image = scene.texture_image(index).expect("sound");
        assert!(image.pixels() == made.images[index].2);
    }
    crate::support::check_geometry(&scene, &made);

    let short = ground.write("data.bin", [0; 100]);
    let scene = ground.load(&path).expect("the rest");
    assert!(scene.problems().any(|error| error.place() == "buffers[0]"));
    assert!(scene.accessor(0).is_err());
    let image = scene.texture_image(0).expect("sound");
    assert!(image.pixels() == made.images[0].2);

    std::fs::remove_file(&short).expect("there");
    if short.exists() {
        println!("SKIP: Wine keeps the name of a file that is open");
        return;
    }
    let scene = ground.load(&path).expect("the rest");
    let missing = scene.problems().find(|error| error.place() == "buffers[0]");
    let missing = missing.expect("no such file");
    assert_eq!(
        (missing.kind(), missing.file()),
        (ErrorKind::Missing, Some("data.bin"))
    );
}

/// Three vertices, and six indices of two bytes each.
fn indexed(indices: [u16; 6], more: &str) -> String {
    let mut bytes = vec![0; 36];
    bytes.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
    let data = crate::support::base64(&bytes);
    format!(
        r#""buffers":[{{"uri":"data:;base64,{data}","byteLength":48}}],"bufferViews":[
        {{"buffer":0,"byteLength":36}},{{"buffer":0,"byteOffset":36,"byteLength":12}}],"accessors":[
        {{"bufferView":0,"componentType":5126,"count":3,"type":"VEC3"}},
        {{"bufferView":1,"componentType":5123,"count":3,"type":"SCALAR"}},
        {{"bufferView":1,"byteOffset":6,"componentType":5123,"count":3,"type":"SCALAR"{more}}}],
        "meshes":[{{"primitives":[{{"attributes":{{"POSITION":0}},"indices":1}}]}},
        {{"primitives":[{{"attributes":{{"POSITION":0}},"indices":2}}]}}]"#
    )
}

#[test]
fn indices_beyond_the_vertices_make_their_primitive_unsound() {
    let ground = Ground::new();
    let places = |json: &str| -> Vec<String> {
        let scene = ground.load_json(json).expect("a scene");
        scene
            .problems()
            .map(|error| error.place().to_owned())
            .collect()
    };
    assert_eq!(places(&indexed([0, 1, 2, 2, 1, 0], "")), [""; 0]);
    let wrong = indexed([0, 1, 2, 0, 3, 0], "");
    assert_eq!(places(&wrong), ["meshes[1].primitives[0].indices"]);
    let scene = ground.load_json(&wrong).expect("a scene");
    let about = scene.problems().next().expect("one");
    assert_eq!(about.kind(), ErrorKind::Invalid);
    assert!(
        about.cause().contains("index 3") && about.cause().contains("3 vertices"),
        "{about}"
    );
    assert!(scene.accessor(0).is_ok(), "the rest is there");
    assert_eq!(places(&indexed([0, 9, 2, 0, 0, 65535], "")).len(), 2);
    // Where sparse elements put them, too.
    let sparse = r#","sparse":{"count":1,"indices":{"bufferView":1,"componentType":5123},
        "values":{"bufferView":1,"byteOffset":10}}"#;
    assert_eq!(places(&indexed([0, 1, 2, 0, 0, 1], sparse)), [""; 0]);
    assert_eq!(
        places(&indexed([0, 1, 2, 0, 0, 8], sparse)),
        ["meshes[1].primitives[0].indices"]
    );
    // Of indices that are not stored but for two, and vertices that are not stored at all.
    let data = crate::support::base64(&[1, 3, 7, 0, 8, 1]);
    for (vertices, wrong) in [(264, 1), (265, 0)] {
        let unstored = format!(
            r#""buffers":[{{"uri":"data:;base64,{data}","byteLength":6}}],
            "bufferViews":[{{"buffer":0,"byteLength":6}}],
            "accessors":[{{"componentType":5126,"count":{vertices},"type":"VEC3"}},
            {{"componentType":5123,"count":4,"type":"SCALAR","sparse":{{"count":2,
            "indices":{{"bufferView":0,"componentType":5121}},
            "values":{{"bufferView":0,"byteOffset":2}}}}}}],
            "meshes":[{{"primitives":[{{"attributes":{{"POSITION":0}},"indices":1}}]}}]"#
        );
        assert_eq!(places(&unstored).len(), wrong, "{vertices} vertices");
    }
}

#[test]
fn what_is_compressed_and_not_decoded_is_told_item_by_item() {
    let ground = Ground::new();
    let data = crate::support::base64(&[0; 12]);
    let json = format!(
        r#""buffers":[{{"uri":"data:;base64,{data}","byteLength":12}},
        {{"byteLength":12,"extensions":{{"EXT_meshopt_compression":{{"fallback":true}}}}}}],
        "bufferViews":[{{"buffer":0,"byteLength":12}},{{"buffer":1,"byteLength":12,"extensions":
        {{"EXT_meshopt_compression":{{"buffer":0,"byteLength":12,"byteStride":12,"count":1,
        "mode":"ATTRIBUTES"}}}}}}],
        "accessors":[{{"bufferView":0,"componentType":5126,"count":1,"type":"VEC3"}},
        {{"bufferView":1,"componentType":5126,"count":1,"type":"VEC3"}}],
        "textures":[{{"extensions":{{"KHR_texture_basisu":{{"source":0}}}}}}],
        "images":[{{"uri":"basis.ktx2"}}]"#
    );
    // A KTX2 with no format of Vulkan: Basis Universal.
    let known = crate::support::containers::FORMATS[0];
    let mut basis = crate::support::containers::ktx2(&known, 4, 4, &[vec![0; 64]], 0);
    basis[12..16].fill(0);
    ground.write("basis.ktx2", basis);
    let scene = ground.load_json(&json).expect("a scene");
    assert!(scene.accessor(0).is_ok());
    assert!(scene.accessor(1).is_err());
    let told: Vec<String> = scene.problems().map(ToString::to_string).collect();
    assert!(told.iter().any(|it| it.contains("meshopt")), "{told:?}");
    assert!(
        told.iter().any(|it| it.contains("Basis Universal")),
        "{told:?}"
    );
}

#[test]
fn the_format_descriptor_of_a_ktx2_is_not_believed() {
    let known = crate::support::containers::FORMATS[0];
    let sound = crate::support::containers::ktx2(&known, 4, 4, &[vec![0; 64]], 0);
    let limits = millstream_gltf::image::ImageLimits::default();
    let expected = millstream_gltf::image::decode_vec(&sound, limits);
    assert!(expected.is_ok());
    let at = u32::from_le_bytes(sound[48..52].try_into().expect("four")) as usize;
    // The sides of a block, the place and the length of the descriptor.
    for (place, byte) in [(at + 16, 255), (48, 0xff), (51, 0xff), (52, 0), (55, 0xff)] {
        let mut wrong = sound.clone();
        if let Some(changed) = wrong.get_mut(place) {
            *changed = byte;
        }
        assert_eq!(millstream_gltf::image::decode_vec(&wrong, limits), expected);
    }
}

#[test]
fn image_bombs_are_refused_before_memory_is_taken() {
    let ground = Ground::new();
    // A header of 60,000 x 60,000 pixels over a few bytes of data.
    let mut bomb = crate::support::png(png::ColorType::Rgb, 1, 1, &[1, 2, 3]);
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    ground.write("bomb.png", bomb);
    let scene = ground.load_json(r#""images":[{"uri":"bomb.png"}]"#);
    let scene = scene.expect("a scene");
    let error = scene.problems().next().expect("refused");
    assert_eq!(
        (error.kind(), error.place()),
        (ErrorKind::Image, "images[0]")
    );
}

#[test]
fn a_long_name_in_the_json_is_not_repeated_for_each_place_inside() {
    let long = "n".repeat(2000);
    let inside = |index: usize| {
        let uses: String = (0..2000)
            .map(|at| format!(r#""{at}Texture":{{"index":{index}}},"#))
            .collect();
        let primitives = r#"{"attributes":{},"material":0},"#.repeat(2000);
        format!(
            r#"{{"asset":{{"version":"2.0"}},"textures":[{{}}],
            "materials":[{{"{long}":{{{uses}"normalTexture":{{"index":0}}}},
            "emissiveTexture":{{"index":{index},"{long}":7}}}}],
            "meshes":[{{"primitives":[{primitives}{{"attributes":{{}}}}]}}]}}"#
        )
    };
    for index in [0, 7] {
        let model = Model::parse(inside(index).as_bytes()).expect("a model");
        let told: usize = model.problems().map(|error| error.to_string().len()).sum();
        assert!(told < 2001 * 500, "{told} bytes of errors");
    }
    let model = Model::parse(inside(0).as_bytes()).expect("a model");
    let textures = &model.materials[0].as_ref().expect("right").textures;
    let slots: Vec<&str> = textures.iter().map(|used| used.slot.as_str()).collect();
    assert_eq!(slots, ["emissiveTexture"]);
}

#[test]
fn the_memory_of_a_scene_is_bounded() {
    let ground = Ground::new();
    let path = ground.write_loose(&crate::support::make(32, 1, 6, 200));
    let mut options = LoaderOptions::default();
    options.memory_max = Some(150_000);
    let loader = Loader::new(&ground.storage, options).expect("a loader");
    let load = loader.open(path).expect("found");
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
fn what_the_binary_chunk_is_too_short_for_has_failed() {
    let ground = Ground::new();
    let whole = r#""buffers":[{"byteLength":9}],"bufferViews":[{"buffer":0,"byteLength":9}]"#;
    let parts = r#""buffers":[{"byteLength":1000000}],"images":[{"bufferView":1}],
        "bufferViews":[{"buffer":0,"byteLength":4},{"buffer":0,"byteOffset":4,"byteLength":400000},
        {"buffer":0,"byteOffset":500000,"byteLength":9},
        {"buffer":0,"byteOffset":900000,"byteLength":9}]"#;
    for (json, binary, failed) in [
        (whole, Some(&[7; 12][..]), &[][..]),
        (whole, Some(&[7; 8]), &["buffers[0]"]),
        (whole, None, &["buffers[0]"]),
        (parts, Some(&[7; 8]), &["buffers[0]", "images[0]"]),
    ] {
        let json = format!(r#"{{"asset":{{"version":"2.0"}},{json}}}"#);
        let path = ground.write("short.glb", crate::support::glb(json.as_bytes(), binary));
        let scene = ground.load(&path).expect("a scene");
        let places: Vec<&str> = scene.problems().map(Error::place).collect();
        assert_eq!(places, failed, "{json} {binary:?}");
        assert_eq!(scene.view(0).is_ok(), failed.is_empty());
    }
}

#[test]
fn cut_and_changed_glbs_never_hang_or_panic() {
    let ground = Ground::new();
    let whole = crate::support::make(33, 2, 2, 30).glb();
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
        let path = ground.write(&format!("{round}.glb"), &bytes);
        if let Ok(scene) = ground.load(&path) {
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
    let ground = Ground::new();
    let path = ground.write_loose(&crate::support::make(34, 3, 8, 400));
    let loader = ground.loader();
    for after in [0, 1, 3, 10] {
        let mut load = loader.open(&path).expect("found");
        let time = Some(std::time::Duration::from_millis(after));
        millstream_gltf::wait_all(std::slice::from_mut(&mut load), time);
        load.cancel();
        match load.finish_partial() {
            Ok(scene) => {
                for problem in scene.problems() {
                    assert_eq!(problem.kind(), ErrorKind::Canceled, "{problem}");
                }
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Canceled, "{error}"),
        }
    }
}

#[test]
fn one_image_can_be_canceled_and_another_hurried() {
    let ground = Ground::new();
    let made = crate::support::make(35, 1, 6, 300);
    let path = ground.write_loose(&made);
    let loader = ground.loader();
    for round in 0..5 {
        let mut load = loader.open(&path).expect("found");
        while load.scene().is_none() {
            let time = Some(std::time::Duration::from_micros(50));
            millstream_gltf::wait_all(std::slice::from_mut(&mut load), time);
        }
        load.set_image_priority(5, millstream::Priority::Realtime);
        load.cancel_image(2);
        let scene = load.finish_partial().expect("a scene");
        for (index, (_, _, rgba)) in made.images.iter().enumerate() {
            match (index, scene.images()[index].get()) {
                (_, Some(image)) => assert!(image.pixels() == rgba, "round {round}"),
                // Unless it was there before.
                (2, None) => {
                    let error = scene.images()[2].error().expect("canceled");
                    assert_eq!(error.kind(), ErrorKind::Canceled);
                }
                (_, None) => panic!("image {index} was not canceled"),
            }
        }
    }
}

#[test]
fn a_glb_of_version_1_or_with_lengths_that_lie_is_an_error() {
    let ground = Ground::new();
    let whole = crate::support::make(36, 1, 1, 20).glb();
    for (at, value, kind) in [
        (4, 1u32, ErrorKind::Unsupported),
        (4, 3, ErrorKind::Unsupported),
        (8, u32::MAX, ErrorKind::Malformed),
        (8, 12, ErrorKind::Malformed),
        (12, u32::MAX, ErrorKind::Malformed),
        (12, 3, ErrorKind::Malformed),
        (16, 7, ErrorKind::Malformed),
    ] {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let error = ground
            .load(&ground.write("lies.glb", bytes))
            .expect_err("a lie");
        assert_eq!(error.kind(), kind, "{value} at {at}: {error}");
    }
}
