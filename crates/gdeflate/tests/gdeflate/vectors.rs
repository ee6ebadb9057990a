//! The golden files: streams of the reference encoder at several levels, streams of an independent
//! encoder with every kind of block, and broken ones.

use crate::support::{decode, kernels, plain, vectors};
use gdeflate::{ErrorKind, TileStream};

#[test]
fn every_good_vector_decodes_to_its_bytes_with_every_kernel() {
    for kernel in kernels() {
        for vector in vectors() {
            let Some(raw) = vector.raw else { continue };
            match decode(kernel, &vector.stored) {
                Ok(bytes) => assert!(bytes == raw, "{kernel:?} {}: wrong bytes", vector.name),
                Err(error) => panic!("{kernel:?} {}: {error}", vector.name),
            }
        }
    }
}

#[test]
fn every_good_vector_decodes_to_its_bytes_with_the_plain_decoder() {
    for vector in vectors() {
        let Some(raw) = vector.raw else { continue };
        let stream = TileStream::parse(&vector.stored).unwrap();
        for tile in 0..stream.header().tile_count() {
            let range = stream.header().tile_raw_range(tile);
            let bytes = plain::decode_tile(stream.tile(tile), stream.header().tile_raw_len(tile));
            let expected = &raw[range.start as usize..range.end as usize];
            assert!(
                bytes.as_deref() == Ok(expected),
                "{} tile {tile}: {bytes:?}",
                vector.name
            );
        }
    }
}

#[test]
fn every_broken_vector_is_refused_by_every_kernel() {
    let mut count = 0;
    for kernel in kernels() {
        for vector in vectors().iter().filter(|vector| vector.raw.is_none()) {
            let result = decode(kernel, &vector.stored);
            assert!(result.is_err(), "{kernel:?} {} was accepted", vector.name);
            count += 1;
        }
    }
    assert!(count >= 14);
}

#[test]
fn trailing_bytes_are_refused_by_default_and_ignored_behind_a_prefix() {
    let vectors = vectors();
    let vector = vectors
        .iter()
        .find(|v| v.name == "neg_trailing_garbage")
        .unwrap();
    let refused = TileStream::parse(&vector.stored).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::TrailingBytes);
    assert_eq!(refused.offset as usize, vector.stored.len() - 4);
    let stream = TileStream::parse_prefix(&vector.stored).unwrap();
    let mut raw = vec![0; stream.header().raw_len() as usize];
    gdeflate::Decoder::new().decode(&stream, &mut raw).unwrap();
}

#[test]
fn broken_vectors_name_the_right_fault() {
    let expected = [
        ("neg_bad_magic", ErrorKind::NotGdeflate),
        ("neg_bad_id", ErrorKind::NotGdeflate),
        ("neg_tilesize_idx_0", ErrorKind::TileSize),
        ("neg_reserved_bits_set", ErrorKind::ReservedBits),
        ("neg_truncated_mid_tile", ErrorKind::TruncatedStream),
        ("neg_truncated_header", ErrorKind::TruncatedHeader),
        ("neg_truncated_table", ErrorKind::TruncatedHeader),
        ("neg_last_tile_size_too_small", ErrorKind::RawTooLong),
        ("neg_last_tile_size_too_big", ErrorKind::RawTooShort),
        ("neg_tile_offset_out_of_range", ErrorKind::TileTable),
        ("neg_last_size_not_multiple_of_4", ErrorKind::TileTable),
        ("neg_btype3", ErrorKind::BlockType),
        ("neg_first_token_distance_beyond_start", ErrorKind::Distance),
        ("neg_trailing_garbage", ErrorKind::TrailingBytes),
    ];
    let vectors = vectors();
    for kernel in kernels() {
        for (name, kind) in expected {
            let vector = vectors.iter().find(|vector| vector.name == name).unwrap();
            let error = decode(kernel, &vector.stored).unwrap_err();
            assert_eq!(error.kind, kind, "{name}");
        }
    }
}
