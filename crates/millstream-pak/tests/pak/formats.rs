//! What packages hold beside bytes: metadata records and names.

mod metadata {
    use millstream_pak::Metadata;
    use millstream_pak::metadata::{Audio, Container, Dependency, Image, Kind, Mip, Part, Role};

    fn full() -> Metadata {
        Metadata {
            kind: Kind::SCENE,
            image: Some(Image {
                width: 1,
                height: 2,
                depth: 3,
                layers: 4,
                format: 37,
                channels: 4,
                bits: 8,
                container: Container::DDS,
                maxval: 255,
            }),
            mips: vec![
                Mip {
                    level: 0,
                    layer: 0,
                    row_bytes: 64,
                    offset: 128,
                    bytes: 640,
                },
                Mip {
                    level: 1,
                    layer: 5,
                    row_bytes: 0,
                    offset: 1 << 40,
                    bytes: 9,
                },
            ],
            audio: Some(Audio {
                rate_hz: 48_000,
                channels: 2,
                bits: 16,
                frames: 1 << 33,
                offset: 44,
                container: Container::WAV,
                codec: 1,
            }),
            dependencies: vec![Dependency {
                role: Role::IMAGE,
                name: String::from("textures/é.png"),
            }],
            parts: vec![Part {
                role: Role::BUFFER,
                index: 7,
                offset: 20,
                bytes: 400,
            }],
            extra: vec![1, 2, 3],
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let record = full();
        let mut stored = record.encode();
        assert_eq!(Metadata::decode(&stored).expect("a record"), record);
        stored.extend_from_slice(&[0; 100]);
        let padded = Metadata::decode(&stored).expect("padding is no part of it");
        assert_eq!(padded, record);
        // Two bytes behind the role of a part say nothing.
        let part = [1, 0, 0, 0, 7, 0, 0, 0, 20, 0];
        let at = stored.windows(10).position(|bytes| bytes == part);
        stored[at.expect("the part") + 2..][..2].fill(0xff);
        assert_eq!(Metadata::decode(&stored).expect("a record"), record);
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_an_error_or_another_record() {
        let stored = full().encode();
        for len in 0..stored.len() {
            assert!(Metadata::decode(&stored[..len]).is_err(), "{len} bytes");
        }
        for at in 0..stored.len() {
            for bit in 0..8 {
                let mut changed = stored.clone();
                changed[at] ^= 1 << bit;
                // Whatever it says, it says it without a panic.
                let _ = Metadata::decode(&changed);
            }
        }
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let mut stored = full().encode();
        let total = stored.len() as u32 + 16;
        stored.extend_from_slice(&[99, 0, 0, 0, 5, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
        stored[4..8].copy_from_slice(&total.to_le_bytes());
        assert_eq!(Metadata::decode(&stored).expect("a record"), full());
    }

    #[test]
    fn mips_rows_and_tiles_have_ranges_inside_the_level() {
        let record = full();
        assert_eq!(record.mip(0, 0), Some((128, 640)));
        assert_eq!(record.mip(2, 0), None);
        assert_eq!(record.rows(0, 0, 2, 3), Some((128 + 2 * 64, 3 * 64)));
        assert_eq!(record.rows(0, 0, 8, 3), None, "the level has ten rows");
        assert_eq!(record.rows(1, 5, 0, 1), None, "its rows are not known");
        let tile = record.tile((0, 0), (1, 2), (4, 4), 8);
        assert_eq!(tile, Some(vec![(128 + 64 + 32, 32), (128 + 128 + 32, 32)]));
        let outside = [((0, 0), (1, 2), (7, 2)), ((0, 0), (9, 2), (4, 4))];
        let beyond = [((0, 0), (u32::MAX, 2), (4, 4)), ((1, 5), (0, 1), (0, 1))];
        for (mip, rows, units) in outside.into_iter().chain(beyond) {
            assert_eq!(
                record.tile(mip, rows, units, 8),
                None,
                "{mip:?} {rows:?} {units:?}"
            );
        }
        let widest = (u32::MAX, u32::MAX);
        assert_eq!(record.tile((0, 0), (0, 1), widest, u32::MAX), None);
        let mut wrong = full();
        wrong.mips[0].offset = u64::MAX - 4;
        assert_eq!(wrong.rows(0, 0, 0, 1), None, "no file has it");
        assert_eq!(
            wrong.tile((0, 0), (0, 1), (4, 4), 8),
            None,
            "no file has it"
        );
    }
}

mod names {
    use millstream_pak::ErrorKind;
    use millstream_pak::names::{check, escape, matches, unescape};

    #[test]
    fn names_that_lead_out_or_mean_devices_are_refused() {
        let bad: [&[u8]; 20] = [
            b"",
            b"/",
            b"/a",
            b"a/",
            b"a//b",
            b".",
            b"./a",
            b"a/.",
            b"..",
            b"../a",
            b"a/../b",
            b"a\0b",
            b"nul",
            b"a/NUL.txt",
            b"Com1",
            b"lpt9.x",
            b"C:/a",
            b"c:a",
            b"\xff",
            b"a/con .y",
        ];
        for name in bad {
            let error = check(name).expect_err("must be refused");
            assert_eq!(error.kind(), ErrorKind::BadName, "{error}");
        }
        assert!(check(&vec![b'a'; 256]).is_err());
        assert!(check("ä/".repeat(2049).as_bytes()).is_err());
        let good = [
            "a", "a/b.c", "null", "com0", "com10", "...", ".hidden", "a b/ü", "a\\b",
        ];
        for name in good {
            check(name.as_bytes()).expect("a good name");
        }
    }

    #[test]
    fn patterns_match_as_shells_have_it() {
        let yes = [
            ("*.png", "a.png"),
            ("a/*", "a/b"),
            ("a", "a/b/c"),
            ("**/*.png", "x/y/z.png"),
            ("**/*.png", "z.png"),
            ("a/**", "a/b/c"),
            ("a/**/c", "a/c"),
            ("a/**/c", "a/b/b/c"),
            ("**/a/**/c", "x/a/c"),
            ("?", "a"),
            ("a*b*c", "aXbYbZc"),
            ("**", "any/thing"),
            ("a/", "a/b/c"),
        ];
        let no = [
            ("*.png", "a/b.png"),
            ("a/*", "a/b/c"),
            ("?", "/"),
            ("?", ""),
            ("a", "ab"),
            ("a*b", "a/b"),
            ("a*c", "ab"),
            ("a/", "ab/c"),
            ("a/", "a"),
            ("", "a"),
            ("**/a", "ba"),
            ("a/**/c", "a/bc"),
        ];
        for (pattern, name) in yes {
            assert!(
                matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        for (pattern, name) in no {
            assert!(
                !matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
    }

    /// Tries every way to match.
    fn slowly(pattern: &[u8], name: &[u8], folder_starts: bool) -> bool {
        let after = |n: usize| {
            n.checked_sub(1)
                .map_or(folder_starts, |last| name[last] == b'/')
        };
        match pattern {
            [] => name.is_empty(),
            [b'*', b'*', rest @ ..] => {
                let no_folder = folder_starts && rest.first() == Some(&b'/');
                no_folder && slowly(&rest[1..], name, true)
                    || (0..=name.len()).any(|n| slowly(rest, &name[n..], after(n)))
            }
            [b'*', rest @ ..] => (0..=name.len())
                .take_while(|&n| n == 0 || name[n - 1] != b'/')
                .any(|n| slowly(rest, &name[n..], after(n))),
            [wanted, rest @ ..] => name.split_first().is_some_and(|(byte, left)| {
                (wanted == byte || *wanted == b'?' && *byte != b'/')
                    && slowly(rest, left, *byte == b'/')
            }),
        }
    }

    #[test]
    fn patterns_match_what_trying_every_way_finds() {
        let mut random = fastrand::Rng::with_seed(0x9A77);
        let mut matched = 0;
        for _ in 0..200_000 {
            let mut any = |from: &[u8], most| -> Vec<u8> {
                let len = random.usize(0..most);
                (0..len)
                    .map(|_| *random.choice(from).expect("bytes"))
                    .collect()
            };
            let (pattern, name) = (any(b"a/**?b", 9), any(b"ab/", 9));
            if check(&name).is_err() {
                continue; // No package has it.
            }
            // Also what lies below a folder matches.
            let folder = pattern.strip_suffix(b"/").unwrap_or(&pattern);
            let below = name
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with(b"/"));
            let wanted = below || slowly(&pattern, &name, true);
            assert_eq!(matches(&pattern, &name), wanted, "{pattern:?} {name:?}");
            matched += usize::from(wanted);
        }
        assert!(matched > 5_000, "{matched}");
    }

    #[test]
    fn a_question_mark_is_a_character_and_a_dot_the_folder() {
        for (pattern, name, wanted) in [
            ("caf?", "caf\u{e9}", true),
            ("?/??", "\u{1f600}/\u{65e5}\u{672c}", true),
            ("caf??", "caf\u{e9}", false),
            ("a?b", "a/b", false),
            ("./a/*.png", "a/1.png", true),
            ("././a", "a/b", true),
            ("a/./b", "a/b", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                wanted,
                "{pattern}"
            );
        }
        assert!(matches(b"a??", b"a\xff\xe6") && !matches(b"a?", b"a\xffb"));
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_not() {
        let name = "a".repeat(4000);
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn ordinary_names_stay() {
        assert_eq!(escape(b"a b/c.txt"), "a b/c.txt");
        assert_eq!(escape("größe/日本".as_bytes()), "größe/日本");
    }

    #[test]
    fn odd_bytes_become_hexadecimal() {
        assert_eq!(escape(b"a\\b"), "a\\x5cb");
        assert_eq!(
            escape(b"line\nbreak\x1b[0m\x7f"),
            "line\\x0abreak\\x1b[0m\\x7f"
        );
        assert_eq!(escape(b"\xff\xfe"), "\\xff\\xfe");
        assert_eq!(escape(b"cut \xe6\x97"), "cut \\xe6\\x97");
        assert_eq!(escape("\u{85}".as_bytes()), "\\xc2\\x85");
    }

    #[test]
    fn what_is_not_seen_or_turns_the_line_becomes_hexadecimal() {
        assert_eq!(
            escape("a\u{202e}gpj.exe".as_bytes()),
            "a\\xe2\\x80\\xaegpj.exe"
        );
        for unseen in ["\u{200b}", "\u{2028}", "\u{2066}", "\u{feff}", "\u{e0041}"] {
            let text = escape(unseen.as_bytes());
            assert!(
                text.is_ascii() && unescape(text.as_bytes()) == unseen.as_bytes(),
                "{text}"
            );
        }
    }

    #[test]
    fn every_name_comes_back_from_its_text() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            let name: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
            let text = escape(&name);
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assert_eq!(unescape(text.as_bytes()), name, "{text:?}");
        }
    }
}
