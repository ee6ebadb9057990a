//! Inputs with the same content, of which only the first is stored.
//!
//! To hash everything before it is packed would be to read everything twice. Only inputs of one
//! length can be the same; textures of one size have one length too, so of long inputs samples are
//! compared first (front, middle and end: of textures the end is the small mips, which differ where
//! the pictures do). What still looks the same is hashed as a whole, and the hash decides. Samples
//! can only say that inputs differ, so the result does not depend on them.

use std::collections::HashMap;
use std::hash::Hash;

use xxhash_rust::xxh3::Xxh3;

use super::item::Item;
use super::parallel::in_parallel;
use crate::error::Result;
use crate::limits::{SAME_PIECE_BYTES, SAME_SAMPLE_BYTES, SAME_SAMPLED_BYTES_MIN};

/// An item with the same content, and the hash of it.
pub(super) type Same = (u32, [u8; 32]);

/// For each item an earlier one with the same content, and the hash of it.
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

/// Leaves those whose key another one has too. The key is made of a place in the list and what
/// stands there.
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

/// A hash of parts of an item; the same for all that are too short to be sampled.
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
