//! What a hostile file of at most 64 KiB costs: in every command the peak of resident memory stays
//! within 64 MiB of what a minimal sound file takes (a zstd stream may ask for its window beside
//! that), and nothing panics or hangs.
//!
//! # Safety
//! `wait4` is given a child of this process for which nothing else waits.

#![expect(unsafe_code, reason = "the peak memory of a child comes with wait4")]

use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::{expect_quiet_success, millstream, run};
use millstream_testing::{PATIENCE, wait_for_end};
use rustix::process::Pid;
use serde_json::json;

const FILE_BYTES_MAX: u64 = 64 << 10;

/// Beyond what a minimal file takes.
const MEMORY_KIB_MAX: i64 = 64 << 10;

/// The longest window of zstd.
const WINDOW_KIB_MAX: i64 = 128 << 10;

/// The allocator's slack, and how one run differs from the next.
const NOISE_KIB: i64 = 6 << 10;

struct Workshop {
    folder: tempfile::TempDir,
    /// Processor time of the longest run, in seconds.
    longest: Cell<f64>,
}

impl Workshop {
    fn new() -> Workshop {
        Workshop {
            folder: tempfile::tempdir().expect("a folder"),
            longest: Cell::new(0.0),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }

    /// Zeros that are in no memory of this process: what it holds when it starts a child counts as
    /// the child's.
    fn zeros(&self, name: &str, bytes: u64) {
        self.put(name, "");
        let file = File::options().write(true).open(self.path(name));
        file.expect("opened").set_len(bytes).expect("made longer");
    }

    /// Runs the program; its peak of resident memory in KiB. Prints the processor time of the
    /// longest run so far.
    #[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
    fn peak(&self, words: &[&str]) -> i64 {
        let errors = self.path("errors");
        let mut command = millstream(words);
        command
            .current_dir(self.folder.path())
            .stdout(Stdio::null());
        command.stderr(File::create(&errors).expect("created"));
        let child = command.spawn().expect("the program starts");
        let id = Pid::from_child(&child);
        let has_ended = wait_for_end(id, PATIENCE);
        let id = id.as_raw_nonzero().get();
        let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: a child of ours, waited for here alone; both places live through the call.
        let waited = unsafe {
            libc::kill(id, libc::SIGKILL);
            libc::wait4(id, &mut status, 0, usage.as_mut_ptr())
        };
        assert!(has_ended, "{words:?} hangs");
        assert_eq!(waited, id, "{words:?}");
        let errors = std::fs::read_to_string(&errors).expect("UTF-8");
        let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        assert!(
            matches!(code, Some(0 | 1)),
            "{words:?}: {status:x}: {errors}"
        );
        assert!(!errors.contains("panicked"), "{words:?}: {errors}");
        // SAFETY: all zeros are a value, which the call replaced.
        let usage = unsafe { usage.assume_init() };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        let processor = seconds(usage.ru_utime) + seconds(usage.ru_stime);
        if processor > self.longest.get() {
            self.longest.set(processor);
            println!("{processor:.2} s of processor: {words:?}");
        }
        usage.ru_maxrss
    }

    /// Runs a command on a minimal file and on hostile ones, which stand for `FILE`.
    fn compare(&self, command: &str, minimal: &str, hostile: &[&str], extra_kib: i64) {
        let peak = |file: &str| {
            let len = std::fs::metadata(self.path(file))
                .expect("it is there")
                .len();
            assert!(len <= FILE_BYTES_MAX, "{file}: {len} bytes");
            let words: Vec<&str> = command.split(' ').collect();
            let words = words
                .iter()
                .map(|word| if *word == "FILE" { file } else { word });
            self.peak(&words.collect::<Vec<_>>())
        };
        let most = peak(minimal) + MEMORY_KIB_MAX + NOISE_KIB + extra_kib;
        for file in hostile {
            let peak = peak(file);
            assert!(
                peak <= most,
                "{command}: {file}: {peak} KiB, more than {most}"
            );
        }
    }
}

/// Damages a file in a hundred places from a seed on.
fn damaged(workshop: &Workshop, file: &str, name: &str, seed: u64) {
    let mut bytes = std::fs::read(workshop.path(file)).expect("read");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..100 {
        let at = random.usize(..bytes.len());
        bytes[at] = [0, 1, 0x7f, 0x80, 0xff, random.u8(..)][random.usize(..6)];
    }
    workshop.put(name, bytes);
}

#[test]
fn packages() {
    let workshop = Workshop::new();
    workshop.put("minimal/a", "a");
    workshop.zeros("long/zeros", 160 << 20);
    for nth in 0..40 {
        workshop.zeros(&format!("many/{nth}"), 8 << 20);
    }
    for nth in 0..12 {
        workshop.put(
            &format!("names/{}/{nth}", "deep/".repeat(600)),
            nth.to_string(),
        );
    }
    let codec = if cfg!(feature = "c") { "zstd" } else { "zlib" };
    for folder in ["minimal", "long", "many", "names"] {
        let (root, package) = (
            workshop.text(folder),
            workshop.text(&format!("{folder}.mpak")),
        );
        let words = [
            "pack", &root, "-o", &package, "--codec", codec, "--block", "1M",
        ];
        expect_quiet_success(&run(&mut millstream(&words)));
    }
    let mut hostile = vec!["many.mpak", "names.mpak"];
    // As zlib has it, each MiB of zeros takes a KiB.
    if cfg!(feature = "c") {
        hostile.push("long.mpak");
    }
    for (seed, name) in (1..).zip(["d1.mpak", "d2.mpak", "d3.mpak", "d4.mpak"]) {
        damaged(&workshop, "many.mpak", name, seed);
        hostile.push(name);
    }
    let commands = [
        "load FILE --max-bytes 16M",
        "load --hash FILE",
        "verify FILE",
        "list --json FILE",
        "extract FILE out --max-bytes 16M",
        "cat FILE zeros",
        "diff minimal.mpak FILE -o patch.mpak",
        "diff FILE minimal.mpak",
        "scene FILE",
    ];
    for command in commands {
        workshop.compare(command, "minimal.mpak", &hostile, 0);
    }
}

#[test]
fn streams() {
    let workshop = Workshop::new();
    workshop.put("minimal", "a");
    workshop.zeros("long", 60 << 20);
    workshop.zeros("short", 15 << 20);
    for codec in crate::common::CODECS {
        // The others make more of a byte.
        let raw = if ["lz4", "gdeflate"].contains(codec) {
            "short"
        } else {
            "long"
        };
        for (from, to) in [("minimal", "minimal"), (raw, "bomb")] {
            let (from, to) = (workshop.text(from), workshop.text(&format!("{to}.{codec}")));
            let words = ["compress", "--codec", codec, &from, &to];
            expect_quiet_success(&run(&mut millstream(&words)));
        }
        let (minimal, bomb) = (format!("minimal.{codec}"), format!("bomb.{codec}"));
        damaged(&workshop, &bomb, "damaged", 1);
        let window = if *codec == "zstd" { WINDOW_KIB_MAX } else { 0 };
        let command = format!("decompress --codec {codec} FILE out.raw");
        workshop.compare(&command, &minimal, &[&bomb, "damaged"], window);
    }
}

#[test]
fn images() {
    let workshop = Workshop::new();
    workshop.put("minimal", "P5 1 1 255\n\0");
    let heads = [
        "P1 60000 60000\n",
        "P2 2147483647 1 65535\n",
        "P3 1 2147483647 255\n",
        "P4 2147483647 2147483647\n",
        "P4 700 700\n",
        "P5 4294967295 4294967295 1\n",
        "P6 60000 60000 255\n",
        "P7\nWIDTH 30000\nHEIGHT 30000\nDEPTH 65535\nMAXVAL 65535\nENDHDR\n",
    ];
    let mut names = Vec::new();
    for (nth, head) in heads.iter().enumerate() {
        for fill in [b'0', b' ', b'#', 0xff] {
            let name = format!("{nth}-{fill}");
            let mut bytes = head.as_bytes().to_vec();
            bytes.resize(62 << 10, fill);
            workshop.put(&name, bytes);
            names.push(name);
        }
    }
    let hostile: Vec<&str> = names.iter().map(String::as_str).collect();
    workshop.compare("decode FILE out.raw", "minimal", &hostile, 0);
}

/// A PNG whose pixels are all zero.
fn png(workshop: &Workshop, name: &str, side: u32, depth: u8, color: u8, row_bytes: u64) {
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let body = [&kind[..], data].concat();
        let crc = body.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
            })
        });
        let len = (data.len() as u32).to_be_bytes();
        [&len, &body[..], &(!crc).to_be_bytes()].concat()
    };
    workshop.zeros("rows", u64::from(side) * (row_bytes + 1));
    let (rows, pressed) = (workshop.text("rows"), workshop.text("pressed"));
    let words = [
        "compress", "--codec", "zlib", "--level", "9", &rows, &pressed,
    ];
    expect_quiet_success(&run(&mut millstream(&words)));
    let side = side.to_be_bytes();
    let head = [&side[..], &side, &[depth, color, 0, 0, 0]].concat();
    let data = std::fs::read(workshop.path("pressed")).expect("read");
    let parts = [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &head),
        chunk(b"IDAT", &data),
        chunk(b"IEND", b""),
    ];
    workshop.put(name, parts.concat());
}

/// The header of a DDS of one level, which the bytes of the file cannot be.
fn dds() -> Vec<u8> {
    let mut words = [0_u32; 32];
    words[0] = u32::from_le_bytes(*b"DDS ");
    (words[1], words[2], words[3], words[4]) = (124, 0x1007, 8192, 8192);
    (words[19], words[20]) = (32, 4);
    words[21] = u32::from_le_bytes(*b"DXT1");
    words[27] = 0x1000;
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn jpeg_segment(kind: u8, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u16 + 2).to_be_bytes();
    [&[0xff, kind], &len[..], data].concat()
}

/// A JPEG of one grey, which is decoded in one pass or in several. In either every coefficient of a
/// block is one bit.
fn jpeg(side: u16, progressive: bool) -> Vec<u8> {
    let side_bytes = side.to_be_bytes();
    let frame = [&[8], &side_bytes[..], &side_bytes, &[1, 1, 0x11, 0]].concat();
    // One symbol of one bit: no difference, or the end of the block.
    let symbol = |table: u8| [&[table, 1][..], &[0; 15], &[0]].concat();
    let (kind, last, bits) = match progressive {
        true => (0xc2, 0, 1),
        false => (0xc0, 63, 2),
    };
    let blocks = usize::from(side).div_ceil(8).pow(2);
    let parts = [
        vec![0xff, 0xd8],
        jpeg_segment(0xdb, &[&[0][..], &[1; 64]].concat()),
        jpeg_segment(kind, &frame),
        jpeg_segment(0xc4, &symbol(0)),
        jpeg_segment(0xc4, &symbol(0x10)),
        jpeg_segment(0xda, &[1, 1, 0, 0, last, 0]),
        vec![0; (blocks * bits).div_ceil(8)],
        vec![0xff, 0xd9],
    ];
    parts.concat()
}

/// A lossless WebP of one color, whose pixels take no bits.
fn webp(side: u32, alpha: bool) -> Vec<u8> {
    let (mut bits, mut at) = (vec![0u8; 16], 0);
    let mut put = |value: u32, count: u32| {
        for bit in 0..count {
            bits[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
            at += 1;
        }
    };
    put(0x2f, 8);
    put(side - 1, 14);
    put(side - 1, 14);
    put(u32::from(alpha), 1);
    // The version, no transform, no cache of colors, one group of codes.
    put(0, 3 + 1 + 1 + 1);
    for _ in 0..5 {
        // A code of one symbol of one bit: 0.
        put(0b0001, 4);
    }
    let chunk = [b"WEBPVP8L", &(bits.len() as u32).to_le_bytes()[..], &bits].concat();
    [b"RIFF", &(chunk.len() as u32).to_le_bytes()[..], &chunk].concat()
}

/// JPEG in several passes and WebP are decoded with memory beside the image, which counts.
#[test]
fn images_of_codecs_with_memory_of_their_own() {
    let workshop = Workshop::new();
    let scene = |image: &str| {
        let scene = json!({"asset": {"version": "2.0"}, "images": [{"uri": image}]});
        let name = format!("{image}.gltf");
        // With it and an image of few bytes, a scene may take 48 MiB.
        workshop.put(&name, scene.to_string() + &" ".repeat(43_000));
        name
    };
    let images = [
        ("plain.jpg", jpeg(2000, false), jpeg(1, false), true),
        ("passes.jpg", jpeg(2800, true), jpeg(1, true), true),
        ("passes-more.jpg", jpeg(4000, true), jpeg(1, true), false),
        ("alpha.webp", webp(3100, true), webp(1, true), true),
        ("alpha-more.webp", webp(4000, true), webp(1, true), false),
        ("opaque.webp", webp(2300, false), webp(1, false), true),
        ("opaque-more.webp", webp(4000, false), webp(1, false), false),
    ];
    for (name, bytes, minimal, loads) in images {
        workshop.put(name, bytes);
        workshop.put(&format!("minimal-{name}"), minimal);
        let (file, minimal) = (scene(name), scene(&format!("minimal-{name}")));
        let words = ["scene", "--json", &file];
        let shown = run(millstream(&words).current_dir(workshop.folder.path()));
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        assert_eq!(shown["images"], u64::from(loads), "{name}: {shown}");
        workshop.compare("scene FILE", &minimal, &[&file], 0);
    }
}

/// Images in the document itself, in a GLB, and in a package of many scenes.
fn one_file_of_many_images(workshop: &Workshop) {
    // 4 MiB each.
    png(workshop, "kilo.png", 1024, 8, 6, 4096);
    let image = std::fs::read(workshop.path("kilo.png")).expect("read");
    let minimal = std::fs::read(workshop.path("minimal.png")).expect("read");
    let document = |count: usize, images: serde_json::Value, bytes: usize| {
        let view =
            |nth: usize| json!({"buffer": 0, "byteOffset": nth * bytes, "byteLength": bytes});
        let views: Vec<_> = (0..count).map(view).collect();
        json!({"asset": {"version": "2.0"}, "images": images, "bufferViews": views,
            "buffers": [{"byteLength": count * bytes}]})
    };
    let glb = |name: &str, image: &[u8], count: usize| {
        let images = (0..count).map(|nth| json!({"bufferView": nth})).collect();
        let mut json = document(count, images, image.len())
            .to_string()
            .into_bytes();
        json.resize(json.len().next_multiple_of(4), b' ');
        let mut binary = image.repeat(count);
        binary.resize(binary.len().next_multiple_of(4), 0);
        let word = |word: usize| (word as u32).to_le_bytes().to_vec();
        let head = [
            b"glTF".to_vec(),
            word(2),
            word(28 + json.len() + binary.len()),
        ];
        let chunk = |kind: &[u8], data: Vec<u8>| [word(data.len()), kind.to_vec(), data].concat();
        let chunks = [chunk(b"JSON", json), chunk(b"BIN\0", binary)];
        workshop.put(name, [head.concat(), chunks.concat()].concat());
    };
    let count = (60 << 10) / (image.len() + 100);
    assert!(count >= 10, "{} bytes", image.len());
    for (folder, image, count) in [("minimal-glb", &minimal, 1), ("glb", &image, count)] {
        glb(&format!("{folder}/a.glb"), image, count);
    }
    let count = (60 << 10) / (image.len() * 4 / 3 + 100);
    let uri = format!("data:image/png;base64,{}", base64(&image));
    let images = json!(vec![json!({"uri": uri}); count]);
    let inside = json!({"asset": {"version": "2.0"}, "images": images});
    workshop.put("inside.gltf", inside.to_string());
    // No indices are stored, and 64 MiB of them declared.
    let indices = json!({"asset": {"version": "2.0"},
        "accessors": [{"count": 64 << 20, "componentType": 5121, "type": "SCALAR"},
            {"count": 3, "componentType": 5126, "type": "VEC3"}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 1}, "indices": 0}]}]});
    workshop.put("indices.gltf", indices.to_string());
    // JSON of which each value takes more memory than its text; and many scenes.
    let nodes = vec![json!({}); 1 << 20];
    workshop.put(
        "nodes/a.gltf",
        json!({"asset": {"version": "2.0"}, "nodes": nodes}).to_string(),
    );
    for nth in 0..40 {
        let scene = json!({"asset": {"version": "2.0"}, "images": [{"uri": "big.png"}]});
        workshop.put(&format!("scenes/{nth}.gltf"), scene.to_string());
    }
    png(workshop, "scenes/big.png", 3000, 8, 6, 12_000);
    for folder in ["minimal-glb", "nodes", "scenes"] {
        let package = format!("{folder}.mpak");
        let words = ["pack", folder, "-o", &package];
        expect_quiet_success(&run(millstream(&words).current_dir(workshop.folder.path())));
    }
    let minimal = "minimal-glb/a.glb";
    workshop.compare(
        "scene FILE",
        minimal,
        &["glb/a.glb", "inside.gltf", "indices.gltf"],
        0,
    );
    let packages = ["nodes.mpak", "scenes.mpak"];
    workshop.compare("scene FILE", "minimal-glb.mpak", &packages, 0);
    let words = |folder| ["pack", folder, "-o", "cooked.mpak", "--cook", "scene"];
    let most = workshop.peak(&words("minimal-glb")) + MEMORY_KIB_MAX + NOISE_KIB;
    let peak = workshop.peak(&words("glb"));
    assert!(peak <= most, "cooking: {peak} KiB, more than {most}");
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // Whole groups: what follows an image is ignored.
    let groups = bytes.chunks(3).flat_map(|group| {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(word >> shift & 63) as usize]))
    });
    groups.collect()
}

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA\
    WjR9awAAAABJRU5ErkJggg==";

/// The same scene under many names, whose images are a byte of one buffer each, or all the same.
#[test]
fn scenes_of_many_images_under_many_names() {
    let workshop = Workshop::new();
    let count = if cfg!(feature = "c") { 4000 } else { 1000 };
    let images: Vec<_> = (0..count).map(|nth| json!({"bufferView": nth})).collect();
    let scene = |view: &dyn Fn(u32) -> serde_json::Value, bytes: u32, base64: &str| {
        let uri = format!("data:application/octet-stream;base64,{base64}");
        json!({"asset": {"version": "2.0"}, "images": images,
            "bufferViews": (0..count).map(view).collect::<Vec<_>>(),
            "buffers": [{"byteLength": bytes, "uri": uri}]})
    };
    let byte = |nth| json!({"buffer": 0, "byteOffset": nth, "byteLength": 1});
    let whole = |_| json!({"buffer": 0, "byteLength": 70});
    let failing = scene(&byte, 6000, &"AAAA".repeat(2000));
    workshop.put("minimal/a.gltf", r#"{"asset": {"version": "2.0"}}"#);
    workshop.put("failing/0.gltf", failing.to_string());
    workshop.put("sound/0.gltf", scene(&whole, 70, PIXEL).to_string());
    for (folder, nth) in ["failing", "sound"]
        .into_iter()
        .flat_map(|folder| (1..150).map(move |nth| (folder, nth)))
    {
        let (first, other) = (format!("{folder}/0.gltf"), format!("{folder}/{nth}.gltf"));
        std::fs::hard_link(workshop.path(&first), workshop.path(&other)).expect("linked");
    }
    let codec = if cfg!(feature = "c") { "zstd" } else { "zlib" };
    for folder in ["minimal", "failing", "sound"] {
        let package = workshop.text(&format!("{folder}.mpak"));
        let root = workshop.text(folder);
        let words = ["pack", &root, "-o", &package, "--codec", codec];
        expect_quiet_success(&run(&mut millstream(&words)));
    }
    let hostile = ["failing.mpak", "sound.mpak"];
    for command in ["scene FILE", "scene --partial FILE", "scene --hash FILE"] {
        workshop.compare(command, "minimal.mpak", &hostile, 0);
    }
}

#[test]
fn scenes() {
    let workshop = Workshop::new();
    png(&workshop, "minimal.png", 1, 8, 6, 4);
    // As long as any image may be; four times and 128 times its rows once it is RGBA8.
    png(&workshop, "long.png", 4000, 8, 6, 16_000);
    png(&workshop, "grey.png", 7000, 8, 0, 7000);
    png(&workshop, "bits.png", 8000, 1, 0, 1000);
    workshop.put("big.dds", dds());
    let mut hostile = Vec::new();
    for image in ["minimal.png", "long.png", "grey.png", "bits.png", "big.dds"] {
        let scene = json!({"asset": {"version": "2.0"}, "images": [{"uri": image}]});
        let name = format!("{image}.gltf");
        workshop.put(&name, scene.to_string());
        hostile.push(name);
    }
    let chain = |nth: usize| json!({"children": [nth + 1]});
    let accessor = json!({"componentType": 5126, "count": 1_000_000, "type": "VEC4"});
    let buffers = vec![json!({"byteLength": 4_000_000_000_u32}); 1500];
    let asset = json!({"version": "2.0"});
    let documents = [
        json!({"asset": asset, "nodes": (0..2500).map(chain).collect::<Vec<_>>()}).to_string(),
        json!({"asset": asset, "accessors": vec![accessor; 900]}).to_string(),
        json!({"asset": asset, "buffers": buffers}).to_string(),
        json!({"asset": asset, "images": vec![json!({"uri": "long.png"}); 1500]}).to_string(),
        json!({"asset": asset, "extras": vec![json!([]); 20_000]}).to_string(),
        "[".repeat(60_000),
        "{\"a\":".repeat(12_000),
    ];
    for (nth, document) in documents.iter().enumerate() {
        let name = format!("{nth}.gltf");
        workshop.put(&name, document);
        hostile.push(name);
    }
    let hostile: Vec<&str> = hostile.iter().map(String::as_str).collect();
    workshop.compare("scene FILE", "minimal.png.gltf", &hostile, 0);
    // Each by itself is as long as any image may be.
    let images: Vec<_> = (0..20).map(|nth| format!("long-{nth}.png")).collect();
    for image in &images {
        std::fs::copy(workshop.path("long.png"), workshop.path(image)).expect("copied");
    }
    let images: Vec<_> = images.iter().map(|image| json!({"uri": image})).collect();
    let many = json!({"asset": asset, "images": images}).to_string();
    workshop.put("many.gltf", many);
    // All files together: those that are named may cost what they hold.
    workshop.compare(
        "scene --max-bytes 60M FILE",
        "minimal.png.gltf",
        &["many.gltf"],
        0,
    );
    one_file_of_many_images(&workshop);
    // What a cook decodes, and what describers look at.
    for name in ["minimal", "long", "grey", "bits"] {
        let folder = workshop.path(&format!("in-{name}"));
        std::fs::create_dir(&folder).expect("made");
        for end in ["png", "png.gltf"] {
            let file = format!("{name}.{end}");
            std::fs::copy(workshop.path(&file), folder.join(&file)).expect("copied");
        }
    }
    for cook in [
        "",
        " --cook scene",
        " --cook scene-levels",
        " --cook scene-bc7",
    ] {
        let peak = |name: &str| {
            let words = format!("pack in-{name} -o out.mpak{cook}");
            workshop.peak(&words.split(' ').collect::<Vec<_>>())
        };
        let most = peak("minimal") + MEMORY_KIB_MAX + NOISE_KIB;
        for name in ["long", "grey", "bits"] {
            let peak = peak(name);
            assert!(
                peak <= most,
                "pack{cook}: {name}: {peak} KiB, more than {most}"
            );
        }
    }
}

#[test]
fn traces() {
    let workshop = Workshop::new();
    workshop.put("in/a", "a");
    workshop.put("minimal.json", "{\"traceEvents\":[]}");
    let lanes = |nth: usize| {
        json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": nth,
            "args": {"name": (["queue", "device", "decode"][nth % 3])}})
    };
    let work = |nth: usize| {
        json!({"name": "a", "ph": "X", "ts": (nth as f64) * 1e12, "dur": 1e300, "pid": 1,
            "tid": nth % 9, "args": {"request": u64::MAX}})
    };
    let events = |count: usize, event: &dyn Fn(usize) -> serde_json::Value| {
        let events: Vec<_> = (0..3).map(lanes).chain((0..count).map(event)).collect();
        json!({"traceEvents": events}).to_string()
    };
    let documents = [
        events(550, &work),
        events(700, &lanes),
        events(20_000, &|_| json!({})),
        events(30_000, &|_| json!(0)),
        format!("{{\"traceEvents\":{}", "[".repeat(60_000)),
        format!("{{\"traceEvents\":\"{}", "\\u0000".repeat(10_000)),
    ];
    let mut names = Vec::new();
    for (nth, document) in documents.iter().enumerate() {
        let name = format!("{nth}.json");
        workshop.put(&name, document);
        names.push(name);
    }
    damaged(&workshop, "0.json", "damaged.json", 3);
    names.push(String::from("damaged.json"));
    let hostile: Vec<&str> = names.iter().map(String::as_str).collect();
    for command in [
        "report FILE -o out.html",
        "pack in -o out.mpak --order FILE",
    ] {
        workshop.compare(command, "minimal.json", &hostile, 0);
    }
}
