//! Racks of one process on threads of their own.

use super::router::{running, said};
use super::*;

/// Both carry packets, take over another configuration, are shown together and end with the program.
#[test]
fn racks_are_served_by_threads_of_their_own() {
    if !permitted() {
        return;
    }
    let change = |racks: &Racks, from: &str, to: &str| {
        let text = fs::read_to_string(racks.at("tor.toml")).expect("a configuration");
        fs::write(racks.at("tor.toml"), text.replace(from, to)).expect("a configuration");
    };
    let mut running = running("threads", |racks| change(racks, "[tor]\n", "[tor]\nthreads = 2\n"));
    let racks = &running.racks;
    let pings = || {
        let ping = ["ping", "-q", "-c", "20", "-i", "0.05", "-W", "2", "10.77.1.5"];
        let words = said(racks, "h0", &ping);
        assert!(until(|| said(racks, "h0", &ping).contains(" 0% packet loss")), "{words}");
    };
    pings();
    let tasks = Path::new("/proc").join(running.programs[2].pid().to_string()).join("task");
    let names: String = fs::read_dir(tasks)
        .expect("it runs")
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .collect();
    assert!(names.contains("ebb-tor\n") && names.contains("ebb-tor1\n"), "{names}");
    let status = racks.status("tor");
    for rack in [0, 1] {
        let shown = &status["racks"][rack];
        assert_eq!(shown["rack"], rack);
        assert!(number(&shown["sent"]) >= 20.0 && number(&shown["to_hosts"]) >= 20.0, "{status}");
    }
    // Both threads do as they are told: as a packet switch there are no days.
    change(racks, "circuits", "packets");
    let text = fs::read_to_string(racks.at("ocs.toml")).expect("a configuration");
    fs::write(racks.at("ocs.toml"), text.replace("circuits", "packets")).expect("a configuration");
    running.programs[1].signal(Signal::SIGHUP).expect("it runs");
    good(EBB, &["tor", "reload", "--socket", &racks.at("tor.sock")]);
    let days = || [0, 1].map(|rack| number(&racks.status("tor")["racks"][rack]["days"]));
    let mut before = days();
    let none_more = until(|| {
        let now = days();
        std::mem::replace(&mut before, now) == now
    });
    assert!(none_more, "{}", racks.status("tor"));
    pings();
    let ended = running.programs[2].end(PATIENCE).expect("a child");
    assert!(ended.success(), "{}", running.programs[2].log());
}
