//! Tests that the shader for subgroups decodes. (`millstream-wgpu`, whose tests have the compiler
//! of shaders, tests that the committed ones are compiled from their sources.)

use std::borrow::Cow;
use std::sync::Arc;

use millstream::ErrorKind;

use super::{Decoder, Shader};
use crate::check::refusal;
use crate::context::Context;

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

#[test]
fn the_shader_for_subgroups_decodes_where_a_subgroup_is_emulated() {
    let Some(context) = context() else { return };
    let shader = Shader {
        words: Cow::Borrowed(include_bytes!("../../tests/emulated.spv")),
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
