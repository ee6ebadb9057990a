//! Models of one and several files, out of a real folder.

use std::path::Path;
use std::time::Duration;

use millstream::{Error, ErrorKind, Queue, QueueOptions, Storage, StorageOptions};
use millstream_weights::{Format, Model, Value};

use crate::files::{GgufFile, GgufTensor, Written, gguf_tensor, noise, safetensors_file};

struct Rig {
    folder: tempfile::TempDir,
    storage: Storage,
    queue: Queue,
}

impl Rig {
    fn new() -> Rig {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let folder = tempfile::tempdir().expect("a folder");
        Rig {
            folder,
            storage,
            queue,
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).expect("written");
    }

    fn open(&self, name: &str) -> Result<Model, Error> {
        Model::open(&self.storage, self.folder.path().join(name))
    }

    fn refused(&self, name: &str, kind: ErrorKind) -> String {
        let error = self.open(name).expect_err("it is refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            error
                .path()
                .is_some_and(|path| path.starts_with(self.folder.path()))
        );
        error.to_string()
    }

    /// Checks that tensors are loaded with these bytes, as a whole and row by row.
    fn check(&self, model: &Model, tensors: &[(String, Vec<u8>)]) {
        assert_eq!(model.tensors().len(), tensors.len());
        let names = tensors.iter().map(|(name, _)| &**name);
        let loaded = model.load(&self.queue, names).expect("loaded");
        for (name, bytes) in tensors {
            assert!(loaded.get(name) == Some(bytes), "{name}");
            let rows = model.tensor(name).expect("it is there").rows();
            let mut sliced = Vec::new();
            for row in 0..rows {
                let Ok(extent) = model.slice(name, row..row + 1) else {
                    sliced.clone_from(bytes);
                    break;
                };
                let mut ticket = self.queue.submit(model.request(&extent)).expect("room");
                sliced.extend_from_slice(&ticket.wait().expect("read"));
            }
            assert!(sliced == *bytes, "{name}");
        }
    }
}

/// Tensors of a file: name, type, shape, bytes.
type Tensors = Vec<(String, &'static str, Vec<u64>, Vec<u8>)>;

fn shard(number: usize) -> Tensors {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mut one = |nth: usize| {
        let shape = vec![random.u64(..6), random.u64(1..40)];
        let bytes = noise(&mut random, shape[0] * shape[1] * 2);
        (format!("layer.{number}.{nth}"), "BF16", shape, bytes)
    };
    (0..12).map(&mut one).collect()
}

fn pairs(tensors: &Tensors) -> Vec<(String, Vec<u8>)> {
    let pair = |tensor: &(String, _, _, Vec<u8>)| (tensor.0.clone(), tensor.3.clone());
    tensors.iter().map(pair).collect()
}

/// Writes a model of three files with an index.
fn sharded(rig: &Rig) -> Vec<(String, Vec<u8>)> {
    let (mut map, mut all) = (serde_json::Map::new(), Vec::new());
    for number in 1..4 {
        let file = format!("model-{number:05}-of-00003.safetensors");
        let tensors = shard(number);
        rig.put(&file, &safetensors_file(&tensors));
        let names = tensors
            .iter()
            .map(|tensor| (tensor.0.clone(), file.clone().into()));
        map.extend(names);
        all.extend(pairs(&tensors));
    }
    let index = serde_json::json!({"metadata": {"total_size": 1}, "weight_map": map});
    rig.put("model.safetensors.index.json", index.to_string().as_bytes());
    all
}

#[test]
fn a_file_of_either_format_is_opened_by_its_path_and_by_its_folder() {
    let rig = Rig::new();
    let tensors = shard(0);
    rig.put("weights", &safetensors_file(&tensors));
    let model = rig
        .open("weights")
        .expect("its first bytes tell the format");
    assert_eq!(model.format(), Format::Safetensors);
    rig.check(&model, &pairs(&tensors));
    let missing = model.tensor("none").expect_err("it is not there");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(
        rig.refused("", ErrorKind::NotFound)
            .contains("no safetensors or GGUF file")
    );

    let mut random = fastrand::Rng::with_seed(1);
    let mut file = GgufFile::default().pair("general.name", Written::text("small"));
    for nth in 0..20 {
        file = file.tensor(gguf_tensor(&mut random, &format!("t{nth}")));
    }
    file = file.tensor(GgufTensor::new("unknown", &[7], 500, vec![9; 77]));
    rig.put("small.gguf", &file.write().0);
    let model = rig.open("").expect("the folder has one model");
    assert_eq!((model.format(), model.files().len()), (Format::Gguf, 1));
    assert_eq!(
        model.metadata_value("general.name"),
        Some(Value::String(b"small"))
    );
    assert_eq!(model.metadata().count(), 1);
    let tensors: Vec<_> = file
        .tensors
        .into_iter()
        .map(|it| (it.name, it.data))
        .collect();
    rig.check(&model, &tensors);

    rig.put("other.gguf", b"");
    let cause = rig.refused("", ErrorKind::InvalidArgument);
    assert!(cause.contains("several models in the folder"), "{cause}");
    rig.put("model.safetensors", &safetensors_file(&shard(1)));
    assert_eq!(
        rig.open("").expect("it is preferred").format(),
        Format::Safetensors
    );
}

#[test]
fn an_index_stands_for_its_files() {
    let rig = Rig::new();
    let all = sharded(&rig);
    for name in ["", "model.safetensors.index.json"] {
        let model = rig.open(name).expect("opened");
        assert_eq!(model.files().len(), 3);
        let mut sorted = model.tensors().iter().map(|tensor| &*tensor.name);
        assert!(sorted.by_ref().is_sorted());
        rig.check(&model, &all);
    }
}

#[test]
fn indexes_and_files_that_do_not_fit_together_are_refused() {
    let rig = Rig::new();
    sharded(&rig);
    let index = |map: serde_json::Value| {
        let text = serde_json::json!({ "weight_map": map }).to_string();
        rig.put("index.json", text.as_bytes());
    };
    let file = "model-00001-of-00003.safetensors";
    index(serde_json::json!({"layer.1.0": file}));
    assert_eq!(rig.open("index.json").expect("a part").tensors().len(), 1);
    index(serde_json::json!({"layer.1.0": file, "layer.1.99": file}));
    let cause = rig.refused("index.json", ErrorKind::Corrupt);
    assert!(
        cause.contains("\"layer.1.99\"") && cause.contains(file),
        "{cause}"
    );
    index(serde_json::json!({"layer.1.0": file, "layer.1.1": "missing"}));
    rig.refused("index.json", ErrorKind::NotFound);
    index(serde_json::json!({"layer.1.0": "../model-00001-of-00003.safetensors"}));
    rig.refused("index.json", ErrorKind::Corrupt);
    index(serde_json::json!({"a": "a.gguf"}));
    rig.put("a.gguf", &GgufFile::default().write().0);
    rig.refused("index.json", ErrorKind::WrongFormat);
    index(serde_json::json!({}));
    assert_eq!(rig.open("index.json").expect("empty").tensors().len(), 0);
    let long = std::fs::File::create(rig.folder.path().join("index.json")).expect("a file");
    long.set_len(100_000_001).expect("a hole");
    assert!(
        rig.refused("index.json", ErrorKind::Corrupt)
            .contains("longer")
    );
    rig.refused("none.json", ErrorKind::NotFound);
}

/// A file of a split model with some tensors.
fn part(number: u16, count: u16, tensors: Option<i32>) -> GgufFile {
    let mut random = fastrand::Rng::with_seed(number.into());
    let mut file = GgufFile::default()
        .pair("split.no", Written::U16(number))
        .pair("split.count", Written::U16(count));
    if let Some(tensors) = tensors {
        file = file.pair("split.tensors.count", Written::I32(tensors));
    }
    for nth in 0..5 {
        file = file.tensor(gguf_tensor(&mut random, &format!("blk.{number}.{nth}")));
    }
    file
}

#[test]
fn a_split_model_is_opened_by_its_first_file() {
    let rig = Rig::new();
    let name = |number: u16| format!("m-{:05}-of-00003.gguf", number + 1);
    let mut all = Vec::new();
    for number in 0..3 {
        let file = part(number, 3, Some(15));
        rig.put(&name(number), &file.write().0);
        all.extend(file.tensors.into_iter().map(|it| (it.name, it.data)));
    }
    for path in [&*name(0), ""] {
        let model = rig.open(path).expect("opened");
        assert_eq!(model.files().len(), 3);
        rig.check(&model, &all);
    }
    let cause = rig.refused(&name(1), ErrorKind::InvalidArgument);
    assert!(cause.contains("open the first"), "{cause}");

    let refused = |number: u16, file: GgufFile, expected: &str| {
        rig.put(&name(number), &file.write().0);
        let cause = rig.refused(&name(0), ErrorKind::Corrupt);
        assert!(cause.contains(expected), "{cause}");
        rig.put(&name(number), &part(number, 3, Some(15)).write().0);
    };
    refused(
        0,
        part(0, 3, Some(16)),
        "16 tensors are declared, but the files have 15",
    );
    refused(
        0,
        part(0, 4, None),
        "the name does not end with -00001-of-00004.gguf",
    );
    refused(2, part(1, 3, None), "not file 3 of 3");
    refused(2, part(2, 4, None), "not file 3 of 3");
    refused(2, GgufFile::default(), "not file 3 of 3");
    let mut twice = part(2, 3, None);
    twice.tensors[0].name = String::from("blk.0.0");
    refused(2, twice, "the tensor \"blk.0.0\" appears twice");
    std::fs::remove_file(rig.folder.path().join(name(2))).expect("removed");
    rig.refused(&name(0), ErrorKind::NotFound);
}

#[test]
fn headers_beyond_the_first_read_are_read_again() {
    let rig = Rig::new();
    let tokens = (0..300_000u32).map(|nth| Written::String(nth.to_le_bytes().to_vec()));
    let file = GgufFile::default()
        .pair("tokens", Written::Array(8, tokens.collect()))
        .tensor(GgufTensor::new("a", &[8], 0, vec![1; 32]));
    rig.put("a.gguf", &file.write().0);
    rig.check(
        &rig.open("a.gguf").expect("opened"),
        &[(String::from("a"), vec![1; 32])],
    );

    let one = |nth| (format!("experts.{nth}"), "U8", vec![1], vec![nth as u8]);
    let tensors: Tensors = (0..18_867).map(one).collect();
    rig.put("b.safetensors", &safetensors_file(&tensors));
    let model = rig.open("b.safetensors").expect("opened");
    let loaded = model.load(&rig.queue, tensors.iter().map(|tensor| &*tensor.0));
    let loaded = loaded.expect("loaded");
    assert!(
        tensors
            .iter()
            .all(|tensor| loaded.get(&tensor.0) == Some(&tensor.3))
    );
}

#[test]
fn what_is_no_model_is_refused_with_its_path() {
    let rig = Rig::new();
    rig.put("empty", b"");
    rig.put("text", b"neither of the two");
    rig.put("cut", &safetensors_file(&shard(1))[..40]);
    rig.put("cut.gguf", &part(0, 1, None).write().0[..100]);
    let mut old = part(0, 1, None);
    old.version = 1;
    rig.put("old.gguf", &old.write().0);
    rig.refused("empty", ErrorKind::WrongFormat);
    rig.refused("text", ErrorKind::WrongFormat);
    rig.refused("cut", ErrorKind::Corrupt);
    rig.refused("cut.gguf", ErrorKind::Corrupt);
    rig.refused("old.gguf", ErrorKind::WrongFormat);
    rig.refused("none", ErrorKind::NotFound);
}

#[test]
fn a_file_that_shrinks_fails_its_reads_and_no_other() {
    let rig = Rig::new();
    let bytes = vec![7; 3 << 20];
    let tensors: Tensors = vec![
        (
            String::from("a"),
            "U8",
            vec![1 << 20],
            bytes[..1 << 20].to_vec(),
        ),
        (String::from("b"), "U8", vec![3 << 20], bytes.clone()),
        (String::from("c"), "U8", vec![3 << 20], bytes),
    ];
    rig.put("m", &safetensors_file(&tensors));
    let model = rig.open("m").expect("opened");
    let path = rig.folder.path().join("m");
    let file = std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("a file");
    file.set_len(2 << 20).expect("truncated");
    let error = model
        .load(&rig.queue, ["a", "b", "c"])
        .expect_err("it shrank");
    assert_eq!(error.kind(), ErrorKind::PastEnd, "{error}");
    assert_eq!(error.path(), Some(Path::new(&path)));
    let loaded = model.load(&rig.queue, ["a"]).expect("it is still there");
    assert_eq!(loaded.get("a").map(<[u8]>::len), Some(1 << 20));
    assert!(loaded.get("b").is_none());
    // What was in flight is canceled.
    let drained = rig.queue.drain(Some(Duration::from_secs(20)));
    assert!(drained.expect("it is open"));
}

#[test]
fn dropping_a_model_closes_its_files() {
    let rig = Rig::new();
    rig.put("m", &safetensors_file(&shard(1)));
    let model = rig.open("m").expect("opened");
    let id = model.files()[0].id;
    drop(model);
    let read = || rig.storage.read(id, 0..1).map_err(|error| error.kind());
    let is_closed = || read().err() == Some(ErrorKind::StaleFile);
    assert!(millstream_testing::wait_for(is_closed));
    let model = rig.open("m").expect("opened");
    rig.storage.close(Duration::from_secs(20));
    let closed = model
        .load(&rig.queue, ["layer.1.1"])
        .map_err(|error| error.kind());
    assert_eq!(closed.err(), Some(ErrorKind::Closed));
}

#[test]
fn a_model_is_used_by_any_thread() {
    fn is_of_any_thread<T: Send + Sync>() {}
    is_of_any_thread::<Model>();
}
