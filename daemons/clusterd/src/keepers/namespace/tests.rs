//! Back-ends whose keeper was killed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ebb_host::namespace::Namespace;

use super::*;

/// A segment, and a journal; in a namespace of their own.
struct Stage {
    space: Namespace,
    journal: Journal,
    folder: PathBuf,
    name: String,
}

impl Stage {
    fn open(name: &str) -> Option<Stage> {
        let space = ebb_lab::test::namespace(name)?;
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let journal = Journal::open(&folder).expect("a journal");
        let name = format!("{name}-{}-back", std::process::id());
        let made = space.run(|| -> Result<()> {
            let mut requests = Requests::open()?;
            requests.add_link("segment", "bridge")?;
            let bridge = requests.index_of("segment")?;
            Ok(requests.set_up(bridge, true)?)
        });
        made.expect("entered").expect("a bridge");
        Some(Stage { space, journal, folder, name })
    }

    fn plan(&self) -> RouterPlan {
        RouterPlan {
            name: self.name.clone(),
            bridges: vec!["segment".into()],
            ports: vec![NamespaceRouter::port_of(&self.name, 0)],
            outlives: true,
            macs: vec![[2, 0, 0, 0, 0, 9]],
            addresses: vec![vec![net("10.77.0.1/24"), net("10.77.5.1/24")]],
            mtus: vec![None],
            probes: Vec::new(),
            routes: vec![(net("10.78.0.0/16"), 0, "10.77.0.7".parse().expect("an address"))],
            threads: Threads::default(),
            run: Vec::new(),
            routing: None,
        }
    }

    fn keeper(&self, plan: RouterPlan) -> NamespaceRouter {
        NamespaceRouter::new(plan, &self.journal)
    }

    /// One that is on, and whose keeper is killed.
    fn leave(&self, plan: RouterPlan) {
        let mut keeper = self.keeper(plan);
        keeper.wake().expect("made");
        // Nobody who is killed takes anything away.
        keeper.namespace = None;
        std::mem::forget(keeper);
    }

    fn is_there(&self) -> bool {
        Namespace::open(&self.name).is_ok()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        _ = Namespace::delete(&self.name);
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

/// It goes on as it was, and a start that fails leaves it; with what the plan has no more, it is made anew.
#[test]
fn what_was_left_is_taken_over_only_where_it_is_as_planned() {
    let Some(stage) = Stage::open("ebb-left") else { return };
    let all = stage.space.run(|| {
        stage.leave(stage.plan());
        let starting = Arc::new(AtomicBool::new(true));
        let mut failed = stage.keeper(stage.plan()).starting(&starting);
        assert!(failed.take_over().expect("looked at"));
        drop(failed);
        assert!(stage.is_there(), "a start that fails leaves it");
        let mut next = stage.keeper(stage.plan()).starting(&starting);
        assert!(next.take_over().expect("looked at") && next.is_there());
        starting.store(false, Relaxed);
        let mut requests = Requests::open().expect("netlink");
        let port = requests.index_of(&stage.plan().ports[0]).expect("a port");
        requests.delete_link(port).expect("removed");
        assert!(!next.is_there(), "without its link nobody reaches it");
        drop(next);
        assert!(!stage.is_there(), "it ends with who keeps it");
        let without_route = RouterPlan { routes: Vec::new(), ..stage.plan() };
        let addresses = vec![vec![net("10.77.0.1/24")]];
        let without_address = RouterPlan { addresses, ..stage.plan() };
        let narrower = RouterPlan { mtus: vec![Some(1400)], ..stage.plan() };
        for other in [without_route, without_address, narrower] {
            stage.leave(stage.plan());
            let said = format!("{other:?}");
            let mut keeper = stage.keeper(other);
            assert!(!keeper.take_over().expect("looked at") && !stage.is_there(), "{said}");
        }
    });
    all.expect("entered");
}

/// The mounts of a member that had some of its own end with it, and its file stays.
#[test]
fn a_name_without_its_namespace_is_made_anew() {
    let Some(stage) = Stage::open("ebb-husk") else { return };
    let all = stage.space.run(|| {
        let husk = || {
            stage.leave(stage.plan());
            let path = format!("/run/netns/{}", stage.name);
            ebb_lab::test::must("umount", &["-l", &path]);
            // With it its links have gone.
            let mut requests = Requests::open().expect("netlink");
            if let Some(link) = requests.link_by_name(&stage.plan().ports[0]).expect("netlink") {
                requests.delete_link(link.index).expect("removed");
            }
            assert!(stage.is_there(), "the file stays");
        };
        husk();
        let mut keeper = stage.keeper(stage.plan());
        assert!(!keeper.take_over().expect("looked at") && !stage.is_there());
        drop(keeper);
        husk();
        let mut keeper = stage.keeper(stage.plan());
        keeper.wake().expect("made anew");
        assert!(keeper.is_there());
        keeper.sleep().expect("removed");
        assert!(!stage.is_there());
    });
    all.expect("entered");
}

/// One that nobody keeps any more is removed by the next start; another's of the same name is not.
#[test]
fn what_is_configured_no_more_is_removed() {
    let Some(stage) = Stage::open("ebb-kept") else { return };
    let all = stage.space.run(|| {
        let file = stage.folder.join("kept");
        let names = BTreeSet::from([stage.name.clone()]);
        let none = BTreeSet::new();
        stage.leave(stage.plan());
        remember(&file, &names).expect("written");
        assert!(forget(&file, &names, 1).expect("read").is_empty() && stage.is_there());
        let gone = forget(&file, &none, 1).expect("read");
        assert!(gone.len() == 1 && gone[0].1.is_ok() && !stage.is_there(), "{gone:?}");
        let theirs = Namespace::create(&stage.name).expect("made");
        assert!(forget(&file, &none, 1).expect("read").is_empty() && stage.is_there());
        drop(theirs);
        remember(&file, &none).expect("removed");
        assert!(!file.exists() && forget(&file, &none, 1).expect("nothing").is_empty());
    });
    all.expect("entered");
}
