//! Seeded schedules of requests for a buffer of D3D12: several threads enqueue, submit and cancel,
//! with fences, formats of the program, and lengths beyond the upload heap, until the queue has
//! completed everything or is closed. `SCHEDULE_COUNT` and `MILLSTREAM_SEED` are as in `schedules`.
//!
//! What must hold: a request that was not canceled has all of its bytes in its part of the buffer,
//! another all or none; nothing changes after `Close`; a queue that was not closed completes all.

use std::time::Duration;

use direct_storage::*;
use millstream_testing::wait_for;
use windows::Win32::Graphics::Direct3D12::ID3D12Fence;

use crate::calls::*;
use crate::common::*;
use crate::d3d12::{ZSTD, encode};
use crate::device::*;
use crate::schedules::{count, first_seed};

const LENGTHS: [usize; 6] = [1, 5000, 60_000, 200_000, 700_000, 4_500_000];

const FORMATS: [DSTORAGE_COMPRESSION_FORMAT; 4] = [NONE, GDEFLATE, ZSTD, CUSTOM];

/// The tag of requests that are canceled.
const CANCELED: u64 = 3;

/// Bytes, and a file of them in each format with its length.
struct Content {
    raw: Vec<u8>,
    files: Vec<(IDStorageFile, u32)>,
}

struct Step {
    content: usize,
    format: usize,
    offset: u64,
    tag: u64,
    is_gated: bool,
    submits: bool,
    cancels: bool,
}

#[test]
fn seeded_schedules_fill_a_buffer_as_the_documentation_promises() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    session
        .factory
        .set_staging(4 << 20)
        .expect("no queue is open");
    let contents = LENGTHS.map(|len| {
        let raw = pattern(len, len as u64);
        let files = FORMATS.iter().map(|format| {
            let stored = encode(*format, &raw);
            let file = session.file(&format!("{len}-{}", format.0), &stored);
            (file, stored.len() as u32)
        });
        Content {
            files: files.collect(),
            raw,
        }
    });
    let contents = Shared::new(contents);
    for seed in first_seed()..first_seed() + count() / 10 + 1 {
        println!("MILLSTREAM_SEED={seed} SCHEDULE_COUNT=1");
        run_schedule(&gpu, &session, &contents, seed);
    }
    drop(contents);
    let restored = wait_for(|| session.factory.set_staging(32 << 20).is_ok());
    assert!(restored, "no queue is open");
}

fn plan(random: &mut fastrand::Rng, end: &mut u64) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..random.usize(1..40) {
        let is_large = random.u8(..) < 3;
        let content = match is_large {
            true => LENGTHS.len() - 1,
            false => random.usize(..LENGTHS.len() - 1),
        };
        steps.push(Step {
            content,
            format: random.usize(..FORMATS.len()),
            offset: *end,
            tag: random.u64(..4),
            is_gated: random.u8(..6) == 0,
            submits: random.u8(..5) == 0,
            cancels: random.u8(..20) == 0,
        });
        *end += LENGTHS[content] as u64;
    }
    steps
}

fn run_schedule(gpu: &Device, session: &Session, contents: &Shared<[Content; 6]>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut end = 0;
    let plans: Vec<Vec<Step>> = (0..random.usize(1..=3))
        .map(|_| plan(&mut random, &mut end))
        .collect();
    let is_reached = random.u8(..4) > 0;
    let closes = !is_reached || random.u8(..4) == 0;
    let into = Shared::new(gpu.buffer(end));
    let fence = Shared::new(gpu.fence());
    let queue = Shared::new(gpu.storage_queue(session, FILE));
    let done = Event::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = plans
            .iter()
            .map(|plan| {
                let (into, fence, queue) = (&into, &fence, &queue);
                scope.spawn(move || {
                    for step in plan {
                        take_step(step, &contents[step.content], into, fence, queue);
                    }
                    queue.submit();
                })
            })
            .collect();
        // The program decompresses, as the threads may wait for slots.
        let mut left = random.u32(..30);
        while workers.iter().any(|worker| !worker.is_finished()) || left > 0 {
            finish_as_program(session, &take_as_program(session));
            std::thread::sleep(Duration::from_millis(1));
            left = left.saturating_sub(1);
            if left == 0 && is_reached {
                signal(&fence, 1);
            }
            if left == 0 && closes {
                queue.close();
            }
        }
    });
    match closes {
        true => queue.close(),
        false => {
            queue.set_event(done.0);
            queue.submit();
            let is_done = || {
                finish_as_program(session, &take_as_program(session));
                done.is_set()
            };
            assert!(wait_for(is_done), "everything completes");
            assert_eq!(record(&queue).FailureCount, 0);
        }
    }
    let found = gpu.buffer_bytes(&into, end as usize);
    for step in plans.iter().flatten() {
        let raw = &contents[step.content].raw;
        let part = &found[step.offset as usize..][..raw.len()];
        let may_lack = closes || step.tag == CANCELED;
        let is_whole = part == raw || may_lack && part.iter().all(|byte| *byte == 0);
        assert!(is_whole, "offset {}, format {}", step.offset, step.format);
    }
    if closes {
        // Of what the program still has, nothing arrives.
        finish_as_program(session, &take_as_program(session));
        assert!(gpu.buffer_bytes(&into, end as usize) == found);
    }
}

fn take_step(
    step: &Step,
    content: &Content,
    into: &windows::Win32::Graphics::Direct3D12::ID3D12Resource,
    fence: &ID3D12Fence,
    queue: &IDStorageQueue3,
) {
    let len = content.raw.len();
    let (file, stored_len) = &content.files[step.format];
    let format = FORMATS[step.format];
    let request = read_encoded(file, 0, *stored_len, format, &mut []);
    let mut request = to_resource(request, &To::Buffer(into, step.offset, len as u32), len);
    request.CancellationTag = step.tag;
    match step.is_gated {
        true => {
            let flags = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
            queue.requests(&[request], fence, 1, flags);
        }
        false => queue.request(&request),
    }
    if step.submits {
        queue.submit();
    }
    if step.cancels {
        queue.cancel(u64::MAX, CANCELED);
    }
}
