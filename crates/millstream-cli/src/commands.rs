//! The commands, one file each.

pub(crate) mod codec;
pub(crate) mod describe;
