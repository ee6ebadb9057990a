//! The choice of the codecs with which a package loads fastest.
//!
//! The device reads stored bytes while the cores decode earlier ones, so a load takes about the
//! greater of two *sums*: what its blocks cost the device, and what they cost the cores. Which of
//! the two is greater depends on the whole package; a choice by the whole would change unchanged
//! blocks with their neighbors, and make patches large. So each block takes the candidate with the
//! least `weight × device + cores`: a saving on one side must pay for what the other loses. The
//! weight depends on the target alone: at least 1.25, and more the slower the device is compared
//! with a core, which then waits for it anyway.
//!
//! The costs of decoding are a table in this file and not measured, so that the same input gives
//! the same package on any machine. `docs/ARCHITECTURE.md` says where its figures are from. A load
//! costs by raw byte, by stored byte (symbols), and by block (hand-over, setup).

use millstream::CodecId;
use serde::{Deserialize, Serialize};

use crate::limits::{ALIGNED_BYTES_MIN, BLOCK_ALIGNMENT, STORED_ALIGNMENT};

/// The machine that [`Coding::Auto`](crate::Coding::Auto) chooses codecs for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What the device reads, in units of 10^6 bytes a second.
    pub megabytes_per_second: f64,
    /// Cores that decode.
    pub cores: u32,
}

impl Default for Target {
    fn default() -> Target {
        Target {
            megabytes_per_second: 3500.0,
            cores: 4,
        }
    }
}

/// Costs of a load, in nanoseconds: for each block, raw byte and stored byte.
type Cost = (CodecId, f64, f64, f64);

/// What `auto` assumes that each codec costs: stored blocks, then the codecs that it tries, in this
/// order: each only if its result could be taken, judging by the results of those before it (see
/// [`CostModel::may_take`]).
///
/// zlib shrinks some kinds (tables of numbers) further than zstd. GDeflate shrinks as much as zlib
/// and decodes faster, but encodes at a quarter of its rate.
pub(super) const COSTS: [Cost; 5] = [
    (CodecId::STORED, 3000.0, 0.50, 0.0),
    (CodecId::LZ4_BLOCK, 5000.0, 0.60, 0.40),
    (CodecId::ZSTD, 8000.0, 0.82, 1.50),
    (CodecId::ZLIB, 8000.0, 1.02, 3.30),
    (CodecId::GDEFLATE, 8000.0, 0.63, 1.85),
];

/// Minimum weight of the device's time, relative to that of the cores.
const DEVICE_WEIGHT_MIN: f64 = 1.25;

/// Rate of the device per core, in MB/s, at which that weight is one more than the minimum.
const CORE_RATE: f64 = 300.0;

/// The level of zstd for `auto`: decoding is no slower for it. Level 12 leaves 0.5 % less, and
/// encodes four times as long.
pub(super) const AUTO_ZSTD_LEVEL: i32 = 9;

impl Target {
    /// Returns the target that a package records, if it does; the rate is in bytes a second.
    pub(crate) fn of_bytes(bytes_per_second: u64, cores: u32) -> Option<Target> {
        (bytes_per_second > 0 && cores > 0).then(|| Target {
            megabytes_per_second: bytes_per_second as f64 / 1e6,
            cores,
        })
    }

    /// Returns the rate in bytes a second.
    pub(crate) fn bytes_per_second(&self) -> u64 {
        (self.megabytes_per_second * 1e6).round() as u64
    }

    /// Returns the target as recorded and used for the choice: in whole bytes a second.
    pub(crate) fn recorded(&self) -> Option<Target> {
        Target::of_bytes(self.bytes_per_second(), self.cores)
    }

    /// Returns what a block costs the device, and what it costs the cores, in nanoseconds.
    fn cost(&self, codec: CodecId, raw_bytes: usize, stored_bytes: usize) -> (f64, f64) {
        let stored = codec == CodecId::STORED;
        let align = if stored && stored_bytes as u64 >= u64::from(ALIGNED_BYTES_MIN) {
            STORED_ALIGNMENT
        } else {
            BLOCK_ALIGNMENT
        };
        let on_disk = (stored_bytes as u64).next_multiple_of(align) as f64;
        let device = on_disk * 1000.0 / self.megabytes_per_second;
        let cost = COSTS.iter().find(|cost| cost.0 == codec);
        let cores = cost.map_or(0.0, |(_, per_block, per_raw_byte, per_stored_byte)| {
            let bytes = per_raw_byte * raw_bytes as f64;
            per_block + bytes + per_stored_byte * stored_bytes as f64
        });
        (device, cores / f64::from(self.cores))
    }
}

/// What blocks cost on a target; see the [module](self).
pub(super) struct CostModel {
    target: Target,
    device_weight: f64,
}

impl CostModel {
    pub(super) fn new(target: Target) -> CostModel {
        let rate = target.megabytes_per_second / f64::from(target.cores);
        CostModel {
            target,
            device_weight: DEVICE_WEIGHT_MIN + (CORE_RATE / rate).powi(3),
        }
    }

    /// Returns what a block adds to the time of loading the whole package, by this model.
    pub(super) fn price(&self, codec: CodecId, raw_bytes: usize, stored_bytes: usize) -> f64 {
        let (device, cores) = self.target.cost(codec, raw_bytes, stored_bytes);
        self.device_weight * device + cores
    }

    /// Returns which of a block's candidates is taken. Each is a codec with its stored bytes; the
    /// first is the stored block.
    pub(super) fn choose(&self, raw_bytes: usize, candidates: &[(CodecId, usize)]) -> usize {
        let price = |nth: usize| {
            let (codec, stored_bytes) = candidates[nth];
            self.price(codec, raw_bytes, stored_bytes)
        };
        let all = 0..candidates.len();
        all.min_by(|&a, &b| price(a).total_cmp(&price(b)))
            .expect("the stored block is one")
    }

    /// Whether a block that a GPU decodes, at `rate` × 10^6 raw bytes a second, loads faster as
    /// `gdeflate_bytes` of GDeflate than stored. The device reads other blocks meanwhile, so the
    /// slower of reading and decoding counts.
    pub(super) fn gains_on_gpu(&self, rate: f64, raw_bytes: usize, gdeflate_bytes: usize) -> bool {
        let (stored, _) = self.target.cost(CodecId::STORED, raw_bytes, raw_bytes);
        let (read, _) = self
            .target
            .cost(CodecId::GDEFLATE, raw_bytes, gdeflate_bytes);
        let decode = raw_bytes as f64 * 1000.0 / rate;
        read.max(decode) < stored
    }

    /// Whether a codec that is slow to encode could be taken: the fewest bytes that it may leave
    /// are estimated from those of zstd's fastest level or of zlib, whichever is nearer to it.
    pub(super) fn may_take(
        &self,
        codec: CodecId,
        raw_bytes: usize,
        quick_bytes: usize,
        others: &[(CodecId, usize)],
    ) -> bool {
        let zlib = others.iter().find(|(codec, _)| *codec == CodecId::ZLIB);
        let hoped = match (codec, zlib) {
            (CodecId::ZSTD, _) => (CodecId::ZSTD, quick_bytes - quick_bytes / 8),
            // For game models, textures and texts it leaves 0.95 to 1.03 of what zlib leaves.
            (CodecId::GDEFLATE, Some((_, zlib_bytes))) => (codec, zlib_bytes - zlib_bytes / 16),
            // zlib is tried also to estimate what GDeflate would leave.
            (CodecId::ZLIB, _) => (CodecId::GDEFLATE, quick_bytes / 8 * 5),
            _ => return codec == CodecId::LZ4_BLOCK,
        };
        let mut sizes = others.to_vec();
        sizes.push(hoped);
        self.choose(raw_bytes, &sizes) == others.len()
    }
}

/// Whether a quick encoder saves enough, more than 1/64, for a slow one to be tried.
pub(super) fn shrinks(raw_bytes: usize, stored_bytes: usize) -> bool {
    stored_bytes < raw_bytes - raw_bytes / 64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GDeflate leaves as much as zlib does.
    const SIZES: [(CodecId, usize); 5] = [
        (CodecId::STORED, 262_144),
        (CodecId::LZ4_BLOCK, 125_000),
        (CodecId::ZSTD, 80_000),
        (CodecId::ZLIB, 75_000),
        (CodecId::GDEFLATE, 75_000),
    ];

    fn target(rate: f64, cores: u32) -> Target {
        Target {
            megabytes_per_second: rate,
            cores,
        }
    }

    fn taken(rate: f64, cores: u32, sizes: &[(CodecId, usize)]) -> CodecId {
        sizes[CostModel::new(target(rate, cores)).choose(262_144, sizes)].0
    }

    #[test]
    fn slow_devices_take_the_smallest_and_fast_ones_what_decodes_in_time() {
        for (rate, cores) in [(48.0, 1), (48.0, 4), (550.0, 2), (550.0, 8)] {
            assert_eq!(
                taken(rate, cores, &SIZES),
                CodecId::GDEFLATE,
                "{rate}, {cores}"
            );
        }
        // Where zstd leaves less than the others, it also costs less to decode.
        let mut text = SIZES;
        text[2].1 = 68_000;
        assert_eq!(taken(550.0, 2, &text), CodecId::ZSTD);
        // On a slow device the shorter result is taken, though it decodes at half the rate.
        let mut longer = SIZES;
        longer[4].1 = 78_000;
        assert_eq!(taken(48.0, 4, &longer), CodecId::ZLIB);
        let quick = taken(3500.0, 2, &SIZES);
        assert!(quick == CodecId::LZ4_BLOCK, "{quick:?}");
        assert_eq!(taken(30_000.0, 1, &SIZES), CodecId::STORED);
    }

    #[test]
    fn slow_encoders_are_tried_wherever_they_would_be_taken_and_not_everywhere() {
        let (mut tried, mut not_tried) = (0, 0);
        for rate in [48.0, 550.0, 1500.0, 3500.0, 14_000.0] {
            for cores in [1, 2, 4, 8] {
                let model = CostModel::new(target(rate, cores));
                for percent in [94, 97, 100, 103] {
                    let mut sizes = SIZES;
                    sizes[4].1 = sizes[3].1 * percent / 100;
                    let taken = model.choose(262_144, &sizes);
                    let quick = sizes[2].1 * 112 / 100;
                    for nth in 1..sizes.len() {
                        let is_tried = model.may_take(sizes[nth].0, 262_144, quick, &sizes[..nth]);
                        assert!(
                            is_tried || nth != taken,
                            "{rate}, {cores}, {percent} %, {nth}"
                        );
                        tried += u32::from(is_tried);
                        not_tried += u32::from(!is_tried);
                    }
                }
            }
        }
        assert!(tried > 80 && not_tried > 80, "{tried}, {not_tried}");
        // Without a result of zlib, GDeflate's cannot be estimated.
        let model = CostModel::new(target(48.0, 4));
        assert!(!model.may_take(CodecId::GDEFLATE, 262_144, 80_000, &SIZES[..3]));
    }
}
