//! Ethernet addresses of frames between racks: they say where a frame is to go, where it comes from, and by
//! which path.

/// The address that frames to a rack carry between switches; the source tells the packet path.
pub fn rack_mac(rack: u8) -> [u8; 6] {
    [0x02, 0xeb, 0, 0, 0, rack]
}

/// The address that frames from a rack carry on a circuit or on the packet path.
pub fn source_mac(rack: u8, by_packets: bool) -> [u8; 6] {
    [0x02, 0xeb, u8::from(by_packets), 0, 1, rack]
}
