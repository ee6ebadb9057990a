//! What commands leave when one of the calls by which they write is their last, fails, or was not
//! durable when the power went: the old file or the new one, whole.
//!
//! `MILLSTREAM_FAULTS=1` kills after each call as well as before it, though the files are the same
//! then, makes each call fail with each error, and kills all commands. `MILLSTREAM_ORDERS` is the
//! number of orders in which changes reach the disk where there are too many for all, by default
//! 1,000, and `MILLSTREAM_SEED` the seed of these.

mod disk;
mod fail;
mod kill;
mod power;
mod setting;

/// Whether the long tests were asked for.
fn all() -> bool {
    std::env::var_os("MILLSTREAM_FAULTS").is_some()
}

/// A number from the environment.
fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable);
    set.map_or(default, |text| text.parse().expect("a number"))
}
