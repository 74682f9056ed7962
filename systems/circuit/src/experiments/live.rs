//! The prototype with 23 hosts (Strong, section 4.5).

use ebb_report::{
    Axis, Claim, Context, ExperimentError, Figure, Findings, Plot, Report, Series, claims,
};

use super::tokens::scenario;
use crate::sim::{self, Card, Jitter};

const SOURCE: &str = "Strong 2013, section 4.5";

const CLAIMS: &[Claim] = &claims! {
    ["strong2013", SOURCE]
    calibrated "eps_udp" "UDP through the packet switch, per host", 8.83, "Gb/s";
    predicted "ocs_udp_61" "UDP over circuits, days of 61 us", 5.726, "Gb/s", percent(10.0);
    // The share of the packet switch, 95.4 %, is this number again, and 87.9 % that of TCP.
    predicted "ocs_udp_300" "UDP over circuits, days of 300 us", 8.429, "Gb/s", percent(3.0);
    calibrated "eps_tcp" "TCP without segmentation offload through the packet switch", 6.26, "Gb/s";
    predicted "ocs_tcp_61" "TCP over circuits, days of 61 us", 2.231, "Gb/s", percent(10.0);
    predicted "ocs_tcp_300" "TCP over circuits, days of 300 us", 5.501, "Gb/s", percent(10.0);
    implied "first_packet" "from the day's begin until its first packet has arrived",
        33.2, "us", percent(10.0);
    calibrated "nic_delay" "delay in the network card", 23.5, "us";
    ["strong2013.fig4.19", SOURCE]
    calibrated "on_time" "sync frames on time", 99.31, "%", within(0.005);
    calibrated "together" "sync frames that come with the one before", 0.47, "%";
    calibrated "late" "sync frames 522 to 624 us late", 0.06, "%";
};

/// Section 4.5: what the prototype with 23 hosts reached.
pub(super) static PROTOTYPE: Figure = Figure {
    id: "strong2013.fig4.18",
    title: "Throughput of 23 hosts over circuits",
    claims: CLAIMS,
    run: prototype,
};

fn prototype(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let goodput = |source: &str, host_gbps: f64, day_us: f64, context: &Context<'_>| {
        let mut scenario = scenario(&format!("source = \"{source}\"\n"))?;
        (scenario.host_gbps, scenario.day_us) = (host_gbps, day_us);
        if context.quick {
            scenario.duration_ms = 50.0;
        }
        let out = sim::run(&scenario, context.seed, context.progress);
        Ok(out.goodput_gbps(&scenario))
    };
    let [udp_61, udp_300, tcp_61, tcp_300] = context.over_seeds(3, |context| {
        Ok([
            goodput("udp", 8.83, 61.0, context)?,
            goodput("udp", 8.83, 300.0, context)?,
            goodput("cubic", 6.26, 61.0, context)?,
            goodput("cubic", 6.26, 300.0, context)?,
        ])
    })?;
    let (card, jitter) = (Card::default(), Jitter::default());
    let points = vec![(61.0, udp_61.mean), (300.0, udp_300.mean)];
    let plot = Plot::new(PROTOTYPE.title, Axis::new("day", "us"))
        .panel(Axis::new("received per host", "Gb/s").from_zero())
        .series(Series::line("UDP", points));
    let report = Report::new(PROTOTYPE.title).plot(plot);
    // A frame of 9,000 octets is on the link for 7.2 us.
    let first = card.delay_us + 9000.0 * 8.0 / 10_000.0;
    let on_time = 100.0 * (1.0 - jitter.together - jitter.late - jitter.slow);
    let tcp = "a host's processor makes 6.26 Gb/s, as through the packet switch, whatever circuits do; the published \
               one, which handles 506 connections and hands over the days' frames at once, makes less, and how much \
               was not measured";
    let given = "given to the simulator";
    let short = "a guard as long as the card's delay leaves 61 us room for five frames of 9,000 octets; \
                 the published rate takes 5.8, so its guard was shorter or its frames were";
    let long = "days of 300 us hold 38 frames, 99 % of what hosts send; the published rate takes 36.5, \
                and what kept its hosts from the rest is not told";
    Ok(Findings::new(report)
        .found(CLAIMS[0].id, 8.83, given)
        .found(CLAIMS[1].id, udp_61, short)
        .found(CLAIMS[2].id, udp_300, long)
        .found(CLAIMS[3].id, 6.26, given)
        .found(CLAIMS[4].id, tcp_61, tcp)
        .found(CLAIMS[5].id, tcp_300, tcp)
        .found(CLAIMS[6].id, first, "card delay and one frame's time on the link")
        .found(CLAIMS[7].id, card.delay_us, given)
        .found(CLAIMS[8].id, on_time, given)
        .found(CLAIMS[9].id, 100.0 * jitter.together, given)
        .found(CLAIMS[10].id, 100.0 * jitter.late, given))
}
