//! A model in the format safetensors (<https://github.com/huggingface/safetensors>): its header's
//! length in 8 bytes, a header of JSON, and the tensors without gaps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::digest;
use crate::corpus::generate;
use crate::error::{Context, Result};
use crate::files::replace;

/// A file, and what is in it.
pub(super) struct Model {
    pub(super) path: PathBuf,
    pub(super) file_bytes: u64,
    /// Where the tensors are in the file.
    pub(super) tensors: Vec<Range<usize>>,
    /// Bytes of the largest.
    pub(super) largest: usize,
    /// The digest of all.
    pub(super) digest: u64,
}

const LAYERS: usize = 10;
const BYTES_PER_NUMBER: usize = 2;
const SEED: u64 = 0x5AFE;

/// The embedding and ten layers of a model in float16, by its width, the width of its inner layers
/// and the words that it knows.
fn shapes((width, inner, words): (usize, usize, usize)) -> BTreeMap<String, Vec<usize>> {
    let layer = [
        ("input_layernorm", vec![width]),
        ("mlp.down_proj", vec![width, inner]),
        ("mlp.gate_proj", vec![inner, width]),
        ("mlp.up_proj", vec![inner, width]),
        ("post_attention_layernorm", vec![width]),
        ("self_attn.k_proj", vec![width, width]),
        ("self_attn.o_proj", vec![width, width]),
        ("self_attn.q_proj", vec![width, width]),
        ("self_attn.v_proj", vec![width, width]),
    ];
    let mut shapes = BTreeMap::new();
    shapes.insert("model.embed_tokens.weight".into(), vec![words, width]);
    for nth in 0..LAYERS {
        for (name, shape) in &layer {
            shapes.insert(format!("model.layers.{nth}.{name}.weight"), shape.clone());
        }
    }
    shapes
}

impl Model {
    /// The model in `folder`, which is written if it is not there.
    pub(super) fn made(folder: &Path, shape: (usize, usize, usize)) -> Result<Model> {
        let (mut header, mut tensors, mut end) = (serde_json::Map::new(), Vec::new(), 0);
        for (name, shape) in shapes(shape) {
            let begin = end;
            end += shape.iter().product::<usize>() * BYTES_PER_NUMBER;
            tensors.push(begin..end);
            let about = json!({ "dtype": "F16", "shape": shape, "data_offsets": [begin, end] });
            header.insert(name, about);
        }
        let mut head = serde_json::to_vec(&header)?;
        head.resize(head.len().next_multiple_of(8), b' ');
        let mut front = (head.len() as u64).to_le_bytes().to_vec();
        front.append(&mut head);
        for range in &mut tensors {
            *range = range.start + front.len()..range.end + front.len();
        }
        let file_bytes = (front.len() + end) as u64;
        let path = folder.join(format!("model-{file_bytes}.safetensors"));
        let has_front = |mut file: File| {
            let mut found = vec![0; front.len()];
            file.read_exact(&mut found).is_ok() && found == front
        };
        let is_whole = std::fs::metadata(&path).is_ok_and(|about| about.len() == file_bytes);
        if !is_whole || !File::open(&path).is_ok_and(has_front) {
            let mut bytes = front.clone();
            bytes.resize(file_bytes as usize, 0);
            generate::fill(SEED, &mut bytes[front.len()..]);
            replace(&path, &bytes)?;
        }
        let digest = digest_of(&path, front.len(), &tensors).on("read", &path)?;
        Ok(Model {
            path,
            file_bytes,
            largest: tensors.iter().map(Range::len).max().unwrap_or(0),
            tensors,
            digest,
        })
    }
}

fn digest_of(path: &Path, front: usize, tensors: &[Range<usize>]) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    let mut tensor = vec![0; front];
    file.read_exact(&mut tensor)?;
    let mut sum = 0u64;
    for range in tensors {
        tensor.resize(range.len(), 0);
        file.read_exact(&mut tensor)?;
        sum = sum.wrapping_add(digest([&tensor[..]]));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: (usize, usize, usize) = (256, 688, 2000);

    #[test]
    fn a_model_is_found_again_and_damage_shows_in_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let first = Model::made(folder.path(), SHAPE).unwrap();
        let mut bytes = std::fs::read(&first.path).unwrap();
        assert_eq!(bytes.len() as u64, first.file_bytes);
        let head = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + head]).unwrap();
        assert_eq!(header.as_object().unwrap().len(), first.tensors.len());
        let embedding = &header["model.embed_tokens.weight"];
        let end = embedding["data_offsets"][1].as_u64().unwrap() as usize;
        assert_eq!((end, first.tensors[0].end), (first.largest, 8 + head + end));
        assert_eq!(first.tensors.last().unwrap().end, bytes.len());
        let again = Model::made(folder.path(), SHAPE).unwrap();
        assert_eq!(again.digest, first.digest);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&first.path, &bytes).unwrap();
        let damaged = Model::made(folder.path(), SHAPE).unwrap();
        assert_ne!(damaged.digest, first.digest);
        std::fs::write(&first.path, &bytes[..middle]).unwrap();
        let made = Model::made(folder.path(), SHAPE).unwrap();
        assert_eq!(made.digest, first.digest);
    }
}
