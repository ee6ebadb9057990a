//! Measures cold loads through Bevy's `AssetServer` by Bevy's readers and Millstream's, which take
//! turns. `cargo run --release --example assets -- [--assets 5000] [--rounds 5]`
//!
//! Files are evicted from the page cache; their directory entries are not.
//!
//! - load: from before the package is opened until all assets are in `Assets`, with a frame each
//!   millisecond
//! - frame: the latest end of a frame after it was due, at 60 frames a second, while a thread keeps
//!   each core busy
//! - urgent: from the moment at which the last of 4,001 handles turns urgent to its bytes

mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bevy_app::App;
use bevy_asset::{AssetServer, Assets, Handle};
use bevy_millstream::{Millstream, MillstreamAssetPlugin, Priority};

use shared::{Arrival, Blob, Contender, Files, Result, option};

const ALL: [Contender; 5] = [
    Contender::BevyFile,
    Contender::BevyMemory,
    Contender::Package,
    Contender::Archive,
    Contender::Loose,
];

/// Sizes of files: evenly distributed in their logarithm.
const LEN_MIN: f64 = 1024.0;
const LEN_MAX: f64 = 65_536.0;

/// Handles before the urgent one.
const OTHERS: usize = 4000;

/// The longest that a measurement waits.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> Result<()> {
    let (assets, rounds) = (option("--assets", 5000)?, option("--rounds", 5)?);
    let mut random = fastrand::Rng::with_seed(5);
    let files = (0..assets).map(|nth| {
        let len = LEN_MIN * (LEN_MAX / LEN_MIN).powf(random.f64());
        (format!("{:02}/{nth:05}.bin", nth % 64), len as usize)
    });
    let files = Files::write(files.collect::<BTreeMap<_, _>>())?;
    let mib = files.bytes as f64 / f64::from(1 << 20);
    println!("{assets} assets, {mib:.0} MiB, {rounds} rounds, medians\n");

    let mut measured = [const { [const { Vec::new() }; 3] }; ALL.len()];
    for _ in 0..rounds {
        for (contender, values) in ALL.iter().zip(&mut measured) {
            values[0].push(load(&files, *contender)?);
            values[1].push(worst_frame(&files, *contender)?);
            values[2].push(urgent(&files, *contender)?);
        }
    }
    let medians = measured.map(|values| values.map(median));
    let [file, memory, ..] = &medians;
    println!(
        "| reader | assets a second | × files | × memory | frame ms | × files | urgent ms | × files |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (contender, [load, frame, urgent]) in ALL.iter().zip(&medians) {
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.1} | {:.2} | {:.1} | {:.3} |",
            contender.name(),
            assets as f64 / load,
            file[0] / load,
            memory[0] / load,
            frame * 1e3,
            frame / file[1],
            urgent * 1e3,
            urgent / file[2],
        );
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn unchanged(plugin: MillstreamAssetPlugin) -> MillstreamAssetPlugin {
    plugin
}

fn load_all(app: &App, names: &[String]) -> Vec<Handle<Blob>> {
    let server = app.world().resource::<AssetServer>();
    names.iter().map(|name| server.load(name.clone())).collect()
}

fn loaded(app: &App) -> usize {
    app.world().resource::<Assets<Blob>>().len()
}

/// Returns the seconds until all assets are loaded.
fn load(files: &Files, contender: Contender) -> Result<f64> {
    files.evict(contender)?;
    let start = Instant::now();
    let mut app = files.app(contender, &Arrival::of("none"), unchanged)?;
    let handles = load_all(&app, &files.names);
    while loaded(&app) < handles.len() {
        if start.elapsed() > PATIENCE {
            return Err(format!("{contender:?}: {} of {}", loaded(&app), handles.len()).into());
        }
        thread::sleep(Duration::from_millis(1));
        app.update();
    }
    let seconds = start.elapsed().as_secs_f64();
    let blobs = app.world().resource::<Assets<Blob>>();
    let bytes: usize = blobs.iter().map(|(_, blob)| blob.bytes.len()).sum();
    assert_eq!(
        bytes as u64, files.bytes,
        "{contender:?} loaded other bytes"
    );
    Ok(seconds)
}

/// Threads that keep all cores busy until they are dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Busy {
    fn start() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let threads = (0..cores).map(spin).collect();
        Busy { stop, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Returns the seconds after which the latest frame ended, from when it was due.
fn worst_frame(files: &Files, contender: Contender) -> Result<f64> {
    const FRAME: Duration = Duration::from_nanos(16_666_667);
    files.evict(contender)?;
    let mut app = files.app(contender, &Arrival::of("none"), unchanged)?;
    app.update();
    let busy = Busy::start();
    let handles = load_all(&app, &files.names);
    let start = Instant::now();
    let (mut due, mut worst) = (start, Duration::ZERO);
    while loaded(&app) < handles.len() && start.elapsed() < PATIENCE {
        due = Instant::now().max(due + FRAME);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        app.update();
        worst = worst.max(due.elapsed());
    }
    drop(busy);
    Ok(worst.as_secs_f64())
}

/// Returns the seconds from when the last handle turns urgent to its bytes.
fn urgent(files: &Files, contender: Contender) -> Result<f64> {
    files.evict(contender)?;
    let names = &files.names[..files.names.len().min(OTHERS + 1)];
    let arrival = Arrival::of(&names[names.len() - 1]);
    let mut app = files.app(contender, &arrival, unchanged)?;
    app.update();
    let handles = load_all(&app, names);
    let turned = Instant::now();
    if let Some(millstream) = app.world().get_resource::<Millstream>() {
        millstream.reprioritize(handles[handles.len() - 1].clone(), Priority::Realtime, None);
    }
    while loaded(&app) < handles.len() && turned.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
        app.update();
    }
    let at = arrival.at().ok_or("the urgent asset did not arrive")?;
    Ok(at.saturating_duration_since(turned).as_secs_f64())
}
