//! Every experiment runs, every claim of theirs is answered, and no two share a name.

use std::collections::BTreeSet;

use ebb_report::{Context, Reproduction, Verdict};
use ebb_scenario::{Files, Silent};
use ebb_system_router::experiments::experiments;

fn context(quick: bool, data: Option<&dyn Files>) -> Context<'_> {
    Context { seed: 1, jobs: 1, quick, data, progress: &Silent }
}

#[test]
fn every_experiment_runs_and_answers_its_claims() {
    for experiment in experiments() {
        let mut reproduction = Reproduction::new();
        let outcome = experiment.run(&context(true, None));
        let alone =
            outcome.as_ref().map_or_else(|_| Vec::new(), |found| found.plots_of_ours_alone());
        assert!(alone.is_empty(), "{}: nothing published in {alone:?}", experiment.id());
        reproduction.add(experiment, outcome);
        assert_eq!(reproduction.failed(), [], "{}", experiment.id());
        assert_eq!(reproduction.rows().count(), experiment.claims().len());
        for row in reproduction.rows() {
            let unknown = row.id.starts_with("bolla.fig01.");
            assert!(row.ours.is_some() != unknown, "{}: {}", row.id, row.note);
            assert!(unknown || row.half_width_95.is_some(), "{}: one seed", row.id);
            assert!(row.verdict == Verdict::Met || row.note != "no reason found", "{}", row.id);
        }
    }
}

#[test]
fn names_are_unique_and_claims_belong_to_their_experiment() {
    let mut seen = BTreeSet::new();
    for experiment in experiments() {
        assert!(seen.insert(experiment.id()), "{}", experiment.id());
        assert!(!experiment.title().is_empty());
        for claim in experiment.claims() {
            assert!(seen.insert(claim.id), "{}", claim.id);
            assert!(claim.id.starts_with(&format!("{}.", experiment.id())), "{}", claim.id);
            assert!(claim.source.contains("section") || claim.source.contains("abstract"));
        }
    }
}

/// The complete experiments whose names begin with `EBB_ONLY` (all without it), as JSON; run with
/// `cargo test -p ebb-system-router --test experiments complete -- --ignored --nocapture`.
#[test]
#[ignore = "minutes"]
fn complete() {
    let only = std::env::var("EBB_ONLY").unwrap_or_default();
    let mut reproduction = Reproduction::new();
    for experiment in experiments() {
        if experiment.id().starts_with(&only) {
            let began = std::time::Instant::now();
            reproduction.run(experiment, &context(false, None));
            eprintln!("{}: {:.1} s", experiment.id(), began.elapsed().as_secs_f64());
        }
    }
    println!("{}\n{}", reproduction.to_json(), reproduction.summary());
    assert_eq!(reproduction.failed(), []);
}

/// Our numbers where a steady state is asked for, and those of short runs: a change of the model
/// shows here first.
#[test]
fn results() {
    let (short, long) = (["fig03", "fig10"], ["fig15", "fig16", "fig17", "text"]);
    let mut lines = String::new();
    for experiment in experiments() {
        let Some(name) = experiment.id().strip_prefix("niccolini2012.") else { continue };
        if long.contains(&name) {
            continue;
        }
        let steady = !short.contains(&name);
        let mut reproduction = Reproduction::new();
        reproduction.run(experiment, &context(!steady, None));
        for row in reproduction.rows() {
            let ours = row.ours.map_or("none".to_owned(), |ours| format!("{ours:.3}"));
            let (basis, verdict) = (row.basis.name(), row.verdict.name());
            lines += &format!("{} {ours} {} {basis} {verdict}\n", row.id, row.unit);
        }
    }
    insta::assert_snapshot!(lines);
}
