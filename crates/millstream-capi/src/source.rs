//! Packages and mounts: named entries to read.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::Arc;

use millstream::Read;
use millstream_pak::{EntryInfo, ErrorKind, Mounts, Package, PackageOptions, PublicKey};
use millstream_source::{Located, Source};

use crate::desc::{
    Descriptor, at, border, border_to, bytes, check_sized, fill_sized, out, path,
    read_desc_or_default, text,
};
use crate::error::{
    Failure, MST_ERROR_CANCELED, MST_ERROR_NOT_FOUND, MST_ERROR_UNSUPPORTED, invalid, mst_result,
};
use crate::handle::{free, give, owned};
use crate::storage::{check_flags, mst_storage};

/// Named entries: a package, or packages, archives and folders over one another. Calls may be made
/// from any thread; they wait where they touch a part of a package's tables for the first time.
pub struct mst_source {
    kind: Kind,
    pub(crate) source: Arc<dyn Source>,
}

enum Kind {
    Package(Package),
    Mounts(Arc<Mounts>),
}

/// An entry of a source: plain data, valid for the source that found it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_entry {
    /// Bytes of the entry once it is read.
    pub raw_size: u64,
    /// Where it is; for the library.
    pub place: [u64; 2],
}

impl mst_entry {
    const NONE: mst_entry = mst_entry {
        raw_size: 0,
        place: [u64::MAX; 2],
    };

    fn of(located: &Located) -> mst_entry {
        mst_entry {
            raw_size: located.raw_bytes(),
            place: located.place(),
        }
    }

    fn located(&self) -> Located {
        Located::new(self.raw_size, self.place)
    }
}

/// Bit of `mst_package_desc.flags`: do not compare blocks with their checksums.
pub const MST_PACKAGE_NO_VERIFY: u32 = 1;
/// Bit of `mst_package_desc.flags`: trust the 64-bit hash of a name that is looked up.
pub const MST_PACKAGE_TRUST_HASHES: u32 = 2;
/// Bit of `mst_package_desc.flags`: do not give requests the names of their entries.
pub const MST_PACKAGE_NO_NAMES: u32 = 4;
/// Bit of `mst_package_desc.flags`: read and check all tables now, so that no later call waits.
pub const MST_PACKAGE_PRELOAD: u32 = 8;
/// Bit of `mst_package_desc.flags`: find names without regard to ASCII case.
pub const MST_PACKAGE_FOLD_CASE: u32 = 16;

/// How a package is opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_package_desc {
    /// `sizeof(mst_package_desc)`.
    pub size: usize,
    /// `MST_PACKAGE_` bits.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Of a patch: its base, which holds the blocks that the patch does not. NULL: none.
    pub base: *const mst_source,
}
// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_package_desc {}

/// What is mounted.
pub type mst_layer_kind = i32;
/// A package. A patch finds its base below.
pub const MST_LAYER_PACKAGE: mst_layer_kind = 0;
/// A folder of loose files.
pub const MST_LAYER_FOLDER: mst_layer_kind = 1;
/// An archive of another program: zip (pk3), PACK of Quake, PCK of Godot.
pub const MST_LAYER_ARCHIVE: mst_layer_kind = 2;

/// Bit of `mst_layer.flags`: names of this layer and those above are found without regard to the
/// case of ASCII letters.
pub const MST_LAYER_FOLD_CASE: u32 = 1;

/// A layer of mounts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_layer {
    /// Where it is.
    pub path: *const c_char,
    /// What it is.
    pub kind: mst_layer_kind,
    /// `MST_LAYER_` bits.
    pub flags: u32,
}

/// What a verification found.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_verification {
    /// `sizeof(mst_verification)`.
    pub size: usize,
    /// Entries that were checked.
    pub entries: u64,
    /// Their raw bytes.
    pub raw_bytes: u64,
    /// Blocks in the package itself.
    pub blocks: u64,
    /// Faults; the first one is in `mst_last_error`.
    pub failures: u64,
    /// Not 0: the package has a signature.
    pub is_signed: u32,
    /// Not 0: the signature was compared with the key, and is right.
    pub signature_verified: u32,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_verification {}

/// Receives a name, which does not end with a NUL; returns whether to go on.
pub type mst_name_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char, size: usize) -> bool>;

/// Receives the raw bytes done so far; returns whether to go on.
pub type mst_progress_fn = Option<unsafe extern "C" fn(user: *mut c_void, bytes: u64) -> bool>;

impl mst_source {
    fn package(&self) -> Result<&Package, Failure> {
        match &self.kind {
            Kind::Package(package) => Ok(package),
            Kind::Mounts(_) => Err(Failure::Known(
                MST_ERROR_UNSUPPORTED,
                c"only packages have this ability, not mounts",
            )),
        }
    }

    pub(crate) fn find(&self, name: &[u8]) -> Result<mst_entry, Failure> {
        let located = self.source.find(name)?.ok_or(NO_ENTRY)?;
        Ok(mst_entry::of(&located))
    }

    /// A read of raw bytes of an entry; `length` 0 for all.
    pub(crate) fn request(
        &self,
        entry: &mst_entry,
        offset: u64,
        length: u64,
    ) -> Result<Read, Failure> {
        let located = entry.located();
        let read = match length {
            0 => self.source.request(&located)?,
            _ => self.source.request_range(&located, offset, length)?,
        };
        Ok(read)
    }
}

/// Opens a package. `desc` may be NULL. Waits for one or two reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_package_open(
    storage: *mut mst_storage,
    name: *const c_char,
    desc: *const mst_package_desc,
    source: *mut *mut mst_source,
) -> mst_result {
    border(|| {
        // SAFETY: pointers are as the header asks, here and in all calls.
        let (storage, name) = unsafe { (at(storage)?, path(name)?) };
        // SAFETY: as above.
        let (desc, result) = unsafe { (read_desc_or_default(desc)?, out(source)?) };
        let all = MST_PACKAGE_NO_VERIFY
            | MST_PACKAGE_TRUST_HASHES
            | MST_PACKAGE_NO_NAMES
            | MST_PACKAGE_PRELOAD
            | MST_PACKAGE_FOLD_CASE;
        check_flags(desc.flags, all)?;
        check_flags(desc.reserved, 0)?;
        let options = PackageOptions {
            verify: desc.flags & MST_PACKAGE_NO_VERIFY == 0,
            confirm_names: desc.flags & MST_PACKAGE_TRUST_HASHES == 0,
            name_requests: desc.flags & MST_PACKAGE_NO_NAMES == 0,
            fold_case: desc.flags & MST_PACKAGE_FOLD_CASE != 0,
            ..PackageOptions::default()
        };
        let mut package = Package::open_with(&storage.storage, name, options)?;
        // SAFETY: as above.
        if let Some(base) = unsafe { desc.base.as_ref() } {
            package = package.with_base(base.package()?)?;
        }
        if desc.flags & MST_PACKAGE_PRELOAD != 0 {
            package.preload()?;
        }
        result.write(owned(mst_source {
            source: Arc::new(package.clone()),
            kind: Kind::Package(package),
        }));
        Ok(())
    })
}

/// Mounts packages, archives and folders over one another, the first lowest: of entries with one
/// name the topmost is found, and a patch hides what it says is gone. Waits for the tables of
/// packages and the directories of archives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_mounts_open(
    storage: *mut mst_storage,
    layers: *const mst_layer,
    count: usize,
    source: *mut *mut mst_source,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_package_open`.
        let (storage, layers) = unsafe { (at(storage)?, bytes(layers, count)?) };
        // SAFETY: as above.
        let result = unsafe { out(source)? };
        let mut mounts = Mounts::new();
        for layer in layers {
            check_flags(layer.flags, MST_LAYER_FOLD_CASE)?;
            if layer.flags & MST_LAYER_FOLD_CASE != 0 {
                mounts = mounts.fold_case();
            }
            // SAFETY: as above.
            let place: &Path = unsafe { path(layer.path)? };
            match layer.kind {
                MST_LAYER_PACKAGE => mounts.mount_package(&storage.storage, place)?,
                MST_LAYER_FOLDER => mounts.mount_folder(&storage.storage, place)?,
                MST_LAYER_ARCHIVE => mounts.mount_archive(&storage.storage, place)?,
                _ => return Err(invalid(c"unknown kind of layer")),
            }
        }
        result.write(owned(of_mounts(mounts)));
        Ok(())
    })
}

/// Opens what a path leads to, as mounts of one layer: a folder of loose files, a package, or an
/// archive of another program (zip, PACK, PCK). `flags` has `MST_LAYER_` bits. Waits for tables and
/// directories. What only packages can do needs `mst_package_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_source_open(
    storage: *mut mst_storage,
    name: *const c_char,
    flags: u32,
    source: *mut *mut mst_source,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_package_open`.
        let (storage, name) = unsafe { (at(storage)?, path(name)?) };
        // SAFETY: as above.
        let result = unsafe { out(source)? };
        check_flags(flags, MST_LAYER_FOLD_CASE)?;
        let mut mounts = Mounts::new();
        if flags & MST_LAYER_FOLD_CASE != 0 {
            mounts = mounts.fold_case();
        }
        match name.is_dir() {
            true => mounts.mount_folder(&storage.storage, name)?,
            false => match mounts.mount_package(&storage.storage, name) {
                Err(error) if error.kind() == ErrorKind::NotAPackage => {
                    mounts.mount_archive(&storage.storage, name)?;
                }
                mounted => mounted?,
            },
        }
        result.write(owned(of_mounts(mounts)));
        Ok(())
    })
}

fn of_mounts(mounts: Mounts) -> mst_source {
    let mounts = Arc::new(mounts);
    mst_source {
        source: Arc::clone(&mounts) as Arc<dyn Source>,
        kind: Kind::Mounts(mounts),
    }
}

/// Frees a source; requests that were submitted go on. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_source_free(source: *mut mst_source) {
    // SAFETY: see `mst_package_open`.
    unsafe { free(source) }
}

const NO_ENTRY: Failure =
    Failure::Known(MST_ERROR_NOT_FOUND, c"the source has no entry of this name");

/// Finds an entry by its name. `MST_ERROR_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_source_find(
    source: *const mst_source,
    name: *const c_char,
    entry: *mut mst_entry,
) -> mst_result {
    // SAFETY: see `mst_package_open`.
    unsafe { border_to(entry, || at(source)?.find(text(name)?)) }
}

/// Finds many entries; faster than one by one in large packages. Entries that do not exist get a
/// `place` of all ones, and are no failure: `found` counts the others. `found` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_source_find_many(
    source: *const mst_source,
    names: *const *const c_char,
    count: usize,
    entries: *mut mst_entry,
    found: *mut usize,
) -> mst_result {
    const AT_ONCE: usize = 64;
    border(|| {
        // SAFETY: see `mst_package_open`.
        let (source, names) = unsafe { (at(source)?, bytes(names, count)?) };
        if count > 0 && entries.is_null() {
            return Err(invalid(c"memory is NULL"));
        }
        let mut total = 0;
        for (nth, some) in names.chunks(AT_ONCE).enumerate() {
            let mut texts: [&[u8]; AT_ONCE] = [b""; AT_ONCE];
            for (to, from) in texts.iter_mut().zip(some) {
                // SAFETY: as above.
                *to = unsafe { text(*from)? };
            }
            let mut hits = [mst_entry::NONE; AT_ONCE];
            find_some(source, &texts[..some.len()], &mut hits)?;
            total += hits
                .iter()
                .filter(|hit| hit.place != mst_entry::NONE.place)
                .count();
            // SAFETY: the header asks for room for `count`.
            unsafe {
                let to = entries.add(nth * AT_ONCE);
                std::ptr::copy_nonoverlapping(hits.as_ptr(), to, some.len());
            }
        }
        // SAFETY: as above.
        unsafe { give(found, total) };
        Ok(())
    })
}

fn find_some(source: &mst_source, names: &[&[u8]], hits: &mut [mst_entry]) -> Result<(), Failure> {
    match &source.kind {
        Kind::Package(package) => {
            let mut infos: [Option<EntryInfo>; 64] = [None; 64];
            package.lookup_names(names, &mut infos)?;
            for (hit, info) in hits.iter_mut().zip(infos.iter()) {
                if let Some(info) = info.filter(|info| !info.gone) {
                    *hit = mst_entry::of(&package.locate(&info));
                }
            }
        }
        Kind::Mounts(mounts) => {
            for (hit, name) in hits.iter_mut().zip(names) {
                if let Some(located) = mounts.find(name)? {
                    *hit = mst_entry::of(&located);
                }
            }
        }
    }
    Ok(())
}

/// Lists what a folder of the source holds: names of entries and, with a `/` at their end, of
/// folders, in the order of their bytes. An empty name is the root. A folder that is not there has
/// nothing. Reads all names when it is first called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_source_list(
    source: *const mst_source,
    folder: *const c_char,
    visit: mst_name_fn,
    user: *mut c_void,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_package_open`.
        let (source, folder) = unsafe { (at(source)?, text(folder)?) };
        let visit = visit.ok_or(invalid(c"a function is NULL"))?;
        let names = match &source.kind {
            Kind::Package(package) => package.folder(folder)?,
            Kind::Mounts(mounts) => mounts.folder(folder)?,
        };
        for name in names.into_iter().flatten() {
            // SAFETY: a function of the application, with its own pointer.
            if !unsafe { visit(user, name.as_ptr().cast(), name.len()) } {
                break;
            }
        }
        Ok(())
    })
}

/// The metadata record of an entry, if it has one; `*data` is NULL otherwise. Lives as long as the
/// source. Its layout is in docs/FORMAT.md.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_source_metadata(
    source: *const mst_source,
    entry: *const mst_entry,
    data: *mut *const c_void,
    size: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_package_open`.
        let (source, entry) = unsafe { (at(source)?, at(entry)?) };
        // SAFETY: as above.
        let (data, size) = unsafe { (out(data)?, out(size)?) };
        let record = source.source.metadata(&entry.located())?;
        data.write(record.map_or(std::ptr::null(), |record| record.as_ptr().cast()));
        size.write(record.map_or(0, <[u8]>::len));
        Ok(())
    })
}

/// Entries of a package, those of a patch that say that a name is gone among them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_package_count(
    source: *const mst_source,
    count: *mut u32,
) -> mst_result {
    // SAFETY: see `mst_package_open`.
    unsafe { border_to(count, || Ok(at(source)?.package()?.len())) }
}

/// Entry `index` of a package, from 0 on, and its name, which does not end with a NUL and lives as
/// long as the source. Any of the three pointers may be NULL. `MST_ERROR_NOT_FOUND` beyond the last
/// entry, and for one that says that a name is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_package_entry(
    source: *const mst_source,
    index: u32,
    entry: *mut mst_entry,
    name: *mut *const c_char,
    size: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_package_open`.
        let source = unsafe { at(source)? };
        let package = source.package()?;
        let info = package.info(index)?;
        if info.gone {
            return Err(NO_ENTRY);
        }
        let bytes = package.name(index)?;
        // SAFETY: NULL or the caller's.
        unsafe {
            give(entry, mst_entry::of(&package.locate(&info)));
            give(name, bytes.as_ptr().cast());
            give(size, bytes.len());
        }
        Ok(())
    })
}

/// Verifies a package: tables, blocks, contents and, with the path of a PEM file in `key` (or
/// NULL), its signature. `progress` may be NULL. Fails with the first fault, or as canceled if
/// `progress` stopped it, and fills `report` (whose size must be set; or NULL) all the same, unless
/// the package cannot be opened. Waits, and reads the whole package.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_package_verify(
    storage: *mut mst_storage,
    source: *const mst_source,
    key: *const c_char,
    progress: mst_progress_fn,
    user: *mut c_void,
    report: *mut mst_verification,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_package_open`.
        let (storage, source) = unsafe { (at(storage)?, at(source)?) };
        if !report.is_null() {
            // SAFETY: as above.
            unsafe { check_sized(report)? };
        }
        let key = match key.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(PublicKey::read(unsafe { path(key)? })?),
        };
        let mut stopped = false;
        let mut go_on = |bytes| {
            // SAFETY: a function of the application, with its own pointer.
            stopped = progress.is_some_and(|progress| unsafe { !progress(user, bytes) });
            !stopped
        };
        let package = source.package()?;
        let found = millstream_pak::verify(&storage.storage, package, key.as_ref(), &mut go_on)?;
        let filled = mst_verification {
            size: size_of::<mst_verification>(),
            entries: found.entries,
            raw_bytes: found.raw_bytes,
            blocks: found.blocks,
            failures: found.failures,
            is_signed: u32::from(found.signed),
            signature_verified: u32::from(found.signature_verified),
        };
        if !report.is_null() {
            // SAFETY: as above.
            unsafe { fill_sized(report, &filled)? };
        }
        match found.errors.into_iter().next() {
            Some(error) => Err(error.into()),
            None if stopped => Err(Failure::Known(
                MST_ERROR_CANCELED,
                c"the verification was stopped",
            )),
            None => Ok(()),
        }
    })
}
