//! The elements of a scene's JSON, and how each is read.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Object, Shared, read, read_element};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::limits;
use crate::uri::{self, Uri};

/// Where a buffer's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BufferPlace {
    /// The binary chunk of the GLB.
    Binary,
    /// In the JSON itself.
    Data(Shared),
    /// In a file, named relative to the scene's folder.
    Name(Vec<u8>),
    /// There are none: the bytes of its views are compressed in another buffer
    /// (`EXT_meshopt_compression`).
    Nowhere,
}

/// A buffer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Buffer {
    /// Where its bytes are.
    pub place: BufferPlace,
    /// Its length in bytes.
    pub len: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BufferFields<'a> {
    byte_length: u64,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(default)]
    extensions: Object<BufferExtensions>,
}

#[derive(Default, Deserialize)]
struct BufferExtensions {
    #[serde(rename = "EXT_meshopt_compression")]
    meshopt: Option<Object<Meshopt>>,
}

#[derive(Deserialize)]
struct Meshopt {
    #[serde(default)]
    fallback: bool,
}

impl Buffer {
    pub(super) fn read(text: &str) -> Result<Buffer> {
        let fields: BufferFields<'_> = read(text)?;
        let len = fields.byte_length;
        let meshopt = fields.extensions.0.meshopt;
        let place = match fields.uri {
            Some(uri) => match read_uri(&uri)? {
                Uri::Name(name) => BufferPlace::Name(name),
                Uri::Data(bytes) if (bytes.len() as u64) < len => {
                    let cause = format!("holds {} bytes, not {len}", bytes.len());
                    return Err(invalid("uri", cause));
                }
                Uri::Data(bytes) => BufferPlace::Data(bytes.into()),
            },
            None if meshopt.is_some_and(|it| it.0.fallback) => BufferPlace::Nowhere,
            None => BufferPlace::Binary,
        };
        Ok(Buffer { place, len })
    }
}

fn read_uri(uri: &str) -> Result<Uri> {
    uri::parse(uri).map_err(|(kind, cause)| {
        let shown: String = uri.chars().take(80).collect();
        Error::new(kind, "uri", format!("{cause} ({shown:?})"))
    })
}

/// A range of a buffer.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct View {
    /// The buffer.
    pub buffer: usize,
    /// Offset of its first byte in the buffer.
    #[serde(rename = "byteOffset", default)]
    pub offset: u64,
    /// Length in bytes.
    #[serde(rename = "byteLength")]
    pub len: u64,
    /// Bytes from one element to the next; `None` for elements without gaps.
    #[serde(rename = "byteStride")]
    pub stride: Option<u64>,
}

/// The type of an accessor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "u32")]
#[non_exhaustive]
pub enum Component {
    /// Signed, one byte.
    I8,
    /// Unsigned, one byte.
    U8,
    /// Signed, two bytes.
    I16,
    /// Unsigned, two bytes.
    U16,
    /// Unsigned, four bytes.
    U32,
    /// IEEE single precision.
    F32,
}

impl TryFrom<u32> for Component {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Component, &'static str> {
        Ok(match number {
            5120 => Component::I8,
            5121 => Component::U8,
            5122 => Component::I16,
            5123 => Component::U16,
            5125 => Component::U32,
            5126 => Component::F32,
            _ => return Err("is not a component type"),
        })
    }
}

impl Component {
    /// Returns the bytes of a number.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Component::I8 | Component::U8 => 1,
            Component::I16 | Component::U16 => 2,
            Component::U32 | Component::F32 => 4,
        }
    }

    /// Whether indices may have this type.
    pub(crate) fn is_index(self) -> bool {
        matches!(self, Component::U8 | Component::U16 | Component::U32)
    }
}

/// The type of an element: a scalar, vector or matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Shape {
    /// One number.
    Scalar,
    /// Two numbers.
    Vec2,
    /// Three numbers.
    Vec3,
    /// Four numbers.
    Vec4,
    /// Two columns of two.
    Mat2,
    /// Three columns of three.
    Mat3,
    /// Four columns of four.
    Mat4,
}

impl Shape {
    /// Returns the numbers of an element, without padding.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.columns() * self.rows()
    }

    /// Returns the number of columns: 1 except for matrices.
    #[must_use]
    pub fn columns(self) -> usize {
        match self {
            Shape::Mat2 => 2,
            Shape::Mat3 => 3,
            Shape::Mat4 => 4,
            _ => 1,
        }
    }

    /// Returns the numbers of a column.
    #[must_use]
    pub fn rows(self) -> usize {
        match self {
            Shape::Scalar => 1,
            Shape::Vec2 | Shape::Mat2 => 2,
            Shape::Vec3 | Shape::Mat3 => 3,
            Shape::Vec4 | Shape::Mat4 => 4,
        }
    }
}

/// Elements of an accessor that replace those of its view (or zeros).
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Sparse {
    /// The number of sparse elements.
    pub count: u64,
    /// Their indices.
    #[serde(deserialize_with = "object")]
    pub indices: SparseIndices,
    /// Their values.
    #[serde(deserialize_with = "object")]
    pub values: SparseValues,
}

/// Where the indices of sparse elements are.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SparseIndices {
    /// The view.
    #[serde(rename = "bufferView")]
    pub view: usize,
    /// Where they begin in the view, in bytes.
    #[serde(rename = "byteOffset", default)]
    pub offset: u64,
    /// The type of the indices.
    #[serde(rename = "componentType")]
    pub component: Component,
}

/// Where the values of sparse elements are.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SparseValues {
    /// The view.
    #[serde(rename = "bufferView")]
    pub view: usize,
    /// Where they begin in the view, in bytes.
    #[serde(rename = "byteOffset", default)]
    pub offset: u64,
}

/// Typed elements in a view.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Accessor {
    /// The view; without one all elements are zero (except sparse ones).
    #[serde(rename = "bufferView")]
    pub view: Option<usize>,
    /// Where the elements begin in the view, in bytes.
    #[serde(rename = "byteOffset", default)]
    pub offset: u64,
    /// The type of the numbers.
    #[serde(rename = "componentType")]
    pub component: Component,
    /// Whether integers are fractions, from 0 to 1 or -1 to 1.
    #[serde(default)]
    pub normalized: bool,
    /// The number of elements.
    pub count: u64,
    /// The type of an element.
    #[serde(rename = "type")]
    pub shape: Shape,
    /// Elements that replace those of the view, or zeros.
    #[serde(default, deserialize_with = "sparse")]
    pub sparse: Option<Sparse>,
}

fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Object::deserialize(from).map(|object| object.0)
}

fn sparse<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Sparse>, D::Error> {
    Option::deserialize(from).map(|object| object.map(|Object(sparse)| sparse))
}

impl Accessor {
    /// Returns the bytes of one element, with the padding of matrix columns (each begins at a
    /// multiple of four).
    #[must_use]
    pub fn element_bytes(&self) -> u64 {
        let column = self.shape.rows() as u64 * self.component.bytes();
        match self.shape.columns() as u64 {
            1 => column,
            // The last column is padded as well, as exporters and validators agree.
            columns => column.next_multiple_of(4) * columns,
        }
    }

    /// Returns the bytes of the last element, behind which nothing need be stored: without the
    /// padding of its last column.
    pub(crate) fn last_bytes(&self) -> u64 {
        let column = self.shape.rows() as u64 * self.component.bytes();
        self.element_bytes() - (self.element_bytes() / self.shape.columns() as u64 - column)
    }
}

/// Where an image's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImagePlace {
    /// In a view.
    View(usize),
    /// In the JSON itself.
    Data(Shared),
    /// In a file, named relative to the scene's folder.
    Name(Vec<u8>),
}

/// An image. Its format is recognized by its bytes, not by its media type.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Image {
    /// Where its bytes are.
    pub place: ImagePlace,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageFields<'a> {
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    buffer_view: Option<usize>,
}

impl Image {
    pub(super) fn read(text: &str) -> Result<Image> {
        let fields: ImageFields<'_> = read(text)?;
        let place = match (fields.uri, fields.buffer_view) {
            (Some(uri), None) => match read_uri(&uri)? {
                Uri::Name(name) => ImagePlace::Name(name),
                Uri::Data(bytes) => ImagePlace::Data(bytes.into()),
            },
            (None, Some(view)) => ImagePlace::View(view),
            _ => return Err(invalid("", "must have either uri or bufferView")),
        };
        Ok(Image { place })
    }
}

/// How a texture is sampled: the numbers of the specification (those of OpenGL).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sampler {
    /// Magnification filter.
    pub mag_filter: Option<u64>,
    /// Minification filter.
    pub min_filter: Option<u64>,
    /// Wrapping mode of S (U), across the left and right edge.
    #[serde(default = "repeat")]
    pub wrap_s: u64,
    /// Wrapping mode of T (V), across the upper and lower edge.
    #[serde(default = "repeat")]
    pub wrap_t: u64,
}

/// `GL_REPEAT`.
fn repeat() -> u64 {
    10497
}

/// A texture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Texture {
    /// The image that is loaded for it. If that fails, the loader puts an alternative in its place.
    pub image: Option<usize>,
    /// Other images that it names, as alternatives; not loaded for it.
    pub passed_over: Vec<usize>,
    /// The sampler.
    pub sampler: Option<usize>,
}

#[derive(Deserialize)]
struct TextureFields {
    source: Option<usize>,
    sampler: Option<usize>,
    #[serde(default)]
    extensions: Object<TextureExtensions>,
}

#[derive(Default, Deserialize)]
struct TextureExtensions {
    #[serde(rename = "MSFT_texture_dds")]
    dds: Option<Object<Source>>,
    #[serde(rename = "EXT_texture_webp")]
    webp: Option<Object<Source>>,
    #[serde(rename = "KHR_texture_basisu")]
    basisu: Option<Object<Source>>,
}

#[derive(Deserialize)]
struct Source {
    source: Option<usize>,
}

impl Texture {
    pub(super) fn read(text: &str) -> Result<Texture> {
        let fields: TextureFields = read(text)?;
        let TextureExtensions { dds, webp, basisu } = fields.extensions.0;
        let of = |extension: Option<Object<Source>>| extension.and_then(|it| it.0.source);
        // Basis Universal is not supported, so it comes last: it is loaded only where there is
        // nothing else, as the file may have another format.
        let images = [of(dds), of(webp), fields.source, of(basisu)];
        let mut images = images.into_iter().flatten();
        Ok(Texture {
            image: images.next(),
            passed_over: images.collect(),
            sampler: fields.sampler,
        })
    }
}

/// A material's use of a texture.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextureUse {
    /// The property, such as `pbrMetallicRoughness.baseColorTexture`. (One of more than about 200
    /// bytes is ignored.)
    pub slot: String,
    /// The texture.
    pub texture: usize,
    /// The set of texture coordinates.
    pub coordinates: u64,
}

/// A material. Its factors are in the JSON text.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Material {
    /// Its textures, including those of extensions.
    pub textures: Vec<TextureUse>,
}

impl Material {
    pub(super) fn read(text: &str) -> Result<Material> {
        let mut textures = Vec::new();
        find_textures(&read(text)?, "", &mut textures)?;
        Ok(Material { textures })
    }
}

/// Collects objects named `...Texture` that have an index, at any depth. (The parser bounds the
/// JSON's depth.)
fn find_textures(
    object: &Map<String, Value>,
    slot: &str,
    textures: &mut Vec<TextureUse>,
) -> Result<()> {
    for (name, value) in object {
        let is_texture = name.ends_with("Texture");
        // A slot includes the names of all enclosing objects, so many slots may repeat a long name.
        let is_long = slot.len() + name.len() > limits::PLACE_BYTES_MAX;
        if is_long || name == "extras" || !is_texture && !value.is_object() {
            continue;
        }
        let slot = match slot {
            "" => name.clone(),
            slot => format!("{slot}.{name}"),
        };
        let wrong = |name, cause| Err(invalid(format!("{slot}{name}"), cause));
        let Some(inner) = value.as_object() else {
            return wrong("", "is not an object");
        };
        let index = inner.get("index");
        // What an extension calls a texture, but has no index, may be something else.
        if is_texture && (!slot.contains("extensions") || index.is_some()) {
            let texture = index.and_then(Value::as_u64);
            let Some(texture) = texture.and_then(|index| usize::try_from(index).ok()) else {
                return wrong(".index", "is missing, or no index");
            };
            let Some(coordinates) = inner.get("texCoord").map_or(Some(0), Value::as_u64) else {
                return wrong(".texCoord", "is no number of 0 or more");
            };
            textures.push(TextureUse {
                slot,
                texture,
                coordinates,
            });
        } else {
            find_textures(inner, &slot, textures)?;
        }
    }
    Ok(())
}

/// A part of a mesh with one material.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Primitive {
    /// Accessors by attribute (`POSITION`, `NORMAL`, ...).
    #[serde(default)]
    pub attributes: BTreeMap<String, usize>,
    /// The accessor of indices.
    pub indices: Option<usize>,
    /// The material.
    pub material: Option<usize>,
    /// The topology, a number of the specification: 4 for triangles.
    #[serde(default = "triangles")]
    pub mode: u64,
    #[serde(default)]
    pub(super) extensions: Object<PrimitiveExtensions>,
}

fn triangles() -> u64 {
    4
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct PrimitiveExtensions {
    #[serde(rename = "KHR_draco_mesh_compression")]
    pub(super) draco: Option<IgnoredAny>,
}

/// A mesh.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Mesh {
    /// Its parts.
    pub primitives: Vec<Result<Primitive>>,
}

#[derive(Deserialize)]
struct MeshFields<'a> {
    #[serde(borrow, default)]
    primitives: Vec<&'a RawValue>,
}

impl Mesh {
    /// Reads a mesh; `left` is the number of primitives that the scene may still have.
    pub(super) fn read(text: &str, mesh: usize, left: &Cell<usize>) -> Result<Mesh> {
        let fields: MeshFields<'_> = read(text)?;
        let Some(rest) = left.get().checked_sub(fields.primitives.len()) else {
            let cause = "the primitives of all meshes exceed the limit";
            return Err(Error::new(ErrorKind::Limit, "primitives", cause));
        };
        left.set(rest);
        let one = |(at, text): (usize, &&RawValue)| {
            let primitive = read_element(text.get(), |text| read(text));
            let place = format_args!("meshes[{mesh}].primitives[{at}]");
            primitive.map_err(|error| error.within(place))
        };
        Ok(Mesh {
            primitives: fields.primitives.iter().enumerate().map(one).collect(),
        })
    }
}

/// A node.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Node {
    /// Its mesh.
    pub mesh: Option<usize>,
    /// Its children.
    #[serde(default)]
    pub children: Vec<usize>,
    /// Its transform, if given as a matrix: four columns.
    pub matrix: Option<[f32; 16]>,
    /// Its translation, if there is no matrix.
    #[serde(default)]
    pub translation: [f32; 3],
    /// Its rotation: a quaternion, the real part last.
    #[serde(default = "unturned")]
    pub rotation: [f32; 4],
    /// Its scale.
    #[serde(default = "unscaled")]
    pub scale: [f32; 3],
}

fn unturned() -> [f32; 4] {
    [0.0, 0.0, 0.0, 1.0]
}

fn unscaled() -> [f32; 3] {
    [1.0; 3]
}

/// A scene.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Scene {
    /// Its root nodes.
    #[serde(default)]
    pub nodes: Vec<usize>,
}
