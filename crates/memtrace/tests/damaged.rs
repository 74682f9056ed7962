//! Every trace comes back as it was written; every damaged one ends in an error with its place,
//! never in a panic, and never in silence where the format can tell.

use std::io::Write;

use ebb_memtrace::{Access, Format, Kind, Reader, TraceError, Writer};
use proptest::prelude::*;

fn read(bytes: &[u8], format: Option<Format>) -> Result<Vec<Access>, TraceError> {
    Reader::new("t", bytes, format)?.collect()
}

fn compact(accesses: &[Access]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    accesses.iter().for_each(|access| writer.push(*access).expect("memory"));
    writer.finish().expect("memory")
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Fetch)];
    let one = (any::<u64>(), any::<u32>(), 1..=u16::MAX, any::<u16>(), 0..40_u16, kind);
    let access = one.prop_map(|(address, instructions, size, after, thread, kind)| Access {
        address,
        instructions,
        size,
        after,
        thread,
        kind,
    });
    proptest::collection::vec(access, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_compact_format_keeps_everything(accesses in accesses()) {
        prop_assert_eq!(read(&compact(&accesses), None), Ok(accesses));
    }

    #[test]
    fn a_compact_trace_that_was_cut_is_refused(accesses in accesses(), cut in 0.0..1.0_f64) {
        let whole = compact(&accesses);
        let kept = (whole.len() as f64 * cut) as usize;
        prop_assert!(read(&whole[..kept], Some(Format::Compact)).is_err());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            let _ = read(&bytes, format);
        }
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "[ILSM 0-9a-f,x\n#=-]{0,300}") {
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            let _ = read(text.as_bytes(), format);
        }
    }
}

#[test]
fn packed_traces_are_unpacked_and_cut_ones_refused() {
    let text = "7 1024\n".repeat(50_000).into_bytes();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&text).expect("memory");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&text).expect("memory");
    let zst = zstd::encode_all(text.as_slice(), 1).expect("memory");
    for packed in [xz.finish().expect("memory"), gz.finish().expect("memory"), zst] {
        assert_eq!(read(&packed, None).expect("good").len(), 50_000);
        let error = read(&packed[..packed.len() / 2], None).expect_err("cut");
        assert!(error.message.contains("damaged") || error.offset > 0, "{error}");
    }
}
