//! KTX2 and DDS files of given levels, written by their specifications.

use millstream_gltf::image::Format;

/// A format, with its numbers in Vulkan and in DXGI, and its four characters for old headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) format: Format,
    vulkan: u32,
    dxgi: u32,
    characters: Option<&'static [u8; 4]>,
    /// Side and bytes of a block.
    block: (u32, u32),
}

const fn known(
    format: Format,
    vulkan: u32,
    dxgi: u32,
    characters: Option<&'static [u8; 4]>,
    block: (u32, u32),
) -> Known {
    Known {
        format,
        vulkan,
        dxgi,
        characters,
        block,
    }
}

pub(crate) const FORMATS: [Known; 8] = [
    known(Format::Rgba8, 37, 28, None, (1, 4)),
    known(Format::Bc1, 133, 71, Some(b"DXT1"), (4, 8)),
    known(Format::Bc2, 135, 74, Some(b"DXT3"), (4, 16)),
    known(Format::Bc3, 137, 77, Some(b"DXT5"), (4, 16)),
    known(Format::Bc4, 139, 80, Some(b"ATI1"), (4, 8)),
    known(Format::Bc5, 141, 83, Some(b"ATI2"), (4, 16)),
    known(Format::Bc6h, 143, 95, None, (4, 16)),
    known(Format::Bc7, 145, 98, None, (4, 16)),
];

/// A KTX2 of these levels; `packed` 1: each in zstd, 2: in zlib.
pub(crate) fn ktx2(
    known: &Known,
    width: u32,
    height: u32,
    levels: &[Vec<u8>],
    packed: u8,
) -> Vec<u8> {
    let stored: Vec<Vec<u8>> = levels.iter().map(|level| pack(level, packed)).collect();
    let mut bytes = Vec::from(*b"\xabKTX 20\xbb\r\n\x1a\n");
    let word = |bytes: &mut Vec<u8>, value: u32| bytes.extend(value.to_le_bytes());
    let scheme = [0, 2, 3][usize::from(packed)];
    let count = levels.len() as u32;
    for value in [known.vulkan, 1, width, height, 0, 0, 1, count, scheme] {
        word(&mut bytes, value);
    }
    // The descriptor: its length and one basic block without samples. No keys, no global data.
    let descriptor_at = 80 + 24 * count;
    let descriptor_bytes = 28;
    for value in [descriptor_at, descriptor_bytes, 0, 0, 0, 0, 0, 0] {
        word(&mut bytes, value);
    }
    // Levels lie with the smallest first.
    let mut at = u64::from(descriptor_at + descriptor_bytes).next_multiple_of(16);
    let first = at;
    let mut places = vec![0; levels.len()];
    for (index, level) in stored.iter().enumerate().rev() {
        places[index] = at;
        at = (at + level.len() as u64).next_multiple_of(16);
    }
    for (index, level) in stored.iter().enumerate() {
        for value in [
            places[index],
            level.len() as u64,
            levels[index].len() as u64,
        ] {
            bytes.extend(value.to_le_bytes());
        }
    }
    word(&mut bytes, descriptor_bytes);
    word(&mut bytes, 0);
    word(&mut bytes, 2 | 24 << 16);
    word(&mut bytes, 1 | 1 << 8 | 1 << 16);
    let side = known.block.0 - 1;
    word(&mut bytes, side | side << 8);
    word(&mut bytes, known.block.1);
    word(&mut bytes, 0);
    bytes.resize(usize::try_from(first).expect("small"), 0);
    for level in stored.iter().rev() {
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        bytes.extend(level);
    }
    bytes
}

fn pack(level: &[u8], packed: u8) -> Vec<u8> {
    use millstream_codec::CodecId;
    let codec = match packed {
        0 => return level.to_vec(),
        1 => CodecId::ZSTD,
        _ => CodecId::ZLIB,
    };
    let mut scratch = millstream_codec::Scratch::default();
    let mut out = Vec::new();
    millstream_codec::encode_block(codec, 3, &mut scratch, level, &mut out).expect("encoded");
    out
}

/// A DDS of these levels, with the old header where that knows the format.
pub(crate) fn dds(known: &Known, width: u32, height: u32, levels: &[Vec<u8>]) -> Vec<u8> {
    let mut words = [0u32; 32];
    words[0] = u32::from_le_bytes(*b"DDS ");
    words[1] = 124;
    // Caps, height, width, pixel format, and a count of levels.
    words[2] = 0x2_1007;
    words[3] = height;
    words[4] = width;
    words[7] = levels.len() as u32;
    words[19] = 32;
    words[20] = 4;
    words[21] = u32::from_le_bytes(*known.characters.unwrap_or(b"DX10"));
    words[27] = 0x1000;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if known.characters.is_none() {
        let extended = [known.dxgi, 3, 0, 1, 0];
        bytes.extend(extended.iter().flat_map(|word: &u32| word.to_le_bytes()));
    }
    levels.iter().for_each(|level| bytes.extend(level));
    bytes
}
