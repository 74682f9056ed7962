//! Any bytes as a fabric or as OpenSM's tables: what is read can be checked, what is not is refused
//! with a file and a line, never a panic. The first byte chooses the format.
#![no_main]

use std::sync::OnceLock;

use ebb_system_fabric::format::{self, Malformed, fdbs, graphml, ibnetdiscover, lanes, levels, lfts};
use ebb_system_fabric::topology::{Topology, grid};
use ebb_system_fabric::{Tables, check};
use libfuzzer_sys::fuzz_target;

fn refused(error: &Malformed) {
    assert!(error.line >= 1 && !error.what.is_empty());
}

fn torus() -> &'static Topology {
    static TORUS: OnceLock<Topology> = OnceLock::new();
    TORUS.get_or_init(|| grid::torus(&[3, 2], 1).expect("a torus"))
}

fuzz_target!(|data: &[u8]| {
    let Some((format, bytes)) = data.split_first() else { return };
    let mut tables = Tables::empty(torus());
    let read = match format % 9 {
        0 => ibnetdiscover::read("fuzz", bytes).map(drop),
        1 => graphml::read("fuzz", bytes, 1).map(drop),
        2 => lfts::read("fuzz", bytes, torus()).map(|read| tables.forwarding = read),
        3 => format::shape("fuzz", bytes, 1).map(drop),
        4 => fdbs::read("fuzz", bytes, torus()).map(|read| tables.forwarding = read),
        7 => format::db_csv::read("fuzz", bytes).map(drop),
        8 => format::gml::read("fuzz", bytes, 1).map(drop),
        5 => levels::read("fuzz", bytes, torus()).map(|read| tables.levels = read),
        _ => lanes::read("fuzz", bytes, torus()).map(|read| tables.lanes = read),
    };
    match read {
        Ok(()) => drop(check::check(torus(), &tables)),
        Err(error) => refused(&error),
    }
});
