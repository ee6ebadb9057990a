//! placeholder
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_op_in_unsafe_fn)]
extern crate alloc;

mod decode;
mod encode;
mod error;
pub mod limits;
mod parallel;
mod stream;

pub use decode::{Decoder, Kernel};
pub use encode::{Encoder, Level};
pub use error::{Error, ErrorKind};
pub use limits::compress_bound;
pub use parallel::compress;
#[cfg(feature = "std")]
pub use parallel::{decompress, decompress_into};
pub use stream::{Header, ParseOptions, TileStream, TileTable};
