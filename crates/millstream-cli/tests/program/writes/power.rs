//! The power fails while a command writes, or right behind its end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millstream_testing::calls::{Answer, answered};
use millstream_testing::{Unavailable, alive, or_skip};

use crate::writes::disk::Recording;
use crate::writes::number;
use crate::writes::setting::{COMPRESS, Case, DIFF, EXTRACT, Files, OTHERS, PACK, Setting};

/// Records a run, and looks at everything that can be on the disk after a crash; how many disks.
fn crash(case: Case, replaces: bool) -> Result<u64, Unavailable> {
    let setting = Setting::new(case, replaces);
    setting.reset();
    let root = setting.work().canonicalize().expect("it is there");
    let before: BTreeMap<PathBuf, Vec<u8>> = setting
        .files()
        .into_iter()
        .map(|(name, content)| (root.join(name), content))
        .collect();
    let ended = answered(&mut setting.command(), &root, |_| Answer::Allow)?;
    assert!(ended.status.success(), "{}", ended.stderr);
    setting.expect_new("recorded");
    let seed = number("MILLSTREAM_SEED", 0);
    let mut random = fastrand::Rng::with_seed(seed);
    let recording = Recording::new(&before, &ended.calls);
    let shown = recording.crash(
        number("MILLSTREAM_ORDERS", 1_000),
        &mut |order| random.shuffle(order),
        &mut |disk, ended| {
            alive();
            for name in case.outputs {
                let content = disk.content(&root.join(name));
                let files: Files = content
                    .map(|content| ((*name).to_owned(), content.to_vec()))
                    .into_iter()
                    .collect();
                let new = setting.is_new(name, &files, &format!("seed {seed}: {case:?}"));
                assert!(
                    new || !ended,
                    "seed {seed}: {case:?}: {name} is lost after the end"
                );
            }
        },
    );
    println!("{}: executions: {shown} disks", case.words);
    Ok(shown)
}

#[test]
fn the_power_fails_during_compress_pack_and_diff() {
    for case in [COMPRESS, PACK, DIFF, OTHERS[0]] {
        for replaces in [true, false] {
            let shown = or_skip!(crash(case, replaces));
            assert!(shown > 20, "{case:?}: {shown}");
        }
    }
}

#[test]
fn the_power_fails_during_extract() {
    for replaces in [true, false] {
        let shown = or_skip!(crash(EXTRACT, replaces));
        assert!(shown > 100, "{shown}");
    }
}
