//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod codec;
pub(crate) mod describe;
pub(crate) mod info;
pub(crate) mod load;
