//! From tables to types: one function a table, each field with its range and default.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

use ebb_control::policies::{ModelSettings, NAMES, Settings};
use ebb_scenario::{Check, Invalid};
use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::applications;
use super::check::{self, PortSpans, Spans};
use super::problem::ConfigError;
use super::read::{Reader, Section, or};
use super::redundancy;
use super::statics;
use super::tunnels;
use super::types::{
    Config, Governor, Kernel, LATENCY_BUDGET_US, Limits, Mac, Metrics, Port, Power, Router,
    StatusSocket, Vlan,
};
use crate::policy::Mechanism;

pub(super) fn config(name: &str, text: &str) -> Result<Config, ConfigError> {
    let reader = Reader::new(name, text);
    let parsed = read(&reader);
    let problems = reader.problems();
    match parsed {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(ConfigError::Invalid(problems)),
    }
}

fn read(reader: &Reader<'_>) -> Option<Config> {
    let mut root = reader.root()?;
    let mut spans = Spans::default();
    let (mut router, batch) = router(root.section("router"));
    let model = model(root.section("model"));
    let mut powersave = powersave(root.section("powersave"));
    // `[powersave] batch` is the name that this had up to 0.1; the later one counts.
    powersave.batch = batch.unwrap_or(powersave.batch);
    router.batch = powersave.batch;
    let (governor, latency_budget_us) = governor(root.section("governor"));
    let powersave = Settings { model, latency_budget_us, ..powersave };
    let power = power(root.section("power"));
    let mut ports = Vec::new();
    for section in root.sections("port") {
        let (port, span) = port(section);
        ports.push(port);
        spans.ports.push(span);
    }
    let mut config = Config {
        router,
        powersave,
        governor,
        power,
        ports,
        routes: Vec::new(),
        neighbours: Vec::new(),
        limits: limits(root.section("limits")),
        kernel: kernel(root.section("kernel")),
        metrics: metrics(root.section("metrics")),
        ipfix: applications::ipfix(root.section("ipfix")),
        esp: tunnels::esp(root.section("esp")),
        dedup: redundancy::dedup(root.section("dedup")),
        status: status(root.section("status")),
    };
    check::ports(&root, &config, &spans);
    applications::check(&root, &config);
    tunnels::check(&root, &config);
    redundancy::check(&root, &config);
    for section in root.sections("route") {
        config.routes.extend(statics::route(section, &config));
    }
    for section in root.sections("neighbour") {
        config.neighbours.extend(statics::neighbour(section, &config));
    }
    root.finish();
    Some(config)
}

fn router(mut section: Section<'_, '_>) -> (Router, Option<u32>) {
    let workers = section.number::<u16>("workers");
    let remedy = "expected a list of CPU numbers, for example [0, 1]";
    let cpus = section.value::<Vec<Spanned<u16>>>("cpus", remedy);
    check::cpus(&section, workers.as_ref(), cpus.as_ref());
    let mode = section.value::<String>("mode", "expected the name of a policy in quotes");
    if let Some(mode) = &mode
        && !NAMES.iter().any(|(name, _)| name == mode.get_ref())
    {
        let message = format!("there is no policy {:?}", mode.get_ref());
        let remedy = format!("use one of {}", NAMES.map(|(name, _)| name).join(", "));
        section.report("mode", mode.span(), &message, &remedy);
    }
    let frames = section.number::<u32>("frames");
    let batch = section.number::<u32>("batch").map(Spanned::into_inner);
    let redirect = section.choice("redirect");
    let apps = applications::apps(&mut section);
    let routes_file = section.path("routes_file");
    section.finish();
    let default = Router::default();
    let router = Router {
        batch: batch.unwrap_or(default.batch),
        workers: workers.map(Spanned::into_inner),
        cpus: cpus.map_or_else(Vec::new, |cpus| {
            cpus.into_inner().into_iter().map(Spanned::into_inner).collect()
        }),
        mode: or(mode, default.mode),
        redirect: or(redirect, default.redirect),
        apps: apps.unwrap_or(default.apps),
        frames: frames.map(Spanned::into_inner),
        routes_file,
    };
    (router, batch)
}

fn kernel(mut section: Section<'_, '_>) -> Kernel {
    let names = Mechanism::ALL.iter().filter(|known| known.may_be_ignored());
    let names: Vec<&str> = names.map(|known| known.name()).collect();
    let remedy = format!("expected a list of {}", names.join(", "));
    let ignore = section.value::<Vec<Mechanism>>("ignore", &remedy);
    section.finish();
    Kernel { ignore: or(ignore, Vec::new()) }
}

fn model(mut section: Section<'_, '_>) -> ModelSettings {
    let default = ModelSettings::default();
    let headroom = section.number("headroom_percent");
    let hysteresis = section.number("hysteresis_percent");
    section.finish();
    ModelSettings {
        headroom_percent: or(headroom, default.headroom_percent),
        hysteresis_percent: or(hysteresis, default.hysteresis_percent),
    }
}

fn powersave(mut section: Section<'_, '_>) -> Settings {
    let default = Settings::default();
    let high = section.number::<u32>("queue_high");
    let low = section.number::<u32>("queue_low");
    let hold = section.number::<u32>("hold_ms");
    let hold_max = section.number::<u32>("hold_max_ms");
    let queue_at = low.as_ref().or(high.as_ref()).map(Spanned::span);
    let hold_at = hold.as_ref().or(hold_max.as_ref()).map(Spanned::span);
    let settings = Settings {
        queue_high: or(high, default.queue_high),
        queue_low: or(low, default.queue_low),
        count_up: or(section.number("count_up"), default.count_up),
        count_down: or(section.number("count_down"), default.count_down),
        batch: or(section.number("batch"), default.batch),
        sample_ms: or(section.number("sample_ms"), default.sample_ms),
        hold_ms: or(hold, default.hold_ms),
        hold_max_ms: or(hold_max, default.hold_max_ms),
        as_published: or(section.choice("as_published"), default.as_published),
        ..default
    };
    if let Err(Invalid { field, message, .. }) = settings.check() {
        let span = if field == "hold_ms" { hold_at } else { queue_at };
        let span = span.unwrap_or(section.span.clone());
        section.report(&field, span, &message, "remove both to use the defaults");
    }
    section.finish();
    settings
}

/// `[governor]`, and the latency budget, which the policies want to know.
fn governor(mut section: Section<'_, '_>) -> (Governor, u32) {
    let frequency = section.choice("frequency");
    let idle = section.choice("idle");
    let interrupts = section.choice("interrupts");
    let moderation = section.choice("moderation");
    let full = section.number::<u8>("kernel_full_percent");
    let budget = section.number::<u32>("latency_budget_us");
    let sysfs_root = section.path("sysfs_root");
    let directory = section.path("journal_directory");
    // The name that this had up to 0.1: a file, of which only the directory counted.
    let former = section.value::<PathBuf>("journal", "expected a path in quotes");
    if let (Some(_), Some(former)) = (&directory, &former) {
        let message = "`journal` is the old name of `journal_directory`";
        section.report("journal", former.span(), message, "remove it");
    }
    let former = former.map(|path| path.get_ref().parent().map_or(PathBuf::new(), PathBuf::from));
    let record = section.path("record");
    section.finish();
    let default = Governor::default();
    let governor = Governor {
        frequency: or(frequency, default.frequency),
        idle: or(idle, default.idle),
        interrupts: or(interrupts, default.interrupts),
        moderation: or(moderation, default.moderation),
        kernel_full_percent: or(full, default.kernel_full_percent),
        sysfs_root: sysfs_root.unwrap_or(default.sysfs_root),
        journal_directory: directory.or(former).unwrap_or(default.journal_directory),
        record,
    };
    (governor, or(budget, LATENCY_BUDGET_US))
}

fn power(mut section: Section<'_, '_>) -> Power {
    let power = Power { model: section.path("model"), paths: section.path("paths") };
    section.finish();
    power
}

fn port(mut section: Section<'_, '_>) -> (Port, PortSpans) {
    let mut spans = PortSpans { name: section.span.clone(), ..PortSpans::default() };
    let name = section.value::<String>("name", "expected the interface's name in quotes");
    match &name {
        Some(name) => {
            spans.name = name.span();
            check::name(&section, name);
        }
        None => {
            let remedy = "for example name = \"eth1\"";
            section.report("name", section.span.clone(), "every port needs a name", remedy);
        }
    }
    let path = section.choice("path");
    let apps = applications::apps(&mut section);
    let xdp = section.choice("xdp");
    let zero_copy = section.choice("zero_copy");
    let checksums = section.choice("checksums");
    let queues = section.number("queues");
    let ring = section.number::<u32>("ring");
    if let Some(ring) = ring.as_ref().filter(|ring| !ring.get_ref().is_power_of_two()) {
        let message = format!("{} is not a power of two", ring.get_ref());
        let remedy = format!("for example {}", ring.get_ref().next_power_of_two());
        section.report("ring", ring.span(), &message, &remedy);
    }
    let fill = section.number("fill");
    let mac = section
        .value::<String>("mac", "expected six bytes in quotes, for example \"02:00:00:00:00:01\"");
    let mac = mac.and_then(|mac| check::mac(&section, "mac", &mac));
    let (address, address_spans) = addresses(&mut section);
    spans.address = address_spans;
    let mtu = section.number("mtu");
    let mut vlans = Vec::new();
    for section in section.sections("vlan") {
        let (vlan, span) = vlan(section);
        vlans.extend(vlan);
        spans.vlans.push(span);
    }
    section.finish();
    let port = Port {
        name: or(name, String::new()),
        path: or(path, Default::default()),
        apps,
        xdp: or(xdp, Default::default()),
        zero_copy: or(zero_copy, Default::default()),
        checksums: or(checksums, Default::default()),
        queues: queues.map(Spanned::into_inner),
        ring: or(ring, Port::default_ring()),
        fill: fill.map(Spanned::into_inner),
        mac: mac.map(Mac),
        address,
        mtu: or(mtu, Port::default_mtu()),
        vlan: vlans,
    };
    (port, spans)
}

/// Where a VLAN's identifier and its addresses stand in the text.
type VlanSpans = (Range<usize>, Vec<Range<usize>>);

fn vlan(mut section: Section<'_, '_>) -> (Option<Vlan>, VlanSpans) {
    let id = section.number::<u16>("id");
    let span = id.as_ref().map_or(section.span.clone(), Spanned::span);
    if id.is_none() && !section.has_problem_within(&span) {
        section.report("id", span.clone(), "every VLAN needs an id", "for example id = 100");
    }
    let (address, spans) = addresses(&mut section);
    section.finish();
    (id.map(|id| Vlan { id: id.into_inner(), address }), (span, spans))
}

fn addresses(section: &mut Section<'_, '_>) -> (Vec<IpNet>, Vec<Range<usize>>) {
    let remedy = "expected a list of addresses with prefix length, for example [\"10.0.0.1/24\"]";
    section
        .list("address", remedy, |section, value: Spanned<DeValue<'_>>| {
            let span = value.span();
            let text = value.get_ref().as_str().unwrap_or("");
            match text.parse::<IpNet>() {
                Ok(net) => Some((net, span)),
                Err(_) => {
                    let message = format!("{text:?} is not an address with prefix length");
                    let remedy = "for example \"10.0.0.1/24\" or \"2001:db8::1/64\"";
                    section.report("address", span, &message, remedy);
                    None
                }
            }
        })
        .into_iter()
        .unzip()
}

fn limits(mut section: Section<'_, '_>) -> Limits {
    let default = Limits::default();
    let limits = Limits {
        icmp_rate_pps: or(section.number("icmp_rate_pps"), default.icmp_rate_pps),
        icmp_burst: or(section.number("icmp_burst"), default.icmp_burst),
        hold_packets_max: or(section.number("hold_packets_max"), default.hold_packets_max),
        hold_per_neighbour_max: or(
            section.number("hold_per_neighbour_max"),
            default.hold_per_neighbour_max,
        ),
        hold_ms_max: or(section.number("hold_ms_max"), default.hold_ms_max),
    };
    section.finish();
    limits
}

fn metrics(mut section: Section<'_, '_>) -> Metrics {
    let listen = section
        .value::<SocketAddr>("listen", "expected address and port, for example \"127.0.0.1:9464\"");
    section.finish();
    Metrics { listen: listen.map(Spanned::into_inner) }
}

fn status(mut section: Section<'_, '_>) -> StatusSocket {
    let socket = section.value::<PathBuf>("socket", "expected a path in quotes, or \"\" for none");
    // sockaddr_un holds 108 bytes with the final zero (unix(7)).
    if let Some(path) = socket.as_ref().filter(|path| path.get_ref().as_os_str().len() > 107) {
        section.report(
            "socket",
            path.span(),
            "the path is longer than 107 bytes",
            "use a shorter path",
        );
    }
    section.finish();
    let socket = socket.map(Spanned::into_inner).or(StatusSocket::default().socket);
    StatusSocket { socket: socket.filter(|path| !path.as_os_str().is_empty()) }
}
