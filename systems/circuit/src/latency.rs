//! What sharing a port's time among circuits costs: bandwidth and round trips (Strong 2013,
//! section 4.3).

/// A circuit switch whose ports share their time among several circuits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// Ports of the switch.
    pub ports: f64,
    /// Rate of a port, Gb/s.
    pub rate_gbps: f64,
    /// How long a circuit takes to be set up, us.
    pub night_us: f64,
    /// How long it stands, us.
    pub day_us: f64,
    /// Circuits that take turns at the port.
    pub sharers: f64,
}

impl Sharing {
    /// Share of the time in which light passes.
    pub fn duty(&self) -> f64 {
        self.day_us / (self.day_us + self.night_us)
    }

    /// What all ports together carry, Gb/s (eq. 4.2; eq. 4.1 is the same without nights).
    pub fn bandwidth_gbps(&self) -> f64 {
        self.duty() * self.rate_gbps * self.ports
    }

    /// Mean round trip of a message, us (eq. 4.3): four transmissions, two propagations and the
    /// wait for the circuit, both ways, half of the sharers before it on average.
    pub fn round_trip_us(&self, message_bits: f64, propagation_us: f64) -> f64 {
        let transmission_us = message_bits / (self.rate_gbps * 1e3);
        let waiting = self.sharers / 2.0;
        4.0 * transmission_us
            + 2.0 * propagation_us
            + 2.0 * waiting * self.night_us / (1.0 - self.duty())
    }
}
