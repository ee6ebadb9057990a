//! The files below a folder, as items of a package.
//!
//! Symbolic links are followed, skipped or refused. The canonical target of one that is followed is
//! a file or folder inside the tree, and not a folder that the walk is inside of: so the walk ends,
//! and no name leads out of the tree. A file behind a link is an item of its own, whose bytes the
//! package stores once. Temporary files of this library, which a killed process may leave behind,
//! are left out.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_io::Errno;
use millstream_io::fs::is_temporary_name;

use super::exclude::Exclude;
use super::item::{Content, Item, check_kind, is_executable, modified};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::LINK_FOLDERS_MAX;
use crate::names;

/// What a walk does with symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// Takes their targets, if those are inside the folder; other links are errors.
    #[default]
    Follow,
    /// As `Follow`, but leaves out links to what is outside the folder.
    Inside,
    /// Leaves them out.
    Skip,
    /// Reports each as an error.
    Refuse,
}

/// What a walk takes.
#[derive(Debug, Default)]
pub struct WalkOptions {
    /// What it does with symbolic links.
    pub links: Links,
    /// What it leaves out.
    pub exclude: Exclude,
}

/// The result of a walk.
#[derive(Debug)]
#[non_exhaustive]
pub struct Walked {
    /// All files, in the byte order of their names.
    pub items: Vec<Item>,
    /// An error for each thing that cannot be packed.
    pub errors: Vec<Error>,
    /// Number of links that [`Links::Inside`] left out.
    pub links_left_out: u64,
}

/// Returns all files below a folder, in the byte order of their names, and an error for each thing
/// that cannot be packed: devices, folders that cannot be read, names that no package may have, and
/// links that `links` makes errors.
#[must_use]
pub fn walk(root: &Path, links: Links) -> (Vec<Item>, Vec<Error>) {
    let exclude = Exclude::default();
    let walked = walk_with(root, WalkOptions { links, exclude });
    (walked.items, walked.errors)
}

/// As [`walk`], with options.
#[must_use]
pub fn walk_with(root: &Path, options: WalkOptions) -> Walked {
    let mut walk = Walk {
        root: Arc::from(root),
        canonical: None,
        options,
        followed: 0,
        folders: vec![Below::default()],
        items: Vec::new(),
        errors: Vec::new(),
        links_left_out: 0,
    };
    while let Some(folder) = walk.folders.pop() {
        let path = match walk.path_of(&folder) {
            Ok(path) => path,
            Err(error) => {
                walk.errors.push(error.of(&walk.root));
                continue;
            }
        };
        let listed = fs::read_dir(&path).and_then(|list| list.collect::<io::Result<Vec<_>>>());
        match listed {
            Ok(listed) => {
                for entry in listed {
                    if let Err(error) = walk.take(&folder, &entry) {
                        walk.errors.push(error.of(&entry.path()));
                    }
                }
            }
            Err(error) => walk.errors.push(Error::io(&path, "read the folder", error)),
        }
    }
    let Walk {
        mut items,
        mut errors,
        links_left_out,
        ..
    } = walk;
    items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    errors.sort_by(|a, b| a.path().cmp(&b.path()));
    Walked {
        items,
        errors,
        links_left_out,
    }
}

struct Walk {
    root: Arc<Path>,
    /// The canonical path of the root, once it is needed.
    canonical: Option<PathBuf>,
    options: WalkOptions,
    /// Links to folders that were followed, at most [`LINK_FOLDERS_MAX`]: folders full of links to
    /// each other have more paths than can be walked.
    followed: u32,
    folders: Vec<Below>,
    items: Vec<Item>,
    errors: Vec<Error>,
    links_left_out: u64,
}

/// A folder that is to be listed.
#[derive(Clone, Default)]
struct Below {
    name: Vec<u8>,
    /// Its path, if a link on the way to it was followed.
    real: Option<PathBuf>,
    /// Canonical paths of the folders that contain the links on the way to it.
    inside: Vec<PathBuf>,
}

impl Walk {
    fn path_of(&self, folder: &Below) -> Result<PathBuf> {
        match &folder.real {
            Some(real) => Ok(real.clone()),
            // Joining an empty name would append a slash.
            None if folder.name.is_empty() => Ok(self.root.to_path_buf()),
            None => Ok(self.root.join(names::path(&folder.name)?)),
        }
    }

    fn take(&mut self, folder: &Below, entry: &DirEntry) -> Result<()> {
        // A temporary file may be gone by now; folders and links of such a name are like others.
        let is_file = |kind: fs::FileType| !kind.is_dir() && !kind.is_symlink();
        if is_temporary_name(&entry.file_name()) && entry.file_type().map_or(true, is_file) {
            return Ok(());
        }
        let mut name = folder.name.clone();
        if !name.is_empty() {
            name.push(b'/');
        }
        name.extend_from_slice(entry.file_name().as_encoded_bytes());
        let path = entry.path();
        let kind = entry.file_type();
        let is_folder = kind.is_ok_and(|it| it.is_dir() || it.is_symlink() && path.is_dir());
        if self.options.exclude.excludes(&name, is_folder) {
            return Ok(());
        }
        let find = |error| Error::io(&path, "find", error);
        let mut about = fs::symlink_metadata(&path).map_err(find)?;
        let mut below = Below {
            name,
            real: folder.real.as_ref().map(|_| path.clone()),
            inside: folder.inside.clone(),
        };
        if about.is_symlink() && self.options.links != Links::Refuse {
            if self.options.links == Links::Skip {
                return Ok(());
            }
            let Some(target) = self.follow(&path)? else {
                self.links_left_out += 1;
                return Ok(());
            };
            about = fs::symlink_metadata(&target).map_err(find)?;
            if about.is_dir() {
                self.enter(folder, &target, &mut below)?;
            }
            below.real = Some(target);
        }
        if about.is_dir() {
            self.folders.push(below);
            return Ok(());
        }
        check_kind(&path, &about)?;
        names::check(&below.name)?;
        names::path(&below.name)?;
        self.items.push(Item {
            name: below.name,
            len: about.len(),
            modified: Some(modified(&about)),
            executable: is_executable(&about),
            content: match below.real {
                Some(real) => Content::File(Arc::from(real)),
                None => Content::Below(Arc::clone(&self.root)),
            },
            metadata: None,
        });
        Ok(())
    }

    /// Returns the canonical target of a link; `None` if it is outside the tree, and left out.
    fn follow(&mut self, link: &Path) -> Result<Option<PathBuf>> {
        if self.canonical.is_none() {
            let found = fs::canonicalize(&self.root);
            self.canonical = Some(found.map_err(|error| Error::io(&self.root, "find", error))?);
        }
        let wrong = |cause| Err(Error::new(ErrorKind::NotAFile, cause));
        let target = match fs::canonicalize(link) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return wrong("a dangling symbolic link");
            }
            Err(error) if error.raw_os_error() == Some(Errno::LINK_CIRCLE.0) => {
                return wrong("a symbolic link that leads to itself");
            }
            Err(error) => return Err(Error::io(link, "follow the link", error)),
        };
        match self
            .canonical
            .as_ref()
            .is_some_and(|root| target.starts_with(root))
        {
            true => Ok(Some(target)),
            false if self.options.links == Links::Inside => Ok(None),
            false => wrong("a symbolic link that leads out of the folder"),
        }
    }

    /// Enters a folder through a link; an error if the walk is inside that folder already, or has
    /// followed too many links.
    fn enter(&mut self, folder: &Below, target: &Path, below: &mut Below) -> Result<()> {
        let here = self.path_of(folder)?;
        let here = fs::canonicalize(&here).map_err(|error| Error::io(&here, "find", error))?;
        below.inside.push(here);
        let wrong = |cause| Err(Error::new(ErrorKind::NotAFile, cause));
        if below.inside.iter().any(|inside| inside.starts_with(target)) {
            return wrong("a symbolic link to a folder that it is in, which has no end");
        }
        if self.followed >= LINK_FOLDERS_MAX {
            return wrong("more links to folders were followed than a walk may: 65,536");
        }
        self.followed += 1;
        Ok(())
    }
}
