//! Power against the length of bursts.

use ebb_report::{
    Axis, Context, ExperimentError, Figure, Findings, Note, Plot, Report, Series, claims,
};

use super::bench::{AS_PUBLISHED, twin};

const SECTION: &str = "Niccolini et al. 2012, section 7, figure 17";

/// Power against the length of bursts.
pub(super) static FIG17: Figure = Figure {
    id: "niccolini2012.fig17",
    title: "Power against the length of bursts, 2.5 Gb/s a port",
    claims: &claims! {
        ["niccolini2012.fig17", SECTION]
        predicted "powersave-spread" "spread of PowerSave's power over all lengths",
            7.5, "%", at_most(), reading("varies very little");
        implied "polling-spread" "spread of polling's power", 0.5, "%", at_most(), reading("flat");
        predicted "napi-benefits" "NAPI draws less with the longest bursts than with none",
            0.0, "W", at_least(), reading("benefits from traffic burstiness");
        implied "powersave-best" "lengths, of 7, at which PowerSave draws least", 7.0, "";
        predicted "lost" "packets that PowerSave loses", 0.0, "";
    },
    run,
};

const LENGTHS: [u32; 7] = [1, 4, 16, 32, 64, 128, 256];

/// Independent runs.
const SEEDS: u64 = 4;
const POLICIES: [&str; 3] = ["poll", "napi", "powersave"];

/// Power over the length of bursts of each policy, and packets that PowerSave lost.
struct Lines {
    watts: [Vec<(f64, f64)>; 3],
    lost: u64,
}

impl Lines {
    fn simulated(context: &Context<'_>) -> Result<Lines, ExperimentError> {
        let duration = if context.quick { 0.002 } else { 0.05 };
        let mut lines = Lines { watts: Default::default(), lost: 0 };
        for (index, burst) in LENGTHS.into_iter().enumerate() {
            context.progress.at(index as f64 / LENGTHS.len() as f64, "bursts");
            for (line, policy) in lines.watts.iter_mut().zip(POLICIES) {
                let text = format!(
                    "duration_s = {duration}\nwarmup_s = 0.05\npolicy.name = \"{policy}\"\n\
                     policy.settings = {AS_PUBLISHED}\n\
                     [traffic]\nrate_gbps = 10.0\nsizes = \"imix\"\narrivals = \"onoff\"\n\
                     burst_packets = {burst}\n"
                );
                let outcome = twin(context, &text)?;
                line.push((f64::from(burst), outcome.power.0));
                lines.lost += if policy == "powersave" { outcome.counts.lost } else { 0 };
            }
        }
        Ok(lines)
    }

    /// Spread of PowerSave and of polling in percent, what NAPI draws less with the longest bursts,
    /// lengths at which PowerSave draws least, packets lost.
    fn numbers(&self) -> [f64; 5] {
        let [poll, napi, powersave] = &self.watts;
        let spread = |line: &[(f64, f64)]| {
            let powers = || line.iter().map(|(_, watts)| *watts);
            let (low, high) =
                (powers().fold(f64::INFINITY, f64::min), powers().fold(0.0, f64::max));
            100.0 * (high / low - 1.0)
        };
        let least = powersave.iter().zip(napi).zip(poll);
        let least = least.filter(|((own, napi), poll)| own.1 < napi.1 && own.1 < poll.1).count();
        let gain = napi[0].1 - napi[napi.len() - 1].1;
        [spread(powersave), spread(poll), gain, least as f64, self.lost as f64]
    }
}

fn run(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let mut first = None;
    let [powersave, polling, gain, least, lost] = context.over_seeds(SEEDS, |context| {
        let lines = Lines::simulated(context)?;
        let numbers = lines.numbers();
        first.get_or_insert(lines);
        Ok(numbers)
    })?;
    let mut plot = Plot::new(FIG17.title, Axis::new("burst", "packets"))
        .panel(Axis::new("power", "W").from_zero());
    for (line, name) in first.iter().flat_map(|lines| &lines.watts).zip(POLICIES) {
        plot = plot.series(Series::line(name, line.clone()));
    }
    // The text says "flat", "varies very little" and "benefits", and no number.
    plot = plot.nothing_published();
    let text = "Bursts at each port's line rate, frames of 64, 594 and 1518 bytes (7:4:1): the \
                paper does not say which.";
    let moves = "longer bursts fill queues for longer than the policy waits, and cores come and go";
    let flat = "polling draws the same whatever arrives, but for what the carried traffic adds";
    let spaced = "interrupts are spaced out";
    let parked = "the lengths are ours; polling and NAPI keep twelve cores out of C6, whose fitted powers decide";
    let frames = "frames and the length of the run are ours, c_down is that of figure 16";
    Ok(Findings::new(Report::new(FIG17.title).text(text).plot(plot))
        .found("niccolini2012.fig17.powersave-spread", powersave, Note::verdict("", moves))
        .found("niccolini2012.fig17.polling-spread", polling, flat)
        .found("niccolini2012.fig17.napi-benefits", gain, Note::verdict(spaced, frames))
        .found("niccolini2012.fig17.powersave-best", least, Note::verdict(parked, frames))
        .found("niccolini2012.fig17.lost", lost, "mean of the runs; queues of 2,048 packets"))
}
