//! The JSON of a scene: the properties that loading needs. Names, animations, factors of materials
//! and all else are for the program to read from [`Scene::json`](crate::Scene::json).
//!
//! Each element is a `Result` of its own: an invalid one is an error with its place in the JSON,
//! and the valid ones can still be loaded. References between elements are checked here too
//! (`check`): an index in a valid element is that of an existing element.
//!
//! Unknown properties and extensions are ignored. Elements are parsed one after the other out of
//! the text, so that no tree of the whole JSON is ever in memory.
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
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result, invalid};
use crate::limits;

pub use elements::{
    Accessor, Buffer, BufferPlace, Component, Image, ImagePlace, Material, Mesh, Node, Primitive,
    Sampler, Scene, Shape, Sparse, SparseIndices, SparseValues, Texture, TextureUse, View,
};

/// A scene's JSON. See the module.
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
    /// Not JSON, not glTF, or not version 2. All other errors are those of elements.
    pub fn parse(json: &[u8]) -> Result<Model> {
        if json.len() as u64 > limits::JSON_BYTES_MAX {
            let cause = format!("JSON of {} bytes exceeds the limit", json.len());
            return Err(Error::new(ErrorKind::Limit, "", cause));
        }
        let texts: Texts<'_> =
            serde_json::from_slice(json).map_err(|error| broken(json, &error))?;
        version(&texts)?;
        let mut model = Model::default();
        let mut document = Vec::new();
        model.buffers = elements(&texts, "buffers", &mut document, Buffer::read);
        model.views = elements(&texts, "bufferViews", &mut document, read_owned);
        model.accessors = elements(&texts, "accessors", &mut document, read_owned);
        model.images = elements(&texts, "images", &mut document, Image::read);
        model.samplers = elements(&texts, "samplers", &mut document, read_owned);
        model.textures = elements(&texts, "textures", &mut document, Texture::read);
        model.materials = elements(&texts, "materials", &mut document, Material::read);
        model.meshes = elements(&texts, "meshes", &mut document, Mesh::read);
        model.nodes = elements(&texts, "nodes", &mut document, read_owned);
        model.scenes = elements(&texts, "scenes", &mut document, read_owned);
        model.scene = shown_scene(&texts, model.scenes.len()).unwrap_or_else(|error| {
            document.push(error);
            None
        });
        model.document = document;
        check::references(&mut model);
        Ok(model)
    }

    /// All errors, root causes first.
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

    /// Returns for each image whether it is needed: a texture shows it, or none names it. An image
    /// that a texture has only for readers without an extension is not.
    #[must_use]
    pub fn wanted_images(&self) -> Vec<bool> {
        let mut wanted = vec![true; self.images.len()];
        let textures = || self.textures.iter().flatten();
        for passed_over in textures().flat_map(|texture| &texture.passed_over) {
            if let Some(wanted) = wanted.get_mut(*passed_over) {
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

/// The error of a text that is not JSON, or not an object, with the offset in the text.
fn broken(json: &[u8], error: &serde_json::Error) -> Error {
    // `serde_json` counts lines from 1, and the bytes of a line that it has taken.
    let lines = json.split_inclusive(|&byte| byte == b'\n');
    let before: usize = lines
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let at = (before + error.column().saturating_sub(1)).min(json.len());
    let found = malformed("", error);
    let cause = format!("at byte {at} of the JSON: {}", found.cause());
    Error::new(found.kind(), "", cause)
}

/// The error of a value, without the line and column inside it. What it quotes may be long, and is
/// cut: elements that refer to an invalid one repeat its error.
fn malformed(place: &str, error: &serde_json::Error) -> Error {
    // A value inside a text that was read is JSON.
    let kind = match error.classify() {
        Category::Data => ErrorKind::Invalid,
        _ if !place.is_empty() => ErrorKind::Invalid,
        _ => ErrorKind::Malformed,
    };
    let cause = error.to_string();
    let cause = &cause[..cause.rfind(" at line ").unwrap_or(cause.len())];
    let cause: String = cause.chars().take(limits::PLACE_BYTES_MAX).collect();
    Error::new(kind, place, cause)
}

/// Reads a value, of which an error names the place inside, unless it is too long to be told.
fn read<'a, T: Deserialize<'a>>(text: &'a str, place: &str) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let inside = error.path().to_string();
        match inside.len() {
            2..=limits::PLACE_BYTES_MAX => malformed(&format!("{place}.{inside}"), error.inner()),
            // A dot: the value itself.
            _ => malformed(place, error.inner()),
        }
    })
}

/// As [`read`], of a value that borrows nothing of the text.
fn read_owned<T: DeserializeOwned>(text: &str, place: &str) -> Result<T> {
    read(text, place)
}

/// Reads an element. Its whole numbers may be written as `3.0`, as in JSON Schema.
fn read_element<T>(text: &str, place: &str, read: impl Fn(&str, &str) -> Result<T>) -> Result<T> {
    read(text, place).or_else(|error| {
        // Few documents have such numbers, so others are not searched for them.
        let mut value = serde_json::from_str(text).unwrap_or_default();
        match make_whole(&mut value) {
            true => read(&value.to_string(), place),
            false => Err(error),
        }
    })
}

/// Makes integers of whole numbers that are not negative; returns whether there were any.
fn make_whole(value: &mut Value) -> bool {
    // `|`: all of them.
    match value {
        Value::Array(values) => {
            (values.iter_mut()).fold(false, |any, value| make_whole(value) | any)
        }
        Value::Object(map) => (map.values_mut()).fold(false, |any, value| make_whole(value) | any),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or(-1.0);
            // 2⁵³: up to there every whole number is a float.
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
    let asset: Asset<'_> = read(text.get(), "asset")?;
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

/// The scene to show, of so many.
fn shown_scene(texts: &Texts<'_>, scenes: usize) -> Result<Option<usize>> {
    let Some(text) = texts.get("scene") else {
        return Ok(None);
    };
    match read(text.get(), "scene")? {
        scene if scene < scenes => Ok(Some(scene)),
        scene => Err(invalid("scene", format!("scene {scene} does not exist"))),
    }
}

/// Reads the elements of one array.
fn elements<'a, T>(
    texts: &Texts<'a>,
    name: &str,
    document: &mut Vec<Error>,
    read: impl Fn(&str, &str) -> Result<T>,
) -> Vec<Result<T>> {
    let Some(text) = texts.get(name) else {
        return Vec::new();
    };
    let elements: Vec<&'a RawValue> = match serde_json::from_str(text.get()) {
        Ok(elements) => elements,
        Err(error) => {
            document.push(malformed(name, &error));
            return Vec::new();
        }
    };
    if elements.len() > limits::ELEMENTS_MAX {
        let cause = format!("{} elements exceed the limit", elements.len());
        document.push(Error::new(ErrorKind::Limit, name, cause));
        return Vec::new();
    }
    let one = |(index, text): (usize, &&'a RawValue)| {
        read_element(text.get(), &format!("{name}[{index}]"), &read)
    };
    elements.iter().enumerate().map(one).collect()
}

/// Bytes of a data URI.
pub(crate) type Shared = Arc<[u8]>;
