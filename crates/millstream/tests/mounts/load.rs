//! Loads the files of a tree in every form, and checks what comes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use millstream::{
    Access, Backend, Batch, Buffer, CloseReport, CodecId, Decode, Error, ErrorKind, FileId,
    FileOptions, Queue, QueueOptions, Read, Storage, StorageOptions, Ticket,
};
use millstream_testing::{PATIENCE, Unavailable, wait_for};

use crate::cell::Cell;
use crate::tree::{Content, File, Tree};

/// A file has up to two, so two files are open at a time.
const DESCRIPTORS: usize = 4;

/// Requests of a batch.
const BATCH: usize = 32;

/// The backends of the system, with their names.
pub(crate) fn backends() -> [(Backend, &'static str); 2] {
    [(Backend::Uring, "uring"), (Backend::Threads, "threads")]
}

/// A file of the tree, and the id by which it is read in every round.
pub(crate) struct Loaded {
    pub(crate) file: File,
    pub(crate) id: FileId,
}

/// What is read of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Whole,
    Range(u64, u64),
    Decoded(CodecId, u64),
}

impl Form {
    fn request(self, file: FileId) -> Read {
        match self {
            Form::Whole => Read::whole(file),
            Form::Range(offset, len) => Read::range(file, offset, len),
            Form::Decoded(codec, len) => {
                Read::whole(file).decode(Decode::codec(codec).raw_len(len))
            }
        }
    }

    /// The bytes that it is of a content, which may be too short for it or encoded in another way.
    fn of(self, content: &Content) -> Option<&[u8]> {
        match (self, &content.raw) {
            (Form::Whole, _) => Some(&content.stored),
            (Form::Range(offset, len), _) => {
                content.stored.get(offset as usize..(offset + len) as usize)
            }
            (Form::Decoded(codec, len), Some((own, raw))) => {
                (codec == *own && raw.len() as u64 == len).then_some(raw)
            }
            (Form::Decoded(..), None) => None,
        }
    }

    /// The errors of a content that it cannot be read of.
    fn errors(self) -> &'static [ErrorKind] {
        match self {
            Form::Whole => &[],
            Form::Range(..) => &[ErrorKind::PastEnd],
            Form::Decoded(..) => &[
                ErrorKind::Corrupt,
                ErrorKind::WrongFormat,
                ErrorKind::RawSize,
            ],
        }
    }

    /// A form in which a file with this content can be read.
    pub(crate) fn any(random: &mut Rng, content: &Content) -> Form {
        let len = content.stored.len() as u64;
        match random.usize(0..3) {
            0 if len > 0 => {
                let offset = random.u64(0..len);
                Form::Range(offset, random.u64(1..=len - offset))
            }
            1 | 2 => Form::decoded(content).unwrap_or(Form::Whole),
            _ => Form::Whole,
        }
    }

    pub(crate) fn decoded(content: &Content) -> Option<Form> {
        let (codec, raw) = content.raw.as_ref()?;
        Some(Form::Decoded(*codec, raw.len() as u64))
    }
}

/// What a request may end with.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) contents: Vec<Arc<Content>>,
    pub(crate) errors: Vec<ErrorKind>,
}

impl Allowed {
    /// These bytes and no error.
    pub(crate) fn only(content: &Arc<Content>) -> Allowed {
        Allowed {
            contents: vec![Arc::clone(content)],
            errors: Vec::new(),
        }
    }

    /// Checks an outcome of a read of `path`.
    fn check(&self, about: &str, path: &Path, form: Form, result: Result<Buffer, Error>) {
        let path_shown = path.display();
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                let is_short = self.contents.iter().any(|one| form.of(one).is_none());
                let kind = error.kind();
                let is_allowed =
                    self.errors.contains(&kind) || is_short && form.errors().contains(&kind);
                let errors = &self.errors;
                assert!(
                    is_allowed,
                    "{about}: {form:?}: {error}; allowed: {errors:?}"
                );
                assert_eq!(
                    error.path(),
                    Some(path),
                    "{about}: an error without its path"
                );
                return;
            }
        };
        let is_right = |content: &Arc<Content>| form.of(content) == Some(&bytes[..]);
        assert!(
            self.contents.iter().any(is_right),
            "{about}: {form:?} of {path_shown} brought {} bytes, none of {} allowed contents; \
             allowed errors: {:?}",
            bytes.len(),
            self.contents.len(),
            self.errors
        );
    }
}

/// A request under way.
pub(crate) struct Pending {
    path: PathBuf,
    form: Form,
    ticket: Ticket<Buffer>,
    allowed: Allowed,
    /// What was done to the file, for messages.
    about: String,
}

impl Pending {
    pub(crate) fn about(mut self, about: &str) -> Pending {
        about.clone_into(&mut self.about);
        self
    }
}

/// A storage over a mounted tree.
pub(crate) struct Load<'a> {
    pub(crate) about: String,
    pub(crate) cell: &'a Cell,
    pub(crate) storage: Storage,
    pub(crate) queue: Queue,
    pub(crate) random: Rng,
    pub(crate) files: Vec<Loaded>,
}

impl<'a> Load<'a> {
    pub(crate) fn new(
        about: String,
        cell: &'a Cell,
        tree: Tree,
        backend: Backend,
        random: Rng,
    ) -> Result<Load<'a>, Unavailable> {
        let mut options = StorageOptions::default();
        options.backend = backend;
        options.descriptors = DESCRIPTORS;
        options.abort_on_stall = true;
        let storage = Storage::new(options)
            .map_err(|error| Unavailable::because(format!("{about}: {error}")))?;
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let mut load = Load {
            about,
            cell,
            storage,
            queue,
            random,
            files: Vec::new(),
        };
        for file in tree.files {
            load.add(file);
        }
        Ok(load)
    }

    /// Opens a file of the tree for the rounds that follow.
    pub(crate) fn add(&mut self, file: File) {
        let options = FileOptions {
            access: [None, None, Some(Access::Buffered)][self.random.usize(0..3)],
            package: self.random.bool(),
            ..FileOptions::default()
        };
        let id = self.storage.open(self.cell.path(&file.name), options);
        self.files.push(Loaded { file, id });
    }

    pub(crate) fn open(&self, name: &str) -> FileId {
        self.storage
            .open(self.cell.path(name), FileOptions::default())
    }

    /// Reads every file once in each round, in random order, some by ids that are opened for that.
    pub(crate) fn rounds(&mut self, count: usize, forgets: &[u8]) {
        for round in 0..count {
            let mut order: Vec<usize> = (0..self.files.len()).collect();
            self.random.shuffle(&mut order);
            for some in order.chunks(BATCH) {
                self.batch(some);
            }
            let is_within = wait_for(|| self.open_paths().len() <= DESCRIPTORS);
            let open = self.open_paths();
            assert!(is_within, "{}: {open:?} are open", self.about);
            forget(forgets[round % forgets.len()]);
        }
    }

    fn batch(&mut self, some: &[usize]) {
        let queue = self.queue.clone();
        let mut batch = queue.batch();
        let mut pending = Vec::new();
        for &at in some {
            let file = self.files[at].file.clone();
            let form = Form::any(&mut self.random, &file.content);
            let is_fresh = self.random.usize(0..4) == 0;
            let id = match is_fresh {
                true => self.open(&file.name),
                false => self.files[at].id,
            };
            let allowed = Allowed::only(&file.content);
            pending.push(self.add_to(&mut batch, &file.name, id, form, allowed));
            if is_fresh {
                batch.close(id).expect("accepted");
            }
        }
        drop(batch);
        self.check(pending);
    }

    pub(crate) fn add_to(
        &self,
        batch: &mut Batch,
        name: &str,
        id: FileId,
        form: Form,
        allowed: Allowed,
    ) -> Pending {
        Pending {
            path: self.cell.path(name),
            form,
            ticket: batch.add(form.request(id)).expect("accepted"),
            allowed,
            about: String::from("untouched"),
        }
    }

    /// Waits for requests and checks what came.
    pub(crate) fn check(&self, pending: Vec<Pending>) {
        for mut one in pending {
            let about = format!("{}, {}", self.about, one.about);
            let outcome = one.ticket.wait_timeout(PATIENCE).expect("not claimed");
            let Some(outcome) = outcome else {
                let cause = one.ticket.waits_for();
                panic!("{about}: {:?} waits for {cause:?}", one.path);
            };
            let result = outcome.into_result();
            one.allowed.check(&about, &one.path, one.form, result);
        }
    }

    /// Reads a file in one form and checks what comes.
    pub(crate) fn read(&self, name: &str, id: FileId, form: Form, allowed: Allowed) {
        let mut batch = self.queue.batch();
        let pending = self.add_to(&mut batch, name, id, form, allowed);
        drop(batch);
        self.check(vec![pending]);
    }

    /// The paths below the root that the process has open.
    pub(crate) fn open_paths(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir("/proc/self/fd").expect("listed");
        // Another test may close one meanwhile.
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links
            .filter(|path| path.starts_with(&self.cell.root))
            .collect()
    }

    /// Closes the storage; returns the tree as it is now.
    pub(crate) fn finish(self) -> Tree {
        let about = self.about.clone();
        let stats = self.storage.stats();
        assert_eq!(stats.stalls, 0, "{about}");
        let report = self.storage.close(PATIENCE);
        assert_eq!(report, CloseReport::default(), "{about}");
        let is_closed = wait_for(|| self.open_paths().is_empty());
        assert!(is_closed, "{about}: {:?} are open", self.open_paths());
        let files = self.files.into_iter().map(|loaded| loaded.file);
        Tree {
            files: files.collect(),
        }
    }
}

/// Empties caches of the kernel: 2 those of names and inodes, 3 that of pages, too.
pub(crate) fn forget(what: u8) {
    // Refused without root, which no file system here was mounted without.
    let written = std::fs::write("/proc/sys/vm/drop_caches", [what]);
    written.expect("root may");
}
