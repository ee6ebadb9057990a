//! Any bytes as a GLB: its head, its JSON, its checks, and the images in its binary chunk decode or
//! fail, without a panic, a stall or memory out of proportion.

use millstream_gltf::glb;
use millstream_gltf::image::{ImageLimits, decode_vec};
use millstream_gltf::model::{ImagePlace, Model};

/// 256 x 256: a decoder that takes more memory than this has been told to is found.
const LIMITS: ImageLimits = ImageLimits {
    pixels_max: 1 << 16,
    ratio_max: u64::MAX,
};

/// A GLB.
pub fn glb(input: &[u8]) {
    let part = |range: &std::ops::Range<u64>| {
        let index = |at: u64| usize::try_from(at).ok();
        input.get(index(range.start)?..index(range.end)?)
    };
    let json = match glb::parse(input, input.len() as u64) {
        Ok(layout) => {
            assert!(layout.json.end <= input.len() as u64);
            part(&layout.json).expect("inside the file")
        }
        Err(_) => input,
    };
    let _ = decode_vec(input, LIMITS);
    let Ok(model) = Model::parse(json) else {
        return;
    };
    let _ = (model.problems().count(), model.wanted_images());
    let binary = glb::parse(input, input.len() as u64)
        .ok()
        .and_then(|layout| layout.binary);
    let binary = binary.as_ref().and_then(part).unwrap_or(&[]);
    for image in model.images.iter().flatten().take(16) {
        let stored = match &image.place {
            ImagePlace::Data(bytes) => &bytes[..],
            ImagePlace::View(view) => {
                let Ok(view) = &model.views[*view] else {
                    continue;
                };
                let (start, end) = (view.offset as usize, (view.offset + view.len) as usize);
                binary.get(start..end).unwrap_or(&[])
            }
            _ => continue,
        };
        let _ = decode_vec(stored, LIMITS);
    }
}
