//! Scenarios from text to report.

use ebb_scenario::{Document, MemoryFiles, Silent};

use super::simulate;

const QUICK: &str =
    "runs = 2\n[run]\nwarmup = 2000\nsample = 4000\nsamples_min = 1\nsamples_max = 1\n";

fn report(head: &str, tables: &str, files: &MemoryFiles) -> Result<serde_json::Value, String> {
    let document =
        Document::parse("s.toml", &format!("{head}{QUICK}{tables}")).map_err(|e| e.to_string())?;
    let report = simulate(&document, files, 1, &Silent).map_err(|e| e.to_string())?;
    Ok(serde_json::from_str(&report.to_json()).expect("JSON"))
}

fn quick(head: &str, tables: &str) -> Result<serde_json::Value, String> {
    report(head, tables, &MemoryFiles::new())
}

#[test]
fn a_light_load_is_stable_and_takes_the_distance() {
    let found = quick(
        "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.02\n",
        "[packets]\nmin = 1\nmax = 1\n",
    )
    .unwrap();
    assert_eq!(found["status"], "stable");
    let hops = found["hops.mean"].as_f64().unwrap();
    assert!((hops - 8.0 / 3.0).abs() < 0.1, "{hops}");
    let latency = found["latency_cycles.mean"].as_f64().unwrap();
    assert!((latency - (5.0 * (hops + 1.0) + 2.0)).abs() < 0.5, "{latency}");
    let power = found["power"].as_f64().unwrap();
    assert!((power - 16.0 * 0.02 * hops).abs() < 0.1 * power, "{power}");
}

/// Every packet that the report counts is in the flows; links carry what the report says.
#[test]
fn details_agree_with_the_report() {
    let head = "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.1\n";
    let of = |output: &str| {
        let text = format!("{head}{QUICK}[output]\n{output}");
        let document = Document::parse("s.toml", &text).expect("a document");
        simulate(&document, &MemoryFiles::new(), 1, &Silent)
    };
    let report = of("links = true\nflows = true\npackets = 70\n").expect("a report");
    let table = |title: &str| {
        let found = report.attachments.iter().find(|table| table.title == title);
        found.unwrap_or_else(|| panic!("no {title}"))
    };
    let sum = |title: &str, column: usize| -> u64 {
        let count = |row: &Vec<ebb_report::Cell>| match row[column] {
            ebb_report::Cell::Count(count) => count,
            _ => panic!("no count in {row:?}"),
        };
        table(title).rows.iter().map(count).sum()
    };
    assert_eq!(sum("flows", 4), report.figures["packets"].as_u64().expect("a count"));
    assert_eq!(table("packets").rows.len(), 2 * 70, "so many of each run");
    assert_eq!(table("links").rows.len(), 48, "links of a 4 x 4 mesh");
    let cycles = 2.0 * 4000.0;
    let hops = report.figures["power_nodvfs"].as_f64().expect("flit-hops a cycle");
    assert!((sum("links", 4) as f64 / cycles / hops - 1.0).abs() < 1e-9, "{hops}");
    let error = of("packets = 99000000\n").expect_err("too many").to_string();
    assert!(error.contains("output.packets"), "{error}");
}

/// What a run measures right from its empty beginning is not steady, and it says so.
#[test]
fn a_run_knows_its_warm_up() {
    let of = |load: f64, warmup: u32| {
        let text = format!(
            "mesh = \"8x8\"\ntraffic = \"uniform\"\nload = {load}\nruns = 1\n\
             [run]\nwarmup = {warmup}\nsample = 8000\nsamples_min = 1\nsamples_max = 1\n"
        );
        let document = Document::parse("s.toml", &text).expect("a document");
        let report = simulate(&document, &MemoryFiles::new(), 1, &Silent).expect("a report");
        report.figures["warmup_detected_cycles"].as_u64()
    };
    let (cold, warm) = (of(0.35, 0).expect("settles"), of(0.35, 4000).expect("settles"));
    assert!(cold > 0 && warm <= 2000, "{cold} from empty, {warm} after 4000 cycles");
    assert_eq!(of(0.95, 0), None, "what waits at the sources grows all the time");
}

#[test]
fn booksim_conventions_are_off_unless_asked_for() {
    let head = "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.02\n";
    let own = quick(&format!("{head}booksim = true\n"), "").unwrap()["hops.mean"].as_f64().unwrap();
    assert!((own - 3.5).abs() < 0.1, "routers on the way, own tile among the targets: {own}");
}

#[test]
fn routings_that_can_deadlock_need_channels() {
    let head = "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.2\nrouting = \"2p-es\"\n";
    let refused = quick(head, "[router]\nkind = \"vc\"\nvcs = 1\n").unwrap_err();
    assert!(refused.contains("deadlock") && refused.contains("waits for"), "{refused}");
    let refused = quick(head, "[router]\nkind = \"voq\"\n").unwrap_err();
    assert!(refused.contains("waits for"), "{refused}");
    let found = quick(head, "[router]\nkind = \"vc\"\nvcs = 2\n").unwrap();
    assert_eq!((&found["status"], &found["vc_layers"]), (&"stable".into(), &2.into()));
    let torus = "mesh = \"4x4\"\ntorus = true\ntraffic = \"uniform\"\nload = 0.2\n";
    assert_eq!(quick(torus, "[router]\nkind = \"vc\"\nvcs = 4\n").unwrap()["status"], "stable");
    assert!(quick(torus, "[router]\nkind = \"vc\"\nvcs = 1\n").unwrap_err().contains("waits for"));
}

#[test]
fn every_routing_of_the_registry_runs() {
    for routing in ["xy", "yx", "2p-es", "2p-rs", "4p-es", "adaptive"] {
        let head =
            format!("mesh = \"3x4\"\ntraffic = \"normal\"\nload = 0.2\nrouting = \"{routing}\"\n");
        let found = quick(&head, "[router]\nkind = \"vc\"\nvcs = 8\n");
        assert_eq!(
            found.unwrap_or_else(|e| panic!("{routing}: {e}"))["status"],
            "stable",
            "{routing}"
        );
    }
}

#[test]
fn a_slower_network_saves_the_square_of_alpha() {
    let routers = [
        ("hotspot", "[router]\nkind = \"voq\"\n"),
        ("normal", "[router]\nkind = \"vc\"\nvcs = 8\ndepth = 16\n"),
    ];
    for (traffic, router) in routers {
        let load = "normalise = \"xy\"\nload = 0.4\nalpha = \"auto\"\nheadroom = 0.2\n";
        let found =
            quick(&format!("mesh = \"5x5\"\ntraffic = \"{traffic}\"\n{load}"), router).unwrap();
        assert_eq!(found["status"], "stable", "{router}");
        let alpha = found["alpha"][0].as_f64().unwrap();
        assert!((alpha - 2.0).abs() < 1e-9, "{alpha}");
        let ratio = found["power_nodvfs"].as_f64().unwrap() / found["power"].as_f64().unwrap();
        assert!((ratio - 4.0).abs() < 1e-9);
        let fullest = found["link_utilisation_max"].as_f64().unwrap();
        assert!((fullest - 0.8).abs() < 0.05, "{fullest}");
    }
}

/// A figure, of the first plane where planes have one each.
fn figure(found: &serde_json::Value, name: &str) -> f64 {
    let value = if found[name].is_array() { &found[name][0] } else { &found[name] };
    value.as_f64().unwrap_or_else(|| panic!("{name}: {}", found[name]))
}

/// Under a constant load the clock finds the factor that calculation gives; under one that changes it takes less than a
/// fixed clock that carries the peak, and not less than the peak's and the rest's own would.
#[test]
fn a_clock_follows_its_load() {
    let head = "mesh = \"4x4\"\ntraffic = \"uniform\"\nheadroom = 0.3\n";
    let control = "[control]\nepoch = 500\ntransition = 20\n";
    let of = |more: &str, tables: &str| {
        let run =
            "runs = 2\n[run]\nwarmup = 10000\nsample = 20000\nsamples_min = 2\nsamples_max = 2\n";
        let text = format!("{head}{more}{run}{tables}");
        let document = Document::parse("s.toml", &text).expect("a document");
        let report = simulate(&document, &MemoryFiles::new(), 1, &Silent).expect("a report");
        serde_json::from_str::<serde_json::Value>(&report.to_json()).expect("JSON")
    };
    let (fixed, followed) = (of("load = 0.4\nalpha = \"auto\"\n", ""), of("load = 0.4\n", control));
    let [fixed, constant] = [&fixed, &followed].map(|found| figure(found, "alpha"));
    assert!((constant / fixed - 1.0).abs() < 0.1, "{constant} beside {fixed}");
    assert_eq!(followed["status"], "stable");
    let power = |found: &serde_json::Value| figure(found, "power");
    let profile = "profile = [[0, 0.2], [25000, 1.0], [35000, 0.2]]\n";
    let peak = of(&format!("load = 0.4\nalpha = \"auto\"\n{profile}"), "");
    let followed = of(&format!("load = 0.4\n{profile}"), control);
    let quiet = power(&of("load = 0.08\nalpha = \"auto\"\n", ""));
    let busy = power(&of("load = 0.4\nalpha = \"auto\"\n", ""));
    let least = (3.0 * quiet + busy) / 4.0;
    assert_eq!(followed["status"], "stable");
    let (followed, peak) = (power(&followed), power(&peak));
    assert!((0.9 * least..0.95 * peak).contains(&followed), "{least} {followed} {peak}");
}

/// What a change costs is counted, and a clock that has one level is a fixed one, in watts of a table, too.
#[test]
fn changes_cost_and_one_level_is_a_fixed_clock() {
    let head = "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.1\n";
    let of =
        |tables: &str| quick(head, &format!("[energy]\nrouter = \"scc48\"\n{tables}")).unwrap();
    let (fixed, followed) = (of(""), of("[control]\nlevels = [1]\n"));
    for name in ["power", "router_w", "latency_cycles.mean"] {
        let (fixed, followed) = (figure(&fixed, name), figure(&followed, name));
        assert!((followed / fixed - 1.0).abs() < 1e-9, "{name}: {followed} and {fixed}");
    }
    let dear = |hops: f64| {
        let chatters = "[control]\nepoch = 50\nhysteresis = 0\ntransition = 0\n";
        let found = of(&format!("{chatters}transition_hops = {hops}\n"));
        (figure(&found, "power"), figure(&found, "clock_changes") / 1e6)
    };
    // A plane without flows stays at the factor that it began with.
    let empty = quick(
        "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.04\nplanes = 2\nalpha = \"auto\"\n",
        "[control]\n",
    );
    let alphas = empty.unwrap()["alpha"].as_array().unwrap().clone();
    assert!(
        alphas.iter().all(|alpha| (1.0..=3.0).contains(&alpha.as_f64().unwrap())),
        "{alphas:?}"
    );
    let ((free, changes), (costs, _)) = (dear(0.0), dear(100.0));
    assert!(
        changes > 0.0 && (costs - free - 100.0 * changes).abs() < 1e-9,
        "{free} {costs} {changes}"
    );
}

#[test]
fn two_planes_share_the_flows() {
    let head = "mesh = \"4x4\"\ntraffic = \"normal\"\nnormalise = \"xy\"\nload = 0.8\nplanes = 2\nalpha = \"auto\"\nheadroom = 0.4\n";
    let found = quick(head, "[energy]\nrouter = \"scc48\"\nflit_hop_pj = 2.0\n").unwrap();
    assert_eq!(found["status"], "stable");
    assert_eq!(found["alpha"].as_array().unwrap().len(), 2);
    assert!(found["router_w"].as_f64().unwrap() > 0.0);
    let (offered, accepted) =
        (found["offered"].as_f64().unwrap(), found["accepted"].as_f64().unwrap());
    assert!((offered - accepted).abs() < 0.03 * offered);
    assert!(found["energy_per_flit_pj"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_trace_is_played_to_its_end() {
    let files =
        MemoryFiles::new().with("t.csv", "cycle,src,dst,flits\n0,0,8,3\n# later\n5000,8,0,1\n");
    let head = "mesh = \"3x3\"\ntraffic = \"trace:t.csv\"\n";
    let document = format!("{head}runs = 1\n[run]\nwarmup = 0\n");
    let document = Document::parse("s.toml", &document).unwrap();
    let found = simulate(&document, &files, 1, &Silent).unwrap().to_json();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["status"], &found["packets"]), (&"stable".into(), &2.into()));
    assert_eq!(found["latency_cycles.max"], 5 * 5 + 2 + 2);
    let bad = MemoryFiles::new().with("t.csv", "cycle,src,dst,flits\n0,0,9,3\n");
    let error = report(head, "", &bad).unwrap_err();
    assert!(error.contains("t.csv:2") && error.contains("dst"), "{error}");
}

#[test]
fn nonsense_is_named() {
    let head = "mesh = \"4x4\"\ntraffic = \"uniform\"\n";
    for (more, tables, word) in [
        ("load = -1\n", "", "s.toml:3: field `load`"),
        ("load = 1.5\n", "", "the most is 1"),
        ("routing = \"zigzag\"\n", "", "zigzag"),
        ("alpha_max = 0.5\n", "", "alpha_max"),
        ("colour = 1\n", "", "colour"),
        ("", "[router]\nkind = \"vc\"\nvcs = 17\n", "router.vcs"),
        (
            "butterfly = true\nconcentration = \"2x4\"\nown_ports = true\n",
            "[router]\nkind = \"vc\"\nvcs = 9\n",
            "use 1 to 8",
        ),
        ("torus = true\nown_ports = true\nconcentration = \"2x2\"\n", "", "own_ports"),
        ("", "[router]\nkind = \"bus\"\n", "bus"),
        ("", "[packets]\nmin = 0\n", "packets.min"),
        ("profile = [[0, 0.5], [0, 1]]\n", "", "s.toml:3: field `profile`"),
        ("profile = [[0, 1.5]]\n", "", "a part from 0 to 1"),
        ("", "[control]\nlevels = [1, 4]\n", "field `control.levels`"),
        ("", "[control]\nepoch = 0\n", "field `control.epoch`"),
    ] {
        let error = quick(&format!("{head}{more}"), tables).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
    let error = quick("mesh = \"4x4\"\ntraffic = \"trace:t.csv\"\nplanes = 2\n", "").unwrap_err();
    assert!(error.contains("field `planes`: is above 1 with a trace"), "{error}");
}

#[test]
fn the_same_scenario_and_seed_give_the_same_bytes() {
    let text = format!("mesh = \"4x4\"\ntraffic = \"normal\"\nload = 0.3\n{QUICK}");
    let document = Document::parse("s.toml", &text).unwrap();
    let html = || simulate(&document, &MemoryFiles::new(), 7, &Silent).unwrap().to_html();
    assert_eq!(html(), html());
}

#[test]
fn the_examples_are_read() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for name in ["uniform", "booksim", "dvfs", "planes", "requests"] {
        let text =
            std::fs::read_to_string(format!("{examples}/noc-sim-{name}.toml")).expect("an example");
        let document = Document::parse(name, &text).unwrap();
        let scenario = document.read_described::<super::Scenario>();
        scenario.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// What routers compute and elements answer runs from a scenario; what does not fit is named.
#[test]
fn requests_bursts_and_adaptive_routes_run_from_a_scenario() {
    let head = |routing: &str| {
        format!("mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.1\nrouting = \"{routing}\"\n")
    };
    let both = "[replies]\nflits = 5\n[bursts]\non_cycles = 50\npeak = 0.8\n";
    for routing in ["xy", "o1turn", "adaptive-credits"] {
        let found = quick(&head(routing), both).expect(routing);
        assert_eq!(found["status"], "stable", "{routing}");
        let (there, back) = (&found["latency_cycles.mean"], &found["round_trip_cycles.mean"]);
        let (there, back) = (there.as_f64().expect("a mean"), back.as_f64().expect("a mean"));
        assert!(back > 1.5 * there + 20.0, "{there} one way, {back} there and back");
        let steady = quick(&head(routing), "[replies]\nflits = 5\n").expect(routing);
        let waits = |found: &serde_json::Value| found["latency_cycles.p99"].as_f64();
        assert!(waits(&found) > waits(&steady), "bursts queue");
    }
    for (routing, tables, words) in [
        ("adaptive-credits", "[router]\nkind = \"vc\"\nvcs = 1\n", "`router.vcs`"),
        ("o1turn", "[replies]\n[router]\nkind = \"vc\"\nvcs = 3\n", "4 or more"),
        ("o1turn", "[router]\nkind = \"voq\"\n", "`router.kind`"),
        ("2p-es", "[replies]\n", "`replies.flits`"),
        ("xy", "[replies]\nflits = 0\n", "`replies.flits`"),
        ("xy", "[bursts]\non_cycles = 0.5\n", "`bursts.on_cycles`"),
        ("xy", "[bursts]\npeak = 20\n", "`bursts.peak`"),
        ("xy", "[bursts]\npeak = 0.1\n", "`bursts.peak`: tile 0"),
    ] {
        let error = quick(&head(routing), tables).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    let torus = quick(&format!("{}torus = true\n", head("o1turn")), "").expect_err("a torus");
    assert!(torus.contains("`routing`") && torus.contains("whole mesh"), "{torus}");
}

#[test]
fn a_router_table_of_one_s_own_gives_watts() {
    let files =
        MemoryFiles::new().with("mine.csv", "f_ghz,v,p0_w,p1_w\n1,1,0.5,0.5\n0.5,1,0.25,0.25\n");
    let head = "mesh = \"4x4\"\ntraffic = \"uniform\"\nload = 0.1\n";
    let of = |tables: &str| report(head, tables, &files);
    let found = of("[energy]\nrouter = \"csv:mine.csv\"\n").expect("a report");
    let watts = found["router_w"].as_f64().expect("watts");
    assert!((watts - 16.0 * 0.5).abs() < 1e-9, "{watts}");
    let error = of("[energy]\nrouter = \"csv:yours.csv\"\n").expect_err("absent");
    assert!(error.contains("yours.csv"), "{error}");
}

/// In a flattened butterfly nobody is further than two hops, and it carries what saturates a mesh.
#[test]
fn a_butterfly_takes_two_hops_at_most() {
    let one = "[packets]\nmin = 1\nmax = 1\n";
    for routing in ["xy", "yx", "o1turn", "adaptive-credits"] {
        let head = format!("mesh = \"4x4\"\ntraffic = \"uniform\"\nrouting = \"{routing}\"\n");
        let found = quick(&format!("{head}butterfly = true\nload = 0.02\n"), one).expect(routing);
        assert_eq!(found["status"], "stable");
        let hops = found["hops.mean"].as_f64().expect("hops");
        assert!((hops - 24.0 / 15.0).abs() < 0.05, "{routing}: {hops}");
        let latency = found["latency_cycles.mean"].as_f64().expect("a latency");
        assert!((latency - (5.0 * (hops + 1.0) + 2.0)).abs() < 0.5, "{routing}: {latency}");
    }
    let heavy = "mesh = \"4x4\"\ntraffic = \"bit-complement\"\nload = 0.7\n";
    assert_eq!(quick(heavy, one).expect("a run")["status"], "saturated");
    let found = quick(&format!("{heavy}butterfly = true\n"), one).expect("a run");
    assert_eq!(found["status"], "stable");
    for (wrong, word) in [
        ("torus = true\n", "torus"),
        ("planes = 2\n", "planes"),
        ("routing = \"adaptive\"\n", "routing"),
        ("alpha = \"auto\"\n", "alpha"),
    ] {
        let text = format!("mesh = \"4x4\"\ntraffic = \"uniform\"\nbutterfly = true\n{wrong}");
        let error = quick(&text, "").expect_err(word);
        assert!(error.contains(word) && error.contains("butterfly"), "{error}");
    }
    let large = "mesh = \"16x16\"\ntraffic = \"uniform\"\nbutterfly = true\nload = 0.01\n";
    assert!(quick(large, "").expect_err("too many ports").contains("ports"));
    let shared = quick(&format!("{large}concentration = \"2x2\"\n"), one).expect("8x8 routers");
    assert_eq!(shared["status"], "stable");
}

/// Four elements share a router: what they send to each other stays there, the rest is as calculated.
#[test]
fn elements_share_a_router() {
    let head = "mesh = \"4x4\"\nconcentration = \"2x2\"\nload = 0.1\n";
    let found = quick(&format!("{head}traffic = \"uniform\"\n"), "").expect("a run");
    assert_eq!(found["status"], "stable");
    let offered = found["offered"].as_f64().expect("a rate");
    assert!((offered - 0.4).abs() < 0.01, "{offered} flits per cycle and router");
    // 3 of 15 stay, 8 of 15 go one hop and 4 of 15 two.
    let power = found["power_nodvfs"].as_f64().expect("flit-hops a cycle");
    assert!((power / (4.0 * 0.4 * 16.0 / 15.0) - 1.0).abs() < 0.03, "{power}");
    let trace = "cycle,src,dst,flits\n0,0,1,3\n0,2,15,2\n50,15,12,4\n90,15,3,1\n";
    let files = MemoryFiles::new().with("t.csv", trace);
    let text = "mesh = \"4x4\"\nconcentration = \"2x2\"\ntraffic = \"trace:t.csv\"\nruns = 1\n\
                [run]\nwarmup = 0\nsample = 200\nsamples_min = 1\nsamples_max = 1\n";
    let document = Document::parse("s.toml", text).expect("a document");
    let played = simulate(&document, &files, 1, &Silent).expect("played");
    assert_eq!(played.figures["packets"], 4);
    // The first stays at its router, the others go to one beside it.
    let hops = played.figures["hops.mean"].as_f64().expect("hops");
    assert!((hops - (0.0 + 1.0 + 1.0 + 1.0) / 4.0).abs() < 1e-9, "{hops}");
    let uneven = "mesh = \"4x4\"\nconcentration = \"3x1\"\ntraffic = \"uniform\"\n";
    assert!(quick(uneven, "").expect_err("uneven").contains("divide"));
    let text = "mesh = \"4x4\"\nconcentration = \"2\"\ntraffic = \"uniform\"\n";
    assert!(quick(text, "").expect_err("one number").contains("2x2"));
}

/// The optimum's routes carry what they were planned for, at the power that the plan promises.
#[cfg(feature = "solver")]
#[test]
fn routes_of_a_plan_run_on_one_plane_and_on_several() {
    for planes in [1, 2] {
        let head = "mesh = \"4x4\"\ntraffic = \"transpose\"\nnormalise = \"xy\"\n";
        let text = format!("{head}planes = {planes}\ncertificate = true\n");
        let document = Document::parse("p.toml", &text).expect("a document");
        let plan = crate::plan(&document, &MemoryFiles::new(), 1, &Silent).expect("a plan");
        let json: serde_json::Value = serde_json::from_str(&plan.to_json()).expect("JSON");
        let least = json["bound"]["upper"].as_f64().expect("a bound");
        let files = MemoryFiles::new().with("plan.json", plan.to_json());
        let ways = format!(
            "{head}planes = {planes}\nload = 0.5\nrouting = \"planned\"\nplan = \"plan.json\"\nalpha = 3\n"
        );
        let found = report(&ways, "[router]\nkind = \"vc\"\nvcs = 8\n", &files).unwrap();
        assert_eq!(found["status"], "stable");
        // At alpha 3, which half the load permits everywhere, power is in proportion to the load.
        let power = found["power"].as_f64().expect("a power");
        let hops = json["power_nodvfs"].as_f64().expect("a power") * 0.5 / 9.0;
        assert!((power / hops - 1.0).abs() < 0.05 && hops < least, "{planes}: {power} {hops}");
        let allocated = format!("{ways}allocation = \"local\"\n");
        let error = report(&allocated, "", &files).unwrap_err();
        assert!(error.contains("allocation") && error.contains("plan's own"), "{error}");
    }
    let error =
        quick("mesh = \"4x4\"\ntraffic = \"uniform\"\nrouting = \"planned\"\n", "").unwrap_err();
    assert!(error.contains("plan"), "{error}");
}
