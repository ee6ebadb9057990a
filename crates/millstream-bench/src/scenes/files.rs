//! The files of a loose scene.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use millstream_gltf::model::{BufferPlace, ImagePlace, Model};

use super::generate;
use crate::error::{Context, Result};
use crate::files::{len_of, walk};

/// A loose scene on disk.
pub(crate) struct Files {
    pub(crate) folder: PathBuf,
    pub(crate) gltf: PathBuf,
    /// Names beside the scene's own that it needs.
    names: BTreeSet<Vec<u8>>,
}

impl Files {
    /// The files of a `.gltf`.
    pub(crate) fn of(gltf: PathBuf) -> Result<Files> {
        let json = std::fs::read(&gltf).on("read the scene", &gltf)?;
        let model = Model::parse(&json)?;
        let mut names = BTreeSet::new();
        for buffer in model.buffers.iter().flatten() {
            if let BufferPlace::Name(name) = &buffer.place {
                names.insert(name.to_vec());
            }
        }
        for image in model.images.iter().flatten() {
            if let ImagePlace::Name(name) = &image.place {
                names.insert(name.to_vec());
            }
        }
        Ok(Files {
            folder: gltf.parent().unwrap_or(Path::new(".")).to_owned(),
            gltf,
            names,
        })
    }

    /// The scene's own name.
    pub(crate) fn name(&self) -> &[u8] {
        self.gltf
            .file_name()
            .map_or(b"", |name| name.as_encoded_bytes())
    }

    /// Whether a name in the folder is one of the scene's.
    pub(crate) fn holds(&self, name: &[u8]) -> bool {
        name == self.name() || self.names.contains(name)
    }

    /// All files.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let beside = |name: &Vec<u8>| self.folder.join(&*String::from_utf8_lossy(name));
        let beside = self.names.iter().map(beside);
        beside.chain([self.gltf.clone()]).collect()
    }
}

/// Most scenes with files of their own that are taken from a corpus, the largest first.
const FOUND_MAX: usize = 2;

/// Scenes in the application's own corpus.
pub(crate) struct Found {
    /// With files of their own.
    pub(crate) loose: Vec<Files>,
    /// In one file each.
    pub(crate) glbs: Vec<PathBuf>,
}

/// Looks for scenes below a folder, past the generated ones.
pub(crate) fn find(corpus: &Path) -> Result<Found> {
    let mut all = walk(corpus)?;
    all.retain(|path| {
        let below = path.strip_prefix(corpus).unwrap_or(path);
        let top = below.iter().next().unwrap_or_default().to_string_lossy();
        let generated = [generate::PREFIX, generate::GLB_PREFIX];
        !generated.iter().any(|prefix| top.starts_with(prefix))
    });
    let has = |ending: &'static str| {
        move |path: &&PathBuf| path.extension().is_some_and(|it| it == ending)
    };
    // What is no scene is no part of the corpus.
    let loose = all.iter().filter(has("gltf"));
    let mut loose: Vec<Files> = loose
        .filter_map(|path| Files::of(path.clone()).ok())
        .collect();
    loose.sort_by_cached_key(|files| {
        let lens = files
            .all()
            .into_iter()
            .filter_map(|path| len_of(&path).ok());
        std::cmp::Reverse(lens.sum::<u64>())
    });
    loose.truncate(FOUND_MAX);
    let glbs = all.iter().filter(has("glb")).cloned().collect();
    Ok(Found { loose, glbs })
}
