//! Trees of files on real file systems, loaded with so few descriptors that nearly every request
//! opens its file again.
//!
//! A file that was closed to make room is opened again by its path. Each file system says in its
//! own way whether that is still the same file: some keep inode numbers, some make them up at each
//! lookup, some reuse them at once. So every one is tried: files that nothing touches load without
//! an error, with the right bytes; files that another process replaces, changes or removes, or that
//! the storage writes to, load the bytes of the file as it was or is, as a whole, or fail with an
//! error that says what happened.
//!
//! The trees on file systems that need no further package are small. The large ones are ignored
//! tests, which empty the page cache of the whole machine, and print why a file system was skipped.

#![cfg(target_os = "linux")]

mod cell;
mod load;
mod touch;
mod tree;

use millstream_testing::{Unavailable, alive, or_skip};

use cell::{Cell, Make};
use load::Load;
use tree::Tree;

millstream_testing::watch!();

/// How much is loaded.
struct Scale {
    files: usize,
    bytes_max: usize,
    /// Size of the disks.
    disk_bytes: u64,
    rounds: usize,
    touched_rounds: usize,
    /// What is written to `/proc/sys/vm/drop_caches` between rounds. 2, unused names and inodes,
    /// disturbs no other test.
    forgets: &'static [u8],
}

const SMALL: Scale = Scale {
    files: 60,
    bytes_max: 200_000,
    disk_bytes: 64 << 20,
    rounds: 2,
    touched_rounds: 1,
    forgets: b"2",
};

const LARGE: Scale = Scale {
    files: 300,
    bytes_max: 3_000_000,
    disk_bytes: 512 << 20,
    rounds: 6,
    touched_rounds: 4,
    forgets: b"32",
};

fn run(name: &str, make: Make, scale: &Scale) {
    let mut random = millstream_testing::random();
    let mut tree = Tree::new(&mut random, scale.files, scale.bytes_max);
    let named = |unavailable| Unavailable::because(format!("{name}: {unavailable}"));
    let cell = or_skip!(make(&tree, scale.disk_bytes).map_err(named));
    for (backend, backend_name) in load::backends() {
        let about = format!("{name}, {backend_name}");
        let loaded = Load::new(about, &cell, tree.clone(), backend, random.fork());
        let mut load = match loaded {
            Ok(load) => load,
            Err(unavailable) => {
                unavailable.announce();
                continue;
            }
        };
        load.rounds(scale.rounds, scale.forgets);
        if cell.writable {
            for _ in 0..scale.touched_rounds {
                load.touched(scale.forgets);
                load.written(scale.forgets);
                load.rounds(1, scale.forgets);
                alive();
            }
        }
        tree = load.finish();
    }
}

macro_rules! each {
    ($scale:ident: $($(#[$ignore:meta])* $name:ident),*) => {
        $(
            #[test]
            $(#[$ignore])*
            fn $name() {
                crate::run(stringify!($name), crate::Cell::$name, &crate::$scale);
            }
        )*
    };
}

mod every_byte_of_a_small_tree_is_right_on {
    each!(SMALL: ext4, tmpfs, overlay, overlay_of_two, squashfs, numbers_made_anew);
}

mod every_byte_is_right_on {
    macro_rules! ignored {
        ($($name:ident),*) => {
            each!(LARGE: $(
                #[ignore = "a large tree, which empties the page cache; a step of .ci/full"]
                $name
            ),*);
        };
    }

    ignored!(
        ext4,
        xfs,
        btrfs,
        vfat,
        tmpfs,
        squashfs,
        overlay,
        overlay_of_two,
        overlay_of_squashfs,
        overlay_without_upper,
        numbers_made_anew,
        ntfs_3g,
        exfat_fuse,
        sshfs,
        mergerfs,
        bindfs,
        unionfs_fuse
    );
}
