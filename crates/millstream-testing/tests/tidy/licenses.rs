//! The licenses of all dependencies, as cargo knows them.

use std::process::Command;

/// Licenses that ask for no more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "IJG",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[test]
fn every_dependency_has_a_license_that_asks_for_no_more_than_a_notice() {
    let listed = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(crate::root())
        .output()
        .expect("cargo can be started");
    let failed = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{failed}");
    let metadata: serde_json::Value =
        serde_json::from_slice(&listed.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert!(packages.len() > 14, "only {} packages", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default()))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Whether an SPDX expression can be met by allowed licenses alone. Crates use no deeper nesting
/// than alternatives within a list of `AND`; the old `/` means `OR`.
fn is_allowed(expression: &str) -> bool {
    expression.replace('/', " OR ").split(" AND ").all(|all| {
        let mut any = all.trim_matches(['(', ')', ' ']).split(" OR ");
        any.any(|license| ALLOWED.contains(&license.trim()))
    })
}

#[test]
fn licenses_that_ask_for_more_are_found() {
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND IJG",
    ] {
        assert!(is_allowed(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "LGPL-2.1 OR GPL-2.0"] {
        assert!(!is_allowed(bad), "{bad}");
    }
}
