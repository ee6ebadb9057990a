//! The tests of both formats, of plans and of models.

mod checksums;
mod files;
mod gguf;
mod models;
mod plans;
mod safetensors;
#[cfg(target_os = "linux")]
mod shared;

millstream_testing::watch!();
