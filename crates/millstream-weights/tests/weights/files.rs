//! Writers of both formats, independent of the parsers.

use fastrand::Rng;

/// A value of GGUF metadata; an array has the number of its type.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(u8),
    String(Vec<u8>),
    Array(u32, Vec<Written>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Written {
    pub(crate) fn text(text: &str) -> Written {
        Written::String(text.as_bytes().to_vec())
    }

    fn number(&self) -> u32 {
        match self {
            Written::U8(_) => 0,
            Written::I8(_) => 1,
            Written::U16(_) => 2,
            Written::I16(_) => 3,
            Written::U32(_) => 4,
            Written::I32(_) => 5,
            Written::F32(_) => 6,
            Written::Bool(_) => 7,
            Written::String(_) => 8,
            Written::Array(..) => 9,
            Written::U64(_) => 10,
            Written::I64(_) => 11,
            Written::F64(_) => 12,
        }
    }

    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Written::U8(value) | Written::Bool(value) => into.push(*value),
            Written::I8(value) => into.extend(value.to_le_bytes()),
            Written::U16(value) => into.extend(value.to_le_bytes()),
            Written::I16(value) => into.extend(value.to_le_bytes()),
            Written::U32(value) => into.extend(value.to_le_bytes()),
            Written::I32(value) => into.extend(value.to_le_bytes()),
            Written::F32(value) => into.extend(value.to_le_bytes()),
            Written::String(bytes) => {
                into.extend((bytes.len() as u64).to_le_bytes());
                into.extend(bytes);
            }
            Written::Array(kind, values) => {
                into.extend(kind.to_le_bytes());
                into.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| value.write(into));
            }
            Written::U64(value) => into.extend(value.to_le_bytes()),
            Written::I64(value) => into.extend(value.to_le_bytes()),
            Written::F64(value) => into.extend(value.to_le_bytes()),
        }
    }
}

/// A tensor of a GGUF file: dimensions innermost first, as the file has them.
#[derive(Debug, Clone)]
pub(crate) struct GgufTensor {
    pub(crate) name: String,
    pub(crate) dimensions: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
    /// The offset to write instead of the right one.
    pub(crate) offset: Option<u64>,
}

impl GgufTensor {
    pub(crate) fn new(name: &str, dimensions: &[u64], kind: u32, data: Vec<u8>) -> GgufTensor {
        GgufTensor {
            name: name.to_owned(),
            dimensions: dimensions.to_vec(),
            kind,
            data,
            offset: None,
        }
    }
}

/// A GGUF file to be written.
#[derive(Debug, Clone)]
pub(crate) struct GgufFile {
    pub(crate) version: u32,
    pub(crate) pairs: Vec<(String, Written)>,
    pub(crate) tensors: Vec<GgufTensor>,
    pub(crate) alignment: usize,
}

impl Default for GgufFile {
    fn default() -> GgufFile {
        GgufFile {
            version: 3,
            pairs: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
        }
    }
}

impl GgufFile {
    pub(crate) fn pair(mut self, key: &str, value: Written) -> GgufFile {
        self.pairs.push((key.to_owned(), value));
        self
    }

    pub(crate) fn tensor(mut self, tensor: GgufTensor) -> GgufFile {
        self.tensors.push(tensor);
        self
    }

    /// Returns the file, and the length of its header without padding.
    pub(crate) fn write(&self) -> (Vec<u8>, usize) {
        let mut file = Vec::from(*b"GGUF");
        file.extend(self.version.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.pairs.len() as u64).to_le_bytes());
        for (key, value) in &self.pairs {
            Written::text(key).write(&mut file);
            file.extend(value.number().to_le_bytes());
            value.write(&mut file);
        }
        let mut data = Vec::new();
        for tensor in &self.tensors {
            Written::text(&tensor.name).write(&mut file);
            file.extend((tensor.dimensions.len() as u32).to_le_bytes());
            for one in &tensor.dimensions {
                file.extend(one.to_le_bytes());
            }
            file.extend(tensor.kind.to_le_bytes());
            data.resize(usize::next_multiple_of(data.len(), self.alignment), 0);
            file.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
        }
        let header = file.len();
        if !self.tensors.is_empty() {
            file.resize(header.next_multiple_of(self.alignment), 0);
        }
        file.extend(data);
        (file, header)
    }
}

/// Some types of GGML: number, elements and bytes of a block.
pub(crate) const KINDS: [(u32, u64, u64); 9] = [
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (8, 32, 34),
    (12, 256, 144),
    (14, 256, 210),
    (19, 256, 50),
    (30, 1, 2),
    (39, 32, 17),
];

pub(crate) fn noise(random: &mut Rng, len: u64) -> Vec<u8> {
    std::iter::repeat_with(|| random.u8(..))
        .take(len as usize)
        .collect()
}

/// A tensor of a random type and shape.
pub(crate) fn gguf_tensor(random: &mut Rng, name: &str) -> GgufTensor {
    let (kind, elements, bytes) = KINDS[random.usize(..KINDS.len())];
    let mut dimensions = vec![elements * random.u64(1..4)];
    dimensions.extend((0..random.usize(..4)).map(|_| random.u64(1..4)));
    if random.u8(..) < 16 {
        dimensions.push(0);
        dimensions.truncate(4);
    }
    let count: u64 = dimensions.iter().product();
    let data = noise(random, count / elements * bytes);
    GgufTensor::new(name, &dimensions, kind, data)
}

/// A safetensors file: name, type, shape and bytes of each tensor, in the order of the file.
pub(crate) fn safetensors_file(tensors: &[(String, &str, Vec<u64>, Vec<u8>)]) -> Vec<u8> {
    let (mut data, mut entries) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let (begin, end) = (data.len(), data.len() + bytes.len());
        data.extend(bytes);
        let entry = serde_json::json!({
            "dtype": dtype, "shape": shape, "data_offsets": [begin, end],
        });
        entries.push(format!("{}:{entry}", serde_json::json!(name)));
    }
    with_header(format!("{{{}}}", entries.join(",")).as_bytes(), &data)
}

/// A safetensors file of any header.
pub(crate) fn with_header(json: &[u8], data: &[u8]) -> Vec<u8> {
    let mut file = Vec::from((json.len() as u64).to_le_bytes());
    file.extend_from_slice(json);
    file.extend_from_slice(data);
    file
}
