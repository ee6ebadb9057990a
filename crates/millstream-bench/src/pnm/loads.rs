//! Our own ways to an image, the bare direct read, and the crate `image`.

use std::path::Path;

use millstream::{CodecId, Decode, FileOptions, Read, Storage, StorageOptions};
use millstream_pnm::{Image, Kernel, Loader, Mapped, Options, decode_into, view};

use super::Picture;
use crate::clock::Moment;
use crate::corpus::word_sum;
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::ours::{Loan, queue_for};
use crate::read::Straight;
use crate::workload::Field;

/// The codec's number in the engine.
const PNM: CodecId = CodecId(0x90);
/// Shapes of the bare direct read: the best of workload `read`.
const DIRECT_SHAPES: [(usize, usize); 2] = [(512 << 10, 8), (1 << 20, 8)];

/// Contenders.
pub(super) fn contenders(field: &mut Field, picture: &Picture, cold: bool) {
    if cold {
        for (block, depth) in DIRECT_SHAPES {
            let file = super::as_corpus_file(picture);
            field.try_add("ring", Straight::new(&file, block, depth).map(Timed));
        }
    }
    #[cfg(feature = "peers")]
    field.add(ImageCrate(picture.clone()));
    field.add(Engine {
        picture: picture.clone(),
        storage: None,
    });
    let mut add = |name: String, kernel, threads, reused| {
        let options = Options {
            kernel,
            threads,
            ..Options::default()
        };
        field.add(Loaded {
            name,
            picture: picture.clone(),
            loader: Loader::new(options),
            image: Image::empty(),
            reused,
        });
    };
    let fastest = Kernel::fastest();
    let cores = Options::default().threads;
    add("millstream".into(), fastest, cores, false);
    add("millstream-reused".into(), fastest, 1, true);
    if picture.plain {
        add("millstream-2-threads".into(), fastest, 2, false);
        add("millstream-2-threads-reused".into(), fastest, 2, true);
        for &kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
            add(format!("millstream-{}", kernel.name()), kernel, 1, false);
        }
    } else {
        for touch in [false, true] {
            field.add(Viewed {
                picture: picture.clone(),
                touch,
            });
        }
    }
}

/// Gives memory that is free back to the system, so that the next image is fresh.
pub(super) fn give_memory_back() {
    #![expect(unsafe_code, reason = "the allocator has no safe interface")]
    // SAFETY: it only looks at memory that nobody has.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

struct Loaded {
    name: String,
    picture: Picture,
    loader: Loader,
    image: Image,
    reused: bool,
}

impl Contender for Loaded {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&mut self) -> Result<()> {
        if !self.reused {
            self.image = Image::empty();
        }
        give_memory_back();
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let loaded = self.loader.load(&self.picture.path, &mut self.image);
        let span = start.elapsed();
        loaded.map_err(|error| Error::new(error.to_string()))?;
        let samples = self.image.samples.as_bytes();
        Ok(Work {
            bytes: samples.len() as u64,
            requests: 1,
            digest: Some(word_sum(samples)),
            span: Some(span),
            ..Work::default()
        })
    }
}

/// The image parsed by the engine's workers while it is read, into the recycled destination.
struct Engine {
    picture: Picture,
    storage: Option<Storage>,
}

impl Engine {
    /// Another image first, as in a program that has loaded something: the first request that is
    /// decoded has the kernel pin all staging memory, once in the life of a storage.
    fn used_before(&self, storage: &Storage) -> Result<()> {
        let other = self.picture.path.with_extension("first");
        std::fs::write(&other, "P2 1 1 1 0\n")
            .map_err(|error| Error::file("write", &other, error))?;
        queue_for(storage, 1)?
            .submit(parsed(storage, &other))?
            .wait()?;
        Ok(())
    }
}

/// The request of a file's image.
fn parsed(storage: &Storage, path: &Path) -> Read {
    let file = storage.open(path, FileOptions::default());
    Read::whole(file).decode(Decode::codec(PNM))
}

impl Contender for Engine {
    fn name(&self) -> String {
        "millstream-engine".into()
    }

    fn prepare(&mut self) -> Result<()> {
        self.storage = None;
        let mut options = StorageOptions::default();
        millstream_pnm::codec::register(&mut options, PNM);
        let storage = Storage::new(options)?;
        self.used_before(&storage)?;
        self.storage = Some(storage);
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let storage = self.storage.as_ref();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let len = self.picture.image_len;
        let start = Moment::now();
        let loan = Loan::new(&mut destination[..len], vec![queue_for(storage, 1)?]);
        let request = parsed(storage, &self.picture.path);
        loan.batch(0).detach(request, 0..len)?;
        loan.finish()?;
        let span = start.elapsed();
        Ok(Work {
            bytes: len as u64,
            requests: 1,
            span: Some(span),
            ..Work::default()
        })
    }
}

/// A view of samples that lie in the file as in memory.
struct Viewed {
    picture: Picture,
    touch: bool,
}

impl Contender for Viewed {
    fn name(&self) -> String {
        if self.touch {
            "millstream-view-touched".into()
        } else {
            "millstream-view".into()
        }
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        #[expect(unsafe_code, reason = "maps a file of the corpus")]
        // SAFETY: nobody changes the corpus while a case runs.
        let mapped = unsafe { Mapped::open(&self.picture.path, self.touch) };
        let mapped = mapped.map_err(|error| Error::new(error.to_string()))?;
        let viewed = view(mapped.bytes()).map_err(|error| Error::new(error.to_string()))?;
        let samples = viewed
            .ok_or_else(|| Error::new("no view of this file"))?
            .samples;
        let touched = self.touch.then(|| word_sum(samples));
        let span = start.elapsed();
        Ok(Work {
            bytes: samples.len() as u64,
            requests: 1,
            digest: Some(touched.unwrap_or_else(|| word_sum(samples))),
            span: Some(span),
            ..Work::default()
        })
    }
}

/// A contender of workload `read`, timed as all are here.
struct Timed(Straight);

impl Contender for Timed {
    fn name(&self) -> String {
        self.0.name()
    }

    fn prepare(&mut self) -> Result<()> {
        self.0.prepare()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let mut work = self.0.run(destination)?;
        work.span = Some(start.elapsed());
        Ok(Work {
            digest: Some(word_sum(&destination[..work.bytes as usize])),
            ..work
        })
    }
}

#[cfg(feature = "peers")]
struct ImageCrate(Picture);

#[cfg(feature = "peers")]
impl Contender for ImageCrate {
    fn name(&self) -> String {
        "image".into()
    }

    fn prepare(&mut self) -> Result<()> {
        give_memory_back();
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let opened = image::open(&self.0.path);
        let span = start.elapsed();
        let image = opened.map_err(|error| Error::new(error.to_string()))?;
        Ok(Work {
            bytes: image.as_bytes().len() as u64,
            requests: 1,
            digest: Some(word_sum(image.as_bytes())),
            span: Some(span),
            ..Work::default()
        })
    }
}

/// Ticks per byte of decoding a text in memory on one thread, a short one many times, for each run.
pub(super) fn decode_again_and_again(
    bytes: &[u8],
    runs: usize,
    ticks_per_second: f64,
) -> Result<Vec<f64>> {
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let mut image = Image::empty();
    let mut samples = Vec::new();
    let times = limits::PNM_LINEAR_BYTES_MIN.div_ceil(bytes.len());
    for round in 0..=runs {
        let start = Moment::now();
        for _ in 0..times {
            decode_into(bytes, &options, &mut image)
                .map_err(|error| Error::new(error.to_string()))?;
        }
        let span = start.elapsed();
        // The first pays for the image's memory.
        if round > 0 {
            let parsed = (bytes.len() * times) as f64;
            samples.push(span.wall * ticks_per_second / parsed);
        }
    }
    Ok(samples)
}
