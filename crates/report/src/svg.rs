use crate::Plot;

/// A whole SVG document.
pub(crate) fn standalone(_plot: &Plot) -> String {
    String::from("<svg xmlns=\"http://www.w3.org/2000/svg\"/>")
}
