//! Inputs with the same content, of which only the first is stored.
//!
//! Hashing every input before it is packed would read everything twice. Only inputs of equal length
//! can be the same, but textures of one size have equal lengths too, so samples of long inputs are
//! compared first (front, middle and end: at the end of a texture are the small mips, which differ
//! where the pictures do). Inputs that still look the same are hashed as a whole, and the hash
//! decides. Samples only show that inputs differ, so the result does not depend on them.

use std::collections::HashMap;
use std::hash::Hash;

use xxhash_rust::xxh3::Xxh3;

use super::item::Item;
use super::parallel::in_parallel;
use crate::error::Result;
use crate::limits::{SAME_PIECE_BYTES, SAME_SAMPLE_BYTES, SAME_SAMPLED_BYTES_MIN};

/// The number of an item with the same content, and the content's hash.
pub(super) type Same = (u32, [u8; 32]);

/// Returns, for each item, the first one with the same content, if that is an earlier one.
pub(super) fn find(items: &[Item], threads: usize) -> Result<Vec<Option<Same>>> {
    let mut suspects: Vec<u32> = (0..items.len() as u32)
        .filter(|&nth| items[nth as usize].len > 0)
        .collect();
    keep_alike(&mut suspects, |_, nth| items[nth as usize].len);
    let samples = in_parallel(suspects.len(), threads, |at| {
        sample(&items[suspects[at] as usize])
    })?;
    let len = |nth: u32| items[nth as usize].len;
    keep_alike(&mut suspects, |at, nth| (len(nth), samples[at]));
    let hashes = in_parallel(suspects.len(), threads, |at| {
        content_hash(&items[suspects[at] as usize])
    })?;
    let mut same = vec![None; items.len()];
    let mut first: HashMap<[u8; 32], u32> = HashMap::new();
    for (&nth, hash) in suspects.iter().zip(hashes) {
        match first.get(&hash) {
            Some(&original) => same[nth as usize] = Some((original, hash)),
            None => {
                first.insert(hash, nth);
            }
        }
    }
    Ok(same)
}

/// Keeps those whose key another one has too. The key is made from a place in the list, and the
/// item number there.
fn keep_alike<K: Hash + Eq>(suspects: &mut Vec<u32>, key: impl Fn(usize, u32) -> K) {
    let mut counts: HashMap<K, u32> = HashMap::new();
    for (at, &nth) in suspects.iter().enumerate() {
        *counts.entry(key(at, nth)).or_default() += 1;
    }
    let mut at = 0;
    suspects.retain(|&nth| {
        let alike = counts.get(&key(at, nth)).is_some_and(|&count| count > 1);
        at += 1;
        alike
    });
}

/// Returns a hash of parts of an item; the same one for all that are too short to be sampled.
fn sample(item: &Item) -> Result<u64> {
    if item.len < SAME_SAMPLED_BYTES_MIN {
        return Ok(0);
    }
    let mut bytes = Vec::new();
    let mut hasher = Xxh3::new();
    let last = item.len - SAME_SAMPLE_BYTES as u64;
    for offset in [0, last / 2, last] {
        bytes.clear();
        item.read(offset, SAME_SAMPLE_BYTES, &mut bytes)?;
        hasher.update(&bytes);
    }
    Ok(hasher.digest())
}

fn content_hash(item: &Item) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < item.len {
        let len = (item.len - at).min(SAME_PIECE_BYTES);
        bytes.clear();
        item.read(at, len as usize, &mut bytes)?;
        hasher.update(&bytes);
        at += len;
    }
    Ok(*hasher.finalize().as_bytes())
}
