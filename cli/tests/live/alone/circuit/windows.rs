//! Congestion windows of the simulator beside those of the kernel.

use super::*;

/// A connection as the kernel tells of it: at the end of each interval the time, the round trip
/// (both s) and the window (segments), and whether something was lost in it.
struct Sample {
    at_s: f64,
    round_trip_s: f64,
    window: f64,
    lost: bool,
}

fn samples(report: &Value) -> Vec<Sample> {
    let mss = number(&report["start"]["tcp_mss_default"]);
    let intervals = report["intervals"].as_array().expect("intervals").iter();
    let sample = |interval: &Value| {
        let stream = &interval["streams"][0];
        Sample {
            at_s: number(&stream["end"]),
            round_trip_s: (number(&stream["rtt"]) * 1e-6).max(1e-3),
            window: number(&stream["snd_cwnd"]) / mss,
            lost: number(&stream["retransmits"]) > 0.0,
        }
    };
    intervals.map(sample).collect()
}

/// What a stretch without losses, after one with, says about the model.
#[derive(Debug)]
struct Stretch {
    /// The window at its begin as a share of that before the loss.
    decrease: f64,
    /// The model's window at its end, and the kernel's.
    model: f64,
    kernel: f64,
}

fn stretches(congestion: Congestion, samples: &[Sample]) -> Vec<Stretch> {
    let (mut found, mut flow) = (Vec::new(), Flow::new(congestion, f64::INFINITY));
    let mut at = 0;
    while let Some(loss) = (at..samples.len()).find(|at| samples[*at].lost) {
        let begin = (loss..samples.len()).find(|at| !samples[*at].lost).unwrap_or(samples.len());
        let end = (begin..samples.len()).find(|at| samples[*at].lost).unwrap_or(samples.len());
        at = end.max(loss + 1);
        let (Some(before), Some(first)) = (loss.checked_sub(1), samples.get(begin)) else {
            continue;
        };
        let before = samples[before].window;
        flow.go_on_from(before);
        flow.lost(1, before as u64, first.at_s);
        flow.go_on_from(first.window);
        if end < begin + 5 {
            continue;
        }
        let mut now = first.at_s;
        for sample in &samples[begin + 1..end] {
            while now < sample.at_s {
                now += sample.round_trip_s;
                let segments = flow.window() as u64;
                flow.sent(segments);
                flow.acknowledged(segments, sample.round_trip_s, now);
            }
        }
        let kernel = samples[end - 1].window;
        let decrease = first.window / before;
        found.push(Stretch { decrease, model: flow.window(), kernel });
    }
    found
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The simulator's congestion control beside the kernel's own, over a link of 20 Mb/s whose queue
/// overflows: a packet switch of ours. The kernel's round trips drive the model, so that it does
/// not matter how busy the machine is. `EBB_LONG=1` takes a minute for each, with queues so long that
/// CUBIC's own curve counts and not that of Reno beside it, and prints the figures of docs/circuit.md.
#[test]
fn windows_of_the_simulator_are_those_of_the_kernel() {
    if !permitted() || !iperf3_is_here() {
        return;
    }
    let long = std::env::var_os("EBB_LONG").is_some();
    let (seconds, queue_kb) = if long { ("60", 400) } else { ("6", 100) };
    let racks = Racks::build("tcp");
    racks.configure(&Settings { packets: true, link_mbps: 20, queue_kb });
    let (control, ocs, tor) = (racks.control(), racks.ocs(), racks.tor());
    racks.follow("controller", &[&control, &ocs, &tor]);
    for (name, congestion, beta) in
        [("reno", Congestion::Reno, 0.5), ("cubic", Congestion::Cubic, 0.7)]
    {
        let report = racks.stream(&["-C", name, "-t", seconds, "-i", "0.1"]);
        let found = stretches(congestion, &samples(&report));
        assert!(!found.is_empty(), "{name}: nothing was lost: {}", racks.status("tor"));
        let decrease = median(found.iter().map(|stretch| stretch.decrease).collect());
        let error = |stretch: &Stretch| (stretch.model / stretch.kernel - 1.0).abs();
        let error = median(found.iter().map(error).collect());
        println!(
            "{name}: {} stretches, window after a loss {decrease:.3} of that before (model {beta}), \
             model's window {:.1} % off the kernel's at their ends (median)",
            found.len(),
            100.0 * error
        );
        assert!((decrease - beta).abs() < 0.18, "{name}: {decrease} after a loss: {found:?}");
        assert!(error < 0.15, "{name}: {error} off: {found:?}");
    }
}
