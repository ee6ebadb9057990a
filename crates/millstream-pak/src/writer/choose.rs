//! Which codec makes a package load fastest.
//!
//! The device brings stored bytes while the cores decode those that came before, so what counts is
//! two *sums*: `D = Σ stored ÷ rate` and `C = Σ decoding ÷ cores`. To take for each block what is
//! best for it alone is wrong: where the device is the slower one in all, a block whose decoding
//! takes longer than its read should still be shrunk, since the cores have the time from others.
//! Were the two stations always busy together, a load would take the greater of both sums. They
//! are not: entries of a kind lie together, so that now the one waits and now the other, and cores
//! have more to do than to decode. With two cores at 550 MB/s a load whose sums were as 10 to 9
//! took just the greater one on an idle host, and 1.29 of it on a busy one; one whose sums were as
//! 10 to 5 took the greater one on both. So the time of a load is taken to be `(D⁴ + C⁴)^¼`: the
//! greater sum where they differ much, and up to 1.19 of it where they are near each other. What
//! that gives away on an idle machine is little (0.99 of the best fixed codec there), and it holds
//! on a busy one.
//!
//! The time is least where every block takes the candidate with the least of
//! `share × device + (1 − share) × decoding`, for one share that suits the whole (it is the price
//! of the device's time against that of the cores). A share by what is in the package would make an
//! unchanged block change with its neighbours, and patches large. So the share is found for a small
//! table of the kinds of data that packages hold, for the target; a block's choice depends on the
//! target and its own bytes alone. Many shares give that table the same choices; of these the one
//! is taken that is nearest to `D³ ÷ (D³ + C³)`, what the sums themselves say that a little more of
//! the one is worth in the other. A candidate that would take longer than the stored block, even
//! alone, is never taken.
//!
//! What decoding costs stands in a table that is part of this file, and not in a clock: the same
//! input gives the same package on any machine. The table's figures are rounded from measurements
//! of the libraries within the engine, staging and checksums among them, on one core of a server
//! (2.6 GHz). Decoding costs by raw byte (copies), by stored byte (symbols), and by block
//! (hand-over, setting up).
//!
//! The speed of GDeflate's decoder depends most on the vector unit, and the machine that packs does
//! not know that of the machines that load. So its figures are those of AVX2, which nearly every
//! desktop has, even where this runs with AVX-512, which takes two thirds of the time. With
//! portable code it takes twice as long, 1.2 to 1.7 times what zlib does: there a package for slow
//! devices and few cores loads up to an eighth slower than one without GDeflate.

use millstream::CodecId;

use crate::limits::{ALIGNED_BYTES_MIN, BLOCK_ALIGNMENT, STORED_ALIGNMENT};

/// What `auto` chooses for.
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// Decoding costs of a codec, in nanoseconds: for each block, raw byte and stored byte.
type Cost = (CodecId, f64, f64, f64);

/// See the module.
const COSTS: [Cost; 5] = [
    (CodecId::LZ4_BLOCK, 5000.0, 0.22, 0.40),
    (CodecId::ZSTD, 8000.0, 0.42, 1.50),
    (CodecId::ZLIB, 8000.0, 0.62, 3.30),
    (CodecId::DEFLATE, 8000.0, 0.57, 3.30),
    (CodecId::GDEFLATE, 8000.0, 0.30, 2.65),
];

/// Kinds of data, each a fifth of what a package holds, and what share of its bytes is left by LZ4,
/// zstd, zlib and GDeflate: encoded pictures and sounds, vertices, text, tables of numbers, plain
/// pixels.
const KINDS: [[f64; 4]; 5] = [
    [1.0, 1.0, 1.0, 1.0],
    [1.0, 0.70, 0.62, 0.60],
    [0.48, 0.30, 0.29, 0.29],
    [1.0, 0.65, 0.40, 0.40],
    [0.15, 0.09, 0.11, 0.11],
];

/// Raw bytes of a block of those.
const KIND_BYTES: usize = 256 << 10;

/// The share of the device has so many steps; neither it nor the cores are ever left out, so that
/// of two candidates that cost the slower side the same, the lighter one is taken.
const SHARE_STEPS: u32 = 64;

/// The codecs that `auto` tries, in this order, which is that of [`KINDS`].
/// zlib shrinks some kinds (tables of numbers) further than zstd, which slow devices reward.
/// GDeflate shrinks as much as zlib and decodes faster; it is tried where it is likely to be taken
/// (see [`CostModel::may_take_gdeflate`]).
pub(super) const CANDIDATES: [CodecId; 4] = [
    CodecId::LZ4_BLOCK,
    CodecId::ZSTD,
    CodecId::ZLIB,
    CodecId::GDEFLATE,
];

/// GDeflate leaves of a block at least so much of what zlib leaves: on the made kinds, game models,
/// textures and texts 0.95 to 1.03.
const GDEFLATE_OF_ZLIB_MIN: f64 = 15.0 / 16.0;

/// The level of zstd for `auto`: its decoder gets no slower, and packing is done once.
pub(super) const AUTO_ZSTD_LEVEL: i32 = 12;

impl Target {
    /// What a block costs the device, and what it costs the cores, in nanoseconds.
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
        let decode = cost.map_or(0.0, |(_, per_block, per_raw_byte, per_stored_byte)| {
            let bytes = per_raw_byte * raw_bytes as f64;
            per_block + bytes + per_stored_byte * stored_bytes as f64
        });
        (device, decode / f64::from(self.cores))
    }
}

/// What a load takes whose parts cost the device and the cores so much, see the module.
fn together(device: f64, decode: f64) -> f64 {
    let sum = device.powi(4) + decode.powi(4);
    sum.sqrt().sqrt()
}

/// What blocks cost on a target, see the module.
pub(super) struct CostModel {
    target: Target,
    device_share: f64,
}

impl CostModel {
    pub(super) fn new(target: Target) -> CostModel {
        let mut model = CostModel {
            target,
            device_share: 1.0,
        };
        let mut least = f64::INFINITY;
        // The sums of the best shares, and the least and the greatest of these.
        let (mut sums, mut alike) = ((1.0, 1.0), (1.0, 1.0));
        for step in (1..SHARE_STEPS).rev() {
            let share = f64::from(step) / f64::from(SHARE_STEPS);
            model.device_share = share;
            let (device, decode) = model.sums_of_kinds();
            let time = together(device, decode);
            if time < least {
                (least, sums, alike) = (time, (device, decode), (share, share));
            } else if time <= least {
                alike.0 = share;
            }
        }
        let (device, decode) = (sums.0.powi(3), sums.1.powi(3));
        model.device_share = (device / (device + decode)).clamp(alike.0, alike.1);
        model
    }

    /// What the table of kinds costs the device and the cores with the present share.
    fn sums_of_kinds(&self) -> (f64, f64) {
        let (mut device, mut decode) = (0.0, 0.0);
        for left in KINDS {
            let mut candidates = [(CodecId::STORED, KIND_BYTES); 1 + CANDIDATES.len()];
            for ((candidate, codec), left) in candidates[1..].iter_mut().zip(CANDIDATES).zip(left) {
                *candidate = (codec, (left * KIND_BYTES as f64) as usize);
            }
            let (codec, bytes) = candidates[self.choose(KIND_BYTES, &candidates)];
            let cost = self.target.cost(codec, KIND_BYTES, bytes);
            device += cost.0;
            decode += cost.1;
        }
        (device, decode)
    }

    /// What a block adds to the time of loading the whole, by this model.
    pub(super) fn price(&self, codec: CodecId, raw_bytes: usize, stored_bytes: usize) -> f64 {
        let (device, decode) = self.target.cost(codec, raw_bytes, stored_bytes);
        self.device_share * device + (1.0 - self.device_share) * decode
    }

    /// Which of a block's candidates is taken, each a codec with its stored bytes; the first is the
    /// stored block.
    pub(super) fn choose(&self, raw_bytes: usize, candidates: &[(CodecId, usize)]) -> usize {
        let (stored_ns, _) = self.target.cost(CodecId::STORED, raw_bytes, raw_bytes);
        let mut least = f64::INFINITY;
        let mut chosen = 0;
        for (nth, &(codec, stored_bytes)) in candidates.iter().enumerate() {
            let (device, decode) = self.target.cost(codec, raw_bytes, stored_bytes);
            let cost = self.price(codec, raw_bytes, stored_bytes);
            if cost < least && device.max(decode) <= stored_ns {
                least = cost;
                chosen = nth;
            }
        }
        chosen
    }

    /// Whether a block that a GPU decodes, at `rate` × 10^6 raw bytes a second, loads faster as so
    /// many bytes of GDeflate than stored. The device reads other blocks meanwhile, so the slower
    /// of both counts.
    pub(super) fn gains_on_gpu(&self, rate: f64, raw_bytes: usize, gdeflate_bytes: usize) -> bool {
        let (stored, _) = self.target.cost(CodecId::STORED, raw_bytes, raw_bytes);
        let (read, _) = self
            .target
            .cost(CodecId::GDEFLATE, raw_bytes, gdeflate_bytes);
        let decode = raw_bytes as f64 * 1000.0 / rate;
        read.max(decode) < stored
    }

    /// Whether GDeflate could be taken for a block, by what others made of it. It encodes at a
    /// third of zlib's rate, so that to try it on every block would make packing take half as long
    /// again; and it shrinks what zlib shrinks.
    pub(super) fn may_take_gdeflate(&self, raw_bytes: usize, others: &[(CodecId, usize)]) -> bool {
        let zlib = others.iter().find(|(codec, _)| *codec == CodecId::ZLIB);
        let Some(&(_, zlib_bytes)) = zlib.filter(|(_, bytes)| shrinks(raw_bytes, *bytes)) else {
            return false;
        };
        let hoped = (zlib_bytes as f64 * GDEFLATE_OF_ZLIB_MIN) as usize;
        let mut sizes = vec![(CodecId::STORED, raw_bytes)];
        sizes.extend_from_slice(others);
        sizes.push((CodecId::GDEFLATE, hoped));
        self.choose(raw_bytes, &sizes) == sizes.len() - 1
    }
}

/// Whether so many stored bytes promise enough for a slow encoder to be tried.
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
        // What zstd leaves less of than the others takes less decoding, too.
        let mut text = SIZES;
        text[2].1 = 68_000;
        assert_eq!(taken(550.0, 2, &text), CodecId::ZSTD);
        // A slow device rewards the shorter one, though it is decoded at half the rate.
        let mut longer = SIZES;
        longer[4].1 = 77_000;
        assert_eq!(taken(48.0, 4, &longer), CodecId::ZLIB);
        let quick = taken(3500.0, 2, &SIZES);
        assert!(quick == CodecId::LZ4_BLOCK, "{quick:?}");
        assert_eq!(taken(30_000.0, 1, &SIZES), CodecId::STORED);
    }

    #[test]
    fn gdeflate_is_tried_wherever_it_would_be_taken() {
        for rate in [48.0, 550.0, 1500.0, 3500.0, 14_000.0] {
            for cores in [1, 2, 4, 8] {
                let model = CostModel::new(target(rate, cores));
                for percent in [94, 97, 100, 103] {
                    let mut sizes = SIZES;
                    sizes[4].1 = sizes[3].1 * percent / 100;
                    let is_taken = model.choose(262_144, &sizes) == 4;
                    let is_tried = model.may_take_gdeflate(262_144, &sizes[1..4]);
                    assert!(is_tried || !is_taken, "{rate}, {cores}, {percent} %");
                }
            }
        }
        let model = CostModel::new(target(48.0, 4));
        assert!(!model.may_take_gdeflate(262_144, &[(CodecId::LZ4_BLOCK, 125_000)]));
        assert!(!model.may_take_gdeflate(262_144, &[(CodecId::ZLIB, 260_000)]));
        let fast = CostModel::new(target(14_000.0, 1));
        assert!(!fast.may_take_gdeflate(262_144, &[(CodecId::ZLIB, 75_000)]));
    }

    #[test]
    fn a_gpu_decodes_what_shrinks_unless_the_disk_is_faster() {
        let gains =
            |disk, gpu, bytes| CostModel::new(target(disk, 4)).gains_on_gpu(gpu, 262_144, bytes);
        assert!(gains(3500.0, 25_000.0, 131_072));
        assert!(gains(3500.0, 25_000.0, 250_000));
        // No page of the disk less.
        assert!(!gains(3500.0, 25_000.0, 262_143));
        assert!(!gains(14_000.0, 10_000.0, 131_072));
    }

    #[test]
    fn what_hardly_shrinks_is_stored() {
        let sizes = [(CodecId::STORED, 262_144), (CodecId::ZSTD, 262_000)];
        assert_eq!(taken(3500.0, 4, &sizes), CodecId::STORED);
    }

    /// What the table of kinds takes if all of it is stored, or encoded where that shrinks it.
    fn fixed(model: &CostModel, nth: Option<usize>) -> f64 {
        let (mut device, mut decode) = (0.0, 0.0);
        for left in KINDS {
            let (codec, left) = match nth {
                Some(nth) if left[nth] < 1.0 => (CANDIDATES[nth], left[nth]),
                _ => (CodecId::STORED, 1.0),
            };
            let bytes = (left * KIND_BYTES as f64) as usize;
            let cost = model.target.cost(codec, KIND_BYTES, bytes);
            device += cost.0;
            decode += cost.1;
        }
        together(device, decode)
    }

    #[test]
    fn no_single_codec_loads_the_table_of_kinds_faster() {
        let targets = [(48.0, 1), (48.0, 8), (550.0, 1), (550.0, 2), (550.0, 8)];
        let quick = [
            (1500.0, 4),
            (3500.0, 2),
            (3500.0, 4),
            (3500.0, 8),
            (7000.0, 8),
        ];
        for (rate, cores) in targets.into_iter().chain(quick) {
            let model = CostModel::new(target(rate, cores));
            let (device, decode) = model.sums_of_kinds();
            let ours = together(device, decode);
            for nth in [None, Some(0), Some(1), Some(2), Some(3)] {
                let other = fixed(&model, nth);
                assert!(
                    ours <= other * 1.001,
                    "{rate}, {cores}: {ours} over {other}"
                );
            }
        }
    }

    #[test]
    fn nothing_loads_slower_than_stored() {
        for rate in [48.0, 550.0, 3500.0, 7000.0, 14_000.0] {
            for cores in [1, 2, 4, 8] {
                let model = CostModel::new(target(rate, cores));
                for raw_bytes in [500, 5000, 65_536, 262_144] {
                    let sizes = SIZES.map(|(codec, bytes)| (codec, bytes * raw_bytes / 262_144));
                    let (codec, bytes) = sizes[model.choose(raw_bytes, &sizes)];
                    let (device, decode) = model.target.cost(codec, raw_bytes, bytes);
                    let (stored, _) = model.target.cost(CodecId::STORED, raw_bytes, raw_bytes);
                    assert!(device.max(decode) <= stored, "{rate}, {cores}, {raw_bytes}");
                }
            }
        }
    }
}
