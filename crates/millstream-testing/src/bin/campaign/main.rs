//! Runs the long variants of the tests one after the other for a given time, and prints what
//! was executed and found.
//!
//! ```text
//! campaign [--minutes N | --hours N] [--seed N] [--release] [PART...]
//! ```
//!
//! The tests are those of the crates, run by `cargo` with variables that give them new seeds. Each
//! part has an equal share of the time, building not counted, and turns with seeds of their own
//! within it; the last line says with which seed to go on. The exit status is 1 if something was
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
