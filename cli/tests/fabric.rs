//! `ebb fabric` as a user meets it: exit status, JSON, messages.

use std::path::Path;
use std::process::{Command, Output};

fn ebb(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.arg("fabric").args(arguments).current_dir(folder).output().expect("ebb runs")
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("an exit status")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn tables_are_made_checked_and_compared() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let made =
        ebb(&["route", "torus:5x5", "--with", "nue", "--lanes", "2", "--out", "before"], folder);
    assert_eq!(status(&made), 0, "{made:?}");
    let off =
        ["route", "torus:5x5", "--with", "nue", "--lanes", "2", "--off", "S7:1", "--out", "after"];
    assert_eq!(status(&ebb(&off, folder)), 0);
    let checked = ebb(&["check", "before", "--json"], folder);
    assert_eq!((status(&checked), json(&checked)["deadlock_free"].as_bool()), (0, Some(true)));

    let same = ebb(&["check-transition", "before", "before", "--json", "--scheme", "all"], folder);
    assert_eq!(status(&same), 0);
    let compared = ebb(&["check-transition", "before", "after", "--json"], folder);
    let verdict = json(&compared);
    let keys: Vec<&String> = verdict.as_object().expect("an object").keys().collect();
    let expected = [
        "changed_entries",
        "changed_switches",
        "mixed_acyclic",
        "mixed_loop_destinations",
        "new",
        "old",
        "schemes",
        "union_acyclic",
    ];
    assert_eq!(keys, expected);
    let side: Vec<&String> = verdict["old"].as_object().expect("an object").keys().collect();
    assert_eq!(side, ["acyclic", "channels_in_cycles", "unreachable"]);
    for scheme in ["instant", "unsynchronised", "st", "sr", "ds", "upr"] {
        let safe = verdict["schemes"][scheme]["safe"].as_bool().expect("a verdict");
        let arguments = ["check-transition", "before", "after", "--scheme", scheme];
        assert_eq!(status(&ebb(&arguments, folder)), i32::from(!safe), "{scheme}");
    }
    assert_eq!(verdict["schemes"]["sr"]["safe"], true);
    let plain = verdict["schemes"]["unsynchronised"]["safe"].as_bool().expect("a verdict");
    assert_eq!(status(&compared), i32::from(!plain), "a plain write decides by default");
}

#[test]
fn a_change_of_written_tables_is_simulated_packed_or_not() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--out", "before"], folder)), 0);
    let off = ["route", "torus:4x4", "--off", "S5:1", "--out", "after"];
    assert_eq!(status(&ebb(&off, folder)), 0);
    let plain = folder.join("after/opensm-lfts.dump");
    let packed = std::fs::File::create(folder.join("after/opensm-lfts.dump.gz")).expect("a file");
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all(&std::fs::read(&plain).expect("tables")).expect("written");
    packed.finish().expect("written");
    std::fs::remove_file(&plain).expect("removed");
    let scenario = "tables = \"before\"\nduration_us = 800\ntransient_packets = 10\nbin_us = 50\n\
                    [traffic]\nload = 0.1\n[[change]]\nat_us = 200\ntables = \"after\"\n";
    std::fs::write(folder.join("change.toml"), scenario).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    let run = command.args(["sim", "fabric", "change.toml", "--json"]).current_dir(folder).output();
    let run = run.expect("ebb runs");
    assert_eq!(status(&run), 0, "{run:?}");
    let report = json(&run);
    assert_eq!((&report["changes"], &report["lost"]), (&1.into(), &0.into()));
    assert!(report["links_off_share"].as_f64().expect("a share") > 0.0);
}

#[test]
fn unsound_tables_and_refused_ones_are_status_one() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let refused = ebb(&["route", "torus:6x6", "--with", "min-hop"], folder);
    assert_eq!(status(&refused), 1);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cycles"), "{refused:?}");
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--out", "t"], folder)), 0);
    let path = folder.join("t/opensm-lfts.dump");
    let text = std::fs::read_to_string(&path).expect("tables");
    let hole = text.lines().find(|line| line.contains("Channel Adapter")).expect("an entry");
    std::fs::write(&path, text.replacen(&format!("{hole}\n"), "", 1)).expect("written");
    let checked = ebb(&["check", "t", "--json"], folder);
    assert_eq!((status(&checked), json(&checked)["reachable"].as_bool()), (1, Some(false)));
    assert_eq!(status(&ebb(&["check-transition", "t", "t", "--scheme", "any"], folder)), 1);
}

#[test]
fn unreadable_input_is_status_two_with_file_and_line() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--out", "t"], folder)), 0);
    let path = folder.join("t/opensm-lfts.dump");
    let text = std::fs::read_to_string(&path).expect("tables");
    for (damaged, place) in [
        (text.replacen(" 00", " 0x", 1).into_bytes(), "opensm-lfts.dump:2:"),
        (text.as_bytes()[..text.len() / 2].to_vec(), "opensm-lfts.dump:"),
        (b"\x00\xff\xfe\x01".to_vec(), "opensm-lfts.dump:1:"),
        (Vec::new(), "opensm-lfts.dump:1:"),
    ] {
        std::fs::write(&path, damaged).expect("written");
        for arguments in [vec!["check", "t"], vec!["check-transition", "t", "t", "--json"]] {
            let output = ebb(&arguments, folder);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(status(&output) == 2 && message.contains(place), "{message}");
        }
    }
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(status(&ebb(&["check", "t"], folder)), 2);
    assert_eq!(status(&ebb(&["check", "nowhere"], folder)), 2);
    assert_eq!(status(&ebb(&["route", "ring:4"], folder)), 2);
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--with", "magic"], folder)), 2);
}

#[test]
fn fabrics_are_converted() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let graph = ["convert", "mesh:3x3", "--to", "graphml", "--out", "mesh.graphml"];
    assert_eq!(status(&ebb(&graph, folder)), 0);
    let list = ["convert", "mesh.graphml", "--to", "ibnetdiscover", "--out", "mesh.txt"];
    assert_eq!(status(&ebb(&list, folder)), 0);
    assert_eq!(status(&ebb(&["route", "mesh.txt", "--with", "layered"], folder)), 0);
    let net = ebb(&["convert", "mesh.txt", "--to", "ibsim"], folder);
    assert!(String::from_utf8_lossy(&net.stdout).contains("Switch\t5 \"S4\""));
    std::fs::write(folder.join("mesh.net"), &net.stdout).expect("written");
    assert_eq!(status(&ebb(&["route", "mesh.net", "--with", "layered"], folder)), 0);
}

#[test]
fn tables_are_kept_and_written_compactly() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let made = |arguments: &[&str]| {
        let output = ebb(&[&["route"], arguments].concat(), folder);
        assert_eq!(status(&output), 0, "{output:?}");
    };
    made(&["pods:4", "--out", "home"]);
    made(&["home", "--keep", "--off", "S0:3", "--compact", "--out", "kept"]);
    made(&["pods:4", "--off", "S0:3", "--out", "anew"]);
    made(&["home", "--keep", "--compact", "--out", "back"]);
    assert!(!folder.join("kept/opensm-lfts.dump").exists());
    let changed = |new: &str| json(&ebb(&["check-transition", "home", new, "--json"], folder));
    let (kept, anew) = (&changed("kept")["changed_entries"], &changed("anew")["changed_entries"]);
    assert!(kept.as_u64() < anew.as_u64() && *kept != 0, "{kept} {anew}");
    assert_eq!(changed("back")["changed_entries"], 0);
    assert_eq!(status(&ebb(&["check", "kept"], folder)), 0);
    let vain = ebb(&["route", "home", "--keep", "--with", "nue"], folder);
    assert_eq!(status(&vain), 2);
    assert!(String::from_utf8_lossy(&vain.stderr).contains("--with: has no effect"), "{vain:?}");
    let hosts = ebb(&["route", "home", "--keep", "--hosts", "2"], folder);
    assert_eq!(status(&hosts), 2);
    assert!(String::from_utf8_lossy(&hosts.stderr).contains("--hosts: has no effect"), "{hosts:?}");
    let none = ebb(&["route", "pods:4", "--keep"], folder);
    assert_eq!(status(&none), 2);
    assert!(
        String::from_utf8_lossy(&none.stderr).contains("pods:4: no such directory"),
        "{none:?}"
    );
}

/// A number of hosts that would change nothing is refused, whatever is routed, converted or simulated.
#[test]
fn hosts_per_switch_change_the_fabric_or_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let graph = "<graphml><graph edgedefault=\"undirected\"><node id=\"a\"/><node id=\"b\"/>\
                 <edge source=\"a\" target=\"b\"/></graph></graphml>";
    std::fs::write(folder.join("pair.graphml"), graph).expect("written");
    assert_eq!(status(&ebb(&["route", "pair.graphml", "--hosts", "3", "--out", "t"], folder)), 0);
    let convert = ["convert", "pair.graphml", "--to", "ibnetdiscover", "--hosts", "3"];
    let written = ebb(&convert, folder);
    assert_eq!(String::from_utf8_lossy(&written.stdout).matches("\nCa\t").count(), 6);
    let listed = ["convert", "t/ibnetdiscover.txt", "--to", "graphml", "--hosts", "2"];
    for arguments in [
        &["route", "torus:4x4", "--hosts", "2"][..],
        &["route", "t", "--hosts", "3"],
        &["route", "t", "--keep", "--hosts", "1"],
        &["convert", "torus:4x4", "--to", "ibsim", "--hosts", "1"],
        &listed,
    ] {
        let refused = ebb(arguments, folder);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(status(&refused) == 2 && message.contains("has no effect"), "{message}");
    }
}

/// What another run left would be judged together with what this one wrote.
#[test]
fn tables_take_the_place_of_those_of_another_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let layered = ["route", "torus:5x5", "--with", "layered", "--out", "t"];
    assert_eq!(status(&ebb(&layered, folder)), 0);
    assert!(folder.join("t/sl.csv").exists());
    std::fs::write(folder.join("t/sl2vl.txt"), "of another run").expect("written");
    std::fs::rename(folder.join("t/sl.csv"), folder.join("t/sl.csv.gz")).expect("renamed");
    assert_eq!(status(&ebb(&["route", "torus:5x5", "--out", "t"], folder)), 0);
    for stale in ["sl.csv", "sl.csv.gz", "sl2vl.txt"] {
        assert!(!folder.join("t").join(stale).exists(), "{stale}");
    }
    assert_eq!(status(&ebb(&["check", "t"], folder)), 0);
}

#[test]
fn a_file_in_place_of_a_directory_and_one_that_is_there_twice_are_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--out", "t"], folder)), 0);
    let file = ebb(&["check", "t/opensm-lfts.dump"], folder);
    let message = String::from_utf8_lossy(&file.stderr).into_owned();
    assert!(status(&file) == 2 && message.contains("is a file: name the directory"), "{message}");
    assert!(message.trim_end().ends_with("for example t"), "{message}");
    std::fs::write(folder.join("t/opensm-lfts.dump.gz"), b"old").expect("written");
    let twice = ebb(&["check", "t"], folder);
    let message = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(status(&twice) == 2 && message.contains("exists both plain and as .gz"), "{message}");
}

#[test]
fn one_broken_entry_is_one_line_and_details_name_the_rest() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--out", "t"], folder)), 0);
    let path = folder.join("t/opensm-lfts.dump");
    let text = std::fs::read_to_string(&path).expect("tables");
    let hole = text.lines().find(|line| line.contains("Channel Adapter")).expect("an entry");
    std::fs::write(&path, text.replacen(&format!("{hole}\n"), "", 1)).expect("written");
    let brief = String::from_utf8(ebb(&["check", "t"], folder).stdout).expect("text");
    let rows = brief.lines().filter(|line| line.contains("unreachable from")).count();
    assert!(rows == 1 && brief.contains("sources at S0") && !brief.contains(" to H"), "{brief}");
    assert!(brief.contains("hot link"), "{brief}");
    let long = String::from_utf8(ebb(&["check", "t", "--details"], folder).stdout).expect("text");
    assert!(long.contains("0x0000000000200000") && long.contains(" to H"), "{long}");
}

/// A switch that its own address does not lead to cannot be asked for its counters.
#[test]
fn a_switch_without_its_own_entry_is_not_sound() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--out", "t"], folder)), 0);
    let path = folder.join("t/opensm-lfts.dump");
    let text = std::fs::read_to_string(&path).expect("tables");
    let own =
        text.lines().find(|line| line.starts_with("0x") && line.contains(" 000 ")).expect("own");
    std::fs::write(&path, text.replacen(&format!("{own}\n"), "", 1)).expect("written");
    let checked = ebb(&["check", "t"], folder);
    let words = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(status(&checked) == 1 && words.contains("managed        NO"), "{words}");
    assert!(words.contains("unreachable from 16 switches at S0"), "{words}");
}

#[test]
fn each_hop_of_a_cycle_has_its_guid_lid_and_cable() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    for (root, out) in [("S0", "a"), ("S13", "b")] {
        assert_eq!(status(&ebb(&["route", "torus:5x5", "--root", root, "--out", out], folder)), 0);
    }
    let compared = ebb(&["check-transition", "a", "b", "--details"], folder);
    let words = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert!(words.contains("(GUID 0x00000000002000") && words.contains(", LID "), "{words}");
    assert!(words.contains(" -> S"), "{words}");
}

/// What all studies can do: sweeps, scenarios in files, errors with their place, reports in directories.
#[test]
fn questions_are_studies() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let swept = ebb(&["route", "torus:4x4", "--set", "with=up-down,nue", "--json"], folder);
    assert_eq!(status(&swept), 0, "{swept:?}");
    let words = String::from_utf8_lossy(&swept.stdout).into_owned();
    assert!(words.contains("hops_mean") && words.contains("nue"), "{words}");
    std::fs::write(folder.join("s.toml"), "topology = \"torus:4x4\"\nwtih = \"nue\"\n").expect("s");
    let typo = ebb(&["route", "--scenario", "s.toml"], folder);
    let message = String::from_utf8_lossy(&typo.stderr).into_owned();
    assert!(status(&typo) == 2 && message.contains("s.toml:2: field `wtih`"), "{message}");
    assert_eq!(status(&ebb(&["route", "torus:4x4", "--out", "t"], folder)), 0);
    assert_eq!(status(&ebb(&["check", "t", "--out", "report"], folder)), 0);
    assert!(folder.join("report/report.html").exists());
}
