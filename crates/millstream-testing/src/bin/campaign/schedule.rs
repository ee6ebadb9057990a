//! The command-line options, and the loop over the parts.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::parts::{PARTS, Part, SEEDS_OF_A_TURN, Turn};
use crate::table::Row;
use crate::turn;

/// Minimum time of a campaign that includes fuzzing by default: its build takes minutes.
const FUZZ_FROM: Duration = Duration::from_secs(3600);

/// Number of findings after which a part is abandoned.
const FOUND_MAX: usize = 3;

/// The options of a campaign.
#[derive(Debug)]
pub(crate) struct Options {
    time: Duration,
    seed: u64,
    release: bool,
    parts: Vec<&'static Part>,
}

impl Options {
    /// Parses the command-line arguments.
    ///
    /// # Errors
    /// Describes what is wrong with them.
    pub(crate) fn of(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            time: Duration::from_secs(600),
            seed: 0,
            release: false,
            parts: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, String> {
                let text = words
                    .next()
                    .ok_or_else(|| format!("{word} needs a number"))?;
                text.parse().map_err(|_| format!("{text} is no number"))
            };
            match word.as_str() {
                "--minutes" => options.time = Duration::from_secs(60 * number()?),
                "--hours" => options.time = Duration::from_secs(3600 * number()?),
                "--seed" => options.seed = number()?,
                "--release" => options.release = true,
                name => {
                    let part = PARTS.iter().find(|part| part.name == name);
                    let part = part.ok_or_else(|| format!("there is no part {name}"))?;
                    options.parts.push(part);
                }
            }
        }
        if options.parts.is_empty() {
            let long = options.time >= FUZZ_FROM;
            let of_time = |part: &&Part| long || part.name != "fuzz";
            options.parts = PARTS.iter().filter(of_time).collect();
        }
        Ok(options)
    }
}

/// Runs all parts, prints the table, and returns the exit status.
pub(crate) fn run(options: &Options) -> ExitCode {
    let share = options.time / options.parts.len() as u32;
    let rows: Vec<Row> = options
        .parts
        .iter()
        .map(|part| run_part(part, options, share))
        .collect();
    print!("\n{}", crate::table::text(&rows));
    let turns = rows.iter().map(|row| row.turns).max().unwrap_or(0);
    let next = options.seed + turns * SEEDS_OF_A_TURN;
    println!("to go on: --seed {next}");
    match rows.iter().all(|row| row.found.is_empty()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    }
}

fn run_part(part: &Part, options: &Options, share: Duration) -> Row {
    let mut row = Row::new(part.name);
    println!("{}: builds", part.name);
    let built = turn::run(part.build(options.release), turn::BUILD_TIME_MAX);
    if !built.passed {
        row.add(&built, 0);
        return row;
    }
    let begun = Instant::now();
    while row.turns == 0 || begun.elapsed() < share {
        let left = share.saturating_sub(begun.elapsed());
        let turn = Turn {
            number: row.turns,
            seed: options.seed + row.turns * SEEDS_OF_A_TURN,
            seconds: left.as_secs().max(1),
            release: options.release,
        };
        let ran = turn::run(part.command(&turn), share + turn::TURN_TIME_MORE);
        row.add(&ran, part.executions(&ran.output));
        println!(
            "{}: {} executions, {:?}",
            part.name,
            row.executions,
            begun.elapsed()
        );
        if row.found.len() >= FOUND_MAX {
            break;
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Result<Options, String> {
        Options::of(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_call_says_time_seed_and_parts() {
        let read = options("--hours 24 soak --seed 7").expect("sound");
        assert_eq!((read.time.as_secs(), read.seed), (86_400, 7));
        assert_eq!(read.parts.len(), 1);
        let all = options("--minutes 60").expect("sound").parts.len();
        assert_eq!(options("").expect("sound").parts.len(), all - 1);
        for wrong in ["--seed", "--minutes x", "peace"] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
