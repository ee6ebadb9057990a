//! The fuzz target `gltf_glb`: `millstream_fuzz::gltf::glb`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::gltf::glb(data));
