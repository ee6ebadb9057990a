//! Names that a walk leaves out, in the form of `.gitignore`.

use crate::names;

/// Rules for what [`walk_with`](crate::walk_with) leaves out: the lines of a `.gitignore`.
///
/// A rule is a glob (`*` and `?` match anything but `/`, `**` anything). With a `/` at its start or
/// inside, it is compared with the whole name, else with the last part. A `/` at its end restricts
/// it to folders; what lies in an excluded folder is left out, too. A rule that begins with `!`
/// includes again what earlier ones excluded. Empty lines, and those that begin with `#`, are no
/// rules; a `\` before `#` or `!` makes it an ordinary character.
///
/// ```
/// use millstream_pak::Exclude;
///
/// let mut exclude = Exclude::default();
/// exclude.add_lines(b"# editors\n*.psd\n!logo.psd\n/build/\n");
/// assert!(exclude.excludes(b"art/hero.psd", false));
/// assert!(!exclude.excludes(b"art/logo.psd", false));
/// assert!(exclude.excludes(b"build", true) && !exclude.excludes(b"art/build", true));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Exclude(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    glob: Vec<u8>,
    /// Whether only the last part of a name is compared.
    last_part: bool,
    folders: bool,
    includes: bool,
}

impl Exclude {
    /// Adds a rule for each line of a text.
    pub fn add_lines(&mut self, text: &[u8]) {
        text.split(|&byte| byte == b'\n')
            .for_each(|it| self.add(it));
    }

    fn add(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if line.is_empty() || line[0] == b'#' {
            return;
        }
        let (includes, line) = match line {
            [b'!', rest @ ..] => (true, rest),
            [b'\\', b'#' | b'!', ..] => (false, &line[1..]),
            line => (false, line),
        };
        let (folders, glob) = match line.strip_suffix(b"/") {
            Some(glob) => (true, glob),
            None => (false, line),
        };
        self.0.push(Rule {
            last_part: !glob.contains(&b'/'),
            glob: glob.strip_prefix(b"/").unwrap_or(glob).to_vec(),
            folders,
            includes,
        });
    }

    /// Returns whether a file or folder is left out: the last rule that matches decides.
    #[must_use]
    pub fn excludes(&self, name: &[u8], is_folder: bool) -> bool {
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
        let matching = self.0.iter().rev().find(|rule| {
            let part = if rule.last_part { last } else { name };
            (is_folder || !rule.folders) && names::glob(&rule.glob, part)
        });
        matching.is_some_and(|rule| !rule.includes)
    }
}
