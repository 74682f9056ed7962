//! Network namespaces for the live tests.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;

use ebb_graph::{Batch, Pool, Region, Reserve};
use ebb_host::namespace::{Entered, Namespace, set_knob};
use ebb_lab::Lab;
use ebb_lab::test::{ip, must, skip};
use ebb_ports::afxdp::{AfXdpPort, Form, Interface, InterfaceOptions, Umem};
use ebb_ports::{PacketSocket, Port};

/// Two namespaces, the router's and the generator's, joined by veth pairs `p0`-`g0`, `p1`-`g1`
/// and so on. The calling thread moves into the router's.
pub struct Wires {
    pub router: String,
    generator: String,
    pairs: usize,
    far: Namespace,
    // Left first, removed then.
    _here: Entered,
    _near: Namespace,
    _lab: Lab,
}

/// Runs a command and returns its output.
pub fn run(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    must(words[0], &words[1..])
}

impl Wires {
    /// `None`, with a message, where namespaces are not permitted; in CI they must be.
    pub fn new(pairs: usize, queues: u32) -> Option<Wires> {
        let lab = ebb_lab::test::lab("ebb-ports")?;
        let [near, far] = ["r", "g"].map(|role| lab.namespace(role).expect("a namespace"));
        let (router, generator) = (lab.space("r"), lab.space("g"));
        let settings =
            ["all", "default"].map(|which| format!("net/ipv6/conf/{which}/disable_ipv6"));
        for (namespace, knob) in
            [&near, &far].iter().flat_map(|one| settings.iter().map(move |knob| (one, knob)))
        {
            namespace.run(|| set_knob(knob, "1")).expect("entered").expect("a knob");
        }
        for pair in 0..pairs {
            let count = format!("numrxqueues {queues} numtxqueues {queues}");
            ip(
                &router,
                &format!(
                    "link add p{pair} {count} type veth peer name g{pair} netns {generator} {count}\n\
                     link set p{pair} up\n"
                ),
            );
            ip(&generator, &format!("link set g{pair} up\n"));
        }
        let here = near.enter().expect("the router's namespace");
        Some(Wires { router, generator, pairs, far, _here: here, _near: near, _lab: lab })
    }

    /// Sets the MTU of `g<pair>`.
    pub fn far_mtu(&self, pair: usize, mtu: u32) {
        run(&format!("ip -n {} link set g{pair} mtu {mtu}", self.generator));
    }

    /// Runs a command among the generator's interfaces.
    pub fn in_generator(&self, command: &str) -> String {
        run(&format!("ip netns exec {} {command}", self.generator))
    }

    /// The generator's socket on `g<pair>`.
    pub fn far(&self, pair: usize) -> PacketSocket {
        self.far_by_name(&format!("g{pair}"))
    }

    /// The generator's socket on another of its interfaces.
    pub fn far_by_name(&self, name: &str) -> PacketSocket {
        let socket = self.far.run(|| PacketSocket::open(name)).expect("entered");
        socket.expect("a packet socket")
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        for pair in 0..self.pairs {
            // A test may have removed it.
            _ = ebb_lab::command::ip(&self.router, &format!("link del p{pair}\n"));
        }
    }
}

/// Frames for ports, and a count of them at the end.
pub struct Memory {
    pub umem: std::sync::Arc<Umem>,
    pub reserve: std::sync::Arc<Reserve>,
    region: &'static Region,
}

impl Memory {
    pub fn new(frames: u32) -> Memory {
        let region = Region::new(frames);
        // SAFETY: the region is new, this is the only call.
        let reserve = Reserve::new(unsafe { region.split() });
        Memory { umem: Umem::new(region), reserve, region }
    }

    pub fn pool(&self) -> Pool {
        Pool::new(self.reserve.clone())
    }

    /// Closes the ports and finds every frame again.
    pub fn close(self, ports: Vec<AfXdpPort>, mut pool: Pool) {
        for mut port in ports {
            port.close(&mut pool);
        }
        drop(pool);
        assert_eq!(self.umem.in_kernel(), 0);
        assert_eq!(self.reserve.len(), self.region.frames() as usize, "frames lost");
    }
}

/// How the tests open interfaces.
pub fn options(name: &str, workers: u32) -> InterfaceOptions {
    InterfaceOptions { ring_len: 512, ..InterfaceOptions::new(name, workers, Form::Steer) }
}

/// An interface with memory of its own.
pub fn opened(options: &InterfaceOptions) -> (Memory, Interface, Vec<AfXdpPort>) {
    let memory = Memory::new(4096);
    let mut interface = Interface::open(&memory.umem, options).unwrap();
    let ports = interface.take_ports();
    (memory, interface, ports)
}

/// A UDP frame of flow `flow` with `seq` in its payload, addressed to `mac`.
pub fn udp(mac: [u8; 6], flow: u16, seq: u32) -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[..6].copy_from_slice(&mac);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
    frame[30..34].copy_from_slice(&[10, 1, (flow >> 8) as u8, flow as u8]);
    frame[34..38].copy_from_slice(&[4, 0, 0, 9]);
    frame[38..40].copy_from_slice(&[0, 26]);
    frame[42..46].copy_from_slice(&seq.to_be_bytes());
    let mut sum: u32 =
        frame[14..34].chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

/// Flow and sequence number of a frame made by [`udp`].
pub fn flow_and_seq(frame: &[u8]) -> (u16, u32) {
    let flow = u16::from_be_bytes(frame[32..34].try_into().unwrap());
    (flow, u32::from_be_bytes(frame[42..46].try_into().unwrap()))
}

/// Sends frames without overrunning the veth's queue.
pub fn send<'a>(socket: &mut PacketSocket, frames: impl IntoIterator<Item = &'a [u8]>) {
    let mut frames = frames.into_iter().peekable();
    while frames.peek().is_some() {
        for frame in frames.by_ref().take(32) {
            socket.stage(|buffer| {
                buffer[..frame.len()].copy_from_slice(frame);
                frame.len()
            });
        }
        socket.flush().expect("the generator's interface is up");
    }
    assert_eq!(socket.refused(), 0);
}

/// Sends one frame of any length.
pub fn send_long(socket: &PacketSocket, frame: &[u8]) {
    // SAFETY: a valid buffer of that length.
    let sent = unsafe { libc::send(socket.fd(), frame.as_ptr().cast(), frame.len(), 0) };
    assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
}

/// Receives one frame of any length, within a second.
pub fn receive_long(socket: &PacketSocket) -> Option<Vec<u8>> {
    let mut frame = vec![0; 10_240];
    for _ in 0..1000 {
        let room = frame.as_mut_ptr().cast();
        // SAFETY: a buffer of that length.
        let len = unsafe { libc::recv(socket.fd(), room, frame.len(), libc::MSG_DONTWAIT) };
        if let Ok(len) = usize::try_from(len) {
            frame.truncate(len);
            return Some(frame);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    None
}

/// Receives until nothing has come for a while.
pub fn drain(port: &mut AfXdpPort, pool: &mut Pool, batch: &mut Batch) -> usize {
    let (mut count, mut quiet) = (0, 0);
    while quiet < 20 {
        match port.receive(pool, batch, Batch::RECEIVE_MAX) {
            0 => {
                quiet += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            more => {
                count += more;
                quiet = 0;
            }
        }
    }
    count
}

/// A tap as an emulator has it: each frame goes behind a header that says what is left to do.
pub struct Tap(File);

impl Tap {
    /// Makes one in the calling thread's namespace; `None` where the kernel has no taps.
    pub fn new(name: &str) -> Option<Tap> {
        const TUNSETIFF: libc::Ioctl = 0x4004_54ca as libc::Ioctl;
        let Ok(file) = File::options().read(true).write(true).open("/dev/net/tun") else {
            skip("no /dev/net/tun");
            return None;
        };
        // SAFETY: all zeroes are a valid value of this structure.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the request reads and writes one `ifreq`.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &mut request) };
        assert_eq!(result, 0, "TUNSETIFF: {}", std::io::Error::last_os_error());
        run(&format!("ip link set {name} up"));
        Some(Tap(file))
    }

    /// Sends one frame, as TCP segments of `segment` bytes each that the receiver has to cut
    /// (`struct virtio_net_hdr`).
    pub fn write(&mut self, frame: &[u8], segment: Option<u16>) {
        let mut header = [0u8; 10];
        if let Some(len) = segment {
            header[..2].copy_from_slice(&[1, 1]);
            for (at, value) in [(2, 54), (4, len), (6, 34), (8, 16)] {
                header[at..at + 2].copy_from_slice(&u16::to_ne_bytes(value));
            }
        }
        let bytes = [&header[..], frame].concat();
        assert_eq!(self.0.write(&bytes).expect("a tap that is up"), bytes.len());
    }
}
