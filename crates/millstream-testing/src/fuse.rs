//! A file system that fails on request: FUSE, served by this process, with files in memory.
//!
//! A test mounts a [`FaultFs`] with some files, passes their paths to the code under test, and adds
//! [`Rule`]s while that runs: a read of a range fails with `EIO`, is delayed, is short, or hangs
//! until the test releases it. Rules also apply to writes, syncs, renames and opens.
//!
//! Files are opened with `FOPEN_DIRECT_IO`, so that no page cache stands between a rule
//! and the reader: every read of the program arrives here (split by the kernel at its transfer
//! size, 128 KiB or more).
//!
//! Dropping the `FaultFs` answers calls that still hang with `EIO`, aborts the connection, which
//! ends every call in flight, unmounts lazily, and joins its threads. This works while files are
//! open and while reads hang. If the process is killed while one of its own threads waits in a hung
//! read, nothing in it can end that wait (the thread cannot die, and keeps the connection open):
//! `guardian.rs` keeps a small shell that then aborts the connection. A hung call is released by
//! itself after [`HANG_MAX`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::Unavailable;

mod guardian;
mod held;
mod rules;
mod serve;

use held::Held;
pub use rules::{Call, Effect, Rule, RuleId};

/// Maximum time of a hung call: far above any time-out of a test, and below that of a CI run.
pub const HANG_MAX: Duration = Duration::from_secs(60);

/// Inode number of a file; the root folder is 1, as FUSE defines it.
pub(crate) type Node = u64;

/// A file in memory.
pub(crate) struct MemoryFile {
    /// The last name it had; rules match it, even after an unlink.
    pub(crate) name: OsString,
    pub(crate) bytes: Vec<u8>,
    pub(crate) modified: std::time::SystemTime,
    /// Number of names it has now: 0 or 1.
    pub(crate) links: u32,
}

/// The state of a mount.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) names: BTreeMap<OsString, Node>,
    pub(crate) files: BTreeMap<Node, MemoryFile>,
    pub(crate) rules: rules::Rules,
    pub(crate) held: Vec<Held>,
    pub(crate) calls: BTreeMap<Call, u64>,
    /// Whether the mount goes away: no more calls are held.
    pub(crate) closing: bool,
    /// Number of the next lookup that gives an inode number of its own; 0: none does.
    pub(crate) renumbered: u64,
}

/// State shared by the serving threads and the test.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified when a call is held or released.
    pub(crate) changed: Condvar,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics with the state locked")
    }
}

/// A mounted file system of one folder. See the module.
pub struct FaultFs {
    shared: Arc<Shared>,
    mount_point: Option<tempfile::TempDir>,
    session: Option<fuser::BackgroundSession>,
    releaser: Option<JoinHandle<Option<guardian::Guardian>>>,
}

impl FaultFs {
    /// Mounts a folder with these files.
    ///
    /// # Errors
    /// There is no `/dev/fuse`, or neither root nor `fusermount3`.
    pub fn mount(files: &[(&str, &[u8])]) -> Result<FaultFs, Unavailable> {
        let mount_point = tempfile::Builder::new()
            .prefix("millstream-fuse-")
            .tempdir()
            .map_err(|error| Unavailable::because(format!("a temporary folder: {error}")))?;
        let shared = Arc::new(Shared::default());
        let served = serve::Served {
            shared: Arc::clone(&shared),
        };
        let mut config = fuser::Config::default();
        config.mount_options = vec![fuser::MountOption::FSName("millstream-faults".into())];
        config.acl = if crate::user::is_root() {
            fuser::SessionACL::All
        } else {
            fuser::SessionACL::Owner
        };
        let session = fuser::spawn_mount(served, mount_point.path(), &config)
            .map_err(|error| Unavailable::because(format!("mounting FUSE: {error}")))?;
        let (watched, is_watched) = std::sync::mpsc::channel();
        let releaser = std::thread::Builder::new()
            .name("fault-releaser".into())
            .spawn({
                let shared = Arc::clone(&shared);
                let guarded = mount_point.path().to_owned();
                move || {
                    // Started here, because the guardian watches the thread that starts it.
                    let guardian = guardian::watch(&guarded);
                    // The receiver is gone only if the test is; then the message is not needed.
                    let _ = watched.send(());
                    held::release_when_due(&shared);
                    guardian
                }
            })
            .expect("a thread can be started");
        let mounted = FaultFs {
            shared,
            mount_point: Some(mount_point),
            session: Some(session),
            releaser: Some(releaser),
        };
        // An error means that the releaser panicked, which its own message reports.
        let _ = is_watched.recv();
        // Answered by the thread that serves: from now on it is one of the process.
        let _ = mounted.path("none").metadata();
        for (name, bytes) in files {
            mounted.put(name, bytes);
        }
        Ok(mounted)
    }

    /// Returns the path of the folder.
    ///
    /// # Panics
    /// Never: the mount point lives until the drop.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.mount_point.as_ref().expect("until drop").path()
    }

    /// Returns the path of a file in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Creates a file, or replaces the content of one, behind the kernel's back.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.shared.lock();
        let node = state.create(name.as_ref());
        let file = state.files.get_mut(&node).expect("just created");
        file.bytes = bytes.to_vec();
    }

    /// Truncates a file, or extends it with zeroes, behind the kernel's back: a file that changes
    /// under its readers.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn resize(&self, name: &str, len: usize) {
        let mut state = self.shared.lock();
        let node = state.names[std::ffi::OsStr::new(name)];
        let file = state.files.get_mut(&node).expect("a name has a file");
        file.bytes.resize(len, 0);
    }

    /// From now on gives a file another inode number at each lookup, as file systems do that have
    /// none of their own.
    pub fn renumber(&self) {
        self.shared.lock().renumbered = 1;
    }

    /// Returns the content of a file, if it exists.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.shared.lock();
        let node = state.names.get(std::ffi::OsStr::new(name))?;
        Some(state.files[node].bytes.clone())
    }

    /// Returns the names in the folder.
    #[must_use]
    pub fn names(&self) -> Vec<OsString> {
        self.shared.lock().names.keys().cloned().collect()
    }

    /// Adds a rule: from now on, calls that it matches go wrong as it says.
    pub fn inject(&self, rule: Rule) -> RuleId {
        self.shared.lock().rules.add(rule)
    }

    /// Removes a rule. Calls that it holds remain held.
    pub fn lift(&self, rule: RuleId) {
        self.shared.lock().rules.remove(rule);
    }

    /// Removes all rules and releases held calls: the file system works again.
    pub fn heal(&self) {
        self.shared.lock().rules.clear();
        self.release();
    }

    /// Releases all calls that are held now. Rules stay.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        let now = Instant::now();
        for held in &mut state.held {
            held.due = now;
        }
        self.shared.changed.notify_all();
    }

    /// Returns the number of held calls.
    #[must_use]
    pub fn held_count(&self) -> usize {
        self.shared.lock().held.len()
    }

    /// Waits until at least `count` calls are held; returns whether they were within `limit`.
    #[must_use]
    pub fn wait_held(&self, count: usize, limit: Duration) -> bool {
        let state = self.shared.lock();
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, limit, |state| state.held.len() < count)
            .expect("nothing panics with the state locked");
        state.held.len() >= count
    }

    /// Returns the number of such calls since the mount.
    #[must_use]
    pub fn call_count(&self, call: Call) -> u64 {
        self.shared.lock().calls.get(&call).copied().unwrap_or(0)
    }
}

impl Drop for FaultFs {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.closing = true;
            state.rules.clear();
            self.shared.changed.notify_all();
        }
        // The releaser answers all held calls before it ends. If it panics, that is a bug here,
        // reported by its own message; the mount must go in any case.
        let releaser = self.releaser.take().map(JoinHandle::join);
        let path = self.root().to_owned();
        let forced = UnmountFlags::FORCE | UnmountFlags::DETACH;
        let refused = rustix::mount::unmount(&path, forced).err();
        // `INVAL`: nothing is mounted there any more, the ended session unmounted it itself.
        let unmounted = matches!(refused, None | Some(Errno::INVAL)) || unmount_by_helper(&path);
        if let Some(session) = self.session.take() {
            if unmounted && crate::user::is_root() {
                // Aborted: the serving thread got ENODEV, and its result says no more than that.
                let _ = session.join();
            } else {
                drop(session);
            }
        }
        drop(releaser);
        if let Some(mount_point) = self.mount_point.take() {
            if unmounted {
                // An empty folder that cannot be removed is harmless.
                let _ = mount_point.close();
            } else {
                eprintln!(
                    "cannot unmount {}: {refused:?}",
                    mount_point.keep().display()
                );
            }
        }
    }
}

/// Unmounts, for an ordinary user, with the set-uid helper that mounted.
fn unmount_by_helper(path: &Path) -> bool {
    std::process::Command::new("fusermount3")
        .args(["-u", "-q", "-z", "--"])
        .arg(path)
        .status()
        .is_ok_and(|status| status.success())
}
