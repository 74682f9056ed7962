//! Numbers in the byte order of the machine that captured.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    pub(crate) fn word(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(crate) fn word_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        bytes.get(at..)?.first_chunk().map(|chunk| self.word(*chunk))
    }

    pub(crate) fn half_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        let chunk = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Order::Little => u16::from_le_bytes(chunk),
            Order::Big => u16::from_be_bytes(chunk),
        })
    }

    pub(crate) fn long(self, bytes: &[u8]) -> Option<i64> {
        let chunk = *bytes.first_chunk()?;
        Some(match self {
            Order::Little => i64::from_le_bytes(chunk),
            Order::Big => i64::from_be_bytes(chunk),
        })
    }
}

/// Codes and values of a block's options, up to their end or to where they make no sense: some
/// programs leave out the mark of their end.
pub(crate) fn options(order: Order, mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, len) = (order.half_at(rest, 0)?, usize::from(order.half_at(rest, 2)?));
        let value = rest.get(4..4 + len).filter(|_| code != 0)?;
        rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}
