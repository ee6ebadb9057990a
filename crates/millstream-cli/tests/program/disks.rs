//! Outputs on disks that are not an ordinary file system of Linux.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use millstream_pak::{Item, PackOptions, write_file};
use millstream_testing::{Call, Effect, FaultFs, LoopDevice, Rule, or_skip};

use crate::common::{
    NOBODY, SmallDisk, as_ordinary_user, expect_status, is_root, limited, millstream, names_in,
    ordinary_user_can_start, run,
};

/// A mounted file system, unmounted when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Runs a tool; says SKIP if it is missing or fails.
fn succeeds(name: &str, words: &[&Path]) -> bool {
    let done = Command::new(name).args(words).output();
    let well = done.is_ok_and(|output| output.status.success());
    if !well {
        println!("SKIP: {name} is missing, or may not do this");
    }
    well
}

/// Writes a package whose entries have their names as content.
fn pack(names: &[&str], at: &Path) {
    let items = names
        .iter()
        .map(|name| Item::from_bytes(*name, name.as_bytes()));
    write_file(items.collect(), &PackOptions::default(), at).expect("packed");
}

#[test]
fn of_names_that_a_file_system_takes_for_one_the_first_is_extracted() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let names = ["README", "readme", "Data/Level", "data/level", "data/other"];
    pack(&names, &at("p.mpak"));
    std::fs::create_dir(at("m")).expect("made");
    let disk = or_skip!(LoopDevice::new(16 << 20));
    if !succeeds("mkfs.exfat", &[disk.path()])
        || !succeeds("mount.exfat-fuse", &[disk.path(), &at("m")])
    {
        return;
    }
    let _mounted = Mounted(at("m"));
    // A second run replaces what the first has written.
    for _ in 0..2 {
        let output = run(millstream(&["extract", "p.mpak", "m/x"]).current_dir(folder.path()));
        let errors = expect_status(&output, 1);
        assert!(errors.contains("2 failures, the first: m/x/"), "{errors}");
        assert!(errors.contains("takes both names for one"), "{errors}");
        assert_eq!(names_in(&at("m/x")).len(), 2);
        for name in ["README", "data/level", "data/other"] {
            let bytes = std::fs::read(at("m/x").join(name)).expect("extracted");
            assert!(bytes.eq_ignore_ascii_case(name.as_bytes()), "{name}");
        }
    }
}

#[test]
fn a_folder_below_may_be_another_mount_and_gives_its_files_its_group() {
    if !is_root() {
        println!("SKIP: mounts and groups of others need root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    pack(&["a", "mount/b", "mount/c/d", "group/e"], &at("p.mpak"));
    std::fs::create_dir_all(at("x/mount")).expect("made");
    std::fs::create_dir_all(at("x/group")).expect("made");
    std::os::unix::fs::chown(at("x/group"), None, Some(NOBODY)).expect("made by root");
    let set_group = std::fs::Permissions::from_mode(0o2755);
    std::fs::set_permissions(at("x/group"), set_group).expect("ours");
    let Some(_disk) = SmallDisk::mount(&at("x/mount"), 1 << 20) else {
        return;
    };
    let output = run(millstream(&["extract", "p.mpak", "x"]).current_dir(folder.path()));
    expect_status(&output, 0);
    for name in ["a", "mount/b", "mount/c/d", "group/e"] {
        let bytes = std::fs::read(at("x").join(name)).expect("extracted");
        assert_eq!(bytes, name.as_bytes());
    }
    assert_eq!(names_in(&at("x/mount")), ["b", "c"]);
    assert_eq!(
        std::fs::metadata(at("x/group/e")).expect("there").gid(),
        NOBODY
    );
}

#[test]
fn more_folders_than_descriptors_are_extracted() {
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = (0..400).map(|nth| format!("{nth}/file")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    pack(&names, &folder.path().join("p.mpak"));
    let mut command = limited("-n 80", &["extract", "p.mpak", "x"]);
    expect_status(&run(command.current_dir(folder.path())), 0);
    for name in names {
        let bytes = std::fs::read(folder.path().join("x").join(name)).expect("extracted");
        assert_eq!(bytes, name.as_bytes());
    }
}

#[test]
fn a_folder_full_of_temporary_names_is_written_in_several_groups() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["a", "b", "c", "d", "e", "f"];
    pack(&names, &folder.path().join("p.mpak"));
    let disk = or_skip!(FaultFs::mount(&[]));
    // FAT has room for a number of names in a folder, and for fewer long ones.
    let full = Effect::Fail(rustix::io::Errno::NOSPC.raw_os_error());
    disk.inject(Rule::on(Call::Create, full).after(4).times(1));
    let mut command = millstream(&["extract", "p.mpak"]);
    let output = run(command.arg(disk.root()).current_dir(folder.path()));
    expect_status(&output, 0);
    assert_eq!(disk.names(), names);
}

#[test]
fn a_file_is_replaced_where_its_mode_cannot_be_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["under", "m"] {
        std::fs::create_dir(at(name)).expect("made");
    }
    let deny = Path::new("--chmod-deny");
    if !succeeds("bindfs", &[deny, &at("under"), &at("m")]) {
        return;
    }
    let _mounted = Mounted(at("m"));
    for content in ["first", "second"] {
        std::fs::write(at("in"), content).expect("written");
        let mut command = millstream(&["compress", "--codec", "lz4", "in", "m/out"]);
        expect_status(&run(command.current_dir(folder.path())), 0);
        let mut command = millstream(&["decompress", "--codec", "lz4", "m/out", "-"]);
        let output = run(command.current_dir(folder.path()));
        assert_eq!(output.stdout, content.as_bytes());
    }
}

/// The file `out`, which user `NOBODY` may write, in a folder that only root may.
fn fixed(folder: &Path) {
    std::fs::write(folder.join("in"), [7; 5000]).expect("written");
    std::fs::write(folder.join("out"), [1; 9000]).expect("written");
    std::os::unix::fs::chown(folder.join("out"), Some(NOBODY), None).expect("made by root");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, mode).expect("ours");
}

#[test]
fn a_file_that_cannot_be_replaced_is_written_in_place_if_asked_for() {
    if !is_root() || !ordinary_user_can_start() {
        println!("SKIP: files of other users need root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let call = |words: &[&str]| {
        let mut command = millstream(words);
        run(as_ordinary_user(&mut command).current_dir(folder.path()))
    };
    fixed(folder.path());
    let words = ["compress", "--codec", "lz4", "in", "out"];
    let errors = expect_status(&call(&words), 1);
    assert!(
        errors.contains("written into, as --in-place does"),
        "{errors}"
    );
    assert_eq!(std::fs::read(at("out")).expect("kept"), [1; 9000]);
    // What fails before the first byte leaves the old file.
    let decompress = ["decompress", "--codec", "lz4", "--in-place", "in", "out"];
    expect_status(&call(&decompress), 1);
    assert_eq!(std::fs::read(at("out")).expect("kept"), [1; 9000]);
    let inode = std::fs::metadata(at("out")).expect("there").ino();
    expect_status(&call(&[&words[..], &["--in-place"]].concat()), 0);
    let output = call(&["decompress", "--codec", "lz4", "out", "-"]);
    assert_eq!(output.stdout, [7; 5000]);
    // A package is written at offsets.
    std::fs::create_dir(at("d")).expect("made");
    std::fs::write(at("d/entry"), "bytes").expect("written");
    expect_status(&call(&["pack", "d", "-o", "out", "--in-place"]), 0);
    assert_eq!(call(&["cat", "out", "entry"]).stdout, b"bytes");
    expect_status(&call(&["verify", "out"]), 0);
    assert_eq!(std::fs::metadata(at("out")).expect("there").ino(), inode);
    let errors = expect_status(
        &call(&["compress", "--codec", "lz4", "out", "out", "--in-place"]),
        1,
    );
    assert!(errors.contains("into the input"), "{errors}");
    expect_status(&call(&["extract", "out", "x", "--in-place"]), 2);
    // In a sticky folder, another user's file.
    std::os::unix::fs::chown(at("out"), Some(0), None).expect("made by root");
    for (path, mode) in [(at("out"), 0o666), (at(""), 0o1777)] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("ours");
    }
    let errors = expect_status(&call(&words), 1);
    assert!(errors.contains("sticky folder"), "{errors}");
    assert!(errors.contains("as --in-place does"), "{errors}");
    expect_status(&call(&[&words[..], &["--in-place"]].concat()), 0);
}

#[test]
fn a_bind_mounted_file_is_written_in_place_if_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["in", "host", "out"] {
        std::fs::write(at(name), name).expect("written");
    }
    if !succeeds("mount", &[Path::new("--bind"), &at("host"), &at("out")]) {
        return;
    }
    let _mounted = Mounted(at("out"));
    let words = ["compress", "--codec", "lz4", "in", "out", "--in-place"];
    let call = |words: &[&str]| run(millstream(words).current_dir(folder.path()));
    let errors = expect_status(&call(&words[..5]), 1);
    assert!(errors.contains("a mount point"), "{errors}");
    assert!(
        errors.contains("written into, as --in-place does"),
        "{errors}"
    );
    expect_status(&call(&words), 0);
    let output = call(&["decompress", "--codec", "lz4", "host", "-"]);
    assert_eq!(output.stdout, b"in");
}
