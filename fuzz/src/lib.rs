//! What the fuzz targets run. `tests/seeds.rs` runs it as an ordinary test, on the inputs in
//! `seeds/`, so that a target that fails at once, or no longer builds, is noticed without a fuzzer.

pub mod archive;
pub mod codec;
pub mod gltf;
pub mod package;
pub mod pnm;
pub mod report;
pub mod tiles;
pub mod weights;
pub mod zips;

/// A fuzz target: what it does with an input.
pub type Target = fn(&[u8]);

/// All of them, by the names of their folders in `seeds/`.
pub const TARGETS: [(&str, Target); 14] = [
    ("archives", zips::read),
    ("codec_decode", codec::decode),
    ("gdeflate_decode", tiles::decode),
    ("gdeflate_roundtrip", tiles::round_trip),
    ("gltf_glb", gltf::glb),
    ("package_lookup", package::look_up),
    ("package_open", package::verify),
    ("package_read", package::read),
    ("pnm_decode", pnm::decode),
    ("report_trace", report::trace),
    ("stream_archive", archive::read),
    ("weights_checksums", weights::checksums),
    ("weights_gguf", weights::gguf),
    ("weights_safetensors", weights::safetensors),
];
