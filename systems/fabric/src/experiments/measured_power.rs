//! What Montañana et al. 2010, section 1, measured of three switches: the only watts that the paper
//! prints, and what the regulator's account of energy rests on.

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Report, Table, claims,
};

use crate::regulator::power::PortPower;

/// The experiment.
pub static SWITCHES: Figure = Figure {
    id: "montanana2010.s1",
    title: "Power of three switches, and of their ports",
    claims: CLAIMS,
    run: switches,
};

const SOURCE: &str = "Montañana et al. 2010, section 1";

const CLAIMS: &[Claim] = &claims! {
    ["montanana2010.s1", SOURCE]
    calibrated "5324.port" "switching a port off, PowerConnect 5324 (1000Base-T)",
        1.2, "W", within(0.05);
    calibrated "5324.off" "the same switch with all ports off", 15.0, "W", within(0.5);
    calibrated "6248.port" "switching a port off, PowerConnect 6248 (1000Base-T)",
        2.1, "W", within(0.05);
    calibrated "6248.off" "the same switch with all ports off", 57.0, "W", within(0.5);
    calibrated "sfs7000d.port" "switching a port off, SFS7000D-SK9 (DDR x4)",
        0.9, "W", within(0.05);
    calibrated "sfs7000d.off" "the same switch with all ports off", 43.0, "W", within(0.5);
};

fn switches(_: &Context<'_>) -> Result<Findings, ExperimentError> {
    let switches = [
        ("PowerConnect 5324", "5324", 24_u32, PortPower::gigabit_24()),
        ("PowerConnect 6248", "6248", 48, PortPower::gigabit_48()),
        ("SFS7000D-SK9", "sfs7000d", 24, PortPower::default()),
    ];
    let columns = [
        Column::text("switch"),
        Column::count("ports"),
        Column::number("a port", "W", 1),
        Column::number("all off", "W", 1),
        Column::number("all on", "W", 1),
        Column::number("most that its links can save", "%", 1),
    ];
    let mut table = Table::new("Power with all ports off and on", columns);
    let mut found = Vec::new();
    for (name, short, ports, power) in switches {
        let port = power.on_w.0 - power.off_w.0;
        let off = power.switch_w.0 + f64::from(ports) * power.off_w.0;
        let on = power.switch_w.0 + f64::from(ports) * power.on_w.0;
        let most = 100.0 * (1.0 - off / on);
        let ports = u64::from(ports);
        table.row([name.into(), ports.into(), port.into(), off.into(), on.into(), most.into()]);
        found.push((format!("montanana2010.s1.{short}.port"), port));
        found.push((format!("montanana2010.s1.{short}.off"), off));
    }
    let report = Report::new(SWITCHES.title).table(table);
    let note = "read back from the model; the paper prints no energy of its simulations";
    let fold = |all: Findings, (id, ours): (String, f64)| all.found(&id, ours, note);
    Ok(found.into_iter().fold(Findings::new(report), fold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::Silent;

    #[test]
    fn every_claim_is_read_back() {
        let context = Context { seed: 1, jobs: 1, quick: false, data: None, progress: &Silent };
        let mut reproduction = ebb_report::Reproduction::new();
        reproduction.run(&SWITCHES, &context);
        assert_eq!(reproduction.summary(), "met: 6 of 6 calibrated");
    }
}
