//! Selection of a decode kernel.
//!
//! The default is the widest kernel that the processor can run, by CPUID. It is the fastest on the
//! one kind of processor that all were measured on (AMD's with AVX-512); where gathers are slow
//! (Zen 1 and 2, Intel's with the mitigation of Downfall), [`Kernel::Portable`] may be faster. All
//! kernels give the same bytes, so a wrong choice only costs time.

/// A decode kernel. All kernels give the same bytes and reject the same tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Safe code for any machine.
    Portable,
    /// x86-64 with AVX2, BMI1, BMI2 and POPCNT (Haswell, Zen and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, DQ, VBMI, VBMI2 and GFNI (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Kernel {
    /// All kernels, available on this machine or not, from the narrowest to the widest.
    pub const ALL: &'static [Self] = &[Self::Portable, Self::Avx2, Self::Avx512];

    /// Returns whether this machine can run the kernel.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => super::avx2::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => super::avx512::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Returns the widest kernel that this machine can run: the last available of [`Kernel::ALL`].
    #[must_use]
    pub fn fastest() -> Self {
        let mut kernels = Self::ALL.iter().rev().copied();
        kernels
            .find(|kernel| kernel.is_available())
            .unwrap_or(Self::Portable)
    }
}
