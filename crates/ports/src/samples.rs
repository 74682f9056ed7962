//! Frames for the unit tests.

/// `None`, with a message, where this process may not do `what`; in CI it must.
pub(crate) fn privileged(what: &str) -> Option<()> {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return Some(());
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "not permitted to {what}");
    eprintln!("skipped: not permitted to {what}");
    None
}

/// A 60-byte UDP over IPv4 frame of flow `flow` with `seq` in its payload.
pub(crate) fn udp4(flow: u32, seq: u32) -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
    frame[30..34].copy_from_slice(&[10, 1, (flow >> 8) as u8, flow as u8]);
    frame[34..36].copy_from_slice(&(1024 + (flow >> 16) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&[0, 9]);
    frame[42..46].copy_from_slice(&flow.to_be_bytes());
    frame[46..50].copy_from_slice(&seq.to_be_bytes());
    frame
}

/// A 74-byte UDP over IPv6 frame of flow `flow` with `seq` in its payload.
pub(crate) fn udp6(flow: u32, seq: u32) -> Vec<u8> {
    let mut frame = vec![0u8; 74];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd]);
    frame[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 20, 17, 64]);
    frame[22..24].copy_from_slice(&[0x20, 1]);
    frame[38..40].copy_from_slice(&[0x20, 1]);
    frame[50..54].copy_from_slice(&flow.to_be_bytes());
    frame[62..66].copy_from_slice(&flow.to_be_bytes());
    frame[66..70].copy_from_slice(&seq.to_be_bytes());
    frame
}
