//! A package whose shared block names a dictionary, under names so long that those are packed.

use std::path::Path;

use millstream_codec::{CodecId, train_dictionary};
use millstream_pak::{Coding, Dictionaries, Item, Metadata, PackOptions, write_file};

/// Few, because changes of the package are read thousands of times.
const ENTRIES: u32 = 12;

fn text(nth: u32) -> String {
    format!("<object number=\"{nth}\" of=\"{}\"/>", nth * 7919 % 1009)
}

/// Writes the package. Needs libzstd.
pub(crate) fn write_with_dictionary(path: &Path) {
    let samples: Vec<String> = (0..1000).map(text).collect();
    let lens: Vec<usize> = samples.iter().map(String::len).collect();
    let trained = train_dictionary(samples.concat().as_bytes(), &lens, 1024);
    let item = |nth: u32| {
        let name = format!("{}object-{nth:02}.xml", "folder/".repeat(220));
        Item::from_bytes(name, text(nth).repeat(4).into_bytes()).metadata(Metadata::default())
    };
    let options = PackOptions {
        coding: Coding::Fixed(CodecId::ZSTD),
        dictionaries: Dictionaries::Given(&trained.expect("a dictionary")),
        ..PackOptions::default()
    };
    let written = write_file((0..ENTRIES).map(item).collect(), &options, path);
    assert!(written.expect("packed").blocks_with_dictionary > 0);
}
