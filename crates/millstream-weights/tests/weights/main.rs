//! The tests of both formats, of plans and of models.

mod checksums;
mod files;
mod gguf;
mod models;
mod plans;
mod safetensors;

millstream_testing::watch!();
