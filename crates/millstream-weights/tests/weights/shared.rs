//! A model that several loaders, as processes are, load together.
#![expect(unsafe_code, reason = "looks at memory that processes share")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use millstream::{Error, ErrorKind, Storage, StorageOptions};
use millstream_testing::child::{Child, ChildOutcome};
use millstream_testing::this_test;
use millstream_weights::limits::SHARED_RANGE_BYTES;
use millstream_weights::{Model, SharedModel};

use crate::files::{noise, safetensors_file};

/// A file of some ranges; what it has of two tensors.
fn put(path: &Path, seed: u64) -> Vec<(String, Vec<u8>)> {
    let mut random = Rng::with_seed(seed);
    let lens = [("a", 2 * SHARED_RANGE_BYTES + 4097), ("b", 3000)];
    let tensors = lens.map(|(name, len)| (name.to_owned(), noise(&mut random, len)));
    let described = tensors.iter().map(|(name, bytes)| {
        let (len, bytes) = (bytes.len() as u64, bytes.clone());
        (name.clone(), "U8", vec![len], bytes)
    });
    let file = safetensors_file(&described.collect::<Vec<_>>());
    std::fs::write(path, file).expect("written");
    tensors.into()
}

fn load(path: &Path, group: &str) -> Result<SharedModel, Error> {
    let storage = Storage::new(StorageOptions::default())?;
    let model = Model::open(&storage, path)?;
    SharedModel::load(&storage, &model, group, &mut || ControlFlow::Continue(()))
}

fn check(shared: &SharedModel, path: &Path, tensors: &[(String, Vec<u8>)]) {
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let model = Model::open(&storage, path).expect("opened");
    for (name, bytes) in tensors {
        let extent = model.tensor(name).expect("it is there").extent;
        // SAFETY: nothing writes to the memory of a model that is loaded.
        let found = unsafe { shared.bytes(&extent) };
        assert!(found == Some(&**bytes), "{name}");
        let mut beyond = extent;
        beyond.len = u64::MAX;
        assert!(shared.range(&beyond).is_none());
    }
}

fn group(of: &str) -> String {
    format!("test-{of}-{}", std::process::id())
}

#[test]
fn loaders_read_each_byte_once_and_the_last_removes_the_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    let tensors = put(&path, 1);
    let group = group("together");
    let loaded = std::thread::scope(|scope| {
        let start = || scope.spawn(|| load(&path, &group).expect("loaded"));
        let threads: Vec<_> = (0..4).map(|_| start()).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.collect::<Result<Vec<_>, _>>().expect("no panic")
    });
    let len = std::fs::metadata(&path).expect("it is there").len();
    let read: u64 = loaded.iter().map(SharedModel::read_bytes).sum();
    assert_eq!(read, len);
    loaded
        .iter()
        .for_each(|shared| check(shared, &path, &tensors));
    let memory = loaded[0].path().to_owned();
    for shared in loaded {
        assert!(memory.exists());
        drop(shared);
    }
    assert!(!memory.exists());
}

#[test]
fn a_group_is_of_one_model_at_a_time_and_names_are_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let tensors = put(&one, 2);
    let others = put(&other, 3);
    let group = group("names");
    let shared = load(&one, &group).expect("loaded");
    let error = load(&other, &group).expect_err("the group is in use");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    check(&shared, &one, &tensors);
    drop(shared);
    check(&load(&other, &group).expect("loaded"), &other, &others);
    for wrong in ["", "a/b", "..\0", &"x".repeat(200)] {
        let error = load(&one, wrong).expect_err("it is no name");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let model = Model::open(&storage, &one).expect("opened");
    let given_up = SharedModel::load(&storage, &model, &group, &mut || ControlFlow::Break(()));
    assert_eq!(
        given_up.map_err(|error| error.kind()).err(),
        Some(ErrorKind::Canceled)
    );
    check(&load(&one, &group).expect("loaded"), &one, &tensors);
}

#[test]
fn a_sparse_file_of_any_length_takes_no_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sparse");
    let len: u64 = 9 << 40;
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
    let head = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(&path, &head).expect("written");
    let file = std::fs::File::options().write(true).open(&path);
    let grown = file.and_then(|file| file.set_len(head.len() as u64 + len));
    if let Err(error) = grown {
        println!("SKIP: no files of {len} bytes: {error}");
        return;
    }
    let error = load(&path, &group("sparse")).expect_err("it is too long");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let model = Model::open(&storage, &path).expect("opened");
    let error = model.file_reads().expect_err("it is too long");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

/// Loads a model and is killed meanwhile; prints where the model is.
fn die(seed: u64) {
    let path = std::env::temp_dir().join(format!("millstream-die-{}", std::process::id()));
    put(&path, seed);
    println!("\nmodel {}", path.display());
    let storage = Storage::new(StorageOptions::default()).expect("a storage");
    let model = Model::open(&storage, &path).expect("opened");
    let mut calls = 0;
    let _ = SharedModel::load(&storage, &model, &group("killed"), &mut || {
        calls += 1;
        if calls == seed {
            std::process::Command::new("kill")
                .args(["-KILL", &std::process::id().to_string()])
                .status()
                .expect("it can kill itself");
        }
        ControlFlow::Continue(())
    });
}

#[test]
fn what_a_process_had_begun_when_it_was_killed_is_read_by_the_next() {
    for (case, calls) in [("at once", 1), ("later", 2)] {
        let child = Child::of(this_test!()).case(case);
        let outcome = match child.outcome(|| die(calls)) {
            Ok(ChildOutcome::Failed(outcome)) => outcome,
            Ok(ChildOutcome::WasChild) => continue,
            other => panic!("it kills itself: {other:?}"),
        };
        let path = outcome.lines().find_map(|line| line.strip_prefix("model "));
        let path = PathBuf::from(path.expect("it says where"));
        let id = path.to_string_lossy();
        let (_, id) = id.rsplit_once('-').expect("its number");
        let shared = load(&path, &format!("test-killed-{id}")).expect("loaded");
        let len = std::fs::metadata(&path).expect("it is there").len();
        assert!(shared.read_bytes() <= len);
        let tensors = put(&path, calls);
        check(&shared, &path, &tensors);
        let memory = shared.path().to_owned();
        drop(shared);
        assert!(!memory.exists());
        std::fs::remove_file(&path).expect("removed");
    }
}
