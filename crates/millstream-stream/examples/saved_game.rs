//! Saves objects that refer to each other, replaces the old file as a whole, and loads them again.
//!
//!     cargo run --release -p millstream-stream --example saved_game

use std::collections::HashMap;
use std::error::Error;

use millstream::{Storage, StorageOptions};
use millstream_stream::{
    ArchiveReader, ArchiveWriter, ReadObject, ReadTyped, Streams, WriteObject, WriteTyped,
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

    let mut file = streams.replace(&path)?;
    let mut archive = ArchiveWriter::new(&mut file, APPLICATION)?;
    let planet = archive.object(PLANET, 1, |fields| fields.write_string("Ceres"))?;
    archive.object(SHIP, 1, |fields| {
        fields.write_string("Dawn")?;
        fields.write_plain(&[1.0f32, 2.0, 3.0])?;
        fields.reference(Some(planet))
    })?;
    archive.finish()?;
    // Until here the old file is what others see, also after a crash.
    file.commit()?;

    let mut file = streams.open(&path)?;
    let mut archive = ArchiveReader::new(&mut file, APPLICATION)?;
    let (mut planets, mut ships) = (HashMap::new(), Vec::new());
    while let Some(object) = archive.next_object()? {
        let mut fields = archive.payload()?;
        match object.tag {
            PLANET => {
                planets.insert(object.id, fields.read_string(64)?);
            }
            SHIP => {
                let (name, mut place) = (fields.read_string(64)?, [0f32; 3]);
                fields.read_plain(&mut place)?;
                ships.push((name, place, fields.read_reference()?));
            }
            // Of a later version of the program.
            _ => {}
        }
    }
    for (name, place, orbits) in ships {
        let orbits = orbits.and_then(|id| planets.get(&id));
        println!("{name} at {place:?} orbits {orbits:?}");
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
