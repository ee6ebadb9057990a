//! The operating system's files: real kernels, real file systems, and what may stand in a file's
//! place.

#![expect(
    unsafe_code,
    reason = "forks children that lower their limits or their user, and mounts small disks"
)]

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use millstream_io::fs::{AtomicFile, DirectAlignment, MappedView, OsFileSystem, probe};
use millstream_io::{
    Descriptor, FileSystem, IoError, MountKind, OpenMode, Opened, OwnedDescriptor,
};
use millstream_testing::{Refusal, seccomp};

const READ: OpenMode = OpenMode {
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    direct: false,
};
const DIRECT: OpenMode = OpenMode {
    direct: true,
    ..READ
};

/// The descriptor with a number.
fn descriptor(number: u64) -> Descriptor {
    // SAFETY: a file of the tests, or none.
    unsafe { Descriptor::from_raw(number) }
}

/// The ownership of what a number stands for, which is no file.
fn ownership(descriptor: Descriptor) -> OwnedDescriptor {
    // SAFETY: the tests close only numbers of no file.
    unsafe { OwnedDescriptor::from_raw(descriptor.raw()) }
}

fn open(path: &Path) -> Result<Opened, IoError> {
    OsFileSystem::new().open(path, READ)
}

/// The error of opening `path`, which must not wait, whatever stands there.
fn refused(path: &Path, mode: OpenMode) -> IoError {
    let path = path.to_owned();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || _ = sender.send(OsFileSystem::new().open(&path, mode)));
    receiver
        .recv_timeout(Duration::from_secs(20))
        .expect("opening waits for somebody")
        .expect_err("that cannot be opened")
}

fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

/// Runs `body` in a forked child; whether it returned true.
fn in_child(body: impl FnOnce() -> bool) -> bool {
    millstream_testing::forked(|| i32::from(!body())) == 0
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A tmpfs of 1 MiB, unmounted when dropped; `None` where it cannot be mounted.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().to_str().unwrap().to_owned();
        let options = ["-t", "tmpfs", "-o", "size=1m", "tmpfs", &target];
        (is_root() && run("mount", &options)).then_some(SmallDisk(folder))
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &[self.path().to_str().unwrap()]);
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn regular_file_opens_with_all_that_is_known_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, vec![7; 100_001]).unwrap();
    let files = OsFileSystem::new();
    let opened = files.open(&path, READ).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(opened.len, 100_001);
    assert_eq!(files.len(*opened.descriptor).unwrap(), 100_001);
    assert_eq!(opened.identity.device, metadata.dev());
    assert_eq!(opened.identity.inode, metadata.ino());
    let modified_ns =
        i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    assert_eq!(opened.identity.modified_ns, modified_ns);
    assert_eq!(opened.mount, metadata.dev());
    let mut bytes = vec![0; 200_000];
    assert_eq!(
        files.read_at(*opened.descriptor, 1, &mut bytes).unwrap(),
        100_000
    );
    assert!(bytes[..100_000].iter().all(|&byte| byte == 7));
    assert_eq!(
        files
            .read_at(*opened.descriptor, 200_000, &mut bytes)
            .unwrap(),
        0
    );
    files.close(opened.descriptor).unwrap();
}

#[test]
fn descriptor_blocks_again_and_is_not_inherited() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let opened = open(file.path()).unwrap();
    // SAFETY: asks for the flags of a descriptor that is open.
    let (status, own) = unsafe {
        (
            libc::fcntl(opened.descriptor.raw() as i32, libc::F_GETFL),
            libc::fcntl(opened.descriptor.raw() as i32, libc::F_GETFD),
        )
    };
    assert_eq!(
        status & libc::O_NONBLOCK,
        0,
        "io_uring would fail with EAGAIN"
    );
    assert_eq!(own & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    OsFileSystem::new().close(opened.descriptor).unwrap();
}

#[test]
fn directory_is_refused_as_one() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [
        READ,
        DIRECT,
        OpenMode {
            write: true,
            ..READ
        },
    ] {
        let error = refused(folder.path(), mode);
        assert_eq!(error.errno.0, libc::EISDIR, "{error}");
        assert!(error.cause.contains("folder"), "{error}");
    }
}

#[test]
fn fifo_socket_and_character_device_are_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let write = OpenMode {
        write: true,
        ..READ
    };
    for mode in [READ, write, DIRECT] {
        for (path, word) in [
            (fifo.as_path(), "FIFO"),
            (&socket, "socket"),
            (Path::new("/dev/null"), "character device"),
        ] {
            let error = refused(path, mode);
            assert_eq!(error.errno.0, libc::ENXIO, "{}: {error}", path.display());
            assert!(error.cause.contains(word), "{}: {error}", path.display());
        }
    }
}

#[test]
fn missing_names_say_what_is_likely() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    symlink("nowhere", at("dangling")).unwrap();
    symlink("round", at("round")).unwrap();
    fs::write(at("file"), b"x").unwrap();
    let long = "n".repeat(300);
    for (path, errno, word) in [
        (at("missing"), libc::ENOENT, "no such name"),
        (at("dangling"), libc::ENOENT, "link"),
        (at("round"), libc::ELOOP, "loop"),
        (at("file/below"), libc::ENOTDIR, "not a folder"),
        (at(&long), libc::ENAMETOOLONG, "longer"),
        (at("zero\0byte"), libc::EINVAL, "zero byte"),
        (PathBuf::new(), libc::ENOENT, "no such name"),
    ] {
        let error = refused(&path, READ);
        assert_eq!(error.errno.0, errno, "{}: {error}", path.display());
        assert!(error.cause.contains(word), "{}: {error}", path.display());
    }
    let error = refused(
        &at("file"),
        OpenMode {
            truncate: true,
            ..READ
        },
    );
    assert_eq!(error.errno.0, libc::EINVAL, "{error}");
    assert_eq!(fs::read(at("file")).unwrap(), b"x");
}

#[test]
fn names_are_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder
        .path()
        .join(OsStr::from_bytes(b"\xff\xfe\n \x01name"));
    let files = OsFileSystem::new();
    files.replace(&path, b"bytes").unwrap();
    let opened = files.open(&path, READ).unwrap();
    assert_eq!(opened.len, 5);
    files.close(opened.descriptor).unwrap();
    let other = folder.path().join(OsStr::from_bytes(b"\x80"));
    files.rename(&path, &other).unwrap();
    assert_eq!(fs::read(other).unwrap(), b"bytes");
}

#[test]
fn unreadable_file_names_the_permissions() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("secret");
    fs::write(&path, b"x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let passed = in_child(|| {
        if is_root() {
            // SAFETY: the child alone becomes the user nobody.
            unsafe {
                assert_eq!(libc::setgid(65534), 0);
                assert_eq!(libc::setuid(65534), 0);
            }
        }
        let error = open(&path).expect_err("not allowed");
        error.errno.0 == libc::EACCES && error.cause.contains("permissions")
    });
    assert!(passed);
}

#[test]
fn descriptor_limit_names_itself() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let passed = in_child(|| {
        let limit = libc::rlimit {
            rlim_cur: 64,
            rlim_max: 64,
        };
        // SAFETY: the child alone lowers its limit.
        let lowered = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        assert_eq!(lowered, 0);
        let files = OsFileSystem::new();
        let mut held: Vec<OwnedDescriptor> = Vec::new();
        loop {
            match files.open(file.path(), READ) {
                Ok(opened) => held.push(opened.descriptor),
                Err(error) => {
                    return held.len() < 64
                        && error.errno.0 == libc::EMFILE
                        && error.cause.contains("ulimit -n");
                }
            }
        }
    });
    assert!(passed);
}

#[test]
fn memory_mount_has_no_direct_io() {
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        println!("SKIP: no /dev/shm to write in");
        return;
    };
    let files = OsFileSystem::new();
    let opened = files.open(file.path(), READ).unwrap();
    files.close(opened.descriptor).unwrap();
    assert_eq!(opened.mount_kind, MountKind::Memory);
    assert_eq!((opened.direct, opened.rotating), (None, false));
    let error = refused(file.path(), DIRECT);
    assert_eq!(error.errno.0, libc::EINVAL, "{error}");
    assert!(error.cause.contains("direct"), "{error}");
}

#[test]
fn direct_alignment_is_what_the_kernel_takes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(&vec![3; 65_536 + 100]).unwrap();
    let files = OsFileSystem::new();
    let Some(alignment) = files.open(file.path(), READ).unwrap().direct else {
        println!("SKIP: no direct I/O in the folder for temporary files");
        return;
    };
    let DirectAlignment { memory, offset } = alignment;
    assert!(memory.is_power_of_two() && offset.is_power_of_two() && offset <= 65_536);
    let opened = files.open(file.path(), DIRECT).unwrap();
    let mut arena = millstream_io::Arena::new(1 << 20, None).unwrap();
    let mut block = arena.take(131_072).unwrap();
    let read = files
        .read_at(*opened.descriptor, 0, block.as_mut_slice())
        .unwrap();
    assert_eq!(read, 65_636, "a direct read ends at the end of the file");
    assert!(block.as_slice()[..read].iter().all(|&byte| byte == 3));
    let at = u64::from(offset);
    let into = &mut block.as_mut_slice()[memory as usize..][..offset as usize];
    assert_eq!(
        files.read_at(*opened.descriptor, at, into).unwrap(),
        offset as usize
    );
    let error = files
        .read_at(*opened.descriptor, 1, &mut block.as_mut_slice()[..4096])
        .unwrap_err();
    assert!(error.cause.contains("not aligned"), "{error}");
    arena.give(block);
    files.close(opened.descriptor).unwrap();
}

#[test]
fn cache_is_told_before_and_after_a_read() {
    let len = 1 << 20;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(&vec![1; len]).unwrap();
    file.as_file().sync_all().unwrap();
    let files = OsFileSystem::new();
    let opened = files.open(file.path(), READ).unwrap();
    let cached = || files.cached(*opened.descriptor, 0, len as u64);
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    if cached() == Some(0) {
        files
            .read_at(*opened.descriptor, 0, &mut vec![0; len])
            .unwrap();
        assert_eq!(cached(), Some(len as u64));
    } else {
        println!("SKIP: this file system does not let go of cached pages");
    }
    files.close(opened.descriptor).unwrap();
    assert_eq!(files.cached(descriptor(u64::MAX), 0, 1), None);
}

#[test]
fn bad_descriptors_are_errors() {
    let files = OsFileSystem::new();
    for descriptor in [
        descriptor(u64::MAX),
        descriptor(1 << 32),
        descriptor(i32::MAX as u64),
    ] {
        let errors = [
            files.len(descriptor).unwrap_err(),
            files.read_at(descriptor, 0, &mut [0]).unwrap_err(),
            files.sync(descriptor, true).unwrap_err(),
            files.close(ownership(descriptor)).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.errno.0 == libc::EBADF));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let opened = open(file.path()).unwrap();
    for offset in [u64::MAX, u64::MAX - 1, 1 << 63] {
        assert!(
            files
                .read_at(*opened.descriptor, offset, &mut [0; 8])
                .is_err()
        );
    }
    files.close(opened.descriptor).unwrap();
}

#[test]
fn written_files_are_made_synced_and_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    let files = OsFileSystem::new();
    let mode = OpenMode {
        write: true,
        create: true,
        ..READ
    };
    let opened = files.open(&path, mode).unwrap();
    files.write_at(*opened.descriptor, 0, b"abc").unwrap();
    files.sync(*opened.descriptor, true).unwrap();
    files.sync(*opened.descriptor, false).unwrap();
    assert_eq!(files.len(*opened.descriptor).unwrap(), 3);
    files.close(opened.descriptor).unwrap();
    let cut = files
        .open(
            &path,
            OpenMode {
                truncate: true,
                ..mode
            },
        )
        .unwrap();
    assert_eq!(cut.len, 0);
    files.close(cut.descriptor).unwrap();
}

#[test]
fn replace_keeps_permissions_and_links_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings");
    let files = OsFileSystem::new();
    files.replace(&path, b"first").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let content = vec![5; 3_000_000];
    files.replace(&path, &content).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
    assert_ne!(
        metadata.ino(),
        before,
        "a reader of the old file still has it whole"
    );
    assert_eq!(fs::read(&path).unwrap(), content);
    symlink("settings", folder.path().join("link")).unwrap();
    files.replace(&folder.path().join("link"), b"").unwrap();
    assert!(
        fs::symlink_metadata(folder.path().join("link"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(names_in(folder.path()), ["link", "settings"]);
}

fn owned(path: &Path, mode: u32, (owner, group): (u32, u32)) {
    std::os::unix::fs::chown(path, Some(owner), Some(group)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn ids_and_mode(path: &Path) -> (u32, u32, u32) {
    let metadata = fs::metadata(path).unwrap();
    (
        metadata.uid(),
        metadata.gid(),
        metadata.permissions().mode() & 0o7777,
    )
}

/// Replaces a file by one call and in several steps.
fn replace_both_ways(path: &Path, after: impl Fn() -> bool) -> bool {
    let files = OsFileSystem::new();
    files.replace(path, b"new").unwrap();
    let first = after();
    let (new, temporary) = AtomicFile::create_named(path).unwrap();
    let private = ids_and_mode(&temporary).2 == 0o600;
    new.commit(AtomicFile::KEEP_ALL).unwrap();
    first && private && after()
}

#[test]
fn replace_never_widens_permissions() {
    if !is_root() {
        println!("SKIP: files of other users need root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    owned(folder.path(), 0o777, (0, 0));
    let path = folder.path().join("settings");
    for mode in [0o640, 0o4755, 0o2750] {
        fs::write(&path, b"old").unwrap();
        owned(&path, mode, (1234, 2345));
        let kept = || ids_and_mode(&path) == (1234, 2345, mode);
        assert!(replace_both_ways(&path, kept), "{mode:o}");
    }
    for (mode, narrowed) in [(0o664, 0o604), (0o640, 0o600), (0o604, 0o600)] {
        owned(&path, mode, (1234, 2345));
        let replaced = in_child(|| {
            // SAFETY: the child becomes another user.
            let changed = unsafe { libc::setgroups(0, std::ptr::null()) == 0 }
                && unsafe { libc::setgid(3456) == 0 && libc::setuid(3456) == 0 };
            changed && replace_both_ways(&path, || ids_and_mode(&path) == (3456, 3456, narrowed))
        });
        assert!(replaced, "{mode:o}");
    }
}

#[test]
fn replace_keeps_permissions_without_procfs_and_where_links_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings");
    let replaces = |path: &Path| {
        fs::write(path, b"old").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o664)).unwrap();
        let new = AtomicFile::create(path).unwrap();
        new.write_and_commit(&[7; 100_000], AtomicFile::KEEP_ALL)
            .unwrap();
        let first = ids_and_mode(path).2;
        let fresh = path.with_file_name("fresh");
        AtomicFile::create(&fresh)
            .unwrap()
            .write_and_commit(b"", AtomicFile::KEEP_ALL)
            .unwrap();
        let created = ids_and_mode(&fresh).2 & 0o700;
        (first, created) == (0o664, 0o600) && fs::read(path).unwrap() == [7; 100_000]
    };
    assert!(in_child(|| {
        let calls = [libc::SYS_linkat];
        seccomp::refuse(&calls, Refusal::NotPermitted).is_err() || replaces(&path)
    }));
    assert_eq!(names_in(folder.path()), ["fresh", "settings"]);
    if !is_root() {
        println!("SKIP: a root without procfs needs root");
        return;
    }
    let root = CString::new(folder.path().as_os_str().as_bytes()).unwrap();
    assert!(in_child(|| {
        // SAFETY: the child changes its root folder.
        let changed = unsafe { libc::chroot(root.as_ptr()) == 0 };
        changed && replaces(Path::new("/settings"))
    }));
    assert_eq!(names_in(folder.path()), ["fresh", "settings"]);
}

/// An access control list as the kernel has it: the owner may write, user 1234 may read.
fn access_list() -> Vec<u8> {
    let entry = |tag: u16, permissions: u16, id: u32| {
        let halves = [tag.to_le_bytes(), permissions.to_le_bytes()].concat();
        [halves, id.to_le_bytes().to_vec()].concat()
    };
    let none = u32::MAX;
    [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 6, none),
        entry(0x02, 4, 1234),
        entry(0x04, 0, none),
        entry(0x10, 4, none),
        entry(0x20, 0, none),
    ]
    .concat()
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    use rustix::fs::{XattrFlags, setxattr};
    setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

#[test]
fn replace_keeps_the_access_control_list() {
    const ACCESS: &str = "system.posix_acl_access";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings");
    fs::write(&path, b"old").unwrap();
    if !set_attribute(&path, ACCESS, &access_list()) {
        println!("SKIP: no access control lists in the temporary folder");
        return;
    }
    let list = || {
        let mut list = vec![0; 1024];
        let bytes = rustix::fs::getxattr(&path, ACCESS, &mut list[..]).ok()?;
        list.truncate(bytes);
        Some(list)
    };
    assert!(replace_both_ways(&path, || list() == Some(access_list())));
    // A list that the folder gives to its files is not for a file that had none.
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let default = "system.posix_acl_default";
    assert!(set_attribute(folder.path(), default, &access_list()));
    assert!(replace_both_ways(&path, || {
        list().is_none() && ids_and_mode(&path).2 == 0o640
    }));
}

#[test]
fn replace_refuses_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = OsFileSystem::new();
    fs::create_dir(folder.path().join("folder")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    for (name, errno) in [
        ("folder", libc::EISDIR),
        ("..", libc::EISDIR),
        ("missing/file", libc::ENOENT),
        ("dangling", libc::ENOENT),
    ] {
        let error = files.replace(&folder.path().join(name), b"x").unwrap_err();
        assert_eq!(error.errno.0, errno, "{name}: {error}");
    }
    assert_eq!(names_in(folder.path()), ["dangling", "folder"]);
    assert!(files.replace(Path::new("/dev/null"), b"x").is_err());
}

#[test]
fn replace_on_a_full_disk_keeps_the_old_content_and_leaves_nothing() {
    let Some(disk) = SmallDisk::new() else {
        println!("SKIP: mounting a small disk needs root");
        return;
    };
    let path = disk.path().join("settings");
    let files = OsFileSystem::new();
    files.replace(&path, b"old").unwrap();
    let error = files.replace(&path, &vec![1; 4 << 20]).unwrap_err();
    assert_eq!(error.errno.0, libc::ENOSPC, "{error}");
    assert!(error.cause.contains("full"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names_in(disk.path()), ["settings"]);
}

#[test]
fn rename_moves_and_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let files = OsFileSystem::new();
    fs::write(&from, b"x").unwrap();
    files.rename(&from, &to).unwrap();
    assert_eq!(names_in(folder.path()), ["to"]);
    assert_eq!(files.rename(&from, &to).unwrap_err().errno.0, libc::ENOENT);
    let number = |path: &Path| fs::metadata(path).unwrap().dev();
    match tempfile::tempdir_in("/dev/shm") {
        Ok(memory) if number(memory.path()) != number(&to) => {
            let error = files.rename(&to, &memory.path().join("to")).unwrap_err();
            assert!(error.cause.contains("different file systems"), "{error}");
        }
        _ => println!("SKIP: no second file system at /dev/shm"),
    }
}

#[test]
fn rename_does_not_happen_where_it_could_not_be_made_durable() {
    if !is_root() {
        println!("SKIP: another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, target) = (folder.path().join("from"), folder.path().join("target"));
    fs::write(&from, b"x").unwrap();
    fs::create_dir(&target).unwrap();
    owned(folder.path(), 0o777, (0, 0));
    // Names may be made there, but the folder cannot be opened for a sync.
    owned(&target, 0o333, (0, 0));
    let refused = in_child(|| {
        // SAFETY: the child becomes another user.
        let changed = unsafe { libc::setuid(3456) == 0 };
        let renamed = OsFileSystem::new().rename(&from, &target.join("to"));
        changed && renamed.unwrap_err().errno.0 == libc::EACCES
    });
    assert!(refused);
    assert_eq!(names_in(folder.path()), ["from", "target"]);
}

#[test]
fn block_device_opens_with_its_length() {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().write_all(&vec![9; 3 << 20]).unwrap();
    let path = image.path().to_str().unwrap();
    let made = Command::new("losetup")
        .args(["--find", "--show", path])
        .output();
    let device = match made {
        Ok(output) if is_root() && output.status.success() => {
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        }
        _ => {
            println!("SKIP: making a loop device needs root and losetup");
            return;
        }
    };
    let files = OsFileSystem::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let opened = files.open(Path::new(&device), READ).unwrap();
        assert_eq!(opened.len, 3 << 20);
        assert_eq!(files.len(*opened.descriptor).unwrap(), 3 << 20);
        assert_eq!(opened.mount_kind, MountKind::Local);
        assert_eq!(opened.mount, fs::metadata(&device).unwrap().rdev());
        assert!(opened.direct.is_some());
        let mut bytes = [0; 100];
        assert_eq!(
            files.read_at(*opened.descriptor, 4000, &mut bytes).unwrap(),
            100
        );
        assert_eq!(bytes, [9; 100]);
        files.close(opened.descriptor).unwrap();
        let place = probe::place(Path::new(&device)).unwrap();
        assert_eq!(place.device_name.as_deref(), device.strip_prefix("/dev/"));
        assert_eq!(place.direct, opened.direct);
    }));
    run("losetup", &["--detach", &device]);
    result.unwrap();
}

#[test]
fn machine_is_looked_at() {
    let machine = probe::machine();
    assert!(machine.cpus >= 1);
    assert!(
        machine
            .kernel
            .as_ref()
            .is_some_and(|kernel| !kernel.is_empty())
    );
    assert!(machine.memory_available_bytes <= machine.memory_bytes);
    assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    assert!(machine.open_files_max.is_none_or(|count| count > 0));
}

#[test]
fn places_agree_with_the_files_in_them() {
    for folder in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let Ok(file) = tempfile::NamedTempFile::new_in(&folder) else {
            println!("SKIP: no {}", folder.display());
            continue;
        };
        file.as_file().write_all(&vec![1; 65_536]).unwrap();
        let opened = open(file.path()).unwrap();
        OsFileSystem::new().close(opened.descriptor).unwrap();
        for path in [file.path(), &folder] {
            let place = probe::place(path).unwrap();
            assert_eq!(place.mount_kind, opened.mount_kind);
            assert_eq!(place.rotating, opened.rotating);
            assert_eq!(place.device, opened.mount);
            assert_eq!(place.direct, opened.direct);
            assert!(!place.file_system.is_empty());
        }
    }
    assert_eq!(
        probe::place(Path::new("/no/such")).unwrap_err().errno.0,
        libc::ENOENT
    );
}

/// A view of a file that this test alone uses.
fn view(opened: &Opened, offset: u64, len: usize) -> Result<MappedView, IoError> {
    // SAFETY: the file is the test's own; where the test cuts it, it does not touch the view any
    // more.
    unsafe { MappedView::map(*opened.descriptor, offset, len) }
}

#[test]
fn view_shows_the_bytes_of_any_range_and_outlives_the_descriptor() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let content: Vec<u8> = (0..300_000_u32).map(|index| (index % 251) as u8).collect();
    file.as_file().write_all(&content).unwrap();
    let files = OsFileSystem::new();
    let opened = files.open(file.path(), READ).unwrap();
    let mut views = Vec::new();
    for (offset, len) in [(0, 300_000), (1, 10), (4095, 2), (4096, 4096), (299_999, 1)] {
        views.push((offset, view(&opened, offset as u64, len).unwrap()));
    }
    assert!(view(&opened, 300_000, 0).unwrap().is_empty());
    files.close(opened.descriptor).unwrap();
    for (offset, view) in &views {
        assert!(**view == content[*offset..offset + view.len()]);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(views[0].1[77], 77));
    });
}

#[test]
fn view_refuses_what_is_not_in_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(&[1; 5000]).unwrap();
    let opened = open(file.path()).unwrap();
    for (offset, len) in [
        (0, 5001),
        (5000, 1),
        (u64::MAX, 1),
        (1, usize::MAX),
        (5001, 0),
    ] {
        let error = view(&opened, offset, len).unwrap_err();
        assert_eq!(error.errno.0, libc::EINVAL, "{offset}+{len}: {error}");
    }
    let whole = view(&opened, 0, 5000).unwrap();
    #[expect(clippy::reversed_empty_ranges, reason = "a wrong range on purpose")]
    for range in [0..5001, 5001..5001, 2..1] {
        assert!(whole.populate(range).is_err());
    }
    OsFileSystem::new().close(opened.descriptor).unwrap();
}

#[test]
fn view_is_brought_in_ahead_and_says_when_the_file_was_cut() {
    let len = 1 << 20;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(&vec![8; len]).unwrap();
    file.as_file().sync_all().unwrap();
    let files = OsFileSystem::new();
    let opened = files.open(file.path(), READ).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let part = view(&opened, 100, len - 100).unwrap();
    part.populate(7..7).unwrap();
    part.populate(0..part.len()).unwrap();
    let cached = files.cached(*opened.descriptor, 0, len as u64);
    file.as_file().set_len(4096).unwrap();
    if let Err(error) = part.populate(8192..9000) {
        assert!(cached.is_none_or(|bytes| bytes == len as u64), "{cached:?}");
        assert_eq!(error.errno.0, libc::EFAULT, "{error}");
        assert!(error.cause.contains("shorter"), "{error}");
    } else {
        println!("SKIP: no MADV_POPULATE_READ before Linux 5.14");
    }
    files.close(opened.descriptor).unwrap();
}
