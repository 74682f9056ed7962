//! Strides: where a page was touched at equal distances, the next touches are guessed.

/// Pages watched at a time.
const PAGES: usize = 64;
/// Lines a page.
const PAGE: u64 = 64;

#[derive(Clone, Copy, Default)]
struct Watched {
    page: u64,
    line: u64,
    stride: i64,
    sure: u8,
}

/// The last strides in the pages touched lately, a table indexed by the page's number.
pub(super) struct Strides([Watched; PAGES]);

impl Default for Strides {
    fn default() -> Strides {
        Strides([Watched::default(); PAGES])
    }
}

impl Strides {
    /// A miss of the first level at `line`: up to `count` lines of the same page to fetch ahead, once
    /// the same stride was seen twice.
    pub(super) fn next(
        &mut self,
        line: u64,
        count: u32,
    ) -> Option<impl Iterator<Item = u64> + use<>> {
        let page = line / PAGE;
        let seen = &mut self.0[page as usize % PAGES];
        if seen.page != page {
            *seen = Watched { page, line, stride: 0, sure: 0 };
            return None;
        }
        let stride = line as i64 - seen.line as i64;
        seen.sure =
            if stride == seen.stride && stride != 0 { seen.sure.saturating_add(1) } else { 0 };
        (seen.line, seen.stride) = (line, stride);
        let ahead = (1..=i64::from(count)).map(move |step| (line as i64 + step * stride) as u64);
        (seen.sure >= 1).then(|| ahead.filter(move |ahead| ahead / PAGE == page))
    }
}
