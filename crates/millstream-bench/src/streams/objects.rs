//! Objects: 100,000 of 100 bytes with three offsets each, used in place, parsed, and saved.
//!
//! `objects cold` reads the file of blobs past its cold cache in one call; ours then use it in
//! place. `objects warm` begins with the bytes in memory and ends when every object could be used:
//! each contender adds up one field of all and the lengths of their names. `objects save` writes
//! all of them.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use millstream_stream::blob::{self, AlignedBytes, Array, Ref, Stored, Text};
use millstream_stream::{ArchiveWriter, MemoryStream, WriteTyped};
use serde::{Deserialize, Serialize};

use super::{Practice, WORKLOAD, add, add_with, failed};
use crate::clock::Moment;
use crate::cold;
use crate::error::{Error, Result};
use crate::limits::OBJECTS;
use crate::measure::{Case, Work};
use crate::memory::Destination;
use crate::rows::Metric;
use crate::workload::{Field, Session};

/// By the wall, for all objects.
pub(crate) const TIME: Metric = Metric::lower("objects_time", "ns/object");
/// Processor time of the whole process.
const CPU: Metric = Metric::lower("objects_cpu", "ns/object");

millstream_stream::stored_enum! {
    /// What an object is.
    pub enum Kind: u32 { Rock = 0, Tree = 1, House = 2 }
}
millstream_stream::record! {
    /// What an object is made of.
    pub struct Part from PartSource {
        pub weight: f32 = f32,
        pub count: u32 = u32,
    }
}
millstream_stream::record! {
    /// An object of 100 bytes with three offsets.
    pub struct Object from ObjectSource {
        pub id: u32 = u32,
        pub layer: u32 = u32,
        pub name: Text = String,
        pub places: Array<u32> = Vec<u32>,
        pub part: Ref<Part> = Box<PartSource>,
        pub kind: Stored<Kind> = Kind,
        pub flags: u32 = u32,
        pub pose: [f32; 16] = [f32; 16],
    }
}
const _: () = assert!(size_of::<Object>() == 100);

/// The same for the rivals.
#[derive(Serialize, Deserialize, rkyv::Archive, rkyv::Serialize)]
struct TheirPart {
    weight: f32,
    count: u32,
}

#[derive(Serialize, Deserialize, rkyv::Archive, rkyv::Serialize, Clone, Copy)]
enum TheirKind {
    Rock,
    Tree,
    House,
}

#[derive(Serialize, Deserialize, rkyv::Archive, rkyv::Serialize)]
struct TheirObject {
    id: u32,
    layer: u32,
    name: String,
    places: Vec<u32>,
    part: Box<TheirPart>,
    kind: TheirKind,
    flags: u32,
    pose: [f32; 16],
}

fn sources() -> Vec<ObjectSource> {
    let of = |index: usize| ObjectSource {
        id: index as u32,
        layer: index as u32 % 7,
        name: format!("object {index}"),
        places: (0..index as u32 % 8).collect(),
        part: Box::new(PartSource {
            weight: index as f32,
            count: 3,
        }),
        kind: [Kind::Rock, Kind::Tree, Kind::House][index % 3],
        flags: 1,
        pose: [index as f32; 16],
    };
    (0..OBJECTS).map(of).collect()
}

fn theirs(objects: &[ObjectSource]) -> Vec<TheirObject> {
    let of = |object: &ObjectSource| TheirObject {
        id: object.id,
        layer: object.layer,
        name: object.name.clone(),
        places: object.places.clone(),
        part: Box::new(TheirPart {
            weight: object.part.weight,
            count: object.part.count,
        }),
        kind: match object.kind {
            Kind::Rock => TheirKind::Rock,
            Kind::Tree => TheirKind::Tree,
            Kind::House => TheirKind::House,
        },
        flags: object.flags,
        pose: object.pose,
    };
    objects.iter().map(of).collect()
}

/// What every contender computes of the objects.
fn digest<'a>(objects: impl Iterator<Item = (u32, &'a str)>) -> u64 {
    objects.fold(0, |sum: u64, (id, name)| {
        sum.wrapping_add(u64::from(id))
            .wrapping_add(name.len() as u64)
    })
}

fn digest_in_place(objects: &[Object]) -> u64 {
    digest(
        objects
            .iter()
            .map(|object| (object.id, object.name.as_str())),
    )
}

pub(super) fn run(
    session: &mut Session<'_>,
    folder: &Path,
    destination: &mut Destination,
) -> Result<()> {
    let wants = ["objects cold", "objects warm", "objects save"].map(|name| session.wants(name));
    if wants == [false; 3] {
        return Ok(());
    }
    session.say("streams: objects");
    let objects = Rc::new(sources());
    let wanted = digest(objects.iter().map(|object| (object.id, &*object.name)));
    let blob = blob::build::<Array<Object>, _>(&*objects).map_err(failed)?;
    if wants[0] {
        cold(session, folder, &blob, wanted)?;
    }
    if wants[1] {
        warm(session, &objects, blob, wanted, destination)?;
    }
    if wants[2] {
        save(session, &objects, folder, destination)?;
    }
    Ok(())
}

fn case(
    session: &mut Session<'_>,
    name: &str,
    field: Field,
    prepare: &dyn Fn() -> Result<()>,
    wanted: Option<u64>,
    destination: &mut Destination,
) -> Result<()> {
    let case = Case {
        workload: WORKLOAD,
        name: name.to_owned(),
        runs: session.runs(),
        warm_up: true,
        destination_len: 0,
        prepare,
        check: &|_, work| {
            if work.digest == wanted {
                Ok(())
            } else {
                Err(Error::new("other objects than were saved"))
            }
        },
        figures: &|span, _| {
            vec![
                (TIME, span.wall * 1e9 / OBJECTS as f64),
                (CPU, span.cpu * 1e9 / OBJECTS as f64),
            ]
        },
        limit_by: None,
    };
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, destination)
}

fn work(digest: u64) -> Work {
    Work {
        requests: OBJECTS as u64,
        digest: Some(digest),
        ..Work::default()
    }
}

/// Work that began at `start` and ends here; then what it made is looked at.
fn timed(start: Moment, check: impl FnOnce() -> u64) -> Work {
    let span = start.elapsed();
    Work {
        span: Some(span),
        ..work(check())
    }
}

/// From a file that is not cached.
fn cold(session: &mut Session<'_>, folder: &Path, blob: &AlignedBytes, wanted: u64) -> Result<()> {
    let path = folder.join("objects.blob");
    std::fs::write(&path, &**blob).map_err(|error| Error::file("write", &path, error))?;
    let mut memory = Destination::new(blob.len())?;
    let len = blob.len();
    let mut field = Field::new(WORKLOAD, "objects cold");
    let read = {
        let path = path.clone();
        Rc::new(move |into: &mut Destination| -> Result<()> {
            let mut file = File::open(&path).map_err(|error| Error::file("open", &path, error))?;
            let read = file.read_exact(&mut into[..len]);
            read.map_err(|error| Error::file("read", &path, error))
        })
    };
    let call = read.clone();
    add_with(&mut field, "read", Practice::Never, move |into| {
        call(into)?;
        Ok(work(wanted))
    });
    let call = read.clone();
    add_with(
        &mut field,
        "millstream-unvalidated",
        Practice::Never,
        move |into| {
            call(into)?;
            Ok(work(trusted(&into[..len], wanted)?))
        },
    );
    add_with(&mut field, "millstream", Practice::Never, move |into| {
        read(into)?;
        let objects = blob::view::<Array<Object>>(&into[..len]).map_err(failed)?;
        std::hint::black_box(objects.len());
        Ok(work(wanted))
    });
    let prepare = || cold::drop_path(&path);
    case(
        session,
        "objects cold",
        field,
        &prepare,
        Some(wanted),
        &mut memory,
    )?;
    std::fs::remove_file(&path).map_err(|error| Error::file("remove", &path, error))
}

/// The root of a blob, on trust.
///
/// # Safety of the call within
/// The bytes are what `cold` has just built and written to a file of its own.
#[expect(unsafe_code, reason = "the unvalidated view is what is measured")]
fn trusted(bytes: &[u8], wanted: u64) -> Result<u64> {
    // SAFETY: read from the file that `cold` wrote, which nobody else has.
    let objects = unsafe { blob::view_unvalidated::<Array<Object>>(bytes) }.map_err(failed)?;
    let last = objects
        .last()
        .is_some_and(|last| last.id as usize == OBJECTS - 1);
    Ok(if last { wanted } else { 0 })
}

/// From bytes in memory: until the objects can be used. That they are right is checked afterwards.
fn warm(
    session: &mut Session<'_>,
    objects: &Rc<Vec<ObjectSource>>,
    blob: AlignedBytes,
    wanted: u64,
    destination: &mut Destination,
) -> Result<()> {
    let mut field = Field::new(WORKLOAD, "objects warm");
    let bytes = Rc::new(blob);
    let of = Rc::clone(&bytes);
    add(&mut field, "millstream", move |_| {
        let start = Moment::now();
        let objects = blob::view::<Array<Object>>(&of).map_err(failed)?;
        Ok(timed(start, || digest_in_place(objects)))
    });
    let theirs = theirs(objects);
    let config = bincode::config::standard();
    let encoded = bincode::serde::encode_to_vec(&theirs, config).map_err(failed)?;
    add(&mut field, "bincode", move |_| {
        let start = Moment::now();
        let (objects, _): (Vec<TheirObject>, usize) =
            bincode::serde::decode_from_slice(&encoded, config).map_err(failed)?;
        let all = || digest(objects.iter().map(|it| (it.id, &*it.name)));
        Ok(timed(start, all))
    });
    let encoded = postcard::to_allocvec(&theirs).map_err(failed)?;
    add(&mut field, "postcard", move |_| {
        let start = Moment::now();
        let objects: Vec<TheirObject> = postcard::from_bytes(&encoded).map_err(failed)?;
        let all = || digest(objects.iter().map(|it| (it.id, &*it.name)));
        Ok(timed(start, all))
    });
    let encoded = rkyv::to_bytes::<rkyv::rancor::Error>(&theirs).map_err(failed)?;
    add(&mut field, "rkyv", move |_| {
        let start = Moment::now();
        let objects =
            rkyv::access::<rkyv::Archived<Vec<TheirObject>>, rkyv::rancor::Error>(&encoded)
                .map_err(failed)?;
        let all = || {
            let all = objects.iter();
            digest(all.map(|it| (it.id.to_native(), it.name.as_str())))
        };
        Ok(timed(start, all))
    });
    case(
        session,
        "objects warm",
        field,
        &|| Ok(()),
        Some(wanted),
        destination,
    )
}

/// To memory and to a file.
fn save(
    session: &mut Session<'_>,
    objects: &Rc<Vec<ObjectSource>>,
    folder: &Path,
    destination: &mut Destination,
) -> Result<()> {
    let mut field = Field::new(WORKLOAD, "objects save");
    let (of, mut kept) = (Rc::clone(objects), Some(MemoryStream::new()));
    add(&mut field, "millstream", move |_| {
        let mut stream = kept.take().unwrap_or_default();
        stream.clear();
        kept = Some(archive(&of, stream)?);
        Ok(work(0))
    });
    let storage = std::sync::Arc::new(crate::ours::Setup::default().storage()?);
    let streams = millstream_stream::Streams::new(&storage).map_err(failed)?;
    let (of, path) = (Rc::clone(objects), folder.join("objects.archive"));
    add(&mut field, "millstream-file", move |_| {
        let mut stream = archive(&of, streams.create(&path).map_err(failed)?)?;
        stream.close().map_err(failed)?;
        Ok(work(0))
    });
    let theirs = Rc::new(theirs(objects));
    let (of, mut out) = (Rc::clone(&theirs), Vec::new());
    add(&mut field, "postcard", move |_| {
        out.clear();
        out = postcard::to_extend(&*of, std::mem::take(&mut out)).map_err(failed)?;
        Ok(work(0))
    });
    let mut out = Vec::new();
    add(&mut field, "bincode", move |_| {
        out.clear();
        let config = bincode::config::standard();
        bincode::serde::encode_into_std_write(&*theirs, &mut out, config).map_err(failed)?;
        Ok(work(0))
    });
    case(
        session,
        "objects save",
        field,
        &|| Ok(()),
        Some(0),
        destination,
    )
}

/// Writes all objects as an archive; field by field, as an engine does.
fn archive<W: millstream_stream::WriteStream>(objects: &[ObjectSource], out: W) -> Result<W> {
    let mut archive = ArchiveWriter::new(out, 1).map_err(failed)?;
    for object in objects {
        let written = archive.object(1, 1, |fields| {
            fields.write_u32_le(object.id)?;
            fields.write_u32_le(object.layer)?;
            fields.write_string(&object.name)?;
            fields.write_plain_vec(&object.places)?;
            fields.write_f32_le(object.part.weight)?;
            fields.write_u32_le(object.part.count)?;
            fields.write_u32_le(object.kind as u32)?;
            fields.write_u32_le(object.flags)?;
            fields.write_plain(&object.pose)
        });
        written.map_err(failed)?;
    }
    archive.finish().map_err(failed)
}
