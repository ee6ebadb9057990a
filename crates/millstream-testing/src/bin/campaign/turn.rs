//! Runs one process with a time limit.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Time limit of a build.
pub(crate) const BUILD_TIME_MAX: Duration = Duration::from_secs(3600);

/// Time that a turn may take beyond the time of its part; after that it counts as hung.
pub(crate) const TURN_TIME_MORE: Duration = Duration::from_secs(900);

const POLL_STEP: Duration = Duration::from_millis(50);

/// The outcome of a process.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) passed: bool,
    /// The exit status or error, as text.
    pub(crate) how: String,
    /// Output of both streams.
    pub(crate) output: String,
    /// The command line that repeats it.
    pub(crate) line: String,
    pub(crate) time: Duration,
}

/// Runs a process until it ends, or kills it after `time_max`.
pub(crate) fn run(mut command: Command, time_max: Duration) -> Ran {
    let line = line_of(&command);
    let mut output = tempfile::tempfile().expect("a temporary file");
    let write_to = |file: &File| file.try_clone().expect("a descriptor");
    command
        .stdin(Stdio::null())
        .stdout(write_to(&output))
        .stderr(write_to(&output));
    let begun = Instant::now();
    let (passed, how) = match command.spawn() {
        Ok(child) => wait(child, begun + time_max),
        Err(error) => (false, format!("cannot be started: {error}")),
    };
    let mut bytes = Vec::new();
    output
        .rewind()
        .and_then(|()| output.read_to_end(&mut bytes))
        .expect("a file of our own");
    Ran {
        passed,
        how,
        output: String::from_utf8_lossy(&bytes).into_owned(),
        line,
        time: begun.elapsed(),
    }
}

/// Waits for a process; returns whether it succeeded, and how it ended.
fn wait(mut child: Child, until: Instant) -> (bool, String) {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return (status.success(), status.to_string()),
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL_STEP),
            Ok(None) => {
                kill_all(child.id());
                // It has been killed, so the wait ends.
                let _ = child.wait();
                return (false, String::from("it hangs"));
            }
            Err(error) => return (false, error.to_string()),
        }
    }
}

/// Kills a process and its children, which `cargo` does not kill itself. (If they had a process
/// group of their own, an interruption from the terminal would not reach them.)
fn kill_all(process: u32) {
    let listed = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = listed.unwrap_or_default();
    if let Some(process) = Pid::from_raw(process.cast_signed()) {
        // The process may have ended just now.
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
    let children = children
        .split_whitespace()
        .filter_map(|number| number.parse().ok());
    children.for_each(kill_all);
}

/// Returns the command line that runs it again.
fn line_of(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={value}", name.to_string_lossy()))
    });
    let program = command.get_program().to_string_lossy().into_owned();
    let words = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned());
    let all: Vec<String> = variables.chain([program]).chain(words).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("SEED", "7");
        command
    }

    #[test]
    fn a_process_passes_fails_or_hangs() {
        let ran = run(shell("echo $SEED; echo two >&2"), Duration::from_secs(60));
        assert!(ran.passed, "{ran:?}");
        assert_eq!(ran.output, "7\ntwo\n");
        assert_eq!(ran.line, "SEED=7 sh -c echo $SEED; echo two >&2");
        let ran = run(shell("exit 3"), Duration::from_secs(60));
        assert!(!ran.passed && ran.how.contains('3'), "{ran:?}");
        let missing = run(Command::new("/no/such/program"), Duration::from_secs(60));
        assert!(
            !missing.passed && missing.how.contains("cannot"),
            "{missing:?}"
        );
        let begun = Instant::now();
        let ran = run(shell("sleep 1000; true"), Duration::from_millis(300));
        assert!(!ran.passed && ran.how == "it hangs", "{ran:?}");
        assert!(begun.elapsed() < Duration::from_secs(500));
    }
}
