//! The commands, one file each.

pub(crate) mod codec;
pub(crate) mod decode;
pub(crate) mod describe;
pub(crate) mod diff;
pub(crate) mod extract;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod pack;
pub(crate) mod report;
pub(crate) mod scene;
pub(crate) mod verify;
