//! When a balancer's link is opened, closed and opened again.

use core::time::Duration;

use ebb_units::Time;

/// What a machine says of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct There {
    /// Its index: another one is another interface, whatever its name.
    pub index: u32,
    /// Somebody has set it up.
    pub set_up: bool,
    /// Packets can pass.
    pub carries: bool,
}

/// What is to be done about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open the interface that has the name now.
    Open,
    /// Close what is open: it is another one's, or nobody's.
    Close,
}

/// How a link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// There is no interface of its name.
    #[default]
    Absent,
    /// It is set down.
    Down,
    /// It could not be opened, and is tried again.
    Refused,
    /// Nobody is at its other end.
    NoCarrier,
    /// It carries packets.
    Up,
}

impl LinkState {
    /// In a word or two.
    pub fn word(self) -> &'static str {
        match self {
            LinkState::Absent => "absent",
            LinkState::Down => "down",
            LinkState::Refused => "refused",
            LinkState::NoCarrier => "no carrier",
            LinkState::Up => "up",
        }
    }
}

/// One that could not be opened is tried again after this.
const AGAIN: Duration = Duration::from_millis(300);

/// A link that comes and goes with its interface: it is set down, loses its carrier, is removed and made
/// anew, is not there yet. Nothing of that ends anything but the link.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// The index of the interface that is open.
    open: Option<u32>,
    refused_until: Option<Time>,
    state: LinkState,
}

impl Attachment {
    /// How it is, as of the last look.
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// The index of the interface that is open.
    pub fn open(&self) -> Option<u32> {
        self.open
    }

    /// Looks at the interface that has the link's name, and at the one that is open, which may have got
    /// another name meanwhile: it stays until somebody else has the name. `stale`: what is open has to be
    /// opened anew.
    pub fn look(
        &mut self,
        now: Time,
        named: Option<There>,
        opened: Option<There>,
        stale: bool,
    ) -> Option<Step> {
        let Some(there) = named.or(opened) else {
            self.state = LinkState::Absent;
            return self.open.map(|_| Step::Close);
        };
        if self.open.is_some_and(|index| index != there.index || stale) {
            self.state = LinkState::Down;
            return Some(Step::Close);
        }
        self.state = match there {
            There { set_up: false, .. } => LinkState::Down,
            There { carries: false, .. } => LinkState::NoCarrier,
            _ => LinkState::Up,
        };
        if self.open.is_some() || !there.set_up {
            return None;
        }
        if self.refused_until.is_some_and(|until| now < until) {
            self.state = LinkState::Refused;
            return None;
        }
        Some(Step::Open)
    }

    /// It was opened.
    pub fn opened(&mut self, index: u32) {
        (self.open, self.refused_until) = (Some(index), None);
    }

    /// It could not be opened.
    pub fn refused(&mut self, now: Time) {
        (self.refused_until, self.state) = (Some(now + AGAIN), LinkState::Refused);
    }

    /// It was closed, or has turned out to be gone.
    pub fn closed(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(time: u64) -> Time {
        Time::from_nanos(time * 1_000_000)
    }

    fn there(index: u32) -> Option<There> {
        Some(There { index, set_up: true, carries: true })
    }

    #[test]
    fn it_waits_follows_its_name_and_stays_open_while_it_is_down() {
        let mut link = Attachment::default();
        assert_eq!((link.look(ms(0), None, None, false), link.state()), (None, LinkState::Absent));
        let down = There { index: 3, set_up: false, carries: false };
        assert_eq!(link.look(ms(1), Some(down), None, false), None);
        assert_eq!(link.look(ms(2), there(3), None, false), Some(Step::Open));
        link.opened(3);
        assert_eq!(link.look(ms(3), Some(down), Some(down), false), None);
        assert_eq!(link.state(), LinkState::Down);
        assert_eq!(link.look(ms(4), None, there(3), false), None, "it has another name");
        assert_eq!(link.state(), LinkState::Up);
        assert_eq!(link.look(ms(5), there(7), there(3), false), Some(Step::Close));
        link.closed();
        assert_eq!(link.look(ms(6), there(7), None, false), Some(Step::Open));
        link.refused(ms(6));
        assert_eq!(link.look(ms(100), there(7), None, false), None);
        assert_eq!(link.state(), LinkState::Refused);
        assert_eq!(link.look(ms(306), there(7), None, false), Some(Step::Open));
        link.opened(7);
        assert_eq!(link.look(ms(400), there(7), there(7), true), Some(Step::Close));
        link.closed();
        assert_eq!(link.look(ms(401), None, None, false), None);
    }

    proptest! {
        /// However interfaces come, go and change their names: once they stand still, the one that has the
        /// link's name is open within a second, and none else.
        #[test]
        fn it_ends_up_with_the_interface_of_its_name(
            past in prop::collection::vec((prop::option::of(0u32..3), any::<bool>(), any::<bool>()), 0..60),
            last in 0u32..3,
        ) {
            let mut link = Attachment::default();
            let mut now = ms(0);
            let mut play = |name: Option<u32>, gone: bool, fails: bool| {
                now += Duration::from_millis(100);
                let named = name.and_then(there);
                let opened = link.open().filter(|index| !gone || name == Some(*index)).and_then(there);
                match link.look(now, named, opened, false) {
                    Some(Step::Open) if fails => link.refused(now),
                    Some(Step::Open) => link.opened(name.expect("only what is there is opened")),
                    Some(Step::Close) => link.closed(),
                    None => {}
                }
                (link.open(), link.state())
            };
            for (name, gone, fails) in past {
                play(name, gone, fails);
            }
            (0..9).for_each(|_| _ = play(Some(last), true, false));
            prop_assert_eq!(play(Some(last), true, false), (Some(last), LinkState::Up));
        }
    }
}
