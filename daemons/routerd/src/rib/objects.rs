//! What goes with a link or a next-hop object, said or unsaid.

use ebb_host::netlink::{NextHopObject, NextHopTarget, Part};

use super::candidate::Candidate;
use super::prefixes::Key;
use super::{Rib, Tables, order};

impl Rib {
    /// What goes with a link that is down goes whatever was known of the link: that it had come up may not have been heard.
    pub(super) fn link_state(
        &mut self,
        index: u32,
        before: Option<(bool, bool)>,
        (admin_up, up): (bool, bool),
        out: &mut impl Tables,
    ) {
        if !up {
            self.next_hops_lost(index, before.is_none_or(|(_, up)| up), out);
        }
        if !admin_up {
            let goes_down = before.is_some_and(|(admin_up, _)| admin_up);
            // Whether a route stays depends on its other links, which may have been switched unheard.
            for (part, v6) in [(Part::Routes4, false), (Part::Routes6, true)] {
                let unsure = !self.resync.links_known && self.slots.any_beside(index, v6);
                self.resync.want_if(part, unsure);
            }
            let dead = self.slots.dead_with(index, &self.links, goes_down);
            self.drop_slots(&dead, out);
        }
    }

    /// The kernel removes next-hop objects with their link (`nexthop_flush_dev`), and their routes with them,
    /// silently. Until it has been asked which are left, the packets of their routes are its own.
    fn next_hops_lost(&mut self, link: u32, was_up: bool, out: &mut impl Tables) {
        let lost = self.links.doubt_next_hops(link);
        self.resync.want_if(Part::NextHops, lost);
        if lost {
            self.retarget(Candidate::by_object, out);
        }
        // In a dump, what is known of the objects may be older than what is known of the routes:
        // any route with an object may be concerned.
        if was_up && self.resync.is_running() && self.slots.any_by_object() {
            self.resync.want_all();
        }
    }

    /// An object is there, or has become another. Of one that may have gone with its link nobody can tell whether it is
    /// the same or has come anew, without the routes that went with it: they are asked for.
    pub(super) fn next_hop(&mut self, object: &NextHopObject) {
        let doubtful = &self.links.doubtful;
        let former = self.links.next_hops.insert(object.id, object.target.clone());
        let doubted = match former {
            // A group goes with its last member.
            Some(NextHopTarget::Group(of)) => {
                of.iter().any(|(member, _)| doubtful.contains(member))
            }
            _ => doubtful.contains(&object.id),
        };
        if doubted && self.slots.any_by_object() {
            self.resync.want(Part::Routes4);
            self.resync.want(Part::Routes6);
        }
    }

    /// The list of objects was read to its end: those still there are there.
    pub(super) fn next_hops_listed(&mut self, out: &mut impl Tables) {
        if !std::mem::take(&mut self.links.doubtful).is_empty() {
            self.retarget(Candidate::by_object, out);
        }
        // Announced and, with its object, silently gone before the objects were listed.
        let orphans = self.slots.orphans(&self.links);
        self.drop_slots(&orphans, out);
    }

    /// The link was taken out already; `moved` are those that changed with it.
    pub(super) fn link_gone(&mut self, index: u32, moved: &[u32], out: &mut impl Tables) {
        self.next_hops_lost(index, true, out);
        let dead = self.slots.gone_with(index);
        self.drop_slots(&dead, out);
        self.retarget_links(moved, out);
    }

    /// An object goes, with its routes and the groups that it leaves empty.
    pub(super) fn next_hop_gone(&mut self, id: u32, out: &mut impl Tables) {
        let mut gone = vec![id];
        while let Some(id) = gone.pop() {
            self.links.next_hops.remove(&id);
            self.links.doubtful.remove(&id);
            for (group, target) in &mut self.links.next_hops {
                let NextHopTarget::Group(members) = target else { continue };
                let before = members.len();
                members.retain(|(member, _)| *member != id);
                if members.is_empty() && before > 0 {
                    gone.push(*group);
                }
            }
            let dead = self.slots.of_next_hop(id);
            self.drop_slots(&dead, out);
        }
        self.retarget(Candidate::by_object, out);
    }

    /// Whether rivals of a route may have gone silently with their next-hop object: which of them it replaces then
    /// nobody can tell.
    pub(super) fn may_have_lost_rivals(&self, key: Key, new: &Candidate) -> bool {
        let lost = |candidate: &Candidate| candidate.rivals(new) && candidate.by_object();
        !self.links.doubtful.is_empty()
            && self.prefixes.list(key).iter().any(|entry| lost(self.slots.candidate(entry.slot)))
    }

    /// Removes every route that is one of these. Where merged ones go, others may show that no list told of: the kernel
    /// is asked, as where it announces that (`order::uncovers`).
    fn drop_slots(&mut self, dead: &[u32], out: &mut impl Tables) {
        if dead.is_empty() {
            return;
        }
        for key in self.prefixes.containing(dead) {
            let mut uncovers = false;
            self.edit(key, out, |list, slots| {
                let (gone, left): (Vec<_>, Vec<_>) =
                    list.iter().copied().partition(|entry| dead.contains(&entry.slot));
                let mut of_gone = gone.iter().map(|entry| slots.candidate(entry.slot));
                uncovers = of_gone.any(|gone| order::uncovers(gone, list, None, slots));
                *list = left;
                order::Edit { removed: gone, ..order::Edit::default() }
            });
            if uncovers {
                self.resync.want(Part::Routes6);
                self.doubt(key, out);
            }
        }
    }
}
