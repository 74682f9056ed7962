//! Time and size of the exact bound for every pattern: a table and a line of JSON.
//!
//! `cargo bench -p ebb-system-noc --bench bound -- 16` for 16 x 16; without a number 5 and 8.

use std::time::Instant;

use ebb_des::Seed;
use ebb_scenario::Silent;
use ebb_system_noc::{Mesh, Pattern, VoltageRange, bound, routing};

fn main() {
    let mut sizes: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![5, 8];
    }
    let wanted: Vec<Pattern> = std::env::args().filter_map(|text| Pattern::parse(&text)).collect();
    let range = VoltageRange::new(3.0).expect("a range");
    println!("size pattern    seconds  programs  gap       power/xy-nodvfs   alpha");
    for size in sizes {
        let mesh = Mesh::new(size, size).expect("a mesh");
        for pattern in Pattern::OF_LI {
            if !wanted.is_empty() && !wanted.contains(&pattern) {
                continue;
            }
            let traffic = pattern.traffic(&mesh, &mut Seed(1).stream("traffic"));
            let xy = routing::routing("xy").expect("xy");
            let fullest = |traffic| {
                let routes = xy.route(&mesh, traffic, Seed(1)).expect("routed");
                routes.loads(&mesh).into_iter().fold(0.0, f64::max)
            };
            let traffic = traffic.scaled(1.0 / fullest(&traffic));
            let start = Instant::now();
            let found = bound::least_power(&mesh, &traffic, range, &Progress).expect("bounded");
            let seconds = start.elapsed().as_secs_f64();
            let plain = traffic.hop_rate(&mesh).expect("connected");
            let proven = found.certificate.lower(&mesh, &traffic);
            println!(
                "{size:4} {:10} {seconds:8.3} {:9} {:9.1e} {:.12} {:.9}",
                pattern.name(),
                found.solves,
                1.0 - proven / found.upper,
                found.upper / plain,
                found.alpha
            );
            println!(
                "{{\"bench\":\"bound\",\"size\":{size},\"pattern\":\"{}\",\"seconds\":{seconds:.4},\"programs\":{},\"gap\":{:e}}}",
                pattern.name(),
                found.solves,
                found.gap()
            );
        }
    }
}

struct Progress;
impl ebb_scenario::Progress for Progress {
    fn at(&self, _: f64, note: &str) {
        if std::env::var_os("EBB_BENCH_VERBOSE").is_some() {
            eprintln!("{note}");
        }
    }
    fn stopped(&self) -> bool {
        Silent.stopped()
    }
}
