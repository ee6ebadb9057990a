//! The committed shaders of `millstream-vulkan` are those compiled from their sources
//! (`MST_BLESS=1` rewrites them). This crate's tests have the compiler, as wgpu depends on it.

use std::path::PathBuf;

use wgpu::naga;
use wgpu::naga::back::spv;
use wgpu::naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use wgpu::naga::valid::{
    Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator,
};

/// Compiles a shader with clamped indices and without writes past buffers, so that whatever its own
/// checks overlook stays in its buffers.
fn compiled(source: &str) -> Vec<u8> {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::SUBGROUP)
        .subgroup_stages(ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all())
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
fn the_committed_shaders_are_those_that_their_sources_make() {
    let vulkan = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../millstream-vulkan");
    let read = |name: &str| std::fs::read_to_string(vulkan.join(name)).expect("read");
    let common = read("shaders/gdeflate.wgsl");
    let subgroup = read("shaders/subgroup.wgsl");
    let emulated = subgroup
        .replace("subgroupBallot", "emulatedBallot")
        .replace("subgroupExclusiveAdd", "emulatedExclusiveAdd")
        .replace("subgroupAdd", "emulatedAdd")
        .replace("subgroup_invocation_id", "local_invocation_index");
    for (name, source) in [
        ("shaders/workgroup", read("shaders/workgroup.wgsl")),
        ("shaders/subgroup", subgroup),
        ("tests/emulated", read("tests/emulated.wgsl") + &emulated),
    ] {
        let made = compiled(&(common.clone() + &source));
        let committed = vulkan.join(name).with_extension("spv");
        if std::env::var_os("MST_BLESS").is_some() {
            std::fs::write(&committed, &made).expect("written");
        }
        assert!(
            made == std::fs::read(committed).expect("it is committed"),
            "{name}: MST_BLESS=1 cargo test -p millstream-wgpu --features wgpu-30,noop shaders::"
        );
    }
}
