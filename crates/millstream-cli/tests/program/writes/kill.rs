//! Commands that are killed between any two calls that write.

use std::os::unix::process::ExitStatusExt as _;

use millstream_testing::calls::{Answer, Call, Op, answered, answered_at};
use millstream_testing::{Unavailable, or_skip};

use crate::writes::all;
use crate::writes::setting::{COMPRESS, Case, DIFF, EXTRACT, OTHERS, PACK, Setting};

/// Kills the command once in every place; the number of places. After each call there is what there
/// is before the next, so only the last is the end by default.
fn kill_everywhere(case: Case, replaces: bool) -> Result<usize, Unavailable> {
    let setting = Setting::new(case, replaces);
    let sides: &[Answer] = match all() {
        true => &[Answer::KillBefore, Answer::KillAfter],
        false => &[Answer::KillBefore],
    };
    let mut places = 0;
    for &side in sides {
        for number in 0.. {
            match killed_at(&setting, number, side, &format!("{case:?}"))? {
                true => places += 1,
                false => break,
            }
        }
    }
    killed_after_last(&setting, places / sides.len())?;
    println!("{}: executions: {} kills", case.words, places + 1);
    Ok(places)
}

/// Kills it at one call, then runs it again; false if it makes no such call.
fn killed_at(
    setting: &Setting,
    number: usize,
    side: Answer,
    what: &str,
) -> Result<bool, Unavailable> {
    setting.reset();
    let (ended, call) = answered_at(&mut setting.command(), &setting.work(), number, side)?;
    let Some(call) = call else {
        assert!(ended.status.success(), "{what}: {}", ended.stderr);
        setting.expect_new(what);
        return Ok(false);
    };
    let what = format!("{what}, {side:?} {number}: {}", shown(&call));
    assert_eq!(ended.status.signal(), Some(9), "{what}");
    setting.expect_whole(&what);
    setting.run_well();
    setting.expect_new(&format!("{what}, and the next run"));
    Ok(true)
}

/// After its last call everything is there.
fn killed_after_last(setting: &Setting, count: usize) -> Result<(), Unavailable> {
    setting.reset();
    let last = count - 1;
    let (ended, _) = answered_at(
        &mut setting.command(),
        &setting.work(),
        last,
        Answer::KillAfter,
    )?;
    assert_eq!(ended.status.signal(), Some(9));
    setting.expect_new("after the last call");
    Ok(())
}

fn shown(call: &Call) -> String {
    format!("{} of {}", call.name, call.path.display())
}

#[test]
fn compress_is_killed_at_every_call() {
    assert!(or_skip!(kill_everywhere(COMPRESS, true)) >= 6);
    assert!(or_skip!(kill_everywhere(COMPRESS, false)) >= 6);
}

#[test]
fn pack_is_killed_at_every_call() {
    assert!(or_skip!(kill_everywhere(PACK, true)) >= 9);
}

#[test]
fn diff_is_killed_at_every_call() {
    assert!(or_skip!(kill_everywhere(DIFF, true)) >= 9);
}

#[test]
fn extract_is_killed_at_every_call() {
    assert!(or_skip!(kill_everywhere(EXTRACT, true)) >= 12);
    assert!(or_skip!(kill_everywhere(EXTRACT, false)) >= 15);
}

#[test]
fn what_writes_like_compress_is_killed_at_every_call() {
    let cases = if all() { &OTHERS[..] } else { &OTHERS[1..2] };
    for &case in cases {
        assert!(or_skip!(kill_everywhere(case, true)) >= 6);
    }
}

/// What the ring was given last may be on its way, which is another thing than a call.
#[test]
fn extract_is_killed_at_every_submission() {
    let setting = Setting::new(EXTRACT, true);
    for number in 0.. {
        setting.reset();
        let mut submissions = 0;
        let ended = or_skip!(answered(&mut setting.command(), &setting.work(), |call| {
            submissions += usize::from(call.op == Op::Submit);
            match call.op == Op::Submit && submissions == number + 1 {
                true => Answer::KillAfter,
                false => Answer::Allow,
            }
        }));
        if ended.status.signal() != Some(9) {
            assert!(ended.status.success(), "{}", ended.stderr);
            if number == 0 {
                println!("SKIP: io_uring is refused here");
            }
            break;
        }
        setting.expect_whole(&format!("submission {number}"));
        setting.run_well();
        setting.expect_new(&format!("submission {number}, and the next run"));
    }
}
