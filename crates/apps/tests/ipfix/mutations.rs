//! Damaged packets past the meter: nothing panics, every packet is counted once (the harness checks), and what leaves is
//! what was metered.

use std::sync::Arc;

use ebb_apps::Application;
use ebb_apps::ipfix::Ipfix;
use ebb_apps::route::RouteLimits;
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::harness::{Left, Router, template};

/// `EBB_MUTATIONS` asks for more.
fn cases() -> u32 {
    std::env::var("EBB_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

#[test]
fn what_leaves_of_damaged_packets_is_metered() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let ipfix = Arc::new(Ipfix::new(1, super::metering(), &(Arc::new(|| ()) as _)));
    let mut router =
        Router::around(&RouteLimits::default(), &[ipfix.clone() as Arc<dyn Application>]);
    let mut sent = 0;
    for _ in 0..cases() {
        let destination = ["198.51.100.2", "203.0.113.9", "2001:db8:2::2", "192.0.2.1"];
        let mut template = template(destination[random.random_range(0..destination.len())]);
        template.ttl = random.random_range(0..=255);
        let mut frame = template.to_frame(&[7; 40]);
        for _ in 0..random.random_range(0..5) {
            let at = random.random_range(12..frame.len());
            frame[at] = random.random();
        }
        if random.random_bool(0.2) {
            frame.truncate(random.random_range(0..=frame.len()));
        }
        let left = router.send(&[frame]);
        sent += left.iter().filter(|left| matches!(left, Left::Sent(..))).count() as u64;
        sent +=
            router.wait(1000).iter().filter(|left| matches!(left, Left::Sent(..))).count() as u64;
    }
    let counters = ipfix.counters();
    let metered = counters.into_iter().find(|(name, _)| *name == "metered_packets").expect("it").1;
    assert_eq!(metered, sent);
    assert!(sent > u64::from(cases()) / 10, "{sent} left");
}
