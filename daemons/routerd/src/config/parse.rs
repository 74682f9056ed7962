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
use super::read::{Reader, Section};
use super::redundancy;
use super::statics;
use super::tunnels;
use super::types::{
    App, Checksums, Config, Governor, Kernel, Limits, MTU_MAX, Metrics, Moderation, PacketPath,
    Port, Power, Redirect, Router, StatusSocket, Vlan, Xdp, ZeroCopy,
};
use crate::policy::Mechanism;

/// How long a packet may wait for the sake of energy, unless the file says otherwise.
const LATENCY_BUDGET_US: u32 = 200;

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

fn or<T>(value: Option<Spanned<T>>, default: T) -> T {
    value.map_or(default, Spanned::into_inner)
}

fn router(mut section: Section<'_, '_>) -> (Router, Option<u32>) {
    let workers = section.number::<u16>("workers", 1..=128);
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
    let frames = section.number::<u32>("frames", 256..=1 << 24);
    let batch = section.number::<u32>("batch", 1..=64).map(Spanned::into_inner);
    let redirect = section.value("redirect", "use auto, rss or steer, in quotes");
    let apps =
        section.value::<Vec<App>>("apps", "expected a list of names, for example [\"count\"]");
    if let Some(apps) = &apps
        && let Some(twice) = (1..apps.get_ref().len())
            .find(|at| apps.get_ref()[..*at].contains(&apps.get_ref()[*at]))
    {
        let message = format!("{:?} is named twice", apps.get_ref()[twice]).to_lowercase();
        section.report("apps", apps.span(), &message, "name each once");
    }
    let routes_file = section.value::<PathBuf>("routes_file", "expected a path in quotes");
    section.finish();
    let router = Router {
        batch: batch.unwrap_or_default(),
        workers: workers.map(Spanned::into_inner),
        cpus: cpus.map_or_else(Vec::new, |cpus| {
            cpus.into_inner().into_iter().map(Spanned::into_inner).collect()
        }),
        mode: or(mode, String::from("powersave")),
        redirect: or(redirect, Redirect::Auto),
        apps: or(apps, Vec::new()),
        frames: frames.map(Spanned::into_inner),
        routes_file: routes_file.map(Spanned::into_inner),
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
    let headroom = section.number("headroom_percent", 0..=1000);
    let hysteresis = section.number("hysteresis_percent", 0..=1000);
    section.finish();
    ModelSettings {
        headroom_percent: or(headroom, default.headroom_percent),
        hysteresis_percent: or(hysteresis, default.hysteresis_percent),
    }
}

fn powersave(mut section: Section<'_, '_>) -> Settings {
    let default = Settings::default();
    let high = section.number::<u32>("queue_high", 1..=1 << 20);
    let low = section.number::<u32>("queue_low", 1..=1 << 20);
    let hold = section.number::<u32>("hold_ms", 0..=600_000);
    let hold_max = section.number::<u32>("hold_max_ms", 0..=600_000);
    let queue_at = low.as_ref().or(high.as_ref()).map(Spanned::span);
    let hold_at = hold.as_ref().or(hold_max.as_ref()).map(Spanned::span);
    let settings = Settings {
        queue_high: or(high, default.queue_high),
        queue_low: or(low, default.queue_low),
        count_up: or(section.number("count_up", 0..=1 << 24), default.count_up),
        count_down: or(section.number("count_down", 0..=1 << 24), default.count_down),
        batch: or(section.number("batch", 1..=64), default.batch),
        sample_ms: or(section.number("sample_ms", 1..=10_000), default.sample_ms),
        hold_ms: or(hold, default.hold_ms),
        hold_max_ms: or(hold_max, default.hold_max_ms),
        as_published: or(section.value("as_published", "use true or false"), default.as_published),
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

/// What is left of a CPU's time is what a burst needs.
const KERNEL_FULL_PERCENT: u8 = 90;

/// `[governor]`, and the latency budget, which the policies want to know.
fn governor(mut section: Section<'_, '_>) -> (Governor, u32) {
    let frequency = section.value("frequency", "use true or false");
    let idle = section.value("idle", "use true or false");
    let interrupts = section.value("interrupts", "use true or false");
    let moderation = section.value("moderation", "use auto, on or off, in quotes");
    let full = section.number::<u8>("kernel_full_percent", 1..=100);
    let budget = section.number::<u32>("latency_budget_us", 0..=10_000);
    let sysfs_root = section.value("sysfs_root", "expected a path in quotes");
    let directory = section.value::<PathBuf>("journal_directory", "expected a path in quotes");
    // The name that this had up to 0.1: a file, of which only the directory counted.
    let former = section.value::<PathBuf>("journal", "expected a path in quotes");
    if let (Some(_), Some(former)) = (&directory, &former) {
        let message = "`journal` is the old name of `journal_directory`";
        section.report("journal", former.span(), message, "remove it");
    }
    let former = former.map(|path| path.get_ref().parent().map_or(PathBuf::new(), PathBuf::from));
    let record = section.value::<PathBuf>("record", "expected a path in quotes");
    section.finish();
    let governor = Governor {
        frequency: or(frequency, true),
        idle: or(idle, true),
        interrupts: or(interrupts, true),
        moderation: or(moderation, Moderation::Auto),
        kernel_full_percent: or(full, KERNEL_FULL_PERCENT),
        sysfs_root: or(sysfs_root, PathBuf::from("/")),
        journal_directory: directory
            .map(Spanned::into_inner)
            .or(former)
            .unwrap_or_else(|| PathBuf::from("/run/ebb")),
        record: record.map(Spanned::into_inner),
    };
    (governor, or(budget, LATENCY_BUDGET_US))
}

fn power(mut section: Section<'_, '_>) -> Power {
    let model = section.value::<PathBuf>("model", "expected a path in quotes");
    let paths = section.value::<PathBuf>("paths", "expected a path in quotes");
    section.finish();
    Power { model: model.map(Spanned::into_inner), paths: paths.map(Spanned::into_inner) }
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
    let path = section.value("path", "use auto, worker or kernel, in quotes");
    let xdp = section.value("xdp", "use auto, native or generic, in quotes");
    let zero_copy = section.value("zero_copy", "use auto, yes or no, in quotes");
    let checksums = section.value("checksums", "use auto, complete or trust, in quotes");
    let queues = section.number("queues", 1..=128);
    let ring = section.number::<u32>("ring", 64..=32_768);
    if let Some(ring) = ring.as_ref().filter(|ring| !ring.get_ref().is_power_of_two()) {
        let message = format!("{} is not a power of two", ring.get_ref());
        let remedy = format!("for example {}", ring.get_ref().next_power_of_two());
        section.report("ring", ring.span(), &message, &remedy);
    }
    let fill = section.number("fill", 64..=32_768);
    let mac = section
        .value::<String>("mac", "expected six bytes in quotes, for example \"02:00:00:00:00:01\"");
    let mac = mac.and_then(|mac| check::mac(&section, "mac", &mac));
    let (address, address_spans) = addresses(&mut section);
    spans.address = address_spans;
    let mtu = section.number("mtu", 68..=MTU_MAX);
    let mut vlans = Vec::new();
    for section in section.sections("vlan") {
        let (vlan, span) = vlan(section);
        vlans.extend(vlan);
        spans.vlans.push(span);
    }
    section.finish();
    let port = Port {
        name: or(name, String::new()),
        path: or(path, PacketPath::Auto),
        xdp: or(xdp, Xdp::Auto),
        zero_copy: or(zero_copy, ZeroCopy::Auto),
        checksums: or(checksums, Checksums::Auto),
        queues: queues.map(Spanned::into_inner),
        ring: or(ring, 2048),
        fill: fill.map(Spanned::into_inner),
        mac,
        address,
        mtu: or(mtu, 1500),
        vlan: vlans,
    };
    (port, spans)
}

/// Where a VLAN's identifier and its addresses stand in the text.
type VlanSpans = (Range<usize>, Vec<Range<usize>>);

fn vlan(mut section: Section<'_, '_>) -> (Option<Vlan>, VlanSpans) {
    let id = section.number::<u16>("id", 1..=4094);
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
        icmp_rate_pps: or(section.number("icmp_rate_pps", 0..=1_000_000), default.icmp_rate_pps),
        icmp_burst: or(section.number("icmp_burst", 1..=1_000_000), default.icmp_burst),
        hold_packets_max: or(
            section.number("hold_packets_max", 0..=65_536),
            default.hold_packets_max,
        ),
        hold_per_neighbour_max: or(
            section.number("hold_per_neighbour_max", 0..=65_536),
            default.hold_per_neighbour_max,
        ),
        hold_ms_max: or(section.number("hold_ms_max", 1..=60_000), default.hold_ms_max),
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
    let default = PathBuf::from("/run/ebb/router.sock");
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
    let socket = or(socket, default);
    StatusSocket { socket: Some(socket).filter(|path| !path.as_os_str().is_empty()) }
}
