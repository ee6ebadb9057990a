//! Hot reload of loose files.

use super::*;

#[test]
fn changed_files_and_metadata_are_loaded_again() {
    let files = BTreeMap::from([
        ("a.whole".to_owned(), b"before".to_vec()),
        ("b.whole".to_owned(), b"in the package".to_vec()),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let (package, loose) = (folder.path().join("a.mpak"), folder.path().join("loose"));
    write_package(&package, &files);
    fs::create_dir(&loose).expect("created");
    let plugin = MillstreamAssetPlugin::open([&package, &loose]).expect("opened");
    let mut app = app(plugin, true);
    let (a, b) = (load(&app, "a.whole"), load(&app, "b.whole"));
    run_until(&mut app, |app| {
        bytes(app, &a) == Some(b"before") && bytes(app, &b) == Some(b"in the package")
    });

    // A loose file over a packed one, then another content, then none.
    fs::write(loose.join("a.whole"), b"loose").expect("written");
    run_until(&mut app, |app| bytes(app, &a) == Some(b"loose"));
    fs::write(loose.join("a.whole"), b"loose and changed").expect("written");
    run_until(&mut app, |app| bytes(app, &a) == Some(b"loose and changed"));
    let meta = format!(
        "(meta_format_version: \"1.0\", asset: Load(loader: \"{}\", settings: ()))",
        <Loader as TypePath>::type_path()
    );
    let started = |app: &App| {
        let diagnostics = app.world().resource::<DiagnosticsStore>();
        let count = diagnostics.get_measurement(&AssetServer::STARTED_LOAD_COUNT);
        count.expect("measured").value
    };
    let before = started(&app);
    fs::write(loose.join("b.whole.meta"), meta).expect("written");
    run_until(&mut app, |app| started(app) > before);
    run_until(&mut app, |app| state(app, &b).is_loaded());
    assert_eq!(bytes(&app, &b), Some(&b"in the package"[..]));
}
