//! The sections of applications: how each is set up, and what they ask of each other.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::application_types::{FlowExport, FlowTransport, FlowVersion};
use super::read::{Section, or};
use super::types::{App, Config, Port};

pub(super) fn ipfix(mut section: Section<'_, '_>) -> FlowExport {
    let default = FlowExport::default();
    let remedy = "expected address and port, for example \"192.0.2.9:4739\"";
    let collector = section.value::<SocketAddr>("collector", remedy);
    let transport = section.choice("transport");
    let collector_name = section.value::<String>("collector_name", "expected a name in quotes");
    let mut pem = |key| section.value::<PathBuf>(key, "expected a path in quotes");
    let [ca_file, certificate_file, key_file] =
        ["ca_file", "certificate_file", "key_file"].map(&mut pem);
    let file = section.value::<PathBuf>("file", "expected a path in quotes");
    let version = section.choice::<FlowVersion>("version");
    let agent = section.value::<IpAddr>("agent", "expected an address in quotes");
    let biflow = section.choice::<bool>("biflow");
    if let (Some(_), Some(file)) = (&collector, &file) {
        let remedy = "remove one; two places would need two exporters";
        section.report("file", file.span(), "there is a collector as well", remedy);
    }
    if let Some(version) = version.as_ref().filter(|it| *it.get_ref() != FlowVersion::Ipfix) {
        let is_sflow = *version.get_ref() == FlowVersion::Sflow5;
        let protocol = if is_sflow { "sFlow" } else { "NetFlow version 9" };
        let it_has = |field: &str| format!("{protocol} has no {field}");
        if let Some(file) = file.as_ref().filter(|_| is_sflow) {
            section.report("file", file.span(), &it_has("files"), "name a collector");
        }
        if is_sflow && agent.is_none() {
            let message = "sFlow names the router by an address";
            let remedy = "for example agent = \"192.0.2.1\", which collectors will show";
            section.report("agent", version.span(), message, remedy);
        }
        if biflow.as_ref().is_some_and(|biflow| *biflow.get_ref()) {
            let message = it_has("records of both directions");
            section.report("version", version.span(), &message, "set biflow = false");
        }
        if transport.as_ref().is_some_and(|it| *it.get_ref() != FlowTransport::Udp) {
            let message = it_has("transport over TCP");
            section.report("version", version.span(), &message, "set transport = \"udp\"");
        }
    }
    let files =
        [("ca_file", &ca_file), ("certificate_file", &certificate_file), ("key_file", &key_file)];
    let is_tls = transport.as_ref().filter(|it| *it.get_ref() == FlowTransport::Tls);
    for (field, file) in files {
        match (&is_tls, file) {
            (Some(tls), None) => {
                let message = "TLS needs it, for both ends show certificates";
                section.report(field, tls.span(), message, "for example \"/etc/ebb/router.pem\"");
            }
            (None, Some(file)) => {
                let message = "certificates are of TLS alone";
                section.report(field, file.span(), message, "set transport = \"tls\"");
            }
            _ => {}
        }
    }
    let export = FlowExport {
        collector: collector.map(Spanned::into_inner),
        transport: or(transport, default.transport),
        collector_name: collector_name.map(Spanned::into_inner),
        ca_file: ca_file.map(Spanned::into_inner),
        certificate_file: certificate_file.map(Spanned::into_inner),
        key_file: key_file.map(Spanned::into_inner),
        file: file.map(Spanned::into_inner),
        version: or(version, default.version),
        agent: agent.map(Spanned::into_inner),
        biflow: or(biflow, default.biflow),
        domain: or(section.number("domain"), default.domain),
        active_timeout_s: or(section.number("active_timeout_s"), default.active_timeout_s),
        idle_timeout_s: or(section.number("idle_timeout_s"), default.idle_timeout_s),
        template_interval_s: or(section.number("template_interval_s"), default.template_interval_s),
        flows: or(section.number("flows"), default.flows),
        prefixes: prefixes(&mut section),
        sampling: or(section.number("sampling"), default.sampling),
    };
    section.finish();
    export
}

fn prefixes(section: &mut Section<'_, '_>) -> Vec<IpNet> {
    let remedy = "expected a list of prefixes, for example [\"10.1.0.0/16\"]";
    section.list("prefixes", remedy, |section, value: Spanned<DeValue<'_>>| {
        let (span, text) = (value.span(), value.get_ref().as_str().unwrap_or(""));
        match text.parse::<IpNet>() {
            Ok(net) if net.trunc() == net => Some(net),
            Ok(net) => {
                let message = format!("{net} has host bits");
                section.report("prefixes", span, &message, &format!("write {}", net.trunc()));
                None
            }
            Err(_) => {
                let message = format!("{text:?} is not a prefix");
                section.report("prefixes", span, &message, "for example \"10.1.0.0/16\"");
                None
            }
        }
    })
}

/// Whether these applications are among those, in their order.
pub(super) fn is_in_order(list: &[App], all: &[App]) -> bool {
    let mut all = all.iter();
    list.iter().all(|app| all.any(|one| one == app))
}

/// A list of applications, each named once.
pub(super) fn apps(section: &mut Section<'_, '_>) -> Option<Vec<App>> {
    let remedy = "expected a list of names, for example [\"count\"]";
    let apps = section.value::<Vec<App>>("apps", remedy)?;
    let (span, apps) = (apps.span(), apps.into_inner());
    if let Some(twice) = (1..apps.len()).find(|at| apps[..*at].contains(&apps[*at])) {
        let message = format!("{} is named twice", apps[twice].name());
        section.report("apps", span, &message, "name each once");
    }
    Some(apps)
}

impl App {
    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            App::Count => "count",
            App::Ipfix => "ipfix",
            App::Esp => "esp",
            App::Dedup => "dedup",
        }
    }
}

impl Config {
    /// The applications that packets pass which come in by a port.
    pub fn apps_of<'a>(&'a self, port: &'a Port) -> &'a [App] {
        port.apps.as_deref().unwrap_or(&self.router.apps)
    }

    /// Where those of a port stand, for messages.
    pub(super) fn where_apps_of(&self, port: &Port) -> &'static str {
        if port.apps.is_some() { "apps" } else { "router.apps" }
    }

    /// The applications of all ports, in the order in which packets pass them: that of each list, as far as they agree.
    pub fn apps(&self) -> Vec<App> {
        let lists: Vec<&[App]> = self.ports.iter().map(|port| self.apps_of(port)).collect();
        let (mut left, mut apps) = (Vec::new(), Vec::new());
        for app in lists.iter().copied().flatten() {
            if !left.contains(app) {
                left.push(*app);
            }
        }
        while !left.is_empty() {
            let is_first = |app: &App| {
                let before = lists.iter().filter_map(|list| {
                    list.iter().position(|one| one == app).map(|at| &list[..at])
                });
                !before.flatten().any(|one| left.contains(one))
            };
            let next = left.iter().position(is_first).unwrap_or(0);
            apps.push(left.remove(next));
        }
        apps
    }

    /// An application of a port that the kernel path cannot do without workers, by its name.
    pub fn app_of_workers(&self, port: &Port) -> Option<&'static str> {
        let name = |app: &App| match app {
            App::Count | App::Esp | App::Dedup => Some(app.name()),
            App::Ipfix => self.ipfix.by_workers(),
        };
        self.apps_of(port).iter().find_map(name)
    }

    /// Whether flows may have to be counted on the kernel path, by a port's present path or a later one.
    pub fn counts_on_the_kernel_path(&self) -> bool {
        let apps = self.apps();
        // Tunnels are for all ports, and for workers.
        apps.contains(&App::Ipfix) && !apps.contains(&App::Esp) && self.ipfix.by_workers().is_none()
    }

    /// Whether flows of a port are counted where it is on the kernel path.
    pub fn counts_flows_of(&self, port: &Port) -> bool {
        self.apps_of(port).contains(&App::Ipfix)
    }
}

impl FlowExport {
    /// Why it needs workers: flows are counted on the kernel path, single packets are not looked at.
    fn by_workers(&self) -> Option<&'static str> {
        match self.version {
            FlowVersion::Sflow5 => Some("ipfix with sFlow"),
            _ => (self.sampling > 1).then_some("ipfix with sampling"),
        }
    }
}

/// What an application needs of its section, and lists of each other.
pub(super) fn check(root: &Section<'_, '_>, config: &Config) {
    let apps = config.apps();
    let nowhere = config.ipfix.collector.is_none() && config.ipfix.file.is_none();
    if apps.contains(&App::Ipfix) && nowhere && !root.has_problem_of("ipfix.collector") {
        let message = "apps has \"ipfix\", but nobody is told of flows";
        let remedy = "for example collector = \"192.0.2.9:4739\", or file = \"flows.ipfix\"";
        root.report("ipfix.collector", 0..0, message, remedy);
    }
    for (number, port) in config.ports.iter().enumerate() {
        let list = config.apps_of(port);
        let field = match port.apps {
            Some(_) => format!("port[{number}].apps"),
            None => "router.apps".to_owned(),
        };
        if !is_in_order(list, &apps) {
            let names: Vec<&str> = apps.iter().map(|app| app.name()).collect();
            let message =
                format!("lists of apps contradict each other: elsewhere the order is {names:?}");
            let remedy = "use one order, in which packets of all ports pass applications";
            root.report(&field, 0..0, &message, remedy);
        }
        if apps.contains(&App::Esp) && !list.contains(&App::Esp) {
            let message = "\"esp\" is missing, which other ports have: what comes in here would pass its tunnels' prefixes in clear";
            let remedy =
                "add \"esp\" to every port's apps; prefixes of [[esp.tunnel]] say what it takes";
            root.report(&field, 0..0, message, remedy);
        }
    }
}
