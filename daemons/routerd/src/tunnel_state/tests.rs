//! What becomes of tunnels when the kernel says that its own changed, and it or the directory of numbers fails.

use std::collections::VecDeque;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use ebb_graph::Pool;
use ebb_host::netlink::xfrm::{Algorithm, Association, Policy, Secret, State, Template};

use super::*;

/// What the kernel was told: of which association, and which number came.
type Told = Arc<Mutex<Vec<(u32, u64)>>>;

const ENDS: [&str; 2] = ["192.0.2.1", "198.51.100.1"];

fn end(at: usize) -> IpAddr {
    ENDS[at].parse().expect("an address")
}

/// One tunnel's policy, and its associations out and in with these bytes as keys.
fn state(keys: Option<[u8; 2]>) -> State {
    let asked = Template { local: end(0), remote: end(1), reqid: 7, spi: 0 };
    let [from, to] = ["10.1.0.0/16", "10.2.0.0/16"].map(|net| net.parse().expect("a prefix"));
    let association = |[from, to]: [usize; 2], byte: u8, [sent, seen]: [u64; 2]| Association {
        from: end(from),
        to: end(to),
        spi: u32::from(byte),
        reqid: 7,
        algorithm: Algorithm::AesGcm,
        key: Secret::new(vec![byte; 20]),
        extended: false,
        udp: false,
        added_s: 1,
        sent,
        seen,
        window: Some(Window::of(10, &[0; 12])),
    };
    let all = |[out, into]: [u8; 2]| {
        vec![association([0, 1], out, [100, 0]), association([1, 0], into, [0, 200])]
    };
    State {
        associations: keys.map_or_else(Vec::new, all),
        policies: vec![Policy { from, to, priority: 1, index: 1, tunnel: Some(asked) }],
    }
}

/// What the kernel says, turn by turn: whether it has announced something, and what it has when asked.
struct Script {
    heard: VecDeque<netlink::Result<bool>>,
    read: VecDeque<netlink::Result<State>>,
    told: Arc<Mutex<Vec<(u32, u64)>>>,
    bell: Doorbell,
}

impl Source for Script {
    fn fd(&self) -> RawFd {
        self.bell.fd()
    }
    fn changed(&mut self) -> netlink::Result<bool> {
        self.heard.pop_front().unwrap_or(Ok(false))
    }
    fn read(&mut self) -> netlink::Result<State> {
        self.read.pop_front().expect("nobody should ask")
    }
    fn saw(&mut self, to: IpAddr, spi: u32, _: &Window, seen: u64) -> netlink::Result<()> {
        assert_eq!(to, end(0));
        self.told.lock().expect("numbers").push((spi, seen));
        Ok(())
    }
}

fn refused<T>() -> netlink::Result<T> {
    Err(netlink::Error::Interrupted { what: "IPsec policies", attempts: 8 })
}

fn place(name: &str) -> PathBuf {
    let place = std::env::temp_dir().join(format!("ebb-follow-{}-{name}", std::process::id()));
    _ = fs::remove_dir_all(&place);
    place
}

fn remembered(
    place: &Path,
    heard: Vec<netlink::Result<bool>>,
    read: Vec<netlink::Result<State>>,
) -> (Remembered, Told) {
    let bell = || Arc::new(Doorbell::new().expect("a bell"));
    let told = Arc::default();
    let script = Script {
        heard: heard.into(),
        read: read.into(),
        told: Arc::clone(&told),
        bell: Doorbell::new().expect("a bell"),
    };
    let reserve = Pool::standalone(1).reserve().clone();
    let ring: Bell = Arc::new(|| ());
    let kernel = Kernel { stale: false, ..Kernel::of(script, bell()) };
    let remembered = Remembered {
        esp: Arc::new(Esp::new(1, &[], &[], &ring, &reserve)),
        store: Store::open(place).expect("a store"),
        bell: bell(),
        kernel: Some(Mutex::new(kernel)),
    };
    (remembered, told)
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

#[test]
fn what_could_not_be_read_is_read_again() {
    let place = place("again");
    let heard = vec![Ok(true), Ok(false), refused(), Ok(false), Ok(false)];
    let keys = || Ok(state(Some([1, 2])));
    let read = vec![refused(), keys(), keys()];
    let (router, _) = remembered(&place, heard, read);
    let turn = || router.turn(&mut BTreeMap::new(), at(1));
    let troubles = turn();
    assert!(troubles.kernel.is_some() && troubles.store.is_none(), "{troubles:?}");
    assert!(router.esp.sealing().is_empty());
    // Nothing more is announced.
    assert!(turn().kernel.is_none());
    let (claim, _) = router.esp.sealing()[0].numbers();
    assert_eq!((claim.behind.numbers, claim.count), (100, RUN), "behind the kernel's");
    assert_eq!(router.esp.opening()[0].seen(), 200);
    // What may not have been heard is read at once.
    assert!(turn().kernel.is_some());
    assert_eq!(router.esp.opening()[0].seen(), 200);
    let troubles = [turn(), turn()];
    assert!(troubles.iter().all(|one| one.kernel.is_none()), "{troubles:?}");
    fs::remove_dir_all(&place).expect("removed");
}

#[test]
fn a_tunnel_whose_numbers_could_not_be_written_down_is_tried_again() {
    let place = place("full");
    let read = vec![Ok(state(Some([1, 2]))), Ok(state(Some([1, 2])))];
    let (router, _) = remembered(&place, vec![Ok(true)], read);
    let turn = || router.turn(&mut BTreeMap::new(), at(1));
    let names = kernel_tunnels::names(&state(Some([1, 1])));
    // As a full disk has it.
    let blocked = place.join(format!("esp-{}-out.new", names.first().expect("a key")));
    fs::create_dir(&blocked).expect("a directory");
    let troubles = turn();
    assert!(troubles.kernel.is_none() && troubles.store.is_some(), "{troubles:?}");
    assert!(router.esp.sealing().is_empty());
    fs::remove_dir(&blocked).expect("removed");
    assert!(turn().store.is_none());
    assert_eq!(router.esp.sealing().len(), 1);
    assert!(turn().store.is_none(), "and nobody asks again");
    fs::remove_dir_all(&place).expect("removed");
}

#[test]
fn a_key_that_is_put_back_goes_on() {
    let place = place("back");
    let keys = || Ok(state(Some([1, 2])));
    let (heard, none) = ([0; 5].map(|_| Ok(true)), || Ok(state(None)));
    let read = vec![keys(), none(), keys(), none(), none()];
    let (router, told) = remembered(&place, heard.into(), read);
    let turn = |seconds| {
        let troubles = router.turn(&mut BTreeMap::new(), at(seconds));
        assert!(troubles.kernel.is_none() && troubles.store.is_none(), "{troubles:?}");
    };
    turn(1);
    router.esp.opening()[0].saw(777);
    // What the kernel does not know, it is told, once.
    router.tell_kernel();
    router.tell_kernel();
    assert_eq!(*told.lock().expect("numbers"), [(2, 777)]);
    turn(2);
    assert!(router.esp.sealing().is_empty() && router.esp.opening().is_empty());
    turn(50);
    assert_eq!(router.esp.sealing()[0].numbers().0.behind.numbers, 100 + RUN);
    assert_eq!(router.esp.opening()[0].seen(), 777);
    let files = || {
        let all = fs::read_dir(&place).expect("a directory").map(|one| one.expect("an entry"));
        all.filter(|one| one.file_name().to_string_lossy().starts_with("esp-")).count()
    };
    turn(60);
    turn(119);
    assert_eq!(files(), 2);
    // Nothing is announced: time is enough.
    turn(120);
    assert_eq!(files(), 0);
    fs::remove_dir_all(&place).expect("removed");
}

#[test]
fn the_kernels_window_is_never_set_back() {
    let place = place("window");
    let mut later = state(Some([1, 2]));
    later.associations[1].seen = 1000;
    let read = vec![Ok(state(Some([1, 2]))), Ok(later)];
    let (router, told) = remembered(&place, vec![Ok(true), Ok(true)], read);
    let turn = || router.turn(&mut BTreeMap::new(), at(1));
    assert!(turn().kernel.is_none());
    // Packets come to the kernel alone meanwhile.
    assert!(turn().kernel.is_none());
    router.esp.opening()[0].saw(999);
    router.tell_kernel();
    assert!(told.lock().expect("numbers").is_empty());
    router.esp.opening()[0].saw(1001);
    router.tell_kernel();
    assert_eq!(*told.lock().expect("numbers"), [(2, 1001)]);
    fs::remove_dir_all(&place).expect("removed");
}
