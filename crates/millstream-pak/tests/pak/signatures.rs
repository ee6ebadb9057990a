//! Ways around a signature: each is found, whether the hashes of the changed package are made right
//! again, as an attacker would, or left as they were.

use crate::sheet;
use std::path::{Path, PathBuf};

use crate::support::Bench;
use millstream::CodecId;
use millstream_pak::format::{SectionRecord, SignatureRecord, section};
use millstream_pak::{
    Coding, Error, ErrorKind, PackOptions, Package, PackageOptions, PublicKey, SecretKey, verify,
    write_file, write_patch_file,
};
use sheet::Sheet;
use zerocopy::little_endian::U64;
use zerocopy::{FromZeros as _, IntoBytes as _};

fn key() -> SecretKey {
    SecretKey::from_bytes(&[3; 32])
}

/// Packages of one key and layout, and of other contents.
fn pack(bench: &Bench, content: u8, sign: Option<&SecretKey>, version: u64) -> PathBuf {
    let entries: Vec<(String, Vec<u8>)> = (0..6)
        .map(|nth| {
            (
                format!("{nth}"),
                vec![content + nth; 20_000 * (nth as usize + 1)],
            )
        })
        .collect();
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::STORED),
        sign,
        content_version: version,
        ..PackOptions::default()
    };
    let signed = sign.map_or("", |_| "signed");
    let path = bench.path(&format!("{content}-{version}{signed}.mpak"));
    write_file(crate::support::items(&entries), &options, &path).expect("packed");
    path
}

fn signed(bench: &Bench, content: u8) -> Sheet {
    let bytes = std::fs::read(pack(bench, content, Some(&key()), 0)).expect("read");
    Sheet { bytes }
}

/// What verifying a package with a key finds: an error of opening it, or the first of its failures.
fn verified(bench: &Bench, path: &Path, key: &PublicKey) -> Result<(), Error> {
    let package = Package::open(&bench.storage, path)?;
    let found = verify(&bench.storage, &package, Some(key), &mut |_| true)?;
    assert_eq!(found.failures == 0, found.errors.is_empty());
    match found.errors.into_iter().next() {
        Some(error) => Err(error),
        None => {
            assert!(found.signature_verified);
            Ok(())
        }
    }
}

fn refused(bench: &Bench, sheet: &Sheet, what: &str) -> Error {
    let path = bench.path("changed.mpak");
    std::fs::write(&path, &sheet.bytes).expect("written");
    let found = verified(bench, &path, &key().public());
    found.expect_err(what)
}

/// Refused as it is, and refused for its signature once its hashes are right.
fn refused_also_sealed(bench: &Bench, mut sheet: Sheet, what: &str) {
    refused(bench, &sheet, what);
    sheet.seal();
    let error = refused(bench, &sheet, what);
    assert_eq!(error.kind(), ErrorKind::Signature, "{what}: {error}");
    assert!(error.path().is_some(), "{what}: {error}");
}

#[test]
fn it_tells_whose_package_it_is() {
    let bench = Bench::new();
    let path = pack(&bench, 1, Some(&key()), 0);
    verified(&bench, &path, &key().public()).expect("all well");
    let other = SecretKey::from_bytes(&[4; 32]);
    let error = verified(&bench, &path, &other.public()).expect_err("another key");
    assert_eq!(error.kind(), ErrorKind::Signature);
    let unsigned = pack(&bench, 1, None, 0);
    let error = verified(&bench, &unsigned, &key().public()).expect_err("not signed");
    assert_eq!(error.kind(), ErrorKind::Signature);
}

#[test]
fn tables_of_another_package_of_the_key() {
    let bench = Bench::new();
    let (mut ours, mut other) = (signed(&bench, 1), signed(&bench, 101));
    let mut same = 0;
    for kind in section::BUCKETS..section::SIGNATURE {
        let count = ours.header().section_count.get() as usize;
        let records = &ours.header().sections[..count];
        if !records
            .iter()
            .any(|it: &SectionRecord| it.kind.get() == kind)
        {
            continue;
        }
        let mut changed = ours.clone();
        changed.section(kind).copy_from_slice(other.section(kind));
        // Names are the same in both, and so are all tables of them.
        if changed.bytes == ours.bytes {
            same += 1;
            continue;
        }
        refused_also_sealed(&bench, changed, &format!("section {kind}"));
    }
    assert_eq!(same, 3, "buckets, entries and names");
}

#[test]
fn data_of_another_package_of_the_key() {
    let bench = Bench::new();
    let (ours, mut other) = (signed(&bench, 1), signed(&bench, 101));
    let mut changed = ours.clone();
    changed.data().copy_from_slice(other.data());
    let error = refused(&bench, &changed, "data");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    // With the checksums that belong to them.
    changed
        .section(section::BLOCKS)
        .copy_from_slice(other.section(section::BLOCKS));
    refused_also_sealed(&bench, changed.clone(), "data and checksums");
    changed
        .section(section::CONTENTS)
        .copy_from_slice(other.section(section::CONTENTS));
    refused_also_sealed(&bench, changed, "data, checksums and hashes of contents");
}

#[test]
fn a_signature_taken_off_or_from_another_package() {
    let bench = Bench::new();
    let (mut ours, mut other) = (signed(&bench, 1), signed(&bench, 101));
    let mut changed = ours.clone();
    changed
        .section(section::SIGNATURE)
        .copy_from_slice(other.section(section::SIGNATURE));
    let error = refused(&bench, &changed, "the signature of another");
    assert_eq!(error.kind(), ErrorKind::Signature, "{error}");
    // A key of small order, for which some signatures match any message.
    let mut record = SignatureRecord::new_zeroed();
    record.public_key[0] = 1;
    ours.section(section::SIGNATURE)
        .copy_from_slice(record.as_bytes());
    let error = refused(&bench, &ours, "a key of small order");
    assert_eq!(error.kind(), ErrorKind::Signature, "{error}");
    let trusted = PublicKey::from_bytes(&record.public_key);
    if let Ok(trusted) = trusted {
        let found = verified(&bench, &bench.path("changed.mpak"), &trusted);
        assert_eq!(found.expect_err("small order").kind(), ErrorKind::Signature);
    }
    let mut bare = signed(&bench, 1);
    let last = bare.header().section_count.get() - 1;
    assert_eq!(
        bare.header().sections[last as usize].kind.get(),
        section::SIGNATURE
    );
    bare.section(section::SIGNATURE).fill(0);
    bare.header().sections[last as usize] = SectionRecord::new_zeroed();
    bare.header().section_count.set(last);
    refused_also_sealed(&bench, bare, "no signature");
}

#[test]
fn a_downgraded_format() {
    let bench = Bench::new();
    let ours = signed(&bench, 1);
    for major in [0, 1, 3, u16::MAX] {
        let mut changed = ours.clone();
        changed.header().major.set(major);
        changed.seal();
        let error = refused(&bench, &changed, "another version");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let mut changed = ours.clone();
    changed.header().minor.set(7);
    refused_also_sealed(&bench, changed, "another minor version");
    for feature in [1, 2] {
        let mut changed = ours.clone();
        changed.header().required.set(feature);
        refused_also_sealed(&bench, changed, "another feature");
    }
}

/// A signed patch from the package of one content to that of another, whose short entries differ.
fn patch(bench: &Bench) -> (PathBuf, PathBuf) {
    let base = pack(bench, 1, Some(&key()), 0);
    let opened = bench.open(&base);
    let mut entries: Vec<(String, Vec<u8>)> = (0..6u8)
        .map(|nth| (format!("{nth}"), vec![1 + nth; 20_000 * (nth as usize + 1)]))
        .collect();
    // Of the longest all blocks but one are the base's.
    entries.push((String::from("new"), vec![9; 40_000]));
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::STORED),
        content_version: 5,
        ..PackOptions::default()
    };
    let after = bench.path("after.mpak");
    entries[5].0 = String::from("moved");
    write_file(crate::support::items(&entries), &options, &after).expect("packed");
    let patch = bench.path("signed.patch.mpak");
    write_patch_file(&opened, &bench.open(&after), Some(&key()), &patch).expect("written");
    (base, patch)
}

#[test]
fn a_patch_on_another_base() {
    let bench = Bench::new();
    let (base, patch) = patch(&bench);
    let over = |patch: &Path, base: &Path| -> Result<(), Error> {
        let package = bench.open(&patch.to_path_buf());
        let package = package.with_base(&Package::open(&bench.storage, base)?)?;
        let found = verify(&bench.storage, &package, Some(&key().public()), &mut |_| {
            true
        })?;
        found.errors.into_iter().next().map_or(Ok(()), Err)
    };
    over(&patch, &base).expect("all well");
    let least = PackageOptions {
        min_version: 5,
        ..PackageOptions::default()
    };
    Package::open_with(&bench.storage, &patch, least).expect("it has the version of the package");
    let other = pack(&bench, 101, Some(&key()), 0);
    let error = over(&patch, &other).expect_err("another base");
    assert_eq!(error.kind(), ErrorKind::Base, "{error}");

    // The other base's root in the patch.
    let bytes = std::fs::read(&patch).expect("read");
    let mut changed = Sheet { bytes };
    changed.header().base_root = bench.open(&other).root();
    changed.seal();
    let path = bench.path("rebased.mpak");
    std::fs::write(&path, &changed.bytes).expect("written");
    let error = over(&path, &other).expect_err("rebased");
    assert_eq!(error.kind(), ErrorKind::Signature, "{error}");

    // The base's header over the other's data.
    let mut mixed = signed(&bench, 1);
    let bytes = std::fs::read(&other).expect("read");
    mixed.data().copy_from_slice(Sheet { bytes }.data());
    let path = bench.path("mixed.mpak");
    std::fs::write(&path, &mixed.bytes).expect("written");
    let error = over(&patch, &path).expect_err("mixed");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn an_older_package_of_the_key() {
    let bench = Bench::new();
    let at_least = |path: &Path, min_version| {
        let options = PackageOptions {
            min_version,
            ..PackageOptions::default()
        };
        Package::open_with(&bench.storage, path, options).map(|it| it.content_version())
    };
    let (none, old) = (
        pack(&bench, 1, Some(&key()), 0),
        pack(&bench, 1, Some(&key()), 41),
    );
    for (path, has) in [(&none, 0), (&old, 41)] {
        verified(&bench, path, &key().public()).expect("all well");
        assert_eq!(at_least(path, has).expect("not older"), has);
        let error = at_least(path, 42).expect_err("older");
        assert_eq!(
            (error.kind(), error.offset()),
            (ErrorKind::Outdated, Some(128))
        );
        let text = error.to_string();
        assert!(
            text.contains(&format!("is {has},")) && text.contains("42"),
            "{text}"
        );
        assert_eq!(error.path(), Some(path.as_path()));
    }
    assert_eq!(
        at_least(&pack(&bench, 1, Some(&key()), u64::MAX), u64::MAX).expect("it is"),
        u64::MAX
    );

    // One that says that it is newer than it is.
    let bytes = std::fs::read(&old).expect("read");
    let mut changed = Sheet { bytes };
    changed.header().content_version.set(42);
    refused_also_sealed(&bench, changed, "another version");
}

#[test]
fn a_version_changes_nothing_else() {
    let bench = Bench::new();
    let read = |version| {
        let bytes = std::fs::read(pack(&bench, 1, None, version)).expect("read");
        Sheet { bytes }
    };
    let (plain, mut numbered) = (read(0), read(7));
    assert_eq!(numbered.header().content_version, U64::new(7));
    numbered.header().content_version.set(0);
    numbered.seal();
    assert!(plain.bytes == numbered.bytes);
    // Where packages of format 1 had zeros.
    assert!(plain.bytes[128..256].iter().all(|&byte| byte == 0));
}
