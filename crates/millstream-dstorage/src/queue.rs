//! `IDStorageQueue` to `IDStorageQueue3`.

mod core;
mod object;
mod state;

pub(crate) use self::object::create;
