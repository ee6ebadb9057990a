//! The formats that a scene brings along: URIs, GLB containers, headers of images.

mod uris {
    use millstream_gltf::ErrorKind;
    use millstream_gltf::uri::{Uri, parse};

    #[test]
    fn names_are_decoded_and_cleaned() {
        let named = |uri, name: &str| assert_eq!(parse(uri), Ok(Uri::Name(name.into())), "{uri}");
        named("a.bin", "a.bin");
        named("./tex//a%20b%2Fc.png", "tex/a b/c.png");
        named("tex/../a.bin", "a.bin");
        named("gr%C3%B6%C3%9Fe.png", "größe.png");
        named("größe.png", "größe.png");
        named("a 10%.bin", "a 10%.bin");
        named("%zz%2%41", "%zz%2A");
        named("tex\\a.png", "tex/a.png");
        named("tex%5C..%5Ca.png", "a.png");
    }

    #[test]
    fn what_leaves_the_folder_is_refused() {
        for uri in [
            "../a",
            "a/../../b",
            "/etc/passwd",
            "%2e%2e/a",
            "%2Fetc",
            "//host/a",
            "http://h/a",
            "HTTPS://h/a",
            "file:///etc/passwd",
            "C:\\a.png",
            "\\\\host\\a",
            "..\\a",
            "a\\..\\..%5Ca",
            "a%00b",
        ] {
            assert_eq!(
                parse(uri).map_err(|error| error.0),
                Err(ErrorKind::Refused),
                "{uri}"
            );
        }
        for uri in ["", ".", "a/..", "data:abc"] {
            assert_eq!(
                parse(uri).map_err(|error| error.0),
                Err(ErrorKind::Invalid),
                "{uri}"
            );
        }
    }

    #[test]
    fn data_is_decoded() {
        let right =
            |uri, bytes: &[u8]| assert_eq!(parse(uri), Ok(Uri::Data(bytes.into())), "{uri}");
        right("data:,a%20b", b"a b");
        right("data:application/octet-stream;base64,AAEC", &[0, 1, 2]);
        right("DATA:;BASE64,AAE=", &[0, 1]);
        right("data:;base64,AA", &[0]);
        right("data:;base64,-_8=", &[0xfb, 0xff]);
        right("data:;base64,%41AEC", &[0, 1, 2]);
        right("data:;base64,", &[]);
        for uri in [
            "data:;base64,A",
            "data:;base64,AAE*",
            "data:;base64,AA==A",
            "data:;base64,=",
        ] {
            assert!(parse(uri).is_err(), "{uri}");
        }
    }
}

mod containers {
    use millstream_gltf::ErrorKind;
    use millstream_gltf::glb::parse;

    pub(super) fn glb(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::from(*b"glTF\x02\0\0\0\0\0\0\0");
        for (kind, data) in chunks {
            bytes.extend(u32::try_from(data.len()).expect("small").to_le_bytes());
            bytes.extend(*kind);
            bytes.extend(*data);
        }
        let len = u32::try_from(bytes.len()).expect("small");
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes
    }

    #[test]
    fn both_chunks_are_found() {
        let bytes = glb(&[
            (b"JSON", b"{}  "),
            (b"BIN\0", b"12345678"),
            (b"MORE", b"...."),
        ]);
        let layout = parse(&bytes, bytes.len() as u64).expect("right");
        assert_eq!(layout.json, 20..24);
        assert_eq!(layout.binary, Some(32..40));
        assert_eq!(layout.head_bytes, 32);
    }

    #[test]
    fn bytes_behind_the_declared_end_are_no_chunk() {
        let mut bytes = glb(&[(b"JSON", b"{}  ")]);
        bytes.extend([0; 8]);
        let layout = parse(&bytes, bytes.len() as u64).expect("right");
        assert_eq!((layout.json, layout.binary), (20..24, None));
    }

    #[test]
    fn every_cut_and_every_lying_length_is_an_error_or_the_same_answer() {
        let bytes = glb(&[(b"JSON", b"{}  "), (b"BIN\0", b"12345678")]);
        let right = parse(&bytes, bytes.len() as u64).expect("right");
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut], cut as u64).is_err(), "cut at {cut}");
            if let Ok(part) = parse(&bytes[..cut], bytes.len() as u64) {
                assert_eq!(part.json, right.json);
            }
        }
        for at in [8, 12, 24] {
            let mut lying = bytes.clone();
            lying[at + 3] = 0x7f;
            let error = parse(&lying, bytes.len() as u64).expect_err("lies");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        }
    }
}

#[cfg(feature = "pak")]
mod descriptions {
    use millstream_gltf::ImageDescriber;
    use millstream_gltf::image::{HEADER_BYTES, ImageLimits, decode_vec};
    use millstream_gltf::record::SceneDescriber;
    use millstream_pak::limits::METADATA_BYTES_MAX;
    use millstream_pak::metadata::{Container, Image, Metadata, Role};
    use millstream_pak::{Describe, Head};

    fn described(bytes: &[u8], raw_bytes: u64) -> Option<Metadata> {
        ImageDescriber.describe(&Head {
            name: b"x",
            bytes: &bytes[..bytes.len().min(4096)],
            raw_bytes,
        })
    }

    fn shape(record: &Metadata) -> (u32, u32, u8, u8, Container) {
        let Image {
            width,
            height,
            channels,
            bits,
            container,
            ..
        } = record.image.expect("an image");
        (width, height, channels, bits, container)
    }

    fn png() -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend_from_slice(&[0, 0, 2, 0, 0, 0, 1, 0, 8, 6, 0, 0, 0, 1, 2, 3, 4]);
        png
    }

    fn jpeg() -> Vec<u8> {
        let mut jpeg = vec![
            0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc2, 0, 17, 8,
        ];
        jpeg.extend_from_slice(&[1, 44, 2, 88, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        jpeg
    }

    fn dds() -> Vec<u8> {
        let mut dds = vec![0; 128];
        dds[..4].copy_from_slice(b"DDS ");
        for (at, value) in [(4, 124), (12, 64), (16, 128), (28, 3), (76, 32), (80, 4)] {
            dds[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        }
        dds[84..88].copy_from_slice(b"DXT1");
        dds
    }

    fn ktx2() -> Vec<u8> {
        let mut ktx2 = b"\xabKTX 20\xbb\r\n\x1a\n".to_vec();
        for value in [37u32, 1, 16, 8, 0, 0, 1, 2, 0] {
            ktx2.extend_from_slice(&value.to_le_bytes());
        }
        ktx2.resize(80, 0);
        for (offset, len) in [(256u64, 512u64), (128, 128)] {
            ktx2.extend_from_slice(&offset.to_le_bytes());
            ktx2.extend_from_slice(&len.to_le_bytes());
            ktx2.extend_from_slice(&len.to_le_bytes());
        }
        ktx2
    }

    #[test]
    fn headers_say_what_they_hold() {
        let record = described(&png(), 5000).expect("a picture");
        assert_eq!(shape(&record), (512, 256, 4, 8, Container::PNG));
        let record = described(&jpeg(), 5000).expect("a picture");
        assert_eq!(shape(&record), (600, 300, 3, 8, Container::JPEG));
        let record = described(&dds(), 128 + 4096 + 1024 + 256).expect("a texture");
        assert_eq!(shape(&record), (128, 64, 4, 0, Container::DDS));
        assert_eq!(record.mip(0, 0), Some((128, 4096)));
        assert_eq!(record.mip(2, 0), Some((128 + 4096 + 1024, 256)));
        assert_eq!(record.rows(0, 0, 1, 2), Some((128 + 256, 512)));
        let record = described(&ktx2(), 768).expect("a texture");
        assert_eq!(shape(&record), (16, 8, 4, 8, Container::KTX2));
        assert_eq!(record.rows(0, 0, 1, 1), Some((256 + 64, 64)));
        assert_eq!(record.mip(1, 0), Some((128, 128)));
        assert_eq!(described(b"plain text", 10), None);
    }

    #[test]
    fn masks_of_a_dds_say_where_colors_are() {
        for (masks, format, pixel) in [
            ([0xff, 0xff00, 0xff_0000], 37, [1, 2, 3, 255]),
            ([0xff_0000, 0xff00, 0xff], 44, [3, 2, 1, 255]),
        ] {
            let mut dds = dds();
            let sides = [(12, 1), (16, 1), (28, 1), (80, 0x40), (88, 32)];
            for (at, value) in sides
                .into_iter()
                .chain([92, 96, 100].into_iter().zip(masks))
            {
                dds[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            }
            dds.extend([1, 2, 3, 9]);
            let record = described(&dds, 132).expect("a texture");
            assert_eq!(record.image.map(|image| image.format), Some(format));
            assert_eq!(shape(&record), (1, 1, 3, 8, Container::DDS));
            let raw = decode_vec(&dds, ImageLimits::default()).expect("supported");
            assert_eq!(raw[HEADER_BYTES..], pixel);
        }
    }

    #[test]
    fn a_cube_has_the_levels_of_each_face_one_face_after_the_other() {
        let mut cube = dds();
        // `DDSCAPS2_CUBEMAP` with all six faces.
        cube[112..116].copy_from_slice(&0xfe00_u32.to_le_bytes());
        let face = 4096 + 1024 + 256;
        let record = described(&cube, 128 + 6 * face).expect("a texture");
        assert_eq!(record.image.map(|image| image.layers), Some(6));
        for layer in [0, 5] {
            let start = 128 + u64::from(layer) * face;
            assert_eq!(record.mip(0, layer), Some((start, 4096)));
            assert_eq!(record.mip(2, layer), Some((start + 4096 + 1024, 256)));
        }
        let record = described(&cube, 128 + 6 * face - 1).expect("a texture");
        assert!(record.mips.is_empty(), "too short");
    }

    #[test]
    fn mips_of_volumes_and_of_formats_that_are_not_decoded_have_their_places() {
        let mut volume = dds();
        // `DDSCAPS2_VOLUME`, of four slices.
        volume[24..28].copy_from_slice(&4_u32.to_le_bytes());
        volume[112..116].copy_from_slice(&0x20_0000_u32.to_le_bytes());
        let bytes = 4 * 4096 + 2 * 1024 + 256;
        let record = described(&volume, 128 + bytes).expect("a texture");
        assert_eq!(record.image.map(|image| image.depth), Some(4));
        assert_eq!(record.mip(0, 0), Some((128, 4 * 4096)));
        assert_eq!(record.mip(2, 0), Some((128 + bytes - 256, 256)));
        assert_eq!(record.rows(1, 0, 8, 1), Some((128 + 4 * 4096 + 1024, 128)));
        let record = described(&volume, 127 + bytes).expect("a texture");
        assert!(record.mips.is_empty(), "too short");
        // D3DFMT_A16B16G16R16F, and DXGI_FORMAT_R11G11B10_FLOAT.
        for (fourcc, format, bits, start, texel) in
            [([113, 0, 0, 0], 97, 16, 128, 8), (*b"DX10", 122, 0, 148, 4)]
        {
            let mut dds = dds();
            dds.resize(148, 0);
            dds[84..88].copy_from_slice(&fourcc);
            dds[128] = 26;
            let record = described(&dds, 1 << 20).expect("a texture");
            let image = record.image.expect("an image");
            assert_eq!((image.format, image.bits), (format, bits));
            assert_eq!(record.mip(0, 0), Some((start, 128 * 64 * texel)));
            let second = start + 128 * 64 * texel;
            assert_eq!(
                record.rows(1, 0, 1, 1),
                Some((second + 64 * texel, 64 * texel))
            );
        }
        // No number of DXGI_FORMAT.
        let mut unknown = dds();
        unknown.resize(148, 0);
        unknown[84..88].copy_from_slice(b"DX10");
        for number in [0, 22, u32::MAX] {
            unknown[128..132].copy_from_slice(&u32::to_le_bytes(number));
            let record = described(&unknown, 1 << 20).expect("a texture");
            assert_eq!(shape(&record), (128, 64, 0, 0, Container::DDS), "{number}");
            assert_eq!(record.image.map(|image| image.format), Some(0));
        }
        // VK_FORMAT_R16G16_SFLOAT has as many bytes as RGBA8.
        let mut ktx2 = ktx2();
        ktx2[12] = 83;
        let record = described(&ktx2, 768).expect("a texture");
        assert_eq!(shape(&record), (16, 8, 2, 16, Container::KTX2));
        assert_eq!(record.rows(0, 0, 1, 1), Some((256 + 64, 64)));
    }

    #[test]
    fn mips_that_the_file_is_too_short_for_are_none() {
        let record = described(&dds(), 128 + 4096).expect("a texture");
        assert!(record.mips.is_empty());
        assert_eq!(described(&ktx2(), 700), None);
    }

    #[test]
    fn cut_and_changed_headers_do_no_harm() {
        for whole in [png(), jpeg(), dds(), ktx2()] {
            for len in 0..whole.len() {
                let _ = described(&whole[..len], u64::MAX);
            }
            for at in 0..whole.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] = value;
                    if let Some(record) = described(&changed, 1 << 40) {
                        assert!(record.encode().len() <= METADATA_BYTES_MAX);
                    }
                }
            }
        }
    }

    /// The record of a scene, a GLB if there is a binary chunk.
    fn scene(json: &str, binary: Option<usize>) -> Metadata {
        let json = format!(r#"{{"asset":{{"version":"2.0"}},{json}}}"#);
        let bytes = match binary {
            None => json.into_bytes(),
            Some(len) => {
                super::containers::glb(&[(b"JSON", json.as_bytes()), (b"BIN\0", &vec![0; len])])
            }
        };
        let head = Head {
            name: b"dir/scene.gltf",
            bytes: &bytes,
            raw_bytes: bytes.len() as u64,
        };
        SceneDescriber.describe(&head).expect("a scene")
    }

    /// Small gaps do not split a buffer, images do; ranges begin at multiples of 4.
    #[test]
    fn buffers_and_images_of_a_glb_are_ranges_of_it() {
        let all_between = r#""bufferViews":[{"buffer":0,"byteLength":100},
            {"buffer":0,"byteOffset":200,"byteLength":100},
            {"buffer":0,"byteOffset":300,"byteLength":500000},
            {"buffer":0,"byteOffset":600000,"byteLength":10}],
            "images":[{"bufferView":2},{"bufferView":2}]"#;
        let first = r#""bufferViews":[{"buffer":0,"byteLength":50001},
            {"buffer":0,"byteOffset":50002,"byteLength":6},
            {"buffer":0,"byteOffset":190003,"byteLength":1}],
            "images":[{"bufferView":0},{"bufferView":0}]"#;
        for (json, buffers, image) in [
            (all_between, [(0, 300), (600_000, 10)], (300, 500_000)),
            (first, [(50_000, 8), (190_000, 4)], (0, 50_001)),
        ] {
            let json = format!(r#""buffers":[{{"byteLength":1000000}}],{json}"#);
            let parts = scene(&json, Some(1_000_000)).parts;
            let start = parts[0].bytes;
            let found = parts
                .iter()
                .map(|part| (part.role, part.offset, part.bytes));
            let part = |role, (offset, bytes)| (role, start + offset, bytes);
            let buffers = buffers.map(|range| part(Role::BUFFER, range));
            let images = [part(Role::IMAGE, image)];
            let expected = [(Role::SCENE, 0, start)].into_iter().chain(buffers);
            assert!(found.eq(expected.chain(images)), "{parts:?}");
        }
    }

    #[test]
    fn names_are_beside_the_scene_and_unused_buffers_are_left() {
        let json = r#""buffers":[{"byteLength":9,"uri":"a.bin"},{"byteLength":9,"uri":"b.bin"}],
            "bufferViews":[{"buffer":1,"byteLength":9}],
            "images":[{"uri":"t/x.png"},{"uri":"data:,abc"}]"#;
        let dependencies = scene(json, None).dependencies;
        let found = dependencies.iter().map(|it| (it.role, &it.name[..]));
        let expected = [(Role::BUFFER, "dir/b.bin"), (Role::IMAGE, "dir/t/x.png")];
        assert!(found.eq(expected), "{dependencies:?}");
    }

    #[test]
    fn a_buffer_longer_than_the_chunk_is_no_part() {
        let json = r#""buffers":[{"byteLength":9}],"bufferViews":[{"buffer":0,"byteLength":9}]"#;
        for (binary, parts) in [(None, 1), (Some(8), 1), (Some(9), 2)] {
            assert_eq!(scene(json, binary).parts.len(), parts);
        }
    }
}

mod layouts {
    use millstream_gltf::image::{Format, HEADER_BYTES, Layout};

    const FORMATS: [Format; 8] = [
        Format::Rgba8,
        Format::Bc1,
        Format::Bc2,
        Format::Bc3,
        Format::Bc4,
        Format::Bc5,
        Format::Bc6h,
        Format::Bc7,
    ];

    #[test]
    fn levels_are_aligned_disjoint_and_smallest_first() {
        for format in FORMATS {
            for (width, height) in [(1, 1), (5, 3), (256, 64), (1023, 2)] {
                let levels = Layout::full_levels(width.max(height));
                let layout = Layout::new(format, width, height, levels).expect("right");
                let mut end = HEADER_BYTES;
                for level in (0..levels).rev() {
                    let range = layout.level(level).expect("present");
                    assert!(range.start >= end && range.start.is_multiple_of(64));
                    assert_eq!(layout.prefix_bytes(level), range.end);
                    end = range.end;
                }
                assert_eq!(layout.bytes(), end);
                assert!(Layout::new(format, width, height, levels + 1).is_none());
            }
        }
    }

    #[test]
    fn headers_come_back_and_damage_is_noticed() {
        let mut bytes = [0; HEADER_BYTES];
        for format in FORMATS {
            let layout = Layout::new(format, 640, 480, 4).expect("right");
            let layout = layout.with_srgb(format == Format::Rgba8);
            layout.write_header(&mut bytes);
            assert_eq!(Layout::parse(&bytes), Ok(layout));
        }
        assert!(Layout::parse(&bytes[..63]).is_err());
        for (at, value) in [
            (0, 0),
            (4, 2),
            (6, 9),
            (7, 2),
            (11, 255),
            (16, 11),
            (20, 4),
            (63, 1),
        ] {
            let mut damaged = bytes;
            damaged[at] = value;
            assert!(Layout::parse(&damaged).is_err(), "byte {at}");
        }
        let huge = Layout::new(Format::Rgba8, u32::MAX, u32::MAX, 1);
        assert!(huge.is_none(), "no overflow either");
    }
}
