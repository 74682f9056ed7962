//! How one router is made of many: which back-end a flow goes to, which back-ends live, how one is
//! drained before it goes off, and who decides.
//!
//! Room: pure decisions and what they write into the store that all members share. No clock, no
//! socket, no randomness: the live daemon and the fault simulator hand in time and what arrived, and
//! carry out what comes back; which back-ends are on, a policy of `control` says. It knows neither
//! packets nor Linux nor etcd.
//!
//! Safety rests on the store and on order, not on time:
//! - [`ClusterPlan`], which says what each back-end is to do, changes only by a conditional write of whoever
//!   holds the leader's key then ([`Write::ClusterPlan`]), so the plans form one sequence of versions.
//! - A back-end goes off only once every registered balancer has acknowledged a version in which it
//!   is draining (`next_plan`); a balancer registers before it first reads the plan, and never goes
//!   back to an older one. A balancer that is cut off thus keeps back-ends on: that costs energy,
//!   never a packet.
//!
//! Leases and deadlines only decide how long it takes until somebody acts.

mod agent;
mod announce;
mod attach;
mod balancer;
mod carrier;
mod echo;
mod election;
mod energy;
mod every;
mod fresh;
mod health;
mod hosts;
mod leader;
mod neighbours;
mod owner;
mod plan;
mod quota;
mod relief;
mod table;

pub use agent::{Agent, Order};
pub use announce::Announcer;
pub use attach::{Attachment, LinkState, Step, There};
pub use balancer::{Balancer, Move};
pub use carrier::Carrier;
pub use echo::Echoes;
pub use energy::{Draw, EnergyAccount, draw};
pub use fresh::{Conversation, Stamp};
pub use health::{Detector, Liveness};
pub use hosts::Hosts;
pub use leader::{Leader, LeaderInputs, Servers};
pub use neighbours::{Manner, Neighbours};
pub use owner::{LeaseEnd, Owned, OwnerDeed, Owners, Renewal, lease_ends};
pub use plan::{Acknowledgement, ClusterPlan, Entry, MemberReport, Power, Snapshot, Write};
pub use relief::{relief, weights_of};
pub use table::{SLOTS, SteeringTable};
