//! Lists of numbers: against the standard library's parsing of each token, for every kernel.

mod common;

use std::fmt::Debug;
use std::str::FromStr;

use common::kernels;
use millstream_pnm::ErrorKind;
use millstream_pnm::numbers::{Number, Separators, parse, parse_into, parse_with};
use proptest::prelude::*;

/// The list by the standard library; `None` if any token is wrong.
fn by_tokens<N: FromStr>(text: &str, separators: Separators) -> Option<Vec<N>> {
    let commas = separators == Separators::Commas;
    let white = |c: char| matches!(c, ' ' | '\t'..='\r');
    if commas {
        // Each comma has a number before it since the comma before.
        let fields: Vec<&str> = text.split(',').collect();
        let (_, before) = fields.split_last()?;
        if before
            .iter()
            .any(|field| field.trim_matches(white).is_empty())
        {
            return None;
        }
    }
    let tokens = text.split(|c| white(c) || (commas && c == ','));
    let tokens = tokens.filter(|token| !token.is_empty());
    tokens.map(|token| token.parse().ok()).collect()
}

fn agree<N: Number + FromStr + PartialEq + Debug>(text: &str, separators: Separators) {
    let expected = by_tokens::<N>(text, separators);
    for kernel in kernels() {
        let mut numbers = vec![N::default(); text.len() / 2 + 1];
        let ours = parse_with(text.as_bytes(), separators, kernel, &mut numbers);
        let ours = ours.map(|count| numbers[..count].to_vec());
        match (&ours, &expected) {
            (Ok(ours), Some(expected)) => assert_eq!(ours, expected, "{}", kernel.name()),
            (Err(_), None) => {}
            _ => panic!("{}: {ours:?} {expected:?} of {text:?}", kernel.name()),
        }
    }
}

fn integers(signed: bool) -> impl Strategy<Value = String> {
    let any = if signed {
        "[+-]?[0-9]{1,11}"
    } else {
        "[0-9]{1,11}"
    };
    let token = prop_oneof![
        30 => "[0-9]{1,3}".boxed(),
        3 => "[0-9]{4,6}".boxed(),
        1 => "0{1,9}[0-9]{1,2}".boxed(),
        1 => any.boxed(),
    ];
    let between = prop_oneof![
        20 => Just(" ".to_owned()),
        10 => Just(",".to_owned()),
        3 => "[ \t\n\r\x0B\x0C]{1,3}",
        1 => "[ ]?,[ ]{0,2}",
    ];
    prop::collection::vec((token, between), 1..400).prop_map(|parts| {
        parts
            .iter()
            .flat_map(|(token, between)| [token.as_str(), between])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn integers_are_what_the_standard_library_makes_of_them(
        text in integers(false),
        signed in integers(true),
        spoil in prop::option::of((any::<prop::sample::Index>(), "[ ,x.-]")),
    ) {
        let mut text = text;
        if let Some((place, with)) = spoil {
            let place = place.index(text.len());
            text.replace_range(place..=place, &with);
        }
        for separators in [Separators::WhiteSpace, Separators::Commas] {
            agree::<u8>(&text, separators);
            agree::<u16>(&text, separators);
            agree::<u32>(&text, separators);
            agree::<i32>(&signed, separators);
            agree::<i64>(&signed, separators);
        }
        let white = text.replace(',', "\n");
        agree::<u16>(&white, Separators::WhiteSpace);
        agree::<u64>(&white, Separators::WhiteSpace);
    }

    #[test]
    fn floats_are_correctly_rounded(bits in prop::collection::vec(any::<u64>(), 1..60)) {
        let doubles: Vec<f64> = bits.iter().map(|bits| f64::from_bits(*bits)).collect();
        let doubles: Vec<f64> = doubles.into_iter().filter(|x| x.is_finite()).collect();
        let text: String = doubles.iter().map(|x| format!("{x:e}, ")).collect();
        let back: Vec<f64> = parse(text.as_bytes(), Separators::Commas).unwrap();
        prop_assert_eq!(&back, &doubles);
        let singles: Vec<f32> = parse(text.as_bytes(), Separators::Commas).unwrap();
        let expected: Option<Vec<f32>> = by_tokens(&text, Separators::Commas);
        prop_assert_eq!(Some(singles), expected);
    }
}

#[test]
fn errors_name_the_place() {
    let error = |text: &[u8], separators| {
        let error = parse::<u16>(text, separators).unwrap_err();
        (
            error.offset,
            error.line.unwrap(),
            error.column.unwrap(),
            error.kind,
        )
    };
    let (offset, line, column, kind) = error(b"1 2\n3 65536 5", Separators::WhiteSpace);
    assert_eq!((offset, line, column), (6, 2, 3));
    assert!(matches!(kind, ErrorKind::NumberTooLarge));
    let (offset, _, _, kind) = error(b"1,2 3", Separators::WhiteSpace);
    assert!(offset == 0 && matches!(kind, ErrorKind::NotANumber));
    let (offset, _, _, kind) = error(b"1, ,3", Separators::Commas);
    assert!(offset == 3 && matches!(kind, ErrorKind::EmptyField));
    let (offset, _, _, kind) = error(b",3", Separators::Commas);
    assert!(offset == 0 && matches!(kind, ErrorKind::EmptyField));
    let full = parse_into::<u16>(b"1 2 3", Separators::WhiteSpace, &mut [0; 2]).unwrap_err();
    assert!(full.offset == 4 && matches!(full.kind, ErrorKind::NoRoom));
    for text in [&b"inf"[..], b"1e"] {
        let wrong = parse::<f64>(text, Separators::WhiteSpace).unwrap_err();
        assert!(matches!(wrong.kind, ErrorKind::NotANumber), "{wrong:?}");
    }
    assert_eq!(parse::<u8>(b" \n", Separators::Commas), Ok(vec![]));
    assert_eq!(
        parse::<i8>(b"-128 127 +5", Separators::WhiteSpace),
        Ok(vec![-128, 127, 5])
    );
    let wrong = parse::<i8>(b"-129", Separators::WhiteSpace).unwrap_err();
    assert!(matches!(wrong.kind, ErrorKind::NumberTooLarge), "{wrong:?}");
}

#[test]
fn a_list_may_end_with_a_digit_wherever_that_lies() {
    for gap in [1, 3, 40, 200] {
        let long: String = (0..800 / gap + 1)
            .map(|number| format!("{}{}", number % 10, " ".repeat(gap)))
            .collect();
        for len in 1..800 {
            let text = format!("{}9", &long[..len]);
            agree::<u8>(&text, Separators::WhiteSpace);
            agree::<u16>(&text, Separators::Commas);
        }
    }
}
