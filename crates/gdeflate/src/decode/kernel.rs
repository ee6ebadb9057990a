//! The choice of a kernel, in one place.
//!
//! What a CPU can do says little about what it does fast (some run gathers in microcode, some drop
//! their clock for wide vectors), so the choice is measured: the first decoder of a process decodes
//! a small made-up tile a few times with each kernel that the machine can run, well under a
//! millisecond in all, and the best times decide. All kernels give the same bytes, so a
//! wrong choice costs time and nothing else.

/// A way to decode a block's symbols. All give the same bytes and refuse the same tiles.
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
    /// All kernels, on any machine.
    pub const ALL: &'static [Self] = &[Self::Portable, Self::Avx2, Self::Avx512];

    /// Whether this machine can run it.
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

    /// The fastest kernel of this machine, measured when it is first asked for.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn fastest() -> Self {
        static FASTEST: std::sync::OnceLock<Kernel> = std::sync::OnceLock::new();
        *FASTEST.get_or_init(measure)
    }

    /// The widest kernel that every machine this is compiled for can run.
    #[cfg(not(feature = "std"))]
    #[must_use]
    pub fn fastest() -> Self {
        let mut kernels = Self::ALL.iter().rev().copied();
        kernels
            .find(|kernel| kernel.is_available())
            .unwrap_or(Self::Portable)
    }
}

/// Raw bytes of the tile that the measurement decodes.
#[cfg(feature = "std")]
const SAMPLE_BYTES: usize = 16_384;

/// Times that each kernel decodes it; the best counts.
#[cfg(feature = "std")]
const SAMPLE_ROUNDS: usize = 5;

#[cfg(feature = "std")]
fn measure() -> Kernel {
    use super::Decoder;
    use crate::encode::{Encoder, Level};
    use std::time::{Duration, Instant};

    let candidates: std::vec::Vec<Kernel> = Kernel::ALL
        .iter()
        .copied()
        .filter(|kernel| kernel.is_available())
        .collect();
    if candidates.len() == 1 {
        return candidates[0];
    }
    let raw = sample();
    let mut tile = std::vec::Vec::new();
    if Encoder::new(Level::FASTEST)
        .encode_tile(&raw, &mut tile)
        .is_err()
    {
        return Kernel::Portable;
    }
    let mut decoders: std::vec::Vec<Decoder> = candidates
        .iter()
        .map(|&kernel| Decoder::with_kernel(kernel))
        .collect();
    let mut best = std::vec![Duration::MAX; decoders.len()];
    let mut back = std::vec![0; raw.len()];
    for _ in 0..SAMPLE_ROUNDS {
        for (decoder, best) in decoders.iter_mut().zip(&mut best) {
            let start = Instant::now();
            let result = decoder.decode_tile(&tile, &mut back);
            let elapsed = start.elapsed();
            if result.is_ok() && back == raw {
                *best = elapsed.min(*best);
            }
        }
    }
    let fastest = candidates.iter().zip(&best).min_by_key(|(_, best)| **best);
    fastest.map_or(Kernel::Portable, |(kernel, _)| *kernel)
}

/// Bytes that are part literals, part matches, like data of games: records whose fields repeat.
#[cfg(feature = "std")]
fn sample() -> std::vec::Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    let mut raw = std::vec::Vec::with_capacity(SAMPLE_BYTES);
    while raw.len() < SAMPLE_BYTES {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let noise = state.to_le_bytes();
        raw.extend_from_slice(&[
            noise[0] & 31,
            noise[1],
            0x3F,
            0x80,
            0,
            noise[2] & 3,
            0xFF,
            7,
        ]);
    }
    raw
}
