//! `[[route]]` and `[[neighbour]]`.

use std::net::IpAddr;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::check;
use super::read::Section;
use super::types::{Config, Hop, Mac, Neighbour, StaticRoute, StaticTarget};

pub(super) fn route(mut section: Section<'_, '_>, config: &Config) -> Option<StaticRoute> {
    let to = destination(&mut section);
    let family = to.unwrap_or_default().addr();
    let via = section.raw("via");
    let dev = section.value::<String>("dev", "expected a port's name in quotes");
    let kind = section
        .value::<String>("kind", "use blackhole, unreachable, prohibit or kernel, in quotes");
    let dev_name = dev.as_ref().map(Spanned::get_ref);
    if let Some(dev) = &dev {
        known_device(&section, dev, config);
    }
    let target = match (via, &dev, kind) {
        (Some(via), _, None) => {
            let hops = hops(&mut section, via, dev_name, family, config);
            hops.map(StaticTarget::Via)
        }
        (None, Some(dev), None) => Some(StaticTarget::Device(dev.get_ref().clone())),
        (None, None, Some(kind)) => special(&section, &kind),
        (via, _, kind) => {
            let span = kind.as_ref().map(Spanned::span).or(via.map(|via| via.span()));
            let message = match kind {
                Some(_) => "kind cannot be combined with via or dev",
                None => "the route has no next hop",
            };
            let remedy = "give via, dev or kind";
            section.report("", span.unwrap_or(section.span.clone()), message, remedy);
            None
        }
    };
    section.finish();
    Some(StaticRoute { to: to?, target: target? })
}

fn destination(section: &mut Section<'_, '_>) -> Option<IpNet> {
    let remedy = "expected a prefix, for example \"10.1.0.0/16\", or \"0.0.0.0/0\" for the \
        default route";
    let span = section.span.clone();
    let Some(to) = section.raw("to") else {
        section.report("to", span, "every route needs a destination", remedy);
        return None;
    };
    let text = to.get_ref().as_str().unwrap_or("");
    match text.parse::<IpNet>() {
        Ok(net) if net == net.trunc() => Some(net),
        Ok(net) => {
            let remedy = format!("write \"{}\"", net.trunc());
            section.report("to", to.span(), "the prefix has bits set after its length", &remedy);
            None
        }
        Err(_) => {
            section.report("to", to.span(), &format!("{text:?} is not a prefix"), remedy);
            None
        }
    }
}

fn special(section: &Section<'_, '_>, kind: &Spanned<String>) -> Option<StaticTarget> {
    Some(match kind.get_ref().as_str() {
        "blackhole" => StaticTarget::Blackhole,
        "unreachable" => StaticTarget::Unreachable,
        "prohibit" => StaticTarget::Prohibit,
        "kernel" => StaticTarget::Kernel,
        other => {
            let message = format!("there is no kind {other:?}");
            let remedy = "use one of blackhole, unreachable, prohibit, kernel";
            section.report("kind", kind.span(), &message, remedy);
            return None;
        }
    })
}

fn hops(
    section: &mut Section<'_, '_>,
    via: Spanned<DeValue<'_>>,
    dev: Option<&String>,
    family: IpAddr,
    config: &Config,
) -> Option<Vec<Hop>> {
    let span = via.span();
    let entries = match via.into_inner() {
        DeValue::Array(values) => values.into_iter().collect(),
        single => vec![Spanned::new(span.clone(), single)],
    };
    if entries.is_empty() {
        section.report("via", span, "the list of gateways is empty", "name at least one");
        return None;
    }
    if entries.len() > 64 {
        section.report("via", span, "more than 64 gateways", "name at most 64");
        return None;
    }
    let wanted = entries.len();
    let hops: Vec<Hop> =
        entries.into_iter().filter_map(|entry| hop(section, entry, dev, family, config)).collect();
    (hops.len() == wanted).then_some(hops)
}

fn hop(
    section: &mut Section<'_, '_>,
    entry: Spanned<DeValue<'_>>,
    dev: Option<&String>,
    family: IpAddr,
    config: &Config,
) -> Option<Hop> {
    let span = entry.span();
    let (text, device, weight) = match entry.into_inner() {
        DeValue::Table(table) => {
            let mut inner = section.nested("via", span.clone(), table);
            let gateway = inner.value::<String>("gateway", "expected an address in quotes");
            let device = inner.value::<String>("dev", "expected a port's name in quotes");
            let weight = inner.number::<u16>("weight");
            if let Some(device) = &device {
                known_device(&inner, device, config);
            }
            inner.finish();
            let text = gateway.map_or(String::new(), Spanned::into_inner);
            (text, device.map(Spanned::into_inner), weight.map_or(1, Spanned::into_inner))
        }
        other => (other.as_str().unwrap_or("").to_owned(), None, 1),
    };
    let Ok(gateway) = text.parse::<IpAddr>() else {
        let message = format!("{text:?} is not an address");
        section.report("via", span, &message, "for example \"10.0.0.2\"");
        return None;
    };
    if gateway.is_ipv4() && family.is_ipv6() {
        let message = format!("an IPv6 destination cannot use the IPv4 gateway {gateway}");
        section.report("via", span, &message, "use an IPv6 gateway");
        return None;
    }
    let Some(device) = device.or(dev.cloned()).or_else(|| check::device_of(config, gateway)) else {
        let message = format!("{gateway} is in no port's subnet");
        section.report(
            "via",
            span,
            &message,
            "name the port with dev, or give it an address in that subnet",
        );
        return None;
    };
    Some(Hop { gateway, device, weight })
}

fn known_device(section: &Section<'_, '_>, device: &Spanned<String>, config: &Config) {
    if config.device(device.get_ref()).is_none() {
        let message = format!("there is no port or VLAN interface {:?}", device.get_ref());
        let remedy = "name a [[port]], or PORT.ID for one of its VLANs";
        section.report("dev", device.span(), &message, remedy);
    }
}

pub(super) fn neighbour(mut section: Section<'_, '_>, config: &Config) -> Option<Neighbour> {
    let place = section.span.clone();
    let address = section.value::<IpAddr>("address", "expected an address in quotes");
    let mac = section
        .value::<String>("mac", "expected six bytes in quotes, for example \"02:00:00:00:00:01\"");
    let dev = section.value::<String>("dev", "expected a port's name in quotes");
    if address.is_none() || mac.is_none() {
        let remedy = "for example address = \"10.0.0.2\", mac = \"02:00:00:00:00:02\"";
        if !section.has_problem_within(&place) {
            section.report("", place.clone(), "a neighbour needs an address and a mac", remedy);
        }
    }
    if let Some(dev) = &dev {
        known_device(&section, dev, config);
    }
    let mac = mac.and_then(|mac| check::mac(&section, "mac", &mac));
    let address = address.map(Spanned::into_inner);
    let named = dev.map(Spanned::into_inner);
    let device = named.or_else(|| check::device_of(config, address?));
    if device.is_none() && address.is_some() {
        let message = "the address is in no port's subnet";
        section.report("", place, message, "name the port with dev");
    }
    section.finish();
    Some(Neighbour { address: address?, device: device?, mac: Mac(mac?) })
}
