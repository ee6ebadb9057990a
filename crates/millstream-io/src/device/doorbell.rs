//! Wakes a sleeping device owner.
/// Placeholder.
#[derive(Clone)]
pub struct Doorbell;
