//! The faults of the FUSE file system really happen, and nothing of it stays.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use millstream_testing::{
    Call, Child, Effect, FaultFs, PATIENCE, Rule, or_skip, this_test, wait_for,
};

fn bytes(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

#[test]
fn healthy_files_read_as_they_are() {
    let content = bytes(300_000);
    let mount = or_skip!(FaultFs::mount(&[("a", &content), ("empty", b"")]));
    assert_eq!(fs::read(mount.path("a")).expect("read"), content);
    assert_eq!(fs::read(mount.path("empty")).expect("read"), b"");
    let missing = fs::read(mount.path("missing")).expect_err("not there");
    assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    let mut names: Vec<_> = fs::read_dir(mount.root())
        .expect("list")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "empty"]);
    mount.resize("a", 10);
    assert_eq!(fs::metadata(mount.path("a")).expect("stat").len(), 10);
    assert!(mount.call_count(Call::Read) >= 1);
}

#[test]
fn a_read_fails_where_a_rule_says_so_and_nowhere_else() {
    let content = bytes(64 << 10);
    let mount = or_skip!(FaultFs::mount(&[("a", &content), ("b", &content)]));
    let rule = Rule::on(Call::Read, Effect::Fail(libc::EIO))
        .of("a")
        .touching(8192..8193);
    let rule = mount.inject(rule);
    let [a, b] = ["a", "b"].map(|name| File::open(mount.path(name)).expect("open"));
    let mut into = [0; 4096];
    for (file, offset, errno) in [
        (&a, 8192, Some(libc::EIO)),
        (&a, 4097, Some(libc::EIO)),
        (&a, 4096, None),
        (&a, 8193, None),
        (&b, 8192, None),
    ] {
        let failed = file.read_exact_at(&mut into, offset).err();
        let found = failed.and_then(|error| error.raw_os_error());
        assert_eq!(found, errno, "at {offset}");
    }
    mount.lift(rule);
    a.read_exact_at(&mut into, 8192).expect("well again");
    assert_eq!(into, content[8192..8192 + 4096]);
}

#[test]
fn a_read_comes_short() {
    let content = bytes(10_000);
    let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
    mount.inject(Rule::on(Call::Read, Effect::Short(100)));
    let file = File::open(mount.path("a")).expect("open");
    let mut into = [0; 4096];
    assert_eq!(file.read_at(&mut into, 0).expect("read"), 100);
    // Who goes on from there has it all.
    assert_eq!(fs::read(mount.path("a")).expect("read"), content);
}

#[test]
fn late_reads_come_late_but_together() {
    const LATE: Duration = Duration::from_millis(100);
    let mount = or_skip!(FaultFs::mount(&[("a", &bytes(4096))]));
    mount.inject(Rule::on(Call::Read, Effect::Delay(LATE)));
    let file = File::open(mount.path("a")).expect("open");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| file.read_exact_at(&mut [0; 512], 0).expect("read"));
        }
        assert!(mount.wait_held(8, PATIENCE), "eight reads wait at a time");
    });
    assert!(begin.elapsed() >= LATE);
}

#[test]
fn a_hung_read_hangs_until_it_is_released() {
    let content = bytes(4096);
    let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
    mount.inject(Rule::on(Call::Read, Effect::Hang).times(1));
    let file = File::open(mount.path("a")).expect("open");
    std::thread::scope(|scope| {
        let hung = scope.spawn(|| {
            let mut into = [0; 4096];
            file.read_exact_at(&mut into, 0).map(|()| into)
        });
        assert!(mount.wait_held(1, PATIENCE));
        // Others go on meanwhile, on the same file too.
        file.read_exact_at(&mut [0; 16], 0).expect("not hung");
        assert!(!hung.is_finished());
        mount.release();
        assert_eq!(hung.join().expect("no panic").expect("read")[..], content);
    });
}

#[test]
fn dropping_the_mount_ends_hung_reads_and_leaves_nothing() {
    let child = Child::of(this_test!()).run(|| {
        let before = millstream_testing::Resources::now();
        let mount = or_skip!(FaultFs::mount(&[("a", &bytes(4096))]));
        let root = mount.root().to_owned();
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let file = File::open(mount.path("a")).expect("open");
        let hung = std::thread::spawn(move || file.read_exact_at(&mut [0; 16], 0));
        assert!(mount.wait_held(1, PATIENCE));
        drop(mount);
        let ended = hung.join().expect("no panic").expect_err("ended by error");
        assert_eq!(ended.raw_os_error(), Some(libc::EIO));
        assert!(!root.exists(), "{}", root.display());
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        assert!(!mounts.contains(root.to_str().expect("UTF-8")));
        assert_eq!(before.settle(PATIENCE), [] as [String; 0]);
    });
    or_skip!(child);
}

#[test]
fn a_process_that_dies_in_its_own_hung_read_takes_the_mount_with_it() {
    or_skip!(millstream_testing::user::need_root("a forced unmount"));
    let outcome = Child::of(this_test!()).time_max(PATIENCE).outcome(|| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"1")]));
        eprintln!("mounted at {}.", mount.root().display());
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let path = mount.path("a");
        std::thread::spawn(move || fs::read(path));
        assert!(mount.wait_held(1, PATIENCE));
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("kill");
        // The signal has come before the call returns; the mount must not be dropped here.
        std::process::abort();
    });
    match or_skip!(outcome) {
        millstream_testing::ChildOutcome::WasChild => {}
        millstream_testing::ChildOutcome::Passed(written) => {
            assert!(written.contains("SKIP"), "{written}");
        }
        millstream_testing::ChildOutcome::Failed(why) => {
            // Killed by the signal 9 it sent itself; not ended after its time.
            assert!(why.starts_with("killed: signal: 9"), "{why}");
            let root = why
                .split_once("mounted at ")
                .and_then(|(_, rest)| rest.split_once(".\n"));
            let root = root.expect("it said so").0;
            let is_gone = wait_for(|| !std::path::Path::new(root).exists());
            assert!(is_gone, "{root} is still there");
        }
    }
}

#[test]
fn writes_and_syncs_fail_and_a_replace_leaves_the_old_or_the_new() {
    let mount = or_skip!(FaultFs::mount(&[("a", b"old")]));
    let replace = || -> std::io::Result<()> {
        let beside = mount.path("a.new");
        let mut file = File::create(&beside)?;
        file.write_all(b"new content")?;
        file.sync_all()?;
        fs::rename(&beside, mount.path("a"))?;
        File::open(mount.root())?.sync_all()
    };
    for (call, errno) in [
        (Call::Create, libc::ENOSPC),
        (Call::Write, libc::ENOSPC),
        (Call::Write, libc::EIO),
        (Call::Sync, libc::EIO),
        (Call::Rename, libc::EIO),
    ] {
        let rule = mount.inject(Rule::on(call, Effect::Fail(errno)).times(1));
        let failed = replace().expect_err("injected");
        assert_eq!(failed.raw_os_error(), Some(errno), "{call:?}");
        assert_eq!(mount.content("a").as_deref(), Some(&b"old"[..]), "{call:?}");
        mount.lift(rule);
    }
    replace().expect("well again");
    assert_eq!(mount.content("a").as_deref(), Some(&b"new content"[..]));
    assert_eq!(mount.names(), ["a"]);
    assert!(mount.call_count(Call::SyncFolder) >= 1);
    mount.inject(Rule::on(Call::SyncFolder, Effect::Fail(libc::EIO)));
    assert_eq!(
        replace().expect_err("injected").raw_os_error(),
        Some(libc::EIO)
    );
    mount.inject(Rule::on(Call::Open, Effect::Fail(libc::EMFILE)).of("a"));
    let refused = File::open(mount.path("a")).expect_err("injected");
    assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
    fs::remove_file(mount.path("a")).expect("unlink");
    assert_eq!(mount.content("a"), None);
}

#[test]
fn a_write_comes_short() {
    let mount = or_skip!(FaultFs::mount(&[("a", b"")]));
    mount.inject(Rule::on(Call::Write, Effect::Short(10)));
    let mut file = File::options()
        .write(true)
        .open(mount.path("a"))
        .expect("open");
    assert_eq!(file.write(&[1; 100]).expect("write"), 10);
    file.write_all(&[2; 25]).expect("goes on from there");
    assert_eq!(mount.content("a").map(|bytes| bytes.len()), Some(35));
}

#[test]
fn no_page_cache_stands_between() {
    let content = bytes(4096);
    let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
    let file = File::open(mount.path("a")).expect("open");
    let mut into = [0; 4096];
    file.read_exact_at(&mut into, 0).expect("read");
    mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EIO)));
    assert!(file.read_exact_at(&mut into, 0).is_err());
}
