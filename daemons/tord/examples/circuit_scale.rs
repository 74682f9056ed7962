//! What sync frames, reports and schedules of 16 to 64 racks take, and schedules of more. Prints a table and a JSON
//! line; `--small` sees that it works, `--large` has 10,000 ports as well (some GB).

use ebb_des::Seed;
use ebb_host::clock::monotonic;
use ebb_system_circuit::{Demand, Window, schedulers};
use ebb_tord::seal::{Keys, Sealer};
use ebb_tord::sync::{self, Announced, Circuits, Frame, LEN_MAX, RACKS_MAX, days_max};
use serde_json::json;

/// A day and its night by the defaults of a controller, us.
const CYCLE_US: f64 = 311.5;
/// Between two reports of a rack, ms.
const REPORT_MS: f64 = 5.0;

/// The least of some rounds, in ns a call.
fn least(rounds: usize, calls: usize, mut call: impl FnMut()) -> f64 {
    let one = |_| {
        let begun = monotonic();
        (0..calls).for_each(|_| call());
        monotonic().since(begun).as_secs_f64() * 1e9 / calls as f64
    };
    (0..rounds).map(one).fold(f64::INFINITY, f64::min)
}

fn days(racks: u8) -> Vec<Announced> {
    let day = |number: u32| Announced {
        number,
        duration_ns: 300_000,
        begin_ns: 1_000_000 + u64::from(number) * 311_500,
        outputs: std::array::from_fn(|input| match input as u8 {
            input if input < racks => (input + 1 + number as u8 % (racks - 1)) % racks,
            _ => Announced::DARK,
        }),
    };
    (0..days_max(racks) as u32).map(day).collect()
}

#[test]
fn runs_in_small() {
    let told = measure(&[8], 10);
    let last = &told["frames"][3];
    assert_eq!((&last["racks"], &last["days"]), (&json!(64), &json!(18)), "{told}");
    assert!(last["sync_bytes"].as_u64() <= Some(1514), "{told}");
    assert_eq!(told["schedules"].as_array().map(Vec::len), Some(2), "{told}");
}

fn main() {
    let has = |wanted: &str| std::env::args().any(|word| word == wanted);
    let ports: &[usize] = match (has("--small"), has("--large")) {
        (true, _) => &[8],
        (false, true) => &[64, 256, 512, 1024, 2048, 4096, 10_000],
        (false, false) => &[64, 256, 512, 1024, 2048, 4096],
    };
    println!("{}", measure(ports, if has("--small") { 10 } else { 20_000 }));
}

/// Prints the tables; `ports` are those of schedules.
fn measure(ports: &[usize], calls: usize) -> serde_json::Value {
    let keys = Keys::parse("a token of some length").expect("a key");
    let mut sealer = Sealer::new(keys.clone(), 1);
    let mut buffer = [0; LEN_MAX];
    let mut frames = Vec::new();
    println!(
        "racks  days/frame  ahead us  sync bytes  write ns  read ns  report bytes  reports Mb/s  rotation ms"
    );
    for racks in [4u8, 16, 32, 64] {
        let frame =
            Frame::Sync { epoch: 1, sent_ns: 9, circuits: Circuits::Up, racks, days: days(racks) };
        let mut len = 0;
        let write_ns =
            least(5, calls, || len = sync::write(&frame, [2; 6], &mut sealer, &mut buffer));
        let read_ns = least(5, calls, || drop(sync::read(&buffer[..len], &keys).expect("ours")));
        let mut waiting = [0; RACKS_MAX];
        waiting[..usize::from(racks)].fill(1);
        let report = Frame::Report { rack: 0, heard: 1, waiting };
        let report = sync::write(&report, [2; 6], &mut sealer, &mut buffer);
        let mbps = f64::from(racks) * (report as f64 + 24.0) * 8.0 / (REPORT_MS * 1e3);
        let ahead = days_max(racks) as f64 * CYCLE_US;
        let rotation = f64::from(racks - 1) * CYCLE_US / 1e3;
        println!(
            "{racks:5} {:11} {ahead:9.0} {len:11} {write_ns:9.0} {read_ns:8.0} {report:13} {mbps:13.2} {rotation:12.2}",
            days_max(racks)
        );
        frames.push(json!({ "racks": racks, "days": days_max(racks), "sync_bytes": len,
            "write_ns": write_ns, "read_ns": read_ns, "report_bytes": report }));
    }
    let mut planned = Vec::new();
    println!("\nports  scheduler      one schedule ms");
    for ports in ports {
        let demand = Demand::sparse(*ports, 4, 12, 0.7, &mut Seed(1).stream("demand"));
        // As long a week as the rotation's.
        let delta = 11.5 / ((*ports as f64 - 1.0) * CYCLE_US);
        for name in ["solstice", "eclipse"] {
            // Beyond, one takes minutes.
            if name == "eclipse" && *ports > 256 {
                continue;
            }
            let scheduler = schedulers::by_name(name).expect("a scheduler");
            let window = Window { length: 1.0, delta };
            let rounds = if *ports > 256 { 1 } else { 3 };
            let ms = least(rounds, 1, || drop(scheduler.schedule(&demand, window))) / 1e6;
            println!("{ports:5}  {name:10} {ms:18.1}");
            planned.push(json!({ "ports": ports, "scheduler": name, "ms": ms }));
        }
    }
    json!({ "benchmark": "scale-circuits", "frames": frames, "schedules": planned })
}
