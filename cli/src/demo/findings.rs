//! What the demonstration found, as a report.

use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table, spark_between};
use serde_json::{Value, json};

use super::account::{self, PARTS};
use super::play::{Day, MODERATION, Moment, PEAK_SHARE};
use super::twin::{self, TwinDay};

/// Characters of a spark line in the table.
const SPARK_LEN: usize = 15;

/// What a curve shows of each moment.
type Quantity = fn(&Moment) -> f64;
/// Turns a day into a curve.
type Draw<'a> = &'a dyn Fn(&Day) -> Series;

/// What a run was made of.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The sentence that says where it ran.
    pub place: String,
    /// `af_xdp veth` or `memory`.
    pub transport: String,
    /// Seed of everything drawn.
    pub seed: u64,
    /// Routes in the table.
    pub routes: usize,
    /// Flows of both directions.
    pub flows: u32,
    /// Name of the frame sizes.
    pub sizes: String,
    /// Name of the day.
    pub profile: &'static str,
    /// Seconds of each mode.
    pub seconds: f64,
    /// What one polling worker carried, packets per second.
    pub capacity_pps: f64,
    /// Packets per second at the busiest.
    pub peak_pps: f64,
    /// CPUs of the machine that could be used.
    pub cpus: usize,
    /// The generator's CPU.
    pub generator_cpu: usize,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

/// The report.
pub fn report(facts: &Facts, days: &[Day]) -> Report {
    let mut report = Report::new("Ebb: a working day through a router")
        .text(&facts.place)
        .text(setting(facts))
        .table(table(days));
    if facts.interrupted {
        report = report.text("Interrupted: unfinished modes are left out.");
    }
    for line in verdicts(days) {
        report = report.text(line);
    }
    report = report.plot(load_plot(days)).plot(latency_plot(days));
    report = report.heading("How to read this").text(reading(days));
    report
        .figure("place", facts.place.as_str())
        .figure("transport", facts.transport.as_str())
        .figure("version", env!("CARGO_PKG_VERSION"))
        .figure("revision", env!("EBB_REVISION"))
        .figure("seed", facts.seed)
        .figure("seconds_per_mode", facts.seconds)
        .figure("routes", facts.routes)
        .figure("flows", facts.flows)
        .figure("sizes", facts.sizes.as_str())
        .figure("profile", facts.profile)
        .figure("capacity_pps", facts.capacity_pps)
        .figure("peak_pps", facts.peak_pps)
        .figure("cpus", facts.cpus)
        .figure("generator_cpu", facts.generator_cpu)
        .figure("interrupted", facts.interrupted)
        .figure("modes", days.iter().map(figures).collect::<Vec<_>>())
}

/// The same day on the twin's larger server, below what was seen live.
pub fn add_twin(report: Report, days: &[TwinDay]) -> Report {
    let figure = |day: &TwinDay| {
        json!({
            "name": day.mode,
            "watts": round(day.watts),
            "joules_a_day": day.joules().round(),
            "joules_basis": "modelled",
            "cores_mean": round(day.cores),
            "loss_share": day.lost,
        })
    };
    report
        .heading("On a server of twelve cores")
        .text(
            "The same policies with the same latency budget through the same day, simulated on \
            the server of Niccolini et al. (2012): the peak is the same share of the capacity of \
            all twelve cores. All values are modelled.",
        )
        .table(twin::table(days))
        .figure("twin", days.iter().map(figure).collect::<Vec<_>>())
}

/// The picture for a page about the project.
pub fn picture(days: &[Day]) -> String {
    load_plot(days).to_svg()
}

fn setting(facts: &Facts) -> String {
    format!(
        "The {} weekday, compressed into {:.0} s per mode: {} flows in both directions, frame \
        sizes {}, {} routes. One polling worker carried {:.0} kpps beside the generator; the \
        day's peak is {:.0} % of that, {:.0} kpps. The generator runs on CPU {} of {} and sends \
        packets every {} us, as a network card with interrupt moderation does.",
        facts.profile,
        facts.seconds,
        facts.flows,
        facts.sizes,
        facts.routes,
        facts.capacity_pps / 1e3,
        PEAK_SHARE * 100.0,
        facts.peak_pps / 1e3,
        facts.generator_cpu,
        facts.cpus,
        MODERATION.as_micros(),
    )
}

/// The figures of all modes side by side, a mode a column.
pub fn table(days: &[Day]) -> Table {
    let mode = |day: &Day| Column { numeric: true, ..Column::text(&day.mode) };
    let columns = [Column::text(""), Column::text("")].into_iter().chain(days.iter().map(mode));
    let mut table = Table::new("", columns);
    let mut row = |name: &str, unit: &str, value: &dyn Fn(&Day) -> Cell| {
        let head = [name.into(), unit.into()];
        table.row(head.into_iter().chain(days.iter().map(value)));
    };
    let fixed = |value: f64, decimals: usize| match value.is_finite() {
        true => Cell::Text(format!("{value:.decimals$}")),
        false => Cell::from("-"),
    };
    let basis = days.first().map_or("modelled", |day| day.joules_basis);
    row("packets forwarded by", "", &|day| match account::forwards_in_kernel(&day.status) {
        true => Cell::from("kernel"),
        false => Cell::from("workers"),
    });
    row("workers", "", &|day| Cell::Count(day.workers as u64));
    row("cores on", "mean", &|day| fixed(mean(&day.moments, |m| m.cores), 2));
    row("cores on", "over time", &|day| Cell::Text(cores_spark(day)));
    row("CPU time", "s", &|day| fixed(day.cpu_seconds, 2));
    row("of it, the router's threads", "s", &|day| fixed(day.own_seconds, 2));
    row("energy", &format!("J, {basis}"), &|day| fixed(day.joules, 0));
    row("sent", "packets", &|day| Cell::Count(day.summary.sent));
    row("received", "packets", &|day| Cell::Count(day.summary.received));
    row("lost", "packets", &|day| Cell::Count(day.summary.lost));
    row("reordered", "packets", &|day| Cell::Count(day.summary.reordered));
    row("latency", "mean, us", &|day| fixed(day.summary.latency_us.mean, 1));
    row("", "p50, us", &|day| fixed(day.summary.latency_us.p50, 1));
    row("", "p99, us", &|day| fixed(day.summary.latency_us.p99, 1));
    table
}

/// Active cores in a few characters; a bar's full height is all workers.
fn cores_spark(day: &Day) -> String {
    let stretch = day.moments.len().div_ceil(SPARK_LEN).max(1);
    let means = day.moments.chunks(stretch).map(|some| mean(some, |m| m.cores));
    spark_between(&means.collect::<Vec<_>>(), 0.0, day.workers as f64)
}

/// Packets that the router sent and the generator did not receive.
fn lost_behind(day: &Day) -> u64 {
    let forwarded = day.status.packets().forwarded;
    forwarded.saturating_sub(day.summary.received).min(day.summary.lost)
}

/// Each series against the kernel without Ebb, then against polling.
pub fn verdicts(days: &[Day]) -> Vec<String> {
    let mut verdicts = against_kernel(days);
    verdicts.extend(against_poll(days));
    verdicts
}

/// A difference in words.
fn less(ours: f64, theirs: f64) -> String {
    let change = 100.0 * (1.0 - ours / theirs.max(1e-9));
    format!("{:.0} % {}", change.abs(), if change >= 0.0 { "less" } else { "more" })
}

/// A difference of processor time in words. What is no time above a cable's, others have hidden.
fn less_time(ours: f64, theirs: f64, whose: &str) -> String {
    match ours > 0.0 && theirs > 0.0 {
        true => format!("{} CPU time{whose}", less(ours, theirs)),
        false => {
            "CPU time that cannot be compared, as other programs kept the machine busy,".to_owned()
        }
    }
}

fn against_kernel(days: &[Day]) -> Vec<String> {
    let Some(kernel) = days.iter().find(|day| day.mode == "kernel") else { return Vec::new() };
    let compare = |day: &Day| {
        let below =
            day.parts.iter().zip(&kernel.parts).filter(|(ours, theirs)| ours < theirs).count();
        format!(
            "{} used {} and {} energy ({}) than the kernel without Ebb, and less CPU \
             time in {below} of the day's {PARTS} parts.",
            day.mode,
            less_time(day.cpu_seconds, kernel.cpu_seconds, " of the whole machine"),
            less(day.joules, kernel.joules),
            day.joules_basis,
        )
    };
    days.iter().filter(|day| day.mode != "kernel").map(compare).collect()
}

fn against_poll(days: &[Day]) -> Vec<String> {
    let Some(poll) = days.iter().find(|day| day.mode == "poll") else { return Vec::new() };
    let on = |day: &Day| match day.workers {
        _ if account::forwards_in_kernel(&day.status) => "in the kernel".to_owned(),
        1 => "1 worker".to_owned(),
        count => format!("{count} workers"),
    };
    let polling = |day: &Day| match day.workers {
        1 => "1 core that always polls".to_owned(),
        count => format!("{count} cores that always poll"),
    };
    let compare = |day: &Day| {
        let share = |day: &Day| 100.0 * day.summary.lost as f64 / day.summary.sent.max(1) as f64;
        let p99 = |day: &Day| day.summary.latency_us.p99;
        let mut text = format!(
            "{} ({}) used {} and {} energy ({}) than poll ({}){}: 99 % of its packets took \
             at most {:.0} us, poll's {:.0} us. It lost {:.3} % of its packets, \
             poll {:.3} %.",
            day.mode,
            on(day),
            less_time(day.cpu_seconds, poll.cpu_seconds, ""),
            less(day.joules, poll.joules),
            day.joules_basis,
            polling(poll),
            if p99(day) > p99(poll) { " and paid with latency" } else { "" },
            p99(day),
            p99(poll),
            share(day),
            share(poll),
        );
        let behind = lost_behind(day);
        if behind > 0 {
            text += &format!(
                " The router had sent {behind} of the lost packets: the generator received them \
                too late.",
            );
        }
        if day.summary.sent != poll.summary.sent {
            text += &format!(
                " It was sent {} packets, poll {}: packets that the generator could not send in \
                time, beside a router on the same machine, are left out.",
                day.summary.sent, poll.summary.sent
            );
        }
        text
    };
    days.iter().filter(|day| day.mode != "poll" && day.mode != "kernel").map(compare).collect()
}

fn reading(days: &[Day]) -> String {
    let whole = days.iter().any(|day| account::forwards_in_kernel(&day.status));
    let mut text = if whole {
        "CPU time is that of the whole machine, above the same day over a cable without anybody who forwards. On a virtual \
        machine two days of the same kind may differ by a fifth."
    } else {
        "CPU time is what the kernel charges to the router's threads."
    }
    .to_owned();
    text += " Latency is from the generator's write to its read, including both queues and both \
        wake-ups. Lost packets were sent and did not come back; the router's counters show why it \
        dropped its part of them.";
    if days.iter().any(|day| day.joules_basis == "modelled") {
        text += " Energy is modelled after the server measured by Niccolini et al. (2012), with as \
                 many cores as there are workers, because this machine has no energy counters: \
                 compare series, not machines.";
    }
    text
}

fn load_plot(days: &[Day]) -> Plot {
    let series =
        |value: Quantity| move |day: &Day| Series::line(&day.mode, points(&day.moments, value));
    let steps = |day: &Day| Series::step(&day.mode, points(&day.moments, |m| m.cores));
    let workers = days.iter().map(|day| day.workers).max().unwrap_or(1) as f64;
    let power = format!("power, {}", days.first().map_or("modelled", |day| day.joules_basis));
    let mut plot = Plot::new("A day's load and what it cost", Axis::new("time", "s"))
        .panel(Axis::new("offered load", "kpps").from_zero());
    if let Some(day) = days.last() {
        plot = plot.series(Series::area("offered", points(&day.moments, |m| m.offered_pps / 1e3)));
    }
    let panels: [(Axis, Draw<'_>); 3] = [
        (Axis::new("CPU used", "cores").reaching(0.0, 1.0), &series(|moment| moment.cpus.max(0.0))),
        (Axis::new("cores on", "").reaching(0.0, workers), &steps),
        // Not from zero: what an idle server draws anyway would press the lines together.
        (Axis::new(power, "W"), &series(|moment| moment.watts)),
    ];
    for (axis, make) in panels {
        plot = plot.panel(axis);
        for day in days {
            plot = plot.series(make(day));
        }
    }
    plot
}

fn latency_plot(days: &[Day]) -> Plot {
    let mut plot = Plot::new("Latency", Axis::new("time", "s"));
    let panels: [(Axis, Quantity); 2] = [
        (Axis::new("mean", "us").from_zero(), |moment| moment.latency_us),
        (Axis::new("p99", "us").from_zero(), |moment| moment.latency_p99_us),
    ];
    for (axis, value) in panels {
        plot = plot.panel(axis);
        for day in days {
            plot = plot.series(Series::line(&day.mode, points(&day.moments, value)));
        }
    }
    plot
}

fn points(moments: &[Moment], value: Quantity) -> Vec<(f64, f64)> {
    moments.iter().map(|moment| (moment.at_s, value(moment))).collect()
}

fn mean(moments: &[Moment], value: Quantity) -> f64 {
    moments.iter().map(value).sum::<f64>() / moments.len().max(1) as f64
}

fn figures(day: &Day) -> Value {
    let (summary, packets) = (&day.summary, day.status.packets());
    let over_time = |value: Quantity| -> Vec<Value> {
        let pairs = points(&day.moments, value).into_iter();
        pairs.map(|(at, value)| json!([round(at), round(value)])).collect()
    };
    json!({
        "name": day.mode,
        "workers": day.workers,
        "cpu_seconds": day.cpu_seconds,
        "own_cpu_seconds": day.own_seconds,
        "joules": day.joules,
        "joules_basis": day.joules_basis,
        "sent": summary.sent,
        "received": summary.received,
        "lost": summary.lost,
        "reordered": summary.reordered,
        "duplicated": summary.duplicated,
        "not_sent_in_time": day.missed,
        "latency_us": {
            "mean": summary.latency_us.mean,
            "p50": summary.latency_us.p50,
            "p99": summary.latency_us.p99,
            "max": summary.latency_us.max,
        },
        "forwarded_in_kernel": account::forwards_in_kernel(&day.status),
        "cpu_seconds_by_part": day.parts.iter().map(|part| round(*part)).collect::<Vec<_>>(),
        "cores_mean": mean(&day.moments, |moment| moment.cores),
        "cores_over_time": over_time(|moment| moment.cores),
        "cpus_over_time": over_time(|moment| moment.cpus),
        "watts_over_time": over_time(|moment| moment.watts),
        "offered_pps_over_time": over_time(|moment| moment.offered_pps),
        "router": {
            "received": packets.received,
            "forwarded": packets.forwarded,
            "to_kernel": packets.to_kernel,
            "held": packets.held,
            "dropped": packets.dropped,
            "operating_point_changes": day.status.governor.changes,
            "entries_moved": day.status.governor.entries_moved,
        },
        "lost_behind_the_router": lost_behind(day),
    })
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_traffic::{Latency, Summary};

    fn day(mode: &str, cpu_seconds: f64, joules: f64) -> Day {
        let latency_us = Latency { min: 1.0, mean: 4.0, p50: 3.0, p99: 20.0, max: 90.0 };
        let summary =
            Summary { sent: 1000, received: 999, lost: 1, latency_us, ..Summary::default() };
        let moments =
            (0..50).map(|at| Moment { at_s: f64::from(at) / 5.0, cores: 1.0, ..Moment::default() });
        let mut status = ebb_routerd::status::Status::default();
        if mode != "kernel" {
            let path = "worker".to_owned();
            status.workers.push(ebb_routerd::status::Worker::default());
            status.ports.push(ebb_routerd::status::Port { path, ..Default::default() });
        }
        Day {
            mode: mode.into(),
            workers: 1,
            cpu_seconds,
            own_seconds: cpu_seconds / 2.0,
            parts: vec![cpu_seconds / 8.0; PARTS],
            joules,
            joules_basis: "modelled",
            summary,
            missed: 0,
            status,
            moments: moments.collect(),
        }
    }

    #[test]
    fn a_report_carries_what_programs_and_people_look_for() {
        let facts = Facts {
            place: "In memory.".into(),
            transport: "memory".into(),
            seed: 1,
            routes: 100_000,
            flows: 4096,
            sizes: "imix".into(),
            profile: "uk-backbone",
            seconds: 20.0,
            capacity_pps: 1e6,
            peak_pps: 6e5,
            cpus: 2,
            generator_cpu: 0,
            interrupted: false,
        };
        let report = report(&facts, &[day("poll", 10.0, 200.0), day("powersave", 4.0, 120.0)]);
        let json: Value = serde_json::from_str(&report.to_json()).expect("JSON");
        for key in [
            "name",
            "cpu_seconds",
            "joules",
            "joules_basis",
            "sent",
            "received",
            "lost",
            "reordered",
            "cores_over_time",
        ] {
            assert!(!json["modes"][1][key].is_null(), "{key}");
        }
        for key in ["mean", "p50", "p99"] {
            assert!(json["modes"][0]["latency_us"][key].is_f64(), "{key}");
        }
        let html = report.to_html();
        assert!(html.contains("In memory."));
        assert!(html.contains("60 % less CPU time and 40 % less energy (modelled) than poll"));
    }

    /// Whoever reads only the summary knows what was compared and what it cost.
    #[test]
    fn the_summary_says_workers_counts_and_what_the_slowest_paid() {
        let (poll, mut saving) = (day("poll", 10.0, 200.0), day("powersave", 4.0, 120.0));
        let same = verdicts(&[poll.clone(), saving.clone()]).remove(0);
        assert!(
            same.contains("powersave (1 worker)")
                && same.contains("than poll (1 core that always polls): 99 %")
        );
        assert!(!same.contains("It was sent"), "{same}");
        (saving.workers, saving.summary.sent, saving.summary.latency_us.p99) = (2, 990, 350.0);
        let text = verdicts(&[poll, saving]).remove(0);
        assert!(text.contains("powersave (2 workers)"), "{text}");
        assert!(
            text.contains("paid with latency: 99 % of its packets took at most 350 us, poll's 20")
        );
        assert!(text.contains("sent 990 packets, poll 1000"), "{text}");
    }

    #[test]
    fn the_kernel_is_the_first_peer() {
        let days =
            [day("kernel", 4.0, 110.0), day("poll", 10.0, 200.0), day("powersave", 2.0, 99.0)];
        let said = verdicts(&days);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said[0].starts_with("poll used 150 % more CPU time of the whole machine"),
            "{said:?}"
        );
        assert!(said[1].starts_with("powersave used 50 % less CPU time of the whole machine"));
        assert!(said[1].contains("in 8 of the day's 8 parts"), "{said:?}");
        assert!(said[2].contains("powersave (1 worker) used 80 % less CPU time"), "{said:?}");
    }

    #[test]
    fn times_that_others_have_hidden_are_not_compared() {
        let days =
            [day("kernel", -0.04, 110.0), day("poll", 0.13, 200.0), day("powersave", -1.0, 99.0)];
        for said in verdicts(&days) {
            assert!(said.contains("used CPU time that cannot be compared"), "{said}");
            assert!(!said.contains("% less CPU") && !said.contains("% more CPU"), "{said}");
        }
    }

    #[test]
    fn what_left_the_router_is_not_its_loss() {
        let (poll, mut behind) = (day("poll", 10.0, 200.0), day("napi", 5.0, 150.0));
        let before = verdicts(&[poll.clone(), behind.clone()]).remove(0);
        assert!(!before.contains("The router had sent"), "{before}");
        let mut worker = ebb_routerd::status::Worker::default();
        worker.packets.forwarded = 1000;
        behind.status.workers.push(worker);
        let text = verdicts(&[poll, behind]).remove(0);
        assert!(text.contains("The router had sent 1 of the lost packets"), "{text}");
    }
}
