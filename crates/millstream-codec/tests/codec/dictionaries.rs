//! zstd dictionaries: what is encoded with one decodes with it and with no other, and neither
//! damaged blocks nor damaged dictionaries do harm.

use millstream_codec::limits::DICTIONARY_BYTES_MAX;
use millstream_codec::{
    CodecErrorKind, CodecId, Dictionary, DictionaryEncoder, Scratch, block_level_range,
    decode_block, decode_block_with, encode_block, encode_block_with, train_dictionary,
};

/// Short texts that have much in common.
fn texts(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = || {
        let (kind, x, y) = (random.u8(..9), random.u16(..), random.u16(..));
        let text = format!("<node kind=\"tree-{kind}\"><place x=\"{x}\" y=\"{y}\"/></node>\n");
        text.repeat(random.usize(1..4)).into_bytes()
    };
    (0..count).map(|_| text()).collect()
}

/// A dictionary for such texts; `None` where zstd cannot be encoded.
fn trained(seed: u64) -> Option<Vec<u8>> {
    if block_level_range(CodecId::ZSTD).is_empty() {
        println!("SKIP: this build cannot encode zstd");
        return None;
    }
    let texts = texts(3000, seed);
    let lens: Vec<usize> = texts.iter().map(Vec::len).collect();
    Some(train_dictionary(&texts.concat(), &lens, 8192).expect("trained"))
}

#[test]
fn short_texts_shrink_further_and_come_back() {
    let Some(bytes) = trained(1) else { return };
    assert!(
        bytes == trained(1).expect("as before"),
        "training has no dice"
    );
    let dictionary = Dictionary::new(&bytes).expect("a dictionary");
    let encoder = DictionaryEncoder::new(&bytes, 12).expect("an encoder");
    let mut scratch = Scratch::default();
    let (mut with, mut without) = (0, 0);
    for text in texts(200, 2).iter().chain([&Vec::new()]) {
        let mut stored = Vec::new();
        encode_block_with(&encoder, &mut scratch, text, &mut stored).expect("encoded");
        let mut raw = vec![0; text.len()];
        let len = decode_block_with(&dictionary, &mut scratch, &stored, &mut raw);
        assert_eq!((len, &raw), (Ok(text.len()), text));
        with += stored.len();
        stored.clear();
        encode_block(CodecId::ZSTD, 12, &mut scratch, text, &mut stored).expect("encoded");
        without += stored.len();
    }
    assert!(with * 2 < without, "{with} and {without} bytes");
}

#[test]
fn a_block_decodes_with_its_own_dictionary_alone() {
    let (Some(one), Some(other)) = (trained(3), trained(4)) else {
        return;
    };
    let encoder = DictionaryEncoder::new(&one, 3).expect("an encoder");
    let (mut scratch, mut stored, mut plain) = (Scratch::default(), Vec::new(), Vec::new());
    let text = texts(1, 5).concat();
    encode_block_with(&encoder, &mut scratch, &text, &mut stored).expect("encoded");
    encode_block(CodecId::ZSTD, 3, &mut scratch, &text, &mut plain).expect("encoded");
    let mut raw = vec![0; text.len()];
    let other = Dictionary::new(&other).expect("a dictionary");
    let own = Dictionary::new(&one).expect("a dictionary");
    let cases = [
        (Some(&other), &stored, CodecErrorKind::Corrupt),
        (Some(&own), &plain, CodecErrorKind::Corrupt),
        (None, &stored, CodecErrorKind::Unsupported),
    ];
    for (dictionary, stored, kind) in cases {
        let decoded = match dictionary {
            Some(dictionary) => decode_block_with(dictionary, &mut scratch, stored, &mut raw),
            None => decode_block(CodecId::ZSTD, &mut scratch, stored, &mut raw),
        };
        let error = decoded.expect_err("refused");
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.cause.contains("dictionary"), "{error}");
    }
    let error = decode_block_with(&own, &mut scratch, &stored, &mut raw[..text.len() - 1]);
    assert_eq!(error.expect_err("no room").kind, CodecErrorKind::RawTooLong);
}

#[test]
fn damaged_blocks_and_dictionaries_are_errors_at_worst() {
    let Some(bytes) = trained(6) else { return };
    let encoder = DictionaryEncoder::new(&bytes, 3).expect("an encoder");
    let (mut scratch, mut stored) = (Scratch::default(), Vec::new());
    let text = texts(40, 7).concat();
    encode_block_with(&encoder, &mut scratch, &text, &mut stored).expect("encoded");
    let mut raw = vec![0; text.len()];
    let mut random = fastrand::Rng::with_seed(8);
    let own = Dictionary::new(&bytes).expect("a dictionary");
    for _ in 0..3000 {
        let mut changed = stored.clone();
        let at = random.usize(..changed.len());
        changed[at] ^= 1 << random.u8(..8);
        // It may decode to other bytes: there is no checksum in it.
        let _ = decode_block_with(&own, &mut scratch, &changed, &mut raw);
        let _ = decode_block_with(&own, &mut scratch, &stored[..at], &mut raw);
    }
    for _ in 0..300 {
        let mut changed = bytes.clone();
        // The tables of entropy lie in front.
        let at = random.usize(..200);
        changed[at] ^= 1 << random.u8(..8);
        if let Ok(dictionary) = Dictionary::new(&changed) {
            let _ = decode_block_with(&dictionary, &mut scratch, &stored, &mut raw);
        }
        let _ = Dictionary::new(&bytes[..at]);
    }
}

#[test]
fn what_is_no_dictionary_is_refused() {
    let head = [0x37, 0xA4, 0x30, 0xEC];
    let mut zero = head.to_vec();
    zero.resize(300, 0);
    let long = [&head[..], &[1; DICTIONARY_BYTES_MAX]].concat();
    for bytes in [&b""[..], &head, b"no dictionary at all", &zero, &long] {
        let error = Dictionary::new(bytes).expect_err("refused");
        assert!(error.cause.contains("dictionary"), "{error}");
        assert!(DictionaryEncoder::new(bytes, 3).is_err());
    }
    assert!(train_dictionary(b"", &[], 4096).is_err());
    assert!(train_dictionary(b"abc", &[1, 2], 4096).is_err());
}

#[test]
#[should_panic(expected = "lengths of the samples")]
fn lengths_whose_sum_wraps_are_not_those_of_the_samples() {
    let _ = train_dictionary(&[7; 100], &[usize::MAX, 101], 4096);
}
