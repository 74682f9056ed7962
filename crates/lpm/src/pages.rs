//! Large zeroed memory straight from the kernel: huge pages for tables that fill up, address space
//! that costs nothing until it is touched for tables that grow in place.
//!
//! Readers keep references into a table while it grows, so a table never moves: it gets all the
//! address space it may ever need at the start and the kernel adds memory page by page.

use std::alloc::{Layout, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

const HUGE_PAGE_LEN: usize = 2 << 20;

/// Types for which zeroed memory is a value and that need no drop.
///
/// # Safety
/// Both must hold, and the alignment must not exceed that of a page.
pub(crate) unsafe trait Zeroed {}

// SAFETY: plain integers.
unsafe impl Zeroed for u8 {}
// SAFETY: same layout as u16.
unsafe impl Zeroed for AtomicU16 {}
// SAFETY: same layout as u32.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: same layout as u64.
unsafe impl Zeroed for AtomicU64 {}

/// `LEN` elements in pages of their own, zero at first.
#[derive(Debug)]
pub(crate) struct Pages<T, const LEN: usize> {
    elements: NonNull<T>,
}

// SAFETY: owns its memory like a box of an array does.
unsafe impl<T: Send, const LEN: usize> Send for Pages<T, LEN> {}
// SAFETY: hands out shared references to its elements only.
unsafe impl<T: Sync, const LEN: usize> Sync for Pages<T, LEN> {}

impl<T: Zeroed, const LEN: usize> Pages<T, LEN> {
    const BYTES: usize = LEN * size_of::<T>();

    /// For a table that is used all over: asks for huge pages.
    pub(crate) fn dense() -> Self {
        const { assert!(Self::BYTES.is_multiple_of(HUGE_PAGE_LEN)) };
        let mapped = map(Self::BYTES + HUGE_PAGE_LEN);
        let before = mapped.as_ptr().align_offset(HUGE_PAGE_LEN);
        // SAFETY: `before` is less than a huge page and the mapping is one longer than BYTES, so
        // all offsets are inside or at the end; the two ends unmapped belong to nobody else.
        // The advice only changes which pages the kernel picks, and its refusal only costs time.
        unsafe {
            let start = mapped.add(before);
            if before > 0 {
                libc::munmap(mapped.as_ptr().cast(), before);
            }
            libc::munmap(start.add(Self::BYTES).as_ptr().cast(), HUGE_PAGE_LEN - before);
            #[cfg(target_os = "linux")]
            libc::madvise(start.as_ptr().cast(), Self::BYTES, libc::MADV_HUGEPAGE);
            Self { elements: start.cast() }
        }
    }

    /// For a table of which little is used: memory comes when it is touched.
    pub(crate) fn sparse() -> Self {
        Self { elements: map(Self::BYTES).cast() }
    }
}

fn map(bytes: usize) -> NonNull<u8> {
    // SAFETY: a fresh private mapping touches no memory in use.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        handle_alloc_error(Layout::from_size_align(bytes, 4096).expect("tables fit in memory"));
    }
    NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unasked")
}

impl<T, const LEN: usize> Deref for Pages<T, LEN> {
    type Target = [T; LEN];

    #[inline]
    fn deref(&self) -> &[T; LEN] {
        // SAFETY: LEN elements are mapped from `elements` on until drop, zeroed at first, which is a
        // value of T (Zeroed is required by every constructor).
        unsafe { self.elements.cast().as_ref() }
    }
}

impl<T, const LEN: usize> DerefMut for Pages<T, LEN> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T; LEN] {
        // SAFETY: as in deref, and `&mut self` makes the reference the only one.
        unsafe { self.elements.cast().as_mut() }
    }
}

impl<T, const LEN: usize> Drop for Pages<T, LEN> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in the constructor; no reference outlives `self`.
        unsafe {
            let bytes = size_of_val(slice::from_raw_parts(self.elements.as_ptr(), LEN));
            libc::munmap(self.elements.as_ptr().cast(), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn dense_pages_are_aligned_zeroed_and_writable_to_the_last() {
        let pages = Pages::<AtomicU32, { 1 << 20 }>::dense();
        assert_eq!(pages.as_ptr().align_offset(HUGE_PAGE_LEN), 0);
        assert!(pages.iter().all(|element| element.load(Relaxed) == 0));
        pages[pages.len() - 1].store(7, Relaxed);
        assert_eq!(pages[pages.len() - 1].load(Relaxed), 7);
    }

    #[test]
    fn sparse_pages_reserve_more_than_the_machine_has() {
        let mut pages = Pages::<u8, { 64 << 30 }>::sparse();
        pages[(64 << 30) - 1] = 7;
        assert_eq!((pages[0], pages[(64 << 30) - 1]), (0, 7));
    }
}
