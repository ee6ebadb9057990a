//! Measures the devices beside hand-written code: 4 KiB random reads at depth 128.
//!
//! - The ring beside a bare ring with equal flags, direct and from the page cache.
//! - The thread pool beside eight threads in `pread` that take numbers from one atomic counter (the
//!   least that a pool can cost: no queue, no results), and beside the usual pool: a queue under a
//!   lock with a condition variable, and a channel for the results.
//!
//! Rounds of the rivals alternate; figures are medians. CPU is user and system time of the process.
//! Byte counts are checked here; the bytes are checked by the tests.
//!
//!     cargo run --release -p millstream-io --example device_speed [FOLDER [ROUNDS [TITLE]]]
//!
//! TITLE selects the comparisons whose title contains it (`warm`, `direct, 8`).

#![expect(unsafe_code, reason = "lends memory to devices and calls pread")]
#![cfg(target_os = "linux")]

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use io_uring::{EnterFlags, IoUring, opcode, types};
use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::device::uring::{Uring, UringOptions, describe};
use millstream_io::{Descriptor, Device, Operation, Region, Segment, Segments, Verb};

const FILE_BYTES: u64 = 1 << 30;
const BLOCK: usize = 4096;
const DEPTH: usize = 128;
const POOL_THREADS: usize = 8;
const COLD_COUNT: u64 = 60_000;
const WARM_COUNT: u64 = 600_000;
/// The part of the file that is read warm; small enough to stay in the cache.
const WARM_BYTES: u64 = 128 << 20;

/// One round of one rival.
#[derive(Clone, Copy)]
struct Figures {
    operations_per_second: f64,
    cpu_us: f64,
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok())
        .unwrap_or(7);
    let title = arguments
        .next()
        .and_then(|text| text.into_string().ok())
        .unwrap_or_default();
    let path = folder.join("millstream-device-speed");
    make_file(&path)?;
    let measured = measure(&path, rounds, &title);
    std::fs::remove_file(&path)?;
    measured
}

fn measure(path: &Path, rounds: usize, wanted: &str) -> std::io::Result<()> {
    let plan = Plan { rounds, wanted };
    let warm = File::open(path)?;
    let cold = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    let region = Region::new(DEPTH * BLOCK, None).expect("half a megabyte");
    if let Ok(cold) = &cold {
        let work = Work::new(cold, FILE_BYTES, COLD_COUNT);
        compare(
            "direct, depth 128",
            &plan,
            &mut [
                ("bare ring", &mut || bare_ring(&work, &region)),
                ("ring", &mut || ring(&work, &region, false)),
                ("ring, registered", &mut || ring(&work, &region, true)),
            ],
        );
        compare(
            "direct, 8 threads",
            &plan,
            &mut [
                ("plain pool", &mut || plain_pool(&work, &region)),
                ("queued pool", &mut || queued_pool(&work, &region)),
                ("threads", &mut || pool(&work, &region)),
            ],
        );
    } else {
        println!("SKIP: no direct I/O in this folder");
    }
    let work = Work::new(&warm, WARM_BYTES, WARM_COUNT);
    plain_pool(
        &Work::new(&warm, WARM_BYTES, 4 * WARM_BYTES / BLOCK as u64),
        &region,
    );
    compare(
        "warm, depth 128",
        &plan,
        &mut [
            ("bare ring", &mut || bare_ring(&work, &region)),
            ("ring", &mut || ring(&work, &region, false)),
        ],
    );
    compare(
        "warm, 8 threads",
        &plan,
        &mut [
            ("plain pool", &mut || plain_pool(&work, &region)),
            ("queued pool", &mut || queued_pool(&work, &region)),
            ("threads", &mut || pool(&work, &region)),
        ],
    );
    Ok(())
}

/// Which blocks to read.
struct Work {
    file: i32,
    blocks: u64,
    count: u64,
}

impl Work {
    fn new(file: &File, bytes: u64, count: u64) -> Work {
        Work {
            file: file.as_raw_fd(),
            blocks: bytes / BLOCK as u64,
            count,
        }
    }

    /// Offset of the `n`th read: random, but the same for all rivals.
    fn offset(&self, n: u64) -> u64 {
        let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)) % self.blocks * BLOCK as u64
    }
}

fn make_file(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let mut piece = vec![0; 1 << 20];
    for index in 0..FILE_BYTES >> 20 {
        millstream_sim::generate(index, 0, &mut piece);
        file.write_all(&piece)?;
    }
    file.sync_all()
}

/// One row of a table: a name and what runs one round.
type Rival<'a> = (&'a str, &'a mut dyn FnMut() -> Figures);

/// Which comparisons to make, and how many rounds of each.
struct Plan<'a> {
    rounds: usize,
    wanted: &'a str,
}

fn compare(title: &str, plan: &Plan, rivals: &mut [Rival]) {
    if !title.contains(plan.wanted) {
        return;
    }
    println!("\n4 KiB random, {title}: IOPS, CPU µs each (ratio to the first)");
    let mut all: Vec<Vec<Figures>> = vec![Vec::new(); rivals.len()];
    for _ in 0..plan.rounds {
        for ((_, rival), figures) in rivals.iter_mut().zip(&mut all) {
            figures.push(rival());
        }
    }
    let median = |figures: &[Figures], of: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let mut first = None;
    for ((name, _), figures) in rivals.iter().zip(&all) {
        let rate = median(figures, |one| one.operations_per_second);
        let cpu = median(figures, |one| one.cpu_us);
        let (first_rate, first_cpu) = *first.get_or_insert((rate, cpu));
        println!(
            "  {name:18} {rate:9.0} ({:.2})  {cpu:6.2} ({:.2})",
            rate / first_rate,
            cpu / first_cpu
        );
    }
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the struct is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn timed(count: u64, run: impl FnOnce()) -> Figures {
    let (began, cpu_before) = (Instant::now(), cpu_ns());
    run();
    Figures {
        operations_per_second: count as f64 / began.elapsed().as_secs_f64(),
        cpu_us: (cpu_ns() - cpu_before) as f64 / 1000.0 / count as f64,
    }
}

/// The loop of an owner: keeps the device full.
fn drive(device: &mut dyn Device, work: &Work, region: &Region) {
    let mut free: Vec<u64> = (0..DEPTH as u64).collect();
    let mut completions = Vec::with_capacity(DEPTH);
    let mut batch = Vec::with_capacity(DEPTH);
    let (mut started, mut ended) = (0, 0);
    while ended < work.count {
        while started < work.count
            && let Some(place) = free.pop()
        {
            // SAFETY: within the region, which lives until the last completion.
            let pointer = unsafe { region.pointer().add(place as usize * BLOCK) };
            batch.push(Operation {
                id: place,
                verb: Verb::Read,
                // SAFETY: the file is open until the end of the work.
                file: unsafe { Descriptor::from_raw(work.file as u64) },
                offset: work.offset(started),
                segments: Segments::One(Segment::new(pointer, BLOCK)),
                offload: false,
                mount: 0,
            });
            started += 1;
        }
        // SAFETY: as above; each place is lent to one operation at a time.
        let pushed_count = unsafe { device.push(&batch) };
        assert_eq!(pushed_count, batch.len(), "as many places as the depth");
        batch.clear();
        device.submit().expect("the device works");
        if device.reap(&mut completions) == 0 {
            let woken = device.wait(None, &mut || false);
            woken.expect("the device works");
            device.reap(&mut completions);
        }
        for completion in completions.drain(..) {
            assert_eq!(completion.result, BLOCK as i64);
            free.push(completion.id);
            ended += 1;
        }
    }
}

fn ring(work: &Work, region: &Arc<Region>, registered: bool) -> Figures {
    let mut device = Uring::new(UringOptions::default()).expect("a ring");
    if registered {
        device.register(region);
    }
    timed(work.count, || drive(&mut device, work, region))
}

fn pool(work: &Work, region: &Region) -> Figures {
    let mut device = Threads::new(ThreadsOptions::default()).expect("threads");
    timed(work.count, || drive(&mut device, work, region))
}

/// Eight threads that take reads from a queue and report through a channel, one by one.
fn queued_pool(work: &Work, region: &Region) -> Figures {
    let (queue, filled) = (Mutex::new((VecDeque::new(), false)), Condvar::new());
    let start = region.pointer() as usize;
    let (reports, reported) = std::sync::mpsc::channel();
    let serve = |reports: Sender<u64>| {
        loop {
            let mut guard = queue.lock().unwrap();
            let (place, offset): (u64, i64) = loop {
                match guard.0.pop_front() {
                    Some(order) => break order,
                    None if guard.1 => return,
                    None => guard = filled.wait(guard).unwrap(),
                }
            };
            drop(guard);
            let pointer = (start + place as usize * BLOCK) as *mut libc::c_void;
            // SAFETY: the place is lent to this order alone, in a region that outlives the scope.
            let moved = unsafe { libc::pread64(work.file, pointer, BLOCK, offset) };
            assert_eq!(moved, BLOCK as isize);
            reports.send(place).unwrap();
        }
    };
    timed(work.count, || {
        std::thread::scope(|scope| {
            for _ in 0..POOL_THREADS {
                let (serve, reports) = (&serve, reports.clone());
                scope.spawn(move || serve(reports));
            }
            let order = |place, n| {
                queue
                    .lock()
                    .unwrap()
                    .0
                    .push_back((place, work.offset(n) as i64));
                filled.notify_one();
            };
            let first = work.count.min(DEPTH as u64);
            (0..first).for_each(|n| order(n, n));
            for n in first..work.count {
                order(reported.recv().unwrap(), n);
            }
            assert_eq!(reported.iter().take(first as usize).count(), first as usize);
            queue.lock().unwrap().1 = true;
            filled.notify_all();
        });
    })
}

/// Eight threads that take numbers from a counter and have places of their own.
fn plain_pool(work: &Work, region: &Region) -> Figures {
    let next = AtomicU64::new(0);
    timed(work.count, || {
        std::thread::scope(|scope| {
            for thread in 0..POOL_THREADS {
                let next = &next;
                // Each thread goes round sixteen places, as many in all as a device's depth.
                let places = DEPTH / POOL_THREADS;
                let start = region.pointer() as usize + thread * places * BLOCK;
                scope.spawn(move || {
                    for place in (0..places).cycle() {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= work.count {
                            break;
                        }
                        let pointer = (start + place * BLOCK) as *mut libc::c_void;
                        let offset = work.offset(n) as i64;
                        // SAFETY: the place is this thread's alone, in a region that outlives the
                        // scope.
                        let moved = unsafe { libc::pread64(work.file, pointer, BLOCK, offset) };
                        assert_eq!(moved, BLOCK as isize);
                    }
                });
            }
        });
    })
}

/// A hand-written ring with the flags that the device finds here.
fn bare_ring(work: &Work, region: &Region) -> Figures {
    let features = describe(&Uring::new(UringOptions::default()).expect("a ring"));
    let mut builder = IoUring::builder();
    if features.single_issuer {
        builder.setup_single_issuer();
    }
    if features.defer_taskrun {
        builder.setup_defer_taskrun().setup_taskrun_flag();
    }
    if features.coop_taskrun {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    let mut ring: IoUring = builder.build(DEPTH as u32).expect("a ring");
    timed(work.count, || {
        let mut free: Vec<u64> = (0..DEPTH as u64).collect();
        let (mut started, mut ended) = (0, 0);
        while ended < work.count {
            let mut batch = 0;
            {
                let mut sq = ring.submission();
                while started < work.count
                    && batch < 64
                    && let Some(place) = free.pop()
                {
                    // SAFETY: within the region.
                    let pointer = unsafe { region.pointer().add(place as usize * BLOCK) };
                    let read = opcode::Read::new(types::Fd(work.file), pointer, BLOCK as u32);
                    let entry = read.offset(work.offset(started)).build().user_data(place);
                    // SAFETY: the place is lent to this read alone.
                    unsafe { sq.push(&entry) }.expect("room for the depth");
                    started += 1;
                    batch += 1;
                }
            }
            let wait = u32::from(free.is_empty() || started == work.count);
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: no argument.
            unsafe { ring.submitter().enter::<()>(batch, wait, flags, None) }.expect("enter");
            for cqe in ring.completion() {
                assert_eq!(cqe.result(), BLOCK as i32);
                free.push(cqe.user_data());
                ended += 1;
            }
        }
    })
}
