//! What a policy would have decided on what a live router saw.
//!
//! Room: a record that `ebb router run` wrote (`record` of its `[governor]`), shown to a policy decision by
//! decision. What is seen is what the recorded policy led to: another policy would have seen another
//! queue after its first different decision. Neighbour: `outside.rs` makes policies of values.

use ebb_control::{Action, Decision, Idle, IdleDepth, Observation, RouterPolicy};
use ebb_report::{Axis, Cell, Column, Plot, Report, Series, Table};
use ebb_scenario::{Document, Files, Progress};
use ebb_study::{Policies, StudyError};

use crate::outside::{Failed, Outsider};
use crate::run::{Twin, decisions};

/// Differences that are listed.
const LISTED: usize = 20;
/// Points of the plot, at most.
const DRAWN: usize = 400;
/// Decisions between two looks at whether to stop.
const LOOK: usize = 256;

/// Shows a policy, the scenario's own where none is brought, the record in a file.
pub(crate) fn replay(
    document: &Document,
    files: &dyn Files,
    record: &str,
    progress: &dyn Progress,
    policies: Option<&dyn Policies>,
) -> Result<Report, StudyError> {
    let twin = Twin::new(document, files, 1)?;
    let text = String::from_utf8_lossy(&files.read(record)?).into_owned();
    let recorded = decisions(&text).map_err(|error| StudyError::in_file(record, error))?;
    if recorded.is_empty() {
        return Err(StudyError::in_file(record, "holds no decision"));
    }
    let own = &twin.scenario().policy.name;
    let (mut policy, failed, name): (Box<RouterPolicy>, _, _) = match policies {
        None => (twin.hasty_policy(), Failed::default(), own.as_str()),
        Some(policies) => {
            let (policy, failed) = Outsider::new(&twin, policies)?;
            (Box::new(policy), failed, policies.name())
        }
    };
    let mut decided = Vec::with_capacity(recorded.len());
    for (index, Decision { at, seen, .. }) in recorded.iter().enumerate() {
        decided.push(policy.decide(*at, seen));
        if index % LOOK == 0 {
            progress.at(index as f64 / recorded.len() as f64, "decisions");
            if progress.stopped() {
                return Err(StudyError::Stopped);
            }
        }
        failed.taken()?;
    }
    Ok(report(record, name, &recorded, &decided))
}

type Recorded = Decision<Observation, Action>;

fn report(record: &str, policy: &str, recorded: &[Recorded], decided: &[Action]) -> Report {
    let pairs = || recorded.iter().zip(decided);
    let differing = pairs().filter(|(was, is)| was.action != **is).count();
    let first = recorded.first().map_or(0.0, |decision| decision.at.as_secs_f64());
    let last = recorded.last().map_or(0.0, |decision| decision.at.as_secs_f64());
    let text = format!(
        "The policy {policy} shown what the router of {record} saw, decision by decision. What is seen is \
        what the recorded decisions led to."
    );
    let (was, is) =
        (means(recorded, |index| recorded[index].action), means(recorded, |i| decided[i]));
    Report::new("A record shown to a policy")
        .text(text)
        .figure("policy", policy)
        .figure("decisions", recorded.len())
        .figure("differing", differing)
        .figure("same_share", 1.0 - differing as f64 / recorded.len() as f64)
        .figure("duration_s", last - first)
        .figure("recorded.cores_mean", was.0)
        .figure("decided.cores_mean", is.0)
        .figure("recorded.frequency_mean", was.1)
        .figure("decided.frequency_mean", is.1)
        .table(differences(pairs().filter(|(was, is)| was.action != **is)))
        .plot(over_time(first, recorded, decided))
}

/// Mean cores and number of the frequency over time, each decision until the next.
fn means(recorded: &[Recorded], action: impl Fn(usize) -> Action) -> (f64, f64) {
    let (mut cores, mut frequency, mut all) = (0.0, 0.0, 0.0);
    for (index, pair) in recorded.windows(2).enumerate() {
        let seconds = pair[1].at.as_secs_f64() - pair[0].at.as_secs_f64();
        let point = action(index).point;
        cores += f64::from(point.cores) * seconds;
        frequency += f64::from(point.frequency) * seconds;
        all += seconds;
    }
    if all > 0.0 {
        return (cores / all, frequency / all);
    }
    let point = action(0).point;
    (f64::from(point.cores), f64::from(point.frequency))
}

fn differences<'a>(pairs: impl Iterator<Item = (&'a Recorded, &'a Action)>) -> Table {
    let columns = [
        Column::number("at", "s", 6),
        Column::count("waiting packets"),
        Column::text("recorded"),
        Column::text("decided"),
    ];
    let mut table = Table::new("Where it first decides otherwise", columns);
    for (was, is) in pairs.take(LISTED) {
        let cells: [Cell; 4] = [
            was.at.as_secs_f64().into(),
            u64::from(was.seen.queue_len).into(),
            words(&was.action).into(),
            words(is).into(),
        ];
        table.row(cells);
    }
    table
}

fn words(action: &Action) -> String {
    let depth = match action.point.depth {
        IdleDepth::Shallow => "shallow",
        IdleDepth::Deep => "deep",
    };
    let idle = match action.idle {
        Idle::Poll => "poll".to_owned(),
        Idle::Halt => "halt".to_owned(),
        Idle::Gather { nanos } => format!("gather for {nanos} ns"),
    };
    format!("cores {}, frequency {}, {depth}, {idle}", action.point.cores, action.point.frequency)
}

fn over_time(first: f64, recorded: &[Recorded], decided: &[Action]) -> Plot {
    let every = recorded.len().div_ceil(DRAWN);
    let cores = |action: &dyn Fn(usize) -> Action| {
        let at = |index: usize| recorded[index].at.as_secs_f64() - first;
        let indices = (0..recorded.len()).step_by(every);
        indices.map(|index| (at(index), f64::from(action(index).point.cores))).collect()
    };
    Plot::new("Active cores", Axis::new("time", "s"))
        .panel(Axis::new("active cores", "").from_zero())
        .series(Series::step("recorded", cores(&|index| recorded[index].action)))
        .series(Series::step("decided", cores(&|index| decided[index])))
}
