//! Archives of other programs, wherever a package may be named.

use std::path::{Path, PathBuf};

use crate::common::{errors, expect_quiet_success, expect_status, millstream, mixed_bytes, run};
use crate::zip::{Around, DEFLATE, Entry, Pck, STORED, entry, godot, quake, zip};

/// Names and contents.
fn contents() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("readme.txt", b"read me".to_vec()),
        ("maps/dm1.bsp", mixed_bytes(1, 3_000_000)),
        ("maps/empty", Vec::new()),
        ("sound/shot.wav", mixed_bytes(2, 70_000)),
    ]
}

fn entries() -> Vec<Entry> {
    let of = |(nth, (name, raw)): (usize, (&str, Vec<u8>))| {
        let method = if nth % 2 == 0 { STORED } else { DEFLATE };
        let mut one = entry(name, raw, method);
        one.mode = Some(if nth == 0 { 0o100_755 } else { 0o100_644 });
        one
    };
    contents().into_iter().enumerate().map(of).collect()
}

/// An archive of each kind.
fn archives(folder: &Path) -> Vec<PathBuf> {
    let pck = |version| Pck {
        version,
        flags: 0,
        entry_flags: 0,
    };
    let program = Around {
        ahead: b"MZ: a program that unpacks itself".to_vec(),
        ..Around::default()
    };
    let made = [
        ("a.pk3", zip(&entries(), &Around::default()).bytes),
        ("a.exe", zip(&entries(), &program).bytes),
        ("a.pak", quake(&contents())),
        ("a.pck", godot(&contents(), pck(1))),
        ("b.pck", godot(&contents(), pck(2))),
    ];
    let put = |(name, bytes): (&str, Vec<u8>)| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    made.into_iter().map(put).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("ASCII")
}

#[test]
fn every_command_takes_an_archive_where_it_takes_a_package() {
    let root = tempfile::tempdir().expect("a folder");
    let tree = root.path().join("tree");
    for (name, raw) in contents() {
        let path = tree.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, raw).expect("written");
    }
    let loaded = run(&mut millstream(&["load", "--hash", text(&tree)]));
    expect_quiet_success(&loaded);
    for archive in archives(root.path()) {
        let name = text(&archive);
        if !name.ends_with(".exe") {
            let hashed = run(&mut millstream(&["load", "--hash", name]));
            expect_quiet_success(&hashed);
            assert_eq!(hashed.stdout, loaded.stdout, "{name}");
        }
        let listed = run(&mut millstream(&["list", "--json", name]));
        expect_quiet_success(&listed);
        let rows: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        let mut sorted = contents();
        sorted.sort();
        for (row, (entry, raw)) in rows.as_array().expect("rows").iter().zip(&sorted) {
            assert_eq!(
                (&row["name"], &row["raw_bytes"]),
                (&(*entry).into(), &raw.len().into())
            );
        }
        assert_eq!(rows.as_array().expect("rows").len(), 4);
        let shown = run(&mut millstream(&["cat", name, "sound/shot.wav"]));
        expect_quiet_success(&shown);
        assert!(shown.stdout == contents()[3].1, "{name}");
        let verified = run(&mut millstream(&["verify", "--json", name]));
        expect_quiet_success(&verified);
        let document: serde_json::Value = serde_json::from_slice(&verified.stdout).expect("JSON");
        assert_eq!(
            (&document["entries"], &document["failed"]),
            (&4.into(), &0.into())
        );
        let out = root.path().join("out");
        expect_quiet_success(&run(&mut millstream(&["extract", name, text(&out)])));
        let again = run(&mut millstream(&["load", "--hash", text(&out)]));
        assert_eq!(again.stdout, loaded.stdout, "{name}");
        std::fs::remove_dir_all(&out).expect("removed");
        expect_quiet_success(&run(&mut millstream(&[
            "extract",
            name,
            text(&out),
            "maps",
        ])));
        assert!(out.join("maps/dm1.bsp").exists() && !out.join("sound").exists());
        std::fs::remove_dir_all(&out).expect("removed");
        let package = root.path().join("made.mpak");
        expect_quiet_success(&run(&mut millstream(&["pack", name, "-o", text(&package)])));
        let packed = run(&mut millstream(&["load", "--hash", text(&package)]));
        assert_eq!(packed.stdout, loaded.stdout, "{name}");
    }
}

#[test]
fn an_executable_of_a_zip_is_extracted_as_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().expect("a folder");
    let archive = &archives(root.path())[0];
    let out = root.path().join("out");
    expect_quiet_success(&run(&mut millstream(&[
        "extract",
        text(archive),
        text(&out),
    ])));
    let mode = |name: &str| {
        std::fs::metadata(out.join(name))
            .expect("there")
            .permissions()
            .mode()
    };
    assert_ne!(mode("readme.txt") & 0o100, 0);
    assert_eq!(mode("maps/dm1.bsp") & 0o100, 0);
}

#[test]
fn names_are_found_without_case_if_asked() {
    let root = tempfile::tempdir().expect("a folder");
    let archive = &archives(root.path())[0];
    let name = text(archive);
    let exact = run(&mut millstream(&["cat", name, "README.TXT"]));
    assert!(expect_status(&exact, 1).contains("the archive has no entry 'README.TXT'"));
    let folded = run(&mut millstream(&["cat", "--fold-case", name, "README.TXT"]));
    expect_quiet_success(&folded);
    assert_eq!(folded.stdout, b"read me");
    let out = root.path().join("out");
    let words = ["extract", "--fold-case", name, text(&out), "MAPS/*"];
    expect_quiet_success(&run(&mut millstream(&words)));
    assert!(out.join("maps/dm1.bsp").exists());
    let none = run(&mut millstream(&["extract", name, text(&out), "MAPS/*"]));
    assert!(expect_status(&none, 1).contains("no entry matches 'MAPS/*'"));
}

#[test]
fn damage_is_a_failure_that_names_the_entry_and_leaves_the_others() {
    let root = tempfile::tempdir().expect("a folder");
    let mut made = zip(&entries(), &Around::default());
    // The last bytes of the map, which is deflated.
    made.bytes[made.locals[2] - 2] ^= 0x55;
    let archive = root.path().join("a.pk3");
    std::fs::write(&archive, &made.bytes).expect("written");
    let (name, out) = (text(&archive), root.path().join("out"));
    for words in [
        &["load", name][..],
        &["verify", name],
        &["cat", name, "maps/dm1.bsp"],
        &["extract", name, text(&out)],
        &["pack", name, "-o", text(&root.path().join("made.mpak"))],
    ] {
        let told = expect_status(&run(&mut millstream(words)), 1);
        assert!(
            told.contains("entry 'maps/dm1.bsp'") && told.contains(name),
            "{words:?}: {told}"
        );
    }
    assert!(out.join("sound/shot.wav").exists() && !out.join("maps/dm1.bsp").exists());
    assert!(!root.path().join("made.mpak").exists());
}

#[test]
fn a_name_that_leads_out_writes_nothing_anywhere() {
    let root = tempfile::tempdir().expect("a folder");
    let archive = root.path().join("a.zip");
    let all = [entry("ok", b"1", STORED), entry("../evil", b"2", STORED)];
    std::fs::write(&archive, zip(&all, &Around::default()).bytes).expect("written");
    let out = root.path().join("out");
    let package = root.path().join("made.mpak");
    for words in [
        &["extract", text(&archive), text(&out)][..],
        &["verify", text(&archive)],
        &["load", text(&archive)],
        &["pack", text(&archive), "-o", text(&package)],
    ] {
        let told = expect_status(&run(&mut millstream(words)), 1);
        assert!(
            told.contains("entry '../evil'") && told.contains("`..`"),
            "{told}"
        );
    }
    let listed = run(&mut millstream(&["list", text(&archive)]));
    assert!(expect_status(&listed, 0).contains("entry '../evil'"));
    // The others are extracted.
    assert!(!root.path().join("evil").exists() && out.join("ok").exists() && !package.exists());
    // What no package may have, but an archive may, is refused where files are made of it.
    let all = [entry("ok", b"1", STORED), entry("aux.txt", b"2", STORED)];
    std::fs::write(&archive, zip(&all, &Around::default()).bytes).expect("written");
    expect_quiet_success(&run(&mut millstream(&["load", text(&archive)])));
    let told = run(&mut millstream(&["extract", text(&archive), text(&out)]));
    assert!(expect_status(&told, 1).contains("'aux.txt'"));
    assert!(out.join("ok").exists() && !out.join("aux.txt").exists());
    let package = root.path().join("made.mpak");
    let told = run(&mut millstream(&[
        "pack",
        text(&archive),
        "-o",
        text(&package),
    ]));
    assert!(expect_status(&told, 1).contains("'aux.txt'"));
}

#[test]
fn duplicates_are_reported_and_the_last_is_used() {
    let root = tempfile::tempdir().expect("a folder");
    let archive = root.path().join("a.zip");
    let all = [entry("a", b"old", STORED), entry("a", b"new", DEFLATE)];
    std::fs::write(&archive, zip(&all, &Around::default()).bytes).expect("written");
    let shown = run(&mut millstream(&["cat", text(&archive), "a"]));
    assert_eq!(
        (shown.status.code(), &shown.stdout[..]),
        (Some(0), &b"new"[..])
    );
    assert!(errors(&shown).contains("lists 1 name several times, the first: 'a'"));
}

#[test]
fn raw_bytes_are_bounded_as_those_of_packages() {
    let root = tempfile::tempdir().expect("a folder");
    let archive = root.path().join("a.zip");
    let all = [entry("zeros", vec![0; 3 << 20], DEFLATE)];
    std::fs::write(&archive, zip(&all, &Around::default()).bytes).expect("written");
    let (name, out) = (text(&archive), root.path().join("out"));
    for words in [
        &["load", name, "--max-bytes", "1M"][..],
        &["verify", name, "--max-bytes", "1M"],
        &["extract", name, text(&out), "--max-bytes", "1M"],
    ] {
        let told = expect_status(&run(&mut millstream(words)), 1);
        assert!(
            told.contains("more than 1048576 raw bytes"),
            "{words:?}: {told}"
        );
    }
    assert!(!out.join("zeros").exists());
}

#[test]
fn what_only_packages_have_is_refused_for_archives() {
    let root = tempfile::tempdir().expect("a folder");
    let archive = &archives(root.path())[0];
    let (name, out) = (text(archive), root.path().join("made.mpak"));
    for (words, status) in [
        (&["verify", name, "--min-version", "1"][..], 1),
        (&["load", name, "--min-version", "1"], 1),
        (&["verify", name, "--base", name], 2),
        (&["cat", name, "readme.txt", "--base", name], 2),
        (&["extract", name, text(&out), "--base", name], 2),
        (&["pack", name, "-o", text(&out), "--exclude", "*.wav"], 2),
        (&["pack", name, "-o", name], 1),
        (&["list", text(&root.path().join("missing.pk3"))], 1),
    ] {
        let told = expect_status(&run(&mut millstream(words)), status);
        assert!(!told.is_empty(), "{words:?}");
        assert!(!out.exists());
    }
    // A damaged archive is reported as one.
    std::fs::write(archive, b"PK\x03\x04 and no directory").expect("written");
    let told = expect_status(&run(&mut millstream(&["list", name])), 1);
    assert!(told.contains("a zip's directory is there"), "{told}");
}
