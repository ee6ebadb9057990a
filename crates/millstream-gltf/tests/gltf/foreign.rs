//! Files as other programs write them.

use crate::support::{Ground, base64, glb, png, problems};
use millstream_gltf::model::Model;
use millstream_gltf::{Error, ErrorKind, Scene};

/// A buffer of zeros with three vertices and three indices, and a primitive with this inside.
fn triangle(uri: &str, primitive: &str) -> String {
    format!(
        r#""buffers":[{{"uri":"{uri}","byteLength":44}}],"bufferViews":[
        {{"buffer":0,"byteLength":36}},{{"buffer":0,"byteOffset":36,"byteLength":6}}],"accessors":[
        {{"bufferView":0,"componentType":5126,"count":3,"type":"VEC3"}},
        {{"bufferView":1,"componentType":5123,"count":3,"type":"SCALAR"}},
        {{"componentType":5126,"count":3,"type":"VEC3"}}],
        "meshes":[{{"primitives":[{{"attributes":{{"POSITION":0}},"indices":1{primitive}}}]}}]"#
    )
}

fn parsed(inside: &str) -> Vec<(ErrorKind, String)> {
    let json = format!(r#"{{"asset":{{"version":"2.0"}},{inside}}}"#);
    let model = Model::parse(json.as_bytes()).expect("a model");
    let problems = model.problems();
    problems
        .map(|error| (error.kind(), error.to_string()))
        .collect()
}

#[test]
fn a_required_extension_that_may_change_geometry_and_is_unknown_is_an_error() {
    for (names, unknown) in [
        (r#""KHR_materials_unlit","KHR_gaussian_splatting""#, Some(1)),
        (r#""VENDOR_packed_meshes","X""#, Some(0)),
        (r#""KHR_texture_transform","KHR_lights_punctual""#, None),
        (r#""VENDOR_materials_fur","KHR_mesh_quantization""#, None),
        (r#""EXT_texture_webp","KHR_texture_basisu""#, None),
    ] {
        let list = format!("[{names}]");
        assert_eq!(parsed(&format!(r#""extensionsUsed":{list}"#)), []);
        let found = parsed(&format!(r#""extensionsRequired":{list}"#));
        assert_eq!(found.len(), usize::from(unknown.is_some()), "{names}");
        if let Some(at) = unknown {
            let (kind, shown) = &found[0];
            assert_eq!(*kind, ErrorKind::Unsupported);
            let name = names.split(',').nth(at).expect("there");
            let place = format!("extensionsRequired[{at}]");
            assert!(shown.starts_with(&place) && shown.contains(name), "{shown}");
        }
    }
    let wrong = parsed(r#""extensionsRequired":{}"#);
    assert_eq!((wrong.len(), wrong[0].0), (1, ErrorKind::Invalid));
}

#[test]
fn meshopt_is_named_where_there_is_no_other_copy() {
    let found = parsed(
        r#""extensionsRequired":["EXT_meshopt_compression"],"buffers":[{"byteLength":4},
        {"byteLength":9,"extensions":{"EXT_meshopt_compression":{"fallback":true}}}],
        "bufferViews":[{"buffer":1,"byteLength":9}]"#,
    );
    let (kind, shown) = &found[0];
    assert_eq!((found.len(), *kind), (1, ErrorKind::Unsupported));
    assert!(
        shown.contains("EXT_meshopt_compression is not supported"),
        "{shown}"
    );
}

#[test]
fn draco_is_ignored_where_it_is_not_required_and_there_is_another_copy() {
    let draco = r#","extensions":{"KHR_draco_mesh_compression":{"bufferView":0,"attributes":{}}}"#;
    let used = r#","extensionsUsed":["KHR_draco_mesh_compression"]"#;
    let required = r#","extensionsRequired":["KHR_draco_mesh_compression"]"#;
    let copied = triangle("a.bin", draco);
    assert_eq!(parsed(&format!("{copied}{used}")), []);
    // Accessor 2 has no bytes.
    let not_copied = copied.replace(r#""POSITION":0"#, r#""POSITION":2"#);
    for inside in [format!("{copied}{required}"), format!("{not_copied}{used}")] {
        let found = parsed(&inside);
        assert_eq!(
            (found.len(), found[0].0),
            (1, ErrorKind::Unsupported),
            "{inside}"
        );
        assert!(found[0].1.contains("Draco"), "{found:?}");
    }
}

/// Exporters end the buffer with the last number.
#[test]
fn the_last_column_of_a_matrix_needs_no_padding() {
    for (shape, component, count, used, stride) in [
        ("MAT2", 5121, 1, 6, ""),
        ("MAT2", 5120, 2, 14, ""),
        ("MAT2", 5122, 2, 16, ""),
        ("MAT3", 5121, 2, 23, ""),
        ("MAT3", 5123, 2, 46, ""),
        ("MAT3", 5121, 2, 27, r#","byteStride":16"#),
    ] {
        let bytes: Vec<u8> = (1..=used).collect();
        let make = |len: u8| {
            format!(
                r#""buffers":[{{"uri":"data:;base64,{}","byteLength":{used}}}],
                "bufferViews":[{{"buffer":0,"byteLength":{len}{stride}}}],
                "accessors":[{{"bufferView":0,"componentType":{component},"count":{count},
                "type":"{shape}"}}]"#,
                base64(&bytes)
            )
        };
        let scene = Ground::new().load_json(&make(used)).expect("a scene");
        assert_eq!(problems(&scene), [""; 0]);
        let elements = scene.accessor(0).expect("right");
        let packed = elements.packed().expect("right");
        let about = elements.accessor();
        let each = about.element_bytes() as usize;
        assert_eq!(packed.len(), each * count);
        let last = &bytes[if stride.is_empty() { each } else { 16 } * (count - 1)..];
        let (stored, padding) = packed[each * (count - 1)..].split_at(last.len());
        assert_eq!((stored, padding), (last, &[0; 4][..padding.len()]));
        assert!(padding.len() < 4 && each - padding.len() == last.len());
        let scene = Ground::new().load_json(&make(used - 1)).expect("a scene");
        assert_eq!(problems(&scene).len(), 1, "{shape} of {component}");
    }
    // Nor that of the last sparse element.
    let json = |len: u8| {
        format!(
            r#""buffers":[{{"uri":"data:;base64,{}","byteLength":7}}],
            "bufferViews":[{{"buffer":0,"byteLength":{len}}}],
            "accessors":[{{"componentType":5121,"count":2,"type":"MAT2","sparse":{{"count":1,
            "indices":{{"bufferView":0,"componentType":5121}},
            "values":{{"bufferView":0,"byteOffset":1}}}}}}]"#,
            base64(&[1, 11, 12, 13, 14, 15, 16])
        )
    };
    let scene = Ground::new().load_json(&json(7)).expect("a scene");
    let packed = scene.accessor(0).expect("right").packed();
    assert_eq!(packed.expect("right")[8..], [11, 12, 13, 14, 15, 16, 0, 0]);
    let scene = Ground::new().load_json(&json(6)).expect("a scene");
    assert_eq!(problems(&scene).len(), 1);
}

#[test]
fn a_byte_order_mark_before_the_json_is_skipped() {
    let ground = Ground::new();
    let json = r#"{"asset":{"version":"2.0"},"scenes":[{}],"scene":0.0}"#;
    let marked = format!("\u{feff}{json}");
    let padded = format!(
        "{marked}{}",
        " ".repeat(marked.len().next_multiple_of(4) - marked.len())
    );
    for path in [
        ground.write("mark.gltf", &marked),
        ground.write("mark.glb", glb(padded.as_bytes(), None)),
    ] {
        let scene = ground.load(&path).expect("a scene");
        assert_eq!(problems(&scene), [""; 0]);
        assert_eq!(scene.model().scene, Some(0));
        assert_eq!(scene.json().trim_ascii_end(), json.as_bytes());
    }
}

#[test]
fn files_with_a_percent_sign_and_backslashes_between_folders_are_found() {
    let ground = Ground::new();
    ground.write("tri 10%.bin", [0; 44]);
    std::fs::create_dir(ground.folder.path().join("sub")).expect("made");
    ground.write("sub/tri.bin", [0; 44]);
    for uri in [
        "tri 10%.bin",
        "tri%2010%25.bin",
        r"sub\\tri.bin",
        "sub%5Ctri.bin",
    ] {
        let scene = ground.load_json(&triangle(uri, "")).expect("a scene");
        assert_eq!(problems(&scene), [""; 0], "{uri}");
        assert!(scene.accessor(0).is_ok());
    }
}

#[test]
fn each_of_the_images_that_share_a_damaged_file_is_named() {
    let ground = Ground::new();
    ground.write("a.png", &png(png::ColorType::Grayscale, 1, 1, &[1])[..40]);
    let images = r#""images":[{"uri":"a.png"},{"uri":"b.png"},{"uri":"a.png"},{"uri":"b.png"}]"#;
    let scene = ground.load_json(images).expect("a scene");
    let places: Vec<&str> = scene.problems().map(Error::place).collect();
    assert_eq!(places, ["images[0]", "images[1]", "images[2]", "images[3]"]);
    let files: Vec<_> = scene.problems().map(Error::file).collect();
    assert_eq!(
        files,
        [Some("a.png"), Some("b.png"), Some("a.png"), Some("b.png")]
    );
}

/// A scene of the images 0 to 3, and textures.
fn textured(ground: &Ground, textures: &str) -> Scene {
    let images = r#"{"uri":"0.png"},{"uri":"1.png"},{"uri":"2.png"},{"uri":"3.png"}"#;
    let json = format!(r#""images":[{images}],"textures":[{textures}]"#);
    ground.load_json(&json).expect("a scene")
}

#[test]
fn a_texture_shows_its_other_image_where_the_preferred_one_fails() {
    let three = r#"{"source":2,"extensions":{"MSFT_texture_dds":{"source":0},
        "EXT_texture_webp":{"source":1}}}"#;
    let textures = format!(r#"{three},{three},{{"source":1}},{{"source":3}}"#);
    let shown = |scene: &Scene, texture: usize| -> Option<[u8; 4]> {
        let image = scene.texture_image(texture)?;
        Some(image.pixels().try_into().expect("one pixel"))
    };
    const RED: [u8; 4] = [200, 0, 0, 255];
    const GREEN: [u8; 4] = [0, 200, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 200, 255];
    // The images that fail, each damaged or missing, what a texture of three shows, and whether
    // there is an error: of the texture of image 1 alone, and where all fail.
    for (failing, expected, errors) in [
        (&[][..], Some(RED), 0),
        (&[0], Some(GREEN), 0),
        (&[0, 1], Some(BLUE), 1),
        (&[0, 1, 2], None, 2),
        (&[0, 2], Some(GREEN), 0),
    ] {
        for missing in [false, true] {
            let ground = Ground::new();
            for (nth, rgb) in [[200, 0, 0], [0, 200, 0], [0, 0, 200], [90; 3]]
                .iter()
                .enumerate()
            {
                let mut stored = png(png::ColorType::Rgb, 1, 1, rgb);
                match failing.contains(&nth) {
                    true if missing => continue,
                    true => stored.truncate(50),
                    false => {}
                }
                ground.write(&format!("{nth}.png"), stored);
            }
            let scene = textured(&ground, &textures);
            let about = format!("{failing:?} {missing}: {:?}", problems(&scene));
            assert_eq!(shown(&scene, 0), expected, "{about}");
            assert_eq!(shown(&scene, 1), expected, "{about}");
            assert_eq!(shown(&scene, 3), Some([90, 90, 90, 255]));
            assert_eq!(problems(&scene).len(), errors, "{about}");
            // Why the preferred one is not shown can still be asked.
            for &nth in failing.iter().filter(|&&nth| nth < 2) {
                assert!(scene.images()[nth].error().is_some(), "{about}");
            }
        }
    }
}
