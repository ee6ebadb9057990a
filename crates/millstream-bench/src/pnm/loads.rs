//! Our own ways to an image, the bare direct read, and the crate `image`.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use millstream::{CodecId, Decode, FileOptions, Read, Storage, StorageOptions};
use millstream_pnm::{Image, Kernel, Loader, Mapped, Options, decode_into, view};

use super::pictures::Picture;
use crate::case::{Case, Contender, Work};
use crate::clock::{Moment, Span};
use crate::corpus::word_sum;
use crate::error::{Context, Error, Result};
use crate::lend::Loan;
use crate::limits;
use crate::memory::Destination;
use crate::read::rings::straight;
use crate::setup::queue_for;

/// The codec's number in the engine.
const PNM: CodecId = CodecId(0x90);
/// Shapes of the bare direct read: the best of workload `read`.
const DIRECT_SHAPES: [(usize, usize); 2] = [(512 << 10, 8), (1 << 20, 8)];

/// Adds contenders.
pub(super) fn add(case: &mut Case<'_>, picture: &Picture, cold: bool) {
    if cold {
        for (block, depth) in DIRECT_SHAPES {
            let ring = straight(&picture.path, picture.file_len as u64, block, depth);
            case.try_push("ring", ring.map(timed));
        }
    }
    #[cfg(feature = "peers")]
    case.push(image_crate(picture));
    case.push(engine(picture));
    let fastest = Kernel::fastest();
    let cores = Options::default().threads;
    case.push(loaded("millstream", picture, fastest, cores, false));
    case.push(loaded("millstream-reused", picture, fastest, 1, true));
    if picture.plain {
        for (name, reused) in [
            ("millstream-2-threads", false),
            ("millstream-2-threads-reused", true),
        ] {
            case.push(loaded(name, picture, fastest, 2, reused));
        }
        for &kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
            let name = format!("millstream-{}", kernel.name());
            case.push(loaded(&name, picture, kernel, 1, false));
        }
    } else {
        case.push(viewed("millstream-view", picture, false));
        case.push(viewed("millstream-view-touched", picture, true));
    }
}

/// Gives memory that is free back to the system, so that the next image is fresh.
pub(super) fn give_memory_back() {
    #![expect(unsafe_code, reason = "the allocator has no safe interface")]
    // SAFETY: it only releases memory that is free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// The file read and parsed into an image, a fresh one or that of the run before.
fn loaded(
    name: &str,
    picture: &Picture,
    kernel: Kernel,
    threads: usize,
    reused: bool,
) -> Contender {
    let mut loader = Loader::new(Options {
        kernel,
        threads,
        ..Options::default()
    });
    let path = picture.path.clone();
    let image = Rc::new(RefCell::new(Image::empty()));
    let same = Rc::clone(&image);
    let prepare = move || {
        if !reused {
            same.replace(Image::empty());
        }
        give_memory_back();
        Ok(())
    };
    let load = move |_: &mut Destination| {
        let mut image = image.borrow_mut();
        let start = Moment::now();
        let loaded = loader.load(&path, &mut image);
        let span = start.elapsed();
        loaded?;
        Ok(work(image.samples.as_bytes(), span))
    };
    Contender {
        prepare: Box::new(prepare),
        ..Contender::new(name, load)
    }
}

/// The work of having made these samples.
fn work(samples: &[u8], span: Span) -> Work {
    let work = Work::of(samples.len() as u64, 1).took(span);
    work.with_digest(word_sum(samples))
}

/// The image parsed by the engine's workers while it is read, into the recycled destination.
fn engine(picture: &Picture) -> Contender {
    let (path, len) = (picture.path.clone(), picture.image_len);
    let first = path.with_extension("first");
    let make = move || {
        let mut options = StorageOptions::default();
        millstream_pnm::codec::register(&mut options, PNM);
        let storage = Storage::new(options)?;
        // Another image first, as in a program that has loaded something: the first request that is
        // decoded has the kernel pin all staging memory, once in the life of a storage.
        std::fs::write(&first, "P2 1 1 1 0\n").on("write", &first)?;
        let queue = queue_for(&storage, 1)?;
        queue.submit(parsed(&storage, &first))?.wait()?;
        Ok(storage)
    };
    let run = move |storage: &mut Storage, destination: &mut Destination| {
        let start = Moment::now();
        let loan = Loan::new(&mut destination[..len], vec![queue_for(storage, 1)?]);
        loan.batch(0).detach(parsed(storage, &path), 0..len)?;
        loan.finish()?;
        Ok(Work::of(len as u64, 1).took(start.elapsed()))
    };
    Contender::prepared("millstream-engine", make, run)
}

/// The request of a file's image.
fn parsed(storage: &Storage, path: &Path) -> Read {
    let file = storage.open(path, FileOptions::default());
    Read::whole(file).decode(Decode::codec(PNM))
}

/// A view of samples that lie in the file as in memory.
fn viewed(name: &str, picture: &Picture, touch: bool) -> Contender {
    let path = picture.path.clone();
    Contender::new(name, move |_| {
        let start = Moment::now();
        #[expect(unsafe_code, reason = "maps a file of the corpus")]
        // SAFETY: nothing changes the corpus while a case runs.
        let mapped = unsafe { Mapped::open(&path, touch) }?;
        let viewed = view(mapped.bytes())?;
        let viewed = viewed.ok_or_else(|| Error::new("no view of this file"))?;
        if touch {
            std::hint::black_box(word_sum(viewed.samples));
        }
        Ok(work(viewed.samples, start.elapsed()))
    })
}

/// A contender of workload `read`, timed as all are here.
fn timed(straight: Contender) -> Contender {
    let mut read = straight.run;
    Contender::new(straight.name, move |destination| {
        let start = Moment::now();
        let bytes = read(destination)?.bytes as usize;
        Ok(work(&destination[..bytes], start.elapsed()))
    })
}

#[cfg(feature = "peers")]
fn image_crate(picture: &Picture) -> Contender {
    let path = picture.path.clone();
    let load = move |_: &mut Destination| {
        let start = Moment::now();
        let opened = image::open(&path);
        let span = start.elapsed();
        Ok(work(opened?.as_bytes(), span))
    };
    Contender {
        prepare: Box::new(|| {
            give_memory_back();
            Ok(())
        }),
        ..Contender::new("image", load)
    }
}

/// Seconds per byte of decoding a text in memory on one thread, a short one many times.
pub(super) fn decode_again_and_again(text: Vec<u8>) -> impl FnMut() -> Result<f64> {
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let mut image = Image::empty();
    let times = limits::PNM_LINEAR_BYTES_MIN.div_ceil(text.len());
    move || {
        let start = Moment::now();
        for _ in 0..times {
            decode_into(&text, &options, &mut image)?;
        }
        Ok(start.elapsed().wall / (text.len() * times) as f64)
    }
}
