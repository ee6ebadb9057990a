//! safetensors: the reference implementation's judgment, truncations, unknown types, indexes.

use ::safetensors::SafeTensors;
use millstream::ErrorKind;
use millstream_weights::safetensors::{self, Index};
use millstream_weights::{Header, Parsed};

use crate::files::{safetensors_file, with_header};

fn parse(file: &[u8]) -> Result<Header, millstream::Error> {
    match safetensors::parse(file, file.len() as u64)? {
        Parsed::Complete(header) => Ok(header),
        Parsed::NeedsBytes(bytes) => panic!("{bytes} of {} bytes are needed", file.len()),
    }
}

fn right() -> Vec<u8> {
    safetensors_file(&[
        (String::from("b"), "I32", vec![2, 3], (0..24).collect()),
        (String::from("a\n\u{e9}"), "F16", vec![5], vec![1; 10]),
        (String::from("none"), "F64", vec![0, 7], vec![]),
        (String::from("scalar"), "BF16", vec![], vec![2; 2]),
        (String::from("half"), "F4", vec![2, 3], vec![3; 3]),
    ])
}

/// Compares with the reference; returns whether the file was accepted.
fn is_judged_alike(file: &[u8]) -> bool {
    let (ours, reference) = (parse(file), SafeTensors::deserialize(file));
    let (ours, reference) = match (ours, reference) {
        (Ok(ours), Ok(reference)) => (ours, reference),
        (Err(error), Err(_)) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(!error.cause().is_empty());
            return false;
        }
        (Err(error), Ok(_)) => {
            let cause = error.cause();
            let is_stricter = ["twice", "overflows 64 bits", "dimensions"];
            assert!(is_stricter.iter().any(|it| cause.contains(it)), "{cause}");
            return false;
        }
        (Ok(ours), Err(error)) => {
            let is_kept = ours.tensors.iter().any(|tensor| !tensor.dtype.is_known());
            assert!(is_kept, "the reference refuses: {error}");
            return false;
        }
    };
    assert_eq!(ours.tensors.len(), reference.len());
    for tensor in &ours.tensors {
        let view = reference
            .tensor(&tensor.name)
            .expect("it has the same names");
        let shape: Vec<u64> = view.shape().iter().map(|&one| one as u64).collect();
        assert_eq!(*tensor.shape, shape);
        assert_eq!(tensor.dtype.to_string(), format!("{:?}", view.dtype()));
        let extent = tensor.extent;
        assert!(file[extent.offset as usize..extent.end() as usize] == *view.data());
    }
    true
}

#[test]
fn damaged_headers_are_judged_as_by_the_reference() {
    let mut random = millstream_testing::random();
    let right = right();
    let metadata = with_header(br#"{"__metadata__":{"k":"v","k":"w"}}"#, b"");
    assert!(is_judged_alike(&right) && is_judged_alike(&metadata));
    let header = parse(&right).expect("it is right").data_offset as usize;
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut file = right.clone();
        for _ in 0..random.usize(1..3) {
            let at = random.usize(..header);
            file[at] = random
                .choice(*b"0123456789{}[]\",:FUI abc\xff\0")
                .expect("a byte");
        }
        accepted += usize::from(is_judged_alike(&file));
    }
    assert!(accepted > 100, "only {accepted}");
    for at in 0..8 {
        for value in 0..=255 {
            let mut file = right.clone();
            file[at] = value;
            is_judged_alike(&file);
        }
    }
}

#[test]
fn a_header_needs_all_of_its_bytes_and_no_more() {
    let file = right();
    let whole = parse(&file).expect("it is right");
    for len in 0..file.len() {
        let parsed = safetensors::parse(&file[..len], file.len() as u64).expect("no fault so far");
        match parsed {
            Parsed::Complete(header) => assert_eq!(header, whole),
            Parsed::NeedsBytes(8) if len < 8 => {}
            Parsed::NeedsBytes(bytes) => {
                assert!((len as u64) < bytes && bytes == whole.data_offset);
            }
        }
        assert!(!is_judged_alike(&file[..len]));
    }
}

#[test]
fn headers_that_lie_are_refused_with_the_reason() {
    let one = |dtype: &str, shape: &str, offsets: &str, data: &[u8]| {
        let json = format!(
            "{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}"
        );
        with_header(json.as_bytes(), data)
    };
    let field = r#""a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let twice = format!("{{{field},{field}}}");
    let ones = format!("[{}1]", "1,".repeat(32));
    for (file, expected) in [
        (vec![], "too short"),
        (vec![1, 0, 0], "too short"),
        (
            with_header(b"{", b"")[..8].to_vec(),
            "exceeds the file (8 bytes)",
        ),
        (u64::MAX.to_le_bytes().to_vec(), "longer than 100000000"),
        (with_header(b"{\"\xff\"", b""), "not UTF-8"),
        (with_header(b"[]", b""), "expected an object of tensors"),
        (
            with_header(twice.as_bytes(), b"x"),
            "the name \"a\" appears twice",
        ),
        (
            with_header(br#"{"__metadata__":{},"__metadata__":{}}"#, b""),
            "appears twice",
        ),
        (
            one("U8", "[4]", "[4,8]", &[0; 8]),
            "has bytes 4..8, but those before end at 0",
        ),
        (
            one("U8", "[4]", "[0,4]", &[0; 3]),
            "the tensors have 4 bytes, but the file 3",
        ),
        (
            one("U8", "[4]", "[0,4]", &[0; 5]),
            "the tensors have 4 bytes, but the file 5",
        ),
        (
            one("F32", "[2]", "[0,4]", &[0; 4]),
            "has 4 bytes, but its shape 8",
        ),
        (
            one("F4", "[3]", "[0,2]", &[0; 2]),
            "does not end at a whole byte",
        ),
        (
            one("U8", "[9223372036854775808,0]", "[0,0]", b""),
            "a shape that overflows 64 bits",
        ),
        (one("U8", &ones, "[0,1]", b"x"), "has 33 dimensions"),
        (one("U8", "[-1]", "[0,0]", b""), "the header is invalid"),
        (
            one("U8", "[0]", "[0,18446744073709551615]", b""),
            "has 18446744073709551615 bytes",
        ),
        (
            with_header(format!("{{\"a\":{}", "[".repeat(100_000)).as_bytes(), b""),
            "invalid",
        ),
    ] {
        let error = parse(&file).expect_err(expected);
        assert!(
            error.cause().contains(expected),
            "{:?} lacks {expected:?}",
            error.cause()
        );
    }
}

#[test]
fn a_type_that_is_unknown_is_named_and_its_bytes_are_offered() {
    let file = safetensors_file(&[
        (String::from("a"), "F128", vec![3], vec![1; 48]),
        (String::from("b"), "Q4_K", vec![256], vec![2; 144]),
    ]);
    let header = parse(&file).expect("it is kept");
    let shown: Vec<(String, u64)> = header
        .tensors
        .iter()
        .map(|tensor| (tensor.dtype.to_string(), tensor.extent.len))
        .collect();
    assert_eq!(
        shown,
        [(String::from("F128"), 48), (String::from("Q4_K"), 144)]
    );
}

#[test]
fn rows_are_whole_bytes_or_refused() {
    let header = parse(&right()).expect("it is right");
    let slice = |name: &str, rows| {
        let mut all = header.tensors.iter();
        let tensor = all.find(|it| *it.name == *name).expect("it is there");
        let begin = tensor.extent.offset;
        let sliced = tensor.slice(rows);
        sliced
            .map(|extent| (extent.offset - begin, extent.len))
            .map_err(|error| error.kind())
    };
    assert_eq!(slice("b", 1..2), Ok((12, 12)));
    assert_eq!(slice("b", 2..2), Ok((24, 0)));
    assert_eq!(slice("b", 1..3), Err(ErrorKind::PastEnd));
    #[expect(clippy::reversed_empty_ranges, reason = "a range of a careless caller")]
    let reversed = slice("b", 2..1);
    assert_eq!(reversed, Err(ErrorKind::PastEnd));
    assert_eq!(slice("scalar", 0..1), Ok((0, 2)));
    assert_eq!(slice("none", 0..0), Ok((0, 0)));
    assert_eq!(slice("half", 0..2), Ok((0, 3)));
    // A row has a byte and a half.
    assert_eq!(slice("half", 1..2), Err(ErrorKind::InvalidArgument));
}

#[test]
fn an_index_names_files_of_its_folder() {
    let index = |map: &str| Index::parse(format!("{{\"weight_map\":{map}}}").as_bytes());
    let parsed = index(r#"{"b":"x","a":"y","c":"x"}"#).expect("it is right");
    assert_eq!(parsed.files, ["x", "y"]);
    assert_eq!(
        parsed.tensors,
        [("a".into(), 1), ("b".into(), 0), ("c".into(), 0)]
    );
    for file in [
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "a/b",
        "a\\\\b",
        "c:x",
        "a\\u0000",
    ] {
        let error = index(&format!("{{\"a\":\"{file}\"}}")).expect_err(file);
        assert!(error.cause().contains("not the name of a file"), "{error}");
    }
    let twice = index(r#"{"a":"x","a":"y"}"#).expect("the last counts");
    assert_eq!(
        (twice.files, twice.tensors),
        (vec!["y".into()], vec![("a".into(), 0)])
    );
    for map in ["5", "[]", "{\"a\":5}", "{\"a\":null}", "{"] {
        assert!(index(map).is_err(), "{map}");
    }
    for text in ["", "[]", "{}", "{", "\u{ff}", &"[".repeat(100_000)] {
        assert!(Index::parse(text.as_bytes()).is_err(), "{text}");
    }
}
