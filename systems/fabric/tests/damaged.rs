//! Damaged files: an error with file and line, never a panic, never a wrong table in silence.

use ebb_system_fabric::format::set::{self, File, Set};
use ebb_system_fabric::format::{Malformed, graphml};
use ebb_system_fabric::routing::{self, Options, dimension_order::DimensionOrder};
use ebb_system_fabric::topology::grid;
use ebb_system_fabric::{Fabric, check};
use proptest::prelude::*;

fn sound() -> Fabric {
    let topology = grid::torus(&[3, 3], 1).expect("a torus");
    let routed = routing::route(&DimensionOrder, &topology, &Options::default());
    Fabric { tables: routed.expect("sound").0, topology }
}

/// The set with one of its files replaced.
fn read(texts: &[(&'static str, String)], which: usize, bytes: &[u8]) -> Result<Fabric, Malformed> {
    let file = |index: usize| {
        let (name, text) = &texts[index];
        File { name, bytes: if index == which { bytes } else { text.as_bytes() } }
    };
    let (levels, lanes) = (Some(file(2)), Some(file(3)));
    set::read(&Set { topology: file(0), forwarding: file(1), levels, lanes })
}

/// Damage of one file can come to light in another that contradicts it.
fn names_its_place(error: &Malformed, name: &str, bytes: &[u8]) {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    assert!(error.line >= 1 && (error.line <= lines || error.file != name), "{error}");
    assert!(!error.what.is_empty());
    assert!(error.to_string().starts_with(&format!("{}:{}: ", error.file, error.line)));
}

#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Flip(usize, u8),
    DropLine(usize),
    RepeatLine(usize),
    Noise(usize, Vec<u8>),
    Digit(usize, u8),
}

impl Damage {
    fn to(&self, text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        match self {
            Damage::Cut(at) => bytes.truncate(at % bytes.len()),
            Damage::Flip(at, mask) => {
                let at = at % bytes.len();
                bytes[at] ^= mask;
            }
            Damage::DropLine(at) => {
                let at = at % lines.len();
                return [&lines[..at], &lines[at + 1..]].concat().concat().into_bytes();
            }
            Damage::RepeatLine(at) => {
                let at = at % lines.len();
                return [&lines[..at], &lines[at..=at], &lines[at..]]
                    .concat()
                    .concat()
                    .into_bytes();
            }
            Damage::Noise(at, noise) => {
                let at = at % bytes.len();
                bytes.splice(at..at, noise.iter().copied());
            }
            Damage::Digit(at, digit) => {
                let digits: Vec<usize> =
                    (0..bytes.len()).filter(|index| bytes[*index].is_ascii_digit()).collect();
                bytes[digits[at % digits.len()]] = b'0' + digit % 10;
            }
        }
        bytes
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<usize>().prop_map(Damage::Cut),
        (any::<usize>(), 1u8..=255).prop_map(|(at, mask)| Damage::Flip(at, mask)),
        any::<usize>().prop_map(Damage::DropLine),
        any::<usize>().prop_map(Damage::RepeatLine),
        (any::<usize>(), prop::collection::vec(any::<u8>(), 1..40))
            .prop_map(|(at, noise)| Damage::Noise(at, noise)),
        (any::<usize>(), any::<u8>()).prop_map(|(at, digit)| Damage::Digit(at, digit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    /// Whatever is read in spite of the damage can be checked.
    #[test]
    fn damaged_sets_are_refused_or_checked(which in 0usize..4, damage in damage()) {
        let texts = set::write(&sound());
        let bytes = damage.to(&texts[which].1);
        match read(&texts, which, &bytes) {
            Ok(fabric) => drop(check::check(&fabric.topology, &fabric.tables)),
            Err(error) => names_its_place(&error, texts[which].0, &bytes),
        }
    }

    /// A file that stops early never passes for a whole one.
    #[test]
    fn truncated_files_are_refused(which in 0usize..4, at in any::<usize>()) {
        let fabric = sound();
        let texts = set::write(&fabric);
        let text = &texts[which].1;
        let cut = at % text.trim_end().len();
        match read(&texts, which, &text.as_bytes()[..cut]) {
            Err(error) => names_its_place(&error, texts[which].0, &text.as_bytes()[..cut]),
            Ok(read) => {
                let same = read.topology.hosts().len() == fabric.topology.hosts().len()
                    && check::check(&read.topology, &read.tables)
                        == check::check(&fabric.topology, &fabric.tables);
                prop_assert!(same, "cut at {} of {}", cut, texts[which].0);
            }
        }
    }

    #[test]
    fn damaged_graphs_are_refused_or_read(damage in damage()) {
        let text = graphml::write(&sound().topology);
        let bytes = damage.to(&text);
        if let Err(error) = graphml::read("x.graphml", &bytes, 1) {
            prop_assert!(error.line >= 1 && !error.what.is_empty());
        }
    }
}

#[test]
fn what_operators_get_wrong_is_named() {
    let texts = set::write(&sound());
    let lfts = &texts[1].1;
    let first_entry = lfts.lines().nth(1).expect("an entry");
    let beyond = format!("{}099{}", &first_entry[..7], &first_entry[10..]);
    for (from, to, line, what) in [
        (first_entry, beyond.as_str(), 2, "has 5 ports"),
        ("[0-18]", "[0-5]", 7, "above the switch's"),
        ("[0-18]", "[18-0]", 1, "TOP up to"),
        ("[0-18]", "[0-60000]", 1, "TOP up to"),
        ("0x0002 ", "0x0001 ", 3, "belongs to"),
        ("guid 0x0000000000200000", "guid 0x0000000000999999", 1, "not in the topology"),
        ("2 guid 0x0000000000200001", "2 guid 0x0000000000200000", 21, "LID 1 in the topology"),
        ("portguid 0x0000000000200002", "portguid 0x0000000000200003", 4, "belongs to"),
        ("18 lids dumped", "17 lids dumped", 20, "entries up to LID"),
    ] {
        let text = lfts.replacen(from, to, 1);
        assert_ne!(&text, lfts, "{from}");
        let error = read(&texts, 1, text.as_bytes()).expect_err(what);
        assert!(error.line == line && error.what.contains(what), "{error}");
    }
    let second = lfts.match_indices("Unicast").nth(1).expect("a second switch").0;
    let error = read(&texts, 1, &lfts.as_bytes()[second..]).expect_err("a switch is missing");
    assert!(error.what.contains("S0 is missing"), "{error}");
}
