//! A network's clock that follows its load: what an epoch carried and what waits decide the next one's.
//!
//! Room: one decision after the other, from counts; the clocks are [`Clock`](super::Clock)'s, what a factor costs its
//! callers know.

use super::run::Router;

/// How the clock follows the load. Every `epoch` the flits that were offered are counted; which part of them comes over the
/// fullest link, or the fullest port between an element and its router, is known from longer (an exponential mean of both
/// counts). The product is what the next epoch's clock has to carry, and what has waited for more than an epoch besides.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    /// Processing elements' cycles between decisions, at least 1.
    pub epoch: u64,
    /// An epoch's part of the mean over what came before, above 0 and at most 1.
    pub weight: f64,
    /// The part of the fullest link's capacity that is left free, at least 0 and below 1.
    pub headroom: f64,
    /// The clock is slowed only by more than this part; it is made faster when half of what is to be free is in use.
    pub hysteresis: f64,
    /// Processing elements' cycles in which the network stands still at a change.
    pub transition: u64,
    /// Factors that there are, at least 1 each; none: any from 1 to `alpha_max`.
    pub levels: Vec<f64>,
    /// The largest factor.
    pub alpha_max: f64,
}

/// What ran at one factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// How many times slower the network's clock was than the processing elements'.
    pub alpha: f64,
    /// When it began, in processing elements' cycles from the start of the run.
    pub from: u64,
    /// Processing elements' cycles, those in which the network stood still included.
    pub pe_cycles: u64,
    /// Flits over links.
    pub hops: u64,
    /// Flits that entered the network.
    pub entered: u64,
}

/// What has been counted until a decision.
#[derive(Default)]
pub(super) struct Counts {
    /// Over each link.
    pub(super) links: Vec<u64>,
    /// From and to each element.
    pub(super) sent: Vec<u64>,
    pub(super) received: Vec<u64>,
    pub(super) delivered: u64,
    /// Offered and not delivered.
    pub(super) underway: u64,
}

/// Decides.
pub(super) struct Governor<'a> {
    how: &'a Control,
    /// Flits in a cycle of the network that a link carries and an element gives, and that an element takes.
    given: f64,
    taken: f64,
    /// Smoothed: by link and port, what share of what it carries in an epoch at full speed went over it, in flits; and
    /// the flits delivered.
    uses: Vec<f64>,
    all: f64,
    before: Counts,
    /// The last decision and the next one, in processing elements' cycles.
    last: u64,
    pub(super) due: u64,
}

impl<'a> Governor<'a> {
    pub(super) fn new(how: &'a Control, router: Router) -> Governor<'a> {
        assert!(how.epoch > 0 && how.alpha_max >= 1.0, "{how:?}");
        let (given, taken) = router.rates();
        let (uses, before) = Default::default();
        Governor { how, given, taken, uses, all: 0.0, before, last: 0, due: how.epoch }
    }

    /// The factor from cycle `now` of the processing elements on, where it is to be another than `alpha`.
    pub(super) fn decide(&mut self, now: u64, alpha: f64, counts: Counts) -> Option<f64> {
        let epoch = (now - self.last) as f64;
        (self.last, self.due) = (now, now + self.how.epoch);
        let before = std::mem::replace(&mut self.before, counts);
        let counts = &self.before;
        let delivered = (counts.delivered - before.delivered) as f64;
        let offered = delivered + counts.underway.saturating_sub(before.underway) as f64;
        // By Little's law: where flits stay longer than an epoch on average, the rest of them is to go, too.
        let waits = (counts.underway as f64 - delivered).max(0.0);
        let past = 1.0 - self.how.weight;
        self.all = past * self.all + delivered;
        let ports = [
            (&counts.links, &before.links, self.given),
            (&counts.sent, &before.sent, self.given),
            (&counts.received, &before.received, self.taken),
        ];
        let seen = ports.into_iter().flat_map(|(now, before, most)| {
            let had = before.iter().chain(std::iter::repeat(&0));
            now.iter().zip(had).map(move |(now, had)| (now - had) as f64 / most)
        });
        if self.uses.is_empty() {
            self.uses.resize(counts.links.len() + 2 * counts.sent.len(), 0.0);
        }
        self.uses.iter_mut().zip(seen).for_each(|(mean, seen)| *mean = past * *mean + seen);
        let fullest = self.uses.iter().copied().fold(0.0, f64::max);
        // Before anything has come out nobody knows where it goes.
        let known = if self.all > 0.0 { fullest / self.all } else { 1.0 };
        let load = known * (offered + waits) / epoch;
        let chosen = self.chosen(alpha, load);
        self.due += chosen.map_or(0, |_| self.how.transition);
        chosen
    }

    fn chosen(&self, alpha: f64, load: f64) -> Option<f64> {
        let (most, free) = (self.how.alpha_max, self.how.headroom);
        let permitted = if load > 0.0 { ((1.0 - free) / load).clamp(1.0, most) } else { most };
        let levels = self.how.levels.iter().copied();
        let slowest = levels.clone().filter(|level| *level <= permitted).reduce(f64::max);
        let fastest = levels.reduce(f64::min);
        let wanted = slowest.or(fastest).unwrap_or(permitted);
        let faster = wanted < alpha && load * alpha > 1.0 - free / 2.0;
        (faster || wanted > alpha * (1.0 + self.how.hysteresis)).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::VcRouter;
    use super::*;

    fn control() -> Control {
        Control {
            epoch: 100,
            weight: 0.5,
            headroom: 0.0,
            hysteresis: 0.1,
            transition: 0,
            levels: Vec::new(),
            alpha_max: 4.0,
        }
    }

    /// Decides by counts over one link, of flits delivered, and underway.
    fn decide(governor: &mut Governor<'_>, alpha: f64, link: u64, underway: u64) -> Option<f64> {
        let (sent, received) = (vec![0], vec![0]);
        let counts = Counts { links: vec![link], sent, received, delivered: link, underway };
        governor.decide(governor.due, alpha, counts)
    }

    #[test]
    fn what_is_offered_and_where_it_went_decide() {
        let (how, router) = (control(), Router::Vc(VcRouter::default()));
        let mut governor = Governor::new(&how, router);
        assert_eq!(decide(&mut governor, 1.0, 50, 0), Some(2.0), "half of the link");
        assert_eq!(governor.due, 200);
        assert_eq!(decide(&mut governor, 2.0, 100, 30), Some(1.25), "50 came, 30 wait");
        assert_eq!(decide(&mut governor, 1.25, 180, 10), None, "80 came, 20 of those that waited");
        assert_eq!(decide(&mut governor, 1.25, 180, 110), Some(1.0), "nothing came out of 100");
        assert_eq!(decide(&mut governor, 1.0, 290, 0), None, "what waited came out");
        assert_eq!(decide(&mut governor, 1.0, 290, 0), Some(4.0), "nothing is there");
    }

    /// One that came elsewhere weighs little at first.
    #[test]
    fn where_it_goes_is_known_from_longer() {
        let how = Control { weight: 0.1, ..control() };
        let mut governor = Governor::new(&how, Router::Vc(VcRouter::default()));
        let mut alpha = 1.0;
        let mut go = |links: [u64; 2]| {
            let (sent, received) = (vec![0; 2], vec![0; 2]);
            let delivered = links.iter().sum();
            let links = links.to_vec();
            let counts = Counts { links, sent, received, delivered, underway: 0 };
            alpha = governor.decide(governor.due, alpha, counts).unwrap_or(alpha);
            alpha
        };
        let even = (1..=20).map(|epoch| go([25 * epoch, 25 * epoch])).last();
        assert_eq!(even, Some(4.0));
        let one = go([550, 500]);
        assert!((3.5..3.7).contains(&one), "{one}");
        let later = (2..=30).map(|epoch| go([500 + 50 * epoch, 500])).last().unwrap();
        assert!((later - 2.0).abs() < 0.1, "{later}");
    }

    #[test]
    fn slower_only_by_more_than_the_hysteresis_faster_at_once_and_on_levels() {
        let (mut how, router) = (control(), Router::Vc(VcRouter::default()));
        let at =
            |how: &Control, alpha, link| decide(&mut Governor::new(how, router), alpha, link, 0);
        assert_eq!(at(&how, 2.0, 46), None, "not a tenth slower");
        assert_eq!(at(&how, 2.0, 40), Some(2.5));
        assert_eq!(at(&how, 2.0, 51), Some(1.0 / 0.51));
        how.headroom = 0.2;
        assert_eq!(
            at(&how, 2.0, 44),
            None,
            "of the fifth that is to be free less than half is in use"
        );
        assert_eq!(at(&how, 2.0, 46), Some(0.8 / 0.46));
        how.headroom = 0.0;
        how.levels = vec![1.0, 1.5, 3.0];
        assert_eq!(at(&how, 1.0, 40), Some(1.5));
        assert_eq!(at(&how, 3.0, 70), Some(1.0));
        assert_eq!(at(&how, 1.5, 60), None);
    }
}
