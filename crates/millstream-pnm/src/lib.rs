//! A parser and writer of the PNM image family (P1 to P6, and PAM).
//!
//! It is designed to parse text images at the speed of an SSD: vector kernels convert text to
//! samples (see `kernel`), a file is read in windows that stay in the cache, several cores parse
//! one image, and the engine passes blocks to the parser while it reads the next ones.
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
//! Entry points: [`load`] for files, [`decode`] for bytes, [`view`] for samples without a copy,
//! [`Parser`] for bytes that arrive in pieces, `codec` for requests of the engine, and [`encode`]
//! to write.

#[cfg(feature = "engine")]
pub mod codec;
mod decode;
#[cfg(feature = "pak")]
mod describe;
mod error;
mod format;
mod header;
mod image;
mod kernel;
pub mod limits;
mod load;
mod memory;
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

#[cfg(test)]
millstream_testing::watch!();
