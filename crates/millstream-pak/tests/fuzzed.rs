//! What the fuzz targets of packages run, on inputs from a seed: so a target that fails at once, or
//! no longer builds, is noticed without a fuzzer.

#[path = "../../../fuzz/fuzz_targets/package/mod.rs"]
mod package;

#[test]
fn inputs_of_a_seed_do_no_harm() {
    let mut random = fastrand::Rng::with_seed(1);
    // Of which package they are changes: bytes of any kind, one with a dictionary, a plain one.
    let kinds = if cfg!(feature = "c") { 0..3 } else { 2..3 };
    for nth in 0..900 {
        let mut input: Vec<u8> = (0..random.usize(1..40)).map(|_| random.u8(..)).collect();
        input[0] = random.u8(kinds.clone());
        match nth % 3 {
            0 => package::verify(&input),
            1 => package::look_up(&input),
            _ => package::read(&input),
        }
    }
}
