//! The PNM image family (P1 to P6, and PAM), parsed at the speed at which a disk delivers it.
//!
//! Text images are usually read at a hundredth of that speed. Here vector kernels turn text into
//! samples (see `kernel`), a file is read in windows that stay in the cache, several cores parse
//! one image, and the engine hands blocks to the parser while it reads the next ones.
//!
//! ```
//! let folder = std::env::temp_dir().join(format!("millstream-pnm-doc-{}", std::process::id()));
//! std::fs::write(&folder, "P3\n# two pixels\n2 1\n255\n255 0 0  0 0 255\n")?;
//! let image = millstream_pnm::load(&folder)?;
//! assert_eq!(image.samples.as_bytes(), [255, 0, 0, 0, 0, 255]);
//! # std::fs::remove_file(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What to use: [`load`] for files, [`decode`] for bytes, [`view`] for samples that need no copy,
//! [`Parser`] for bytes that come in pieces, `codec` for requests of the engine, [`encode`] to
//! write, and [`numbers`] for other lists of numbers in text.

#[cfg(feature = "engine")]
pub mod codec;
mod decode;
#[cfg(feature = "pak")]
mod describe;
mod error;
mod format;
mod header;
mod image;
#[cfg(feature = "image")]
pub mod image_hook;
mod kernel;
pub mod limits;
mod load;
mod memory;
pub mod numbers;
mod parallel;
mod parser;
mod raw;
mod text;
mod write;

pub use decode::{Options, decode, decode_into};
#[cfg(feature = "pak")]
pub use describe::PnmDescriber;
pub use error::{Error, ErrorKind};
pub use format::{Format, Header, TupleType};
pub use image::{Image, Samples, View, view};
pub use kernel::Kernel;
pub use load::{Loader, Mapped, load};
pub use parser::{Parser, Pushed, Stage};
pub use write::encode;
