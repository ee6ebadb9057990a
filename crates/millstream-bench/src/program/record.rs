//! Earlier runs on this machine, for the page of a benchmark: the folder of `bench/record/` whose
//! `machine.json` names this processor and as many cores.
//!
//! What cannot be read is left out and listed among the facts: by then a benchmark has run, and its
//! page matters more than its past.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use millstream_io::fs::probe;
use millstream_report::record::{self, Version};
use millstream_report::rows;
use serde_json::Value;

/// Where records stand, below the folder that the program was started in.
const FOLDER: &str = "bench/record";

/// The record of this machine.
#[derive(Default)]
pub(crate) struct Record {
    /// Its versions, the oldest first.
    pub(crate) versions: Vec<Version>,
    /// What could not be read, and why.
    pub(crate) left_out: Vec<String>,
}

/// The record of this machine, but for the rows in the file `without`.
pub(crate) fn of_this_machine(without: Option<&Path>) -> Record {
    let machine = probe::machine();
    let this = (machine.cpu.as_deref(), machine.cpus as u64);
    read(Path::new(FOLDER), this, without)
}

fn read(root: &Path, this: (Option<&str>, u64), without: Option<&Path>) -> Record {
    let mut record = Record::default();
    let without = without.and_then(|path| path.canonicalize().ok());
    for folder in sorted(root) {
        let Ok(text) = fs::read(folder.join("machine.json")) else {
            continue;
        };
        let machine = match serde_json::from_slice::<Value>(&text) {
            Ok(document) => document["machine"].clone(),
            Err(error) => {
                let path = folder.join("machine.json");
                record.left_out.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        if (machine["cpu"].as_str(), machine["cpus"].as_u64()) != (this.0, Some(this.1)) {
            continue;
        }
        for path in sorted(&folder) {
            let is_rows = path.extension() == Some(OsStr::new("jsonl"));
            if !is_rows || path.canonicalize().ok() == without && without.is_some() {
                continue;
            }
            let text = fs::read(&path).map_err(|error| error.to_string());
            let rows = text.and_then(|it| rows::parse(&it).map_err(|error| error.to_string()));
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            match rows {
                Ok(rows) => record.versions.push(Version {
                    name: name.into_owned(),
                    rows,
                }),
                Err(cause) => record.left_out.push(format!("{}: {cause}", path.display())),
            }
        }
    }
    record::arrange(&mut record.versions);
    record
}

/// What a folder holds, by name; nothing if it cannot be read.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = concat!(
        r#"{"workload":"read","case":"cold","contender":"millstream","metric":"rate","#,
        r#""unit":"MB/s","better":"higher","n":3,"min":1,"median":2,"mean":2,"max":3,"#,
        r#""ci95":1,"params":{}}"#
    );

    #[test]
    fn only_runs_of_this_machine_are_taken_in_order_of_their_versions() {
        let root = tempfile::tempdir().expect("made");
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("ours/machine.json", r#"{"machine":{"cpu":"A","cpus":2}}"#);
        for version in ["0.10.0", "0.2.0", "0.3.0"] {
            write(&format!("ours/{version}.jsonl"), ROW);
        }
        write("ours/0.4.0.jsonl", "no row");
        write("theirs/machine.json", r#"{"machine":{"cpu":"A","cpus":8}}"#);
        write("theirs/0.1.0.jsonl", ROW);
        write("odd/machine.json", "{");
        write("none/0.1.0.jsonl", ROW);
        let without = root.path().join("ours/0.3.0.jsonl");
        let record = read(root.path(), (Some("A"), 2), Some(&without));
        let names: Vec<&str> = record.versions.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["0.2.0", "0.10.0"]);
        assert_eq!(record.left_out.len(), 2, "{:?}", record.left_out);
        assert!(
            read(&root.path().join("nowhere"), (None, 1), None)
                .versions
                .is_empty()
        );
    }
}
