//! Packages for Millstream: one file, one table, no dependent reads.

pub mod cook;
pub mod describe;
pub mod limits;
pub mod metadata;

pub use cook::{Cook, CookError, Cooked, CookedEntry, Pantry};
pub use describe::{Describe, Head};
pub use metadata::Metadata;
