//! What the demonstration found: report.json, report.html, the picture of the day.

use anyhow::{Context, Result};
use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table, Terminal, write_file};
use ebb_system_circuit::energy::Light;
use ebb_tord::status::{EDGES_NS, PARTS, Times};
use serde_json::json;

use super::coflows::Replayed;
use super::load::{BURSTS_SHARE, UDP_SHARE};
use super::played::{Phase, Played};
use super::{Circuit, diagnosis};

/// Writes the report and says what it found.
pub(super) fn conclude(demo: &Circuit, played: &Played) -> Result<()> {
    let report = report(demo, played)?;
    report.save(&demo.report).context("cannot write the report")?;
    let picture = picture(played.phase("circuits, UDP")?, demo);
    write_file(&demo.report.join("day.svg"), picture.to_svg().as_bytes())?;
    let text = format!(
        "\n{}\n{}\n{}\nReport: {}",
        table(played).to_terminal(&Terminal::of_stdout()),
        verdicts(demo, played)?.join("\n"),
        coflows(demo, played).map_or_else(String::new, |(_, text)| text + "\n"),
        demo.report.join("report.html").display()
    );
    crate::demo::say(&text)
}

fn report(demo: &Circuit, played: &Played) -> Result<Report> {
    let udp = played.phase("circuits, UDP")?;
    let tokens = |name: &str| -> Result<serde_json::Value> {
        let phase = played.phase(name)?;
        let (lost, frames) = (phase.ocs.outside_their_day(), phase.ocs.frames);
        Ok(json!({ "lost": lost, "frames": frames, "share": phase.share_outside() }))
    };
    let tokens = json!({
        "naive": tokens(NAIVE)?,
        "aging": tokens(AGING)?,
        "pacing": tokens(PACING)?,
    });
    let mut report = Report::new("Circuits of microseconds, kept by software")
        .figure("day_us", demo.day_us)
        .figure("night_us", demo.night_us)
        .figure("racks", demo.racks)
        .figure("link_mbps", demo.link_mbps())
        .figure("frames_per_day", demo.frames_per_day())
        .figure("udp_load", UDP_SHARE)
        .figure("bursts_load", BURSTS_SHARE)
        .figure("frames", udp.ocs.frames)
        .figure("outside_their_day", udp.ocs.outside_their_day())
        .figure("lost", udp.lost())
        .figure("reordered", udp.carried.reordered)
        .figure("udp_share_of_eps", share(played, "UDP")?)
        .figure("tcp_share_of_eps", share(played, "TCP")?)
        .figure("tokens", tokens)
        .figure("processors", played.cpus)
        .figure("stolen", udp.stolen);
    if let Some(faults) = &played.faults {
        let killed = json!({
            "sources": &faults.sources,
            "dark_ms": faults.dark.as_secs_f64() * 1e3,
            "frames_sent": faults.carried.sent,
            "frames_received": faults.carried.received,
            "by_packets": faults.by_packets(),
        });
        report = report.figure("controller_killed", killed).text(faults.line());
    }
    let (lit_j, sleeping_j) = joules(played.phase(PACING)?, demo);
    report = report
        .figure("light", json!({ "lit_j": lit_j, "sleeping_j": sleeping_j, "how": "modelled" }))
        .text(format!(
            "While hosts sent in bursts the racks' circuit transceivers would have used \
            {lit_j:.2} J always on, and {sleeping_j:.2} J if asleep on days that began with no \
            frame waiting (modelled: table 4.1; the power asleep is our assumption)."
        ));
    for verdict in verdicts(demo, played)? {
        report = report.text(verdict);
    }
    if let Some((json, text)) = coflows(demo, played) {
        report = report.figure("coflows", json).text(text);
    }
    report = report
        .table(table(played))
        .plot(picture(udp, demo))
        .table(outside(udp))
        .table(first(udp))
        .table(loop_table(udp));
    Ok(report.text(
        "The light is emulated: it begins when the kernel received a frame at the port of the \
        optical switch (by its time stamp) and lasts as long as the frame takes at the link's \
        rate; a frame passes if its circuit is up from begin to end. The racks' network cards are \
        emulated with it, with the batches of the published one. Etalon dilates time twenty times \
        and OpenOptics cuts time into milliseconds; here days pass undilated.",
    ))
}

/// What became of a trace of coflows over the packet switch and over circuits.
fn coflows(demo: &Circuit, played: &Played) -> Option<(serde_json::Value, String)> {
    let [packets, circuits] = COFLOWS.map(|name| {
        let phase = played.phase(name).ok()?;
        Some((phase.carried.replayed.as_ref()?, phase.share_outside()))
    });
    let ((packets, _), (circuits, outside)) = (packets?, circuits?);
    let of = |one: &Replayed| {
        json!({
            "coflows": one.coflows, "complete": one.complete,
            "bytes": one.bytes, "bytes_wanted": one.bytes_wanted,
            "completion_ms": {
                "mean": one.mean_ms(), "p50": one.quantile_ms(0.5), "p95": one.quantile_ms(0.95),
            },
        })
    };
    let carried = circuits.bytes as f64 / packets.bytes.max(1) as f64;
    let slower = circuits.mean_ms() / packets.mean_ms();
    let file = demo.coflows.as_ref().map(|file| file.display().to_string());
    let json = json!({
        "file": file, "packet_switch": of(packets), "circuits": of(circuits),
        "bytes_of_eps": carried, "mean_completion_of_eps": slower, "share_outside": outside,
    });
    let text = format!(
        "Coflows: {} of {} complete over circuits, {} of {} over the packet switch; {:.1} % of its bytes; the mean \
         coflow took {:.0} ms, {slower:.2} times as long as over the packet switch; {:.3} % of frames outside \
         their day.",
        circuits.complete,
        circuits.coflows,
        packets.complete,
        packets.coflows,
        100.0 * carried,
        circuits.mean_ms(),
        100.0 * outside,
    );
    Some((json, text))
}

/// What the racks' ends of circuits draw in a part, lit throughout and asleep where they can be, J.
fn joules(phase: &Phase, demo: &Circuit) -> (f64, f64) {
    let (light, total_s) = (Light::default(), phase.tor.uptime_seconds);
    let racks = phase.tor.racks.iter();
    let asleep = racks.map(|rack| {
        let days = rack.days_wanted as f64;
        light.joules(total_s, days * demo.day_us * 1e-6, days)
    });
    (phase.tor.racks.len() as f64 * total_s * light.awake_w, asleep.sum())
}

/// Goodput over circuits as a share of that through the packet switch.
fn share(played: &Played, protocol: &str) -> Result<f64> {
    played.share(&format!("circuits, {protocol}"), &format!("packet switch, {protocol}"))
}

/// The same coflows over the packet switch and over circuits.
pub(super) const COFLOWS: [&str; 2] = ["packet switch, coflows", "circuits, coflows"];
const NAIVE: &str = "bursts, naive tokens";
const AGING: &str = "bursts, aging tokens";
const PACING: &str = "bursts, aging and pacing";
/// Published for the longest days of 61 to 300 us.
const DAY_US: f64 = 300.0;

fn verdicts(demo: &Circuit, played: &Played) -> Result<Vec<String>> {
    let (udp, tcp) = (played.phase("circuits, UDP")?, played.phase("circuits, TCP")?);
    let outside = 100.0 * udp.share_outside();
    let (udp_share, tcp_share) = (100.0 * share(played, "UDP")?, 100.0 * share(played, "TCP")?);
    let said = |met: bool| if met { "met" } else { "missed" };
    let loss = |name: &str| played.phase(name).map(|phase| 100.0 * phase.share_outside());
    let (naive, aging, pacing) = (loss(NAIVE)?, loss(AGING)?, loss(PACING)?);
    let shorter = demo.day_us < DAY_US;
    let reached = |what: &str, share: f64, least: f64| {
        let duty = 100.0 * demo.day_us / (demo.day_us + demo.night_us);
        let than = format!("{what} reaches {share:.1} % of the packet switch");
        if shorter {
            format!(
                "{than} (light passes {duty:.1} % of the time; {least} % was published for 300 us)."
            )
        } else {
            format!("{}: {than} (at least {least} %).", said(share >= least))
        }
    };
    let mut verdicts = vec![
        format!(
            "{}: {outside:.3} % of frames outside their day (at most 0.1 %).",
            said(outside <= 0.1)
        ),
        reached("UDP", udp_share, 95.4),
        reached("TCP", tcp_share, 87.9),
        format!(
            "{}: naive tokens lose {naive:.2} %, aging {aging:.2} %, aging and pacing {pacing:.2} % \
             (published: 1.79, 1.65, 0.44 %).",
            said(naive > aging && aging > pacing)
        ),
    ];
    if outside > 0.1 {
        verdicts.push(diagnosis::outside(udp));
    }
    for (phase, missed) in [(udp, udp_share < 95.4), (tcp, tcp_share < 87.9)] {
        if missed {
            verdicts.push(diagnosis::slow(phase, demo.frames_per_day()));
        }
    }
    Ok(verdicts)
}

fn table(played: &Played) -> Table {
    let mut table = Table::new(
        "Parts of the demonstration",
        [
            Column::text("part"),
            Column::number("received per host", "Mb/s", 1),
            Column::count("frames for circuits"),
            Column::count("outside their day"),
            Column::count("at night"),
            Column::count("wrong circuit"),
            Column::count("lost end to end"),
            Column::count("reordered"),
            Column::number("switch busy", "%", 0),
        ],
    );
    for phase in &played.phases {
        let udp = phase.carried.sent > 0;
        let count = |count: u64| if udp { Cell::Count(count) } else { Cell::Missing };
        table.row([
            Cell::from(phase.name),
            phase.carried.goodput_mbps.into(),
            phase.ocs.frames.into(),
            phase.ocs.outside_their_day().into(),
            phase.ocs.at_night.into(),
            phase.ocs.wrong_circuit.into(),
            count(phase.lost()),
            count(phase.carried.reordered),
            (100.0 * phase.busy()).into(),
        ]);
    }
    table
}

/// When in a night and its day light began.
fn picture(phase: &Phase, demo: &Circuit) -> Plot {
    let part_us = (demo.day_us + demo.night_us) / PARTS as f64;
    let points = |picture: &[u64]| {
        let point =
            |(part, count): (usize, &u64)| (part as f64 * part_us - demo.night_us, *count as f64);
        picture.iter().enumerate().map(point).collect::<Vec<_>>()
    };
    Plot::new("The day: when frames' light began", Axis::new("after the day's begin", "us"))
        .panel(Axis::new("frames", "").from_zero())
        .series(Series::step("frames", points(&phase.ocs.day_picture)))
}

/// The classes of small times, for people.
fn classes() -> impl Iterator<Item = String> {
    let edge = |index: usize| EDGES_NS.get(index).map(|ns| *ns as f64 / 1e3);
    (0..=EDGES_NS.len()).map(move |index| {
        match (index.checked_sub(1).and_then(edge), edge(index)) {
            (None, Some(high)) => format!("less than {high}"),
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (low, None) => format!("{} and more", low.unwrap_or(0.0)),
        }
    })
}

fn outside(phase: &Phase) -> Table {
    let columns = [Column::text("us outside"), Column::count("frames")];
    let mut table = Table::new("How far outside their day frames were", columns);
    for (class, count) in classes().zip(&phase.ocs.outside.counts) {
        table.row([class.into(), (*count).into()]);
    }
    table
}

fn first(phase: &Phase) -> Table {
    let columns = [Column::text("us after the day's begin"), Column::count("days")];
    let mut table = Table::new("When the first frame of a day was sent", columns);
    for (index, class) in classes().enumerate() {
        let of = |rack: &ebb_tord::status::RackStatus| rack.first_after.counts.get(index).copied();
        let count: u64 = phase.tor.racks.iter().filter_map(of).sum();
        table.row([class.into(), count.into()]);
    }
    table
}

/// How the switch's loop went round.
fn loop_table(phase: &Phase) -> Table {
    let columns = [
        Column::text("us"),
        Column::count("between two readings of the clock"),
        Column::count("delay after the requested end of sleep"),
    ];
    let mut table = Table::new("How often the switch read its clock", columns);
    for (index, class) in classes().enumerate() {
        let of = |times: &Times| times.counts.get(index).copied().unwrap_or(0);
        table.row([class.into(), of(&phase.tor.looks).into(), of(&phase.tor.woken_late).into()]);
    }
    table
}
