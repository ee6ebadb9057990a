//! Small disks are really full, really cut, and really gone afterwards.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use millstream_testing::{LoopDevice, LoopExt4, Tmpfs, or_skip, wait_for};

const MIB: u64 = 1 << 20;

fn fill(folder: &std::path::Path) -> std::io::Error {
    let mut file = File::create(folder.join("filler")).expect("create");
    let block = vec![7; 64 << 10];
    for _ in 0..1024 {
        if let Err(error) = file.write_all(&block).and_then(|()| file.sync_data()) {
            return error;
        }
    }
    panic!("64 MiB fit on a small disk");
}

#[test]
fn a_small_ext4_is_full_soon_and_takes_direct_reads() {
    let disk = or_skip!(LoopExt4::new(8 * MIB));
    let file = disk.root().join("kept");
    fs::write(&file, vec![3; 8192]).expect("write");
    File::open(&file)
        .and_then(|file| file.sync_all())
        .expect("sync");
    let full = fill(disk.root());
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    let direct = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&file)
        .expect("ext4 has direct I/O");
    assert!(direct.metadata().expect("stat").len() == 8192);
    let (root, device) = (disk.root().to_owned(), disk.device().path().to_owned());
    drop((direct, disk));
    assert!(!root.exists());
    let devices = fs::read_to_string("/proc/mounts").expect("mounts");
    assert!(!devices.contains(device.to_str().expect("UTF-8")));
}

#[test]
fn a_small_tmpfs_is_full_soon() {
    let memory = or_skip!(Tmpfs::new(MIB));
    assert_eq!(fill(memory.root()).raw_os_error(), Some(libc::ENOSPC));
    let root = memory.root().to_owned();
    drop(memory);
    assert!(!root.exists());
}

#[test]
fn a_device_cut_short_under_its_reader_answers_eio() {
    let device = or_skip!(LoopDevice::new(4 * MIB));
    let backing = File::options()
        .write(true)
        .open(device.backing())
        .expect("open");
    backing.write_all_at(&[9; 4096], 3 * MIB).expect("write");
    backing.sync_all().expect("sync");
    let open = || {
        File::options()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(device.path())
            .expect("open")
    };
    let file = open();
    let mut page = Page([0; 4096]);
    let into = &mut page.0;
    file.read_exact_at(into, 3 * MIB).expect("still whole");
    assert_eq!(*into, [9; 4096]);
    device.shrink_backing(MIB);
    let cut = file.read_at(into, 3 * MIB).expect_err("cut");
    assert_eq!(cut.raw_os_error(), Some(libc::EIO));
    file.read_exact_at(into, 0).expect("the rest is there");
    let (path, own) = (device.path().to_owned(), device.backing().to_owned());
    drop((file, device));
    // Another test may be given the same device at once: only our own file must be gone from it.
    let sysfs = format!(
        "/sys/block/{}/loop/backing_file",
        path.file_name().expect("a name").display()
    );
    let own = own.display().to_string();
    let is_attached = || fs::read_to_string(&sysfs).is_ok_and(|backing| backing.contains(&own));
    let is_free = wait_for(|| !is_attached());
    assert!(is_free, "the device still holds the backing file");
}

/// Memory for a direct read.
#[repr(align(4096))]
struct Page([u8; 4096]);
