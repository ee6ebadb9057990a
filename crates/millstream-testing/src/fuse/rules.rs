//! Rules: which calls go wrong, and how.

use std::ffi::OsStr;
use std::ops::Range;
use std::time::Duration;

use super::HANG_MAX;

/// A kind of call to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// Opening a file that exists.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// `fsync` and `fdatasync` of a file.
    Sync,
    /// `fsync` of the folder; no file name applies to it.
    SyncFolder,
    /// Creating a file.
    Create,
    /// Renaming; rules match the old name.
    Rename,
    /// Removing a name.
    Unlink,
    /// `stat` and related calls.
    Stat,
}

/// What a rule does to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The call fails with this errno.
    Fail(i32),
    /// The call is answered after this time.
    Delay(Duration),
    /// At most this many bytes are read or written. Must not be 0 for a write.
    Short(usize),
    /// The call is not answered until it is released, at the latest after [`HANG_MAX`].
    Hang,
}

/// A rule. All rules that match a call apply together: the longest wait, the first error, the
/// shortest transfer.
#[derive(Debug, Clone)]
#[must_use]
pub struct Rule {
    call: Call,
    effect: Effect,
    name: Option<String>,
    range: Range<u64>,
    skipped: u64,
    times: u64,
}

impl Rule {
    /// Creates a rule for every such call, on every file and range, without limit.
    pub fn on(call: Call, effect: Effect) -> Rule {
        Rule {
            call,
            effect,
            name: None,
            range: 0..u64::MAX,
            skipped: 0,
            times: u64::MAX,
        }
    }

    /// Restricts the rule to the file of this name.
    pub fn of(mut self, name: &str) -> Rule {
        self.name = Some(name.to_owned());
        self
    }

    /// Restricts the rule to reads and writes that touch one of these bytes.
    pub fn touching(mut self, range: Range<u64>) -> Rule {
        self.range = range;
        self
    }

    /// Skips the first `count` calls that match.
    pub fn after(mut self, count: u64) -> Rule {
        self.skipped = count;
        self
    }

    /// Restricts the rule to `count` matching calls (after those skipped by [`Rule::after`]).
    pub fn times(mut self, count: u64) -> Rule {
        self.times = count;
        self
    }

    fn matches(&self, call: Call, name: &OsStr, range: &Range<u64>) -> bool {
        self.call == call
            && self.times > 0
            && self.name.as_ref().is_none_or(|own| name == own.as_str())
            && range.start < self.range.end
            && self.range.start < range.end
    }
}

/// Identifies an added rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId(u64);

/// All rules of a mount.
#[derive(Default)]
pub(crate) struct Rules {
    rules: Vec<(RuleId, Rule)>,
    added: u64,
}

/// The combined effect of the rules on one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Time after which the call is answered.
    pub(crate) wait: Option<Duration>,
    /// Errno with which it fails.
    pub(crate) errno: Option<i32>,
    /// Maximum number of bytes transferred.
    pub(crate) bytes_max: Option<usize>,
}

impl Rules {
    pub(crate) fn add(&mut self, rule: Rule) -> RuleId {
        self.added += 1;
        let id = RuleId(self.added);
        self.rules.push((id, rule));
        id
    }

    pub(crate) fn remove(&mut self, id: RuleId) {
        self.rules.retain(|(other, _)| *other != id);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Applies the rules to a call on the bytes `range` (one byte at 0 for calls without a range).
    pub(crate) fn judge(&mut self, call: Call, name: &OsStr, range: &Range<u64>) -> Verdict {
        let mut verdict = Verdict::default();
        for (_, rule) in &mut self.rules {
            if !rule.matches(call, name, range) {
                continue;
            }
            if rule.skipped > 0 {
                rule.skipped -= 1;
                continue;
            }
            rule.times -= 1;
            match rule.effect {
                Effect::Fail(errno) => verdict.errno = verdict.errno.or(Some(errno)),
                Effect::Delay(time) => verdict.wait = verdict.wait.max(Some(time.min(HANG_MAX))),
                Effect::Hang => verdict.wait = Some(HANG_MAX),
                Effect::Short(bytes) => {
                    let bytes = verdict.bytes_max.map_or(bytes, |other| other.min(bytes));
                    verdict.bytes_max = Some(bytes);
                }
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_apply_together_and_run_out() {
        let mut rules = Rules::default();
        let name = OsStr::new("a");
        rules.add(Rule::on(Call::Read, Effect::Fail(5)).of("a").times(1));
        rules.add(Rule::on(Call::Read, Effect::Short(7)).touching(100..200));
        let delay = rules.add(Rule::on(
            Call::Read,
            Effect::Delay(Duration::from_millis(3)),
        ));
        let all = Verdict {
            wait: Some(Duration::from_millis(3)),
            errno: Some(5),
            bytes_max: Some(7),
        };
        assert_eq!(rules.judge(Call::Read, name, &(199..300)), all);
        let later = rules.judge(Call::Read, name, &(199..300));
        assert_eq!(later, Verdict { errno: None, ..all });
        rules.remove(delay);
        let none = Verdict::default();
        assert_eq!(rules.judge(Call::Read, name, &(200..300)), none);
        assert_eq!(rules.judge(Call::Write, name, &(0..300)), none);
    }
}
