//! BLAKE3 of an entry whose blocks are hashed separately.
//!
//! BLAKE3 is a tree over chunks of 1 KiB. Blocks are a power of two of such chunks and begin at a
//! multiple of their length, so each is a whole subtree, and several threads can hash the blocks of
//! one entry.

use blake3::hazmat::{HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// Returns the hash of a block within its entry; that of the entry, if it has just this block.
pub(super) fn block(raw: &[u8], offset: u64, alone: bool) -> [u8; 32] {
    if alone {
        return *blake3::hash(raw).as_bytes();
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(offset);
    hasher.update(raw);
    hasher.finalize_non_root()
}

/// Returns the hash of an entry from those of its blocks.
pub(super) fn root(blocks: &[[u8; 32]]) -> [u8; 32] {
    match blocks {
        [] => *blake3::hash(b"").as_bytes(),
        [one] => *one,
        _ => {
            let (left, right) = blocks.split_at(left_count(blocks.len()));
            *merge_subtrees_root(&inner(left), &inner(right), Mode::Hash).as_bytes()
        }
    }
}

fn inner(blocks: &[[u8; 32]]) -> [u8; 32] {
    if let [one] = blocks {
        return *one;
    }
    let (left, right) = blocks.split_at(left_count(blocks.len()));
    merge_subtrees_non_root(&inner(left), &inner(right), Mode::Hash)
}

/// The left part of a tree is the largest power of two that leaves something for the right.
fn left_count(count: usize) -> usize {
    count.next_power_of_two() / 2
}
