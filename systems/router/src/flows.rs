//! Flows, how often each sends, and the redirect-table entry its hash leads to.

use ebb_control::redirect::ENTRIES;
use ebb_des::Seed;
use ebb_traffic::{FlowSpec, Protocol, draw_flows};
use rand::RngCore;

/// Flows with their popularity. Drawing one takes a multiplication and a look-up (the alias
/// method, Walker 1977), whatever the skew.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Redirect-table entry of each flow.
    entries: Vec<u8>,
    /// Share of the traffic that each entry receives; sums to 1.
    weights: Vec<f64>,
    /// Threshold and alternative of each flow; empty when all are alike.
    alias: Vec<(u32, u32)>,
}

impl Flows {
    /// Draws `count` flows; the flow of rank r has the weight r^-`skew`.
    pub fn draw(count: u32, skew: f64, seed: Seed) -> Flows {
        let net = |text: &str| text.parse().expect("a prefix");
        let (sources, destinations) = ([net("10.0.0.0/8")], [net("172.16.0.0/12")]);
        let spec = FlowSpec {
            count,
            sources: &sources,
            destinations: &destinations,
            ipv6_share: 0.0,
            tcp_share: 0.8,
        };
        let hash = |flow: &ebb_traffic::Flow| {
            let protocol = if flow.protocol == Protocol::Tcp { 6 } else { 17 };
            let ports = (flow.source_port, flow.destination_port);
            let (source, destination) = (flow.source, flow.destination);
            ebb_wire::Flow { source, destination, protocol, ports }.hash()
        };
        let drawn = draw_flows(&spec, seed.stream("flows").next_u64());
        let entries = drawn.iter().map(|flow| (hash(flow) as usize % ENTRIES) as u8).collect();
        let popularity = (1..=count).map(|rank| libm::pow(f64::from(rank), -skew)).collect();
        Flows::new(entries, popularity, skew == 0.0)
    }

    /// Flows whose entries are known, each with its number of packets.
    pub fn known(entries: Vec<u8>, packets: Vec<f64>) -> Flows {
        Flows::new(entries, packets, false)
    }

    fn new(entries: Vec<u8>, popularity: Vec<f64>, alike: bool) -> Flows {
        let total: f64 = popularity.iter().sum();
        let mut weights = vec![0.0; ENTRIES];
        for (entry, weight) in entries.iter().zip(&popularity) {
            weights[usize::from(*entry)] += weight / total;
        }
        let alias = if alike { Vec::new() } else { alias(&popularity, total) };
        Flows { entries, weights, alias }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Redirect-table entry of a flow.
    #[inline]
    pub fn entry(&self, flow: u32) -> u8 {
        self.entries[flow as usize]
    }

    /// Share of the traffic of each entry.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// One flow drawn.
    #[inline]
    pub fn pick(&self, random: &mut impl RngCore) -> u32 {
        let bits = random.next_u64();
        let index = (((bits >> 32) * self.entries.len() as u64) >> 32) as u32;
        match self.alias.get(index as usize) {
            Some((threshold, other)) if (bits as u32) >= *threshold => *other,
            _ => index,
        }
    }
}

/// Vose's construction of the alias table (1991).
fn alias(weights: &[f64], total: f64) -> Vec<(u32, u32)> {
    let count = weights.len() as f64;
    let mut scaled: Vec<f64> = weights.iter().map(|weight| weight / total * count).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..scaled.len()).partition(|index| scaled[*index] < 1.0);
    let mut table: Vec<(u32, u32)> = (0..scaled.len()).map(|i| (u32::MAX, i as u32)).collect();
    while let (Some(less), Some(more)) = (small.pop(), large.pop()) {
        table[less] = ((scaled[less] * 4_294_967_296.0) as u32, more as u32);
        scaled[more] -= 1.0 - scaled[less];
        if scaled[more] < 1.0 { small.push(more) } else { large.push(more) }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_drawn_as_often_as_they_weigh() {
        let flows = Flows::draw(64, 1.0, Seed(3));
        let mut random = Seed(4).stream("picks");
        let mut counts = vec![0.0; 64];
        let draws = 400_000;
        (0..draws).for_each(|_| counts[flows.pick(&mut random) as usize] += 1.0 / f64::from(draws));
        let total: f64 = (1..=64).map(|rank| 1.0 / f64::from(rank)).sum();
        for (index, share) in counts.iter().enumerate() {
            let expected = 1.0 / (index as f64 + 1.0) / total;
            assert!((share - expected).abs() < 0.003, "flow {index}: {share} for {expected}");
        }
        assert!((flows.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn alike_flows_spread_over_all_entries() {
        let flows = Flows::draw(16_384, 0.0, Seed(3));
        assert!(flows.weights().iter().all(|weight| (weight * 128.0 - 1.0).abs() < 0.5));
    }
}
