//! Who may use which virtual channels: message classes, and layers of routes within each.

use super::drawn::Drawn;

/// Into how much the channels of a port are divided.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) classes: usize,
    pub(super) layers: usize,
}

/// The virtual channels of each layer of each class, as sets: classes and layers get as equal parts as can be,
/// the first ones larger; adaptive routes escape on one channel of a class; what routers draw may have a further
/// layer, of all channels.
pub(super) fn masks(vcs: usize, parts_of: Parts, adaptive: bool, drawn: Option<Drawn>) -> Vec<u64> {
    let block = |first: usize, count: usize| ((1u64 << count) - 1) << first;
    let mut masks = Vec::new();
    for (first, count) in parts(0, vcs, parts_of.classes) {
        if adaptive {
            let escape = count.min(1);
            masks.extend([block(first, escape), block(first + escape, count - escape)]);
        } else {
            masks.extend(parts(first, count, parts_of.layers).map(|(at, few)| block(at, few)));
        }
    }
    if drawn == Some(Drawn::Table(true)) {
        masks = vec![block(0, 1), block(1, 1)]; // A dragonfly's routes take the first two.
    }
    if let Some(Drawn::Rings(..) | Drawn::Phases(..) | Drawn::Table(true)) = drawn {
        masks.push(block(0, vcs));
    }
    masks
}

/// `count` things from `first` on in `into` parts: the first and the number of each.
pub(super) fn parts(
    first: usize,
    count: usize,
    into: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let mut next = first;
    (0..into).map(move |part| {
        let few = count / into + usize::from(part < count % into);
        next += few;
        (next - few, few)
    })
}
