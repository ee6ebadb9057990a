//! Which codec makes the package load fastest.
//!
//! The device brings stored bytes while the cores decode those that came before, so what counts is
//! the slower of both *sums*: `max(Σ stored ÷ rate, Σ decoding ÷ cores)`. Block by block, in the
//! order of the file, that candidate is taken which lets the slower of the two grow least. Where the
//! device is behind, the cores have time for the codec that shrinks most; where they are behind,
//! blocks are stored, or encoded with what decodes at once. So a package loads faster than with any
//! one codec. How far one side may be ahead of the other is bounded by what the engine reads ahead.
//! A small share of the sum is added: of two candidates that cost the same time, the one that leaves
//! more of the machine to others is taken.
//!
//! What decoding costs stands in a table that is part of this file, and not in a clock, and blocks
//! are judged in their order, not in that of the threads: the same input gives the same package on
//! any machine. The table's figures are rounded from measurements of the libraries within the
//! engine, staging and checksums among them, on one core of a server (AVX-512, 2.6 GHz). Decoding
//! costs by raw byte (copies), by stored byte (symbols), and by block (hand-over, setting up).

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

/// How far the device may be behind the cores, or they behind it, in nanoseconds: what the engine's
/// staging memory holds, 128 MiB, takes longer on any device there is.
const LEAD_NS_MAX: f64 = 20e6;

/// Share of both times that counts beside the slower one.
const SUM_SHARE: f64 = 1.0 / 64.0;

/// The codecs that `auto` tries, in this order.
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

/// The choice of block after block, see the module.
pub(super) struct Balance {
    target: Target,
    /// What the device needs longer than the cores for the blocks so far; negative if they do.
    lead_ns: f64,
}

impl Balance {
    pub(super) fn new(target: Target) -> Balance {
        Balance {
            target,
            lead_ns: 0.0,
        }
    }

    /// Which of a block's candidates, each a codec with its stored bytes, is taken: the first of
    /// those that cost least.
    pub(super) fn choose(
        &mut self,
        raw_bytes: usize,
        candidates: impl Iterator<Item = (CodecId, usize)>,
    ) -> usize {
        let mut least = f64::INFINITY;
        let mut chosen = (0, self.lead_ns);
        for (nth, (codec, stored_bytes)) in candidates.enumerate() {
            let (device, decode) = self.target.cost(codec, raw_bytes, stored_bytes);
            let slower = (self.lead_ns + device).max(decode);
            let cost = slower + (device + decode) * SUM_SHARE;
            if cost < least {
                least = cost;
                chosen = (nth, self.lead_ns + device - decode);
            }
        }
        self.lead_ns = chosen.1.clamp(-LEAD_NS_MAX, LEAD_NS_MAX);
        chosen.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [(CodecId, usize); 4] = [
        (CodecId::STORED, 262_144),
        (CodecId::LZ4_BLOCK, 150_000),
        (CodecId::ZSTD, 110_000),
        (CodecId::ZLIB, 105_000),
    ];

    /// How often each of the sizes is taken for a thousand such blocks.
    fn taken(rate: f64, cores: u32, sizes: &[(CodecId, usize)]) -> Vec<usize> {
        let mut balance = Balance::new(Target {
            megabytes_per_second: rate,
            cores,
        });
        let mut taken = vec![0; sizes.len()];
        for _ in 0..1000 {
            taken[balance.choose(262_144, sizes.iter().copied())] += 1;
        }
        taken
    }

    #[test]
    fn slow_devices_take_the_smallest_and_fast_ones_what_decodes_in_time() {
        assert_eq!(taken(48.0, 4, &SIZES), [0, 0, 0, 1000]);
        let mixed = taken(3500.0, 2, &SIZES);
        assert!(mixed[1] + mixed[2] > 500 && mixed[3] == 0, "{mixed:?}");
        assert!(taken(30_000.0, 1, &SIZES)[0] > 900);
    }

    #[test]
    fn what_hardly_shrinks_is_stored() {
        let sizes = [(CodecId::STORED, 262_144), (CodecId::ZSTD, 262_000)];
        assert_eq!(taken(3500.0, 4, &sizes), [1000, 0]);
    }

    #[test]
    fn no_single_codec_loads_faster_on_any_device() {
        let mut random = fastrand::Rng::with_seed(41);
        for rate in [48.0, 550.0, 1500.0, 3500.0, 7000.0, 14_000.0] {
            for cores in [1, 2, 8] {
                let target = Target {
                    megabytes_per_second: rate,
                    cores,
                };
                let mut balance = Balance::new(target);
                let mut sums = [(0.0, 0.0); 5];
                for _ in 0..2000 {
                    let shrunk = random.usize(2..=20);
                    let sizes = SIZES.map(|(codec, bytes)| match codec {
                        CodecId::STORED => (codec, bytes),
                        codec => (codec, (bytes * shrunk / 10).min(262_144)),
                    });
                    let chosen = balance.choose(262_144, sizes.iter().copied());
                    let mut add = |nth: usize, (codec, bytes): (CodecId, usize)| {
                        let (device, decode) = target.cost(codec, 262_144, bytes);
                        sums[nth].0 += device;
                        sums[nth].1 += decode;
                    };
                    for (nth, size) in sizes.into_iter().enumerate() {
                        add(nth, size);
                    }
                    add(4, sizes[chosen]);
                }
                let [fixed @ .., ours] =
                    sums.map(|(device, decode): (f64, f64)| device.max(decode));
                let best = fixed.into_iter().fold(f64::INFINITY, f64::min);
                assert!(
                    ours <= best * 1.01,
                    "{rate} MB/s, {cores}: {ours} over {best}"
                );
            }
        }
    }
}
