//! Unpacks gzip, xz and zstd.

use std::io::{self, BufRead, BufReader, Read};

/// How much is read from a packed file at a time.
const CHUNK: usize = 1 << 16;

/// Unpacks gzip, xz and zstd, told apart by their first bytes; everything else comes as it is.
pub(crate) fn unpack<'a>(packed: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut packed = BufReader::with_capacity(CHUNK, packed);
    let start = packed.fill_buf()?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(packed)));
    }
    if start.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return Ok(Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(packed)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(Box::new(zstd::stream::read::Decoder::with_buffer(packed)?));
    }
    Ok(Box::new(packed))
}
