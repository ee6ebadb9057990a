//! Writes that are not synced are found: each of these programs loses something.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use millstream_testing::calls::{Call, Op};

use super::{Disk, Recording};

fn call(path: &str, inode: u64, op: Op) -> Call {
    let result = Some(match &op {
        Op::Write { bytes, .. } => bytes.len() as i64,
        _ => 0,
    });
    Call {
        name: "",
        path: PathBuf::from(path),
        inode: Some(inode),
        op,
        result,
    }
}

/// What is under the name `/f/out` after crashes, and after the end; `_` for no file.
fn outcomes(calls: &[Call]) -> [String; 2] {
    let before = BTreeMap::from([(PathBuf::from("/f/out"), b"old".to_vec())]);
    let (mut during, mut after) = (BTreeSet::new(), BTreeSet::new());
    let mut check = |disk: &Disk, ended: bool| {
        let content = disk.content(Path::new("/f/out")).unwrap_or(b"_");
        let content = String::from_utf8_lossy(content).into_owned();
        if ended {
            after.insert(content.clone());
        }
        during.insert(content);
    };
    Recording::new(&before, calls).crash(10, &mut |order| order.reverse(), &mut check);
    [during, after].map(|set| set.into_iter().collect::<Vec<_>>().join(" "))
}

/// Replacing a file, as it is done right.
fn replacement() -> Vec<Call> {
    let bytes = b"new".to_vec();
    vec![
        call("/f/t", 7, Op::Create { unnamed: false }),
        call("/f/t", 7, Op::Write { offset: 0, bytes }),
        call("/f/t", 7, Op::Sync),
        call("/f/t", 7, Op::Rename(PathBuf::from("/f/out"))),
        call("/f", 2, Op::Sync),
    ]
}

#[test]
fn a_replacement_is_old_or_new_and_new_in_the_end() {
    assert_eq!(outcomes(&replacement()), ["new old", "new"]);
    let mut unnamed = replacement();
    unnamed[0].op = Op::Create { unnamed: true };
    unnamed.insert(3, call("/f/#7", 7, Op::Link(PathBuf::from("/f/t"))));
    assert_eq!(outcomes(&unnamed), ["new old", "new"]);
}

#[test]
fn a_sync_that_is_missing_failed_or_late_is_found() {
    let mut calls = replacement();
    calls.remove(2);
    assert_eq!(outcomes(&calls), [" new old", " new"], "the content");
    let mut calls = replacement();
    calls[2].result = Some(-5);
    assert_eq!(outcomes(&calls), [" new old", " new"], "a sync that failed");
    let mut calls = replacement();
    calls.remove(4);
    assert_eq!(outcomes(&calls), ["new old", "new old"], "the folder");
    let mut calls = replacement();
    calls[4] = call("/", 1, Op::Sync);
    assert_eq!(outcomes(&calls), ["new old", "new old"], "another folder");
    let mut calls = replacement();
    calls.swap(2, 3);
    assert_eq!(outcomes(&calls), [" new old", "new"], "after the rename");
    let mut calls = replacement();
    calls.remove(2);
    calls[3].op = Op::SyncAll;
    assert_eq!(
        outcomes(&calls),
        [" new old", "new"],
        "all at once, after the rename"
    );
}

#[test]
fn a_file_that_is_written_in_place_and_a_name_in_a_new_folder_are_lost() {
    let bytes = b"new".to_vec();
    let in_place = [
        call("/f/out", 5, Op::Create { unnamed: false }),
        call("/f/out", 5, Op::Write { offset: 0, bytes }),
        call("/f/out", 5, Op::Sync),
    ];
    assert_eq!(outcomes(&in_place), [" new old", "new"]);
    let mut renamed = replacement();
    renamed[3].op = Op::Rename(PathBuf::from("/f/out/sub"));
    renamed.insert(3, call("/f/out", 9, Op::MakeFolder));
    let before = BTreeMap::new();
    let mut lost = false;
    let name = Path::new("/f/out/sub");
    let mut check = |disk: &Disk, ended: bool| {
        lost |= ended && disk.content(name).is_none();
    };
    Recording::new(&before, &renamed).crash(1, &mut |_| (), &mut check);
    assert!(lost, "the name is in a folder that was not synced");
}
