//! Blobs: what is built is what is seen, what is damaged is refused, and the format stays.

mod support;

use std::path::Path;

use millstream_stream::ErrorKind;
use millstream_stream::blob::{self, AlignedBytes, Array, Maybe, Plain};
use support::{Scene, assert_same, scene, walk};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

millstream_stream::record! {
    /// A chain.
    struct Link from LinkSource {
        value: u32 = u32,
        next: Maybe<Link> = Option<Box<LinkSource>>,
    }
}

mod other {
    millstream_stream::record! {
        /// Of the same name and size as the one above, with another field.
        pub struct Link from LinkSource {
            pub number: u32 = u32,
            pub next: millstream_stream::blob::Maybe<Link> = Option<Box<LinkSource>>,
        }
    }
}

millstream_stream::record! {
    struct Leaf from LeafSource {
        value: Maybe<u32> = Option<Box<u32>>,
        next: Maybe<Leaf> = Option<Box<LeafSource>>,
    }
}

/// A number with a unit, which only its type names.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
struct Meters<T>(T);

/// Differs from the one above in its name alone.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
struct Feet<T>(T);

#[test]
fn plain_generic_types_with_one_argument_differ() {
    let length = Meters(support::Pose {
        place: [0.0; 3],
        turn: 1.0,
    });
    let bytes = blob::build::<Plain<Meters<support::Pose>>, _>(&length).unwrap();
    let seen = blob::view::<Plain<Meters<support::Pose>>>(&bytes).unwrap();
    assert_eq!(seen.0.0.turn, 1.0);
    let other = blob::view::<Plain<Feet<support::Pose>>>(&bytes).map(|_| ());
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Schema);
}

#[test]
fn what_was_built_lies_there() {
    let source = scene(4);
    let bytes = blob::build::<Scene, _>(&source).unwrap();
    let seen = blob::view::<Scene>(&bytes).unwrap();
    assert_eq!((seen.version, seen.bounds), (3, source.bounds));
    assert_same(&seen.root, &source.root);
}

#[test]
fn what_lies_there_is_shown_as_its_source() {
    let source = scene(2);
    let bytes = blob::build::<Scene, _>(&source).unwrap();
    let seen = blob::view::<Scene>(&bytes).unwrap();
    let expected = format!("{source:?}").replace("Source {", " {");
    assert_eq!(format!("{seen:?}"), expected);
}

#[test]
fn the_same_values_give_the_same_bytes_for_ever() {
    let bytes = blob::build::<Scene, _>(&scene(2)).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/scene-v1.blob");
    if std::env::var_os("MILLSTREAM_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &*bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert!(*bytes == *golden, "the format of blobs has changed");
    let golden = AlignedBytes::from_slice(&golden);
    assert_same(&blob::view::<Scene>(&golden).unwrap().root, &scene(2).root);
}

#[test]
fn another_layout_version_or_alignment_is_an_error() {
    let link = LinkSource {
        value: 1,
        next: None,
    };
    let bytes = blob::build::<Link, _>(&link).unwrap();
    assert_eq!(blob::view::<Link>(&bytes).unwrap().value, 1);
    let kind = |result: millstream_stream::Result<()>| result.unwrap_err().kind();
    let schema = kind(blob::view::<other::Link>(&bytes).map(|_| ()));
    assert_eq!(schema, ErrorKind::Schema);
    for (at, byte, kind, position) in [
        (0, 0, ErrorKind::Corrupt, 0),
        (4, 2, ErrorKind::Schema, 4),
        (24, 200, ErrorKind::Corrupt, 24),
    ] {
        let mut wrong = bytes.clone();
        wrong.as_mut_slice()[at] = byte;
        let error = blob::view::<Link>(&wrong).unwrap_err();
        assert_eq!(
            (error.kind(), error.position()),
            (kind, position),
            "{error}"
        );
    }
    let mut shifted = AlignedBytes::zeroed(bytes.len() + 4);
    shifted.as_mut_slice()[4..].copy_from_slice(&bytes);
    assert_eq!(
        kind(blob::view::<Link>(&shifted[4..]).map(|_| ())),
        ErrorKind::Misaligned
    );
    for cut in 0..bytes.len() {
        let cut = AlignedBytes::from_slice(&bytes[..cut]);
        assert_eq!(
            kind(blob::view::<Link>(&cut).map(|_| ())),
            ErrorKind::PastEnd
        );
    }
}

/// A blob of a chain, with its first offset replaced.
fn chain_with(offset: u32) -> AlignedBytes {
    let end = LinkSource {
        value: 3,
        next: None,
    };
    let middle = LinkSource {
        value: 2,
        next: Some(Box::new(end)),
    };
    let link = LinkSource {
        value: 1,
        next: Some(Box::new(middle)),
    };
    let mut bytes = blob::build::<Link, _>(&link).unwrap();
    bytes.as_mut_slice()[44..48].copy_from_slice(&offset.to_le_bytes());
    bytes
}

#[test]
fn offsets_that_lead_astray_are_refused_with_their_place() {
    // Root at 32 (its offset at 36), the second link at 40 (44), the third at 48 (52).
    assert_eq!(blob::view::<Link>(&chain_with(4)).expect("sound").value, 1);
    for (offset, cause) in [
        (u32::MAX, "out of the blob"),
        (8, "out of the blob"),
        (5, "out of the blob"),
        // Round in a circle: the sum must not wrap.
        (u32::MAX - 7, "out of the blob"),
        (2, "misaligned"),
    ] {
        let bytes = chain_with(offset);
        let error = blob::view::<Link>(&bytes).unwrap_err();
        assert_eq!(
            (error.kind(), error.position()),
            (ErrorKind::Corrupt, 44),
            "{offset}"
        );
        assert!(error.cause().contains(cause), "{offset}: {error}");
    }
}

#[test]
fn no_two_share_what_lies_behind_them() {
    // Two texts of an array led to the same bytes would let a short blob cost long.
    let texts: Vec<String> = vec!["first".into(), "other".into()];
    let mut bytes = blob::build::<Array<millstream_stream::blob::Text>, _>(&texts).unwrap();
    let view = |bytes: &AlignedBytes| {
        let seen = blob::view::<Array<millstream_stream::blob::Text>>(bytes);
        seen.map(|texts| texts.len()).map_err(|error| error.kind())
    };
    assert_eq!(view(&bytes), Ok(2));
    // The second text's offset is at 48; the first text begins 16 before what it leads to.
    let offset = u32::from_le_bytes(bytes[48..52].try_into().unwrap());
    bytes.as_mut_slice()[48..52].copy_from_slice(&(offset - 5).to_le_bytes());
    assert_eq!(view(&bytes), Err(ErrorKind::Corrupt));
}

#[test]
fn nesting_is_bounded_in_building_and_in_reading() {
    let chain = |len: u32| {
        let mut link = LinkSource {
            value: 0,
            next: None,
        };
        for value in 1..len {
            link = LinkSource {
                value,
                next: Some(Box::new(link)),
            };
        }
        blob::build::<Link, _>(&link)
    };
    let most = millstream_stream::limits::BLOB_DEPTH_MAX as u32;
    let bytes = chain(most + 1).unwrap();
    assert_eq!(blob::view::<Link>(&bytes).expect("sound").value, most);
    assert_eq!(chain(most + 2).unwrap_err().kind(), ErrorKind::Limit);
    // A hostile chain: each link leads to the next, as long as the blob is.
    let mut hostile = AlignedBytes::zeroed(1 << 20);
    hostile.as_mut_slice()[..32].copy_from_slice(&bytes[..32]);
    hostile.as_mut_slice()[16..24].copy_from_slice(&(1u64 << 20).to_le_bytes());
    for at in (36..(1 << 20) - 8).step_by(8) {
        hostile.as_mut_slice()[at] = 4;
    }
    assert_eq!(
        blob::view::<Link>(&hostile).unwrap_err().kind(),
        ErrorKind::Limit
    );
}

#[test]
fn plain_data_is_no_level_of_nesting() {
    let most = millstream_stream::limits::BLOB_DEPTH_MAX as u32;
    let mut leaf = LeafSource {
        value: Some(Box::new(most)),
        next: None,
    };
    for value in 0..most {
        leaf = LeafSource {
            value: Some(Box::new(value)),
            next: Some(Box::new(leaf)),
        };
    }
    let bytes = blob::build::<Leaf, _>(&leaf).unwrap();
    let mut seen = blob::view::<Leaf>(&bytes).expect("sound");
    while let Some(next) = seen.next.get() {
        seen = next;
    }
    assert_eq!(seen.value.get(), Some(&most));
}

#[test]
fn damaged_blobs_are_refused_or_lead_nowhere_outside() {
    let bytes = blob::build::<Scene, _>(&scene(3)).unwrap();
    let seed = 0x5EED;
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut refused, mut seen) = (0, 0);
    for round in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(blob::HEADER_BYTES..bytes.len());
            let value = match random.u8(0..4) {
                0 => random.u8(..),
                1 => damaged[at] ^ 1 << random.u8(0..8),
                2 => 0,
                _ => 255,
            };
            damaged.as_mut_slice()[at] = value;
        }
        match blob::view::<Scene>(&damaged) {
            Ok(scene) => {
                std::hint::black_box(walk(&scene.root));
                seen += 1;
            }
            Err(error) => {
                assert!(
                    error.position() <= bytes.len() as u64,
                    "seed {seed} round {round}"
                );
                refused += 1;
            }
        }
    }
    assert!(
        refused > 2000 && seen > 2000,
        "{refused} refused, {seen} seen"
    );
}
