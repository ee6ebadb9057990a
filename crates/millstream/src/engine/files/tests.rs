use millstream_io::fs::OsFileSystem;
use millstream_io::{Errno, FileSystem};

use super::*;

const MS: u64 = 1_000_000;

/// `EMFILE`, or `ERROR_TOO_MANY_OPEN_FILES`.
const TOO_MANY_FILES: Errno = Errno(if cfg!(windows) { 4 } else { 24 });

/// A storage with a file in use, if asked for, and `count` that wait to be opened.
fn files(in_use: bool, count: u64) -> Files {
    let mut files = Files::new(512, Access::Auto);
    let mut add = |index: u64, opened| {
        let id = FileId::from_bits(index);
        let path: Arc<Path> = Arc::from(Path::new(&format!("file{index}")));
        let new = NewFile {
            path: Arc::clone(&path),
            place: Arc::clone(&path),
            options: crate::FileOptions::default(),
            opened,
        };
        files.add(id, new);
    };
    if in_use {
        let opened = OsFileSystem::new().open(Path::new("Cargo.toml"), OpenMode::default());
        add(count, Some(opened.expect("there")));
    }
    (0..count).for_each(|index| add(index, None));
    if in_use {
        files.at(count as u32).attach();
    }
    files
}

/// Has every open fail for want of a descriptor; when they were tried, and which failed for good.
fn try_all(files: &mut Files, until_ns: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut tried, mut failed) = (Vec::new(), Vec::new());
    for now_ns in (0..until_ns).step_by(MS as usize) {
        while let Some((index, ..)) = files.next_open(now_ns) {
            tried.push(now_ns);
            let answer = OpenAnswer {
                opened: Some(Err(IoError::new("open", TOO_MANY_FILES))),
                direct: None,
                read: None,
                closed: None,
                renewed: Vec::new(),
                spent_ns: 0,
            };
            if files.open_done(index, answer, now_ns) {
                failed.push(now_ns);
            }
        }
    }
    (tried, failed)
}

#[test]
fn a_process_out_of_descriptors_is_tried_again_for_a_second_also_beside_files_in_use() {
    for in_use in [false, true] {
        let mut files = files(in_use, 1);
        let (tried, failed) = try_all(&mut files, 5000 * MS);
        assert_eq!(tried[..4], [0, MS, 3 * MS, 7 * MS]);
        let gaps = tried.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.max() <= Some(limits::SHORTAGE_WAIT_NS_MAX));
        assert_eq!(failed.len(), 1);
        assert!((1000 * MS..1100 * MS).contains(&failed[0]), "{failed:?}");
    }
}

#[test]
fn once_a_second_has_passed_all_opens_that_wait_for_a_descriptor_fail_at_once() {
    let (_, failed) = try_all(&mut files(false, 100), 5000 * MS);
    assert_eq!(failed.len(), 100);
    assert!(failed.iter().all(|at| *at == failed[0]), "{failed:?}");
}

/// A second look at the same owner outlives it: the answer of its direct open comes between a new
/// handle and the look that this asks for.
#[test]
fn the_end_of_a_direct_open_asks_for_no_second_look() {
    let mut files = Files::new(512, Access::Auto);
    let path: Arc<Path> = Arc::from(Path::new("Cargo.toml"));
    let new = || NewFile {
        path: Arc::clone(&path),
        place: Arc::clone(&path),
        options: crate::FileOptions::default(),
        opened: None,
    };
    let (owner, other) = (FileId::from_bits(0), FileId::from_bits(1));
    files.add(owner, new());
    let open = || OsFileSystem::new().open(Path::new("Cargo.toml"), OpenMode::default());
    let answer = |buffered: bool| {
        let opened = || open().expect("there");
        OpenAnswer {
            direct: (!buffered).then(|| Ok(opened().descriptor)),
            opened: buffered.then(|| Ok(opened())),
            read: None,
            closed: None,
            renewed: Vec::new(),
            spent_ns: 0,
        }
    };
    assert!(files.next_open(0).is_some());
    files.open_done(0, answer(true), 0);
    files.want_direct(0, true);
    assert!(files.next_open(0).is_some());
    // In one round: a letter with a new handle, and the answer.
    files.add(other, new());
    files.open_done(0, answer(false), 0);
    let mut looks = Vec::new();
    while let Some((look, _)) = files.next_look() {
        looks.push(look);
    }
    // Both are closed while the looks are out, and the path has changed.
    for index in [0, 1] {
        files.at(index).close_fired = true;
    }
    let mut freed = 0;
    for look in looks {
        let handles = look.handles.clone();
        files.looked(look, &Err(IoError::new("statx", Errno::NOT_FOUND)));
        for handle in handles {
            freed += usize::from(files.finish_close(handle));
        }
        while let Some(file) = files.unneeded.pop() {
            let is_there = files.peek(file).is_some();
            freed += usize::from(is_there && files.finish_close(file.0.index()));
        }
    }
    assert_eq!(freed, 2);
}

#[test]
fn descriptors_that_are_being_closed_to_make_room_are_not_closed_again_at_the_end() {
    let system = OsFileSystem::new();
    for refused in [false, true] {
        let mut files = files(true, 0);
        let opened = system.open(Path::new("Cargo.toml"), OpenMode::default());
        files.at(0).direct = Direct::Open(opened.expect("there").descriptor);
        if refused {
            files.at(0).refuse_direct();
        }
        let call = files.at(0).let_go();
        files.take_all(true);
        assert!(files.closes.is_empty(), "the call closes them");
        assert_eq!(files.at(0).descriptors(), 2);
        assert!(files.at(0).gone(LetGoAnswer::Kept(call)).is_none());
        assert_eq!(matches!(files.at(0).direct, Direct::Refused(_)), refused);
        assert_eq!(files.at(0).descriptors(), 2);
        files.take_all(true);
        assert_eq!(files.closes.len(), 2);
        for (descriptor, _) in files.closes.drain(..) {
            system.close(descriptor).expect("open until now");
        }
    }
}

#[test]
fn a_handle_that_stays_open_leaves_room_for_others_also_with_a_direct_descriptor() {
    let mut files = files(true, 1);
    files.descriptors_max = 2;
    let open = || OsFileSystem::new().open(Path::new("Cargo.toml"), OpenMode::default());
    let answer = |opened, direct| OpenAnswer {
        opened,
        direct,
        read: None,
        closed: None,
        renewed: Vec::new(),
        spent_ns: 0,
    };
    files.write_begins(1);
    files.want_direct(1, true);
    assert_eq!(files.next_open(0).expect("the direct one is first").0, 1);
    let direct = open().expect("there").descriptor;
    files.open_done(1, answer(None, Some(Ok(direct))), 0);
    assert_eq!(files.next_open(0).expect("there is room").0, 0);
    files.open_done(0, answer(Some(open()), None), 0);
    assert_eq!((files.descriptors, files.pinned), (3, 2));
}
