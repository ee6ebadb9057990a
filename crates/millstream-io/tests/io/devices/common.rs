//! Devices with files, memory with canaries, and the loop of an owner.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use millstream_io::device::FeatureMask;
use millstream_io::device::threads::{Threads, ThreadsOptions};
#[cfg(target_os = "linux")]
use millstream_io::device::uring::{Uring, UringOptions};
use millstream_io::device::{Abandoned, Completion, Device};
use millstream_io::fs::OsFileSystem;
use millstream_io::{
    Descriptor, FileSystem, OpenMode, Operation, OwnedDescriptor, Segment, Segments, Verb,
};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};

const POISON: u8 = 0xa5;
const CANARY_BYTES: usize = 4096;
const PAGE: usize = 4096;

/// Page-aligned memory, filled with a poison, between two canaries.
pub(crate) struct Memory {
    pages: *mut u8,
    len: usize,
    layout: std::alloc::Layout,
}

impl Memory {
    pub(crate) fn new(len: usize) -> Memory {
        let whole = CANARY_BYTES + len.next_multiple_of(PAGE) + CANARY_BYTES;
        let layout = std::alloc::Layout::from_size_align(whole, PAGE).unwrap();
        // SAFETY: the layout has a size above zero; all of it is written at once.
        let pages = unsafe {
            let pages = std::alloc::alloc(layout);
            assert!(!pages.is_null());
            pages.write_bytes(POISON, whole);
            pages
        };
        Memory { pages, len, layout }
    }

    pub(crate) fn holding(bytes: &[u8]) -> Memory {
        let memory = Memory::new(bytes.len());
        // SAFETY: `len` bytes are allocated, and nothing else uses them yet.
        unsafe {
            memory
                .start()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        memory
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: within the allocation.
        unsafe { self.pages.add(CANARY_BYTES) }
    }

    pub(crate) fn segment(&self, offset: usize, len: usize) -> Segment {
        assert!(offset + len <= self.len.next_multiple_of(PAGE));
        // SAFETY: within the allocation, as asserted.
        Segment::new(unsafe { self.start().add(offset) }, len)
    }

    /// The bytes. To be called only while no operation on them is in flight.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: initialized; the caller calls this only after the completions.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }

    pub(crate) fn is_poison(&self, offset: usize, len: usize) -> bool {
        self.bytes()[offset..offset + len]
            .iter()
            .all(|byte| *byte == POISON)
    }

    pub(crate) fn check_canaries(&self) {
        // SAFETY: the whole allocation, initialized.
        let all = unsafe { std::slice::from_raw_parts(self.pages, self.layout.size()) };
        let (before, after) = (&all[..CANARY_BYTES], &all[CANARY_BYTES + self.len..]);
        assert!(
            before.iter().chain(after).all(|byte| *byte == POISON),
            "written outside"
        );
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.pages, self.layout) };
    }
}

/// Bytes in which every position differs from its neighbors.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    millstream_sim::generate(42, 0, &mut bytes);
    bytes
}

pub(crate) fn read(id: u64, file: Descriptor, offset: u64, segment: Segment) -> Operation {
    Operation {
        id,
        verb: Verb::Read,
        file,
        offset,
        segments: Segments::One(segment),
        offload: false,
        mount: 0,
    }
}

pub(crate) fn write(id: u64, file: Descriptor, offset: u64, segment: Segment) -> Operation {
    Operation {
        verb: Verb::Write,
        ..read(id, file, offset, segment)
    }
}

/// Pushes operations; how many the device took.
pub(crate) fn lend_all(device: &mut dyn Device, operations: &[Operation]) -> usize {
    // SAFETY: the tests keep memory, lists and files until after the completions, and leak them
    // where there may be none.
    unsafe { device.push(operations) }
}

/// Pushes one operation; returns it if the device is full.
pub(crate) fn lend(device: &mut dyn Device, operation: Operation) -> Result<(), Operation> {
    match lend_all(device, &[operation]) {
        0 => Err(operation),
        count => {
            assert_eq!(count, 1, "took more than it was given");
            Ok(())
        }
    }
}

enum Files {
    Real {
        folder: tempfile::TempDir,
        files: OsFileSystem,
        open: HashMap<Descriptor, PathBuf>,
    },
    Sim {
        files: SimFiles,
        paths: HashMap<Descriptor, PathBuf>,
    },
}

/// A device with a place for files.
pub(crate) struct Rig {
    pub(crate) name: &'static str,
    pub(crate) device: Box<dyn Device>,
    files: Files,
}

impl Rig {
    pub(crate) fn real(name: &'static str, device: Box<dyn Device>) -> Rig {
        Rig::with_files(name, device, OsFileSystem::new())
    }

    fn with_files(name: &'static str, device: Box<dyn Device>, files: OsFileSystem) -> Rig {
        let files = Files::Real {
            folder: tempfile::tempdir().unwrap(),
            files,
            open: HashMap::new(),
        };
        Rig {
            name,
            device,
            files,
        }
    }

    fn sim(depth: usize) -> Rig {
        let (device, files) = Sim::new(SimOptions {
            depth,
            ..SimOptions::default()
        });
        Rig {
            name: "sim",
            device: Box::new(device),
            files: Files::Sim {
                files,
                paths: HashMap::new(),
            },
        }
    }

    pub(crate) fn file(&mut self, content: &[u8]) -> Descriptor {
        self.open(content, true, false)
            .expect("an ordinary file opens")
    }

    pub(crate) fn read_only_file(&mut self, content: &[u8]) -> Descriptor {
        self.open(content, false, false)
            .expect("an ordinary file opens")
    }

    /// `None` where there is no direct I/O.
    pub(crate) fn direct_file(&mut self, content: &[u8]) -> Option<Descriptor> {
        self.open(content, true, true)
    }

    fn open(&mut self, content: &[u8], write: bool, direct: bool) -> Option<Descriptor> {
        match &mut self.files {
            Files::Real {
                folder,
                files,
                open,
            } => {
                let path = folder.path().join(format!("file{}", open.len()));
                std::fs::write(&path, content).unwrap();
                let mode = OpenMode {
                    write,
                    direct,
                    ..OpenMode::default()
                };
                let descriptor = *files.open(&path, mode).ok()?.descriptor;
                open.insert(descriptor, path);
                Some(descriptor)
            }
            Files::Sim { files, paths } => {
                let path = PathBuf::from(format!("file{}", paths.len()));
                files.add(&path, content.to_vec(), SimFileOptions::default());
                let mode = OpenMode {
                    write,
                    direct,
                    ..OpenMode::default()
                };
                let descriptor = *files.open(&path, mode).unwrap().descriptor;
                paths.insert(descriptor, path);
                Some(descriptor)
            }
        }
    }

    pub(crate) fn content(&self, descriptor: Descriptor) -> Vec<u8> {
        match &self.files {
            Files::Real { open, .. } => std::fs::read(&open[&descriptor]).unwrap(),
            Files::Sim { files, paths } => files.content(&paths[&descriptor]).unwrap(),
        }
    }

    /// The device's own time.
    pub(crate) fn now(&self) -> Duration {
        match &self.files {
            Files::Real { .. } => {
                static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
                START.get_or_init(Instant::now).elapsed()
            }
            Files::Sim { files, .. } => Duration::from_nanos(files.now_ns()),
        }
    }

    /// For tests of many operations, which the simulator logs.
    #[cfg(target_os = "linux")]
    pub(crate) fn forget_log(&self) {
        if let Files::Sim { files, .. } = &self.files {
            drop(files.take_log());
        }
    }

    /// Runs all operations, as many at a time as the device takes; their completions by id.
    pub(crate) fn run(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Vec<Completion> {
        let mut completions = Vec::new();
        for mut operation in operations {
            loop {
                match lend(self.device.as_mut(), operation) {
                    Ok(()) => break,
                    Err(back) => operation = back,
                }
                self.device.submit().unwrap();
                self.device.wait(None, &mut || false).unwrap();
                self.device.reap(&mut completions);
            }
        }
        completions.append(&mut self.finish());
        completions.sort_by_key(|completion| completion.id);
        completions
    }

    /// Submits and reaps until nothing is in flight.
    pub(crate) fn finish(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.device.submit().unwrap();
        while self.device.in_flight() > 0 {
            if self.device.reap(&mut completions) == 0 {
                self.device.wait(None, &mut || false).unwrap();
            }
        }
        completions
    }

    fn take_device(&mut self) -> Box<dyn Device> {
        let nothing = Box::new(millstream_io::device::null::NullDevice::new(1));
        std::mem::replace(&mut self.device, nothing)
    }

    pub(crate) fn shut_down(&mut self, within: Duration) -> (Abandoned, Vec<Completion>) {
        let mut completions = Vec::new();
        let deadline = Instant::now() + within;
        let abandoned = self.take_device().shutdown(deadline, &mut completions);
        (abandoned, completions)
    }

    /// Without a shutdown: a thread may still read from the files, so they stay open for ever.
    pub(crate) fn drop_device(&mut self) {
        drop(self.take_device());
        if let Files::Real { open, .. } = &mut self.files {
            open.clear();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Files::Real { files, open, .. } = &mut self.files {
            for (descriptor, _) in open.drain() {
                files.close(owned(descriptor)).unwrap();
            }
        }
    }
}

/// Rings with the flags of this kernel and of older ones; none where io_uring is refused.
#[cfg(target_os = "linux")]
pub(crate) fn rings() -> Vec<(&'static str, bool, FeatureMask)> {
    let new = FeatureMask::default();
    let masked = |change: fn(&mut FeatureMask)| {
        let mut mask = new;
        change(&mut mask);
        mask
    };
    vec![
        ("ring", true, new),
        ("ring of several owners", false, new),
        (
            "ring without deferred work",
            true,
            masked(|mask| mask.defer_taskrun = true),
        ),
        (
            "ring of a 5.19",
            true,
            masked(|mask| {
                mask.defer_taskrun = true;
                mask.single_issuer = true;
            }),
        ),
        (
            "ring without timed waits",
            true,
            masked(|mask| mask.ext_arg = true),
        ),
        (
            "ring that overflows",
            true,
            masked(|mask| mask.large_completion_queue = true),
        ),
        ("ring of a 5.10", true, FeatureMask::linux_5_10()),
    ]
}

#[cfg(target_os = "linux")]
pub(crate) fn ring(depth: u32, single_issuer: bool, mask: FeatureMask) -> Option<Uring> {
    let options = UringOptions {
        depth,
        single_issuer,
        mask,
    };
    match Uring::new(options) {
        Ok(ring) => Some(ring),
        Err(error) => {
            println!("SKIP: no ring: {error}");
            None
        }
    }
}

pub(crate) fn threads(threads: usize, depth: usize) -> Threads {
    let options = ThreadsOptions {
        threads,
        depth,
        ..ThreadsOptions::default()
    };
    Threads::new(options).unwrap()
}

/// The descriptor with a number.
pub(crate) fn descriptor(number: u64) -> Descriptor {
    // SAFETY: a file of the tests, or none.
    unsafe { Descriptor::from_raw(number) }
}

/// The ownership of a file that a test opened, to close it.
pub(crate) fn owned(file: Descriptor) -> OwnedDescriptor {
    // SAFETY: the tests let go of the ownership when they opened the file.
    unsafe { OwnedDescriptor::from_raw(file.raw()) }
}

/// The devices that this system has beside threads and the simulator.
#[cfg(target_os = "linux")]
fn native(depth: usize) -> Vec<Rig> {
    let rings = rings()
        .into_iter()
        .filter_map(|(name, single_issuer, mask)| {
            let ring = ring(depth as u32, single_issuer, mask)?;
            Some(Rig::real(name, Box::new(ring)))
        });
    rings.collect()
}

#[cfg(windows)]
fn native(depth: usize) -> Vec<Rig> {
    use millstream_io::device::iocp::{Iocp, IocpOptions, Port};
    let port = Port::new().unwrap();
    let files = OsFileSystem::with_port(std::sync::Arc::clone(&port));
    let options = IocpOptions {
        depth,
        ..IocpOptions::default()
    };
    let device = Box::new(Iocp::new(port, &options).unwrap());
    vec![Rig::with_files("iocp", device, files)]
}

#[cfg(not(any(target_os = "linux", windows)))]
fn native(_: usize) -> Vec<Rig> {
    Vec::new()
}

/// Runs an ignored test of this program in a process of its own, which must succeed; what it
/// printed. `None` where the process cannot be started.
#[cfg(target_os = "linux")]
pub(crate) fn child(
    test: &str,
    prepare: impl FnOnce(&mut std::process::Command),
) -> Option<String> {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--ignored", "--nocapture"]);
    prepare(&mut child);
    let output = match child.output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIP: {test} in a process of its own: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("1 passed"), "the child ran nothing");
    Some(text)
}

/// Runs a test over every device of this depth.
pub(crate) fn each(depth: usize, test: impl Fn(&mut Rig)) {
    for mut rig in native(depth) {
        test(&mut rig);
    }
    test(&mut Rig::real("threads", Box::new(threads(8, depth))));
    test(&mut Rig::real("one thread", Box::new(threads(1, depth))));
    test(&mut Rig::sim(depth));
}
