//! What the configuration promises: every problem named by file, line and field, all at once; the
//! example parses; a reload is a list of changes.

use ebb_routerd::config::{App, Change, Config, ConfigError, StaticTarget};
use proptest::prelude::*;
use std::path::Path;

fn problems(text: &str) -> String {
    match Config::from_str("router.toml", text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(ConfigError::Invalid(problems)) => {
            assert!(!problems.is_empty(), "refused without a reason");
            problems.iter().map(|problem| format!("{problem}\n")).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_example_parses_and_says_what_it_shows() {
    let config = Config::from_str("example.toml", Config::example()).unwrap();
    assert_eq!(config.ports.len(), 2);
    assert_eq!(config.routes.len(), 3);
    assert_eq!(config.device("eth2.100"), Some((1, 100)));
    assert_eq!(config.device("eth2.101"), None);
    let StaticTarget::Via(hops) = &config.routes[1].target else { panic!("two gateways") };
    assert_eq!((hops[0].device.as_str(), hops[0].weight), ("eth1", 1));
    assert_eq!((hops[1].device.as_str(), hops[1].weight), ("eth2", 2));
}

#[test]
fn the_defaults_are_those_of_the_example() {
    let example = Config::from_str("example.toml", Config::example()).unwrap();
    let short = Config::from_str("short.toml", "[[port]]\nname = \"eth1\"\n").unwrap();
    assert_eq!(short.powersave, example.powersave);
    assert_eq!(short.governor, example.governor);
    assert_eq!(short.limits, example.limits);
    assert_eq!(short.status, example.status);
    assert_eq!(short.router.mode, example.router.mode);
    assert_eq!(short.ports[0].ring, example.ports[0].ring);
}

#[test]
fn every_problem_is_named_at_once() {
    let text = r#"[router]
workers = 0
cpus = [0, 0]
mode = "turbo"
redirect = "hash"
speed = 3

[powersave]
queue_high = 4
queue_low = 5

[[port]]
name = "an interface"
ring = 1000
mtu = 9000
mac = "01:00:5e:00:00:01"
address = ["10.0.0.1", "10.0.0.1/24", "224.0.0.1/4"]

[[port]]
name = "eth1"
zero_copy = true
address = ["10.0.0.1/16"]
vlan = [{ id = 5000 }, { id = 7 }, { id = 7 }]

[[port]]
name = "eth1"

[[port]]
queues = "two"

[[route]]
to = "10.1.0.1/16"
via = "10.0.0.2"

[[route]]
to = "10.2.0.0/16"
via = ["10.0.0.2", "172.16.0.1", { gateway = "x", wait = 1 }]

[[route]]
to = "2001:db8::/32"
via = "10.0.0.2"

[[route]]
to = "10.3.0.0/16"

[[route]]
to = "10.4.0.0/16"
kind = "void"
dev = "eth9"

[[neighbour]]
address = "192.0.2.1"
mac = "02:00:00:00:00"

[limits]
icmp_rate_pps = -1

[metrics]
listen = "localhost"

[statistics]
"#;
    insta::assert_snapshot!(problems(text));
}

#[test]
fn syntax_and_types() {
    let cases = [
        "",
        "[[port]\nname = \"eth1\"\n",
        "[[port]]\nname = eth1\n[router]\nmode = \"napi\n",
        "port = 3\n",
        "[port]\nname = \"eth1\"\n",
        "router = []\n[[port]]\nname = \"eth1\"\n",
        "[[port]]\nname = \"eth1\"\nname = \"eth2\"\n",
        "[[port]]\nname = \"eth1\"\nring = 99999999999999999999\n",
        "[[port]]\nname = \"eth1\"\n[status]\nsocket = 1\n",
        "[[port]]\nname = \"eth1\"\n[router]\nworkers = 3\ncpus = [1]\n",
    ];
    let all: String = cases.iter().map(|text| format!("{text:?}\n{}\n", problems(text))).collect();
    insta::assert_snapshot!(all);
}

#[test]
fn an_unreadable_file_is_named() {
    let error = Config::load(std::path::Path::new("/nonexistent/router.toml")).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/router.toml: "), "{error}");
}

fn diff(edit: impl Fn(&str) -> String) -> Vec<Change> {
    let old = Config::from_str("old", Config::example()).unwrap();
    let new = Config::from_str("new", &edit(Config::example())).unwrap();
    Config::diff(&old, &new)
}

#[test]
fn a_reload_is_a_list_of_changes() {
    assert_eq!(diff(str::to_owned), []);
    assert_eq!(
        diff(|text| text.replace("mode = \"powersave\"", "mode = \"napi\"")),
        [Change::Mode("napi".into())]
    );
    let restart =
        diff(|text| text.replace("workers = 2 ", "workers = 1 ").replace("[0, 1]", "[0]"));
    assert_eq!(restart.len(), 2);
    assert!(restart.iter().all(Change::needs_restart));
    assert_eq!(restart[0].to_string(), "router.workers stays 2; restart to change it to 1");
    assert_eq!(diff(|text| text.replace("10.1.0.0/16", "10.2.0.0/16")), [Change::Statics]);
    let reopened = diff(|text| text.replace("ring = 2048", "ring = 4096"));
    assert!(
        matches!(&reopened[..], [Change::PortRemoved(0, _), Change::PortAdded(0, _)]),
        "{reopened:?}"
    );
}

proptest! {
    /// Whatever the text, the answer is a configuration or reasons against it.
    #[test]
    fn damaged_text_gives_reasons(
        cut in 0..4000usize, len in 0..40usize, patch in "[\\[\\]\"=,.0-9a-z\n {}#-]{0,12}"
    ) {
        let mut text = Config::example().to_owned();
        let start = cut % text.len();
        let end = (start + len).min(text.len());
        if text.is_char_boundary(start) && text.is_char_boundary(end) {
            text.replace_range(start..end, &patch);
        }
        if let Err(ConfigError::Invalid(problems)) = Config::from_str("router.toml", &text) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(problem.line >= 1 && problem.line <= text.lines().count() + 1);
                prop_assert!(!problem.message.is_empty());
            }
        }
    }
}

const TUNNEL: &str = r#"[router]
apps = ["esp"]

[[port]]
name = "eth1"

[[esp.tunnel]]
local = "192.0.2.1"
remote = "198.51.100.1"
remote_prefixes = ["10.2.0.0/16"]
spi_out = 4097
spi_in = 4098
key_file_out = "out.key"
key_file_in = "in.key"
"#;

/// One key begins with one nonce: not for two directions, of whichever tunnels.
#[test]
fn no_key_is_used_twice() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-key-twice");
    std::fs::create_dir_all(&place).expect("a directory");
    let write = |name: &str, byte: &str| {
        let path = place.join(name);
        std::fs::write(&path, byte.repeat(20)).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    };
    let at = |name: &str| format!("\"{}\"", place.join(name).display());
    let first = TUNNEL.replace("\"out.key\"", &at("a")).replace("\"in.key\"", &at("b"));
    let second = first[first.find("[[esp").expect("a tunnel")..]
        .replace("198.51.100.1", "198.51.100.2")
        .replace("10.2.", "10.3.")
        .replace("4098", "4099")
        .replace(&at("a"), &at("c"))
        .replace(&at("b"), &at("d"));
    let config = Config::from_str("a", &(first + &second)).expect("two tunnels");
    for (name, byte) in [("a", "a1"), ("b", "b2"), ("c", "c3"), ("d", "d4")] {
        write(name, byte);
    }
    config.check_files().expect("four keys");
    for (name, byte, field, other) in [
        ("b", "a1", "[0].key_file_in", "[0].key_file_out"),
        ("d", "b2", "[1].key_file_in", "[0].key_file_in"),
    ] {
        write(name, byte);
        let said = format!("{:#}", config.check_files().expect_err("a key twice"));
        let wanted = format!("esp.tunnel{field}: the key is that of esp.tunnel{other}");
        assert!(said.starts_with(&wanted), "{said}");
        write(name, if name == "b" { "b2" } else { "d4" });
    }
}

#[test]
fn a_tunnel_is_read_and_written_and_waits_for_a_restart() {
    let config = Config::from_str("a", TUNNEL).unwrap();
    let tunnel = &config.esp.tunnels[0];
    assert_eq!((tunnel.window, tunnel.mtu, tunnel.udp), (1024, 1500, false));
    assert_eq!(Config::from_str("b", &config.to_table().to_string()).unwrap(), config);
    let other = Config::from_str("c", &TUNNEL.replace("4098", "4099")).unwrap();
    let changes = Config::diff(&config, &other);
    assert!(
        matches!(&changes[..], [Change::Restart { field, .. }] if field == "esp.tunnel"),
        "{changes:?}"
    );
    let missing = config.check_files().unwrap_err();
    let said = format!("{missing:#}");
    assert!(
        said.starts_with("esp.tunnel[0].key_file_out: cannot use out.key: create the file"),
        "{said}"
    );
}

#[test]
fn tunnels_that_contradict_themselves_are_refused() {
    let refused = |from: &str, to: &str, words: &str| {
        let text = TUNNEL.replace(from, to);
        let said = Config::from_str("a", &text).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    };
    refused("apps = [\"esp\"]", "", "their packets would leave in clear");
    refused(
        "spi_in = 4098\n",
        "",
        "esp.tunnel[0].spi_in: every tunnel needs it (for example spi_in = 4098)",
    );
    refused("\"198.51.100.1\"", "\"2001:db8::1\"", "are of two versions of IP");
    refused(
        "10.2.0.0/16",
        "10.2.0.1/16",
        "10.2.0.1/16 has bits set after its length (write \"10.2.0.0/16\")",
    );
    refused("spi_in = 4098", "spi_in = 7", "7 is out of range");
    refused(
        "spi_in = 4098",
        "spi_in = 4098\nalgorithm = \"des\"",
        "use aes-128-gcm, aes-256-gcm, chacha20-poly1305 or aes-128-cbc-hmac-sha-256",
    );
    let v6 = "10.2.0.0/16\", \"2001:db8::/48";
    let text = TUNNEL.replace("10.2.0.0/16", v6).replace("spi_in", "mtu = 1300\nspi_in");
    let said = Config::from_str("a", &text).unwrap_err().to_string();
    assert!(said.contains("esp.tunnel[0].mtu: IPv6 packets of 1280 bytes would not fit"), "{said}");
    let text = TUNNEL.replace("\"eth1\"", "\"eth1\"\npath = \"kernel\"");
    let said = Config::from_str("a", &text).unwrap_err().to_string();
    assert!(said.contains("port[0].path: packets for tunnels would pass in clear"), "{said}");
    let everything = TUNNEL.replace("10.2.0.0/16", "0.0.0.0/0");
    let said = Config::from_str("a", &everything).unwrap_err().to_string();
    assert!(said.contains("all packets to 0.0.0.0/0 would go through the tunnel"), "{said}");
    let here = "spi_in = 4098\nlocal_prefixes = [\"10.1.0.0/16\"]";
    let behind = everything.replace("spi_in = 4098", here);
    assert!(Config::from_str("a", &behind).is_ok(), "it says what is here");
    let kernel = "[router]\napps = [\"esp\"]\n[esp]\nkernel = true\n[[port]]\nname = \"eth1\"\n";
    assert!(Config::from_str("a", kernel).expect("a configuration").follows_tunnels());
    let none = Config::from_str("a", "[router]\napps = [\"esp\"]\n[[port]]\nname = \"eth1\"\n");
    assert!(none.is_ok(), "tunnels may be added later");
}

const PEER: &str = r#"[router]
apps = ["dedup"]

[[port]]
name = "eth1"

[[dedup.peer]]
port = "eth1"
local = "192.0.2.1"
remote = "192.0.2.2"
"#;

#[test]
fn a_peer_is_read_and_written_and_waits_for_a_restart() {
    let config = Config::from_str("a", PEER).unwrap();
    assert_eq!(
        (config.dedup.period, config.dedup.cache_mib, config.dedup.udp_port),
        (32, 64, 9465)
    );
    assert_eq!(Config::from_str("b", &config.to_table().to_string()).unwrap(), config);
    let other = Config::from_str("c", &format!("{PEER}[dedup]\ncache_mib = 16\n")).unwrap();
    let changes = Config::diff(&config, &other);
    assert!(
        matches!(&changes[..], [Change::Restart { field, .. }] if field == "dedup"),
        "{changes:?}"
    );
    let mut kept = other;
    kept.keep_what_needs_a_restart(&config);
    assert_eq!(kept, config);
    let [one, two] = [0, 1].map(|_| config.dedup.sessions(&config));
    assert_ne!(one[0].1, two[0].1, "a session is used once");
}

#[test]
fn peers_that_contradict_themselves_are_refused() {
    let refused = |from: &str, to: &str, words: &str| {
        let text = PEER.replace(from, to);
        let said = Config::from_str("a", &text).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    };
    refused(
        "apps = [\"dedup\"]",
        "",
        "router.apps: there are peers, but apps does not have \"dedup\": what they encode is lost",
    );
    refused(
        "port = \"eth1\"",
        "port = \"eth2\"",
        "dedup.peer[0].port: there is no port \"eth2\" (use one of eth1)",
    );
    refused("local = \"192.0.2.1\"\n", "", "dedup.peer[0].local: every peer needs it");
    refused("\"192.0.2.2\"", "\"2001:db8::1\"", "are of two versions of IP");
    refused("\"192.0.2.2\"", "\"192.0.2.1\"", "192.0.2.1 is the own address as well");
    refused(
        "[router]",
        "[dedup]\nperiod = 7\n[router]",
        "7 is out of range (expected a whole number from 8 to 512)",
    );
    refused("[router]", "[dedup]\nsampling = \"all\"\n[router]", "use modp, maxp or samplebyte");
    refused(
        "\"eth1\"\n\n",
        "\"eth1\"\npath = \"kernel\"\n\n",
        "dedup does not see packets on the kernel path",
    );
    let twice = format!("{PEER}{}", &PEER[PEER.find("[[dedup").expect("a peer")..]);
    let said = Config::from_str("a", &twice).unwrap_err().to_string();
    assert!(said.contains("dedup.peer[1].port: \"eth1\" already leads to peer[0]"), "{said}");
    let none = Config::from_str("a", "[router]\napps = [\"dedup\"]\n[[port]]\nname = \"eth1\"\n");
    let said = none.unwrap_err().to_string();
    assert!(said.contains("apps has \"dedup\", but there is no peer"), "{said}");
}

#[test]
fn what_a_protocol_of_flow_export_has_not_is_refused() {
    let port = "[[port]]\nname = \"eth1\"\n";
    let of = |lines: &str| {
        format!("[ipfix]\ncollector = \"192.0.2.9:6343\"\nversion = \"sflow5\"\n{lines}\n{port}")
    };
    let config = Config::from_str("router.toml", &of("agent = \"2001:db8::1\"")).expect("sFlow");
    let again =
        Config::from_str("again.toml", &config.to_table().to_string()).expect("what was written");
    assert_eq!(again.ipfix, config.ipfix);
    let refused = [
        ("", "sFlow names the router by an address"),
        ("agent = \"here\"", "expected an address"),
        ("agent = \"192.0.2.1\"\ntransport = \"tcp\"", "sFlow has no transport over TCP"),
        ("agent = \"192.0.2.1\"\nbiflow = true", "sFlow has no records of both directions"),
    ];
    for (lines, said) in refused {
        let problems = problems(&of(lines));
        assert!(problems.contains(said), "{problems}");
    }
    let tls = problems(&of("agent = \"192.0.2.1\"\ntransport = \"tls\"\nkey_file = \"own.key\""));
    for said in
        ["sFlow has no transport over TCP", "ipfix.ca_file: TLS needs it", "certificate_file"]
    {
        assert!(tls.contains(said), "{tls}");
    }
    assert!(problems(&of("agent = \"192.0.2.1\"\nca_file = \"a\"")).contains("of TLS alone"));
    let file = "[ipfix]\nfile = \"flows\"\nversion = \"sflow5\"\nagent = \"192.0.2.1\"\n";
    assert!(problems(&format!("{file}{port}")).contains("sFlow has no files"));
}

const TWO_PORTS: &str = r#"[router]
apps = ["count", "ipfix"]
[ipfix]
file = "flows"
[[port]]
name = "a"
[[port]]
name = "b"
"#;

#[test]
fn a_port_has_its_own_applications_or_the_routers() {
    let with = |a: &str, b: &str| {
        let text = TWO_PORTS.replace("\"a\"", &format!("\"a\"\n{a}"));
        text.replace("\"b\"", &format!("\"b\"\n{b}"))
    };
    let of = |text: &str| Config::from_str("a", text).expect(text);
    let config = of(&with("apps = [\"ipfix\"]", ""));
    let [a, b] = [&config.ports[0], &config.ports[1]];
    assert_eq!(
        (config.apps_of(a), config.apps_of(b)),
        (&[App::Ipfix][..], &config.router.apps[..])
    );
    assert_eq!(config.apps(), [App::Count, App::Ipfix]);
    let late = of(&with("apps = [\"ipfix\"]", "apps = [\"count\", \"ipfix\"]"));
    assert_eq!(late.apps(), [App::Count, App::Ipfix], "whichever port comes first");
    assert_eq!((a.needs_workers(&config), b.needs_workers(&config)), (None, Some("router.apps")));
    assert!(config.counts_on_the_kernel_path() && config.counts_flows_of(a));
    // None of its own is not the router's; both survive being shown.
    let none = of(&with("apps = []", ""));
    assert_eq!(none.apps_of(&none.ports[0]), []);
    for config in [&config, &none] {
        let again = Config::from_str("again", &config.to_table().to_string());
        assert_eq!(again.expect("what is shown can be read"), *config);
    }
    let kernel = of(&with("apps = [\"ipfix\"]\npath = \"kernel\"", ""));
    assert_eq!(kernel.apps_of(&kernel.ports[0]), [App::Ipfix]);
    let refused = |a: &str, b: &str, words: &str| {
        let said = problems(&with(a, b));
        assert!(said.contains(words), "{said}");
    };
    refused("path = \"kernel\"", "", "change apps in [router]");
    refused("apps = [\"count\"]\npath = \"kernel\"", "", "change apps of the port");
    refused("apps = [\"count\", \"count\"]", "", "port[0].apps: count is named twice");
    refused("apps = [\"none\"]", "", "port[0].apps: unknown variant");
    refused(
        "apps = [\"ipfix\", \"count\"]",
        "",
        "router.apps: lists of apps contradict each other",
    );
    refused("apps = [\"ipfix\", \"esp\"]", "", "router.apps: \"esp\" is missing");
    let nobody =
        problems(&with("apps = [\"count\"]", "apps = [\"ipfix\"]").replace("file = ", "# "));
    assert!(nobody.contains("nobody is told of flows"), "{nobody}");
    let nowhere = with("apps = [\"count\"]", "apps = []").replace("file = ", "# ");
    assert!(Config::from_str("a", &nowhere).is_ok(), "no port has ipfix");
    let peer = "[[dedup.peer]]\nport = \"a\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n";
    let link = of(&(with("apps = [\"dedup\"]", "apps = []") + peer));
    let reasons = [Some("apps"), Some("dedup of another port's apps")];
    assert_eq!([0, 1].map(|at| link.ports[at].needs_workers(&link)), reasons);
    let other = problems(&(with("apps = []", "apps = [\"dedup\"]") + peer));
    assert!(other.contains("dedup.peer[0].port: apps of \"a\" do not have \"dedup\""), "{other}");
}

#[test]
fn which_ports_have_an_application_may_change_while_it_runs_and_which_there_are_may_not() {
    let of = |a: &str, b: &str| {
        let text = TWO_PORTS.replace("[\"count\", \"ipfix\"]", a);
        let text = text.replace("\"b\"", &format!("\"b\"\napps = {b}"));
        Config::from_str("a", &text).expect(&text)
    };
    let running = of("[\"ipfix\"]", "[]");
    let moved = of("[]", "[\"ipfix\"]");
    let changes: Vec<String> =
        Config::diff(&running, &moved).iter().map(ToString::to_string).collect();
    assert_eq!(changes, ["port a closes", "port a opens", "port b closes", "port b opens"]);
    let mut kept = moved.clone();
    kept.keep_what_needs_a_restart(&running);
    assert_eq!(kept, moved);
    // The same by another way to say it is no change.
    let said = of("[\"ipfix\"]", "[\"ipfix\"]");
    let text = TWO_PORTS.replace("[\"count\", \"ipfix\"]", "[\"ipfix\"]");
    assert_eq!(Config::diff(&said, &Config::from_str("a", &text).unwrap()), []);
    let more = of("[\"count\", \"ipfix\"]", "[\"ipfix\"]");
    let changes: Vec<String> =
        Config::diff(&running, &more).iter().map(ToString::to_string).collect();
    let wanted = r#"apps stays ["ipfix"]; restart to change it to ["count", "ipfix"]"#;
    assert_eq!(changes, [wanted]);
    let mut kept = more;
    kept.keep_what_needs_a_restart(&running);
    assert_eq!(kept, running);
    // A new port gets what there is.
    let text = TWO_PORTS.replace("[\"count\", \"ipfix\"]", "[\"ipfix\"]")
        + "apps = []\n[[port]]\nname = \"c\"\napps = [\"count\", \"ipfix\"]\n";
    let mut third = Config::from_str("a", &text).unwrap();
    third.keep_what_needs_a_restart(&running);
    assert_eq!(third.apps_of(&third.ports[2]), [App::Ipfix]);
    assert_eq!(Config::diff(&running, &third)[0].to_string(), "port c opens");
}

#[test]
fn prefixes_of_flows_have_no_host_bits() {
    let of = |list: &str| TWO_PORTS.replace("[ipfix]", &format!("[ipfix]\nprefixes = {list}"));
    let config = Config::from_str("a", &of("[\"10.1.0.0/16\", \"2001:db8::/32\"]")).unwrap();
    assert_eq!(config.ipfix.prefixes.len(), 2);
    assert_eq!(Config::from_str("b", &config.to_table().to_string()).unwrap(), config);
    let said = problems(&of("[\"10.1.0.1/16\"]"));
    assert!(said.contains("10.1.0.1/16 has host bits (write 10.1.0.0/16)"), "{said}");
    assert!(problems(&of("[\"here\"]")).contains("\"here\" is not a prefix"));
    assert!(problems(&of("4")).contains("ipfix.prefixes"));
}
