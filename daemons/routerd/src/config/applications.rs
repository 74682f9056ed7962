//! The sections of applications: how each is set up, and what they ask of each other.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use toml::Spanned;

use super::application_types::{FlowExport, FlowTransport, FlowVersion};
use super::read::{Section, or};
use super::types::{App, Config};

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
        sampling: or(section.number("sampling"), default.sampling),
    };
    section.finish();
    export
}

impl Config {
    /// An application that the kernel path cannot do without workers, by its name.
    pub fn app_of_workers(&self) -> Option<&'static str> {
        let name = |app: &App| match app {
            App::Count => Some("count"),
            App::Esp => Some("esp"),
            App::Dedup => Some("dedup"),
            // Flows are counted there; single packets are not looked at.
            App::Ipfix if self.ipfix.version == FlowVersion::Sflow5 => Some("ipfix with sFlow"),
            App::Ipfix if self.ipfix.sampling > 1 => Some("ipfix with sampling"),
            App::Ipfix => None,
        };
        self.router.apps.iter().find_map(name)
    }

    /// Whether flows are to be counted on the kernel path where ports take it; they may by a reload.
    pub fn counts_on_the_kernel_path(&self) -> bool {
        self.router.apps.contains(&App::Ipfix) && self.app_of_workers().is_none()
    }
}

/// What an application needs of its section.
pub(super) fn check(root: &Section<'_, '_>, config: &Config) {
    let nowhere = config.ipfix.collector.is_none() && config.ipfix.file.is_none();
    if config.router.apps.contains(&App::Ipfix)
        && nowhere
        && !root.has_problem_of("ipfix.collector")
    {
        let message = "apps has \"ipfix\", but nobody is told of flows";
        let remedy = "for example collector = \"192.0.2.9:4739\", or file = \"flows.ipfix\"";
        root.report("ipfix.collector", 0..0, message, remedy);
    }
}
