//! Runs the long variants of the tests one after the other for a given time, and prints what was
//! executed and found.
//!
//! ```text
//! campaign [--minutes N | --hours N] [--seed N] [--release] [PART...]
//! ```
//!
//! The tests are those of the crates, run by `cargo` with variables that give them new seeds. Each
//! part gets an equal share of the time, not counting its build, and runs in turns with seeds of
//! their own; the last line gives the seed to continue with. The exit status is 1 if something was
//! found.

#[cfg(target_os = "linux")]
mod parts;
#[cfg(target_os = "linux")]
mod schedule;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod turn;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("campaign: the faults are those of Linux");
    std::process::exit(2);
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match schedule::Options::of(std::env::args().skip(1)) {
        Ok(options) => schedule::run(&options),
        Err(wrong) => {
            eprintln!("campaign: {wrong}");
            eprintln!("usage: campaign [--minutes N | --hours N] [--seed N] [--release] [PART...]");
            for part in &parts::PARTS {
                eprintln!("  {:<12}{}", part.name, part.what);
            }
            std::process::ExitCode::from(2)
        }
    }
}
