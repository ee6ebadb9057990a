//! Loads in flight: bounds, urgency, cancellation. The storage has no threads: nothing is read
//! until a test pumps it.

use std::sync::{Arc, Barrier};

use bevy_tasks::{IoTaskPool, block_on};

use super::*;

/// A storage that reads when it is pumped, and a plugin with `count` files of `len` bytes.
struct Pumped {
    storage: Storage,
    app: App,
    folder: TempDir,
}

impl Pumped {
    fn new(
        count: usize,
        len: usize,
        bound: impl FnOnce(MillstreamAssetPlugin) -> MillstreamAssetPlugin,
    ) -> Pumped {
        let files = (0..count).map(|nth| (format!("{nth}.whole"), vec![nth as u8; len]));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("files.zip");
        write_zip(&path, &files.collect());
        fs::create_dir(folder.path().join("loose")).expect("created");
        let mut options = StorageOptions::default();
        options.threads.pumped = true;
        let storage = Storage::new(options).expect("a storage");
        let mut mounts = Mounts::new();
        mounts.mount_archive(&storage, &path).expect("mounted");
        let loose = folder.path().join("loose");
        mounts.mount_folder(&storage, loose).expect("mounted");
        let plugin = MillstreamAssetPlugin::with_mounts(&storage, mounts).expect("a plugin");
        Pumped {
            storage,
            app: app(bound(plugin), false),
            folder,
        }
    }

    fn load(&mut self, count: usize) -> Vec<Handle<Bytes>> {
        let handles = (0..count)
            .map(|nth| load(&self.app, &format!("{nth}.whole")))
            .collect();
        // Their first polls.
        run_until(&mut self.app, |app| {
            let stats = app.world().resource::<Millstream>().load_stats();
            stats.waiting + stats.in_flight == count as u64
        });
        handles
    }

    fn stats(&self) -> bevy_millstream::LoadStats {
        self.app.world().resource::<Millstream>().load_stats()
    }

    /// Pumps and runs frames until `condition` holds.
    fn run_until(&mut self, mut condition: impl FnMut(&App) -> bool) {
        let storage = self.storage.clone();
        run_until(&mut self.app, |app| {
            storage.pump();
            condition(app)
        });
    }

    fn run_until_loaded(&mut self, count: u64) {
        self.run_until(|app| app.world().resource::<Millstream>().load_stats().loaded >= count);
        let count = count as usize;
        self.run_until(|app| app.world().resource::<Assets<Bytes>>().len() >= count);
    }
}

#[test]
fn bytes_in_flight_stay_below_their_bound() {
    let mut test = Pumped::new(40, 10_000, |plugin| plugin.in_flight(35_000, 128));
    let handles = test.load(40);
    let stats = test.stats();
    assert_eq!(
        (stats.in_flight, stats.bytes_in_flight, stats.waiting),
        (3, 30_000, 37)
    );
    let in_diagnostics = |app: &App, path: &DiagnosticPath| {
        let diagnostics = app.world().resource::<DiagnosticsStore>();
        diagnostics
            .get_measurement(path)
            .map(|measured| measured.value)
    };
    // Measured at the start of the next frame.
    run_until(&mut test.app, |app| {
        in_diagnostics(app, &Millstream::WAITING) == Some(37.0)
    });
    let bytes_in_flight = in_diagnostics(&test.app, &Millstream::BYTES);
    assert_eq!(bytes_in_flight, Some(30_000.0));
    run_until(&mut test.app, |app| {
        in_diagnostics(app, &Millstream::STALL).is_some_and(|stall| stall >= 1.0)
    });
    test.run_until_loaded(40);
    assert_eq!(test.stats().bytes_in_flight_peak, 30_000);
    assert!(
        handles
            .iter()
            .all(|handle| state(&test.app, handle).is_loaded())
    );
}

#[test]
fn a_file_above_the_bound_is_read_alone() {
    let mut test = Pumped::new(3, 10_000, |plugin| plugin.in_flight(1, 128));
    let _handles = test.load(3);
    assert_eq!(test.stats().in_flight, 1);
    test.run_until_loaded(3);
    assert_eq!(test.stats().bytes_in_flight_peak, 10_000);
}

/// Keeps tasks from being polled until the returned function is called.
fn hold_tasks() -> impl FnOnce() {
    let pool = IoTaskPool::get();
    let gate = Arc::new(Barrier::new(pool.thread_num() + 1));
    for _ in 0..pool.thread_num() {
        let gate = Arc::clone(&gate);
        let block = async move { (gate.wait(), gate.wait()) };
        pool.spawn(block).detach();
    }
    gate.wait();
    move || _ = gate.wait()
}

#[test]
fn an_urgent_asset_that_needs_another_one_before_its_own_bytes_is_loaded() {
    let mut test = Pumped::new(2, 1000, |plugin| plugin);
    let path = test.folder.path().join("loose/deep.nested");
    fs::write(path, [9; 500]).expect("written");
    let millstream = test.app.world().resource::<Millstream>().clone();
    let go = hold_tasks();
    let handle = load(&test.app, "deep.nested");
    assert!(millstream.reprioritize(handle.clone(), Priority::Realtime, None));
    go();
    test.run_until(|app| state(app, &handle).is_loaded());
    let expected = [&[1; 1000][..], &[9; 500]].concat();
    assert_eq!(bytes(&test.app, &handle), Some(&expected[..]));
}

#[test]
fn an_urgent_asset_goes_ahead_of_tasks_that_bevy_polls_first() {
    let mut test = Pumped::new(200, 1000, |plugin| plugin);
    let millstream = test.app.world().resource::<Millstream>().clone();
    // Until the handle is urgent, no task is polled.
    let go = hold_tasks();
    let mut load_nth = |nth| load(&test.app, &format!("{nth}.whole"));
    let handles: Vec<Handle<Bytes>> = (0..200).map(&mut load_nth).collect();
    assert!(millstream.reprioritize(handles[199].clone(), Priority::Realtime, None));
    go();
    run_until(&mut test.app, |_| millstream.load_stats().in_flight > 0);
    // Behind all of them in the list of tasks.
    block_on(IoTaskPool::get().spawn(async {}));
    let stats = millstream.load_stats();
    assert_eq!((stats.in_flight, stats.waiting), (1, 0));
    test.run_until_loaded(200);
    assert_eq!(bytes(&test.app, &handles[7]), Some(&[7; 1000][..]));
}

#[test]
fn the_most_urgent_is_read_next() {
    let mut test = Pumped::new(50, 1000, |plugin| plugin.in_flight(1 << 20, 1));
    let handles = test.load(50);
    let millstream = test.app.world().resource::<Millstream>().clone();
    let soon = Instant::now() + Duration::from_secs(1);
    let late = soon + Duration::from_secs(1);
    assert!(millstream.reprioritize(handles[30].clone(), Priority::High, None));
    assert!(millstream.reprioritize(handles[20].clone(), Priority::High, Some(late)));
    assert!(millstream.reprioritize(handles[49].clone(), Priority::High, Some(soon)));
    let untyped = handles[7].clone().untyped();
    assert!(millstream.reprioritize(untyped, Priority::Realtime, None));
    // Its read is in flight, and stays the first.
    assert!(millstream.reprioritize(handles[0].clone(), Priority::Low, None));
    assert!(!millstream.reprioritize(Handle::<Bytes>::default(), Priority::Low, None));
    let mut order = Vec::new();
    for count in 1..=6 {
        test.run_until_loaded(count);
        let is_new =
            |nth: &usize| !order.contains(nth) && bytes(&test.app, &handles[*nth]).is_some();
        let mut new = (0..50).filter(is_new);
        let (first, second) = (new.next(), new.next());
        assert_eq!(second, None, "one at a time");
        order.extend(first);
    }
    assert_eq!(order, [0, 7, 49, 20, 30, 1]);
}

#[test]
fn urgency_holds_for_later_reads_while_the_handle_lives() {
    let mut test = Pumped::new(10, 1000, |plugin| plugin.in_flight(1 << 20, 1));
    let first = load(&test.app, "0.whole");
    let millstream = test.app.world().resource::<Millstream>().clone();
    // Perhaps before its task is polled for the first time.
    assert!(millstream.reprioritize(first.clone(), Priority::High, None));
    test.run_until_loaded(1);
    let blocks = load(&test.app, "1.whole");
    let others: Vec<_> = (2..9)
        .map(|nth| load(&test.app, &format!("{nth}.whole")))
        .collect();
    run_until(&mut test.app, |app| {
        app.world().resource::<Millstream>().load_stats().waiting == 7
    });
    test.app.world().resource::<AssetServer>().reload("0.whole");
    run_until(&mut test.app, |app| {
        app.world().resource::<Millstream>().load_stats().waiting == 8
    });
    test.run_until(|app| app.world().resource::<Millstream>().load_stats().loaded == 3);
    run_until(&mut test.app, |app| bytes(app, &blocks).is_some());
    let is_early = |handle: &&Handle<Bytes>| bytes(&test.app, handle).is_some();
    assert_eq!(
        others.iter().filter(is_early).count(),
        0,
        "the reload came first"
    );
}

#[test]
fn dropped_handles_cancel_their_reads() {
    let mut test = Pumped::new(20, 1000, |plugin| plugin.in_flight(1 << 20, 4));
    let mut handles = test.load(20);
    // Reads in flight, and reads that wait.
    let kept = handles.split_off(18);
    drop(handles);
    test.run_until(|app| {
        let stats = app.world().resource::<Millstream>().load_stats();
        stats.loaded + stats.canceled == 20
    });
    run_until(&mut test.app, |app| {
        kept.iter().all(|handle| bytes(app, handle).is_some())
    });
    let stats = test.stats();
    assert_eq!(
        (stats.waiting, stats.in_flight, stats.bytes_in_flight),
        (0, 0, 0)
    );
    assert_eq!((stats.loaded, stats.canceled), (2, 18));
}

#[test]
fn a_storage_that_closes_fails_its_loads() {
    let mut test = Pumped::new(20, 1000, |plugin| plugin.in_flight(1 << 20, 4));
    let handles = test.load(20);
    test.storage.close(Duration::from_secs(1));
    for handle in &handles {
        assert!(run_until_settled(&mut test.app, handle).is_failed());
    }
    assert_eq!(test.stats().failed, 20);
}

#[test]
fn handles_are_dropped_while_their_reads_complete() {
    let files = (0..100).map(|nth| (format!("{nth}.whole"), vec![nth as u8; 5000]));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("files.mpak");
    write_package(&path, &files.collect());
    let mut app = app(open(&path).in_flight(50_000, 16), false);
    let mut random = fastrand::Rng::with_seed(1);
    let mut handles = Vec::new();
    for _ in 0..200 {
        let names = (0..30).map(|_| format!("{}.whole", random.u8(..100)));
        handles.extend(names.map(|name| load(&app, &name)).collect::<Vec<_>>());
        for handle in &handles {
            let millstream = app.world().resource::<Millstream>();
            let priority = Priority::ALL[random.usize(..4)];
            millstream.reprioritize(handle.clone(), priority, None);
        }
        random.shuffle(&mut handles);
        handles.truncate(20);
        app.update();
    }
    run_until(&mut app, |app| {
        let stats = app.world().resource::<Millstream>().load_stats();
        handles.iter().all(|handle| bytes(app, handle).is_some())
            && (stats.waiting, stats.in_flight, stats.bytes_in_flight) == (0, 0, 0)
    });
    let stats = app.world().resource::<Millstream>().load_stats();
    assert!(stats.canceled > 0, "{stats:?}");
}

#[test]
fn a_file_that_changes_before_its_read_is_looked_up_again() {
    let mut test = Pumped::new(1, 1000, |plugin| plugin.in_flight(1 << 20, 1));
    let path = |name: &str| test.folder.path().join("loose").join(name);
    fs::write(path("a.whole"), b"before").expect("written");
    fs::write(path("b.pieces"), b"before").expect("written");
    let (a, b) = (path("a.whole"), path("b.pieces"));
    let _first = test.load(1);
    let handles = ["a.whole", "b.pieces"].map(|name| load(&test.app, name));
    run_until(&mut test.app, |app| {
        app.world().resource::<Millstream>().load_stats().waiting == 2
    });
    for path in [a, b] {
        fs::write(path, b"changed since").expect("written");
    }
    // Another lookup notices it, and closes the file for which the first reads wait.
    let server = test.app.world().resource::<AssetServer>().clone();
    for name in ["a.whole", "b.pieces"] {
        server.reload(name);
    }
    run_until(&mut test.app, |app| {
        app.world().resource::<Millstream>().load_stats().waiting == 4
    });
    test.run_until(|app| app.world().resource::<Millstream>().load_stats().waiting == 0);
    let is_new = |app: &App, handle| bytes(app, handle) == Some(b"changed since");
    test.run_until(|app| handles.iter().all(|handle| is_new(app, handle)));
    assert!(test.stats().failed > 0, "the first reads were stale");
    assert!(
        handles
            .iter()
            .all(|handle| state(&test.app, handle).is_loaded())
    );
}
