//! The frames of a program that streams a world, as the example `stream_world` does: each frame
//! posts requests with a priority and a deadline, then takes the completions that fit into its
//! budget. A frame lasts from its first call until nothing more has arrived; the bytes are checked
//! after it.

use std::time::{Duration, Instant};

use millstream::{Buffer, Completion, Priority};
use millstream_peers::Read;

use crate::ours::{Ready, storage};
use crate::prelude::*;
use crate::requests::cells::PageHashes;
use crate::threads::Disturber;

const TILE_BYTES: usize = 64 << 10;
const TILES_PER_FRAME: usize = 8;
const FRAME: Duration = Duration::from_millis(16);
/// What a frame spends on what has arrived.
const BUDGET: Duration = Duration::from_millis(2);

pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    for instance in session.cases("requests", "world") {
        let tiles: usize = instance.get("tiles");
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let ready = Ready::new(storage(name)?, &file.path, tiles, false)?;
            case.add(name, move |_| frames(&ready, tiles, pages));
        }
        case.prepare(|| drop_path(&file.path));
        let _loops = Disturber::loops(instance.get("loops"), 0)?;
        session.run(case)?;
    }
    Ok(())
}

fn frames(ready: &Ready, tiles: usize, pages: &PageHashes) -> Result<Work> {
    let missed_before = ready.storage.stats().deadlines_missed;
    let mut batch = ready.queue.batch();
    let mut arrived: [Completion; 16] = Default::default();
    let (mut next, mut shown, mut worst) = (0, 0, Duration::ZERO);
    while shown < tiles {
        let (start, mut taken) = (Instant::now(), Vec::new());
        let end = tiles.min(next + TILES_PER_FRAME);
        for tile in next..end {
            // Every eighth tile is in view: it is wanted by the next frame.
            let (priority, frames_left) = match tile % TILES_PER_FRAME {
                0 => (Priority::High, 1),
                _ => (Priority::Normal, 4),
            };
            let request = ready.request(&tile_of(tile)).priority(priority);
            let request = request.deadline(start + FRAME * frames_left);
            batch.post(request.user_data(tile as u64))?;
        }
        next = end;
        batch.submit();
        while start.elapsed() < BUDGET {
            let count = ready.queue.drain_completions(&mut arrived);
            if count == 0 {
                break;
            }
            let tile = |it: &mut Completion| (it.user_data, it.take_memory::<Buffer>());
            taken.extend(arrived[..count].iter_mut().map(tile));
        }
        worst = worst.max(start.elapsed());
        for (tile, memory) in taken {
            let memory = memory.ok_or_else(|| Error::new("a tile failed"))?;
            pages.check(&[tile_of(tile as usize)], &memory)?;
            shown += 1;
        }
        std::thread::sleep(FRAME.saturating_sub(start.elapsed()));
    }
    let missed = ready.storage.stats().deadlines_missed - missed_before;
    Ok(Work::figures(vec![
        (Metric::of("worst-frame us"), worst.as_secs_f64() * 1e6),
        (Metric::of("missed tiles"), missed as f64),
    ]))
}

fn tile_of(tile: usize) -> Read {
    Read {
        file: 0,
        offset: (tile * TILE_BYTES) as u64,
        place: 0,
        len: TILE_BYTES as u32,
    }
}
