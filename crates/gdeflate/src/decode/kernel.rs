//! The choice of a kernel, in one place.

/// A way to decode a block's symbols. All give the same bytes and refuse the same tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Safe code for any machine.
    Portable,
}

impl Kernel {
    /// All kernels, slowest first.
    pub const ALL: &'static [Self] = &[Self::Portable];

    /// Whether this machine can run it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
        }
    }

    /// The fastest kernel of this machine.
    #[must_use]
    pub fn fastest() -> Self {
        Self::Portable
    }
}
