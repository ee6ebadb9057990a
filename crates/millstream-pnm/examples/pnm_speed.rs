//! How fast each kernel is here: ticks of the time-stamp counter for each byte of text.
//!
//!     cargo run --release -p millstream-pnm --example pnm_speed [FILE.ppm|-] [KERNEL] [THREADS]
//!
//! Without a file it makes a text image of about 3.6 bytes a sample. `load` is the whole load of
//! the file into a fresh image; `decode` is from memory into an image that is used again.

use std::error::Error;
use std::time::Instant;

use millstream_pnm::{Image, Kernel, Loader, Options, decode_into};

const ROUNDS: usize = 15;

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    #![expect(unsafe_code, reason = "reads the time-stamp counter")]
    // SAFETY: every x86-64 machine has the counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    std::time::UNIX_EPOCH
        .elapsed()
        .map_or(0, |time| time.as_nanos() as u64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let made = std::env::temp_dir().join(format!("millstream-speed-{}.ppm", std::process::id()));
    let named = std::env::args_os().nth(1).filter(|name| name != "-");
    let only = std::env::args().nth(2);
    let path = named.clone().map_or_else(|| made.clone(), Into::into);
    if named.is_none() {
        std::fs::write(&made, text())?;
    }
    let bytes = std::fs::read(&path)?;
    let threads_only: Option<usize> = std::env::args().nth(3).and_then(|text| text.parse().ok());
    let wanted = |kernel: &&Kernel| only.as_ref().is_none_or(|name| name == kernel.name());
    let kernels = Kernel::ALL.iter().filter(|kernel| kernel.is_available());
    for &kernel in kernels.filter(wanted) {
        for threads in [1, 2] {
            if threads_only.is_some_and(|only| only != threads) {
                continue;
            }
            let options = Options {
                kernel,
                threads,
                ..Options::default()
            };
            let mut image = Image::empty();
            let mut decode = [0.0; ROUNDS];
            let mut load = [0.0; ROUNDS];
            let mut seconds = 0.0;
            for round in 0..ROUNDS {
                let begun = ticks();
                decode_into(&bytes, &options, &mut image)?;
                decode[round] = (ticks() - begun) as f64 / bytes.len() as f64;
                let mut loader = Loader::new(options.clone());
                let mut fresh = Image::empty();
                let (begun, clock) = (ticks(), Instant::now());
                loader.load(&path, &mut fresh)?;
                load[round] = (ticks() - begun) as f64 / bytes.len() as f64;
                seconds = clock.elapsed().as_secs_f64();
                assert!(fresh == image);
            }
            decode.sort_by(f64::total_cmp);
            load.sort_by(f64::total_cmp);
            println!(
                "{:8} {threads} threads: decode {:.3} load {:.3} ticks per byte ({:.0} MB/s)",
                kernel.name(),
                decode[ROUNDS / 2],
                load[ROUNDS / 2],
                bytes.len() as f64 / 1e6 / seconds
            );
        }
    }
    if named.is_none() {
        std::fs::remove_file(&made)?;
    }
    Ok(())
}

/// A picture with smooth and noisy parts: 5.3 million pixels, five to a line of text.
fn text() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut text = b"P3\n# made\n2662 2000\n255\n".to_vec();
    let mut value = 128i32;
    for index in 0..2662 * 2000 * 3 {
        value = (value + random.i32(-12..=12)).clamp(20, 255);
        text.extend_from_slice(value.to_string().as_bytes());
        text.push(if index % 15 == 14 { b'\n' } else { b' ' });
    }
    text
}
