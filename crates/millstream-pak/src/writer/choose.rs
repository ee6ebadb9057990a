//! Which codec makes a block load fastest.
//!
//! The device brings stored bytes while the cores decode those that came before, so what counts is
//! the slower of both: `max(stored ÷ rate, decoding ÷ cores)`. A sixteenth of their sum is added:
//! of two codecs that the device hides equally well, the one that leaves more of the machine to
//! others is taken. What decoding costs stands in a table that is part of this file, and not in a
//! clock: the same input gives the same package on any machine.
//!
//! The table's figures are rounded from measurements of the libraries, on one core of a server of
//! 2023 (AVX-512, 2.9 GHz); `bench codecs` shows what they are elsewhere. Decoding costs by raw
//! byte (copies) and by stored byte (symbols). Staging and checksums are not in the table, so that
//! on few cores a quick codec is taken now and then where stored bytes would load faster.

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
        per_block: 2000.0,
        per_raw_byte: 0.20,
        per_stored_byte: 0.25,
    },
    Cost {
        codec: CodecId::ZSTD,
        per_block: 5000.0,
        per_raw_byte: 0.40,
        per_stored_byte: 1.40,
    },
    Cost {
        codec: CodecId::ZLIB,
        per_block: 5000.0,
        per_raw_byte: 0.60,
        per_stored_byte: 3.20,
    },
    Cost {
        codec: CodecId::DEFLATE,
        per_block: 5000.0,
        per_raw_byte: 0.55,
        per_stored_byte: 3.20,
    },
    Cost {
        codec: CodecId::GDEFLATE,
        per_block: 5000.0,
        per_raw_byte: 0.60,
        per_stored_byte: 2.80,
    },
];

/// The codecs that `auto` tries, in this order.
/// zlib shrinks some kinds (tables of numbers) further than zstd, which slow devices reward.
pub(super) const CANDIDATES: [CodecId; 3] = [CodecId::LZ4_BLOCK, CodecId::ZSTD, CodecId::ZLIB];

/// The level of zstd for `auto`: its decoder gets no slower, and packing is done once.
pub(super) const AUTO_ZSTD_LEVEL: i32 = 12;

impl Target {
    /// What loading a block costs, in nanoseconds.
    pub(super) fn load_ns(&self, codec: CodecId, raw_bytes: usize, stored_bytes: usize) -> f64 {
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
        let decode = decode / f64::from(self.cores);
        device.max(decode) + (device + decode) / 16.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(rate: f64, cores: u32, sizes: &[(CodecId, usize)]) -> CodecId {
        let target = Target {
            megabytes_per_second: rate,
            cores,
        };
        let cost = |(codec, stored): &(CodecId, usize)| target.load_ns(*codec, 262_144, *stored);
        let first = sizes.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
        first.expect("not empty").0
    }

    #[test]
    fn slow_devices_take_the_smallest_and_fast_ones_what_decodes_in_time() {
        let sizes = [
            (CodecId::STORED, 262_144),
            (CodecId::LZ4_BLOCK, 190_000),
            (CodecId::ZSTD, 160_000),
        ];
        assert_eq!(best(48.0, 4, &sizes), CodecId::ZSTD);
        assert_eq!(best(550.0, 4, &sizes), CodecId::ZSTD);
        assert_eq!(best(3500.0, 2, &sizes), CodecId::LZ4_BLOCK);
        assert_eq!(best(30_000.0, 2, &sizes), CodecId::STORED);
    }

    #[test]
    fn what_hardly_shrinks_is_stored() {
        let sizes = [(CodecId::STORED, 262_144), (CodecId::ZSTD, 262_000)];
        assert_eq!(best(3500.0, 4, &sizes), CodecId::STORED);
    }
}
