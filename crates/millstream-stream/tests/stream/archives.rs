//! Archives: older and newer programs read each other's, graphs come back, damage is refused.

use std::collections::BTreeMap;
use std::path::Path;

use millstream_stream::limits::{ARCHIVE_OBJECTS_MAX, OBJECT_BYTES_MAX};
use millstream_stream::{
    ArchiveReader, ArchiveWriter, ErrorKind, MemoryStream, ReadObject, ReadTyped, Result, Stream,
    WriteObject, WriteStream, WriteTyped,
};

const APPLICATION: u64 = 0x0A0B_0C0D;
const SHIP: u32 = 1;
const CREW: u32 = 2;

/// Two ships that refer to each other, one with parts, and an object that the readers below do not
/// know.
fn write_all() -> Result<MemoryStream> {
    let mut stream = MemoryStream::new();
    let mut archive = ArchiveWriter::new(&mut stream, APPLICATION)?;
    let (first, second) = (archive.reserve()?, archive.reserve()?);
    archive.object_as(second, SHIP, 2, |ship| {
        ship.write_string("second")?;
        ship.reference(Some(first))?;
        ship.write_f32_le(0.75)
    })?;
    archive.object(99, 5, |other| other.write_plain(&[7u64; 9]))?;
    archive.object_as(first, SHIP, 1, |ship| {
        ship.write_string("first")?;
        ship.reference(Some(second))
    })?;
    archive.object(CREW, 1, |crew| {
        crew.reference(None)?;
        crew.part(10, 1, |part| part.write_leb128(300))?;
        crew.part(11, 1, |part| {
            part.part(12, 3, |inner| inner.write_string("deep"))
        })?;
        crew.part(10, 1, |part| part.write_leb128(5))
    })?;
    archive.finish()?;
    Ok(stream)
}

#[derive(Debug, PartialEq)]
struct Ship {
    name: String,
    escort: u32,
    armour: f32,
}

/// Reads ships as a program does that knows fields up to `version`, and nothing but ships.
fn ships(bytes: Vec<u8>, version: u16) -> Result<Vec<Ship>> {
    let mut stream = MemoryStream::from_vec(bytes);
    let mut archive = ArchiveReader::new(&mut stream, APPLICATION)?;
    let mut table = BTreeMap::new();
    while let Some(object) = archive.next_object()? {
        if object.tag != SHIP {
            continue;
        }
        let mut fields = archive.payload()?;
        let name = fields.read_string(100)?;
        let escort = fields.read_reference()?;
        let armour = if version >= 2 && object.version >= 2 {
            fields.read_f32_le()?
        } else {
            1.0
        };
        let escort = escort.map_or(0, |id| id.number());
        table.insert(
            object.id,
            Ship {
                name,
                escort,
                armour,
            },
        );
    }
    Ok(table.into_values().collect())
}

#[test]
fn programs_of_both_versions_read_both_and_pass_over_what_they_do_not_know() {
    let bytes = write_all().unwrap().into_vec();
    let ship = |name: &str, escort, armour| Ship {
        name: name.into(),
        escort,
        armour,
    };
    let new = ships(bytes.clone(), 2).unwrap();
    assert_eq!(new, [ship("first", 2, 1.0), ship("second", 1, 0.75)]);
    let old = ships(bytes, 1).unwrap();
    assert_eq!(old, [ship("first", 2, 1.0), ship("second", 1, 1.0)]);
}

#[test]
fn parts_within_an_object_are_passed_over_by_their_length() {
    let mut stream = write_all().unwrap();
    stream.seek_to(0).unwrap();
    let mut archive = ArchiveReader::new(&mut stream, APPLICATION).unwrap();
    let mut found = Vec::new();
    while let Some(object) = archive.next_object().unwrap() {
        if object.tag != CREW {
            continue;
        }
        let mut fields = archive.payload().unwrap();
        assert_eq!(fields.read_reference().unwrap(), None);
        while let Some(part) = fields.next_part().unwrap() {
            if part.tag == 10 {
                found.push(part.view(&mut fields).unwrap().read_leb128().unwrap());
            }
            fields.seek_to(part.end()).unwrap();
        }
    }
    assert_eq!(found, [300, 5]);
}

#[test]
fn fields_may_be_written_in_any_order() {
    let mut stream = MemoryStream::new();
    let mut archive = ArchiveWriter::new(&mut stream, APPLICATION).unwrap();
    let write = |fields: &mut MemoryStream| {
        let start = fields.position();
        fields.write_u32_le(0)?;
        fields.part(9, 1, |part| {
            let count_at = part.position();
            part.write_u32_le(0)?;
            part.write_u32_le(7)?;
            part.seek_to(count_at)?;
            part.write_u32_le(1)?;
            // Before the part: only its length counts.
            part.seek_to(start)
        })?;
        fields.seek_to(start)?;
        fields.write_u32_le(5)
    };
    archive.object(1, 1, write).unwrap();
    archive
        .object(2, 1, |fields| fields.write_u32_le(6))
        .unwrap();
    archive.finish().unwrap();
    stream.seek_to(0).unwrap();
    let mut archive = ArchiveReader::new(&mut stream, APPLICATION).unwrap();
    assert_eq!(archive.next_object().unwrap().unwrap().len, 4 + 12 + 8);
    let mut fields = archive.payload().unwrap();
    assert_eq!(fields.read_u32_le().unwrap(), 5);
    let part = fields.next_part().unwrap().unwrap();
    assert_eq!((part.tag, part.len), (9, 8));
    assert_eq!(fields.read_u32_le().unwrap(), 1);
    assert_eq!(fields.read_u32_le().unwrap(), 7);
    assert_eq!(archive.next_object().unwrap().unwrap().tag, 2);
    assert_eq!(archive.next_object().unwrap(), None);
}

#[test]
fn the_format_stays() {
    let bytes = write_all().unwrap().into_vec();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ships-v1.archive");
    if std::env::var_os("MILLSTREAM_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &bytes).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert!(bytes == golden, "the format of archives has changed");
}

#[test]
fn misuse_is_refused() {
    let mut stream = MemoryStream::new();
    let mut archive = ArchiveWriter::new(&mut stream, 0).unwrap();
    let id = archive.reserve().unwrap();
    let refused = archive.object(0, 1, |_| Ok(())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    archive.object_as(id, 1, 1, |_| Ok(())).unwrap();
    let twice = archive.object_as(id, 1, 1, |_| Ok(())).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidArgument);
    let missing = ArchiveWriter::new(&mut stream, 0).and_then(|mut archive| {
        archive.reserve()?;
        archive.finish()
    });
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let bytes = write_all().unwrap().into_vec();
    let mut stream = MemoryStream::from_vec(bytes);
    let foreign = ArchiveReader::new(&mut stream, APPLICATION + 1);
    assert_eq!(foreign.unwrap_err().kind(), ErrorKind::Schema);
}

/// The header is at 0, the object at 16, a reference at 32, a part at 36, the end at 50, the count
/// at 66.
fn one_object() -> Vec<u8> {
    let mut stream = MemoryStream::new();
    let mut archive = ArchiveWriter::new(&mut stream, APPLICATION).unwrap();
    let object = |fields: &mut MemoryStream| {
        fields.write_u32_le(1)?;
        fields.part(10, 1, |part| part.write_u16_le(7))
    };
    archive.object(SHIP, 1, object).unwrap();
    archive.finish().unwrap();
    stream.into_vec()
}

fn read_one(bytes: Vec<u8>) -> Result<()> {
    let mut stream = MemoryStream::from_vec(bytes);
    let mut archive = ArchiveReader::new(&mut stream, APPLICATION)?;
    let mut table = BTreeMap::new();
    while let Some(object) = archive.next_object()? {
        let mut fields = archive.payload()?;
        let reference = fields.read_reference()?;
        let part = fields.next_part()?.expect("a part");
        part.view(&mut fields)?.read_u16_le()?;
        table.insert(object.id, reference);
    }
    assert!(archive.next_object()?.is_none(), "the end stays");
    assert_eq!(table.into_values().flatten().count(), 1);
    Ok(())
}

#[test]
fn each_wrong_field_is_refused_at_its_place() {
    use ErrorKind::{Corrupt, PastEnd, Schema};
    read_one(one_object()).unwrap();
    let beyond = ARCHIVE_OBJECTS_MAX + 1;
    // Within an object places are counted from its fields on.
    for (at, value, kind, position) in [
        (0, 0, Corrupt, 0),
        (4, 2, Schema, 4),
        (8, 1, Schema, 8),
        (20, 0, Corrupt, 20),
        (20, beyond, Corrupt, 20),
        (24, 1 << 16, Corrupt, 26),
        (28, 100, PastEnd, 16),
        (32, beyond, Corrupt, 0),
        (40, 1 << 16, Corrupt, 8),
        (44, 3, PastEnd, 4),
        (54, 1, Corrupt, 50),
        (66, 2, Corrupt, 66),
    ] {
        let mut bytes = one_object();
        bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        let error = read_one(bytes).unwrap_err();
        let found = (error.kind(), error.position());
        assert_eq!(found, (kind, position), "{value} at {at}: {error}");
    }
}

#[test]
fn an_archive_that_was_written_in_part_has_no_end() {
    let mut stream = MemoryStream::new().len_max(100);
    let mut archive = ArchiveWriter::new(&mut stream, 0).unwrap();
    let full = archive.object(1, 1, |fields| fields.write_plain(&[7u64; 20]));
    assert_eq!(full.unwrap_err().kind(), ErrorKind::Limit);
    let after = archive.object(1, 1, |_| Ok(())).unwrap_err();
    assert_eq!(after.kind(), ErrorKind::InvalidArgument);
    let end = archive.finish().unwrap_err();
    assert_eq!(end.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn fields_are_a_stream_of_the_object_alone() {
    let mut stream = MemoryStream::new();
    let mut archive = ArchiveWriter::new(&mut stream, 0).unwrap();
    let fields = |fields: &mut MemoryStream| {
        assert_eq!(fields.position(), 0);
        fields.write_slice(b"four")?;
        fields.seek_to(2)?;
        fields.write_u8(b'X')?;
        assert_eq!(fields.len()?, 4);
        fields.check()?;
        fields.flush_all()
    };
    archive.object(1, 1, fields).unwrap();
    archive.finish().unwrap();
    stream.seek_to(0).unwrap();
    let mut archive = ArchiveReader::new(&mut stream, 0).unwrap();
    archive.next_object().unwrap().expect("an object");
    let mut bytes = [0; 3];
    archive.payload().unwrap().read_plain(&mut bytes).unwrap();
    assert_eq!(&bytes, b"foX");
    assert_eq!(stream.position(), 35);
}

#[test]
fn a_cut_archive_is_an_error_wherever_it_is_cut() {
    let bytes = write_all().unwrap().into_vec();
    for len in 0..bytes.len() {
        let error = ships(bytes[..len].to_vec(), 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PastEnd, "cut at {len}: {error}");
    }
}

#[test]
fn a_damaged_archive_is_an_error_or_an_archive() {
    let bytes = write_all().unwrap().into_vec();
    let seed = 0xA5C;
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        let at = random.usize(..bytes.len());
        damaged[at] = random.u8(..);
        // It ends, and allocates no more than there are bytes: that it comes back is the test.
        if let Err(error) = ships(damaged, 2) {
            assert!(!error.cause().is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn an_object_whose_fields_fail_is_missing_and_may_be_written_again() {
    let mut stream = MemoryStream::new();
    let mut archive = ArchiveWriter::new(&mut stream, 0).unwrap();
    let id = archive.reserve().unwrap();
    let failed = archive.object_as(id, 1, 1, |object| object.seek_to(u64::MAX));
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::OutOfRange);
    let written = archive.object_as(id, 1, 1, |object| object.write_u8(1));
    assert!(written.is_ok(), "{written:?}");
    let other = archive.reserve().unwrap();
    let failed = archive.object_as(other, 1, 1, |object| object.seek_to(u64::MAX));
    assert!(failed.is_err());
    let missing = archive.finish().unwrap_err();
    assert_eq!(
        (missing.kind(), missing.len()),
        (ErrorKind::InvalidArgument, 2)
    );
}

#[test]
fn fields_that_take_away_what_stands_before_a_part_or_are_too_long_are_refused() {
    let mut stream = MemoryStream::new();
    let mut archive = ArchiveWriter::new(&mut stream, 0).unwrap();
    let cleared = archive.object(1, 1, |object| {
        object.write_u8(1)?;
        object.part(2, 1, |part| {
            part.clear();
            Ok(())
        })
    });
    assert_eq!(cleared.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let long = archive.object(1, 1, |object| {
        // Another stream, without the bound of an object; its memory is never touched.
        *object = MemoryStream::from_vec(vec![0; OBJECT_BYTES_MAX as usize + 1]);
        Ok(())
    });
    assert_eq!(long.unwrap_err().kind(), ErrorKind::Limit);
    archive.object(3, 1, |object| object.write_u8(7)).unwrap();
    archive.finish().unwrap();
    stream.seek_to(0).unwrap();
    let mut reader = ArchiveReader::new(&mut stream, 0).unwrap();
    assert_eq!(reader.next_object().unwrap().unwrap().tag, 3);
    assert_eq!(reader.payload().unwrap().read_u8().unwrap(), 7);
    assert!(reader.next_object().unwrap().is_none(), "nothing else");
}
