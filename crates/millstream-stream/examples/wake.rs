//! temporary
use std::time::*;
fn main() {
    let dir = std::path::PathBuf::from("/tmp/hotdir");
    std::fs::create_dir_all(&dir).unwrap();
    let p = dir.join("read");
    std::fs::write(&p, vec![1u8; 1200000]).unwrap();
    let storage = std::sync::Arc::new(
        {
            let mut o = millstream::StorageOptions::default();
            if std::env::args().nth(1).is_some() {
                o.threads.engine.affinity = vec![1];
                o.threads.worker.affinity = vec![1];
            }
            millstream::Storage::new(o)
        }
        .unwrap(),
    );
    let q = storage.queue(Default::default()).unwrap();
    let mut a = vec![];
    let mut b = vec![];
    let mut c = vec![];
    let mut d = vec![];
    let mut e = vec![];
    for i in 0..200 {
        let t = Instant::now();
        while t.elapsed() < Duration::from_micros(if i % 2 == 0 { 100 } else { 1000 }) {}
        let t = Instant::now();
        let f = storage.open_with(&p, Default::default());
        a.push(t.elapsed());
        let t = Instant::now();
        let o = storage.opened(f);
        b.push(t.elapsed());
        let t = Instant::now();
        o.wait().unwrap();
        c.push(t.elapsed());
        let t = Instant::now();
        let r = q
            .enqueue(millstream::Request::read(f, 0, 65536 - 4096))
            .unwrap();
        q.submit();
        d.push(t.elapsed());
        let t = Instant::now();
        r.wait().unwrap();
        e.push(t.elapsed());
        q.enqueue_close(f);
        q.submit();
    }
    for (n, mut v) in [
        ("open_with", a),
        ("opened", b),
        ("wait", c),
        ("enqueue+submit", d),
        ("wait read", e),
    ] {
        v.sort();
        println!("{n:16} p10 {:?} p50 {:?} p90 {:?}", v[20], v[100], v[180]);
    }
}
