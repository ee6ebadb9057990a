//! The kernels, which convert text to samples many bytes at a time.
//!
//! The input of a kernel is text in which numbers are separated by white space. It converts simple
//! text only: digits and separators, no number with more digits than a sample can need, none above
//! the maximal value. It checks this once per chunk. If the check fails, it stops at the start of
//! that chunk, and the plain parser (`text`) continues from there: so every input gives the result
//! and the error of the plain parser, and a kernel does not handle comments, leading zeros or
//! errors.
//!
//! All vector kernels are one algorithm (`generic`). It needs no position of a number's start, no
//! shuffle by the lengths of numbers, and no branch within a chunk:
//!
//! ```text
//! text            1 2 3 _ 4 5 _ 6 \n         one block: 64 bytes
//! end                   x     x    x         separators right behind a digit: samples end here
//! s1 = ones             3     5    6         the text one byte earlier, less '0'
//! s2 = tens             2     4    _         two bytes earlier
//! s3 = hundreds         1     _    5         three bytes earlier
//! low  = s1 + TENS[s2]                       a shuffle is the table; separators are negative
//!                                            after '0' is taken off, for which it gives 0
//! high = HUNDREDS[s3] where s2 and s1 are digits and an end is here, else 0
//! sum  = low + high     123   45   6         at ends; others are ignored
//! samples               123 45 6             the sums at ends, moved to the front
//! ```
//!
//! `s1` to `s3` are loads that overlap the previous block, so numbers straddle blocks without a
//! special case. Sixteen-bit samples add `s4` and `s5`, and keep pairs of digits in three vectors
//! that are combined after they are moved to the front.
//!
//! The following is detected, each with one or two instructions per block:
//! - A byte that is neither digit nor separator: separators are found by a shuffle with the byte's
//!   own low bits, which returns the byte if it is white space.
//! - A run of more than three (five) digits: an end with a digit at `s1` to `s4` (`s6`).
//! - A number above 255. In eight bits 256 is 0, so a sum cannot be compared. Hundreds of 3 and
//!   more have a table entry with a bit that no other entry has. With 200 a sum is correct if its
//!   sign bit is set (200 to 255); past 255 it is 0 to 43, without it. The same holds for ten
//!   thousands in sixteen bits.
//! - A number above the maximal value: by the greatest sample of the chunk.

mod portable;
mod tables;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod generic;
#[cfg(target_arch = "aarch64")]
mod neon;

use std::sync::OnceLock;

/// Bytes of text that a kernel processes together.
pub(crate) const BLOCK_BYTES: usize = 64;
/// Maximum samples that end in a block: two ends are never adjacent.
pub(crate) const SAMPLES_PER_BLOCK: usize = BLOCK_BYTES / 2;
/// Bytes available before a block; kernels read at most six of them, the digits of a long number.
pub(crate) const BEFORE_BYTES: usize = 8;
/// Blocks per check. More would leave more text to the plain parser where comments are frequent;
/// with 16 the check costs under 2 % of a chunk.
const CHUNK_BLOCKS: usize = 16;

const _: () = assert!(BEFORE_BYTES <= BLOCK_BYTES);

/// The input and output of a kernel.
pub(crate) struct Job<'a> {
    /// The text; `start` is at least [`BEFORE_BYTES`], and no number extends across it.
    pub(crate) text: &'a [u8],
    /// Offset in the text at which to begin.
    pub(crate) start: usize,
    /// Room for samples: one byte each, or two in native byte order.
    pub(crate) out: &'a mut [u8],
    /// Samples above it are left to the plain parser.
    pub(crate) maxval: u16,
}

/// The result of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Offset up to which the text is converted; no number extends across it.
    pub(crate) at: usize,
    /// Samples written. The bytes of `out` after them may be overwritten.
    pub(crate) produced: usize,
}

/// A kernel that converts text to samples. All give the same samples and the same errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// The plain parser, a byte at a time, which all others are tested against.
    Plain,
    /// Safe code for any machine.
    Portable,
    /// aarch64 with NEON.
    Neon,
    /// x86-64 with AVX2 (Haswell, Zen and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL and VBMI2 (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Kernel {
    /// All kernels, available on this machine or not; the last available one is the fastest.
    pub const ALL: &'static [Kernel] = &[
        Kernel::Plain,
        Kernel::Portable,
        Kernel::Neon,
        Kernel::Avx2,
        Kernel::Avx512,
    ];

    /// Returns the kernel's name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Plain => "plain",
            Kernel::Portable => "portable",
            Kernel::Neon => "neon",
            Kernel::Avx2 => "avx2",
            Kernel::Avx512 => "avx512",
        }
    }

    /// Returns whether this machine can run the kernel.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Kernel::Plain | Kernel::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2::is_available(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512::is_available(),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => neon::is_available(),
            #[cfg_attr(
                not(any(target_arch = "x86_64", target_arch = "aarch64")),
                expect(unreachable_patterns, reason = "which kernels are left depends on it")
            )]
            _ => false,
        }
    }

    /// Returns the fastest kernel of this machine. (On all machines measured, the order of
    /// [`Kernel::ALL`] is the order of speed.)
    #[must_use]
    pub fn fastest() -> Kernel {
        static FASTEST: OnceLock<Kernel> = OnceLock::new();
        *FASTEST.get_or_init(|| {
            let mut kernels = Kernel::ALL.iter().rev().copied();
            kernels
                .find(|kernel| kernel.is_available())
                .unwrap_or(Kernel::Portable)
        })
    }
}

/// Returns a sample's bytes in memory, one or two.
#[inline]
pub(crate) fn sample<const BYTES: usize>(value: u16) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    match BYTES {
        1 => bytes[0] = value as u8,
        _ => bytes.copy_from_slice(&value.to_ne_bytes()),
    }
    bytes
}

/// A kernel for samples of one width; the only dispatch on kernels.
#[derive(Clone, Copy)]
pub(crate) struct Convert(fn(Job<'_>) -> Run);

impl Convert {
    /// Selects a kernel; `wide`: two bytes per sample. A kernel that this machine cannot run is
    /// replaced by the portable one.
    pub(crate) fn new(kernel: Kernel, wide: bool) -> Convert {
        if wide {
            Convert::of::<2>(kernel)
        } else {
            Convert::of::<1>(kernel)
        }
    }

    fn of<const BYTES: usize>(kernel: Kernel) -> Convert {
        Convert(match kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 if kernel.is_available() => vector::avx512::<BYTES>,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 if kernel.is_available() => vector::avx2::<BYTES>,
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon if kernel.is_available() => vector::neon::<BYTES>,
            Kernel::Plain => nothing,
            _ => portable::run::<BYTES>,
        })
    }

    /// Runs the kernel, which does nothing without enough text and room for a block.
    pub(crate) fn run(self, job: Job<'_>) -> Run {
        assert!(job.start >= BEFORE_BYTES && !job.text[job.start - 1].is_ascii_digit());
        (self.0)(job)
    }
}

/// The kernel that leaves everything to the plain parser.
fn nothing(job: Job<'_>) -> Run {
    Run {
        at: job.start,
        produced: 0,
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector {
    //! Safe wrappers of functions that need CPU features.
    //!
    //! # Safety
    //! `Convert::of` and `count_numbers` check `is_available` before they use one of these.
    #![expect(
        unsafe_code,
        reason = "calls functions that need features of the machine"
    )]

    use super::{Job, Run};

    macro_rules! of_kernel {
        ($kernel:ident) => {
            pub(super) fn $kernel<const BYTES: usize>(job: Job<'_>) -> Run {
                // SAFETY: see the module.
                unsafe { super::$kernel::run::<BYTES>(job) }
            }
        };
        ($kernel:ident, $count:ident) => {
            of_kernel!($kernel);

            /// See `count_by_masks`.
            pub(super) fn $count(blocks: &[[u8; super::BLOCK_BYTES]]) -> (usize, bool) {
                // SAFETY: see the module.
                unsafe { super::$kernel::count(blocks) }
            }
        };
    }

    #[cfg(target_arch = "x86_64")]
    of_kernel!(avx2, count_avx2);
    #[cfg(target_arch = "x86_64")]
    of_kernel!(avx512, count_avx512);
    #[cfg(target_arch = "aarch64")]
    of_kernel!(neon);
}

/// Counts the numbers of a text that has only digits and separators, and begins and ends between
/// two numbers or with a whole one.
pub(crate) fn count_numbers(kernel: Kernel, text: &[u8]) -> usize {
    let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
    let (mut count, mut in_number) = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 if kernel.is_available() => vector::count_avx512(blocks),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 if kernel.is_available() => vector::count_avx2(blocks),
        _ => count_by_masks(blocks, |block| {
            let bits = block.iter().enumerate();
            bits.fold(0, |mask, (index, byte)| {
                mask | u64::from(byte.is_ascii_digit()) << index
            })
        }),
    };
    for byte in rest {
        count += usize::from(in_number && !byte.is_ascii_digit());
        in_number = byte.is_ascii_digit();
    }
    count + usize::from(in_number)
}

/// Counts the ends of numbers by blocks' digit masks; returns also if the last byte is a digit.
#[inline(always)]
fn count_by_masks(
    blocks: &[[u8; BLOCK_BYTES]],
    mask: impl Fn(&[u8; BLOCK_BYTES]) -> u64,
) -> (usize, bool) {
    let (mut count, mut before) = (0, 0);
    for block in blocks {
        let digits = mask(block);
        count += (!digits & (digits << 1 | before)).count_ones() as usize;
        before = digits >> 63;
    }
    (count, before == 1)
}

/// The text and the room of a chunk.
struct Chunk<'a> {
    text: &'a [u8],
    /// Offset of the chunk in the text, at least [`BEFORE_BYTES`].
    at: usize,
    /// Whole blocks of text from there on.
    blocks: usize,
    /// Room for at least [`SAMPLES_PER_BLOCK`] samples per block.
    out: &'a mut [u8],
}

/// Runs `convert` chunk by chunk, for all kernels. It returns the number of samples of a chunk, or
/// `None` if the chunk is to be left to the plain parser.
#[inline(always)]
fn by_chunks(
    job: Job<'_>,
    sample_bytes: usize,
    mut convert: impl FnMut(Chunk<'_>) -> Option<usize>,
) -> Run {
    let Job {
        text, start, out, ..
    } = job;
    let (mut at, mut produced) = (start, 0);
    assert!(start >= BEFORE_BYTES && start <= text.len());
    loop {
        let room = out.len() / sample_bytes - produced;
        // As many as there are text and room for.
        let blocks = ((text.len() - at) / BLOCK_BYTES).min(room / SAMPLES_PER_BLOCK);
        let blocks = blocks.min(CHUNK_BLOCKS);
        if blocks == 0 {
            break;
        }
        let out = &mut out[produced * sample_bytes..];
        let Some(made) = convert(Chunk {
            text,
            at,
            blocks,
            out,
        }) else {
            break;
        };
        at += blocks * BLOCK_BYTES;
        produced += made;
    }
    back_up(text, start, at, produced)
}

/// Ends a run: a number cut by the end of the last chunk is left to the next parser.
fn back_up(text: &[u8], start: usize, mut at: usize, produced: usize) -> Run {
    // Only a few bytes: chunks with longer runs of digits fail the check.
    while at > start && text[at - 1].is_ascii_digit() {
        at -= 1;
    }
    Run { at, produced }
}
