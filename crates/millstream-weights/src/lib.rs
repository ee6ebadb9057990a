//! Model weights: safetensors and GGUF files, as named tensors that Millstream reads.

pub mod experts;

pub use experts::{Expert, ExpertCache, ExpertPart, ExpertStats};

#[cfg(test)]
millstream_testing::watch!();
