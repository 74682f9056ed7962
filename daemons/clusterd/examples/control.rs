//! What the control of a cluster costs at rest: so many members, each with a keeper that does nothing, over
//! etcd where that is installed and over the store in the process. Prints a table and a JSON line.
//!
//! With `--routes N` keepers are network namespaces whose kernels have all N routes that a program in one of
//! them has learnt, and a change of one of them is timed until the last has it. 64 of them and the Internet's
//! 732,483 take some 15 GiB and a quarter of an hour; `--back-ends N` takes fewer.
//!
//! All members are in this process; on machines of their own each would have its part of what is printed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use ebb_clusterd::member::{BackEndMember, Keeper, Member, Record, Servers};
use ebb_clusterd::routes::{Routing, RoutingPlan};
use ebb_clusterd::store::{Embedded, Etcd, EtcdServer, Store};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_control::policies::cluster::named;
use ebb_host::clock::monotonic;
use ebb_host::journal::{DIRECTORY, Guard, Journal, Undo};
use ebb_host::namespace::Namespace;
use ebb_host::netlink::{Event, Monitor, Requests, Route, RouteChange, RouteHop, Veth};
use ebb_host::process;
use ebb_units::Watts;
use ipnet::IpNet;

/// As the cluster's routes are marked in kernels.
const PUBLISHED: u8 = 235;
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

/// A namespace with the cluster's routes.
struct Space {
    name: String,
    journal: Journal,
    plan: RoutingPlan,
    inside: Option<(Namespace, Routing)>,
}

impl Keeper for Space {
    fn wake(&mut self) -> Result<()> {
        self.journal.record(Undo::Namespace { name: self.name.clone() })?;
        let space = Namespace::create(&self.name)?;
        let links = space.run(|| -> Result<Vec<u32>> {
            let mut requests = Requests::open()?;
            requests.add_veth(Veth::new("e0"), Veth::new("far"))?;
            for name in ["e0", "far"] {
                let link = requests.index_of(name)?;
                requests.set_up(link, true)?;
            }
            let link = requests.index_of("e0")?;
            requests.add_address(link, "10.0.0.1/24".parse()?)?;
            Ok(vec![link])
        })??;
        let name = Some(self.name.as_str());
        let routing = Routing::new(self.plan.clone(), name, links, &self.journal)?;
        self.inside = Some((space, routing));
        Ok(())
    }

    fn sleep(&mut self) -> Result<()> {
        self.inside = None;
        Ok(())
    }

    fn routing(&mut self) -> Option<&mut Routing> {
        self.inside.as_mut().map(|(_, routing)| routing)
    }
}

/// Networks of a table, as dense as the Internet's.
fn table(count: u32) -> impl Iterator<Item = IpNet> {
    let address = |n: u32| Ipv4Addr::from((20 << 24) + (n << 8));
    (0..count).map(move |n| IpNet::new(address(n).into(), 24).expect("a length"))
}

/// The program that learns: it puts so many routes into its kernel, then for each line that it is sent by
/// way of a file takes the first out and puts it back.
fn learn(count: u32, order: &Path) -> Result<()> {
    let mut requests = Requests::open()?;
    let link = Some(requests.index_of("e0")?);
    let route = |net: IpNet| {
        let hop = RouteHop::new(link, Some(Ipv4Addr::new(10, 0, 0, 2).into()));
        Route { protocol: 186, metric: 32, ..Route::unicast(net, [hop]) }
    };
    let change = |requests: &mut Requests, changes: Vec<RouteChange>| -> Result<()> {
        let refused = requests.change_routes(changes)?;
        ensure!(refused.is_empty(), "{refused:?}");
        Ok(())
    };
    change(&mut requests, table(count).map(|net| RouteChange::Replace(route(net))).collect())?;
    let first = || table(1).map(route).next().expect("one");
    for done in 0.. {
        while std::fs::read(order).map_or(0, |text| text.len()) <= done {
            std::thread::sleep(Duration::from_millis(1));
        }
        let there = done % 2 == 1;
        let what = if there { RouteChange::Replace } else { RouteChange::Delete };
        change(&mut requests, vec![what(first())])?;
    }
    Ok(())
}

/// A machine's two accesses to the store.
type Accesses = [Box<dyn Store>; 2];

fn members(
    count: usize,
    store: &dyn Fn() -> Result<Accesses>,
    keeper: &dyn Fn(&str) -> Box<dyn Keeper>,
) -> Result<Vec<Member>> {
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
        BackEndMember::new(name, LEASE, store()?, keeper(name), parts, Record::default()).start()
    };
    names.iter().map(start).collect()
}

/// Shares of a core that this process and the store's take once all are on and `ready`.
fn rest(
    (count, seconds): (usize, f64),
    store: &dyn Fn() -> Result<Accesses>,
    keeper: &dyn Fn(&str) -> Box<dyn Keeper>,
    server: Option<u32>,
    ready: &mut dyn FnMut() -> Result<()>,
) -> Result<(f64, f64)> {
    let members = members(count, store, keeper)?;
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
    ready()?;
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

/// The same with a table in the kernels of all back-ends, and how long a change takes to be on all.
fn with_routes(count: usize, seconds: f64, routes: u32) -> Result<()> {
    ensure!(EtcdServer::installed(), "etcd is not installed (Debian: etcd-server)");
    let directory = std::env::temp_dir().join(format!("ebb-control-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let order = directory.join("order");
    // Whatever ends this program, a guard takes out what it has made.
    Journal::recover_stale(DIRECTORY);
    let journal = Journal::open(DIRECTORY)?;
    let guard = Guard::spawn(&journal)?;
    journal.record(Undo::Directory { path: directory.clone() })?;
    let server = EtcdServer::start(&directory)?;
    journal.record(Undo::process(server.pid())?)?;
    let program = std::env::current_exe()?.display().to_string();
    let run = vec![program, "learn".to_owned(), routes.to_string(), order.display().to_string()];
    let plan = RoutingPlan { run, hold: Duration::ZERO };
    let name = |back_end: &str| format!("ebb-control-{}-{back_end}", std::process::id());
    let keeper = |back_end: &str| {
        let (journal, plan) = (journal.clone(), plan.clone());
        Box::new(Space { name: name(back_end), journal, plan, inside: None }) as Box<dyn Keeper>
    };
    let far = || -> Result<Accesses> {
        let one = Etcd::new(&server.options(), "bench", LEASE)?;
        Ok([Box::new(one.another()), Box::new(one)])
    };
    let begun = monotonic();
    let mut came = Duration::ZERO;
    let mut changes = Vec::new();
    let mut ready = || -> Result<()> {
        let space = |n: usize| Ok(Namespace::open(&name(&format!("r{n:03}")))?);
        let spaces: Vec<Namespace> = (0..count).map(space).collect::<Result<_>>()?;
        let routes = u64::from(routes);
        let second = Duration::from_secs(1);
        for (number, space) in spaces.iter().enumerate() {
            while prefixes(space)? < routes {
                std::thread::sleep(second);
            }
            eprint!("\r{} of {count} back-ends have all routes", number + 1);
        }
        // One of them has what it has learnt as well.
        while spaces.iter().map(prefixes).collect::<Result<Vec<_>>>()?.iter().max()
            < Some(&(2 * routes))
        {
            std::thread::sleep(second);
        }
        eprintln!();
        came = monotonic().since(begun);
        let open = |space: &Namespace| Ok(space.run(Monitor::open)??);
        let mut monitors: Vec<Monitor> = spaces.iter().map(open).collect::<Result<_>>()?;
        for step in 1..=20 {
            std::thread::sleep(Duration::from_millis(500));
            std::fs::write(&order, vec![b'.'; step])?;
            let begun = monotonic();
            for monitor in &mut monitors {
                let mut heard = false;
                while !heard {
                    monitor.poll(&mut |event| {
                        let (Event::Route { route, .. } | Event::RouteGone(route)) = event else {
                            return;
                        };
                        heard |= route.protocol == PUBLISHED;
                    })?;
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            changes.push(1e3 * monotonic().since(begun).as_secs_f64());
        }
        Ok(())
    };
    let measured = rest((count, seconds), &far, &keeper, Some(server.pid()), &mut ready);
    drop(server);
    std::fs::remove_dir_all(&directory)?;
    journal.finish();
    drop(guard);
    let (own, far) = measured?;
    changes.sort_by(f64::total_cmp);
    let (median, most) = (changes[changes.len() / 2], changes[changes.len() - 1]);
    let (own_percent, far_percent, came) = (100.0 * own, 100.0 * far, came.as_secs_f64());
    println!("{count} back-ends with {routes} routes, on all of them after {came:.1} s");
    println!("at rest members take {own_percent:.2} % of a core, etcd {far_percent:.2} %");
    println!("a change is on all after {median:.0} ms (median of 20), at most {most:.0}");
    let found = serde_json::json!({
        "back_ends": count, "routes": routes, "seconds": seconds, "members_core": own, "etcd_core": far,
        "all_s": came, "change_ms": { "median": median, "most": most },
    });
    println!("{found}");
    Ok(())
}

/// IPv4 prefixes in a namespace's tables.
fn prefixes(space: &Namespace) -> Result<u64> {
    let text = space.run(|| std::fs::read_to_string("/proc/thread-self/net/fib_triestat"))??;
    // The tables `main` and `local` share one trie, which is told twice.
    let mut counts = text.lines().filter_map(|line| line.trim().strip_prefix("Prefixes:"));
    Ok(counts.next().context("no table")?.trim().parse()?)
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str| -> Result<Option<u32>> {
        let at = words.iter().position(|word| word == name);
        let text = at.map(|at| words.get(at + 1).context("a number is missing")).transpose()?;
        Ok(text.map(|text| text.parse()).transpose()?)
    };
    if let [_, learns, count, order] = &words[..]
        && learns == "learn"
    {
        return learn(count.parse()?, Path::new(order));
    }
    let small = words.iter().any(|word| word == "--small");
    let (count, seconds) = if small { (4, 0.5) } else { (64, 10.0) };
    let count = number("--back-ends")?.map_or(count, |count| count as usize);
    if let Some(routes) = number("--routes")? {
        return with_routes(count, seconds, routes);
    }
    let nothing = |_: &str| Box::new(Nothing) as Box<dyn Keeper>;
    let mut found = BTreeMap::new();
    let embedded = Embedded::new(LEASE);
    let own =
        || -> Result<Accesses> { Ok([Box::new(embedded.another()), Box::new(embedded.another())]) };
    found.insert("embedded", rest((count, seconds), &own, &nothing, None, &mut || Ok(()))?);
    if EtcdServer::installed() {
        let directory = std::env::temp_dir().join(format!("ebb-control-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let server = EtcdServer::start(&directory)?;
        let far = || -> Result<Accesses> {
            let one = Etcd::new(&server.options(), "bench", LEASE)?;
            Ok([Box::new(one.another()), Box::new(one)])
        };
        let measured = rest((count, seconds), &far, &nothing, Some(server.pid()), &mut || Ok(()));
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
