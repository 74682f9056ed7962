//! Configurations that are read, and those that are refused.

use super::*;

#[test]
fn the_example_is_sound_and_faults_have_a_place() {
    let config = ClusterConfig::parse("c.toml", EXAMPLE).expect("an example");
    let topology = config.topology(&config.member[0]);
    assert_eq!((topology.balancers(), topology.probe_mac(1)), (1, [2, 0x6b, 0xb0, 0, 1, 0x10]));
    let fault = |from: &str, to: &str| {
        assert!(EXAMPLE.contains(from), "{from}");
        let text = EXAMPLE.replacen(from, to, 1);
        ClusterConfig::parse("c.toml", &text).expect_err(to).to_string()
    };
    for (from, to, said) in [
        ("name = \"differential\"", "name = \"diferential\"", "did you mean `differential`"),
        ("headroom = 0.2", "headroom = 2", "field `policy.headroom`"),
        (
            "back_end = \"r1\"",
            "back_end = \"r7\"",
            "`member[0].keep[1].back_end`: there is no back-end `r7`",
        ),
        ("inside = [\"eth2\", \"eth3\"]", "inside = [\"eth2\"]", "`member[0].balancer.inside`"),
        ("\nworkers = 1", "\nworkers = 33", "`member[0].balancer.workers`"),
        ("02:eb:b0:01:01:00", "02:eb:b0:01:01", "field `back_end[1].macs`"),
        (
            "02:eb:b0:01:01:00",
            "02:eb:b0:01:00:00",
            "field `back_end[1].macs`: 02:eb:b0:01:00:00 is used twice",
        ),
        ("probe = \"10.77.0.240\"", "probe = \"10.78.0.240\"", "field `side[0].probe`"),
        ("kind = \"embedded\"", "kind = \"etcd\"", "field `store.endpoints`"),
        ("wake = [", "wakes = [", "wakes"),
        ("bridges = [", "run = []\nbridge = [", "bridge"),
        ("how = \"command\"", "how = \"guest\"", "field `member[0].keep[1].monitor`"),
        (
            "how = \"command\"",
            "how = \"guest\"\nmonitor = \"r1.qmp\"",
            "field `member[0].keep[1].monitor`",
        ),
        ("hold_s = 60", "hold_s = -1", "field `routing.hold_s`"),
        ("# run = [\"bird\"", "run = [\"bird\"", "field `member[0].keep[1].how`"),
        (
            "[[member.keep]]",
            "[member.router]\nback_end = \"r9\"\ninterfaces = []\n[[member.keep]]",
            "field `member[0].router.back_end`: there is no back-end `r9`",
        ),
        (
            "[[member.keep]]",
            "[member.router]\nback_end = \"r1\"\ninterfaces = [\"a\"]\n[[member.keep]]",
            "field `member[0].router.interfaces`",
        ),
        ("leader = true", "leader = false", "field `member`: no member can be the leader"),
        ("[cluster]", "[cluster", "c.toml:"),
    ] {
        let said_is = fault(from, to);
        assert!(said_is.contains(said), "{to}: {said_is}");
    }
    let typo = fault("headroom = 0.2", "hedroom = 0.2");
    assert!(typo.ends_with("unknown field `hedroom`; did you mean `headroom`?"), "{typo}");
    // The name that it had up to 0.1.
    let former = EXAMPLE.replacen("leader = true", "head = true", 1);
    assert_eq!(ClusterConfig::parse("c.toml", &former).expect("accepted"), config);
    let unknown = config.member("m9").expect_err("nobody").to_string();
    assert_eq!(unknown, "field `member`: there is no member `m9`; name one with --member: m1");
}

#[test]
fn the_second_balancer_has_the_addresses_after_the_firsts() {
    let second = "\n[[member]]\nname = \"m2\"\n[member.balancer]\noutside = [\"a\", \"b\"]\ninside = [\"c\", \"d\"]\n";
    let text = EXAMPLE
        .replace("kind = \"embedded\"", "kind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]");
    let config = ClusterConfig::parse("c.toml", &(text + second)).expect("two balancers");
    let topology = config.topology(config.member("m2").expect("there"));
    assert_eq!((topology.me, topology.sides[0].macs[1]), (1, [2, 0xeb, 0xb0, 0, 0, 0x11]));
    assert_eq!(topology.probe(0), "10.77.0.241".parse::<IpAddr>().expect("one"));
    assert_eq!(config.probes().len(), 4);
    // All balancers tell one link-local address: that of the first one's Ethernet address.
    let local: IpAddr = "fe80::eb:b0ff:fe00:10".parse().expect("one");
    assert!(topology.sides[0].owns(local) && !topology.sides[1].owns(local));
    let mut side = config.side[0].clone();
    side.addresses.push("fe80::1/64".parse().expect("one"));
    assert_eq!(side.all_addresses(), side.addresses, "the file's own");
    side.addresses.truncate(1);
    assert_eq!(side.all_addresses(), side.addresses, "no IPv6");
}

/// Who carries four times as much gets four times as many flows, unless the file says otherwise for all.
#[test]
fn weights_follow_capacities_unless_all_are_given() {
    let parsed = |text: &str| ClusterConfig::parse("c.toml", text);
    let capacity = |first: &str| EXAMPLE.replacen("capacity_pps = 1e6", first, 1);
    let config = parsed(&capacity("capacity_pps = 2.5e5")).expect("an example");
    let weights: Vec<_> = config.capacities().into_values().collect();
    assert_eq!(weights, [(250_000, 2.5e5), (1_000_000, 1e6)]);
    let some = capacity("capacity_pps = 1e6\nweight = 3");
    let error = parsed(&some).expect_err("one has none").to_string();
    assert!(error.contains("back_end[1].weight") && error.contains("to none"), "{error}");
    let all = some.replace("capacity_pps = 1e6\nfull_w", "capacity_pps = 1e6\nweight = 1\nfull_w");
    let config = parsed(&all).expect("both have one");
    let weights: Vec<_> = config.capacities().into_values().map(|(weight, _)| weight).collect();
    assert_eq!(weights, [3, 1]);
}
