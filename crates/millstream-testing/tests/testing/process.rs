//! Restricted children are restricted, and tell how they ended.

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use millstream_testing::{
    Child, ChildOutcome, PATIENCE, Refusal, Resources, or_skip, this_test, wait_for,
    without_file_calls,
};

#[test]
fn the_child_is_another_process_and_runs_this_test_alone() {
    let own = std::process::id();
    let outcome = Child::of(this_test!()).outcome(|| println!("pid {}.", std::process::id()));
    if let ChildOutcome::Passed(written) = or_skip!(outcome) {
        assert!(written.contains("pid "), "{written}");
        assert!(!written.contains(&format!("pid {own}.")), "{written}");
    }
}

#[test]
fn what_a_child_writes_to_one_stream_does_not_split_the_other() {
    let say = |to: &mut dyn Write, what: &str| {
        to.write_all(what.as_bytes())
            .and_then(|()| to.flush())
            .expect("a file");
    };
    let outcome = Child::of(this_test!()).outcome(|| {
        say(&mut std::io::stdout(), "one ");
        say(&mut std::io::stderr(), "warning");
        say(&mut std::io::stdout(), "line\n");
    });
    if let ChildOutcome::Passed(written) = or_skip!(outcome) {
        assert!(written.contains("one line\n"), "{written}");
        assert!(written.contains("warning"), "{written}");
    }
}

#[test]
fn a_child_that_panics_dies_or_hangs_has_failed() {
    let kinds: [(&str, fn(), &str); 3] = [
        ("panics", || panic!("on purpose"), "on purpose"),
        ("dies", || std::process::abort(), "killed: signal: 6"),
        (
            "hangs",
            || std::thread::sleep(PATIENCE),
            "no test has ended",
        ),
    ];
    for (kind, body, sign) in kinds {
        let child = Child::of(this_test!())
            .case(kind)
            .time_max(Duration::from_secs(5));
        match or_skip!(child.outcome(body)) {
            ChildOutcome::WasChild => {}
            ChildOutcome::Passed(written) => panic!("{kind}: must have failed: {written}"),
            ChildOutcome::Failed(why) => assert!(why.contains(sign), "{kind}: {why}"),
        }
    }
}

#[test]
fn io_uring_is_refused_with_the_errno_asked_for() {
    let ring = || io_uring::IoUring::new(4).map(|_| ());
    for (case, refusal, errno) in [
        ("eperm", Refusal::NotPermitted, libc::EPERM),
        ("enosys", Refusal::NoSuchCall, libc::ENOSYS),
    ] {
        let child = Child::of(this_test!()).case(case).refuse_io_uring(refusal);
        or_skip!(child.run(|| {
            let error = ring().expect_err("refused");
            assert_eq!(error.raw_os_error(), Some(errno));
        }));
    }
}

#[test]
fn the_wrapper_refuses_io_uring_and_passes_the_rest_on() {
    let wrapper = env!("CARGO_BIN_EXE_no-uring");
    let run = |arguments: &[&str]| Command::new(wrapper).args(arguments).output().expect("run");
    let passed = run(&["enosys", "sh", "-c", "echo $0; exit 7", "word"]);
    assert_eq!(passed.status.code(), Some(7));
    assert_eq!(passed.stdout, b"word\n");
    assert_eq!(run(&["eperm"]).status.code(), Some(2));
    assert_eq!(run(&["ebusy", "true"]).status.code(), Some(2));
    assert_eq!(run(&["eperm", "/missing"]).status.code(), Some(1));
    // This very test program under the wrapper, with the test below.
    let own = std::env::current_exe().expect("own program");
    for (word, errno) in [("eperm", libc::EPERM), ("enosys", libc::ENOSYS)] {
        let tried = Command::new(wrapper)
            .arg(word)
            .arg(&own)
            .args(["process::tells_whether_there_is_io_uring", "--exact"])
            .arg("--nocapture")
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&tried.stdout);
        assert!(said.contains(&format!("io_uring: Some({errno})")), "{said}");
    }
}

#[test]
fn tells_whether_there_is_io_uring() {
    let errno = io_uring::IoUring::new(4)
        .err()
        .and_then(|error| error.raw_os_error());
    println!("io_uring: {errno:?}");
}

#[test]
fn a_child_as_nobody_has_no_rights_and_low_limits() {
    let child = Child::of(this_test!())
        .as_nobody()
        .locked_bytes_max(8 << 20)
        .descriptors_max(64)
        .run(|| {
            assert!(!millstream_testing::user::is_root());
            let refused = File::options().write(true).open("/etc/passwd");
            assert!(refused.is_err());
            let status = std::fs::read_to_string("/proc/self/status").expect("own status");
            let capabilities = status.lines().find(|line| line.starts_with("CapEff:"));
            assert_eq!(capabilities, Some("CapEff:\t0000000000000000"));
            let limits = std::fs::read_to_string("/proc/self/limits").expect("own limits");
            let locked = limits
                .lines()
                .find(|line| line.starts_with("Max locked memory"));
            assert!(
                locked.is_some_and(|line| line.contains(" 8388608 ")),
                "{limits}"
            );
            let mut files = Vec::new();
            let error = loop {
                match File::open("/dev/null") {
                    Ok(file) => files.push(file),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            assert!(files.len() < 64);
            drop(files);
            // It can still look at itself and make files of its own.
            assert!(Resources::now().descriptors.len() < 64);
            tempfile::tempfile().expect("a file of its own");
        });
    or_skip!(child);
}

#[test]
fn a_thread_that_makes_no_file_call_passes() {
    let child = Child::of(this_test!()).run(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let bell =
            rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).expect("eventfd");
        let sum = or_skip!(without_file_calls(|| {
            let numbers: Vec<u64> = (0..1_000_000).collect();
            sender.send(numbers.len()).expect("a channel is memory");
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).expect("a wake is no file call");
            println!("and it may print");
            numbers.iter().sum::<u64>()
        }));
        assert_eq!(sum, 499_999_500_000);
        assert_eq!(receiver.recv(), Ok(1_000_000));
        File::open("/dev/null").expect("other threads are free");
    });
    or_skip!(child);
}

#[test]
fn a_thread_that_opens_reads_stats_or_maps_is_caught() {
    let null = File::open("/dev/null").expect("open");
    type Deed<'a> = (&'a str, Box<dyn Fn() + Send + Sync + 'a>);
    let deeds: [Deed; 6] = [
        ("open", Box::new(|| drop(File::open("/etc/passwd")))),
        ("stat", Box::new(|| drop(std::fs::metadata("/etc/passwd")))),
        (
            "read",
            Box::new(|| assert!(rustix::io::read(&null, &mut [0_u8; 8]).is_ok())),
        ),
        (
            "pread",
            Box::new(|| assert!(rustix::io::pread(&null, &mut [0_u8; 8], 0).is_ok())),
        ),
        (
            "write of more than a wake",
            Box::new(|| assert!(rustix::io::write(&null, &[0_u8; 9]).is_ok())),
        ),
        ("ring", Box::new(|| drop(io_uring::IoUring::new(4)))),
    ];
    for (what, deed) in &deeds {
        let child = Child::of(this_test!()).case(what);
        let outcome = child.outcome(|| {
            let _ = without_file_calls(deed);
        });
        match or_skip!(outcome) {
            ChildOutcome::WasChild => {}
            ChildOutcome::Passed(written) => panic!("{what} was not caught: {written}"),
            ChildOutcome::Failed(why) => assert!(why.contains("SIGSYS"), "{what}: {why}"),
        }
    }
}

#[test]
fn what_a_process_holds_is_seen_and_what_it_leaks_is_named() {
    let child = Child::of(this_test!()).run(|| {
        let before = Resources::now();
        assert!(before.resident_bytes > 0);
        assert_eq!(before.settle(PATIENCE), [] as [String; 0]);
        let file = File::open("/dev/null").expect("open");
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("leaked".into())
            .spawn(move || stopped.recv())
            .expect("a thread");
        // The name of a thread is set by the thread itself, a moment after it began.
        let named = |excess: &[String]| excess.iter().any(|line| line.contains("leaked"));
        let mut excess = Vec::new();
        assert!(wait_for(|| {
            excess = before.settle(Duration::ZERO);
            named(&excess)
        }));
        assert!(
            excess.iter().any(|line| line.contains("/dev/null")),
            "{excess:?}"
        );
        assert_eq!(excess.len(), 2, "{excess:?}");
        drop((file, stop));
        let _ = thread.join().expect("no panic");
        assert_eq!(before.settle(PATIENCE), [] as [String; 0]);
        let memory = vec![1_u8; 64 << 20];
        assert!(Resources::now().resident_bytes >= before.resident_bytes + memory.len() as u64);
    });
    or_skip!(child);
}
