//! Tests of Linux knobs and netlink: one program, so that what they share is compiled and linked once.

mod common;
mod ethtool_live;
mod full_table;
mod guard;
mod knobs;
mod netlink_live;
mod netlink_recorded;
mod policy_live;
