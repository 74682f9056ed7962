//! Virtual routers on few cores, by the placement planner's model (Li 2012, "Energy saving and virtualization
//! technologies in switching", chapters 3 and 4).

use ebb_report::{
    Claim, Column, Context, ExperimentError, Figure, Findings, Note, Report, Table, claims,
};

use crate::placement::{Balancing, Costs, Layout, Link, Machine, Placed, PlacementProblem, place};

const SHARING: &str = "Li 2012, sections 3.3.1 and 3.3.2";
const FAIRNESS: &str = "Li 2012, section 3.3.2 and table 3.1";
const MAPPING: &str = "Li 2012, section 3.4.1 and table 3.2";
const AFFINITY: &str = "Li 2012, section 3.4.2";
const XEN: &str = "Li 2012, section 3.3";
const KVM: &str = "Li 2012, sections 4.3 and 4.5";

/// What one virtual balancer, or one virtual router, passes alone on its server, kpps (section 3.3).
const ALONE_KPPS: f64 = 600.0;
/// What two balancers, or four routers, pass together on one.
const CROWDED_KPPS: f64 = 250.0;

const CLAIMS: &[Claim] = &claims! {
    ["li2012-virtual.s3.3", SHARING]
    calibrated "lb1" "one balancer on a server", 600.0, "kpps", within(6.0);
    calibrated "lb2" "two balancers on a server", 250.0, "kpps", within(2.5);
    calibrated "br4" "four routers on a server", 250.0, "kpps", within(2.5);
    implied "br2" "two routers over two balancers on a server",
        1.0, "", at_least(),
        reading("the performance drop in the routing case is less than in the LB case");
    ["li2012-virtual.s3.3", XEN]
    implied "xen" "10 kpps of 64 bytes", 5.0, "Mbps", within(0.5);
    ["li2012-virtual.tab3.1", FAIRNESS]
    // The section prints both the shares and what they come to: "only 63.15 Mbps (341.25 Mbps) have been received".
    implied "flow1" "42.1 % of 150 Mbps", 63.15, "Mbps", within(0.005);
    implied "flow2" "97.5 % of 350 Mbps", 341.25, "Mbps", within(0.005);
    predicted "low" "flows of 0.1 and 0.9 of full load: what comes of the small one",
        13.3, "%", within(3.0);
    predicted "high" "and of the large one", 42.9, "%", within(3.0);
    ["li2012-virtual.fig3.11", MAPPING]
    predicted "d" "D.1 over D.2, 64 bytes",
        1.0, "", at_least(), reading("D.1 provides better performance than D.2");
    implied "c" "C.2 over C.1, 64 bytes",
        1.0, "", within(0.05), reading("very similar regardless of the physical bottleneck");
    implied "b" "B.2 over B.1, 64 bytes",
        1.0, "", within(0.05),
        reading("the difference is negligible when receiving small packets");
    predicted "best" "D.1 over the best of B to D, 64 bytes",
        1.0, "", at_least(), reading("D.1 is the best with small packets and large load");
    ["li2012-virtual.s3.4", AFFINITY]
    implied "affinity" "from 150 to 200 kpps by dedicated cores", 25.0, "%", within(1.0);
    ["li2012-virtual.fig4", KVM]
    calibrated "1.one" "one router on four cores", 900.0, "kpps", within(9.0);
    calibrated "4.most" "parallel routers on four cores, the most", 1200.0, "kpps", within(12.0);
    implied "4.two" "two parallel routers on four cores", 1100.0, "kpps", at_least();
    implied "4.more" "four parallel routers over three",
        1.0, "", within(0.1), reading("performance do not improve");
    ["li2012-virtual.fig4", KVM]
    calibrated "5.a" "multistage router on two cores, case A", 240.0, "kpps", within(2.4);
    predicted "5.b" "multistage router on two cores, case B", 180.0, "kpps", within(18.0);
    calibrated "5.none" "multistage router on two cores, not bound", 140.0, "kpps", within(1.4);
    predicted "5.pvr" "multistage router over parallel routers, four cores",
        1.0, "", at_most(),
        reading("the PVR architecture is able to better exploit the computational power");
    predicted "3.equal" "equal priority of vcpu and vhost over the best other",
        1.0, "", at_least(),
        reading("The best results are obtained when assigning the same priority");
};

/// Nanoseconds for a packet at so many kpps.
fn ns(kpps: f64) -> f64 {
    1e6 / kpps
}

/// A share by which each further thread slows all down, so that `many` pass what is published instead of
/// what one alone does.
fn contention(many: f64) -> f64 {
    (ALONE_KPPS / CROWDED_KPPS - 1.0) / (many - 1.0)
}

/// What so many pass together on one server.
fn crowded_kpps(contention: f64, many: f64) -> f64 {
    ALONE_KPPS / (1.0 + contention * (many - 1.0))
}

/// Table 3.2 on servers that share their cores among all virtual machines.
fn mapping(link_mbps: f64) -> PlacementProblem {
    let server = |name: &str| Machine { name: name.to_owned(), cores: vec![1] };
    PlacementProblem {
        machine: vec![server("s1"), server("s2")],
        link: vec![Link { between: ["s1".to_owned(), "s2".to_owned()], mbps: link_mbps }],
        balancers: 2,
        back_ends: Some(2),
        packet_bytes: 84.0,
        costs: Costs {
            balancer_ns: ns(ALONE_KPPS),
            back_end_ns: ns(ALONE_KPPS),
            mover_ns: 0.0,
            remote_ns: 0.0,
            contention: contention(4.0),
            migration: 0.0,
        },
        bench: None,
    }
}

/// Servers of the two balancers and the two back-ends, by scenario of table 3.2.
const SCENARIOS: [(&str, [usize; 4], Balancing, f64); 6] = [
    ("B.1", [0, 1, 0, 1], Balancing::Uniform, 1000.0),
    ("B.2", [0, 1, 0, 1], Balancing::Local, 1000.0),
    ("C.1", [0, 0, 1, 1], Balancing::Uniform, 1000.0),
    ("C.2", [0, 0, 1, 1], Balancing::Uniform, 2000.0),
    ("D.1", [0, 1, 0, 0], Balancing::Uniform, 1000.0),
    ("D.2", [0, 0, 0, 1], Balancing::Uniform, 1000.0),
];

/// Chapter 4's server: what moves packets is fitted to one router's rate, the rest to the most that several
/// reach; a vcpu takes no more than what moves for it, since that is what ends one router.
fn kvm(back_ends: u32) -> PlacementProblem {
    let mover = ns(900.0);
    let rest = 4.0 * ns(1200.0) - mover;
    PlacementProblem {
        machine: vec![Machine { name: "server".to_owned(), cores: vec![4] }],
        link: Vec::new(),
        balancers: 2,
        back_ends: Some(back_ends),
        packet_bytes: 84.0,
        costs: Costs {
            // The host's interrupts, on both of a packet's ways.
            balancer_ns: (rest - mover) / 2.0,
            back_end_ns: mover,
            mover_ns: mover,
            remote_ns: 0.0,
            contention: 0.0,
            migration: 0.0,
        },
        bench: None,
    }
}

/// Of Click in a balancer, each time a packet passes: the physical balancer's 1 Mpps (section 3.3.1).
const CLICK_NS: f64 = 1000.0;

/// The multistage router's threads (section 4.5.3): vhost of each of a balancer's two interfaces and of the
/// router's one, vcpu of the router, vcpu of the balancer.
const MULTISTAGE: fn() -> [f64; 3] = || [ns(900.0), ns(900.0), 2.0 * CLICK_NS];

/// Figures 3.4 to 3.14, 4.1 to 4.5, tables 3.1 and 3.2.
pub(super) static VIRTUAL_FORM: Figure = Figure {
    id: "li2012-virtual.chapters3-4",
    title: "Balancers and routers that share servers and cores",
    claims: CLAIMS,
    run: virtual_form,
};

fn virtual_form(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let report = Report::new(VIRTUAL_FORM.title);
    let findings = chapter4(chapter3(Findings::new(report)), context)?;
    Ok(findings)
}

const ESX: &str = "the sum of what one hypervisor's machines do to each other is fitted as a share for each \
                   further one";
const FREE: &str = "packets that cross the link cost the servers nothing here, and the link carries more than the \
                    servers pass, so that the two cannot differ";
const FIFO: &str = "a server whose queue takes packets as they come serves all flows the same part: what is \
                    published is less fair than any such queue, the source blames the hypervisor; parts of \
                    a CPU of their own (`ebb cluster bench isolation`) are the remedy";

fn chapter3(findings: Findings) -> Findings {
    let (lb, br) = (contention(2.0), contention(4.0));
    let kpps = |at: usize| {
        let (_, servers, balancing, link) = &SCENARIOS[at];
        Layout::new(&mapping(*link), 2).judged(servers, *balancing).pps / 1e3
    };
    let mut table = Table::new(
        "Scenarios of table 3.2, 64 bytes",
        [Column::text("scenario"), Column::number("throughput", "kpps", 1)],
    );
    for (at, (name, ..)) in SCENARIOS.iter().enumerate() {
        table.row([(*name).into(), kpps(at).into()]);
    }
    let [b1, b2, c1, c2, d1, d2] = [0, 1, 2, 3, 4, 5].map(kpps);
    let best = [b1, b2, c1, c2, d2].into_iter().fold(0.0, f64::max);
    // The half of the load that the table's first row passes of two equal flows, for all flows alike.
    let passed = (37.6 + 39.2) / 2.0;
    let mut findings = findings;
    findings.report = std::mem::take(&mut findings.report).table(table);
    findings
        .found("li2012-virtual.s3.3.lb1", crowded_kpps(lb, 1.0), ESX)
        .found("li2012-virtual.s3.3.lb2", crowded_kpps(lb, 2.0), ESX)
        .found("li2012-virtual.s3.3.br4", crowded_kpps(br, 4.0), ESX)
        .found("li2012-virtual.s3.3.br2", crowded_kpps(br, 2.0) / crowded_kpps(lb, 2.0), ESX)
        .found("li2012-virtual.s3.3.xen", 10e3 * 64.0 * 8.0 / 1e6, "")
        .found("li2012-virtual.tab3.1.flow1", 0.421 * 150.0, "")
        .found("li2012-virtual.tab3.1.flow2", 0.975 * 350.0, "")
        .found("li2012-virtual.tab3.1.low", passed, Note::verdict("", FIFO))
        .found("li2012-virtual.tab3.1.high", passed, Note::verdict("", FIFO))
        .found("li2012-virtual.fig3.11.d", d1 / d2, ESX)
        .found("li2012-virtual.fig3.11.c", c2 / c1, FREE)
        .found("li2012-virtual.fig3.11.b", b2 / b1, FREE)
        .found("li2012-virtual.fig3.11.best", d1 / best, Note::verdict(ESX, ALONE))
        .found(
            "li2012-virtual.s3.4.affinity",
            100.0 * (200.0 / 150.0 - 1.0),
            "150 to 200 kpps are 33 % more; 25 % is what sharing loses of the 200",
        )
}

const ALONE: &str = "with every further machine costing the same, two on each server are better than three \
                     on one; the source's balancer suffers more from company than its router, by an \
                     amount that figure 3.11 shows and no number says";

fn chapter4(findings: Findings, context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let mut kpps = Vec::new();
    let mut table = Table::new(
        "Parallel routers on four cores",
        [
            Column::count("routers"),
            Column::number("bound", "kpps", 0),
            Column::number("not bound", "kpps", 0),
        ],
    );
    for routers in 1..=4 {
        let problem = kvm(routers);
        let placed: Placed<'_> =
            place(&problem, context.progress).map_err(ExperimentError::from_error)?;
        let free = placed.layout.unbound_pps(&placed.cores, Balancing::Uniform) / 1e3;
        let bound = placed.outcome.pps / 1e3;
        table.row([u64::from(routers).into(), bound.into(), free.into()]);
        kpps.push((bound, free));
    }
    let better = |at: usize| f64::max(kpps[at].0, kpps[at].1);
    let most = (0..4).map(better).fold(0.0, f64::max);
    let [mover, vcpu, click] = MULTISTAGE();
    // Case A: all three vhost threads on one core. Case B: the balancer's two with the router's vcpu.
    let three = 3.0 * mover;
    let slower = (ns(240.0) / three - 1.0) / 2.0;
    let crowd = |time: f64, threads: f64| 1e6 / (time * (1.0 + slower * (threads - 1.0)));
    let (case_a, case_b) = (
        crowd(three, 3.0).min(crowd(vcpu + click, 2.0)),
        crowd(2.0 * mover + vcpu, 3.0).min(crowd(click + mover, 2.0)),
    );
    let free = 1e6 * 2.0 / (three + vcpu + click);
    let migration = 1.0 - 140.0 / free;
    let multistage = 1e6 / f64::max((three + vcpu + click) / 4.0, click);
    let mut findings = findings;
    findings.report = std::mem::take(&mut findings.report).table(table);
    Ok(findings
        .found("li2012-virtual.fig4.1.one", kpps[0].0, FITTED)
        .found("li2012-virtual.fig4.4.most", most, FITTED)
        .found("li2012-virtual.fig4.4.two", better(1), FITTED)
        .found("li2012-virtual.fig4.4.more", better(3) / better(2), FITTED)
        .found("li2012-virtual.fig4.5.a", case_a, CROWD)
        .found("li2012-virtual.fig4.5.b", case_b, Note::verdict(CROWD, CASE_B))
        .found("li2012-virtual.fig4.5.none", free * (1.0 - migration), CROWD)
        .found(
            "li2012-virtual.fig4.5.pvr",
            multistage / most,
            "Click's time from the physical balancer of chapter 3",
        )
        .absent(
            "li2012-virtual.fig4.3.equal",
            "priorities are not modelled: they are measured by `ebb cluster bench priority`",
        ))
}

const FITTED: &str = "vhost is fitted to one router's rate, the host's interrupts to the most that several reach; \
                      the better of bound and not bound";
const CROWD: &str = "what threads on a core do to each other is fitted to case A, what the scheduler takes to the \
                     router that is not bound";
const CASE_B: &str = "three threads of the same kind of work take a core in both cases; the source gives neither the \
                      vcpu's time nor where interrupts ran";
