//! An interface that is opened again when it is deleted and made again; meanwhile something stands for it that
//! takes nothing.

use anyhow::Result;
use ebb_cluster::{Attachment, Step, There};
use ebb_host::clock::monotonic;
use ebb_host::netlink::Link;
use ebb_ports::Port;
use ebb_ports::afxdp::{AfXdpPort, Interface};
use tracing::warn;

use crate::absent::Absent;

/// See the module.
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
                warn!(interface = self.name, "the interface is gone; waiting for it");
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
