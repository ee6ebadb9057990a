//! What the fuzz targets run, on the inputs in `seeds/` and on changes of them: so a target
//! that fails at once, or no longer builds, is noticed without a fuzzer.

use std::path::Path;

use millstream_fuzz::TARGETS;

millstream_testing::watch!();

/// Changes of all seeds of a target together.
const CHANGES: usize = 300;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let files = std::fs::read_dir(folder.join(target)).expect("a folder of seeds");
    let mut paths: Vec<_> = files.map(|file| file.expect("listed").path()).collect();
    paths.sort();
    let read = |path| std::fs::read(path).expect("read");
    paths.into_iter().map(read).collect()
}

#[test]
fn seeds_and_changes_of_them_do_no_harm() {
    for (name, run) in TARGETS {
        let seeds = seeds(name);
        assert!(seeds.len() > 5, "{name}: only {} seeds", seeds.len());
        let mut random = fastrand::Rng::with_seed(1);
        let changed = std::iter::repeat_with(|| {
            let mut input = random.choice(&seeds).cloned().unwrap_or_default();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..=input.len());
                match random.u8(..4) {
                    0 => input.insert(at, random.u8(..)),
                    1 => input.truncate(at),
                    _ if at < input.len() => input[at] = random.u8(..),
                    _ => input.push(random.u8(..)),
                }
            }
            input
        });
        let changed: Vec<Vec<u8>> = changed.take(CHANGES).collect();
        seeds.iter().chain(&changed).for_each(|input| run(input));
    }
}
