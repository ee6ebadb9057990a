//! Unmounts the file system if its process dies without doing so.
//!
//! A process that is killed while one of its threads waits for its own file system cannot die: the
//! thread waits for an answer that no other thread will ever give, and keeps the connection open
//! while it waits. So a shell in a separate process force-unmounts, which aborts the connection. It
//! wakes when its standard input ends (an ordinary death of the process closes it) or on the signal
//! that `setpriv --pdeathsig` makes the kernel send when the thread that started it ends (in the
//! death above the input stays open). After an orderly unmount there is nothing left to do.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input (a line never comes) or for the signal.
const SCRIPT: &str = r#"
end() { umount -f -l "$1"; rmdir "$1"; exit; }
trap 'end "$1"' TERM
echo ready
read -r line
end "$1"
"#;

/// A running guardian. Dropping it ends it and waits for it.
pub(super) struct Guardian(Child);

/// Starts a guardian for the mount, and returns once it is watching; `None` if `setpriv` is
/// missing, because the guardian is optional.
pub(super) fn watch(mount_point: &Path) -> Option<Guardian> {
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "sh", "-c", SCRIPT, "guardian"])
        .arg(mount_point)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut guardian = Guardian(child.ok()?);
    let stdout = guardian.0.stdout.take().expect("piped");
    let mut line = String::new();
    // A guardian that prints nothing has ended, and is reaped by the drop.
    match BufReader::new(stdout).read_line(&mut line) {
        Ok(1..) => Some(guardian),
        Ok(0) | Err(_) => None,
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // The closed input ends it; its status does not matter.
        let _ = self.0.wait();
    }
}
