//! Rewrites a GLB without its images.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::glb;
use crate::model::{Buffer, BufferPlace, ImagePlace, Model, without_mark};
use crate::plan::joined;

/// The parts of a GLB.
pub(super) struct Parts<'a> {
    pub(super) model: Model,
    json: Value,
    binary: &'a [u8],
}

/// Returns the URI of an entry beside the GLB.
pub(super) fn uri_of(name: &[u8]) -> String {
    let beside = name.rsplit(|&byte| byte == b'/').next();
    percent_encode(beside.unwrap_or(name), ESCAPED).to_string()
}

/// All except letters, digits, `-`, `.` and `_`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

impl<'a> Parts<'a> {
    /// Parses a GLB; `None` if no image is inside it.
    ///
    /// # Errors
    /// It is not a valid GLB, or has views with extensions: some, such as meshopt's, refer to
    /// further bytes, which would be lost.
    pub(super) fn read(raw: &'a [u8]) -> Result<Option<Parts<'a>>> {
        let layout = glb::parse(raw, raw.len() as u64)?;
        let part = |range: Range<u64>| {
            raw.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
        };
        let wrong = |cause| Error::new(ErrorKind::Malformed, "", cause);
        let text = without_mark(part(layout.json).ok_or_else(|| wrong("the GLB is cut"))?);
        let model = Model::parse(text)?;
        let json: Value =
            serde_json::from_slice(text).map_err(|_| wrong("the JSON is not valid"))?;
        let mut images = model.images.iter().flatten();
        let has_images = images.any(|image| matches!(image.place, ImagePlace::View(_)));
        let Some(binary) = layout.binary.and_then(part).filter(|_| has_images) else {
            return Ok(None);
        };
        match model.buffers.first() {
            Some(Ok(Buffer {
                place: BufferPlace::Binary,
                len,
            })) if *len <= binary.len() as u64 => {}
            _ => return Err(wrong("its first buffer is not the binary chunk")),
        }
        let views = json.get("bufferViews").and_then(Value::as_array);
        let extended = |view: &Value| view.get("extensions").is_some();
        if views.into_iter().flatten().any(extended) {
            let cause = "it has buffer views with extensions";
            return Err(Error::new(ErrorKind::Unsupported, "bufferViews", cause));
        }
        Ok(Some(Parts {
            model,
            json,
            binary,
        }))
    }

    /// Returns, for each view in the binary chunk that only images use, these images and its bytes.
    pub(super) fn images(&self) -> impl Iterator<Item = (Vec<usize>, &'a [u8])> {
        let model = &self.model;
        let mut used: HashSet<usize> = HashSet::new();
        for accessor in model.accessors.iter().flatten() {
            used.extend(accessor.view);
            if let Some(sparse) = &accessor.sparse {
                used.extend([sparse.indices.view, sparse.values.view]);
            }
        }
        let mut shown: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, image) in model.images.iter().enumerate() {
            if let Ok(ImagePlace::View(view)) = image.as_ref().map(|image| &image.place)
                && !used.contains(view)
            {
                shown.entry(*view).or_default().push(index);
            }
        }
        shown.into_iter().filter_map(|(view, images)| {
            let about = model.views[view].as_ref().ok()?;
            let start = usize::try_from(about.offset).ok()?;
            let end = start + usize::try_from(about.len).ok()?;
            let bytes = self.binary.get(start..end)?;
            (about.buffer == 0).then_some((images, bytes))
        })
    }

    /// Returns the GLB with these images named by URIs, and without their bytes; `None` if it
    /// cannot be written.
    pub(super) fn without(mut self, outside: &BTreeMap<usize, String>) -> Option<Vec<u8>> {
        let mut json = self.json.take();
        let mut dropped = HashSet::new();
        for (&index, uri) in outside {
            let image = json.get_mut("images")?.get_mut(index)?.as_object_mut()?;
            let view = image.remove("bufferView")?;
            dropped.insert(usize::try_from(view.as_u64()?).ok()?);
            image.remove("mimeType");
            image.insert(String::from("uri"), json!(uri));
        }
        let binary = self.move_views(&dropped, &mut json)?;
        let buffer = json.get_mut("buffers")?.get_mut(0)?.as_object_mut()?;
        buffer.insert(String::from("byteLength"), json!(binary.len()));
        write(&serde_json::to_vec(&json).ok()?, &binary)
    }

    /// Returns the binary chunk with only the views that stay; sets their offsets in the JSON.
    /// Overlapping views move together.
    fn move_views(&self, dropped: &HashSet<usize>, json: &mut Value) -> Option<Vec<u8>> {
        let views = self.model.views.iter().enumerate();
        let views = views.filter_map(|(index, view)| {
            let view = view.as_ref().ok().filter(|view| view.buffer == 0)?;
            // Offsets modulo 16 stay the same, and with them every alignment.
            let range = view.offset & !15..view.offset + view.len;
            (!dropped.contains(&index)).then_some((index, view.offset, range))
        });
        let views: Vec<_> = views.collect();
        let ranges = joined(views.iter().map(|(.., range)| range.clone()).collect(), 0);
        let (mut binary, mut starts) = (Vec::new(), Vec::new());
        for range in &ranges {
            binary.resize(binary.len().next_multiple_of(16), 0);
            starts.push(binary.len() as u64);
            let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
            binary.extend_from_slice(self.binary.get(range)?);
        }
        binary.resize(binary.len().max(4), 0);
        let mut set = |index: usize, name: &str, value: u64| {
            let view = json.get_mut("bufferViews")?.get_mut(index)?;
            view.as_object_mut()?.insert(name.into(), json!(value))
        };
        for (index, offset, range) in views {
            let nth = ranges.partition_point(|it| it.start <= range.start) - 1;
            set(
                index,
                "byteOffset",
                starts[nth] + offset - ranges[nth].start,
            );
        }
        // Views are referred to by index, so a dropped one remains, with a length of one byte.
        for &index in dropped {
            set(index, "byteOffset", 0);
            set(index, "byteLength", 1);
        }
        Some(binary)
    }
}

fn write(json: &[u8], binary: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::from(glb::MAGIC);
    bytes.extend(2u32.to_le_bytes());
    bytes.extend([0; 4]);
    for (kind, data, fill) in [(b"JSON", json, b' '), (b"BIN\0", binary, 0)] {
        let padded = data.len().next_multiple_of(4);
        bytes.extend(u32::try_from(padded).ok()?.to_le_bytes());
        bytes.extend(kind);
        bytes.extend(data);
        bytes.resize(bytes.len() + padded - data.len(), fill);
    }
    let total = u32::try_from(bytes.len()).ok()?;
    bytes[8..12].copy_from_slice(&total.to_le_bytes());
    Some(bytes)
}
