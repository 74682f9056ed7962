//! What rules for handing frames to the card lose (Strong, fig. 4.14).

use ebb_report::{
    Axis, Claim, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims,
};
use ebb_scenario::Document;

use crate::sim::{self, Scenario};
use crate::tokens::Tokens;

const SOURCE: &str = "Strong 2013, section 4.4.2, fig. 4.14";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013.fig4.14", SOURCE]
    // The frames lost with naive tokens, 1.79 %, are those with aging ones, to which the card is fitted, and what is added.
    predicted "naive" "frames that naive tokens lose beyond aging ones", 1.79 - 1.65, "%", within(0.05);
    calibrated "aging" "frames lost with aging tokens", 1.65, "%", within(0.2);
    implied "pacing" "frames lost with aging and pacing tokens", 0.44, "%", within(0.1);
    predicted "ratio" "naive tokens lose how many times what pacing loses", 4.0, "", within(0.5);
};

/// Fig. 4.14: what rules for handing frames to the card lose.
pub(super) static FIGURE_414: Figure = Figure {
    id: "strong2013.fig4.14",
    title: "Frames lost by token scheme and length of the day",
    claims: CLAIMS,
    run: figure_414,
};

/// Days of the figure, us.
const DAYS_US: [f64; 6] = [61.0, 100.0, 150.0, 200.0, 250.0, 300.0];

pub(super) fn scenario(settings: &str) -> Result<Scenario, ExperimentError> {
    let text = format!("racks = 23\nduration_ms = 1000\n{settings}");
    let document = Document::parse("fig4.14.toml", &text).map_err(ExperimentError::from_error)?;
    document.read_described().map_err(ExperimentError::from_error)
}

fn figure_414(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let mut plot = Plot::new(FIGURE_414.title, Axis::new("day", "us"))
        .panel(Axis::new("lost", "%").from_zero());
    let mut curves = [(); 3].map(|()| Vec::new());
    let means = context.over_seeds(5, |context| {
        let mut means = [0.0; 5];
        for (at, tokens) in Tokens::ALL.into_iter().enumerate() {
            for day_us in DAYS_US {
                let mut scenario = scenario("")?;
                (scenario.tokens, scenario.day_us) = (tokens, day_us);
                if context.quick {
                    scenario.duration_ms = 50.0;
                }
                let loss = 100.0 * sim::run(&scenario, context.seed, context.progress).loss();
                means[at] += loss / DAYS_US.len() as f64;
                curves[at].push((day_us, loss));
            }
        }
        means[3] = means[0] / means[2];
        means[4] = means[0] - means[1];
        Ok(means)
    })?;
    for (tokens, points) in Tokens::ALL.into_iter().zip(curves) {
        let points = points.into_iter().take(DAYS_US.len()).collect();
        plot = plot.series(Series::line(tokens.name(), points));
    }
    let report = Report::new(FIGURE_414.title).plot(plot).text(
        "The card's batches (beyond 80 KB, 10 to 300 us longer) happen as often as makes aging \
         tokens lose what was published; sync frames go wrong as often as fig. 4.19 says.",
    );
    let naive = "without bursts of the hosts naive tokens have no evening rush to lose; how the \
                 hosts' sending varied was not published";
    let jitter = "days whose sync frames went wrong, of fig. 4.19; the text says the two rates are \
                  very close";
    Ok(Findings::new(report)
        .found(CLAIMS[0].id, means[4], naive)
        .found(CLAIMS[1].id, means[1], "fitted: how often the card goes over to batches")
        .found(CLAIMS[2].id, means[2], jitter)
        .found(CLAIMS[3].id, means[3], naive))
}
