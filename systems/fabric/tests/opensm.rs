//! Real OpenSM on ibsim: its tables are read and judged, ours are loaded by its file engine and come
//! out the same.
//!
//! The simulator's sockets live in a network namespace of the test's own; every process is ended by
//! its number.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ebb_system_fabric::format::{ibnetdiscover, ibsim, lfts, opensm as files, set};
use ebb_system_fabric::routing::{self, Options};
use ebb_system_fabric::topology::{Shape, Topology, dragonfly, grid, tree};
use ebb_system_fabric::{Fabric, Tables, check, transition};

/// Starts ibsim, runs OpenSM once and asks for the topology. `$1` is the folder, `$2` the library
/// that stands in for the kernel, the rest OpenSM's arguments.
const SCRIPT: &str = r#"
cd "$1" || exit 9
library=$2
shift 2
ibsim -s -n net > ibsim.log 2>&1 < /dev/null &
simulator=$!
trap 'kill $simulator 2> /dev/null' EXIT
export LD_PRELOAD=$library OSM_TMP_DIR=. OSM_CACHE_DIR=.
tries=0
while :; do
    timeout 60 opensm -o -f opensm.log -D 0x43 "$@" > opensm.out 2>&1
    [ -s opensm-lfts.dump ] && break
    tries=$((tries + 1))
    [ $tries -lt 20 ] || exit 8
    sleep 0.25
done
timeout 60 ibnetdiscover > ibnetdiscover.txt 2> ibnetdiscover.err
"#;

fn library() -> Option<PathBuf> {
    let on_path = |program: &str| {
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        path.split(':').any(|folder| Path::new(folder).join(program).exists())
    };
    let stand_in = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]
        .map(|folder| Path::new(folder).join("umad2sim/libumad2sim.so"))
        .into_iter()
        .find(|path| path.exists());
    let programs = ["opensm", "ibsim", "ibnetdiscover", "unshare"];
    let missing: Vec<&str> = programs.into_iter().filter(|it| !on_path(it)).collect();
    if missing.is_empty() && stand_in.is_some() && namespaces() {
        return stand_in;
    }
    let what = format!("{missing:?}, ibsim's library or network namespaces are missing");
    assert!(std::env::var_os("CI").is_none(), "{what}");
    eprintln!("skipped: {what}");
    None
}

fn namespaces() -> bool {
    Command::new("unshare").args(["-rn", "true"]).status().is_ok_and(|status| status.success())
}

/// Runs OpenSM on a net list and returns what it wrote.
fn opensm(folder: &Path, library: &Path, arguments: &[&str]) -> Fabric {
    let _ = std::fs::remove_file(folder.join(set::FORWARDING));
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let status = Command::new("unshare")
        .args(["-rn", "sh", "-c", SCRIPT, "sh"])
        .args([folder, library])
        .args(arguments)
        .env("PATH", path)
        .stdout(Stdio::null())
        .status()
        .expect("unshare runs");
    let log = std::fs::read_to_string(folder.join("opensm.log")).unwrap_or_default();
    assert!(status.success(), "{status}\n{log}");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("OpenSM's file");
    let topology = ibnetdiscover::read(set::TOPOLOGY, &read(set::TOPOLOGY)).expect("a topology");
    let forwarding =
        lfts::read(set::FORWARDING, &read(set::FORWARDING), &topology).expect("tables");
    let tables = Tables { forwarding, ..Tables::empty(&topology) };
    Fabric { topology, tables }
}

fn simulated(topology: &Topology) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("net"), ibsim::write(topology)).expect("a net list");
    folder
}

#[test]
fn opensm_loads_our_tables() {
    let Some(library) = library() else { return };
    let mesh = grid::torus(&[4, 3], 2).expect("a torus");
    let folder = simulated(&mesh);
    let first = opensm(folder.path(), &library, &["-R", "minhop"]);
    assert_eq!(first.topology.links().count(), mesh.links().count());
    assert_eq!(first.topology.hosts().len(), mesh.hosts().len());
    for name in ["up-down", "nue"] {
        let options = Options { lanes: 1, ..Options::default() };
        let function = routing::by_name(name).expect("a function");
        let (tables, _) = routing::route(function, &first.topology, &options).expect("sound");
        let mut text = String::new();
        let Ok(()) = lfts::write(&first.topology, &tables.forwarding, |part| {
            text += part;
            Ok::<(), std::convert::Infallible>(())
        });
        std::fs::write(folder.path().join("ours.dump"), text).expect("our tables");
        let loaded = opensm(folder.path(), &library, &["-R", "file", "-U", "ours.dump"]);
        assert_eq!(loaded.topology, first.topology, "{name}: addresses stay");
        assert!(loaded.tables.forwarding == tables.forwarding, "{name}: the tables differ");
        assert!(check::check(&loaded.topology, &loaded.tables).safe);
    }
}

#[test]
fn opensm_tables_are_judged() {
    let Some(library) = library() else { return };
    let tree = tree::k_ary_n_tree(2, 3).expect("a tree");
    let folder = simulated(&tree);
    let sound = opensm(folder.path(), &library, &["-R", "minhop"]);
    assert!(check::check(&sound.topology, &sound.tables).safe);
    let torus = grid::torus(&[5, 5], 1).expect("a torus");
    let folder = simulated(&torus);
    let min_hop = opensm(folder.path(), &library, &["-R", "minhop"]);
    let verdict = check::check(&min_hop.topology, &min_hop.tables);
    assert!(verdict.reachable && !verdict.deadlock_free, "{verdict:?}");
    let roots = folder.path().join("roots");
    std::fs::write(&roots, "0x200000\n").expect("a root");
    let arguments = ["-R", "updn", "-a", roots.to_str().expect("a path")];
    let up_down = opensm(folder.path(), &library, &arguments);
    assert!(check::check(&up_down.topology, &up_down.tables).safe);
    let options = transition::Options::default();
    let change = transition::check_transition(&up_down, &min_hop, options).expect("one fabric");
    assert!(change.schemes.values().all(|scheme| !scheme.safe));
}

/// The most paths on a link between switches over the mean.
fn unevenness(verdict: &check::Verdict) -> f64 {
    verdict.load.paths_max as f64 / verdict.load.paths_mean
}

/// Each of OpenSM's engines beside ours of the same name on the same fabric.
#[test]
fn our_engines_are_as_even_as_opensms() {
    let Some(library) = library() else { return };
    let few = tree::Pods { pods: 4, leaves: 3, spines: 3, cores_per_spine: 2, hosts: 4 };
    let whole = tree::Pods::of_radix(6).build().expect("a tree");
    let lacking: Vec<_> = whole.links().step_by(17).take(3).collect();
    let trees = [
        tree::k_ary_n_tree(3, 3).expect("a tree"),
        few.build().expect("a tree"),
        whole.without(&lacking),
        whole,
    ];
    let others = [
        grid::torus(&[4, 4], 2).expect("a torus"),
        grid::torus(&[5, 3], 1).expect("a torus"),
        dragonfly::Dragonfly::balanced(2).build().expect("a dragonfly"),
    ];
    let on = |name: &'static str, fabrics: &[Topology], limit: f64| {
        fabrics.iter().map(|it| (name, it.clone(), limit)).collect::<Vec<_>>()
    };
    // Three paths more on the most crowded link of the tree that lacks links.
    let cases = [
        on("ftree", &trees, 1.0),
        on("dfsssp", &trees[1..2], 1.0),
        on("dfsssp", &trees[2..3], 1.04),
        on("dfsssp", &trees[3..], 1.0),
        on("dfsssp", &others, 1.0),
        on("lash", &others, 1.0),
        on("torus-2qos", &others[..2], 1.0),
    ];
    for (number, (name, topology, limit)) in cases.concat().into_iter().enumerate() {
        let folder = simulated(&topology);
        let (dims, engine) = match topology.shape() {
            Shape::Grid { dims, .. } if name == "torus-2qos" => (dims.clone(), "torus-2QoS"),
            _ => (vec![1, 1], name),
        };
        let seed = format!(
            "torus {} {} 1\nxp_link 0x200000 0x200001\nyp_link 0x200000 {:#x}\n",
            dims[0],
            dims[1],
            0x20_0000 + dims[0]
        );
        std::fs::write(folder.path().join("torus.conf"), seed).expect("written");
        let arguments = ["-R", engine, "--torus_config", "torus.conf", "-Q"];
        let theirs =
            opensm(folder.path(), &library, &arguments[..if name == engine { 2 } else { 5 }]);
        let log = std::fs::read_to_string(folder.path().join("opensm.log")).expect("a log");
        let function = routing::by_name(name).expect("a function");
        let options = Options::default();
        let (_, ours) = routing::route(function, &theirs.topology, &options).expect("sound");
        // Levels are not in its tables, and do not move paths.
        let theirs = check::check(&theirs.topology, &theirs.tables);
        assert!(theirs.reachable, "{name}: {log}");
        println!(
            "{:?} {:?}",
            (ours.load, ours.paths.hops_mean),
            (theirs.load, theirs.paths.hops_mean)
        );
        let (ours, theirs) = (unevenness(&ours), unevenness(&theirs));
        println!("{name} on fabric {number}: {ours:.3} ours, {theirs:.3} OpenSM's");
        assert!(
            ours <= theirs * limit,
            "{name} on fabric {number}: {ours} ours, {theirs} OpenSM's"
        );
    }
}

/// Addresses and roots that we write are those that it gives out and routes by.
#[test]
fn opensm_takes_our_addresses_and_roots() {
    let Some(library) = library() else { return };
    let tree = tree::k_ary_n_tree(3, 2).expect("a tree");
    let folder = simulated(&tree);
    let write = |name: &str, text: String| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    let own = opensm(folder.path(), &library, &["-R", "minhop"]);
    // From above instead of from below, so that they are nobody's choice.
    let turned = own.topology.top_lid() + 40;
    let text = files::write_guid2lid(&own.topology);
    let lines = text.lines().filter(|line| !line.is_empty()).map(|line| {
        let (guid, lids) = line.split_once(' ').expect("a GUID");
        let lid = u16::from_str_radix(&lids[2..6], 16).expect("a LID");
        format!("{guid} {0:#06x} {0:#06x}\n\n", turned - lid)
    });
    write("guid2lid", lines.collect());
    write("roots", files::write_roots(&own.topology).expect("a tree"));
    let ours = opensm(folder.path(), &library, &["-x", "-R", "updn", "-a", "roots"]);
    for (before, after) in own.topology.hosts().iter().zip(ours.topology.hosts()) {
        assert_eq!((before.guid, turned - before.lid), (after.guid, after.lid));
    }
    let log = std::fs::read_to_string(folder.path().join("opensm.log")).expect("a log");
    assert!(!log.contains("cannot parse"), "{log}");
    assert!(check::check(&ours.topology, &ours.tables).safe);
}

/// The same fabric from OpenSM's other dumps, none of them converted.
#[test]
fn opensm_dumps_are_read_as_they_come() {
    let Some(library) = library() else { return };
    let torus = grid::torus(&[4, 4], 1).expect("a torus");
    let folder = simulated(&torus);
    std::fs::write(
        folder.path().join("torus.conf"),
        "torus 4 4 1\nxp_link 0x200000 0x200001\nyp_link 0x200000 0x200004\n",
    )
    .expect("written");
    let arguments = ["-R", "torus-2QoS", "--torus_config", "torus.conf", "-Q"];
    let fabric = opensm(folder.path(), &library, &arguments);
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect(name);
    let net = read("net");
    let listed = ebb_system_fabric::format::shape("net", &net, 1).expect("a net list");
    assert_eq!(listed.links().count(), torus.links().count());
    let (shape, routes) = (read("opensm-subnet.lst"), read("opensm.fdbs"));
    let lanes = read("opensm-sl2vl.dump");
    let again = set::read(&set::Set {
        topology: set::File { name: "opensm-subnet.lst", bytes: &shape },
        forwarding: set::File { name: "opensm.fdbs", bytes: &routes },
        levels: None,
        lanes: Some(set::File { name: "opensm-sl2vl.dump", bytes: &lanes }),
    })
    .expect("OpenSM's dumps");
    assert_eq!(again.topology.links().count(), fabric.topology.links().count());
    for host in fabric.topology.hosts() {
        let owner = again.topology.owner(host.lid);
        assert!(matches!(owner, ebb_system_fabric::topology::Owner::Host(_)), "LID {}", host.lid);
    }
    let port = |of: &Fabric, guid: u64, lid| {
        let at = of.topology.switch_ids().find(|at| of.topology.switch(*at).guid == guid);
        of.tables.forwarding.get(at.expect("the switch"), lid)
    };
    for switch in fabric.topology.switches() {
        for lid in fabric.topology.hosts().iter().map(|host| host.lid) {
            assert_eq!(port(&fabric, switch.guid, lid), port(&again, switch.guid, lid));
        }
    }
    assert!(!again.tables.lanes.is_identity());
}
