//! Workload `weights`: experts of a mixture-of-experts model, read from the disk while it runs.
//!
//! A token passes through all layers; each needs the experts that its router chose, before it
//! computes, and knows a guess of what the next layer will need. Memory holds a quarter of the
//! experts. Contenders take the same trace: maps of the file, threads that call `pread`, rings
//! without and with priorities as programs write them by hand, and Millstream's cache of experts.
//! Each starts with the slots full.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use memmap2::{Advice, Mmap, UncheckedAdvice};
use millstream_peers::Access;
use millstream_peers::experts::{Experts, Reader};
use millstream_weights::{Expert, ExpertCache, Extent};

use crate::ours::storage;
use crate::prelude::*;
use crate::threads::Disturber;

mod compute;
mod trace;

use compute::Compute;
use trace::Trace;

const PAGE_BYTES: usize = 4096;

/// The shape of the model, and how much of it memory holds.
#[derive(Debug, Clone, Copy)]
struct Shape {
    layers: usize,
    /// Experts of a layer.
    experts: usize,
    expert_bytes: usize,
}

impl Shape {
    /// Experts that a layer needs.
    const NEEDED: usize = 8;

    fn all(self) -> usize {
        self.layers * self.experts
    }

    fn slots(self) -> usize {
        self.all() / 4
    }

    /// The first word of a page of an expert.
    fn word(self, expert: u32, page: usize) -> u64 {
        (expert as usize * (self.expert_bytes / PAGE_BYTES) + page) as u64
    }
}

/// A way to have experts in memory.
trait Method {
    /// Blocks until the needed experts are in memory, and may read those that were guessed.
    fn layer(&mut self, needed: &[u32], guesses: &[u32]) -> Result<()>;

    /// The first word of a page of an expert that was needed last.
    fn word(&mut self, expert: u32, page: usize) -> Option<u64>;
}

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    for instance in session.cases("weights", "experts") {
        let shape = Shape {
            layers: instance.get("layers"),
            experts: instance.get("experts"),
            expert_bytes: instance.get::<usize>("kib") << 10,
        };
        let path = file_of(session.corpus.folder(), shape)?;
        let tokens: usize = instance.get("tokens");
        let right = instance.get::<u32>("right");
        let trace = &Trace::new(shape, f64::from(right) / 100.0, tokens);
        let compute = &Compute::start(instance.get("compute"))?;
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let path = &path;
            let make = move || {
                drop_path(path)?;
                let mut method = start(name, shape, path)?;
                for (needed, guesses) in trace.before() {
                    method.layer(needed, guesses)?;
                }
                Ok(Some(method))
            };
            // Dropped after its run: two would share the memory, and maps keep the file cached.
            let run = move |method: &mut Option<Box<dyn Method>>, _: &mut Destination| {
                let mut method = method
                    .take()
                    .ok_or(Error::new("run without a preparation"))?;
                tokens_of(&mut *method, shape, trace, compute)
            };
            case.push(name, fresh(make, run));
        }
        let _loops = Disturber::loops(instance.get("loops"), 0)?;
        session.run(case)?;
    }
    Ok(())
}

fn start(name: &str, shape: Shape, path: &Path) -> Result<Box<dyn Method>> {
    let reader = match name {
        "map" | "map-ahead" => return Ok(Box::new(Mapped::new(path, shape, name == "map-ahead")?)),
        "pread-8" => Reader::Pool {
            threads: 8,
            access: Access::Buffered,
        },
        "pread-8-direct" => Reader::Pool {
            threads: 8,
            access: Access::Direct,
        },
        "ring" => Reader::Ring {
            depth: 32,
            guesses: None,
        },
        "ring-levels" => Reader::Ring {
            depth: 32,
            guesses: Some(1),
        },
        _ => return Ok(Box::new(Ours::new(name, path, shape)?)),
    };
    let blocks = (shape.all(), shape.expert_bytes);
    Ok(Box::new(Experts::start(
        reader,
        path,
        blocks,
        shape.slots(),
    )?))
}

/// Runs the tokens of the trace.
fn tokens_of(
    method: &mut dyn Method,
    shape: Shape,
    trace: &Trace,
    compute: &Compute,
) -> Result<Work> {
    let last = shape.expert_bytes / PAGE_BYTES - 1;
    let (moment, mut stalls) = (Moment::now(), Vec::new());
    for token in trace.tokens() {
        let mut stall = 0.0;
        for (needed, guesses) in token {
            let start = Instant::now();
            method.layer(needed, guesses)?;
            stall += start.elapsed().as_secs_f64();
            for expert in needed {
                for page in [0, last] {
                    let right = Some(shape.word(*expert, page));
                    let is_right = method.word(*expert, page) == right;
                    ensure(is_right, &format!("other bytes in expert {expert}"))?;
                }
            }
            compute.run();
        }
        stalls.push(stall * 1e3);
    }
    let span = moment.elapsed();
    stalls.sort_by(f64::total_cmp);
    let at = |share: f64| stalls[((stalls.len() - 1) as f64 * share).round() as usize];
    let figures = vec![
        (Metric::of("stall-p50 ms"), at(0.5)),
        (Metric::of("stall-p99 ms"), at(0.99)),
    ];
    Ok(Work::of(0, trace.tokens().len()).took(span).with(figures))
}

/// Returns a file of experts in which each page begins with its number.
fn file_of(folder: &Path, shape: Shape) -> Result<PathBuf> {
    let len = (shape.all() * shape.expert_bytes) as u64;
    let path = folder.join(format!("experts-1-{len}.bin"));
    if len_of(&path).is_ok_and(|it| it == len) {
        return Ok(path);
    }
    let unfinished = path.with_extension("part");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&unfinished).what("experts")?);
    let mut page = [0; PAGE_BYTES];
    crate::corpus::generate::fill(1, &mut page);
    for number in 0..len / PAGE_BYTES as u64 {
        page[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all(&page).what("experts")?;
    }
    let file = file
        .into_inner()
        .map_err(|error| Error::new(error.to_string()))?;
    file.sync_all().what("experts")?;
    std::fs::rename(&unfinished, &path).what("experts")?;
    Ok(path)
}

impl Method for Experts {
    fn layer(&mut self, needed: &[u32], guesses: &[u32]) -> Result<()> {
        Ok(Experts::layer(self, needed, guesses)?)
    }

    fn word(&mut self, expert: u32, page: usize) -> Option<u64> {
        Experts::word(self, expert, page)
    }
}

struct Ours {
    cache: ExpertCache,
    /// Whether it reads what is guessed.
    guesses: bool,
    guessed: Vec<u32>,
    needed: Vec<(u32, Expert)>,
}

impl Ours {
    fn new(name: &str, path: &Path, shape: Shape) -> Result<Ours> {
        let storage = storage(name)?;
        let len = shape.expert_bytes as u64;
        let part = |nth: usize| Extent {
            file: 0,
            offset: nth as u64 * len,
            len,
        };
        let experts = (0..shape.all()).map(|nth| vec![part(nth)]);
        Ok(Ours {
            cache: ExpertCache::new(&storage, &[path], experts, shape.slots())?,
            guesses: name != "millstream-demand",
            guessed: Vec::new(),
            needed: Vec::new(),
        })
    }
}

impl Method for Ours {
    fn layer(&mut self, needed: &[u32], guesses: &[u32]) -> Result<()> {
        self.needed.clear();
        self.cache.want(needed, None)?;
        self.cache.withdraw(&self.guessed)?;
        if self.guesses {
            self.cache.guess(guesses)?;
            self.guessed = guesses.to_vec();
        }
        for key in needed {
            self.needed.push((*key, self.cache.wait(*key)?));
        }
        Ok(())
    }

    fn word(&mut self, expert: u32, page: usize) -> Option<u64> {
        let (_, bytes) = self.needed.iter().find(|(key, _)| *key == expert)?;
        bytes.part(0)[page * PAGE_BYTES..]
            .first_chunk()
            .copied()
            .map(u64::from_le_bytes)
    }
}

/// A map of the file, of which the experts used last stay.
struct Mapped {
    map: Mmap,
    file: File,
    shape: Shape,
    /// Asks the kernel to read ahead what is guessed.
    is_ahead: bool,
    used: Vec<u64>,
    uses: BTreeMap<u64, u32>,
    next_use: u64,
}

impl Mapped {
    #[expect(unsafe_code, reason = "maps a file")]
    fn new(path: &Path, shape: Shape, is_ahead: bool) -> Result<Mapped> {
        let file = open_buffered(path)?;
        // SAFETY: no one writes to or shortens a file of the corpus while the benchmark runs.
        let map = unsafe { Mmap::map(&file) }.what("map the experts")?;
        map.advise(Advice::Random).what("advise")?;
        Ok(Mapped {
            map,
            file,
            shape,
            is_ahead,
            used: vec![0; shape.all()],
            uses: BTreeMap::new(),
            next_use: 1,
        })
    }

    /// Counts a use; lets the expert go that was not used for the longest time.
    #[expect(unsafe_code, reason = "drops pages of a map")]
    fn touch(&mut self, expert: u32) {
        self.uses.remove(&self.used[expert as usize]);
        self.used[expert as usize] = self.next_use;
        self.uses.insert(self.next_use, expert);
        self.next_use += 1;
        if self.uses.len() <= self.shape.slots() {
            return;
        }
        let Some((_, oldest)) = self.uses.pop_first() else {
            return;
        };
        self.used[oldest as usize] = 0;
        let len = self.shape.expert_bytes;
        let start = oldest as usize * len;
        // SAFETY: the map is of a file and never written to: its pages come back as they were.
        let _ = unsafe {
            self.map
                .unchecked_advise_range(UncheckedAdvice::DontNeed, start, len)
        };
        let file = self.file.as_raw_fd();
        // SAFETY: advice about a live descriptor.
        unsafe {
            libc::posix_fadvise(file, start as i64, len as i64, libc::POSIX_FADV_DONTNEED);
        }
    }

    fn ahead(&mut self, expert: u32) -> Result<()> {
        let len = self.shape.expert_bytes;
        let advised = self
            .map
            .advise_range(Advice::WillNeed, expert as usize * len, len);
        advised.what("advise")?;
        self.touch(expert);
        Ok(())
    }
}

impl Method for Mapped {
    fn layer(&mut self, needed: &[u32], guesses: &[u32]) -> Result<()> {
        if self.is_ahead {
            needed.iter().try_for_each(|expert| self.ahead(*expert))?;
            guesses.iter().try_for_each(|expert| self.ahead(*expert))?;
        }
        for expert in needed {
            self.touch(*expert);
            let len = self.shape.expert_bytes;
            let bytes = &self.map[*expert as usize * len..][..len];
            let sum = bytes
                .iter()
                .step_by(PAGE_BYTES)
                .fold(0u64, |sum, it| sum + u64::from(*it));
            std::hint::black_box(sum);
        }
        Ok(())
    }

    fn word(&mut self, expert: u32, page: usize) -> Option<u64> {
        let at = expert as usize * self.shape.expert_bytes + page * PAGE_BYTES;
        self.map[at..]
            .first_chunk()
            .copied()
            .map(u64::from_le_bytes)
    }
}
