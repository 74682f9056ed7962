//! Switches and controller on machines that were started at other times: each has a monotonic clock of its own, as in a
//! time namespace, and all share the system's atomic time.

use std::fs;

use ebb_lab::test::{permitted, skip};

use super::*;

/// How much longer the controller's machine has been running, s.
const AHEAD_S: &str = "5000";

fn names_a_clock(racks: &Racks) {
    for (file, tables) in [("tor.toml", &["tor"][..]), ("ocs.toml", &["ocs", "controller"])] {
        let mut text = fs::read_to_string(racks.at(file)).expect("a configuration");
        for table in tables {
            let from = format!("[{table}]\n");
            text = text.replace(&from, &format!("{from}ptp = \"tai\"\n"));
        }
        fs::write(racks.at(file), text).expect("a configuration");
    }
}

#[test]
fn machines_that_started_at_other_times_keep_their_days_by_one_clock() {
    if !permitted() {
        return;
    }
    let apart = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", AHEAD_S];
    if !Command::new(apart[0])
        .args(&apart[1..])
        .arg("true")
        .output()
        .is_ok_and(|o| o.status.success())
    {
        return skip("this kernel has no time namespaces");
    }
    let racks = Racks::build("machines");
    let controller = |racks: &Racks| {
        let file = racks.at("ocs.toml");
        let line = [&apart[..], &[EBB, "ocs", "control", "-c", &file]].concat();
        start(&racks.space("sw"), &racks.lab.directory().join("control"), &line)
    };
    racks.configure(&Settings { packets: false, link_mbps: 100, queue_kb: 400 });
    {
        // By their own clocks they never agree.
        let (_ocs, _tor, _control) = (racks.ocs(), racks.tor(), controller(&racks));
        let sent = || racks.status("control")["sent"].as_f64().is_some_and(|sent| sent > 200.0);
        assert!(until(sent) && until(|| racks.status("tor")["sync"].is_object()));
        assert_eq!(racks.status("tor")["sync"]["days"], 0, "{}", racks.status("tor"));
    }
    names_a_clock(&racks);
    let (ocs, tor, control) = (racks.ocs(), racks.tor(), controller(&racks));
    racks.follow("controller", &[&control, &ocs, &tor]);
    racks.stream(&["-t", "1"]);
    let (tor, ocs) = (racks.status("tor"), racks.status("ocs"));
    assert_eq!(tor["clock"]["name"], "tai", "{tor}");
    assert_eq!(number(&tor["clock"]["failed"]), 0.0, "{tor}");
    // A pair of virtual interfaces has no card: the kernel says when frames came.
    for said in [&tor, &ocs] {
        let arrivals = &said["clock"]["arrivals"];
        assert!(number(&arrivals["by_kernel"]) > 100.0, "{said}");
        // The kernel begins with it a moment after it was asked.
        assert!(
            number(&arrivals["by_card"]) == 0.0 && number(&arrivals["unknown"]) < 10.0,
            "{said}"
        );
        let [late, mean_us] = lain(arrivals);
        println!(
            "sync frames had lain for {mean_us:.1} us when they were read, {late:.0} for 100 us and longer"
        );
    }
    let ahead = number(&racks.status("control")["clock"]["ahead_ns"]);
    let apart_ns = number(&tor["clock"]["ahead_ns"]) - ahead;
    assert!((apart_ns * 1e-9 - 5000.0).abs() < 0.001, "{apart_ns} ns apart");
    let (passed, night) = (number(&ocs["passed"]), number(&ocs["at_night"]));
    println!(
        "{passed} frames passed, {night} at night, clocks known within {} ns",
        tor["clock"]["within_ns"]
    );
    assert!(passed > 100.0, "{ocs}");
}

/// Frames that had lain there for 100 us and longer, and how long all did on average, us.
fn lain(arrivals: &serde_json::Value) -> [f64; 2] {
    let counts = arrivals["lain"]["counts"].as_array().expect("classes");
    let late = counts.iter().skip(10).map(number).sum();
    [late, number(&arrivals["lain"]["sum_ns"]) / 1e3 / number(&arrivals["by_kernel"]).max(1.0)]
}
