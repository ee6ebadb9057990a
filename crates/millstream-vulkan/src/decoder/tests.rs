//! Tests that the committed shaders are those compiled from their sources (`MST_BLESS=1` rewrites
//! them), and that the one for subgroups decodes.

use std::path::PathBuf;
use std::sync::Arc;

use millstream::ErrorKind;
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};

use super::{Decoder, Shader};
use crate::check::refusal;
use crate::context::Context;

fn source(name: &str) -> String {
    let shaders = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("shaders");
    std::fs::read_to_string(shaders.join(name)).expect("read")
}

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
    let shaders = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("shaders");
    for name in ["workgroup", "subgroup"] {
        let made = compiled(&(source("gdeflate.wgsl") + &source(&format!("{name}.wgsl"))));
        let committed = shaders.join(name).with_extension("spv");
        if std::env::var_os("MST_BLESS").is_some() {
            std::fs::write(&committed, &made).expect("written");
        }
        let committed = std::fs::read(committed).expect("it is committed");
        assert!(
            made == committed,
            "{name}: MST_BLESS=1 cargo test -p millstream-vulkan --lib"
        );
    }
}

fn context() -> Option<Arc<Context>> {
    match Context::create(None, true) {
        Ok(context) => Some(Arc::new(context)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIP: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Operations of a subgroup of 32, emulated in workgroup memory.
const EMULATED: &str = "
var<workgroup> said: array<u32, 32>;
fn all_said(mine: u32) {
  workgroupBarrier();
  said[lane] = mine;
  workgroupBarrier();
}
fn emulatedBallot(mine: bool) -> vec4<u32> {
  all_said(select(0u, 1u, mine));
  var mask = 0u;
  for (var i = 0u; i < 32u; i++) { mask |= said[i] << i; }
  return vec4(mask, 0u, 0u, 0u);
}
fn emulatedExclusiveAdd(mine: u32) -> u32 {
  all_said(mine);
  var sum = 0u;
  for (var i = 0u; i < lane; i++) { sum += said[i]; }
  return sum;
}
fn emulatedAdd(mine: u32) -> u32 {
  all_said(mine);
  var sum = 0u;
  for (var i = 0u; i < 32u; i++) { sum += said[i]; }
  return sum;
}
";

#[test]
fn the_shader_for_subgroups_decodes_where_a_subgroup_is_emulated() {
    let Some(context) = context() else { return };
    let subgroup = source("subgroup.wgsl")
        .replace("subgroupBallot", "emulatedBallot")
        .replace("subgroupExclusiveAdd", "emulatedExclusiveAdd")
        .replace("subgroupAdd", "emulatedAdd")
        .replace("subgroup_invocation_id", "local_invocation_index");
    let shader = Shader {
        words: compiled(&(source("gdeflate.wgsl") + EMULATED + &subgroup)).into(),
        subgroup_size: None,
    };
    let decoder = Arc::new(Decoder::new(&context, &shader).expect("compiled"));
    assert_eq!(refusal(&context, &decoder).expect("it runs"), None);
    assert_eq!(context.messages(), 0);
}

#[test]
fn the_known_answer_test_refuses_subgroups_of_another_size() {
    let Some(context) = context() else { return };
    if context.features.subgroups_of_32 {
        eprintln!("SKIP: the device has subgroups of 32");
        return;
    }
    let shader = Shader {
        subgroup_size: None,
        ..Shader::SUBGROUP
    };
    let decoder = Arc::new(Decoder::new(&context, &shader).expect("compiled"));
    let reason = refusal(&context, &decoder)
        .expect("it runs")
        .expect("refused");
    assert!(reason.contains("known-answer"), "{reason}");
}
