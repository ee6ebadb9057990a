//! GGUF: what a writer wrote, every truncation and change of a byte, and headers that lie.

use std::path::Path;

use fastrand::Rng;
use millstream::{Error, ErrorKind};
use millstream_weights::gguf::parse;
use millstream_weights::{DataType, Header, Parsed, Value, ValueKind};

use crate::files::{GgufFile, GgufTensor, Written, gguf_tensor, noise};

fn complete(file: &[u8]) -> Header {
    match parse(file, file.len() as u64).expect("a right header") {
        Parsed::Complete(header) => header,
        Parsed::NeedsBytes(bytes) => panic!("{bytes} of {} bytes are needed", file.len()),
    }
}

fn cause(file: &[u8]) -> String {
    match parse(file, file.len() as u64) {
        Err(error) => error.cause().to_owned(),
        Ok(_) => String::from("none"),
    }
}

/// Checks what every header fulfills that is accepted.
fn check(header: &Header, file_bytes: u64) {
    let mut before = header.data_offset;
    for tensor in &header.tensors {
        let extent = tensor.extent;
        assert!(
            extent.offset >= before && extent.end() <= file_bytes,
            "{tensor:?}"
        );
        assert!((extent.offset - header.data_offset).is_multiple_of(8));
        before = extent.end();
        for row in 0..tensor.rows().min(3) {
            if let Ok(slice) = tensor.slice(row..row + 1) {
                assert!(slice.offset >= extent.offset && slice.end() <= extent.end());
            }
        }
    }
    for pair in header.metadata.iter() {
        assert!(count(pair) > 0);
    }
}

/// The number of values of a pair, nested ones too.
fn count((key, value): (&str, Value<'_>)) -> u64 {
    assert!(!key.is_empty());
    match value {
        Value::Array(array) => {
            let inner: Vec<u64> = array.iter().map(|value| count((key, value))).collect();
            assert_eq!(inner.len() as u64, array.len);
            inner.iter().sum::<u64>() + 1
        }
        _ => 1,
    }
}

fn is_same(value: &Value<'_>, written: &Written) -> bool {
    match (value, written) {
        (Value::U8(a), Written::U8(b)) => a == b,
        (Value::I8(a), Written::I8(b)) => a == b,
        (Value::U16(a), Written::U16(b)) => a == b,
        (Value::I16(a), Written::I16(b)) => a == b,
        (Value::U32(a), Written::U32(b)) => a == b,
        (Value::I32(a), Written::I32(b)) => a == b,
        (Value::F32(a), Written::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::Bool(a), Written::Bool(b)) => u8::from(*a) == *b,
        (Value::String(a), Written::String(b)) => a == b,
        (Value::U64(a), Written::U64(b)) => a == b,
        (Value::I64(a), Written::I64(b)) => a == b,
        (Value::F64(a), Written::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Written::Array(kind, b)) => {
            a.kind as u32 == *kind
                && a.len == b.len() as u64
                && a.iter().zip(b).all(|(a, b)| is_same(&a, b))
        }
        _ => false,
    }
}

fn random_value(random: &mut Rng, kind: u32, depth: u32) -> Written {
    match kind {
        0 => Written::U8(random.u8(..)),
        1 => Written::I8(random.i8(..)),
        2 => Written::U16(random.u16(..)),
        3 => Written::I16(random.i16(..)),
        4 => Written::U32(random.u32(..)),
        5 => Written::I32(random.i32(..)),
        6 => Written::F32(random.f32()),
        7 => Written::Bool(random.u8(..2)),
        8 => {
            let len = random.u64(..20);
            Written::String(noise(random, len))
        }
        9 => {
            let kind = random.u32(..13);
            let kind = if kind == 9 && depth == 4 { 8 } else { kind };
            let len = random.usize(..4);
            let values = (0..len).map(|_| random_value(random, kind, depth + 1));
            Written::Array(kind, values.collect())
        }
        10 => Written::U64(random.u64(..)),
        11 => Written::I64(random.i64(..)),
        _ => Written::F64(random.f64()),
    }
}

fn random_file(random: &mut Rng) -> GgufFile {
    let alignment = [8, 32, 64, 4096][random.usize(..4)];
    let mut file = GgufFile {
        version: random.u32(2..4),
        alignment: alignment as usize,
        ..GgufFile::default()
    };
    if alignment != 32 {
        file = file.pair("general.alignment", Written::U32(alignment));
    }
    for nth in 0..random.usize(..12) {
        let kind = random.u32(..13);
        file = file.pair(&format!("key.{nth}"), random_value(random, kind, 1));
    }
    for nth in 0..random.usize(..12) {
        file = file.tensor(gguf_tensor(random, &format!("blk.{nth}.weight")));
    }
    random.shuffle(&mut file.pairs);
    file
}

#[test]
fn what_was_written_comes_back() {
    let mut random = millstream_testing::random();
    for _ in 0..300 {
        let written = random_file(&mut random);
        let (file, _) = written.write();
        let header = complete(&file);
        check(&header, file.len() as u64);
        assert_eq!(header.metadata.iter().count(), written.pairs.len());
        for (key, value) in &written.pairs {
            let found = header.metadata.get(key).expect("it was written");
            assert!(is_same(&found, value), "{key}: {found:?}, not {value:?}");
        }
        assert!(header.metadata.get("none").is_none());
        assert_eq!(header.tensors.len(), written.tensors.len());
        for tensor in &written.tensors {
            let mut all = header.tensors.iter();
            let found = all
                .find(|it| *it.name == *tensor.name)
                .expect("it was written");
            let shape: Vec<u64> = tensor.dimensions.iter().rev().copied().collect();
            assert_eq!(*found.shape, shape);
            assert_eq!(found.dtype, DataType::from_ggml(tensor.kind));
            let extent = found.extent;
            assert!(file[extent.offset as usize..extent.end() as usize] == tensor.data);
        }
    }
}

/// A small file of every kind of value.
fn small() -> (Vec<u8>, usize) {
    let mut random = Rng::with_seed(1);
    let mut file = GgufFile::default().pair("general.alignment", Written::U32(32));
    for kind in 0..13 {
        file = file.pair(&format!("k{kind}"), random_value(&mut random, kind, 1));
    }
    let nested = Written::Array(9, vec![Written::Array(8, vec![Written::text("a")])]);
    file.pair("nested", nested)
        .tensor(GgufTensor::new("a", &[256, 2], 12, vec![1; 288]))
        .tensor(GgufTensor::new("b", &[3], 0, vec![2; 12]))
        .tensor(GgufTensor::new("c", &[4], 1000, vec![3; 40]))
        .write()
}

#[test]
fn a_header_needs_all_of_its_bytes_and_no_more() {
    let (file, header) = small();
    let whole = complete(&file);
    for len in 0..file.len() {
        match parse(&file[..len], file.len() as u64) {
            Ok(Parsed::Complete(parsed)) => assert!(len >= header && parsed == whole),
            Ok(Parsed::NeedsBytes(needed)) => {
                assert!(len < header && needed > len as u64 && needed <= header as u64);
            }
            Err(error) => panic!("{len}: {error}"),
        }
        let cut = parse(&file[..len], len as u64);
        let is_refused = cut.is_err_and(|error| {
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::WrongFormat)
        });
        // The last tensor is of an unknown type, which extends to the end of the file.
        assert!(
            is_refused || len as u64 > whole.tensors[2].extent.offset,
            "{len}"
        );
    }
}

#[test]
fn a_changed_byte_is_refused_or_does_no_harm() {
    let (file, header) = small();
    let mut refused = 0;
    for at in 0..header {
        for value in (0..8)
            .map(|bit| file[at] ^ 1 << bit)
            .chain([0, 1, 0x7f, 0xff])
        {
            let mut changed = file.clone();
            changed[at] = value;
            match parse(&changed, changed.len() as u64) {
                Ok(Parsed::Complete(parsed)) => check(&parsed, changed.len() as u64),
                Ok(Parsed::NeedsBytes(bytes)) => panic!("{bytes} bytes that the file lacks"),
                Err(error) => {
                    assert!(!error.cause().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > header * 4, "only {refused}");
}

type Change = fn(&mut GgufFile);

#[test]
fn headers_that_lie_are_refused_with_the_reason() {
    let cases: &[(Change, &str)] = &[
        (|file| file.version = 0, "version 0 is neither"),
        (|file| file.version = 1, "version 1 is neither"),
        (|file| file.version = 4, "version 4 is neither"),
        (|file| file.version = 3 << 24, "big-endian"),
        (|file| file.version = 2 << 24, "big-endian"),
        (|file| file.pairs[0].0.clear(), "a key is empty"),
        (
            |file| file.pairs[0].0 = "k".repeat(70_000),
            "longer than 65535",
        ),
        (
            |file| file.pairs[1] = file.pairs[0].clone(),
            "the key \"one\" appears twice",
        ),
        (
            |file| file.pairs[0].1 = Written::Bool(2),
            "a bool is neither",
        ),
        (
            |file| file.pairs[0].1 = Written::Array(7, vec![Written::Bool(7)]),
            "a bool is neither",
        ),
        (
            |file| file.pairs[0].1 = Written::Array(13, vec![]),
            "value type 13 is unknown",
        ),
        (
            |file| {
                let deeper = |inner: Written, _| Written::Array(9, vec![inner]);
                file.pairs[0].1 = (0..4).fold(Written::Array(0, vec![]), deeper);
            },
            "nested deeper than 4",
        ),
        (|file| align(file, Written::U32(0)), "not a power of two"),
        (|file| align(file, Written::U32(4)), "not a power of two"),
        (|file| align(file, Written::U32(48)), "not a power of two"),
        (|file| align(file, Written::U64(32)), "not a u32"),
        (
            |file| {
                file.tensors.truncate(1);
                align(file, Written::U32(1 << 31));
            },
            "exceeds the file",
        ),
        (
            |file| align(file, Written::U32(64)),
            "is at 32, no multiple of 64",
        ),
        (
            |file| file.tensors[1].name = "a".into(),
            "the tensor \"a\" appears twice",
        ),
        (
            |file| file.tensors[0].dimensions = vec![1; 5],
            "has 5 dimensions",
        ),
        (
            |file| file.tensors[0].dimensions = vec![1 << 63],
            "a shape that overflows 64 bits",
        ),
        (
            |file| file.tensors[0].dimensions = vec![1 << 32; 2],
            "a shape that overflows 64 bits",
        ),
        (
            |file| file.tensors[0].dimensions = vec![0, u64::MAX, 2],
            "a shape that overflows 64 bits",
        ),
        (
            |file| file.tensors[0].dimensions = vec![1 << 61, 1],
            "a shape that overflows 64 bits",
        ),
        (
            |file| file.tensors[0].dimensions = vec![1 << 40],
            "exceeds the file",
        ),
        (
            |file| file.tensors[0].kind = 12,
            "rows of 8 elements, but blocks of Q4_K have 256",
        ),
        (
            |file| file.tensors[0].dimensions = vec![9],
            "tensor \"b\" overlaps another",
        ),
        (|file| file.tensors[1].offset = Some(0), "overlaps another"),
        (
            |file| file.tensors[1].offset = Some(33),
            "is at 33, no multiple of 32",
        ),
        (
            |file| file.tensors[1].offset = Some(u64::MAX - 31),
            "exceeds the file",
        ),
        (|file| file.tensors[1].offset = Some(64), "exceeds the file"),
        (
            |file| {
                file.tensors[0].kind = 99;
                file.tensors[1].offset = Some(0);
            },
            "overlaps another",
        ),
        (
            |file| {
                file.tensors[1].kind = 99;
                file.tensors[1].offset = Some(96);
            },
            "exceeds the file",
        ),
        (|file| split(file, 3, 3, None), "split.no"),
        (|file| split(file, 0, 0, None), "none"),
        (|file| split(file, 0, 65_535, None), "split.no"),
        (|file| split(file, 0, 3, Some(Written::I32(-1))), "split.no"),
    ];
    let right = GgufFile::default()
        .pair("one", Written::U32(1))
        .pair("two", Written::text("2"))
        .tensor(GgufTensor::new("a", &[8], 0, vec![1; 32]))
        .tensor(GgufTensor::new("b", &[8], 0, vec![2; 32]));
    assert_eq!(cause(&right.write().0), "none");
    for (change, expected) in cases {
        let mut file = right.clone();
        change(&mut file);
        let found = cause(&file.write().0);
        assert!(found.contains(expected), "{found:?} lacks {expected:?}");
    }
}

fn align(file: &mut GgufFile, value: Written) {
    file.pairs.push((String::from("general.alignment"), value));
}

fn split(file: &mut GgufFile, number: u16, count: u16, tensors: Option<Written>) {
    file.pairs
        .push((String::from("split.no"), Written::U16(number)));
    file.pairs
        .push((String::from("split.count"), Written::U16(count)));
    let tensors = tensors.map(|it| (String::from("split.tensors.count"), it));
    file.pairs.extend(tensors);
}

#[test]
fn counts_and_lengths_that_lie_are_refused_before_memory_is_taken() {
    let (right, _) = small();
    // Tensors, keys, the length of the first key, its type.
    for (at, len) in [(8, 8), (16, 8), (24, 8), (49, 4)] {
        for value in [u64::MAX, 1 << 63, 1 << 40, 1 << 33, 1 << 30, 1 << 24, 4000] {
            let mut file = right.clone();
            file[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
            let refused = |file_bytes| match parse(&file, file_bytes) {
                Err(error) => Some(error.kind()),
                Ok(_) => None,
            };
            assert_eq!(
                refused(file.len() as u64),
                Some(ErrorKind::Corrupt),
                "{at}: {value}"
            );
            // A file that is long enough, as a sparse one is: a bound of the library.
            let known = [None, Some(ErrorKind::Corrupt), Some(ErrorKind::Limit)];
            assert!(known.contains(&refused(1 << 50)), "{at}: {value}");
        }
    }
    let long = |value: u64| {
        let mut file = right.clone();
        file[24..32].copy_from_slice(&value.to_le_bytes());
        parse(&file, 1 << 50).map_err(|error: Error| error.kind())
    };
    assert_eq!(long(65_536).err(), Some(ErrorKind::Corrupt));
    assert_eq!(long(65_535).ok(), Some(Parsed::NeedsBytes(32 + 65_535)));
    let text = GgufFile::default().pair("a", Written::U64(1 << 31));
    let (mut file, _) = text.write();
    file[33] = 8; // a string of that length
    let limit = parse(&file, 1 << 50).map_err(|error| error.kind());
    assert_eq!(limit.err(), Some(ErrorKind::Limit));
}

#[test]
fn holes_and_any_order_are_allowed() {
    let mut file = GgufFile::default()
        .tensor(GgufTensor::new("a", &[8], 0, vec![1; 32]))
        .tensor(GgufTensor::new("b", &[8], 0, vec![2; 32]))
        .tensor(GgufTensor::new("none", &[0], 0, vec![]))
        .tensor(GgufTensor::new("scalar", &[], 0, vec![3; 400]));
    file.tensors[0].offset = Some(256);
    file.tensors[1].offset = Some(0);
    file.tensors[2].offset = Some(256);
    file.tensors[3].offset = Some(384);
    let header = complete(&file.write().0);
    let names: Vec<&str> = header.tensors.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["b", "none", "a", "scalar"]);
    assert_eq!(header.tensors[3].extent.len, 4);
}

#[test]
fn a_type_that_is_unknown_is_named_and_its_bytes_are_offered() {
    let file = GgufFile::default()
        .tensor(GgufTensor::new("a", &[100], 1000, vec![1; 70]))
        .tensor(GgufTensor::new("b", &[8], 0, vec![2; 32]))
        .tensor(GgufTensor::new("c", &[5], 31, vec![3; 50]));
    let (file, _) = file.write();
    let header = complete(&file);
    let [a, _, c] = &header.tensors[..] else {
        panic!("three tensors")
    };
    assert_eq!(
        (a.dtype.to_string(), a.extent.len),
        (String::from("GGML type 1000"), 96)
    );
    assert_eq!(
        (c.dtype.to_string(), c.extent.len),
        (String::from("GGML type 31"), 50)
    );
    assert_eq!(a.slice(0..100).expect("all rows"), a.extent);
    let refused = a.slice(0..50).expect_err("the size of a row is unknown");
    assert!(refused.to_string().contains("GGML type 1000"), "{refused}");
}

#[test]
fn a_tokenizer_of_a_million_strings_is_left_as_it_is() {
    let words = (0..1_000_000u32).map(|nth| Written::String(nth.to_le_bytes().to_vec()));
    let file = GgufFile::default().pair("tokens", Written::Array(8, words.collect()));
    let (file, _) = file.write();
    let header = complete(&file);
    let Some(Value::Array(tokens)) = header.metadata.get("tokens") else {
        panic!("an array")
    };
    assert_eq!((tokens.kind, tokens.len), (ValueKind::String, 1_000_000));
    let right = |(nth, value)| value == Value::String(&u32::to_le_bytes(nth));
    assert!((0..).zip(tokens.iter()).all(right));
}

#[test]
fn the_files_of_a_split_model_are_named_by_their_numbers() {
    let mut file = GgufFile::default();
    split(&mut file, 1, 12, Some(Written::I32(30)));
    let split = complete(&file.write().0).split.expect("it is split");
    assert_eq!((split.index, split.count, split.tensors), (1, 12, Some(30)));
    let path = |name: &str| split.path_of(Path::new(name), 11);
    assert_eq!(
        path("a/m-00002-of-00012.gguf").as_deref(),
        Some(Path::new("a/m-00012-of-00012.gguf"))
    );
    for name in [
        "m.gguf",
        "m-00001-of-00012.gguf",
        "m-00002-of-00013.gguf",
        "",
        "/",
    ] {
        assert_eq!(path(name), None, "{name}");
    }
}

#[test]
fn blocks_are_those_of_ggml() {
    // Scales (f16: 2 bytes), minima, quants: as the structures of ggml-common.h add up.
    let k = 256;
    let types: &[(u32, &str, u64, u64)] = &[
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 2 + 32 / 2),
        (3, "Q4_1", 32, 2 * 2 + 32 / 2),
        (6, "Q5_0", 32, 2 + 4 + 32 / 2),
        (7, "Q5_1", 32, 2 * 2 + 4 + 32 / 2),
        (8, "Q8_0", 32, 2 + 32),
        (9, "Q8_1", 32, 2 * 2 + 32),
        (10, "Q2_K", k, 2 * 2 + k / 16 + k / 4),
        (11, "Q3_K", k, 2 + k / 4 + k / 8 + 12),
        (12, "Q4_K", k, 2 * 2 + 12 + k / 2),
        (13, "Q5_K", k, 2 * 2 + 12 + k / 2 + k / 8),
        (14, "Q6_K", k, 2 + k / 16 + 3 * k / 4),
        (15, "Q8_K", k, 4 + k + k / 16 * 2),
        (16, "IQ2_XXS", k, 2 + k / 8 * 2),
        (17, "IQ2_XS", k, 2 + k / 8 * 2 + k / 32),
        (18, "IQ3_XXS", k, 2 + 3 * (k / 8)),
        (19, "IQ1_S", k, 2 + k / 8 + k / 16),
        (20, "IQ4_NL", 32, 2 + 32 / 2),
        (21, "IQ3_S", k, 2 + 13 * (k / 32) + k / 64),
        (22, "IQ2_S", k, 2 + k / 4 + k / 16),
        (23, "IQ4_XS", k, 2 + 2 + k / 64 + k / 2),
        (24, "I8", 1, 1),
        (25, "I16", 1, 2),
        (26, "I32", 1, 4),
        (27, "I64", 1, 8),
        (28, "F64", 1, 8),
        (29, "IQ1_M", k, k / 8 + k / 16 + k / 32),
        (30, "BF16", 1, 2),
        (34, "TQ1_0", k, 2 + k / 64 + (k - 4 * k / 64) / 5),
        (35, "TQ2_0", k, 2 + k / 4),
        (39, "MXFP4", 32, 1 + 32 / 2),
        (40, "NVFP4", 64, 64 / 16 + 64 / 2),
        (41, "Q1_0", 128, 2 + 128 / 8),
        (42, "Q2_0", 64, 2 + 64 / 4),
    ];
    for (number, name, elements, bytes) in types {
        let dtype = DataType::from_ggml(*number);
        assert_eq!(
            (&*dtype.to_string(), dtype.block()),
            (*name, Some((*elements, bytes * 8)))
        );
        assert_eq!(dtype.bytes_of(3 * elements), Some(3 * bytes), "{name}");
    }
    let known = (0..1000).filter(|number| DataType::from_ggml(*number).is_known());
    assert_eq!(known.count(), types.len());
    assert_eq!(
        DataType::Q4_K.bytes_of(u64::MAX - 255),
        Some((u64::MAX / 256) * 144)
    );
    assert_eq!(DataType::F64.bytes_of(1 << 61), None);
}
