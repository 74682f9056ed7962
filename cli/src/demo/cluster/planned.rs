//! A plan on the stage: its servers and its day at the demonstration's rate, and how far plan, simulator and live
//! day are apart.

use std::path::Path;

use anyhow::{Context, Result};
use ebb_control::cluster::{ClusterSettings, Server};
use ebb_report::{Column, Report, Table};
use ebb_scenario::{Document, Silent};
use ebb_study::{Directory, StudyError};
use ebb_system_cluster::{Planned, Problem};
use ebb_units::Watts;
use serde_json::json;

use super::ClusterDemo;
use super::findings::{energy, fate};
use super::play::{BackEnd, Played, WAKE, settings};
use super::twin;

/// Plan, simulator and live day may differ by this share.
const WITHIN: f64 = 0.10;
/// Steps of a day whose samples are not of one length.
const STEPS: usize = 96;
/// The most back-ends on the stage.
const BACK_ENDS_MAX: usize = 16;

/// A plan's day.
#[derive(Clone, Debug)]
pub(super) struct PlannedDay {
    /// Its servers, capacities scaled.
    pub(super) back_ends: Vec<BackEnd>,
    /// Its load in equal steps, scaled, packets per second.
    pub(super) steps: Vec<f64>,
    /// Reserve and spares.
    pub(super) settings: ClusterSettings,
    pub(super) policy: &'static str,
    design: String,
    /// What one packet per second of the plan is here.
    scale: f64,
    mean_w: f64,
}

impl PlannedDay {
    /// Reads and solves a plan. Its peak becomes `peak` packets per second.
    pub(super) fn read(file: &Path, peak: f64) -> Result<Result<PlannedDay, StudyError>> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).context(name.clone())?;
        let solve = || -> Result<Planned, StudyError> {
            let problem: Problem = Document::parse(&name, &text)?.read_described()?;
            Ok(problem.planned(&Directory::of(file), &Silent)?)
        };
        Ok(solve().and_then(|planned| PlannedDay::scaled(&planned, peak)))
    }

    fn scaled(planned: &Planned, peak: f64) -> Result<PlannedDay, StudyError> {
        let most = planned.load_pps.iter().map(|(_, pps)| *pps).fold(0.0, f64::max);
        let scale = peak / most;
        let count = planned.back_ends.len();
        if count > BACK_ENDS_MAX {
            let what =
                format!("the plan has {count} servers, and one machine shows {BACK_ENDS_MAX}");
            return Err(StudyError::failed(what));
        }
        let back_end = |one: &ebb_system_cluster::BackEnd| BackEnd {
            name: one.name.clone(),
            group: one.group.clone(),
            server: Server {
                capacity: one.capacity_pps * scale,
                full: Watts(one.full_w),
                idle: Watts(one.idle_w),
                wake: WAKE,
            },
        };
        Ok(PlannedDay {
            back_ends: planned.back_ends.iter().map(back_end).collect(),
            steps: steps(&planned.load_pps).into_iter().map(|pps| pps * scale).collect(),
            settings: planned.settings,
            policy: planned.policy,
            design: planned.design.clone(),
            scale,
            mean_w: planned.mean_w,
        })
    }
}

/// Samples of any lengths, as loads of equal steps.
fn steps(samples: &[(f64, f64)]) -> Vec<f64> {
    if samples.iter().all(|sample| sample.0 == samples[0].0) && samples.len() > 1 {
        return samples.iter().map(|sample| sample.1).collect();
    }
    let total: f64 = samples.iter().map(|sample| sample.0).sum();
    let at = |step: usize| {
        let mut left = total * (step as f64 + 0.5) / STEPS as f64;
        let found = samples.iter().find(|(seconds, _)| {
            left -= seconds;
            left < 0.0
        });
        found.unwrap_or(&samples[samples.len() - 1]).1
    };
    (0..STEPS).map(at).collect()
}

/// Plan, simulation and live day side by side; nothing without a plan.
pub(super) fn compared(demo: &ClusterDemo, played: &Played) -> Result<Option<Report>> {
    let Some(day) = &demo.planned else { return Ok(None) };
    let report = Report::new("The plan, the simulator, the live day");
    let twin = twin::simulated(demo, &played.back_ends, settings(demo), None)?;
    let fate = fate(played);
    let mean = day.steps.iter().sum::<f64>() / day.steps.len() as f64;
    let packets = mean * demo.seconds;
    // The simulator counts packets where it says megabits.
    let rows = [
        ("energy", "J", [day.mean_w * demo.seconds, twin.joules, energy(played).joules]),
        ("offered", "packets", [packets, twin.offered_mb, fate.sent as f64]),
        ("carried", "packets", [packets, twin.carried_mb, fate.received as f64]),
    ];
    let mut table = Table::new(
        format!("{}: planned, simulated, live", day.design),
        [
            Column::text("what"),
            Column::text("unit"),
            Column::number("planned", "", 0),
            Column::number("simulated", "", 0),
            Column::number("live", "", 0),
            Column::number("simulated to planned", "", 3),
            Column::number("live to planned", "", 3),
        ],
    );
    let (mut agrees, mut figures) = (true, serde_json::Map::new());
    for (name, unit, [planned, simulated, live]) in rows {
        let ratios = [simulated / planned, live / planned, live / simulated];
        let near = ratios.iter().all(|ratio| (ratio - 1.0).abs() <= WITHIN);
        agrees &= near;
        table.row([
            name.into(),
            unit.into(),
            planned.into(),
            simulated.into(),
            live.into(),
            ratios[0].into(),
            ratios[1].into(),
        ]);
        let value = json!({
            "unit": unit, "planned": planned, "simulated": simulated, "live": live, "agrees": near,
        });
        figures.insert(name.to_owned(), value);
    }
    figures.insert("design".to_owned(), json!(day.design));
    figures.insert("scale".to_owned(), json!(day.scale));
    figures.insert("within".to_owned(), json!(WITHIN));
    figures.insert("agrees".to_owned(), json!(agrees));
    let report = report
        .table(table)
        .text(format!(
            "Rates and capacities are {:.3} of the plan's, and the day passes in {:.0} s. Energy is modelled in all \
             three. They are to be within {:.0} % of each other: {}.",
            day.scale,
            demo.seconds,
            100.0 * WITHIN,
            if agrees { "they are" } else { "they are not" },
        ))
        .figure("planned", serde_json::Value::Object(figures));
    Ok(Some(report))
}
