//! The tables that OpenSM 3.3.23 wrote on ibsim for an 8 x 8 torus, before and after one link went
//! off (Ebb's shared test data).

use std::io::Read;
use std::path::{Path, PathBuf};

use ebb_system_fabric::format::set::{self, File, Set};
use ebb_system_fabric::transition::{Options, Scheme, check_transition};
use ebb_system_fabric::{Fabric, check};

fn data() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/fabric");
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing", path.display());
    eprintln!("skipped: {} is missing", path.display());
    None
}

fn unpacked(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let packed = std::fs::read(folder.join(format!("{name}.gz"))).ok()?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("gzip");
    Some(bytes)
}

fn fabric(name: &str) -> Option<Fabric> {
    let folder = data()?.join(name);
    let [topology, forwarding, levels, lanes] =
        [set::TOPOLOGY, set::FORWARDING, set::LEVELS, set::LANES]
            .map(|file| (file, unpacked(&folder, file)));
    let file = |(name, bytes): &'static (&str, Option<Vec<u8>>)| {
        bytes.as_ref().map(|bytes| File { name, bytes })
    };
    let [topology, forwarding, levels, lanes] =
        [topology, forwarding, levels, lanes].map(|pair| file(Box::leak(Box::new(pair))));
    let (topology, forwarding) = (topology.expect("a topology"), forwarding.expect("tables"));
    Some(set::read(&Set { topology, forwarding, levels, lanes }).expect("OpenSM's own files"))
}

#[test]
fn torus_2qos_is_sound_before_and_after() {
    for name in ["torus2qos_before", "torus2qos_after"] {
        let Some(fabric) = fabric(name) else { return };
        let verdict = check::check(&fabric.topology, &fabric.tables);
        assert!(verdict.safe, "{name}: {verdict:?}");
        assert_eq!((verdict.fabric.switches, verdict.fabric.hosts), (64, 64));
        assert_eq!(verdict.fabric.pairs, 4_032);
        assert_eq!(verdict.paths.histogram.iter().sum::<u64>(), 4_032);
        assert!(verdict.lanes.len() >= 2, "{:?}", verdict.lanes);
    }
}

#[test]
fn min_hop_without_lanes_is_rejected_with_a_cycle() {
    let Some(fabric) = fabric("minhop_cyclic") else { return };
    let verdict = check::check(&fabric.topology, &fabric.tables);
    assert!(!verdict.safe && !verdict.deadlock_free && verdict.reachable && verdict.loop_free);
    assert!(verdict.channels_in_cycles > 0);
    assert!(verdict.cycle.len() >= 3, "{:?}", verdict.cycle);
}

#[test]
fn torus_2qos_cannot_change_without_a_scheme() {
    let (Some(old), Some(new)) = (fabric("torus2qos_before"), fabric("torus2qos_after")) else {
        return;
    };
    let verdict = check_transition(&old, &new, Options::default()).expect("one fabric");
    assert_eq!((verdict.changed_entries, verdict.changed_switches), (320, 8));
    assert!(verdict.old.is_sound() && verdict.new.is_sound());
    assert!(!verdict.union_acyclic && !verdict.mixed_acyclic);
    let safe: Vec<bool> = Scheme::ALL.iter().map(|scheme| verdict.scheme(*scheme).safe).collect();
    assert_eq!(safe, [false, false, true, true, true, true], "{verdict:#?}");
    assert!(!verdict.scheme(Scheme::Instant).cycle.is_empty());
    assert_eq!(verdict.scheme(Scheme::Ds).figures["lanes_needed"], 4);
}

#[test]
fn up_down_fails_unsynchronised_although_the_union_has_no_cycle() {
    let (Some(old), Some(new)) = (fabric("updn_before"), fabric("updn_after")) else { return };
    let verdict = check_transition(&old, &new, Options::default()).expect("one fabric");
    assert!(verdict.old.is_sound() && verdict.new.is_sound() && verdict.union_acyclic);
    assert!(verdict.mixed_loop_destinations > 0, "{verdict:#?}");
    assert!(verdict.scheme(Scheme::Instant).safe);
    assert!(!verdict.scheme(Scheme::Unsynchronised).safe);
    assert!(!verdict.scheme(Scheme::Unsynchronised).forwarding_loop.is_empty());
    assert!(verdict.scheme(Scheme::Sr).safe && verdict.scheme(Scheme::Upr).safe);
}

#[test]
fn nothing_changes_nothing_fails() {
    let Some(same) = fabric("torus2qos_before") else { return };
    let verdict = check_transition(&same, &same, Options { lanes: 8 }).expect("one fabric");
    assert_eq!((verdict.changed_entries, verdict.mixed_loop_destinations), (0, 0));
    assert!(verdict.schemes.values().all(|scheme| scheme.safe), "{verdict:#?}");
    let verdict = check_transition(&same, &same, Options { lanes: 3 }).expect("one fabric");
    assert!(!verdict.scheme(Scheme::Ds).safe);
}

#[test]
fn no_scheme_leads_to_tables_that_deadlock() {
    let (Some(old), Some(new)) = (fabric("updn_before"), fabric("minhop_cyclic")) else { return };
    let verdict = check_transition(&old, &new, Options::default()).expect("one fabric");
    assert!(verdict.schemes.values().all(|scheme| !scheme.safe && !scheme.cycle.is_empty()));
}

#[test]
fn opensm_files_come_out_as_they_went_in() {
    let Some(fabric) = fabric("torus2qos_before") else { return };
    let folder = data().expect("found before").join("torus2qos_before");
    for (name, text) in set::write(&fabric) {
        let original = String::from_utf8(unpacked(&folder, name).expect("a file")).expect("text");
        if name == set::TOPOLOGY {
            let again = ebb_system_fabric::format::ibnetdiscover::read(name, text.as_bytes());
            let again = again.expect("our own file");
            assert_eq!(again.switches(), fabric.topology.switches());
            assert!(again.links().eq(fabric.topology.links()));
            let guids = |topology: &ebb_system_fabric::Topology| {
                let mut hosts = topology.hosts().to_vec();
                hosts.sort_by_key(|host| host.guid);
                hosts
            };
            assert!(guids(&again) == guids(&fabric.topology));
        } else {
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert!(sorted(&text) == sorted(&original), "{name} differs");
        }
    }
}
