//! Destinations that are resources of D3D12: buffers, regions of textures, many subresources. Runs
//! where a device can be made; under Wine that takes a driver for Vulkan and a display.

use std::time::Duration;

use direct_storage::*;
use dstorage::abi;
use gdeflate::Level;
use millstream_codec::{CodecId, Scratch, encode_block};
use millstream_testing::wait_for;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;
use windows_core::HRESULT;

use crate::calls::*;
use crate::common::*;
use crate::device::*;
use crate::fences::TestFence;

pub(crate) const ZSTD: DSTORAGE_COMPRESSION_FORMAT =
    DSTORAGE_COMPRESSION_FORMAT(abi::DSTORAGE_COMPRESSION_FORMAT_ZSTD);

const FORMATS: [DSTORAGE_COMPRESSION_FORMAT; 3] = [NONE, GDEFLATE, ZSTD];

pub(crate) fn encode(format: DSTORAGE_COMPRESSION_FORMAT, raw: &[u8]) -> Vec<u8> {
    match format {
        GDEFLATE => gdeflate::compress(raw, Level::FASTEST, 1).expect("it is compressed"),
        ZSTD => {
            let mut stored = Vec::new();
            let scratch = &mut Scratch::default();
            encode_block(CodecId::ZSTD, 3, scratch, raw, &mut stored).expect("compressed");
            stored
        }
        _ => raw.to_vec(),
    }
}

/// Files of a session, and requests for all of their bytes.
struct Source<'a> {
    session: &'a Session,
    files: Vec<IDStorageFile>,
}

impl Source<'_> {
    fn new(session: &Session) -> Source<'_> {
        Source {
            session,
            files: Vec::new(),
        }
    }

    fn last(&self) -> &IDStorageFile {
        self.files.last().expect("a file")
    }

    fn request(
        &mut self,
        format: DSTORAGE_COMPRESSION_FORMAT,
        raw: &[u8],
        to: &To,
    ) -> DSTORAGE_REQUEST {
        let stored = encode(format, raw);
        let file = self.session.file(&self.files.len().to_string(), &stored);
        let request = read_encoded(&file, 0, stored.len() as u32, format, &mut []);
        self.files.push(file);
        to_resource(request, to, raw.len())
    }
}

/// Closes the files; fails unless all queues are closed.
fn restore_staging(session: &Session, source: Source) {
    drop(source);
    let restored = wait_for(|| session.factory.set_staging(32 << 20).is_ok());
    assert!(restored, "no queue is open");
}

fn whole(layout: (u64, u32, u32)) -> D3D12_BOX {
    D3D12_BOX {
        right: layout.0 as u32,
        bottom: layout.1,
        back: layout.2,
        ..Default::default()
    }
}

#[test]
fn buffers_receive_bytes_of_files_and_memory() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let (files, memory) = (
        gpu.storage_queue(&session, FILE),
        gpu.storage_queue(&session, MEMORY),
    );
    let mut source = Source::new(&session);
    for len in [1, 4097, 1_000_000] {
        let into = gpu.buffer(3 * len as u64 + 100);
        let mut expected = Vec::new();
        let mut requests = Vec::new();
        for (at, format) in (0..).zip(FORMATS) {
            let raw = pattern(len, at + 7 * len as u64);
            let to = To::Buffer(&into, at * len as u64, len as u32);
            let request = source.request(format, &raw, &to);
            requests.push(request);
            expected.extend(raw);
        }
        assert_eq!(run(&session, &files, &requests), OK, "{len}");
        let found = gpu.buffer_bytes(&into, 3 * len + 100);
        assert!(found[..3 * len] == expected, "{len}");
        assert_eq!(
            found[3 * len..],
            [0; 100],
            "{len}: nothing behind them is written"
        );
        for format in FORMATS {
            let raw = pattern(len, 31);
            let stored = encode(format, &raw);
            let to = To::Buffer(&into, 77, len as u32);
            let request = to_resource(copy(&stored, format, &mut []), &to, len);
            assert_eq!(run(&session, &memory, &[request]), OK, "{format:?} {len}");
            assert!(
                gpu.buffer_bytes(&into, len + 77)[77..] == raw,
                "{format:?} {len}"
            );
        }
    }
}

#[test]
fn regions_of_textures_receive_rows_of_every_pitch() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    for (format, width, height) in [
        (DXGI_FORMAT_R8G8B8A8_UNORM, 64, 16),
        (DXGI_FORMAT_R8G8B8A8_UNORM, 100, 37),
        (DXGI_FORMAT_R8_UNORM, 251, 9),
        (DXGI_FORMAT_R32G32B32A32_FLOAT, 33, 20),
        (DXGI_FORMAT_BC1_UNORM, 68, 36),
        (DXGI_FORMAT_BC7_UNORM, 128, 64),
    ] {
        let description = texture(format, width, height, 2, 3);
        let into = gpu.resource(&description);
        for subresource in 0..6 {
            let mip = subresource % 3;
            let layout = gpu.layout(&description, subresource, 1);
            let raw = pattern(layout.len, u64::from(subresource) + width);
            let region = whole(((width >> mip).max(1), (height >> mip).max(1), 1));
            let compression = FORMATS[subresource as usize % 3];
            let to = To::Region(&into, subresource, region);
            let request = source.request(compression, &raw, &to);
            assert_eq!(
                run(&session, &queue, &[request]),
                OK,
                "{format:?} {subresource}"
            );
            let found = gpu.texture_rows(&into, subresource, &layout, None);
            assert!(found == layout.rows(&raw), "{format:?} {subresource}");
        }
        // A part of the first subresource; the rest keeps its bytes.
        let of_whole = gpu.layout(&description, 0, 1);
        let before = gpu.texture_rows(&into, 0, &of_whole, None);
        let part = D3D12_BOX {
            left: 8,
            top: 4,
            front: 0,
            right: 32,
            bottom: 8,
            back: 1,
        };
        let of_part = gpu.layout(&texture(format, 24, 4, 1, 1), 0, 1);
        let raw = pattern(of_part.len, 5);
        let request = source.request(GDEFLATE, &raw, &To::Region(&into, 0, part));
        assert_eq!(run(&session, &queue, &[request]), OK, "{format:?}");
        let found = gpu.texture_rows(&into, 0, &of_part, Some(part));
        assert!(found == of_part.rows(&raw), "{format:?}: the part");
        let after = gpu.texture_rows(&into, 0, &of_whole, None);
        let expected = with_part(before, &of_whole, &found, &of_part, part);
        assert!(after == expected, "{format:?}: the rest");
    }
}

/// Puts the rows of a part of a texture among all of its rows.
fn with_part(
    mut all: Vec<u8>,
    of_all: &Layout,
    rows: &[u8],
    of_part: &Layout,
    part: D3D12_BOX,
) -> Vec<u8> {
    let (row_len, part_len) = (of_all.row_len(), of_part.row_len());
    // Rows of blocks have fewer than those of texels.
    let block = (part.bottom - part.top) as usize / (rows.len() / part_len);
    let left = part_len * part.left as usize / (part.right - part.left) as usize;
    for (row, bytes) in rows.chunks(part_len).enumerate() {
        let at = (part.top as usize / block + row) * row_len + left;
        all[at..at + part_len].copy_from_slice(bytes);
    }
    all
}

#[test]
fn regions_of_volumes_receive_their_slices() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    let mut description = texture(DXGI_FORMAT_R8G8B8A8_UNORM, 20, 12, 6, 2);
    description.Dimension = D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let into = gpu.resource(&description);
    let layout = gpu.layout(&description, 0, 1);
    let raw = pattern(layout.len, 1);
    let request = source.request(ZSTD, &raw, &To::Region(&into, 0, whole((20, 12, 6))));
    assert_eq!(run(&session, &queue, &[request]), OK);
    assert!(gpu.texture_rows(&into, 0, &layout, None) == layout.rows(&raw));
    let part = D3D12_BOX {
        left: 1,
        top: 2,
        front: 3,
        right: 19,
        bottom: 9,
        back: 5,
    };
    let mut small = texture(DXGI_FORMAT_R8G8B8A8_UNORM, 18, 7, 2, 1);
    small.Dimension = D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let of_part = gpu.layout(&small, 0, 1);
    let raw = pattern(of_part.len, 2);
    let request = source.request(NONE, &raw, &To::Region(&into, 0, part));
    assert_eq!(run(&session, &queue, &[request]), OK);
    assert!(gpu.texture_rows(&into, 0, &of_part, Some(part)) == of_part.rows(&raw));
}

#[test]
fn many_subresources_are_filled_by_one_request() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    for (format, width, height) in [
        (DXGI_FORMAT_R8G8B8A8_UNORM, 70, 50),
        (DXGI_FORMAT_BC3_UNORM, 64, 64),
        (DXGI_FORMAT_R16G16_FLOAT, 32, 8),
    ] {
        let description = texture(format, width, height, 3, 4);
        let into = gpu.resource(&description);
        for (at, (first, count)) in [(0, 12), (5, 7), (3, 4), (11, 1)].into_iter().enumerate() {
            let is_to_the_end = first + count == 12;
            let to = match is_to_the_end {
                true => To::All(&into, first),
                false => To::Range(&into, first, count),
            };
            let len = gpu.layout(&description, first, count).len;
            let raw = pattern(len, u64::from(first) + width);
            let request = source.request(FORMATS[at % 3], &raw, &to);
            assert_eq!(run(&session, &queue, &[request]), OK, "{format:?} {first}");
            let mut found = Vec::new();
            for subresource in first..first + count {
                let layout = gpu.layout(&description, subresource, 1);
                found.extend(gpu.texture_rows(&into, subresource, &layout, None));
            }
            let expected = gpu.layout(&description, first, count).rows(&raw);
            assert!(found == expected, "{format:?} {first} {count}");
        }
    }
}

#[test]
fn requests_beyond_the_upload_heap_complete() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    // The heap has 4 MiB.
    session
        .factory
        .set_staging(4 << 20)
        .expect("no queue is open");
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    let large = 9 << 20;
    let small = 300_000;
    let into = gpu.buffer(3 * large + 150 * small);
    let mut expected = Vec::new();
    let mut held = Vec::new();
    for at in 0..153 {
        let len = if at % 60 == 10 { large } else { small };
        let raw = pattern(len as usize, at);
        let to = To::Buffer(&into, expected.len() as u64, len as u32);
        held.push(source.request(FORMATS[at as usize % 3], &raw, &to));
        expected.extend(raw);
    }
    let statuses = session.statuses(1);
    for request in &held {
        queue.request(request);
    }
    queue.status(&statuses, 0);
    queue.submit();
    // What was submitted completes although its file is closed.
    for file in &source.files {
        file.close();
    }
    assert!(wait_for(|| statuses.is_complete(0)), "all complete");
    assert_eq!(result(&statuses, 0), OK);
    let found = gpu.buffer_bytes(&into, expected.len());
    assert!(found == expected);
    queue.close();
    drop(queue);
    restore_staging(&session, source);
}

#[test]
fn markers_take_effect_once_memory_and_resources_have_their_bytes() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    let fence = gpu.fence();
    let len = 200_000;
    let into = gpu.buffer(len as u64);
    for round in 1..=20 {
        let raw = pattern(len, round);
        let to = To::Buffer(&into, 0, len as u32);
        let request = source.request(FORMATS[round as usize % 3], &raw, &to);
        let mut memory = vec![0; len / 2];
        let in_memory = read(source.last(), 0, &mut memory[..100]);
        let statuses = session.statuses(1);
        let event = Event::new();
        queue.request(&in_memory);
        queue.request(&request);
        queue.status(&statuses, 0);
        queue.signal(&fence, round);
        queue.set_event(event.0);
        queue.submit();
        event.wait();
        assert!(statuses.is_complete(0));
        assert_eq!(result(&statuses, 0), OK);
        assert_eq!(completed(&fence), round);
        assert!(gpu.buffer_bytes(&into, len) == raw, "{round}");
    }
}

#[test]
fn programs_decompress_into_resources() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    let into = gpu.buffer(30_000);
    let raw = pattern(10_000, 3);
    let held: Vec<_> = (0..3)
        .map(|at| source.request(CUSTOM, &raw, &To::Buffer(&into, at * 10_000, 10_000)))
        .collect();
    let statuses = session.statuses(1);
    for request in &held {
        queue.request(request);
    }
    queue.status(&statuses, 0);
    queue.submit();
    let mut ended = 0;
    assert!(wait_for(|| {
        let taken = take_as_program(&session);
        finish_as_program(&session, &taken);
        ended += taken.len();
        ended == 3
    }));
    assert!(wait_for(|| statuses.is_complete(0)));
    assert_eq!(result(&statuses, 0), OK);
    assert!(gpu.buffer_bytes(&into, 30_000) == raw.repeat(3));
    // The program has one of them, the other waits for it, while their queue is closed.
    let event = session.custom().event();
    queue.request(&held[0]);
    queue.submit();
    expect_set(event);
    let taken = take_as_program(&session);
    queue.request(&held[1]);
    queue.submit();
    expect_set(event);
    queue.close();
    drop(queue);
    assert!(take_as_program(&session).is_empty(), "it was withdrawn");
    finish_as_program(&session, &taken);
    // The program fails one of a queue that is released and not closed; the other is copied.
    let queue = gpu.storage_queue(&session, FILE);
    let into = gpu.buffer(20_000);
    for at in [0, 10_000] {
        queue.request(&source.request(CUSTOM, &raw, &To::Buffer(&into, at, 10_000)));
    }
    queue.submit();
    drop(queue);
    let mut taken = Vec::new();
    assert!(wait_for(|| {
        taken.extend(take_as_program(&session));
        taken.len() == 2
    }));
    let failed = DSTORAGE_CUSTOM_DECOMPRESSION_RESULT {
        Id: taken[0].Id,
        Result: HRESULT(-5),
    };
    session
        .custom()
        .set_results(&[failed])
        .expect("it is known");
    finish_as_program(&session, &taken[1..]);
    let copied = || {
        let found = gpu.buffer_bytes(&into, 20_000);
        found[..10_000] == raw || found[10_000..] == raw
    };
    assert!(wait_for(copied));
    restore_staging(&session, source);
}

#[test]
fn released_queues_complete_what_was_submitted() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    session
        .factory
        .set_staging(4 << 20)
        .expect("no queue is open");
    let mut source = Source::new(&session);
    let into = gpu.buffer(60 << 20);
    let raw = pattern(2 << 20, 3);
    let held: Vec<_> = (0..30)
        .map(|at| source.request(GDEFLATE, &raw, &To::Buffer(&into, at << 21, 2 << 20)))
        .collect();
    let queue = gpu.storage_queue(&session, FILE);
    let event = Event::new();
    for request in &held {
        queue.request(request);
    }
    queue.set_event(event.0);
    queue.submit();
    drop(queue);
    event.wait();
    assert!(gpu.buffer_bytes(&into, 60 << 20) == raw.repeat(30));
    restore_staging(&session, source);
}

#[test]
fn closed_queues_write_nothing_more() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    session
        .factory
        .set_staging(4 << 20)
        .expect("no queue is open");
    let mut source = Source::new(&session);
    let into = gpu.buffer(60 << 20);
    let raw = pattern(2 << 20, 3);
    let held: Vec<_> = (0..30)
        .map(|at| source.request(GDEFLATE, &raw, &To::Buffer(&into, at << 21, 2 << 20)))
        .collect();
    for _ in 0..5 {
        let queue = gpu.storage_queue(&session, FILE);
        for request in &held {
            queue.request(request);
        }
        queue.submit();
        queue.close();
        gpu.clear(&into, 60 << 20);
        std::thread::sleep(Duration::from_millis(50));
        let found = gpu.buffer_bytes(&into, 60 << 20);
        let is_clear = found.iter().all(|byte| *byte == 0);
        assert!(is_clear, "nothing is written after Close");
        assert_eq!(record(&queue).FailureCount, 0);
    }
    restore_staging(&session, source);
}

#[test]
fn canceled_requests_for_resources_complete_and_write_nothing() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    let into = gpu.buffer(20_000);
    let fence = gpu.fence();
    let raw = pattern(10_000, 9);
    let mut gated = source.request(NONE, &raw, &To::Buffer(&into, 0, 10_000));
    gated.CancellationTag = 7;
    let kept = source.request(NONE, &raw, &To::Buffer(&into, 10_000, 10_000));
    let statuses = session.statuses(1);
    queue.requests(&[gated], &fence, 1, DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE);
    queue.request(&kept);
    queue.status(&statuses, 0);
    queue.submit();
    queue.cancel(u64::MAX, 7);
    assert!(wait_for(|| statuses.is_complete(0)));
    assert_eq!(result(&statuses, 0), OK);
    let found = gpu.buffer_bytes(&into, 20_000);
    assert!(found[..10_000] == [0; 10_000] && found[10_000..] == raw);
}

/// Has the thread of a queue wait, in a signal, for an event. The queue has no other entry.
fn block_thread(gpu: &Device, queue: &IDStorageQueue3, until: &Event) {
    let slots = query(queue).EmptySlotCount;
    let (gate, blocks) = (gpu.fence(), TestFence::new());
    blocks.0.lock().expect("no panic").blocks = Some(until.0);
    let mut to = Box::new([0]);
    let flags = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    queue.requests(&[copy(&[1], NONE, &mut *to)], &gate, 1, flags);
    queue.signal(&blocks.to_interface::<ID3D12Fence>(), 1);
    queue.submit();
    signal(&gate, 1);
    let is_there = wait_for(|| query(queue).EmptySlotCount == slots);
    assert!(is_there && *to == [1]);
}

#[test]
fn calls_while_requests_wait_for_space_do_not_use_up_the_engine() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let staging = session.factory.set_staging(4 << 20);
    staging.expect("no queue is open");
    let queue = gpu.storage_queue(&session, MEMORY);
    let into = gpu.buffer(5 << 20);
    let raw = pattern(4 << 20, 1);
    let unblocked = Event::new();
    block_thread(&gpu, &queue, &unblocked);
    let all = to_resource(
        copy(&raw, CUSTOM, &mut []),
        &To::Buffer(&into, 0, 4 << 20),
        4 << 20,
    );
    queue.request(&all);
    queue.submit();
    let taken = take_as_program(&session);
    assert_eq!(taken.len(), 1);
    let waits = to_resource(
        copy(&raw[..9], NONE, &mut []),
        &To::Buffer(&into, 4 << 20, 9),
        9,
    );
    queue.request(&waits);
    // More than the engine has tickets.
    for _ in 0..70_000 {
        queue.submit();
    }
    let mut memory = [0; 100];
    queue.request(&copy(&raw[..100], NONE, &mut memory));
    queue.submit();
    unblocked.set();
    finish_as_program(&session, &taken);
    drain(&queue);
    assert_eq!(record(&queue).FailureCount, 0);
    assert!(memory == raw[..100]);
    assert!(gpu.buffer_bytes(&into, (4 << 20) + 9) == [&raw[..], &raw[..9]].concat());
    drop(queue);
    restore_staging(&session, Source::new(&session));
}

#[test]
fn canceled_requests_that_wait_for_space_complete_and_let_others_pass() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let staging = session.factory.set_staging(4 << 20);
    staging.expect("no queue is open");
    let queue = gpu.storage_queue(&session, MEMORY);
    let into = gpu.buffer(8 << 20);
    let raw = pattern(4 << 20, 1);
    let to = |at, len, format| {
        let to = To::Buffer(&into, at, len);
        to_resource(
            copy(&raw[..len as usize], format, &mut []),
            &to,
            len as usize,
        )
    };
    queue.request(&to(0, 1 << 20, CUSTOM));
    queue.submit();
    let taken = take_as_program(&session);
    assert_eq!(taken.len(), 1);
    let mut canceled = to(4 << 20, 4 << 20, NONE);
    canceled.CancellationTag = 7;
    queue.request(&canceled);
    queue.request(&to(1 << 20, 1 << 20, NONE));
    queue.submit();
    queue.cancel(u64::MAX, 7);
    let slots = || query(&queue).EmptySlotCount;
    assert!(wait_for(|| slots() == 254), "only the program's remains");
    // One whose gate opens while the thread does not take that.
    let (gate, unblocked) = (gpu.fence(), Event::new());
    finish_as_program(&session, &taken);
    drain(&queue);
    block_thread(&gpu, &queue, &unblocked);
    queue.requests(&[canceled], &gate, 1, DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE);
    queue.submit();
    signal(&gate, 1);
    // The engine may or may not complete it meanwhile: it is canceled in both cases.
    std::thread::sleep(Duration::from_millis(50));
    queue.cancel(u64::MAX, 7);
    unblocked.set();
    assert!(wait_for(|| slots() == 255));
    let found = gpu.buffer_bytes(&into, 8 << 20);
    assert!(found[..2 << 20] == raw[..1 << 20].repeat(2));
    assert!(found[2 << 20..].iter().all(|byte| *byte == 0));
    assert_eq!(record(&queue).FailureCount, 0);
    drop(queue);
    restore_staging(&session, Source::new(&session));
}

#[test]
fn bytes_of_the_program_are_copied_while_a_fence_blocks_its_call() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, MEMORY);
    let into = gpu.buffer(1000);
    let raw = pattern(1000, 1);
    let (first, second) = (TestFence::new(), TestFence::new());
    let is_copied = Event::new();
    second.0.lock().expect("no panic").blocks = Some(is_copied.0);
    let mut memory = [0; 1000];
    queue.request(&copy(&raw, CUSTOM, &mut memory));
    queue.signal(&first.to_interface::<ID3D12Fence>(), 1);
    queue.signal(&second.to_interface::<ID3D12Fence>(), 1);
    let to = To::Buffer(&into, 0, 1000);
    queue.request(&to_resource(copy(&raw, CUSTOM, &mut []), &to, 1000));
    queue.submit();
    let taken = take_as_program(&session);
    assert_eq!(taken.len(), 2);
    // The signal behind the first request ends the second, in the same call.
    decompress_as_program(&taken[1]);
    let result = DSTORAGE_CUSTOM_DECOMPRESSION_RESULT {
        Id: taken[1].Id,
        Result: OK,
    };
    first.0.lock().expect("no panic").finishes = Some((session.custom(), result));
    let (of_thread, request) = (Shared::new(&session), Shared::new(taken[0]));
    std::thread::scope(|scope| {
        scope.spawn(move || finish_as_program(*of_thread, &[*request]));
        assert!(wait_for(|| gpu.buffer_bytes(&into, 1000) == raw));
        is_copied.set();
    });
    drain(&queue);
    assert!(memory == raw[..]);
}

#[test]
fn resources_are_held_until_requests_complete_and_references_come_back() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let into = gpu.buffer(1000);
    let (of_device, of_resource) = (references(&gpu.device), references(&into));
    let raw = pattern(1000, 1);
    let requests = |format, into| {
        let from = copy(&raw, format, &mut []);
        to_resource(from, &To::Buffer(into, 0, 1000), 1000)
    };
    for closes in [false, true] {
        let queue = gpu.storage_queue(&session, MEMORY);
        assert_eq!(run(&session, &queue, &[requests(NONE, &into)]), OK);
        assert!(wait_for(|| references(&into) == of_resource));
        queue.request(&requests(CUSTOM, &into));
        queue.submit();
        let taken = take_as_program(&session);
        assert_eq!(references(&into), of_resource + 1);
        if closes {
            queue.close();
        }
        drop(queue);
        finish_as_program(&session, &taken);
        assert!(wait_for(|| references(&into) == of_resource));
        // Not equal: a thread of the implementation may have had one more at first.
        assert!(wait_for(|| references(&gpu.device) <= of_device));
    }
    // The program releases its resource first.
    let queue = gpu.storage_queue(&session, MEMORY);
    let released = gpu.buffer(1000);
    queue.request(&requests(CUSTOM, &released));
    queue.submit();
    drop(released);
    finish_as_program(&session, &take_as_program(&session));
    drain(&queue);
    assert_eq!(record(&queue).FailureCount, 0);
    drop(queue);
    assert!(wait_for(|| references(&gpu.device) <= of_device));
}

#[test]
fn a_fence_that_is_never_reached_holds_up_its_own_requests_alone() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    session
        .factory
        .set_staging(4 << 20)
        .expect("no queue is open");
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    let (never, later) = (gpu.fence(), gpu.fence());
    let into = gpu.buffer(3 << 20);
    let raw = pattern(1 << 20, 3);
    let request = source.request(ZSTD, &raw, &To::Buffer(&into, 0, 1 << 20));
    let gated = source.request(GDEFLATE, &raw, &To::Buffer(&into, 1 << 20, 1 << 20));
    let free = source.request(NONE, &raw, &To::Buffer(&into, 2 << 20, 1 << 20));
    for flags in [
        DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_GPU_WORK,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_FENCE_WAIT_BEFORE_SOURCE_ACCESS,
        DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE,
    ] {
        // More than the heap has room for.
        for _ in 0..8 {
            queue.requests(std::slice::from_ref(&request), &never, 5, flags);
        }
    }
    queue.requests(&[gated], &later, 1, DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE);
    queue.request(&free);
    queue.submit();
    let has = |at: usize| gpu.buffer_bytes(&into, 3 << 20)[at << 20..(at + 1) << 20] == raw;
    assert!(wait_for(|| has(2)), "what waits for no fence completes");
    assert!(!has(1));
    signal(&later, 1);
    assert!(wait_for(|| has(1)), "and what waits for another");
    queue.close();
    assert!(!has(0));
    assert_eq!(record(&queue).FailureCount, 0);
    drop(queue);
    restore_staging(&session, source);
}

#[test]
fn a_removed_device_fails_its_requests_alone() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let mut source = Source::new(&session);
    let into = gpu.buffer(1000);
    let raw = pattern(1000, 3);
    let request = source.request(GDEFLATE, &raw, &To::Buffer(&into, 0, 1000));
    assert_eq!(run(&session, &queue, std::slice::from_ref(&request)), OK);
    gpu.remove();
    let Some(reason) = removed_reason(&gpu.device) else {
        println!("SKIP: the runtime does not remove the device");
        return;
    };
    assert_eq!(
        run(&session, &queue, std::slice::from_ref(&request)),
        reason
    );
    let found = record(&queue);
    assert_eq!(
        (found.FailureCount, found.FirstFailure.HResult),
        (1, reason)
    );
    let mut memory = [0; 10];
    assert_eq!(
        run(&session, &queue, &[read(source.last(), 0, &mut memory)]),
        OK
    );
    queue.request(&request);
    queue.submit();
    queue.close();
}

#[test]
fn a_copy_that_never_ends_fails_and_holds_up_only_what_completes_later() {
    const VARIABLE: &str = "MILLSTREAM_DSTORAGE_COPY_SECONDS";
    let Some(gpu) = Device::new() else { return };
    if std::env::var_os(VARIABLE).is_none() {
        // In a process of its own: the device loses the signals of all its queues.
        let program = std::env::current_exe().expect("the path of this program");
        let own = "d3d12::a_copy_that_never_ends_fails_and_holds_up_only_what_completes_later";
        let mut child = std::process::Command::new(program);
        let child = child.args(["--exact", own, "--nocapture"]);
        let child = child.env(VARIABLE, "1").env(NEEDS_DEVICE, "1");
        let output = child.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let is_run = output.status.success() && text.contains("1 passed");
        assert!(is_run, "{text}{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let session = Session::new();
    session
        .factory
        .set_staging(4 << 20)
        .expect("no queue is open");
    let mut source = Source::new(&session);
    let into = gpu.buffer(8 << 20);
    gpu.lose_signals();
    let raw = pattern(1 << 20, 1);
    what_is_complete_is_reported_before_a_copy_hangs(&gpu, &session, &into, &raw);
    let queue = gpu.storage_queue(&session, FILE);
    let requests: Vec<_> = (0..8)
        .map(|at| source.request(GDEFLATE, &raw, &To::Buffer(&into, at << 20, 1 << 20)))
        .collect();
    let timed_out = HRESULT(abi::E_DSTORAGE_IO_TIMEOUT);
    // Twice what the heap has room for: those that wait fail as well.
    assert_eq!(run(&session, &queue, &requests), timed_out);
    let found = record(&queue);
    assert_eq!(
        (found.FailureCount, found.FirstFailure.HResult),
        (8, timed_out)
    );
    assert_eq!(run(&session, &queue, &requests[..1]), timed_out);
    let mut memory = [0; 100];
    assert_eq!(
        run(&session, &queue, &[read(source.last(), 0, &mut memory)]),
        OK
    );
    queue.request(&requests[0]);
    queue.submit();
    queue.close();
    // Queues that close while a copy runs wait for it, and no longer.
    let queue = gpu.storage_queue(&session, FILE);
    for request in &requests {
        queue.request(request);
    }
    queue.submit();
    queue.close();
}

fn what_is_complete_is_reported_before_a_copy_hangs(
    gpu: &Device,
    session: &Session,
    into: &ID3D12Resource,
    raw: &[u8],
) {
    let queue = gpu.storage_queue(session, MEMORY);
    let statuses = session.statuses(1);
    let unblocked = Event::new();
    block_thread(gpu, &queue, &unblocked);
    let mut memory = [0; 9];
    queue.request(&copy(&[7; 9], NONE, &mut memory));
    queue.status(&statuses, 0);
    queue.submit();
    // The engine completes the first, then the second; the thread takes both at once.
    let written = memory.as_ptr();
    assert!(wait_for(|| is_written(written)));
    // Nothing shows from outside that the engine has posted what it has written.
    std::thread::sleep(Duration::from_secs(2));
    queue.request(&to_resource(
        copy(&raw[..9], NONE, &mut []),
        &To::Buffer(into, 0, 9),
        9,
    ));
    queue.submit();
    std::thread::sleep(Duration::from_millis(100));
    let checked = Shared::new(statuses);
    at_lost_signal(move || assert!(checked.is_complete(0), "the status has its result"));
    unblocked.set();
    drain(&queue);
    at_lost_signal(|| ());
    assert_eq!(record(&queue).FailureCount, 1);
    assert_eq!(memory, [7; 9]);
}

#[test]
fn wrong_resources_are_failures_with_the_documented_result() {
    let (Some(gpu), Some(other)) = (Device::new(), Device::new()) else {
        return;
    };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, FILE);
    let without = session.queue(FILE);
    let mut source = Source::new(&session);
    let a_buffer = gpu.buffer(1000);
    let description = texture(DXGI_FORMAT_R8G8B8A8_UNORM, 16, 16, 1, 2);
    let a_texture = gpu.resource(&description);
    let compressed = gpu.resource(&texture(DXGI_FORMAT_BC1_UNORM, 16, 16, 1, 1));
    let mut sampled = texture(DXGI_FORMAT_R8G8B8A8_UNORM, 16, 16, 1, 1);
    sampled.SampleDesc.Count = 4;
    sampled.Flags = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET;
    let sampled = gpu.resource(&sampled);
    let foreign = other.buffer(1000);
    let wrong = HRESULT(abi::E_INVALIDARG);
    let refused = HRESULT(abi::E_DSTORAGE_INVALID_DESTINATION_TYPE);
    let size = HRESULT(abi::E_DSTORAGE_INVALID_DESTINATION_SIZE);
    let max = u32::MAX;
    let region = |left, top, right, bottom, back| D3D12_BOX {
        left,
        top,
        front: 0,
        right,
        bottom,
        back,
    };
    let tiles = D3D12_TILE_REGION_SIZE {
        NumTiles: 1,
        ..Default::default()
    };
    let of_all = gpu.layout(&description, 0, 2).len;
    for (at, (to, len, expected)) in [
        (To::Buffer(&a_buffer, 0, 1000), 1000, OK),
        (To::Buffer(&a_buffer, 1, 1000), 1000, wrong),
        (To::Buffer(&a_buffer, u64::MAX, 1000), 1000, wrong),
        (To::Buffer(&a_buffer, u64::MAX - 999, 1000), 1000, wrong),
        (To::Buffer(&a_buffer, 0, 999), 1000, size),
        (To::Buffer(&a_buffer, 0, 1000), 999, size),
        (To::Buffer(&a_texture, 0, 1000), 1000, wrong),
        (To::Buffer(&foreign, 0, 1000), 1000, wrong),
        (To::Buffer(&a_buffer, 1000, 0), 0, OK),
        (
            To::Region(&a_buffer, 0, region(0, 0, 16, 1, 1)),
            1000,
            wrong,
        ),
        (To::Region(&a_texture, 0, region(0, 0, 16, 16, 1)), 4096, OK),
        (
            To::Region(&a_texture, 0, region(0, 0, 16, 16, 1)),
            3903,
            size,
        ),
        (
            To::Region(&a_texture, 0, region(0, 0, 17, 16, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&a_texture, 0, region(0, 0, 16, max, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&a_texture, 0, region(0, 0, 16, 16, 2)),
            9999,
            wrong,
        ),
        (
            To::Region(&a_texture, 0, region(8, 0, 8, 16, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&a_texture, 0, region(max, 0, 3, 16, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&a_texture, 1, region(0, 0, 9, 8, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&a_texture, 2, region(0, 0, 1, 1, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&a_texture, max, region(0, 0, 1, 1, 1)),
            9999,
            wrong,
        ),
        (To::Region(&compressed, 0, region(4, 8, 12, 16, 1)), 512, OK),
        (
            To::Region(&compressed, 0, region(2, 0, 16, 16, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&compressed, 0, region(0, 0, 6, 16, 1)),
            9999,
            wrong,
        ),
        (
            To::Region(&sampled, 0, region(0, 0, 16, 16, 1)),
            9999,
            wrong,
        ),
        (To::All(&sampled, 0), 9999, wrong),
        (To::All(&a_texture, 0), of_all, OK),
        (To::All(&a_texture, 0), of_all - 1, size),
        (To::All(&a_texture, 2), 9999, wrong),
        (To::All(&a_texture, max), 9999, wrong),
        (To::All(&a_buffer, 0), 9999, wrong),
        (To::Range(&a_texture, 0, 2), of_all, OK),
        (To::Range(&a_texture, 1, 2), 9999, wrong),
        (To::Range(&a_texture, 0, 0), 9999, wrong),
        (To::Range(&a_texture, 1, max), 9999, wrong),
        (To::Tiles(&a_texture, tiles), 65536, refused),
    ]
    .into_iter()
    .enumerate()
    {
        let raw = pattern(len, 1);
        let request = source.request(NONE, &raw, &to);
        let requests = std::slice::from_ref(&request);
        assert_eq!(run(&session, &queue, requests), expected, "case {at}");
        let found = record(&queue).FirstFailure.HResult;
        assert_eq!(found, expected, "case {at}");
        assert_eq!(run(&session, &without, requests), refused, "case {at}");
    }
    let raw = pattern(2000, 1);
    // More bytes than the destination has: only compressed ones, of which the first are copied.
    let request = source.request(ZSTD, &raw, &To::Buffer(&a_buffer, 0, 1000));
    assert_eq!(run(&session, &queue, &[request]), OK);
    assert!(gpu.buffer_bytes(&a_buffer, 1000) == raw[..1000]);
    let to = To::Buffer(&a_buffer, 0, 1000);
    let mut request = source.request(NONE, &pattern(1000, 1), &to);
    request.Destination.Buffer = Default::default();
    assert_eq!(run(&session, &queue, &[request]), wrong, "no resource");
    let mut request = source.request(NONE, &pattern(1000, 1), &to);
    set_resource(&mut request, source.last());
    assert_eq!(
        run(&session, &queue, &[request]),
        wrong,
        "an object that is no resource"
    );
    let mut unknown = source.request(NONE, &pattern(1000, 1), &to);
    unknown
        .Options
        .set_DestinationType(DSTORAGE_REQUEST_DESTINATION_TYPE(6));
    set_resource(&mut unknown, source.last());
    assert_eq!(run(&session, &queue, &[unknown]), refused);
    let mut lies = source.request(GDEFLATE, &pattern(1000, 1), &to);
    lies.Options.set_CompressionFormat(ZSTD);
    let failed = HRESULT(abi::E_DSTORAGE_DECOMPRESSION_ERROR);
    assert_eq!(run(&session, &queue, &[lies]), failed);
    assert_eq!(query(&queue).Desc.Device.as_ref(), Some(&gpu.device));
}

#[test]
fn planes_and_parts_of_depth_are_refused() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    let queue = gpu.storage_queue(&session, MEMORY);
    let raw = pattern(64 * 64 * 8, 1);
    let run_to = |to: &To| {
        let request = to_resource(copy(&raw, NONE, &mut []), to, raw.len());
        run(&session, &queue, &[request])
    };
    let run = |into: &ID3D12Resource, subresource, width| {
        run_to(&To::Region(into, subresource, whole((width, 64, 1))))
    };
    let depth = |format| {
        let mut description = texture(format, 64, 64, 1, 1);
        description.Flags = D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL;
        (gpu.resource(&description), description)
    };
    let wrong = HRESULT(abi::E_INVALIDARG);
    for format in [
        DXGI_FORMAT_D32_FLOAT_S8X24_UINT,
        DXGI_FORMAT_D24_UNORM_S8_UINT,
    ] {
        let (into, _) = depth(format);
        for subresource in 0..3 {
            assert_eq!(
                run(&into, subresource, 64),
                wrong,
                "{format:?} {subresource}"
            );
        }
        assert_eq!(run_to(&To::All(&into, 0)), wrong, "{format:?}");
    }
    for format in [DXGI_FORMAT_D32_FLOAT, DXGI_FORMAT_D16_UNORM] {
        let (into, description) = depth(format);
        assert_eq!(run(&into, 0, 64), OK, "{format:?}");
        let layout = gpu.layout(&description, 0, 1);
        assert!(gpu.texture_rows(&into, 0, &layout, None) == layout.rows(&raw));
        assert_eq!(run(&into, 0, 32), wrong, "{format:?}");
    }
}

#[test]
fn a_copy_that_d3d12_refuses_fails_alone() {
    let Some(gpu) = Device::new() else { return };
    let session = Session::new();
    gpu.refuse_copies_to(2500);
    let queue = gpu.storage_queue(&session, MEMORY);
    let into = gpu.buffer(5000);
    let raw = pattern(5000, 1);
    let requests: Vec<_> = (0..50)
        .map(|at| {
            let from = copy(&raw[at * 100..(at + 1) * 100], NONE, &mut []);
            to_resource(from, &To::Buffer(&into, at as u64 * 100, 100), 100)
        })
        .collect();
    let refused = HRESULT(abi::E_INVALIDARG);
    assert_eq!(run(&session, &queue, &requests), refused);
    assert_eq!(record(&queue).FailureCount, 1);
    let mut expected = raw.clone();
    expected[2500..2600].fill(0);
    assert!(gpu.buffer_bytes(&into, 5000) == expected);
    assert_eq!(run(&session, &queue, &requests[..1]), OK);
}
