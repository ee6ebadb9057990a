//! Objects: 100,000 of 100 bytes with three offsets each, used in place and parsed.
//!
//! `objects cold` reads the file of blobs past its cold cache in one call; ours then use it in
//! place. `objects warm` begins with the bytes in memory and ends when every object could be used:
//! each contender adds up one field of all and the lengths of their names.

use std::io::Read;
use std::path::Path;

use millstream_stream::blob::{self, AlignedBytes, Array, Ref, Stored, Text};
use serde::{Deserialize, Serialize};

use super::Place;
use crate::case::{Case, Work};
use crate::clock::Moment;
use crate::error::{Context, Result, ensure};
use crate::files::{drop_path, open_buffered, remove};
use crate::memory::Destination;
use crate::session::Session;
use crate::streams::load::practised;

/// Objects of the cases.
const OBJECTS: usize = 100_000;

millstream_stream::stored_enum! {
    /// What an object is.
    #[derive(Serialize, Deserialize, rkyv::Archive, rkyv::Serialize)]
    pub enum Kind: u32 { Rock = 0, Tree = 1, House = 2 }
}
millstream_stream::record! {
    /// What an object is made of.
    pub struct Part from
    #[derive(Serialize, Deserialize, rkyv::Archive, rkyv::Serialize)]
    PartSource {
        pub weight: f32 = f32,
        pub count: u32 = u32,
    }
}
millstream_stream::record! {
    /// An object of 100 bytes with three offsets.
    pub struct Object from
    #[derive(Serialize, Deserialize, rkyv::Archive, rkyv::Serialize)]
    ObjectSource {
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

/// What every contender computes of the objects.
fn digest<'a>(objects: impl Iterator<Item = (u32, &'a str)>) -> u64 {
    objects.fold(0, |sum: u64, (id, name)| {
        sum.wrapping_add(u64::from(id))
            .wrapping_add(name.len() as u64)
    })
}

/// Runs the cases.
pub(super) fn run(session: &mut Session<'_>, place: &Place) -> Result<()> {
    let instances = session.cases("streams", "objects");
    if instances.is_empty() {
        return Ok(());
    }
    let objects = sources();
    let wanted = digest(objects.iter().map(|object| (object.id, &*object.name)));
    let blob = blob::build::<Array<Object>, _>(&objects)?;
    let path = place.folder.join("objects.blob");
    std::fs::write(&path, &*blob).on("write", &path)?;
    for instance in instances {
        let mut case = session.begin(&instance);
        match &*instance.name {
            "objects cold" => {
                add_cold(&mut case, &path, blob.len(), wanted);
                case.prepare(|| drop_path(&path));
            }
            _ => add_warm(&mut case, &objects, &blob)?,
        }
        case.check(0, move |_, work| {
            let right = work.digest == Some(wanted);
            ensure(right, "other objects than were saved")
        });
        session.run(case, &mut Destination::new(blob.len())?)?;
    }
    remove(&path)
}

fn work(digest: u64) -> Work {
    Work::of(0, OBJECTS).with_digest(digest)
}

/// From a file that is not cached: read in one call.
fn add_cold<'a>(case: &mut Case<'a>, path: &'a Path, len: usize, wanted: u64) {
    type Use = fn(&[u8], u64) -> Result<u64>;
    let uses: [(&str, Use); 3] = [
        ("read", |_, wanted| Ok(wanted)),
        ("millstream-unvalidated", trusted),
        ("millstream", |bytes, wanted| {
            let objects = blob::view::<Array<Object>>(bytes)?;
            std::hint::black_box(objects.len());
            Ok(wanted)
        }),
    ];
    for (name, used) in uses {
        case.add(name, move |into| {
            let read = open_buffered(path)?.read_exact(&mut into[..len]);
            read.on("read", path)?;
            Ok(work(used(&into[..len], wanted)?))
        });
    }
}

/// The root of a blob, on trust.
///
/// # Safety of the call within
/// The bytes are what `run` has just built and written to a file of its own.
#[expect(unsafe_code, reason = "the unvalidated view is what is measured")]
fn trusted(bytes: &[u8], wanted: u64) -> Result<u64> {
    // SAFETY: read from the file that `run` wrote, which no other code writes.
    let objects = unsafe { blob::view_unvalidated::<Array<Object>>(bytes) }?;
    let last = objects
        .last()
        .is_some_and(|last| last.id as usize == OBJECTS - 1);
    Ok(if last { wanted } else { 0 })
}

/// Adds one who makes objects usable; that they are right is looked at afterwards.
fn add_parser<'a, T>(
    case: &mut Case<'a>,
    name: &str,
    parse: impl Fn() -> Result<T> + 'a,
    all: impl Fn(&T) -> u64 + 'a,
) {
    let method = move |_: &mut Destination| {
        let start = Moment::now();
        let objects = parse()?;
        let span = start.elapsed();
        Ok(work(all(&objects)).took(span))
    };
    case.push(name, practised(method));
}

/// From bytes in memory: until the objects can be used.
fn add_warm<'a>(
    case: &mut Case<'a>,
    objects: &Vec<ObjectSource>,
    blob: &'a AlignedBytes,
) -> Result<()> {
    let parse = || Ok(blob::view::<Array<Object>>(blob)?);
    add_parser(case, "millstream", parse, |objects| {
        digest(objects.iter().map(|it| (it.id, it.name.as_str())))
    });
    let all = |objects: &Vec<ObjectSource>| digest(objects.iter().map(|it| (it.id, &*it.name)));
    let config = bincode::config::standard();
    let encoded = bincode::serde::encode_to_vec(objects, config)?;
    let parse = move || Ok(bincode::serde::decode_from_slice(&encoded, config)?.0);
    add_parser(case, "bincode", parse, all);
    let encoded = postcard::to_allocvec(objects)?;
    add_parser(
        case,
        "postcard",
        move || Ok(postcard::from_bytes(&encoded)?),
        all,
    );
    let encoded = rkyv::to_bytes::<rkyv::rancor::Error>(objects)?;
    let method = move |_: &mut Destination| {
        let start = Moment::now();
        let objects =
            rkyv::access::<rkyv::Archived<Vec<ObjectSource>>, rkyv::rancor::Error>(&encoded)?;
        let span = start.elapsed();
        let all = objects.iter();
        let all = digest(all.map(|it| (it.id.to_native(), it.name.as_str())));
        Ok(work(all).took(span))
    };
    case.push("rkyv", practised(method));
    Ok(())
}
