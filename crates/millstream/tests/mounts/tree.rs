//! What is loaded: files of all sizes in nested folders, some encoded, some linked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use millstream::CodecId;

/// The bytes of a file and, if they are encoded, what they decode to.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) stored: Vec<u8>,
    pub(crate) raw: Option<(CodecId, Vec<u8>)>,
}

impl Content {
    /// Creates bytes that are not encoded.
    pub(crate) fn plain(stored: Vec<u8>) -> Arc<Content> {
        Arc::new(Content { stored, raw: None })
    }

    fn noise(random: &mut Rng, len: usize) -> Arc<Content> {
        let mut stored = vec![0; len];
        random.fill(&mut stored);
        Content::plain(stored)
    }

    fn encoded(random: &mut Rng, codec: CodecId, len: usize) -> Arc<Content> {
        let words: Vec<u32> = (0..64).map(|_| random.u32(..)).collect();
        let mut raw = Vec::with_capacity(len + 4);
        while raw.len() < len {
            raw.extend(words[random.usize(0..64)].to_le_bytes());
        }
        raw.truncate(len);
        let mut stored = Vec::new();
        millstream_codec::compress(codec, 1, &mut &raw[..], &mut stored).expect("compressed");
        let raw = Some((codec, raw));
        Arc::new(Content { stored, raw })
    }

    /// Creates other bytes of the same kind: encoded with the same codec, of the same raw length.
    pub(crate) fn another(&self, random: &mut Rng) -> Arc<Content> {
        match &self.raw {
            Some((codec, raw)) => Content::encoded(random, *codec, raw.len()),
            // Half of them have the same length.
            None => {
                let len = self.stored.len() + random.usize(0..2) * random.usize(1..9_000);
                Content::noise(random, len)
            }
        }
    }
}

#[derive(Clone)]
enum Link {
    Hard(usize),
    Symbolic(usize),
}

/// A file, or another name of one.
#[derive(Clone)]
pub(crate) struct File {
    /// Its path below the root of the tree.
    pub(crate) name: String,
    pub(crate) content: Arc<Content>,
    link: Option<Link>,
    /// No other name leads to it.
    pub(crate) alone: bool,
}

impl File {
    pub(crate) fn is_symbolic(&self) -> bool {
        matches!(self.link, Some(Link::Symbolic(_)))
    }

    /// What a symbolic link in its place says to lead to another file.
    pub(crate) fn link_to(&self, other: &File) -> String {
        let up = "../".repeat(self.name.matches('/').count());
        format!("{up}{}", other.name)
    }
}

/// The files.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Creates the description of a tree: every tenth file is a link.
    pub(crate) fn new(random: &mut Rng, count: usize, bytes_max: usize) -> Tree {
        let mut files: Vec<File> = Vec::new();
        for index in 0..count {
            let folder = ["", "a/", "a/b/", "c/d/e/"][random.usize(0..4)];
            let mut file = File {
                name: format!("{folder}f{index}"),
                content: content(random, bytes_max),
                link: None,
                alone: true,
            };
            if index % 10 == 9 {
                // To no link.
                let to = random.usize(0..index / 10 + 1) * 10 + random.usize(0..9);
                let link = match random.bool() {
                    true => Link::Hard(to),
                    false => Link::Symbolic(to),
                };
                file.content = Arc::clone(&files[to].content);
                (file.link, file.alone, files[to].alone) = (Some(link), false, false);
            }
            files.push(file);
        }
        Tree { files }
    }

    /// Writes the files of `keep` below `root`. Where the file system has no links, the names that
    /// would be links are files of their own.
    pub(crate) fn write(&self, root: &Path, flat: bool, keep: impl Fn(usize) -> bool) {
        for (_, file) in self.files.iter().enumerate().filter(|(at, _)| keep(*at)) {
            let path = path_of(root, &file.name, flat);
            fs::create_dir_all(path.parent().expect("below the root")).expect("created");
            let linked = match file.link {
                Some(Link::Hard(to)) => {
                    fs::hard_link(path_of(root, &self.files[to].name, flat), &path).is_ok()
                }
                Some(Link::Symbolic(to)) => symlink(file.link_to(&self.files[to]), &path).is_ok(),
                None => false,
            };
            if !linked {
                fs::write(&path, &file.content.stored).expect("written");
            }
        }
    }
}

fn content(random: &mut Rng, bytes_max: usize) -> Arc<Content> {
    let len = match random.usize(0..16) {
        0 => return Content::noise(random, 0),
        1 => random.usize(1..5),
        2 => random.usize(4095..4098),
        3..9 => random.usize(100..20_000),
        9..14 => random.usize(20_000..200_000),
        _ => random.usize(200_000 / 2..bytes_max),
    };
    match random.usize(0..6) {
        0 => Content::encoded(random, CodecId::ZLIB, len),
        1 => Content::encoded(random, CodecId::LZ4, len),
        _ => Content::noise(random, len),
    }
}

/// The path of a name; in a file system without folders the name has none.
pub(crate) fn path_of(root: &Path, name: &str, flat: bool) -> std::path::PathBuf {
    match flat {
        true => root.join(name.replace('/', "-")),
        false => root.join(name),
    }
}
