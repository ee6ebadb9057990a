//! Folders with inputs, and the commands that write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{expect_status, millstream, mixed_bytes, run};

/// What is in an output that a command will replace.
pub(crate) const OLD: &[u8] = b"the old content";

/// A command that writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Its words; inputs are in `../in`.
    pub(crate) words: &'static str,
    /// The files that it writes.
    pub(crate) outputs: &'static [&'static str],
}

pub(crate) const COMPRESS: Case = case("compress --codec lz4 ../in/text out", &["out"]);
pub(crate) const PACK: Case = case("pack ../in/tree -o out", &["out"]);
/// Long enough for direct writes.
pub(crate) const PACK_LONG: Case = case("pack --codec stored ../in/long -o out", &["out"]);
pub(crate) const DIFF: Case = case("diff ../in/a.mpak ../in/b.mpak -o out", &["out"]);
pub(crate) const EXTRACT: Case = case(
    "extract ../in/a.mpak out",
    &["out/one", "out/sub/deep/three", "out/sub/two"],
);

/// All that writes but those above, and `man`, which writes as `decode` does, many times.
pub(crate) const OTHERS: [Case; 4] = [
    case("decompress --codec lz4 ../in/text.lz4 out", &["out"]),
    case("decode ../in/image.pgm out", &["out"]),
    case("report ../in/trace.json -o out", &["out"]),
    case("load ../in/tree --trace out", &["out"]),
];

const fn case(words: &'static str, outputs: &'static [&'static str]) -> Case {
    Case { words, outputs }
}

/// The content of files by their names.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Folders for the runs of a case.
pub(crate) struct Setting {
    case: Case,
    folder: TempDir,
    /// Whether there are old files to be replaced.
    replaces: bool,
    /// What the command makes; not of a trace, which tells times.
    new: Files,
}

impl Setting {
    pub(crate) fn new(case: Case, replaces: bool) -> Setting {
        let folder = tempfile::tempdir().expect("a temporary folder");
        make_inputs(&folder.path().join("in"), case);
        let mut setting = Setting {
            case,
            folder,
            replaces,
            new: Files::new(),
        };
        setting.reset();
        setting.run_well();
        setting.new = setting.files();
        let outputs = setting.new.keys().map(String::as_str);
        assert!(outputs.eq(case.outputs.iter().copied()), "{case:?}");
        setting
    }

    /// Where the command runs, and all that it writes.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn command(&self) -> Command {
        let words: Vec<&str> = self.case.words.split(' ').collect();
        let mut command = millstream(&words);
        command.current_dir(self.work());
        command
    }

    /// Removes what was made, and puts the old files there.
    pub(crate) fn reset(&self) {
        let work = self.work();
        let _ = std::fs::remove_dir_all(&work);
        std::fs::create_dir(&work).expect("a folder");
        if !self.replaces {
            return;
        }
        for name in self.case.outputs {
            let path = work.join(name);
            let folder = path.parent().expect("below the folder");
            std::fs::create_dir_all(folder).expect("a folder");
            std::fs::write(path, OLD).expect("a file");
        }
    }

    /// Runs the command without a fault.
    pub(crate) fn run_well(&self) {
        expect_status(&run(&mut self.command()), 0);
    }

    /// All files that are there now, temporary ones too.
    pub(crate) fn files(&self) -> Files {
        let mut files = Files::new();
        let root = self.work();
        collect(&root, &root, &mut files);
        files
    }

    /// Fails the test unless an output is the old one or the new one; whether it is the new one.
    pub(crate) fn is_new(&self, name: &str, files: &Files, what: &str) -> bool {
        match files.get(name) {
            None => assert!(!self.replaces, "{what}: {name} is gone"),
            Some(content) if content == OLD => assert!(self.replaces, "{what}: {name}"),
            Some(content) => {
                let whole = match self.case.words.contains("--trace") {
                    true => serde_json::from_slice::<serde_json::Value>(content).is_ok(),
                    false => *content == self.new[name],
                };
                assert!(whole, "{what}: {name} is neither old nor new");
                return true;
            }
        }
        false
    }

    /// Fails the test unless all outputs are old or new.
    pub(crate) fn expect_whole(&self, what: &str) {
        let files = self.files();
        for name in self.case.outputs {
            self.is_new(name, &files, what);
        }
    }

    /// Fails the test unless all outputs are new, and nothing else is there.
    pub(crate) fn expect_new(&self, what: &str) {
        let files = self.files();
        self.expect_no_others(&files, what);
        for name in self.case.outputs {
            assert!(self.is_new(name, &files, what), "{what}: {name} is old");
        }
    }

    /// Fails the test if there are other files than outputs.
    pub(crate) fn expect_no_others(&self, files: &Files, what: &str) {
        for name in files.keys() {
            let is_output = self.case.outputs.contains(&name.as_str());
            assert!(is_output, "{what}: leaves {name}");
        }
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
            continue;
        }
        let name = path.strip_prefix(root).expect("below").to_string_lossy();
        files.insert(name.into_owned(), std::fs::read(&path).expect("a file"));
    }
}

fn make_inputs(folder: &Path, case: Case) {
    let tree = folder.join("tree");
    std::fs::create_dir_all(tree.join("sub/deep")).expect("a folder");
    let put = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).expect("a file");
    };
    let make = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        expect_status(&run(millstream(&words).current_dir(folder)), 0);
    };
    put("text", &mixed_bytes(1, 60_000));
    put("tree/one", &mixed_bytes(2, 9_000));
    put("tree/sub/two", &mixed_bytes(3, 20_000));
    put("tree/sub/deep/three", b"three");
    make("pack tree -o a.mpak");
    match case.words.split(' ').next() {
        Some("diff") => {
            put("tree/sub/two", &mixed_bytes(4, 20_000));
            make("pack tree -o b.mpak");
        }
        Some("pack") if case.words.contains("long") => {
            std::fs::create_dir(folder.join("long")).expect("a folder");
            put("long/file", &mixed_bytes(5, 18 << 20));
        }
        Some("decompress") => make("compress --codec lz4 text text.lz4"),
        Some("decode") => put(
            "image.pgm",
            &[&b"P5 100 100 255\n"[..], &[7; 10_000]].concat(),
        ),
        Some("report") => make("load tree --trace trace.json"),
        _ => {}
    }
}
