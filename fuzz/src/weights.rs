//! Headers of model weights as bytes of any kind: parsed or refused, in memory that their length
//! bounds, and what is accepted lies inside the file.
//!
//! Input: four bytes for how much longer than the rest the file is, then its first bytes.

use millstream_weights::safetensors::Index;
use millstream_weights::{
    Checksums, Extent, Format, Header, Parsed, PlanOptions, Value, gguf, plan, safetensors,
};

type Parse = fn(&[u8], u64) -> Result<Parsed, millstream::Error>;

/// A safetensors header, or an index.
pub fn safetensors(input: &[u8]) {
    read(input, safetensors::parse);
    if let Ok(index) = Index::parse(input) {
        assert!(index.tensors.is_sorted());
        assert!(
            index
                .tensors
                .iter()
                .all(|(_, file)| *file < index.files.len())
        );
        assert!(
            index
                .files
                .iter()
                .all(|file| !file.contains('/') && file != "..")
        );
    }
}

/// A GGUF header.
pub fn gguf(input: &[u8]) {
    read(input, gguf::parse);
}

/// A file of checksums, as it is and with the hash that its bytes have.
pub fn checksums(input: &[u8]) {
    let whole = [input, blake3::hash(input).as_bytes()].concat();
    for bytes in [input, &whole[..]] {
        match Checksums::parse(bytes) {
            Ok(checksums) => assert!(checksums.to_bytes() == bytes),
            Err(error) => assert!(error.path().is_none() && error.offset() <= bytes.len() as u64),
        }
    }
}

fn read(input: &[u8], parse: Parse) {
    let Some((more, head)) = input.split_first_chunk() else {
        return;
    };
    let file_bytes = head.len() as u64 + u64::from(u32::from_le_bytes(*more));
    let parsed = parse(head, file_bytes);
    match &parsed {
        Ok(Parsed::Complete(header)) => check(header, file_bytes),
        Ok(Parsed::NeedsBytes(bytes)) => {
            assert!(*bytes > head.len() as u64 && *bytes <= file_bytes);
        }
        Err(error) => {
            assert!((1..1000).contains(&error.cause().len()) && error.path().is_none());
        }
    }
    // Fewer bytes give the same result, or need more.
    let cut = &head[..head.len() / 2];
    match (parse(cut, file_bytes), parsed) {
        (Ok(Parsed::NeedsBytes(bytes)), _) => assert!(bytes > cut.len() as u64),
        (Ok(cut), Ok(whole)) => assert!(cut == whole),
        (cut, whole) => assert!(cut.is_err() && whole.is_err()),
    }
}

fn check(header: &Header, file_bytes: u64) {
    let extents: Vec<Extent> = header.tensors.iter().map(|it| it.extent).collect();
    let mut before = header.data_offset;
    for (tensor, extent) in header.tensors.iter().zip(&extents) {
        assert!(extent.offset >= before && extent.end() <= file_bytes);
        before = extent.end();
        if let Some((block, bits)) = tensor.dtype.block() {
            let count: u128 = tensor.shape.iter().map(|&one| u128::from(one)).product();
            assert_eq!(
                u128::from(extent.len) * 8 * u128::from(block),
                count * u128::from(bits)
            );
        }
        let rows = tensor.rows();
        for rows in [0..rows, rows / 3..rows / 2, rows..rows] {
            if let Ok(slice) = tensor.slice(rows) {
                assert!(slice.offset >= extent.offset && slice.end() <= extent.end());
            }
        }
        assert!(tensor.slice(0..rows.saturating_add(1)).is_err() || rows == u64::MAX);
    }
    let reads = plan(&extents, &PlanOptions::default());
    assert!(reads.iter().all(|read| read.extent.end() <= file_bytes));
    for (key, value) in header.metadata.iter() {
        assert_eq!(
            header.metadata.get(key).map(|it| same(&it, &value)),
            Some(true)
        );
        walk(&value);
    }
    assert!(header.split.is_none() || header.format == Format::Gguf);
}

/// Whether two values of a key are of the same bytes; a number may be none.
fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    a == b || format!("{a:?}") == format!("{b:?}")
}

fn walk(value: &Value<'_>) {
    if let Value::Array(array) = value {
        let mut count = 0;
        for value in array.iter() {
            walk(&value);
            count += 1;
        }
        assert_eq!(count, array.len);
    }
}
