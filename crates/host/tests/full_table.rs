//! A full Internet table through the kernel and back.

use crate::common;

use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use ebb_host::netlink::{Event, Monitor, Part, Requests, Route, RouteChange, RouteHop, Veth};
use ebb_host::process;
use ipnet::IpNet;

/// The prefixes of a full table, or `None` after saying why the test is skipped.
fn prefixes(file: &str) -> Option<Vec<IpNet>> {
    let path = format!("{}/../../../shared/data/routes/{file}", env!("CARGO_MANIFEST_DIR"));
    if !std::path::Path::new(&path).exists() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{path} is missing");
        println!("skipped: {path} is missing");
        return None;
    }
    let mut gunzip = Command::new("gzip")
        .args(["-dc", &path])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("gzip is installed");
    let mut text = String::new();
    gunzip.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    gunzip.wait().unwrap();
    let prefix = |line: &str| line.split_whitespace().next()?.parse().ok();
    Some(text.lines().filter_map(prefix).collect())
}

/// CPU time, user CPU time and wall time that `work` took.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let (cpu, wall) = (process::cpu_time_of_this_thread(), Instant::now());
    let result = work();
    let used = process::cpu_time_of_this_thread().since(cpu);
    println!(
        "{what}: {:.3} s CPU ({:.3} s in the program, {:.3} s in the kernel), {:.3} s wall",
        used.total().as_secs_f64(),
        used.user.as_secs_f64(),
        used.system.as_secs_f64(),
        wall.elapsed().as_secs_f64()
    );
    (result, used.total())
}

#[test]
fn a_full_table_is_added_and_dumped() {
    let Some(namespace) = common::namespace("full") else { return };
    let (Some(mut all), Some(six)) = (prefixes("ipv4.txt.gz"), prefixes("ipv6.txt.gz")) else {
        return;
    };
    all.extend(six);
    // One prefix is listed with two origins.
    all.dedup();
    let _entered = namespace.enter().unwrap();
    let mut requests = Requests::open().unwrap();
    requests.add_veth(Veth::new("a"), Veth::new("b")).unwrap();
    for name in ["lo", "a", "b"] {
        let index = requests.link_by_name(name).unwrap().unwrap().index;
        requests.set_up(index, true).unwrap();
    }
    let link = requests.link_by_name("a").unwrap().unwrap().index;
    requests.add_address(link, "169.254.7.1/30".parse().unwrap()).unwrap();
    requests.add_address(link, "fd00:7::1/64".parse().unwrap()).unwrap();
    let change = |&prefix: &IpNet| {
        let gateway = match prefix {
            IpNet::V4(_) => "169.254.7.2".parse().unwrap(),
            IpNet::V6(_) => "fd00:7::2".parse().unwrap(),
        };
        RouteChange::Add(Route::unicast(prefix, [RouteHop::new(Some(link), Some(gateway))]))
    };
    let (refusals, _) = timed("add", || requests.change_routes(all.iter().map(change)).unwrap());
    assert!(refusals.is_empty(), "{:?}", &refusals[..refusals.len().min(5)]);

    let mut monitor = Monitor::open().unwrap();
    let mut seen = 0;
    let (_, cpu) = timed("dump", || {
        monitor
            .dump(&mut |event| {
                seen += usize::from(matches!(event, Event::Route { route, .. }
                    if route.hops.first().is_some_and(|hop| hop.gateway.is_some())));
            })
            .unwrap();
    });
    println!("{} prefixes added, {seen} seen", all.len());
    for part in [Part::Routes4, Part::Routes6] {
        timed(&format!("dump {part:?}"), || monitor.dump_part(part, &mut |_| ()).unwrap());
    }
    assert_eq!(seen, all.len());
    // Of the two seconds that loading a table may take in all.
    assert!(cpu < Duration::from_millis(1200), "{cpu:?}");
}
