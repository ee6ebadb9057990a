//! Model weights: safetensors and GGUF files, as named tensors that Millstream reads.
