//! Networks whose links are listed one by one, with a table of the next port on every router: meshes of
//! several dimensions, dragonflies, a single switch, and concentrated meshes with express links.

use super::grid::{NOWHERE, PORTS_MAX};

/// Links, elements and next ports of such a network.
#[derive(Debug, Clone)]
pub(super) struct Wires {
    pub(super) routers: usize,
    pub(super) ports: usize,
    /// The router behind each port of each router.
    pub(super) neighbour: Vec<u32>,
    /// How long the link is, in units of the shortest.
    pub(super) length: Vec<u16>,
    /// Router and port of each element.
    pub(super) homes: Vec<(u32, u8)>,
    /// The port by which a router sends to another one.
    next: Vec<u8>,
    /// Ports from here on change to the second layer of channels.
    dateline: Option<u8>,
}

impl Wires {
    fn new(routers: usize, ports: usize, homes: Vec<(u32, u8)>) -> Wires {
        assert!(ports <= PORTS_MAX, "routers have {PORTS_MAX} ports at most");
        Wires {
            routers,
            ports,
            neighbour: vec![NOWHERE; routers * ports],
            length: vec![1; routers * ports],
            homes,
            next: vec![0; routers * routers],
            dateline: None,
        }
    }

    fn join(&mut self, router: usize, port: usize, to: usize, length: usize) {
        self.neighbour[router * self.ports + port] = to as u32;
        self.length[router * self.ports + port] = length as u16;
    }

    /// Fills the table: `port` of a router and another one.
    fn route(mut self, port: impl Fn(usize, usize) -> usize) -> Wires {
        let pairs = (0..self.routers).flat_map(|at| (0..self.routers).map(move |to| (at, to)));
        for (at, to) in pairs.filter(|(at, to)| at != to) {
            let port = port(at, to);
            assert!(self.neighbour[at * self.ports + port] != NOWHERE, "routes go over links");
            self.next[at * self.routers + to] = port as u8;
        }
        self
    }

    /// The port by which `router` sends to another one.
    #[inline]
    pub(super) fn next(&self, router: u32, to: u32) -> u8 {
        self.next[router as usize * self.routers + to as usize]
    }

    /// Whether packets change to a second layer of channels, as in a dragonfly.
    pub(super) fn has_dateline(&self) -> bool {
        self.dateline.is_some()
    }

    /// Whether a link at `port` is the one behind which the second layer begins.
    #[inline]
    pub(super) fn is_dateline(&self, port: u8) -> bool {
        self.dateline.is_some_and(|first| port >= first)
    }

    /// A mesh of `dimensions` dimensions with `side` routers along each, by dimension order, the first first.
    pub(super) fn mesh(side: usize, dimensions: usize) -> Wires {
        let routers = side.pow(dimensions as u32);
        let local = 2 * dimensions;
        let homes = (0..routers as u32).map(|router| (router, local as u8)).collect();
        let mut wires = Wires::new(routers, local + 1, homes);
        let digit = |router: usize, of: usize| router / side.pow(of as u32) % side;
        for router in 0..routers {
            for of in 0..dimensions {
                let step = side.pow(of as u32);
                if digit(router, of) + 1 < side {
                    wires.join(router, 2 * of, router + step, 1);
                    wires.join(router + step, 2 * of + 1, router, 1);
                }
            }
        }
        wires.route(|at, to| {
            let of = (0..dimensions).find(|of| digit(at, *of) != digit(to, *of));
            let of = of.expect("another router");
            2 * of + usize::from(digit(at, of) > digit(to, of))
        })
    }

    /// A dragonfly (Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA
    /// 2008): groups of `2 * radix` routers with `radix` elements and `radix` links to other groups each, as
    /// many groups as that joins directly. Its links between groups are ten times as long. Routes take one of
    /// them at most, and its channels from there on are of a second layer.
    pub(super) fn dragonfly(radix: usize) -> Wires {
        let of_group = 2 * radix;
        let groups = of_group * radix + 1;
        let routers = of_group * groups;
        let elements = (0..routers * radix).map(|e| ((e / radix) as u32, (e % radix) as u8));
        let mut wires = Wires::new(routers, 4 * radix - 1, elements.collect());
        let first = 2 * radix + radix - 1;
        // The link of a group to another: those of its routers in order, its own number left out.
        let link = |group: usize, to: usize| if to < group { to } else { to - 1 };
        let beside = |at: usize, to: usize| radix + if to < at { to } else { to - 1 };
        for router in 0..routers {
            let (group, at) = (router / of_group, router % of_group);
            for other in (0..of_group).filter(|other| *other != at) {
                wires.join(router, beside(at, other), group * of_group + other, 1);
            }
            for out in 0..radix {
                let number = at * radix + out;
                let to = if number < group { number } else { number + 1 };
                wires.join(router, first + out, to * of_group + link(to, group) / radix, 10);
            }
        }
        wires.dateline = Some(first as u8);
        wires.route(|router, to| {
            let (group, at) = (router / of_group, router % of_group);
            let (there, end) = (to / of_group, to % of_group);
            if group == there {
                return beside(at, end);
            }
            let number = link(group, there);
            match () {
                () if number / radix == at => first + number % radix,
                () => beside(at, number / radix),
            }
        })
    }

    /// A single switch with an element at each of its `ports` ports.
    pub(super) fn switch(ports: usize) -> Wires {
        Wires::new(1, ports, (0..ports as u8).map(|port| (0, port)).collect())
    }

    /// A concentrated mesh of `side` x `side` routers with 2 x 2 elements each, whose ports to nowhere at the
    /// rim lead half way along it instead (Balfour and Dally, "Design tradeoffs for tiled CMP on-chip networks",
    /// ICS 2006). Along the rim what goes half as far or further takes these express links.
    pub(super) fn express(side: usize) -> Wires {
        let half = side / 2;
        let homes = (0..4 * side * side).map(|element| {
            let (row, col) = (element / (2 * side), element % (2 * side));
            let router = row / 2 * side + col / 2;
            (router as u32, (4 + row % 2 * 2 + col % 2) as u8)
        });
        let mut wires = Wires::new(side * side, 8, homes.collect());
        let across = |at: usize| if at < half { at + half } else { at - half };
        for router in 0..side * side {
            let (row, col) = (router / side, router % side);
            let (last, of) = (side - 1, |row: usize, col: usize| row * side + col);
            let mut join = |port: usize, rim: bool, next: usize, express: usize| {
                let (to, length) = if rim { (express, half) } else { (next, 1) };
                wires.join(router, port, to, length);
            };
            join(0, col == last, router + 1, of(across(row), col));
            join(1, col == 0, router.wrapping_sub(1), of(across(row), col));
            join(2, row == last, router + side, of(row, across(col)));
            join(3, row == 0, router.wrapping_sub(side), of(row, across(col)));
        }
        wires.route(|at, to| {
            let ((row, col), (end, stop)) = ((at / side, at % side), (to / side, to % side));
            let along =
                |from: usize, to: usize, on: usize, ports: [usize; 2], express: [usize; 2]| {
                    let far = from.abs_diff(to) >= half;
                    match () {
                        () if far && on == 0 => express[1],
                        () if far && on + 1 == side => express[0],
                        () => ports[usize::from(to < from)],
                    }
                };
            if col != stop {
                along(col, stop, row, [0, 1], [2, 3])
            } else {
                along(row, end, col, [2, 3], [0, 1])
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_deadlock::OnlineOrder;

    /// Hops from a router to another, and whether all of its links lead back.
    fn walk(wires: &Wires, from: u32, to: u32) -> Vec<(u32, u8)> {
        let (mut at, mut ways) = (from, Vec::new());
        while at != to {
            let port = wires.next(at, to);
            ways.push((at, port));
            at = wires.neighbour[at as usize * wires.ports + port as usize];
            assert!(ways.len() < 64, "{from} to {to} goes round");
        }
        ways
    }

    fn longest(wires: &Wires) -> usize {
        let routers = wires.routers as u32;
        let pairs = (0..routers).flat_map(|from| (0..routers).map(move |to| (from, to)));
        pairs.map(|(from, to)| walk(wires, from, to).len()).max().unwrap_or(0)
    }

    #[test]
    fn routes_are_as_short_as_they_can_be() {
        assert_eq!(longest(&Wires::mesh(4, 3)), 9);
        assert_eq!(longest(&Wires::dragonfly(2)), 3);
        assert_eq!(longest(&Wires::switch(10)), 0);
        // A mesh of 4 x 4 without express links takes six.
        assert_eq!(longest(&Wires::express(4)), 4);
        assert_eq!(walk(&Wires::express(4), 0, 3), [(0, 3), (2, 0)]);
    }

    #[test]
    fn every_port_leads_to_one_that_leads_back() {
        for wires in [Wires::mesh(3, 3), Wires::dragonfly(3), Wires::express(8)] {
            for (at, to) in wires.neighbour.iter().enumerate().filter(|(_, to)| **to != NOWHERE) {
                let from = (at / wires.ports) as u32;
                let back = (0..wires.ports)
                    .filter(|port| wires.neighbour[*to as usize * wires.ports + port] == from);
                assert_eq!(back.count(), 1, "{from} to {to}");
            }
        }
    }

    #[test]
    fn two_layers_keep_a_dragonfly_free_of_circles() {
        let wires = Wires::dragonfly(2);
        let mut order = OnlineOrder::new();
        for from in 0..wires.routers as u32 {
            for to in 0..wires.routers as u32 {
                let (mut layer, mut before) = (0, None);
                for (at, port) in walk(&wires, from, to) {
                    layer |= usize::from(wires.is_dateline(port));
                    let channel = (at as usize * wires.ports + port as usize) * 2 + layer;
                    if let Some(before) = before.replace(channel) {
                        order.add_all(&[(before, channel)]).expect("no circle");
                    }
                }
            }
        }
    }
}
