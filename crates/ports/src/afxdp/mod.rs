//! AF_XDP: the kernel's rings mapped into the workers, and the XDP program in front of them.

mod device;
mod error;
mod grace;
mod inject;
mod interface;
mod options;
mod port;
mod program;
mod redirect;
mod ring;
mod socket;
mod sys;
mod test_run;
mod umem;

pub use error::AfXdpError;
pub use inject::KernelInjector;
pub use interface::{Interface, InterfaceCounters, WORKERS_MAX};
pub use options::{Form, InterfaceOptions, Mode, OpenMode, ZeroCopy};
pub use port::AfXdpPort;
pub use redirect::Indirection;
pub use umem::Umem;
