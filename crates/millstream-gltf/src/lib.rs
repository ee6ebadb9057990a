//! Loads glTF 2.0 scenes in two batches of reads from loose files, or one from a package, and
//! decodes images on all cores.
//!
//! A loader that reads the JSON, then each buffer, then each image, and decodes them one after the
//! other leaves disk and cores idle in turn. Here the JSON (or the head of a GLB) is the first
//! batch and everything it names is the second; the storage's workers decode images as they arrive,
//! into their final memory; and a program may draw what has landed.
//!
//! ```no_run
//! use millstream::{Storage, StorageOptions};
//! use millstream_gltf::{Loader, LoaderOptions, image};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = StorageOptions::default();
//! image::register(&mut options, image::ImageLimits::default());
//! let storage = Storage::new(options)?;
//! let loader = Loader::new(&storage, LoaderOptions::default())?;
//!
//! let scene = loader.open("FlightHelmet.gltf")?.finish()?;
//! for mesh in scene.model().meshes.iter().flatten() {
//!     for primitive in mesh.primitives.iter().flatten() {
//!         for (name, accessor) in &primitive.attributes {
//!             let elements = scene.accessor(*accessor)?;
//!             if let Some(floats) = elements.as_slice::<[f32; 3]>() {
//!                 println!("{name}: {} elements, no copy", floats.len());
//!             }
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Modules: [`model`]: the JSON and its checks; [`glb`], [`uri`]: where bytes lie; `plan`: what a
//! scene needs; [`load`]: the batches; [`device`]: scenes in the memory of a GPU; [`image`]:
//! decoding; [`accessor`], [`scene`]: the result; `record`, `cook` (features `pak`, `cook`): scenes
//! in packages.
//!
//! Not supported (the item's error says so): Draco and meshopt compression (without an uncompressed
//! copy), Basis Universal textures, CMYK JPEGs, glTF 1. Basis and current meshopt decoders are
//! large C++ libraries, which would decode untrusted bytes outside of Rust's checks; the only Rust
//! port of meshopt's decoder is that of version 0.15 (2020). Convert such scenes with the tool that
//! exported them, or when a package is built.
//!
//! Supported: data URIs, percent-encoded names, sparse accessors, `KHR_mesh_quantization`,
//! `EXT_texture_webp`, `MSFT_texture_dds`, and uncompressed copies beside compressed ones. Other
//! images of a texture are tried if one fails. Unknown extensions are ignored, unless the document
//! requires them and they may change bytes or geometry.

pub mod accessor;
#[cfg(feature = "cook")]
pub mod cook;
#[cfg(feature = "pak")]
mod describe;
pub mod device;
mod device_memory;
pub mod error;
pub mod glb;
pub mod image;
mod indices;
pub mod limits;
pub mod load;
pub mod model;
mod plan;
#[cfg(feature = "pak")]
pub mod record;
pub mod scene;
pub mod uri;

pub use accessor::{Element, Elements};
#[cfg(feature = "pak")]
pub use describe::ImageDescriber;
pub use device::SceneDevice;
pub use device_memory::DeviceMemory;
pub use error::{Error, ErrorKind, Result};
pub use load::{Event, EventKind, Load, Loader, LoaderOptions, Progress, wait_all};
pub use scene::{Scene, State};

#[cfg(test)]
millstream_testing::watch!();
