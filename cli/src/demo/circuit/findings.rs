//! What the demonstration found: report.json, report.html, the picture of the day.

use anyhow::{Context, Result};
use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table, Terminal, write_file};
use ebb_tord::status::{EDGES_NS, OcsStatus, PARTS, TorStatus};
use serde_json::json;

use super::Circuit;
use super::load::{Carried, UDP_SHARE};

/// One part of the demonstration.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) carried: Carried,
    pub(super) tor: TorStatus,
    pub(super) ocs: OcsStatus,
    /// Share of a processor that the top-of-rack switch used.
    pub(super) tor_busy: f64,
}

impl Phase {
    /// Frames sent and not received.
    fn lost(&self) -> u64 {
        self.carried.sent.saturating_sub(self.carried.received)
    }

    /// Frames that the light lost, of those that came for a circuit.
    fn share_outside(&self) -> f64 {
        self.ocs.outside_their_day() as f64 / self.ocs.frames.max(1) as f64
    }

    pub(super) fn line(&self) -> String {
        let outside = format!(
            "{} of {} frames outside their day ({:.3} %)",
            self.ocs.outside_their_day(),
            self.ocs.frames,
            100.0 * self.share_outside()
        );
        let outside = if self.ocs.frames > 0 { outside } else { "no circuits".to_owned() };
        format!(
            "{:<28} {:>7.1} Mb/s per host, {outside}, switch {:.0} % busy",
            self.name,
            self.carried.goodput_mbps,
            100.0 * self.tor_busy
        )
    }
}

/// After the controller's death.
pub(super) struct Killed {
    /// Whose days the racks kept, in order.
    pub(super) sources: Vec<String>,
    pub(super) carried: Carried,
    pub(super) tor: TorStatus,
}

impl Killed {
    pub(super) fn line(&self) -> String {
        let by_packets: u64 = self.tor.racks.iter().map(|rack| rack.sent_by_packets).sum();
        format!(
            "controller killed: {}; {} of {} frames arrived, {by_packets} over the packet path",
            self.sources.join(", then "),
            self.carried.received,
            self.carried.sent,
        )
    }
}

/// All of it.
#[derive(Default)]
pub(super) struct Played {
    pub(super) phases: Vec<Phase>,
    pub(super) killed: Option<Killed>,
    pub(super) cpus: usize,
}

impl Played {
    fn phase(&self, name: &str) -> Result<&Phase> {
        let found = self.phases.iter().find(|phase| phase.name == name);
        found.with_context(|| format!("the part `{name}` was not played"))
    }
}

/// Writes the report and says what it found.
pub(super) fn conclude(demo: &Circuit, played: &Played) -> Result<()> {
    let report = report(demo, played)?;
    report.save(&demo.report).context("cannot write the report")?;
    let picture = picture(played.phase("circuits, UDP")?, demo);
    write_file(&demo.report.join("day.svg"), picture.to_svg().as_bytes())?;
    let text = format!(
        "\n{}\n{}\n\nReport: {}",
        table(played).to_terminal(&Terminal::of_stdout()),
        verdicts(played)?.join("\n"),
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
        "naive": tokens("circuits, UDP, naive tokens")?,
        "aging": tokens("circuits, UDP, aging tokens")?,
        "pacing": tokens("circuits, UDP")?,
    });
    let killed = played.killed.as_ref();
    let mut report = Report::new("Circuits of microseconds, kept by software")
        .figure("day_us", demo.day_us)
        .figure("night_us", demo.night_us)
        .figure("racks", demo.racks)
        .figure("link_mbps", demo.link_mbps)
        .figure("udp_load", UDP_SHARE)
        .figure("frames", udp.ocs.frames)
        .figure("outside_their_day", udp.ocs.outside_their_day())
        .figure("lost", udp.lost())
        .figure("reordered", udp.carried.reordered)
        .figure("udp_share_of_eps", share(played, "UDP")?)
        .figure("tcp_share_of_eps", share(played, "TCP")?)
        .figure("tokens", tokens)
        .figure(
            "controller_killed",
            json!({
                "sources": killed.map(|killed| &killed.sources),
                "frames_sent": killed.map(|killed| killed.carried.sent),
                "frames_received": killed.map(|killed| killed.carried.received),
            }),
        );
    for verdict in verdicts(played)? {
        report = report.text(verdict);
    }
    report =
        report.table(table(played)).plot(picture(udp, demo)).table(outside(udp)).table(first(udp));
    Ok(report.text(
        "The light is emulated: it begins when the kernel saw a frame at the port of the optical switch \
         (a time stamp of its own for each frame) and lasts as long as the link's rate says; a frame passes \
         if its circuit stands from begin to end. The racks' network cards are emulated with it, with the \
         batches of the published one. Etalon dilates time twenty times and OpenOptics cuts time into \
         milliseconds; here days pass undilated.",
    ))
}

/// Goodput over circuits as a share of that through the packet switch.
fn share(played: &Played, protocol: &str) -> Result<f64> {
    let circuits =
        played.phase(if protocol == "UDP" { "circuits, UDP" } else { "circuits, TCP" })?;
    let packets = if protocol == "UDP" { "packet switch, UDP" } else { "packet switch, TCP" };
    let packets = played.phase(packets)?;
    Ok(circuits.carried.goodput_mbps / packets.carried.goodput_mbps.max(f64::MIN_POSITIVE))
}

fn verdicts(played: &Played) -> Result<Vec<String>> {
    let udp = played.phase("circuits, UDP")?;
    let outside = 100.0 * udp.share_outside();
    let (udp_share, tcp_share) = (100.0 * share(played, "UDP")?, 100.0 * share(played, "TCP")?);
    let said = |met: bool| if met { "met" } else { "missed" };
    let loss = |name: &str| played.phase(name).map(|phase| 100.0 * phase.share_outside());
    let (naive, aging) =
        (loss("circuits, UDP, naive tokens")?, loss("circuits, UDP, aging tokens")?);
    let mut verdicts = vec![
        format!(
            "{}: {outside:.3} % of frames outside their day (at most 0.1 %).",
            said(outside <= 0.1)
        ),
        format!(
            "{}: UDP reaches {udp_share:.1} % of the packet switch (at least 95.4 %).",
            said(udp_share >= 95.4)
        ),
        format!(
            "{}: TCP reaches {tcp_share:.1} % of the packet switch (at least 87.9 %).",
            said(tcp_share >= 87.9)
        ),
        format!(
            "{}: naive tokens lose {naive:.2} %, aging {aging:.2} %, aging and pacing {outside:.2} % \
             (published: 1.79, 1.65, 0.44 %).",
            said(naive > aging && aging > outside)
        ),
    ];
    if outside > 0.1 || udp_share < 95.4 || tcp_share < 87.9 {
        verdicts.push(format!(
            "Why: {} processors carry the hosts' stacks, both switches and every interrupt; frames are \
             outside their day where the hypervisor or the kernel stopped the switch between its look at the \
             clock and the frame's way out (see how far outside), and a day of few frames wastes what the \
             last one would have needed.",
            played.cpus
        ));
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
            (100.0 * phase.tor_busy).into(),
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
    for (class, count) in classes().zip(&phase.ocs.outside) {
        table.row([class.into(), (*count).into()]);
    }
    table
}

fn first(phase: &Phase) -> Table {
    let columns = [Column::text("us after the day's begin"), Column::count("days")];
    let mut table = Table::new("When the first frame of a day was handed over", columns);
    for (index, class) in classes().enumerate() {
        let of = |rack: &ebb_tord::status::RackStatus| rack.first_after.get(index).copied();
        let count: u64 = phase.tor.racks.iter().filter_map(of).sum();
        table.row([class.into(), count.into()]);
    }
    table
}
