//! What the demonstration of a cluster shows, in sentences and figures.

use anyhow::Result;
use ebb_clusterd::member::What;
use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use ebb_units::Time;
use serde_json::json;

use super::ClusterDemo;
use super::play::{BackEnd, Played, settings};
use super::twin::{self, WITHIN};

/// Energy of the back-ends, linear in their load between idle and full power, which are the same for the published
/// servers.
pub(super) struct Energy {
    pub(super) joules: f64,
    always: f64,
}

pub(super) fn energy(played: &Played) -> Energy {
    let mut joules = 0.0;
    let mut spans: Vec<(Time, Time, &BackEnd)> = Vec::new();
    for back_end in &played.back_ends {
        let mut since = None;
        let killed = played.killed.as_ref().filter(|killed| killed.name == back_end.name);
        for event in played.events.iter().filter(|event| event.member == back_end.name) {
            match event.what {
                What::Woke => since = Some(event.at.max(played.begun)),
                What::Slept => {
                    let from: Option<Time> = since.take();
                    spans.extend(from.map(|from| (from, event.at.max(from), back_end)));
                }
                _ => {}
            }
        }
        if let Some(from) = since {
            let until = killed.map_or(played.ended, |killed| killed.at);
            spans.push((from, until.max(from), back_end));
        }
    }
    for (from, until, back_end) in &spans {
        joules += until.since(*from).as_secs_f64() * back_end.server.idle.0;
    }
    // Flows are shared by capacity, so that all that are on are as busy.
    let mut before = played.begun;
    for (at, pps) in &played.load {
        let on: Vec<_> = spans.iter().filter(|(from, until, _)| from <= at && at < until).collect();
        let capacity: f64 = on.iter().map(|(.., one)| one.server.capacity).sum();
        let more: f64 = on.iter().map(|(.., one)| one.server.full.0 - one.server.idle.0).sum();
        if capacity > 0.0 {
            joules += at.since(before).as_secs_f64() * more * (pps / capacity).min(1.0);
        }
        before = *at;
    }
    let span = played.ended.since(played.begun).as_secs_f64();
    let watts: f64 = played.back_ends.iter().map(|one| one.server.full.0).sum();
    Energy { joules, always: watts * span }
}

/// How many are on, by seconds since the day began.
fn over_time(played: &Played) -> Vec<(f64, usize)> {
    let mut points = vec![(0.0, 0)];
    for event in &played.events {
        if let What::ClusterPlan { on, .. } = event.what {
            let seconds = event.at.since(played.begun).as_secs_f64();
            if points.last().is_some_and(|last| last.0 == seconds) {
                points.pop();
            }
            points.push((seconds, on));
        }
    }
    points.push((played.ended.since(played.begun).as_secs_f64(), points[points.len() - 1].1));
    points
}

pub(super) struct Fate {
    pub(super) sent: u64,
    pub(super) received: u64,
    lost: u64,
    lost_planned: u64,
    reordered: u64,
}

/// The parts' accounts go on from each other; what was lost outside of the failure's part was lost by
/// planned changes, or by the machine.
pub(super) fn fate(played: &Played) -> Fate {
    let [before, around, all] = &played.parts;
    Fate {
        sent: all.sent,
        received: all.received,
        lost: all.lost,
        lost_planned: before.lost + all.lost.saturating_sub(around.lost),
        reordered: all.reordered,
    }
}

fn failover_ms(played: &Played) -> Option<f64> {
    let killed = played.killed.as_ref()?;
    Some(killed.left_at?.since(killed.at).as_secs_f64() * 1e3)
}

/// A sentence for each promise.
pub(super) fn verdict(played: &Played) -> String {
    let fate = fate(played);
    let energy = energy(played);
    let mut text = format!(
        "{} packets, {} lost by planned changes, {} in all, {} out of order.\n{:.0} % less energy than \
         all back-ends always on (modelled).",
        fate.sent,
        fate.lost_planned,
        fate.lost,
        fate.reordered,
        100.0 * (1.0 - energy.joules / energy.always),
    );
    if let (Some(killed), Some(ms)) = (&played.killed, failover_ms(played)) {
        let leader = if killed.was_leader { ", which was the leader," } else { "" };
        text += &format!(
            "\n\
             {}{leader} was killed: after {ms:.0} ms no flow went to it.",
            killed.name
        );
    }
    text
}

/// The back-ends and what became of them.
pub(super) fn table(played: &Played) -> Report {
    let mut table = Table::new(
        "Back-ends",
        [
            Column::text("name"),
            Column::text("group"),
            Column::number("capacity", "kpps", 1),
            Column::number("power", "W", 0),
            Column::count("woken"),
            Column::text("end"),
        ],
    );
    for one in &played.back_ends {
        let events = || played.events.iter().filter(|event| event.member == one.name);
        let woken = events().filter(|event| event.what == What::Woke).count() as u64;
        let last = events().rfind(|event| matches!(event.what, What::Woke | What::Slept));
        let killed = played.killed.as_ref().is_some_and(|killed| killed.name == one.name);
        let end = match last.map(|event| &event.what) {
            _ if killed => "killed",
            Some(What::Woke) => "on",
            _ => "off",
        };
        let (capacity, watts) = (one.server.capacity / 1e3, one.server.full.0);
        table.row([
            one.name.as_str().into(),
            one.group.as_str().into(),
            capacity.into(),
            watts.into(),
            woken.into(),
            end.into(),
        ]);
    }
    Report::new("A day through a cluster").table(table)
}

/// Everything, for people and for programs.
pub(super) fn report(
    demo: &ClusterDemo,
    played: &Played,
    compared: Option<Report>,
) -> Result<Report> {
    let fate = fate(played);
    let energy = energy(played);
    let points = over_time(played);
    let on: Vec<_> =
        points.iter().map(|(seconds, on)| json!({ "seconds": seconds, "on": on })).collect();
    let seconds = |at: Time| at.since(played.begun).as_secs_f64();
    let load = played.load.iter().map(|(at, pps)| (seconds(*at), pps / 1e3)).collect();
    let steps = points.iter().map(|(seconds, on)| (*seconds, *on as f64)).collect();
    let plot = Plot::new("The day", Axis::new("time", "s"))
        .panel(Axis::new("load", "kpps").from_zero())
        .series(Series::line("offered", load))
        .panel(Axis::new("back-ends on", "").from_zero())
        .series(Series::step("on", steps));
    let counters = &played.balancer.counters;
    let leaders = played.events.iter().filter(|event| event.what == What::Leader);
    let leaders: Vec<_> = leaders
        .map(|event| json!({ "seconds": seconds(event.at), "leader": event.member }))
        .collect();
    let killed = played.killed.as_ref().map(|killed| (killed.name.as_str(), seconds(killed.at)));
    let twin = twin::simulated(demo, &played.back_ends, settings(demo), killed)?;
    let ratio = energy.joules / twin.joules;
    let mut report = table(played)
        .text(verdict(played))
        .text(format!(
            "The simulator (`ebb sim cluster`) runs the same day under the same policy, with the \
            same failure if there was one, and uses {:.0} J; the live cluster used {:.2} times that. They may \
            differ by {}.",
            twin.joules,
            ratio,
            format_args!("{:.0} %", 100.0 * WITHIN),
        ))
        .text(format!(
            "Watts are modelled: those of the servers in Li 2012, section 8.3.2. A flow moves to \
            another back-end only after a marker behind its last packet has left the old one; {} \
            packets waited for that. Policy {}, state {}.",
            counters.held,
            demo.policy(),
            played.store
        ))
        .plot(plot)
        .figure("sent", fate.sent)
        .figure("received", fate.received)
        .figure("lost", fate.lost)
        .figure("lost_planned", fate.lost_planned)
        .figure("reordered", fate.reordered)
        .figure("joules", energy.joules)
        .figure("joules_basis", "modelled")
        .figure("joules_per_packet", energy.joules / fate.received.max(1) as f64)
        .figure("joules_always_on", energy.always)
        .figure(
            "simulated",
            json!({
                "joules": twin.joules, "joules_live_over_simulated": ratio, "within": WITHIN,
                "agrees": (ratio - 1.0).abs() <= WITHIN,
                "back_ends_on_mean": twin.on_seconds / twin.seconds,
                "back_ends_on_mean_live": on_mean(&points),
                "wakes": twin.wakes, "sleeps": twin.sleeps,
            }),
        )
        .figure("back_ends_over_time", on)
        .figure("failover_ms", failover_ms(played))
        .figure(
            "utilised",
            json!({
                "most": played.uses.most, "seconds": played.uses.seconds,
                "uneven_seconds": played.uses.uneven,
            }),
        )
        .figure("etcd", played.etcd)
        .figure("store", played.store.clone())
        .figure("policy", demo.policy())
        .figure("seconds", demo.seconds)
        .figure("seed", demo.seed)
        .figure("missed_by_generator", played.missed)
        .figure("leaders", leaders)
        .figure("balancer", serde_json::to_value(counters).expect("numbers"));
    if let Some(compared) = compared {
        let figure = compared.figures["planned"].clone();
        report = report.figure("planned", figure);
        for section in compared.sections {
            report.sections.push(section);
        }
    }
    if let Some(killed) = &played.killed {
        let value = json!({
            "name": killed.name, "seconds": seconds(killed.at), "was_leader": killed.was_leader,
        });
        report = report.figure("killed", value);
    }
    Ok(report)
}

/// How many were on in the mean, by points that each hold until the next.
fn on_mean(points: &[(f64, usize)]) -> f64 {
    let span = points.last().map_or(0.0, |last| last.0);
    let held = points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * pair[0].1 as f64);
    if span > 0.0 { held.sum::<f64>() / span } else { 0.0 }
}
