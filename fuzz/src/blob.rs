//! A blob of hostile bytes: refused, or every reference leads to bytes of the blob.

use millstream_stream::blob::{self, AlignedBytes, Array, HEADER_BYTES, Maybe, Ref, Stored, Text};

millstream_stream::stored_enum! {
    /// A value.
    pub enum Kind: u8 { A = 0, B = 1, C = 200 }
}
millstream_stream::record! {
    /// A node with everything that can be in one.
    pub struct Node from NodeSource {
        pub id: u64 = u64,
        pub name: Text = String,
        pub kind: Stored<Kind> = Kind,
        pub visible: bool = bool,
        pub weights: Array<f32> = Vec<f32>,
        pub tags: Array<Text> = Vec<String>,
        pub children: Array<Node> = Vec<NodeSource>,
        pub twin: Maybe<Node> = Option<Box<NodeSource>>,
        pub leaf: Ref<u32> = Box<u32>,
    }
}

fn walk(node: &Node) -> u64 {
    let mut sum =
        node.id ^ u64::from(*node.leaf) ^ u64::from(node.visible) ^ node.kind.get() as u64;
    sum ^= node.name.bytes().map(u64::from).sum::<u64>();
    sum ^= node
        .weights
        .iter()
        .map(|weight| u64::from(weight.to_bits()))
        .sum::<u64>();
    sum ^= node
        .tags
        .iter()
        .map(|tag| tag.chars().count() as u64)
        .sum::<u64>();
    sum ^= node.children.iter().map(walk).fold(0, u64::wrapping_add);
    sum ^ node.twin.get().map_or(0, walk)
}

/// A blob, viewed.
pub fn view(data: &[u8]) {
    // The header is made right, so that what follows is what is tried; half of the time.
    let mut bytes = AlignedBytes::from_slice(data);
    let fixes = data.last().is_some_and(|last| last % 2 == 0);
    if fixes && data.len() >= HEADER_BYTES {
        let header = bytes.as_mut_slice();
        header[..4].copy_from_slice(&blob::MAGIC);
        header[4..8].copy_from_slice(&u32::from(blob::VERSION).to_le_bytes());
        header[8..16].copy_from_slice(&blob::schema_hash::<Node>().to_le_bytes());
        header[16..24].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[24..32].copy_from_slice(&(HEADER_BYTES as u64).to_le_bytes());
    }
    if let Ok(node) = blob::view::<Node>(&bytes) {
        std::hint::black_box(walk(node));
    }
}
