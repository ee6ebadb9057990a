//! The committed shader is the one that its source makes. `MST_BLESS=1` makes it anew.

use std::path::PathBuf;

use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Indices are clamped, and what reaches past a buffer is not written: whatever the shader's own
/// checks overlook stays in its buffers.
fn compiled(source: &str) -> Vec<u8> {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let options = spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Restrict,
            buffer: BoundsCheckPolicy::ReadZeroSkipWrite,
            image_load: BoundsCheckPolicy::ReadZeroSkipWrite,
            binding_array: BoundsCheckPolicy::Unchecked,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        ..spv::Options::default()
    };
    let words = spv::write_vec(&module, &info, &options, None).expect("written");
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn the_committed_shader_is_the_one_that_its_source_makes() {
    let shaders = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let source = std::fs::read_to_string(shaders.join("gdeflate.wgsl")).expect("read");
    let (made, committed) = (compiled(&source), shaders.join("gdeflate.spv"));
    if std::env::var_os("MST_BLESS").is_some() {
        std::fs::write(&committed, &made).expect("written");
    }
    let committed = std::fs::read(committed).expect("it is committed");
    assert!(
        made == committed,
        "MST_BLESS=1 cargo test -p millstream-vulkan --test shader"
    );
}
