//! Streams chunks of a world around a moving camera, without a window: Bevy's reader of files, then
//! Millstream with a package. Prints a table and writes a chart of the frames.
//! `cargo run --release --example streaming_world -- [--seconds 10] [--speed 60] [--chart FILE]`
//!
//! The app loads the chunks around the camera and drops those behind it. With Millstream, each
//! frame sets when a chunk that is not there yet will be needed: the distance over the speed.
//!
//! | column | what it is |
//! |---|---|
//! | worst frame | the latest end of a frame after it was due |
//! | loads/s | chunks that arrived a second |
//! | canceled | loads whose handle was dropped before the chunk arrived |
//! | late | frames times chunks beside the camera that were not there |

#[expect(dead_code, reason = "the example `assets` uses all of it")]
mod shared;

use std::collections::{BTreeMap, HashMap};
use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use bevy_app::{App, Update};
use bevy_asset::{AssetServer, Assets, Handle};
use bevy_ecs::prelude::{Res, ResMut, Resource};
use bevy_millstream::{Millstream, Priority};

use shared::{Arrival, Blob, Contender, Files, Result, option};

/// Chunks along each side of the world.
const SIDE: i32 = 64;
const CHUNK_BYTES: usize = 48 << 10;

/// Distances in chunks: loaded up to the first, dropped beyond the second, needed within the third.
const LOAD_WITHIN: f64 = 7.0;
const DROP_BEYOND: f64 = 8.0;
const NEEDED_WITHIN: f64 = 1.5;

const FRAME: Duration = Duration::from_nanos(16_666_667);

#[derive(Resource, Default)]
struct World {
    camera: (f64, f64),
    /// Chunks that the camera passes in a second.
    speed: f64,
    chunks: HashMap<(i32, i32), Handle<Blob>>,
    arrived: u64,
    canceled: u64,
    late: u64,
}

/// The results of one reader.
struct Measured {
    name: &'static str,
    /// Milliseconds from when each frame was due to its end.
    frames: Vec<f64>,
    seconds: f64,
    arrived: u64,
    canceled: u64,
    late: u64,
}

fn main() -> Result<()> {
    let (seconds, speed) = (option("--seconds", 10)?, option("--speed", 60)? as f64);
    let mut arguments = std::env::args().skip_while(|argument| argument != "--chart");
    let chart = match arguments.nth(1) {
        Some(path) => PathBuf::from(path),
        None => std::env::temp_dir().join("streaming_world.svg"),
    };
    let places = (0..SIDE).flat_map(|x| (0..SIDE).map(move |y| (x, y)));
    let files = places.map(|place| (name_of(place), CHUNK_BYTES));
    let files = Files::write(files.collect::<BTreeMap<_, _>>())?;
    let length = Duration::from_secs(seconds as u64);
    let mut all = Vec::new();
    println!("| reader | worst frame | 99 % | loads/s | canceled | late |");
    println!("|---|---|---|---|---|---|");
    for contender in [Contender::BevyFile, Contender::Package] {
        let measured = run(&files, contender, length, speed)?;
        let mut sorted = measured.frames.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
        println!(
            "| {} | {:.1} ms | {:.1} ms | {:.0} | {} | {} |",
            measured.name,
            at(1.0),
            at(0.99),
            measured.arrived as f64 / measured.seconds,
            measured.canceled,
            measured.late,
        );
        all.push(measured);
    }
    std::fs::write(&chart, svg(&all))?;
    println!("\nchart: {}", chart.display());
    Ok(())
}

fn name_of((x, y): (i32, i32)) -> String {
    format!("{x:02}/{y:02}.bin")
}

/// The distance of a chunk's center.
fn distance(camera: (f64, f64), (x, y): (i32, i32)) -> f64 {
    (f64::from(x) + 0.5 - camera.0).hypot(f64::from(y) + 0.5 - camera.1)
}

fn stream(
    server: Res<AssetServer>,
    blobs: Res<Assets<Blob>>,
    millstream: Option<Res<Millstream>>,
    mut world: ResMut<World>,
) {
    let world = &mut *world;
    let (camera, speed) = (world.camera, world.speed);
    let reach = |center: f64| (center - LOAD_WITHIN) as i32..=(center + LOAD_WITHIN) as i32;
    for place in reach(camera.0).flat_map(|x| reach(camera.1).map(move |y| (x, y))) {
        let is_inside = (0..SIDE).contains(&place.0) && (0..SIDE).contains(&place.1);
        if is_inside && distance(camera, place) < LOAD_WITHIN {
            world
                .chunks
                .entry(place)
                .or_insert_with(|| server.load(name_of(place)));
        }
    }
    let now = Instant::now();
    world.chunks.retain(|place, handle| {
        let (distance, is_there) = (distance(camera, *place), blobs.contains(&*handle));
        world.late += u64::from(distance < NEEDED_WITHIN && !is_there);
        if distance > DROP_BEYOND {
            match is_there {
                true => world.arrived += 1,
                false => world.canceled += 1,
            }
            return false;
        }
        if let Some(millstream) = millstream.as_deref().filter(|_| !is_there) {
            let priority = match distance < LOAD_WITHIN / 2.0 {
                true => Priority::High,
                false => Priority::Normal,
            };
            let needed = now + Duration::from_secs_f64((distance - NEEDED_WITHIN).max(0.0) / speed);
            millstream.reprioritize(handle.clone(), priority, Some(needed));
        }
        true
    });
}

/// Returns where the camera is once it has traveled so many chunks, on a circle that swings.
fn camera_at(traveled: f64) -> (f64, f64) {
    let (middle, radius) = (f64::from(SIDE) / 2.0, f64::from(SIDE) / 2.0 - LOAD_WITHIN);
    let angle = traveled / radius;
    let wobble = 4.0 * (angle * 0.37).sin();
    let at = |turn: f64| middle + (radius - 4.0 + wobble) * (angle + turn).cos();
    (at(0.0), at(-TAU / 4.0))
}

fn run(files: &Files, contender: Contender, length: Duration, speed: f64) -> Result<Measured> {
    files.evict(contender)?;
    let mut app: App = files.app(contender, &Arrival::of("none"), |plugin| plugin)?;
    app.insert_resource(World {
        speed,
        ..World::default()
    });
    app.add_systems(Update, stream);
    let (start, mut due, mut frames) = (Instant::now(), Instant::now(), Vec::new());
    while start.elapsed() < length {
        let traveled = start.elapsed().as_secs_f64() * speed;
        app.world_mut().resource_mut::<World>().camera = camera_at(traveled);
        app.update();
        frames.push(due.elapsed().as_secs_f64() * 1e3);
        due = Instant::now().max(due + FRAME);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let there = app.world().resource::<Assets<Blob>>().len() as u64;
    let world = app.world().resource::<World>();
    Ok(Measured {
        name: contender.name(),
        frames,
        seconds: start.elapsed().as_secs_f64(),
        arrived: world.arrived + there,
        canceled: world.canceled,
        late: world.late,
    })
}

/// Draws the frames of all readers over time.
fn svg(all: &[Measured]) -> String {
    const COLORS: [&str; 2] = ["#c0504d", "#1f6fb4"];
    let (width, height, left, top) = (720.0, 280.0, 40.0, 30.0);
    let longest = all
        .iter()
        .flat_map(|one| &one.frames)
        .fold(20.0, |a: f64, b| a.max(*b));
    let y = |ms: f64| top + height * (1.0 - ms / longest);
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 780 350\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"780\" height=\"350\" fill=\"#fff\"/>\n",
    );
    for ms in [0.0, FRAME.as_secs_f64() * 1e3, longest] {
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {0:.1}H{1}\" stroke=\"#ccc\"/><text x=\"4\" y=\"{0:.1}\">{ms:.1}</text>",
            y(ms),
            left + width,
        );
    }
    for ((nth, one), color) in all.iter().enumerate().zip(COLORS) {
        let step = width / one.frames.len().max(2) as f64;
        let mut points = String::new();
        for (nth, ms) in one.frames.iter().enumerate() {
            let _ = write!(points, "{:.1},{:.1} ", left + step * nth as f64, y(*ms));
        }
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\"/>\
             <text x=\"{}\" y=\"18\" fill=\"{color}\">{}</text>",
            left + 160.0 * nth as f64,
            one.name,
        );
    }
    let caption = "frames in order; milliseconds after each was due";
    let _ = writeln!(svg, "<text x=\"300\" y=\"340\">{caption}</text>\n</svg>");
    svg
}
