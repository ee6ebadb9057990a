//! Buffers of the application's.
#![expect(unsafe_code, reason = "promises that wgpu leaves destinations alone")]

use millstream::ErrorKind;

use crate::rig::{bytes, memory, rig};

#[test]
fn a_range_of_a_buffer_changes_and_nothing_else() {
    let Some(rig) = rig() else { return };
    let make = |usage| {
        rig.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 100_000,
            usage,
            mapped_at_creation: false,
        })
    };
    let buffer = make(wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC);
    let mut expected = bytes(100_000, 1);
    rig.wgpu_queue.write_buffer(&buffer, 0, &expected);
    rig.wgpu_queue.submit([]);
    let raw = bytes(77_777, 2);
    // SAFETY: nothing uses it until the request has completed; it was written to.
    let range = unsafe { rig.gpu.adopt_buffer(&buffer, 13..77_790) }.expect("a range");
    assert_eq!(rig.land(memory(&raw), &range).expect("landed"), 77_777);
    expected[13..77_790].copy_from_slice(&raw);
    let back = rig.read_back(100_000, |encoder, to| {
        encoder.copy_buffer_to_buffer(&buffer, 0, to, 0, 100_000);
    });
    assert!(back == expected);
    let long = rig.land(memory(&bytes(77_778, 3)), &range);
    let error = long.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::DestinationTooSmall, "{error}");

    let plain = make(wgpu::BufferUsages::COPY_SRC);
    for (buffer, range) in [(&plain, 0..4), (&buffer, 4..4), (&buffer, 4..100_001)] {
        // SAFETY: no request is made.
        let adopted = unsafe { rig.gpu.adopt_buffer(buffer, range) };
        let error = adopted.map(drop).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}
