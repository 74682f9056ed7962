//! Memory latencies against the data sheet, by a verifier.

use ebb_des::Seed;
use proptest::prelude::*;
use rand::Rng;

use super::verify::verify;
use super::{Answer, Memory, MemorySettings, Row};

/// Lines of one row of one bank, and from bank to bank and row to row.
const COLUMNS: u64 = 128;

fn answers(settings: &MemorySettings, requests: &[(u64, bool, u64)]) -> (Memory, Vec<Answer>) {
    let mut memory = Memory::new(settings);
    memory.keep_commands();
    let mut out = Vec::new();
    for (id, (line, write, at)) in requests.iter().enumerate() {
        memory.submit(id as u64, *line, *write, *at);
    }
    while memory.step(&mut out) {}
    (memory, out)
}

/// Latencies by hand, DDR3-1600 at 11-11-11: tRCD = tRP = CL = 13.75 ns, burst 5 ns.
#[test]
fn latencies_are_those_of_the_data_sheet() {
    let settings = MemorySettings::ddr3();
    let other_row = COLUMNS * 8;
    let (_, found) =
        answers(&settings, &[(0, false, 0), (1, false, 100_000), (other_row, false, 200_000)]);
    let told: Vec<_> = found.iter().map(|answer| (answer.row, answer.done - answer.at)).collect();
    assert_eq!(told, [(Row::Closed, 32_500), (Row::Open, 18_750), (Row::Other, 46_250)]);
    assert!(found.iter().all(|answer| answer.bound == answer.done && answer.told == answer.at));

    // A refresh every 7.8 us: closing takes 13.75 ns, the refresh 160 ns, then the row is closed.
    let (_, found) = answers(&settings, &[(0, false, 0), (0, false, 7_800_000)]);
    assert_eq!(found[1].done - found[1].at, 13_750 + 160_000 + 32_500);

    // Reads of one row follow each other on the bus, 5 ns apart.
    let (_, found) = answers(&settings, &[(0, false, 0), (1, false, 0), (2, false, 0)]);
    let done: Vec<_> = found.iter().map(|answer| answer.done).collect();
    assert_eq!(done, [32_500, 37_500, 42_500]);

    // Two banks: the second activation 6.25 ns (tRRD) after the first.
    let (_, found) = answers(&settings, &[(0, false, 0), (COLUMNS, false, 0)]);
    assert_eq!(found[1].done, 32_500 + 6_250);
}

#[test]
fn closed_pages_make_every_read_the_same() {
    let settings = MemorySettings { open_page: false, ..MemorySettings::ddr3() };
    let far = [(0, false, 0), (1, false, 100_000), (COLUMNS * 8, false, 200_000)];
    let (_, found) = answers(&settings, &far);
    assert!(found.iter().all(|answer| answer.done - answer.at == 32_500), "{found:?}");
}

fn random(settings: &MemorySettings, seed: u64, count: u64, gap: u64) -> Vec<(u64, bool, u64)> {
    let mut rng = Seed(seed).stream("requests");
    let lines = COLUMNS * settings.banks as u64 * 8;
    let (mut at, mut line) = (0, 0);
    let each = |_| {
        at += rng.random_range(0..=gap);
        line = if rng.random::<f64>() < 0.5 { line + 1 } else { rng.random_range(0..lines) };
        (line, rng.random::<f64>() < 0.3, at)
    };
    (0..count).map(each).collect()
}

fn settings() -> impl Strategy<Value = MemorySettings> {
    (any::<bool>(), any::<bool>(), 0..2_u32, 0..2_u32).prop_map(|(new, open, ranks, channels)| {
        let base = if new { MemorySettings::ddr4() } else { MemorySettings::ddr3() };
        MemorySettings { open_page: open, ranks: 1 << ranks, channels: 1 << channels, ..base }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// All rules of timing hold, the bus is never given twice, every read is answered, never before
    /// its bound, and the queue obeys Little's law.
    #[test]
    fn no_rule_is_broken(settings in settings(), seed in any::<u64>(), gap in 1_000..60_000_u64) {
        let requests = random(&settings, seed, 600, gap);
        let (memory, found) = answers(&settings, &requests);
        for commands in memory.commands() {
            prop_assert_eq!(verify(&settings, commands), Ok(()));
        }
        let reads = requests.iter().filter(|(_, write, _)| !write).count();
        prop_assert_eq!(found.len(), reads);
        for answer in &found {
            let Answer { at, told, bound, decided, least, done, .. } = *answer;
            prop_assert!(at <= told && told <= decided && bound.min(least) <= done, "{:?}", answer);
        }
        let end = found.iter().map(|answer| answer.done).max().unwrap_or(0);
        for counts in memory.counts() {
            prop_assert_eq!(counts.waited, counts.length);
            prop_assert!(counts.bus <= end + 1_000_000);
        }
    }
}

/// A scheduler that believes in a faster device is caught, whichever time it gets wrong.
#[test]
fn the_verifier_sees_a_wrong_scheduler() {
    let truth = MemorySettings { ranks: 2, ..MemorySettings::ddr4() };
    type Wrong = (&'static str, fn(&mut MemorySettings));
    let wrong: [Wrong; 12] = [
        ("tRCD", |s| s.rcd -= s.ck),
        ("tRP", |s| s.rp -= s.ck),
        ("tRAS", |s| s.ras -= 2.0 * s.ck),
        ("tCCD", |s| s.ccd_l -= s.ck),
        ("tRRD", |s| s.rrd -= s.ck),
        ("tRRD_L", |s| s.rrd_l -= s.ck),
        ("tFAW", |s| s.faw -= 6.0 * s.ck),
        ("tWR", |s| s.wr -= 2.0 * s.ck),
        ("tWTR", |s| s.wtr_l -= 2.0 * s.ck),
        ("tRTP", |s| s.rtp -= 2.0 * s.ck),
        ("tRFC", |s| s.rfc -= 4.0 * s.ck),
        ("tRTRS", |s| s.rtrs = 0.0),
    ];
    for (name, change) in wrong {
        let mut believed = truth.clone();
        change(&mut believed);
        let caught = (0..24).any(|seed| {
            let requests = random(&truth, seed, 1500, 1_000 + 1_500 * seed);
            let (memory, _) = answers(&believed, &requests);
            memory.commands().any(|commands| verify(&truth, commands).is_err())
        });
        assert!(caught, "{name}");
    }
    let never = MemorySettings { refi: 1e6, ..truth.clone() };
    let (memory, _) = answers(&never, &random(&truth, 1, 4000, 60_000));
    assert!(memory.commands().any(|commands| verify(&truth, commands).is_err()), "no refresh");
}

/// The data bus is the bound of what a stream of reads can get, and it nearly gets it.
#[test]
fn a_stream_gets_the_bus_and_no_more() {
    let settings = MemorySettings::ddr3();
    let requests: Vec<_> = (0..20_000).map(|line| (line, false, 0)).collect();
    let (memory, found) = answers(&settings, &requests);
    let end = found.iter().map(|answer| answer.done).max().expect("answers");
    let bus: u64 = memory.counts().map(|counts| counts.bus).sum();
    assert_eq!(bus, 20_000 * 5_000);
    assert!(end >= bus && end < bus * 11 / 10, "{end} for {bus}");
}
