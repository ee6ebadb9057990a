//! What the tests of the program share: starting it, data, and places where it must fail.

use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use millstream_testing::{PATIENCE, wait_for, wait_for_end};
use rustix::process::{Pid, Signal};

/// The user and group that own nothing.
pub(crate) const NOBODY: u32 = 65_534;

/// Codecs of the stream commands. Without C zstd is decoded only, so it cannot go there and back.
pub(crate) const CODECS: &[&str] = match cfg!(feature = "c") {
    true => &["zlib", "gzip", "deflate", "zstd", "lz4", "gdeflate"],
    false => &["zlib", "gzip", "deflate", "lz4", "gdeflate"],
};

/// The program, about to be started.
pub(crate) fn millstream(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(words).stdin(Stdio::null());
    command
}

/// The program under a limit of the shell's `ulimit`.
pub(crate) fn limited(limit: &str, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit {limit}; exec \"$@\"");
    let program = env!("CARGO_BIN_EXE_millstream");
    command.args(["-c", &script, "sh", program]).args(words);
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

/// Runs a command with `input` on its standard input.
pub(crate) fn run_with(command: &mut Command, input: &[u8]) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || {
        // The program may end before it has read everything.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the command ends");
    feeder.join().expect("feeding does not panic");
    output
}

/// Standard error as text.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails the test unless the program ended with `status`; gives its standard error.
pub(crate) fn expect_status(output: &Output, status: i32) -> String {
    let errors = errors(output);
    assert_eq!(
        output.status.code(),
        Some(status),
        "standard error: {errors}"
    );
    assert!(!errors.contains("panicked"), "{errors}");
    errors
}

/// The program was ended by a signal; its standard error.
pub(crate) fn expect_signal(output: &Output, signal: Signal) -> String {
    let status = output.status;
    assert_eq!(status.signal(), Some(signal.as_raw()), "{}", errors(output));
    errors(output)
}

/// Fails the test unless the program ended well and without a word on standard error.
pub(crate) fn expect_quiet_success(output: &Output) {
    let errors = expect_status(output, 0);
    assert!(errors.is_empty(), "{errors}");
}

/// Bytes that compress to about a half: runs, repeated pieces and noise.
pub(crate) fn mixed_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = Vec::with_capacity(len + 4096);
    while bytes.len() < len {
        let piece_len = random.usize(1..4096);
        match random.u8(0..3) {
            0 => bytes.resize(bytes.len() + piece_len, random.u8(..)),
            1 if !bytes.is_empty() => {
                let begin = random.usize(0..bytes.len());
                let end = bytes.len().min(begin + piece_len);
                bytes.extend_from_within(begin..end);
            }
            _ => bytes.extend((0..piece_len).map(|_| random.u8(..))),
        }
    }
    bytes.truncate(len);
    bytes
}

/// The unfinished output that a process has open in a folder: what leads to it, and its name.
pub(crate) fn unfinished_of(child: &Child, folder: &Path) -> Option<(PathBuf, String)> {
    let folder = folder.canonicalize().ok()?;
    let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).ok()?;
    open.flatten().find_map(|entry| {
        let name = std::fs::read_link(entry.path()).ok()?;
        let within = name.parent() == Some(&folder);
        within.then(|| (entry.path(), name.to_string_lossy().into_owned()))
    })
}

/// Names in a folder, sorted; hidden ones too.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Whether a tool is installed; says SKIP if not.
pub(crate) fn installed(tool: &str) -> bool {
    let found = Command::new(tool)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIP: {tool} is not installed");
    }
    found
}

/// Whether the tests run as root, who may mount, and whom no permission stops.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs the program as a user without rights, or as the present one if that is not root.
pub(crate) fn as_ordinary_user(command: &mut Command) -> &mut Command {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Whether an ordinary user can start the program from where it was built.
pub(crate) fn ordinary_user_can_start() -> bool {
    let started = as_ordinary_user(&mut millstream(&["--version"])).output();
    let can = started.is_ok_and(|output| output.status.success());
    if !can {
        println!("SKIP: the build folder is closed to ordinary users");
    }
    can
}

/// Waits for a child, but not for ever.
pub(crate) fn wait(child: &mut Child) -> std::process::ExitStatus {
    if !wait_for_end(Pid::from_child(child), PATIENCE) {
        child.kill().expect("it is our child");
        panic!("the program hangs");
    }
    child.wait().expect("it is our child")
}

/// Waits until a child has an unfinished output in a folder.
pub(crate) fn wait_until_unfinished(child: &Child, folder: &Path) {
    let has_begun = wait_for(|| unfinished_of(child, folder).is_some());
    assert!(has_begun, "no unfinished output appears");
}

/// Sends a signal to a child.
pub(crate) fn kill(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).expect("it is our child");
}

/// Makes a FIFO.
pub(crate) fn make_fifo(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
}

/// A mounted tmpfs of bounded size.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one at a folder; `None`, with SKIP said, where that is not allowed.
    pub(crate) fn mount(at: &Path, size_bytes: u64) -> Option<SmallDisk> {
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size_bytes},mode=1777"),
                "tmpfs",
            ])
            .arg(at)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(at.to_path_buf())),
            Ok(output) => {
                println!("SKIP: cannot mount a tmpfs: {}", errors(&output).trim());
                None
            }
            Err(error) => {
                println!("SKIP: cannot run mount: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).status();
        if !done.is_ok_and(|status| status.success()) && !std::thread::panicking() {
            panic!("{} stays mounted", self.0.display());
        }
    }
}
