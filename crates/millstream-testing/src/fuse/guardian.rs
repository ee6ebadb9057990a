//! Ends the mount when its process dies without doing so itself.
//!
//! A process that is killed while one of its threads waits for its own file system cannot die: the
//! thread waits for an answer that no other thread of it will ever give, and holds the connection
//! open while it waits. So a shell in a process of its own unmounts by force, which aborts the
//! connection. It is woken by its standard input ending (the ordinary death of a process closes it)
//! or by the signal that `setpriv --pdeathsig` makes the kernel send when the thread that started
//! it ends (in the death above the input stays open). After an orderly unmount it finds nothing to
//! do.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for a line that never comes, for the end of the input, or for the signal.
const SCRIPT: &str = r#"
end() { umount -f -l "$1"; rmdir "$1"; exit; }
trap 'end "$1"' TERM
echo ready
read -r line
end "$1"
"#;

/// A running guardian; told to go, and waited for, when dropped.
pub(super) struct Guardian(Child);

/// Starts a guardian over the mount, and returns when it watches; none where `setpriv` is
/// missing, for it is a comfort, not a need.
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
    // A guardian that says nothing has ended, and is waited for by the drop.
    match BufReader::new(stdout).read_line(&mut line) {
        Ok(1..) => Some(guardian),
        Ok(0) | Err(_) => None,
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself now; how does not matter.
        let _ = self.0.wait();
    }
}
