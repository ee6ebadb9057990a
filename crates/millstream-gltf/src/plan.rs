//! Plans the second batch from the model alone: the bytes that a scene needs besides its JSON.
//!
//! Every buffer that views use is one fetch or, if images lie in it, one fetch for each range
//! between images (ranges with small gaps are joined). Every needed image is one fetch; images with
//! the same bytes share it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use millstream::Buffer;

use crate::error::{Error, invalid};
use crate::limits;
use crate::model::{BufferPlace, ImagePlace, Model};

/// Where bytes come from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// An entry of the source by its full name: a range of it, or all of it, whatever its size.
    Entry {
        name: Arc<[u8]>,
        range: Option<Range<u64>>,
    },
    /// Memory: the bytes of a data URI, or the head of the scene's own file.
    Memory {
        bytes: SameBytes,
        range: Range<usize>,
    },
}

/// Identifies the bytes of an origin: an entry and a range of it, or a range of addresses. So data
/// URIs, in which many images may lie, are compared without their bytes.
pub(crate) type Key = (Option<Arc<[u8]>>, Option<Range<u64>>);

impl Origin {
    pub(crate) fn whole(name: Arc<[u8]>) -> Origin {
        Origin::Entry { name, range: None }
    }

    pub(crate) fn range(name: Arc<[u8]>, range: Range<u64>) -> Origin {
        let range = Some(range);
        Origin::Entry { name, range }
    }

    pub(crate) fn key(&self) -> Key {
        match self {
            Origin::Entry { name, range } => (Some(Arc::clone(name)), range.clone()),
            Origin::Memory { bytes, range } => {
                let range = bytes.as_slice()[range.clone()].as_ptr_range();
                let range = range.start.addr() as u64..range.end.addr() as u64;
                (None, Some(range))
            }
        }
    }
}

/// Shared bytes.
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
}

/// The purpose of bytes.
#[derive(Debug, Clone)]
pub(crate) enum Purpose {
    /// Bytes of a buffer, from offset `start` on.
    Buffer { buffer: usize, start: u64 },
    /// These images, which have the same bytes.
    Images(Vec<usize>),
}

/// Bytes to fetch.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) origin: Origin,
    pub(crate) purpose: Purpose,
    /// The place in the JSON, for error messages.
    pub(crate) place: String,
}

/// The scene's own file.
pub(crate) struct SceneFile<'a> {
    /// Its full name in the source.
    pub(crate) name: &'a Arc<[u8]>,
    /// The range of a GLB's binary chunk.
    pub(crate) binary: Option<Range<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) fetches: Vec<Fetch>,
    /// What cannot be fetched.
    pub(crate) failed: Vec<(Purpose, Error)>,
}

impl Plan {
    fn add(&mut self, purpose: Purpose, place: String, origin: Result<Origin, &'static str>) {
        match origin {
            Ok(origin) => self.fetches.push(Fetch {
                origin,
                purpose,
                place,
            }),
            Err(cause) => self.failed.push((purpose, invalid(place, cause))),
        }
    }
}

impl SceneFile<'_> {
    /// Returns the entry name of a name relative to the scene's folder.
    fn beside(&self, name: &[u8]) -> Arc<[u8]> {
        let folder = self.name.iter().rposition(|&byte| byte == b'/');
        let folder = folder.map_or(&[][..], |slash| &self.name[..=slash]);
        [folder, name].concat().into()
    }

    /// Returns where bytes of a buffer come from.
    fn of_buffer(
        &self,
        model: &Model,
        index: usize,
        range: Range<u64>,
    ) -> Result<Origin, &'static str> {
        let buffer = model.buffers[index].as_ref();
        match &buffer.map_err(|_| "its buffer is invalid")?.place {
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

    /// Plans the fetch of one image.
    pub(crate) fn fetch_image(&self, model: &Model, image: usize) -> Result<Fetch, Error> {
        let place = format!("images[{image}]");
        let about = model.images[image].as_ref().map_err(Error::clone)?;
        match self.of_image(model, &about.place) {
            Ok(origin) => Ok(Fetch {
                origin,
                purpose: Purpose::Images(vec![image]),
                place,
            }),
            Err(cause) => Err(invalid(place, cause)),
        }
    }

    fn of_image(&self, model: &Model, place: &ImagePlace) -> Result<Origin, &'static str> {
        match place {
            ImagePlace::Data(bytes) => Ok(Origin::Memory {
                range: 0..bytes.len(),
                bytes: SameBytes::Data(Arc::clone(bytes)),
            }),
            ImagePlace::Name(name) => Ok(Origin::whole(self.beside(name))),
            ImagePlace::View(view) => {
                let view = model.views[*view].as_ref();
                let view = view.map_err(|_| "its bufferView is invalid")?;
                self.of_buffer(model, view.buffer, view.offset..view.offset + view.len)
            }
        }
    }
}

/// Plans the second batch.
pub(crate) fn plan(model: &Model, file: &SceneFile<'_>) -> Plan {
    let mut plan = Plan::default();
    for (buffer, ranges) in stretches(model).into_iter().enumerate() {
        for range in ranges {
            let start = range.start;
            let origin = file.of_buffer(model, buffer, range);
            let purpose = Purpose::Buffer { buffer, start };
            plan.add(purpose, format!("buffers[{buffer}]"), origin);
        }
    }
    let mut known: HashMap<Key, usize> = HashMap::new();
    for (index, wanted) in model.wanted_images().into_iter().enumerate() {
        let (true, Ok(image)) = (wanted, &model.images[index]) else {
            continue;
        };
        let origin = file.of_image(model, &image.place);
        if let Ok(origin) = &origin {
            let nth = *known.entry(origin.key()).or_insert(plan.fetches.len());
            if let Some(Purpose::Images(images)) =
                plan.fetches.get_mut(nth).map(|it| &mut it.purpose)
            {
                images.push(index);
                continue;
            }
        }
        plan.add(
            Purpose::Images(vec![index]),
            format!("images[{index}]"),
            origin,
        );
    }
    plan
}

/// Returns for each buffer the ranges that views other than images need; the whole buffer if no
/// image lies in it. Ranges begin at multiples of 4: device memory holds a range from its
/// beginning, so vertices and indices keep their alignment there.
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

/// Sorts ranges, and joins those with gaps of at most `gap_max` bytes between them.
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
