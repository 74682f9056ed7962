//! Who takes a port's frames, and which link a port is.

use ebb_host::netlink::{Elsewhere, Link, Part};

use super::*;
use crate::rib::Update;

const P0: PortId = PortId(0);
const TO: Elsewhere = Elsewhere { namespace: 4, index: 9 };

/// The router with the kernel's links, told of them, and the link of its first port.
fn started() -> (Router, Link) {
    let (mut router, mut kernel) = (Router::new(), Kernel::new());
    router.settle(&mut kernel, Vec::new());
    let links = kernel.dump(Part::Links);
    let [Event::Link(port), ..] = &links[..] else { panic!("a link") };
    let port = port.clone();
    // VLANs have the address of what they lie on.
    let links = links.into_iter().map(|event| match event {
        Event::Link(link) if link.parent == Some(port.index) => {
            Event::Link(Link { mac: port.mac, ..link })
        }
        other => other,
    });
    router.apply(&links.collect::<Vec<_>>());
    router.rib.take_updates();
    (router, port)
}

fn upper(on: &Link, claims_parent: bool) -> Link {
    let (parent, kind) = (Some(on.index), Some("macvlan".to_owned()));
    Link { index: 20, name: "upper".into(), parent, kind, claims_parent, ..on.clone() }
}

/// What is said of who takes the frames of the first port, and whether it is still an interface.
fn claimed(router: &mut Router) -> (Vec<Option<String>>, bool) {
    let said = router.rib.take_updates().into_iter().filter_map(|update| match update {
        Update::Claimed(P0, by) => Some(by),
        _ => None,
    });
    (said.collect(), router.out.interfaces.contains_key(&InterfaceId(0)))
}

#[test]
fn a_port_whose_frames_another_interface_takes_is_left_to_the_kernel() {
    let (mut router, port) = started();
    router.apply(&[Event::Link(upper(&port, false))]);
    assert_eq!(claimed(&mut router), (vec![], true));
    router.apply(&[Event::Link(upper(&port, true))]);
    let takes = Some("upper receives its frames".to_owned());
    assert_eq!(claimed(&mut router), (vec![takes], false));
    assert!(!router.out.interfaces.contains_key(&InterfaceId(256)), "nor its VLAN");
    assert!(router.rib.places().iter().any(|place| place.link == port.index && place.enslaved));
    router.apply(&[Event::LinkGone(20)]);
    assert_eq!(claimed(&mut router), (vec![None], true));
    assert!(router.out.interfaces.contains_key(&InterfaceId(256)));
}

#[test]
fn one_that_moves_into_another_namespace_goes_on_taking_them_until_it_ends() {
    let (mut router, port) = started();
    router.apply(&[Event::Link(upper(&port, true)), Event::LinkMoved { index: 20, to: TO }]);
    let takes = Some("upper in another namespace receives its frames".to_owned());
    assert_eq!(claimed(&mut router), (vec![takes], false));
    assert_eq!(router.rib.elsewhere(), [TO]);
    router.rib.end_elsewhere(TO, &mut router.out);
    assert_eq!(claimed(&mut router), (vec![None], true));
    assert!(router.rib.elsewhere().is_empty());
}

#[test]
fn what_takes_all_frames_unseen_is_told_from_what_is_seen() {
    let other = Some([2, 9, 9, 9, 9, 9]);
    for (promiscuity, promiscuous, listeners, mac, taken) in [
        (0, false, 0, None, false),
        (1, true, 0, None, false),
        (1, false, 0, None, true),
        (1, false, 1, None, false),
        (2, false, 1, None, true),
        (2, true, 1, None, false),
        // Beside a macvlan of another address, whose presence costs it that.
        (1, false, 0, other, false),
        (2, false, 0, other, true),
    ] {
        let (mut router, port) = started();
        if mac.is_some() {
            router.apply(&[Event::Link(Link { mac, ..upper(&port, false) })]);
        }
        router.apply(&[Event::Link(Link { promiscuity, promiscuous, ..port.clone() })]);
        for link in router.rib.listened_to() {
            router.rib.set_listeners(link, listeners, &mut router.out);
        }
        let case = (promiscuity, promiscuous, listeners, mac);
        assert_eq!(claimed(&mut router).1, !taken, "{case:?}");
        router.apply(&[Event::Link(port)]);
        assert!(claimed(&mut router).1, "{case:?}");
    }
}

#[test]
fn another_link_of_the_same_name_or_index_is_another() {
    let (mut router, port) = started();
    let of_port = |router: &mut Router| -> Vec<(bool, bool)> {
        let said = router.rib.take_updates().into_iter().filter_map(|update| match update {
            Update::Link { port: P0, up, gone } => Some((up, gone)),
            _ => None,
        });
        said.collect()
    };
    router.apply(&[Event::LinkGone(port.index), Event::Link(port.clone())]);
    assert_eq!(of_port(&mut router), [(false, true), (true, false)], "the same index again");
    let renamed = Link { name: "wan0".into(), ..port.clone() };
    router.apply(&[Event::Link(renamed)]);
    let name = Update::Name(P0, "wan0".into());
    assert_eq!(router.rib.take_updates(), [name]);
    let stranger = Link { index: 30, ..port.clone() };
    router.apply(&[Event::Link(stranger)]);
    assert!(of_port(&mut router).is_empty(), "the port is still what was renamed");
    router.apply(&[Event::LinkGone(port.index)]);
    assert_eq!(of_port(&mut router), [(false, true), (true, false)], "who has the name by then");
    assert_eq!(router.rib.link_of(InterfaceId(0)), Some(30));
}

#[test]
fn a_port_may_be_named_by_a_further_name() {
    let (mut router, port) = started();
    router.apply(&[Event::LinkGone(port.index)]);
    let names = vec![port.name.clone()];
    router.apply(&[Event::Link(Link { name: "eth7".into(), alternative_names: names, ..port })]);
    assert!(router.out.interfaces.contains_key(&InterfaceId(0)));
}
