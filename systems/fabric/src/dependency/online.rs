//! A topological order of channels that is kept while dependencies come and go.

use super::Channel;

/// An acyclic graph over channels.
pub type OnlineOrder = ebb_deadlock::OnlineOrder<Channel>;
