//! What the measurements of a cluster's parts show: figures, and whether each rule of the planner holds.

use ebb_report::{Axis, Column, Plot, Report, Series, Table};
use ebb_traffic::SizeMix;
use serde_json::{Map, Value, json};

use super::cases::{Case, Front, Setup, ThreadPlacement};
use super::guest::{Busy, Carrier};
use super::rated;
use super::stage::{Compared, Measured, Rated};

/// What a rating is, beside its table.
const RATED: &str = "The highest rate without more loss than is accepted, from one side to the other, in the median of the \
    turns; latency at parts of it, from the sender to the receiver; and what comes of 1.5 times that rate from 64 flows, with \
    Jain's index of the parts of their packets that flows got.";

/// What differs by less than this does not differ.
const ALIKE: f64 = 0.05;
/// Of linear, what `scaling` is held to.
const LINEAR: f64 = 0.85;

/// What was found, case by case.
pub(super) struct Findings {
    share: f64,
    sizes: SizeMix,
    cases: Vec<(&'static Case, Compared)>,
    rated: Vec<rated::Row>,
    skipped: Vec<(String, String)>,
}

/// What becomes of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Verdict {
    word: &'static str,
    /// Median of the turns' ratios of the setup that the rule puts first to the best of the others; of
    /// linear for `scaling`.
    ratio: f64,
    least: f64,
    most: f64,
}

impl Findings {
    pub(super) fn new(share: f64, sizes: SizeMix) -> Findings {
        Findings { share, sizes, cases: Vec::new(), rated: Vec::new(), skipped: Vec::new() }
    }

    pub(super) fn add(&mut self, case: &'static Case, compared: Compared) {
        self.cases.push((case, compared));
    }

    pub(super) fn rated(&mut self, case: &'static Case, setup: &'static Setup, all: Vec<Rated>) {
        self.rated.push((case, setup, all));
    }

    pub(super) fn skip(&mut self, what: &str, why: String) {
        self.skipped.push((what.to_owned(), why));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.rated.is_empty()
    }

    pub(super) fn skipped(&self) -> &[(String, String)] {
        &self.skipped
    }

    /// Everything, for people and programs.
    pub(super) fn report(&self) -> Report {
        let mut report = Report::new("Virtual back-ends of a cluster");
        if let Some(rates) = rated::table(&self.rated) {
            report = report.text(RATED).table(rates);
        }
        if !self.cases.is_empty() {
            report = self.compared(report);
        }
        for (what, why) in &self.skipped {
            report = report.text(format!("Not measured: {what}: {why}"));
        }
        let skipped: Vec<Value> =
            self.skipped.iter().map(|(what, why)| json!({ "case": what, "why": why })).collect();
        report
            .figure("share", self.share)
            .figure("packets", self.sizes.name())
            .figure("setups", self.setups_json())
            .figure("scaling", self.scaling_json())
            .figure("rules", self.rules_json())
            .figure("costs", self.costs())
            .figure("rates", rated::figures(&self.rated))
            .figure("cpus", ebb_host::process::allowed_cpus().map_or(0, |cpus| cpus.len()))
            .figure("skipped", skipped)
    }

    fn compared(&self, report: Report) -> Report {
        let mut report = report
            .text(
                "More packets than can be forwarded, from one side to the other \
                through kernel routers in network namespaces. Time per packet is the processor \
                time of the named threads divided by the packets that arrived; each packet passes \
                the balancer twice.",
            )
            .table(self.setups())
            .table(self.rules());
        if let Some(guests) = self.guests() {
            report = report.table(guests);
        }
        if let Some(plot) = self.scaling_plot() {
            report = report.plot(plot);
        }
        report
    }

    fn setups(&self) -> Table {
        let mut table = Table::new(
            "Setups",
            [
                Column::text("case"),
                Column::text("setup"),
                Column::number("forwarded", "kpps", 1),
                Column::number("least", "kpps", 1),
                Column::number("most", "kpps", 1),
                Column::number("offered", "kpps", 1),
                Column::number("balancer", "ns/packet", 0),
                Column::number("back-ends", "ns/packet", 0),
            ],
        );
        for (case, compared) in &self.cases {
            for (setup, runs) in compared {
                let kpps = spread(runs, |run| run.pps / 1e3);
                let offered = spread(runs, |run| run.offered_pps / 1e3);
                let balancer = spread(runs, |run| run.balancer_ns.unwrap_or(0.0));
                table.row([
                    case.name.into(),
                    setup.name.into(),
                    kpps[1].into(),
                    kpps[0].into(),
                    kpps[2].into(),
                    offered[1].into(),
                    balancer[1].into(),
                    spread(runs, |run| run.back_end_ns)[1].into(),
                ]);
            }
        }
        table
    }

    /// Who is busy in virtual machines; none where there were none.
    fn guests(&self) -> Option<Table> {
        let mut table = Table::new(
            "Virtual machines",
            [
                Column::text("setup"),
                Column::text("processor"),
                Column::number("forwarded", "kpps", 1),
                Column::number("processor busy", "of a CPU", 2),
                Column::number("mover busy", "of a CPU", 2),
            ],
        );
        let mut any = false;
        for (setup, runs) in self.case("guests")? {
            let Some(busy) = runs.first().and_then(|run| run.busy) else { continue };
            any = true;
            table.row([
                setup.name.into(),
                if busy.emulated { "emulated" } else { "this machine's" }.into(),
                spread(runs, |run| run.pps / 1e3)[1].into(),
                spread(runs, |run| run.busy.map_or(0.0, |busy| busy.processor))[1].into(),
                spread(runs, |run| run.busy.map_or(0.0, |busy| busy.mover))[1].into(),
            ]);
        }
        any.then_some(table)
    }

    fn rules(&self) -> Table {
        let mut table = Table::new(
            "Rules",
            [
                Column::text("rule"),
                Column::text("verdict"),
                Column::number("ratio", "", 3),
                Column::number("least", "", 3),
                Column::number("most", "", 3),
                Column::text("compared").aside(),
                Column::text("source").aside(),
            ],
        );
        for (case, compared) in &self.cases {
            let Some(verdict) = verdict(case, compared) else { continue };
            table.row([
                case.rule.into(),
                verdict.word.into(),
                verdict.ratio.into(),
                verdict.least.into(),
                verdict.most.into(),
                case.about.into(),
                case.source.into(),
            ]);
        }
        table
    }

    fn setups_json(&self) -> Value {
        let mut all = Map::new();
        for (case, compared) in &self.cases {
            for (setup, runs) in compared {
                let kpps = spread(runs, |run| run.pps / 1e3);
                let value = json!({
                    "mbps": kpps[1] * self.sizes.mean() * 8.0 / 1e3,
                    "kpps": kpps[1], "least": kpps[0], "most": kpps[2],
                    "runs": runs.iter().map(|run| run.pps / 1e3).collect::<Vec<_>>(),
                    "offered_kpps": spread(runs, |run| run.offered_pps / 1e3)[1],
                    "balancer_ns": runs.first().and_then(|run| run.balancer_ns)
                        .map(|_| spread(runs, |run| run.balancer_ns.unwrap_or(0.0))[1]),
                    "back_end_ns": spread(runs, |run| run.back_end_ns)[1],
                    "back_ends": setup.back_ends,
                    "machine": machine(runs),
                });
                all.insert(format!("{}: {}", case.name, setup.name), value);
            }
        }
        Value::Object(all)
    }

    fn rules_json(&self) -> Value {
        let one = |(case, compared): &(&Case, Compared)| {
            let verdict = verdict(case, compared)?;
            Some(json!({
                "case": case.name, "rule": case.rule, "source": case.source, "verdict": verdict.word,
                "ratio": verdict.ratio, "least": verdict.least, "most": verdict.most,
            }))
        };
        self.cases.iter().filter_map(one).collect()
    }

    fn case(&self, name: &str) -> Option<&Compared> {
        self.cases.iter().find(|(case, _)| case.name == name).map(|(_, compared)| compared)
    }

    /// By number of back-ends, throughput and its share of linear.
    fn scaling(&self) -> Vec<(usize, f64, f64)> {
        let Some(compared) = self.case("scaling") else { return Vec::new() };
        let of_linear = |(at, (setup, runs)): (usize, &(&Setup, Vec<Measured>))| {
            let kpps = spread(runs, |run| run.pps / 1e3)[1];
            let ratios = linear(compared, at);
            (setup.back_ends, kpps, middle(&ratios))
        };
        compared.iter().enumerate().map(of_linear).collect()
    }

    fn scaling_json(&self) -> Value {
        let all = self.scaling();
        if all.is_empty() {
            return Value::Null;
        }
        let kpps: Map<String, Value> =
            all.iter().map(|(count, kpps, _)| (count.to_string(), json!(kpps))).collect();
        let linear: Map<String, Value> =
            all.iter().map(|(count, _, linear)| (count.to_string(), json!(linear))).collect();
        json!({ "share": self.share, "kpps": kpps, "of_linear": linear, "goal": LINEAR })
    }

    fn scaling_plot(&self) -> Option<Plot> {
        let all = self.scaling();
        let (_, one, _) = *all.first()?;
        let points = all.iter().map(|(count, kpps, _)| (*count as f64, *kpps)).collect();
        let straight = all.iter().map(|(count, ..)| (*count as f64, *count as f64 * one)).collect();
        Some(
            Plot::new("Throughput by number of back-ends", Axis::new("back-ends", ""))
                .panel(Axis::new("forwarded", "kpps").from_zero())
                .series(Series::line("measured", points))
                .series(Series::line("linear", straight)),
        )
    }

    /// What calibrates the placement planner.
    fn costs(&self) -> Value {
        let all = || self.cases.iter().flat_map(|(_, compared)| compared);
        let apart = |setup: &Setup| {
            setup.place == ThreadPlacement::Apart
                && setup.front == Front::Balancer
                && setup.carrier == Carrier::Kernel
        };
        let median = |of: &dyn Fn(&Setup) -> bool, value: fn(&Measured) -> f64| {
            let values: Vec<f64> = all()
                .filter(|(setup, _)| of(setup))
                .map(|(_, runs)| spread(runs, value)[1])
                .collect();
            (!values.is_empty()).then(|| middle(&values))
        };
        let of = |case: &str, at: usize, value: fn(&Measured) -> f64| {
            let (_, runs) = self.case(case)?.get(at)?;
            (!runs.is_empty()).then(|| spread(runs, value)[1])
        };
        let sum = |run: &Measured| run.balancer_ns.unwrap_or(0.0) + run.back_end_ns;
        let ratio = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
        // Three threads share the CPU.
        let contention = ratio(of("isolation", 1, sum), of("isolation", 0, sum));
        let unbound = ratio(of("binding", 1, |run| run.pps), of("binding", 0, |run| run.pps));
        json!({
            "balancer_ns": median(&apart, |run| run.balancer_ns.unwrap_or(0.0)).map(|ns| ns / 2.0),
            "back_end_ns": median(&|setup| apart(setup) && !setup.filters, |run| run.back_end_ns),
            "back_end_filtering_ns": median(&|setup| apart(setup) && setup.filters, |run| run.back_end_ns),
            "contention": contention.map(|ratio| (ratio - 1.0) / 2.0),
            "migration": unbound.map(|ratio| 1.0 - ratio),
        })
    }
}

/// Each turn's ratio of what `at` back-ends forward to as many times what one does.
fn linear(compared: &Compared, at: usize) -> Vec<f64> {
    let Some((_, one)) = compared.first() else { return Vec::new() };
    let (setup, runs) = &compared[at];
    let ratio = |(run, one): (&Measured, &Measured)| run.pps / one.pps / setup.back_ends as f64;
    runs.iter().zip(one).map(ratio).collect()
}

fn verdict(case: &Case, compared: &Compared) -> Option<Verdict> {
    if compared.iter().any(|(_, runs)| runs.is_empty()) || compared.len() < 2 {
        return None;
    }
    if case.name == "scaling" {
        let last = compared.len() - 1;
        let of: Vec<Vec<f64>> = (1..=last).map(|at| linear(compared, at)).collect();
        let worst = of.into_iter().min_by(|a, b| middle(a).total_cmp(&middle(b)))?;
        let word = if middle(&worst) >= LINEAR { "shown" } else { "refuted" };
        return Some(Verdict { word, ..told(&worst) });
    }
    if case.name == "guests" {
        return guests_verdict(compared);
    }
    let turns = compared[0].1.len();
    let rivals =
        |turn: usize| compared[1..].iter().map(|(_, runs)| runs[turn].pps).fold(0.0, f64::max);
    let ratios: Vec<f64> = (0..turns).map(|turn| compared[0].1[turn].pps / rivals(turn)).collect();
    let told = told(&ratios);
    let word = match told.ratio {
        ratio if ratio > 1.0 + ALIKE && told.least > 1.0 => "shown",
        ratio if ratio < 1.0 - ALIKE && told.most < 1.0 => "refuted",
        _ => "undecided",
    };
    Some(Verdict { word, ..told })
}

/// Whether what moves a virtual machine's packets is busier than its processor. An emulated processor shows nothing
/// about that.
fn guests_verdict(compared: &Compared) -> Option<Verdict> {
    let all = || compared.iter().flat_map(|(_, runs)| runs).filter_map(|run| run.busy);
    let ratios: Vec<f64> = all().map(|busy| busy.mover / busy.processor.max(1e-9)).collect();
    if ratios.is_empty() {
        return None;
    }
    let told = told(&ratios);
    let word = match told.ratio {
        _ if all().any(|busy| busy.emulated) => "emulated",
        ratio if ratio > 1.0 + ALIKE && told.least > 1.0 => "shown",
        ratio if ratio < 1.0 - ALIKE && told.most < 1.0 => "refuted",
        _ => "undecided",
    };
    Some(Verdict { word, ..told })
}

/// Of virtual machines, whether they are emulated and who in them is busy.
fn machine(runs: &[Measured]) -> Value {
    let Some(Busy { emulated, .. }) = runs.first().and_then(|run| run.busy) else {
        return Value::Null;
    };
    json!({
        "emulated": emulated,
        "processor_busy": spread(runs, |run| run.busy.map_or(0.0, |busy| busy.processor))[1],
        "mover_busy": spread(runs, |run| run.busy.map_or(0.0, |busy| busy.mover))[1],
    })
}

fn told(ratios: &[f64]) -> Verdict {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    Verdict { word: "", ratio: middle(ratios), least, most }
}

/// The median; the mean of the two in the middle of an even number.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[at],
        _ => f64::midpoint(sorted[at - 1], sorted[at]),
    }
}

/// Least, median and most.
fn spread(runs: &[Measured], value: impl Fn(&Measured) -> f64) -> [f64; 3] {
    let values: Vec<f64> = runs.iter().map(value).collect();
    let told = told(&values);
    [told.least, told.ratio, told.most]
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::*;

    fn case(name: &str) -> &'static Case {
        CASES.iter().find(|case| case.name == name).expect("a case")
    }

    fn compared(case: &'static Case, kpps: &[&[f64]]) -> Compared {
        let run = |kpps: &f64| Measured {
            pps: kpps * 1e3,
            offered_pps: 2e3 * kpps,
            balancer_ns: Some(1000.0),
            back_end_ns: 2000.0,
            ..Measured::default()
        };
        let runs =
            |(setup, kpps): (&'static Setup, &&[f64])| (setup, kpps.iter().map(run).collect());
        case.setups.iter().zip(kpps).map(runs).collect()
    }

    fn word(name: &str, kpps: &[&[f64]]) -> &'static str {
        verdict(case(name), &compared(case(name), kpps)).expect("measured").word
    }

    #[test]
    fn rules_are_shown_refuted_or_neither() {
        assert_eq!(word("binding", &[&[120.0, 118.0, 125.0], &[100.0, 101.0, 99.0]]), "shown");
        assert_eq!(word("binding", &[&[90.0, 91.0, 92.0], &[100.0, 101.0, 99.0]]), "refuted");
        assert_eq!(word("binding", &[&[101.0, 99.0, 102.0], &[100.0, 101.0, 99.0]]), "undecided");
        // The turns disagree.
        assert_eq!(word("binding", &[&[120.0, 90.0, 130.0], &[100.0, 101.0, 99.0]]), "undecided");
        // The best of the others counts.
        assert_eq!(word("priority", &[&[100.0], &[50.0], &[110.0]]), "refuted");
        assert!(verdict(case("binding"), &compared(case("binding"), &[&[], &[]])).is_none());
    }

    #[test]
    fn an_emulated_machine_decides_nothing() {
        let with = |emulated, mover| {
            let mut compared = compared(case("guests"), &[&[100.0], &[120.0], &[5.0]]);
            compared[2].1[0].busy = Some(Busy { processor: 0.5, mover, emulated });
            verdict(case("guests"), &compared).map(|verdict| verdict.word)
        };
        assert_eq!(with(true, 0.9), Some("emulated"));
        assert_eq!(with(false, 0.9), Some("shown"));
        assert_eq!(with(false, 0.2), Some("refuted"));
        let without = compared(case("guests"), &[&[100.0], &[120.0]]);
        assert!(verdict(case("guests"), &without).is_none());
        // What virtual machines take is not what the planner's back-ends do.
        let mut findings = Findings::new(0.2, SizeMix::fixed(64));
        findings.add(case("guests"), without);
        assert!(findings.report().figures["costs"]["back_end_ns"].is_null());
    }

    #[test]
    fn scaling_is_held_to_its_goal() {
        assert_eq!(word("scaling", &[&[10.0], &[20.0], &[29.0], &[36.0]]), "shown");
        assert_eq!(word("scaling", &[&[10.0], &[20.0], &[25.0], &[36.0]]), "refuted");
    }

    /// The planner reads what is printed here.
    #[test]
    fn costs_calibrate_the_planner() {
        let mut findings = Findings::new(0.2, SizeMix::fixed(64));
        for (name, kpps) in [
            ("binding", &[&[100.0][..], &[80.0][..]][..]),
            ("balancers", &[&[1.0][..], &[2.0][..], &[3.0][..]][..]),
        ] {
            findings.add(case(name), compared(case(name), kpps));
        }
        findings.skip("guests", "none".to_owned());
        let figures = findings.report().figures;
        let text = serde_json::to_string(&figures).expect("JSON");
        let costs = ebb_system_cluster::placement::Calibration::parse("b.json", text.as_bytes());
        let costs = costs.expect("costs");
        assert_eq!((costs.balancer_ns, costs.back_end_ns), (Some(500.0), Some(2000.0)));
        assert!((costs.migration.expect("measured") - 0.2).abs() < 1e-9);
        assert_eq!(costs.contention, None);
        assert_eq!(figures["skipped"][0]["case"], "guests");
    }
}
