//! The checker beside a straightforward one in Python (networkx), on random fabrics and tables.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use ebb_system_fabric::format::set;
use ebb_system_fabric::routing::{self, Options};
use ebb_system_fabric::tables::{LANES, LaneMap, ServiceLevels, Tables};
use ebb_system_fabric::topology::{Topology, named};
use ebb_system_fabric::{Fabric, SwitchId, transition};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

const CASES: u64 = 60;

/// The interpreter that has networkx: Debian's, which Debian's package serves.
pub(crate) fn python() -> Option<&'static str> {
    let found = ["/usr/bin/python3", "python3"].into_iter().find(|it| {
        let mut command = Command::new(it);
        command.args(["-c", "import networkx"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "python3-networkx is missing");
    if found.is_none() {
        eprintln!("skipped: python3-networkx is missing");
    }
    found
}

fn topology(rng: &mut ChaCha8Rng) -> Topology {
    let names = ["torus:4", "torus:3x3", "mesh:3x3", "torus:4x3,hosts=2", "random:8x3", "tree:2x3"];
    let topology = named::generate(names[rng.random_range(0..names.len())], rng).expect("a fabric");
    let links: Vec<_> = topology.links().collect();
    let off = topology.without(&[links[rng.random_range(0..links.len())]]);
    if rng.random_bool(0.3) { off } else { topology }
}

fn tables(topology: &Topology, rng: &mut ChaCha8Rng) -> Tables {
    let name = ["up-down", "min-hop", "nue"][rng.random_range(0..3)];
    let function = routing::by_name(name).expect("a function");
    let mut tables = function.propose(topology, &Options::default()).expect("tables");
    for _ in 0..[0, 0, 1, 3, 12][rng.random_range(0..5)] {
        let switch = SwitchId(rng.random_range(0..topology.switches().len() as u32));
        let lid = topology.hosts()[rng.random_range(0..topology.hosts().len())].lid;
        let port = rng.random_range(0..=topology.switch(switch).ports);
        let port = rng.random_bool(0.9).then_some(port);
        tables.forwarding.set(switch, lid, port);
    }
    if rng.random_bool(0.4) {
        tables.levels = levels(topology, rng);
    }
    if rng.random_bool(0.4) {
        tables.lanes = lanes(topology, rng);
    }
    tables
}

fn levels(topology: &Topology, rng: &mut ChaCha8Rng) -> ServiceLevels {
    let mut levels = ServiceLevels::new(topology.hosts().len(), topology.top_lid());
    for host in topology.host_ids() {
        for other in topology.hosts() {
            levels.add(host, other.lid, rng.random_range(0..3));
        }
    }
    levels
}

fn lanes(topology: &Topology, rng: &mut ChaCha8Rng) -> LaneMap {
    let mut lanes = LaneMap::new(topology);
    for switch in topology.switch_ids() {
        let ports = topology.switch(switch).ports;
        for output in 0..=ports {
            for input in 0..=ports {
                let mut row: [u8; LANES] = std::array::from_fn(|_| rng.random_range(0..3));
                if rng.random_bool(0.02) {
                    row[0] = 15;
                }
                lanes.set_row(switch, input, output, row);
            }
        }
    }
    lanes
}

fn write(folder: &Path, fabric: &Fabric) -> Fabric {
    std::fs::create_dir_all(folder).expect("a directory");
    for (name, text) in set::write(fabric) {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    fabric.clone()
}

#[test]
fn both_checkers_agree() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/check.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python runs");
    let mut cases = Vec::new();
    let mut list = String::new();
    for seed in 0..CASES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = topology(&mut rng);
        let links: Vec<_> = shape.links().collect();
        let less = shape.without(&[links[rng.random_range(0..links.len())]]);
        let later = if rng.random_bool(0.5) { less } else { shape.clone() };
        let (old, new) = (tables(&shape, &mut rng), tables(&later, &mut rng));
        let place = |which: &str| folder.path().join(format!("{seed}-{which}"));
        let old = write(&place("old"), &Fabric { topology: shape, tables: old });
        let new = write(&place("new"), &Fabric { topology: later, tables: new });
        list += &format!("{} {}\n", place("old").display(), place("new").display());
        cases.push((old, new));
    }
    let mut input = child.stdin.take().expect("a pipe");
    let feeder = std::thread::spawn(move || input.write_all(list.as_bytes()));
    let output = child.wait_with_output().expect("python ends");
    feeder.join().expect("the feeder").expect("the list is written");
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), cases.len());
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    for (seed, ((old, new), theirs)) in cases.iter().zip(&answers).enumerate() {
        let ours = transition::check_transition(old, new, transition::Options::default());
        let ours = serde_json::to_value(ours.expect("one fabric")).expect("JSON");
        for (key, value) in theirs.as_object().expect("an object") {
            assert_eq!(&ours[key], value, "case {seed}, {key}");
        }
        let kind = format!("{} {}", ours["union_acyclic"], ours["mixed_acyclic"]);
        *kinds.entry(kind).or_default() += 1;
    }
    assert!(kinds.len() == 3, "the cases cover sound, mixed and cyclic changes: {kinds:?}");
}
