//! What the control of a cluster costs at rest: so many members, each with a keeper that does nothing, over
//! etcd where that is installed and over the store in the process. Prints a table and a JSON line.
//!
//! All members are in this process; on machines of their own each would have its part of what is printed.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use ebb_clusterd::member::{BackEndMember, Keeper, Member, Record, Servers};
use ebb_clusterd::store::{Embedded, Etcd, EtcdServer, Store};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster::named;
use ebb_host::clock::monotonic;
use ebb_host::process;
use ebb_units::Watts;

const LEASE: Duration = Duration::from_secs(2);
/// How long members may take until all are on.
const PATIENCE: Duration = Duration::from_secs(60);

struct Nothing;

impl Keeper for Nothing {
    fn wake(&mut self) -> Result<()> {
        Ok(())
    }

    fn sleep(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A machine's two accesses to the store.
type Accesses = [Box<dyn Store>; 2];

fn members(count: usize, store: &dyn Fn() -> Result<Accesses>) -> Result<Vec<Member>> {
    let server = Server {
        capacity: 1e6,
        full: Watts(100.0),
        idle: Watts(50.0),
        wake: Duration::from_secs(1),
    };
    let names: Vec<String> = (0..count).map(|index| format!("r{index:03}")).collect();
    let servers: Servers = names.iter().map(|name| (name.clone(), server)).collect();
    let known: Vec<Server> = servers.values().copied().collect();
    let start = |name: &String| -> Result<Member> {
        let policy = named("all", &known, ClusterSettings::default())?;
        let parts = (servers.clone(), policy);
        BackEndMember::new(name, LEASE, store()?, Box::new(Nothing), parts, Record::default())
            .start()
    };
    names.iter().map(start).collect()
}

/// Shares of a core that this process and the store's take once all are on.
fn rest(
    count: usize,
    seconds: f64,
    store: &dyn Fn() -> Result<Accesses>,
    server: Option<u32>,
) -> Result<(f64, f64)> {
    let members = members(count, store)?;
    let ([mut eye, _], begun) = (store()?, monotonic());
    loop {
        let snapshot = eye.snapshot()?;
        let up = snapshot.members.values().filter(|report| report.up).count();
        if up == count {
            break;
        }
        ensure!(monotonic().since(begun) < PATIENCE, "{up} of {count} are on after a minute");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(1));
    let used = || -> Result<(Duration, Duration)> {
        let other = server.map(process::cpu_time_of).transpose()?.unwrap_or_default();
        Ok((process::cpu_time().total(), other))
    };
    let (before, begun) = (used()?, monotonic());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (after, span) = (used()?, monotonic().since(begun).as_secs_f64());
    drop(members);
    Ok(((after.0 - before.0).as_secs_f64() / span, (after.1 - before.1).as_secs_f64() / span))
}

fn main() -> Result<()> {
    let small = std::env::args().any(|word| word == "--small");
    let (count, seconds) = if small { (4, 0.5) } else { (64, 10.0) };
    let mut found = BTreeMap::new();
    let embedded = Embedded::new(LEASE);
    let own =
        || -> Result<Accesses> { Ok([Box::new(embedded.another()), Box::new(embedded.another())]) };
    found.insert("embedded", rest(count, seconds, &own, None)?);
    if EtcdServer::installed() {
        let directory = std::env::temp_dir().join(format!("ebb-control-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let server = EtcdServer::start(&directory)?;
        let far = || -> Result<Accesses> {
            let one = Etcd::new(&server.options(), "bench", LEASE)?;
            Ok([Box::new(one.another()), Box::new(one)])
        };
        let measured = rest(count, seconds, &far, Some(server.pid()));
        drop(server);
        std::fs::remove_dir_all(&directory)?;
        found.insert("etcd", measured?);
    } else {
        eprintln!("without etcd: it is not installed (Debian: etcd-server)");
    }
    println!("{:<12} {:>22} {:>16}", "store", "members, % of a core", "etcd, %");
    for (name, (own, far)) in &found {
        println!("{name:<12} {:>22.2} {:>16.2}", 100.0 * own, 100.0 * far);
    }
    let one = |(name, (own, far)): (&&str, &(f64, f64))| {
        let value = serde_json::json!({ "members_core": own, "etcd_core": far });
        ((*name).to_owned(), value)
    };
    let stores: serde_json::Map<String, serde_json::Value> = found.iter().map(one).collect();
    println!("{}", serde_json::json!({ "back_ends": count, "seconds": seconds, "stores": stores }));
    Ok(())
}
