//! Scenario files through the simulator: `ebb sim circuit`.

use ebb_report::{Column, Report, Table};
use ebb_scenario::{Document, Files, Progress};
use ebb_study::StudyError;

use crate::sim::{self, Scenario};

/// Simulates what a scenario file says.
///
/// # Errors
/// When the scenario makes no sense.
pub fn simulate(
    document: &Document,
    _files: &dyn Files,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Report, StudyError> {
    let scenario: Scenario = document.read_described()?;
    let out = sim::run(&scenario, seed, progress);
    let duty = scenario.day_us / (scenario.day_us + scenario.night_us);
    let goodput = out.goodput_gbps(&scenario);
    let mut table = Table::new("Frames", [Column::text("outcome"), Column::count("frames")]);
    for (what, count) in [
        ("put into queues", out.offered),
        ("arrived over circuits", out.delivered),
        ("arrived over the packet switch", out.by_packets),
        ("lost: sent in a night or on a wrong circuit", out.lost),
        ("of these on days without correct sync", out.lost_to_jitter),
        ("in queues at the end", out.queued),
        ("not sent because the queue was full", out.refused),
    ] {
        table.row([what.into(), count.into()]);
    }
    let loss = out.loss();
    let saved = 1.0 - out.sleeping_j / out.lit_j.max(f64::MIN_POSITIVE);
    let text = format!(
        "{} racks at {} Gb/s, days of {} us and nights of {} us (duty {:.1} %), {} tokens. A rack \
        receives {goodput:.3} Gb/s. {:.3} % of the frames sent to circuits were lost. Circuit \
        transceivers use {:.1} J always on, and {:.1} J if they sleep on days with no frame \
        waiting ({:.1} % less; modelled).",
        scenario.racks,
        scenario.rate_gbps,
        scenario.day_us,
        scenario.night_us,
        100.0 * duty,
        scenario.tokens.name(),
        100.0 * loss,
        out.lit_j,
        out.sleeping_j,
        100.0 * saved,
    );
    let report = Report::new("Racks behind an optical circuit switch").text(text);
    let report = match out.timeline {
        Some(timeline) => report.timeline(timeline),
        None => report,
    };
    Ok(report
        .table(table)
        .figure("goodput_gbps", goodput)
        .figure("loss", loss)
        .figure("duty", duty)
        .figure("offered", out.offered)
        .figure("delivered", out.delivered)
        .figure("by_packets", out.by_packets)
        .figure("lost", out.lost)
        .figure("queued", out.queued)
        .figure("refused", out.refused)
        .figure("days", out.days)
        .figure("lit_j", out.lit_j)
        .figure("sleeping_j", out.sleeping_j))
}
