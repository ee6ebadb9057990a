//! Saves objects that refer to each other, replaces the old file as a whole, and loads them again.
//!
//!     cargo run --release -p millstream-stream --example saved_game

use std::error::Error;

use millstream::{Storage, StorageOptions};
use millstream_stream::{
    ArchiveReader, ArchiveWriter, ObjectTable, ReadObject, ReadTyped, Streams, WriteTyped,
};

/// Tags of objects: they stay, whatever fields later versions add.
const PLANET: u32 = 1;
const SHIP: u32 = 2;
/// Archives of this program.
const APPLICATION: u64 = u64::from_le_bytes(*b"ORBITS\0\0");

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("millstream-game-{}", std::process::id()));
    let storage = Storage::new(StorageOptions::default())?;
    let streams = Streams::new(&storage)?;

    let mut archive = ArchiveWriter::new(streams.replace(&path)?, APPLICATION)?;
    let planet = archive.object(PLANET, 1, |fields| fields.write_string("Ceres"))?;
    archive.object(SHIP, 1, |fields| {
        fields.write_string("Dawn")?;
        fields.write_vector([1.0, 2.0, 3.0])?;
        fields.reference(Some(planet))
    })?;
    // Until here the old file is what others see, also after a crash.
    archive.finish()?.commit()?;

    let mut archive = ArchiveReader::new(streams.open(&path)?, APPLICATION)?;
    let (mut planets, mut ships) = (ObjectTable::default(), Vec::new());
    while let Some(object) = archive.next_object()? {
        let mut fields = archive.payload()?;
        match object.tag {
            PLANET => planets.insert(object.id, fields.read_string(64)?)?,
            SHIP => ships.push((
                fields.read_string(64)?,
                fields.read_vector::<3>()?,
                fields.read_reference()?,
            )),
            // Of a later version of the program.
            _ => {}
        }
    }
    for (name, place, orbits) in ships {
        let orbits = orbits.map(|id| planets.get(id)).transpose()?;
        println!("{name} at {place:?} orbits {orbits:?}");
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
