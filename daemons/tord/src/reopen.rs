//! Interfaces of AF_XDP: opened, and opened again when they are deleted and made again; meanwhile something stands
//! for them that takes nothing.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use ebb_cluster::{Attachment, Step, There};
use ebb_host::clock::monotonic;
use ebb_host::netlink::Link;
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpPort, Form, Interface, InterfaceOptions, Umem};
use tracing::{info, warn};

use crate::absent::Absent;

/// Frames of each port for what is longer than others.
pub(crate) const LONG_PER_PORT: u32 = 512;
/// Places in each ring.
pub(crate) const RING: u32 = 512;
/// How often is looked whether interfaces are still those that are open.
pub(crate) const LINKS_EVERY_NS: u64 = 300_000_000;

/// An interface of AF_XDP with its only port. `long`: packets of jumbo frames may come, if it has any.
pub(crate) fn open_interface(
    umem: &Arc<Umem>,
    name: &str,
    macs: &[[u8; 6]],
    (stamp, long): (bool, bool),
) -> Result<(Interface, AfXdpPort)> {
    let mut options = InterfaceOptions::new(name, 1, Form::Steer);
    options.ring_len = RING;
    options.stamp_all = stamp;
    // Nobody else forwards what comes here.
    options.ip_options = true;
    options.long = long;
    let mut interface = Interface::open(umem, &options)?;
    if !macs.is_empty() {
        interface.set_macs(macs).with_context(|| name.to_owned())?;
    }
    info!(name, mode = %interface.mode(), code = "EBB-T015", "opened");
    let port = interface.take_ports().pop().context("an interface has a port")?;
    Ok((interface, port))
}

/// An interface that is opened again.
pub(crate) struct Reopened {
    name: String,
    attachment: Attachment,
    /// Kept: while it lives its XDP program is attached.
    interface: Option<Interface>,
    said: Option<String>,
}

impl Reopened {
    /// An interface that is open.
    pub(crate) fn new(interface: Interface) -> Reopened {
        let mut attachment = Attachment::default();
        attachment.opened(interface.index());
        let name = interface.name().to_owned();
        Reopened { name, attachment, interface: Some(interface), said: None }
    }

    /// The index of what is open.
    pub(crate) fn index(&self) -> Option<u32> {
        self.attachment.open()
    }

    /// What is open.
    pub(crate) fn interface(&self) -> Option<&Interface> {
        self.interface.as_ref()
    }

    /// The same, to be changed.
    pub(crate) fn interface_mut(&mut self) -> Option<&mut Interface> {
        self.interface.as_mut()
    }

    /// Looks at the machine's links; what is to take the port's place, if it is another one now. `open` opens
    /// the interface of the name.
    pub(crate) fn look<'a>(
        &mut self,
        links: impl Iterator<Item = &'a Link> + Clone,
        open: impl FnOnce(&str) -> Result<(Interface, AfXdpPort)>,
    ) -> Option<Box<dyn Port>> {
        let seen =
            |link: &Link| There { index: link.index, set_up: link.admin_up, carries: link.up };
        let named = links.clone().find(|link| link.name == self.name).map(seen);
        let index = self.attachment.open();
        let opened = links.clone().find(|link| Some(link.index) == index).map(seen);
        match self.attachment.look(monotonic(), named, opened, false)? {
            Step::Close => {
                warn!(
                    interface = self.name,
                    code = "EBB-T016",
                    "the interface is gone; waiting for it"
                );
                self.attachment.closed();
                self.interface = None;
                Some(Box::new(Absent(self.name.clone())))
            }
            Step::Open => match open(&self.name) {
                Ok((interface, port)) => {
                    self.attachment.opened(interface.index());
                    (self.interface, self.said) = (Some(interface), None);
                    Some(Box::new(port))
                }
                Err(error) => {
                    self.attachment.refused(monotonic());
                    let words = format!("{error:#}");
                    if self.said.as_ref() != Some(&words) {
                        warn!(
                            interface = self.name,
                            code = "EBB-T017",
                            "cannot open the interface, trying again: {words}"
                        );
                        self.said = Some(words);
                    }
                    None
                }
            },
        }
    }
}
