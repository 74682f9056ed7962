//! The XDP programs, run by the kernel on single frames.

use super::*;
use crate::afxdp::KernelPolicy;
use crate::afxdp::connections;
use crate::afxdp::functions;
use crate::afxdp::test_run::TestRun;
use crate::samples::{self, udp4, udp6};
use ebb_wire::redirect_hash;

/// What the object's program returns for a frame.
fn run(program: &OwnedFd, frame: &[u8]) -> u32 {
    let mut out = [0u8; 2048];
    let mut run = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_size_out: out.len() as u32,
        data_in: frame.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    run.run().unwrap();
    run.retval
}

/// The object for one worker of an interface, and one of its programs; `None` where that is not permitted.
fn loaded(name: &str) -> Option<(Program, OwnedFd)> {
    samples::privileged("load BPF programs")?;
    let (mut steer, _sockets, _table) = Program::load(Form::Rss, 1, 1, false).unwrap();
    steer.set_macs(&[[2, 0, 0, 0, 0, 1]]).unwrap();
    let program = program(&mut steer.ebpf, name);
    if program.fd().is_err() {
        program.load().unwrap();
    }
    let fd = program.fd().unwrap().as_fd().try_clone_to_owned().unwrap();
    Some((steer, fd))
}

/// Packets with options are the kernel's, or, where nobody else forwards them, a worker's like others.
#[test]
fn options_reach_workers_where_they_are_to() {
    let Some(()) = samples::privileged("load BPF programs") else { return };
    let mut with4 = udp4(1, 2);
    with4.splice(34..34, [1, 1, 1, 1]);
    (with4[14], with4[17]) = (0x46, with4[17] + 4);
    let mut with6 = udp6(1, 2);
    with6[20] = 0;
    for (ip_options, hashed) in [(false, false), (true, true)] {
        let (mut steer, _sockets, _table) =
            Program::load_for(Form::Rss, (1, 1), 1, (false, ip_options, false), (None, None))
                .unwrap();
        steer.set_macs(&[[2, 0, 0, 0, 0, 1]]).unwrap();
        let hash = program(&mut steer.ebpf, "hash_of");
        hash.load().unwrap();
        let fd = hash.fd().unwrap().as_fd().try_clone_to_owned().unwrap();
        for frame in [&with4, &with6] {
            assert_eq!(run(&fd, frame) != 0, hashed, "ip_options = {ip_options}");
        }
    }
}

/// What the router keeps after its start: the verifier judges by it, and root's tests would not see.
#[test]
fn the_verifier_takes_the_program_with_no_more_than_a_router_has() {
    let Some(()) = samples::privileged("load BPF programs") else { return };
    let loaded = std::thread::spawn(|| {
        use Capability::{CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW};
        use caps::{CapSet, Capability};
        let kept = [CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF];
        caps::set(None, CapSet::Effective, &kept.into()).expect("fewer capabilities");
        let flows = Arc::new(KernelFlows::create(16).expect("tables of flows"));
        let counted = Some(&flows);
        for (form, workers, flows) in [
            (Form::Rss, 1, None),
            (Form::Steer, 1, None),
            (Form::Steer, 2, None),
            (Form::Steer, 64, None),
            (Form::Steer, 2, counted),
        ] {
            let (sockets, flags) = ((workers, 1), (false, false, false));
            let loaded = Program::load_for(form, sockets, workers, flags, (None, flows));
            let (mut program, _sockets, _table) =
                loaded.unwrap_or_else(|error| panic!("{form:?} for {workers} workers: {error}"));
            for name in [WHOLE, PIECES, IN_DRIVER] {
                let loaded = super::program(&mut program.ebpf, name).load();
                if let Err(error) = loaded
                    && program.xdp(name).is_none()
                {
                    panic!("{name} for {workers} workers: {}", chain(&error));
                }
            }
            for name in [FORWARD, FORWARD_TAGGED, "explain"] {
                let forward = program.classifier(name);
                forward.unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
            }
        }
    });
    loaded.join().expect("loaded");
}

/// Instructions that a verifier follows at most: kernels give up at 1,000,000, and some follow more ways than others.
const VERIFIED_MAX: u32 = 800_000;

/// How many it followed; kernels before 5.16 do not say.
fn verified(program: &OwnedFd) -> Option<u32> {
    let said =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("verified_insns:"))?;
    line.trim().parse().ok()
}

/// With what a router keeps, and CAP_PERFMON, which it keeps for this.
#[test]
fn the_verifier_takes_the_program_that_knows_connections() {
    let Some(()) = samples::privileged("load BPF programs") else { return };
    let loaded = std::thread::spawn(|| {
        use Capability::{CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON};
        use caps::{CapSet, Capability};
        super::super::find_modules(None);
        let kept = [CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON];
        caps::set(None, CapSet::Effective, &kept.into()).expect("fewer capabilities");
        let flows = Arc::new(KernelFlows::create(16).expect("tables of flows"));
        let load = |flows| {
            let flags = (false, false, false);
            let loaded = Program::load_for(Form::Steer, (2, 1), 2, flags, (None, flows));
            loaded.expect("loaded").0
        };
        let programs = [load(None), load(Some(&flows))];
        let names = [
            connections::PLAIN,
            connections::TAGGED,
            connections::EXPLAIN,
            connections::EXPLAIN_TAGGED,
        ];
        let names = || [connections::DECISION].into_iter().chain(names);
        let all = programs.iter().flat_map(|program| names().map(move |name| (program, name)));
        for (program, name) in all {
            let loaded = connections::load(program.object, &program.maps, name);
            if let Err(error) = &loaded
                && error.kind() == io::ErrorKind::ArgumentListTooLong
                && name.starts_with("explain")
                && !functions::casts()
            {
                println!("{name}: more than Linux 6.1 follows; `explain` says so");
                continue;
            }
            let loaded = loaded?;
            let steps = verified(&loaded);
            let counts = std::ptr::eq(program.object, loader::object(true));
            println!("{name}: {steps:?} instructions verified, counting flows: {counts}");
            assert!(steps.is_none_or(|steps| steps < VERIFIED_MAX), "{name}: {steps:?}");
        }
        Ok::<(), io::Error>(())
    });
    match loaded.join().expect("no panic") {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            println!("skipped: this kernel has no look-up of connections");
        }
        loaded => loaded.unwrap_or_else(|error| panic!("{error}")),
    }
}

#[test]
fn the_program_computes_the_same_hash() {
    let Some(()) = samples::privileged("load BPF programs") else { return };
    let (mut ebpf, program) = load_helper("hash_of").unwrap();
    let mut macs: Array<MapData, Macs> = map(&mut ebpf, ".data.macs");
    let mut mac = [0; MACS_MAX];
    mac[0] = u64::from_le_bytes([2, 0, 0, 0, 0, 1, 0, 0]);
    macs.set(0, Macs { count: 1, mac }, 0).unwrap();
    for flow in 0..500 {
        for mut frame in [udp4(flow * 77, flow), udp6(flow * 77, flow)] {
            assert_eq!(run(&program, &frame), redirect_hash(&frame));
            let mut tagged = frame[..12].to_vec();
            tagged.extend([0x81, 0, 0, 5]);
            tagged.extend(&frame[12..]);
            assert_eq!(run(&program, &tagged), redirect_hash(&frame));
            frame[20] = 0x20;
            frame[23] = 6;
            assert_eq!(run(&program, &frame), redirect_hash(&frame));
        }
    }
    let short = &udp4(1, 1)[..34 + 3];
    assert_eq!(run(&program, short), redirect_hash(short));
    let mut stranger = udp4(1, 1);
    stranger[5] = 9;
    assert_eq!(run(&program, &stranger), 0, "a frame for another station is not routed");
}

#[test]
fn frames_to_any_of_its_addresses_are_for_the_interface() {
    let Some(()) = samples::privileged("load BPF programs") else { return };
    let (mut ebpf, fd) = load_helper("hash_of").unwrap();
    let mut macs: Array<MapData, Macs> = map(&mut ebpf, ".data.macs");
    let number = |last: u8| u64::from_le_bytes([2, 0, 0, 0, 0, last, 0, 0]);
    let sixteen: [u64; MACS_MAX] = std::array::from_fn(|at| number(at as u8));
    let taken = |to: [u8; 6]| {
        let mut frame = udp4(1, 1);
        frame[..6].copy_from_slice(&to);
        run(&fd, &frame) != 0
    };
    for count in [0, 1, 2, MACS_MAX as u64, u64::MAX] {
        let mut mac = sixteen;
        mac.iter_mut().skip(count.min(MACS_MAX as u64) as usize).for_each(|mac| *mac = 0);
        let mac = if count == u64::MAX { [0; MACS_MAX] } else { mac };
        macs.set(0, Macs { count, mac }, 0).unwrap();
        for last in [0, 1, 2, 15, 16] {
            let its = count == u64::MAX || u64::from(last) < count;
            assert_eq!(taken([2, 0, 0, 0, 0, last]), its, "{last} of {count}");
        }
        assert_eq!(taken([0; 6]), count == u64::MAX, "no address, {count}");
        assert!(!taken([1, 0, 0, 0, 0, 0]), "a group, {count}");
    }
}

#[test]
fn frames_of_vlans_that_are_not_served_are_left_to_the_kernel() {
    let Some((mut steer, fd)) = loaded("hash_of") else { return };
    let plain = udp4(1, 1);
    let tagged = |tags: &[u8]| [&plain[..12], tags, &plain[12..]].concat();
    let frames = [
        plain.clone(),
        tagged(&[0x81, 0, 0xe0, 0]),
        tagged(&[0x81, 0, 0x60, 7]),
        tagged(&[0x81, 0, 0x0f, 0xff]),
        tagged(&[0x88, 0xa8, 0, 7]),
        tagged(&[0x81, 0, 0, 7, 0x81, 0, 0, 7]),
    ];
    let taken = || frames.each_ref().map(|frame| run(&fd, frame) != 0);
    assert_eq!(taken(), [true; 6], "at first all are");
    for (vlans, expected) in [
        (&[][..], [true, true, false, false, false, false]),
        (&[7], [true, true, true, false, false, false]),
        (&[4095, 8], [true, true, false, true, false, false]),
    ] {
        steer.set_vlans(vlans).unwrap();
        assert_eq!(taken(), expected, "{vlans:?}");
    }
}

#[test]
fn routes_of_the_kernel_are_left_to_it_but_for_what_is_the_workers_inside() {
    let Some((mut steer, fd)) = loaded("hash_of") else { return };
    let (four, six) = (udp4(1, 1), udp6(1, 1));
    let to4 = IpAddr::from(<[u8; 4]>::try_from(&four[30..34]).unwrap());
    let to6 = IpAddr::from(<[u8; 16]>::try_from(&six[38..54]).unwrap());
    let any = |address: IpAddr| match address {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    for (frame, to, max) in [(&four, to4, 32), (&six, to6, 128)] {
        for (routes, for_worker) in [
            (vec![], true),
            (vec![(any(to), 0, true)], false),
            (vec![(any(to), 0, true), (to, max, false)], true),
            (vec![(any(to), 0, false), (to, max, true)], false),
            (vec![(to, max, false)], true),
            (vec![], true),
        ] {
            steer.set_kernel_routes(&routes).unwrap();
            // What the workers do not get is not hashed.
            assert_eq!(run(&fd, frame) != 0, for_worker, "{routes:?}");
            let mut policy = KernelPolicy::default();
            policy.leave_vlan(false, 77, 1);
            steer.set_policy(&policy).unwrap();
            assert_eq!(run(&fd, frame) != 0, for_worker, "with another policy, {routes:?}");
            steer.set_policy(&KernelPolicy::default()).unwrap();
        }
    }
}

#[test]
fn packets_from_the_routers_own_addresses_are_the_kernels() {
    let Some((mut steer, fd)) = loaded("hash_of") else { return };
    // What the workers do not get is not hashed.
    let taken = |frame: &[u8]| run(&fd, frame) != 0;
    let (four, six) = (udp4(1, 1), udp6(1, 1));
    let from4 = IpAddr::from(<[u8; 4]>::try_from(&four[26..30]).unwrap());
    let from6 = IpAddr::from(<[u8; 16]>::try_from(&six[22..38]).unwrap());
    assert!(taken(&four) && taken(&six));
    steer.set_local_addresses(&[from4, from6]).unwrap();
    // IPv6 has no such check, in Linux either.
    assert!(!taken(&four) && taken(&six));
    steer.set_local_addresses(&[]).unwrap();
    for at in [26, 30] {
        let mut loopback = four.clone();
        loopback[at] = 127;
        assert!(!taken(&loopback), "loopback at byte {at}");
    }
    assert!(taken(&four));
}

#[test]
fn what_a_policy_concerns_is_the_kernels_and_counted() {
    use super::super::policy::Side;
    let Some((mut steer, fd)) = loaded("steer") else { return };
    let tagged =
        |vlan: u8, frame: &[u8]| [&frame[..12], &[0x81, 0, 0, vlan], &frame[12..]].concat();
    let address = |bytes: &[u8]| IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap());
    let (four, six) = (udp4(1, 1), udp6(1, 1));
    // Each frame with the reason that each policy gives it.
    let frames = [four.clone(), tagged(5, &four), six.clone(), tagged(5, &six)];
    let mut cases = vec![(KernelPolicy::default(), [0, 0, 0, 0])];
    let mut case = |make: &dyn Fn(&mut KernelPolicy), reasons| {
        let mut policy = KernelPolicy::default();
        make(&mut policy);
        cases.push((policy, reasons));
    };
    case(&|p| p.leave_all(false, 3), [3, 3, 0, 0]);
    case(&|p| p.leave_all(true, 4), [0, 0, 4, 4]);
    case(&|p| p.leave_vlan(false, 5, 1), [0, 1, 0, 0]);
    case(&|p| p.leave_vlan(true, 0, 7), [0, 0, 7, 0]);
    case(&|p| p.leave_prefix(Side::Source, address(&four[26..30]), 24, 2), [2, 2, 0, 0]);
    case(&|p| p.leave_prefix(Side::Destination, address(&four[30..34]), 32, 2), [2, 2, 0, 0]);
    case(&|p| p.leave_prefix(Side::Destination, address(&[1, 2, 3, 4]), 32, 2), [0, 0, 0, 0]);
    let source6 = IpAddr::from(<[u8; 16]>::try_from(&six[22..38]).unwrap());
    case(&|p| p.leave_prefix(Side::Source, source6, 64, 5), [0, 0, 5, 5]);
    case(&|p| p.leave_prefix(Side::Destination, source6, 128, 5), [0, 0, 0, 0]);
    case(&|_| (), [0, 0, 0, 0]);
    for (policy, reasons) in cases {
        steer.set_policy(&policy).unwrap();
        for (frame, reason) in frames.iter().zip(reasons) {
            let before = steer.counters().unwrap();
            run(&fd, frame);
            let mut wanted = before.passed_for;
            if reason > 0 {
                wanted[reason] += 1;
            }
            assert_eq!(steer.counters().unwrap().passed_for, wanted, "{policy:?}");
        }
    }
}

/// Also where the policy leaves nothing to the kernel.
#[test]
fn what_has_changed_that_nobody_judged_is_the_kernels() {
    use super::super::announced::pretend;
    use super::super::policy::UNHELD;
    let Some((mut steer, fd)) = loaded("steer") else { return };
    let mut some = KernelPolicy::default();
    some.leave_vlan(false, 5, 1);
    for policy in [KernelPolicy::default(), some] {
        steer.set_policy(&policy).unwrap();
        for (changes, judged) in [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (3, 2), (4, 4)] {
            pretend(changes, judged);
            for frame in [udp4(1, 1), udp6(1, 1)] {
                let before = steer.counters().unwrap().passed_for[usize::from(UNHELD)];
                run(&fd, &frame);
                let left = steer.counters().unwrap().passed_for[usize::from(UNHELD)] - before;
                assert_eq!(left, u64::from(changes != judged), "{changes} {judged} {policy:?}");
            }
        }
    }
}

#[test]
fn a_policy_that_does_not_fit_leaves_everything_to_the_kernel() {
    use super::super::policy::{PREFIXES_MAX, Side, UNHELD};
    let Some((mut steer, fd)) = loaded("steer") else { return };
    let mut policy = KernelPolicy::default();
    let leave = |numbers: std::ops::Range<u32>, policy: &mut KernelPolicy| {
        for number in numbers {
            policy.leave_prefix(Side::Source, IpAddr::from(number.to_be_bytes()), 32, 3);
        }
    };
    leave(0..PREFIXES_MAX as u32 + 1, &mut policy);
    steer.set_policy(&policy).unwrap_err();
    for frame in [udp4(1, 1), udp6(1, 1)] {
        let before = steer.counters().unwrap().passed_for[usize::from(UNHELD)];
        run(&fd, &frame);
        assert_eq!(steer.counters().unwrap().passed_for[usize::from(UNHELD)], before + 1);
    }
    // As many as fit, beside as many others that stand there until the change is made.
    let few = PREFIXES_MAX as u32;
    for numbers in [0..few, few..2 * few] {
        policy = KernelPolicy::default();
        leave(numbers, &mut policy);
        steer.set_policy(&policy).unwrap();
    }
    let before = steer.counters().unwrap().passed_for;
    run(&fd, &udp4(1, 1));
    assert_eq!(steer.counters().unwrap().passed_for, before);
}
