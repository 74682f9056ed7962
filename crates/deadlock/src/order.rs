//! A topological order that is kept while edges come and go (Pearce and Kelly 2006).

use std::collections::BTreeMap;

/// An acyclic graph over channels `N`: an edge that would close a cycle is refused. Edges are counted,
/// so that what several destinations need stays until the last of them lets go.
#[derive(Clone, Debug)]
pub struct OnlineOrder<N> {
    number: BTreeMap<N, u32>,
    channels: Vec<N>,
    place: Vec<u32>,
    after: Vec<Vec<(u32, u32)>>,
    before: Vec<Vec<u32>>,
    mark: Vec<u32>,
    round: u32,
}

/// The edge that was refused and the path that it would have closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldClose<N> {
    /// The cycle: each channel waits for the next, the last for the first.
    pub cycle: Vec<N>,
}

impl<N: Copy + Ord> Default for OnlineOrder<N> {
    fn default() -> OnlineOrder<N> {
        OnlineOrder::new()
    }
}

impl<N: Copy + Ord> OnlineOrder<N> {
    /// A graph without edges.
    #[must_use]
    pub fn new() -> OnlineOrder<N> {
        OnlineOrder {
            number: BTreeMap::new(),
            channels: Vec::new(),
            place: Vec::new(),
            after: Vec::new(),
            before: Vec::new(),
            mark: Vec::new(),
            round: 0,
        }
    }

    fn node(&mut self, channel: N) -> u32 {
        if let Some(node) = self.number.get(&channel) {
            return *node;
        }
        let node = self.channels.len() as u32;
        self.number.insert(channel, node);
        self.channels.push(channel);
        self.place.push(node);
        self.after.push(Vec::new());
        self.before.push(Vec::new());
        self.mark.push(0);
        node
    }

    /// Adds an edge, or counts it once more.
    ///
    /// # Errors
    /// When it would close a cycle; nothing has changed then.
    pub fn add(&mut self, from: N, to: N) -> Result<(), WouldClose<N>> {
        let (from, to) = (self.node(from), self.node(to));
        if let Some((_, count)) = self.after[from as usize].iter_mut().find(|(node, _)| *node == to)
        {
            *count += 1;
            return Ok(());
        }
        if from == to {
            return Err(WouldClose { cycle: vec![self.channels[from as usize]] });
        }
        if self.place[to as usize] < self.place[from as usize] {
            self.reorder(from, to)?;
        }
        self.after[from as usize].push((to, 1));
        self.before[to as usize].push(from);
        Ok(())
    }

    /// Adds all edges or none.
    ///
    /// # Errors
    /// When one of them would close a cycle; nothing has changed then.
    pub fn add_all(&mut self, edges: &[(N, N)]) -> Result<(), WouldClose<N>> {
        for (done, (from, to)) in edges.iter().enumerate() {
            if let Err(closed) = self.add(*from, *to) {
                self.remove_all(&edges[..done]);
                return Err(closed);
            }
        }
        Ok(())
    }

    /// Takes one count of an edge away; the edge goes with the last.
    ///
    /// # Panics
    /// When there is no such edge.
    pub fn remove(&mut self, from: N, to: N) {
        let (from, to) = (self.node(from), self.node(to));
        let edges = &mut self.after[from as usize];
        let at = edges.iter().position(|(node, _)| *node == to).expect("the edge was added");
        edges[at].1 -= 1;
        if edges[at].1 == 0 {
            edges.swap_remove(at);
            let back = &mut self.before[to as usize];
            let at = back.iter().position(|node| *node == from).expect("edges are kept twice");
            back.swap_remove(at);
        }
    }

    /// Takes one count of each edge away.
    ///
    /// # Panics
    /// When one of them is not there.
    pub fn remove_all(&mut self, edges: &[(N, N)]) {
        edges.iter().for_each(|(from, to)| self.remove(*from, *to));
    }

    /// Whether there is such an edge.
    #[must_use]
    pub fn contains(&self, from: N, to: N) -> bool {
        let (Some(from), Some(to)) = (self.number.get(&from), self.number.get(&to)) else {
            return false;
        };
        self.after[*from as usize].iter().any(|(node, _)| node == to)
    }

    /// Moves what `to` reaches behind what reaches `from`, within the places between them.
    fn reorder(&mut self, from: u32, to: u32) -> Result<(), WouldClose<N>> {
        let (low, high) = (self.place[to as usize], self.place[from as usize]);
        let mut ahead = self.reach_forward(to, from, high)?;
        let mut behind = self.reach_backward(from, low);
        ahead.sort_unstable_by_key(|node| self.place[*node as usize]);
        behind.sort_unstable_by_key(|node| self.place[*node as usize]);
        let nodes: Vec<u32> = behind.into_iter().chain(ahead).collect();
        let mut places: Vec<u32> = nodes.iter().map(|node| self.place[*node as usize]).collect();
        places.sort_unstable();
        for (node, place) in nodes.into_iter().zip(places) {
            self.place[node as usize] = place;
        }
        Ok(())
    }

    fn reach_forward(
        &mut self,
        start: u32,
        end: u32,
        high: u32,
    ) -> Result<Vec<u32>, WouldClose<N>> {
        self.round += 1;
        let mut reached = vec![start];
        let mut parents = vec![0u32];
        self.mark[start as usize] = self.round;
        let mut next = 0;
        while next < reached.len() {
            let node = reached[next];
            for &(other, _) in &self.after[node as usize] {
                if other == end {
                    return Err(self.closed(&reached, &parents, next, end));
                }
                let ahead = self.place[other as usize] < high;
                if ahead && self.mark[other as usize] != self.round {
                    self.mark[other as usize] = self.round;
                    reached.push(other);
                    parents.push(next as u32);
                }
            }
            next += 1;
        }
        Ok(reached)
    }

    fn closed(&self, reached: &[u32], parents: &[u32], last: usize, end: u32) -> WouldClose<N> {
        let mut cycle = vec![self.channels[end as usize]];
        let mut at = last;
        while at != 0 {
            cycle.push(self.channels[reached[at] as usize]);
            at = parents[at] as usize;
        }
        cycle.push(self.channels[reached[0] as usize]);
        cycle.reverse();
        WouldClose { cycle }
    }

    fn reach_backward(&mut self, start: u32, low: u32) -> Vec<u32> {
        self.round += 1;
        let mut reached = vec![start];
        self.mark[start as usize] = self.round;
        let mut next = 0;
        while next < reached.len() {
            for &other in &self.before[reached[next] as usize] {
                let behind = self.place[other as usize] > low;
                if behind && self.mark[other as usize] != self.round {
                    self.mark[other as usize] = self.round;
                    reached.push(other);
                }
            }
            next += 1;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reaches(edges: &[(u32, u32)], from: u32, to: u32) -> bool {
        let (mut seen, mut stack) = (std::collections::BTreeSet::new(), vec![from]);
        while let Some(node) = stack.pop() {
            if node == to {
                return true;
            }
            if seen.insert(node) {
                stack.extend(edges.iter().filter(|edge| edge.0 == node).map(|edge| edge.1));
            }
        }
        false
    }

    proptest! {
        /// Edges come and go at random; an edge is refused exactly when it closes a cycle.
        #[test]
        fn refuses_exactly_what_closes(
            steps in prop::collection::vec((0u32..12, 0u32..12, any::<bool>()), 1..120)
        ) {
            let (mut order, mut edges) = (OnlineOrder::new(), Vec::<(u32, u32)>::new());
            for (from, to, add) in steps {
                if add {
                    let closes = reaches(&edges, to, from);
                    match order.add(from, to) {
                        Ok(()) => {
                            prop_assert!(!closes);
                            edges.push((from, to));
                        }
                        Err(refused) => {
                            prop_assert!(closes);
                            let cycle = refused.cycle;
                            prop_assert_eq!(cycle[0], to);
                            prop_assert_eq!(cycle[cycle.len() - 1], from);
                            for pair in cycle.windows(2) {
                                prop_assert!(order.contains(pair[0], pair[1]));
                            }
                        }
                    }
                } else if let Some(at) = edges.iter().position(|edge| edge.0 == from) {
                    let (from, to) = edges.swap_remove(at);
                    order.remove(from, to);
                }
            }
        }
    }
}
