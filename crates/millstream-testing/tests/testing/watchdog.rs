//! The watchdog of test programs: this program runs tests of its own in a process with a short
//! limit.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};
use std::time::Duration;

/// Set only where the tests below are run by others; elsewhere they do nothing.
const MARK: &str = "MILLSTREAM_TESTING_WATCHED";

fn is_unmarked() -> bool {
    std::env::var_os(MARK).is_none()
}

/// Runs the tests whose name has this word, one after the other, with a limit of so many seconds.
fn run(word: &str, seconds: u32) -> Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args([word, "--test-threads=1"])
        .env("MILLSTREAM_HANG_SECONDS", seconds.to_string())
        .env(MARK, "1")
        .output()
        .expect("started")
}

#[test]
fn a_test_program_that_hangs_is_aborted_and_shows_all_stacks() {
    let output = run("watchdog::hangs::", 1);
    let written = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{written}");
    let signs = [
        "no test has ended for 1 s",
        "\"helper\"",
        "helper_waits",
        "test_waits",
    ];
    for sign in signs {
        assert!(written.contains(sign), "no {sign}: {written}");
    }
    assert!(!written.contains("no stack"), "{written}");
}

#[test]
fn a_test_program_whose_tests_end_is_not_aborted() {
    // Each takes less than the limit, both together more.
    let output = run("watchdog::ends::", 2);
    assert!(output.status.success(), "{output:?}");
}

mod hangs {
    use std::sync::mpsc::{Receiver, channel};

    #[inline(never)]
    fn helper_waits(event: &Receiver<()>) {
        std::hint::black_box(event.recv()).expect("never sent");
    }

    #[inline(never)]
    fn test_waits(helper: std::thread::JoinHandle<()>) {
        std::hint::black_box(helper.join()).expect("no panic");
    }

    #[test]
    fn for_ever() {
        if super::is_unmarked() {
            return;
        }
        let (_sender, event) = channel();
        let helper = std::thread::Builder::new().name("helper".into());
        test_waits(
            helper
                .spawn(move || helper_waits(&event))
                .expect("a thread"),
        );
    }
}

mod ends {
    use super::Duration;

    #[test]
    fn after_a_while() {
        if super::is_unmarked() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1400));
    }

    #[test]
    fn after_steps() {
        if super::is_unmarked() {
            return;
        }
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(700));
            millstream_testing::alive();
        }
    }
}
