//! What may go wrong, one at a time.

use crate::live::lab::{Lab, Wiring};
use crate::live::router::{PATIENCE, Setup, until};
use crate::live::traffic::{Traffic, way};

#[test]
fn a_port_that_goes_down_stops_only_its_own_traffic() {
    let Some(lab) = Lab::build(Wiring::plain(3)) else { return };
    lab.routes();
    let mut router = Setup::of(&lab).start(&lab);
    let traffic = Traffic::start(&lab, &[way(0, 1, 0), way(0, 2, 0)], 2000);
    assert!(until(PATIENCE, || traffic.arrived_at(1) > 200), "{}", router.log());
    lab.ip("link set p1 down");
    router.wait_for("p1 down", |status| !status.ports[1].up);
    let others = traffic.arrived_at(2);
    assert!(until(PATIENCE, || traffic.arrived_at(2) > others + 500), "{}", router.log());
    lab.ip("link set p1 up\nroute replace 10.101.0.0/16 via 10.0.1.2\nneighbour replace 10.0.1.2 lladdr 02:00:00:00:01:01 nud permanent dev p1");
    router.wait_for("p1 up", |status| status.ports[1].up);
    let back = traffic.arrived_at(1);
    assert!(until(PATIENCE, || traffic.arrived_at(1) > back + 200), "{}", router.log());
    let books = traffic.stop();
    println!(
        "port down and up: lost {} of its own, {} of others; silent {:?}",
        books.lost(0), books.lost(1), books.silence[0]
    );
    assert_eq!(books.lost(1), 0, "{:?}", books.total);
    println!("{}", router.stop());
}
