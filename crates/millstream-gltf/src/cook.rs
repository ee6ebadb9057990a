//! Cooks scenes: images are decoded once, when a package is built, and stored ready for upload.
//!
//! Beside a `.gltf`, images keep their names and become [`Image`](crate::image::Image) bytes, which
//! readers of the package recognize by their first bytes. Images inside a GLB become entries of
//! their own beside it (one entry per view), and the GLB is rewritten without them, with URIs that
//! name them. Images that cannot be decoded and scenes that cannot be parsed stay as they are:
//! loading them reports the error. So do images that exceed the default memory limit of the scene
//! ([`limits::scene_memory`]).
//!
//! RGBA8 pixels are the decoder's. BC1, BC3 and BC7 are lossy; the crate `block_compression` (the
//! ISPC texture compressor in Rust) encodes them, with levels down to one pixel. Levels are
//! averaged in linear light where a material uses the image as a color, and as numbers where it
//! does not (normals, roughness).

mod blocks;
mod glb;
mod mips;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_pak::{Cook, CookError, Cooked, CookedEntry, Inputs, in_parallel};
use zerocopy::FromZeros as _;

use crate::error::{Error, ErrorKind, Result};
use crate::image::{
    Format, HEADER_BYTES, ImageLimits, Layout, NO_MEMORY, decode_vec, decoded_bytes,
};
use crate::limits;
use crate::model::Model;
use crate::plan::{self, Origin, Purpose, SceneFile};
use crate::record::{describe_image, describe_scene, is_scene};

/// The format of cooked images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Target {
    /// RGBA8, pixel for pixel; one level.
    #[default]
    Rgba8,
    /// RGBA8 with all levels.
    Rgba8Levels,
    /// BC1 for opaque images, BC3 for others.
    Bc3,
    /// BC7, encoded fast.
    Bc7,
    /// BC7, encoded 20 to 30 times more slowly and about 3 dB better.
    Bc7Fine,
}

/// Cooks scenes. Use one per package: an image that several scenes show is cooked once.
#[derive(Debug, Default)]
pub struct SceneCook {
    target: Target,
    done: Mutex<HashSet<Arc<[u8]>>>,
}

impl SceneCook {
    /// Creates a cook that converts images to `target`.
    #[must_use]
    pub fn new(target: Target) -> SceneCook {
        SceneCook {
            target,
            done: Mutex::default(),
        }
    }
}

/// An image to be cooked.
struct Order<'a> {
    /// The name of the entry to make.
    name: Arc<[u8]>,
    /// The images that show it.
    images: Vec<usize>,
    stored: Cow<'a, [u8]>,
}

/// The entry of a cooked image, or why the image is left as it is.
type Made = Result<CookedEntry, &'static str>;

impl Cook for SceneCook {
    fn wants(&self, name: &[u8]) -> bool {
        is_scene(name)
    }

    fn cook(&self, name: &[u8], raw: &[u8], others: &dyn Inputs) -> Result<Cooked, CookError> {
        let mut cooked = Cooked::default();
        let scene = if crate::glb::is_glb(raw) {
            self.glb(name, raw, &mut cooked)
        } else {
            self.loose(name, raw, others, &mut cooked).map(|()| None)
        };
        let scene = scene.unwrap_or_else(|error| {
            cooked.uncooked.push((name.to_vec(), error.to_string()));
            None
        });
        let raw = scene.unwrap_or_else(|| raw.to_vec());
        cooked.entries.push(CookedEntry {
            name: name.to_vec(),
            metadata: describe_scene(name, &raw, raw.len() as u64),
            raw,
        });
        Ok(cooked)
    }
}

impl SceneCook {
    /// Cooks the images beside a `.gltf`.
    fn loose(
        &self,
        name: &[u8],
        raw: &[u8],
        others: &dyn Inputs,
        cooked: &mut Cooked,
    ) -> Result<()> {
        let model = Model::parse(raw)?;
        let file = SceneFile {
            name: &Arc::from(name),
            binary: None,
        };
        let mut orders = Vec::new();
        for fetch in plan::plan(&model, &file).fetches {
            let (Origin::Entry { name, range: None }, Purpose::Images(images)) =
                (fetch.origin, fetch.purpose)
            else {
                continue;
            };
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            if done.contains(&name) {
                continue;
            }
            let stored = match is_scene(&name) {
                true => Err(CookError::new("it is named as a scene is, and stays one")),
                false => others.read(&name),
            };
            match stored {
                Ok(stored) => {
                    done.insert(Arc::clone(&name));
                    orders.push(Order {
                        name,
                        images,
                        stored: stored.into(),
                    });
                }
                Err(error) => cooked.uncooked.push((name.to_vec(), error.cause)),
            }
        }
        let stored: usize = orders.iter().map(|order| order.stored.len()).sum();
        let made = self.cook_all(&model, &orders, raw.len() + stored);
        for (order, made) in orders.iter().zip(made) {
            match made {
                Ok(entry) => {
                    cooked.consumed.push(order.name.to_vec());
                    cooked.entries.push(entry);
                }
                Err(cause) => cooked.uncooked.push((order.name.to_vec(), cause.into())),
            }
        }
        Ok(())
    }

    /// Cooks the images inside a GLB; returns the GLB without them, or `None` if it stays as it is.
    fn glb(&self, name: &[u8], raw: &[u8], cooked: &mut Cooked) -> Result<Option<Vec<u8>>> {
        let Some(parts) = glb::Parts::read(raw)? else {
            return Ok(None);
        };
        let orders = parts.images().map(|(images, stored)| Order {
            name: [name, format!(".{}.msim", images[0]).as_bytes()]
                .concat()
                .into(),
            images,
            stored: stored.into(),
        });
        let orders: Vec<Order<'_>> = orders.collect();
        // The stored images are part of the GLB.
        let made = self.cook_all(&parts.model, &orders, raw.len());
        let mut outside = BTreeMap::new();
        let mut entries = Vec::new();
        for (Order { images, .. }, made) in orders.into_iter().zip(made) {
            match made {
                Ok(entry) => {
                    let uri = glb::uri_of(&entry.name);
                    outside.extend(images.into_iter().map(|image| (image, uri.clone())));
                    entries.push(entry);
                }
                Err(cause) => {
                    let about = |image| (name.to_vec(), format!("images[{image}]: {cause}"));
                    cooked.uncooked.extend(images.into_iter().map(about));
                }
            }
        }
        if outside.is_empty() {
            return Ok(None);
        }
        let rewritten = parts.without(&outside).ok_or_else(|| {
            let cause = "it cannot be written without the images inside it";
            Error::new(ErrorKind::Invalid, "", cause)
        })?;
        cooked.entries.extend(entries);
        Ok(Some(rewritten))
    }

    /// Cooks the images of a scene, whose files have `stored_bytes`, on all cores. An image fails
    /// if it cannot be decoded, or if it and those before it need more memory than the scene's
    /// default limit, or than there is.
    fn cook_all(&self, model: &Model, orders: &[Order<'_>], stored_bytes: usize) -> Vec<Made> {
        let mut left = limits::scene_memory(stored_bytes as u64);
        // All levels, as pixels or blocks, and the two levels being halved take less than twice the
        // bytes of the pixels.
        let times = if self.target == Target::Rgba8 { 1 } else { 3 };
        let fits = |order: &Order<'_>| {
            let bytes = decoded_bytes(&order.stored, ImageLimits::default())? as u64;
            let cause = "the scene has too many pixels to be cooked";
            left = left.checked_sub(times * bytes).ok_or(cause)?;
            Ok(())
        };
        let fitting: Vec<Result<(), &str>> = orders.iter().map(fits).collect();
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let colors = colors(model);
        let cook = |nth: usize| {
            let order = &orders[nth];
            let color = order.images.iter().any(|image| colors.contains(image));
            let made = fitting[nth].and_then(|()| self.cook_image(&order.stored, color));
            let made = made.and_then(|raw| {
                let layout = Layout::parse(&raw)?;
                Ok(CookedEntry {
                    name: order.name.to_vec(),
                    metadata: Some(describe_image(&layout)),
                    raw,
                })
            });
            Ok::<_, Infallible>(made)
        };
        let Ok(made) = in_parallel(orders.len(), threads, cook);
        made
    }

    /// Cooks an image, which holds colors if `color`, otherwise numbers.
    fn cook_image(&self, stored: &[u8], color: bool) -> Result<Vec<u8>, &'static str> {
        let mut raw = decode_vec(stored, ImageLimits::default())?;
        let layout = Layout::parse(&raw)?;
        if layout.format() != Format::Rgba8 || layout.levels() > 1 {
            // Already ready for upload: KTX2, DDS.
            return Ok(raw);
        }
        layout.with_srgb(color).write_header(&mut raw);
        let mut pixels = &raw[HEADER_BYTES..];
        let opaque = pixels.chunks_exact(4).all(|pixel| pixel[3] == 0xff);
        let format = match self.target {
            Target::Rgba8 => return Ok(raw),
            Target::Rgba8Levels => Format::Rgba8,
            Target::Bc7 | Target::Bc7Fine => Format::Bc7,
            Target::Bc3 if opaque => Format::Bc1,
            Target::Bc3 => Format::Bc3,
        };
        let bc7 = blocks::settings(self.target == Target::Bc7Fine, opaque);
        let (width, height) = layout.size(0);
        let levels = Layout::full_levels(width.max(height));
        let target = Layout::new(format, width, height, levels).ok_or("the image is too large")?;
        let target = target.with_srgb(color);
        let mut out = u8::new_vec_zeroed(target.bytes()).map_err(|_| NO_MEMORY)?;
        target.write_header(&mut out);
        let mut halved;
        for level in 0..levels {
            if level > 0 {
                halved = mips::half(pixels, target.size(level - 1), color).ok_or(NO_MEMORY)?;
                pixels = &halved;
            }
            let range = target.level(level).expect("it has all levels");
            let size = target.size(level);
            blocks::encode(format, bc7, pixels, size, &mut out[range]).ok_or(NO_MEMORY)?;
        }
        Ok(out)
    }
}

/// Whether a texture of a material has colors, which glTF and its extensions store as sRGB.
fn is_of_colors(name: &str) -> bool {
    let others = [
        "emissiveTexture",
        "diffuseTexture",
        "specularGlossinessTexture",
    ];
    name.ends_with("ColorTexture") || others.contains(&name)
}

/// Returns the images that a material uses as colors.
fn colors(model: &Model) -> HashSet<usize> {
    let materials = model.materials.iter().flatten();
    let uses = materials.flat_map(|material| &material.textures);
    let colors = uses.filter(|used| {
        let name = used.slot.rsplit('.').next();
        name.is_some_and(is_of_colors)
    });
    let textures = colors.filter_map(|used| model.textures.get(used.texture)?.as_ref().ok());
    // Alternatives are shown where the image fails.
    textures
        .flat_map(|texture| texture.image.iter().chain(&texture.passed_over))
        .copied()
        .collect()
}
