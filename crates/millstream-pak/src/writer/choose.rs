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
//! target and its own bytes alone. A candidate that would take longer than the stored block, even
//! alone, is never taken.
//!
//! What decoding costs stands in a table that is part of this file, and not in a clock: the same
//! input gives the same package on any machine. The table's figures are rounded from measurements
//! of the libraries within the engine, staging and checksums among them, on one core of a server
//! (AVX-512, 2.6 GHz). Decoding costs by raw byte (copies), by stored byte (symbols), and by block
//! (hand-over, setting up).

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

/// Decoding costs of a codec, in nanoseconds.
struct Cost {
    codec: CodecId,
    per_block: f64,
    per_raw_byte: f64,
    per_stored_byte: f64,
}

/// See the module.
const COSTS: [Cost; 5] = [
    Cost {
        codec: CodecId::LZ4_BLOCK,
        per_block: 5000.0,
        per_raw_byte: 0.22,
        per_stored_byte: 0.40,
    },
    Cost {
        codec: CodecId::ZSTD,
        per_block: 8000.0,
        per_raw_byte: 0.42,
        per_stored_byte: 1.50,
    },
    Cost {
        codec: CodecId::ZLIB,
        per_block: 8000.0,
        per_raw_byte: 0.62,
        per_stored_byte: 3.30,
    },
    Cost {
        codec: CodecId::DEFLATE,
        per_block: 8000.0,
        per_raw_byte: 0.57,
        per_stored_byte: 3.30,
    },
    Cost {
        codec: CodecId::GDEFLATE,
        per_block: 8000.0,
        per_raw_byte: 0.62,
        per_stored_byte: 2.90,
    },
];

/// Kinds of data, each a fifth of what a package holds, and what share of its bytes is left by LZ4,
/// zstd and zlib: encoded pictures and sounds, vertices, text, tables of numbers, plain pixels.
const KINDS: [[f64; 3]; 5] = [
    [1.0, 1.0, 1.0],
    [1.0, 0.70, 0.62],
    [0.48, 0.30, 0.29],
    [1.0, 0.65, 0.40],
    [0.15, 0.09, 0.11],
];

/// Raw bytes of a block of those.
const KIND_BYTES: usize = 256 << 10;

/// The share of the device has so many steps; neither it nor the cores are ever left out, so that
/// of two candidates that cost the slower side the same, the lighter one is taken.
const SHARE_STEPS: u32 = 64;

/// The codecs that `auto` tries, in this order, which is that of [`KINDS`].
/// zlib shrinks some kinds (tables of numbers) further than zstd, which slow devices reward.
pub(super) const CANDIDATES: [CodecId; 3] = [CodecId::LZ4_BLOCK, CodecId::ZSTD, CodecId::ZLIB];

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
        let cost = COSTS.iter().find(|cost| cost.codec == codec);
        let decode = cost.map_or(0.0, |cost| {
            let bytes = cost.per_raw_byte * raw_bytes as f64;
            cost.per_block + bytes + cost.per_stored_byte * stored_bytes as f64
        });
        (device, decode / f64::from(self.cores))
    }
}

/// What a load takes whose parts cost the device and the cores so much, see the module.
fn together(device: f64, decode: f64) -> f64 {
    let sum = device.powi(4) + decode.powi(4);
    sum.sqrt().sqrt()
}

/// How blocks are judged for a target, see the module.
pub(super) struct Judge {
    target: Target,
    device_share: f64,
}

impl Judge {
    pub(super) fn new(target: Target) -> Judge {
        let mut judge = Judge {
            target,
            device_share: 1.0,
        };
        let mut best = (f64::INFINITY, 1.0);
        for step in (1..SHARE_STEPS).rev() {
            judge.device_share = f64::from(step) / f64::from(SHARE_STEPS);
            let time = judge.time_of_kinds();
            if time < best.0 {
                best = (time, judge.device_share);
            }
        }
        judge.device_share = best.1;
        judge
    }

    /// What the table of kinds takes with the present share.
    fn time_of_kinds(&self) -> f64 {
        let (mut device, mut decode) = (0.0, 0.0);
        for left in KINDS {
            let mut candidates = [(CodecId::STORED, KIND_BYTES); 4];
            for ((candidate, codec), left) in candidates[1..].iter_mut().zip(CANDIDATES).zip(left) {
                *candidate = (codec, (left * KIND_BYTES as f64) as usize);
            }
            let (codec, bytes) = candidates[self.choose(KIND_BYTES, &candidates)];
            let cost = self.target.cost(codec, KIND_BYTES, bytes);
            device += cost.0;
            decode += cost.1;
        }
        together(device, decode)
    }

    /// What a block adds to the time of loading the whole, as this judges it.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [(CodecId, usize); 4] = [
        (CodecId::STORED, 262_144),
        (CodecId::LZ4_BLOCK, 125_000),
        (CodecId::ZSTD, 80_000),
        (CodecId::ZLIB, 75_000),
    ];

    fn target(rate: f64, cores: u32) -> Target {
        Target {
            megabytes_per_second: rate,
            cores,
        }
    }

    fn taken(rate: f64, cores: u32, sizes: &[(CodecId, usize)]) -> CodecId {
        sizes[Judge::new(target(rate, cores)).choose(262_144, sizes)].0
    }

    #[test]
    fn slow_devices_take_the_smallest_and_fast_ones_what_decodes_in_time() {
        assert_eq!(taken(48.0, 4, &SIZES), CodecId::ZLIB);
        assert_eq!(taken(550.0, 2, &SIZES), CodecId::ZSTD);
        assert_eq!(taken(550.0, 8, &SIZES), CodecId::ZLIB);
        let quick = taken(3500.0, 2, &SIZES);
        assert!(quick == CodecId::LZ4_BLOCK, "{quick:?}");
        assert_eq!(taken(30_000.0, 1, &SIZES), CodecId::STORED);
    }

    #[test]
    fn what_hardly_shrinks_is_stored() {
        let sizes = [(CodecId::STORED, 262_144), (CodecId::ZSTD, 262_000)];
        assert_eq!(taken(3500.0, 4, &sizes), CodecId::STORED);
    }

    /// What the table of kinds takes if all of it is stored, or encoded where that shrinks it.
    fn fixed(judge: &Judge, nth: Option<usize>) -> f64 {
        let (mut device, mut decode) = (0.0, 0.0);
        for left in KINDS {
            let (codec, left) = match nth {
                Some(nth) if left[nth] < 1.0 => (CANDIDATES[nth], left[nth]),
                _ => (CodecId::STORED, 1.0),
            };
            let bytes = (left * KIND_BYTES as f64) as usize;
            let cost = judge.target.cost(codec, KIND_BYTES, bytes);
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
            let judge = Judge::new(target(rate, cores));
            let ours = judge.time_of_kinds();
            for nth in [None, Some(0), Some(1), Some(2)] {
                let other = fixed(&judge, nth);
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
                let judge = Judge::new(target(rate, cores));
                for raw_bytes in [500, 5000, 65_536, 262_144] {
                    let sizes = SIZES.map(|(codec, bytes)| (codec, bytes * raw_bytes / 262_144));
                    let (codec, bytes) = sizes[judge.choose(raw_bytes, &sizes)];
                    let (device, decode) = judge.target.cost(codec, raw_bytes, bytes);
                    let (stored, _) = judge.target.cost(CodecId::STORED, raw_bytes, raw_bytes);
                    assert!(device.max(decode) <= stored, "{rate}, {cores}, {raw_bytes}");
                }
            }
        }
    }
}
