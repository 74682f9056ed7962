//! AF_XDP: the kernel's rings mapped into the workers, and the XDP program in front of them.

mod error;
mod interface;
mod options;
mod redirect;
mod umem;

pub use error::AfXdpError;
pub use interface::{AfXdpPort, Interface, InterfaceCounters, KernelInjector};
pub use options::{Form, InterfaceOptions, Mode, OpenMode, ZeroCopy};
pub use redirect::Indirection;
pub use umem::Umem;
