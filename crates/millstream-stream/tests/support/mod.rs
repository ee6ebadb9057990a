//! A scene that the tests of formats build.

use millstream_stream::blob::{Array, Maybe, Plain, Ref, Stored, Text};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Plain data of zerocopy.
#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Pose {
    pub(crate) place: [f32; 3],
    pub(crate) turn: f32,
}

millstream_stream::stored_enum! {
    /// What a node is.
    pub(crate) enum Kind: u16 { Group = 0, Mesh = 7, Light = 9 }
}

millstream_stream::record! {
    /// A node of a scene.
    pub(crate) struct Node from NodeSource {
        pub id: u64 = u64,
        pub name: Text = String,
        pub pose: Plain<Pose> = Pose,
        pub kind: Stored<Kind> = Kind,
        pub visible: bool = bool,
        pub weights: Array<f32> = Vec<f32>,
        pub tags: Array<Text> = Vec<String>,
        pub children: Array<Node> = Vec<NodeSource>,
        pub twin: Maybe<Node> = Option<Box<NodeSource>>,
    }
}

millstream_stream::record! {
    /// A scene.
    pub(crate) struct Scene from SceneSource {
        pub version: u32 = u32,
        pub root: Ref<Node> = Box<NodeSource>,
        pub bounds: [f64; 6] = [f64; 6],
    }
}

/// A node with `depth` levels below it.
pub(crate) fn node(id: u64, depth: u32) -> NodeSource {
    NodeSource {
        id,
        name: format!("node \u{e9}{id}"),
        pose: Pose {
            place: [id as f32, 0.5, -1.0],
            turn: 0.25,
        },
        kind: [Kind::Group, Kind::Mesh, Kind::Light][id as usize % 3],
        visible: id.is_multiple_of(2),
        weights: (0..id % 5).map(|index| index as f32).collect(),
        tags: (0..id % 3).map(|index| format!("tag {index}")).collect(),
        children: if depth == 0 {
            Vec::new()
        } else {
            (0..2)
                .map(|index| node(id * 2 + index, depth - 1))
                .collect()
        },
        twin: (id % 4 == 3).then(|| Box::new(node(id + 101, 0))),
    }
}

pub(crate) fn scene(depth: u32) -> SceneSource {
    SceneSource {
        version: 3,
        root: Box::new(node(1, depth)),
        bounds: [-1.0, -2.0, -3.0, 1.0, 2.0, 3.0],
    }
}

/// Whether what lies in a blob is what it was built from.
pub(crate) fn assert_same(stored: &Node, source: &NodeSource) {
    assert_eq!(stored.id, source.id);
    assert_eq!(stored.name.as_str(), source.name);
    assert_eq!(*stored.pose, source.pose);
    assert_eq!(stored.kind.get(), source.kind);
    assert_eq!(stored.visible, source.visible);
    assert_eq!(stored.weights.as_slice(), source.weights);
    assert_eq!(stored.tags.len(), source.tags.len());
    for (stored, source) in stored.tags.iter().zip(&source.tags) {
        assert_eq!(stored.as_str(), source);
    }
    assert_eq!(stored.children.len(), source.children.len());
    for (stored, source) in stored.children.iter().zip(&source.children) {
        assert_same(stored, source);
    }
    assert_eq!(stored.twin.get().is_some(), source.twin.is_some());
    if let (Some(stored), Some(source)) = (stored.twin.get(), &source.twin) {
        assert_same(stored, source);
    }
}

/// Looks at every byte that a node leads to.
pub(crate) fn walk(node: &Node) -> u64 {
    let mut sum = node.id.wrapping_add(u64::from(node.visible));
    sum = sum.wrapping_add(node.kind.get() as u64);
    sum = sum.wrapping_add(node.name.chars().map(|c| u64::from(u32::from(c))).sum());
    sum = sum.wrapping_add(
        node.weights
            .iter()
            .map(|weight| u64::from(weight.to_bits()))
            .sum(),
    );
    for tag in node.tags.iter() {
        sum = sum.wrapping_add(tag.len() as u64);
    }
    for child in node.children.iter() {
        sum = sum.wrapping_add(walk(child));
    }
    sum.wrapping_add(node.twin.get().map_or(0, walk))
}
