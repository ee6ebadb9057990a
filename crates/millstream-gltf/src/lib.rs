//! glTF 2.0 scenes in two batches of reads from loose files, and in one from a package, with all
//! cores decoding.
//!
//! A loader that opens the JSON, then each buffer, then each image, and decodes one after the
//! other leaves disk and cores idle in turn. Here the JSON (or the head of a GLB) is the first
//! batch and everything it names is the second; images are decoded on the storage's workers as
//! they arrive, straight into their final memory; and a program may draw what has landed.
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
//! Modules: [`model`] the JSON and its checks; [`glb`], [`uri`] the containers of bytes;
//! `plan` what a scene needs; [`load`] the batches; [`device`] scenes in the memory of a GPU;
//! [`image`] decoding; [`accessor`] and [`scene`] the result; `record` and `cook` (features) what
//! packages hold of scenes.
//!
//! Not supported, which each item's error says: Draco and meshopt compression (without an
//! uncompressed copy), Basis Universal textures, CMYK JPEGs, glTF 1. Basis and current meshopt
//! decoders are large C++ libraries, which would decode untrusted bytes outside of Rust's checks;
//! the one decoder of meshopt in Rust stands at version 0.15 of that library, of 2020. A package's
//! cook, or the tool that exported the scene, is the place for them.
//!
//! Supported: data URIs, percent-encoded names, sparse accessors, `KHR_mesh_quantization`,
//! `EXT_texture_webp`, `MSFT_texture_dds`, and uncompressed copies beside compressed ones. Unknown
//! extensions are ignored.

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
