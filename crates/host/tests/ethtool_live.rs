//! Queues and offloads of a veth pair.

use crate::common;

use common::imitation::Imitation;
use ebb_host::ethtool::{Channels, Interface, Offload, RssTable};
use ebb_host::journal::{Journal, Undo};
use ebb_host::netlink::{Requests, Veth};

#[test]
fn queues_are_counted_changed_and_put_back() {
    let Some(namespace) = common::namespace("ethtool") else { return };
    let _entered = namespace.enter().unwrap();
    let four = |name| Veth { queues: 4, ..Veth::new(name) };
    Requests::open().unwrap().add_veth(four("eth-a"), four("eth-b")).unwrap();
    let interface = Interface::open("eth-a").unwrap();
    assert_eq!(interface.driver().unwrap().name, "veth");
    let before = interface.channels().unwrap();
    assert_eq!(interface.channels_max().unwrap().receiving(), 4);
    assert_eq!(before.receiving(), 4);

    let imitation = Imitation::new("channels");
    let journal = Journal::open(imitation.journals()).unwrap();
    journal.record(Undo::Channels { interface: "eth-a".into(), channels: before }).unwrap();
    let fewer = Channels { receive: 2, transmit: 2, ..before };
    interface.set_channels(fewer).unwrap();
    assert_eq!(interface.channels().unwrap(), fewer);
    let too_many = interface.set_channels(Channels { receive: 64, ..before }).unwrap_err();
    assert_eq!(too_many.raw_os_error(), Some(libc::EINVAL));
    assert!(journal.finish()[0].result.is_ok());
    assert_eq!(interface.channels().unwrap(), before);

    // A veth pair does not spread by itself.
    let error = RssTable::open("eth-a").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
    let error = interface.set_rss_table(&[0, 1]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
}

#[test]
fn offloads_switch() {
    let Some(namespace) = common::namespace("offloads") else { return };
    let _entered = namespace.enter().unwrap();
    Requests::open().unwrap().add_veth(Veth::new("off-a"), Veth::new("off-b")).unwrap();
    let interface = Interface::open("off-a").unwrap();
    for offload in [
        Offload::TransmitChecksum,
        Offload::Segmentation,
        Offload::TcpSegmentation,
        Offload::ReceiveMerging,
    ] {
        for on in [true, false] {
            let result = interface.set_offload(offload, on);
            assert!(result.is_ok(), "{offload:?} {on}: {result:?}");
        }
        assert!(!interface.offload(offload).unwrap(), "{offload:?}");
    }
}

#[test]
fn what_is_no_interface_is_told() {
    assert!(Interface::open("a-name-that-is-too-long").is_err());
    assert!(Interface::open("").is_err());
    let error = Interface::open("ebb-none").unwrap().channels().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    // What is gone needs no undoing.
    Undo::Rss { interface: "ebb-none".into(), table: vec![0] }.perform().unwrap();
}
