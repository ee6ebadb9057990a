//! Every field of a package is given values that it must not have, and the hashes are made right
//! again, as if someone had made the package so. Opening, loading, verifying, comparing and
//! mounting it give errors that name the file, or the bytes that the sound package has.

use crate::disk;
use crate::fields;
use crate::sheet::seal;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use disk::Disk;
use fields::Field;
use millstream::{CodecId, Queue, QueueOptions};
use millstream_pak::{
    BatchOptions, Coding, Error, ErrorKind, Item, Mounts, PackOptions, Package, SecretKey, diff,
    verify, visit, write_file, write_patch, write_patch_file,
};
use millstream_source::Source as _;

/// Hashes begin one byte later if their first byte is zero, as the padding behind them.
const MOVED: &str = "SectionRecord.hashes_offset";

/// Fields that some values change without a wrong byte and without a failure of `verify`.
const HARMLESS: [&str; 20] = [
    MOVED,
    // Only for people: who must be sure of it verifies the signature.
    "Header.content_version",
    // A reader takes later ones, and features that it may ignore.
    "Header.minor",
    "Header.optional",
    // Names in lower case are the same with their case folded.
    "Header.required",
    // Of a package that is no patch.
    "Header.base_root",
    // Padding may lie behind the last hot section, and belong to the data.
    "Header.hot_bytes",
    "Header.data_bytes",
    // Zeros may follow the last item of a section, and belong to it.
    "SectionRecord.bytes",
    // An unknown section that is not required is skipped; the contents can do without hashes.
    "SectionRecord.kind",
    "SectionRecord.flags",
    // One block is as long as its entry, whatever the others were.
    "EntryRecord.block_shift",
    // Whether a file is executable changes none of its bytes.
    "EntryRecord.flags",
    // An entry without bytes has no blocks.
    "EntryRecord.first_block",
    // Metadata are what the packer says that they are, of any entry.
    "MetadataPlace.entry",
    "MetadataPlace.offset",
    "item.length",
    "item.bytes",
    // Compared where a key is given.
    "SignatureRecord.public_key",
    "SignatureRecord.signature",
];

/// Entries that are loaded: more than any sound package here has.
const ENTRIES_MAX: u32 = 200;

/// A sound package, and what reads those made of it.
struct Subject {
    disk: Disk,
    queue: Queue,
    /// Where the changed package is, on both disks.
    path: PathBuf,
    valid: Vec<u8>,
    /// The sound package; of a patch its base.
    sound: Package,
    is_patch: bool,
    /// Name and content of each entry, by its number; no content if it is gone.
    entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Where the files are that patches are made of.
    _real: crate::support::Bench,
}

impl Subject {
    /// Of a package in the folder of `real`; and the base that it is a patch of.
    fn new(real: crate::support::Bench, package: &str, base: Option<&str>) -> Subject {
        let disk = Disk::new();
        let valid = std::fs::read(real.path(package)).expect("read");
        let sound = real.path(base.unwrap_or(package));
        disk.put(&sound, &std::fs::read(&sound).expect("read"));
        let queue = disk
            .storage
            .queue(QueueOptions::default())
            .expect("a queue");
        let mut subject = Subject {
            sound: Package::open(&disk.storage, &sound).expect("a package"),
            path: real.path("hostile.mpak"),
            is_patch: base.is_some(),
            entries: Vec::new(),
            disk,
            queue,
            valid,
            _real: real,
        };
        subject.disk.put(&subject.path, &subject.valid);
        let opened = subject.open().expect("a package");
        for (index, loaded) in (0..).zip(subject.load(&opened)) {
            let name = opened.name(index).expect("a name").to_vec();
            let gone = opened.info(index).expect("an entry").gone;
            let content = (!gone).then(|| loaded.expect("loaded"));
            subject.entries.push((name, content));
        }
        subject
    }

    fn open(&self) -> Result<Package, Error> {
        let package = Package::open(&self.disk.storage, &self.path)?;
        match package.base_root() {
            Some(_) => package.with_base(&self.sound),
            None => Ok(package),
        }
    }

    /// Whole entries, each compared with its hash, by their numbers.
    fn load(&self, package: &Package) -> Vec<Result<Vec<u8>, Error>> {
        let all: Vec<u32> = (0..package.len().min(ENTRIES_MAX)).collect();
        let mut found: Vec<_> = all.iter().map(|_| Ok(Vec::new())).collect();
        let options = BatchOptions::default();
        visit(
            package,
            &self.queue,
            &all,
            &options,
            &mut |piece, loaded| {
                let found = &mut found[piece.index as usize];
                match (loaded, &mut *found) {
                    (Ok(loaded), Ok(bytes)) => bytes.extend_from_slice(&loaded),
                    (Err(error), Ok(_)) => *found = Err(error),
                    (_, Err(_)) => {}
                }
                ControlFlow::Continue(())
            },
        );
        found
    }

    /// An error must name the changed file, or the base.
    fn named(&self, error: &Error) -> Result<(), String> {
        let path = error.path();
        let known = path == Some(&self.path) || path == Some(self.sound.path());
        let named = known && !error.detail().is_empty();
        named
            .then_some(())
            .ok_or_else(|| format!("which file? {error:?}"))
    }

    /// Whether a changed package is found to be one; what of it is wrong otherwise.
    fn try_one(&self, changed: Vec<u8>) -> Result<bool, String> {
        self.disk.put(&self.path, &changed);
        let package = match self.open() {
            Ok(package) => package,
            Err(error) => return self.named(&error).map(|()| true),
        };
        let mut is_found = false;
        for (index, loaded) in self.load(&package).into_iter().enumerate() {
            match (
                loaded,
                self.entries.get(index).and_then(|entry| entry.1.as_ref()),
            ) {
                (Err(error), content) => {
                    self.named(&error)?;
                    is_found |= content.is_some();
                }
                (Ok(loaded), Some(content)) if loaded == *content => {}
                (Ok(_), None) => is_found = true,
                (Ok(_), Some(_)) => return Err(format!("entry {index} has other bytes")),
            }
        }
        let found = verify(&self.disk.storage, &package, None, &mut |_| true);
        let found = found.map_err(|error| error.to_string())?;
        found
            .errors
            .iter()
            .try_for_each(|error| self.named(error))?;
        if is_found && found.failures == 0 {
            return Err(String::from("an entry fails, and verifying finds nothing"));
        }
        let is_found = found.failures > 0;
        self.compare(&package, is_found)?;
        if !self.is_patch {
            self.patch(&package, &changed, is_found)?;
        }
        self.mount(package, is_found)?;
        Ok(is_found)
    }

    /// Finds every entry by its name, in the package over its base.
    fn mount(&self, package: Package, is_found: bool) -> Result<(), String> {
        let mut mounts = Mounts::new();
        mounts.mount(self.sound.clone()).expect("it is sound");
        mounts.mount(package).map_err(|error| error.to_string())?;
        // Of a package that was found some will do.
        let some = if is_found { 8 } else { self.entries.len() };
        for (name, content) in self.entries.iter().take(some) {
            let loaded = mounts.find(name).and_then(|found| match found {
                Some(entry) => {
                    let request = mounts.request_range(&entry, 0, entry.raw_bytes())?;
                    Ok(Some(self.queue.submit(request)?.wait()?.to_vec()))
                }
                None => Ok(None),
            });
            match loaded {
                Ok(loaded) if is_found || loaded == *content => {}
                Err(error) if is_found && error.path().is_some() => {}
                other => return Err(format!("{name:?} by its name: {:?}", other.map(|_| ()))),
            }
        }
        mounts
            .folder(b"")
            .map(|_| ())
            .or_else(|error| self.named(&error))
    }

    /// Compares the package with the sound one, both ways round.
    fn compare(&self, package: &Package, is_found: bool) -> Result<(), String> {
        for (a, b) in [(&self.sound, package), (package, &self.sound)] {
            match diff(a, b) {
                Ok(found) if is_found || self.is_patch || found.is_empty() => {}
                Ok(found) => {
                    let executable = |package: &Package, name: &[u8]| {
                        let found = package.lookup(name).ok().flatten();
                        found.is_some_and(|found| found.executable)
                    };
                    let same = |name: &[u8]| executable(a, name) == executable(b, name);
                    if found.iter().any(|one| same(&one.name)) {
                        return Err(format!("it differs in {found:?}"));
                    }
                }
                // Without hashes of contents there is nothing to compare.
                Err(error) if error.kind() == ErrorKind::Unsupported => self.named(&error)?,
                Err(error) if is_found => self.named(&error)?,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Makes the patch between it and the sound one, both ways round, of real files.
    fn patch(&self, package: &Package, changed: &[u8], is_found: bool) -> Result<(), String> {
        std::fs::write(&self.path, changed).expect("written");
        for (a, b) in [(&self.sound, package), (package, &self.sound)] {
            let file = tempfile::tempfile().expect("a file");
            match write_patch(a, b, None, &file) {
                Ok(_) => {}
                Err(error) if is_found || error.kind() == ErrorKind::Unsupported => {
                    self.named(&error)?;
                }
                // Another case of names, or a patch.
                Err(error) if error.kind() == ErrorKind::InvalidArgument => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Every field, every value; the names of fields of which some value is not found.
    fn try_all(&self, what: &str) -> BTreeSet<&'static str> {
        self.try_fields(what, "")
    }

    /// As [`Subject::try_all`], of fields whose names begin so.
    fn try_fields(&self, what: &str, begin: &str) -> BTreeSet<&'static str> {
        let mut harmless = BTreeSet::new();
        let mut wrong = Vec::new();
        let mut tried = 0;
        let fields = fields::all(&self.valid).into_iter();
        for field in fields.filter(|field| field.name.starts_with(begin)) {
            for value in field.values(&self.valid) {
                tried += 1;
                let mut changed = self.valid.clone();
                changed[field.at..field.at + field.bytes].copy_from_slice(&value);
                seal::seal(&mut changed);
                // A hash.
                if changed == self.valid {
                    continue;
                }
                let Field { name, at, .. } = field;
                match self.try_one(changed) {
                    Ok(true) => {}
                    Ok(false) if HARMLESS.contains(&name) => {
                        harmless.insert(name);
                    }
                    Ok(false) => wrong.push(format!("{name} at {at} = {value:x?}: not found")),
                    Err(why) => wrong.push(format!("{name} at {at} = {value:x?}: {why}")),
                }
            }
        }
        println!("{what}: {tried} packages");
        assert!(
            wrong.is_empty(),
            "{what}: {}\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        harmless
    }
}

/// Entries of all forms: shared, of several blocks, stored, empty, with metadata.
fn plain(bench: &crate::support::Bench, name: &str, codec: CodecId) {
    let mut random = fastrand::Rng::with_seed(21);
    let mut words = |len| crate::support::words(&mut random, len);
    let mut items: Vec<Item> = (0..4)
        .map(|nth| Item::from_bytes(format!("small/{nth}"), words(500)))
        .collect();
    items.push(Item::from_bytes("long", words(20_000)).executable(true));
    items.push(Item::from_bytes("empty", Vec::new()));
    items.push(Item::from_bytes(
        "noise",
        crate::support::noise(&mut random, 40_000),
    ));
    for name in ["a.wav", "b.wav"] {
        items.push(Item::from_bytes(name, vec![5; 300]).metadata(crate::support::sound()));
    }
    let key = SecretKey::from_bytes(&[3; 32]);
    let options = PackOptions {
        coding: Coding::Fixed(codec),
        block_bytes: Some(8192),
        sign: Some(&key),
        ..PackOptions::default()
    };
    write_file(items, &options, bench.path(name)).expect("packed");
}

#[test]
fn every_field_of_a_package() {
    let bench = crate::support::Bench::new();
    plain(&bench, "valid.mpak", CodecId::LZ4_BLOCK);
    let harmless = Subject::new(bench, "valid.mpak", None).try_all("lz4");
    // None is on the list for nothing, but what depends on a hash.
    let known = BTreeSet::from(HARMLESS);
    let idle: Vec<_> = known
        .difference(&harmless)
        .filter(|name| **name != MOVED)
        .collect();
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn every_field_of_blocks_of_gdeflate() {
    let bench = crate::support::Bench::new();
    plain(&bench, "valid.mpak", CodecId::GDEFLATE);
    Subject::new(bench, "valid.mpak", None).try_fields("gdeflate", "BlockRecord");
}

#[test]
fn every_field_of_blocks_of_zstd() {
    if !cfg!(feature = "c") {
        println!("SKIP: this build cannot encode zstd");
        return;
    }
    let bench = crate::support::Bench::new();
    plain(&bench, "valid.mpak", CodecId::ZSTD);
    Subject::new(bench, "valid.mpak", None).try_fields("zstd", "BlockRecord");
}

#[test]
fn every_field_of_a_patch() {
    let bench = crate::support::Bench::new();
    plain(&bench, "before.mpak", CodecId::LZ4_BLOCK);
    let before = bench.open(&bench.path("before.mpak"));
    let mut entries: Vec<(String, Vec<u8>)> = (0..before.len())
        .map(|index| {
            let name = String::from_utf8(before.name(index).expect("a name").to_vec());
            let name = name.expect("UTF-8");
            let content = bench.load(&before, &name).expect("loaded");
            (name, content)
        })
        .collect();
    entries.retain(|(name, _)| name != "a.wav");
    // In the middle of the long one, so that its other blocks are the base's.
    let long = entries
        .iter_mut()
        .find(|(name, _)| name == "long")
        .expect("it is there");
    long.1[10_000] ^= 1;
    entries.push((String::from("new"), vec![7; 3000]));
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::LZ4_BLOCK),
        block_bytes: Some(8192),
        ..PackOptions::default()
    };
    let after = bench.path("after.mpak");
    write_file(crate::support::items(&entries), &options, &after).expect("packed");
    let after = bench.open(&after);
    write_patch_file(&before, &after, None, bench.path("p.mpak")).expect("written");
    drop((before, after));
    Subject::new(bench, "p.mpak", Some("before.mpak")).try_all("patch");
}
