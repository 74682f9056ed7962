//! Every format, with everything that it has.

use super::*;
use proptest::prelude::*;

fn ask<'a>(time: Option<&'a str>, value: Option<&'a str>) -> Ask<'a> {
    Ask { file: "t", time, value }
}

fn of(text: &str, value: Option<&str>) -> Result<Series, ScenarioError> {
    read(&ask(None, value), text.as_bytes())
}

fn says(text: &str, value: Option<&str>, words: &str) {
    let error = of(text, value).expect_err(words).to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn tables_of_every_kind() {
    for (text, step_s, values) in [
        ("time,v\n0,1\n300,2\n", 300.0, [1.0, 2.0]),
        ("time;v\n2026-03-02 00:00;1,5\n2026-03-02 00:05;2\n", 300.0, [1.5, 2.0]),
        ("v\ttime\n1\t1767225600000\n2\t1767226500000\n", 900.0, [1.0, 2.0]),
        ("time,v\n2026-03-29T01:00:00+01:00,1\n2026-03-29T03:00:00+02:00,2\n", 3600.0, [1.0, 2.0]),
        ("Time,v\n60,2\n0,1\n", 60.0, [1.0, 2.0]),
    ] {
        let series = of(text, None).expect(text);
        assert_eq!(
            (series.step_s, series.values.as_slice()),
            (step_s, values.as_slice()),
            "{text:?}"
        );
    }
    let wide = "time,a,b\n0,1,\n1,2,7\n2,3,\n3,4,8\n4,5,null\n5,6,9\n";
    let series = of(wide, Some("b")).expect("wide");
    assert_eq!((series.step_s, series.values), (2.0, vec![7.0, 8.0, 9.0]));
    assert!(series.notes[0].contains("3 of 6 rows have no value"));
    says(wide, None, "several columns of values; set `value` to one of: time, a, b");
}

#[test]
fn what_is_not_even_is_refused_and_what_is_nearly_is_said() {
    says(
        "time,v\n0,1\n1,1\n3,1\n",
        None,
        "t:4: field `time`: 2 s after the previous row, but 1 s elsewhere",
    );
    says("time,v\n0,1\n2,1\n1,1\n", None, "does not ascend");
    says("time,v\n0,1\n2026-03-02,1\n", None, "`0` is a number, but other rows have dates");
    says("time,v\n5,1\n", None, "fewer than two rows");
    says("time,v\n5,\n6,\n7,1\n", None, "fewer than two rows");
    let jitter = of("time,v\n0,1\n302,1\n599,1\n900,1\n", None).expect("nearly even");
    assert_eq!(jitter.step_s, 300.0);
    assert!(jitter.notes.is_empty(), "{:?}", jitter.notes);
    let more = of("time,v\n0,1\n310,1\n599,1\n900,1\n", None).expect("nearly even");
    assert!(more.notes[0].contains("10.000 s off"), "{:?}", more.notes);
    let backwards = of("time,v\n2,3\n1,2\n0,1\n", None).expect("read");
    assert!(backwards.notes[0].contains("newest to oldest"));
    assert_eq!(backwards.values, [1.0, 2.0, 3.0]);
}

#[test]
fn what_programs_put_around_a_table_does_not_matter() {
    let plain = "Time;v\n2026-03-02 00:00;1,5\n2026-03-02 00:05;2\n";
    let wide: Vec<u8> = plain.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bytes = [b"\xff\xfe".as_slice(), &wide].concat();
    let series = read(&ask(None, None), &bytes).expect("two bytes a letter");
    assert_eq!((series.step_s, series.values), (300.0, vec![1.5, 2.0]));
    let series = of(&format!("sep=;\r\n{plain}"), None).expect("of Excel");
    assert_eq!(series.values, [1.5, 2.0]);
    says("sep=;\ntime;v\n0;1\n1;x\n", None, "t:4: field `v`");
    let cacti = "\"Title:\",\"r1 - Gi0/1\"\n\"Vertical Label:\",\"bits per second\"\n\"Step:\",\"300\"\n\n\
        \"Date\",\"Inbound\",\"Outbound\"\n\"2026-03-02 00:00:00\",\"8\",\"1\"\n\
        \"2026-03-02 00:05:00\",\"16\",\"1\"\n";
    let series = of(cacti, Some("Inbound")).expect("of Cacti");
    assert_eq!((series.values, series.measure), (vec![8.0, 16.0], Some(Measure::BitsPerSecond)));
    says(cacti, None, "set `value` to one of: Date, Inbound, Outbound");
    let scaled = of("time,in (MiB/s)\n0,1\n1,2\n", None).expect("scaled");
    assert_eq!((scaled.values[1], scaled.measure), (2_097_152.0, Some(Measure::BytesPerSecond)));
}

#[test]
fn a_few_missing_rows_are_filled_and_said() {
    let rows = |zone: &str, skip: std::ops::Range<u32>| -> String {
        let hours = (0..40).filter(|row| !skip.contains(row));
        let row = |row: u32| format!("2026-03-02 {:02}:{:02}{zone},{row}\n", row / 4, row % 4 * 15);
        format!("time,v\n{}", hours.map(row).collect::<String>())
    };
    for (zone, skip) in [("Z", 7..10), ("", 7..10), ("+01:00", 7..11)] {
        let series = of(&rows(zone, skip.clone()), None).expect("filled");
        assert_eq!((series.step_s, series.values.len()), (900.0, 40));
        assert!(
            series.values.iter().enumerate().all(|(row, value)| (value - row as f64).abs() < 1e-9)
        );
        let told = format!("rows that are missing: {},", skip.len());
        assert!(series.notes[0].starts_with(&told), "{:?}", series.notes);
    }
    // An hour without a zone may be one by which clocks were put forward; and a tenth is the most.
    says(&rows("", 7..11), None, "4500 s after the previous row");
    says(&rows("Z", 7..12), None, "5400 s after the previous row");
    // Rows without values say that time went on.
    let empty = ["07:45", "08:00", "08:15", "08:30"].map(|clock| format!("2026-03-02 {clock},"));
    let all = rows("", 40..40);
    let whole = all.lines().map(|line| {
        let without = empty.iter().find(|start| line.starts_with(start.as_str()));
        without.map_or(line, String::as_str).to_owned() + "\n"
    });
    let series = of(&whole.collect::<String>(), None).expect("filled");
    assert_eq!((series.values.len(), series.values[32]), (40, 32.0));
}

#[test]
fn columns_are_told_and_heads_say_what_their_values_are() {
    let series =
        of("Timestamp;in [Mbit/s];out\n0;1,5;7\n60;2;7\n", Some("in [mbit/s]")).expect("read");
    assert_eq!(series.measure, Some(Measure::MegabitsPerSecond));
    assert_eq!(series.called, "times are in column `Timestamp`, values in column `in [Mbit/s]`");
    assert_eq!(of("time,v\n0,1\n1,2\n", None).expect("read").measure, None);
    says("when,v\n0,1\n1,2\n", None, "there is no column `time`; known columns: when, v");
    says("date,ts,v\n0,0,1\n1,1,2\n", Some("v"), "there is no column `time`");
}

#[test]
fn long_tables_are_called_by_their_words() {
    let text =
        "Time,host,Series,Value\n0,r1,in,1\n0,r1,out,5\n60,r1,in,2\n60,r1,out,6\n120,r1,in,3\n";
    for name in ["in", "r1 in"] {
        let series = of(text, Some(name)).expect(name);
        assert_eq!((series.step_s, series.values), (60.0, vec![1.0, 2.0, 3.0]));
        assert!(series.called.starts_with("the series is `r1 in`; times are in column `Time`"));
    }
    says(text, None, "has 2 series; known: r1 in, r1 out");
    says(text, Some("up"), "has no series `up`; known: r1 in, r1 out");
    let both = "Time,if,in,out\n0,Gi0/1,1,5\n0,Gi0/2,2,6\n60,Gi0/1,3,7\n60,Gi0/2,4,8\n";
    assert_eq!(of(both, Some("Gi0/2 out")).expect("of two").values, [6.0, 8.0]);
    says(both, Some("in"), "2 series have the name `in`; use one of: Gi0/1 in, Gi0/2 in");
    let same = of("Time,state,in,out\n0,up,1,5\n60,down,3,7\n", Some("out")).expect("wide");
    assert_eq!(same.values, [5.0, 7.0]);
    let one = of("Time,Series,Value (B/s)\n0,in,1\n60,in,-\n120,in,3\n180,in,4\n240,in,5\n", None);
    let one = one.expect_err("a gap").to_string();
    assert!(one.contains("120 s after the previous row"), "{one}");
}

#[test]
fn flows_are_spread_over_their_time() {
    let head = "ts,te,td,pr,ipkt,ibyt,opkt,obyt\n";
    let text = format!(
        "{head}2026-03-02 00:00:00,2026-03-02 00:02:00,120,TCP,12,1200,0,0\n\
         2026-03-02 00:01:30,2026-03-02 00:01:30,0,UDP,1,60,0,0\n\
         2026-03-02 00:02:00,2026-03-02 00:03:00,60,TCP,6,600,0,0\nSummary\nflows,bytes\n3,1860\n"
    );
    let series = of(&text, None).expect("flows");
    assert_eq!((series.step_s, series.values), (60.0, vec![10.0, 11.0, 10.0]));
    assert_eq!(series.measure, Some(Measure::BytesPerSecond));
    assert!(series.called.starts_with("3 flows"));
    let packets = of(&text, Some("packets")).expect("packets");
    assert_eq!(packets.measure, Some(Measure::PacketsPerSecond));
    assert!((packets.values.iter().sum::<f64>() * 60.0 - 19.0).abs() < 1e-9);
    says(&text, Some("td"), "`td` is no counter of flows");
    says(&format!("{head}2026-03-02,2026-03-02,0,TCP,1,1,0,0\n"), None, "flows of 0 s");
}

const DSTAT: &str = "\"pcp-dstat 6.0 CSV output\"\n\"Host:\",\"r1\",,,,\"User:\",\"root\"\n\n\
    \"epoch\",\"net/total\",,\"net/eth0\",,\"cpu\",\n\"epoch\",\"recv\",\"send\",\"recv\",\"send\",\"usr\",\n\
    1.0,10,20,30,40,5\n2.0,11,21,31,41,6\n";

#[test]
fn dstat_is_called_by_group_and_name() {
    for name in ["net/total recv", "net/total.recv", "net/total:recv", "total recv"] {
        let series = of(DSTAT, Some(name)).expect(name);
        assert_eq!((series.step_s, series.values), (1.0, vec![10.0, 11.0]));
        assert_eq!(series.measure, Some(Measure::BytesPerSecond));
    }
    assert_eq!(of(DSTAT, Some("usr")).expect("usr").measure, None);
    says(DSTAT, Some("recv"), "2 series have the name `recv`");
    says(DSTAT, Some("idle"), "has no series `idle`; known: epoch, net/total recv");
    says(&format!("{DSTAT}\"Host:\",1\n"), Some("usr"), "t:8: is not a row of 6 numbers");
    says("\"Dstat 0.7 CSV output\"\n\"epoch\"\n", Some("usr"), "no rows of numbers");
}

fn sadf(second: &str) -> String {
    let record = |time: &str, kb: &str| {
        format!(
            "{{\"timestamp\": {{\"date\": \"2026-03-02\", \"time\": \"{time}\", \"utc\": 1, \"interval\": 900}}, \
             \"network\": {{\"net-dev\": [{{\"iface\": \"lo\", \"rxkB\": 0.1}}, {{\"iface\": \"eth1\", \"rxpck\": 3.0, \
             \"txpck\": 4.0, \"rxkB\": {kb}, \"txkB\": 2.0, \"rxcmp\": 0.0, \"ifutil-percent\": 1.0}}]}}}}"
        )
    };
    format!(
        "{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"r1\", \"statistics\": [{}, {}]}}]}}}}",
        record("00:15:00", "1.0"),
        record(second, "2.0")
    )
}

#[test]
fn sadf_is_called_by_interface_and_counter() {
    let series = of(&sadf("00:30:00"), Some("eth1.rxkB")).expect("read");
    assert_eq!((series.step_s, series.values), (900.0, vec![1024.0, 2048.0]));
    assert_eq!(series.measure, Some(Measure::BytesPerSecond));
    for (name, values, measure) in [
        ("eth1/txkB", [2048.0; 2], Measure::BytesPerSecond),
        ("rxpck", [3.0; 2], Measure::PacketsPerSecond),
        ("eth1 txpck", [4.0; 2], Measure::PacketsPerSecond),
    ] {
        let series = of(&sadf("00:30:00"), Some(name)).expect(name);
        assert_eq!((series.values.as_slice(), series.measure), (values.as_slice(), Some(measure)));
    }
    says(
        &sadf("00:30:00"),
        Some("rxkB"),
        "2 series have the name `rxkB`; use one of: lo.rxkB, eth1.rxkB",
    );
    says(&sadf("00:30:00"), Some("eth1.rxcmp"), "has no series");
    says(&sadf("half past"), Some("eth1.rxkB"), "statistics[1].timestamp");
    says("{\"sysstat\": {\"hosts\": []}}", None, "records of 0 machines");
    says("{\"sysstat\": {\"hosts\": [{\"statistics\": []}]}}", None, "has no `net-dev`");
}

fn vnstat(updated: u64) -> String {
    let row = |hour: u64| {
        format!(
            "{{\"id\": {hour}, \"date\": {{\"year\": 2026, \"month\": 3, \"day\": 2}}, \"time\": {{\"hour\": {hour}, \
             \"minute\": 0}}, \"timestamp\": {}, \"rx\": {hour}, \"tx\": 7}}",
            1_772_409_600 + 3600 * hour
        )
    };
    let day = |day: u64| {
        format!(
            "{{\"date\": {{\"year\": 2026, \"month\": 3, \"day\": {day}}}, \"rx\": 9, \"tx\": 9}}"
        )
    };
    format!(
        "{{\"vnstatversion\": \"2.10\", \"jsonversion\": \"2\", \"interfaces\": [{{\"name\": \"eth0\", \
         \"updated\": {{\"timestamp\": {updated}}}, \"traffic\": {{\"total\": {{\"rx\": 1, \"tx\": 1}}, \
         \"fiveminute\": [], \"hour\": [{}, {}, {}], \"day\": [{}, {}], \"month\": [], \"year\": [], \
         \"top\": []}}}}]}}",
        row(0),
        row(1),
        row(2),
        day(1),
        day(2)
    )
}

#[test]
fn vnstat_is_read_at_its_shortest_interval_that_is_over() {
    let whole = vnstat(1_772_409_600 + 3 * 3600);
    for name in ["rx", "eth0.rx", "hour.rx", "eth0.hour.rx"] {
        let series = of(&whole, Some(name)).expect(name);
        assert_eq!((series.step_s, series.values), (3600.0, vec![0.0, 1.0, 2.0]), "{name}");
        assert_eq!(series.measure, Some(Measure::BytesPerRow));
    }
    let days = of(&vnstat(1_772_600_000), Some("day.tx")).expect("days");
    assert_eq!((days.step_s, days.values), (86_400.0, vec![9.0, 9.0]));
    let partial = of(&vnstat(1_772_409_600 + 2 * 3600 + 60), Some("rx")).expect("an hour less");
    assert_eq!(partial.values.len(), 2);
    assert!(partial.notes[1].contains("last hour is not complete"));
    says(&whole, Some("eth1.rx"), "has no series `eth1.rx`; known: eth0.hour.rx");
    says(&whole, None, "has 4 series");
    says(&whole.replace("\"2\", \"inter", "\"1\", \"inter"), Some("rx"), "jsonversion is `1`");
}

fn rrd(values: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><!DOCTYPE rrd SYSTEM \"rrdtool.dtd\"><rrd><version>0003</version><step>300</step>\
         <lastupdate>1772410600</lastupdate><ds><name> in </name><type>COUNTER</type></ds><ds><name> out </name>\
         </ds><rra><cf>AVERAGE</cf><pdp_per_row>12</pdp_per_row><database><row><v>9</v><v>9</v></row></database>\
         </rra><rra><cf>AVERAGE</cf><pdp_per_row>1</pdp_per_row><params><xff>0.5</xff></params><database>{values}\
         </database></rra><rra><cf>MAX</cf><pdp_per_row>2</pdp_per_row><database><row><v>5</v><v>6</v></row>\
         <row><v>7</v><v>8</v></row></database></rra></rrd>"
    )
}

#[test]
fn rrdtools_finest_archive_is_read() {
    let text = rrd(
        "<!-- 1 --><row><v>NaN</v><v>1</v></row><row><v>2.5e+00</v><v>1</v></row><row><v>3</v><v>1</v></row>",
    );
    let series = of(&text, Some("in")).expect("read");
    assert_eq!((series.step_s, series.values), (300.0, vec![2.5, 3.0]));
    assert!(series.notes[1].contains("1 of 3 rows have no value"), "{:?}", series.notes);
    assert_eq!(of(&text, Some("in.average")).expect("read").values, [2.5, 3.0]);
    let most = of(&text, Some("out.MAX")).expect("read");
    assert_eq!((most.step_s, most.values), (600.0, vec![6.0, 8.0]));
    says(&text, None, "has 2 series; known: in, out");
    says(&text, Some("in.MIN"), "has no series `in.MIN`");
    says(&rrd("<row><v>x</v><v>1</v></row>"), Some("in"), "`x` is not a value");
    says("<rrd><step>300</step></rrd>", None, "`lastupdate`");
    says("<svg/>", None, "is XML with the root `svg`");
}

#[test]
fn prometheus_is_called_by_labels() {
    let text = "{\"status\": \"success\", \"warnings\": [\"slow\"], \"data\": {\"resultType\": \"matrix\", \"result\": [\
        {\"metric\": {\"device\": \"eth0\", \"job\": \"node\"}, \"values\": [[0, \"1\"], [60.5, \"NaN\"], [120, \"3\"], [180, \"4\"], [60, \"2\"]]},\
        {\"metric\": {\"device\": \"eth1\", \"job\": \"node\"}, \"values\": [[0, \"5\"], [60, \"6\"]]}]}}";
    for name in ["eth1", "device=eth1", "{device=\"eth1\", job=\"node\"}"] {
        let series = of(text, Some(name)).expect(name);
        assert_eq!((series.step_s, series.values), (60.0, vec![5.0, 6.0]));
        assert_eq!(series.notes, ["Prometheus warned: \"slow\""]);
    }
    says(text, Some("eth0"), "does not ascend");
    says(text, Some("node"), "2 series have the label `node`");
    says(text, None, "has 2 series");
    says(&text.replace("matrix", "vector"), None, "resultType is \"vector\"");
    says(
        "{\"status\": \"error\", \"error\": \"bad\", \"data\": {}}",
        None,
        "the query failed: bad",
    );
    says("{\"a\": 1}", None, "JSON of an unknown kind");
    says("{\"a\": ", None, "is not complete JSON");
}

proptest! {
    /// However a table is written, the same values come out.
    #[test]
    fn the_same_series_in_every_dress(
        values in prop::collection::vec(0u32..100_000, 2..20), step in 1u32..4000, form in 0usize..4,
        mark in 0usize..3, backwards in any::<bool>()
    ) {
        let mark = [',', ';', '\t'][mark];
        let start = 1_772_409_600i64;
        let row = |(at, value): (usize, &u32)| {
            let seconds = start + at as i64 * i64::from(step);
            let instant = chrono::DateTime::from_timestamp(seconds, 0).expect("an instant");
            let time = match form {
                0 => seconds.to_string(),
                1 => (seconds * 1000).to_string(),
                2 => instant.to_rfc3339(),
                _ => instant.format("%d.%m.%Y %H:%M:%S").to_string(),
            };
            let value = format!("{}.25", value);
            let value = if mark == ',' { value } else { value.replace('.', ",") };
            format!("{time}{mark}{value}\n")
        };
        let mut rows: Vec<String> = values.iter().enumerate().map(row).collect();
        if backwards {
            rows.reverse();
        }
        let text = format!("time{mark}v\n{}", rows.concat());
        let series = of(&text, Some("v")).expect("read");
        prop_assert_eq!(series.step_s, f64::from(step));
        let expected: Vec<f64> = values.iter().map(|value| f64::from(*value) + 0.25).collect();
        prop_assert_eq!(series.values, expected);
    }

    #[test]
    fn no_bytes_are_too_strange(
        start in prop::sample::select(vec!["{", "<", "dstat CSV output\n", "time;v\n", "{\"data\":", "<rrd>", ""]),
        rest in "[{}\\[\\]<>:\"a-z0-9.,;\n -]{0,60}"
    ) {
        let _ = of(&format!("{start}{rest}"), Some("v"));
    }
}
