//! A .pcapng of ours, read by Wireshark's programs.

use std::process::Command;

use ebb_capture::{Direction, Interface, Writer};
use ebb_units::Time;

fn there() -> bool {
    let there = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    let missing: Vec<&str> = ["capinfos", "tshark"].into_iter().filter(|it| !there(it)).collect();
    assert!(missing.is_empty() || std::env::var_os("CI").is_none(), "{missing:?} are missing");
    if !missing.is_empty() {
        eprintln!("skipped: {missing:?} are missing (Debian's tshark)");
    }
    missing.is_empty()
}

fn said(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output().expect("it runs");
    assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn wireshark_knows_names_times_and_comments() {
    if !there() {
        return;
    }
    let path = std::env::temp_dir().join(format!("ebb-capture-{}.pcapng", std::process::id()));
    let name = path.to_str().expect("a name").to_owned();
    let interface = |name: &str, direction| Interface {
        name: name.to_owned(),
        filter: "udp port 53".to_owned(),
        comment: "dropped by the router: no_route".to_owned(),
        direction,
    };
    let interfaces =
        [interface("eth1", Direction::Inbound), interface("wan.7", Direction::Outbound)];
    let mut file = Vec::new();
    let mut writer = Writer::with_interfaces(&name, &mut file, "ebb", &interfaces).expect("memory");
    let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[0x88, 0xb5], &[7; 47]].concat();
    for (turn, comment) in ["the first", ""].into_iter().enumerate() {
        let time = Time::from_nanos(1_700_000_000_123_456_789 + turn as u64);
        writer.write_on(turn as u32, time, &frame, comment).expect("memory");
    }
    writer.finish().expect("memory");
    std::fs::write(&path, file).expect("written");
    let said = std::panic::catch_unwind(|| {
        let fields = [
            "frame.time_epoch",
            "frame.interface_name",
            "frame.comment",
            "frame.packet_flags_direction",
            "frame.len",
        ];
        let flags = fields.into_iter().flat_map(|field| ["-e", field]);
        let arguments: Vec<&str> = ["-n", "-r", &name, "-T", "fields", "-E", "separator=;"]
            .into_iter()
            .chain(flags)
            .collect();
        (said("tshark", &arguments), said("capinfos", &[&name]))
    });
    std::fs::remove_file(&path).expect("removed");
    let (packets, whole) = said.expect("both programs read it");
    assert_eq!(
        packets,
        "1700000000.123456789;eth1;the first;0x00000001;61\n1700000000.123456790;wan.7;;0x00000002;61\n"
    );
    for line in [
        "Number of packets:   2",
        "Capture application: ebb",
        "Name = eth1",
        "Filter string = udp port 53",
        "Time resolution = 0x09",
        "Number of interfaces in file: 2",
    ] {
        assert!(whole.contains(line), "{line}: {whole}");
    }
}
