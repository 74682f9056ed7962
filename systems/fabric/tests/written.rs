//! What is written for other programs, read by them: networkx, SLURM's controller, OpenSM (beside, in `opensm`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use ebb_system_fabric::format::{graphml, slurm};
use ebb_system_fabric::topology::dragonfly::Dragonfly;
use ebb_system_fabric::topology::{Topology, grid, tree};

/// Reads the GraphML of `argv[1]` and says what kind of graph it is, and all of it.
const NETWORKX: &str = r#"
import json, sys, networkx
graph = networkx.read_graphml(sys.argv[1])
names = networkx.get_node_attributes(graph, "label")
edges = sorted([names[a], int(d["port_source"]), names[b], int(d["port_target"])]
               for a, b, d in graph.edges(data=True))
print(json.dumps({
    "directed": graph.is_directed(), "multigraph": graph.is_multigraph(),
    "nodes": sorted([d["label"], d["type"], d.get("ports", 0)] for _, d in graph.nodes(data=True)),
    "edges": edges}))
networkx.write_graphml(graph, sys.argv[2])
networkx.write_gml(networkx.relabel_nodes(graph, names), sys.argv[3])
"#;

#[test]
fn networkx_has_the_same_graph_and_hands_it_back() {
    let Some(python) = super::differential::python() else { return };
    // Two switches in a ring of two have two cables between them.
    for (topology, several) in [
        (grid::torus(&[3, 3], 2).expect("a torus"), false),
        (grid::torus(&[2, 3], 1).expect("a torus"), true),
    ] {
        let place = tempfile::tempdir().expect("a directory");
        let [ours, theirs, gml] =
            ["a.graphml", "b.graphml", "b.gml"].map(|name| place.path().join(name));
        std::fs::write(&ours, graphml::write(&topology)).expect("written");
        let out = Command::new(python)
            .args(["-c", NETWORKX])
            .args([&ours, &theirs, &gml])
            .output()
            .expect("python");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!((&found["directed"], &found["multigraph"]), (&false.into(), &several.into()));
        assert_eq!(found["nodes"], serde_json::json!(nodes(&topology)));
        assert_eq!(found["edges"], serde_json::json!(edges(&topology)));
        for (file, name) in [(&theirs, "b.graphml"), (&gml, "b.gml")] {
            let bytes = std::fs::read(file).expect("networkx's file");
            let again = ebb_system_fabric::format::shape(name, &bytes, 0).expect("read back");
            assert_eq!(
                (nodes(&again), edges(&again)),
                (nodes(&topology), edges(&topology)),
                "{name}"
            );
        }
    }
}

fn nodes(topology: &Topology) -> Vec<(String, &'static str, u8)> {
    let switches = topology.switches().iter().map(|it| (it.name.clone(), "switch", it.ports));
    let hosts = topology.hosts().iter().map(|it| (it.name.clone(), "host", 0));
    let mut all: Vec<_> = switches.chain(hosts).collect();
    all.sort();
    all
}

fn edges(topology: &Topology) -> Vec<(String, u8, String, u8)> {
    let name = |switch| topology.switch(switch).name.clone();
    let links = topology.links().map(|link| (name(link.a.0), link.a.1, name(link.b.0), link.b.1));
    let hosts = topology.hosts().iter();
    let hosts = hosts.map(|it| (name(it.switch), it.port, it.name.clone(), it.node_port));
    let mut all: Vec<_> = links.chain(hosts).collect();
    all.sort();
    all
}

/// Starts a controller in namespaces of its own and asks it for the tree; `$1` is the folder with both files. Its address
/// is that of a link: names are not looked up where there is loopback alone.
const SLURM: &str = r#"
cd "$1" || exit 9
hostname ebbnode && ip link set lo up || exit 9
ip link add ebb0 type veth peer name ebb1 && ip link set ebb1 up && ip addr add 198.18.7.1/24 dev ebb0 || exit 9
ip link set ebb0 up && mkdir state && mount --bind hosts /etc/hosts || exit 9
export SLURM_CONF="$1/slurm.conf"
slurmctld -c > slurmctld.out 2>&1 || exit 8
tries=0
until scontrol show topology > topology.txt 2> scontrol.err && [ -s topology.txt ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || exit 7
    sleep 0.1
done
"#;

#[test]
fn slurm_has_the_same_tree() {
    let found =
        ["slurmctld", "scontrol", "unshare", "ip", "hostname"].iter().all(|program| there(program));
    let inside = || {
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "--uts",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ]);
        command
    };
    if !found || !inside().arg("true").status().is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "slurm-wlm or root is missing");
        return eprintln!("skipped: slurm-wlm or root is missing");
    }
    let dragonfly = Dragonfly::balanced(2).build().expect("a dragonfly");
    for topology in [tree::k_ary_n_tree(3, 3).expect("a tree"), dragonfly] {
        let place = tempfile::tempdir().expect("a directory");
        let written = slurm::write(&topology).text;
        std::fs::write(place.path().join("topology.conf"), &written).expect("written");
        std::fs::write(place.path().join("hosts"), "127.0.0.1 localhost\n198.18.7.1 ebbnode\n")
            .expect("written");
        std::fs::write(place.path().join("slurm.conf"), configuration(place.path(), &written))
            .expect("written");
        let status = inside()
            .args(["sh", "-c", SLURM, "sh"])
            .arg(place.path())
            .stdout(Stdio::null())
            .status();
        let log = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
        assert!(
            status.expect("unshare runs").success(),
            "{}{}",
            log("slurmctld.out"),
            log("slurmctld.log")
        );
        let errors: String = log("slurmctld.log")
            .lines()
            .filter(|line| line.contains("opolog"))
            .map(|line| line.to_owned() + "\n")
            .collect();
        assert_eq!(below(&log("topology.txt")), below(&written), "{errors}");
        assert!(!errors.contains("error"), "{errors}");
    }
}

fn there(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|folder| Path::new(folder).join(program).exists())
}

fn configuration(place: &Path, topology: &str) -> String {
    let place = place.display();
    let lists = topology.lines().filter_map(|line| line.split_once(" Nodes="));
    let nodes: String =
        lists.map(|(_, list)| format!("NodeName={list} NodeAddr=198.18.7.1\n")).collect();
    format!(
        "ClusterName=ebb\nSlurmctldHost=ebbnode(198.18.7.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/none\n\
         CredType=cred/none\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
         TopologyPlugin=topology/tree\nSlurmctldPidFile={place}/slurmctld.pid\nSlurmctldLogFile={place}/slurmctld.log\n\
         StateSaveLocation={place}/state\n{nodes}PartitionName=main Nodes=ALL Default=YES State=UP\n"
    )
}

/// What is directly below each switch, of SLURM's file and of what its controller says of the file.
fn below(text: &str) -> BTreeMap<String, String> {
    let entries = text.lines().filter(|line| line.starts_with("SwitchName="));
    let entry = |line: &str| {
        let word = |key: &str| {
            line.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned)
        };
        let children = word("Switches=").or_else(|| word("Nodes="));
        (word("SwitchName=").expect("a name"), children.expect("children"))
    };
    entries.map(entry).collect()
}
