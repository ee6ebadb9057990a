//! The bytes that a scene needs beside its JSON: the second batch, planned from the model alone.
//!
//! Every buffer that views use is one fetch, or, where images lie in it, one fetch for each stretch
//! of it between images (stretches with small gaps are one). Every wanted image is one fetch;
//! images with the same bytes share it.
#![expect(
    clippy::mutable_key_type,
    reason = "origins in memory are compared by address, which their content cannot change"
)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use millstream::Buffer;

use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::model::{BufferPlace, ImagePlace, Model};

/// Where bytes come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// An entry of the source, named whole: a range of it, or all of it, whatever its size.
    Entry {
        name: Arc<[u8]>,
        range: Option<Range<u64>>,
    },
    /// Memory: the JSON itself, or the head of a GLB.
    Memory {
        bytes: SameBytes,
        range: Range<usize>,
    },
}

impl Origin {
    pub(crate) fn whole(name: Arc<[u8]>) -> Origin {
        Origin::Entry { name, range: None }
    }

    pub(crate) fn range(name: Arc<[u8]>, range: Range<u64>) -> Origin {
        let range = Some(range);
        Origin::Entry { name, range }
    }
}

/// Shared bytes. They are equal only if their memory is the same, so that comparing them costs
/// nothing, however many images a scene makes of one data URI.
#[derive(Debug, Clone)]
pub(crate) enum SameBytes {
    Data(Arc<[u8]>),
    Head(Arc<Buffer>),
}

impl SameBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            SameBytes::Data(bytes) => bytes,
            SameBytes::Head(buffer) => buffer,
        }
    }

    fn whole(bytes: &Arc<[u8]>) -> Origin {
        Origin::Memory {
            range: 0..bytes.len(),
            bytes: SameBytes::Data(Arc::clone(bytes)),
        }
    }
}

impl PartialEq for SameBytes {
    fn eq(&self, other: &SameBytes) -> bool {
        std::ptr::eq(self.as_slice(), other.as_slice())
    }
}

impl Eq for SameBytes {}

impl Hash for SameBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.as_slice(), state);
    }
}

/// What bytes are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Bytes of a buffer from `start` on.
    Buffer { buffer: usize, start: u64 },
    /// These images, which are one.
    Images(Vec<usize>),
}

/// Something to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) origin: Origin,
    pub(crate) purpose: Purpose,
    /// For messages.
    pub(crate) place: String,
}

/// The scene's own file.
pub(crate) struct SceneFile<'a> {
    /// Its whole name in the source.
    pub(crate) name: &'a Arc<[u8]>,
    /// The binary chunk of a GLB.
    pub(crate) binary: Option<Range<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) fetches: Vec<Fetch>,
    /// What cannot be fetched.
    pub(crate) failed: Vec<(Purpose, Error)>,
}

impl SceneFile<'_> {
    /// The entry name of a URI's relative name.
    fn beside(&self, name: &[u8]) -> Arc<[u8]> {
        let folder = self.name.iter().rposition(|&byte| byte == b'/');
        let folder = folder.map_or(&[][..], |slash| &self.name[..=slash]);
        [folder, name].concat().into()
    }

    /// Where bytes of a buffer come from.
    fn of_buffer(
        &self,
        index: usize,
        place: &BufferPlace,
        range: Range<u64>,
    ) -> Result<Origin, &'static str> {
        match place {
            BufferPlace::Data(bytes) => {
                let index = |at: u64| usize::try_from(at).map_err(|_| "exceeds the address space");
                Ok(Origin::Memory {
                    range: index(range.start)?..index(range.end)?,
                    bytes: SameBytes::Data(Arc::clone(bytes)),
                })
            }
            BufferPlace::Name(name) => Ok(Origin::range(self.beside(name), range)),
            BufferPlace::Nowhere => Err("has only compressed bytes"),
            BufferPlace::Binary => {
                // Only the first buffer may be the binary chunk.
                let binary = self.binary.as_ref().filter(|_| index == 0);
                let binary = binary.ok_or("has no uri, and there is no binary chunk for it")?;
                if range.end > binary.end - binary.start {
                    return Err("is longer than the binary chunk");
                }
                let range = binary.start + range.start..binary.start + range.end;
                Ok(Origin::range(Arc::clone(self.name), range))
            }
        }
    }
}

/// Plans the second batch.
pub(crate) fn plan(model: &Model, file: &SceneFile<'_>) -> Plan {
    let mut plan = Plan::default();
    let stretches = stretches(model);
    for ((index, buffer), ranges) in model.buffers.iter().enumerate().zip(stretches) {
        let Ok(buffer) = buffer else { continue };
        if buffer.place == BufferPlace::Nowhere {
            continue;
        }
        let place = format!("buffers[{index}]");
        for range in ranges {
            let purpose = Purpose::Buffer {
                buffer: index,
                start: range.start,
            };
            match file.of_buffer(index, &buffer.place, range) {
                Ok(origin) => plan.fetches.push(Fetch {
                    origin,
                    purpose,
                    place: place.clone(),
                }),
                Err(cause) => {
                    let error = Error::new(ErrorKind::Invalid, &place[..], cause);
                    plan.failed.push((purpose, error));
                    break;
                }
            }
        }
    }
    plan_images(model, file, &mut plan);
    plan
}

fn plan_images(model: &Model, file: &SceneFile<'_>, plan: &mut Plan) {
    let mut known: HashMap<Origin, usize> = HashMap::new();
    for (index, wanted) in model.wanted_images().into_iter().enumerate() {
        let (true, Ok(image)) = (wanted, &model.images[index]) else {
            continue;
        };
        let place = format!("images[{index}]");
        let origin = match &image.place {
            ImagePlace::Data(bytes) => Ok(SameBytes::whole(bytes)),
            ImagePlace::Name(name) => Ok(Origin::whole(file.beside(name))),
            ImagePlace::View(view) => of_view(model, file, *view),
        };
        match origin {
            Ok(origin) => match known.entry(origin) {
                Entry::Occupied(at) => {
                    if let Purpose::Images(images) = &mut plan.fetches[*at.get()].purpose {
                        images.push(index);
                    }
                }
                Entry::Vacant(at) => {
                    let origin = at.key().clone();
                    at.insert(plan.fetches.len());
                    plan.fetches.push(Fetch {
                        origin,
                        purpose: Purpose::Images(vec![index]),
                        place,
                    });
                }
            },
            Err(cause) => {
                let error = Error::new(ErrorKind::Invalid, place, cause);
                plan.failed.push((Purpose::Images(vec![index]), error));
            }
        }
    }
}

fn of_view(model: &Model, file: &SceneFile<'_>, view: usize) -> Result<Origin, &'static str> {
    let view = model.views.get(view).and_then(|view| view.as_ref().ok());
    let view = view.ok_or("its bufferView is invalid")?;
    let Some(Ok(buffer)) = model.buffers.get(view.buffer) else {
        return Err("the buffer of its bufferView is invalid");
    };
    file.of_buffer(
        view.buffer,
        &buffer.place,
        view.offset..view.offset + view.len,
    )
}

/// Returns for each buffer the ranges that views other than images need; the whole buffer if no
/// image lies in it. They begin at multiples of 4, so that in memory of a device, which holds a
/// range from its beginning, offsets of vertices and indices stay the multiples that they are.
fn stretches(model: &Model) -> Vec<Vec<Range<u64>>> {
    let mut of_image = vec![false; model.views.len()];
    for image in model.images.iter().flatten() {
        if let ImagePlace::View(view) = image.place {
            of_image[view] = true;
        }
    }
    let mut holds_image = vec![false; model.buffers.len()];
    let mut ranges: Vec<Vec<Range<u64>>> = vec![Vec::new(); model.buffers.len()];
    for (view, of_image) in model.views.iter().zip(of_image) {
        let Ok(view) = view else { continue };
        if of_image {
            holds_image[view.buffer] = true;
        } else {
            ranges[view.buffer].push(view.offset & !3..view.offset + view.len);
        }
    }
    for ((buffer, ranges), holds_image) in model.buffers.iter().zip(&mut ranges).zip(holds_image) {
        let len = buffer.as_ref().map_or(0, |buffer| buffer.len);
        if holds_image {
            *ranges = joined(std::mem::take(ranges), limits::GAP_BYTES_MAX);
        } else if !ranges.is_empty() {
            ranges.clear();
            ranges.push(0..len);
        }
    }
    ranges
}

/// Ranges in order, those with gaps of at most so many bytes between them as one.
pub(crate) fn joined(mut ranges: Vec<Range<u64>>, gap_max: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap_max) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLB: &[u8] = b"dir/scene.glb";

    fn planned(json: &str, binary: Option<Range<u64>>) -> Plan {
        let json = format!(r#"{{"asset":{{"version":"2.0"}},{json}}}"#);
        let model = Model::parse(json.as_bytes()).expect("JSON");
        assert!(model.problems().next().is_none());
        let name: Arc<[u8]> = Arc::from(GLB);
        let file = SceneFile {
            name: &name,
            binary,
        };
        plan(&model, &file)
    }

    /// Small gaps do not split a buffer, images do; ranges begin at multiples of 4.
    #[test]
    fn buffers_and_images_of_a_glb_are_ranges_of_it() {
        type Case<'a> = (&'a str, &'a [(u64, Range<u64>)], Range<u64>);
        let tables: [Case<'_>; 2] = [
            (
                r#""bufferViews":[{"buffer":0,"byteLength":100},
                {"buffer":0,"byteOffset":200,"byteLength":100},
                {"buffer":0,"byteOffset":300,"byteLength":500000},
                {"buffer":0,"byteOffset":600000,"byteLength":10}],
                "images":[{"bufferView":2},{"bufferView":2}]"#,
                &[(0, 1000..1300), (600_000, 601_000..601_010)],
                1300..501_300,
            ),
            (
                r#""bufferViews":[{"buffer":0,"byteLength":50001},
                {"buffer":0,"byteOffset":50002,"byteLength":6},
                {"buffer":0,"byteOffset":190003,"byteLength":1}],
                "images":[{"bufferView":0},{"bufferView":0}]"#,
                &[(50_000, 51_000..51_008), (190_000, 191_000..191_004)],
                1000..51_001,
            ),
        ];
        for (json, buffers, image) in tables {
            let json = format!(r#""buffers":[{{"byteLength":1000000}}],{json}"#);
            let found = planned(&json, Some(1000..1_001_000)).fetches.into_iter();
            let found = found.map(|fetch| (fetch.origin, fetch.purpose));
            let origin = |range: &Range<u64>| Origin::range(Arc::from(GLB), range.clone());
            let buffers = buffers.iter().map(|(start, range)| {
                let (buffer, start) = (0, *start);
                (origin(range), Purpose::Buffer { buffer, start })
            });
            let images = (origin(&image), Purpose::Images(vec![0, 1]));
            assert!(found.eq(buffers.chain([images])), "{json}");
        }
    }

    #[test]
    fn names_are_beside_the_scene_and_unused_buffers_are_left() {
        let plan = planned(
            r#""buffers":[{"byteLength":9,"uri":"a.bin"},{"byteLength":9,"uri":"b.bin"}],
            "bufferViews":[{"buffer":1,"byteLength":9}],
            "images":[{"uri":"t/x.png"},{"uri":"data:,abc"}]"#,
            None,
        );
        let origins: Vec<Origin> = plan.fetches.into_iter().map(|fetch| fetch.origin).collect();
        assert_eq!(
            origins[0],
            Origin::range(Arc::from(&b"dir/b.bin"[..]), 0..9)
        );
        assert_eq!(origins[1], Origin::whole(Arc::from(&b"dir/t/x.png"[..])));
        assert!(matches!(&origins[2], Origin::Memory { bytes, .. } if bytes.as_slice() == b"abc"));
    }

    #[test]
    fn a_buffer_longer_than_the_chunk_is_an_error() {
        let json = r#""buffers":[{"byteLength":9}],"bufferViews":[{"buffer":0,"byteLength":9}]"#;
        for binary in [None, Some(20..28)] {
            let plan = planned(json, binary);
            assert!(plan.fetches.is_empty());
            assert_eq!(plan.failed[0].1.place(), "buffers[0]");
        }
        assert_eq!(planned(json, Some(20..29)).fetches.len(), 1);
    }
}
