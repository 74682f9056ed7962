//! What users get wrong is told with file, line, field and remedy.

use ebb_scenario::{Document, MemoryFiles};
use ebb_system_router::Twin;

fn error(text: &str, files: &MemoryFiles) -> String {
    let document = match Document::parse("run.toml", text) {
        Ok(document) => document,
        Err(error) => return error.to_string(),
    };
    Twin::new(&document, files, 1).expect_err("bad input").to_string()
}

#[test]
fn scenarios() {
    let none = MemoryFiles::new();
    for (text, line, part) in [
        ("load = -1\n", 1, "field `load`: -1 is out of range"),
        ("\nload = nan\n", 2, "field `load`"),
        ("load = 0.1\nspeed = 3\n", 2, "`speed`"),
        ("load = 0.1\n[traffic]\nrate = 3\n", 3, "`traffic.rate`"),
        ("[traffic]\nrate_mpps = -2\n", 2, "field `traffic.rate_mpps`: -2 is out of range"),
        ("[traffic]\nrate_mpps = 2\nprofile = \"uk\"\n", 3, "so does `rate_mpps`"),
        ("[traffic]\nprofile = \"fr\"\n", 2, "unknown value `fr`"),
        (
            "[limits]\nfrequencies_ghz = [1.7]\n[traffic]\nrate_mpps = 1\n",
            2,
            "1.7 is not a frequency of the server",
        ),
        ("load = 1\n[limits]\ncores = 13\n", 3, "13 of 12 cores"),
        ("load = 1\n[policy]\nname = \"fast\"\n", 3, "unknown value `fast`"),
        ("load = 1\n[policy.settings]\nbatch = 0\n", 3, "field `policy.settings.batch`"),
        ("load = 1\n[application]\nname = \"nat\"\n", 3, "there is no application `nat`"),
        ("load = 1\n[traffic]\nsizes = 63\n", 3, "63 is not a frame length"),
        ("load = 1\nengine = \"warp\"\n", 2, "field `engine`"),
        ("load = 1\nduration_s = 0\n", 2, "field `duration_s`: 0 is out of range"),
        ("load = 1\n[server]\nclock_us = 1\n", 3, "field `server.clock_us`"),
        (
            "load = 1\nengine = \"slot\"\n[server]\nclocks = \"per-core\"\n",
            4,
            "which the slotted engine does not simulate",
        ),
        ("load = 1\n[server]\nidle.c1 = { exit_us = -1 }\n", 3, "field `server.idle.c1.exit_us`"),
        ("load = 1\n[server]\nidle.c1 = { exit_us = 90 }\n", 0, "field `server.idle`"),
        ("load = 1\n[server]\nmodel_file = \"my.json\"\n", 0, "my.json: no such file"),
        ("load = 3\n[traffic]\narrivals = \"onoff\"\n", 2, "exceed the capacity of the links"),
        ("load = = 3\n", 1, "fix the TOML syntax"),
    ] {
        let error = error(text, &none);
        assert!(error.contains(part), "{error}");
        if line > 0 {
            assert!(error.starts_with(&format!("run.toml:{line}: ")), "{error}");
        }
    }
    let error = error("duration_s = 1\n", &none);
    assert!(error.contains("field `load`: there is no load"), "{error}");
}

#[test]
fn traces_and_models() {
    let scenario = "load = 0.3\n[traffic.trace]\nfile = \"t.csv\"\nvalue = \"bps\"\n";
    for (text, part) in [
        ("time,bps\n0,1\n1,-4\n", "t.csv:3: field `bps`: -4 is negative"),
        ("time,bps\r\n0,1\r\n1,inf\r\n", "field `bps`: `inf` is not a finite number"),
        ("\u{feff}time,bps\n0,1\n1,1\n5,1\n", "t.csv:4: field `time`: 4 s after the previous row"),
        ("time,packets\n0,1\n1,1\n", "t.csv:1: there is no column `bps`"),
        ("time,bps\n0,1\n1\n", "t.csv:3: 1 fields"),
        ("", "t.csv: the file is empty"),
    ] {
        let error = error(scenario, &MemoryFiles::new().with("t.csv", text));
        assert!(error.contains(part), "{error}");
    }
    let long = format!("duration_s = 9\n{scenario}");
    let files = MemoryFiles::new().with("t.csv", "time,bps\n0,1\n1,1\n");
    assert!(error(&long, &files).contains("run.toml:1: field `duration_s`"));
    let model = "load = 1\n[server]\nmodel_file = \"m.json\"\n";
    let files = MemoryFiles::new().with("m.json", "{\n\"power\": 3 }");
    assert!(error(model, &files).starts_with("m.json:2: "), "{}", error(model, &files));
}

#[test]
fn captures() {
    let scenario = "[traffic]\npcap = { file = \"c.pcap\" }\n";
    let damaged = MemoryFiles::new().with("c.pcap", vec![1u8; 99]);
    assert!(error(scenario, &damaged).starts_with("c.pcap: field `traffic.pcap`"));
}
