//! Reading hostile packages: entries that are given have the content that the package says.
#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use millstream::QueueOptions;
use millstream_pak::{BatchOptions, visit};

mod package;

/// Raw bytes beyond which an entry says nothing new.
const RAW_BYTES_MAX: u64 = 8 << 20;

fuzz_target!(|data: &[u8]| {
    let Some(opened) = package::open(data) else {
        return;
    };
    let queue = package::storage()
        .queue(QueueOptions::default())
        .expect("a queue");
    let short = |index: &u32| {
        opened
            .info(*index)
            .is_ok_and(|it| it.raw_bytes <= RAW_BYTES_MAX)
    };
    let entries: Vec<u32> = (0..opened.len().min(64)).filter(short).collect();
    visit(
        &opened,
        &queue,
        &entries,
        &BatchOptions::default(),
        &mut |piece, loaded| {
            if let Ok(bytes) = loaded {
                assert_eq!(bytes.len() as u64, piece.len);
            }
            ControlFlow::Continue(())
        },
    );
    for &index in entries.iter().take(8) {
        let len = opened.info(index).map_or(0, |info| info.raw_bytes);
        let (offset, len) = (len / 3, len / 2);
        if let Ok(request) = opened.range(index, offset, len)
            && let Ok(mut ticket) = queue.submit(request)
            && let Ok(bytes) = ticket.wait()
        {
            assert_eq!(bytes.len() as u64, len);
        }
    }
});
