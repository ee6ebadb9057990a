//! The application's job system decodes, its allocator supplies memory, and bytes land in memory of
//! its own. `cargo run -p millstream --example job_system`
#![expect(unsafe_code, reason = "the two traits vouch for memory")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use millstream::{
    CodecId, Decode, Destination, Job, JobSystem, Place, QueueOptions, Read, RegionAllocator,
    Storage, StorageOptions,
};

/// A job system of one thread; an engine's own goes here.
struct Jobs(Sender<Job>);

impl JobSystem for Jobs {
    fn spawn(&self, job: Job) {
        // A job that is dropped fails its request.
        let _ = self.0.send(job);
    }
}

/// Counts what staging and buffers take.
#[derive(Default)]
struct Counted(AtomicUsize);

// SAFETY: the global allocator gives zeroed memory of this layout, or null.
unsafe impl RegionAllocator for Counted {
    fn allocate(&self, len: usize, align: usize) -> *mut u8 {
        self.0.fetch_add(len, Ordering::Relaxed);
        match Layout::from_size_align(len, align) {
            // SAFETY: the layout has a length.
            Ok(layout) if len > 0 => unsafe { alloc_zeroed(layout) },
            _ => std::ptr::null_mut(),
        }
    }

    unsafe fn free(&self, pointer: *mut u8, len: usize, align: usize) {
        let layout = Layout::from_size_align(len, align).expect("as when it was allocated");
        // SAFETY: the caller gives back what `allocate` gave, with its layout.
        unsafe { dealloc(pointer, layout) }
    }
}

/// A block of floats that bytes land in, without a conversion.
struct Samples(Box<[f32]>);

// SAFETY: the box owns its memory, which does not move with it; any bytes are valid floats.
unsafe impl Destination for Samples {
    fn place(&mut self) -> Place {
        let (pointer, len) = (self.0.as_mut_ptr().cast(), size_of_val(&*self.0));
        Place::Host { pointer, len }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sender, jobs) = channel::<Job>();
    std::thread::spawn(move || jobs.into_iter().for_each(Job::run));
    let memory = Arc::new(Counted::default());
    let mut options = StorageOptions::default();
    options.job_system = Some(Arc::new(Jobs(sender)));
    options.allocator = Some(memory.clone());
    options.staging_bytes = 1 << 20;
    let storage = Storage::new(options)?;
    let queue = storage.queue(QueueOptions::default())?;

    let stored: Vec<u8> = (0..1000).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let request = Read::memory(stored.into())
        .decode(Decode::codec(CodecId::STORED).raw_len(4000))
        .into(Samples(vec![0.0; 1000].into()));
    let samples = queue.submit(request)?.wait()?.0;
    let (jobs, taken) = (storage.stats().jobs, memory.0.load(Ordering::Relaxed));
    println!(
        "sample 999 is {}; jobs: {jobs}, bytes allocated: {taken}",
        samples[999]
    );
    Ok(())
}
