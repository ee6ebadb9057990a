//! A process that forks while it has a storage: in the child its calls return, and the parent's
//! storage is not disturbed.

use std::time::Duration;

use millstream::{Buffer, ErrorKind, Fence, FileOptions, Group, Read, Ticket};
use millstream_testing::{forked, this_test};

use crate::faults::rig::{Rig, each, landed, pattern};

/// What the forked child does; 0 if all is well, else the number of the step that failed.
fn in_the_child(rig: Rig, mut pending: Ticket<Buffer>, group: &Group) -> i32 {
    let closed = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Closed);
    if !closed(pending.wait().err().map(|error| error.kind())) {
        return 1;
    }
    let waited = pending.wait_timeout(Duration::from_millis(10));
    if !closed(waited.err().map(|error| error.kind())) {
        return 2;
    }
    let waited = rig.storage.wait(group, None);
    if !closed(waited.err().map(|error| error.kind())) {
        return 3;
    }
    if rig.storage.close(Duration::MAX).operations > 0 {
        return 4;
    }
    // None of these waits for threads that the child does not have.
    drop(pending);
    drop(rig);
    0
}

#[test]
fn a_forked_child_can_wait_close_and_drop_and_the_parent_goes_on() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = (folder.path().join("a"), pattern(1 << 20));
        std::fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(path, FileOptions::default());
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        let (fence, group) = (Fence::new(0), Group::new());
        let held = Read::whole(file).after(&fence, 1).group(&group);
        let pending = rig.submit(held);
        // The child's copies of both; the parent keeps its own.
        let mut moved = Some((rig, pending));
        let status = forked(|| {
            let (rig, pending) = moved.take().expect("moved in the child only");
            in_the_child(rig, pending, &group)
        });
        assert_eq!(status, 0, "{name}: the step that failed");
        let (rig, pending) = moved.expect("the parent's are where they were");
        assert!(!pending.is_complete(), "{name}");
        fence.signal(1);
        assert!(landed(pending)[..] == content, "{name}");
        assert!(
            landed(rig.submit(Read::whole(file)))[..] == content,
            "{name}"
        );
        rig.finish();
    });
}
