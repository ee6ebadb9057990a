//! temp
mod error;
mod fields;
pub mod glb;
pub mod image;
pub mod limits;
pub mod model;
pub mod uri;
pub use error::{Error, ErrorKind, Result};
