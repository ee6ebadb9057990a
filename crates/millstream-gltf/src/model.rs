//! The JSON of a scene: the properties that loading needs. A program reads names, animations,
//! material factors and all else from [`Scene::json`](crate::Scene::json).
//!
//! Each element is a `Result` of its own: an invalid one is an error with its place in the JSON,
//! and the others can still be loaded. References between elements are checked, too (`check`): an
//! index in a valid element refers to an existing element.
//!
//! Unknown properties are ignored, and so are unknown extensions, unless the document requires them
//! and they may give other bytes or geometry. Elements are parsed one at a time from the text, so
//! that no tree of the whole JSON is ever in memory.
//!
//! ```
//! use millstream_gltf::model::Model;
//! let json = br#"{"asset":{"version":"2.0"},"buffers":[{"byteLength":8},{"byteLength":"x"}]}"#;
//! let model = Model::parse(json).unwrap();
//! assert!(model.buffers[0].is_ok());
//! let error = model.buffers[1].as_ref().unwrap_err();
//! assert_eq!(error.place(), "buffers[1].byteLength");
//! ```

mod check;
mod elements;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result, invalid};
use crate::limits;

pub use elements::{
    Accessor, Buffer, BufferPlace, Component, Image, ImagePlace, Material, Mesh, Node, Primitive,
    Sampler, Scene, Shape, Sparse, SparseIndices, SparseValues, Texture, TextureUse, View,
};

/// The parsed JSON of a scene; see the module.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Model {
    /// Buffers.
    pub buffers: Vec<Result<Buffer>>,
    /// Views of buffers.
    pub views: Vec<Result<View>>,
    /// Accessors of views.
    pub accessors: Vec<Result<Accessor>>,
    /// Images.
    pub images: Vec<Result<Image>>,
    /// Samplers.
    pub samplers: Vec<Result<Sampler>>,
    /// Textures: an image and a sampler.
    pub textures: Vec<Result<Texture>>,
    /// Materials: which textures they use.
    pub materials: Vec<Result<Material>>,
    /// Meshes.
    pub meshes: Vec<Result<Mesh>>,
    /// Nodes.
    pub nodes: Vec<Result<Node>>,
    /// Scenes.
    pub scenes: Vec<Result<Scene>>,
    /// The scene to show.
    pub scene: Option<usize>,
    /// Errors of the document itself, which belong to none of the above.
    pub document: Vec<Error>,
}

type Texts<'a> = BTreeMap<String, &'a RawValue>;

impl Model {
    /// Parses a JSON text.
    ///
    /// # Errors
    /// Not JSON, not glTF, not version 2, or longer than the limit. Other errors are those of
    /// elements, or in [`Model::document`].
    pub fn parse(json: &[u8]) -> Result<Model> {
        if json.len() as u64 > limits::JSON_BYTES_MAX {
            let cause = format!("JSON of {} bytes exceeds the limit", json.len());
            return Err(Error::new(ErrorKind::Limit, "", cause));
        }
        let json = without_mark(json);
        let texts: Texts<'_> =
            serde_json::from_slice(json).map_err(|error| broken(json, &error))?;
        version(&texts)?;
        let mut document = Vec::new();
        let required = required(&texts).unwrap_or_else(|error| {
            document.push(error);
            Vec::new()
        });
        document.extend(unsupported(&required));
        let errors = &mut document;
        let primitives = Cell::new(limits::ELEMENTS_MAX);
        let mut model = Model {
            buffers: elements(&texts, "buffers", errors, |text, _| Buffer::read(text)),
            views: elements(&texts, "bufferViews", errors, |text, _| read(text)),
            accessors: elements(&texts, "accessors", errors, |text, _| read(text)),
            images: elements(&texts, "images", errors, |text, _| Image::read(text)),
            samplers: elements(&texts, "samplers", errors, |text, _| read(text)),
            textures: elements(&texts, "textures", errors, |text, _| Texture::read(text)),
            materials: elements(&texts, "materials", errors, |text, _| Material::read(text)),
            meshes: elements(&texts, "meshes", errors, |text, at| {
                Mesh::read(text, at, &primitives)
            }),
            nodes: elements(&texts, "nodes", errors, |text, _| read(text)),
            scenes: elements(&texts, "scenes", errors, |text, _| read(text)),
            ..Model::default()
        };
        match shown_scene(&texts, model.scenes.len()) {
            Ok(scene) => model.scene = scene,
            Err(error) => document.push(error),
        }
        model.document = document;
        check::references(&mut model, required.iter().any(|name| name == DRACO));
        Ok(model)
    }

    /// Returns all errors, root causes first.
    pub fn problems(&self) -> impl Iterator<Item = &Error> {
        fn wrong<T>(elements: &[Result<T>]) -> impl Iterator<Item = &Error> {
            elements.iter().filter_map(|element| element.as_ref().err())
        }
        let primitives = self
            .meshes
            .iter()
            .flatten()
            .flat_map(|mesh| wrong(&mesh.primitives));
        self.document
            .iter()
            .chain(wrong(&self.buffers))
            .chain(wrong(&self.views))
            .chain(wrong(&self.accessors))
            .chain(wrong(&self.images))
            .chain(wrong(&self.samplers))
            .chain(wrong(&self.textures))
            .chain(wrong(&self.materials))
            .chain(wrong(&self.meshes))
            .chain(primitives)
            .chain(wrong(&self.nodes))
            .chain(wrong(&self.scenes))
    }

    /// Returns for each image whether it is needed: a texture shows it, or no texture names it. An
    /// image that textures name only as an alternative is not needed.
    #[must_use]
    pub fn wanted_images(&self) -> Vec<bool> {
        let mut wanted = vec![true; self.images.len()];
        let textures = || self.textures.iter().flatten();
        // The fields are public, so the application may have set invalid indices.
        for &image in textures().flat_map(|texture| &texture.passed_over) {
            if let Some(wanted) = wanted.get_mut(image) {
                *wanted = false;
            }
        }
        for image in textures().filter_map(|texture| texture.image) {
            if let Some(wanted) = wanted.get_mut(image) {
                *wanted = true;
            }
        }
        wanted
    }
}

/// Returns the error of a text that is not JSON or not an object, with the offset in the text.
fn broken(json: &[u8], error: &serde_json::Error) -> Error {
    // `serde_json` counts lines from 1; its column is the number of bytes read of the line.
    let lines = json.split_inclusive(|&byte| byte == b'\n');
    let before: usize = lines
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let at = (before + error.column().saturating_sub(1)).min(json.len());
    let kind = match error.is_data() {
        true => ErrorKind::Invalid,
        false => ErrorKind::Malformed,
    };
    Error::new(
        kind,
        "",
        format!("at byte {at} of the JSON: {}", cause(error)),
    )
}

/// Returns the cause of an error, without line and column. Quoted text may be long, so the cause is
/// truncated: elements that refer to an invalid one repeat its error.
fn cause(error: &serde_json::Error) -> String {
    let cause = error.to_string();
    let cause = &cause[..cause.rfind(" at line ").unwrap_or(cause.len())];
    cause.chars().take(limits::PLACE_BYTES_MAX).collect()
}

/// Parses an object. An error has the place inside it, unless that is longer than the limit.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize(&mut json) {
        Ok(Object(value)) => Ok(value),
        Err(error) => {
            let inside = error.path().to_string();
            let place = match inside.len() {
                2..=limits::PLACE_BYTES_MAX => &inside,
                // The path `.` is the value itself.
                _ => "",
            };
            Err(invalid(place, cause(error.inner())))
        }
    }
}

/// A value that must be a JSON object: what serde derives for a struct accepts an array, too.
#[derive(Debug, Clone, Default)]
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        from.deserialize_map(Fields(PhantomData)).map(Object)
    }
}

/// Parses an element. Integers may be written as `3.0`, as in JSON Schema.
fn read_element<T>(text: &str, read: impl Fn(&str) -> Result<T>) -> Result<T> {
    read(text).or_else(|error| {
        if error.kind() == ErrorKind::Limit {
            return Err(error);
        }
        // Few documents have such numbers, so only elements that fail are searched for them.
        let mut value = serde_json::from_str(text).unwrap_or_default();
        match make_whole(&mut value) {
            true => read(&value.to_string()),
            false => Err(error),
        }
    })
}

/// Converts non-negative floats without a fraction to integers; returns whether there were any.
fn make_whole(value: &mut Value) -> bool {
    // `|` and not `||`: all values are converted.
    match value {
        Value::Array(values) => {
            (values.iter_mut()).fold(false, |any, value| make_whole(value) | any)
        }
        Value::Object(map) => (map.values_mut()).fold(false, |any, value| make_whole(value) | any),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or(-1.0);
            // 2⁵³: every integer up to there is exact as a float.
            let is_whole = (0.0..=9_007_199_254_740_992.0).contains(&float) && float.fract() == 0.0;
            if is_whole {
                *number = (float as u64).into();
            }
            is_whole
        }
        _ => false,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asset<'a> {
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow)]
    min_version: Option<Cow<'a, str>>,
}

/// Checks `asset.version` and `asset.minVersion`.
fn version(texts: &Texts<'_>) -> Result<()> {
    let Some(text) = texts.get("asset") else {
        let cause = "is missing: not a glTF document";
        return Err(Error::new(ErrorKind::Malformed, "asset", cause));
    };
    let asset: Asset<'_> = read(text.get()).map_err(|error| error.within("asset"))?;
    let unsupported = |place, cause| Err(Error::new(ErrorKind::Unsupported, place, cause));
    if asset.version.split('.').next() != Some("2") {
        let cause = format!("glTF {:?} is not supported, only glTF 2", asset.version);
        return unsupported("asset.version", cause);
    }
    match asset.min_version.as_deref() {
        None | Some("2.0") => Ok(()),
        Some(other) => {
            let cause = format!("needs a reader of glTF {other:?}; this one reads 2.0");
            unsupported("asset.minVersion", cause)
        }
    }
}

/// Returns a text without the byte order mark that some exporters write.
pub(crate) fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json)
}

/// Reads the names of the extensions without which the document cannot be loaded.
fn required(texts: &Texts<'_>) -> Result<Vec<String>> {
    let Some(text) = texts.get("extensionsRequired") else {
        return Ok(Vec::new());
    };
    let names = serde_json::from_str(text.get());
    names.map_err(|error| invalid("extensionsRequired", cause(&error)))
}

const DRACO: &str = "KHR_draco_mesh_compression";

/// Extensions that are supported, or whose use by an element is an error of that element, or that
/// leave bytes and geometry as they are; beside those of materials and lights.
const KNOWN: &str = "KHR_draco_mesh_compression EXT_meshopt_compression KHR_mesh_quantization \
    KHR_texture_basisu EXT_texture_webp MSFT_texture_dds KHR_texture_transform \
    KHR_animation_pointer KHR_node_hoverability KHR_node_selectability KHR_node_visibility \
    KHR_xmp_json_ld EXT_instance_features EXT_mesh_features EXT_mesh_gpu_instancing \
    EXT_structural_metadata MSFT_lod";

/// Returns the error of the first required extension that is not known.
fn unsupported(required: &[String]) -> Option<Error> {
    let is_known = |name: &str| {
        name.contains("_materials_")
            || name.contains("_lights_")
            || KNOWN.split_whitespace().any(|known| known == name)
    };
    let at = required.iter().position(|name| !is_known(name))?;
    let name: String = required[at].chars().take(limits::PLACE_BYTES_MAX).collect();
    let cause = format!("{name:?} is not supported: without it bytes or geometry may be wrong");
    let place = format!("extensionsRequired[{at}]");
    Some(Error::new(ErrorKind::Unsupported, place, cause))
}

/// Reads `scene`, the index of the scene to show, of `scenes`.
fn shown_scene(texts: &Texts<'_>, scenes: usize) -> Result<Option<usize>> {
    let Some(text) = texts.get("scene") else {
        return Ok(None);
    };
    let index = |text: &str| {
        let index = serde_json::from_str(text);
        index.map_err(|error| invalid("scene", cause(&error)))
    };
    match read_element(text.get(), index)? {
        scene if scene < scenes => Ok(Some(scene)),
        scene => Err(invalid("scene", format!("scene {scene} does not exist"))),
    }
}

/// Parses the elements of one array, each with its index.
fn elements<T>(
    texts: &Texts<'_>,
    name: &str,
    document: &mut Vec<Error>,
    read: impl Fn(&str, usize) -> Result<T>,
) -> Vec<Result<T>> {
    let Some(text) = texts.get(name) else {
        return Vec::new();
    };
    let elements: Vec<&RawValue> = match serde_json::from_str(text.get()) {
        Ok(elements) => elements,
        Err(error) => {
            document.push(invalid(name, cause(&error)));
            return Vec::new();
        }
    };
    if elements.len() > limits::ELEMENTS_MAX {
        let cause = format!("{} elements exceed the limit", elements.len());
        document.push(Error::new(ErrorKind::Limit, name, cause));
        return Vec::new();
    }
    let one = |(index, text): (usize, &&RawValue)| {
        let element = read_element(text.get(), |text| read(text, index));
        element.map_err(|error| error.within(format_args!("{name}[{index}]")))
    };
    elements.iter().enumerate().map(one).collect()
}

/// Bytes of a data URI.
pub(crate) type Shared = Arc<[u8]>;
