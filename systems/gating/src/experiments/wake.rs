use ebb_report::{
    Axis, Claim, Context, Experiment, ExperimentError, Findings, Plot, Report, Series,
};

use super::suite::{absent, benchmarks, comparison, most_and_mean, run};
use crate::machine::CoreSettings;

const SOURCE: &str = "Strong 2013, section 2.5.3, Figure 2.16";

const CLAIMS: &[Claim] = &[
    Claim::predicted(
        "strong2013.wake.tap16",
        SOURCE,
        "TAP, mean energy saved, 16 ns to wake up",
        2.33,
        "%",
    )
    .percent(25.0),
    Claim::predicted("strong2013.wake.tap2", SOURCE, "TAP, mean, 2 ns", 3.33, "%").percent(25.0),
    Claim::predicted("strong2013.wake.counter16", SOURCE, "counter, mean, 16 ns", 0.70, "%")
        .percent(25.0),
    Claim::predicted("strong2013.wake.counter2", SOURCE, "counter, mean, 2 ns", 2.15, "%")
        .percent(25.0),
    Claim::predicted("strong2013.wake.tapmost16", SOURCE, "TAP, mcf, 16 ns", 20.0, "%")
        .percent(25.0),
    Claim::predicted("strong2013.wake.tapmost2", SOURCE, "TAP, mcf, 2 ns", 25.88, "%")
        .percent(25.0),
    Claim::predicted("strong2013.wake.countermost16", SOURCE, "counter, mcf, 16 ns", 8.22, "%")
        .percent(25.0),
    Claim::predicted("strong2013.wake.countermost2", SOURCE, "counter, mcf, 2 ns", 17.21, "%")
        .percent(25.0),
    Claim::predicted(
        "strong2013.wake.grows",
        SOURCE,
        "TAP, mean at 2 ns over mean at 16 ns",
        1.43,
        "",
    )
    .percent(25.0),
];

/// Figure 2.16: savings against the wake-up time.
pub(super) struct Figure216;

impl Experiment for Figure216 {
    fn id(&self) -> &'static str {
        "strong2013.wake"
    }

    fn title(&self) -> &'static str {
        "Energy saved against the time to wake up, EV6"
    }

    fn claims(&self) -> &'static [Claim] {
        CLAIMS
    }

    fn run(&self, context: &Context<'_>) -> Result<Findings, ExperimentError> {
        let Some(benchmarks) = benchmarks(context)? else {
            return Ok(absent(self.title(), CLAIMS));
        };
        let mut comparison = comparison(CoreSettings::ev6(), 2, &["tap", "counter"]);
        let mut curves = [Vec::new(), Vec::new()];
        let mut most = [Vec::new(), Vec::new()];
        for wake_ns in [16.0, 14.0, 12.0, 10.0, 8.0, 6.0, 4.0, 2.0] {
            comparison.wake_ns = Some(wake_ns);
            let mut all = Vec::new();
            for benchmark in &benchmarks {
                all.push((benchmark.name.clone(), run(&comparison, benchmark, context)?));
            }
            for (index, name) in ["tap", "counter"].into_iter().enumerate() {
                let saved = most_and_mean(&all, |compared| {
                    100.0 * compared.of(name).map_or(0.0, |result| result.energy_saved)
                });
                curves[index].insert(0, (wake_ns, saved.1));
                most[index].insert(0, saved.0);
            }
        }
        let plot = Plot::new("Mean energy saved", Axis::new("time to wake up", "ns"))
            .panel(Axis::new("energy saved", "%").from_zero())
            .series(Series::line("tap", curves[0].clone()))
            .series(Series::line("counter", curves[1].clone()));
        let (first, last) = (0, curves[0].len() - 1);
        let note = "over all benchmarks of the data; the paper leaves out eight whose savings change by less than 0.2 %";
        Ok(Findings::new(Report::new(self.title()).plot(plot))
            .found("strong2013.wake.tap16", curves[0][last].1, note)
            .found("strong2013.wake.tap2", curves[0][first].1, note)
            .found("strong2013.wake.counter16", curves[1][last].1, note)
            .found("strong2013.wake.counter2", curves[1][first].1, note)
            .found("strong2013.wake.tapmost16", most[0][last], note)
            .found("strong2013.wake.tapmost2", most[0][first], note)
            .found("strong2013.wake.countermost16", most[1][last], note)
            .found("strong2013.wake.countermost2", most[1][first], note)
            .found("strong2013.wake.grows", curves[0][first].1 / curves[0][last].1, note))
    }
}
