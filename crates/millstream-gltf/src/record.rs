//! The metadata records of scenes and images in packages, which let a loader fetch everything in
//! one batch, and the small levels of images first.
//!
//! [`SceneDescriber`] writes them for uncooked entries, and the cook for those that it makes. A
//! record is a prediction that may be stale or forged: the loader checks it against the JSON, and
//! an image's layout against the image's own header.
//!
//! The record of a scene has, as parts, the range of its own file that holds the JSON (and, in a
//! GLB, the header of the binary chunk), and the ranges of buffers and images in the binary chunk;
//! as dependencies, the other entries that it needs. The record of an image in this crate's format
//! has its sides, format and levels, and as `extra` its header.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_pak::metadata::{Container, Dependency, Image, Kind, Metadata, Part, Role};
use millstream_pak::{Describe, Head};

use crate::describe::mip;
use crate::glb;
use crate::image::{self, HEADER_BYTES, Layout};
use crate::limits;
use crate::model::Model;
use crate::plan::{self, Fetch, Origin, Purpose, SceneFile};

/// Returns the fetches that the record of a scene predicts, and the length of its head in bytes.
pub(crate) fn promised(name: &Arc<[u8]>, record: &[u8]) -> Option<(Vec<Fetch>, Option<u64>)> {
    let record = Metadata::decode(record).ok()?;
    if record.kind != Kind::SCENE {
        return None;
    }
    let mut fetches = Vec::new();
    let mut promise = |role, origin| {
        let purpose = match role {
            Role::BUFFER => Purpose::Buffer {
                buffer: 0,
                start: 0,
            },
            Role::IMAGE => Purpose::Images(Vec::new()),
            _ => return,
        };
        fetches.push(Fetch {
            origin,
            purpose,
            place: String::new(),
        });
    };
    let mut head_bytes = None;
    for part in &record.parts {
        let end = part.offset.checked_add(part.bytes)?;
        if part.role == Role::SCENE && part.offset == 0 {
            head_bytes = Some(end);
        }
        promise(part.role, Origin::range(Arc::clone(name), part.offset..end));
    }
    for Dependency { role, name } in &record.dependencies {
        promise(*role, Origin::whole(Arc::from(name.as_bytes())));
    }
    Some((fetches, head_bytes))
}

/// Returns the layout of an image in this crate's format, from its record.
pub(crate) fn image_layout(record: &[u8]) -> Option<Layout> {
    let record = Metadata::decode(record).ok()?;
    Layout::parse(&record.extra).ok()
}

/// Returns the record of a scene whose file begins with `head` (the whole file, for a `.gltf`).
pub(crate) fn describe_scene(name: &[u8], head: &[u8], file_bytes: u64) -> Option<Metadata> {
    let name: Arc<[u8]> = Arc::from(name);
    let mut record = Metadata::new(Kind::SCENE);
    let (mut json, mut binary, mut container) = (head, None, Container::GLTF);
    let mut head_bytes = file_bytes;
    if glb::is_glb(head) {
        let layout = glb::parse(head, file_bytes).ok()?;
        let index = |at: u64| usize::try_from(at).ok();
        json = head.get(index(layout.json.start)?..index(layout.json.end)?)?;
        head_bytes = layout.head_bytes;
        binary = layout.binary;
        container = Container::GLB;
    } else if head.len() as u64 != file_bytes {
        return None;
    }
    let model = Model::parse(json).ok()?;
    // The record's image, which has no sides for a scene, holds the container.
    record.image = Some(Image {
        container,
        ..Image::default()
    });
    record.parts.push(Part {
        role: Role::SCENE,
        index: 0,
        offset: 0,
        bytes: head_bytes,
    });
    let file = SceneFile {
        name: &name,
        binary,
    };
    let mut known = HashSet::new();
    for fetch in plan::plan(&model, &file).fetches {
        let (role, index) = match &fetch.purpose {
            Purpose::Buffer { buffer, .. } => (Role::BUFFER, *buffer),
            Purpose::Images(images) => (Role::IMAGE, *images.first()?),
        };
        let index = u32::try_from(index).ok()?;
        match fetch.origin {
            Origin::Entry {
                name: other,
                range: Some(range),
            } if other == name => record.parts.push(Part {
                role,
                index,
                offset: range.start,
                bytes: range.end - range.start,
            }),
            Origin::Entry { name, .. } => {
                if known.insert((role, Arc::clone(&name))) {
                    let name = String::from_utf8(name.to_vec()).ok()?;
                    record.dependencies.push(Dependency { role, name });
                }
            }
            Origin::Memory { .. } => {}
        }
    }
    fits(record)
}

/// Shortens a record that is too long for a package: the loader finds the rest in the JSON.
fn fits(mut record: Metadata) -> Option<Metadata> {
    while record.encode().len() > millstream_pak::limits::METADATA_BYTES_MAX {
        let (parts, dependencies) = (record.parts.len() / 2, record.dependencies.len() / 2);
        if parts == 0 && dependencies == 0 {
            return None;
        }
        record.parts.truncate(parts.max(1));
        record.dependencies.truncate(dependencies);
    }
    Some(record)
}

/// Returns the record of an image in this crate's format.
pub(crate) fn describe_image(layout: &Layout) -> Metadata {
    let mut record = Metadata::new(Kind::IMAGE);
    let (width, height) = layout.size(0);
    let texels = layout.format().texels(layout.is_srgb());
    record.image = Some(Image {
        width,
        height,
        depth: 1,
        layers: 1,
        format: texels.vulkan,
        channels: 4,
        bits: texels.bits,
        container: Container::OTHER,
        maxval: 0,
    });
    for level in (layout.first_level()..layout.levels()).rev() {
        let start = layout.level(level).expect("present").start as u64;
        let mip = mip(texels, [width, height, 1], level, start);
        record.mips.push(mip.expect("sides are bounded"));
    }
    let mut header = [0; HEADER_BYTES];
    layout.write_header(&mut header);
    record.extra = header.to_vec();
    record
}

/// Describes scenes, and images in this crate's format.
#[derive(Debug, Clone, Copy, Default)]
pub struct SceneDescriber;

impl Describe for SceneDescriber {
    fn head_bytes(&self, name: &[u8]) -> usize {
        match is_scene(name) {
            true => usize::try_from(limits::JSON_BYTES_MAX).unwrap_or(usize::MAX),
            false => HEADER_BYTES,
        }
    }

    fn describe(&self, head: &Head<'_>) -> Option<Metadata> {
        if is_scene(head.name) {
            return describe_scene(head.name, head.bytes, head.raw_bytes);
        }
        if !head.bytes.starts_with(&image::MAGIC) {
            return None;
        }
        let layout = Layout::parse(head.bytes).ok()?;
        (layout.bytes() as u64 <= head.raw_bytes).then(|| describe_image(&layout))
    }
}

/// Whether a name ends in `.gltf` or `.glb`, ignoring case.
#[must_use]
pub fn is_scene(name: &[u8]) -> bool {
    let ends = |with: &[u8]| {
        let start = name.len().checked_sub(with.len());
        start.is_some_and(|start| name[start..].eq_ignore_ascii_case(with))
    };
    ends(b".gltf") || ends(b".glb")
}
