//! Links: what they are called, what they lie on and what they take.

use super::abi::*;
use super::frame::{Fault, Parsed, attributes, mac_of, string_of, u16_of, u32_of};
use super::types::{Elsewhere, Event, Link};

/// Kinds that name an interface below them and leave it the frames that carry its own address: VLANs
/// get what is tagged, the ends of a pair and tunnels what is sent to them.
const HARMLESS: [&str; 20] = [
    "amt",
    "bareudp",
    "erspan",
    "geneve",
    "gre",
    "gretap",
    "gtp",
    "ip6erspan",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "netkit",
    "pfcp",
    "sit",
    "veth",
    "vlan",
    "vti",
    "vxlan",
    "xfrm",
];

/// `struct ifinfomsg`. Messages of a bridge about its ports share the number and are skipped.
pub(super) fn link(body: &[u8]) -> Parsed<Option<Link>> {
    let (fixed, rest) = body.split_first_chunk::<16>().ok_or(Fault("link header"))?;
    if fixed[0] != libc::AF_UNSPEC as u8 {
        return Ok(None);
    }
    let flags = u32_of(&fixed[8..12])?;
    let admin_up = flags & libc::IFF_UP as u32 != 0;
    let mut link = Link {
        index: u32_of(&fixed[4..8])?,
        name: String::new(),
        alternative_names: Vec::new(),
        mac: None,
        discipline: String::new(),
        mtu: 0,
        mtu_max: 0,
        up: admin_up && flags & libc::IFF_LOWER_UP as u32 != 0,
        admin_up,
        loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
        parent: None,
        claims_parent: false,
        vlan: None,
        priorities: false,
        kind: None,
        master: None,
        promiscuity: 0,
        promiscuous: flags & libc::IFF_PROMISC as u32 != 0,
    };
    let (mut elsewhere, mut claims) = (false, true);
    attributes(rest, |kind, value| {
        match kind {
            IFLA_ADDRESS => link.mac = mac_of(value),
            IFLA_IFNAME => link.name = string_of(value),
            IFLA_PROP_LIST => properties(value, &mut link)?,
            IFLA_QDISC => link.discipline = string_of(value),
            IFLA_MTU => link.mtu = u32_of(value)?,
            IFLA_MAX_MTU => link.mtu_max = u32_of(value)?,
            IFLA_LINK => link.parent = Some(u32_of(value)?).filter(|&index| index != 0),
            // There is one also where the namespace has no number here.
            IFLA_LINK_NETNSID => elsewhere = true,
            IFLA_MASTER => link.master = Some(u32_of(value)?).filter(|&index| index != 0),
            IFLA_PROMISCUITY => link.promiscuity = u32_of(value)?,
            IFLA_LINKINFO => claims = link_info(value, &mut link)?,
            _ => {}
        }
        Ok(())
    })?;
    // `nla_put_iflink`: an interface on none may name itself.
    link.parent = link.parent.filter(|&parent| !elsewhere && parent != link.index);
    link.claims_parent = claims && link.parent.is_some();
    Ok(Some(link))
}

/// RTM_DELLINK: also what `dev_change_net_namespace` says in the namespace that a link leaves.
pub(super) fn gone(body: &[u8]) -> Parsed<Option<Event>> {
    let Some(link) = link(body)? else { return Ok(None) };
    let (mut namespace, mut index) = (None, None);
    attributes(&body[16..], |kind, value| {
        match kind {
            IFLA_NEW_NETNSID => namespace = Some(u32_of(value)?.cast_signed()),
            IFLA_NEW_IFINDEX => index = Some(u32_of(value)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(Some(match namespace {
        Some(namespace) => {
            // It is told only where it became another one.
            let to = Elsewhere { namespace, index: index.unwrap_or(link.index) };
            Event::LinkMoved { index: link.index, to }
        }
        None => Event::LinkGone(link.index),
    }))
}

fn properties(list: &[u8], link: &mut Link) -> Parsed<()> {
    attributes(list, |kind, value| {
        if kind == IFLA_ALT_IFNAME {
            link.alternative_names.push(string_of(value));
        }
        Ok(())
    })
}

/// Whether one of this kind takes its parent's frames.
fn link_info(info: &[u8], link: &mut Link) -> Parsed<bool> {
    let mut data: &[u8] = &[];
    attributes(info, |kind, value| {
        match kind {
            IFLA_INFO_KIND => link.kind = Some(string_of(value)),
            IFLA_INFO_DATA => data = value,
            _ => {}
        }
        Ok(())
    })?;
    match link.kind.as_deref() {
        Some("vlan") => {
            vlan(data, link)?;
            Ok(false)
        }
        Some("macvlan" | "macvtap") => claims_by_mode(data),
        // Frames that are not protected stay the parent's unless hardware sorts them out
        // (`handle_not_macsec`).
        Some("macsec") => is_offloaded(data),
        Some(kind) => Ok(!HARMLESS.contains(&kind)),
        None => Ok(true),
    }
}

/// The identifier of a VLAN with customer tags; another protocol's VLANs are others. And whether it maps priorities.
fn vlan(data: &[u8], link: &mut Link) -> Parsed<()> {
    let (mut id, mut customer) = (None, true);
    attributes(data, |kind, value| {
        match kind {
            IFLA_VLAN_ID => id = Some(u16_of(value)?),
            IFLA_VLAN_PROTOCOL => customer = value == 0x8100_u16.to_be_bytes(),
            // `struct ifla_vlan_qos_mapping { from, to }`
            IFLA_VLAN_EGRESS_QOS => attributes(value, |_, pair| {
                let to = pair.get(4..8).ok_or(Fault("VLAN's map of priorities"))?;
                link.priorities |= u32_of(to)? != 0;
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    link.vlan = id.filter(|_| customer);
    Ok(())
}

/// `macvlan_handle_frame`: in the modes passthru and source frames to the parent's address are taken.
fn claims_by_mode(data: &[u8]) -> Parsed<bool> {
    let mut mode = 0;
    attributes(data, |kind, value| {
        if kind == IFLA_MACVLAN_MODE {
            mode = u32_of(value)?;
        }
        Ok(())
    })?;
    Ok(!matches!(mode, MACVLAN_MODE_PRIVATE | MACVLAN_MODE_VEPA | MACVLAN_MODE_BRIDGE))
}

fn is_offloaded(data: &[u8]) -> Parsed<bool> {
    let mut offloaded = false;
    attributes(data, |kind, value| {
        if kind == IFLA_MACSEC_OFFLOAD {
            offloaded = value != [0];
        }
        Ok(())
    })?;
    Ok(offloaded)
}

#[cfg(test)]
mod tests {
    use libc::{RTM_DELLINK, RTM_NEWLINK};

    use super::super::frame::Builder;
    use super::super::parse::parse;
    use super::*;

    const HEAD: [u8; 16] = [0, 0, 1, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

    fn event(message: u16, fill: impl FnOnce(&mut Builder)) -> Event {
        let mut builder = Builder::default();
        builder.begin(message, 0, 0, &HEAD);
        fill(&mut builder);
        builder.end();
        let mut events = Vec::new();
        parse(&builder.bytes, &mut |event| events.push(event)).unwrap();
        assert_eq!(events.len(), 1);
        events.remove(0)
    }

    fn on_three(kind: &str, fill: impl FnOnce(&mut Builder)) -> Link {
        let said = event(RTM_NEWLINK, |b| {
            b.string(IFLA_IFNAME, "upper").u32(IFLA_LINK, 3).nested(IFLA_LINKINFO, |b| {
                // The data may come before the kind.
                b.nested(IFLA_INFO_DATA, fill).string(IFLA_INFO_KIND, kind);
            });
        });
        let Event::Link(link) = said else { panic!("{said:?}") };
        link
    }

    #[test]
    fn a_vlan_link_has_a_parent_and_an_identifier() {
        let link = on_three("vlan", |b| _ = b.attribute(IFLA_VLAN_ID, &7_u16.to_ne_bytes()));
        assert_eq!((link.index, link.parent, link.vlan), (9, Some(3), Some(7)));
        assert_eq!((link.name.as_str(), link.up, link.admin_up), ("upper", false, true));
        assert!(!link.claims_parent);
        let service = on_three("vlan", |b| {
            b.attribute(IFLA_VLAN_ID, &7_u16.to_ne_bytes());
            b.attribute(IFLA_VLAN_PROTOCOL, &0x88a8_u16.to_be_bytes());
        });
        assert_eq!(service.vlan, None, "the VLAN of the same number with customer tags is another");
        let mapped = |pairs: &[[u8; 8]]| {
            on_three("vlan", |b| {
                b.attribute(IFLA_VLAN_ID, &7_u16.to_ne_bytes());
                b.nested(IFLA_VLAN_EGRESS_QOS, |b| {
                    pairs.iter().for_each(|pair| _ = b.attribute(1, pair))
                });
            })
        };
        assert!(mapped(&[[0; 8], [6, 0, 0, 0, 5, 0, 0, 0]]).priorities);
        assert!(!mapped(&[[6, 0, 0, 0, 0, 0, 0, 0]]).priorities && !mapped(&[]).priorities);
    }

    #[test]
    fn an_index_of_another_namespace_is_no_parent() {
        let said = event(RTM_NEWLINK, |b| {
            b.u32(IFLA_LINK, 3).u32(IFLA_LINK_NETNSID, 0);
            b.nested(IFLA_LINKINFO, |b| _ = b.string(IFLA_INFO_KIND, "ipvlan"));
        });
        let Event::Link(link) = said else { panic!("{said:?}") };
        assert_eq!((link.parent, link.claims_parent), (None, false));
    }

    #[test]
    fn what_takes_its_parents_frames_is_told_from_what_does_not() {
        let mode = |mode: u32| on_three("macvlan", |b| _ = b.u32(IFLA_MACVLAN_MODE, mode));
        let claims = [1, 2, 4, 8, 16].map(|number| mode(number).claims_parent);
        assert_eq!(claims, [false, false, false, true, true]);
        let plain = |kind| on_three(kind, |_| {}).claims_parent;
        assert_eq!(["gre", "veth", "macsec"].map(plain), [false; 3]);
        assert_eq!(["ipvlan", "dsa", "not-known-yet"].map(plain), [true; 3]);
    }

    #[test]
    fn a_link_that_moves_is_told_from_one_that_ends() {
        assert_eq!(event(RTM_DELLINK, |_| {}), Event::LinkGone(9));
        let moved = event(RTM_DELLINK, |b| _ = b.u32(IFLA_NEW_NETNSID, 4).u32(IFLA_NEW_IFINDEX, 2));
        let to = Elsewhere { namespace: 4, index: 2 };
        assert_eq!(moved, Event::LinkMoved { index: 9, to });
    }

    #[test]
    fn further_names_are_read() {
        let said = event(RTM_NEWLINK, |b| {
            b.nested(IFLA_PROP_LIST, |b| _ = b.string(IFLA_ALT_IFNAME, "uplink"));
        });
        let Event::Link(link) = said else { panic!("{said:?}") };
        assert_eq!(link.alternative_names, ["uplink"]);
    }
}
