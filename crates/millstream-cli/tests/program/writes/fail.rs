//! Every call that writes fails, with every error that disks and file systems have for it.

use millstream_testing::calls::{Answer, Call, Op, answered_at};
use millstream_testing::{Unavailable, or_skip};

use crate::writes::all;
use crate::writes::setting::{COMPRESS, Case, DIFF, EXTRACT, OTHERS, PACK, PACK_LONG, Setting};

/// No space, I/O error, quota used up, mounted read-only.
const ERRORS: [i32; 4] = [libc::ENOSPC, libc::EIO, libc::EDQUOT, libc::EROFS];

/// What is expected of a command one of whose calls failed.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// It fails, and the old files stay; only of `extract` some may be replaced.
    Old,
    /// It fails and says so, but the new file has its name: that cannot be taken back.
    Renamed,
    /// It goes on another way.
    Success,
    /// Only a temporary name is left.
    Leftover,
}

fn expected(case: Case, call: &Call, error: i32, renamed: bool) -> Expected {
    match call.op {
        // The folder may be full of temporary names, except before the first.
        Op::Create { .. } | Op::MakeFolder
            if error == libc::ENOSPC && is_extract(case) && !is_first(call) =>
        {
            Expected::Success
        }
        // A file with a temporary name does as well.
        Op::Create { unnamed: true } => Expected::Success,
        // The new file is more private then.
        Op::Attribute if call.name != "fchmod" => Expected::Success,
        // Space is reserved for speed alone.
        Op::Allocate => Expected::Success,
        Op::Remove => Expected::Leftover,
        Op::Sync | Op::SyncAll if renamed => Expected::Renamed,
        _ => Expected::Old,
    }
}

/// Whether a call creates the folder of the outputs, or the first file in it.
fn is_first(call: &Call) -> bool {
    let path = call.path.to_string_lossy();
    path.ends_with("-0.tmp") || path.ends_with("/out")
}

fn is_extract(case: Case) -> bool {
    case.words.starts_with("extract")
}

/// Whether a message says which output could not be made; of `extract` the folder will do for what
/// is done once for all.
fn names_its_file(case: Case, call: &Call, message: &str) -> bool {
    let of_one = matches!(
        call.op,
        Op::Create { .. } | Op::Write { .. } | Op::Rename(_)
    );
    let names = |name: &str| message.contains(&format!(" {name}: "));
    let one = case.outputs.iter().any(|name| names(name));
    one || is_extract(case) && names("out") && (!of_one || is_first(call))
}

/// Makes each call fail once with one of the errors, or with each; how many failed.
fn fail_everywhere(case: Case, replaces: bool) -> Result<usize, Unavailable> {
    let setting = Setting::new(case, replaces);
    let mut failed = 0;
    for number in 0.. {
        let errors = match all() {
            true => &ERRORS[..],
            // Another one for each call and command.
            false => std::slice::from_ref(&ERRORS[(number + case.words.len()) % ERRORS.len()]),
        };
        for &error in errors {
            if !fails_at(&setting, case, number, error)? {
                println!("{}: executions: {failed} errors", case.words);
                return Ok(failed);
            }
            failed += 1;
        }
    }
    Ok(failed)
}

/// Makes one call fail; false if the command makes no such call.
fn fails_at(setting: &Setting, case: Case, number: usize, error: i32) -> Result<bool, Unavailable> {
    setting.reset();
    let fail = Answer::Fail(error);
    let (ended, call) = answered_at(&mut setting.command(), &setting.work(), number, fail)?;
    let Some(call) = call else {
        return Ok(false);
    };
    let words = std::io::Error::from_raw_os_error(error).to_string();
    let what = format!("{case:?}: {} of {:?}: {words}", call.name, call.path);
    let mut before = ended.calls.iter();
    before.find(|call| call.result == Some(-i64::from(error)));
    let earlier = ended.calls.len() - before.len();
    let renamed = ended.calls[..earlier]
        .iter()
        .any(|call| matches!(call.op, Op::Rename(_)) && call.result == Some(0));
    let files = setting.files();
    let expected = expected(case, &call, error, renamed);
    match expected {
        Expected::Success => {
            assert!(ended.status.success(), "{what}: {}", ended.stderr);
            setting.expect_new(&what);
        }
        Expected::Leftover => {
            setting.run_well();
            setting.expect_new(&what);
        }
        Expected::Old | Expected::Renamed => {
            assert_eq!(ended.status.code(), Some(1), "{what}: {}", ended.stderr);
            let named = names_its_file(case, &call, &ended.stderr);
            assert!(named, "{what}: names no file: {}", ended.stderr);
            assert!(ended.stderr.contains(&words), "{what}: {}", ended.stderr);
            setting.expect_no_others(&files, &what);
            let new = case.outputs.iter();
            let new = new
                .filter(|name| setting.is_new(name, &files, &what))
                .count();
            // Entries that are sound are extracted nevertheless.
            let new_max = match (&expected, is_extract(case)) {
                (Expected::Renamed, _) => case.outputs.len(),
                (_, true) => case.outputs.len() - 1,
                _ => 0,
            };
            assert!(new <= new_max, "{what}: {new} outputs are new");
        }
    }
    Ok(true)
}

#[test]
fn every_call_of_compress_fails() {
    assert!(or_skip!(fail_everywhere(COMPRESS, true)) >= 6);
    assert!(or_skip!(fail_everywhere(COMPRESS, false)) >= 6);
}

#[test]
fn every_call_of_pack_fails() {
    assert!(or_skip!(fail_everywhere(PACK, true)) >= 9);
}

#[test]
fn every_call_of_a_long_pack_fails() {
    assert!(or_skip!(fail_everywhere(PACK_LONG, true)) >= 10);
}

#[test]
fn every_call_of_diff_fails() {
    assert!(or_skip!(fail_everywhere(DIFF, true)) >= 9);
}

#[test]
fn every_call_of_extract_fails() {
    assert!(or_skip!(fail_everywhere(EXTRACT, true)) >= 12);
    assert!(or_skip!(fail_everywhere(EXTRACT, false)) >= 15);
}

#[test]
fn every_call_of_the_other_commands_fails() {
    for case in OTHERS {
        assert!(or_skip!(fail_everywhere(case, true)) >= 6);
    }
}
