//! Headers, formats, several images in a file, and wrong files with the exact place of the error.

use std::io::Read as _;

use crate::common::{decode_in_pieces, decode_with, kernels};
use millstream_pnm::{
    Error, ErrorKind, Format, Header, Image, Kernel, Loader, Options, Samples, TupleType, decode,
    decode_into, encode, view,
};

fn samples(bytes: &[u8]) -> Vec<u8> {
    let image = decode(bytes).unwrap_or_else(|error| panic!("{}: {error}", bytes.escape_ascii()));
    image.samples.as_bytes().to_vec()
}

#[test]
fn headers_are_accepted_as_netpbm_does() {
    let right: &[(&[u8], &[u8])] = &[
        (b"P1 4 1 0110", &[1, 0, 0, 1]),
        (b"P1\n4 1\n0 1\t1#c 1\n0\n", &[1, 0, 0, 1]),
        (b"P2 2 1 9 3 4", &[3, 4]),
        (b"P2\n#a\n2#b\n#c\r1\x0B#d\n9\x0C3\t4\r", &[3, 4]),
        (b"P2#at once\n2 1 9 3#mid\n4", &[3, 4]),
        (b"P2 0002 01 0000255 000000000003 04", &[3, 4]),
        (b"P2 2 1 9 #c\n 3 4 # the end without a line", &[3, 4]),
        (b"P3 1 1 255\n255 0 7", &[255, 0, 7]),
        // The padding of the last byte counts for nothing.
        (
            b"P4 10 2\n\xFF\xFF\x00\x3F",
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        ),
        (b"P5 2 1 255 #a", b"#a"),
        (b"P5 2 1 255#a\n#b", b"#b"),
        (b"P5 2 1 255\n\n\n", b"\n\n"),
        (b"P6 1 1 255\rabc", b"abc"),
        (b"P5 2 1 100\nab \n\t", b"ab"),
        (
            b"P7\n# c\nWIDTH 1\nHEIGHT 1\n\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n#bcd",
            b"#bcd",
        ),
        (
            b"P7 \nMAXVAL 9\r\n DEPTH\t2 \nHEIGHT 1\nWIDTH 1\nENDHDR\r\n\x01\x09",
            &[1, 9],
        ),
    ];
    for (bytes, expected) in right {
        assert_eq!(samples(bytes), *expected, "{}", bytes.escape_ascii());
        for cut in 0..bytes.len() {
            let pieces = decode_in_pieces(Kernel::fastest(), bytes, &[cut]);
            assert_eq!(
                pieces.as_deref(),
                Ok(*expected),
                "{} at {cut}",
                bytes.escape_ascii()
            );
        }
    }
}

#[test]
fn wide_samples_are_words_of_this_machine() {
    let Samples::U16(samples) = decode(b"P5 2 1 256\n\x01\x00\x00\xFF").unwrap().samples else {
        panic!("a maximal value of 256 takes words");
    };
    assert_eq!(samples, [256, 255]);
    let image = decode(b"P2 2 1 65535 65535 1").unwrap();
    assert_eq!(image.samples, Samples::U16(vec![65_535, 1]));
}

#[test]
fn tuple_types_are_known() {
    let pam = |depth: u32, maxval: u32, lines: &str| {
        let header =
            format!("P7\nWIDTH 1\nHEIGHT 1\nDEPTH {depth}\nMAXVAL {maxval}\n{lines}ENDHDR\n");
        let mut bytes = header.into_bytes();
        bytes.resize(bytes.len() + depth as usize, 1);
        decode(&bytes).map(|image| image.header.tuple_type)
    };
    assert_eq!(
        pam(1, 1, "TUPLTYPE BLACKANDWHITE\n"),
        Ok(TupleType::BlackAndWhite)
    );
    assert_eq!(pam(4, 9, "TUPLTYPE RGB_ALPHA\n"), Ok(TupleType::RgbAlpha));
    assert_eq!(pam(5, 9, ""), Ok(TupleType::Other(String::new())));
    let two = pam(2, 9, "TUPLTYPE my own\nTUPLTYPE type \n");
    assert_eq!(two, Ok(TupleType::Other("my own type".into())));
    assert!(pam(2, 9, "TUPLTYPE RGB\n").is_err());
    assert!(pam(1, 9, "TUPLTYPE BLACKANDWHITE\n").is_err());
    assert!(pam(1, 9, "TUPLTYPE\n").is_err());
    assert!(pam(1, 9, "WIDTH 1\n").is_err());
}

/// All images of a file.
fn images(mut bytes: &[u8]) -> Result<Vec<Image>, Error> {
    let mut images = Vec::new();
    while !bytes.is_empty() {
        let mut image = Image::empty();
        let taken = decode_into(bytes, &Options::default(), &mut image)?;
        bytes = &bytes[taken..];
        images.push(image);
    }
    Ok(images)
}

#[test]
fn several_images_follow_one_another() {
    let bytes = b"P5 1 1 255\nx\n P2 1 1 9 5 # between\nP1 2 1 10P6 1 1 255\nabc";
    let found = images(bytes).unwrap();
    let found: Vec<&[u8]> = found.iter().map(|image| image.samples.as_bytes()).collect();
    assert_eq!(found, [&b"x"[..], &[5], &[0, 1], b"abc"]);
    let mut image = Image::empty();
    let taken = decode_into(bytes, &Options::default(), &mut image).unwrap();
    assert_eq!((taken, image.samples.as_bytes()), (14, &b"x"[..]));
}

/// pbm(5): "You can put any junk you want after the raster, if it starts with a white space
/// character."
#[test]
fn any_bytes_may_follow_a_plain_bitmap_and_white_space() {
    let bytes = b"P1 2 1 1 0\n# a comment\nnot (an image)\n";
    for kernel in kernels() {
        let image = decode_with(kernel, 1, bytes).expect("an image");
        assert_eq!(image.samples.as_bytes(), [0, 1]);
        for cut in 0..bytes.len() {
            let samples = decode_in_pieces(kernel, bytes, &[cut]).expect("an image");
            assert_eq!(samples, [0, 1], "cut at {cut}");
        }
    }
}

#[test]
fn with_first_only_all_that_follows_the_first_image_is_ignored() {
    let options = Options {
        first_only: true,
        ..Options::default()
    };
    let mut loader = Loader::new(options.clone());
    let (mut image, mut streamed) = (Image::empty(), Image::empty());
    let path = tempfile::NamedTempFile::new().expect("a file");
    let long = [b"P2 300 300 9\n", &b"7 ".repeat(90_000)[..], b"more"].concat();
    for (bytes, samples) in [
        (&b"P1 2 1\n101"[..], &[0, 1][..]),
        (b"P2 2 1 9\n3 4\n5", &[3, 4]),
        (b"P3 1 1 9 1 2 3 x", &[1, 2, 3]),
        (b"P4 3 1\n\xA0junk", &[0, 1, 0]),
        (b"P5 2 1 255\nab!", b"ab"),
        (b"P6 1 1 255\nabc\0\0\0\0", b"abc"),
        (&long, &[7; 90_000]),
    ] {
        std::fs::write(&path, bytes).expect("written");
        loader.load(&path, &mut image).expect("a file");
        let mut stream = bytes;
        loader
            .load_from(&mut stream, &mut streamed)
            .expect("a stream");
        for image in [&image, &streamed] {
            assert!(
                image.samples.as_bytes() == samples,
                "{}",
                bytes[..9].escape_ascii()
            );
        }
        decode_into(bytes, &options, &mut image).expect("bytes in memory");
        assert!(image.samples.as_bytes() == samples);
    }
}

/// File, and the error's words.
const WRONG: &[(&[u8], &str)] = &[
    (
        b"",
        "line 1, column 1 (offset 0): the bytes end before the image does",
    ),
    (
        b"P",
        "line 1, column 2 (offset 1): the bytes end before the image does",
    ),
    (b"Q3 1 1 9", "line 1, column 1 (offset 0): no PNM image"),
    (b"P0 1 1 9", "line 1, column 2 (offset 1): no PNM image"),
    (b"P8 1 1 9", "line 1, column 2 (offset 1): no PNM image"),
    (
        b"P31 1 9 0 0 0",
        "line 1, column 3 (offset 2): no PNM image",
    ),
    (b"P3\n1 1", "line 2, column 4 (offset 6): the bytes end"),
    (
        b"P3\n1 -1 9",
        "line 2, column 3 (offset 5): a byte in the header that is no number",
    ),
    (
        b"P3\n1x1 9",
        "line 2, column 2 (offset 4): a byte in the header that is no number",
    ),
    (
        b"P3 0 1 9 ",
        "line 1, column 5 (offset 4): width, height and depth are 1 at least",
    ),
    (
        b"P3 1 00 9 ",
        "line 1, column 8 (offset 7): width, height and depth are 1 at least",
    ),
    (
        b"P3 1 1 0 ",
        "line 1, column 9 (offset 8): the maximal value is from 1 to 65535",
    ),
    (
        b"P3 1 1 65536 ",
        "line 1, column 13 (offset 12): the maximal value is from 1 to 65535",
    ),
    (
        b"P3 2147483648 ",
        "line 1, column 13 (offset 12): a number in the header is above 2147483647",
    ),
    (
        b"P2 2 1 9 3 10",
        "line 1, column 12 (offset 11): a sample is larger than the maximal value",
    ),
    (
        b"P2 2 1 255\n3\n256\n",
        "line 3, column 1 (offset 13): a sample is larger",
    ),
    (
        b"P2 2 1 255\n3 0000099999999999999999999999",
        "line 2, column 3 (offset 13): a sample is larger",
    ),
    (
        b"P2 2 1 9\n3 -4",
        "line 2, column 3 (offset 11): a sign, where samples have none: '-'",
    ),
    (
        b"P2 2 1 9\n3,4",
        "line 2, column 2 (offset 10): a byte that is no digit, white space or comment: ','",
    ),
    (
        b"P2 2 1 9\n3 4x",
        "line 2, column 4 (offset 12): a byte that is no digit",
    ),
    (
        b"P2 2 1 9\n3 4\n5",
        "line 3, column 1 (offset 13): what follows the image is no image",
    ),
    (
        b"P2 2 1 9\n3 \xA0",
        "line 2, column 3 (offset 11): a byte that is no digit, white space or comment: '\\xa0'",
    ),
    (
        b"P2 2 1 9\n3",
        "line 2, column 2 (offset 10): the bytes end before the image does",
    ),
    (
        b"P2 2 1 9\n3 # 4",
        "line 2, column 6 (offset 14): the bytes end before the image does",
    ),
    (
        b"P2 2 1 9\n3 P2 1 1 9 4",
        "another image begins before the samples are all there",
    ),
    (
        b"P1 2 1\n2",
        "line 2, column 1 (offset 7): a digit that is neither 0 nor 1: '2'",
    ),
    (
        b"P1 2 1\n1",
        "line 2, column 2 (offset 8): the bytes end before the image does",
    ),
    (
        b"P1 2 1\n101",
        "line 2, column 3 (offset 9): what follows the image is no image",
    ),
    (
        b"P1 2 1\n10x y",
        "line 2, column 3 (offset 9): what follows the image is no image",
    ),
    (
        b"P5 2 1 255\na",
        "(offset 12): the bytes end before the image does",
    ),
    (
        b"P5 2 1 98\nac",
        "(offset 11): a sample is larger than the maximal value",
    ),
    (
        b"P5 2 1 255\nab!",
        "(offset 13): what follows the image is no image",
    ),
    (
        b"P5 1 1 300\n\x01\x2D",
        "(offset 11): a sample is larger than the maximal value",
    ),
    (
        b"P4 9 1\n\x00",
        "(offset 8): the bytes end before the image does",
    ),
    (
        b"P7\nWIDTH 1\nENDHDR\n",
        "line 3, column 7 (offset 17): the header has no DEPTH",
    ),
    (
        b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nENDHDR\n",
        "the header has no MAXVAL",
    ),
    (b"P7\nWIDTH 1x\n", "a line of the header has no number"),
    (
        b"P7\nHIGH 1\n",
        "an unknown line in the header; ENDHDR missing?",
    ),
    (b"P7 332\n", "no PNM image"),
];

#[test]
fn wrong_files_are_refused_with_the_exact_place() {
    for (bytes, words) in WRONG {
        for kernel in kernels() {
            let shown = bytes.escape_ascii();
            let error = decode_with(kernel, 1, bytes)
                .expect_err("a wrong file")
                .to_string();
            assert!(
                error.starts_with(words) || error.contains(words),
                "{shown}: {error}"
            );
            for cut in 0..bytes.len() {
                let cut_error = decode_in_pieces(kernel, bytes, &[cut])
                    .unwrap_err()
                    .to_string();
                assert_eq!(cut_error, error, "{shown} cut at {cut}");
                let cut_error = load_in_pieces(bytes, cut).unwrap_err().to_string();
                assert_eq!(cut_error, error, "{shown} as a stream, cut at {cut}");
            }
        }
    }
}

#[test]
fn a_hostile_header_allocates_nothing_to_speak_of() {
    for bytes in [
        &b"P3 2147483647 2147483647 255\n1 2 3"[..],
        b"P6 2147483647 2147483647 65535\nabc",
        b"P7\nWIDTH 2147483647\nHEIGHT 2147483647\nDEPTH 2147483647\nMAXVAL 1\nENDHDR\n",
        b"P4 2147483647 1000000\nabc",
        b"P1 2147483647 1000000\n010",
    ] {
        let error = decode(bytes).unwrap_err();
        let kinds = matches!(error.kind, ErrorKind::Truncated | ErrorKind::TooLarge);
        assert!(kinds, "{error}");
    }
    let options = Options {
        image_bytes_max: 10,
        ..Options::default()
    };
    let mut image = Image::empty();
    let error = decode_into(b"P5 11 1 255\nabcdefghijk", &options, &mut image).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::TooLarge));
    assert!(image.samples.is_empty() && image.header.width == 0);
}

/// Loads a stream that comes in two pieces and then ends.
fn load_in_pieces(bytes: &[u8], cut: usize) -> Result<Image, Error> {
    let mut image = Image::empty();
    let mut stream = bytes[..cut].chain(&bytes[cut..]);
    let loaded = Loader::new(Options::default()).load_from(&mut stream, &mut image);
    loaded.map(|()| image)
}

/// The head of an image of one row, and the bits of a pixel in the text "1 1 1 1 ".
const HEADS: [(&str, usize); 6] = [
    ("P2 # 255", 16),
    ("P2 # 300", 16),
    ("P4 #", 1),
    ("P5 # 255", 8),
    ("P5 # 98", 8),
    ("P6 # 65535", 48),
];

#[test]
fn files_give_what_memory_gives() {
    const WINDOW: usize = millstream_pnm::limits::WINDOW_BYTES;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    let (mut loader, mut image) = (Loader::new(Options::default()), Image::empty());
    for (head, pixel_bits) in HEADS {
        for bytes in [
            4076,
            4096,
            WINDOW - 20,
            WINDOW,
            WINDOW + 4096,
            4 * WINDOW + 9,
        ] {
            let head = head.replace('#', &format!("{} 1", bytes * 8 / pixel_bits)) + "\n";
            let whole = [head.as_bytes(), &b"1 ".repeat(bytes)[..bytes]].concat();
            let behind = |end: &[u8]| [&whole, end].concat();
            let (cut, mut spoiled) = (&whole[..whole.len() - 2], whole.clone());
            *spoiled.last_mut().expect("a byte") = b'x';
            for file in [
                &whole,
                cut,
                &spoiled,
                &behind(b" P1 1 1 0"),
                &behind(b"\n!"),
            ] {
                std::fs::write(&path, file).expect("written");
                let loaded = loader.load(&path, &mut image).map(|()| image.clone());
                assert!(loaded == decode(file), "{} bytes of {head}", file.len());
            }
        }
    }
}

#[test]
fn a_stream_without_end_is_read_no_further_than_its_image_needs() {
    // What is no image, what is too large, and an image with another behind it.
    for (begin, kind) in [
        (&b"no image"[..], Some(ErrorKind::NotPnm)),
        (b"P6 1 1 255\nabc!", Some(ErrorKind::TrailingBytes)),
        (b"P5 65535 65535 255\n", Some(ErrorKind::TooLarge)),
        (b"P2 1 1 9 7 P2 1 1 9 7", None),
    ] {
        let mut stream = begin.chain(std::io::repeat(b'7')).take(1 << 40);
        let mut image = Image::empty();
        let options = Options {
            image_bytes_max: 1 << 20,
            ..Options::default()
        };
        let loaded = Loader::new(options).load_from(&mut stream, &mut image);
        let error = loaded
            .err()
            .map(|error| std::mem::discriminant(&error.kind));
        assert_eq!(error, kind.as_ref().map(std::mem::discriminant));
        let read = (1 << 40) - stream.limit();
        assert!(
            read <= 1 << 20,
            "{read} bytes were read: {}",
            begin.escape_ascii()
        );
    }
}

#[test]
fn a_view_is_the_bytes_themselves() {
    let bytes = b"P6 1 2 255\nabcdefjunk";
    let found = view(bytes).unwrap().unwrap();
    assert_eq!(found.samples.as_ptr(), bytes[11..].as_ptr());
    assert_eq!(found.samples, b"abcdef");
    assert_eq!(view(b"P5 1 1 256\nab").unwrap(), None);
    assert_eq!(view(b"P2 1 1 25\n7").unwrap(), None);
    assert!(view(b"P5 1 1 255\n").is_err());
    assert_eq!(view(b"P5 2 1 98\nac").unwrap_err().offset, 11);
    assert!(view(b"P5 1").is_err());
}

/// What headers and wrong headers are made of.
const HEADER_BYTES: &[u8] = b"0123 \n#aWIDTH\xFF";

fn any_image(random: &mut fastrand::Rng) -> Image {
    let format = Format::ALL[random.usize(..Format::ALL.len())];
    let (width, height) = (random.u32(1..20), random.u32(1..9));
    let maxval = match format {
        _ if format.is_bilevel() => 1,
        _ if random.bool() => random.u16(1..=255),
        _ => random.u16(1..),
    };
    let channels = format.channels().unwrap_or_else(|| random.u32(1..6));
    let tuple_type = match format.channels() {
        Some(3) => TupleType::Rgb,
        Some(_) if format.is_bilevel() => TupleType::BlackAndWhite,
        Some(_) => TupleType::Grayscale,
        None => TupleType::Other("of a test".into()),
    };
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
    Image { header, samples }
}

#[test]
fn what_is_written_reads_back() {
    let mut random = millstream_testing::random();
    for _ in 0..256 {
        let count = random.usize(1..4);
        let written: Vec<Image> = (0..count).map(|_| any_image(&mut random)).collect();
        let mut bytes = Vec::new();
        for image in &written {
            encode(image, &mut bytes).unwrap();
        }
        let lines = bytes.split(|&byte| byte == b'\n');
        if written.iter().all(|image| image.header.format.is_plain()) {
            assert!(lines.map(<[u8]>::len).max() <= Some(70));
        }
        let first = load_in_pieces(&bytes, bytes.len() / 2);
        assert_eq!(first.as_ref(), Ok(&written[0]));
        assert_eq!(images(&bytes).unwrap(), written);
    }
}

#[test]
fn any_bytes_give_an_image_or_an_error() {
    let mut random = millstream_testing::random();
    for _ in 0..256 {
        let mut file = vec![b'P', random.u8(b'1'..=b'7')];
        let count = random.usize(..200);
        file.extend((0..count).map(|_| HEADER_BYTES[random.usize(..HEADER_BYTES.len())]));
        let whole = decode(&file).map(|image| image.samples.as_bytes().to_vec());
        let half = decode_in_pieces(Kernel::fastest(), &file, &[file.len() / 2]);
        assert_eq!(whole, half, "{}", file.escape_ascii());
        let stream = load_in_pieces(&file, file.len() / 3);
        let stream = stream.map(|image| image.samples.as_bytes().to_vec());
        assert_eq!(whole, stream, "{}", file.escape_ascii());
    }
}

#[test]
fn images_that_fit_no_format_are_not_written() {
    let good = decode(b"P2 2 1 9 1 2").unwrap();
    let refused = |change: &dyn Fn(&mut Image)| {
        let mut image = good.clone();
        change(&mut image);
        let error = encode(&image, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    };
    refused(&|image| image.header.width = 3);
    refused(&|image| image.header.maxval = 1);
    refused(&|image| image.header.maxval = 300);
    refused(&|image| image.header.maxval = 0);
    refused(&|image| image.header.format = Format::Pixmap);
    refused(&|image| image.header.format = Format::Bitmap);
    refused(&|image| (image.header.height, image.samples) = (0, Samples::U8(vec![])));
}
