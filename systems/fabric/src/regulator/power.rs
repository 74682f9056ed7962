//! What ports draw: on, off and waking.

use ebb_scenario::Check;
use ebb_units::{Joules, Watts};

/// Power of a switch and its ports.
#[derive(
    Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize, ebb_scenario::Described,
)]
#[serde(default, deny_unknown_fields)]
pub struct PortPower {
    /// A port that is on, busy or not.
    #[schema(least = 0, below = 1_000_000_000)]
    pub on_w: Watts,
    /// A port that is off.
    #[schema(least = 0, below = 1_000_000_000)]
    pub off_w: Watts,
    /// A port that is waking: it carries nothing yet.
    #[schema(least = 0, below = 1_000_000_000)]
    pub waking_w: Watts,
    /// A switch without its ports.
    #[schema(least = 0, below = 1_000_000_000)]
    pub switch_w: Watts,
    /// From switching a link on until it carries packets, µs.
    #[schema(least = 0, below = 1_000_000_000)]
    pub wake_us: f64,
}

impl Default for PortPower {
    /// InfiniBand DDR x4: 0.9 W a port of an SFS7000D-SK9, 43 W with all ports off (Montañana et
    /// al. 2010, section 1). The paper gives no wake-up time; 100 µs is an assumption.
    fn default() -> PortPower {
        PortPower {
            on_w: Watts(0.9),
            off_w: Watts(0.0),
            waking_w: Watts(0.9),
            switch_w: Watts(43.0),
            wake_us: 100.0,
        }
    }
}

impl PortPower {
    /// A 24-port 1000Base-T switch (Dell PowerConnect 5324): 1.2 W a port, 15 W with all off.
    #[must_use]
    pub fn gigabit_24() -> PortPower {
        PortPower {
            on_w: Watts(1.2),
            waking_w: Watts(1.2),
            switch_w: Watts(15.0),
            ..PortPower::default()
        }
    }

    /// A 48-port 1000Base-T switch (Dell PowerConnect 6248): 2.1 W a port, 57 W with all off.
    #[must_use]
    pub fn gigabit_48() -> PortPower {
        PortPower {
            on_w: Watts(2.1),
            waking_w: Watts(2.1),
            switch_w: Watts(57.0),
            ..PortPower::default()
        }
    }

    /// From switching on until packets flow, ns.
    #[must_use]
    pub fn wake_ns(&self) -> u64 {
        (self.wake_us * 1e3) as u64
    }
}

/// The declared ranges say all.
impl Check for PortPower {}

/// How a link is powered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// On: carries packets.
    On,
    /// Powered, but carries nothing yet.
    Waking,
    /// Off.
    Off,
}

/// Adds up energy while links change.
#[derive(Clone, Debug)]
pub struct Account {
    power: PortPower,
    states: Vec<LinkState>,
    since_ns: Vec<u64>,
    port_j: Vec<f64>,
    off_ns: Vec<u64>,
    host_ports: u64,
    switches: u64,
}

impl Account {
    /// An account of as many links as there are states, which are those at time 0.
    #[must_use]
    pub fn new(
        power: &PortPower,
        states: Vec<LinkState>,
        host_ports: usize,
        switches: usize,
    ) -> Account {
        Account {
            power: power.clone(),
            since_ns: vec![0; states.len()],
            port_j: vec![0.0; states.len()],
            off_ns: vec![0; states.len()],
            states,
            host_ports: host_ports as u64,
            switches: switches as u64,
        }
    }

    fn port_power(&self, state: LinkState) -> Watts {
        match state {
            LinkState::On => self.power.on_w,
            LinkState::Waking => self.power.waking_w,
            LinkState::Off => self.power.off_w,
        }
    }

    /// A link changes its state.
    pub fn set(&mut self, link: usize, state: LinkState, now_ns: u64) {
        let span = now_ns.saturating_sub(self.since_ns[link]);
        self.port_j[link] += self.port_power(self.states[link]).0 * span as f64 * 1e-9;
        if self.states[link] == LinkState::Off {
            self.off_ns[link] += span;
        }
        (self.states[link], self.since_ns[link]) = (state, now_ns);
    }

    /// Ends the account.
    #[must_use]
    pub fn close(mut self, now_ns: u64) -> Energy {
        for link in 0..self.states.len() {
            self.set(link, self.states[link], now_ns);
        }
        let seconds = now_ns as f64 * 1e-9;
        let rest = self.host_ports as f64 * self.power.on_w.0
            + self.switches as f64 * self.power.switch_w.0;
        let links: f64 = self.port_j.iter().map(|joules| 2.0 * joules).sum();
        let all_on = 2.0 * self.power.on_w.0 * self.states.len() as f64;
        Energy {
            total: Joules(links + rest * seconds),
            links: Joules(links),
            saved: Joules(all_on * seconds - links),
            mean: Watts((links + rest * seconds) / seconds.max(1e-12)),
            off_share: self.off_ns.iter().sum::<u64>() as f64
                / (now_ns.max(1) as f64 * self.states.len().max(1) as f64),
            port_j: self.port_j,
        }
    }
}

/// What a run drew.
#[derive(Clone, Debug, PartialEq)]
pub struct Energy {
    /// Switches and all their ports.
    pub total: Joules,
    /// Ports of links between switches.
    pub links: Joules,
    /// Less than with all links on.
    pub saved: Joules,
    /// Mean power of everything.
    pub mean: Watts,
    /// Mean share of the links that was off.
    pub off_share: f64,
    /// Each link's ports, one of two, J.
    pub port_j: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scenario::schema::checked;

    #[test]
    fn a_link_that_is_off_half_the_time_draws_half() {
        let power = PortPower::gigabit_24();
        let mut account = Account::new(&power, vec![LinkState::On; 2], 4, 2);
        account.set(1, LinkState::Off, 250_000_000);
        account.set(1, LinkState::Waking, 750_000_000);
        account.set(1, LinkState::On, 800_000_000);
        let energy = account.close(1_000_000_000);
        assert!((energy.links.0 - (2.4 + 1.2)).abs() < 1e-9);
        assert!((energy.saved.0 - 1.2).abs() < 1e-9);
        assert!((energy.total.0 - (3.6 + 4.0 * 1.2 + 30.0)).abs() < 1e-9);
        assert!((energy.off_share - 0.25).abs() < 1e-12);
        assert!((energy.port_j[1] - 0.6).abs() < 1e-9);
    }

    #[test]
    fn negative_power_is_refused() {
        assert!(checked(&PortPower { on_w: Watts(-1.0), ..PortPower::default() }).is_err());
        assert_eq!(checked(&PortPower::gigabit_48()), Ok(()));
    }
}
