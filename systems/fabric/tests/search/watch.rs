//! What the simulator makes of a case.

use ebb_des::Seed;
use ebb_system_fabric::HostId;
use ebb_system_fabric::dependency::ChannelLabel;
use ebb_system_fabric::schemes::Proposal;
use ebb_system_fabric::sim::{Network, Pattern, Pause, Physics, Setup, Traffic};
use ebb_system_fabric::topology::Link;

use super::case::Drawn;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Settled,
    Never,
    Deadlock(Vec<ChannelLabel>),
}

/// What was counted.
#[derive(Clone, Debug)]
pub struct Seen {
    pub ended: Ended,
    pub lost: u64,
    pub dropped: u64,
    pub reordered: u64,
    pub balanced: bool,
}

impl Seen {
    pub fn fails(&self) -> bool {
        self.ended != Ended::Settled || self.lost + self.dropped > 0
    }
}

/// Runs a change at a time, until it is over, its links are off and the network is empty.
///
/// # Errors
/// When the network cannot be simulated.
pub fn run(drawn: &Drawn, proposal: Proposal) -> Result<Seen, String> {
    let run = &drawn.run;
    let physics = Physics {
        buffer_bytes: run.buffer_bytes,
        packet_bytes: run.packet_bytes,
        lane_sets: run.lane_sets,
        control_first: run.control_first,
        mtu: 4096,
        ..Physics::default()
    };
    let traffic = Traffic::constant(run.load, Pattern::Uniform {});
    let setup = Setup {
        topology: &drawn.topology,
        physics: &physics,
        traffic: &traffic,
        tables: &drawn.old.tables,
        later: &[&proposal.tables],
        off: &drawn.old.off,
        gone: &drawn.old.gone,
        manager: HostId(run.manager),
        seed: Seed(run.seed),
        bin_ns: 100_000,
        transient: 0,
    };
    let mut network = Network::new(&setup).map_err(|error| error.to_string())?;
    let span = |network: &mut Network, ns: u64| network.run_until(network.now() + ns);
    let mut pause = span(&mut network, run.at_us * 1000);
    let only = |of: &[Link], other: &[Link]| -> Vec<Link> {
        of.iter().filter(|link| !other.contains(link)).copied().collect()
    };
    for link in only(&drawn.old.off, &drawn.new.off) {
        network.switch_link(link, true);
    }
    let going = only(&drawn.new.off, &drawn.old.off);
    if pause == Pause::Reached {
        let begun = network.begin_without(proposal.plan, &proposal.tables, &going, &drawn.new.gone);
        if !begun {
            return Err("the manager does not reach everybody".to_owned());
        }
        pause = span(&mut network, 3_000_000);
    }
    if pause == Pause::Settled {
        going.iter().for_each(|link| network.switch_link(*link, false));
        pause = span(&mut network, 20_000);
        if pause == Pause::Reached {
            network.stop_sources();
            pause = span(&mut network, 3_000_000);
        }
        if pause == Pause::Reached {
            pause = Pause::Settled;
        }
    }
    let ended = match pause {
        Pause::Settled if network.meter().inside() == 0 => Ended::Settled,
        Pause::Settled | Pause::Reached => Ended::Never,
        Pause::Deadlock(ring) => Ended::Deadlock(ring),
    };
    let meter = network.meter();
    Ok(Seen {
        ended,
        lost: meter.lost,
        dropped: meter.dropped,
        reordered: meter.reordered,
        balanced: network.audit().balanced(),
    })
}
