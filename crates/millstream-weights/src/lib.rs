//! Model weights: the tensors of safetensors and GGUF files, read by Millstream.
//!
//! [`Model::open`] reads the headers of a model of one or more files and returns its tensors: name,
//! type, shape, and which bytes of which file. Headers come from anywhere, so nothing in them is
//! trusted: every count, length and offset is checked against the file before it is used, and
//! memory stays in proportion to the header.
//!
//! | you want | you write |
//! |---|---|
//! | the tensors of a file, an index or a folder | [`Model::open`], [`Model::tensors`] |
//! | some rows of a tensor, without the rest | [`Model::slice`], [`Model::request`] |
//! | many tensors in few reads, in file order | [`plan()`], [`Model::read`] |
//! | tensors in memory | [`Model::load`] |
//! | reads that are compared with checksums | [`Checksums`], [`Model::check`] |
//! | experts on demand, in bounded memory | [`ExpertCache`] |
//! | one copy for all processes of a machine | `SharedModel::load` (Linux) |
//! | a header that is in memory already | [`safetensors::parse`], [`gguf::parse`] |
//!
//! ```no_run
//! use millstream::{QueueOptions, Storage, StorageOptions};
//! use millstream_weights::Model;
//!
//! # fn main() -> Result<(), millstream::Error> {
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let model = Model::open(&storage, "llama-3-8b.Q4_K_M.gguf")?;
//! for tensor in model.tensors() {
//!     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//! }
//! let loaded = model.load(&queue, ["token_embd.weight", "output_norm.weight"])?;
//! println!("{} bytes", loaded.get("output_norm.weight").map_or(0, <[u8]>::len));
//! # Ok(())
//! # }
//! ```

pub mod checksums;
mod cursor;
mod dtype;
mod error;
pub mod experts;
pub mod gguf;
mod header;
pub mod limits;
mod metadata;
mod model;
mod open;
mod plan;
pub mod safetensors;
#[cfg(target_os = "linux")]
pub mod shared;
mod tensor;

pub use checksums::{Checksums, FileChecksums};
pub use dtype::DataType;
pub use experts::{Expert, ExpertCache, ExpertStats};
pub use header::{Format, Header, Parsed, Split};
pub use metadata::{Array, Metadata, Value, ValueKind};
pub use model::{Loaded, Model};
pub use open::ModelFile;
pub use plan::{Part, PlanOptions, PlannedRead, plan};
#[cfg(target_os = "linux")]
pub use shared::SharedModel;
pub use tensor::{Extent, Tensor};

#[cfg(test)]
millstream_testing::watch!();
