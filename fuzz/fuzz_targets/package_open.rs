//! Opening hostile packages, and verifying those that open.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod package;

fuzz_target!(|data: &[u8]| {
    if let Some(opened) = package::open(data) {
        let found = millstream_pak::verify(package::storage(), &opened, None, &mut |_| true);
        assert!(found.is_ok_and(|found| (found.failures > 0) != found.errors.is_empty()));
    }
});
