//! The cases, as data (`cases.toml`): workload, contenders, sizes, figures.
//!
//! A family of cases has a name such as `{mode} {size} depth {depth}` and a list of values for each
//! variable in it; it stands for every combination of them. The contenders are names that the
//! workload's code knows. The goals (`goals.toml`) and the studies' figures (`study.toml`) use the
//! resulting names of cases and contenders.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, de};
use toml::{Table, Value};

#[derive(Deserialize)]
pub(crate) struct Family {
    name: String,
    /// Figures computed from a run's time and work, as `Metric::of` parses them.
    #[serde(default)]
    pub(crate) figures: Vec<String>,
    #[serde(default)]
    contenders: Vec<String>,
    /// Whether `limit` rows are added.
    #[serde(default)]
    pub(crate) limit: bool,
    /// Maximum number of counted rounds, for runs that take seconds or vary little.
    pub(crate) runs_max: Option<usize>,
    /// Multiplies the number of counted rounds, for runs that take milliseconds.
    pub(crate) runs_times: Option<usize>,
    /// Whether an uncounted round goes first, which is the default.
    pub(crate) warm_up: Option<bool>,
    /// The variables: a value, a list of values, or one of these for each size of a run.
    #[serde(flatten)]
    variables: Table,
}

type Families = BTreeMap<String, BTreeMap<String, Vec<Family>>>;

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    const READ: &str = "a table of this crate, which tests read";
    let mut all: BTreeMap<String, BTreeMap<String, Vec<Table>>> =
        toml::from_str(include_str!("cases.toml")).expect(READ);
    for families in all.values_mut().flat_map(BTreeMap::values_mut) {
        for at in 1..families.len() {
            for (key, value) in families[at - 1].clone() {
                families[at].entry(key).or_insert(value);
            }
        }
    }
    let all = Value::try_from(all).expect(READ);
    all.try_into().expect(READ)
});

#[derive(Clone)]
pub(crate) struct Instance {
    pub(crate) workload: &'static str,
    pub(crate) name: String,
    pub(crate) family: &'static Family,
    values: Table,
}

impl Instance {
    /// Returns the value of a variable.
    ///
    /// # Panics
    /// If `cases.toml` has no such variable, which every run of the workload would show.
    pub(crate) fn get<T: de::DeserializeOwned>(&self, variable: &str) -> T {
        let value = self.find(variable);
        value.unwrap_or_else(|| panic!("{:?} has no variable {variable}", self.name))
    }

    pub(crate) fn find<T: de::DeserializeOwned>(&self, variable: &str) -> Option<T> {
        let value = self.values.get(variable)?.clone().try_into();
        Some(value.unwrap_or_else(|error| panic!("{variable} of {:?}: {error}", self.name)))
    }

    pub(crate) fn contenders(&self) -> impl Iterator<Item = &'static str> {
        let has = |value| self.values.values().any(|it| it.as_str() == Some(value));
        let all = self.family.contenders.iter();
        all.filter_map(move |text| match text.split_once(" of ") {
            Some((name, values)) => values.split(' ').any(has).then_some(name),
            None => Some(text.as_str()),
        })
    }
}

/// Returns the cases of a kind of a workload; `found` has variables whose values are known only at
/// run time.
pub(crate) fn of(workload: &str, kind: &str, quick: bool, found: &Table) -> Vec<Instance> {
    let entry = FAMILIES.get_key_value(workload);
    let (workload, kinds) = entry.expect("a workload of cases.toml");
    let families = kinds.get(kind).expect("a kind of cases.toml");
    let instances = families.iter().flat_map(|family| {
        let all = family.variables.iter().chain(found);
        product(all, quick).into_iter().map(move |values| Instance {
            workload,
            name: named(&family.name, &values),
            family,
            values,
        })
    });
    instances.collect()
}

fn product<'a>(
    variables: impl Iterator<Item = (&'a String, &'a Value)>,
    quick: bool,
) -> Vec<Table> {
    let size = if quick { "quick" } else { "full" };
    let mut all = vec![Table::new()];
    for (name, value) in variables {
        let value = value.get(size).unwrap_or(value);
        let values = value.as_array().cloned();
        let values = values.unwrap_or_else(|| vec![value.clone()]);
        let with = |table: Table| {
            let each = values.iter().map(move |value| {
                let mut table = table.clone();
                table.insert(name.clone(), value.clone());
                table
            });
            each.collect::<Vec<Table>>()
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}

fn named(pattern: &str, values: &Table) -> String {
    let mut name = pattern.to_owned();
    for (variable, value) in values {
        let number = value.as_integer().map(|number| number.to_string());
        let shown = number.or_else(|| value.as_str().map(str::to_owned));
        name = name.replace(&format!("{{{variable}}}"), &shown.unwrap_or_default());
    }
    name
}

/// A number of bytes, from text such as `64K` (powers of 1024) or `100MB` (powers of 1000).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl Bytes {
    pub(crate) fn len(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn parse(text: &str) -> Option<Bytes> {
        millstream_report::quantity(text).map(|bytes| Bytes(bytes as u64))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        Bytes::parse(&text).ok_or_else(|| de::Error::custom(format!("{text:?} is no size")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_family_makes_cases_with_names_of_their_own() {
        for quick in [true, false] {
            for (workload, kinds) in FAMILIES.iter() {
                assert!(
                    crate::WORKLOADS.iter().any(|it| it.0 == *workload),
                    "{workload}"
                );
                for kind in kinds.keys() {
                    let cases = of(workload, kind, quick, &Table::new()).into_iter();
                    let mut names = HashSet::new();
                    cases.for_each(|it| assert!(names.insert(it.name.clone()), "{}", it.name));
                }
            }
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        let sizes = ["4", "64K", "1M", "100MB", "4 GiB"].map(|it| Bytes::parse(it).map(|it| it.0));
        let expected = [4, 65_536, 1 << 20, 100_000_000, 4 << 30];
        assert_eq!(sizes, expected.map(Some));
        assert_eq!(Bytes::parse("1 parsec"), None);
    }
}
