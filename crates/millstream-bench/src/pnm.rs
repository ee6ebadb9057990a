//! Workload `pnm`: parsing text images at the speed at which their bytes arrive.
//!
//! Every contender opens the file, makes an image of it in memory that was never touched before,
//! and closes it; contenders named `reused` use the image of the previous run. The unit is ticks of
//! the time-stamp counter per byte of the file, as the study's was cycles. Contenders time
//! themselves, right around their work, because two of the rivals are a separate program. That
//! program loads twice and reports the second time, except for large files. With small files all
//! contenders practice before they count.
//!
//! Pictures are made from a seed: `photo` is smooth with noise, as photographs are (about 3.6 bytes
//! of text per sample), `flat` nearly constant, as the study's (3.5, repetitive). The study's
//! stages 1 and 2 are compiled from C++ when the benchmark runs, if there is a compiler; stages 3
//! to 5 are reimplemented.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers;
use crate::prelude::*;

pub(crate) mod loads;
pub(crate) mod pictures;

use pictures::Picture;

/// Contenders so slow per byte that a quick run leaves them out for its big files.
const SLOW: [&str; 2] = ["stage-1", "stage-2"];

/// Size from which the first load of a process takes as long as later ones. Cold files, which would
/// be warm at a second load, are at least this large.
const LARGE_BYTES: usize = 8 << 20;

const SOURCE: &str = include_str!("pnm/stages.cpp");

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let instances = session.cases("pnm", "load");
    if instances.is_empty() {
        return Ok(());
    }
    let program = compiled(&session.corpus.folder().join("pnm-rivals"));
    for instance in instances {
        let format: String = instance.get("format");
        let (kind, pixels) = (instance.get("kind"), instance.get("pixels"));
        let picture = Picture::new(session.corpus.folder(), kind, pixels, &format)?;
        let picture = &picture;
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            match name {
                _ if SLOW.contains(&name) => {
                    add_compiled(&mut case, name, &program, picture, session.options.quick);
                }
                _ if name.starts_with("ring-") => {
                    peers::add_straight(&mut case, name, &picture.path, picture.file_len as u64);
                }
                _ if loads::add(&mut case, name, picture) => {}
                _ => loads::add_stage(&mut case, name, picture),
            }
        }
        if picture.file_len < PNM_SMALL_BYTES {
            case.practice = Some(PRACTICE);
        }
        let is_cold = instance.get::<String>("state") == "cold";
        let paths = [picture.path.clone()];
        case.prepare(move || make_ready(&paths, is_cold));
        let len = picture.file_len.max(picture.image_len);
        case.check(len, |bytes, work| check(picture, bytes, work));
        let ticks = ticks_per_second() / picture.file_len as f64;
        case.figures(move |span, _| {
            let [ticks_a_byte, time] = ["ticks c/B", "time us"].map(Metric::of);
            vec![(ticks_a_byte, span.wall * ticks), (time, span.wall * 1e6)]
        });
        case.room = len + (1 << 21);
        session.run(case)?;
    }
    Ok(())
}

fn compiled(folder: &Path) -> Result<PathBuf> {
    make_folder(folder)?;
    let (source, program) = (folder.join("stages.cpp"), folder.join("stages"));
    std::fs::write(&source, SOURCE).on("write", &source)?;
    let mut command = Command::new("c++");
    command.args(["-O2", "-o"]).args([&program, &source]);
    let output = command.output().what("no compiler c++")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), &format!("c++ failed: {errors}"))?;
    Ok(program)
}

fn add_compiled<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    program: &'a Result<PathBuf>,
    picture: &'a Picture,
    quick: bool,
) {
    match program {
        _ if quick && picture.file_len > 1 << 20 => case.skip(name, "not in a quick run"),
        Err(why) => case.skip(name, &why.to_string()),
        Ok(program) => {
            let run = move |_: &mut Destination| run_stage(program, name, picture);
            case.add(name, run);
        }
    }
}

fn run_stage(program: &Path, name: &str, picture: &Picture) -> Result<Work> {
    let loads = if picture.file_len < LARGE_BYTES {
        "2"
    } else {
        "1"
    };
    let mut command = Command::new(program);
    command.args([name.trim_start_matches("stage-"), loads]);
    let output = command.arg(&picture.path).output().on("run", program)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.split_whitespace().map(str::parse);
    let numbers = numbers.collect::<std::result::Result<Vec<u64>, _>>()?;
    let [ns, bytes, sum] = numbers[..] else {
        return Err(Error::new(format!("{name} failed: {}", output.status)));
    };
    let wall = ns as f64 / 1e9;
    let span = Span { wall, cpu: wall };
    Ok(Work::of(bytes, 1).with_digest(sum).took(span))
}

/// Checks a result. Contenders report the sum of their samples or of the file's bytes, or leave
/// either in the destination; one without requests has only read.
fn check(picture: &Picture, memory: &[u8], work: &Work) -> Result<()> {
    let (len, sum) = match work.bytes == picture.file_len as u64 {
        true => (picture.file_len, picture.file_word_sum),
        false => (picture.image_len, picture.image_word_sum),
    };
    let found = || work.digest.unwrap_or_else(|| word_sum(&memory[..len]));
    let right = work.bytes == len as u64 && (work.requests == 0 || found() == sum);
    ensure(right, "other samples than the picture has")
}

/// Ticks of the time-stamp counter per second; without such a counter, nanoseconds.
fn ticks_per_second() -> f64 {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};
    /// Time over which it is measured: the clock's resolution is then a millionth of it.
    const LOOK: Duration = Duration::from_millis(50);
    static RATE: LazyLock<f64> = LazyLock::new(|| {
        let (clock, begun) = (Instant::now(), ticks());
        while clock.elapsed() < LOOK {
            std::hint::spin_loop();
        }
        match ticks().wrapping_sub(begun) {
            0 => 1e9,
            ticks => ticks as f64 / clock.elapsed().as_secs_f64(),
        }
    });
    *RATE
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "an instruction")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 machine has the counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}
