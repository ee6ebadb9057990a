//! What several test files need.

pub(crate) mod data;
pub(crate) mod plain;

use std::path::PathBuf;

use gdeflate::{Decoder, Error, Kernel, TileStream};

/// A stream of the golden files.
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) stored: Vec<u8>,
    /// `None`: it must be refused.
    pub(crate) raw: Option<Vec<u8>>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn read(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(name: &str) -> Vec<serde_json::Value> {
    let manifest: serde_json::Value = serde_json::from_slice(&read(name)).unwrap();
    manifest["vectors"].as_array().unwrap().clone()
}

/// Every stream with its raw bytes, whose length is checked against the manifest.
pub(crate) fn vectors() -> Vec<Vector> {
    let mut all = Vec::new();
    for entry in manifest("manifest.json") {
        let raw = read(entry["raw_file"].as_str().unwrap());
        assert_eq!(raw.len() as u64, entry["raw_size"].as_u64().unwrap());
        for stream in entry["streams"].as_array().unwrap() {
            let name = stream["file"].as_str().unwrap().to_owned();
            all.push(Vector {
                stored: read(&name),
                name,
                raw: Some(raw.clone()),
            });
        }
    }
    for entry in manifest("handmade/manifest.json") {
        let name = entry["name"].as_str().unwrap().to_owned();
        let stored = read(&format!("handmade/{name}.gdeflate"));
        assert_eq!(stored.len() as u64, entry["size"].as_u64().unwrap());
        let valid = entry["valid"].as_bool().unwrap();
        let raw = valid.then(|| read(&format!("handmade/{name}.raw")));
        all.push(Vector { name, stored, raw });
    }
    assert!(all.len() > 50, "the golden files are incomplete");
    all
}

/// The kernels that this machine can run; says which it cannot.
pub(crate) fn kernels() -> Vec<Kernel> {
    let (can, cannot): (Vec<_>, Vec<_>) = Kernel::ALL.iter().partition(|k| k.is_available());
    for kernel in cannot {
        println!("SKIP: this machine cannot run {kernel:?}");
    }
    can
}

/// Decodes a whole stream with one kernel.
pub(crate) fn decode(kernel: Kernel, stored: &[u8]) -> Result<Vec<u8>, Error> {
    let stream = TileStream::parse(stored)?;
    let mut raw = vec![0xA5; stream.header().raw_len() as usize];
    Decoder::with_kernel(kernel).decode(&stream, &mut raw)?;
    Ok(raw)
}
