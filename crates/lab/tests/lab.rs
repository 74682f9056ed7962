//! What a laboratory makes is there, and gone afterwards.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ebb_host::namespace::Namespace;
use ebb_host::netlink::Requests;
use ebb_lab::test::{lab, leftovers, until, within};
use ebb_lab::{End, Program, wire};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn namespaces_links_and_programs_end_with_the_laboratory() {
    let Some(lab) = lab("ebb-lab-ends") else { return };
    let [near, far] = ["near", "far"].map(|role| lab.namespace(role).expect("a namespace"));
    let mac = [2, 0, 0, 0, 0, 9];
    let links = wire(End::new(&near, "a"), End::with_mac(&far, "b", mac)).expect("a link");
    let link = within(&lab.space("far"), || Requests::open().expect("netlink").link_by_name("b"));
    let link = link.expect("asked").expect("it is there");
    assert_eq!((link.index, link.mac, link.up), (links[1], Some(mac), true));
    let log = lab.directory().join("log");
    let mut command = Command::new("sh");
    command.args(["-c", "echo begun >&2; exec sleep 600"]);
    let mut program = Program::start("sleep", &mut command, &log).expect("sh runs");
    assert!(until(PATIENCE, || program.log() == "begun\n"), "{}", program.log());
    program.check_alive().expect("it runs");
    let process = Path::new("/proc").join(program.pid().to_string());
    assert!(process.exists());
    let (space, directory) = (lab.space("near"), lab.directory().to_owned());
    drop((program, near, far, lab));
    assert!(!process.exists() && !directory.exists());
    assert!(Namespace::open(&space).is_err());
    assert_eq!(leftovers("ebb-lab-ends", std::process::id()), Vec::<String>::new());
}

#[test]
fn a_program_that_has_ended_is_quoted() {
    let Some(lab) = lab("ebb-lab-words") else { return };
    let mut command = Command::new("sh");
    command.args(["-c", "echo no such port >&2; exit 3"]);
    let log = lab.directory().join("log");
    let mut program = Program::start("ebb router run", &mut command, &log).expect("sh runs");
    assert!(until(PATIENCE, || program.ended().expect("a child").is_some()));
    let error = program.check_alive().expect_err("it has ended").to_string();
    assert_eq!(error, "`ebb router run` ended (exit status: 3)\n  no such port");
    assert_eq!(program.end(PATIENCE).expect("a child").code(), Some(3));
}

#[test]
fn what_a_killed_test_left_is_removed_by_the_next() {
    if !ebb_lab::test::permitted() {
        return;
    }
    let mut gone = Command::new("true").spawn().expect("true runs");
    let pid = gone.id();
    gone.wait().expect("it ends");
    let stale = format!("ebb-lab-stale-{pid}-0");
    let directory = std::env::temp_dir().join(&stale);
    std::fs::create_dir(&directory).expect("a directory");
    Namespace::create(&format!("{stale}-r")).expect("a namespace").keep();
    drop(lab("ebb-lab-stale"));
    assert_eq!(leftovers("ebb-lab-stale", pid), Vec::<String>::new());
}
