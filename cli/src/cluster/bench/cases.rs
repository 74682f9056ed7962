//! What is compared with what, and the rule that says which of them is better.

use super::guest::Carrier;

/// Where threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadPlacement {
    /// Where the scheduler puts them.
    Free,
    /// The balancer on one CPU, the back-ends' threads on the others in turn.
    Apart,
    /// All on one CPU.
    Together,
}

/// Who gives packets to back-ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// The balancer.
    Balancer,
    /// Parts of the flows for identical copies (parallel virtual routers).
    Queues,
}

/// One way to give out what there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setup {
    /// Unique within its case.
    pub(super) name: &'static str,
    pub(super) front: Front,
    /// What forwards in the first back-end; in the others it is the kernel.
    pub(super) carrier: Carrier,
    pub(super) back_ends: usize,
    /// Each back-end's part of a CPU; `None`: as much as it gets.
    pub(super) back_end_share: Option<f64>,
    /// The balancer's.
    pub(super) balancer_share: Option<f64>,
    /// All of them share this instead, of one CPU.
    pub(super) common_share: Option<f64>,
    pub(super) place: ThreadPlacement,
    /// Niceness of the balancer and of the back-ends.
    pub(super) nice: [i32; 2],
    /// Whether back-ends filter.
    pub(super) filters: bool,
    /// Whether the links to back-ends let only a part through of what the case's first setup carried.
    pub(super) link_part: Option<f64>,
}

/// Setups that differ in one respect.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The rule, and where it is published.
    pub(super) rule: &'static str,
    pub(super) source: &'static str,
    /// The rule says that the first setup forwards more than each of the others.
    pub(super) setups: &'static [Setup],
}

const PLAIN: Setup = Setup {
    name: "",
    front: Front::Balancer,
    carrier: Carrier::Kernel,
    back_ends: 2,
    back_end_share: None,
    balancer_share: None,
    common_share: None,
    place: ThreadPlacement::Apart,
    nice: [0, 0],
    filters: false,
    link_part: None,
};

/// A back-end's part of a CPU in `scaling` is what the user asks for.
const SCALED: Setup = Setup { filters: true, ..PLAIN };

const FIFTH: Option<f64> = Some(0.2);

/// One back-end, all threads wherever the scheduler puts them.
const CARRIED: Setup = Setup { back_ends: 1, place: ThreadPlacement::Free, ..PLAIN };

pub(super) const CASES: [Case; 9] = [
    Case {
        name: "scaling",
        about: "1 to 4 back-ends, each with the same share of a CPU",
        rule: "throughput grows almost linearly with the back-ends",
        source: "Li 2012, section 1.2",
        setups: &[
            Setup { name: "1", back_ends: 1, ..SCALED },
            Setup { name: "2", back_ends: 2, ..SCALED },
            Setup { name: "3", back_ends: 3, ..SCALED },
            Setup { name: "4", back_ends: 4, ..SCALED },
        ],
    },
    Case {
        name: "balancers",
        about: "0.6 of a CPU for a balancer and two back-ends, divided in three ways",
        rule: "assign more resources to the balancers",
        source: "Li 2012, section 3.4.1",
        setups: &[
            Setup {
                name: "balancer 0.4, back-ends 0.1",
                balancer_share: Some(0.4),
                back_end_share: Some(0.1),
                ..PLAIN
            },
            Setup { name: "all 0.2", balancer_share: FIFTH, back_end_share: FIFTH, ..PLAIN },
            Setup {
                name: "balancer 0.1, back-ends 0.25",
                balancer_share: Some(0.1),
                back_end_share: Some(0.25),
                ..PLAIN
            },
        ],
    },
    Case {
        name: "isolation",
        about: "separate shares on separate CPUs, or one share of the same sum on one CPU",
        rule: "isolation of virtual resources leads to better throughput",
        source: "Li 2012, section 3.4.1",
        setups: &[
            Setup { name: "own", balancer_share: Some(0.3), back_end_share: Some(0.15), ..PLAIN },
            Setup {
                name: "common",
                common_share: Some(0.6),
                place: ThreadPlacement::Together,
                ..PLAIN
            },
        ],
    },
    Case {
        name: "links",
        about: "two back-ends behind links that carry all packets, or half of them",
        rule: "bottlenecks among servers limit performance",
        source: "Li 2012, section 3.4.1",
        setups: &[
            Setup { name: "wide", filters: true, back_end_share: FIFTH, ..PLAIN },
            Setup {
                name: "narrow",
                filters: true,
                back_end_share: FIFTH,
                link_part: Some(0.5),
                ..PLAIN
            },
        ],
    },
    Case {
        name: "binding",
        about: "busy threads bound to CPUs, or left to the scheduler",
        rule: "bind each busy thread to a core",
        source: "Li 2012, section 4.3",
        setups: &[
            Setup { name: "bound", filters: true, ..PLAIN },
            Setup { name: "unbound", filters: true, place: ThreadPlacement::Free, ..PLAIN },
        ],
    },
    Case {
        name: "priority",
        about: "the thread that moves packets and the one that forwards them on one CPU, with \
            equal or different priority",
        rule: "equal priority of vcpu and vhost",
        source: "Li 2012, section 4.5.1",
        setups: &[
            Setup { name: "equal", back_ends: 1, place: ThreadPlacement::Together, ..PLAIN },
            Setup {
                name: "mover first",
                back_ends: 1,
                place: ThreadPlacement::Together,
                nice: [-10, 0],
                ..PLAIN
            },
            Setup {
                name: "forwarder first",
                back_ends: 1,
                place: ThreadPlacement::Together,
                nice: [0, -10],
                ..PLAIN
            },
        ],
    },
    Case {
        name: "small-routers",
        about: "0.4 of a CPU for one back-end, two or four",
        rule: "more small routers beat one big one",
        source: "Li 2012, section 4.5.2",
        setups: &[
            Setup {
                name: "4 x 0.1",
                back_ends: 4,
                filters: true,
                back_end_share: Some(0.1),
                ..PLAIN
            },
            Setup { name: "2 x 0.2", filters: true, back_end_share: FIFTH, ..PLAIN },
            Setup {
                name: "1 x 0.4",
                back_ends: 1,
                filters: true,
                back_end_share: Some(0.4),
                ..PLAIN
            },
        ],
    },
    Case {
        name: "front",
        about: "identical copies behind the queues of one interface, or back-ends behind a balancer",
        rule: "parallel virtual routers forward more than a multistage router",
        source: "Li 2012, section 4.5.3",
        setups: &[
            Setup { name: "queues", front: Front::Queues, ..PLAIN },
            Setup { name: "balancer", ..PLAIN },
        ],
    },
    Case {
        name: "guests",
        about: "one back-end: the kernel in a namespace, a worker there, or a virtual machine",
        rule: "a virtual router is limited by the thread that moves its packets",
        source: "Li 2012, section 4.3",
        setups: &[
            Setup { name: "namespace", ..CARRIED },
            Setup { name: "namespace, AF_XDP worker", carrier: Carrier::Worker, ..CARRIED },
            Setup { name: "guest, tap", carrier: Carrier::Tap, ..CARRIED },
            Setup { name: "guest, vhost", carrier: Carrier::Vhost, ..CARRIED },
            Setup { name: "guest, AF_XDP", carrier: Carrier::AfXdp, ..CARRIED },
        ],
    },
];

impl Setup {
    /// The most back-ends that any setup has.
    pub(super) const BACK_ENDS_MAX: usize = 4;
}
