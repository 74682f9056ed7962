//! A measured machine as a [`Server`], for simulators.

use ebb_scenario::{Document, Invalid, ScenarioError};
use ebb_units::{Hertz, PacketsPerSecond, Watts};

use crate::components::{Components, Part};
use crate::core_model::CoreModel;
use crate::machine::Server;
use crate::packet_cost::PacketCost;
use crate::server::{Depth, ServerModel};

impl Server {
    /// Reads a model file of either kind: a server, or a core model as `ebb calibrate` writes it,
    /// which becomes [`Server::measured`]. `file` is its name for messages.
    ///
    /// # Errors
    /// When it is not TOML, has unknown or missing keys, or describes no machine.
    pub fn from_toml(file: &str, text: &str) -> Result<Server, ScenarioError> {
        let document = Document::parse(file, text)?;
        if !text.lines().any(|line| line.trim() == "[[point]]") {
            let server = document.read::<Unchecked>()?.0;
            let refused = |error| document.fault(Invalid::new("", format!("{error}"), ""));
            return server.check().map(|()| server).map_err(refused);
        }
        let server = Server::measured(&document.read()?);
        let refused = |error| {
            let remedy = "a model whose power and throughput rise with the frequency";
            document.fault(Invalid::new(
                "point",
                format!("do not describe a server: {error}"),
                remedy,
            ))
        };
        server.check().map(|()| server).map_err(refused)
    }

    /// The server that a core model describes.
    ///
    /// From the model: base, idle and active power, the frequencies, the cost of a routed packet
    /// (cycles and waiting that come nearest to r_max over the frequencies, waiting for each
    /// further core that comes nearest to gamma) and the work of an interrupt, such that a core at
    /// half its throughput is awake as long as chi says. Power between the frequencies follows
    /// [`ServerModel`]'s line through idle and the highest; parked cores draw nothing beyond the
    /// base. Assumed, for want of a measurement: exit latencies, the interrupt's delivery and the
    /// path of [`Server::niccolini2012`]. All of it is booked on the CPU.
    pub fn measured(model: &CoreModel) -> Server {
        let whole_machine = model.gain.len() < 2;
        let idle = model.point.first().map_or(Watts(0.0), |point| point.idle);
        let top = model.point.last();
        let folded = if whole_machine { idle } else { Watts(0.0) };
        let power = ServerModel {
            name: model.name.clone(),
            cores: model.cores_max(),
            frequency_max: top.map_or(Hertz(0), |point| point.frequency),
            base: model.base + folded,
            core_c6: Watts(0.0),
            core_c3: Watts(0.0),
            core_c1: idle - folded,
            core_active: top.map_or(Watts(0.0), |point| point.active) - folded,
            per_bit: 0.0,
        };
        let none = Part { idle: Watts(0.0), of_cores: 0.0, of_traffic: 0.0 };
        let mut server = Server {
            components: Components {
                cpu: Part { idle: power.base, of_cores: 1.0, of_traffic: 1.0 },
                memory: none,
                nics: none,
                motherboard: Watts(0.0),
                fans: Watts(0.0),
            },
            power,
            p_states: model.point.iter().map(|point| point.frequency).collect(),
            routing: Some(routing(model)),
            ..Server::niccolini2012()
        };
        server.interrupt.cycles = interrupt_cycles(&server, model);
        server
    }

    /// An application's cost on this server: as measured where routing was measured, with what the
    /// others need beyond routing added; `None` for an unknown name.
    pub fn application(&self, name: &str) -> Option<PacketCost> {
        let known = PacketCost::by_name(name)?;
        let Some(mine) = &self.routing else { return Some(known) };
        let theirs = PacketCost::ipv4_routing();
        Some(PacketCost {
            cycles_per_packet: known.cycles_per_packet - theirs.cycles_per_packet
                + mine.cycles_per_packet,
            cycles_per_byte: known.cycles_per_byte - theirs.cycles_per_byte + mine.cycles_per_byte,
            stall_ns: known.stall_ns - theirs.stall_ns + mine.stall_ns,
            contention_ns: known.contention_ns - theirs.contention_ns + mine.contention_ns,
            name: known.name,
        })
    }
}

/// A server straight from its file, before [`Server::check`], whose errors name no field.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Unchecked(Server);

impl ebb_scenario::Check for Unchecked {
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

/// Least squares of `1/r_max = cycles/f + stall` over the frequencies, neither below 0.
fn routing(model: &CoreModel) -> PacketCost {
    let points: Vec<(f64, f64)> = model
        .point
        .iter()
        .map(|point| (point.frequency.as_ghz().recip(), 1e9 / point.r_max.0))
        .collect();
    let count = points.len().max(1) as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let slope = if spread > 0.0 { common / spread } else { y / x };
    // All cycles where the fit asks for negative waiting, hardly any where it asks for none.
    let cycles = slope.clamp(1e-3 * y / x, y / x);
    let stall_ns = (y - cycles * x).max(0.0);
    let alone = model.point.last().map_or(0.0, |point| 1e9 / point.r_max.0);
    let (longer, steps) = model.gain.iter().fold((0.0, 0.0), |(longer, steps), gain| {
        let others = f64::from(gain.cores) - 1.0;
        let wait = alone * (f64::from(gain.cores) / gain.gamma - 1.0);
        (longer + wait * others, steps + others * others)
    });
    let contention_ns = if steps > 0.0 { (longer / steps).max(0.0) } else { 0.0 };
    PacketCost {
        name: "ipv4".to_owned(),
        cycles_per_packet: cycles,
        cycles_per_byte: 0.0,
        stall_ns,
        contention_ns,
    }
}

/// The work that keeps one core at the highest frequency awake for chi(1/2) of the time under half
/// its throughput; none where it is awake as long without.
fn interrupt_cycles(server: &Server, model: &CoreModel) -> f64 {
    let Some(top) = model.point.last() else { return 0.0 };
    let (service_ns, half) = (1e9 / top.r_max.0, PacketsPerSecond(top.r_max.0 / 2.0));
    let wanted = model.chi.at(0.5).min(0.99);
    let awake = |cycles: f64| {
        let mut server = server.clone();
        server.interrupt.cycles = cycles;
        server.busy_with_interrupts(half, service_ns, top.frequency, Depth::C1)
    };
    let (mut low, mut high) = (0.0, 1e7);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if awake(middle) < wanted { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CoreState;
    use ebb_units::BitsPerSecond;

    #[test]
    fn a_measured_machine_keeps_its_figures() {
        let model = CoreModel { base: Watts(40.0), ..CoreModel::example() };
        let server = Server::from_toml("m.toml", &model.to_toml()).expect("a server");
        let routing = server.application("ipv4").expect("known");
        for point in &model.point {
            let rate = server.rate(&routing, 64, 1, point.frequency).0;
            assert!((rate / point.r_max.0 - 1.0).abs() < 0.02, "{rate} {point:?}");
        }
        let top = server.frequency_max();
        let gain = server.rate(&routing, 64, 2, top).0 / server.rate(&routing, 64, 1, top).0;
        assert!((gain - 1.9).abs() < 0.02, "{gain}");
        let busy = CoreState { frequency: top, busy: 1.0, depth: Depth::C1 };
        let watts = server.power(&[busy, busy], BitsPerSecond(1e9)).total().0;
        assert!((watts - (40.0 + 2.0 * 87.0)).abs() < 1e-9, "{watts}");
        let half = PacketsPerSecond(520e3);
        let awake = server.busy_with_interrupts(half, 1e9 / 1040e3, top, Depth::C1);
        assert!((awake - model.chi.at(0.5)).abs() < 0.01, "{awake}");
    }

    #[test]
    fn what_others_cost_is_added_to_what_routing_costs_here() {
        let server = Server::measured(&CoreModel::example());
        let cost = |name: &str| server.application(name).expect("known").cycles(64);
        assert!(cost("ipv4") < cost("netflow") && cost("netflow") < cost("dedup"));
        assert_eq!(server.application("quake"), None);
        let published = Server::niccolini2012();
        assert_eq!(published.application("ipsec"), PacketCost::by_name("ipsec"));
    }

    #[test]
    fn one_number_of_cores_is_a_whole_machine() {
        let mut model = CoreModel::example();
        model.gain.truncate(1);
        let server = Server::measured(&model);
        assert_eq!((server.power.base, server.power.core_c1), (Watts(60.0), Watts(0.0)));
        assert_eq!(server.check(), Ok(()));
    }

    #[test]
    fn both_kinds_of_file_are_read_and_faults_located() {
        let server = Server::niccolini2012();
        let text = toml::to_string(&server).expect("serializable");
        assert_eq!(Server::from_toml("s.toml", &text), Ok(server));
        let refused = |text: &str| Server::from_toml("s.toml", text).expect_err("bad").to_string();
        assert!(refused(&format!("turbo = 1\n{text}")).contains("turbo"));
        let cold = CoreModel::example().to_toml().replacen("idle_w = 60.0", "idle_w = -6.0", 1);
        assert!(refused(&cold).contains("point[0].idle_w"), "{}", refused(&cold));
    }
}
