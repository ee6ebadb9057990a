//! A loaded scene: its model, buffers and images, and their errors.
//!
//! Each buffer and image has a [`State`] of its own, so that a program can draw what has already
//! landed.

use std::ops::Range;
use std::sync::Arc;

use millstream::Buffer;

use crate::accessor::{Elements, SparseBytes};
use crate::device_memory::DeviceMemory;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::image::Image;
use crate::model::Model;
use crate::plan::SameBytes;

/// The state of a buffer or image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum State<T> {
    /// Not requested.
    Unwanted,
    /// Requested; nothing has landed.
    Waiting,
    /// Landed in part: the small levels of an image, or some ranges of a buffer.
    Part(T),
    /// Landed.
    Ready(T),
    /// Failed.
    Failed(Error),
}

impl<T> State<T> {
    /// Returns `Failed` for an error, otherwise `Waiting`.
    pub(crate) fn of(error: Option<Error>) -> State<T> {
        error.map_or(State::Waiting, State::Failed)
    }

    /// Returns what has landed.
    pub fn get(&self) -> Option<&T> {
        match self {
            State::Part(item) | State::Ready(item) => Some(item),
            _ => None,
        }
    }

    /// Whether the state is final.
    pub fn is_settled(&self) -> bool {
        !matches!(self, State::Waiting | State::Part(_))
    }

    /// Returns the error, if the state is `Failed`.
    pub fn error(&self) -> Option<&Error> {
        match self {
            State::Failed(error) => Some(error),
            _ => None,
        }
    }
}

/// Bytes of a buffer, or of a part of it.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Landed in memory of its own.
    Landed(Buffer),
    /// A part of shared memory: the head of the scene's file, or the bytes of a data URI.
    Part(SameBytes, Range<usize>),
    /// This many bytes on a device.
    Device(DeviceMemory, u64),
}

impl Bytes {
    /// The bytes in memory; none if they are on a device.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Landed(buffer) => buffer,
            Bytes::Part(bytes, range) => &bytes.as_slice()[range.clone()],
            Bytes::Device(..) => &[],
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Bytes::Device(_, len) => *len,
            bytes => bytes.as_slice().len() as u64,
        }
    }
}

/// The loaded bytes of a buffer: the ranges that views need.
#[derive(Debug, Default)]
pub struct BufferBytes {
    /// Where each range begins, and its bytes, in ascending order.
    segments: Vec<(u64, Bytes)>,
}

impl BufferBytes {
    pub(crate) fn add(&mut self, start: u64, bytes: Bytes) {
        let at = self.segments.partition_point(|(other, _)| *other < start);
        self.segments.insert(at, (start, bytes));
    }

    /// Returns the loaded ranges, in ascending order, each with its device memory if it is on a
    /// device.
    pub fn ranges(&self) -> impl Iterator<Item = (Range<u64>, Option<&DeviceMemory>)> {
        self.segments.iter().map(|(start, bytes)| {
            let memory = match bytes {
                Bytes::Device(memory, _) => Some(memory),
                _ => None,
            };
            (*start..start + bytes.len(), memory)
        })
    }

    /// Returns the bytes of a range, if they are loaded into memory.
    #[must_use]
    pub fn get(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let after = self.segments.partition_point(|(start, _)| *start <= offset);
        let (start, bytes) = self.segments.get(after.checked_sub(1)?)?;
        let from = usize::try_from(offset - start).ok()?;
        let len = usize::try_from(len).ok()?;
        bytes.as_slice().get(from..from.checked_add(len)?)
    }
}

/// A scene, loaded in full or in part; see the module.
#[derive(Debug)]
pub struct Scene {
    pub(crate) model: Model,
    pub(crate) json: Bytes,
    pub(crate) buffers: Vec<State<BufferBytes>>,
    pub(crate) images: Vec<State<Arc<Image>>>,
}

impl Scene {
    /// Returns the parsed JSON.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the JSON text, for properties that this crate does not parse.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        self.json.as_slice()
    }

    /// Returns the states of the buffers, by index.
    #[must_use]
    pub fn buffers(&self) -> &[State<BufferBytes>] {
        &self.buffers
    }

    /// Returns the states of the images, by index.
    #[must_use]
    pub fn images(&self) -> &[State<Arc<Image>>] {
        &self.images
    }

    /// Returns all errors: of the JSON first, then of buffers and images. An image that has failed
    /// is none if its textures show others in its place.
    pub fn problems(&self) -> impl Iterator<Item = &Error> {
        let wanted = self.model.wanted_images();
        let images = self.images.iter().zip(wanted);
        self.model
            .problems()
            .chain(self.buffers.iter().filter_map(State::error))
            .chain(images.filter_map(|(image, wanted)| image.error().filter(|_| wanted)))
    }

    /// Returns the image of a texture, if it has landed, at least in part.
    #[must_use]
    pub fn texture_image(&self, texture: usize) -> Option<&Arc<Image>> {
        let texture = self.model.textures.get(texture)?.as_ref().ok()?;
        self.images.get(texture.image?)?.get()
    }

    /// Returns the bytes of a view.
    ///
    /// # Errors
    /// The view does not exist or is invalid, or its bytes are not loaded or are on a device.
    pub fn view(&self, view: usize) -> Result<&[u8]> {
        let about = element(&self.model.views, "bufferViews", view)?;
        let (kind, cause) = match &self.buffers[about.buffer] {
            State::Failed(error) => return Err(error.clone()),
            State::Ready(bytes) => match bytes.get(about.offset, about.len) {
                Some(bytes) => return Ok(bytes),
                None if bytes.ranges().any(|(_, memory)| memory.is_some()) => {
                    (ErrorKind::Invalid, "lies on a device")
                }
                None => {
                    let cause = "holds an image, whose stored bytes are not kept";
                    (ErrorKind::Invalid, cause)
                }
            },
            _ => (ErrorKind::Read, "is not loaded yet"),
        };
        Err(Error::new(kind, format!("bufferViews[{view}]"), cause))
    }

    /// Returns the elements of an accessor.
    ///
    /// # Errors
    /// The accessor does not exist or is invalid, or its bytes are not loaded or are on a device.
    pub fn accessor(&self, accessor: usize) -> Result<Elements<'_>> {
        let about = element(&self.model.accessors, "accessors", accessor)?;
        let element_bytes = about.element_bytes();
        let (mut bytes, mut stride) = (None, element_bytes);
        if let Some(view) = about.view {
            bytes = Some(tail(self.view(view)?, about.offset));
            let view = element(&self.model.views, "bufferViews", view)?;
            stride = view.stride.unwrap_or(element_bytes);
        }
        let sparse = match &about.sparse {
            None => None,
            Some(sparse) => {
                let (indices, values) = (&sparse.indices, &sparse.values);
                let index_bytes = sparse.count * indices.component.bytes();
                let value_bytes = (sparse.count - 1) * element_bytes + about.last_bytes();
                Some(SparseBytes {
                    indices: head(tail(self.view(indices.view)?, indices.offset), index_bytes),
                    component: indices.component,
                    values: head(tail(self.view(values.view)?, values.offset), value_bytes),
                })
            }
        };
        Ok(Elements {
            accessor: about,
            bytes,
            stride: usize::try_from(stride).expect("252 at most"),
            sparse,
        })
    }
}

fn element<'a, T>(elements: &'a [Result<T>], array: &str, index: usize) -> Result<&'a T> {
    let missing = || invalid(format!("{array}[{index}]"), "does not exist");
    let element = elements.get(index).ok_or_else(missing)?;
    element.as_ref().map_err(Error::clone)
}

/// The model's checks guarantee that the bytes exist.
fn tail(bytes: &[u8], offset: u64) -> &[u8] {
    &bytes[usize::try_from(offset).expect("inside memory")..]
}

fn head(bytes: &[u8], len: u64) -> &[u8] {
    &bytes[..usize::try_from(len).expect("inside memory")]
}
