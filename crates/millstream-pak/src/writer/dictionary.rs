//! The dictionary of shared blocks: trained on some of them, and tested on others.
//!
//! The first KiB of a 64 KiB block of short texts repeat what earlier blocks contain. A dictionary
//! of 64 KiB, trained on a hundred such blocks, reduces zstd's bytes to 83 % for 10^5 records of
//! JSON and to 79 % for the XML of a game, and saves nothing for pictures and sounds. It costs its
//! own bytes, and it makes patches longer, since every shared block depends on it. So `auto` takes
//! one only if it shortens the loading of the whole package by a twentieth, and does not try where
//! most of a package is long entries.
//!
//! Which blocks are sampled follows from their numbers, and libzstd's training is a function of the
//! samples alone: the same input gives the same dictionary on any machine.

use millstream::CodecId;
use millstream_codec::{DictionaryEncoder, Scratch, train_dictionary};

use super::choose::AUTO_ZSTD_LEVEL;
use super::encoder::{Encoder, FreeBuffers, cost_model};
use super::parallel::{in_parallel, thread_count};
use super::plan::{BlockKind, Made, Plan, shared_units};
use super::{Coding, Dictionaries, PackOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{DICTIONARY_BYTES_MAX, DICTIONARY_RAW_BYTES_MIN, DICTIONARY_UNITS_MAX};

/// One in this many of the sampled blocks tests the dictionary that the others train.
const TEST_EVERY: usize = 4;

/// Minimum bytes of samples for a byte of the dictionary; fewer make a shorter dictionary.
const SAMPLES_PER_BYTE: usize = 32;

/// Minimum bytes of a dictionary that is worth a section.
const DICTIONARY_BYTES_MIN: usize = 1 << 10;

/// `auto` takes a dictionary if it shortens the loading of the package by this fraction ...
const GAIN_MIN: f64 = 1.0 / 20.0;

/// ... which it cannot if shared blocks are less than this fraction of the raw bytes, since it
/// saves less than a quarter of their bytes.
const SHARED_SHARE_MIN: f64 = 4.0 * GAIN_MIN;

/// Time that a reader takes, once, to make a dictionary ready, in nanoseconds.
const READY_NS: f64 = 60_000.0;

/// Returns the dictionary that the options ask for, if it can be made and, for `auto`, is worth it.
pub(super) fn make(plan: &Plan, options: &PackOptions<'_>) -> Result<Option<Made>> {
    let auto = match (options.coding, options.dictionaries) {
        (_, Dictionaries::Never) => return Ok(None),
        (Coding::Auto(_), Dictionaries::Auto) => true,
        (Coding::Auto(_) | Coding::Fixed(CodecId::ZSTD), Dictionaries::Made) => false,
        (Coding::Auto(_) | Coding::Fixed(CodecId::ZSTD), Dictionaries::Given(bytes)) => {
            return ready(bytes.to_vec(), options).map(Some);
        }
        (Coding::Fixed(_), _) => return Ok(None),
    };
    if millstream_codec::block_level_range(CodecId::ZSTD).is_empty() {
        return Ok(None);
    }
    let (units, shared_bytes) = shared_units(plan);
    let share = shared_bytes as f64 / plan.raw_bytes.max(1) as f64;
    if auto && (shared_bytes < DICTIONARY_RAW_BYTES_MIN || share < SHARED_SHARE_MIN) {
        return Ok(None);
    }
    let looked_at = units.len().min(DICTIONARY_UNITS_MAX);
    let picked: Vec<&[u32]> = (0..looked_at)
        .map(|nth| units[nth * units.len() / looked_at])
        .collect();
    let is_test = |nth: usize| auto && nth % TEST_EVERY == TEST_EVERY - 1;
    let training: Vec<&[u32]> = chosen(&picked, |nth| !is_test(nth));
    let Some(made) = train(plan, &training, options)? else {
        return Ok(None);
    };
    if !auto {
        return Ok(Some(made));
    }
    let test = chosen(&picked, is_test);
    let prices = in_parallel(test.len(), thread_count(options), |nth| {
        prices(plan, test[nth], options, &made.encoder)
    })?;
    let sum = |part: fn(&Prices) -> f64| prices.iter().map(part).sum::<f64>();
    let scale = shared_bytes as f64 / sum(|it| it.raw_bytes).max(1.0);
    let (with, without) = (sum(|it| it.with) * scale, sum(|it| it.without) * scale);
    let model = cost_model(options);
    let stored = |bytes: u64| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        model.price(CodecId::STORED, bytes, bytes)
    };
    let rest = stored(plan.raw_bytes - shared_bytes);
    let gain = without - with - stored(made.bytes.len() as u64) - READY_NS;
    Ok((gain >= GAIN_MIN * (without + rest)).then_some(made))
}

fn chosen<'a>(picked: &[&'a [u32]], is_wanted: impl Fn(usize) -> bool) -> Vec<&'a [u32]> {
    let wanted = picked.iter().enumerate().filter(|(nth, _)| is_wanted(*nth));
    wanted.map(|(_, unit)| *unit).collect()
}

fn level(options: &PackOptions<'_>) -> i32 {
    let default = match options.coding {
        Coding::Auto(_) => AUTO_ZSTD_LEVEL,
        Coding::Fixed(codec) => millstream_codec::default_level(codec),
    };
    let levels = millstream_codec::block_level_range(CodecId::ZSTD);
    options
        .level
        .unwrap_or(default)
        .clamp(*levels.start(), *levels.end())
}

pub(super) fn ready(bytes: Vec<u8>, options: &PackOptions<'_>) -> Result<Made> {
    if bytes.len() > DICTIONARY_BYTES_MAX {
        let cause = "a dictionary of a package has at most 65,534 bytes";
        return Err(Error::new(ErrorKind::InvalidArgument, cause));
    }
    let encoder = DictionaryEncoder::new(&bytes, level(options)).map_err(|error| {
        let cause = format!("the dictionary cannot be used: {}", error.cause);
        Error::new(ErrorKind::InvalidArgument, cause)
    })?;
    Ok(Made { bytes, encoder })
}

/// Trains a dictionary on those of these blocks that shrink: nothing can be learned from noise.
fn train(plan: &Plan, units: &[&[u32]], options: &PackOptions<'_>) -> Result<Option<Made>> {
    let read = in_parallel(units.len(), thread_count(options), |nth| {
        let mut raw = Vec::new();
        let lens = plan.read_shared(units[nth], &mut raw)?;
        let mut quick = Vec::new();
        let mut scratch = Scratch::default();
        let encoded =
            millstream_codec::encode_block(CodecId::ZSTD, 1, &mut scratch, &raw, &mut quick);
        let shrinks = encoded.is_ok() && quick.len() < raw.len() - raw.len() / 4;
        Ok::<_, Error>(shrinks.then_some((raw, lens)))
    })?;
    let (mut samples, mut lens) = (Vec::new(), Vec::new());
    for (raw, each) in read.into_iter().flatten() {
        samples.extend(raw);
        lens.extend(each);
    }
    let bytes_max = DICTIONARY_BYTES_MAX.min(samples.len() / SAMPLES_PER_BYTE);
    if bytes_max < DICTIONARY_BYTES_MIN {
        return Ok(None);
    }
    match train_dictionary(&samples, &lens, bytes_max) {
        Ok(bytes) => ready(bytes, options).map(Some),
        // Too few samples, or nothing in common.
        Err(_) => Ok(None),
    }
}

/// What a block adds to the time of loading, with and without the dictionary.
struct Prices {
    raw_bytes: f64,
    with: f64,
    without: f64,
}

fn prices(
    plan: &Plan,
    unit: &[u32],
    options: &PackOptions<'_>,
    encoder: &DictionaryEncoder,
) -> Result<Prices> {
    let mut raw = Vec::new();
    plan.read_shared(unit, &mut raw)?;
    let free = FreeBuffers::default();
    let price = |with| {
        let mut encoder = Encoder::new(options, with, &free);
        let (codec, stored_bytes) = match encoder.shrink(&raw, BlockKind::Shared)? {
            Some((codec, stored)) => (codec, stored.len()),
            None => (CodecId::STORED, raw.len()),
        };
        Ok::<_, Error>(encoder.model.price(codec, raw.len(), stored_bytes))
    };
    Ok(Prices {
        raw_bytes: raw.len() as f64,
        with: price(Some(encoder))?,
        without: price(None)?,
    })
}
