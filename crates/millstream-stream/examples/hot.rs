//! temporary
#![allow(unsafe_code)]
use millstream_stream::*;
use std::hint::black_box;
use std::time::Instant;
#[inline(never)]
fn w<S: WriteStream>(s: &mut S, n: usize) {
    for i in 0..n {
        s.write_f32_le(i as f32).unwrap();
        s.write_f32_le(2.0).unwrap();
        s.write_f32_le(3.0).unwrap();
    }
}
#[inline(never)]
fn r<S: ReadStream>(s: &mut S, n: usize) -> f32 {
    let mut a = 0u32;
    for _ in 0..n {
        a ^= s.read_u32_le().unwrap();
        a ^= s.read_u32_le().unwrap();
        a ^= s.read_u32_le().unwrap();
    }
    a as f32
}
fn t(name: &str, mut f: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..60 {
        let i = Instant::now();
        f();
        best = best.min(i.elapsed().as_secs_f64());
    }
    println!("{name:30} {:.3} ns", best * 1e9 / 300000.0);
}
fn main() {
    let n = 100_000;
    let mut m = MemoryStream::new();
    t("fresh write", || {
        let mut m = MemoryStream::new();
        w(&mut m, n);
        black_box(m.position());
    });
    t("vec extend fresh", || {
        let mut m: Vec<u8> = Vec::new();
        for i in 0..n {
            for f in [i as f32, 2.0, 3.0] {
                m.extend_from_slice(&f.to_le_bytes());
            }
        }
        black_box(m.len());
    });
    t("write", || {
        m.clear();
        w(&mut m, n);
    });
    t("read", || {
        m.seek_to(0).unwrap();
        black_box(r(&mut m, n));
    });
    t("write view", || {
        m.clear();
        let mut v = StreamView::new(&mut m, 0, 1_200_000, Mode::Write).unwrap();
        w(&mut v, n);
    });
    t("read view", || {
        let mut v = StreamView::new(&mut m, 0, 1_200_000, Mode::Read).unwrap();
        black_box(r(&mut v, n));
    });
    t("read view of view", || {
        let v = StreamView::new(&mut m, 0, 1_200_000, Mode::Read).unwrap();
        let mut v = StreamView::new(v, 0, 1_200_000, Mode::Read).unwrap();
        black_box(r(&mut v, n));
    });
    let s = Shared::new(std::mem::take(&mut m));
    t("read view shared", || {
        let mut v = StreamView::new(s.clone(), 0, 1_200_000, Mode::Read).unwrap();
        black_box(r(&mut v, n));
    });
    t("write view shared", || {
        let mut v = StreamView::new(s.clone(), 0, 1_200_000, Mode::Write).unwrap();
        w(&mut v, n);
    });
    t("cursor write", || {
        let mut v = vec![0u8; 1_200_000];
        let mut c = std::io::Cursor::new(&mut v[..]);
        use std::io::Write;
        for i in 0..n {
            for f in [i as f32, 2.0, 3.0] {
                c.write_all(&f.to_le_bytes()).unwrap();
            }
        }
    });
    let v = s.with(|m| m.as_slice().to_vec());
    t("cursor read", || {
        let mut c = std::io::Cursor::new(&v[..]);
        use std::io::Read;
        let mut a = 0u32;
        for _ in 0..3 * n {
            let mut b = [0; 4];
            c.read_exact(&mut b).unwrap();
            a ^= u32::from_le_bytes(b);
        }
        black_box(a);
    });
    t("memcpy", || {
        let mut d = vec![0u8; 1_200_000];
        d.copy_from_slice(&v);
        black_box(&d);
    });

    use std::io::{Read, Write};
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or("/tmp/hotdir".into()));
    std::fs::create_dir_all(&dir).unwrap();
    let p = dir.join("read");
    std::fs::write(&p, &v).unwrap();
    let storage = std::sync::Arc::new(millstream::Storage::new(Default::default()).unwrap());
    let st = Streams::new(&storage).unwrap();
    let cpu = || {
        let mut t = unsafe { std::mem::zeroed::<libc::timespec>() };
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
        t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
    };
    let tm = |name: &str, f: &mut dyn FnMut()| {
        let mut w = vec![];
        let mut cc = vec![];
        for _ in 0..40 {
            let c = cpu();
            let i = Instant::now();
            f();
            w.push(i.elapsed().as_secs_f64());
            cc.push(cpu() - c);
        }
        w.sort_by(f64::total_cmp);
        cc.sort_by(f64::total_cmp);
        println!(
            "{name:30} wall {:.3} min {:.3} cpu {:.3} ns",
            w[20] * 1e9 / 3e5,
            w[0] * 1e9 / 3e5,
            cc[20] * 1e9 / 3e5
        );
    };
    let mut dst = vec![0u8; 1_200_000];
    for what in ["read", "write"] {
        for _ in 0..3 {
            storage.start_trace();
            let t0 = Instant::now();
            if what == "read" {
                let mut s = st.open(&p).unwrap();
                let a = t0.elapsed();
                black_box(r(&mut s, n));
                let b = t0.elapsed();
                drop(s);
                println!("{what} open {a:?} read {b:?} drop {:?}", t0.elapsed());
            } else {
                let q = dir.join("w");
                let _ = std::fs::remove_file(&q);
                let t0 = Instant::now();
                let mut s = st.create(&q).unwrap();
                let a = t0.elapsed();
                w(&mut s, n);
                let b = t0.elapsed();
                s.close().unwrap();
                println!("{what} open {a:?} write {b:?} close {:?}", t0.elapsed());
            }
            let t = storage.take_trace();
            for e in &t.events {
                if let millstream::trace::EventKind::Span {
                    lane,
                    duration_ns,
                    bytes,
                    offset,
                } = e.kind
                {
                    println!(
                        "   {lane:?} start {} dur {} off {offset} len {bytes}",
                        e.start_ns / 1000,
                        duration_ns / 1000
                    );
                }
            }
        }
    }
    if std::env::args().nth(2).is_none() {
        tm("one read", &mut || {
            let mut f = std::fs::File::open(&p).unwrap();
            f.read_exact(&mut dst).unwrap();
        });
        tm("open only", &mut || {
            let s = st.open(&p).unwrap();
            black_box(&s);
        });
        tm("stream read 4", &mut || {
            let mut s = st.open(&p).unwrap();
            black_box(r(&mut s, n));
        });
        tm("stream read 4 view", &mut || {
            let s = st.open(&p).unwrap();
            let mut s = StreamView::new(s, 0, 1_200_000, Mode::Read).unwrap();
            black_box(r(&mut s, n));
        });
        tm("stream read bulk", &mut || {
            let mut s = st.open(&p).unwrap();
            s.read_slice(&mut dst).unwrap();
        });
        tm("bufreader 4", &mut || {
            let mut c = std::io::BufReader::new(std::fs::File::open(&p).unwrap());
            let mut a = 0u32;
            for _ in 0..3 * n {
                let mut b = [0; 4];
                c.read_exact(&mut b).unwrap();
                a ^= u32::from_le_bytes(b);
            }
            black_box(a);
        });
        let q = dir.join("w");
        for new in [true, false] {
            println!("new {new}");
            let prep = || {
                if new {
                    let _ = std::fs::remove_file(&q);
                }
            };
            tm("remove only", &mut || {
                prep();
            });
            tm("one write", &mut || {
                prep();
                let mut f = std::fs::File::create(&q).unwrap();
                f.write_all(&v).unwrap();
            });
            tm("bufwriter 4", &mut || {
                prep();
                let mut f = std::io::BufWriter::new(std::fs::File::create(&q).unwrap());
                for i in 0..n {
                    for x in [i as f32, 2.0, 3.0] {
                        f.write_all(&x.to_le_bytes()).unwrap();
                    }
                }
                f.flush().unwrap();
            });
            tm("stream write 4", &mut || {
                prep();
                let mut s = st.create(&q).unwrap();
                w(&mut s, n);
                s.close().unwrap();
            });
            tm("stream write bulk", &mut || {
                prep();
                let mut s = st.create(&q).unwrap();
                s.write_slice(&v).unwrap();
                s.close().unwrap();
            });
        }
    }
}
