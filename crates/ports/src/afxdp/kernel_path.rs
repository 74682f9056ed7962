//! Which interfaces packets of the kernel path may leave by (`bpf/forward.h`).

use std::collections::BTreeMap;
use std::io;

use super::program::{Program, broken};
use super::{Exit, Interface};

impl Program {
    /// See [`Interface::set_exits`].
    fn set_exits(&mut self, wanted: &BTreeMap<u32, Exit>) -> io::Result<()> {
        let present = self.exits.keys().collect::<Result<Vec<u32>, _>>().map_err(broken)?;
        for gone in present.iter().filter(|index| !wanted.contains_key(index)) {
            self.exits.remove(gone).map_err(broken)?;
        }
        for (index, exit) in wanted {
            self.exits.insert(index, *exit as u8, 0).map_err(broken)?;
        }
        Ok(())
    }
}

impl Interface {
    /// The interfaces by which packets may leave that this one receives on the kernel path, by index; none at
    /// first. Packets to others, and those that would leave where they came in, are the network
    /// stack's.
    ///
    /// # Errors
    /// When the kernel refuses or there are more than 256.
    pub fn set_exits(&mut self, exits: &BTreeMap<u32, Exit>) -> io::Result<()> {
        self.program().set_exits(exits)
    }
}
