//! The same files through netpbm, where it is installed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{Layout, text_of};
use millstream_pnm::{Format, Header, Image, Samples, TupleType, decode, encode};

fn images() -> Vec<Image> {
    let mut random = fastrand::Rng::with_seed(5);
    let mut images = Vec::new();
    for format in Format::ALL {
        for maxval in [255u16, 65_535, 1, 100] {
            let tuple_type = match format.channels() {
                Some(3) => TupleType::Rgb,
                Some(_) if format.is_bilevel() => TupleType::BlackAndWhite,
                Some(_) => TupleType::Grayscale,
                None => TupleType::RgbAlpha,
            };
            let maxval = if format.is_bilevel() { 1 } else { maxval };
            let (width, height) = (random.u32(1..40), random.u32(1..20));
            let channels = format.channels().unwrap_or(4);
            let count = (width * height * channels) as usize;
            let samples = if maxval < 256 {
                Samples::U8((0..count).map(|_| random.u8(..=maxval as u8)).collect())
            } else {
                Samples::U16((0..count).map(|_| random.u16(..=maxval)).collect())
            };
            let header = Header {
                format,
                width,
                height,
                channels,
                maxval,
                tuple_type,
            };
            images.push(Image { header, samples });
        }
    }
    images
}

/// What a netpbm program makes of a file: the output, or `None` if it refuses.
fn netpbm(program: &str, words: &[&str], file: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is installed");
    let mut stdin = child.stdin.take().expect("a pipe");
    let file = file.to_vec();
    let feeder = std::thread::spawn(move || {
        // It may refuse the file before it has read all of it.
        let _ = stdin.write_all(&file);
    });
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("feeding does not panic");
    output.status.success().then_some(output.stdout)
}

fn has_netpbm() -> bool {
    let found = Command::new("pamtopam")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        println!("SKIP: netpbm is not installed");
    }
    found
}

#[test]
fn netpbm_reads_what_we_write_and_writes_what_we_read() {
    if !has_netpbm() {
        return;
    }
    for image in images() {
        let mut bytes = Vec::new();
        encode(&image, &mut bytes).unwrap();
        let shown = &image.header;
        let pam = netpbm("pamtopam", &[], &bytes).unwrap_or_else(|| panic!("refused: {shown:?}"));
        let theirs = decode(&pam).unwrap_or_else(|error| panic!("{shown:?}: {error}"));
        assert_eq!(theirs.samples, image.samples, "{shown:?}");
        assert_eq!(theirs.header.maxval, image.header.maxval);
    }
}

#[test]
fn netpbm_and_we_agree_on_headers_comments_and_wrong_samples() {
    if !has_netpbm() {
        return;
    }
    let samples: Vec<u16> = (0..200).map(|index| index * 7 % 251).collect();
    let mut files: Vec<Vec<u8>> = [
        &b"P2#c\n2 1#d\n9 3 4\n"[..],
        b"P2 2 1 9#c\r3 4\n",
        b"P2 2 1 0009 0003 4 ",
        b"P5 2 1 255#c\nab",
        b"P5 2 1 255 #a",
        b"P6 1 1 255\n\n\n\n",
        b"P1 4 1 0110\n",
        b"P1#c\n2 2\n01#d\n1 0 ",
        b"P4 10 1\n\xFF\xC0",
        b"P2 2 1 9 3 10\n",
        b"P2 2 1 9 3 x\n",
        b"P2 2 1 9 3\n",
        b"P2 0 1 9 3\n",
        b"P2 2 1 0 0 0\n",
        b"P2 2 1 65536 0 0\n",
        b"P1 2 1 02\n",
        b"P5 2 1 255\na",
        b"P5 2 1 100\nab\x7F",
        b"P5 2 1 98\nac",
        b"P8 2 1 98\nac",
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nENDHDR\na",
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nENDHDR\na",
        b"P7\n#c\nWIDTH 1\nHEIGHT 1\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\nabc",
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\na",
    ]
    .iter()
    .map(|file| file.to_vec())
    .collect();
    for layout in [Layout::Spaces, Layout::Lines, Layout::Comments] {
        let mut text = text_of(255, &samples, layout, 11);
        // Netpbm wants something behind the last number; we do not.
        text.push(b'\n');
        files.push(text);
    }
    for file in files {
        let shown = file[..file.len().min(40)].escape_ascii().to_string();
        let ours = decode(&file)
            .ok()
            .map(|image| image.samples.as_bytes().to_vec());
        let theirs = netpbm("pamtopam", &[], &file)
            .and_then(|pam| decode(&pam).ok())
            .map(|image| image.samples.as_bytes().to_vec());
        assert_eq!(ours, theirs, "{shown}");
    }
}
