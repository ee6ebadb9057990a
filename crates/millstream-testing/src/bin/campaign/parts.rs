//! The parts of a campaign: tests and their environment variables.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Distance between the first seeds of two turns.
pub(crate) const SEEDS_OF_A_TURN: u64 = 10_000;

/// Maximum time in seconds of one run of a fuzz target.
const FUZZ_SECONDS_MAX: u64 = 60;

/// Maximum time in seconds that one process soaks, so that a day is several processes.
const SOAK_SECONDS_MAX: u64 = 3 * 3600;

/// One run of a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) seed: u64,
    /// Remaining seconds of the part's time.
    pub(crate) seconds: u64,
    pub(crate) release: bool,
}

/// Tests of the workspace, given by the arguments of `cargo test`.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Packages and targets; empty for fuzzing.
    words: &'static str,
    /// Arguments for the test binary.
    tests: &'static str,
    variables: fn(&Turn) -> Vec<(&'static str, u64)>,
    executions: Executions,
}

/// How the executions of a turn are counted.
#[derive(Debug, Clone, Copy)]
enum Executions {
    /// The number of seeds of a turn.
    Seeds,
    /// The sum of the numbers printed after this text, over all lines.
    Printed(&'static str),
    /// The number of tests that passed.
    Tests,
}

pub(crate) static PARTS: [Part; 7] = [
    Part {
        name: "schedules",
        what: "seeded schedules of the engine over the simulated disk",
        words: "-p millstream --test schedules",
        tests: "",
        variables: |turn| {
            let seed = ("SCHEDULE_SEED", turn.seed);
            vec![seed, ("SCHEDULE_COUNT", SEEDS_OF_A_TURN)]
        },
        executions: Executions::Seeds,
    },
    Part {
        name: "writes",
        what: "kills, errors and power losses at every call that writes",
        words: "-p millstream-cli --test writes",
        tests: "",
        variables: |turn| {
            let seed = ("MILLSTREAM_SEED", turn.seed);
            vec![
                ("MILLSTREAM_FAULTS", 1),
                ("MILLSTREAM_ORDERS", 10_000),
                seed,
            ]
        },
        executions: Executions::Printed("executions: "),
    },
    Part {
        name: "faults",
        what: "file systems that fail, hang, shrink or are full",
        words: "-p millstream --test faults -p millstream-cli --test faults --test outputs",
        tests: "",
        variables: |_| Vec::new(),
        executions: Executions::Tests,
    },
    Part {
        name: "formats",
        what: "malformed packages and properties of codecs, streams, images",
        words: "-p gdeflate -p millstream-codec -p millstream-pak -p millstream-stream \
                -p millstream-pnm -p millstream-gltf --tests",
        tests: "",
        variables: |turn| vec![("PROPTEST_RNG_SEED", turn.seed)],
        executions: Executions::Tests,
    },
    Part {
        name: "tiles",
        what: "mutated tiles, decoded by a Vulkan device and the processor",
        words: "-p millstream-vulkan --test device",
        tests: "mutated",
        variables: |turn| {
            let end = ("MILLSTREAM_MUTATIONS", turn.seed + SEEDS_OF_A_TURN);
            vec![("MILLSTREAM_MUTATIONS_FROM", turn.seed), end]
        },
        executions: Executions::Seeds,
    },
    Part {
        name: "soak",
        what: "a mixed load with faults, cancellation and reloads that must stay flat",
        words: "-p millstream --test soak",
        tests: "",
        variables: |turn| {
            let seconds = turn.seconds.min(SOAK_SECONDS_MAX);
            vec![("SOAK_SECONDS", seconds), ("SOAK_SEED", turn.seed)]
        },
        executions: Executions::Printed("executions: "),
    },
    Part {
        name: "fuzz",
        what: "every fuzz target in turn, if cargo-fuzz is installed",
        words: "",
        tests: "",
        variables: |_| Vec::new(),
        executions: Executions::Printed("stat::number_of_executed_units: "),
    },
];

impl Part {
    /// Returns the command that builds the part.
    pub(crate) fn build(&self, release: bool) -> Command {
        let mut command = cargo();
        if self.words.is_empty() {
            command.args(["fuzz", "build"]).env("RUSTC_BOOTSTRAP", "1");
            return command;
        }
        self.test(&mut command, release);
        command.arg("--no-run");
        command
    }

    /// Returns the command that runs one turn of the part.
    pub(crate) fn command(&self, turn: &Turn) -> Command {
        let mut command = cargo();
        if self.words.is_empty() {
            fuzz(&mut command, turn);
            return command;
        }
        self.test(&mut command, turn.release);
        command.args(["--", "--nocapture"]);
        command.args(self.tests.split_whitespace());
        for (name, value) in (self.variables)(turn) {
            command.env(name, value.to_string());
        }
        command
    }

    fn test(&self, command: &mut Command, release: bool) {
        command.arg("test");
        if release {
            command.arg("--release");
        }
        command.args(self.words.split_whitespace());
    }

    /// Returns the number of executions, from the printed output.
    pub(crate) fn executions(&self, output: &str) -> u64 {
        let behind = |word: &str| -> u64 {
            let found = output.lines().filter_map(|line| line.split_once(word));
            found.filter_map(|(_, rest)| first_number(rest)).sum()
        };
        match self.executions {
            // A test that cannot run prints SKIP.
            Executions::Seeds if output.contains("SKIP: ") => 0,
            Executions::Seeds => SEEDS_OF_A_TURN,
            Executions::Printed(word) => behind(word),
            Executions::Tests => behind("test result: ok. "),
        }
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Returns the root of the workspace.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors()
        .nth(2)
        .expect("in the workspace")
        .to_path_buf()
}

fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

/// Adds the arguments that fuzz the next of the targets.
fn fuzz(command: &mut Command, turn: &Turn) {
    let files = std::fs::read_dir(root().join("fuzz/fuzz_targets"));
    let mut targets: Vec<String> = files
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    targets.sort();
    let nth = turn.number as usize % targets.len();
    let target = &targets[nth];
    // If the time is short, each target gets a share.
    let share = turn.seconds / (targets.len() - nth) as u64;
    let seconds = share.clamp(1, FUZZ_SECONDS_MAX);
    // The first folder receives new inputs.
    let corpus = root().join("fuzz/corpus").join(target);
    let made = std::fs::create_dir_all(&corpus);
    made.unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    command
        .args(["fuzz", "run", target])
        .args([&corpus, &root().join("fuzz/seeds").join(target)])
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-seed={}", turn.seed + 1))
        .args(["-timeout=20", "-rss_limit_mb=2048", "-detect_leaks=0"])
        .arg("-print_final_stats=1")
        .env("RUSTC_BOOTSTRAP", "1")
        // libdeflate compiles one file of constants several times.
        .env("ASAN_OPTIONS", "detect_odr_violation=0");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> &'static Part {
        PARTS.iter().find(|part| part.name == name).expect("a part")
    }

    #[test]
    fn executions_are_read_from_what_tests_print() {
        let printed = "pack: executions: 12 kills\ncat: executions: 30 errors\nexecutions: x\n";
        assert_eq!(part("writes").executions(printed), 42);
        let tests = "test result: ok. 3 passed; 0 failed\ntest result: ok. 4 passed; 0\n";
        assert_eq!(part("faults").executions(tests), 7);
        assert_eq!(part("schedules").executions("ok"), SEEDS_OF_A_TURN);
        assert_eq!(part("tiles").executions("SKIP: no device"), 0);
        let stats = "stat::number_of_executed_units: 512\n";
        assert_eq!(part("fuzz").executions(stats), 512);
    }

    #[test]
    fn every_target_that_a_part_names_is_there() {
        for part in PARTS.iter().filter(|part| !part.words.is_empty()) {
            let words: Vec<&str> = part.words.split_whitespace().collect();
            let mut package = root();
            for pair in words.windows(2) {
                match pair {
                    ["-p", name] => package = root().join("crates").join(name),
                    ["--test", name] => {
                        let tests = package.join("tests");
                        let file = tests.join(format!("{name}.rs"));
                        let folder = tests.join(name).join("main.rs");
                        assert!(file.exists() || folder.exists(), "{name}");
                    }
                    _ => {}
                }
            }
        }
    }
}
