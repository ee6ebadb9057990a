//! The elements of a scene's JSON, and how each is read.

use serde_json::Value;

use super::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::fields::{Field, Fields, whole};
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
    /// How many it has.
    pub len: u64,
}

impl Buffer {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Buffer> {
        let len = fields.required("byteLength")?;
        if len == 0 {
            return Err(fields.wrong("byteLength", "must be 1 or more"));
        }
        let fallback = match fields.extension("EXT_meshopt_compression")? {
            Some(extension) => extension.get("fallback")?.unwrap_or(false),
            None => false,
        };
        let place = match fields.get::<&str>("uri")? {
            Some(uri) => match read_uri(fields, uri)? {
                Uri::Name(name) => BufferPlace::Name(name),
                Uri::Data(bytes) if (bytes.len() as u64) < len => {
                    let cause = format!("holds {} bytes, not {len}", bytes.len());
                    return Err(fields.wrong("uri", cause));
                }
                Uri::Data(bytes) => BufferPlace::Data(bytes.into()),
            },
            None if fallback => BufferPlace::Nowhere,
            None => BufferPlace::Binary,
        };
        Ok(Buffer { place, len })
    }
}

fn read_uri(fields: &Fields<'_>, uri: &str) -> Result<Uri> {
    uri::parse(uri).map_err(|(kind, cause)| {
        let shown: String = uri.chars().take(80).collect();
        Error::new(kind, fields.at("uri"), format!("{cause} ({shown:?})"))
    })
}

/// A range of a buffer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct View {
    /// The buffer.
    pub buffer: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes from one element to the next; `None` for elements without gaps.
    pub stride: Option<u64>,
}

impl View {
    pub(super) fn read(fields: &Fields<'_>) -> Result<View> {
        let stride = fields.get("byteStride")?;
        if stride.is_some_and(|stride| !(4..=252).contains(&stride) || stride % 4 != 0) {
            return Err(fields.wrong("byteStride", "must be a multiple of 4 from 4 to 252"));
        }
        let len = fields.required("byteLength")?;
        if len == 0 {
            return Err(fields.wrong("byteLength", "must be 1 or more"));
        }
        Ok(View {
            buffer: fields.required("buffer")?,
            offset: fields.get("byteOffset")?.unwrap_or(0),
            len,
            stride,
        })
    }
}

/// The type of an accessor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

impl Field<'_> for Component {
    const WANTED: &'static str = "a component type";

    fn read(value: &Value) -> Option<Component> {
        Some(match whole(value)? {
            5120 => Component::I8,
            5121 => Component::U8,
            5122 => Component::I16,
            5123 => Component::U16,
            5125 => Component::U32,
            5126 => Component::F32,
            _ => return None,
        })
    }
}

impl Component {
    /// Bytes of a number.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Component::I8 | Component::U8 => 1,
            Component::I16 | Component::U16 => 2,
            Component::U32 | Component::F32 => 4,
        }
    }
}

/// How numbers make an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// One.
    Scalar,
    /// Two.
    Vec2,
    /// Three.
    Vec3,
    /// Four.
    Vec4,
    /// Two columns of two.
    Mat2,
    /// Three columns of three.
    Mat3,
    /// Four columns of four.
    Mat4,
}

impl Field<'_> for Shape {
    const WANTED: &'static str = "an element type";

    fn read(value: &Value) -> Option<Shape> {
        Some(match value.as_str()? {
            "SCALAR" => Shape::Scalar,
            "VEC2" => Shape::Vec2,
            "VEC3" => Shape::Vec3,
            "VEC4" => Shape::Vec4,
            "MAT2" => Shape::Mat2,
            "MAT3" => Shape::Mat3,
            "MAT4" => Shape::Mat4,
            _ => return None,
        })
    }
}

impl Shape {
    /// Numbers of an element, without padding.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.columns() * self.rows()
    }

    /// Columns: 1 but for matrices.
    #[must_use]
    pub fn columns(self) -> usize {
        match self {
            Shape::Mat2 => 2,
            Shape::Mat3 => 3,
            Shape::Mat4 => 4,
            _ => 1,
        }
    }

    /// Numbers of a column.
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
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sparse {
    /// How many.
    pub count: u64,
    /// The view of their indices.
    pub indices_view: usize,
    /// Where the indices begin in it.
    pub indices_offset: u64,
    /// The type of the indices.
    pub indices_component: Component,
    /// The view of their values.
    pub values_view: usize,
    /// Where the values begin in it.
    pub values_offset: u64,
}

/// Typed elements in a view.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Accessor {
    /// The view; without one all elements are zero (but for the sparse ones).
    pub view: Option<usize>,
    /// Where the elements begin in it.
    pub offset: u64,
    /// The type of the numbers.
    pub component: Component,
    /// Whether integers stand for fractions, 0 to 1 or -1 to 1.
    pub normalized: bool,
    /// Elements.
    pub count: u64,
    /// How numbers make an element.
    pub shape: Shape,
    /// Elements that replace others.
    pub sparse: Option<Sparse>,
}

impl Accessor {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Accessor> {
        let count = fields.required("count")?;
        if count == 0 || count > limits::ACCESSOR_COUNT_MAX {
            let cause = format!("{count} elements: must be 1 to 2^31");
            return Err(fields.wrong("count", cause));
        }
        let sparse = fields.object("sparse")?;
        Ok(Accessor {
            view: fields.get("bufferView")?,
            offset: fields.get("byteOffset")?.unwrap_or(0),
            component: fields.required("componentType")?,
            normalized: fields.get("normalized")?.unwrap_or(false),
            count,
            shape: fields.required("type")?,
            sparse: sparse
                .map(|sparse| Sparse::read(&sparse, count))
                .transpose()?,
        })
    }

    /// Bytes of one element, with the padding that columns of matrices have (each begins at a
    /// multiple of four).
    #[must_use]
    pub fn element_bytes(&self) -> u64 {
        let column = self.shape.rows() as u64 * self.component.bytes();
        match self.shape.columns() as u64 {
            1 => column,
            // The last column is padded as well: what exporters and validators agree on.
            columns => column.next_multiple_of(4) * columns,
        }
    }
}

impl Sparse {
    fn read(fields: &Fields<'_>, of: u64) -> Result<Sparse> {
        let count = fields.required("count")?;
        if count == 0 || count > of {
            let cause = format!("{count} elements exceed the {of} of the accessor");
            return Err(fields.wrong("count", cause));
        }
        let (indices, values) = (fields.inner("indices")?, fields.inner("values")?);
        let indices_component = indices.required("componentType")?;
        let unsigned = [Component::U8, Component::U16, Component::U32];
        if !unsigned.contains(&indices_component) {
            return Err(indices.wrong("componentType", "indices must be unsigned"));
        }
        Ok(Sparse {
            count,
            indices_view: indices.required("bufferView")?,
            indices_offset: indices.get("byteOffset")?.unwrap_or(0),
            indices_component,
            values_view: values.required("bufferView")?,
            values_offset: values.get("byteOffset")?.unwrap_or(0),
        })
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

impl Image {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Image> {
        let place = match (fields.get::<&str>("uri")?, fields.get("bufferView")?) {
            (Some(uri), None) => match read_uri(fields, uri)? {
                Uri::Name(name) => ImagePlace::Name(name),
                Uri::Data(bytes) => ImagePlace::Data(bytes.into()),
            },
            (None, Some(view)) => ImagePlace::View(view),
            (None, None) => return Err(fields.wrong("uri", "is missing, and so is bufferView")),
            (Some(_), Some(_)) => {
                return Err(fields.wrong("uri", "and bufferView exclude each other"));
            }
        };
        Ok(Image { place })
    }
}

/// A texture.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Texture {
    /// The image that is loaded for it.
    pub image: Option<usize>,
    /// Images that it also names, for readers that lack an extension.
    pub passed_over: Vec<usize>,
}

impl Texture {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Texture> {
        let plain = fields.get("source")?;
        let of = |extension| match fields.extension(extension)? {
            Some(extension) => extension.get("source"),
            None => Ok(None),
        };
        // Basis Universal is not supported, so it comes last: it is loaded only where there is
        // nothing else, as the file may have another format.
        let (dds, webp) = (of("MSFT_texture_dds")?, of("EXT_texture_webp")?);
        let basisu = of("KHR_texture_basisu")?;
        let mut images = [dds, webp, plain, basisu].into_iter().flatten();
        Ok(Texture {
            image: images.next(),
            passed_over: images.collect(),
        })
    }
}

/// A material's use of a texture.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextureUse {
    /// What for, as `pbrMetallicRoughness.baseColorTexture`. (One of more than some 200 bytes is
    /// passed over.)
    pub slot: String,
    /// The texture.
    pub texture: usize,
}

/// A material. Its factors are in the JSON text.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Material {
    /// Its textures, those of extensions too.
    pub textures: Vec<TextureUse>,
}

impl Material {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Material> {
        let mut textures = Vec::new();
        find_textures(fields, "", &mut textures)?;
        Ok(Material { textures })
    }
}

/// Objects called `...Texture` that have an index, however deep. (The JSON's depth is bounded by
/// its parser.)
fn find_textures(fields: &Fields<'_>, slot: &str, textures: &mut Vec<TextureUse>) -> Result<()> {
    for (name, value) in fields.entries() {
        let is_texture = name.ends_with("Texture");
        if name == "extras" || !is_texture && !value.is_object() {
            continue;
        }
        // A slot has the names of all objects around it, so many may repeat a long one.
        if slot.len() + name.len() > limits::PLACE_BYTES_MAX {
            continue;
        }
        let object = Fields::new(value, fields.at(name))?;
        let slot = match slot {
            "" => name.clone(),
            slot => format!("{slot}.{name}"),
        };
        // What an extension calls a texture may be something else, if it has no index.
        if is_texture && (!slot.contains("extensions") || object.value("index").is_some()) {
            let texture = object.required("index")?;
            textures.push(TextureUse { slot, texture });
        } else {
            find_textures(&object, &slot, textures)?;
        }
    }
    Ok(())
}

/// A part of a mesh with one material.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Primitive {
    /// Accessors by attribute (`POSITION`, `NORMAL`, ...).
    pub attributes: Vec<(String, usize)>,
    /// The accessor of indices.
    pub indices: Option<usize>,
    /// The material.
    pub material: Option<usize>,
    /// 4 for triangles; the numbers of the specification.
    pub mode: u64,
}

impl Primitive {
    fn read(fields: &Fields<'_>) -> Result<Primitive> {
        if fields.extension("KHR_draco_mesh_compression")?.is_some() {
            let place = fields.at("extensions.KHR_draco_mesh_compression");
            let cause = "Draco compression is not supported";
            return Err(Error::new(ErrorKind::Unsupported, place, cause));
        }
        let attributes = fields.inner("attributes")?;
        let mode: u64 = fields.get("mode")?.unwrap_or(4);
        if mode > 6 {
            return Err(fields.wrong("mode", format!("{mode} is not a mode")));
        }
        Ok(Primitive {
            attributes: attributes.named_indices()?,
            indices: fields.get("indices")?,
            material: fields.get("material")?,
            mode,
        })
    }
}

/// A mesh.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Mesh {
    /// Its parts.
    pub primitives: Vec<Result<Primitive>>,
}

impl Mesh {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Mesh> {
        let primitives = fields
            .get::<&[Value]>("primitives")?
            .unwrap_or_default()
            .iter()
            .enumerate();
        let read = |(at, value): (usize, &Value)| {
            let place = fields.at(&format!("primitives[{at}]"));
            Primitive::read(&Fields::new(value, place)?)
        };
        Ok(Mesh {
            primitives: primitives.map(read).collect(),
        })
    }
}
